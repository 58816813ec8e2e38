"""Depth turns one fixed point into a hierarchy. A linear network of two layers has a fixed point for every
subset of the modes of its task: the origin, which falls away in most directions, mixed ones, and the minimum.
All are found by solving for a vanishing gradient from many starts, and told apart by their end-to-end map and
the eigenvalues of the Hessian. From small weights learning passes near the saddles in which the strongest
modes are learned, one after the other. A shallow network has one fixed point and goes straight to it.
Individual networks differ in when they leave a saddle, which their initial weights tell, and hardly in the
order.

How near the path comes to a saddle is measured in weights: where the gradient is smallest along the path, the
nearest root of the gradient is sought and its distance taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import landscape, plot
from neuralrace.errors import InputError
from neuralrace.experiments.old import (
    Claim,
    Experiment,
    Parameters,
    Parts,
    Results,
    check,
    finding,
    kebab,
    option,
    paper,
    stacked,
)
from neuralrace.measure import crossing

TALK, VARIED = "talk: hierarchy of saddle points", "talk: individual variability amidst structure"
COLOURS = {1: plot.BLUE, 2: plot.RED, 3: plot.GREEN}
NONE, FIRST, SECOND, BOTH = range(4)  # subsets of two modes, as `two_layer_saddles` lists them


@dataclass(frozen=True)
class Saddles(Parameters):
    seeds: int = option(50, "random starts of each network")
    strengths: tuple[float, ...] = option((2.0, 1.0), "singular values of the targets, the larger one first")
    hidden: int = option(3, "units of each hidden layer")
    depths: tuple[int, ...] = option((1, 2, 3), "depths of the networks: 1, 2, and 3 where wished")
    starts: int = option(600, "starts from which fixed points are sought")
    spreads: tuple[float, ...] = option(
        (0.3, 1.0, 2.0), "standard deviations of the starts from which fixed points are sought"
    )
    std: float = option(1e-3, "standard deviation of the initial weights that learn, depth 1 and 2")
    deep_std: float = option(0.03, "standard deviation of the initial weights that learn, depth 3")
    stds: tuple[float, ...] = option((1e-3, 1e-4, 1e-5, 1e-6, 1e-7), "as std, for the distance to a saddle")
    ratios: tuple[float, ...] = option(
        (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99), "mode 2 / mode 1, for the order"
    )
    t1: float = option(12.0, "flow time after the origin has been left")

    def check(self) -> None:
        if len(self.strengths) != 2 or self.strengths[0] <= self.strengths[1]:
            raise InputError(f"strengths must be two numbers, the larger first, got {self.strengths}")
        if self.hidden < 2:
            raise InputError(f"hidden must be at least 2, a neuron for each mode; got {self.hidden}")
        if self.depths[:2] != (1, 2) or max(self.depths) > 3 or len(set(self.depths)) < len(self.depths):
            raise InputError(f"depths must be (1, 2) or (1, 2, 3), got {self.depths}")
        if self.seeds < 3:
            raise InputError(f"seeds must be at least 3 to compare networks, got {self.seeds}")
        for name in ("std", "deep_std", "stds"):
            if np.max(getattr(self, name)) > 0.1:
                raise InputError(
                    f"{name} must be at most 0.1, small weights, got {np.max(getattr(self, name)):g}"
                )
        if len(set(self.stds)) < 2:
            raise InputError(f"stds must be at least two to fit an exponent, got {self.stds}")
        if max(self.ratios) >= 1:
            raise InputError(f"ratios must be below 1, got {max(self.ratios):g}")

    def task(self, depth: int, strengths: Any = None) -> nr.Task:
        """White inputs: the second moment of the rows is the identity."""
        rows = np.sqrt(2) * np.eye(2)
        return nr.Task(
            nr.Graph.chain([2, *[self.hidden] * (depth - 1), 2]), rows, rows * (strengths or self.strengths)
        )

    @property
    def maps(self) -> np.ndarray:
        """End-to-end maps `(4, 2, 2)`: none, the first, the second, both modes."""
        s, t = self.strengths
        return np.stack([np.diag(d) for d in ((0, 0), (s, 0), (0, t), (s, t))]).astype(float)

    @property
    def theory(self) -> list[landscape.Saddle]:
        return landscape.two_layer_saddles(self.strengths, self.hidden)


def compute(p: Saddles, parts: Parts) -> Results:
    return {
        "points": {d: parts(f"points-{d}", points, d, p) for d in p.depths},
        "paths": {d: parts(f"paths-{d}", paths, d, p.deep_std if d == 3 else p.std, p) for d in p.depths},
        "near": stacked(parts.each("near", lambda std: near(std, p), p.stds)),
        "order": stacked(parts.each("order", order, p.ratios, p)),
    }


def recorded(state: nr.State) -> dict[str, Any]:
    """The map `(out, in)` from inputs to outputs."""
    return {"map": state.activity("y", np.eye(2)).T}


def end_to_end(task: nr.Task, weights: dict[str, Any]) -> np.ndarray:
    """The same of many weights, `(n, out, in)`."""
    return np.swapaxes(nr.activity(task, weights, "y", np.eye(2)), -1, -2)


def nearest(maps: np.ndarray, p: Saddles) -> tuple[np.ndarray, np.ndarray]:
    """Which of the four maps is nearest `(...)`, and how far it is."""
    far = np.linalg.norm(maps[..., None, :, :] - p.maps, axis=(-1, -2))
    return far.argmin(axis=-1), far.min(axis=-1)


def points(depth: int, p: Saddles) -> dict[str, Any]:
    """Fixed points from random starts of several sizes."""
    task, share = p.task(depth), -(-p.starts // len(p.spreads))
    drawn = [
        nr.init.gaussian(task.graph, std, seed=range(k * share, (k + 1) * share))
        for k, std in enumerate(p.spreads)
    ]
    found = landscape.fixed_points(
        task, {e: np.concatenate([w[e] for w in drawn]) for e in task.graph.shapes}
    )
    negative, flat = landscape.index(task, found.weights)
    which, off = nearest(end_to_end(task, found.weights), p)
    return {
        "which": which, "off": off, "norm": found.norm, "negative": negative, "flat": flat,
        "loss": nr.loss(task, found.weights), "starts": share * len(p.spreads),
    }  # fmt: skip


def paths(depth: int, std: float, p: Saddles) -> dict[str, Any]:
    """Learning from small weights: the map over time, and the fixed points that the path comes near."""
    task = p.task(depth)
    start = nr.init.gaussian(task.graph, std, seed=range(p.seeds))
    # The time to leave the origin: log(1/std)/s in two layers, about 1/(s std) in three.
    wait = {1: 0.0, 2: np.log(1 / std), 3: 2 / std}[depth] / p.strengths[1]
    run = nr.flow(task, start, wait + p.t1, save=1001, method=nr.Adaptive(1e-10, 1e-12), record=recorded)
    maps = run.recorded["map"]
    return {"t": run.t, "loss": run.loss, "map": maps, **halves(run.t, maps, p.strengths)} | (
        visits(task, run, p) if depth == 2 else {}
    )


def visits(task: nr.Task, run: nr.Trajectory, p: Saddles) -> dict[str, Any]:
    """When each path is nearest to which fixed point `(seeds, 4)`, and how far in weights; nan if never."""
    many = {e: w.reshape(-1, *w.shape[2:]) for e, w in run.weights.items()}
    norm = np.linalg.norm(task.graph.flatten(nr.gradient(task, many)), axis=-1).reshape(run.loss.shape)
    padded = np.pad(norm, ((0, 0), (1, 1)), constant_values=np.inf)
    slow = (norm < padded[:, :-2]) & (norm <= padded[:, 2:])
    slow[:, -1] = True
    seed, step = np.nonzero(slow)
    starts = {e: w[seed, step] for e, w in run.weights.items()}
    found = landscape.fixed_points(task, starts)
    ends = task.graph.flatten(found.weights)
    far = np.linalg.norm(ends - task.graph.flatten(starts)[found.start], axis=-1)
    which, _ = nearest(end_to_end(task, found.weights), p)
    when, distance = (np.full((p.seeds, 4), np.nan) for _ in range(2))
    for k, start in enumerate(found.start):
        at = seed[start], which[k]
        if not far[k] > distance[at]:  # nan: not yet visited
            when[at], distance[at] = run.t[step[start]], far[k]
    return {"when": when, "distance": distance}


def halves(t: np.ndarray, maps: np.ndarray, strengths: Any) -> dict[str, Any]:
    """When each mode is half learned `(seeds, 2)`."""
    learned = np.diagonal(maps, axis1=-2, axis2=-1) / strengths
    return {"half": [[crossing(t, 1 - one[:, k], 0.5) for k in range(2)] for one in learned]}


def near(std: float, p: Saddles) -> dict[str, Any]:
    """Distance in weights to the first saddle, by size of the initial weights; two layers."""
    found = paths(2, std, p)
    return {"distance": found["distance"][:, FIRST]}


def order(ratio: float, p: Saddles) -> dict[str, Any]:
    """Half times of both modes, and what the growing part of the initial weights says of them; two layers."""
    s = (p.strengths[0], ratio * p.strengths[0])
    task = p.task(2, s)
    w = nr.init.gaussian(task.graph, p.std, seed=range(p.seeds))
    # A chain's half time, log(s/a0 - 1)/2s, a0 = |growing part|^2; the later mode cannot have the hidden
    # direction that the earlier one has taken.
    growing = (w["x->h1"] + w["h1->y"].swapaxes(1, 2)) / 2
    time = lambda part: np.log(s / (part**2).sum(axis=1) - 1) / (2 * np.array(s))  # noqa: E731
    expected = time(growing)
    taken = growing / np.linalg.norm(growing, axis=1, keepdims=True)
    overlap = (growing[..., 0] * taken[..., 1]).sum(axis=1), (growing[..., 1] * taken[..., 0]).sum(axis=1)
    free = growing - np.stack(overlap, axis=-1)[:, None] * taken[..., ::-1]
    expected = np.where(expected > expected[:, ::-1], time(free), expected)
    run = nr.flow(
        task, w, (np.log(1 / p.std) + 4) / s[1], save=1001, method=nr.Adaptive(1e-10, 1e-12), record=recorded
    )
    return {**halves(run.t, run.recorded["map"], s), "expected": expected}


def scaling(p: Saddles) -> float:
    """Exponent of the closest approach to the first saddle in the size of the initial weights.

    When mode 1 arrives, at exp(s1 t) = 1/std, mode 2 has grown to std exp(s2 t) = std^(1 - s2/s1). From then
    on mode 1 falls short by exp(-2 s1 t) while mode 2 grows by exp(s2 t): least about where they are equal.
    """
    s1, s2 = p.strengths
    return (1 - s2 / s1) * 2 * s1 / (2 * s1 + s2)


def passed(found: Results, p: Saddles) -> np.ndarray:
    """How near the map comes to that of the first mode alone, as a share of the second `(seeds,)`."""
    off = np.linalg.norm(found["map"] - p.maps[FIRST], axis=(-1, -2))
    return off.min(axis=1) / p.strengths[1]


def fitted(p: Saddles, r: Results) -> np.ndarray:
    """Measured exponent of the closest approach, `(seeds,)`."""
    return np.polyfit(np.log(p.stds), np.log(r["near"]["distance"]), 1)[0]


# -- figures ---------------------------------------------------------------------------------


def figures(p: Saddles, r: Results) -> dict[str, tuple[Figure, str]]:
    return {"saddles": landscape_and_paths(p, r), "saddles-variability": variability(p, r)}


NAMES = ("none", "mode 1", "mode 2", "both")


def landscape_and_paths(p: Saddles, r: Results) -> tuple[Figure, str]:
    fig, (a, b, c) = plot.figure(1, 3, height=2.6)
    for saddle, name in zip(p.theory, NAMES, strict=True):
        a.plot(saddle.loss, saddle.index, "o", mfc="none", mec=plot.BLACK, ms=9, mew=0.8)
        side = 1 if saddle.loss < p.theory[NONE].loss / 2 else -1
        a.annotate(name, (saddle.loss, saddle.index), (8 * side, -3), textcoords="offset points",
                   ha="left" if side > 0 else "right", fontsize=7)  # fmt: skip
    for depth in p.depths:
        found = r["points"][depth]
        a.plot(found["loss"], found["negative"], {1: "s", 2: "o", 3: "x"}[depth], color=COLOURS[depth], ms=4,
               label=f"depth {depth}")  # fmt: skip
    top = max(p.theory[0].index, *(int(f["negative"].max()) for f in r["points"].values()))
    a.set(xlabel="loss", ylabel="index (negative curvatures)", ylim=(-0.6, top + 1.6))
    a.set_xlim(-0.35, p.theory[0].loss * 1.15)
    a.legend(loc="upper left")
    for depth in sorted(p.depths, key=lambda d: d == 2):  # two layers on top
        b.plot([], [], color=COLOURS[depth], label=f"depth {depth}")
        for one in r["paths"][depth]["map"]:
            b.plot(one[:, 0, 0], one[:, 1, 1], color=COLOURS[depth], lw=0.5, alpha=0.5)
    for m, name in zip(p.maps, NAMES, strict=True):
        b.plot(m[0, 0], m[1, 1], "o", color=plot.BLACK, ms=4, zorder=5)
        up = -11 if m[1, 1] == 0 else 5
        b.annotate(name, (m[0, 0], m[1, 1]), (0, up), textcoords="offset points", ha="center", fontsize=7)
    s = p.strengths
    b.set(xlabel="mode 1 of the map", ylabel="mode 2 of the map", xlim=(-0.15 * s[0], 1.15 * s[0]))
    b.set(ylim=(-0.25 * s[1], 1.5 * s[1]))
    b.legend(loc="upper center", handlelength=1, ncols=3, columnspacing=0.8)
    found = r["paths"][2]
    off = np.linalg.norm(found["map"][:, :, None] - p.maps, axis=(-1, -2))
    for k, colour in zip(
        (NONE, FIRST, SECOND, BOTH), (plot.BLUE, plot.ORANGE, plot.PINK, plot.GREEN), strict=True
    ):
        plot.runs(c, found["t"], off[:, :, k], colour, NAMES[k], lw=1.3, alpha=1)
    c.set(yscale="log", xlabel="time (τ = 1)", ylabel="distance to the map of ...", ylim=(1e-4, 20))
    c.legend(ncols=2, loc="upper right", columnspacing=0.8)
    caption = (
        "Left: fixed points found from random starts by their loss and index; circles: all that a network "
        "of two layers must have, one for each subset of modes. Depth 3 has further kinds at the same maps, "
        f"with layers that are idle. Middle: learning from small weights ({p.seeds} seeds), in the plane of "
        "both modes; dots are the maps of the fixed points. Right: two layers, distance of the map to those "
        "of the fixed points over time."
    )
    return fig, caption


def variability(p: Saddles, r: Results) -> tuple[Figure, str]:
    fig, (a, b, c) = plot.figure(1, 3, height=2.5)
    plot.points(a, p.stds, r["near"]["distance"].T, plot.RED, "two layers")
    line = np.exp(np.log(r["near"]["distance"]).mean(axis=1)[-1]) * (
        np.array(p.stds) / p.stds[-1]
    ) ** scaling(p)
    plot.theory(a, p.stds, line, plot.BLACK, f"slope {scaling(p):.2g}")
    a.set(
        xscale="log",
        yscale="log",
        xlabel="size of initial weights",
        ylabel="distance to the saddle of mode 1",
    )
    a.legend(loc="upper left")
    half, expected = r["order"]["half"], r["order"]["expected"]
    k = int(np.argmin(np.abs(np.array(p.ratios) - p.strengths[1] / p.strengths[0])))
    for mode, colour in enumerate((plot.ORANGE, plot.GREEN)):
        b.plot(expected[k, :, mode], half[k, :, mode], "o", color=colour, label=f"mode {mode + 1}", alpha=0.7)
    ends = [min(expected[k].min(), half[k].min()), max(expected[k].max(), half[k].max())]
    plot.theory(b, ends, ends, plot.BLACK, lw=0.8)
    b.set(
        xlabel="expected from initial weights",
        ylabel="time to half of the mode",
        title=f"s2/s1 = {p.ratios[k]:g}",
    )
    b.legend(loc="upper left")
    first = half[..., 0] < half[..., 1]
    plot.points(c, p.ratios, first.mean(axis=1), plot.RED, "networks")
    c.plot(
        p.ratios,
        (expected[..., 0] < expected[..., 1]).mean(axis=1),
        "x",
        color=plot.BLACK,
        label="expected",
        zorder=4,
    )
    c.axhline(0.5, color=plot.BLACK, lw=0.6, ls=":")
    c.set(xlabel="strengths s2/s1", ylabel="share that learns mode 1 first", ylim=(0.4, 1.05))
    c.legend(loc="center left")
    caption = (
        "Left: how near networks of two layers come to the first saddle (mean and standard deviation of "
        f"{p.seeds} seeds); line: the theory's slope. Middle: individual networks leave their saddles at "
        "times that the growing part of their initial weights tells. Right: the order of modes is the same "
        "in all networks unless their strengths are nearly equal."
    )
    return fig, caption


# -- claims ----------------------------------------------------------------------------------


def kinds(found: Results) -> set[tuple[int, int, int]]:
    """Kinds of fixed points: map, negative and flat directions."""
    return set(zip(*(found[k].tolist() for k in ("which", "negative", "flat")), strict=True))


def claims(p: Saddles, r: Results) -> list[Claim]:
    expected = {(k, s.index, s.flat) for k, s in enumerate(p.theory)}
    two, deep = r["points"][2], r["paths"][2]
    norms = np.concatenate([r["points"][d]["norm"] for d in p.depths])
    offs = np.concatenate([r["points"][d]["off"] for d in p.depths])
    share = two["starts"] / len(two["which"])
    counts = np.bincount(two["which"], minlength=4)
    visited = ~np.isnan(deep["when"][:, [NONE, FIRST, BOTH]]).any(axis=1) & np.isnan(deep["when"][:, SECOND])
    in_order = visited & (np.diff(deep["when"][:, [NONE, FIRST, BOTH]]) > 0).all(axis=1)
    half, told = r["order"]["half"], r["order"]["expected"]
    k = int(np.argmin(np.abs(np.array(p.ratios) - p.strengths[1] / p.strengths[0])))
    right = (half[..., 0] < half[..., 1]).mean(axis=1)
    hits = (half[-1, :, 0] < half[-1, :, 1]) == (told[-1, :, 0] < told[-1, :, 1])
    where = [
        f"{n}: {s.index} negative, {s.flat} flat ({c} starts)"
        for n, s, c in zip(NAMES, p.theory, counts, strict=True)
    ]
    nears = "nearest the map comes to that of mode 1 alone / s2"
    result = [
        check.below("gradient-norm", "norm of the gradient at fixed points, all depths", TALK, 1e-10,
                    norms.max()),
        check.below("maps", "distance of the maps of fixed points from those of a subset of modes", TALK,
                    1e-6, offs.max()),
        paper.near("points-depth-1", "depth 1: fixed points", TALK, 1, len(kinds(r["points"][1])), 0),
        paper.near("points-depth-2", "depth 2: kinds of fixed points found, of the 4 subsets of modes", TALK,
                   4, len(kinds(two) & expected), 0, "; ".join(where)),
        check.near("points-extra", "depth 2: kinds found that the theory does not have", TALK, 0,
                   len(kinds(two) - expected), 0, f"{1 / share:.0%} of starts end at a fixed point."),
        paper.near("path-in-order", "share of paths past the saddles in order: none, mode 1, both", TALK, 1,
                   in_order.mean(), 0, "Depth 2; the saddle of mode 2 alone is on no path."),
        *(
            paper.near(f"near-{kebab(NAMES[k])}",
                       f"distance to the fixed point of {NAMES[k]} / learned weights, depth 2", TALK, 0,
                       deep["distance"][:, k] / np.sqrt(2 * sum(p.strengths)), bound,
                       f"At t = {deep['when'][:, k].mean():.3g}.")
            for k, bound in ((NONE, 0.1), (FIRST, 0.1), (BOTH, 1e-3))
        ),
        finding.near("approach-exponent",
                     "exponent of the distance to the first saddle in the initial weights", TALK, scaling(p),
                     fitted(p, r), 0.05, "nan where a path has no plateau: initial weights are too large."),
        paper.below("passes-depth-2", f"{nears}, depth 2", TALK, 0.2, passed(deep, p)),
        paper.above("passes-shallow", f"{nears}, shallow", TALK, 0.5, passed(r["paths"][1], p)),
        paper.relation("times-vary",
                       f"time to half of mode 2, spread over networks, s2/s1 = {p.ratios[k]:g}", VARIED,
                       "> 0", half[k, :, 1], bool(np.std(half[k, :, 1]) > 0)),
        finding.above("times-foretold",
                      "time to half of mode 2: correlation with that expected from initial weights", VARIED,
                      0.9, np.corrcoef(half[k, :, 1], told[k, :, 1])[0, 1]),
        paper.near("order-alike", f"share of networks that learn mode 1 first, s2/s1 = {p.ratios[k]:g}",
                   VARIED, 1, right[k], 0),
        finding.above("order-foretold",
                      f"order foretold by initial weights, share of networks, s2/s1 = {p.ratios[-1]:g}",
                      VARIED, 0.8, hits.mean(), f"Mode 1 is first in {right[-1]:.0%}."),
    ]  # fmt: skip
    if 3 in p.depths:
        third = kinds(r["points"][3])
        result.append(
            finding.near("points-depth-3", "depth 3: maps of fixed points, of 4", TALK, 4,
                         len({w for w, *_ in third}), 0,
                         f"{len(third)} kinds by map, negative and flat directions: layers may be idle while "
                         "their map is that of a subset.")
        )  # fmt: skip
        result.append(paper.below("passes-depth-3", f"{nears}, depth 3", TALK, 0.2, passed(r["paths"][3], p)))
    return result


EXPERIMENT = Experiment(
    "saddles",
    "Saddles: a hierarchy of fixed points, and the path between them",
    "talk: depth introduces a hierarchy of saddle points",
    Saddles(),
    Saddles(seeds=10, depths=(1, 2), starts=240, stds=(1e-3, 1e-5, 1e-7), ratios=(0.5, 0.9, 0.99)),
    compute,
    figures,
    claims,
    (0.3, 0.5),
)
