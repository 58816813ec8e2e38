"""A chain with a narrow layer learns no more modes than that layer has units: the strongest ones. The
narrower it is the later, as less of its random initial weights lies along each mode."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework import Experiment, figure, part, require, rows

S = np.array([3.0, 2.0, 1.0])  # strengths of the modes; inputs are white


@dataclass(frozen=True)
class Bottleneck:
    seeds: Annotated[int, "random starts of each network"] = 10
    narrow: Annotated[tuple[int, ...], "units of the narrow layer, rising"] = (1, 2, 30)
    hidden: Annotated[int, "units of the other hidden layer"] = 30
    std: Annotated[float, "standard deviation of the initial weights"] = 0.05

    def __post_init__(self):
        rising = len(self.narrow) > 1 and list(self.narrow) == sorted(set(self.narrow))
        require(rising, f"narrow must be at least two rising numbers, got {self.narrow}")


@part(each="narrow")
def networks(p, narrow):
    graph = nr.Graph.chain([3, p.hidden, narrow, 3])
    task = nr.Task(graph, np.sqrt(3) * np.eye(3), np.sqrt(3) * np.diag(S))
    run = nr.flow(task, nr.init.gaussian(graph, p.std, seed=range(p.seeds)), t1=15.0, save=300)
    modes = np.diagonal(nr.end_to_end(graph, run), axis1=-2, axis2=-1)
    return {"t": ("t", run.t), "loss": ("run t", run.loss), "modes": ("run t mode", modes)}


@figure("bottleneck-modes")
def modes(p, data):
    fig, axes = plot.figure(1, len(p.narrow), height=2.2, sharey=True)
    for ax, (narrow, nets) in zip(axes, data.networks.items(), strict=True):
        for mode, colour in zip(range(len(S)), plot.COLOURS, strict=False):
            plot.runs(ax, nets.t, nets.modes[..., mode], colour, f"strength {S[mode]:g}")
        plot.label(ax, "time", "strength of the mode", f"narrow layer of {narrow}")
    plot.label(axes[-1], legend="lower right")
    return fig, f"Modes of the task in the network: median and range of {p.seeds} random starts."


@figure("bottleneck-loss")
def losses(p, data):
    fig, ax = plot.figure()
    for (narrow, nets), colour in zip(data.networks.items(), plot.COLOURS, strict=False):
        plot.runs(ax, nets.t, nets.loss, colour, f"narrow layer of {narrow}")
        ax.axhline((S[narrow:] ** 2).sum() / 2, color=colour, ls=":")
    plot.label(ax, "time", "loss", legend="best")
    return fig, "Loss. Dotted: half the sum of the squared strengths of the modes that do not fit."


@rows
def learned(p, data):
    few, *_, many = p.narrow
    loss, end = data.networks[few].loss[:, -1], data.networks[few].modes[:, -1] / S
    yield (
        "loss-of-the-best-map",
        loss / (S[few:] ** 2).sum() * 2,
    )  # Eckart and Young: it has the strongest modes
    yield "modes-that-fit", end[:, :few].min("mode")
    yield "other-modes", abs(end[:, few:]).max("mode")
    half = [nr.half_time(nets.t, nets.modes[..., 0], first=0.0, axis=1) for nets in data.networks.values()]
    yield f"half-time-{few}-over-{many}-units", half[0] / half[-1]


EXPERIMENT = Experiment(
    "bottleneck",
    "A chain with a bottleneck",
    "example",
    Bottleneck(),
    quick=dict(seeds=3),
    minutes=(0.2, 0.3),
)
