"""Two samples in eleven networks: deep and shallow, wide and narrow, with convolutions, skip connections and
dropout, and different activation functions. The effective theory describes each by two learning rates, fitted
as in Eq. 49 from the observed start, and beside it with the start fitted too. It is compared with how
representations move, where they end and how the loss falls, also where it should fail: from very large
weights and with Adam. Networks are those of Table 1, on samples at the squared distances 1 and 1/2."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import plot
from neuralrace.universality import final_distance
from neuralrace_papers.framework import Data, Experiment, figure, part, require, rows
from neuralrace_papers.representations_align import fits as fit
from neuralrace_papers.representations_align.fits import COLOURS, SERIES, key
from neuralrace_papers.zoo import ZOO, Network, train

WEIGHTS = ("low", "default", "intermediate", "high", "very-high")
ARCHITECTURES = tuple(name for name in ZOO if name not in WEIGHTS[:1] + WEIGHTS[2:])
KINKS = {"torch": "leaky_relu_torch", "jax": "leaky_relu"}
LEARNED, ENDED = 1e-2, 1e-3  # losses below which a trial counts for the rates, and for the final distances
COLUMNS = 4


@dataclass(frozen=True)
class TwoPoint:
    seeds: Annotated[int, "trials of each network, over which rates are averaged"] = 50
    architectures: Annotated[tuple[str, ...], "networks of Table 1"] = ARCHITECTURES
    weights: Annotated[tuple[str, ...], "initial weights of the default network, in order"] = WEIGHTS
    dx2: Annotated[float, "squared distance of the inputs"] = 1.0
    dy2: Annotated[float, "squared distance of the targets"] = 0.5
    kink: Annotated[Literal["torch", "jax"], "slope of a leaky ReLU at 0: torch has 0.01, jax 1"] = "torch"
    steps: Annotated[int, "steps of training"] = 6000
    depth: Annotated[int, "no network is deeper than this"] = 20
    width: Annotated[int, "no network is wider than this"] = 500
    faster: Annotated[float, "factor of all learning rates"] = 1.0
    grid: Annotated[int, "values of dx from 0.5 to 1.5, and as many of dy from 0 to 1"] = 5
    grid_steps: Annotated[int, "steps of training at these"] = 16000
    adam: Annotated[float, "learning rate of Adam"] = 5e-7
    adam_steps: Annotated[int, "steps of training by Adam"] = 6000

    def __post_init__(self) -> None:
        require(set(self.architectures) <= set(ARCHITECTURES), f"architectures must be among {ARCHITECTURES}")
        require(set(self.weights) <= set(WEIGHTS), f"weights must be among {WEIGHTS}")

    @property
    def names(self) -> tuple[str, ...]:
        """All networks that are trained by descent."""
        return tuple(dict.fromkeys((*self.architectures, *self.weights)))

    def network(self, name: str) -> tuple[Network, float]:
        """A network of the paper, no larger than asked for, and its learning rate."""
        network, lr = ZOO[name]
        size = {"depth": min(network.depth, self.depth), "width": min(network.width, self.width)}
        leaky = network.activation in KINKS.values()
        activation = KINKS[self.kink] if leaky else network.activation
        return dataclasses.replace(network, activation=activation, **size), lr * self.faster


@part(each=lambda p: ("adam", *p.names))
def networks(p: TwoPoint, name: str):
    """The theory fitted to all trials; for architectures, final distances over dx and dy too."""
    pair, trials = nr.tasks.two_points(p.dx2, p.dy2).arrays, range(p.seeds)
    if name == "adam":
        network, _ = p.network("default")
        return fitted(train(network, *pair, p.adam, p.adam_steps, trials, optimizer="adam"))
    network, lr = p.network(name)
    if name not in p.architectures:
        return fitted(train(network, *pair, lr, p.steps, trials))
    dx, dy = (v.ravel() for v in np.meshgrid(np.linspace(0.5, 1.5, p.grid), np.linspace(0, 1, p.grid)))
    pairs = [pair] * p.seeds + [nr.tasks.two_points(*d).arrays for d in zip(dx**2, dy**2, strict=True)]
    x, y = (np.stack(v) for v in zip(*pairs, strict=True))
    both = train(network, x, y, lr, max(p.steps, p.grid_steps), range(len(x)))  # compiled once
    fits = fitted(until(both[: p.seeds], p.steps))
    run = until(both[p.seeds :], p.grid_steps)
    dh2, dy2 = run.recorded["dh2"][:, :, run.settings["half"] - 1], run.recorded["dy2"]
    rates = [float(fits[name].sel(fit="rates").where(fits.learned).mean()) for name in ("rate_h", "rate_y")]
    known = np.isfinite(rates).all()  # unless no trial learned
    theory = final_distance(dh2[:, 0], dy2[:, 0], dx, dy, *rates) if known else np.full(len(dx), np.nan)
    return fits.assign(
        target=("trial", dy),
        end=("trial", dh2[:, -1]),
        end_theory=("trial", theory),
        trial_learned=("trial", run.loss[:, -1] < ENDED),
    )


def until(run: nr.Trajectory, steps: int) -> nr.Trajectory:
    """The same runs until a step."""
    return nr.Trajectory.from_xarray(run.to_xarray().isel(t=slice(steps + 1)))


def fitted(run: nr.Trajectory) -> xr.Dataset:
    """Both fits of every run at the layer half way, over epochs; errors are 1 where there is no fit."""
    fits = fit.both_ways(run, loss=True).isel(layer=0, drop=True)
    fits = fits.fillna(dict.fromkeys(("error", "errors"), 1.0))
    epoch = np.rint(fits.t.values / run.settings["lr"])
    return fits.assign_coords(epoch=("t", epoch)).assign(learned=("run", run.loss[:, -1] < LEARNED))


def learned_ones(fits: xr.Dataset) -> xr.Dataset:
    """The trials that learned, as in the paper; all of them where none did."""
    return fits.isel(run=fits.learned.values) if fits.learned.any() else fits


def agreement(fits: xr.Dataset) -> tuple[float, float]:
    """Correlation and median ratio of final distances and Eq. 10 over the trials that learned."""
    keep = (fits.trial_learned & np.isfinite(fits.end_theory)).values
    theory, end = fits.end_theory.values[keep], fits.end.values[keep]
    apart = fits.target.values[keep] > 0  # for equal targets both are near zero, and their ratio says nothing
    if apart.sum() < 3:
        return np.nan, np.nan
    return float(np.corrcoef(theory, end)[0, 1]), float(np.median(end[apart] / theory[apart]))


def until_learned(fits: xr.Dataset) -> xr.Dataset:
    """The first trial that learned, until it has, for a figure."""
    one = learned_ones(fits).isel(run=0)
    w = np.abs(one.measured.sel(series="w").values)
    last = max(np.flatnonzero(w > 0.02 * w.max()), default=len(w))
    return one.isel(t=slice(int(1.3 * last) + 5))


def draw_distances(ax: Any, fits: xr.Dataset) -> None:
    one = until_learned(fits)
    for name, (_, colour) in SERIES.items():
        size = float(one.measured.sel(series=name).max()) if name == "dh2" else 1.0
        fit.draw_series(ax, one.epoch, one, name, colour, size)
    ax.axhline(0, color="0.7", lw=0.4, zorder=0)
    plot.label(ax, "epoch")


def draw_loss(ax: Any, fits: xr.Dataset) -> None:
    one = until_learned(fits)
    fit.draw_series(ax, one.epoch, one, "loss", plot.RED)
    plot.label(ax, "epoch", ylim=(0, None))


def draw_final(ax: Any, fits: xr.Dataset) -> None:
    good, theory, end = (fits[name].values for name in ("trial_learned", "end_theory", "end"))
    ax.plot(theory[good], end[good], "o", color=plot.BLUE, ms=3, alpha=0.7, mew=0, label="a trial")
    ax.plot(theory[~good], end[~good], "x", color=plot.RED, ms=3, label="a trial that did not converge")
    top = 1.1 * max(np.nanmax(theory, initial=0.01), np.nanmax(end[good], initial=0.01))
    plot.theory(ax, [0, top], [0, top], label="as predicted", lw=0.8)
    ax.set(xlim=(-0.03 * top, top), ylim=(-0.03 * top, top), xlabel="|dh|² by Eq. 10")


def draw_each(
    fits: Mapping[str, xr.Dataset], draw: Callable[..., None], ylabel: str, colours: Mapping[str, str]
) -> Figure:
    """A panel for each network; the legend tells the colours of series, or else what the panels have."""
    columns = min(COLUMNS, len(fits))
    lines = -(-len(fits) // columns)
    fig, grid = plot.figure(lines, columns, plot.PAGE, 1.75 * lines + 0.35, squeeze=False)
    axes = list(grid.flat)
    for ax in axes[len(fits) :]:
        ax.set_axis_off()
    for ax, (name, one) in zip(axes, fits.items(), strict=False):
        with plot.style():
            ax.set_title(name)
        draw(ax, one)
    plot.label(axes[: len(fits) : columns], y=ylabel)
    handles = key(colours) if colours else axes[0].get_legend_handles_labels()[0]
    fig.legend(handles=handles, loc="outside upper center", ncols=3)
    return fig


def zoo(p: TwoPoint, data: Data) -> dict[str, xr.Dataset]:
    return {name: data.networks[name] for name in p.architectures}


@figure("zoo")
def distances(p: TwoPoint, data: Data):
    return draw_each(zoo(p, data), draw_distances, "squared distance", COLOURS), (
        f"Two samples in {len(p.architectures)} networks (at most {p.depth} layers of {p.width} units): "
        "squared distances of representations and of outputs, and their alignment w, in the first of "
        f"{p.seeds} trials each that learned. The inputs lie at a squared distance of {p.dx2:g}, the targets "
        f"at {p.dy2:g}, as in the authors' code."
    )


@figure("loss")
def losses(p: TwoPoint, data: Data):
    fig = draw_each(zoo(p, data), draw_loss, "loss", {"loss": plot.RED})
    return fig, "Training loss of the same networks and Eq. 9, with the third rate fitted."


@figure("weights")
def initial_weights(p: TwoPoint, data: Data):
    fig, axes = plot.figure(2, len(p.weights), width=plot.PAGE, height=3.8, squeeze=False, sharex="col")
    for (above, below), name in zip(axes.T, p.weights, strict=True):
        fits = data.networks[name]
        draw_distances(above, fits)
        draw_loss(below, fits)
        learned = "" if fits.learned[0] else ", not learned"
        above.set(title=f"gain {ZOO[name][0].gain:g}{learned}", xlabel="")
    axes[0, 0].set_ylabel("squared distance")
    axes[1, 0].set_ylabel("loss")
    fig.legend(handles=key({**COLOURS, "loss": plot.RED}), loc="outside upper center", ncols=4)
    return fig, (
        "The default network from small to very large initial weights, as gains of each layer: distances "
        "(above), and the loss with Eq. 9 (below)."
    )


@figure("final")
def final_distances(p: TwoPoint, data: Data):
    return draw_each(zoo(p, data), draw_final, "|dh|² at the end", {}), (
        f"Final squared distances of representations for {p.grid} distances of inputs (0.5 to 1.5) and "
        f"{p.grid} of targets (0 to 1), against Eq. 10 with rates averaged over {p.seeds} other trials. "
        f"Training ends after {p.grid_steps} steps, since the {p.steps} of Table 1 are too few for near "
        "targets."
    )


@figure("adam")
def descent_and_adam(p: TwoPoint, data: Data):
    fits = {f"{name}, descent": f for name, f in data.networks.items() if name == "default"}
    fits["default, Adam"] = data.networks["adam"]
    return draw_each(fits, draw_distances, "squared distance", COLOURS), (
        f"The default network by gradient descent and by Adam, whose learning rate of {p.adam:g} is that of "
        "the authors' code."
    )


@rows
def dynamics(p: TwoPoint, data: Data):
    """How well two rates describe each network (Eq. 49), and the loss with one more."""
    left, loss = {}, {}
    for name in (name for name in p.names if name != "very-high"):
        fits = learned_ones(data.networks[name])
        left[name], loss[name] = fit.left_over(fits), fits.errors.sel(series="loss", fit="rates")
        yield f"fit-rates-{name}", left[name]
        yield f"fit-{name}", fits.error.sel(fit="start")
        yield f"fit-loss-{name}", loss[name]
    yield "fit-rates-networks", [float(left[name].mean()) for name in p.architectures]
    for row, errors in (("fit-rates-worst", left), ("fit-loss-worst", loss)):
        yield row, errors[max(p.architectures, key=lambda name: float(errors[name].mean()))]
    yield "learned", [float(data.networks[name].learned.mean()) for name in p.names]


@rows
def ends(p: TwoPoint, data: Data):
    """Final distances and Eq. 10, at other distances of inputs and targets than those of the fits."""
    found = {name: agreement(one) for name, one in zoo(p, data).items()}
    for name, (correlation, ratio) in found.items():
        yield f"final-correlation-{name}", correlation
        yield f"final-ratio-{name}", ratio
    yield "final-correlation", [correlation for correlation, _ in found.values()]


@rows
def limits(p: TwoPoint, data: Data):
    """Plateaus by initial weights; very large weights and Adam, where the theory fails."""
    fits = {name: learned_ones(data.networks[name]) for name in p.weights}
    first, last = fits[p.weights[0]], fits[p.weights[-1]]
    for row, series in (("plateau-shrinks", "dy2"), ("plateau-shrinks-distance", "dh2")):
        yield row, fit.plateau(last, series) / fit.plateau(first, series).mean()
    losses = {name: fit.loss_plateau(one, p.dy2) for name, one in fits.items()}
    yield "plateau-shrinks-loss", losses[p.weights[-1]] / losses[p.weights[0]].mean()
    for name, ratio in losses.items():
        yield f"plateau-loss-{name}", ratio
    if "very-high" in fits:
        yield "fit-very-large", fit.left_over(fits["very-high"])
    adam = learned_ones(data.networks["adam"])
    yield "fit-adam", fit.left_over(adam)
    yield "fit-adam-early", fit.early_over_late(adam, p.dy2)


EXPERIMENT = Experiment(
    "two-point",
    "Two samples in any network: the effective theory over architectures",
    "representations_align Fig. 2, 3, 5, 11, 13",
    TwoPoint(),
    quick={
        "seeds": 2, "architectures": ("default", "skip", "shallow"), "weights": ("default", "very-high"),
        "steps": 1500, "depth": 10, "width": 60, "faster": 4.0, "grid": 3, "grid_steps": 3000, "adam": 1e-5,
        "adam_steps": 1500,
    },
    minutes=(0.5, 600),
)  # fmt: skip
