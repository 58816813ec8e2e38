"""The change of coordinates of Eq. 4-13, in which the layers of parallel pathways are diagonal. As printed it
holds for initial layers of size sigma = 1. With its powers of sigma it holds at any size, where initial
layers are orthogonal and the last one lies within what the others span. The published layers are neither:
they are random, of size 0.316, and much of what they learn lies outside these coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace.init import random_frame
from neuralrace.measure import contributions, half_time, pathway_coordinates, power_law_exponent
from neuralrace_papers.framework import Data, Experiment, along, figure, part, require, rows
from neuralrace_papers.multipathway import networks
from neuralrace_papers.multipathway.networks import S, U, V

RELATIONS = ("eq-8", "eq-9", "eq-10", "eq-11-hidden", "eq-11-last")
STILL = 1e-6  # off-diagonal entries, relative to the largest: up to here a solution counts as diagonal
DEVIATIONS = {
    "hidden": ("hidden layers", plot.SKY),
    "last": ("last layer, variance by its inputs", plot.BLACK),
    "last-printed": ("last layer, variance by its outputs", plot.RED),
}


@dataclass(frozen=True)
class PathwayCoordinates:
    seeds: Annotated[int, "random networks"] = 5
    width: Annotated[int, "units of each hidden layer of random networks"] = 1000
    std: Annotated[float, "standard deviation of random weights"] = 0.01
    depths: Annotated[tuple[int, ...], "depths of both pathways"] = (2, 3, 4, 7)
    orthogonal_width: Annotated[int, "units of each hidden layer of orthogonal networks"] = 16
    last: Annotated[float, "standard deviation of their last layers, in units of sigma"] = 1e-4
    widths: Annotated[tuple[int, ...], "widths at which deviations are compared"] = (100, 300, 1000)
    draws: Annotated[int, "random layers of each width"] = 20
    random_depth: Annotated[int, "depth of random networks"] = 3
    t1: Annotated[float, "end of learning of random and of diagonal networks, flow time"] = 3200.0

    def __post_init__(self) -> None:
        require(min(self.depths) >= 2, f"depths must be at least 2, got {self.depths}")
        require(self.random_depth >= 3, f"random_depth must be at least 3, got {self.random_depth}")
        least = min(self.width, self.orthogonal_width)
        require(least >= 16, f"width and orthogonal_width must be at least 16, got {least}")

    @property
    def sizes(self) -> dict[str, float]:
        """Sizes sigma of orthogonal layers: that of the published weights, and 1."""
        return {"published": self.std * np.sqrt(self.width), "one": 1.0}


@part(each=lambda p: [(d, kind) for d in p.depths for kind in p.sizes])
def orthogonal(p: PathwayCoordinates, item: tuple[int, str]):
    """Sigma times orthogonal layers, the last one within the frames: Eq. 8-11, 17 and 19 along the flow."""
    depth, sigma = item[0], p.sizes[item[1]]
    task, rng, start = networks.task([depth] * 2, p.orthogonal_width), np.random.default_rng(depth), {}
    graph, p0 = task.graph, p.last * rng.standard_normal((2, len(S)))
    for path, own in zip(graph.paths(), p0, strict=True):
        carried = V
        for edge in path[:-1]:
            start[edge] = sigma * random_frame(rng, *graph.shapes[edge])
            carried = start[edge] @ carried / sigma
        start[path[-1]] = sigma * (U * own) @ carried.T
    rough = np.append(0, 1e-2 * 1e4 ** (np.arange(300) / 199)) * sigma ** (2 - depth)
    weakest = nr.exact.pathways(rough / len(networks.Y), S[-1], [depth] * 2, p0[:, -1], sigma).sum(axis=0)
    end = rough[(weakest > 0.99 * S[-1]).argmax()]
    t = np.append(0, np.geomspace(1e-5, 1.2, 300)) * end  # as many times: one compilation serves both
    run = nr.flow(task, start, save=t, method=nr.Adaptive(1e-9, 1e-12))
    whole = pathway_coordinates(graph, run.weights, start, U, V, sigma)
    layers = np.stack([whole[path[-1]] for path in graph.paths()])
    off = np.abs(layers * (1 - np.eye(len(S)))).max(axis=(0, 2, 3)) / np.abs(layers).max(axis=(0, 2, 3))
    w = {e: v[[180, 240, 270, 300]] for e, v in run.weights.items()}
    bar = pathway_coordinates(graph, w, start, U, V, sigma)
    sides = [equations(task, w, start, bar, path, sigma) for path in graph.paths()]
    diagonal = np.flatnonzero(off < STILL)[-1]
    first, last = (np.array([whole[path[k]][diagonal, 0, 0] for path in graph.paths()]) for k in (0, -1))
    stated, printed = (
        nr.exact.pathways(t / len(networks.Y), S[0], [depth] * 2, own, size)
        for own, size in ((p0[:, 0], sigma), (p0[:, 0] / sigma**depth, 1.0))
    )
    return {
        "t": ("t", t),
        "k": ("t pathway", networks.leading(contributions(graph, run, U, V))[..., 0]),
        "stated": ("t pathway", stated.T),
        "printed": ("t pathway", printed.T),
        "factor": ("pathway relation", [[factor(*pair) for pair in pairs] for pairs in sides]),
        "error": ("pathway relation", [[error(*pair) for pair in pairs] for pairs in sides]),
        "off": ("t", off),
        "curve": ("pathway", (first**2 - 1) / (last / sigma**depth) ** 2),
    }


def equations(
    task: nr.Task, w: Any, start: Any, bar: Any, path: Sequence[str], sigma: float
) -> list[tuple[Any, Any]]:
    """Left-hand and right-hand sides of Eq. 8-11 for a pathway, at all times; the right-hand ones without any
    power of sigma, in coordinates with Eq. 7 as printed."""
    one, *edges, last = np.eye(len(S)), *path
    downhill = {e: -g for e, g in nr.gradient(task, w).items()}
    slope = pathway_coordinates(task.graph, downhill, start, U, V, sigma)
    bar, slope = ({**x, last: x[last] / sigma ** len(path)} for x in (bar, slope))
    missing = (np.diag(S) - contributions(task.graph, w, U, V).sum(axis=-3)) / len(networks.Y)
    turned = []
    for d in range(len(path)):
        before, after = (product(one, bar, part) for part in (path[:d], path[d + 1 :]))
        turned.append(np.swapaxes(after, -1, -2) @ missing @ np.swapaxes(before, -1, -2))
    return [
        (product(V, start, edges).T @ product(V, w, edges), product(one, bar, edges)),
        (U.T @ product(start[path[0]] @ V, w, path[1:]), product(one, bar, path[1:])),
        (U.T @ product(V, w, path), product(one, bar, path)),
        (np.stack([slope[e] for e in edges]), np.stack(turned[:-1])),
        (slope[last], turned[-1]),
    ]


def product(first: Any, layers: Any, edges: Sequence[str]) -> Any:
    """`layers` of these edges, applied one after the other."""
    return reduce(lambda done, edge: layers[edge] @ done, edges, first)


def powers(depth: int) -> np.ndarray:
    """The power of sigma by which the right-hand side of each relation has to be multiplied."""
    return np.array([2 * depth - 2, 2 * depth, 2 * depth, 2 * depth - 2, -2])


def factor(left: Any, right: Any) -> float:
    """By what the right-hand side has to be multiplied."""
    return float((left * right).sum() / (right**2).sum())


def error(left: Any, right: Any) -> float:
    """What is then left of the difference, relative."""
    return float(np.abs(left - factor(left, right) * right).max() / np.abs(left).max())


@part(each="widths")
def deviations(p: PathwayCoordinates, width: int):
    """Random layers of size 1. Eq. 4: largest eigenvalue of `R^T R - 1` for the first and for a square layer;
    Eq. 13: root mean square of the deviations in two hidden layers, and in last layers of two variances."""
    found = []
    for seed in range(p.draws):
        rng = np.random.default_rng([width, seed])
        first, square = (rng.standard_normal((width, m)) / np.sqrt(width) for m in (len(S), width))
        out, carried = rng.standard_normal((len(U), width)), square @ first @ V
        frames, last = carried.T @ carried - np.eye(len(S)), U.T @ out @ carried
        off = frames, last / np.sqrt(width), last / np.sqrt(len(U))
        largest = [np.abs(np.linalg.svd(layer, compute_uv=False) ** 2 - 1).max() for layer in (first, square)]
        found.append([*largest, *(np.sqrt((m**2).mean()) for m in off)])
    names = ("first", "square", "hidden", "last", "last-printed")
    return {name: ("run", values) for name, values in zip(names, np.transpose(found), strict=True)}


@part
def random(p: PathwayCoordinates):
    """Random networks as published: the part of K that the coordinates miss, along the way."""
    task, sigma, learned, missed = networks.task([p.random_depth] * 2, p.width), p.sizes["published"], [], []
    save = p.t1 * np.append(0, np.geomspace(1e-4, 1, 40))
    method = nr.LowRank(0.01) if p.width > networks.WIDE else networks.METHOD
    for seed in range(p.seeds):
        start = {e: v[0] for e, v in networks.draw(task, p.std, 1, 50 + seed).items()}
        run = nr.flow(task, start, save=save, method=method)
        bar = pathway_coordinates(task.graph, run.weights, start, U, V, sigma)
        within = np.stack([product(np.eye(len(S)), bar, path) for path in task.graph.paths()], axis=-3)
        k = contributions(task.graph, run, U, V)
        left = k - sigma**p.random_depth * within
        learned.append(1 - run.loss / run.loss[0])
        missed.append(np.sqrt((left**2).sum((-1, -2, -3)) / (k**2).sum((-1, -2, -3))))
    return {"learned": ("run t", learned), "missed": ("run t", missed)}


@part(each=lambda p: [d for d in p.depths if d > 2])
def stability(p: PathwayCoordinates, depth: int):
    """Growth rates of off-diagonal perturbations along a diagonal solution of Eq. 11.

    The flow is minus a gradient, so its Jacobian is symmetric; diagonal and off-diagonal entries decouple.
    """
    one, rng, n = np.eye(len(S)), np.random.default_rng(depth), len(S)
    graph = nr.Graph.pathways(n, n, [[n] * (depth - 1)] * 2)
    task = nr.Task(graph, one, np.diag(S))
    start = dict.fromkeys(graph.edges, p.sizes["published"] * one)
    for path in graph.paths():  # last layers: what a random one has along the others
        start[path[-1]] = np.diag(p.std * np.abs(rng.standard_normal(n)))
    run = nr.flow(task, start, p.t1, networks.times(p.t1))
    levels, last = run.loss[0] * np.array([1.0, 0.9, 0.5, 0.1, 1e-2, 1e-4]), len(run.t) - 1
    at = np.unique(np.append(np.searchsorted(-run.loss, -levels), last).clip(max=last))
    jacobian = -nr.landscape.hessian(task, {e: w[at] for e, w in run.weights.items()})
    off = graph.flatten(dict.fromkeys(graph.edges, 1 - one)) > 0
    return {
        "loss": ("t", run.loss[at]),
        "rates": ("t entry", np.linalg.eigvalsh(jacobian[:, off][..., off])),
    }


@figure("pathway-coordinates")
def coordinates(p: PathwayCoordinates, data: Data):
    fig, (a, b, c) = plot.figure(1, 3, height=3.2)
    below = {**plot.BELOW, "fontsize": 6}
    for depth, colour in zip(p.depths, plot.COLOURS, strict=False):
        run = data.orthogonal[depth, "published"].isel(t=slice(1, None))
        k, stated, printed = (run[n].sum("pathway") / S[0] for n in ("k", "stated", "printed"))
        a.plot(run.t[::2], k[::2], "o", color=colour, ms=2, label=f"flow, depth {depth}")
        plot.theory(a, run.t, stated, colour, lw=1)
        plot.theory(a, run.t, printed, colour, lw=1, ls=":")
    plot.key(a, {r"Eq. 17 with powers of $\sigma$": "-", "Eq. 17 as printed": ":"})
    title = rf"orthogonal layers, $\sigma$ = {p.sizes['published']:.3g}"
    plot.label(a, "flow time", "share of mode 1 that is learned", title, below, xscale="log", ylim=(0, 1.05))
    for name, (label, colour) in DEVIATIONS.items():
        plot.points(b, p.widths, along(data.deviations, "width")[name].T, colour, label)
    wide = np.array(p.widths, float)
    plot.theory(b, wide, wide**-0.5, "0.5", r"$1/\sqrt{N}$", lw=0.8, ls="--")
    plot.logarithmic(b.xaxis, p.widths)
    plot.logarithmic(b.yaxis)
    plot.label(b, "width N", r"rms of $\delta$ (Eq. 13)", "random layers at the start", below)
    colour = dict(zip(p.depths, plot.COLOURS, strict=False)).get(p.random_depth, plot.BLACK)
    lines = c.plot(data.random.learned.T, data.random.missed.T, color=colour, lw=1, alpha=0.7)
    lines[0].set_label(f"networks, depth {p.random_depth}")
    missed, title = "part of K outside the coordinates", f"random layers, N = {p.width}"
    plot.label(c, "share of the loss that is learned", missed, title, below, ylim=(0, 1.05))
    return fig, (
        "Left: orthogonal layers of the size of the published ones, the last one within what the others "
        "span: mode 1 of the flow, Eq. 17 with its powers of sigma, and as printed. Middle: deviations from "
        "Eq. 13 of random layers of size 1, mean and standard deviation; with the paper's variance of the "
        "last layer, by its number of outputs, they do not vanish. Right: what the coordinates of Eq. 5-7 "
        f"miss of K (relative norm) in random networks, weights of standard deviation {p.std:g}."
    )


@figure("pathway-stability")
def stable(p: PathwayCoordinates, data: Data):
    fig, (a, b) = plot.figure(1, 2, height=2.6)
    for depth, colour in zip(p.depths, plot.COLOURS, strict=False):
        run = data.orthogonal[depth, "published"].isel(t=slice(1, None))
        a.plot(run.t, run.off, color=colour, label=f"depth {depth}")
        if depth in data.stability:
            rates = data.stability[depth]
            learned = 1 - rates.loss / rates.loss[0]
            b.plot(learned, rates.rates.max("entry"), "o-", color=colour, label=f"depth {depth}")
    off = "largest off-diagonal entry, relative"
    plot.label(a, "flow time", off, legend="best", xscale="log", yscale="log")
    b.axhline(0, color=plot.BLACK, lw=0.7, ls="--", label="neither grows nor decays")
    above = {**plot.ABOVE, "ncols": 2}
    plot.label(b, "share of the loss that is learned", "growth rate, 1 / flow time", legend=above)
    return fig, (
        "Off-diagonal entries around diagonal solutions, layers of the size of the published ones. Left: "
        "largest off-diagonal entry of the last layers in the coordinates of Eq. 7, over the largest of all; "
        "it starts from rounding errors. Right: the fastest growth of an off-diagonal perturbation, largest "
        "eigenvalue of the Jacobian of Eq. 11: positive as long as there is error."
    )


@rows
def relations(p: PathwayCoordinates, data: Data):
    depth = p.depths[-1]
    for n, key in enumerate(RELATIONS):
        for kind in p.sizes:
            yield f"{key}-sigma-{kind}", data.orthogonal[depth, kind].factor[:, n]
    worst = np.max([corrected_error(p, data, d) for d in p.depths], axis=0)
    for key, error in zip(("eq-8", "eq-9", "eq-10", "eq-11"), [*worst[:3], worst[3:].max()], strict=True):
        yield f"{key}-corrected", error


def corrected_error(p: PathwayCoordinates, data: Data, depth: int) -> np.ndarray:
    """Relative error of each relation with its power of sigma, the largest of both pathways."""
    run = data.orthogonal[depth, "published"]
    off = np.abs(run.factor / p.sizes["published"] ** powers(depth) - 1)
    return np.maximum(off, run.error).max("pathway").values


@rows
def reduced(p: PathwayCoordinates, data: Data):
    depth = p.depths[-1]
    for kind in p.sizes:
        run = data.orthogonal[depth, kind]
        printed, k = (half_time(run.t, run[name].sum("pathway"), first=0.0) for name in ("printed", "k"))
        yield f"eq-17-sigma-{kind}", printed / k
        yield f"eq-19-sigma-{kind}", run.curve
    yield "eq-19-corrected", data.orthogonal[depth, "published"].curve / p.sizes["published"] ** (2 * depth)
    off = [np.abs(run.stated - run.k)[run.off < STILL].max() / S[0] for run in data.orthogonal.values()]
    yield "eq-17-with-powers", max(map(float, off))


@rows
def stable_solutions(p: PathwayCoordinates, data: Data):
    for depth in p.depths:
        yield f"rounding-depth-{depth}", data.orthogonal[depth, "published"].off[-1]
    for depth, run in data.stability.items():
        scale = np.abs(run.rates).max()
        yield f"stable-along-depth-{depth}", run.rates.max() / scale
        yield f"decay-depth-{depth}", (run.rates[-1] < -1e-3 * scale).mean()


@rows
def random_layers(p: PathwayCoordinates, data: Data):
    widest = data.deviations[p.widths[-1]]
    yield "eq-4-first", widest["first"]
    yield "eq-4-square", widest.square
    size = along(data.deviations, "width").mean("run")
    for key in DEVIATIONS:
        yield f"eq-13-{key}", power_law_exponent(p.widths, size[key])
    half = np.argmax(data.random.learned.values > 0.5, axis=1)
    yield "eq-10-random", np.take_along_axis(data.random.missed.values, half[:, None], axis=1)


EXPERIMENT = Experiment(
    "pathway-coordinates",
    "Coordinates in which pathways are diagonal, and their powers of sigma",
    "multipathway Eq. 4-13, 17-20",
    PathwayCoordinates(),
    quick={"seeds": 3, "width": 64, "std": 0.04, "depths": (2, 3), "widths": (64, 256), "t1": 160.0},
    minutes=(0.2, 1.0),
)
