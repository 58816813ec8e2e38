"""The relative scale of first and later layers in practice, at small size: modular addition, which a network
of one hidden layer first memorises and much later understands (grokking), and the filters of a convolutional
network on digits of 8 x 8 pixels.

Initial layers are scaled by a ratio r: `relative` multiplies the later layer by its root and divides the
first one by it, so that their product stays; `first` and `later` do one of both. Networks of modular addition
descend the squared error with weight decay, in full batches and with momentum; `without decay` they start
from small weights and see more of the sums, or they would never understand. The convolutional network has a
layer of filters, ReLU and a readout. At every r it is trained to the same error, by steps small enough for
the steepest start. Three numbers describe its filters: what share of them is new, not along the filters at
the start; what share lies in the five leading principal components of the patches they see; and their
roughness, the mean squared difference of neighbouring weights over the mean square, 2 for noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace.dynamics import State
from neuralrace.measure import cosine, crossing, share_within
from neuralrace_papers.framework import Data, Experiment, figure, part, require, rows

WAYS = {"relative": plot.RED, "first": plot.BLUE, "later": plot.ORANGE}
COMPONENTS = 5
TRAINED, UNDERSTOOD = 0.99, 0.9


@dataclass(frozen=True)
class RelativeScale:
    seeds: Annotated[int, "random starts of each network"] = 5
    ratios: Annotated[tuple[float, ...], "ratios r of the later layer to the first"] = (
        1 / 16, 1 / 4, 1.0, 4.0, 16.0,
    )  # fmt: skip
    modulus: Annotated[int, "numbers are added modulo this"] = 13
    share: Annotated[float, "share of the sums that is shown"] = 0.8
    hidden: Annotated[int, "hidden units of the network that adds"] = 128
    gain: Annotated[float, "gain of the initial Xavier weights of the network that adds"] = 1.0
    lr: Annotated[float, "learning rate of the network that adds, on the mean loss"] = 0.1
    decay: Annotated[float, "weight decay of the network that adds"] = 1e-3
    steps: Annotated[int, "steps of training of the network that adds"] = 8000
    small: Annotated[float, "gain of the initial weights without decay"] = 0.1
    more: Annotated[float, "share of the sums that is shown without decay"] = 0.9
    filters: Annotated[int, "filters of the convolutional network"] = 8
    size: Annotated[int, "pixels of a filter, along one side; images have 8"] = 5
    images: Annotated[int, "digits that the convolutional network is trained on"] = 500
    rate: Annotated[float, "learning rate of the convolutional network at ratio 1"] = 0.3
    level: Annotated[float, "loss at which filters are compared; 0.45 without learning"] = 0.15
    most: Annotated[int, "most steps of the convolutional network, at ratio 1"] = 4000

    def __post_init__(self) -> None:
        require(1.0 in self.ratios, f"ratios must have 1 among them, got {self.ratios}")
        require(2 <= self.size <= 7, f"size must be from 2 to 7, got {self.size}")


def scaled(first: Any, later: Any, ratio: float, way: str) -> tuple[Any, Any]:
    """Both layers, the later one `ratio` times the first; `way` tells which of them changes."""
    root = ratio**0.5
    return first / (1 if way == "later" else root), later * (1 if way == "first" else root)


@cache
def addition(p: RelativeScale) -> tuple[nr.Task, Any]:
    """The sums that are shown, and a record of the shares of these and of the others that are correct."""
    parts = {k: nr.tasks.modular_addition(p.modulus, p.share, k, p.hidden) for k in ("train", "test")}

    def correct(state: State) -> dict[str, Any]:
        shares = {}
        for name, task in parts.items():
            x, y = task.arrays
            shares[name] = (state.activity("y", x).argmax(axis=1) == y.argmax(axis=1)).mean()
        return shares

    return parts["train"], correct


@part(each=(*WAYS, "without decay"))
def grokking(p: RelativeScale, way: str):
    """Share of correct sums over steps, and when sums are memorised and understood."""
    if way == "without decay":
        p, way = replace(p, decay=0.0, gain=p.small, share=p.more), "relative"
    task, correct = addition(p)
    runs = []
    for ratio in p.ratios:
        w = nr.init.xavier(task.graph, p.gain, seed=range(p.seeds))
        w["x->h1"], w["h1->y"] = scaled(w["x->h1"], w["h1->y"], ratio, way)
        run = nr.descend(
            task, w, p.lr, p.steps, min(p.steps, 400) + 1,
            momentum=0.9, rates=nr.Rates(p.decay), record=correct, save_weights=False, dtype=np.float32,
        )  # fmt: skip
        runs.append(run)
    step = runs[0].t / p.lr
    train, test = (np.stack([run.recorded[k] for run in runs]) for k in ("train", "test"))
    return {
        "ratio": ("ratio", list(p.ratios)),
        "step": ("step", step),
        "train": ("ratio run step", train),
        "test": ("ratio run step", test),
        "memorised": ("ratio run", crossing(step, train, TRAINED, rising=True)),
        "understood": ("ratio run", crossing(step, test, UNDERSTOOD, rising=True)),
    }


@part(each=("first", "relative"))
def convolution(p: RelativeScale, way: str):
    """Filters when the loss reaches the level, and three numbers that describe them."""
    x, y = (v[: p.images] for v in nr.tasks.digits(centred=True).arrays)
    runs = [[train(p, x, y, ratio, way, seed) for seed in range(p.seeds)] for ratio in p.ratios]
    start, filters, loss = (np.array([[run[k] for run in row] for row in runs]) for k in range(3))
    patches = np.lib.stride_tricks.sliding_window_view(x.reshape(-1, 8, 8), (p.size, p.size), axis=(1, 2))
    flat = patches.reshape(-1, p.size**2)
    leading = np.linalg.eigh(flat.T @ flat)[1][:, -COMPONENTS:]
    return {
        "ratio": ("ratio", list(p.ratios)),
        "filters": ("ratio run filter row column", filters),
        "loss": ("ratio run", loss),
        "new": ("ratio run", 1 - cosine(filters, start, axes=3) ** 2),
        "structured": ("ratio run", share_within(filters.reshape(*filters.shape[:3], -1), leading)),
        "roughness": ("ratio run", roughness(filters)),
    }


def roughness(filters: np.ndarray) -> np.ndarray:
    """Mean squared difference of neighbouring weights over their mean square, (...); 2 for noise."""
    steps = [np.diff(filters, axis=axis) ** 2 for axis in (-1, -2)]
    size = (filters**2).mean(axis=(-1, -2, -3))
    return sum(s.mean(axis=(-1, -2, -3)) for s in steps) / (2 * size)


def train(p: RelativeScale, x: Any, y: Any, ratio: float, way: str, seed: int) -> tuple[Any, ...]:
    """Filters before and after training, and the final loss."""
    rng, side = np.random.default_rng(seed), (9 - p.size) ** 2 * p.filters
    first = rng.standard_normal((p.filters, p.size, p.size)) / p.size
    later = rng.standard_normal((side, 10)) / np.sqrt(side)
    start = scaled(first, later, ratio, way)
    # The gradient of a layer grows with the other one: the larger sets the step.
    steep = max(1.0, *(s**2 for s in scaled(1.0, 1.0, ratio, way)))
    w, loss = _descend(start, x, y, p.rate / steep, p.level, int(p.most * steep))
    return start[0], np.asarray(w[0], float), float(loss)


def _outputs(w: Any, x: Any) -> Any:
    # A convolution is no edge of a graph, so this network has a forward pass and a descent of its own.
    images = x.reshape(-1, 1, 8, 8)
    h = jax.nn.relu(jax.lax.conv_general_dilated(images, w[0][:, None], (1, 1), "VALID"))
    return h.reshape(len(x), -1) @ w[1]


@jax.jit
def _descend(w: Any, x: Any, y: Any, rate: Any, level: Any, most: Any) -> Any:
    """Weights and loss when the loss is at the level, or after the most steps."""
    w, x, y = jax.tree.map(lambda v: jnp.asarray(v, jnp.float32), (w, x, y))
    slope = jax.value_and_grad(lambda w: ((_outputs(w, x) - y) ** 2).sum(axis=1).mean() / 2)

    def step(state: Any) -> Any:
        w, _, k = state
        value, g = slope(w)
        return jax.tree.map(lambda a, b: a - rate * b, w, g), value, k + 1

    def unfinished(state: Any) -> Any:
        return (state[1] > level) & (state[2] < most)

    return jax.lax.while_loop(unfinished, step, (w, jnp.inf, 0))[:2]


@figure("relative-scale")
def curves(p: RelativeScale, data: Data):
    fig, (a, b, c) = plot.figure(1, 3, height=2.9)
    one = data.grokking["relative"].sel(ratio=1.0)
    plot.runs(a, one.step + 1, one.train, plot.BLACK, "shown sums")
    plot.runs(a, one.step + 1, one.test, plot.RED, "other sums")
    above = {"loc": "lower left", "bbox_to_anchor": (-0.05, 1), "ncols": 2}
    a.set(xscale="log", ylim=(-0.02, 1.05))
    plot.label(a, "steps", "share of sums that are correct", legend=above)
    for way, colour in WAYS.items():
        plot.points(b, p.ratios, data.grokking[way].understood.T, colour, way)
        plot.points(b, p.ratios, data.grokking[way].memorised.T, colour, mfc="white")
    plot.key(b, {"understood": "points", "memorised": "hollow"}, "0.4")
    within = {"loc": "center", "ncols": 2, "columnspacing": 0.8}
    plot.label(b, y="steps until sums are ...", legend=within, yscale="log")
    for way, runs in data.convolution.items():
        for values, colour, name in (
            (runs.new, plot.PINK, "new"),
            (runs.structured, plot.GREEN, "in leading components"),
            (runs.roughness / 2, plot.SKY, "roughness / that of noise"),
        ):
            style = {"label": name, "mfc": colour} if way == "first" else {"mfc": "white"}
            plot.points(c, p.ratios, values.T, colour, **style)
    c.axhline(COMPONENTS / p.size**2, color=plot.GREEN, lw=0.8, ls=":", label="chance")
    plot.key(c, {"first layer alone": "points", "relative": "hollow"}, "0.4")
    c.set(ylim=(-0.03, 2.0), yticks=(0, 0.5, 1))
    plot.label(c, y="share of the filters, or roughness", legend="upper left")
    for ax in (b, c):
        plot.logarithmic(ax.xaxis, p.ratios)
        ax.set_xlabel("ratio r, later / first layer")
    return fig, (
        f"Left: modular addition (mod {p.modulus}), share of correct sums at r = 1, {p.seeds} seeds. Middle: "
        f"steps until {TRAINED:.0%} of the shown and {UNDERSTOOD:.0%} of the other sums are correct. Right: "
        "filters of a convolutional network on digits at the same loss: how much is new, and how much lies "
        f"in the {COMPONENTS} leading components of patches (dotted: chance)."
    )


@figure("relative-scale-filters")
def drawn_filters(p: RelativeScale, data: Data):
    many = min(p.filters, 8)
    fig, axes = plot.figure(len(p.ratios), many, plot.PAGE, 0.75 * len(p.ratios) + 0.2, squeeze=False)
    for row, ratio, filters in zip(axes, p.ratios, data.convolution["first"].filters[:, 0], strict=True):
        for ax, one in zip(row, filters, strict=False):
            plot.matrix(ax, one / np.abs(one).max(), limit=1.0)
            ax.set_aspect("equal")
        row[0].set_ylabel(f"r = {ratio:.3g}")
    for k, ax in enumerate(axes[0]):
        ax.set_title(f"filter {k + 1}")
    fig.colorbar(axes[0, 0].images[0], ax=axes, label="weight / largest of the filter", shrink=0.6)
    return fig, "Filters of one seed after learning, first layer alone scaled by the ratio r (rows)."


@rows
def sums(p: RelativeScale, data: Data):
    one = data.grokking["relative"].sel(ratio=1.0)
    yield "grokking-delay", one.understood / one.memorised
    yield "grokking-share", np.mean([np.isfinite(data.grokking[way].understood).mean() for way in WAYS])
    for way, runs in data.grokking.items():
        steps = runs.understood
        key = f"{way.replace(' ', '-')}-steps" if way == "without decay" else f"grokking-{way}"
        yield key, np.log(steps.isel(ratio=-1) / steps.sel(ratio=1.0))
    end = data.grokking["without decay"].test[..., -1]
    yield "without-decay-correct", end[-1] - end[0]


@rows
def filters(p: RelativeScale, data: Data):
    for way, runs in data.convolution.items():
        change = runs.isel(ratio=-1) - runs.isel(ratio=0)
        yield f"filters-new-{way}", change.new
        yield f"filters-structured-{way}", change.structured
        yield f"filters-smooth-{way}", change.roughness
        yield f"filters-loss-{way}", runs.loss.max()


EXPERIMENT = Experiment(
    "relative-scale",
    "Relative scale of layers in practice: grokking and filters",
    "talk: impact of relative scale initializations in practice",
    RelativeScale(),
    quick={"seeds": 2, "ratios": (1 / 8, 1.0, 8.0), "steps": 5000, "images": 200},
    minutes=(0.4, 3.0),
)
