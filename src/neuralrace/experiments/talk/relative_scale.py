"""The relative scale of first and later layers in practice, at small size: modular addition, which a network
of one hidden layer first memorises and much later understands (grokking), and the filters of a convolutional
network on digits of 8 x 8 pixels.

Initial layers are scaled by a ratio r: `relative` multiplies the later layer by its root and divides the
first one by it, so that their product stays; `first` and `later` do one of both. Networks of modular addition
descend the squared error with weight decay, in full batches and with momentum; `without decay` they start
from small weights and see more of the sums, or they would never understand. The convolutional network has a
layer of filters, ReLU and a readout. At every r it is trained to the same error, by steps small enough for
the steepest start. Three numbers tell its filters: what share of them is new, not along what they were at the
start; what share lies in the five leading principal components of the patches they see; and their roughness,
the mean squared difference of neighbouring weights over the mean square, 2 for noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import plot
from neuralrace.errors import InputError
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

TALK = "talk: impact of relative scale in practice"
WAYS = {"relative": plot.RED, "first": plot.BLUE, "later": plot.ORANGE}
COMPONENTS = 5
FILTERED = ("first", "relative")
TRAINED, UNDERSTOOD = 0.99, 0.9


@dataclass(frozen=True)
class RelativeScale(Parameters):
    seeds: int = option(5, "random starts of each network")
    ratios: tuple[float, ...] = option(
        (1 / 16, 1 / 4, 1.0, 4.0, 16.0), "ratios r of the later layer to the first, 1 among them"
    )
    modulus: int = option(13, "numbers are added modulo this", least=5)
    share: float = option(0.8, "share of the sums that is shown")
    hidden: int = option(128, "hidden units of the network that adds")
    gain: float = option(1.0, "gain of the initial Xavier weights of the network that adds")
    lr: float = option(0.1, "learning rate of the network that adds, on the mean loss")
    decay: float = option(1e-3, "weight decay of the network that adds", least=0)
    steps: int = option(8000, "steps of training of the network that adds")
    small: float = option(0.1, "gain of the initial weights without decay")
    more: float = option(0.9, "share of the sums that is shown without decay")
    filters: int = option(8, "filters of the convolutional network")
    size: int = option(5, "pixels of a filter, along one side", least=2)
    images: int = option(500, "digits that the convolutional network is trained on")
    rate: float = option(0.3, "learning rate of the convolutional network at ratio 1")
    level: float = option(0.15, "loss at which filters are compared")
    most: int = option(4000, "most steps of the convolutional network, at ratio 1")

    def check(self) -> None:
        if len(self.ratios) < 3 or 1.0 not in self.ratios or list(self.ratios) != sorted(set(self.ratios)):
            raise InputError(f"ratios must increase, at least three with 1 among them, got {self.ratios}")
        for name in ("share", "more"):
            if not 0.1 <= getattr(self, name) <= 0.95:
                raise InputError(
                    f"{name} must be from 0.1 to 0.95, to leave some sums out; got {getattr(self, name):g}"
                )
        if self.size > 7:
            raise InputError(f"size must be at most 7, less than an image of 8 pixels, got {self.size}")
        if self.images > 1437:
            raise InputError(f"images must be at most 1437, got {self.images}")
        if self.level >= 0.45:
            raise InputError(f"level must be below 0.45, the loss without learning, got {self.level:g}")
        if self.steps < 100:
            raise InputError(f"steps must be at least 100, got {self.steps}")

    def scaled(self, first: Any, later: Any, ratio: float, way: str) -> tuple[Any, Any]:
        root = ratio**0.5
        return first / (1 if way == "later" else root), later * (1 if way == "first" else root)


def compute(p: RelativeScale, parts: Parts) -> Results:
    without = replace(p, decay=0.0, gain=p.small, share=p.more)
    part = lambda name, way, p: stacked(  # noqa: E731
        parts.each(f"grokking-{name}", lambda ratio: grokking(ratio, way, p), p.ratios)
    )
    return {
        **{way: part(way, way, p) for way in WAYS},
        "without decay": part("without", "relative", without),
        "filters": {
            way: stacked(
                parts.each(f"filters-{way}", lambda ratio, way=way: convolution(ratio, way, p), p.ratios)
            )
            for way in FILTERED
        },
    }


# -- modular addition ------------------------------------------------------------------------


@cache
def addition(p: RelativeScale) -> tuple[nr.Task, Any]:
    """The sums that are shown, and how to tell what is known of the shown and of the others."""
    n, m = p.modulus, p.modulus**2
    a, b = np.divmod(np.arange(m), n)
    x, y = np.concatenate([np.eye(n)[a], np.eye(n)[b]], axis=1), np.eye(n)[(a + b) % n]
    order = np.random.default_rng(0).permutation(m)
    parts = {"trained": order[: int(p.share * m)], "others": order[int(p.share * m) :]}
    graph = nr.Graph.chain([2 * n, p.hidden, n], activations={"h1": "relu"})

    def known(state: nr.State) -> dict[str, Any]:
        right = state.activity("y", x).argmax(axis=1) == y.argmax(axis=1)
        return {name: right[rows].mean() for name, rows in parts.items()}

    shown = parts["trained"]
    return nr.Task(graph, x[shown], y[shown]), known


def grokking(ratio: float, way: str, p: RelativeScale) -> dict[str, Any]:
    """Share of correct sums over steps, of those that were shown and of the others."""
    task, known = addition(p)
    w = nr.init.xavier(task.graph, p.gain, seed=range(p.seeds))
    w["x->h1"], w["h1->y"] = p.scaled(w["x->h1"], w["h1->y"], ratio, way)
    run = nr.descend(
        task, w, p.lr, p.steps, min(p.steps, 400) + 1,
        momentum=0.9, weight_decay=p.decay, record=known, save_weights=False, dtype=np.float32,
    )  # fmt: skip
    step = run.t / p.lr
    reach = lambda name, level: [crossing(step, -v, -level) for v in run.recorded[name]]  # noqa: E731
    return {
        "step": step, **run.recorded,
        "memorised": reach("trained", TRAINED), "understood": reach("others", UNDERSTOOD),
    }  # fmt: skip


# -- filters ---------------------------------------------------------------------------------


def convolution(ratio: float, way: str, p: RelativeScale) -> dict[str, Any]:
    """Filters `(seeds, filters, size, size)` when the loss reaches the level, and what they were."""
    x, y = (v[: p.images] for v in nr.tasks.digits(centred=True).arrays)
    test = nr.tasks.digits("test", centred=True).arrays
    found = [_trained(p, x, y, *test, ratio, way, seed) for seed in range(p.seeds)]
    return {k: np.stack([f[k] for f in found]) for k in found[0]}


def _outputs(w: Any, x: Any) -> Any:
    # A convolution is no edge of a graph, so this network has a forward pass and a descent of its own.
    images = x.reshape(-1, 1, 8, 8)
    h = jax.nn.relu(jax.lax.conv_general_dilated(images, w[0][:, None], (1, 1), "VALID"))
    return h.reshape(len(x), -1) @ w[1]


def _trained(
    p: RelativeScale, x: Any, y: Any, x_test: Any, y_test: Any, ratio: float, way: str, seed: int
) -> dict[str, Any]:
    rng, side = np.random.default_rng(seed), (9 - p.size) ** 2 * p.filters
    first = rng.standard_normal((p.filters, p.size, p.size)) / p.size
    later = rng.standard_normal((side, 10)) / np.sqrt(side)
    start = p.scaled(first, later, ratio, way)
    # The gradient of a layer grows with the other one: the larger sets the step.
    steep = max(1.0, *(s**2 for s in p.scaled(1.0, 1.0, ratio, way)))
    filters, loss, steps, readout = _descend(*start, x, y, p.rate / steep, p.level, int(p.most * steep))
    right = np.asarray(_outputs((filters, readout), jnp.asarray(x_test, jnp.float32))).argmax(axis=1)
    return {
        "start": start[0], "filters": np.asarray(filters, float), "loss": float(loss), "steps": int(steps),
        "accuracy": (right == y_test.argmax(axis=1)).mean(),
    }  # fmt: skip


@jax.jit
def _descend(first: Any, later: Any, x: Any, y: Any, rate: Any, level: Any, most: Any) -> Any:
    first, later, x, y = (jnp.asarray(v, jnp.float32) for v in (first, later, x, y))
    slope = jax.value_and_grad(lambda w: ((_outputs(w, x) - y) ** 2).sum(axis=1).mean() / 2)

    def step(state: Any) -> Any:
        w, _, k = state
        value, g = slope(w)
        return jax.tree.map(lambda a, b: a - rate * b, w, g), value, k + 1

    go = lambda state: (state[1] > level) & (state[2] < most)  # noqa: E731
    w, value, k = jax.lax.while_loop(go, step, ((first, later), jnp.inf, 0))
    return w[0], value, k, w[1]


def roughness(filters: np.ndarray) -> np.ndarray:
    """Mean squared difference of neighbouring weights over their mean square, `(...)`; 2 for noise."""
    steps = [np.diff(filters, axis=axis) ** 2 for axis in (-1, -2)]
    size = (filters**2).mean(axis=(-1, -2, -3))
    return sum(s.mean(axis=(-1, -2, -3)) for s in steps) / (2 * size)


def new(found: Results) -> np.ndarray:
    """Share of the squared filters that does not lie along what they were at the start `(ratios, seeds)`."""
    a, b = (found[k].reshape(*found[k].shape[:2], -1) for k in ("filters", "start"))
    return 1 - (a * b).sum(axis=-1) ** 2 / ((a**2).sum(axis=-1) * (b**2).sum(axis=-1))


# -- figures and claims ----------------------------------------------------------------------


def structured(filters: np.ndarray, p: RelativeScale) -> np.ndarray:
    """Share of the squared filters in the leading principal components of patches `(ratios, seeds)`."""
    images = nr.tasks.digits(centred=True).arrays[0][: p.images].reshape(-1, 8, 8)
    patches = np.lib.stride_tricks.sliding_window_view(images, (p.size, p.size), axis=(1, 2))
    flat = patches.reshape(-1, p.size**2)
    leading = np.linalg.eigh(flat.T @ flat)[1][:, -COMPONENTS:]
    rows = filters.reshape(*filters.shape[:2], p.filters, -1)
    return ((rows @ leading) ** 2).sum(axis=(-1, -2)) / (rows**2).sum(axis=(-1, -2))


def figures(p: RelativeScale, r: Results) -> dict[str, tuple[Figure, str]]:
    return {"relative-scale": curves(p, r), "relative-scale-filters": shown(p, r)}


def curves(p: RelativeScale, r: Results) -> tuple[Figure, str]:
    fig, (a, b, c) = plot.figure(1, 3, height=2.5)
    one = p.ratios.index(1.0)
    found = r["relative"]
    plot.runs(a, found["step"][one] + 1, found["trained"][one], plot.BLACK, "shown sums")
    plot.runs(a, found["step"][one] + 1, found["others"][one], plot.RED, "other sums")
    a.set(xscale="log", xlabel="steps", ylabel="correct", ylim=(-0.02, 1.05))
    a.legend(loc="lower left", bbox_to_anchor=(-0.05, 1), ncols=2)
    for way, colour in WAYS.items():
        plot.points(b, p.ratios, r[way]["understood"].T, colour, way)
        plot.points(b, p.ratios, r[way]["memorised"].T, colour, mfc="white")
    b.set(xscale="log", yscale="log", xlabel="ratio r, later / first layer", ylabel="steps")
    b.set(title="filled: understood, open: memorised")
    b.legend(loc="center left")
    for way, face in zip(FILTERED, (None, "white"), strict=True):
        found = r["filters"][way]
        for values, colour, name in (
            (new(found), plot.ORANGE, "new"),
            (structured(found["filters"], p), plot.GREEN, "in leading components"),
            (roughness(found["filters"]) / 2, plot.BLUE, "roughness / 2"),
        ):
            plot.points(c, p.ratios, values.T, colour, name if way == "first" else None, mfc=face or colour)
    c.axhline(COMPONENTS / p.size**2, color=plot.GREEN, lw=0.8, ls=":")
    c.set(xscale="log", xlabel="ratio r, later / first layer", ylabel="filters", ylim=(-0.03, 1.6))
    c.set(title="filled: first, open: relative")
    c.legend(loc="upper left")
    for ax in (b, c):
        ax.set_xticks(p.ratios, [f"{ratio:.3g}" for ratio in p.ratios])
        ax.set_xticks([], minor=True)
    caption = (
        f"Left: modular addition (mod {p.modulus}), share of correct sums at r = 1, {p.seeds} seeds. Middle: "
        f"steps until {TRAINED:.0%} of the shown and {UNDERSTOOD:.0%} of the other sums are correct. Right: "
        "filters of a convolutional network on digits at the same loss: how much is new, and how much lies "
        f"in the {COMPONENTS} leading components of patches (dotted: chance)."
    )
    return fig, caption


def shown(p: RelativeScale, r: Results) -> tuple[Figure, str]:
    many = min(p.filters, 8)
    fig, axes = plot.figure(len(p.ratios), many, plot.PAGE, 0.75 * len(p.ratios) + 0.2, squeeze=False)
    for row, ratio, filters in zip(axes, p.ratios, r["filters"]["first"]["filters"][:, 0], strict=True):
        for k, ax in enumerate(row):
            plot.matrix(ax, filters[k])
            ax.set_aspect("equal")
        row[0].set_ylabel(f"{ratio:.3g}", rotation=0, ha="right", va="center")
    caption = "Filters of one seed, first layer alone scaled; rows: ratio r. Each has its own range."
    return fig, caption


def about_filters(p: RelativeScale, found: Results, way: str, by: Any, ends: str) -> list[Claim]:
    rough, fresh, leading = roughness(found["filters"]), new(found), structured(found["filters"], p)
    change = lambda values: values[-1] - values[0]  # noqa: E731
    why = ""
    if way == "relative":
        why = "A likely reason: large random readouts hardly learn, and filters serve what they ask for. "
    return [
        check.below(f"filters-loss-{way}", f"filters, {way}: loss at which they are compared", TALK,
                    p.level + 1e-6, found["loss"], f"Test accuracy by r: {by(found['accuracy'])}."),
        finding.above(f"filters-new-{way}", f"filters, {way}: share that is new, {ends}", TALK, 0,
                      change(fresh), f"By r: {by(fresh)}."),
        paper.above(f"filters-structured-{way}",
                    f"filters, {way}: share in leading components of patches, {ends}", TALK, 0,
                    change(leading).mean(),
                    f"{why}By r: {by(leading)}; chance {COMPONENTS / p.size**2:.2g}."),
        paper.below(f"filters-smooth-{way}", f"filters, {way}: roughness, {ends}", TALK, 0,
                    change(rough).mean(), f"By r: {by(rough)}."),
    ]  # fmt: skip


def claims(p: RelativeScale, r: Results) -> list[Claim]:
    one, low, high = p.ratios.index(1.0), 0, len(p.ratios) - 1
    times = {way: np.log(r[way]["understood"]) for way in WAYS}
    delay = r["relative"]["understood"][one] / r["relative"]["memorised"][one]
    without, quick = r["without decay"]["others"][..., -1], np.log(r["without decay"]["understood"])

    def by(values: np.ndarray) -> str:
        return "; ".join(f"{s:.3g}: {v:.3g}" for s, v in zip(p.ratios, values.mean(axis=1), strict=True))

    size = "With weight decay the size of the weights decides: what is large takes long to decay."
    ends = f"r = {p.ratios[-1]:g} - r = {p.ratios[0]:.3g}"
    steps = f"log of steps to understand, r = {p.ratios[-1]:g} - r = 1"
    return [
        finding.above("grokking-delay", "grokking: steps to understand / to memorise, r = 1", TALK, 5, delay),
        finding.near("grokking-share", "share of networks that understand", TALK, 1,
                     np.mean([np.isfinite(t).mean() for t in times.values()]), 0),
        paper.below("grokking-relative", f"{steps}, relative", TALK, 0,
                    times["relative"][high] - times["relative"][one],
                    f"{size} Steps by r: {by(np.exp(times['relative']))}."),
        finding.below("grokking-first", f"{steps}, first layer alone", TALK, 0,
                      times["first"][high] - times["first"][one],
                      f"Steps by r: {by(np.exp(times['first']))}."),
        finding.above("grokking-later", f"{steps}, later layer alone", TALK, 0,
                      times["later"][high] - times["later"][one],
                      f"Steps by r: {by(np.exp(times['later']))}."),
        finding.above("without-decay-correct", f"without decay: other sums correct at the end, {ends}", TALK,
                      0, (without[high] - without[low]).mean(), f"By r: {by(without)}."),
        finding.below("without-decay-steps", f"without decay: {steps}", TALK, 0,
                      np.mean(quick[high] - quick[one]), f"Steps by r: {by(np.exp(quick))}."),
        *(claim for way in FILTERED for claim in about_filters(p, r["filters"][way], way, by, ends)),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "relative-scale",
    "Relative scale of layers in practice: grokking and filters",
    "talk: impact of relative scale initializations in practice",
    RelativeScale(),
    RelativeScale(seeds=2, ratios=(1 / 8, 1.0, 8.0), steps=5000, images=200),
    compute,
    figures,
    claims,
    (0.4, 3.0),
)
