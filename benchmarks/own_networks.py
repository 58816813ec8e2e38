"""Random networks of one's own: is the verdict of `nr.watch` right, and are its half times?

    python -m benchmarks.own_networks [--squared 100] [--entropy 100] [--adam 50] [--first 0]

A seeded generator draws networks (depth, width, activation, initial scale), data and steps of descent. Each
is trained and watched. Truth is computed here, by other means: half times from the outputs at every step, the
regime from the tangent kernel of all probes and outputs. Predicted half times are compared with those
measured, and with a constant: the geometric mean of the network's half times.
"""

import argparse
import pickle
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

import neuralrace as nr

torch.set_num_threads(1)
ACTIVATIONS = {"linear": torch.nn.Identity, "tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}
PROBES = 64


class Result(NamedTuple):
    """Of one network; lists hold one entry per mode."""

    drawn: str
    verdict: str
    true_change: float
    half_times: np.ndarray  # as said
    true_half_times: np.ndarray
    predicted: np.ndarray
    left_out: tuple[float, float]  # errors of each half time from the others: by theory, by their mean


def drawn(seed: int, kind: str):
    """A module, its data and optimiser; what they are, in words."""
    rng = np.random.default_rng((seed, {"squared": 0, "cross-entropy": 1, "adam": 2}[kind]))
    torch.manual_seed(int(rng.integers(2**31)))
    loss = "cross-entropy" if kind == "cross-entropy" or (kind == "adam" and seed % 2) else "squared"
    inputs, outputs, depth = int(rng.integers(5, 10)), int(rng.integers(4, 7)), int(rng.integers(1, 4))
    name = str(rng.choice(list(ACTIVATIONS)))
    width, gain = int(rng.integers(16, 80)), float(np.exp(rng.uniform(np.log(0.2), np.log(2.5))))
    sizes = [inputs, *depth * [width], outputs]
    parts = []
    for a, b in pairwise(sizes):
        parts += [torch.nn.Linear(a, b), ACTIVATIONS[name]()]
        torch.nn.init.normal_(parts[-2].weight, std=gain / a**0.5)
        torch.nn.init.zeros_(parts[-2].bias)
    model = torch.nn.Sequential(*parts[:-1])
    spread = rng.uniform(0.0, 2.5)
    scales = np.sort(np.exp(rng.uniform(-spread, 0.2, inputs)))[::-1]
    x = (rng.normal(size=(PROBES, inputs)) * scales).astype("float32")
    teacher = rng.normal(size=(inputs, outputs)) / inputs**0.5
    y = (x @ teacher).astype("float32")
    if loss == "cross-entropy":
        y = y.argmax(axis=1)
    elif rng.random() < 0.3:
        y = np.tanh(2 * y)
    rate = float(np.exp(rng.uniform(np.log(0.02), np.log(0.1))))
    make = torch.optim.Adam if kind == "adam" else torch.optim.SGD
    optimizer = make(model.parameters(), rate / 10 if kind == "adam" else rate)
    return model, x, y, loss, optimizer, f"{loss}, {kind}, {name}, depth {depth}, gain {gain:.2f}"


def kernel(model, x):
    """Tangent kernel of all samples and outputs."""
    rows = []
    for value in model(x).reshape(-1):
        grads = torch.autograd.grad(value, list(model.parameters()), retain_graph=True)
        rows.append(torch.cat([g.reshape(-1) for g in grads]).double())
    j = torch.stack(rows)
    return j @ j.T


def network(seed: int, kind: str, steps: int = 3000) -> Result | None:
    """Trained and watched; None where it diverged."""
    model, x, y, loss, optimizer, words = drawn(seed, kind)
    seen = nr.watch(model, x, y)
    inputs, goal = torch.tensor(x), torch.tensor(y)
    first, outputs = kernel(model, inputs), []
    for step in range(steps):
        seen.look(step) if step % max(1, step // 30) == 0 else seen(step)
        out = model(inputs)
        outputs.append(out.detach().double().numpy())
        value = (
            torch.nn.functional.cross_entropy(out, goal)
            if loss == "cross-entropy"
            else ((out - goal) ** 2).sum(dim=1).mean() / 2
        )
        if step == 0:
            begin = value.item()
        if value.item() < 0.01 * begin:
            break
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    seen.look(len(outputs))
    if not np.isfinite(outputs[-1]).all():
        return None
    change = float((kernel(model, inputs) - first).norm() / first.norm())
    ds = seen.modes().data
    out = np.stack(outputs)
    if loss == "cross-entropy":
        out = torch.softmax(torch.tensor(out), -1).numpy()
        y = np.eye(out.shape[-1])[y]
    u, _, vt = np.linalg.svd(y.T @ x.astype(float), full_matrices=False)
    share = np.einsum("oa,tno,ni,ai->at", u, out, x, vt) / np.einsum("oa,no,ni,ai->a", u, y, x, vt)[:, None]
    times = np.full(ds.sizes["mode"], np.nan)
    for k, s in enumerate(share[: len(times)]):
        if s[0] < 0.5 < s[-1]:
            half = (s[0] + s[-1]) / 2
            after = int(np.flatnonzero(s >= half)[0])
            times[k] = after - 1 + (half - s[after - 1]) / (s[after] - s[after - 1])
    left_out = float(ds.get("predicted_error", np.nan)), float(ds.get("constant_error", np.nan))
    said, predicted = ds.half_time.values, ds.predicted_half_time.values
    return Result(words, seen.regime().verdict, change, said, times, predicted, left_out)


def off(times: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Relative errors where both are known."""
    known = np.isfinite(times) & np.isfinite(truth)
    return np.abs(times[known] / truth[known] - 1)


def constant(predicted: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Relative errors of the geometric mean, where there is a prediction."""
    known = truth[np.isfinite(predicted) & np.isfinite(truth)]
    return off(np.full_like(known, np.exp(np.log(known).mean())), known)


def told(kind: str, results: list[Result]) -> None:
    bounds = {"lazy": (0, 0.2), "between": (0.2, 1.0), "rich": (1.0, np.inf)}
    counts = {v: sum(r.verdict == v for r in results) for v in (*bounds, "not decided")}
    decided = [r for r in results if r.verdict in bounds]
    right = sum(bounds[r.verdict][0] <= r.true_change < bounds[r.verdict][1] for r in decided)
    print(f"{kind}: {len(results)} networks. Verdict right in {right} of {len(decided)} decided; {counts}")
    measured = np.concatenate([off(r.half_times, r.true_half_times) for r in results])
    print(f"  measured half times: {len(measured)}, median error {np.median(measured):.3f}, "
          f"largest {measured.max():.3f}")  # fmt: skip
    predicted = [r for r in results if np.isfinite(r.predicted).any()]
    if not predicted:
        print("  predicted half times: none")
        return
    theory = np.array([np.median(off(r.predicted, r.true_half_times)) for r in predicted])
    mean = np.array([np.median(constant(r.predicted, r.true_half_times)) for r in predicted])
    print(
        f"  predicted half times: in {len(predicted)} networks; median error {np.median(theory):.3f}, that "
        f"of a constant {np.median(mean):.3f}; theory is nearer in {(theory < mean).sum()}"
    )
    both = np.median([r.left_out for r in predicted], axis=0)
    print(f"    each from the others: {both[0]:.3f}, as their mean {both[1]:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--squared", type=int, default=100)
    parser.add_argument("--entropy", type=int, default=100)
    parser.add_argument("--adam", type=int, default=50)
    parser.add_argument("--store", help="keep the results in this file")
    parser.add_argument("--first", type=int, default=0, help="seed of the first of the networks")
    given = parser.parse_args()
    counts = {"squared": given.squared, "cross-entropy": given.entropy, "adam": given.adam}
    results = {}
    for kind, count in counts.items():
        found = [network(seed, kind) for seed in range(given.first, given.first + count)]
        results[kind] = [r for r in found if r is not None]
        told(kind, results[kind])
    if given.store:
        Path(given.store).write_bytes(pickle.dumps({k: [tuple(r) for r in v] for k, v in results.items()}))


if __name__ == "__main__":
    main()
