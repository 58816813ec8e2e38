"""Distances of representations after learning, for every two samples. Exclusive or: deep networks from small
weights merge samples of equal targets, as the theory of two points says; from large weights distances stay as
random weights made them; a network with one hidden layer merges one pair only, which the theory does not
predict. Images: two of many samples are followed while a network learns, and the distances of 100 samples
are compared with the theory for each pair, with and without exponential weighing, and with the distances of
inputs or of targets alone. All with gradient descent and with Adam. With an even number L of hidden layers
none is half way; layer L/2 + 1 is taken. Learning rates are for the loss of Eq. 1: those of Table 2 twice for
exclusive or, where the authors' code has no half, and a tenth for MNIST, where it has the mean over outputs.
Small weights for exclusive or are of gain 0.85 for 3000 epochs, as there: with Table 2's 0.7 nothing is
learned. Rates of Adam are not published."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

import numpy as np
import xarray as xr
from matplotlib.ticker import MaxNLocator

import neuralrace as nr
from neuralrace import plot, universality
from neuralrace.measure import squared_distances
from neuralrace.universality import Comparison, follow_pair
from neuralrace_papers.framework import Data, Experiment, figure, part, require, rows
from neuralrace_papers.representations_align.fits import SERIES, both_ways, draw_series, key
from neuralrace_papers.zoo import Network, fit_runs, train

PRINTED_EPOCHS, SAVED = 1000, 151
STOP_LOSS, LEARNED = 1e-6, 1e-2  # loss at which training stops; loss that counts as learned
PUBLISHED = 0.703  # correlation of the weighed theory with networks, MNIST
KINDS = ("low", "intermediate", "high", "one-layer")
OPTIMIZERS = {"sgd": "gradient descent", "adam": "Adam"}
CORNERS = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]])
XOR = np.array([[0.0], [1], [1], [0]])
PAIRS = np.triu_indices(4, 1)
SAME = (XOR[PAIRS[0]] == XOR[PAIRS[1]])[:, 0]
NAMES = [f"{a:.0f}{b:.0f}\n{c:.0f}{d:.0f}" for (a, b), (c, d) in CORNERS[np.transpose(PAIRS)]]
PREDICTIONS = {
    "theory": "theory",
    "printed": "theory, weighed",
    "weighed": "weighed, normalised",
    "inputs": "inputs alone",
    "targets": "targets alone",
}


@dataclass(frozen=True)
class Structure:
    seeds: Annotated[int, "random starts of each network that learns exclusive or"] = 10
    depth: Annotated[int, "hidden layers of the deep networks"] = 20
    width: Annotated[int, "units of each hidden layer"] = 500
    gains: Annotated[tuple[float, ...], f"initial gains: {', '.join(KINDS)}"] = (0.85, 1.25, 2.0, 0.0015)
    rates: Annotated[tuple[float, ...], "learning rates, for each of gains"] = (0.03, 0.004, 6e-9, 0.06)
    adam_rates: Annotated[tuple[float, ...], "learning rates of Adam"] = (2e-5, 2e-5, 2e-5, 1e-3)
    epochs: Annotated[tuple[int, ...], "steps of training, for each of gains"] = (3000, 1000, 1000, 40000)
    adam_epochs: Annotated[int, "steps of training by Adam"] = 6000
    printed_gain: Annotated[float, "initial gain for low in Table 2, which is tried for 1000 epochs"] = 0.7
    pair_trials: Annotated[int, "networks that learn two samples, over which rates are averaged"] = 50
    pair_gain: Annotated[float, "gain of the initial weights of the networks that learn two samples"] = 1.0
    pair_rate: Annotated[float, "learning rate on two samples"] = 0.005
    pair_steps: Annotated[int, "steps of training on two samples"] = 6000
    data: Annotated[Literal["digits", "mnist"], "images; mnist is read from path"] = "mnist"
    path: Annotated[str, "folder or file with MNIST; else $NEURALRACE_DATA, else a download"] = ""
    trials: Annotated[int, "networks that learn the images"] = 50
    layers: Annotated[int, "hidden layers of the networks that learn the images"] = 4
    units: Annotated[int, "units of each hidden layer of the networks that learn the images"] = 100
    gain: Annotated[float, "gain of the initial weights of the networks that learn the images"] = 0.5
    lr: Annotated[float, "learning rate of gradient descent on images"] = 0.0002
    batch_size: Annotated[int, "images in a mini-batch"] = 64
    image_epochs: Annotated[int, "passes over the images, gradient descent"] = 500
    adam_lr: Annotated[float, "learning rate of Adam on images"] = 5e-4
    image_adam_epochs: Annotated[int, "passes over the images, Adam"] = 50
    shown: Annotated[int, "images whose distances are compared"] = 100
    neighbours: Annotated[int, "images over which the theory is weighed"] = 5000

    def __post_init__(self) -> None:
        for name in ("gains", "rates", "adam_rates", "epochs"):
            fits = len(getattr(self, name)) == len(KINDS)
            require(fits, f"{name} must hold {len(KINDS)} numbers, for {', '.join(KINDS)}")
        require(self.shown >= 20, f"shown must be at least 20, not {self.shown}")
        if self.data == "mnist" and self.path:
            images(self.data, self.path)


@cache
def images(data: str, path: str) -> tuple[np.ndarray, np.ndarray]:
    """The training images, scaled to mean 0 and variance 1 over all pixels, and targets."""
    x, y = (nr.tasks.digits() if data == "digits" else nr.tasks.mnist(path or None)).arrays
    return (x - x.mean()) / x.std(), y


def first_by_digit(p: Structure, y: np.ndarray) -> np.ndarray:
    """Places of the first samples, sorted by digit."""
    return np.argsort(y[: p.shown].argmax(axis=1), kind="stable")


def trained(
    hidden: list[int], x: Any, y: Any, gain: float, runs: int, *, shown: Any = slice(None), **schedule: Any
) -> nr.Trajectory:
    """Networks of leaky rectifiers from Xavier weights; records representations of the samples `shown`."""
    graph = nr.Graph.chain([x.shape[1], *hidden, y.shape[1]], activations="leaky_relu_torch", biases=True)
    record = universality.watch(graph, x[shown], graph.hidden[len(hidden) // 2])
    start = nr.init.xavier(graph, gain, seed=range(runs))
    return nr.descend(
        nr.Task(graph, x, y), start, record=record, save_weights=False, dtype=np.float32, **schedule
    )


@part
def pair(p: Structure):
    """Effective rates of the deep network, from two samples (appendix B.1)."""
    network, (x, y) = Network(p.depth, p.width, gain=p.pair_gain), nr.tasks.two_points().arrays
    run = train(network, x, y, p.pair_rate, p.pair_steps, range(p.pair_trials))
    fits = fit_runs(run, observed=True).isel(layer=0, drop=True)
    return fits[["rate_h", "rate_y"]].assign(learned=("run", run.loss[:, -1] < LEARNED))


@part
def printed(p: Structure):
    """The loss that is left with the settings printed for low weights."""
    schedule = {"lr": p.rates[0], "steps": PRINTED_EPOCHS, "save": 2, "stop_loss": STOP_LOSS}
    run = trained([p.width] * p.depth, CORNERS, XOR, p.printed_gain, p.seeds, **schedule)
    return {"loss": ("run", run.loss[:, -1])}


@part(each=tuple(OPTIMIZERS))
def xor(p: Structure, optimizer: str):
    """Squared distances of the six pairs of samples, before and after learning."""
    results = []
    rates, epochs = (p.rates, p.epochs) if optimizer == "sgd" else (p.adam_rates, [p.adam_epochs] * 4)
    for kind, gain, lr, steps in zip(KINDS, p.gains, rates, epochs, strict=True):
        hidden = [p.width] * (1 if kind == "one-layer" else p.depth)
        schedule = {"lr": lr, "steps": steps, "save": 2, "stop_loss": STOP_LOSS, "optimizer": optimizer}
        run = trained(hidden, CORNERS, XOR, gain, p.seeds, **schedule)
        dh2, dy2 = (squared_distances(run.recorded[n])[..., *PAIRS] for n in ("hidden", "output"))
        results.append((run.loss[:, -1] < LEARNED, dh2[:, 0], dy2[:, 0], dh2[:, -1]))
    learned, dh2, dy2, end = zip(*results, strict=True)
    return {
        "kind": ("kind", list(KINDS)),
        "learned": ("kind run", learned),
        "dh2": ("kind run pair", dh2),
        "dy2": ("kind run pair", dy2),
        "end": ("kind run pair", end),
    }


@part
def predicted(p: Structure):
    """Squared distances of the shown samples by the theory, and by inputs or targets alone."""
    x, y = images(p.data, p.path)
    n, some = min(max(p.neighbours, p.shown), len(x)), first_by_digit(p, y)
    theory, here = universality.structure(x[:n], y[:n]), np.ix_(some, some)
    distances = {
        "theory": theory[here],
        "weighed": universality.smooth_distances(theory)[here],
        "printed": universality.smooth_distances(theory, normalised=False)[here],
        "inputs": squared_distances(x[some]),
        "targets": squared_distances(y[some]),
    }
    labelled = {name: ("sample other", v) for name, v in distances.items()}
    return {"digit": ("sample", y[some].argmax(axis=1)), **labelled}


@part(each=tuple(OPTIMIZERS))
def digits(p: Structure, optimizer: str):
    """Distances of the shown samples at the end; the first zero and the first one over time, with the fit."""
    x, y = images(p.data, p.path)
    shown = first_by_digit(p, y)
    sgd, adam = (p.lr, p.image_epochs), (p.adam_lr, p.image_adam_epochs)
    lr, epochs = sgd if optimizer == "sgd" else adam
    steps = epochs * (len(x) // p.batch_size)
    schedule = {"lr": lr, "steps": steps, "save": SAVED, "batch_size": p.batch_size}
    hidden = [p.units] * p.layers
    run = trained(hidden, x, y, p.gain, p.trials, shown=shown, optimizer=optimizer, **schedule)
    zero, one = (int(np.flatnonzero(y[shown].argmax(axis=1) == digit)[0]) for digit in (0, 1))
    followed = follow_pair(run, x[shown], y[shown], (zero, one))
    end = squared_distances(run.recorded["hidden"][:, -1]).mean(axis=0)
    fits = both_ways(followed).isel(layer=0, drop=True).fillna({"error": 1.0, "errors": 1.0})
    return fits.assign(goal=followed.runs["dy"][0] ** 2, distances=(("sample", "other"), end))


def xor_ends(data: Data, optimizer: str, kind: str) -> xr.Dataset:
    """Distances after learning, `end`; by Eq. 10 from the measured start with the rates of two samples,
    `theory`; their correlation. Of the runs that learned, as in the paper; nan where none did."""
    runs, two = data.xor[optimizer].sel(kind=kind), data.pair
    rates = [float(two[name].where(two.learned).mean().fillna(1)) for name in ("rate_h", "rate_y")]
    dx, dy = (np.sqrt(squared_distances(v)[PAIRS]) for v in (CORNERS, XOR))
    theory = universality.final_distance(runs.dh2.values, runs.dy2.values, dx, dy, *rates)
    both = runs[["end"]].assign(theory=(("run", "pair"), theory))
    both = both.where(runs.learned, drop=bool(runs.learned.any()))
    off = both - both.mean("pair", skipna=False)
    sizes = (off**2).sum("pair", skipna=False) ** 0.5
    together = (off.theory * off.end).sum("pair", skipna=False)
    return both.assign(correlation=together / (sizes.theory * sizes.end))


def compared(data: Data, optimizer: str) -> dict[str, Comparison]:
    """Correlation of the measured distances of images with each prediction."""
    measured = data.digits[optimizer].distances
    return {name: universality.compare(data.predicted[name], measured) for name in PREDICTIONS}


@figure("xor")
def xor_distances(p: Structure, data: Data):
    fig, axes = plot.figure(2, 4, width=plot.PAGE, height=4.0, sharex=True)
    for line, optimizer in zip(axes, OPTIMIZERS, strict=True):
        for ax, kind in zip(line, KINDS, strict=True):
            ends = xor_ends(data, optimizer, kind)
            size, scale = float(ends.end.mean()), float(ends.theory.mean())
            ax.bar(range(6), ends.theory.mean("run") / scale, color="0.8", label="theory (Eq. 10), mean")
            plot.points(ax, range(6), ends.end / size, plot.BLUE, "networks, mean and deviation")
            ax.set(ylim=(0, None), title=f"{kind.replace('-', ' ')}: size {size / scale:.2g}")
            ax.set_xticks(range(6), NAMES)
        line[0].set_ylabel(f"{OPTIMIZERS[optimizer]}\n|dh|² / mean over pairs")
    plot.label(axes[1], "pair of inputs")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return fig, (
        f"Exclusive or: squared distances of the six pairs of samples after learning ({p.seeds} seeds; "
        f"{p.depth} hidden layers of {p.width}, and one), divided by their mean over pairs, and Eq. 10 with "
        "rates fitted to two samples and the measured start. Titles: initial weights, and mean measured "
        f"distance over mean prediction. Low weights have gain {p.gains[0]:g}, since with the "
        f"{p.printed_gain:g} of Table 2 nothing is learned."
    )


@figure("tracked")
def tracked_pair(p: Structure, data: Data):
    fig, axes = plot.figure(1, 2, width=plot.PAGE, height=2.9)
    for ax, (optimizer, name) in zip(axes, OPTIMIZERS.items(), strict=True):
        fits = data.digits[optimizer]
        one, goal = fits.isel(run=0), float(fits.goal)
        unit = float(one.measured.sel(series="dh2").max()) / goal
        for series, (_, colour) in SERIES.items():
            draw_series(ax, one.t, one, series, colour, unit if series == "dh2" else 1.0)
        ax.axhline(goal, color="0.6", lw=0.7, ls=":", label="|dy|² of the targets")
        ax.set_xscale("function", functions=(np.sqrt, np.square))
        x, title = "learning rate times steps (root scale)", f"{name}, error {one.error.sel(fit='rates'):.2f}"
        plot.label(ax, x, "squared distance", title, xlim=(0, None))
        ax.xaxis.set_major_locator(MaxNLocator(5))
    colours = {"|dh|², scaled": plot.BLUE, "|dy|²": plot.ORANGE, "w": plot.GREEN}
    goal, _ = axes[0].get_legend_handles_labels()
    fig.legend(handles=[*key(colours), *goal], loc="outside upper center", ncols=4)
    return fig, (
        f"The first zero and the first one of {p.data} while a network learns all images, and Eq. 7 with two "
        "fitted rates; |dh|² is scaled to the distance of the targets at its largest. Outputs overshoot that "
        "distance, since they are not learned alone."
    )


@figure("matrices")
def matrices(p: Structure, data: Data):
    fig, axes = plot.figure(1, 4, width=plot.PAGE, height=2.4, width_ratios=(1, 1, 1, 1.1))
    present, first, count = np.unique(data.predicted.digit, return_index=True, return_counts=True)
    shown = {
        f"networks, mean of {p.trials}": data.digits["sgd"].distances,
        "theory (Eq. 10)": data.predicted.theory,
        "weighed (Eq. 50)": data.predicted.printed,
    }
    for ax, (title, values) in zip(axes, shown.items(), strict=False):
        ax.imshow(values / values.mean(), vmin=0, vmax=2.5, interpolation="none")
        plot.label(ax, "digit", "digit" if ax is axes[0] else "", title)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_ticks(first + (count - 1) / 2, present)
    bar = {"location": "bottom", "shrink": 0.5, "aspect": 40, "label": "|dh|² / mean over pairs"}
    fig.colorbar(axes[0].images[0], ax=axes[:3], **bar)
    ax, places = axes[3], np.arange(len(PREDICTIONS))
    for k, (optimizer, label) in enumerate(OPTIMIZERS.items()):
        found, colour = compared(data, optimizer).values(), plot.COLOURS[k]
        middle, intervals = [c.correlation for c in found], np.transpose([c.interval for c in found])
        ax.hlines(places + 0.25 * k, *intervals, color=colour, lw=1)
        ax.plot(middle, places + 0.25 * k, "o", color=colour, ms=3.5, label=label)
    if p.data == "mnist":
        ax.plot(PUBLISHED, 1, "k|", ms=9, label="paper, weighed")
    ax.set_yticks(places, list(PREDICTIONS.values()))
    limits = {"xlim": (0, 1), "ylim": (len(places) - 0.3, -2.9)}
    plot.label(ax, "correlation with networks", legend="upper left", **limits)
    return fig, (
        f"Squared distances of the first {p.shown} images of {p.data}, sorted by digit, each divided by the "
        "mean: networks from small weights after learning all images by gradient descent, Eq. 10 for each "
        "pair, and the same weighed as printed. Right: Pearson correlation over pairs, 95% intervals by "
        "resampling images."
    )


@rows
def exclusive_or(p: Structure, data: Data):
    yield "xor-low-as-printed", data.printed.loss
    for optimizer in OPTIMIZERS:
        ends = {kind: xor_ends(data, optimizer, kind) for kind in KINDS}
        equal, other = ({k: e.end[:, some] for k, e in ends.items()} for some in (SAME, ~SAME))
        for kind in KINDS[:3]:
            yield f"xor-{optimizer}-{kind}", ends[kind].correlation
        for kind, name in (("low", "low-merged"), ("high", "high-apart")):
            yield f"xor-{optimizer}-{name}", equal[kind].mean("pair") / other[kind].mean("pair")
        yield f"xor-{optimizer}-low-size", ends["low"].end.mean() / ends["low"].theory.mean()
        name, far = f"xor-{optimizer}-one-layer", other["one-layer"].mean("pair")
        closer, farther = equal["one-layer"].min("pair"), equal["one-layer"].max("pair")
        yield f"{name}-fails", ends["one-layer"].correlation
        yield f"{name}-merged", closer / far
        yield f"{name}-apart", farther / far
        yield f"{name}-one-pair", closer / farther


@rows
def many_images(p: Structure, data: Data):
    for optimizer in OPTIMIZERS:
        found = compared(data, optimizer)
        yield f"images-{optimizer}-weighed", found["printed"].correlation
        for rival in ("targets", "inputs"):
            yield f"images-{optimizer}-over-{rival}", found["theory"].over(found[rival])[0]
        error = data.digits[optimizer].error
        yield f"tracked-{optimizer}", error.sel(fit="rates")
        yield f"tracked-{optimizer}-start", error.sel(fit="start")


EXPERIMENT = Experiment(
    "structure",
    "Distances of many representations: exclusive or and digits",
    "representations_align Fig. 4, 6, 9, 14, 16",
    Structure(),
    quick={
        "seeds": 2, "depth": 14, "width": 50, "gains": (0.8, 1.25, 2.0, 0.0015),
        "rates": (0.04, 0.004, 1e-6, 0.06), "adam_rates": (2e-4, 2e-4, 2e-4, 1e-3),
        "epochs": (3000, 3000, 3000, 3000), "adam_epochs": 3000, "pair_trials": 3, "pair_gain": 1.05,
        "pair_rate": 0.02, "pair_steps": 2000, "data": "digits", "trials": 2, "lr": 0.05, "image_epochs": 70,
        "image_adam_epochs": 15,
    },
    minutes=(0.6, 400),
)  # fmt: skip
