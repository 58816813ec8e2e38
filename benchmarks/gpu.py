"""What a GPU brings: many seeds at once, and image routing by mini-batches against PyTorch.

    python -m benchmarks.gpu seeds|images [--out FILE]

`seeds` compares the GPU with two cores of the same machine; `images` trains routing between 100 input and 100
output domains (784-128-128-10, cross-entropy, momentum, 8 images of every trained route in a step, float32)
on the same GPU with PyTorch: as a loop over domains and routes, the ordinary way, and with batched products.
Its steps are bound by memory: a step reads all weights once, and reads and writes weights and momentum in the
update. The share of the memory's rate is the time of these five passes at the rate of a large copy, over the
time of a step.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import neuralrace as nr

DOMAINS, INPUTS, HIDDEN, OUTPUTS, BATCH = 100, 784, 128, 10, 8
LR, MOMENTUM = 0.02, 0.9
PASSES = 5  # over the weights, in a step
SEEDS = {"gpu": 10_000, "cpu": 200}
TASKS: dict[str, Callable[[], nr.Task]] = {
    "routing, M = 7": lambda: nr.tasks.routing(7, 4),
    "contexts, C = 3": lambda: nr.tasks.contexts(3, gating="shared"),
}


def per_seed(name: str, seeds: int) -> dict[str, float]:
    """Seconds per seed of a flow to t = 40 on the default device, and the last loss of seed 0."""
    task = TASKS[name]()
    starts = nr.init.gaussian(task.graph, 0.05, seed=range(seeds))
    settings: dict[str, Any] = {"t1": 40.0, "save": 2, "save_weights": False, "method": nr.Adaptive()}
    found = {}
    for key in ("cold", "warm"):
        start = perf_counter()
        run = nr.flow(task, starts, **settings)
        found[key] = (perf_counter() - start) / seeds
    return found | {"loss of seed 0": float(run.loss[0, -1])}


def on_cores(name: str, cores: int) -> dict[str, float]:
    """The same in as many processes as cores, one each; seconds per seed of all together."""
    code = f"from benchmarks.gpu import *; print(json.dumps(per_seed({name!r}, {SEEDS['cpu']})))"
    env = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    jobs = [
        subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE) for _ in range(cores)
    ]
    found = [json.loads(job.communicate()[0].splitlines()[-1]) for job in jobs]
    return {key: float(np.mean([f[key] for f in found])) / cores for key in ("cold", "warm")} | {
        "loss of seed 0": found[0]["loss of seed 0"]
    }


def seeds() -> list[dict[str, Any]]:
    rows = []
    for name in TASKS:
        gpu, cpu = per_seed(name, SEEDS["gpu"]), on_cores(name, 2)
        off = abs(gpu["loss of seed 0"] / cpu["loss of seed 0"] - 1)
        rows.append({"task": name, "gpu": gpu, "two cores": cpu, "ratio, warm": cpu["warm"] / gpu["warm"],
                     "relative difference of a loss": off})  # fmt: skip
        print(json.dumps(rows[-1]), flush=True)
    return rows


def data(images: int) -> tuple[np.ndarray, np.ndarray]:
    """Random images, and labels: only the speed counts."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((DOMAINS, images, INPUTS)), rng.integers(OUTPUTS, size=images)


def ours(partners: int, images: int) -> Callable[[int], None]:
    x, labels = data(images)
    graph = nr.Graph.routing(DOMAINS, INPUTS, (HIDDEN, HIDDEN), OUTPUTS, biases=True)
    base = nr.Task(nr.Graph.chain([INPUTS, 1, OUTPUTS]), x[0], np.eye(OUTPUTS)[labels])
    pairs = nr.tasks.circulant(DOMAINS, partners, seed=0)
    task = nr.tasks.transformed(base, DOMAINS, pairs, list(x), samples=True, graph=graph)
    weights = nr.init.xavier(graph, 0.1)
    settings: dict[str, Any] = {"batch_size": BATCH, "momentum": MOMENTUM, "dtype": np.float32, "save": 2}
    return lambda steps: nr.descend(task, weights, LR, steps, loss="cross_entropy", **settings)  # type: ignore[return-value]


