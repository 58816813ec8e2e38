"""Exclusive or cannot be solved by a linear map. A linear network with four gated pathways, each open for one
sample, learns it along a curve known in closed form. A ReLU network from small weights grows just these four
pathways: while outputs are small each unit turns, by itself, to the diagonal of one sample. So the strength
with which every pathway starts follows from the initial weights, and with it the whole loss curve; nothing is
fitted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import plot
from neuralrace.errors import InputError
from neuralrace.experiments.claim import Claim, check, finding, paper
from neuralrace.experiments.experiment import Experiment, Parameters, Results, option
from neuralrace.experiments.store import Parts
from neuralrace.measure import crossing, xor_strengths

SOURCE = "neural_race Fig. 3c, Eq. 23"
HALF = 0.25  # of the initial loss of 1/2
X, Y = nr.tasks.xor().arrays
CHOICES = {"turned": "units followed", "gates": "first gates", "size": "N and $\\sigma_0$ alone"}


@dataclass(frozen=True)
class Xor(Parameters):
    hidden: int = option(
        128, "units of the ReLU network; a quarter of them in each pathway of the gated one", least=4
    )
    std: float = option(
        2e-4, "standard deviation of initial weights, and initial strength of the gated network"
    )
    tau: float = option(2.5, "time constant: a time in the figures is tau times flow time")
    lr: float = option(0.001, "learning rate of the ReLU networks, on the mean loss")
    t1: float = option(75.0, "end of training, in the time of the figures")

    def check(self) -> None:
        if nr.exact.xor_loss(self.t1, expected_strength(self), self.tau) > 0.01:
            raise InputError(f"t1 must be long enough to learn the task from this std, got {self.t1:g}")


def expected_strength(p: Xor) -> float:
    """A quarter of the units for each pathway, each with a growing component of variance std^2 / 2."""
    return p.hidden / 4 * p.std**2 / 2


def compute(p: Xor, parts: Parts) -> Results:
    return {"gated": parts("gated", gated, p), "relu": parts("relu", relu, p)}


def gated(p: Xor) -> dict[str, np.ndarray]:
    """The gated network's flow from decoupled weights, beside the closed form."""
    task = nr.tasks.xor(p.hidden // 4)
    run = nr.flow(task, nr.init.decoupled(nr.reduce(task), p.std), p.t1 / p.tau, save=200)
    t = run.time(tau=p.tau)
    return {"t": t, "loss": run.loss, "theory": nr.exact.xor_loss(t, p.std**2, p.tau)}


def relu(p: Xor) -> dict[str, np.ndarray]:
    """ReLU networks, and the theory from three choices of initial strengths."""
    graph = nr.Graph({"x": 2, "h": p.hidden, "y": 1}, [("x", "h"), ("h", "y")], activations={"h": "relu"})
    start = nr.init.gaussian(graph, p.std, seed=range(p.seeds))
    steps = round(p.t1 / p.tau / p.lr)
    run = nr.descend(nr.tasks.xor(graph=graph), start, p.lr, steps, save=601)
    t, w1, w2 = run.time(tau=p.tau), start["x->h"], start["h->y"]
    found = {"t": t, "loss": run.loss, "w1": run.weights["x->h"][:, -1], "w2": run.weights["h->y"][:, -1, 0]}
    along = w1 @ X.T / np.sqrt(2)  # of each unit, on each sample
    growing = (along + np.swapaxes(w2, -1, -2) * Y[:, 0]) / 2
    strengths = {
        "turned": xor_strengths(w1, w2),
        "gates": (growing**2 * (along > 0)).sum(axis=1),
        "size": np.full((p.seeds, 4), expected_strength(p)),
    }
    found["half loss"] = p.tau * nr.learning_time(run, HALF)
    steps_t = p.tau * p.lr * np.arange(steps + 1)
    for name, a0 in strengths.items():
        theory = lambda t, a0=a0: nr.exact.xor_loss(t, a0[..., None], p.tau).mean(axis=1)  # noqa: E731
        found[name] = theory(t)
        found[f"half {name}"] = np.array([crossing(steps_t, v, HALF) for v in theory(steps_t)])
    return found


def half_times(r: Results, name: str) -> np.ndarray:
    """Time at which the loss is half of its start, for each network."""
    return r["relu"][f"half {name}"]


def cell_types(r: Results) -> np.ndarray:
    """How many units lie within 2 degrees of each sample and have the sign that it asks for, `(seeds, 4)`."""
    w1, w2 = r["relu"]["w1"], r["relu"]["w2"]
    cosine = w1 @ X.T / (np.sqrt(2) * np.linalg.norm(w1, axis=-1)[..., None])
    near = cosine > np.cos(np.radians(2))
    return (near & (w2[..., None] * Y[:, 0] > 0)).sum(axis=1)


def figures(p: Xor, r: Results) -> dict[str, tuple[Figure, str]]:
    fig, (cells, curve, times) = plot.figure(1, 3, height=2.5)
    w1 = r["relu"]["w1"][0] / np.linalg.norm(r["relu"]["w1"][0], axis=-1).max()
    cells.plot(*np.stack([0 * w1, w1, w1 + np.nan], axis=1).reshape(-1, 2).T, color=plot.PINK, lw=0.8)
    cells.plot(*w1.T, "o", color=plot.PINK, ms=2.5, label="hidden units")
    for sign, colour, marker in ((1, plot.RED, "o"), (-1, plot.BLUE, "s")):
        cells.plot(*X[Y[:, 0] == sign].T, marker, color=colour, ms=9, label=f"target ${sign:+d}$")
    cells.set(xlabel="input 1", ylabel="input 2", xlim=(-1.4, 1.4), ylim=(-1.4, 2.6), xticks=[-1, 0, 1])
    cells.set(yticks=[-1, 0, 1], aspect="equal")
    cells.legend(loc="upper center", ncols=1, borderpad=0)

    t = r["relu"]["t"]
    order = np.argsort(half_times(r, "loss"))
    for k in (order[-1], order[p.seeds // 2], order[0]):
        first = k == order[0]
        plot.points(curve, t[::20], r["relu"]["loss"][k, ::20], plot.RED, "ReLU networks" if first else None)
        plot.theory(curve, t, r["relu"]["turned"][k], label="theory, from their weights" if first else None)
    plot.theory(curve, t, r["relu"]["size"][0], plot.BLUE, "theory, from N and $\\sigma_0$", ls="--")
    curve.set(xlabel=f"time (τ = {p.tau:g})", ylabel="loss", xlim=(0.3 * p.t1, 0.9 * p.t1))
    curve.set(ylim=(-0.01, 0.72), yticks=[0, 0.25, 0.5])
    curve.legend(loc="upper right")

    half = half_times(r, "loss")
    for name, colour, marker in (
        ("turned", plot.BLACK, "o"),
        ("gates", plot.ORANGE, "^"),
        ("size", plot.BLUE, "s"),
    ):
        times.plot(half, half_times(r, name), marker, color=colour, ms=4, label=CHOICES[name], alpha=0.8)
    low, high = times.dataLim.min.min(), times.dataLim.max.max()
    margin = 0.05 * (high - low)
    times.plot([low - margin, high + margin], [low - margin, high + margin], color=plot.BLACK, lw=0.7)
    times.set(xlabel="time to half loss, ReLU", ylabel="predicted", aspect="equal")
    times.set(xlim=(low - margin, high + margin), ylim=(low - margin, high + 9 * margin))
    times.legend(loc="upper left")
    caption = (
        "Left: the four samples, and the input weights of all hidden units of one trained ReLU network "
        f"(longest = 1). Middle: loss of the slowest, the middle and the fastest of {p.seeds} ReLU networks, "
        "and of gated networks in closed form. Right: when the loss is halved, with initial strengths by "
        "following each unit to its diagonal, from the gates that units have at first, and from the number N "
        "and the size of the weights; on the line, prediction and network agree."
    )
    return {"xor": (fig, caption)}


def claims(p: Xor, r: Results) -> list[Claim]:
    half = half_times(r, "loss")
    off = {name: half_times(r, name) / half - 1 for name in CHOICES}
    units, cells = cell_types(r), "neural_race Fig. 3a"
    gated_gap = np.abs(r["gated"]["loss"] - r["gated"]["theory"]).max()
    relu_gap = np.abs(r["relu"]["turned"] - r["relu"]["loss"]).max(axis=1)
    when = "theory / ReLU network - 1, time to half loss"
    rate = "What is left is the finite learning rate: the deviation is proportional to it."
    twice = "Early, because every unit counts for both samples on which it is active at the start."
    return [
        check.below(
            "gated-loss", "largest difference of the loss, gated network and theory", SOURCE, 1e-7, gated_gap
        ),
        finding.near(
            "half-time-units-followed", f"{when}, units followed to their diagonal", SOURCE, 0, off["turned"],
            0.01, rate,
        ),
        finding.near(
            "half-time-first-gates", f"{when}, gates as at the start", SOURCE, 0, off["gates"], 0.1, twice
        ),
        paper.near(
            "half-time-weight-size", f"{when}, from the number and size of weights alone", SOURCE, 0,
            off["size"], 0.1,
        ),
        paper.below(
            "relu-loss", "largest difference of the loss, ReLU network and theory", SOURCE, 0.01, relu_gap
        ),
        paper.above(
            "units-on-diagonals", "share of units on the four diagonals", cells, 0.99,
            units.sum(axis=1) / p.hidden,
        ),
        paper.above("cell-types", "units of the rarest of the four cell types", cells, 0, units.min(axis=1)),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "xor",
    "Exclusive or: a gated linear network follows a ReLU network",
    "neural_race Fig. 3, A.1",
    Xor(),
    Xor(seeds=3, lr=0.005),
    compute,
    figures,
    claims,
    (0.1, 0.1),
)
