"""Two samples in eleven networks: deep and shallow, wide and narrow, with convolutions, skip connections and
dropout, and different activation functions. The effective theory describes each by two learning rates. Here
the networks are trained as in Table 1 of the paper, on two samples at the squared distances 1 (inputs) and
1/2 (targets). The rates are fitted as in Eq. 49, from the start that was observed, and beside it with the
start fitted too. The theory is compared with how representations move, where they end and how the loss falls.
It is also tried where it should fail: from very large weights and with Adam."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import plot
from neuralrace.universality import Training, final_distance
from neuralrace_papers.framework.claim import CHOSEN, Claim, Statement, check, finding, paper
from neuralrace_papers.framework.declaration import Data, claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option
from neuralrace_papers.framework.quotes import quoted
from neuralrace_papers.representations_align import fits as fit
from neuralrace_papers.representations_align.fits import COLOURS, SERIES, key
from neuralrace_papers.zoo import ZOO, Network, train

PAPER = "representations_align"
WEIGHTS = ("low", "default", "intermediate", "high", "very-high")
ARCHITECTURES = tuple(name for name in ZOO if name not in WEIGHTS[:1] + WEIGHTS[2:])
KINKS = {"torch": "leaky_relu_torch", "jax": "leaky_relu"}
BOUND, WORST = 0.05, 0.2  # shares of a series' largest value: root mean square over time, and largest
LEARNED, ENDED = 1e-2, 1e-3  # losses below which a trial counts for the rates, and for the final distances
COLUMNS = 4


class TwoPoint(Parameters):
    seeds: int = option(50, "trials of each network, over which rates are averaged", least=2)
    architectures: tuple[str, ...] = option(ARCHITECTURES, "networks of Table 1", choices=ARCHITECTURES)
    weights: tuple[str, ...] = option(WEIGHTS, "initial weights of the default network", choices=WEIGHTS)
    dx2: float = option(1.0, "squared distance of the inputs")
    dy2: float = option(0.5, "squared distance of the targets")
    kink: str = option("torch", "slope of a leaky ReLU at exactly 0: torch .01, jax 1", choices=tuple(KINKS))
    steps: int = option(6000, "steps of training", least=100)
    depth: int = option(20, "no network is deeper than this")
    width: int = option(500, "no network is wider than this")
    faster: float = option(1.0, "factor of all learning rates")
    grid: int = option(5, "values of dx from .5 to 1.5, and as many of dy from 0 to 1", least=2)
    grid_steps: int = option(16000, "steps of training at these", least=100)
    adam: float = option(5e-7, "learning rate of Adam")
    adam_steps: int = option(6000, "steps of training by Adam", least=100)

    @property
    def names(self) -> tuple[str, ...]:
        """All networks that are trained by descent."""
        return tuple(dict.fromkeys((*self.architectures, *self.weights)))

    def check(self) -> None:
        for name in self.names:
            self.network(name)

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
    dh2, dy2 = run.recorded["dh2"][:, :, run.half - 1], run.recorded["dy2"]
    rates = [float(fits[name].sel(fit="rates").where(fits.learned).mean()) for name in ("rate_h", "rate_y")]
    known = np.isfinite(rates).all()  # unless no trial learned
    theory = final_distance(dh2[:, 0], dy2[:, 0], dx, dy, *rates) if known else np.full(len(dx), np.nan)
    return fits.assign(
        target=("trial", dy),
        end=("trial", dh2[:, -1]),
        end_theory=("trial", theory),
        trial_learned=("trial", run.loss[:, -1] < ENDED),
        trial_in_time=("trial", run.loss[:, min(p.steps, p.grid_steps)] < ENDED),
    )


def until(run: Training, steps: int) -> Training:
    """The same runs until a step."""
    return Training.from_xarray(run.to_xarray().isel(t=slice(steps + 1)))


def fitted(run: Training) -> xr.Dataset:
    """Both fits of every run at the layer half way, over epochs; errors are 1 where there is no fit."""
    fits = fit.both_ways(run, loss=True).isel(layer=0, drop=True)
    fits = fits.fillna(dict.fromkeys(("error", "errors", "largest_error"), 1.0))
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
    plot.label(ax, "epoch (one step)")


def draw_loss(ax: Any, fits: xr.Dataset) -> None:
    one = until_learned(fits)
    fit.draw_series(ax, one.epoch, one, "loss", plot.RED)
    plot.label(ax, "epoch (one step)", ylim=(0, None))


def draw_final(ax: Any, fits: xr.Dataset) -> None:
    good, theory, end = (fits[name].values for name in ("trial_learned", "end_theory", "end"))
    ax.plot(theory[good], end[good], "o", color=plot.BLUE, ms=3, alpha=0.7, mew=0, label="a trial")
    ax.plot(theory[~good], end[~good], "x", color=plot.RED, ms=3, label="a trial that did not converge")
    top = 1.1 * max(np.nanmax(theory, initial=0.01), np.nanmax(end[good], initial=0.01))
    plot.theory(ax, [0, top], [0, top], label="as predicted", lw=0.8)
    ax.set(xlim=(-0.03 * top, top), ylim=(-0.03 * top, top), xlabel="|dh|² by Eq. 10")


def panels(titles: list[str], columns: int = 4, height: float = 1.75) -> tuple[Figure, list[Any]]:
    """A page-wide figure with a titled panel for each of `titles`, in rows of `columns` panels."""
    columns = min(columns, len(titles))
    rows = -(-len(titles) // columns)
    fig, grid = plot.figure(rows, columns, plot.PAGE, height * rows + 0.35, squeeze=False)
    axes = list(grid.flat)
    for ax in axes[len(titles) :]:
        ax.set_axis_off()
    with plot.style():
        for ax, title in zip(axes, titles, strict=False):
            ax.set_title(title)
    return fig, axes[: len(titles)]


def draw_each(
    fits: Mapping[str, xr.Dataset], draw: Callable[..., None], ylabel: str, colours: Mapping[str, str]
) -> Figure:
    """A panel for each network; the legend tells the colours of series, or else what the panels have."""
    fig, axes = panels(list(fits), COLUMNS)
    for ax, one in zip(axes, fits.values(), strict=True):
        draw(ax, one)
    plot.label(axes[:: min(COLUMNS, len(fits))], y=ylabel)
    handles = key(colours) if colours else axes[0].get_legend_handles_labels()[0]
    fig.legend(handles=handles, loc="outside upper center", ncols=3)
    return fig


def zoo(p: TwoPoint, data: Data) -> dict[str, xr.Dataset]:
    return {name: data.networks[name] for name in p.architectures}


@figure("zoo")
def distances(p: TwoPoint, data):
    return draw_each(zoo(p, data), draw_distances, "squared distance", COLOURS), (
        f"Two samples in {len(p.architectures)} networks ({p.depth} layers of {p.width} units at most), the "
        f"first of {p.seeds} trials each that learned: squared distances of representations and of outputs, "
        f"and their alignment w. Squared distances of inputs and targets: {p.dx2:g} and {p.dy2:g}, as in the "
        "authors' code (the text has distances of .5 and 1)."
    )


@figure("loss")
def losses(p: TwoPoint, data):
    fig = draw_each(zoo(p, data), draw_loss, "loss", {"loss": plot.RED})
    return fig, "Training loss of the same networks and Eq. 9, with the third rate fitted."


@figure("weights")
def initial_weights(p: TwoPoint, data):
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
def final_distances(p: TwoPoint, data):
    return draw_each(zoo(p, data), draw_final, "|dh|² at the end", {}), (
        f"Final squared distances of representations over {p.grid} x {p.grid} distances of inputs (.5 to "
        f"1.5) and of targets (0 to 1), against Eq. 10 with rates averaged over {p.seeds} other trials. "
        f"At most {p.grid_steps} steps: the {p.steps} of Table 1 are too few for near targets."
    )


@figure("adam")
def descent_and_adam(p: TwoPoint, data):
    fits = {f"{name}, descent": f for name, f in data.networks.items() if name == "default"}
    fits["default, Adam"] = data.networks["adam"]
    return draw_each(fits, draw_distances, "squared distance", COLOURS), (
        f"The default network by descent and by Adam (rate {p.adam:g}, which the paper does not print)."
    )


STANDARD = "Stated standard for 'quite well': 5% of each series' largest value, root mean square over steps."
FINAL = "Stated standard: correlation .9, median within 10%; the paper shows points about the identity."
NOTES = {
    "dropout": "Measured without dropout, outputs overshoot and fall back over thousands of steps.",
    "low": "Effective rates are smaller on the plateau than in the rise.",
    "high": "Representations start far apart, where the linear approximation begins to fail.",
}
SHARE = "as a share of each series' largest value"
NOT_CONSTANT = "Effective rates change while the network learns."
WORST_MOMENT = "Much of the time nothing moves, which the mean over time rewards; this is the worst moment."
ELSEWHERE = "The rates were fitted at other distances of inputs and targets; fitted there they would differ."
DISCARDED = "Trials that did not learn are left out of the other rows, as the paper discards them."
LENGTH = "The paper trains for 6000 steps and discards what has not converged."
COMPARED = (
    "The default architecture (20 fully connected layers, 500 units per layer, leaky ReLU) is trained on two "
    "datapoints and compared to the effective theory, after fitting two effective learning rates for the "
    "3-dimensional system and one additional effective learning rate for the loss."
)
LOSS = (
    "Just as with the dynamics of the 3-dimensional system, we can fit the loss expression from the theory "
    "Equation (9) to the training loss, amongst varying architectures, as is shown in Figure 11."
)
PLATEAU = (
    "Plateau-like behavior in the representational distance and loss can be seen at small initializations, "
    "but disappears at larger initial weights."
)
BREAKS_DOWN = (
    "At very high initial weights, when the representational distance starts off already large, the "
    "approximation breaks down as expected."
)


@claims
def dynamics(p: TwoPoint, data):
    """A row for each network and each gain; very large weights are for `limits`."""
    gains = (paper(f"{PAPER} Fig. 3", COMPARED),) * 2
    architectures = quoted(f"{PAPER} Fig. 2", "matches-all-networks"), paper(f"{PAPER} Fig. 11", LOSS)
    for name in (name for name in p.names if name != "very-high"):
        fits, note = learned_ones(data.networks[name]), NOTES.get(name, "")
        matches, loss = architectures if name in p.architectures else gains
        what, error = f"{name}: error of the fit of two rates (Eq. 49), {SHARE}", fits.error.sel(fit="rates")
        yield matches.near(f"fit-rates-{name}", what, 0, error, BOUND, note or NOT_CONSTANT, STANDARD)
        what, error = f"{name}: error of the fit of rates and start", fits.error.sel(fit="start")
        yield finding(matches.source).near(f"fit-{name}", what, 0, error, BOUND, note, STANDARD)
        what = f"{name}: error of the loss by Eq. 9, one more rate fitted"
        error = fits.errors.sel(series="loss", fit="rates")
        yield loss.near(f"fit-loss-{name}", what, 0, error, BOUND, bound=STANDARD)
    what, bound = "share of trials that learned, by network", "Stated standard: nine trials of ten."
    shares = [float(data.networks[name].learned.mean()) for name in p.names]
    converge = quoted(f"{PAPER} B.1", "converging-in-6000-epochs")
    note = f"Fewest: {p.names[int(np.argmin(shares))]}. {DISCARDED}"
    yield converge.above("all-learned", what, 0.9, shares, note, bound)
    largest = [learned_ones(one).largest_error.sel(fit="rates") for one in zoo(p, data).values()]
    worst = [float(error.mean()) for error in largest]
    what = f"two rates fitted: largest error at any time, {SHARE}, by network"
    yield finding(f"{PAPER} Fig. 2").below("worst-moment", what, WORST, worst, WORST_MOMENT)


@claims
def ends(p: TwoPoint, data):
    source, fits = f"{PAPER} Fig. 5", zoo(p, data)
    predicts = quoted(source, "predictions-of-the-end")
    for name, one in fits.items():
        correlation, ratio = agreement(one)
        what = f"{name}: correlation of the final distance with Eq. 10"
        yield predicts.above(f"final-correlation-{name}", what, 0.9, correlation, ELSEWHERE, FINAL)
        what = f"{name}: final distance / Eq. 10, median"
        yield predicts.near(f"final-ratio-{name}", what, 1, ratio, 0.1, ELSEWHERE, FINAL)
    trials = [one[["trial_learned", "trial_in_time"]].mean() for one in fits.values()]
    lost, late = [1 - float(one.trial_learned) for one in trials], [1 - one.trial_in_time for one in trials]
    note = f"These are left out of the correlations. After {p.steps} steps: {np.mean(late):.2f}. {LENGTH}"
    what = f"share of the {p.grid**2} trials of each network that did not converge in {p.grid_steps} steps"
    yield check(source, CHOSEN).below("trials-converged", what, 0.1, lost, note)


@claims
def limits(p: TwoPoint, data):
    shrinks = paper(f"{PAPER} Fig. 3", PLATEAU)
    fits = {name: learned_ones(data.networks[name]) for name in p.weights}
    if len(fits) > 1:
        for series, id in (("dy2", "plateau-shrinks"), ("dh2", "plateau-shrinks-distance")):
            what = f"{series}: time to 10% / time to 90% of its way, by initial weights"
            values = {name: float(fit.plateau(one, series).mean()) for name, one in fits.items()}
            yield falls(shrinks, id, what, values)
        what = "time at which the loss is half / three halves of that of the mean target, by initial weights"
        values = {name: float(fit.loss_plateau(one, p.dy2).mean()) for name, one in fits.items()}
        yield falls(shrinks, "plateau-shrinks-loss", what, values)
    if "very-high" in fits:
        error = fits["very-high"].error
        note = f"With the start fitted too {float(error.sel(fit='start').mean()):.2f}."
        what = "very large initial weights: error of the fit of two rates, where the theory fails"
        above = paper(f"{PAPER} Fig. 3", BREAKS_DOWN).above
        yield above("fit-very-large", what, BOUND, error.sel(fit="rates"), note, STANDARD)


def falls(statement: Statement, id: str, what: str, values: dict[str, float]) -> Claim:
    numbers, names = list(values.values()), list(values)
    rising = [f"from {names[k]} to {names[k + 1]}" for k in np.flatnonzero(np.diff(numbers) >= 0)]
    note = f"It rises {' and '.join(rising)}. " if rising else ""
    note += f"{', '.join(f'{name} {v:.2f}' for name, v in values.items())}."
    bound = "The paper: an order, no number."
    return statement.relation(id, what, "falls with initial weights", numbers, not rising, note, bound)


@claims
def other_optimizer(p: TwoPoint, data):
    poor = quoted(f"{PAPER} Fig. 13", "adam-fit-not-good")
    adam = learned_ones(data.networks["adam"])
    note = f"With the start fitted too {float(adam.error.sel(fit='start').mean()):.2f}."
    what, error = "Adam: error of the fit of two rates", adam.error.sel(fit="rates")
    yield poor.above("fit-adam", what, BOUND, error, note, STANDARD)
    what = "Adam: error before outputs are half as far apart as targets / after"
    ratio = fit.early_over_late(adam, p.dy2)
    yield poor.above("fit-adam-early", what, 1, ratio, bound="The paper: an order.")
    learned = data.networks["adam"].learned.mean()
    yield check(poor.source, CHOSEN).above(
        "adam-learned", "Adam: share of trials that learned", 0.99, learned
    )


EXPERIMENT = Experiment(
    "two-point",
    "Two samples in any network: the effective theory over architectures",
    "representations_align Fig. 2, 3, 5, 11, 13",
    TwoPoint(),
    TwoPoint(
        seeds=2, architectures=("default", "skip", "shallow"), weights=("default", "very-high"),
        steps=1500, depth=10, width=60, faster=4.0, grid=3, grid_steps=3000, adam=1e-5, adam_steps=1500,
    ),
    minutes=(0.5, 600),
    # How well two rates fit depends on the size of a network and of its steps; the others are over eleven.
    needs_full=("fit-rates-*", "worst-moment", "trials-converged"),
)  # fmt: skip
