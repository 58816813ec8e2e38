"""Two samples in many networks: deep and shallow, wide and narrow, convolutional, with skip connections or
dropout, with six activation functions. The effective theory describes each of them by two learning rates.
Here the networks are trained as in Table 1 of the paper, the rates are fitted, and the theory is compared
with how representations move, where they end and how the loss falls. It is also tried where it should fail:
from very large weights and with Adam."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from neuralrace import plot
from neuralrace.experiments.claim import Claim, check, finding, paper
from neuralrace.experiments.declaration import Data, claims, figure, part
from neuralrace.experiments.experiment import Experiment, Parameters, option
from neuralrace.measure import crossing
from neuralrace.universality import ZOO, Network, Training, final_distance, fit_runs, train, two_points

if TYPE_CHECKING:
    import xarray as xr

PAPER = "representations_align"
WEIGHTS = ("low", "default", "intermediate", "high", "very-high")
ARCHITECTURES = tuple(name for name in ZOO if name not in WEIGHTS[:1] + WEIGHTS[2:])
SERIES = {"dh2": ("|dh|² / largest", plot.BLUE), "dy2": ("|dy|²", plot.ORANGE), "w": ("w", plot.GREEN)}
TIMES = 301
BOUND, WORST = 0.05, 0.2  # shares of a series' largest value: root mean square over time, and largest
BOTH = "Networks pale and thick, the theory thin."
COLUMNS = 4


@dataclass(frozen=True)
class TwoPoint(Parameters):
    seeds: int = option(10, "random starts of each network, at dx = .5 and dy = 1", least=2)
    architectures: tuple[str, ...] = option(ARCHITECTURES, "networks of Table 1", choices=ARCHITECTURES)
    weights: tuple[str, ...] = option(WEIGHTS, "initial weights of the default network", choices=WEIGHTS)
    steps: int = option(6000, "steps of training", least=100)
    depth: int = option(20, "no network is deeper than this")
    width: int = option(500, "no network is wider than this")
    faster: float = option(1.0, "factor of all learning rates")
    grid: int = option(5, "values of dx from .5 to 1.5, and as many of dy from 0 to 1", least=2)
    adam: float = option(1e-5, "learning rate of Adam")
    adam_steps: int = option(600, "steps of training by Adam", least=100)

    def network(self, name: str) -> tuple[Network, float]:
        """A network of the paper, no larger than asked for, and its learning rate."""
        network, lr = ZOO[name]
        size = {"depth": min(network.depth, self.depth), "width": min(network.width, self.width)}
        return dataclasses.replace(network, **size), lr * self.faster


@part(each=lambda p: dict.fromkeys((*p.architectures, *p.weights)))
def networks(p: TwoPoint, name: str) -> xr.Dataset:
    """The theory fitted at dx = .5, dy = 1; for architectures, final distances over dx and dy too."""
    network, lr = p.network(name)
    grid = p.grid if name in p.architectures else 0
    dx, dy = (v.ravel() for v in np.meshgrid(np.linspace(0.5, 1.5, grid), np.linspace(0, 1, grid)))
    first = np.ones(p.seeds)
    x, y = two_points(np.concatenate([0.5 * first, dx]), np.concatenate([first, dy]))
    run = train(network, x, y, lr, p.steps, range(len(x)))
    fits = fitted(run[: p.seeds])
    if not grid:
        return fits
    dh2, dy2 = run.recorded["dh2"][p.seeds :, :, network.half - 1], run.recorded["dy2"][p.seeds :]
    rates = float(fits.rate_h.mean()), float(fits.rate_y.mean())
    return fits.assign(
        target=("trial", dy),
        end=("trial", dh2[:, -1]),
        end_theory=("trial", final_distance(dh2[:, 0], dy2[:, 0], dx, dy, *rates)),
        trial_converged=("trial", run.converged()[p.seeds :]),
    )


@part
def adam(p: TwoPoint) -> xr.Dataset:
    network, _ = p.network("default")
    return fitted(train(network, *two_points(), p.adam, p.adam_steps, range(p.seeds), optimizer="adam"))


def fitted(run: Training) -> xr.Dataset:
    """The fit of every run at the layer half way, over epochs; errors are 1 where there is no fit."""
    fits = fit_runs(run, loss=True, times=TIMES).isel(layer=0, drop=True)
    fits = fits.fillna(dict.fromkeys(("error", "errors", "error_from_start", "largest_error"), 1.0))
    epoch = np.rint(fits.t.values / run.settings["lr"])
    return fits.assign_coords(epoch=("t", epoch)).assign(converged=("run", run.converged()))


def plateau(fits: xr.Dataset) -> np.ndarray:
    """Time to a tenth over time to nine tenths of dy2 = 1, of each run; nan where it is not reached."""
    dy2 = fits.measured.sel(series="dy2").values
    tenth, most = (crossing(fits.epoch.values, dy2, level, rising=True) for level in (0.1, 0.9))
    return np.asarray(tenth / most)


def agreement(fits: xr.Dataset) -> tuple[float, float]:
    """Correlation and median ratio of final distances and Eq. 10 over the trials that converged."""
    keep = (fits.trial_converged & np.isfinite(fits.end_theory)).values
    theory, end = fits.end_theory.values[keep], fits.end.values[keep]
    apart = fits.target.values[keep] > 0  # for equal targets both are near zero, and their ratio says nothing
    if apart.sum() < 3:
        return np.nan, np.nan
    return float(np.corrcoef(theory, end)[0, 1]), float(np.median(end[apart] / theory[apart]))


def until_learned(fits: xr.Dataset) -> xr.Dataset:
    """The first run until it has learned, for a figure."""
    one = fits.isel(run=0)
    w = np.abs(one.measured.sel(series="w").values)
    last = max(np.flatnonzero(w > 0.02 * w.max()), default=len(w))
    return one.isel(t=slice(int(1.3 * last) + 5))


def draw_series(ax: Any, one: xr.Dataset, name: str, colour: str, label: str | None = None) -> None:
    measured, theory = one.measured.sel(series=name), one.theory.sel(series=name)
    size = float(measured.max()) if name == "dh2" else 1.0
    ax.plot(one.epoch, measured / size, color=colour, lw=3.2, alpha=0.4)
    plot.theory(ax, one.epoch, theory / size, colour, label)


def draw_distances(ax: Any, fits: xr.Dataset) -> None:
    one = until_learned(fits)
    for name, (label, colour) in SERIES.items():
        draw_series(ax, one, name, colour, label)
    ax.axhline(0, color=plot.BLACK, lw=0.4)
    ax.set_xlabel("epoch")


def draw_loss(ax: Any, fits: xr.Dataset) -> None:
    draw_series(ax, until_learned(fits), "loss", plot.RED)
    ax.set_ylim(0)
    ax.set_xlabel("epoch")


def draw_final(ax: Any, fits: xr.Dataset) -> None:
    good, theory, end = (fits[name].values for name in ("trial_converged", "end_theory", "end"))
    ax.plot(theory[good], end[good], "o", color=plot.BLUE, ms=3, alpha=0.7, mew=0)
    ax.plot(theory[~good], end[~good], "x", color=plot.RED, ms=3)
    top = 1.1 * max(np.nanmax(theory, initial=0.01), np.nanmax(end[good], initial=0.01))
    plot.theory(ax, [0, top], [0, top], lw=0.8)
    ax.set(xlim=(-0.03 * top, top), ylim=(-0.03 * top, top), xlabel="theory (Eq. 10)")


def draw_each(fits: Mapping[str, xr.Dataset], draw: Callable[..., None], ylabel: str) -> Figure:
    """A panel for each network."""
    fig, axes = plot.panels(list(fits), COLUMNS)
    for ax, one in zip(axes, fits.values(), strict=True):
        draw(ax, one)
    for ax in axes[::COLUMNS]:
        ax.set_ylabel(ylabel)
    if draw is draw_distances:
        fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig


def zoo(p: TwoPoint, data: Data) -> dict[str, xr.Dataset]:
    return {name: data.networks[name] for name in p.architectures}


@figure("zoo")
def distances(p: TwoPoint, data: Data) -> tuple[Figure, str]:
    caption = (
        f"Two samples in {len(p.architectures)} networks ({p.depth} layers of {p.width} units at most), one "
        "seed each: squared distances of representations and of outputs and their alignment, the theory "
        f"with both rates and the start fitted. {BOTH}"
    )
    return draw_each(zoo(p, data), draw_distances, "distances"), caption


@figure("loss")
def losses(p: TwoPoint, data: Data) -> tuple[Figure, str]:
    return draw_each(zoo(p, data), draw_loss, "loss"), f"Training loss of the same networks and Eq. 9. {BOTH}"


@figure("weights")
def initial_weights(p: TwoPoint, data: Data) -> tuple[Figure, str]:
    fig, axes = plot.figure(2, len(p.weights), width=plot.PAGE, height=3.6, squeeze=False, sharex="col")
    for (above, below), name in zip(axes.T, p.weights, strict=True):
        fits = data.networks[name]
        draw_distances(above, fits)
        draw_loss(below, fits)
        learned = "" if fits.converged[0] else ", not learned"
        above.set(title=f"gain {ZOO[name][0].gain:g}{learned}", xlabel="")
    axes[0, 0].set_ylabel("distances")
    axes[1, 0].set_ylabel("loss")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    caption = "The default network from small to very large initial weights, as gains of each layer."
    return fig, f"{caption} {BOTH}"


@figure("final")
def final_distances(p: TwoPoint, data: Data) -> tuple[Figure, str]:
    caption = (
        f"Final squared distances over {p.grid} x {p.grid} distances of inputs and of targets, against "
        f"Eq. 10 with rates averaged over {p.seeds} other trials; crosses did not converge."
    )
    return draw_each(zoo(p, data), draw_final, "final |dh|²"), caption


@figure("adam")
def descent_and_adam(p: TwoPoint, data: Data) -> tuple[Figure, str]:
    fits = {f"{name}, descent": f for name, f in data.networks.items() if name == "default"}
    fits["default, Adam"] = data.adam
    caption = f"The default network by descent and by Adam. {BOTH}"
    return draw_each(fits, draw_distances, "distances"), caption


NOTES = {
    "dropout": "Measured without dropout, outputs overshoot: at full size their squared distance is 1.3 "
    "after 1000 steps, and falls back to its target over thousands."
}
FROM_START = (
    "From the state that was observed at the start, as the paper fits. Effective rates are not constant: "
    "on the plateau they are far smaller than in the rise, so the observed start would rise too early."
)
WORST_MOMENT = "Much of the time nothing moves, which the mean over time rewards; this is the worst moment."
ELSEWHERE = "The rates were fitted at dx = .5, dy = 1; fitted elsewhere they would differ."


@claims
def dynamics(p: TwoPoint, data: Data) -> Iterator[Claim]:
    source, fits = f"{PAPER} Fig. 2", zoo(p, data)
    matches = paper(
        source,
        "Despite only needing to fit two constants, the theory matches all three curves quite well for all "
        "networks.",
    )
    for name, one in fits.items():
        what = f"{name}: error of the fit, as a share of each series' largest value"
        yield matches.below(f"fit-{name}", what, BOUND, one.error, NOTES.get(name, ""))
    alone = [float(one.error_from_start.mean()) for one in fits.values()]
    what = "error where the two rates alone are fitted, mean of each network"
    yield matches.below("fit-rates-alone", what, BOUND, alone, FROM_START)
    worst = [float(one.largest_error.mean()) for one in fits.values()]
    what = "largest error at any time, as a share of each series' largest value, mean of each network"
    yield finding(source).below("worst-moment", what, WORST, worst, WORST_MOMENT)
    loss = [float(one.errors.sel(series="loss").mean()) for one in fits.values()]
    yield paper(
        f"{PAPER} Fig. 11",
        "Just as with the dynamics of the 3-dimensional system, we can fit the loss expression from the "
        "theory Equation (9) to the training loss, amongst varying architectures, as is shown in Figure 11.",
    ).below("fit-loss", "error of the fitted loss, mean of each network", BOUND, loss)


@claims
def ends(p: TwoPoint, data: Data) -> Iterator[Claim]:
    source, fits = f"{PAPER} Fig. 5", zoo(p, data)
    predicts = paper(
        source,
        "By fitting these [effective learning rates] to the learning trajectories we can make predictions "
        "about the final representational, as shown in Figure 5.",
    )
    for name, one in fits.items():
        correlation, ratio = agreement(one)
        what = f"{name}: correlation of the final distance with Eq. 10"
        yield predicts.above(f"final-correlation-{name}", what, 0.9, correlation, ELSEWHERE)
        what = f"{name}: final distance / Eq. 10, median"
        yield predicts.near(f"final-ratio-{name}", what, 1, ratio, 0.1, ELSEWHERE)
    lost = [float(1 - one.trial_converged.mean()) for one in fits.values()]
    what = f"share of the {p.grid**2} trials of each network that did not converge"
    yield check(source).below("trials-converged", what, 0.1, lost, "These are left out of the correlations.")


@claims
def limits(p: TwoPoint, data: Data) -> Iterator[Claim]:
    source, fits = f"{PAPER} Fig. 3", data.networks
    waits = {name: plateau(fits[name]) for name in p.weights}
    learned = {name: float(np.nanmean(v)) for name, v in waits.items() if np.isfinite(v).any()}
    if len(learned) > 1:
        values = list(learned.values())
        note = f"By initial weights: {', '.join(f'{name} {v:.2f}' for name, v in learned.items())}."
        if never := ", ".join(name for name in waits if name not in learned):
            note += f" Not learned within {p.steps} steps: {never}."
        what = "time to 10% / time to 90% of the final distance of outputs"
        falls = (np.diff(values) < 0).all()
        yield paper(
            source,
            "Plateau-like behavior in the representational distance and loss can be seen at small "
            "initializations, but disappears at larger initial weights.",
        ).relation("plateau-shrinks", what, "falls with initial weights", values, falls, note)
    if "very-high" in p.weights:
        what = "very large initial weights: error of the fit, where the theory fails"
        yield paper(
            source,
            "At very high initial weights, when the representational distance starts off already large, the "
            "approximation breaks down as expected.",
        ).above("fit-very-large", what, BOUND, fits["very-high"].error)
    if "default" in fits:
        quote = "The fit is not very good, especially in the earlier part of the dynamics."
        ratio = data.adam.error / fits["default"].error.mean()
        what = "error of the fit with Adam / with descent"
        yield paper(f"{PAPER} Fig. 13", quote).above("fit-adam", what, 1.5, ratio)


EXPERIMENT = Experiment(
    "two-point",
    "Two samples in any network: the effective theory over architectures",
    "representations_align Fig. 2, 3, 5, 11, 13",
    TwoPoint(),
    TwoPoint(
        seeds=2, architectures=("default", "skip", "shallow"), weights=("default", "very-high"),
        steps=1500, depth=10, width=60, faster=4.0, grid=3, adam=1e-4, adam_steps=600,
    ),
    minutes=(0.5, 200),
    needs_full=("worst-moment", "trials-converged"),  # over eleven networks; here there are three
)  # fmt: skip
