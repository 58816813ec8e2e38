"""The change of coordinates of Eq. 4-13, in which the layers of parallel pathways are diagonal. As printed it
holds for initial layers of size sigma = 1. With its powers of sigma it holds at any size, where initial
layers are orthogonal and the last one lies within what the others span. The published layers are neither:
they are random, of size .316, and much of what they learn lies outside these coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace.init import random_frame
from neuralrace.measure import contributions, half_time, pathway_coordinates, power_law_exponent
from neuralrace_papers.framework.claim import CHOSEN, check, paper
from neuralrace_papers.framework.declaration import claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option
from neuralrace_papers.framework.quotes import quoted
from neuralrace_papers.framework.store import along
from neuralrace_papers.multipathway import networks
from neuralrace_papers.multipathway.networks import S, U, V

RELATIONS = {  # what holds, and the power of sigma on its right-hand side, as printed and with Eq. 7 mended
    "Eq. 8": "V^T (R^1)^T ... (R^(d-1))^T prod_(i<d) W^i V = prod_(i<d) Wbar^i",
    "Eq. 9": "U^T (prod_(i>d) W^i) R^d ... R^1 V = prod_(i>d) Wbar^i",
    "Eq. 10": "U^T Omega V = sum_a K_a = sum_a prod_i Wbar_a^i",
    "Eq. 11, d < D": "tau d/dt Wbar^d = (prod_(i>d) Wbar^i)^T [S - Omegabar] (prod_(i<d) Wbar^i)^T",
    "Eq. 11, d = D": "tau d/dt Wbar^d = (prod_(i>d) Wbar^i)^T [S - Omegabar] (prod_(i<d) Wbar^i)^T",
}
PERCENT = "an equation; 1% is a standard of ours"
STILL = 1e-6  # off-diagonal entries, relative to the largest: up to here a solution counts as diagonal
DEVIATIONS = {
    "frames": ("hidden layers, published weights", plot.BLUE),
    "last": ("last layer, published weights", plot.ORANGE),
    "printed": (r"last layer, variance $\sigma^2/N^D$", plot.RED),
}


class PathwayCoordinates(Parameters):
    seeds: int = option(5, "random starts", least=2)
    width: int = option(1000, "units of each hidden layer of random networks", least=16)
    std: float = option(0.01, "standard deviation of random weights")
    depths: tuple[int, ...] = option((2, 3, 4, 7), "depths of both pathways", least=2, increasing=True)
    orthogonal_width: int = option(16, "units of each hidden layer of orthogonal networks", least=16)
    last: float = option(1e-4, "standard deviation of their last layers, in units of sigma")
    widths: tuple[int, ...] = option(
        (100, 300, 1000), "widths at which deviations are compared", count=2, increasing=True
    )
    draws: int = option(20, "random layers of each width", least=2)
    random_depth: int = option(3, "depth of random networks", least=3)
    t1: float = option(3200.0, "end of learning of random networks, and of the diagonal ones, flow time")

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
    names = ("first", "square", "frames", "last", "printed")
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
    """Growth rates of off-diagonal perturbations along a diagonal solution."""
    return networks.off_diagonal_rates(depth, 2, p.width, p.std, p.t1)


@figure("pathway-coordinates")
def coordinates(p: PathwayCoordinates, data):
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
    plot.theory(b, wide, wide**-0.5, plot.BLACK, r"$1/\sqrt{N}$", lw=0.8, ls="--")
    plot.logarithmic(b.xaxis, p.widths)
    plot.logarithmic(b.yaxis)
    plot.label(b, "width N", r"rms of $\delta$ (Eq. 13)", "random layers at the start", below)
    lines = c.plot(data.random.learned.T, data.random.missed.T, color=plot.BLUE, lw=1, alpha=0.7)
    lines[0].set_label(f"networks, depth {p.random_depth}")
    c.axhline(allowed(p), color=plot.BLACK, lw=0.8, ls="--", label=r"$3/\sqrt{N}$")
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
def stable(p: PathwayCoordinates, data):
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


def allowed(p: PathwayCoordinates) -> float:
    """Three times the deviation of a random frame."""
    return 3 / np.sqrt(p.width)


@claims
def relations(p: PathwayCoordinates, data):
    deep, integrated = p.depths[-1], f"{PERCENT} for integrated weights"
    for n, (source, quote) in enumerate(RELATIONS.items()):
        stated, key = paper(f"multipathway {source}", quote), source.lower().replace("eq. ", "eq-")
        key = key.replace(", d < d", "-hidden").replace(", d = d", "-last")
        for kind, sigma in p.sizes.items():
            note = f"Times sigma^{powers(deep)[n]}; sigma is missing on the right." if kind != "one" else ""
            name = f"{source} as printed, left / right, sigma = {sigma:.3g}, depth {deep}"
            found = data.orthogonal[deep, kind].factor[:, n]
            yield stated.near(f"{key}-sigma-{kind}", name, 1, found, 0.01, note, integrated)
    runs = data.orthogonal.items()
    off = [np.abs(run.factor / p.sizes[kind] ** powers(d) - 1).max() for (d, kind), run in runs]
    rest = [run.error.max() for _, run in runs]
    right = check("multipathway Eq. 8-11, with powers of sigma")
    yield right.below("powers-of-sigma", "left / right over its power of sigma - 1, most", 1e-6, off)
    yield right.below("relations-rest", "relative error of Eq. 8-11 with these powers, most", 1e-6, rest)


@claims
def reduced(p: PathwayCoordinates, data):
    deep = p.depths[-1]
    system = paper("multipathway Eq. 17, 20", "tau d/dt p = (sqrt(p^2 + 1))^(D-1) [S - Omegabar]")
    curve = paper("multipathway Eq. 18-19", "these values are related by p^2 = q^2 - 1")
    missing = "Missing: a factor sigma^(D-2), and sigma^D in K."
    mended = "With sigma^-D in Eq. 7 instead of sigma^-2D it holds at any sigma."
    for kind, sigma in p.sizes.items():
        run, where = data.orthogonal[deep, kind], f"sigma = {sigma:.3g}, depth {deep}"
        notes = ("", "") if kind == "one" else (missing, mended)
        printed, k = (half_time(run.t, run[name].sum("pathway"), start=0.0) for name in ("printed", "k"))
        name = f"half time of mode 1, Eq. 17 as printed / flow, {where}"
        yield system.near(f"eq-17-sigma-{kind}", name, 1, printed / k, 0.01, notes[0], PERCENT)
        name = f"(q^2 - 1) / p^2 at the end, coordinates as printed, {where}"
        yield curve.near(f"eq-19-sigma-{kind}", name, 1, run.curve, 0.01, notes[1], PERCENT)
    off = [np.abs(run.stated - run.k)[run.off < STILL].max() / S[0] for run in data.orthogonal.values()]
    right = check("multipathway Eq. 17-20, with powers of sigma", CHOSEN)
    name = "K of mode 1, reduced system - flow while diagonal, over S1, most"
    yield right.below("eq-17-with-powers", name, 1e-3, off)


@claims
def stable_solutions(p: PathwayCoordinates, data):
    stated = quoted("multipathway section 3.2", "stable-to-perturbations")
    note = "A mode that is learned and one that is not drive what lies between them, faster than either grew."
    for depth in p.depths:
        name = f"depth {depth}, off-diagonal entries at the end, from rounding errors, over the largest entry"
        end, bound = data.orthogonal[depth, "published"].off[-1], "theory: what decays ends below its start"
        yield stated.below(f"rounding-depth-{depth}", name, 1e-12, end, note, bound)
    note = "Only the sum of pathways is driven to the diagonal; all else is neutral, and grows before."
    for d, run in data.stability.items():
        end, scale = run.rates[-1], np.abs(run.rates).max()
        name = f"depth {d}, largest off-diagonal eigenvalue along a diagonal solution / fastest"
        bound = "theory: what decays has no positive eigenvalue; 1e-3 for rounding"
        yield stated.below(f"stable-along-depth-{d}", name, 1e-3, run.rates.max() / scale, note, bound)
        name = f"depth {d}, share of off-diagonal perturbations that decay at the end"
        decay = (end < -1e-3 * scale).mean()
        yield stated.near(f"decay-depth-{d}", name, 1, decay, 1e-9, note, "the paper: all decay")


@claims
def random_layers(p: PathwayCoordinates, data):
    widest, n = p.widths[-1], len(S)
    edge = (1 + np.sqrt(n / widest)) ** 2 - 1
    quote = "for large N we must have R^T R ≈ sigma^2 I which is exact as N -> infinity"
    limit = paper("multipathway Eq. 4", quote)
    found = data.deviations[widest]
    bound = "theory: 1.5 times the edge of the spectrum of 8 columns, (1 + sqrt(8/N))^2 - 1"
    filled = "Eigenvalues of a square one fill 0 to 4 sigma^2 at any width."
    name = f"largest eigenvalue of R^T R/sigma^2 - 1, {widest} x {{}} layer".format
    yield limit.below("eq-4-first", name(n), 1.5 * edge, found["first"], bound=bound)
    yield limit.below("eq-4-square", name(widest), 1.5 * edge, found.square, filled, bound)
    vanish = paper("multipathway Eq. 13", "where delta -> 0 in the large N limit")
    note = "The variance sigma^2/N^D of section 2.1 has the 15 outputs for N^D: delta stays 1/sqrt(15)."
    bound = "theory: -1/2 for independent entries; 0.1 for so many starts"
    rms = along(data.deviations, "width").mean("run")
    for key, (label, _) in DEVIATIONS.items():
        slope, why = power_law_exponent(p.widths, rms[key]), note if key == "printed" else ""
        name = f"exponent of the width in delta, {label.replace(chr(36), '').replace(chr(92), '')}"
        yield vanish.near(f"eq-13-{key}", name, -0.5, slope, 0.1, why, bound)
    quote = "These coordinate transformations imply the following relations"
    together = paper("multipathway Eq. 8-10", quote)
    half = np.argmax(data.random.learned.values > 0.5, axis=1)
    missed = np.take_along_axis(data.random.missed.values, half[:, None], axis=1)[:, 0]
    note = "Random last layers drive all others out of the frames: K grows D times as fast as within them."
    where = f"depth {p.random_depth}, N = {p.width}"
    name = f"part of K outside the coordinates, half of the loss learned, {where}"
    bound = "theory: 3 times the deviation 1/sqrt(N) of the frames (Eq. 13)"
    yield together.below("eq-10-random", name, allowed(p), missed, note, bound)


EXPERIMENT = Experiment(
    "pathway-coordinates",
    "Coordinates in which pathways are diagonal, and their powers of sigma",
    "multipathway Eq. 4-13, 17-20",
    PathwayCoordinates(),
    PathwayCoordinates(seeds=3, width=64, std=0.04, depths=(2, 3), widths=(64, 256), t1=160.0),
    minutes=(0.2, 1.0),
)
