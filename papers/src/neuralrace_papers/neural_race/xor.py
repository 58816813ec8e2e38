"""Exclusive or cannot be solved by a linear map. A linear network with four gated pathways, each open for one
sample, learns it along a curve known in closed form. A ReLU network from small weights grows just these four
pathways: while outputs are small each unit turns, by itself, to the diagonal of one sample. So the strength
with which every pathway starts follows from the initial weights, and with it the whole loss curve; nothing is
fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace.measure import crossing, xor_strengths
from neuralrace_papers.framework import Data, Experiment, figure, part, require, rows

HALF = 0.25  # of the initial loss of 1/2
X, Y = nr.tasks.xor().arrays
STARTS = {
    "turned": (plot.BLACK, "o", "units followed"),
    "gates": (plot.ORANGE, "^", "first gates"),
    "size": (plot.BLUE, "s", "number and size of weights"),
}


@dataclass(frozen=True)
class Xor:
    seeds: Annotated[int, "random starts of each network"] = 10
    hidden: Annotated[int, "units of the ReLU network; a quarter in each gated pathway"] = 128
    std: Annotated[float, "standard deviation of initial weights, strength of the gated network"] = 2e-4
    tau: Annotated[float, "time constant: a time in the figures is tau times flow time"] = 2.5
    lr: Annotated[float, "learning rate of the ReLU networks, on the mean loss"] = 0.001
    t1: Annotated[float, "end of training, in the time of the figures"] = 75.0

    def __post_init__(self) -> None:
        left = nr.exact.xor_loss(self.t1, self.strength, self.tau)
        require(left <= 0.01, f"t1 must be long enough to learn the task from this std, got {self.t1:g}")

    @property
    def strength(self) -> float:
        """A quarter of the units for each pathway, each with a growing component of variance std^2 / 2."""
        return self.hidden / 4 * self.std**2 / 2


@part
def gated(p: Xor):
    """The gated network's flow from decoupled weights, beside the closed form."""
    task = nr.tasks.xor(p.hidden // 4)
    run = nr.flow(task, nr.init.decoupled(nr.reduce(task), p.std), p.t1 / p.tau, save=200)
    t = run.time(tau=p.tau)
    return {"t": ("t", t), "loss": ("t", run.loss), "theory": ("t", nr.exact.xor_loss(t, p.std**2, p.tau))}


@part
def relu(p: Xor):
    """ReLU networks, and the theory from three choices of initial strengths."""
    graph = nr.Graph({"x": 2, "h": p.hidden, "y": 1}, [("x", "h"), ("h", "y")], activations={"h": "relu"})
    start = nr.init.gaussian(graph, p.std, seed=range(p.seeds))
    steps = round(p.t1 / p.tau / p.lr)
    run = nr.descend(nr.tasks.xor(graph=graph), start, p.lr, steps, save=601)
    w1, w2, t = start["x->h"], start["h->y"], run.time(tau=p.tau)
    along = w1 @ X.T / np.sqrt(2)  # of each unit, on each sample
    growing = (along + np.swapaxes(w2, -1, -2) * Y[:, 0]) / 2
    strengths = {
        "turned": xor_strengths(w1, w2),
        "gates": (growing**2 * (along > 0)).sum(axis=1),
        "size": np.full((p.seeds, 4), p.strength),
    }

    def theory(t: np.ndarray) -> np.ndarray:
        a0 = np.stack(list(strengths.values()))
        return nr.exact.xor_loss(t, a0[..., None], p.tau).mean(axis=2)

    every_step = p.tau * p.lr * np.arange(steps + 1)
    half = [[crossing(every_step, loss, HALF) for loss in runs] for runs in theory(every_step)]
    return {
        "t": ("t", t),
        "start": ("start", list(strengths)),
        "loss": ("run t", run.loss),
        "theory": ("start run t", theory(t)),
        "half": ("run", p.tau * nr.learning_time(run, HALF)),
        "theory_half": ("start run", half),
        "w1": ("run unit x", run.weights["x->h"][:, -1]),
        "w2": ("run unit", run.weights["h->y"][:, -1, 0]),
    }


@figure("xor")
def dynamics(p: Xor, data: Data):
    fig, (cells, curve, times) = plot.figure(1, 3, height=2.5)
    draw_units(cells, data.relu.w1.values[0])

    net, order = data.relu, np.argsort(data.relu.half.values)
    for k in order[[-1, p.seeds // 2, 0]]:
        plot.points(curve, net.t[::20], net.loss[k, ::20], plot.RED, "ReLU networks")
        plot.theory(curve, net.t, net.theory.sel(start="turned")[k], label="theory, units followed")
    from_size = net.theory.sel(start="size")[0]
    plot.theory(curve, net.t, from_size, plot.BLUE, "theory, number and size", ls="--")
    curve.set(xlim=(0.3 * p.t1, 0.9 * p.t1), ylim=(-0.01, 0.72), yticks=[0, 0.25, 0.5])
    plot.label(curve, f"time (τ = {p.tau:g})", "loss", legend="upper right")

    for start, (colour, marker, label) in STARTS.items():
        predicted = net.theory_half.sel(start=start)
        times.plot(net.half, predicted, marker, color=colour, ms=4, label=label, alpha=0.8)
    low, high = times.dataLim.min.min(), times.dataLim.max.max()
    margin = 0.05 * (high - low)
    line = [low - margin, high + margin]
    times.plot(line, line, color=plot.BLACK, lw=0.7, label="prediction = network")
    times.set(aspect="equal", xlim=line, ylim=(low - margin, high + 13 * margin))
    texts = "time to half loss,\nReLU network", "time to half loss, predicted"
    plot.label(times, *texts, legend="upper left")
    return fig, (
        "Left: the four samples, and the input weights of all hidden units of one trained ReLU network "
        f"(longest = 1). Middle: loss of the slowest, the middle and the fastest of {p.seeds} ReLU networks, "
        "and of gated networks in closed form. Right: when the loss is halved, predicted with initial "
        "strengths from following each unit to its diagonal, from the gates that units have at first, and "
        "from the number and the size of the weights. On the line, prediction and network agree."
    )


def draw_units(ax: Any, w1: np.ndarray) -> None:
    """Input weights of all units, and the samples."""
    w1 = w1 / np.linalg.norm(w1, axis=-1).max()
    ax.plot(*np.stack([0 * w1, w1, w1 + np.nan], axis=1).reshape(-1, 2).T, color=plot.PINK, lw=0.8)
    ax.plot(*w1.T, "o", color=plot.PINK, ms=2.5, label="hidden units")
    for sign, colour, marker in ((1, plot.SKY, "o"), (-1, plot.GREEN, "s")):
        ax.plot(*X[Y[:, 0] == sign].T, marker, color=colour, ms=9, label=f"target ${sign:+d}$")
    ax.set(aspect="equal", xlim=(-1.4, 1.4), ylim=(-1.4, 2.6), xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    plot.label(ax, "input 1", "input 2", legend={"loc": "upper center", "borderpad": 0})


@rows
def losses(p: Xor, data: Data):
    off = data.relu.theory_half / data.relu.half - 1
    yield "gated-loss", np.abs(data.gated.loss - data.gated.theory).max()
    yield "gated-end", data.gated.loss[-1]
    yield "half-time-units-followed", off.sel(start="turned")
    yield "half-time-first-gates", off.sel(start="gates")
    yield "half-time-weight-size", off.sel(start="size")
    yield "relu-loss", np.abs(data.relu.theory.sel(start="turned") - data.relu.loss).max("t")


@rows
def cell_types(p: Xor, data: Data):
    """Units within 2 degrees of a sample that have the sign it asks for."""
    w1, w2 = data.relu.w1.values, data.relu.w2.values
    cosine = w1 @ X.T / (np.sqrt(2) * np.linalg.norm(w1, axis=-1)[..., None])
    units = ((cosine > np.cos(np.radians(2))) & (w2[..., None] * Y[:, 0] > 0)).sum(axis=1)
    yield "units-on-diagonals", units.sum(axis=1) / p.hidden
    yield "cell-types", units.min(axis=1) / (p.hidden / 4)


EXPERIMENT = Experiment(
    "xor",
    "Exclusive or: a gated linear network follows a ReLU network",
    "neural_race Fig. 3, A.1",
    Xor(),
    quick={"seeds": 3, "lr": 0.005},
    minutes=(0.1, 0.1),
)
