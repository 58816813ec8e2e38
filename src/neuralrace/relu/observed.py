"""Networks whose gates are looked at: trained here, or weights at several times from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from neuralrace.dynamics import Status
from neuralrace.dynamics.methods import check_steps
from neuralrace.errors import InputError, array, integer, number
from neuralrace.network import activity, predict
from neuralrace.relu.own_weights import own_network
from neuralrace.relu.training import ReluNetwork, checked_data, train
from neuralrace.task import Task

LEARNED = 0.01  # of the initial loss, what a run that has converged may leave
MAX_RUNS, MAX_TIMES = 10_000, 100_000
STARTED = 0.9  # a run that leaves more than this has learned nothing


@dataclass(frozen=True, eq=False)
class ObservedNetwork:
    """One run: weights at several times (name -> `(times, ...)`), and the network if it was trained here."""

    task: Task
    weights: Mapping[str, np.ndarray]
    trained: ReluNetwork | None = None

    @property
    def depth(self) -> int:
        """Number of ReLU layers."""
        return len(self.task.graph.hidden)

    @property
    def times(self) -> int:
        """Number of times."""
        return len(next(iter(self.weights.values())))

    def at(self, i: int) -> dict[str, np.ndarray]:
        """Weights at one time."""
        return {n: w[i] for n, w in self.weights.items()}

    def gates(self, i: int, layer: int) -> np.ndarray:
        """Which units of a layer (1 is the first) are active at one time, `(n, size)` booleans."""
        return np.asarray(activity(self.task, self.at(i), self.task.graph.hidden[layer - 1])) > 0

    @cached_property
    def outputs(self) -> np.ndarray:
        """Outputs at all times, `(times, n, out)`."""
        return np.asarray(predict(self.task, self.weights)["y"])

    @property
    def loss(self) -> float:
        """Last loss, relative to that of a silent network."""
        y = self.task.arrays[1]
        return float(((self.outputs[-1] - y) ** 2).sum() / (y**2).sum())


def observe_given(X: Any, Y: Any, net: Any) -> list[ObservedNetwork]:
    """Networks that are trained already: what `train` returned, or weights of the user's own."""
    if isinstance(net, ReluNetwork):
        return _runs(net)
    x, y = _checked_data(X, Y)
    moments = [own_network(w) for w in _moments(net)]
    graph = moments[0][1]
    if any(g != graph for _, g in moments):
        raise InputError("net must have the same layers at all times")
    sizes = graph.nodes["x"], graph.nodes["y"]
    if sizes != (x.shape[1], y.shape[1]):
        raise InputError(
            f"X and Y must have the {sizes[0]} inputs and {sizes[1]} outputs of net, got "
            f"{x.shape[1]} and {y.shape[1]}"
        )
    weights = {n: np.stack([w[n] for w, _ in moments]) for n in graph.shapes}
    return [ObservedNetwork(Task(graph, x, y), weights)]


def observe_training(
    X: Any,
    Y: Any,
    hidden: Any,
    runs: Any,
    std: Any,
    lr: Any,
    steps: Any,
    every: Any,
    seed: int,
    **keywords: Any,
) -> list[ObservedNetwork]:
    """Networks trained from different seeds, seen every `every` steps."""
    x, y = _checked_data(X, Y)
    runs, steps = integer("runs", runs, most=MAX_RUNS), check_steps("steps", steps)
    every = integer("every", every)
    if every > steps:
        raise InputError(f"every must be at most steps, {steps}; got {every}")
    if steps // every > MAX_TIMES:
        raise InputError(f"every must be at least {steps // MAX_TIMES + 1} for {steps} steps, got {every}")
    if "save" in keywords:
        raise InputError("save must not be given: `every` says at which steps gates are taken")
    seeds = [1000 * seed + r for r in range(runs)]
    unit = number("lr", lr, above=0) * (1 if keywords.get("objective") == "mean" else len(x))
    save = unit * np.union1d(np.arange(0, steps + 1, every), [steps])
    return _runs(train(x, y, hidden, std, lr, steps, save, seeds, **keywords))


def convergence_warnings(networks: Sequence[ObservedNetwork]) -> list[str]:
    """Warnings about networks that have not converged; refuses those that have learned nothing."""
    here = networks[0].trained is not None
    for r, one in enumerate(networks):
        if one.trained is not None and one.trained.status is Status.DIVERGED:
            raise InputError(f"run {r} {one.trained.outcome}")
    with np.errstate(all="ignore"):
        losses = np.array([one.loss for one in networks])
    if not np.isfinite(losses).all():
        raise InputError("net must have finite outputs")
    if here and (losses > STARTED).any():
        r = int(losses.argmax())
        raise InputError(
            f"run {r} has not learned: its last loss is {losses[r]:.3g} of that of a silent network; "
            "try more steps, another lr or a larger std"
        )
    if (losses <= LEARNED).all():
        return []
    which = ", ".join(str(r) for r in np.flatnonzero(losses > LEARNED))
    cure = "more steps or another lr" if here else "a network that was trained longer on these X and Y"
    return [
        f"not converged: last loss {losses.max():.3g} of that of a silent network (run {which}); "
        f"these are the patterns so far, try {cure}"
    ]


def _checked_data(X: Any, Y: Any) -> tuple[np.ndarray, np.ndarray]:
    if X is None or Y is None:
        raise InputError("X and Y, the inputs and targets, are needed")
    x, y = checked_data(X, Y)
    if not x.any() or not y.any():
        raise InputError("X and Y must not be zero everywhere")
    return x, y


def _runs(net: ReluNetwork) -> list[ObservedNetwork]:
    if not net.weights:
        raise InputError("net must have its weights saved: train with save_weights=True")
    runs = [net[r] for r in range(len(net))] if net.many else [net]
    return [ObservedNetwork(one.task, one.weights, one) for one in runs]


def _moments(net: Any) -> list[Any]:
    """The weights of a network at each time that it holds."""
    if isinstance(net, Mapping):
        series = {n: array(f"net[{n!r}]", w) for n, w in net.items()}
        if not any(w.ndim == 3 for w in series.values()):
            return [net]
        return [{n: w[t] for n, w in series.items()} for t in range(_length(series.values()))]
    if isinstance(net, Sequence) and not isinstance(net, str) and len(net):
        if all(isinstance(w, Mapping) or hasattr(w, "named_parameters") for w in net):
            return list(net)
        pairs = [
            w if isinstance(w, (tuple, list)) and len(w) == 2 and _axes(w[0]) == 3 else (w,) for w in net
        ]
        if all(_axes(p[0]) == 3 for p in pairs):
            flat = [[array(f"net[{k}]", a) for a in p if a is not None] for k, p in enumerate(pairs)]
            length = _length([a for p in flat for a in p])
            return [[p[0][t] if len(p) == 1 else (p[0][t], p[1][t]) for p in flat] for t in range(length)]
    return [net]


def _axes(value: Any) -> int:
    """Number of axes of what may be an array; -1 where it is none."""
    try:
        return np.ndim(value)
    except ValueError:
        return -1


def _length(series: Any) -> int:
    lengths = {len(w) if w.ndim else 0 for w in series}
    if len(lengths) != 1 or not min(lengths):
        raise InputError(f"net must have its weights at the same times, got {sorted(lengths)} of them")
    return lengths.pop()
