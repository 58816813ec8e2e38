"""Parallel pathways with ReLU and tanh (Fig. 7, 8). The paper puts the activation after each layer of each
pathway, the last one too, so that what a pathway adds to the outputs is never negative (ReLU) or never above
one (tanh); the same networks with the activation at hidden layers only are shown beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from matplotlib.figure import Figure

from neuralrace import plot
from neuralrace_papers.framework import Data, Experiment, figure, part, require, rows
from neuralrace_papers.multipathway import networks, pathway_figures

ACTIVATIONS = {"relu": ("ReLU", "Fig. 7", plot.RED), "tanh": ("tanh", "Fig. 8", plot.GREEN)}
AFTER = {"every": "after every layer, as published", "hidden": "after hidden layers only"}


@dataclass(frozen=True)
class PathwaysNonlinear(networks.Published):
    seeds: Annotated[int, "random starts of each network"] = 5
    relu: Annotated[tuple[int, ...], "published steps, for each of depths"] = (10_000, 10_000, 20_000, 20_000)
    tanh: Annotated[tuple[int, ...], "published steps, for each of depths"] = (10_000, 10_000, 10_000, 20_000)
    dtype: Annotated[str, "precision of training"] = "float32"

    def __post_init__(self) -> None:
        for name in ACTIVATIONS:
            given = getattr(self, name)
            fits = len(given) == len(self.depths)
            require(fits, f"{name} must have one entry for each of depths {self.depths}, got {given}")

    def steps(self, activation: str) -> dict[int, int]:
        """Steps for each depth."""
        return dict(zip(self.depths, getattr(self, activation), strict=True))


@part(each=lambda p: [(f, after, d) for after in AFTER for f in ACTIVATIONS for d in p.depths])
def trained(p: PathwaysNonlinear, item: tuple[str, str, int]):
    """Networks trained as published; K is that of the pathways' outputs, as in the authors' code."""
    activation, after, depth = item
    task = networks.task([depth] * 2, p.width, activation, after == "every")
    steps = p.steps(activation)[depth]
    return networks.descent(p, task, depth, steps, networks.times(steps * p.epoch), p.dtype)


def ends(
    p: PathwaysNonlinear, data: Data, activation: str, after: str
) -> tuple[list[np.ndarray], np.ndarray]:
    """Concentration of modes 1 and 2, and the part of the loss that is left, of each network; by depth."""
    runs = [data.trained[activation, after, d] for d in p.depths]
    left = np.stack([run.loss[:, -1] / run.loss[:, 0] for run in runs])
    return [networks.two_modes(run) for run in runs], left


def learning(p: PathwaysNonlinear, data: Data, activation: str) -> tuple[Figure, str]:
    name, number, _ = ACTIVATIONS[activation]
    runs = {f"{name}, depth {d}": data.trained[activation, "every", d] for d in p.depths}
    steps = ", ".join(str(n) for n in p.steps(activation).values())
    return pathway_figures.learning(runs, p.epoch), (
        f"Learning in one network of each depth with {name} {AFTER['every']} ({number}), {p.width} wide, "
        f"weights of standard deviation {p.std:g}, descent for {steps} epochs. {pathway_figures.READ}"
    )


@figure("relu")
def relu(p: PathwaysNonlinear, data: Data):
    return learning(p, data, "relu")


@figure("tanh")
def tanh(p: PathwaysNonlinear, data: Data):
    return learning(p, data, "tanh")


@figure("nonlinear-concentration")
def concentrations(p: PathwaysNonlinear, data: Data):
    fig, (a, b) = plot.figure(1, 2, height=3.0)
    place = np.arange(len(p.depths))
    for n, (activation, (name, _, colour)) in enumerate(ACTIVATIONS.items()):
        for j, (after, marker) in enumerate(zip(AFTER, "o^", strict=True)):
            at, style = place + 0.08 * (2 * n + j - 1.5), {"fmt": marker, "alpha": 1 - 0.5 * j}
            values, left = ends(p, data, activation, after)
            plot.points(a, at, np.transpose(values), colour, f"{name} {AFTER[after]}", **style)
            plot.points(b, at, left.T, colour, **style)
    plot.label((a, b), "depth of the pathways", xticks=place, xticklabels=p.depths, ylim=(0, None))
    a.set_ylabel("concentration of modes 1-2")
    b.set_ylabel("loss at the end / at the start")
    plot.legend_below(fig, a, 2)
    return fig, (
        "Left: concentration of modes 1 and 2 on one pathway at the end, by its outputs: 0 shared evenly, 1 "
        "all on one. Right: the part of the loss that is not learned. Mean and standard deviation over "
        f"{p.seeds} networks, {p.width} wide. With ReLU after every layer an output that starts silent in a "
        "pathway never learns there."
    )


@rows
def by_depth(p: PathwaysNonlinear, data: Data):
    for activation in ACTIVATIONS:
        for after in AFTER:
            values, left = ends(p, data, activation, after)
            yield f"depth-{activation}-{after}", networks.trend(p.depths, values, "greater")
            if after == "every":
                yield f"rise-{activation}", values[-1] - values[0].mean()
                if activation == "relu":
                    yield "relu-silent-outputs", left.mean(axis=0)


EXPERIMENT = Experiment(
    "pathways-nonlinear",
    "Parallel pathways with ReLU and tanh",
    "multipathway Fig. 7-8",
    PathwaysNonlinear(),
    quick={"width": 24, "std": 0.065, "depths": (2, 3), "relu": (400, 1000), "tanh": (400, 1000)},
    minutes=(0.2, 240),
)
