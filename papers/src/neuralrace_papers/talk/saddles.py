"""Depth turns one fixed point into a hierarchy. A linear network of two layers has a fixed point for every
subset of the modes of its task: the origin, from which the loss falls in most directions, mixed ones, and the
minimum. Solving for a vanishing gradient from many starts finds all of them; they are told apart by their
end-to-end map and the eigenvalues of the Hessian. From small weights learning passes near the saddles in
which the strongest modes are learned, one after the other. A shallow network has one fixed point and goes
straight to it. Individual networks differ in when they leave a saddle, which follows from their initial
weights, and hardly in the order.

How near the path comes to a saddle is measured in weights: where the gradient is smallest along the path, the
nearest root of the gradient is sought and its distance taken."""

from __future__ import annotations

from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace import landscape, plot
from neuralrace.measure import end_to_end, growing_part, half_time, power_law_exponent
from neuralrace_papers.framework.claim import CHOSEN, check, finding, paper
from neuralrace_papers.framework.declaration import Data, claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option, require
from neuralrace_papers.framework.store import along

TALK, VARIED = "talk: hierarchy of saddle points", "talk: individual variability amidst structure"
COLOURS = {1: plot.BLUE, 2: plot.RED, 3: plot.GREEN}
NAMES = ("none", "mode 1", "mode 2", "both")  # modes that are learned, as `two_layer_saddles` lists them
FIRST = 1
PRECISE = nr.Adaptive(1e-10, 1e-12)


class Saddles(Parameters):
    seeds: int = option(50, "random starts of each network", least=3)
    strengths: tuple[float, ...] = option((2.0, 1.0), "singular values of the targets, the larger one first")
    hidden: int = option(3, "units of each hidden layer", least=2)
    depths: tuple[int, ...] = option((1, 2, 3), "depths of the networks: 1, 2, and 3 where wished")
    starts: int = option(600, "starts from which fixed points are sought")
    spreads: tuple[float, ...] = option(
        (0.3, 1.0, 2.0), "standard deviations of the starts from which fixed points are sought"
    )
    std: float = option(1e-3, "standard deviation of the initial weights that learn, depth 1 and 2", most=0.1)
    deep_std: float = option(0.03, "standard deviation of the initial weights that learn, depth 3", most=0.1)
    stds: tuple[float, ...] = option(
        (1e-3, 1e-4, 1e-5, 1e-6, 1e-7), "as std, for the distance to a saddle", most=0.1, count=2
    )
    ratios: tuple[float, ...] = option(
        (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99), "mode 2 / mode 1, for the order", below=1
    )
    t1: float = option(12.0, "flow time after the origin has been left")

    def check(self) -> None:
        falling = len(self.strengths) == 2 and self.strengths[0] > self.strengths[1]
        require(falling, f"strengths must be two numbers, the larger first, got {self.strengths}")
        fit = self.depths in ((1, 2), (1, 2, 3))
        require(fit, f"depths must be (1, 2) or (1, 2, 3), got {self.depths}")

    def task(self, depth: int, strengths: Any = None) -> nr.Task:
        return nr.tasks.linear(np.diag(strengths or self.strengths), [self.hidden] * (depth - 1))

    @property
    def maps(self) -> np.ndarray:
        """End-to-end maps (4, 2, 2) in the order of `NAMES`."""
        s, t = self.strengths
        return np.stack([np.diag(d) for d in ((0, 0), (s, 0), (0, t), (s, t))]).astype(float)

    def distances(self, maps: Any) -> np.ndarray:
        """Norm of the difference of maps (..., 2, 2) from each of the four, (..., 4)."""
        return np.linalg.norm(np.asarray(maps)[..., None, :, :] - self.maps, axis=(-1, -2))

    @property
    def theory(self) -> list[landscape.Saddle]:
        return landscape.two_layer_saddles(self.strengths, self.hidden)

    @property
    def usual(self) -> float:
        """The ratio of modes that is nearest to that of `strengths`."""
        return min(self.ratios, key=lambda r: abs(r - self.strengths[1] / self.strengths[0]))


