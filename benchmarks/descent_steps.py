"""A step of descent on large weights against the same step in PyTorch, and against what it cannot avoid.

Two pathways of width 1000 (multipathway) in float64; and routing between images by mini-batches
(neural_race), 40 domains, 784-128-128-10, cross-entropy with momentum, 8 images of every trained route, in
float32.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import neuralrace as nr
from benchmarks import gpu
from benchmarks.measure import Row, fresh, race, seconds
from benchmarks.published import one_thread

SIZE, PATHWAYS = 20, 2  # inputs and outputs
DOMAINS, IMAGES = 40, 80


def milliseconds(run: Callable[[int], Any], few: int, many: int) -> float:
    """A step, from the difference of two lengths of descent: starting does not count."""
    short, long = (race({"": lambda n=n: run(n)}, 3)[""] for n in (few, many))
    return 1e3 * (long - short) / (many - few)


def pathways(side: str, depth: int, width: int, steps: int) -> dict[str, float]:
    """Seconds of a first descent and of a later step, of one side in a process of its own."""
    y = np.random.default_rng(0).standard_normal((SIZE, SIZE))
    run = {"ours": descended, "base": looped}[side](y, depth, width)
    return {"cold": seconds(lambda: run(steps + 2)), "warm": milliseconds(run, 2, steps + 2) / 1e3}


def descended(y: np.ndarray, depth: int, width: int) -> Callable[[int], Any]:
    graph = nr.Graph.pathways(SIZE, SIZE, [[width] * (depth - 1)] * PATHWAYS)
    task, weights = nr.Task(graph, np.eye(SIZE), y), nr.init.gaussian(graph, 0.01)
    return lambda steps: nr.descend(task, weights, 1e-2, steps, 2, save_weights=False)


def looped(y: np.ndarray, depth: int, width: int) -> Callable[[int], Any]:
    """The same in PyTorch."""
    torch = one_thread()
    sizes = [SIZE, *[width] * (depth - 1), SIZE]
    x, target = torch.eye(SIZE, dtype=torch.float64), torch.tensor(y)
    shapes = [(b, a) for a, b in pairwise(sizes)]
    chains = [
        [(0.01 * torch.randn(*s, dtype=torch.float64)).requires_grad_() for s in shapes]
        for _ in range(PATHWAYS)
    ]
    optimizer = torch.optim.SGD([w for chain in chains for w in chain], lr=1e-3)

    def run(steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            out: Any = 0.0
            for chain in chains:
                h = x
                for w in chain:
                    h = h @ w.T
                out = out + h
            ((out - target) ** 2).sum().backward()
            optimizer.step()

    return run


def images(partners: int, domains: int, steps: int) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    gpu.DOMAINS = domains
    ours, theirs = gpu.ours(partners, IMAGES), gpu.torch_batched(partners, IMAGES, "cpu")
    cold = {"ours": seconds(lambda: ours(steps + 2)), "base": seconds(lambda: theirs(steps + 2))}
    warm = {"ours": milliseconds(ours, 2, steps + 2), "base": milliseconds(theirs, 2, steps + 2)}
    parts = unavoidable(domains, partners)
    extra = {"ours / unavoidable": warm["ours"] / sum(parts.values()), **parts}
    return {k: {"cold": cold[k], "warm": warm[k] / 1e3} for k in cold} | {"extra": extra}


def unavoidable(domains: int, partners: int) -> dict[str, float]:
    """Milliseconds of what a step cannot do without, by NumPy in float32.

    Each weight meets 8 images, in both directions: so products are bound by multiplications, and the update
    by memory. It reads weights, momentum and gradient and writes the first two: five passes.
    """
    inputs, hidden, outputs, rows = gpu.INPUTS, gpu.HIDDEN, gpu.OUTPUTS, gpu.BATCH

    def made(*shape: int) -> np.ndarray:
        return np.ones(shape, np.float32)

    x, w1, h1 = made(domains, rows, inputs), made(domains, inputs, hidden), made(domains, rows, hidden)
    h, w2 = made(domains * rows, hidden), made(hidden, hidden)
    many, w3 = made(domains, partners * rows, hidden), made(domains, hidden, outputs)
    y = made(domains, partners * rows, outputs)
    w, m, g = (made(w1.size) for _ in range(3))
    there, back, turned = np.empty_like(h1), np.empty_like(w1), made(domains, hidden, inputs)
    timed = race(
        {
            "inputs forwards ms": lambda: np.matmul(x, w1, out=there),
            "inputs backwards ms": lambda: np.matmul(h1.swapaxes(1, 2), x, out=turned),
            "turned": lambda: np.matmul(x.swapaxes(1, 2), h1, out=back),
            "hidden ms": lambda: (h @ w2, h @ w2.T, h.T @ h),
            "outputs ms": lambda: (many @ w3, y @ w3.swapaxes(1, 2), many.swapaxes(1, 2) @ y),
            "update ms": lambda: (np.add(m, g, out=m), np.add(w, m, out=w)),
        },
        20,
    )
    timed["inputs backwards ms"] = min(timed["inputs backwards ms"], timed.pop("turned"))
    timed["update ms"] *= 5 / 6  # NumPy reads the momentum twice
    return {what: 1e3 * t for what, t in timed.items()}


def run(quick: bool) -> list[Row]:
    case, ratio = "descent-steps", "baseline / ours"
    width, domains, steps = (60, 6, 4) if quick else (1000, DOMAINS, 30)
    rows = []
    for depth in (4, 7):
        what = f"{PATHWAYS} pathways, {depth} layers of {width}"
        found = {side: fresh(pathways, side, depth, width, steps) for side in ("ours", "base")}
        rows.append(Row(case, what, "PyTorch", ratio=ratio, targets=("warm >= 1", "cold >= 1"), **found))
    for partners in (3,) if quick else (10, 30):
        what, found = f"images, {domains} domains x {partners}", fresh(images, partners, domains, steps)
        targets = ("warm >= 1", "ours / unavoidable <= 1.5")
        rows.append(Row(case, what, "PyTorch, batched products", ratio=ratio, targets=targets, **found))
    return rows
