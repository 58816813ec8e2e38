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

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

import neuralrace as nr
from neuralrace import landscape, plot
from neuralrace.measure import end_to_end, growing_part, half_time, power_law_exponent
from neuralrace_papers.framework import Data, Experiment, along, figure, part, require, rows

COLOURS = {1: plot.BLUE, 2: plot.RED, 3: plot.GREEN}
NAMES = ("none", "mode 1", "mode 2", "both")  # modes that are learned, as `two_layer_saddles` lists them
FIRST = 1
PRECISE = nr.Adaptive(1e-10, 1e-12)


@dataclass(frozen=True)
class Saddles:
    seeds: Annotated[int, "random starts of each network"] = 50
    strengths: Annotated[tuple[float, ...], "singular values of the targets, the larger one first"] = (
        2.0,
        1.0,
    )
    hidden: Annotated[int, "units of each hidden layer"] = 3
    depths: Annotated[tuple[int, ...], "depths of the networks: 1, 2, and 3 where wished"] = (1, 2, 3)
    starts: Annotated[int, "starts from which fixed points are sought"] = 600
    spreads: Annotated[tuple[float, ...], "standard deviations of these starts"] = (0.3, 1.0, 2.0)
    std: Annotated[float, "standard deviation of the initial weights that learn, depths 1 and 2"] = 1e-3
    deep_std: Annotated[float, "standard deviation of the initial weights that learn, depth 3"] = 0.03
    stds: Annotated[tuple[float, ...], "as std, for the distance to a saddle"] = (
        1e-3,
        1e-4,
        1e-5,
        1e-6,
        1e-7,
    )
    ratios: Annotated[tuple[float, ...], "mode 2 / mode 1, for the order"] = (
        0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99,
    )  # fmt: skip
    t1: Annotated[float, "flow time after the origin has been left"] = 12.0

    def __post_init__(self) -> None:
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
        "half": ("run mode", half_time(run.t, modes, first=0.0, last=s, axis=1)),
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


@rows
def fixed_points(p: Saddles, data: Data):
    theory = {(k, s.index, s.flat) for k, s in enumerate(p.theory)}
    for depth, points in data.points.items():
        found = kinds(points)
        yield f"points-depth-{depth}", len(found & theory) if depth == 2 else len({k for k, *_ in found})
        yield f"starts-depth-{depth}", points.sizes["point"] / int(points.starts)
    yield "points-extra", len(kinds(data.points[2]) - theory)


@rows
def passages(p: Saddles, data: Data):
    deep, sequence = data.paths[2], ["none", "mode 1", "both"]
    when = deep.when.sel(learned=sequence)
    in_order = (when.diff("learned") > 0).all("learned") & np.isnan(deep.when.sel(learned="mode 2"))
    yield "path-in-order", in_order
    yield "near-mode-1", deep.distance.sel(learned="mode 1") / np.sqrt(2 * sum(p.strengths))
    yield "approach-exponent", power_law_exponent(p.stds, along(data.near, "std").distance.T)
    for depth, path in data.paths.items():
        nearest = p.distances(path.maps)[..., FIRST].min(axis=1)
        yield f"passes-depth-{depth}", nearest / p.strengths[1]


@rows
def individuals(p: Saddles, data: Data):
    order, one = along(data.order, "ratio"), data.paths[1]
    usual = order.sel(ratio=p.usual)
    half, expected = usual.half[:, 1], usual.expected[:, 1]
    alone = half_time(one.t, one.maps[..., 1, 1], first=0.0, last=p.strengths[1], axis=1)
    yield "times-vary", float(half.std() / half.mean()) / (alone.std() / alone.mean())
    yield "times-foretold", np.corrcoef(half, expected)[0, 1]
    first, foretold = (v[..., 0] < v[..., 1] for v in (order.half, order.expected))
    yield "order-alike", first.sel(ratio=p.usual)
    yield "order-foretold", (first == foretold)[-1]


EXPERIMENT = Experiment(
    "saddles",
    "Saddles: a hierarchy of fixed points, and the path between them",
    "talk: depth introduces a hierarchy of saddle points",
    Saddles(),
    quick={"seeds": 10, "starts": 240, "stds": (1e-3, 1e-5, 1e-7), "ratios": (0.5, 0.9, 0.99)},
    minutes=(0.3, 0.5),
)
