"""A chain with a narrow layer learns no more modes than that layer has units: the strongest ones. The
narrower it is the later, as less of its random initial weights lies along each mode."""

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework.claim import check, finding
from neuralrace_papers.framework.declaration import claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option

S = np.array([3.0, 2.0, 1.0])  # strengths of the modes; inputs are white


class Bottleneck(Parameters):
    narrow: tuple[int, ...] = option((1, 2, 30), "units of the narrow layer", count=2, increasing=True)
    hidden: int = option(30, "units of the other hidden layer")
    std: float = option(0.05, "standard deviation of the initial weights")


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


@claims
def learned(p, data):
    few, *_, many = p.narrow
    loss, end = data.networks[few].loss[:, -1], data.networks[few].modes[:, -1] / S
    rank = check("Eckart and Young: the best map of a given rank has the strongest modes")
    yield rank.near("loss", "final loss", (S[few:] ** 2).sum() / 2, loss, 1e-4)
    yield rank.near("modes-that-fit", "share learned of modes that fit", 1, end[:, :few], 1e-3)
    yield rank.near("other-modes", "share learned of the other modes", 0, end[:, few:], 1e-3)
    half = [nr.half_time(nets.t, nets.modes[..., 0], start=0.0, axis=1) for nets in data.networks.values()]
    ratio = half[0].mean() / half[-1].mean()
    yield finding("this experiment").above(
        "half-time", f"half time of mode 1, {few} / {many} units", 1, ratio
    )


EXPERIMENT = Experiment(
    "bottleneck", "A chain with a bottleneck", "example", Bottleneck(), Bottleneck(seeds=3), (0.2, 0.3)
)
