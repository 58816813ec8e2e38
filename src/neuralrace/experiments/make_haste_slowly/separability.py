"""Exclusive or, with a third input that makes it linearly separable by a margin. A ReLU network may use
either: units that open for one sample each, or units that open for all samples of a sign. The two gated
linear networks race: their growth rates cross at a margin of sqrt(2/3), so networks from small weights still
solve the problem the nonlinear way where a linear one would do. Times to a fixed loss cross later, the later
the larger the initial weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.optimize import brentq

import neuralrace as nr
from neuralrace import plot
from neuralrace.experiments.claim import Claim, check, finding, paper
from neuralrace.experiments.declaration import Data, claims, figure, part
from neuralrace.experiments.experiment import Experiment, Parameters, option
from neuralrace.experiments.store import along
from neuralrace.measure import crossing

GATINGS = {"linear": plot.BLUE, "xor": plot.ORANGE}
PATHWAYS = {"linear": 2, "xor": 4}
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

    @property
    def all_margins(self) -> list[float]:
        return sorted({*self.margins, *self.shown})

    def a0(self, gating: str) -> float:
        """Expected growing part of the weights in a pathway: its share of the units, `|w + v|^2 / 4` each."""
        return self.hidden / PATHWAYS[gating] * self.variance / 2

    def train(self, margin: float, lr: float) -> dict[str, Any]:
        """ReLU networks: loss over time, and how much of their weight is in units of either gating."""
        x, y = nr.tasks.separability(margin).arrays
        steps, std, hidden = round(self.t1 / lr), self.variance**0.5, [self.hidden]
        save, seeds = min(steps, 200) + 1, range(self.seeds)
        net = nr.relu.train(x, y, hidden, std, lr, steps, save, seeds, objective="mean")
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


@part(each="all_margins")
def flow(p: Separability, margin: float) -> dict[str, Any]:
    """ReLU networks at a small learning rate."""
    return p.train(margin, p.fine)


@part(each="all_margins")
def published(p: Separability, margin: float) -> dict[str, Any]:
    """ReLU networks at the published learning rate."""
    return p.train(margin, p.lr)


@part(each=tuple(GATINGS))
def gap(p: Separability, gating: str) -> dict[str, Any]:
    """Largest difference of the closed form and the flow of its gated network, for some margins."""
    margins, gaps = [0.5, CROSSING, 1.0, 2.0, 3.0], []
    for margin in margins if gating == "linear" else [0.0, *margins]:
        task = nr.tasks.separability(margin, gating, hidden=4)
        start = nr.init.decoupled(nr.reduce(task), 0.1)
        run = nr.flow(task, start, 40.0, 200, method=nr.Adaptive(1e-11, 1e-13))
        gaps.append(np.abs(run.loss - nr.exact.separability_loss(run.t, margin, gating, 0.01)).max())
    return {"loss": ("margin", gaps)}


def equal_margin(difference: Callable[[float], float]) -> float:
    """The margin at which a difference of both gatings is 0."""
    return np.asarray(brentq(difference, 0.1, 3.0)).item()


def equal_times(a0: float) -> float:
    """The margin at which both gatings reach the level at the same time."""
    time = nr.exact.separability_time
    return equal_margin(lambda m: time(LEVEL, m, "linear", a0) - time(LEVEL, m, "xor", a0))


def switch(networks: xr.Dataset) -> np.ndarray:
    """Margin at which more than half of the weight is in units of the linear gating, `(run,)`."""
    return crossing(networks.margin, networks.linear, 0.5, rising=True, axis=0)


@figure("separability")
def races(p: Separability, data: Data) -> tuple[Figure, str]:
    fig, (a, b, c) = plot.figure(1, 3, height=2.5)
    networks, margins = along(data.flow, "margin"), np.linspace(0.02, p.all_margins[-1], 200)
    for gating, colour in GATINGS.items():
        times = nr.exact.separability_time(LEVEL, margins, gating, p.a0(gating))
        plot.theory(a, margins, times, colour, f"{gating} gating")
    plot.points(a, networks.margin, networks.time.T, plot.BLACK, "ReLU networks")
    a.axvline(CROSSING, color=plot.BLACK, lw=0.8, ls="--")
    a.set(xlabel="margin Δ", ylabel=f"time to loss {LEVEL}", ylim=(0, 45))
    a.set_xlim(-0.1, 1.3 * p.all_margins[-1])  # room for the legend
    a.legend()
    for margin, colour in zip(p.shown, (plot.ORANGE, plot.PINK, plot.GREEN, plot.BLUE), strict=False):
        plot.runs(b, networks.t, networks.loss.sel(margin=margin), colour, f"Δ = {margin:g}")
        for gating, style in (("linear", ":"), ("xor", "-")):
            theory = nr.exact.separability_loss(networks.t.values, margin, gating, p.a0(gating))
            plot.theory(b, networks.t, theory, colour, ls=style, lw=0.9)
    b.set(xlabel="time (τ = 1)", ylabel="loss", title="solid xor, dotted linear gating", ylim=(0, 0.72))
    b.legend(loc="upper center", ncols=2)
    plot.theory(c, p.starts, [equal_times(a) for a in p.starts], plot.BLACK, f"equal times to loss {LEVEL}")
    c.axhline(CROSSING, color=plot.BLACK, lw=0.8, ls="--", label="equal growth, √(2/3)")
    plot.points(c, [p.a0("xor")] * p.seeds, switch(networks), plot.RED, "ReLU networks switch", alpha=0.5)
    c.set(xscale="log", xlabel="initial strength a0", ylabel="margin Δ", ylim=(0.78, 1.1))
    c.legend(loc="upper left")
    caption = (
        "Left: learning time of both gatings from the mean initial strength of their pathways (lines) and of "
        f"ReLU networks ({p.seeds} seeds, mean and standard deviation). Middle: loss over time, networks as "
        "bands. Right: the margin at which both gatings take equally long, which tends to the crossing of "
        "the growth rates as initial weights fall; and where half of the weight of ReLU networks is in units "
        "of the linear gating."
    )
    return fig, caption


FIG, APPENDIX = "make_haste_slowly Fig. 2", "make_haste_slowly C"
POINT = paper(
    f"{FIG}d, C Eq. 24-26",
    "This crossover point is Delta = sqrt(2/3) (Figure 2d grey dashed line), which marks the approximate "
    "point at which a ReLU network switches from a linear decision boundary to a nonlinear boundary",
)


@claims
def closed_forms(p: Separability, data: Data) -> Iterator[Claim]:
    equal_rates = equal_margin(lambda m: m / 2 - np.sqrt(2 + m**2) / 4)
    yield POINT.near("crossover", "margin of equal growth rates", np.sqrt(2 / 3), equal_rates, 1e-12)
    for gating, difference in data.gap.items():
        name = f"{gating} gating, closed form - flow, margins 0 to 3"
        eqs = check(f"{APPENDIX} Eq. 18-23")
        yield eqs.below(f"closed-form-{gating}", name, 1e-8, difference.loss.max())
    for exponent, margin in ((3, 0.93), (8, 0.86)):
        name, equal = f"equal times to loss .2 at a0 = 1e-{exponent}", equal_times(10.0**-exponent)
        yield finding(FIG).near(f"equal-times-a0-1e-{exponent}", name, margin, equal, 0.01)
    equal = [equal_times(a) for a in p.starts]
    name, falls = "equal times fall towards sqrt(2/3) as a0 falls", (np.diff(equal) < 0).all()
    holds = falls and equal[-1] > CROSSING
    yield finding(FIG).relation("equal-times-limit", name, "decreasing, above", equal[-1], holds)


@claims
def relu_networks(p: Separability, data: Data) -> Iterator[Claim]:
    faster = paper(FIG, "The ReLU network behaves like the faster of the two gated networks.")
    networks = along(data.flow, "margin")
    margin = networks.margin
    name = "ReLU networks, margin of the switch"
    yield POINT.near("relu-switch", name, CROSSING, switch(networks), 0.15)
    # At margin 0 a unit along one sample is at the edge of two others.
    low = networks.xor[(margin > 0) & (margin <= 0.5)].mean("margin")
    name = "weight in units of the xor gating, margin up to .5"
    yield faster.above("xor-units-small-margin", name, 0.9, low)
    name = "weight in units of the linear gating, margin from 1.2"
    high = networks.linear[margin >= 1.2].mean("margin")
    yield faster.above("linear-units-large-margin", name, 0.9, high)
    theory = [nr.exact.separability_time(LEVEL, margin.values, g, p.a0(g)) for g in GATINGS]
    off = networks.time / np.min(theory, axis=0)[:, None] - 1
    name = "learning time of ReLU networks / faster gating - 1, off the crossing"
    yield faster.near("relu-time", name, 0, off[np.abs(margin - CROSSING) > 0.3].mean("margin"), 0.05)
    late = (along(data.published, "margin").time / networks.time - 1).mean("margin")
    lag = f"Steps of {p.lr:g} are not small: growing modes lag behind the flow."
    name = "learning time, published rate / flow - 1"
    yield finding(f"{FIG}d").near("published-rate", name, 0, late, 0.1, lag)


EXPERIMENT = Experiment(
    "separability",
    "From linear to nonlinear: which gating a ReLU network takes",
    "make_haste_slowly Fig. 2, C",
    Separability(),
    Separability(seeds=3, margins=(0.0, 0.3, 0.6, 0.8, 0.9, 1.0, 1.2, 1.6, 2.0), fine=0.05),
    minutes=(0.2, 0.3),
)
