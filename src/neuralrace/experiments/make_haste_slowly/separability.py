"""Exclusive or, with a third input that makes it linearly separable by a margin. A ReLU network may use
either: units that open for one sample each, or units that open for all samples of a sign. The two gated
linear networks race: their growth rates cross at a margin of sqrt(2/3), so networks from small weights still
solve the problem the nonlinear way where a linear one would do. Times to a fixed loss cross later, the later
the larger the initial weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import brentq

import neuralrace as nr
from neuralrace import plot
from neuralrace.experiments.old import (
    Claim,
    Experiment,
    Parameters,
    Parts,
    Results,
    check,
    finding,
    option,
    paper,
    stacked,
)
from neuralrace.measure import crossing

FIG, APPENDIX = "make_haste_slowly Fig. 2", "make_haste_slowly C"
GATINGS = {"linear": plot.BLUE, "xor": plot.ORANGE}
LEVEL = 0.2
CROSSING = nr.exact.separability_crossover()


@dataclass(frozen=True)
class Separability(Parameters):
    seeds: int = option(20, "random starts of each network")
    hidden: int = option(128, "units of the ReLU networks")
    variance: float = option(4e-8 / 128, "variance of their initial weights")
    lr: float = option(0.4, "published learning rate, on the mean loss")
    fine: float = option(0.02, "small learning rate, near gradient flow")
    t1: float = option(45.0, "end of training, flow time")
    margins: tuple[float, ...] = option(
        tuple(np.linspace(0, 2, 21).round(2).tolist()), "margins of linear separability, delta", least=0
    )
    shown: tuple[float, ...] = option((0.0, 0.6, 1.0, 2.0), "margins whose loss curves are drawn", least=0)
    starts: tuple[float, ...] = option(
        tuple(10.0 ** -np.arange(2, 31, 2)),
        "initial strengths a0 for which the margin of equal times is computed",
    )

    def a0(self, gating: str) -> float:
        """Expected growing part of the weights in a pathway: its share of the units, `|w + v|^2 / 4` each."""
        pathways = 2 if gating == "linear" else 4
        return self.hidden / pathways * self.variance / 2


def compute(p: Separability, parts: Parts) -> Results:
    margins = sorted({*p.margins, *p.shown})
    return {
        "flow": {"margin": np.array(margins), **stacked(parts.each("fine", train, margins, p, p.fine))},
        "published": {"margin": np.array(margins), **stacked(parts.each("rate", train, margins, p, p.lr))},
        "gap": parts("gap", gap, p),
    }


def train(margin: float, p: Separability, lr: float) -> dict[str, Any]:
    """ReLU networks: loss over time, and how much of their weight is in units of either gating."""
    x, y = nr.tasks.separability(margin, graph=nr.Graph.chain([3, p.hidden, 1])).arrays
    steps = round(p.t1 / lr)
    net = nr.relu.train(
        x, y, [p.hidden], p.variance**0.5, lr, steps, min(steps, 200) + 1, range(p.seeds), objective="mean"
    )
    gates = net.gates(-1)[0].astype(bool)
    size = np.linalg.norm(net.at(-1)["x->h1"], axis=-1) * np.abs(net.at(-1)["h1->y"][:, 0])
    same = (gates == (y > 0)).all(axis=1) | (gates == (y < 0)).all(axis=1)
    share = [(size * kind).sum(axis=1) / size.sum(axis=1) for kind in (same, gates.sum(axis=1) == 1)]
    time = nr.learning_time(net, LEVEL)
    return {"t": net.t, "loss": net.loss, "time": time, **dict(zip(GATINGS, share, strict=True))}


def gap(p: Separability) -> dict[str, Any]:
    """Largest difference of the closed forms and the flow of their gated networks, over margins."""
    worst = {}
    for gating in GATINGS:
        found = []
        for margin in (0.0, 0.5, CROSSING, 1.0, 2.0, 3.0):
            if gating == "linear" and margin == 0:
                continue
            task = nr.tasks.separability(margin, gating, hidden=4)
            r = nr.reduce(task)
            run = nr.flow(task, nr.init.decoupled(r, 0.1), 40.0, 200, method=nr.Adaptive(1e-11, 1e-13))
            found.append(np.abs(run.loss - nr.exact.separability_loss(run.t, margin, gating, 0.01)).max())
        worst[gating] = max(found)
    return worst


def learning_time(margin: Any, gating: str, a0: Any) -> Any:
    """When the closed form reaches the level: the logistic curve, solved for time."""
    length, share = (margin, 2) if gating == "linear" else (np.sqrt(2 + np.square(margin)), 4)
    learned, start = 1 - np.sqrt(2 * LEVEL), a0 * length
    with np.errstate(divide="ignore"):
        return share / (2 * np.asarray(length)) * np.log(learned * (1 - start) / (start * (1 - learned)))


def equal_times(a0: float) -> float:
    """The margin at which both gatings reach the level at the same time."""
    ahead = lambda margin: learning_time(margin, "linear", a0) - learning_time(margin, "xor", a0)  # noqa: E731
    return np.asarray(brentq(ahead, 0.1, 3.0)).item()


def switch(found: Results) -> np.ndarray:
    """Margin at which more than half of the weight is in units of the linear gating, `(seeds,)`."""
    return np.array([crossing(found["margin"], 1 - v, 0.5) for v in found["linear"].T])


def figures(p: Separability, r: Results) -> dict[str, tuple[Figure, str]]:
    fig, (a, b, c) = plot.figure(1, 3, height=2.5)
    flow, margins = r["flow"], np.linspace(0.02, max(r["flow"]["margin"]), 200)
    for gating, colour in GATINGS.items():
        plot.theory(a, margins, learning_time(margins, gating, p.a0(gating)), colour, f"{gating} gating")
    plot.points(a, flow["margin"], flow["time"].T, plot.BLACK, "ReLU networks")
    a.axvline(CROSSING, color=plot.BLACK, lw=0.8, ls="--")
    a.set(xlabel="margin Δ", ylabel=f"time to loss {LEVEL}", ylim=(0, 45))
    a.legend()
    for margin, colour in zip(p.shown, (plot.ORANGE, plot.PINK, plot.GREEN, plot.BLUE), strict=False):
        k = int(np.searchsorted(flow["margin"], margin))
        plot.runs(b, flow["t"][k], flow["loss"][k], colour, f"Δ = {margin:g}")
        for gating, style in (("linear", ":"), ("xor", "-")):
            theory = nr.exact.separability_loss(flow["t"][k], margin, gating, p.a0(gating))
            plot.theory(b, flow["t"][k], theory, colour, ls=style, lw=0.9)
    b.set(xlabel="time (τ = 1)", ylabel="loss", title="solid xor, dotted linear gating", ylim=(0, 0.72))
    b.legend(loc="upper center", ncols=2)
    plot.theory(c, p.starts, [equal_times(a) for a in p.starts], plot.BLACK, f"equal times to loss {LEVEL}")
    c.axhline(CROSSING, color=plot.BLACK, lw=0.8, ls="--", label="equal growth, √(2/3)")
    plot.points(c, [p.a0("xor")] * p.seeds, switch(flow), plot.RED, "ReLU networks switch", alpha=0.5)
    c.set(xscale="log", xlabel="initial strength a0", ylabel="margin Δ", ylim=(0.78, 1.1))
    c.legend(loc="upper left")
    caption = (
        "Left: learning time of both gatings from the mean initial strength of their pathways (lines) and of "
        f"ReLU networks ({p.seeds} seeds, mean and standard deviation). Middle: loss over time, networks as "
        "bands. Right: the margin at which both gatings take equally long, which tends to the crossing of "
        "the growth rates as initial weights fall; and where half of the weight of ReLU networks is in units "
        "of the linear gating."
    )
    return {"separability": (fig, caption)}


def claims(p: Separability, r: Results) -> list[Claim]:
    cross = brentq(lambda m: m / 2 - np.sqrt(2 + m**2) / 4, 0.1, 3)
    tends = [equal_times(a) for a in p.starts]
    flow = r["flow"]
    theory = np.minimum(*(learning_time(flow["margin"], g, p.a0(g)) for g in GATINGS))
    off = flow["time"] / theory[:, None] - 1
    far = np.abs(flow["margin"] - CROSSING) > 0.3
    late = r["published"]["time"] / flow["time"] - 1
    # At margin 0 a unit along one sample is at the edge of two others.
    low = flow["xor"][(flow["margin"] > 0) & (flow["margin"] <= 0.5)]
    high = flow["linear"][flow["margin"] >= 1.2]
    eqs, lag = f"{APPENDIX} Eq. 18-23", f"Steps of {p.lr:g} are not small: growing modes lag behind the flow."
    return [
        paper.near(
            "crossover", "margin of equal growth rates", f"{APPENDIX} Eq. 24-26", np.sqrt(2 / 3), cross,
            1e-12,
        ),
        *(
            check.below(
                f"closed-form-{g}", f"{g} gating, closed form - flow, margins 0 to 3", eqs, 1e-8, r["gap"][g]
            )
            for g in GATINGS
        ),
        finding.near(
            "equal-times-a0-1e-3", "equal times to loss .2 at a0 = 1e-3", FIG, 0.93, equal_times(1e-3), 0.01
        ),
        finding.near(
            "equal-times-a0-1e-8", "equal times to loss .2 at a0 = 1e-8", FIG, 0.86, equal_times(1e-8), 0.01
        ),
        finding.relation(
            "equal-times-limit", "equal times fall towards sqrt(2/3) as a0 falls", FIG, "decreasing, above",
            tends[-1], bool((np.diff(tends) < 0).all() and tends[-1] > CROSSING),
        ),
        paper.near(
            "relu-switch", "ReLU networks, margin of the switch", f"{FIG}d", CROSSING, switch(flow), 0.15
        ),
        paper.above(
            "xor-units-small-margin", "weight in units of the xor gating, margin up to .5", FIG, 0.9,
            low.mean(axis=0),
        ),
        paper.above(
            "linear-units-large-margin", "weight in units of the linear gating, margin from 1.2", FIG, 0.9,
            high.mean(axis=0),
        ),
        paper.near(
            "relu-time", "learning time of ReLU networks / faster gating - 1, off the crossing", f"{FIG}d", 0,
            off[far].mean(axis=0), 0.05,
        ),
        finding.near(
            "published-rate", "learning time, published rate / flow - 1", f"{FIG}d", 0, late.mean(axis=0),
            0.1, lag,
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "separability",
    "From linear to nonlinear: which gating a ReLU network takes",
    "make_haste_slowly Fig. 2, C",
    Separability(),
    Separability(seeds=3, margins=(0.0, 0.3, 0.6, 0.8, 0.9, 1.0, 1.2, 1.6, 2.0), fine=0.05),
    compute,
    figures,
    claims,
    (0.2, 0.3),
)
