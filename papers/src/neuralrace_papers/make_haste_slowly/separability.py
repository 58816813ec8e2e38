"""Exclusive or, with a third input that makes it linearly separable by a margin. A ReLU network may use
either: units that open for one sample each, or units that open for all samples of a sign. The two gated
linear networks race: their growth rates cross at a margin of sqrt(2/3), so networks from small weights still
solve the problem the nonlinear way where a linear one would do. Times to a fixed loss cross there too if both
have the same number of random units, half of them in a pathway of the one, a quarter in one of the other: the
linear pathways start twice as strong. If all pathways start equally strong, times cross later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import brentq

import neuralrace as nr
from neuralrace import plot
from neuralrace.measure import crossing, drawn_distance, growing_part
from neuralrace_papers.framework.claim import check, finding, paper
from neuralrace_papers.framework.declaration import claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option
from neuralrace_papers.framework.quotes import quoted
from neuralrace_papers.make_haste_slowly.modes import DRAWN, by_case

GATINGS = {"linear": plot.BLUE, "xor": plot.ORANGE}
PATHWAYS = {"linear": 2, "xor": 4}
LEVEL = 0.2
CROSSING = nr.exact.separability_crossover()


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
        "initial strengths a0 of xor pathways for which the margin of equal times is drawn",
    )

    @property
    def all_margins(self) -> list[float]:
        return sorted({*self.margins, *self.shown})

    @property
    def lrs(self) -> dict[str, float]:
        """Learning rates: near gradient flow, and as published."""
        return {"flow": self.fine, "published": self.lr}

    def a0(self, gating: str) -> float:
        """Expected growing part of the weights in a pathway: its share of the units, `|w + v|^2 / 4` each."""
        return self.hidden / PATHWAYS[gating] * self.variance / 2

    def growth(self, margin: Any) -> Any:
        """Growth rate of each layer of the faster gating, s of Eq. 24."""
        return np.maximum(margin / 2, np.sqrt(2 + margin**2) / 4)

    def faster(self, t: Any, margin: float) -> np.ndarray:
        """Loss of the gating that is the first to reach the level, from the mean strength of its pathways."""
        times = {g: nr.exact.separability_time(LEVEL, margin, g, self.a0(g)) for g in GATINGS}
        gating = min(times, key=times.__getitem__)
        return nr.exact.separability_loss(t, margin, gating, self.a0(gating))


@part(each=lambda p: [(kind, margin) for kind in p.lrs for margin in p.all_margins])
def networks(p: Separability, item: tuple[str, float]):
    """ReLU networks: loss over time, and how much of their weight is in units of either gating."""
    kind, margin = item
    x, y = nr.tasks.separability(margin).arrays
    steps = round(p.t1 / p.lrs[kind])
    schedule = (p.variance**0.5, p.lrs[kind], steps, min(steps, 200) + 1, range(p.seeds))
    net = nr.relu.train(x, y, [p.hidden], *schedule, objective="mean")
    gates = net.gates(-1)[0].astype(bool)
    size = nr.unit_sizes(*net.at(-1).values(), normalise=True)
    by_sign = (gates == (y > 0)).all(axis=1) | (gates == (y < 0)).all(axis=1)
    return {
        "t": ("t", net.t),
        "loss": ("run t", net.loss),
        "time": ("run", nr.learning_time(net, LEVEL)),
        "linear": ("run", (size * by_sign).sum(axis=1)),
        "xor": ("run", (size * (gates.sum(axis=1) == 1)).sum(axis=1)),
    }


@part(each=tuple(GATINGS))
def gap(p: Separability, gating: str):
    """Largest difference of the closed form and the flow of its gated network, for some margins."""
    margins, gaps = [0.5, CROSSING, 1.0, 2.0, 3.0], []
    for margin in margins if gating == "linear" else [0.0, *margins]:
        task = nr.tasks.separability(margin, gating, hidden=4)
        start = nr.init.decoupled(nr.reduce(task), 0.1)
        run = nr.flow(task, start, 40.0, 200, method=nr.Adaptive(1e-11, 1e-13))
        gaps.append(np.abs(run.loss - nr.exact.separability_loss(run.t, margin, gating, 0.01)).max())
    return {"loss": ("margin", gaps)}


@part
def starts(p: Separability):
    """Strengths that random weights give to the pathways of both gatings, and the margin of equal times.

    All units of a network are dealt out evenly to the pathways. What grows of a unit with input weights w and
    readout v is its part along the pathway's input direction u and the sign of its targets, `(w.u + v)/2`.
    """
    weights = nr.init.gaussian(nr.Graph.chain([3, p.hidden, 1]), p.variance**0.5, range(p.seeds))
    w, v = weights["x->h1"], weights["h1->y"]

    def times(margin: float) -> np.ndarray:
        """Learning time of both gatings, `(run, gating)`."""
        x, y = nr.tasks.separability(margin).arrays
        positive = y[:, 0] > 0
        found = []
        for gating, pathways in {"linear": [positive, ~positive], "xor": np.eye(len(x), dtype=bool)}.items():
            a0 = []
            for samples, k in zip(pathways, np.array_split(np.arange(p.hidden), len(pathways)), strict=True):
                u = (y * x)[samples].mean(axis=0)[:, None]
                grows = growing_part(w[:, k], v[..., k], u / (np.linalg.norm(u) or 1))
                a0.append((grows**2).sum(axis=(1, 2)))
            found.append(nr.exact.separability_time(LEVEL, margin, gating, np.mean(a0, axis=0)))
        return np.stack(found, axis=-1)

    return {
        "equal": ("run", [equal_margin(lambda m: np.subtract(*times(m)[run])) for run in range(p.seeds)]),
        "margin": ("margin", p.all_margins),
        "time": ("run margin gating", np.stack([times(m) for m in p.all_margins], axis=1)),
    }


def equal_margin(difference: Callable[[float], float]) -> float:
    """The margin at which a difference of both gatings is 0."""
    return np.asarray(brentq(difference, 0.1, 3.0)).item()


def equal_times(a0: float, ratio: float) -> float:
    """The margin at which both gatings reach the level at the same time, xor pathways from strength a0.

    Linear pathways start `ratio` times as strong.
    """
    time = nr.exact.separability_time
    return equal_margin(lambda m: time(LEVEL, m, "linear", ratio * a0) - time(LEVEL, m, "xor", a0))


def switch(networks: xr.Dataset) -> np.ndarray:
    """Margin at which more than half of the weight is in units of the linear gating, `(run,)`."""
    return crossing(networks.margin, networks.linear, 0.5, rising=True, axis=0)


@figure("separability")
def races(p: Separability, data):
    fig, (a, b, c) = plot.figure(1, 3, height=3.1)
    flow, published = by_case(data.networks, "margin").values()
    margins = np.linspace(0.02, p.all_margins[-1], 200)
    below = {"legend": {**plot.BELOW, "fontsize": 6}}
    for gating, colour in GATINGS.items():
        times = nr.exact.separability_time(LEVEL, margins, gating, p.a0(gating))
        plot.theory(a, margins, times, colour, f"{gating} gating, closed form")
    plot.points(a, flow.margin, flow.time.T, plot.BLACK, f"ReLU networks, rate {p.fine:g}")
    plot.points(a, published.margin, published.time.T, plot.GREEN, f"ReLU networks, rate {p.lr:g}", fmt="s")
    a.axvline(CROSSING, color=plot.BLACK, lw=0.8, ls="--", label="equal growth, √(2/3)")
    plot.label(a, "margin Δ", f"time to loss {LEVEL} (τ = 1)", "learning time", ylim=(0, p.t1), **below)
    for margin, colour in zip(p.shown, (plot.ORANGE, plot.PINK, plot.GREEN, plot.BLUE), strict=False):
        plot.runs(b, published.t, published.loss.sel(margin=margin), colour, f"ReLU networks, Δ = {margin:g}")
        for gating, style in (("linear", ":"), ("xor", "-")):
            theory = nr.exact.separability_loss(published.t.values, margin, gating, p.a0(gating))
            plot.theory(b, published.t, theory, colour, ls=style, lw=0.9)
    plot.key(b, {"xor gating, closed form": "-", "linear gating, closed form": ":"})
    plot.label(b, "time (τ = 1)", "mean loss", f"loss, rate {p.lr:g}", ylim=(0, 0.52), **below)
    equal = [[equal_times(a0, ratio) for a0 in p.starts] for ratio in (1, 2)]
    plot.theory(c, p.starts, equal[0], plot.BLACK, "equal times, equal strengths")
    plot.theory(c, p.starts, equal[1], plot.BLUE, "equal times, equal numbers of units")
    at = np.full(p.seeds, p.a0("xor"))
    c.plot(at, data.starts.equal, "D", color=plot.BLUE, ms=3, alpha=0.5, label="equal times, random weights")
    c.plot(at, switch(flow), "o", color=plot.RED, ms=3, alpha=0.5, label="ReLU networks switch")
    c.axhline(CROSSING, color=plot.BLACK, lw=0.8, ls="--", label="equal growth, √(2/3)")
    plot.label(c, "initial strength a0 of an xor pathway", "margin Δ", "crossing", xscale="log", **below)
    return fig, (
        "Left: learning time of both gatings from the mean initial strength of their pathways (lines) and "
        f"of ReLU networks ({p.seeds} seeds, mean and standard deviation) at the published learning rate "
        "and near gradient flow. Middle: loss over time at the published rate, networks as bands. Right: "
        "the margin at which both gatings take equally long, where all pathways start equally strong and "
        "where both networks have equally many random units; the same from the weights of each seed; and "
        "the margin at which half of the weight of a ReLU network is in units of the linear gating."
    )


FIG, APPENDIX = "make_haste_slowly Fig. 2", "make_haste_slowly C"
POINT = quoted(f"{FIG}d, C Eq. 24-26", "fig-2d-crossover")
TENTH = "a tenth of the learning time, chosen here for 'behaves like'"


@claims
def closed_forms(p: Separability, data):
    sides = quoted(APPENDIX, "c-sides")
    for gating, gap in data.gap.items():
        name, eqs = f"{gating} gating, closed form - flow, margins 0 to 3", check(f"{APPENDIX} Eq. 18-23")
        yield eqs.below(f"closed-form-{gating}", name, 1e-8, gap.loss.max())
    name = f"margin of equal times to loss {LEVEL}, from random weights"
    weights = "four times the spread over starts of 128 units"
    yield POINT.near("equal-times", name, CROSSING, data.starts.equal, 0.025, bound=weights)
    linear, xor = data.starts.time.mean("run").T
    right = (linear < xor) == (data.starts.margin > CROSSING)
    name = "margins at which the gating of that side is faster, share, from random weights"
    yield sides.near("faster-side", name, 1, right.mean(), 0, bound="the paper: all margins")
    later = equal_times(p.a0("xor"), 1) - CROSSING
    name = f"margin of equal times less sqrt(2/3), all pathways from a0 = {p.a0('xor'):.1e}"
    yield finding(FIG, "the tolerance of the row on equal times").above("equal-strengths", name, 0.025, later)


@claims
def relu_networks(p: Separability, data):
    faster = paper(f"{FIG}d", "The ReLU network behaves like the faster of the two gated networks.")
    curves = "The full trajectories of the simulation match the faster of the gated networks."
    trajectories = paper(f"{FIG}e", curves)
    boundary = quoted("make_haste_slowly section 3", "nonlinear-boundary")
    lag = f"Steps of {p.lr:g} are not small: growing modes lag behind the flow of the closed form."
    most = "nine tenths of the weight, chosen here for a network that is one of the two"
    networks = by_case(data.networks, "margin")
    notes = {"flow": ("", ""), "published": ("-published", lag)}
    flow, published = networks.values()
    margin = flow.margin
    name, grid = "ReLU networks, margin of the switch", "a step of the margins, for 'approximate'"
    yield POINT.near("relu-switch", name, CROSSING, switch(published), 0.1, bound=grid)
    # At margin 0 a unit along one sample is at the edge of two others.
    low = published.xor[(margin > 0) & (margin <= 0.5)].mean("margin")
    name = "weight in units of the xor gating, margin up to .5"
    yield boundary.above("xor-units-small-margin", name, 0.9, low, bound=most)
    name = "weight in units of the linear gating, margin from 1.2"
    high = published.linear[margin >= 1.2].mean("margin")
    yield faster.above("linear-units-large-margin", name, 0.9, high, bound=most)
    theory = np.min([nr.exact.separability_time(LEVEL, margin.values, g, p.a0(g)) for g in GATINGS], axis=0)
    off = np.abs(margin - CROSSING) > 0.3
    for kind, (suffix, note) in notes.items():
        late = (networks[kind].time / theory[:, None] - 1)[off].mean("margin")
        name = f"learning time of ReLU networks at rate {p.lrs[kind]:g} / faster gating - 1, off the crossing"
        yield faster.near(f"relu-time{suffix}", name, 0, late, 0.1, note, TENTH)
    # A step multiplies a layer by 1 + rate s, where the flow multiplies it by exp(rate s).
    slower = [rate * p.growth(margin) / np.log1p(rate * p.growth(margin)) for rate in (p.lr, p.fine)]
    late = (published.time / flow.time - slower[0] / slower[1]).mean("margin")
    name = f"learning time, rate {p.lr:g} / rate {p.fine:g}, less that of layers growing by 1 + rate s a step"
    yield finding(f"{FIG}d").near("published-rate", name, 0, late, 0.02)
    for kind, (suffix, note) in notes.items():
        loss = networks[kind].loss.sel(margin=list(p.shown))
        theory = np.stack([p.faster(loss.t.values, margin) for margin in p.shown])[:, None]
        apart = drawn_distance(loss.t, theory, loss).max(axis=0)
        which = f"loss of ReLU networks at rate {p.lrs[kind]:g}"
        name = f"{which}, from the faster gating, distance in the figure"
        yield trajectories.below(f"loss-curves{suffix}", name, 0.03, apart, note, DRAWN)


EXPERIMENT = Experiment(
    "separability",
    "From linear to nonlinear: which gating a ReLU network takes",
    "make_haste_slowly Fig. 2, C",
    Separability(),
    Separability(seeds=3, margins=(0.0, 0.3, 0.6, 0.8, 0.9, 1.0, 1.2, 1.6, 2.0), fine=0.05),
    minutes=(0.2, 0.3),
)
