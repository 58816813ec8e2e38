"""Blobs at different places, seen as images of 5 x 5 pixels with a context bit: report the x position in one
context, the y position in the other. Networks from small weights represent only the position that a context
asks for, so that the square of positions collapses to a line; from large weights both directions stay; from
very small weights the two lines become one. The paper prints no settings for Adam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from matplotlib.lines import Line2D

import neuralrace as nr
from neuralrace import plot
from neuralrace.measure import principal_components, squared_distances
from neuralrace.universality import structure, watch
from neuralrace_papers.framework import Data, Experiment, along, figure, part, require, rows

KINDS = ("very-low", "low", "high", "Adam-low", "Adam-high")
MOST_SAMPLES = 400  # whose distances are compared with the theory


@dataclass(frozen=True)
class Collapse:
    seeds: Annotated[int, "random starts of each network"] = 5
    side: Annotated[int, "places of a blob along each axis"] = 30
    pixels: Annotated[int, "pixels of an image along each axis"] = 5
    blob: Annotated[float, "width of a blob, in units of half the image"] = 1.0
    layers: Annotated[int, "hidden layers"] = 4
    units: Annotated[int, "units of each hidden layer"] = 100
    gains: Annotated[tuple[float, ...], f"initial gains: {', '.join(KINDS)}"] = (0.275, 0.5, 2.0, 0.5, 2.0)
    rates: Annotated[tuple[float, ...], "learning rates, for each of gains"] = (
        0.05, 0.015, 0.0015, 0.001, 0.0005,
    )  # fmt: skip
    epochs: Annotated[tuple[int, ...], "passes over the blobs; with Adam, steps"] = (
        2000, 1500, 750, 3000, 1000,
    )  # fmt: skip
    batch_size: Annotated[int, "blobs in a mini-batch of gradient descent"] = 64
    activation: Annotated[Literal["tanh", "leaky_relu", "relu"], "of the hidden layers"] = "tanh"

    def __post_init__(self) -> None:
        for name in ("gains", "rates", "epochs"):
            fits = len(getattr(self, name)) == len(KINDS)
            require(fits, f"{name} must hold {len(KINDS)} numbers, for {', '.join(KINDS)}")
        blobs = 2 * self.side**2
        require(self.batch_size <= blobs, f"batch_size must be at most the number of blobs, {blobs}")


def blobs(p: Collapse) -> nr.Task:
    sizes = [p.pixels**2 + 2, *[p.units] * p.layers, 1]
    graph = nr.Graph.chain(sizes, activations=p.activation, biases=True)
    return nr.tasks.blobs(p.side, p.pixels, p.blob, graph=graph)


@part(each=KINDS)
def networks(p: Collapse, kind: str):
    """Representations of the first run after learning, and numbers of all runs before and after."""
    k, adam = KINDS.index(kind), kind.startswith("Adam")
    task = blobs(p)
    x, y = task.arrays
    steps = p.epochs[k] if adam else p.epochs[k] * (len(x) // p.batch_size)
    start = nr.init.xavier(task.graph, p.gains[k], seed=range(p.seeds))
    rule: dict[str, Any] = {"optimizer": "adam"} if adam else {"batch_size": p.batch_size}
    record = watch(task.graph, x, task.graph.hidden[p.layers // 2])
    run = nr.descend(
        task, start, p.rates[k], steps, 2, record=record, save_weights=False, dtype=np.float32, **rule
    )
    hidden = np.asarray(run.recorded["hidden"], float)  # (run, when, sample, unit)
    squares = hidden.reshape(p.seeds, 2, 2, p.side, p.side, -1)
    some = slice(None, None, max(1, len(x) // MOST_SAMPLES))
    theory = structure(x[some], y[some])
    pairs = np.triu_indices(len(theory), 1)
    ends = squared_distances(hidden[:, 1, some])
    return {
        "when": ("when", ["before", "after"]),
        "hidden": ("context x y unit", squares[0, 1].astype(np.float32)),
        "index": ("run when context", collapse_index(squares)),
        "apart": ("run when", context_distance(squares)),
        "correlation": ("run", [np.corrcoef(theory[pairs], end[pairs])[0, 1] for end in ends]),
    }


def collapse_index(h: np.ndarray) -> np.ndarray:
    """Mean squared distance along the irrelevant / along the relevant position, in each context `(..., 2)`.

    `h` is (..., context, x, y, units). Mean squared distances are variances, up to a factor.
    """
    along_x, along_y = (h.var(axis=axis).sum(-1).mean(-1) for axis in (-3, -2))
    ratio = along_y / along_x
    return np.stack([ratio[..., 0], 1 / ratio[..., 1]], -1)


def context_distance(h: np.ndarray) -> np.ndarray:
    """Squared distance of the contexts at equal targets / mean squared distance of targets in a context.

    `h` is (..., context, x, y, units); contexts are x and y, averaged over the other position.
    """
    lines = np.stack([h[..., 0, :, :, :].mean(-2), h[..., 1, :, :, :].mean(-3)])  # context first
    between = ((lines[0] - lines[1]) ** 2).sum(-1).mean(-1)
    return between / (2 * lines.var(axis=-2).sum(-1).mean(0))


def draw_closer(h: np.ndarray, gap: float = 1.5) -> tuple[np.ndarray, float]:
    """Three principal components (context, x, y, 3); contexts far apart are moved together, by a factor."""
    centres = h.mean(axis=(1, 2), keepdims=True)
    size = np.sqrt(2 * ((h - centres) ** 2).sum(-1).max())
    closer = max(1.0, float(np.linalg.norm(centres[1] - centres[0]) / (gap * size)))
    return principal_components(h - centres + centres / closer, 3), closer


@figure("task")
def images(p: Collapse, data: Data):
    fig, axes = plot.figure(1, 4, width=plot.PAGE, height=2.3, sharey=True)
    image = blobs(p).arrays[0][: p.side**2, :-2].reshape(p.side, p.side, p.pixels, p.pixels)
    last, edge = p.side - 1, 1 + 1 / (p.pixels - 1)
    for ax, at in zip(axes, ((0, 0), (last, 0), (last // 2, last // 2), (last, last)), strict=True):
        ax.imshow(image[at], origin="lower", vmin=0, vmax=image.max(), extent=(-edge, edge) * 2)
        x, y = np.linspace(-1, 1, p.side)[list(at)].round(2)
        ax.plot(x, y, "o", color=plot.RED, ms=4, clip_on=False, label="centre of the blob")
        ax.set(title=f"x = {x:g}, y = {y:g}", xticks=(-1, 0, 1), yticks=(-1, 0, 1), xlabel="x")
    axes[0].set_ylabel("y")
    fig.colorbar(axes[0].images[0], ax=axes, label="pixel (an image sums to 1)", shrink=0.8)
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center")
    return fig, (
        f"Four of the {p.side} x {p.side} blobs. The context says which position is asked for, x or y."
    )


@figure("blobs")
def representations(p: Collapse, data: Data):
    fig, axes = plot.figure(2, 3, width=plot.PAGE, height=4.8, subplot_kw={"projection": "3d"})
    asked = {"x is asked for": plot.BLUE, "y is asked for": plot.ORANGE}
    for ax, kind, gain in zip(axes.flat, KINDS, p.gains, strict=False):
        points, closer = draw_closer(np.asarray(data.networks[kind].hidden, float))
        keep = slice(None, None, max(1, p.side // 12))
        for sheet, colour in zip(points[:, keep, keep], asked.values(), strict=True):
            for line in (*sheet, *sheet.swapaxes(0, 1)):
                ax.plot(*line.T, color=colour, lw=0.6, alpha=0.8)
        half = np.abs(points).max()
        for k, axis in enumerate("xyz"):
            ax.set(**{f"{axis}lim": (-half, half), f"{axis}ticks": []})
            getattr(ax, f"set_{axis}label")(f"component {k + 1}", labelpad=-14, fontsize=6)
        moved = f"\n(contexts drawn {closer:.0f} times closer)" if closer > 1.05 else "\n"
        ax.set_title(f"{kind.replace('-', ' ')}, gain {gain:g}{moved}", y=0.98)
        ax.view_init(25, -60)
        ax.set_box_aspect((1, 1, 1), zoom=1.05)
    axes.flat[-1].set_axis_off()
    handles = [Line2D([], [], color=colour, label=context) for context, colour in asked.items()]
    axes.flat[-1].legend(handles=handles, loc="center", title="context")
    return fig, (
        f"Representations of blobs at {p.side} x {p.side} places after learning: three principal components "
        "(classical multidimensional scaling), in which lines join neighbours and all axes of a panel have "
        "one scale. A square that collapsed is a line. Where a title says so, contexts are drawn closer than "
        "they are."
    )


@figure("numbers")
def numbers(p: Collapse, data: Data):
    fig, axes = plot.figure(1, 2, width=plot.PAGE, height=2.6)
    found, place = along(data.networks, "kind"), np.arange(len(KINDS))
    labels = {"index": "irrelevant / relevant position", "apart": "contexts / targets"}
    for ax, (name, label) in zip(axes, labels.items(), strict=True):
        for when, shift, colour in (("before", -0.1, "0.6"), ("after", 0.1, plot.BLUE)):
            values = found[name].sel(when=when).values.reshape(len(KINDS), -1)
            x = np.repeat(place + shift, values.shape[1])
            ax.plot(x, values.ravel(), "o", ms=3, color=colour, label=f"{when} learning")
        plot.label(ax, "initial weights", f"squared distance,\n{label}", yscale="log")
        ax.set_xticks(place, [kind.replace("-", "\n") for kind in KINDS])
        ax.axhline(1, color="0.8", lw=0.7, zorder=0, label="equal")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig, (
        "Left: collapse of the position that does not matter, as a mean squared distance over that along the "
        f"position that does, in each context of {p.seeds} networks. Right: squared distance of the contexts "
        "at equal targets over that of targets within a context."
    )


@rows
def collapse(p: Collapse, data: Data):
    found = along(data.networks, "kind").sel(when="after")
    worse, better = found.index.max("context"), found.index.min("context")
    for name, kind in (("very-low",) * 2, ("low",) * 2, ("adam-low", "Adam-low")):
        yield f"collapse-{name}", worse.sel(kind=kind)
    for name, kind in (("high",) * 2, ("adam-high", "Adam-high")):
        yield f"collapse-{name}", better.sel(kind=kind)
    for kind in ("low", "very-low"):
        yield f"contexts-{kind}", found.apart.sel(kind=kind)
    yield "contexts-over-irrelevant", found.apart.sel(kind="low") / worse.sel(kind="low")
    by_x, by_y = blobs(p).arrays[0].reshape(2, p.side, p.side, -1)
    irrelevant = by_x.var(axis=1).sum(-1).mean() + by_y.var(axis=0).sum(-1).mean()
    yield "contexts-inputs", ((by_x - by_y) ** 2).sum(-1).mean() / irrelevant
    yield "eq-10-very-low", data.networks["very-low"].correlation


EXPERIMENT = Experiment(
    "collapse",
    "Feature collapse: what a context does not ask for",
    "representations_align Fig. 7-8, 12, 15",
    Collapse(),
    quick={
        "seeds": 1, "side": 12, "gains": (0.35, 0.6, 2.0, 0.5, 2.0), "batch_size": 36,
        "rates": (0.1, 0.03, 0.005, 0.001, 0.0005), "epochs": (2600, 2500, 300, 1500, 500),
    },
    minutes=(0.5, 12),
)  # fmt: skip
