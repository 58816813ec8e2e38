"""The networks that `discover` looks at: newly trained ones or given ones, and whether they have learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralrace.dynamics import Status
from neuralrace.dynamics.methods import check_steps
from neuralrace.errors import InputError, integer, number
from neuralrace.relu.given import checked_data
from neuralrace.relu.own_weights import as_relu_network
from neuralrace.relu.training import ReluNetwork, train

LEARNED = 0.01  # share of the loss of a silent network that a run which has converged may leave
MAX_RUNS, MAX_TIMES = 10_000, 100_000
STARTED = 0.9  # a run that leaves more than this has learned nothing


def given_networks(X: Any, Y: Any, net: Any) -> list[ReluNetwork]:
    """Networks that are trained already: what `train` returned, or weights of the user's own."""
    networks = as_relu_network(net, X, Y)
    _check_not_zero(networks.X, networks.Y)
    return list(networks) if networks.many else [networks]


def train_networks(
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
) -> list[ReluNetwork]:
    """Networks trained from different seeds, saved every `every` steps."""
    if X is None or Y is None:
        raise InputError("X and Y, the inputs and targets, are needed")
    x, y = checked_data(X, Y)
    _check_not_zero(x, y)
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
    return list(train(x, y, hidden, std, lr, steps, save, seeds, **keywords))


def relative_loss(net: ReluNetwork) -> float:
    """Last loss, relative to that of a silent network."""
    silent = 0.5 * (net.Y**2).sum() / len(net.Y)
    return float(net.loss[-1] / net.loss_scale / silent)


def trained_here(net: ReluNetwork) -> bool:
    """Whether `train` made the network, so that its training can be repeated."""
    return "process" in net.settings


def convergence_warnings(networks: Sequence[ReluNetwork]) -> list[str]:
    """Warnings about networks that have not converged; refuses those that have learned nothing."""
    here = trained_here(networks[0])
    for r, one in enumerate(networks):
        if one.status is Status.DIVERGED:
            raise InputError(f"run {r} {one.outcome}")
    losses = np.array([relative_loss(one) for one in networks])
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


def _check_not_zero(x: np.ndarray, y: np.ndarray) -> None:
    if not x.any() or not y.any():
        raise InputError("X and Y must not be zero everywhere")
