"""Parallel pathways with ReLU and tanh (Fig. 7, 8). The paper puts the activation after each layer of each
pathway, the last one too, so that what a pathway adds to the outputs is never negative (ReLU) or never above
one (tanh); the same networks with the activation at hidden layers only are shown beside them."""

from __future__ import annotations

from itertools import product

import numpy as np
from matplotlib.figure import Figure

from neuralrace import plot
from neuralrace_papers.framework.claim import finding, paper
from neuralrace_papers.framework.declaration import Data, claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, option, require
from neuralrace_papers.framework.quotes import quoted
from neuralrace_papers.multipathway import networks, pathway_figures

ACTIVATIONS = {"relu": "multipathway Fig. 7", "tanh": "multipathway Fig. 8"}
AFTER = {"every": "after every layer, as published", "hidden": "after hidden layers only"}


class PathwaysNonlinear(networks.Published):
    seeds: int = option(5, "random starts of each network", least=2, most=1000)
    relu: tuple[int, ...] = option((10_000, 10_000, 20_000, 20_000), "published steps, for each of depths")
    tanh: tuple[int, ...] = option((10_000, 10_000, 10_000, 20_000), "published steps, for each of depths")
    after: tuple[str, ...] = option(
        tuple(AFTER), "layers with an activation; every one is as published", choices=tuple(AFTER)
    )
    dtype: str = option("float32", "precision of training", choices=("float32", "float64"))

    def check(self) -> None:
        for name in ACTIVATIONS:
            given = getattr(self, name)
            fits = len(given) == len(self.depths)
            require(fits, f"{name} must have one entry for each of depths {self.depths}, got {given}")

    def steps(self, activation: str) -> dict[int, int]:
        """Steps for each depth."""
        return dict(zip(self.depths, getattr(self, activation), strict=True))


@part(each=lambda p: [(f, after, d) for after in p.after for f in ACTIVATIONS for d in p.depths])
def trained(p: PathwaysNonlinear, item: tuple[str, str, int]):
    """Networks trained as published; K is that of the pathways' outputs, as in the authors' code."""
    activation, after, depth = item
    task = networks.task([depth] * p.pathways, p.width, activation, after == "every")
    steps = p.steps(activation)[depth]
    found = networks.descent(p, task, depth, steps, networks.times(steps * p.epoch), p.dtype)
    if (activation, after) == ("relu", "every"):
        start = networks.draw(task, p.std, p.seeds, depth)
        found["silent"] = ("run none pathway mode other", networks.from_open_outputs(task, start)[:, None])
    return found


def ends(
    p: PathwaysNonlinear, data: Data, activation: str, after: str
) -> tuple[list[np.ndarray], np.ndarray]:
    """Concentration of modes 1-2, and the part of the loss that is left, of each network; by depth."""
    runs = [data.trained[activation, after, d] for d in p.depths]
    left = np.stack([run.loss[:, -1] / run.loss[:, 0] for run in runs])
    return networks.two_modes(run.outputs for run in runs), left


def by_silence(p: PathwaysNonlinear, data: Data) -> str:
    """Why ReLU after every layer is different, for a note."""
    silent = networks.two_modes(data.trained["relu", "every", d].silent for d in p.depths)
    alone = ", ".join(f"{v.mean():.2g}" for v in silent)
    return (
        "An output that starts silent in a pathway never learns there and is left to the others, whatever "
        f"the depth: that alone makes for a concentration of {alone}."
    )


def learning(p: PathwaysNonlinear, data: Data, activation: str) -> tuple[Figure, str]:
    runs = {f"{activation}, depth {d}": data.trained[activation, p.after[0], d] for d in p.depths}
    steps = ", ".join(str(n) for n in p.steps(activation).values())
    return pathway_figures.learning(runs, p.epoch), (
        f"Learning in one network per depth with {activation} {AFTER[p.after[0]]} "
        f"({ACTIVATIONS[activation].split(' ', 1)[1]}), {p.width} wide, weights of standard deviation "
        f"{p.std:g}, descent for {steps} epochs (the text has 1000). {pathway_figures.READ}"
    )


@figure("relu")
def relu(p: PathwaysNonlinear, data):
    return learning(p, data, "relu")