def torch_batched(partners: int, images: int, device: str = "cuda") -> Callable[[int], None]:
    """PyTorch with batched products: one for all input domains, one for all routes."""
    import torch

    x, labels = (torch.tensor(v).to(device) for v in data(images))
    x = x.float()
    pairs = torch.tensor(np.argwhere(nr.tasks.circulant(DOMAINS, partners, seed=0))).to(device)
    shapes = [(DOMAINS, INPUTS, HIDDEN), (DOMAINS, 1, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN,),
              (DOMAINS, HIDDEN, OUTPUTS), (DOMAINS, 1, OUTPUTS)]  # fmt: skip
    weights = [(0.01 * torch.randn(*s)).to(device).requires_grad_() for s in shapes]
    w1, b1, w2, b2, w3, b3 = weights
    optimizer = torch.optim.SGD(weights, lr=LR, momentum=MOMENTUM)
    permuted = torch.stack([torch.randperm(OUTPUTS) for _ in range(DOMAINS)]).to(device)

    def run(steps: int) -> None:
        for _ in range(steps):
            rows = torch.randint(images, (BATCH,), device=device)
            h = (x[:, rows] @ w1 + b1) @ w2 + b2
            out = h[pairs[:, 0]] @ w3[pairs[:, 1]] + b3[pairs[:, 1]]
            wanted = permuted[pairs[:, 1]][:, labels[rows]]
            loss = torch.nn.functional.cross_entropy(out.reshape(-1, OUTPUTS), wanted.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return run


def torch_loop(partners: int, images: int) -> Callable[[int], None]:
    """PyTorch as one writes it first: modules for each domain, a loop over the trained routes."""
    import torch

    x, labels = (torch.tensor(v).cuda() for v in data(images))
    x = x.float()
    chosen = nr.tasks.circulant(DOMAINS, partners, seed=0)
    encoders = torch.nn.ModuleList([torch.nn.Linear(INPUTS, HIDDEN) for _ in range(DOMAINS)]).cuda()
    shared = torch.nn.Linear(HIDDEN, HIDDEN).cuda()
    heads = torch.nn.ModuleList([torch.nn.Linear(HIDDEN, OUTPUTS) for _ in range(DOMAINS)]).cuda()
    weights = [*encoders.parameters(), *shared.parameters(), *heads.parameters()]
    optimizer = torch.optim.SGD(weights, lr=LR, momentum=MOMENTUM)
    permuted = torch.stack([torch.randperm(OUTPUTS) for _ in range(DOMAINS)]).cuda()

    def run(steps: int) -> None:
        for _ in range(steps):
            rows = torch.randint(images, (BATCH,), device="cuda")
            loss: Any = 0.0
            for i in range(DOMAINS):
                h = shared(encoders[i](x[i, rows]))
                for j in np.flatnonzero(chosen[i]).tolist():
                    wanted = permuted[j][labels[rows]]
                    loss = loss + torch.nn.functional.cross_entropy(heads[j](h), wanted)
            optimizer.zero_grad()
            (loss / chosen.sum()).backward()
            optimizer.step()
        torch.cuda.synchronize()

    return run


def per_step(run: Callable[[int], None], few: int, many: int) -> float:
    """Milliseconds of a step, warm: from the difference of two lengths, so that starting does not count."""
    for steps in (few, many):
        run(steps)
    times = []
    for steps in (few, many):
        start = perf_counter()
        run(steps)
        times.append(perf_counter() - start)
    return 1e3 * (times[1] - times[0]) / (many - few)


def copy_rate() -> float:
    """Bytes read and written per second by a large copy on the default device."""
    import jax
    import jax.numpy as jnp

    numbers, changed = jnp.zeros(2**28, jnp.float32), jax.jit(lambda v: v + 1)

    def copies(n: int) -> None:
        v = numbers
        for _ in range(n):
            v = changed(v)
        v.block_until_ready()

    return 2 * numbers.nbytes / (per_step(copies, 10, 110) / 1e3)


def images() -> list[dict[str, Any]]:
    rows = []
    shared = HIDDEN * HIDDEN + HIDDEN
    weights = DOMAINS * (INPUTS * HIDDEN + HIDDEN + HIDDEN * OUTPUTS + OUTPUTS) + shared
    least = 1e3 * PASSES * 4 * weights / copy_rate()
    for partners in (5, 10, 20, 40, 100):
        taken = per_step(ours(partners, 800), 200, 2200)
        row = {
            "partners": partners,
            "ours ms": taken,
            "share of the memory's rate": least / taken,
            "PyTorch, batched ms": per_step(torch_batched(partners, 800), 20, 220),
        }
        if partners <= 40:
            row["PyTorch, loop ms"] = per_step(torch_loop(partners, 800), 1, 4)
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("seeds", "images"))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    found = {"seeds": seeds, "images": images}[asked.what]()
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n")
