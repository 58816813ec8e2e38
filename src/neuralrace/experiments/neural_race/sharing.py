"""What makes a pathway win the race. When groups of domains share hidden pathways, the more routes run
through one, the faster it learns, and the more its hidden layer changes. So with enough routes trained, the
solution that all routes share outruns the others and serves routes never trained. The other things that set
a pathway's speed are its data, its depth and its initial weights. Learning is gradient flow on the mean
loss, to convergence; the published rate, .05/K on the sum over trained pairs, is this flow on one clock for
all K."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import brentq

import neuralrace as nr
from neuralrace import plot
from neuralrace.errors import InputError
from neuralrace.experiments.neural_race.routing import TARGETS
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

ITEMS = len(TARGETS)
SILENCE = 0.5 * (TARGETS**2).sum() / ITEMS  # loss of a network without output
LEVEL = 0.1  # of that loss: where learning times are read
FIG, RACE, TALK = "neural_race Fig. 5", "neural_race ", "talk: the neural race reduction"
COLOURS = (plot.BLUE, plot.GREEN, plot.ORANGE, plot.RED)


@dataclass(frozen=True)
class Sharing(Parameters):
    domains: int = option(10, "input domains, and as many output domains", least=3)
    hidden: int = option(64, "units of each hidden layer", least=ITEMS)
    scale: float = option(0.2, "singular values of the initial orthogonal weights")
    groups: tuple[int, ...] = option(
        (1, 2, 5, 10), "domains that share a hidden pathway: P = group^2 routes run through it"
    )
    t1: float = option(1500.0, "end of training for one domain per group, flow time; it falls as 1 / group")
    trained: tuple[int, ...] = option(
        (1, 2, 3, 4, 5, 6, 7, 8, 9, 10), "output domains with which each input domain is trained, K"
    )
    pairs: str = option(
        "band",
        "which pairs are trained: neighbours (band) or any distances (spread)",
        choices=("band", "spread"),
    )
    long: float = option(400.0, "end of training of the routing networks, flow time")
    stop: float = option(1e-6, "loss at which training stops, as a share of that of a silent network")
    values: tuple[float, ...] = option((0.5, 1.0, 2.0, 4.0, 8.0), "strengths s of the data, for chains")
    depths: tuple[int, ...] = option((1, 2, 3, 4, 5, 6, 8), "depths of chains")
    starts: tuple[float, ...] = option((1e-8, 1e-6, 1e-4, 1e-2), "initial products of the weights of chains")
    product: float = option(1e-3, "initial product of weights where data or depth vary")
    weight: float = option(0.3, "initial weight of each layer where depth varies")
    imbalance: float = option(100.0, "first initial layer over the second, for chains of two layers", above=1)

    def check(self) -> None:
        if any(self.domains % g for g in self.groups):
            raise InputError(f"groups must divide domains = {self.domains}, got {self.groups}")
        if list(self.trained) != sorted(set(self.trained)) or self.trained[-1] > self.domains:
            raise InputError(f"trained must increase up to domains = {self.domains}, got {self.trained}")

    def task(self, domains: int, pairs: Any) -> nr.Task:
        items = {"inputs": np.eye(ITEMS), "targets": TARGETS}
        return nr.tasks.routing(domains, pairs, ITEMS, (self.hidden, self.hidden), **items)


def compute(p: Sharing, parts: Parts) -> Results:
    return {
        "shared": stacked(parts.each("group", shared, p.groups, p, threads=2)),
        "trained": stacked(parts.each("trained", trained, p.trained, p, threads=2)),
        **{name: parts(name, factor, p, name) for name in ("data", "depth", "weights", "start", "imbalance")},
    }


def shared(group: int, p: Sharing) -> dict[str, Any]:
    """Groups of domains with a pathway of their own, on the clock of all M^2 routes.

    Pathways of different groups are never open together and share no weights: each is a routing network of
    its own, which sees (group / M)^2 of the samples and so runs that much slower. One stands for all.
    """
    clock = (p.domains / group) ** 2
    task = p.task(group, group)
    r = nr.reduce(task)
    t = np.append(0, np.geomspace(1e-3, 1, 200) * p.t1 / group)
    s, d = np.linalg.svd(TARGETS)[1] / ITEMS, 1 / ITEMS
    start = nr.init.orthogonal(task.graph, p.scale, seed=range(p.seeds))
    grown = r.strengths(start)
    b0 = [
        np.mean([b for e, b in grown.items() if (e == "h1->h2") == hidden], axis=0)
        for hidden in (False, True)
    ]

    def theory(t: np.ndarray, b0: Any) -> tuple[Any, Any]:
        b1, b2 = nr.exact.sharing(t[:, None], s, d, p.domains, group**2, b0)
        return (b1, b2), 0.5 * d * ((s / d - b2 * b1**2) ** 2).sum(axis=-1)

    def time(b0: Any) -> float:
        return first_time(lambda t: theory(t, b0)[1], t, LEVEL * SILENCE)

    b, _ = theory(t, p.scale)
    aligned, method = nr.init.decoupled(r, p.scale), nr.Adaptive(1e-10, 1e-12)
    starts = {e: np.concatenate([w[None], start[e]]) for e, w in aligned.items()}
    run = nr.flow(task, starts, save=t / clock, method=method)
    until = nr.flow(task, aligned, t[-1] / clock, 2, method=method, stop_loss=LEVEL * SILENCE)
    values = np.stack([run.singular_values(e)[..., :ITEMS] for e in ("x0->h1", "h1->h2")])
    return {
        "t": t,
        "theory": b,
        "theory_time": time(p.scale),
        "exact": values[:, 0],
        "exact_time": clock * stopped(until),
        "random": values[:, 1:],
        "random_time": clock * nr.learning_time(run[1:], LEVEL * SILENCE),
        "grown_time": [time([b[k] for b in b0]) for k in range(p.seeds)],
    }


def first_time(loss: Callable[[np.ndarray], np.ndarray], t: np.ndarray, level: float) -> float:
    """When `loss(t)` `(times,)` first is at a level, solved for between the times t; nan if never."""
    below = np.flatnonzero(loss(t) <= level)
    if not len(below) or not below[0]:
        return float(t[0]) if len(below) else np.nan
    ends = t[below[0] - 1 : below[0] + 1]
    return np.asarray(brentq(lambda v: loss(np.array([v]))[0] - level, *ends)).item()


def trained(count: int, p: Sharing) -> dict[str, Any]:
    """Errors at the end with so many outputs trained per input, relative to a silent network."""
    pairs = nr.tasks.circulant(p.domains, count)
    if p.pairs == "spread":  # any set of distances between input and output, not the nearest ones
        shifts = np.random.default_rng(count).permutation(p.domains)[:count]
        i, j = np.indices(pairs.shape)
        pairs = np.isin((j - i) % p.domains, shifts)
    task = p.task(p.domains, pairs)
    start = nr.init.orthogonal(task.graph, p.scale, seed=range(p.seeds))
    run = nr.flow(task, start, p.long, [0.0, p.long], stop_loss=p.stop * SILENCE)
    end = {e: w[:, -1] for e, w in run.weights.items()}
    untrained = np.full(p.seeds, np.nan) if pairs.all() else nr.loss(p.task(p.domains, ~pairs), end) / SILENCE
    return {"trained": nr.loss(task, end) / SILENCE, "untrained": untrained}


def factor(p: Sharing, name: str) -> dict[str, Any]:
    """Time until half of a mode is learned by a chain with one input and one output: theory and networks."""
    cases = {
        "data": [(s, s, [p.product**0.5] * 2) for s in p.values],
        "depth": [(n, 1.0, [p.product ** (1 / n)] * n) for n in p.depths],
        "weights": [(n, 1.0, [p.weight] * n) for n in p.depths],
        "start": [(a, 1.0, [a**0.5] * 2) for a in p.starts],
        "imbalance": [(a, 1.0, [(a * p.imbalance) ** 0.5, (a / p.imbalance) ** 0.5]) for a in p.starts],
    }[name]
    found = [half_time(p, s, b, name == "start") for _, s, b in cases]
    return {"x": [x for x, _, _ in cases], **stacked(found)}


def half_time(p: Sharing, s: float, b: list[float], random: bool) -> dict[str, Any]:
    """Of the theory, of a network with strengths b in one hidden direction, and of networks with normal
    weights whose growing part `|W1 + W2^T|^2 / 4` (two layers) is the same product on average."""
    task = nr.Task(nr.Graph.chain([1, *[p.hidden] * (len(b) - 1), 1]), [[1.0]], [[s]])
    b0 = {e: [v] for e, v in zip(task.graph.edges, b, strict=True)}
    r = nr.reduce(task, start={e: v for e, (v,) in b0.items()})

    def balanced(t: np.ndarray) -> Any:
        return 0.5 * (s - nr.exact.chain(t, s, a0=float(np.prod(b)), depth=len(b))) ** 2

    level, wide = s**2 / 8, np.append(0, np.geomspace(1e-2, 1e6, 2000))
    closed = first_time(balanced, wide, level)
    until = {"t1": 1.5 * closed, "save": 2, "stop_loss": level}
    network = nr.flow(task, r.lift(b0), method=nr.Adaptive(1e-10, 1e-12), **until)
    theory = closed if len(set(b)) == 1 else stopped(r.solve(b0=b0, **until))
    found = {"theory": theory, "network": stopped(network)}
    if random:
        std = float(2 * np.prod(b) / p.hidden) ** 0.5
        runs = nr.flow(task, nr.init.gaussian(task.graph, std, seed=range(p.seeds)), **until)
        found["random"] = stopped(runs)
    return found


def stopped(run: nr.Trajectory) -> Any:
    """When runs with a `stop_loss` reached it, as exactly as they were solved; nan where they did not."""
    reached = np.array([s is nr.Status.REACHED_LOSS for s in run.statuses])
    return np.where(reached if run.many else reached[0], run.end, np.nan)


def threshold(p: Sharing, untrained: np.ndarray, level: float, between: bool = False) -> float:
    """K/M from which on the untrained error `(K,)` stays below a level: the least K trained, or `between` two
    of them by linear interpolation; nan if it never does."""
    high = np.flatnonzero(untrained >= level)
    k = high[-1] + 1 if len(high) else 0
    if k == len(p.trained):
        return np.nan
    share = np.array(p.trained[max(k - 1, 0) : k + 1]) / p.domains
    return crossing(share, untrained[max(k - 1, 0) : k + 1], level) if between else float(share[-1])


def figures(p: Sharing, r: Results) -> dict[str, tuple[Figure, str]]:
    return {
        "sharing-dynamics": dynamics(p, r),
        "sharing-routes": routes(p, r),
        "sharing-factors": factors(p, r),
    }


def dynamics(p: Sharing, r: Results) -> tuple[Figure, str]:
    fig, axes = plot.figure(1, 3, height=2.4)
    shared, counts, few = r["shared"], np.array(p.groups) ** 2, slice(2, None, 9)
    for k, count in enumerate(counts):
        t, colour = shared["t"][k], COLOURS[k % len(COLOURS)]
        for ax, layer in zip(axes, (1, 0), strict=False):
            plot.runs(ax, t[1:], shared["random"][k, layer, :, 1:, 0], colour)
            plot.theory(ax, t[1:], shared["theory"][k, layer, 1:, 0], colour, f"P = {count}")
            ax.plot(t[few], shared["exact"][k, layer, few, 0], "o", color=colour, ms=2.5)
    for ax, title in zip(axes, ("hidden layer B2", "outer layers B1"), strict=False):
        top = 1.4 * ax.dataLim.y1  # room for the legend
        ax.set(xscale="log", xlabel="time (τ = 1)", ylabel="singular value", title=title, ylim=(0, top))
        ax.legend(loc="upper center", ncols=2)
    ends = shared["random"][:, :, :, -1]
    fine = np.geomspace(1, counts[-1], 50)
    plot.theory(axes[2], fine, fine**0.25, label="P^(1/4)")
    plot.points(axes[2], counts, (ends[:, 1] / ends[:, 0]).mean(axis=-1).T, plot.RED, "random starts")
    axes[2].set(xlabel="routes through a pathway P", ylabel="B2 / B1", title="ratio at the end")
    plot.logarithmic(axes[2].xaxis)
    axes[2].legend()
    caption = (
        f"Left, middle: singular value of the strongest mode, M = {p.domains} domains, for hidden pathways "
        "that P routes share: theory (lines), decoupled starts (points) and random starts (pale: all "
        f"singular values start at {p.scale:g}, but little of that lies in directions that grow, so they "
        "learn later). Right: ratio of the layers after learning, mean over modes, with standard deviation "
        "over starts."
    )
    return fig, caption


def routes(p: Sharing, r: Results) -> tuple[Figure, str]:
    fig, (left, right) = plot.figure(1, 2)
    share = np.array(p.trained) / p.domains
    for kind, colour, marker in (("trained", plot.BLUE, "o"), ("untrained", plot.RED, "s")):
        plot.points(left, share, r["trained"][kind].T, colour, f"{kind} routes", fmt=f"{marker}-")
        right.plot(share, np.median(r["trained"][kind], axis=1), color=colour, alpha=0.5)
        right.plot(share, r["trained"][kind], marker, color=colour, ms=2.5)
    for ax in (left, right):
        ax.axvline(0.4, color=plot.BLACK, lw=0.8, ls=":", label="published: about 40%")
        ax.set(
            xlabel="share of outputs trained per input, K/M", ylabel="loss / silent network", xlim=(0, 1.03)
        )
    left.legend(loc="upper right")
    right.set(yscale="log")
    caption = (
        f"Error at the end on trained and untrained routes. Left: mean and standard deviation over {p.seeds} "
        f"starts. Right: every start, and the median, on a logarithmic scale. M = {p.domains}, initial "
        f"singular values {p.scale:g}; a silent network has no output."
    )
    return fig, caption


def factors(p: Sharing, r: Results) -> tuple[Figure, str]:
    fig, ((a, b), (c, d)) = plot.figure(2, 2, height=4.4)
    curves = (
        (a, "data", plot.BLUE, "o", f"two layers, initial product {p.product:g}"),
        (b, "weights", plot.BLUE, "o", f"each initial weight {p.weight:g}"),
        (b, "depth", plot.RED, "s", f"initial product {p.product:g}"),
        (c, "start", plot.BLUE, "o", "two equal layers"),
        (c, "imbalance", plot.RED, "s", f"first layer {p.imbalance:g} x second"),
    )
    for ax, name, colour, marker, label in curves:
        plot.theory(ax, r[name]["x"], r[name]["theory"], colour, label)
        ax.plot(r[name]["x"], r[name]["network"], marker, color=colour, ms=4)
    plot.points(c, r["start"]["x"], r["start"]["random"].T, plot.GREEN, "random starts", fmt="d", mfc="white")
    counts = np.array(p.groups) ** 2
    plot.theory(d, counts, r["shared"]["theory_time"], plot.BLUE, "decoupled start")
    d.plot(counts, r["shared"]["exact_time"], "o", color=plot.BLUE, ms=4)
    plot.theory(d, counts, r["shared"]["grown_time"].mean(axis=1), plot.RED, "random starts")
    plot.points(d, counts, r["shared"]["random_time"].T, plot.RED, fmt="s")
    a.set(xlabel="strength of the data s", title="effective data")
    b.set(xlabel="depth (layers)", title="depth", xticks=p.depths)
    c.set(xscale="log", xlabel="initial product of weights a0", title="initial weights", ylim=(0, None))
    d.set(xlabel="routes through a pathway P", title="edge sharing")
    for axis in (a.xaxis, a.yaxis, b.yaxis, d.xaxis, d.yaxis):
        plot.logarithmic(axis)
    for ax in (a, b, c, d):
        ax.set_ylabel("learning time (τ = 1)")
        ax.legend()
    caption = (
        "What sets a pathway's learning speed: theory (lines) and networks (points). Data, depth and "
        f"initial weights: chains with {p.hidden} neurons per hidden layer, time until half of a mode is "
        f"learned (s = 1 but for the first panel). Edge sharing: time until {LEVEL:.0%} of the loss is left; "
        "for random starts the theory begins with what of the weights grows. Random starts: mean and "
        f"standard deviation of {p.seeds}."
    )
    return fig, caption


def claims(p: Sharing, r: Results) -> list[Claim]:
    return [*dynamics_claims(p, r), *route_claims(p, r), *factor_claims(p, r)]


def dynamics_claims(p: Sharing, r: Results) -> list[Claim]:
    shared, eq, fig = r["shared"], RACE + "Eq. 16-17", FIG + "b"
    gap = np.abs(np.sort(shared["theory"]) - np.sort(shared["exact"])).max(axis=(1, 2, 3))
    name = "singular values, theory - decoupled start, all P"
    found = [check.below("strengths-decoupled", name, eq, 1e-5, gap.max())]
    for name, kind in (("decoupled", "exact_time"), ("random", "random_time")):
        t = r["shared"][kind].reshape(len(p.groups), -1)
        slowest = (t[1:] / t[:-1]).max(axis=0)
        told = f"learning time, next P / this P, {name} start"
        found.append(paper.below(f"more-sharing-faster-{name}", told, fig, 1, slowest))
    off = r["shared"]["grown_time"] / r["shared"]["random_time"] - 1
    for k, group in enumerate(p.groups):
        name = f"learning time, theory / random start - 1, P = {group**2}"
        found.append(finding.near(f"time-random-p-{group**2}", name, fig, 0, off[k], 0.1))
    for k, group in enumerate(p.groups):
        end, limit = shared["random"][k, :, :, -1], group**0.5
        note = "Limit of small starts." if group > 1 else "All layers move alike."
        ratio, name = (end[1] / end[0]).mean(axis=-1), f"B2 / B1 at the end, P = {group**2}"
        key = f"layer-ratio-p-{group**2}"
        found.append(paper.near(key, name, RACE + "Eq. 56", limit, ratio, 0.03 * limit, note))
    return found


def route_claims(p: Sharing, r: Results) -> list[Claim]:
    trained, untrained, fig = r["trained"]["trained"], r["trained"]["untrained"], FIG + "c"
    name = "error on trained routes / silent network, all K"
    found = [paper.below("trained-error", name, fig, 1e-3, trained.max(axis=0))]
    early = (
        "Most networks generalise from fewer routes than the published 40%, which is where the last of them "
        "does: see the claim for all starts. How few depends on the level, the starts and which pairs are "
        "trained."
    )
    for level in (0.5, 0.1, 0.01):
        name = f"K/M at which the untrained error falls below {level:.0%} of a silent network"
        each = [threshold(p, e, level, between=True) for e in untrained.T]
        key = f"routes-needed-{100 * level:.0f}-percent"
        claim = paper.near(f"{key}-each-start", name + ", each start", fig, 0.4, each, 0.1)
        found.append(claim if claim.holds else replace(claim, note=early))
        least = threshold(p, untrained.max(axis=1), level) * p.domains
        of = f"K of {p.domains} from which on the untrained error is below {level:.0%}, all {p.seeds} starts"
        least = round(least) if least == least else least
        found.append(paper.near(f"{key}-all-starts", of, fig, 0.4 * p.domains, least, 1))
    first, worse = f"untrained error / silent network, K = {p.trained[0]}", "Above 1: worse than no output."
    return [*found, paper.above("untrained-few-routes", first, fig, 0.5, untrained[0], worse)]


def factor_claims(p: Sharing, r: Results) -> list[Claim]:
    names = ("data", "depth", "weights", "start", "imbalance")
    data, depth, weights, start, imbalance = (r[n] for n in names)
    gaps = [np.abs(r[n]["network"] / r[n]["theory"] - 1).max() for n in names]
    slope = np.polyfit(np.log(data["x"]), np.log(data["network"]), 1)[0]
    law = 2 * data["x"] * data["network"] / np.log(data["x"] / p.product - 1)
    per_log = np.polyfit(-np.log(start["x"]), start["network"], 1)[0]
    random = (start["random"].T / start["theory"]).mean(axis=1)
    gap = np.abs(r["shared"]["exact_time"] / r["shared"]["theory_time"] - 1).max()
    steps = lambda v: (v["network"][1:] / v["network"][:-1]).min()  # noqa: E731
    almost = "But for a logarithm of s, below."
    deep = "In the theory the order turns at some depth: at 11 layers from a product of 0.001."
    return [
        check.below("chain-times", "learning time of chains, |theory / network - 1|", TALK, 1e-5, max(gaps)),
        check.below(
            "shared-edge-times", "learning time with shared edges, |theory / network - 1|", TALK, 1e-5, gap
        ),
        paper.near(
            "stronger-data-faster", "power of s with which the learning time goes", TALK, -1, slope, 0.15,
            almost,
        ),
        check.near("logistic-time", "learning time x 2s / log(s/a0 - 1), two layers", TALK, 1, law, 1e-4),
        paper.above(
            "deeper-slower-equal-weights", "learning time, next depth / this depth, equal weights", TALK, 1,
            steps(weights),
        ),
        paper.above(
            "deeper-slower-equal-product", "learning time, next depth / this depth, equal product", TALK, 1,
            steps(depth), deep,
        ),
        check.near("time-per-log-start", "learning time per log(1/a0), two layers", TALK, 0.5, per_log, 0.01),
        finding.near(
            "time-random-start", "learning time, random start / theory, two layers", TALK, 1, random, 0.05
        ),
        paper.below(
            "imbalanced-faster", "learning time, imbalanced / balanced", TALK, 1,
            imbalance["network"] / start["network"],
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "sharing",
    "Sharing: pathways that more routes share win the race",
    "neural_race Fig. 5, 4.2, C",
    Sharing(),
    Sharing(seeds=2, groups=(1, 10), trained=(1, 2, 3, 4), long=100.0, depths=(1, 2)),
    compute,
    figures,
    claims,
    (0.8, 3.0),
)
