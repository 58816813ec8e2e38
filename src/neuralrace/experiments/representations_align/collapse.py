"""Blobs at different places, seen as images of 5 x 5 pixels with a context bit: tell the x position in one
context, the y position in the other. Networks from small weights represent only what a context asks for, so
that the square of positions collapses to a line; from large weights both directions stay; from very small
weights the two lines become one. Collapse is measured as the mean squared distance of two blobs that differ
only in the position that does not matter, over that of two which differ only in the one that does; how far
contexts are apart, as their squared distance at equal targets over that of targets within a context."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import plot
from neuralrace.errors import InputError
from neuralrace.experiments.old import Claim, Experiment, Parameters, Parts, Results, check, option, paper
from neuralrace.universality import squared_distances, structure, watch

KINDS = ("very-low", "low", "high", "Adam-low", "Adam-high")


@dataclass(frozen=True)
class Collapse(Parameters):
    seeds: int = option(5, "random starts of each network")
    side: int = option(30, "places of a blob along each axis", least=3)
    pixels: int = option(5, "pixels of an image along each axis", least=2)
    blob: float = option(1.0, "width of a blob, in units of half the image")
    layers: int = option(4, "hidden layers", least=2)
    units: int = option(100, "units of each hidden layer")
    gains: tuple[float, ...] = option(
        (0.275, 0.5, 2.0, 0.5, 2.0), "gains of the initial weights: very low, low, high, Adam low, Adam high"
    )
    rates: tuple[float, ...] = option(
        (0.05, 0.015, 0.0015, 0.001, 0.0005), "learning rates, for each of gains"
    )
    epochs: tuple[int, ...] = option(
        (2000, 1500, 750, 3000, 1000),
        "passes over the blobs, for each of gains; with Adam, steps on all blobs",
    )
    batch_size: int = option(64, "blobs in a mini-batch of gradient descent")
    activation: str = option(
        "tanh", "activation of the hidden layers", choices=("tanh", "leaky_relu", "relu")
    )

    def check(self) -> None:
        for name in ("gains", "rates", "epochs"):
            if len(getattr(self, name)) != len(KINDS):
                raise InputError(f"{name} must hold {len(KINDS)} numbers, for {', '.join(KINDS)}")
        if self.batch_size > 2 * self.side**2:
            raise InputError(f"batch_size must be at most the number of blobs, {2 * self.side**2}")


def blobs(p: Collapse) -> tuple[np.ndarray, np.ndarray]:
    """Images with two context bits, in the order (context, x, y), and targets; each image sums to one."""
    grid, centres = np.linspace(-1, 1, p.pixels), np.linspace(-1, 1, p.side)
    along = np.exp(-((grid - centres[:, None]) ** 2) / (2 * p.blob**2))
    image = (along[:, None, None, :] * along[None, :, :, None]).reshape(p.side**2, -1)
    image /= image.sum(axis=1, keepdims=True)
    place = np.stack(np.meshgrid(centres, centres, indexing="ij")).reshape(2, -1)
    x = np.hstack([np.tile(image, (2, 1)), np.repeat(np.eye(2), p.side**2, axis=0)])
    return x, place.reshape(-1, 1)


@cache
def net(p: Collapse) -> tuple[nr.Graph, Any]:
    """The network and what to record of it."""
    hidden = [f"h{k + 1}" for k in range(p.layers)]
    sizes = [p.pixels**2 + 2, *[p.units] * p.layers, 1]
    graph = nr.Graph.chain(sizes, activations=dict.fromkeys(hidden, p.activation), biases=True)
    return graph, watch(graph, blobs(p)[0], hidden[p.layers // 2])


def train(kind: str, p: Collapse) -> dict[str, Any]:
    """Representations of the first seed before and after learning, and the numbers of all seeds."""
    k, adam = KINDS.index(kind), kind.startswith("Adam")
    graph, record = net(p)
    x, y = blobs(p)
    steps = p.epochs[k] if adam else p.epochs[k] * (len(x) // p.batch_size)
    run = nr.descend(
        nr.Task(graph, x, y), nr.init.xavier(graph, p.gains[k], seed=range(p.seeds)), p.rates[k], steps, 2,
        batch_size=None if adam else p.batch_size, optimizer="adam" if adam else "sgd", record=record,
        save_weights=False, dtype=np.float32,
    )  # fmt: skip
    h = np.asarray(run.recorded["hidden"], float).reshape(p.seeds, 2, 2, p.side, p.side, -1)
    some = slice(None, None, max(1, 2 * p.side**2 // 400))
    theory = structure(x[some], y[some])
    pairs = np.triu_indices(len(theory), 1)
    ends = [squared_distances(one.reshape(len(x), -1)[some]) for one in h[:, 1]]
    return {
        "hidden": h[0, 1].astype(np.float32),
        "index": [[collapse_index(v) for v in one] for one in h],
        "apart": [[context_distance(v) for v in one] for one in h],
        "correlation": [np.corrcoef(theory[pairs], end[pairs])[0, 1] for end in ends],
        "loss": run.loss[:, -1],
    }


def collapse_index(h: np.ndarray) -> np.ndarray:
    """Mean squared distance along the irrelevant / along the relevant position, in each context `(2,)`.

    `h` is (context, x, y, units). Mean squared distances are variances, up to a factor.
    """
    along_x, along_y = h.var(axis=1).sum(-1).mean(-1), h.var(axis=2).sum(-1).mean(-1)
    return np.array([along_y[0] / along_x[0], along_x[1] / along_y[1]])


def context_distance(h: np.ndarray) -> float:
    """Squared distance of the contexts at equal targets / mean squared distance of targets in a context."""
    lines = np.stack([h[0].mean(axis=1), h[1].mean(axis=0)])  # (context, target, units)
    return float(((lines[0] - lines[1]) ** 2).sum(-1).mean() / (2 * lines.var(axis=1).sum(-1).mean()))


def compute(p: Collapse, parts: Parts) -> Results:
    with jax.default_matmul_precision("highest"):  # else a GPU rounds away the distance of close samples
        return dict(zip(KINDS, parts.each("train", train, KINDS, p), strict=True))


def drawn(h: np.ndarray, gap: float = 1.5) -> tuple[np.ndarray, float]:
    """Three principal components (context, x, y, 3); contexts far apart are moved together, by a factor."""
    centres = h.mean(axis=(1, 2))
    inside = h - centres[:, None, None]
    size = np.sqrt(2 * (inside**2).sum(-1).max())
    between = np.linalg.norm(centres[1] - centres[0])
    closer = max(1.0, between / (gap * size))
    flat = (inside + (centres / closer)[:, None, None]).reshape(-1, h.shape[-1])
    flat = flat - flat.mean(axis=0)
    basis = np.linalg.svd(flat, full_matrices=False)[2][:3]
    return (flat @ basis.T).reshape(*h.shape[:3], 3), closer


def figures(p: Collapse, r: Results) -> dict[str, tuple[Figure, str]]:
    fig, axes = plot.figure(1, len(KINDS), height=1.9, subplot_kw={"projection": "3d"})
    for ax, kind in zip(axes, KINDS, strict=True):
        points, closer = drawn(np.asarray(r[kind]["hidden"], float))
        centre, half = points.mean(axis=(0, 1, 2)), np.abs(points - points.mean(axis=(0, 1, 2))).max()
        keep = slice(None, None, max(1, p.side // 12))
        for context, colour in enumerate((plot.BLUE, plot.ORANGE)):
            sheet = points[context][keep][:, keep]
            for line in (*sheet, *sheet.swapaxes(0, 1)):
                ax.plot(*line.T, color=colour, lw=0.6, alpha=0.8)
        for axis, c in zip("xyz", centre, strict=True):
            ax.set(**{f"{axis}lim": (c - half, c + half), f"{axis}ticks": []})
        moved = f"\n(drawn {closer:.0f} times closer)" if closer > 1.05 else "\n"
        ax.set_title(f"{kind.replace('-', ' ')}, gain {p.gains[KINDS.index(kind)]:g}{moved}", y=0.98)
        ax.view_init(25, -60)
        ax.set_box_aspect((1, 1, 1), zoom=1.1)
    caption = (
        f"Representations of blobs at {p.side} x {p.side} places after learning (three principal components, "
        "which is classical multidimensional scaling), lines join neighbours; blue: the x position is asked "
        "for, orange: y. A square that collapsed is a line. Where noted, contexts are drawn closer than they "
        "are."
    )
    numbers, (a, b) = plot.figure(1, 2, height=2.3)
    for ax, name, label in (
        (a, "index", "collapse: irrelevant / relevant"),
        (b, "apart", "contexts / targets"),
    ):
        for k, kind in enumerate(KINDS):
            values = r[kind][name].reshape(p.seeds, 2, -1)
            for when, colour in enumerate(("0.6", plot.BLUE)):
                dots = values[:, when].ravel()
                text = ("before learning", "after")[when] if k == 0 else None
                ax.plot(np.full(len(dots), k - 0.1 + 0.2 * when), dots, "o", ms=3, color=colour, label=text)
        ax.set(yscale="log", ylabel=f"squared distance,\n{label}")
        ax.set_xticks(range(len(KINDS)), [k.replace("-", "\n") for k in KINDS])
        ax.axhline(1, color="0.8", lw=0.7, zorder=0)
    a.legend()
    task, axes = plot.figure(1, 4, height=1.9)
    images = blobs(p)[0][: p.side**2, :-2].reshape(p.side, p.side, p.pixels, p.pixels)
    last, edge = p.side - 1, 1 + 1 / (p.pixels - 1)
    for ax, (a, b) in zip(axes, ((0, 0), (last, 0), (last // 2, last // 2), (last, last)), strict=True):
        ax.imshow(images[a, b], origin="lower", vmin=0, vmax=images.max(), extent=(-edge, edge) * 2)
        where = np.linspace(-1, 1, p.side)[[a, b]].round(2)
        ax.plot(*where, "o", color=plot.RED, ms=4, clip_on=False)
        ax.set(title=f"x = {where[0]:g}, y = {where[1]:g}", xticks=(-1, 0, 1), yticks=(-1, 0, 1))
    task.colorbar(axes[0].images[0], ax=axes, label="pixel", shrink=0.8)
    return {
        "task": (task, "Blobs with their centres (red): the position along one axis is asked for."),
        "blobs": (fig, caption),
        "numbers": (
            numbers,
            f"Left: collapse of the position that does not matter, each context and seed ({p.seeds}). Right: "
            "distance of the contexts at equal targets over that of targets.",
        ),
    }


WEAKER = "From the same weights collapse is weaker with Adam than with gradient descent."
LINE = (
    "On one line distances depend on targets alone; by Eq. 10 they are larger across contexts, whose inputs "
    "differ more. "
)


def claims(p: Collapse, r: Results) -> list[Claim]:
    fig8, fig12, fig15 = (f"representations_align Fig. {k}" for k in (8, 12, 15))
    index = {k: np.asarray(r[k]["index"])[:, 1] for k in KINDS}  # (seeds, contexts), after learning
    apart = {k: np.asarray(r[k]["apart"])[:, 1] for k in KINDS}
    worse, better = "irrelevant / relevant, the worse context", "irrelevant / relevant, the better context"
    mean = {k: np.mean(r[k]["correlation"]) for k in KINDS}
    losses = np.concatenate([r[k]["loss"] for k in KINDS])
    others = f"Low: {mean['low']:.2f}; high: {mean['high']:.2f}."
    return [
        check.below("learned", "loss at the end, all networks", fig8, 0.01, losses),
        paper.below("collapse-low", f"low weights: {worse}", fig8, 0.2, index["low"].max(axis=1)),
        paper.above("collapse-high", f"high weights: {better}", fig8, 0.5, index["high"].min(axis=1)),
        paper.above("contexts-low", "low weights: contexts / targets", fig8, 0.5, apart["low"]),
        paper.below(
            "collapse-very-low", f"very low weights: {worse}", fig12, 0.2, index["very-low"].max(axis=1)
        ),
        paper.below(
            "contexts-very-low", "very low weights: contexts / targets", fig12, 0.2, apart["very-low"]
        ),
        paper.below(
            "collapse-adam-low", f"Adam, low weights: {worse}", fig15, 0.2, index["Adam-low"].max(axis=1),
            WEAKER,
        ),
        paper.above(
            "collapse-adam-high", f"Adam, high weights: {better}", fig15, 0.5, index["Adam-high"].min(axis=1)
        ),
        paper.above(
            "eq-10-very-low", "very low weights: correlation of all distances with Eq. 10",
            "representations_align C.2", 0.8, r["very-low"]["correlation"], LINE + others,
        ),
    ]  # fmt: skip


QUICK = Collapse(
    seeds=1, side=12, gains=(0.35, 0.6, 2.0, 0.5, 2.0), rates=(0.1, 0.03, 0.005, 0.001, 0.0005),
    epochs=(2600, 2500, 300, 1500, 500), batch_size=36,
)  # fmt: skip
EXPERIMENT = Experiment(
    "collapse",
    "Feature collapse: what a context does not ask for",
    "representations_align Fig. 7-8, 12, 15",
    Collapse(),
    QUICK,
    compute,
    figures,
    claims,
    (0.5, 12),
    needs_full=("collapse-adam-low",),  # at this size .14, in the full form .32
)