@part(each="depths")
def points(p: Saddles, depth: int):
    """Fixed points from random starts of several sizes."""
    task, share = p.task(depth), -(-p.starts // len(p.spreads))
    drawn = [
        nr.init.gaussian(task.graph, std, seed=range(k * share, (k + 1) * share))
        for k, std in enumerate(p.spreads)
    ]
    fixed = landscape.fixed_points(task, {e: np.concatenate([w[e] for w in drawn]) for e in drawn[0]})
    negative, flat = landscape.index(task, fixed.weights)
    distance = p.distances(end_to_end(task.graph, fixed.weights))
    return {
        "learned": ("point", distance.argmin(axis=-1)),
        "off": ("point", distance.min(axis=-1)),
        "norm": ("point", fixed.norm),
        "negative": ("point", negative),
        "flat": ("point", flat),
        "loss": ("point", nr.loss(task, fixed.weights)),
        "starts": share * len(p.spreads),
    }


@part(each="depths")
def paths(p: Saddles, depth: int):
    """Learning from small weights: the map over time; in two layers, the fixed points that it comes near."""
    task, run = learn(p, depth, p.deep_std if depth == 3 else p.std)
    maps = end_to_end(task.graph, run)
    result = {"t": ("t", run.t), "loss": ("run t", run.loss), "maps": ("run t out in", maps)}
    return {**result, **passed(p, task, run)} if depth == 2 else result


def learn(p: Saddles, depth: int, std: float) -> tuple[nr.Task, nr.Trajectory]:
    task = p.task(depth)
    start = nr.init.gaussian(task.graph, std, seed=range(p.seeds))
    # The time to leave the origin: log(1/std)/s in two layers, about 1/(s std) in three.
    wait = {1: 0.0, 2: np.log(1 / std), 3: 2 / std}[depth] / p.strengths[1]
    return task, nr.flow(task, start, wait + p.t1, save=1001, method=PRECISE)


def passed(p: Saddles, task: nr.Task, run: nr.Trajectory) -> dict[str, Any]:
    """When each path is nearest to which fixed point, and how far it is in weights; nan if never."""
    visits = landscape.visits(task, run)
    learned = p.distances(end_to_end(task.graph, visits.weights)).argmin(axis=-1)
    when, distance = np.full((2, p.seeds, len(NAMES)), np.nan)
    for k in np.argsort(-visits.distance, kind="stable"):  # the nearest last
        at = visits.run[k], learned[k]
        when[at], distance[at] = visits.t[k], visits.distance[k]
    return {
        "learned": ("learned", list(NAMES)),
        "when": ("run learned", when),
        "distance": ("run learned", distance),
    }


@part(each="stds")
def near(p: Saddles, std: float):
    """Distance in weights to the first saddle, by size of the initial weights; two layers."""
    return {"distance": ("run", passed(p, *learn(p, 2, std))["distance"][1][:, FIRST])}


@part(each="ratios")
def order(p: Saddles, ratio: float):
    """Half times of both modes, and those expected from the initial weights; two layers."""
    s = np.array([1, ratio]) * p.strengths[0]
    task = p.task(2, tuple(s))
    start = nr.init.gaussian(task.graph, p.std, seed=range(p.seeds))
    run = nr.flow(task, start, (np.log(1 / p.std) + 4) / s[1], save=1001, method=PRECISE)
    modes = np.diagonal(end_to_end(task.graph, run), axis1=-2, axis2=-1)
    return {
        "half": ("run mode", half_time(run.t, modes, start=0.0, end=s, axis=1)),
        "expected": ("run mode", expected_half_times(growing_part(start["x->h1"], start["h1->y"]), s)),
    }


def expected_half_times(growing: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Half times (runs, 2) of chains, log(s/a0 - 1)/2s, a0 = |growing part|^2.

    The later mode cannot have the hidden direction that the earlier one has taken.
    """

    def time(part: np.ndarray) -> np.ndarray:
        return np.log(s / (part**2).sum(axis=1) - 1) / (2 * s)

    taken = (growing / np.linalg.norm(growing, axis=1, keepdims=True))[..., ::-1]  # by the other mode
    free = growing - (growing * taken).sum(axis=1, keepdims=True) * taken
    alone = time(growing)
    return np.where(alone > alone[:, ::-1], time(free), alone)


def scaling(p: Saddles) -> float:
    """Exponent of the closest approach to the first saddle in the size of the initial weights.

    When mode 1 arrives, at exp(s1 t) = 1/std, mode 2 has grown to std exp(s2 t) = std^(1 - s2/s1). From then
    on mode 1 falls short by exp(-2 s1 t) while mode 2 grows by exp(s2 t): least about where they are equal.
    """
    s1, s2 = p.strengths
    return (1 - s2 / s1) * 2 * s1 / (2 * s1 + s2)


@figure("saddles")
def landscape_and_paths(p: Saddles, data: Data):
    fig, (a, b, c) = plot.figure(1, 3, height=2.6)
    for saddle, name in zip(p.theory, NAMES, strict=True):
        at, label = (saddle.loss, saddle.index), "theory, depth 2"
        a.plot(*at, "o", mfc="none", mec=plot.BLACK, ms=9, mew=0.8, label=label)
        shift, side = ((8, -3), "left") if saddle.loss < p.theory[0].loss / 2 else ((-8, -3), "right")
        a.annotate(name, at, shift, textcoords="offset points", ha=side, fontsize=7)
    for (depth, fixed), marker in zip(data.points.items(), "sox", strict=False):
        a.plot(fixed.loss, fixed.negative, marker, color=COLOURS[depth], ms=4, label=f"depth {depth}")
    a.set(xlim=(-0.35, p.theory[0].loss * 1.15), ylim=(-0.6, a.dataLim.ymax + 1.6))
    plot.label(a, "loss above the minimum", "index (negative curvatures)", legend="upper left")
    for depth in sorted(p.depths, key=lambda d: d == 2):  # two layers on top
        plot.key(b, {f"depth {depth}": "theory"}, COLOURS[depth])
        one, two = (data.paths[depth].maps[:, :, k, k].T for k in range(2))
        b.plot(one, two, color=COLOURS[depth], lw=0.5, alpha=0.5)
    s = p.strengths
    for m, name in zip(p.maps, NAMES, strict=True):
        at = m[0, 0], m[1, 1]
        b.plot(*at, "o", color=plot.BLACK, ms=4, zorder=5, label="fixed points")
        shift = (0, -11 if at[1] == 0 else 5)
        b.annotate(name, at, shift, textcoords="offset points", ha="center", fontsize=7)
    b.set(xlim=(-0.15 * s[0], 1.15 * s[0]), ylim=(-0.25 * s[1], 1.65 * s[1]))
    narrow = {"ncols": 2, "columnspacing": 0.8}
    above = {"loc": "upper center", "handlelength": 0.8, "handletextpad": 0.4, **narrow}
    plot.label(b, "mode 1 of the map", "mode 2 of the map", legend=above)
    off = p.distances(data.paths[2].maps)
    for k, colour in enumerate((plot.BLUE, plot.ORANGE, plot.PINK, plot.GREEN)):
        plot.runs(c, data.paths[2].t, off[:, :, k], colour, NAMES[k], lw=1.3, alpha=1)
    above = {"loc": "upper right", "title": "median and range", **narrow}
    c.set(yscale="log", ylim=(1e-4, 300))
    plot.label(c, "time (τ = 1)", "distance from the map of ...", legend=above)
    return fig, (
        "Left: fixed points found from random starts by their loss and index; circles: all that a network "
        "of two layers must have, one for each subset of modes. Depth 3 has further kinds at the same maps, "
        f"with layers that are idle. Middle: learning from small weights ({p.seeds} seeds), in the plane of "
        "both modes; dots are the maps of the fixed points. Right: two layers, distance of the map to those "
        "of the fixed points over time."
    )


def identity(ax: Any, label: str | None = None) -> None:
    """A line on which x and y are equal, over the range of what has been drawn."""
    drawn = ax.dataLim.get_points()
    ends = [drawn.min(), drawn.max()]
    ax.plot(ends, ends, color=plot.BLACK, lw=0.8, zorder=3, label=label)


@figure("saddles-variability")
def variability(p: Saddles, data: Data):
    fig, (a, b, c) = plot.figure(1, 3, height=2.5)
    distance, order = along(data.near, "std").distance, along(data.order, "ratio")
    plot.points(a, p.stds, distance.T, plot.RED, "networks")
    line = np.exp(np.log(distance[-1]).mean()) * (distance["std"] / p.stds[-1]) ** scaling(p)
    plot.theory(a, p.stds, line, plot.BLACK, f"theory, slope {scaling(p):.2g}")
    a.set(xscale="log", yscale="log")
    texts = "standard deviation of initial weights", "distance to the saddle, in weights"
    plot.label(a, *texts, legend="upper left")
    usual = order.sel(ratio=p.usual)
    for k, colour in enumerate((plot.ORANGE, plot.GREEN)):
        b.plot(usual.expected[:, k], usual.half[:, k], "o", color=colour, label=f"mode {k + 1}", alpha=0.7)
    identity(b, "equal")
    texts = "time expected from initial weights", "time to half of the mode (τ = 1)"
    plot.label(b, *texts, f"s2/s1 = {p.usual:g}", legend="upper left")
    networks, expected = ((v[..., 0] < v[..., 1]).mean("run") for v in (order.half, order.expected))
    plot.points(c, p.ratios, networks, plot.RED, "networks")
    c.plot(p.ratios, expected, "x", color=plot.BLACK, label="expected", zorder=4)
    c.axhline(0.5, color=plot.BLACK, lw=0.6, ls=":", label="chance")
    texts = "ratio of strengths s2/s1", "share that learns mode 1 first"
    plot.label(c, *texts, legend="center left", ylim=(0.4, 1.05))
    return fig, (
        "Left: how near networks of two layers come to the first saddle (mean and standard deviation of "
        f"{p.seeds} seeds); line: the theory's slope. Middle: individual networks leave their saddles at "
        "times that the growing part of their initial weights foretells. Right: the order of modes is the "
        "same in all networks unless their strengths are nearly equal."
    )


def kinds(points: Any) -> set[tuple[int, int, int]]:
    """Kinds of fixed points: map, negative and flat directions."""
    return set(zip(*(points[k].values.tolist() for k in ("learned", "negative", "flat")), strict=True))


@claims
def fixed_points(p: Saddles, data: Data):
    hierarchy = paper(TALK, "Depth introduces a hierarchy of saddle points")
    theory = {(k, s.index, s.flat) for k, s in enumerate(p.theory)}
    found = [points.sizes["point"] / int(points.starts) for points in data.points.values()]
    name = "share of starts whose search ends at a fixed point, by depth"
    yield check(TALK).above("starts-converged", name, 0.9, found, bound="Standard: few starts are left out.")
    off = max(float(points.off.max()) for points in data.points.values())
    name = "distance of the maps of fixed points from those of a subset of modes"
    yield check(TALK).below("maps", name, 1e-6, off)
    shallow = paper("talk: saddle points arise through depth", "Saddle points arise through depth")
    name, convex = "depth 1: kinds of fixed points found", "Theory: the error of one layer is convex."
    yield shallow.near("points-depth-1", name, 1, len(kinds(data.points[1])), 0, bound=convex)
    two = data.points[2]
    counts = np.bincount(two.learned, minlength=len(NAMES))
    note = "; ".join(
        f"{n}: {s.index} negative, {s.flat} flat ({c} starts)"
        for n, s, c in zip(NAMES, p.theory, counts, strict=True)
    )
    name = "depth 2: kinds of fixed points found, of the 4 subsets of modes"
    every = "Theory: one for each subset of the modes."
    yield hierarchy.near("points-depth-2", name, 4, len(kinds(two) & theory), 0, note, every)
    name = "depth 2: kinds found that the theory does not have"
    note = f"{counts.sum() / int(two.starts):.0%} of starts end at a fixed point."
    yield check(TALK).near("points-extra", name, 0, len(kinds(two) - theory), 0, note)
    if 3 in p.depths:
        third = kinds(data.points[3])
        maps = len({learned for learned, *_ in third})
        note = (
            f"{len(third)} kinds by map, negative and flat directions: layers may be idle while their map is "
            "that of a subset."
        )
        subsets = finding(TALK, "theory: one for each subset of the modes")
        yield subsets.near("points-depth-3", "depth 3: maps of fixed points, of 4", 4, maps, 0, note)


@claims
def passages(p: Saddles, data: Data):
    near = paper("talk: hierarchy of saddle points", "Dynamics pass near a hierarchy of saddle points")
    deep, sequence = data.paths[2], ["none", "mode 1", "both"]
    when = deep.when.sel(learned=sequence)
    in_order = (when.diff("learned") > 0).all("learned") & np.isnan(deep.when.sel(learned="mode 2"))
    name = "share of paths past the saddles in order: none, mode 1, both"
    note, all_of_them = "Depth 2; the saddle of mode 2 alone is on no path.", "Standard: every network."
    yield near.near("path-in-order", name, 1, in_order.mean(), 0, note, all_of_them)
    size, text = np.sqrt(2 * sum(p.strengths)), "/ norm of the learned weights, depth 2"
    distance, tenth = deep.distance / size, "Standard: a tenth of the learned weights."
    name, less = f"distance to the saddle of mode 1 {text}", data.near[p.stds[1]].distance.max() / size
    note = (
        f"The distance goes as std^{scaling(p):.2g}: from std = {p.stds[1]:g} it is at most {float(less):.2g}"
        f". At t = {when[:, 1].values.mean():.3g}."
    )
    yield near.below("near-mode-1", name, 0.1, distance.sel(learned="mode 1"), note, tenth)
    name = f"distance to a minimum at the end {text}"
    yield check(TALK, CHOSEN).below("near-both", name, 1e-3, distance.sel(learned="both"))
    distance = along(data.near, "std").distance
    name = "exponent of the distance to the first saddle in the initial weights"
    note = "nan where a path has no plateau: initial weights are too large."
    exponent = power_law_exponent(p.stds, distance.T)
    linear = finding(TALK, "theory: rates at the first saddle; a twentieth")
    yield linear.near("approach-exponent", name, scaling(p), exponent, 0.05, note)
    name = "nearest the map comes to that of mode 1 alone / s2"
    nearest = {d: p.distances(path.maps)[..., FIRST].min(axis=1) for d, path in data.paths.items()}
    for depth in p.depths[1:]:
        value, fifth = nearest[depth] / p.strengths[1], "Standard: a fifth of the mode that is missing."
        yield near.below(f"passes-depth-{depth}", f"{name}, depth {depth}", 0.2, value, bound=fifth)
    shallow = paper("talk: saddle points arise through depth", "Saddle points arise through depth")
    straight, line = (
        p.strengths[0] / float(np.linalg.norm(p.strengths)),
        "Theory: the map goes in a straight line.",
    )
    value = nearest[1] / p.strengths[1]
    yield shallow.near("passes-shallow", f"{name}, shallow", straight, value, 0.02, bound=line)


@claims
def individuals(p: Saddles, data: Data):
    varied = paper(VARIED, "Individual variability amidst structure")
    order, one = along(data.order, "ratio"), data.paths[1]
    usual = order.sel(ratio=p.usual)
    half, expected = usual.half[:, 1], usual.expected[:, 1]
    alone = half_time(one.t, one.maps[..., 1, 1], start=0.0, end=p.strengths[1], axis=1)
    name = f"time to half of mode 2, relative spread over networks, depth 2 / depth 1, s2/s1 = {p.usual:g}"
    spread = float(half.std() / half.mean()) / (alone.std() / alone.mean())
    note, tenfold = f"Depth 2: {float(half.std() / half.mean()):.2g}.", "Standard: ten times as much."
    yield varied.above("times-vary", name, 10, spread, note, tenfold)
    name = "time to half of mode 2: correlation with that expected from initial weights"
    yield finding(VARIED).above("times-foretold", name, 0.9, np.corrcoef(half, expected)[0, 1])
    first, foretold = (v[..., 0] < v[..., 1] for v in (order.half, order.expected))
    name = f"share of networks that learn mode 1 first, s2/s1 = {p.usual:g}"
    yield varied.near(
        "order-alike", name, 1, first.sel(ratio=p.usual).mean(), 0, bound="Standard: all of them."
    )
    name = f"order foretold by initial weights, share of networks, s2/s1 = {p.ratios[-1]:g}"
    note = f"Mode 1 is first in {float(first[-1].mean()):.0%}."
    yield finding(VARIED).above("order-foretold", name, 0.8, (first == foretold)[-1].mean(), note)


EXPERIMENT = Experiment(
    "saddles",
    "Saddles: a hierarchy of fixed points, and the path between them",
    "talk: depth introduces a hierarchy of saddle points",
    Saddles(),
    Saddles(seeds=10, starts=240, stds=(1e-3, 1e-5, 1e-7), ratios=(0.5, 0.9, 0.99)),
    minutes=(0.3, 0.5),
)
