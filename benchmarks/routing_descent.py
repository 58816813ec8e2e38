"""Descent on a routing network against the same training as a loop over domains in PyTorch."""

from importlib.util import find_spec
from typing import Any

import numpy as np

import neuralrace as nr
from benchmarks.measure import Row, duel, fresh, race

M, K, LR = 7, 4, 0.2


def torch_loop(x: Any, y: Any, weights: dict[str, np.ndarray], steps: int) -> float:
    """One start; the loss after the last step."""
    import torch

    layers = torch.nn.ModuleDict()
    for name, w in weights.items():
        layers[name] = torch.nn.Linear(w.shape[1], w.shape[0], bias=False, dtype=torch.float64)
        layers[name].weight.data = torch.tensor(w)
    optimizer = torch.optim.SGD(layers.parameters(), lr=LR)

    def loss() -> Any:
        total = torch.zeros((), dtype=torch.float64)
        for i in range(M):
            for j in range(i, i + K):
                h = layers["h1->h2"](layers[f"x{i}->h1"](x))
                error = layers[f"h2->y{j % M}"](h) - y
                total = total + 0.5 * (error**2).sum(dim=1).mean() / (M * K)
        return total

    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    return loss().item()


def measure(starts: int, steps: int) -> dict[str, Any]:
    weights = nr.init.orthogonal(nr.Graph.routing(M, 4), scale=0.2, seed=range(starts))
    losses: dict[str, Any] = {}

    def ours() -> None:
        losses["ours"] = nr.descend(nr.tasks.routing(M, K), weights, lr=LR, steps=steps, save=200).loss[:, -1]

    if not find_spec("torch"):
        return {"ours": race({"cold": ours}, 1) | race({"warm": ours}, 5), "note": "torch missing"}

    def prepare() -> Any:
        import torch

        torch.set_num_threads(1)
        torch.optim.SGD([torch.zeros(1)], lr=LR)  # imports the rest of torch, off the clock
        x = torch.tensor(nr.init.random_frame(np.random.default_rng(0), 4, 4))  # as in nr.tasks.routing
        y = torch.tensor(nr.tasks.structured.tree_features(3))
        each = [{n: w[k] for n, w in weights.items()} for k in range(starts)]
        return lambda: losses.update(torch=[torch_loop(x, y, w, steps) for w in each])

    found = duel(ours, prepare, 3)
    found["extra"]["difference"] = float(np.abs(losses["ours"] - losses["torch"]).max())
    return found | {"note": "difference is that of the final losses"}


def run(quick: bool) -> list[Row]:
    starts, steps = (2, 20) if quick else (10, 500)
    what = f"descend {M} domains x {K}, {starts} starts, {steps} steps"
    targets = ("cold >= 3", "warm >= 20", "difference < 1e-8")
    found = fresh(measure, starts, steps)
    return [Row("routing-descent", what, "loop in PyTorch", "baseline / ours", targets=targets, **found)]