@figure("tanh")
def tanh(p: PathwaysNonlinear, data):
    return learning(p, data, "tanh")


@figure("nonlinear-concentration")
def concentrations(p: PathwaysNonlinear, data):
    fig, (a, b) = plot.figure(1, 2, height=3.0)
    place = np.arange(len(p.depths))
    for n, (activation, colour) in enumerate(zip(ACTIVATIONS, (plot.RED, plot.GREEN), strict=True)):
        for j, (after, marker) in enumerate(zip(p.after, "o^", strict=False)):
            at, style = place + 0.08 * (2 * n + j - 1.5), {"fmt": marker, "alpha": 1 - 0.5 * j}
            values, left = ends(p, data, activation, after)
            plot.points(a, at, np.transpose(values), colour, f"{activation} {AFTER[after]}", **style)
            plot.points(b, at, left.T, colour, **style)
    plot.label((a, b), "depth of the pathways", xticks=place, xticklabels=p.depths, ylim=(0, None))
    a.set_ylabel("concentration of modes 1-2")
    b.set_ylabel("loss at the end / at the start")
    plot.legend_below(fig, a, 2)
    return fig, (
        "Left: concentration of modes 1 and 2 on one pathway at the end, by its outputs: 0 shared evenly, 1 "
        "all on one. Right: the part of the loss that is not learned. Mean and standard deviation over "
        f"{p.seeds} networks, {p.width} wide."
    )


@claims
def trends(p: PathwaysNonlinear, data):
    quote = (
        "Note how with larger depths, the features have a stronger tendency to concentrate on one pathway or "
        "the other."
    )
    bound = "a standard of ours: one-sided rank correlation at 1%"
    for (activation, source), after in product(ACTIVATIONS.items(), p.after):
        values, left = ends(p, data, activation, after)
        found, rest = (", ".join(f"{v.mean():.2g}" for v in x) for x in (values, left))
        note = f"{p.seeds} networks per depth, {p.width} wide. By depth: concentration {found}; "
        note += f"part of the loss left {rest}."
        note = f"{by_silence(p, data)} {note}" if (activation, after) == ("relu", "every") else note
        name = f"modes 1-2 more on one pathway with depth, {activation} {AFTER[after]}: p"
        stated = paper(source, quote) if after == "every" else finding(source)
        value = networks.trend(p.depths, values, "greater")
        yield stated.below(f"depth-{activation}-{after}", name, 0.01, value, note, bound)


@claims
def same_trend(p: PathwaysNonlinear, data):
    same = quoted("multipathway section 4", "same-trend")
    bound = "a standard of ours: a quarter of what the linear networks could rise"
    for activation in ACTIVATIONS if "every" in p.after else ():
        (first, *_, last), _ = ends(p, data, activation, "every")
        name = f"{activation}, concentration of modes 1-2: depth {p.depths[-1]} - depth {p.depths[0]}, means"
        note = by_silence(p, data) if activation == "relu" else ""
        rise = last.mean() - first.mean()
        yield same.above(f"rise-{activation}", name, 0.25, rise, note, bound)


@claims
def silent_outputs(p: PathwaysNonlinear, data):
    """An output that starts below zero in all pathways, for the only item with its feature, never learns."""
    if "every" not in p.after:
        return
    _, left = ends(p, data, "relu", "every")
    own = 8 / networks.Y.sum()  # features that one item alone has, of all
    name = "relu after every layer: part of the loss that is never learned, mean over depths"
    never = own / 2**p.pathways
    bound = "theory: each pathway starts below zero with probability 1/2"
    stated = finding("multipathway Fig. 7")
    yield stated.near("relu-silent-outputs", name, never, left.mean(axis=0), 0.03, bound=bound)


EXPERIMENT = Experiment(
    "pathways-nonlinear",
    "Parallel pathways with ReLU and tanh",
    "multipathway Fig. 7-8",
    PathwaysNonlinear(),
    PathwaysNonlinear(width=24, std=0.065, depths=(2, 3), relu=(400, 1000), tanh=(400, 1000)),
    minutes=(0.2, 240),
    needs_full=("depth-*", "rise-*"),  # four depths
)
