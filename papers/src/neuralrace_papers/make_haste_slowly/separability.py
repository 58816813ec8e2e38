"""Exclusive or, with a third input that makes it linearly separable by a margin. A ReLU network may use
either: units that open for one sample each, or units that open for all samples of a sign. The two gated
linear networks race: their growth rates cross at a margin of sqrt(2/3), so networks from small weights still
solve the problem the nonlinear way where a linear one would do. Times to a fixed loss cross there too if both
have the same number of random units, half of them in a pathway of the one, a quarter in one of the other: the
linear pathways start twice as strong. If all pathways start equally strong, times cross later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import xarray as xr
from scipy.optimize import brentq

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework import Data, Experiment, figure, part, rows
from neuralrace_papers.make_haste_slowly.modes import by_case

GATINGS = {"linear": plot.BLUE, "xor": plot.ORANGE}
PATHWAYS = {"linear": 2, "xor": 4}
LEVEL = 0.2
CROSSING = nr.exact.separability_crossover()


@dataclass(frozen=True)
class Separability:
    seeds: Annotated[int, "random starts of each network"] = 20
    hidden: Annotated[int, "units of the ReLU networks"] = 128
    variance: Annotated[float, "variance of their initial weights"] = 4e-8 / 128
    lr: Annotated[float, "published learning rate, on the mean loss"] = 0.4
    fine: Annotated[float, "small learning rate, near gradient flow"] = 0.02
    t1: Annotated[float, "end of training, flow time"] = 45.0
    margins: Annotated[tuple[float, ...], "margins of linear separability, delta"] = tuple(
        np.linspace(0, 2, 21).round(2).tolist()
    )
    shown: Annotated[tuple[float, ...], "margins whose loss curves are drawn"] = (0.0, 0.6, 1.0, 2.0)
    starts: Annotated[
        tuple[float, ...], "initial strengths a0 of xor pathways for which the margin of equal times is drawn"
    ] = tuple(10.0 ** -np.arange(2, 31, 2))

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

    def losses(self, t: Any, margin: float) -> np.ndarray:
        """Loss of both gatings, from the mean strength of their pathways, `(gating, t)`."""
        return np.stack([nr.exact.separability_loss(t, margin, g, self.a0(g)) for g in GATINGS])

    def times(self, margin: Any) -> np.ndarray:
        """Learning time of both gatings, `(gating, margin)`."""
        return np.stack([nr.exact.separability_time(LEVEL, margin, g, self.a0(g)) for g in GATINGS])


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
                grows = nr.measure.growing_part(w[:, k], v[..., k], u / (np.linalg.norm(u) or 1))
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
    return nr.measure.crossing(networks.margin, networks.linear, 0.5, rising=True, axis=0)


@figure("separability")
def races(p: Separability, data: Data):
    fig, (a, b, c) = plot.figure(1, 3, height=3.1)
    flow, published = by_case(data.networks, "margin").values()
    margins = np.linspace(0.02, p.all_margins[-1], 200)
    below = {"legend": {**plot.BELOW, "fontsize": 6}}
    for (gating, colour), times in zip(GATINGS.items(), p.times(margins), strict=True):
        plot.theory(a, margins, times, colour, f"{gating} gating, closed form")
    plot.points(a, flow.margin, flow.time.T, plot.BLACK, f"ReLU networks, rate {p.fine:g}")
    plot.points(a, published.margin, published.time.T, plot.GREEN, f"ReLU networks, rate {p.lr:g}", fmt="s")
    a.axvline(CROSSING, color=plot.BLACK, lw=0.8, ls="--", label="equal growth, √(2/3)")
    plot.label(a, "margin Δ", f"time to loss {LEVEL} (τ = 1)", "learning time", ylim=(0, p.t1), **below)
    for margin, colour in zip(p.shown, (plot.ORANGE, plot.PINK, plot.GREEN, plot.BLUE), strict=False):
        plot.runs(b, published.t, published.loss.sel(margin=margin), colour, f"ReLU networks, Δ = {margin:g}")
        for theory, style in zip(p.losses(published.t.values, margin), (":", "-"), strict=True):
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
        "where both networks have equally many random units. Beside it the same from the weights of each "
        "seed, and the margin at which half of the weight of a ReLU network is in units of the linear gating."
    )


@rows
def gated_networks(p: Separability, data: Data):
    yield "equal-times", data.starts.equal
    linear, xor = data.starts.time.mean("run").T
    yield "faster-side", ((linear < xor) == (data.starts.margin > CROSSING)).mean()
    yield "equal-strengths", equal_times(p.a0("xor"), 1) - CROSSING


@rows
def relu_networks(p: Separability, data: Data):
    every = by_case(data.networks, "margin")
    flow, published = every.values()
    margin, t = flow.margin, published.t.values
    yield "relu-switch", switch(published)
    # At margin 0 a unit along one sample is at the edge of two others.
    yield "xor-units-small-margin", published.xor[(margin > 0) & (margin <= 0.5)].mean("margin")
    yield "linear-units-large-margin", published.linear[margin >= 1.2].mean("margin")
    off = np.abs(margin - CROSSING) > 0.3
    theory = p.times(margin.values)
    for suffix, networks in zip(("", "-published"), every.values(), strict=True):
        late = networks.time / theory.min(axis=0)[:, None] - 1
        yield f"relu-time{suffix}", late[off].mean("margin")
        faster = [p.losses(networks.t.values, m)[theory[:, margin.values == m].argmin()] for m in p.shown]
        loss = networks.loss.sel(margin=list(p.shown))
        apart = nr.measure.drawn_distance(networks.t, np.stack(faster)[:, None], loss)
        yield f"loss-curves{suffix}", apart.mean(axis=0)
    other = published.time / theory.max(axis=0)[:, None] - 1
    yield "slower-gating", other[off & np.isfinite(theory.max(axis=0))].mean("margin")
    both = np.stack([p.losses(t, m) for m in margin.values])[:, :, None]
    nearer = nr.measure.drawn_distance(t, both, published.loss.values[:, None]).min(axis=1)
    yield "one-always-matches", nearer.max(axis=0)
    # A step multiplies a layer by 1 + rate s, where the flow multiplies it by exp(rate s), s of Eq. 24.
    s = np.maximum(margin / 2, np.sqrt(2 + margin**2) / 4)
    slower = [rate * s / np.log1p(rate * s) for rate in (p.lr, p.fine)]
    yield "published-rate", (published.time / flow.time - slower[0] / slower[1]).mean("margin")


EXPERIMENT = Experiment(
    "separability",
    "From linear to nonlinear: which gating a ReLU network takes",
    "make_haste_slowly Fig. 2, C",
    Separability(),
    quick={"seeds": 3, "margins": (0.0, 0.3, 0.6, 0.8, 0.9, 1.0, 1.2, 1.6, 2.0), "fine": 0.05},
    minutes=(0.2, 0.3),
)
