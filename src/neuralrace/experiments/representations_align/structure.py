"""Distances of representations after learning, for every two samples. Exclusive or: deep networks from small
weights merge samples of equal targets, as the theory of two points says; from large weights distances stay as
random weights made them; a network with one hidden layer merges one pair only, which the theory does not
predict. Digits: two of many samples are followed while a network learns, and the distances of 100 samples
are compared with the theory for each pair, with and without exponential weighing, and with the distances of
inputs or of targets alone. All with gradient descent and with Adam. With an even number L of hidden layers
none is half way; layer L/2 + 1 is taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

import neuralrace as nr
from neuralrace import plot, universality
from neuralrace.experiments.claim import Claim, Statement, check, finding, paper
from neuralrace.experiments.declaration import Data, claims, figure, part
from neuralrace.experiments.experiment import Experiment, Parameters, option, require
from neuralrace.measure import squared_distances
from neuralrace.universality import Comparison, final_distance, fit_runs, follow_pair, structure, two_points

if TYPE_CHECKING:
    import xarray as xr

PAPER = "representations_align"
KINDS = ("low", "intermediate", "high", "one-layer")
OPTIMIZERS = {"sgd": "gradient descent", "adam": "Adam"}
CORNERS = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]])
XOR = np.array([[0.0], [1], [1], [0]])
PAIRS = np.triu_indices(4, 1)
SAME = (XOR[PAIRS[0]] == XOR[PAIRS[1]])[:, 0]
NAMES = [f"{a:.0f}{b:.0f}\n{c:.0f}{d:.0f}" for (a, b), (c, d) in CORNERS[np.transpose(PAIRS)]]
LEARNED, CONVERGED = 1e-6, 1e-2  # loss at which training stops; loss that counts as learned
PREDICTIONS = {
    "theory": "theory",
    "weighed": "theory, weighed",
    "inputs": "inputs alone",
    "targets": "targets alone",
}


@dataclass(frozen=True)
class Structure(Parameters):
    seeds: int = option(10, "random starts of each network that learns exclusive or")
    depth: int = option(20, "hidden layers of the deep networks", least=2)
    width: int = option(500, "units of each hidden layer")
    gains: tuple[float, ...] = option(
        (0.85, 1.25, 2.0, 0.0015), "initial gains: low, intermediate, high, one layer"
    )
    rates: tuple[float, ...] = option((0.03, 0.004, 6e-9, 0.06), "learning rates, for each of gains")
    adam_rates: tuple[float, ...] = option((2e-5, 2e-5, 2e-5, 1e-3), "learning rates of Adam")
    steps: int = option(6000, "steps of training on exclusive or")
    pair_gain: float = option(1.0, "gain of the initial weights of the networks that learn two samples")
    pair_rate: float = option(0.01, "learning rate on two samples")
    pair_steps: int = option(10000, "steps of training on two samples")
    data: str = option("digits", "images; mnist needs path", choices=("digits", "mnist"))
    path: str = option("", "folder or file with MNIST")
    trials: int = option(10, "networks that learn the images")
    layers: int = option(4, "hidden layers of the networks that learn the images", least=2)
    units: int = option(100, "units of each hidden layer of the networks that learn the images")
    gain: float = option(0.5, "gain of the initial Xavier weights of the networks that learn the images")
    lr: float = option(0.02, "learning rate of gradient descent on images")
    batch_size: int = option(64, "images in a mini-batch")
    epochs: int = option(900, "passes over the images, gradient descent")
    adam_lr: float = option(5e-4, "learning rate of Adam on images")
    adam_epochs: int = option(200, "passes over the images, Adam")
    shown: int = option(100, "images whose distances are compared", least=20)
    neighbours: int = option(2000, "images over which the theory is weighed")

    def check(self) -> None:
        for name in ("gains", "rates", "adam_rates"):
            fits = len(getattr(self, name)) == len(KINDS)
            require(fits, f"{name} must hold {len(KINDS)} numbers, for {', '.join(KINDS)}")
        if self.data == "mnist":
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
    graph = nr.Graph.chain([x.shape[1], *hidden, y.shape[1]], activations="leaky_relu", biases=True)
    record = universality.watch(graph, x[shown], graph.hidden[len(hidden) // 2])
    start = nr.init.xavier(graph, gain, seed=range(runs))
    return nr.descend(
        nr.Task(graph, x, y), start, record=record, save_weights=False, dtype=np.float32, **schedule
    )


@part
def pair(p: Structure) -> xr.Dataset:
    """Effective rates of the deep network, from two samples (appendix B.1)."""
    x, y = two_points()
    schedule = {"lr": p.pair_rate, "steps": p.pair_steps, "save": 201, "stop_loss": LEARNED}
    run = trained([p.width] * p.depth, x, y, p.pair_gain, p.seeds, **schedule)
    fits = fit_runs(follow_pair(run, x, y)).isel(layer=0, drop=True)
    return fits[["rate_h", "rate_y"]].assign(learned=("run", run.loss[:, -1] < CONVERGED))


@part(each=tuple(OPTIMIZERS))
def xor(p: Structure, optimizer: str) -> dict[str, Any]:
    """Squared distances of the six pairs of samples, before and after learning."""
    results = []
    for kind, gain, lr in zip(KINDS, p.gains, p.rates if optimizer == "sgd" else p.adam_rates, strict=True):
        hidden = [p.width] * (1 if kind == "one-layer" else p.depth)
        schedule = {"lr": lr, "steps": p.steps, "save": 2, "stop_loss": LEARNED, "optimizer": optimizer}
        run = trained(hidden, CORNERS, XOR, gain, p.seeds, **schedule)
        dh2, dy2 = (squared_distances(run.recorded[n])[..., *PAIRS] for n in ("hidden", "output"))
        results.append((run.loss[:, -1] < CONVERGED, dh2[:, 0], dy2[:, 0], dh2[:, -1]))
    learned, dh2, dy2, end = zip(*results, strict=True)
    return {
        "kind": ("kind", list(KINDS)),
        "learned": ("kind run", learned),
        "dh2": ("kind run pair", dh2),
        "dy2": ("kind run pair", dy2),
        "end": ("kind run pair", end),
    }


@part
def predicted(p: Structure) -> dict[str, Any]:
    """Squared distances of the shown samples by the theory, and by inputs or targets alone."""
    x, y = images(p.data, p.path)
    n, some = min(max(p.neighbours, p.shown), len(x)), first_by_digit(p, y)
    theory, here = structure(x[:n], y[:n]), np.ix_(some, some)
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
def digits(p: Structure, optimizer: str) -> xr.Dataset:
    """Distances of the shown samples at the end; the first zero and the first one over time, with the fit."""
    x, y = images(p.data, p.path)
    shown = first_by_digit(p, y)
    lr, epochs = (p.lr, p.epochs) if optimizer == "sgd" else (p.adam_lr, p.adam_epochs)
    steps = epochs * (len(x) // p.batch_size)
    times = lr * np.unique(np.linspace(0, 1, 101) ** 2 * steps // 1)  # dense while distances grow
    schedule = {"lr": lr, "steps": steps, "save": times, "batch_size": p.batch_size}
    hidden = [p.units] * p.layers
    run = trained(hidden, x, y, p.gain, p.trials, shown=shown, optimizer=optimizer, **schedule)
    zero, one = (int(np.flatnonzero(y[shown].argmax(axis=1) == digit)[0]) for digit in (0, 1))
    followed = follow_pair(run, x[shown], y[shown], (zero, one))
    end = squared_distances(run.recorded["hidden"][:, -1]).mean(axis=0)
    fits = fit_runs(followed).isel(layer=0, drop=True)
    return fits.assign(
        goal=followed.runs["dy"][0] ** 2,
        distances=(("sample", "other"), end),
        loss=("run", run.loss[:, -1]),
    )


def xor_ends(data: Data, optimizer: str, kind: str) -> xr.Dataset:
    """Distances after learning, `end`; by Eq. 10 from the measured start with the rates of two samples,
    `theory`; their correlation. Of the runs that learned, as in the paper; nan where none did."""
    import xarray as xr

    runs, two = data.xor[optimizer].sel(kind=kind), data.pair
    rates = [float(two[name].where(two.learned).mean().fillna(1)) for name in ("rate_h", "rate_y")]
    dx, dy = (np.sqrt(squared_distances(v)[PAIRS]) for v in (CORNERS, XOR))
    theory = final_distance(runs.dh2.values, runs.dy2.values, dx, dy, *rates)
    both = runs[["end"]].assign(theory=(("run", "pair"), theory))
    both = both.where(runs.learned, drop=bool(runs.learned.any()))
    return both.assign(correlation=xr.corr(both.theory, both.end, "pair"))


def merged(end: xr.DataArray) -> xr.DataArray:
    """Mean squared distance at equal targets / at different targets, of each run."""
    return end[:, SAME].mean("pair") / end[:, ~SAME].mean("pair")


def compared(data: Data, optimizer: str) -> dict[str, Comparison]:
    """Correlation of the measured distances of images with each prediction."""
    measured = data.digits[optimizer].distances
    return {name: universality.compare(data.predicted[name], measured) for name in (*PREDICTIONS, "printed")}


@figure("xor")
def xor_distances(p: Structure, data: Data) -> tuple[Figure, str]:
    fig, axes = plot.figure(2, 4, height=3.6, sharex=True)
    for row, optimizer in zip(axes, OPTIMIZERS, strict=True):
        for ax, kind in zip(row, KINDS, strict=True):
            ends = xor_ends(data, optimizer, kind)
            size, scale = float(ends.end.mean()), float(ends.theory.mean())
            ax.bar(range(6), ends.theory.mean("run") / scale, color="0.8", label="theory")
            plot.points(ax, range(6), ends.end / size, plot.BLUE, "networks")
            ax.set(ylim=(0, None), title=f"{kind.replace('-', ' ')}: size {size / scale:.2g}")
            ax.set_xticks(range(6), NAMES)
        row[0].set_ylabel(f"{OPTIMIZERS[optimizer]}\nsquared distance / mean")
    axes[0, 3].legend(loc="upper left")
    return fig, (
        f"Exclusive or: squared distances of the six pairs of samples after learning ({p.seeds} seeds, mean "
        f"and standard deviation; {p.depth} hidden layers of {p.width}, and one), divided by their mean over "
        "pairs; bars are Eq. 10 with rates fitted to two samples and the measured start. Titles: initial "
        "weights, and mean measured distance over mean prediction."
    )


@figure("tracked")
def tracked_pair(p: Structure, data: Data) -> tuple[Figure, str]:
    fig, axes = plot.figure(1, 2, height=2.4)
    for ax, (optimizer, name) in zip(axes, OPTIMIZERS.items(), strict=True):
        fits = data.digits[optimizer]
        one, goal = fits.isel(run=0), float(fits.goal)
        unit = float(one.measured.sel(series="dh2").max()) / goal
        labels = (f"‖dh‖² / {unit:.2g}", "‖dy‖²", "w")
        for k, colour in enumerate((plot.BLUE, plot.ORANGE, plot.GREEN)):
            by = unit if k == 0 else 1
            plot.runs(ax, one.t, one.measured[k] / by, colour)
            plot.theory(ax, one.t, one.theory[k] / by, colour, labels[k])
        ax.axhline(goal, color="0.6", lw=0.7, ls=":")
        ax.set_xscale("function", functions=(np.sqrt, np.square))
        title = f"{name}, error {float(one.error):.2f}"
        ax.set(xlabel="learning rate times steps (root scale)", title=title, xlim=(0, None))
        ax.xaxis.set_major_locator(MaxNLocator(5))
    axes[0].set_ylabel("one pair among all samples")
    axes[0].legend()
    return fig, (
        f"The first zero and the first one of {p.data} while a network learns all images (pale), and "
        "Eq. 7 with two fitted rates (lines). Dotted: the squared distance of the two targets, which "
        "outputs overshoot since they are not learned alone."
    )


@figure("matrices")
def matrices(p: Structure, data: Data) -> tuple[Figure, str]:
    fig, axes = plot.figure(1, 4, height=2.2, width_ratios=(1, 1, 1, 1.1))
    present, first, count = np.unique(data.predicted.digit, return_index=True, return_counts=True)
    shown = {
        f"networks, mean of {p.trials}": data.digits["sgd"].distances,
        "theory": data.predicted.theory,
        "theory, weighed": data.predicted.weighed,
    }
    for ax, (title, values) in zip(axes, shown.items(), strict=False):
        ax.imshow(values / values.mean(), vmin=0, vmax=2.5, interpolation="none")
        ax.set(title=title, xlabel="digit")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_ticks(first + (count - 1) / 2, present)
    ax, places = axes[3], np.arange(len(PREDICTIONS))
    for k, (optimizer, label) in enumerate(OPTIMIZERS.items()):
        shift, colour = 0.25 * k, plot.COLOURS[k]
        found = [compared(data, optimizer)[name] for name in PREDICTIONS]
        middle, (low, high) = [c.correlation for c in found], np.transpose([c.interval for c in found])
        ax.hlines(places + shift, low, high, color=colour, lw=1)
        ax.plot(middle, places + shift, "o", color=colour, ms=3.5, label=label)
    ax.set_yticks(places, list(PREDICTIONS.values()))
    ax.set(xlabel="correlation with networks", xlim=(0, 1), ylim=(len(places) - 0.3, -1.2))
    ax.legend(loc="upper left")
    return fig, (
        f"Squared distances of the first {p.shown} images of {p.data}, sorted by digit, each divided by the "
        "mean (dark 0, bright 2.5): networks from small weights after learning all images by gradient "
        "descent, Eq. 10 for each pair, and the same weighed. Right: Pearson correlation over pairs, 95% "
        "intervals by resampling images."
    )


BETWEEN = "Neither limit: distances by random weights and distances by targets are of one size."
SIZE = (
    "Rates are those of two samples at dx = .5. The pattern does not depend on them, the size does, and is "
    "not predicted for another data set or optimizer; the paper's figure has no common scale."
)
ONE_LAYER = "The theory fails here, as the paper says: one hidden layer is not free to merge both pairs."
TRACKED = (
    "Root mean square, as a share of a series' largest value. Outputs of a pair among many overshoot the "
    "difference of its targets, and representations come together again, which Eq. 7 cannot."
)
MATCH = (
    "The learned hidden representational pair-wise distances match the theory prediction at varying initial "
    "weight scales for the default 20 layer network ({}), but not for a 2 layer network at small weights "
    "(right)."
).format
MERGE = (
    "The theory predicts that at small initial weights, representations of datapoints with the same target "
    "output will merge [...]. At large initial weights no such merging should occur. As can be seen in "
    "Figure 6 (middle), this matches the learned representation of the large 20-layer default network."
)
ONE_PAIR = (
    "the theory fails to anticipate the merging of only one pair when the network is reduced to a two layer "
    "architecture"
)
HOLD_UP = "As can be seen in Figure 14 [...] the representational predictions still hold up well."


@claims
def exclusive_or(p: Structure, data: Data) -> Iterator[Claim]:
    runs = [data.pair.learned, *(data.xor[optimizer].learned for optimizer in OPTIMIZERS)]
    learned = np.concatenate([np.ravel(v) for v in runs]).mean()
    name = "share of runs that learned, exclusive or and two points"
    yield check(f"{PAPER} B").above("learned", name, 0.8, learned)
    six, fourteen = f"{PAPER} Fig. 6", f"{PAPER} Fig. 14"
    match, one_pair = paper(six, MATCH("middle")), paper(six, ONE_PAIR)
    yield from deep(data, "sgd", match, paper(six, MERGE))
    yield from one_layer(data, "sgd", one_pair, one_pair)
    match = paper(fourteen, MATCH("left"))
    yield from deep(data, "adam", match, paper(fourteen, HOLD_UP))
    yield from one_layer(data, "adam", match, finding(fourteen))


def deep(data: Data, optimizer: str, match: Statement, merge: Statement) -> Iterator[Claim]:
    ends = {kind: xor_ends(data, optimizer, kind) for kind in KINDS}
    for kind, note in (("low", ""), ("intermediate", BETWEEN), ("high", "")):
        name = f"{OPTIMIZERS[optimizer]}, {kind} weights: correlation with Eq. 10"
        yield match.above(f"xor-{optimizer}-{kind}", name, 0.9, ends[kind].correlation, note)
    name = f"{OPTIMIZERS[optimizer]}, {{}} weights: distance at equal targets / at different targets".format
    yield merge.below(f"xor-{optimizer}-low-merged", name("low"), 0.05, merged(ends["low"].end))
    yield merge.above(f"xor-{optimizer}-high-apart", name("high"), 0.2, merged(ends["high"].end))
    size = ends["low"].end.mean() / ends["low"].theory.mean()
    name = f"{OPTIMIZERS[optimizer]}, low weights: measured distance / predicted distance"
    yield finding(match.source).near(f"xor-{optimizer}-low-size", name, 1, size, 0.25, SIZE)


def one_layer(data: Data, optimizer: str, fails: Statement, merges: Statement) -> Iterator[Claim]:
    ends, key = xor_ends(data, optimizer, "one-layer"), f"xor-{optimizer}-one-layer"
    same, different = ends.end[:, SAME], ends.end[:, ~SAME].mean("pair")
    name = f"{OPTIMIZERS[optimizer]}, one hidden layer: {{}}".format
    yield fails.below(f"{key}-fails", name("correlation with Eq. 10"), 0.5, ends.correlation, ONE_LAYER)
    ratio = name("distance of the {} equal pair / mean distance at different targets").format
    yield fails.above(f"{key}-apart", ratio("farther"), 0.5, same.max("pair") / different, ONE_LAYER)
    note = "" if optimizer == "sgd" else "Adam merges a pair in some networks only."
    yield merges.below(f"{key}-merged", ratio("closer"), 0.1, same.min("pair") / different, note)


@claims
def many_images(p: Structure, data: Data) -> Iterator[Claim]:
    nine, four = f"{PAPER} Fig. 9", f"{PAPER} Fig. 4"
    correlation = "The Pearson correlation coefficient between the theory and experiment is 0.703."
    dynamics = "As can be seen in Figure 4, the resulting dynamics still resemble the theory reasonably well."
    yield from image_distances(p, data, "sgd", paper(nine, correlation))
    yield tracked(data, "sgd", paper(four, dynamics))
    # Of Adam the paper gives no number.
    yield from image_distances(p, data, "adam", finding(f"{PAPER} Fig. 16"))
    yield tracked(data, "adam", finding(f"{PAPER} C.3"))


def image_distances(p: Structure, data: Data, optimizer: str, weighed: Statement) -> Iterator[Claim]:
    name, key, found = OPTIMIZERS[optimizer], f"images-{optimizer}", compared(data, optimizer)
    theory, printed, ours = found["theory"], found["printed"], finding(weighed.source)
    span = "95% interval {:.2f} to {:.2f}.".format
    where = "" if p.data == "mnist" else " On digits; the paper's number is for MNIST."
    end = f"Loss at the end {float(data.digits[optimizer].loss.mean()):.2g}, from 0.5."
    note = f"{span(*printed.interval)} Normalised {found['weighed'].correlation:.3f}. {end}{where}"
    what = f"{name}: correlation of the weighed theory with networks"
    yield weighed.near(f"{key}-weighed", what, 0.703, printed.correlation, 0.1, note)
    what = f"{name}: correlation of the theory without weighing, lower end of its interval"
    note = f"Correlation {theory.correlation:.3f}."
    yield ours.above(f"{key}-unweighed", what, 0.4, theory.interval[0], note)
    for rival in ("targets", "inputs"):
        gain, interval = theory.over(found[rival])
        what = f"{name}: correlation of the theory less that of {rival} alone"
        note = f"{span(*interval)} {rival.capitalize()}: {found[rival].correlation:.3f}. {end}"
        yield ours.relation(f"{key}-over-{rival}", what, "interval above 0", gain, interval[0] > 0, note)


def tracked(data: Data, optimizer: str, statement: Statement) -> Claim:
    fits = data.digits[optimizer]
    note = "Of dh2, dy2 and w: {:.2f}, {:.2f}, {:.2f}. ".format(*fits.errors.mean("run").values)
    what = f"{OPTIMIZERS[optimizer]}: error of the fit to a tracked pair"
    return statement.below(f"tracked-{optimizer}", what, 0.1, fits.error, note + TRACKED)


EXPERIMENT = Experiment(
    "structure",
    "Distances of many representations: exclusive or and digits",
    "representations_align Fig. 4, 6, 9, 14, 16",
    Structure(),
    Structure(
        seeds=2, depth=14, width=50, gains=(0.8, 1.25, 2.0, 0.0015), rates=(0.04, 0.004, 1e-6, 0.06),
        adam_rates=(2e-4, 2e-4, 2e-4, 1e-3), steps=3000, pair_gain=1.05, pair_rate=0.04, pair_steps=1500,
        trials=2, lr=0.05, epochs=70, adam_epochs=15,
    ),
    minutes=(0.6, 40),
    # Images are not learned to the end; which networks merge a pair is a matter of ten seeds.
    needs_full=("images-*", "xor-adam-one-layer-merged"),
)  # fmt: skip
