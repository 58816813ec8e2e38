"""Parallel pathways compete for a mode. Trajectories of two pathways follow the level lines of an invariant
(Eq. 22), which bend away from the diagonal the more, the deeper the pathways: small differences at the start
end as one pathway that does nearly all. The arrows of every panel are those of its own depth. The asymptotic
forms of the paper (Eq. 23-31) need last layers p far above 1. For a mode of strength s this means s far above
`p^depth`, so depth takes them further out of reach: at a given strength, deep pathways finish with p below 1,
where the invariant is an error function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import brentq
from scipy.special import hyp2f1

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
from neuralrace.init import random_frame
from neuralrace.measure import crossing

FIG, PAPER = "multipathway Fig. 3", "multipathway "
COLOURS = (plot.BLUE, plot.ORANGE, plot.GREEN, plot.PINK, plot.SKY, plot.RED)
WINNERS = {1: plot.BLUE, 2: plot.ORANGE}
MIXED = ((2, 5), (2, 3, 6), (2, 2, 4, 7), (2, 3, 4, 5, 6))


@dataclass(frozen=True)
class PhasePortraits(Parameters):
    seeds: int = option(100, "starts of each panel")
    strength: float = option(10.0, "strength of the mode")
    depths: tuple[int, ...] = option((2, 3, 4, 7), "depths of both pathways, one for each panel", least=2)
    sigmas: tuple[float, ...] = option(
        (0.1, 0.01), "standard deviations of the initial last layers, one for each row of panels"
    )
    t1: float = option(5.0, "end of learning, flow time")
    start: tuple[float, ...] = option(
        (0.1, 0.05), "initial last layers of two pathways, for the asymptotic forms", above=0
    )
    far: tuple[int, ...] = option((3, 4, 7, 15), "depths at which the asymptotic forms are compared", least=3)
    strengths: tuple[float, ...] = option(
        tuple((10.0 ** np.arange(0.5, 8.1, 0.5)).tolist()),
        "strengths of the mode at which the asymptotic forms are compared",
    )
    cases: int = option(4, "how many networks with pathways of mixed depths are checked")
    layers: tuple[float, ...] = option(
        (0.7, 1.3), "sizes sigma of the initial orthogonal layers, mixed depths"
    )
    modes: tuple[float, ...] = option((4.0, 2.0), "singular values of the targets, mixed depths")
    width: int = option(5, "units of each hidden layer, mixed depths")

    def check(self) -> None:
        if len(self.start) != 2 or self.start[0] <= self.start[1]:
            raise InputError(f"start must be two numbers, the larger one first, got {self.start}")
        if self.width < len(self.modes):
            least = len(self.modes)
            raise InputError(f"width must be at least {least}, a neuron for each of modes; got {self.width}")
        for name in ("depths", "sigmas"):
            if len(getattr(self, name)) < 2:
                raise InputError(f"{name} must be at least two to compare, got {getattr(self, name)}")
        for name in ("depths", "far", "strengths"):
            if list(getattr(self, name)) != sorted(set(getattr(self, name))):
                raise InputError(f"{name} must increase, got {getattr(self, name)}")
        if list(self.sigmas) != sorted(set(self.sigmas), reverse=True):
            raise InputError(f"sigmas must decrease, got {self.sigmas}")
        if self.cases > len(MIXED):
            raise InputError(f"cases must be at most {len(MIXED)}, got {self.cases}")


def compute(p: PhasePortraits, parts: Parts) -> Results:
    return {
        "portraits": stacked(parts.each("depth", portrait, p.depths, p)),
        "mixed": stacked(parts.each("mixed", mixed, range(p.cases), p)),
        "far": stacked(parts.each("far", far, p.far, p)),
        "tails": stacked([tails(depth) for depth in p.far]),
    }


def portrait(depth: int, p: PhasePortraits) -> dict[str, Any]:
    """Two pathways of one neuron per layer from the same random starts at every depth, by integration."""
    draw = np.random.default_rng(0).standard_normal((p.seeds, 2))
    start = np.concatenate([sigma * draw for sigma in p.sigmas])
    task = nr.Task(nr.Graph.pathways(1, 1, [[1] * (depth - 1)] * 2), [[1.0]], [[p.strength]])
    weights = {
        e: (start if e.endswith("y") else np.hypot(1, start))[:, a, None, None]
        for a in (0, 1)
        for e in task.graph.edges
        if f"p{a}h" in e
    }
    run = nr.flow(
        task, weights, save=np.append(0, np.geomspace(1e-4, p.t1, 120)), method=nr.Adaptive(1e-11, 1e-13)
    )
    first = np.stack([run.weights[f"x->p{a}h1"][..., 0, 0] for a in (0, 1)])
    last = np.stack([run.weights[f"p{a}h{depth - 1}->y"][..., 0, 0] for a in (0, 1)])
    kept = nr.exact.pathway_invariant(last, depth)
    return {
        "k": nr.exact.pathway_field(last, p.strength, [depth] * 2)[0].reshape(2, len(p.sigmas), p.seeds, -1),
        "curve": np.abs(first**2 - last**2 - 1).max(),
        "invariant": np.ptp(kept[0] - kept[1], axis=-1).max(),
    }


def mixed(case: int, p: PhasePortraits) -> dict[str, Any]:
    """Wide pathways of mixed depths from sigma times orthogonal layers: what the flow keeps, and Eq. 17."""
    depths, n = MIXED[case], len(p.modes)
    rng = np.random.default_rng(case)
    u, v = (random_frame(rng, n, n) for _ in range(2))
    graph = nr.Graph.pathways(n, n, [[p.width] * (d - 1) for d in depths])
    task = nr.Task(graph, np.sqrt(n) * np.eye(n), np.sqrt(n) * (v * p.modes) @ u.T)
    p0 = 0.2 * rng.standard_normal((len(depths), n))
    t, found = np.append(0, np.geomspace(1e-3, 20, 40)), []
    for sigma in p.layers:
        weights, ends = {}, []
        for a, depth in enumerate(depths):
            frames = [v, *(random_frame(rng, p.width, n) for _ in range(depth - 1)), u]
            nodes = ["x", *(f"p{a}h{k}" for k in range(1, depth)), "y"]
            for k in range(depth):
                strength = p0[a] if k == depth - 1 else np.hypot(1, p0[a])
                weights[f"{nodes[k]}->{nodes[k + 1]}"] = sigma * (frames[k + 1] * strength) @ frames[k].T
            ends.append((f"{nodes[-2]}->y", frames[-2]))
        run = nr.flow(task, weights, save=t, method=nr.Adaptive(1e-12, 1e-14))
        kept = nr.conserved(task, run.weights).values()
        last = np.stack([np.diagonal(u.T @ run.weights[e] @ r, axis1=1, axis2=2) for e, r in ends]) / sigma
        first = [np.linalg.norm(run.weights[f"x->p{a}h1"] @ v, axis=1) / sigma for a in range(len(depths))]
        level = [nr.exact.pathway_invariant(x, d, sigma) for x, d in zip(last, depths, strict=True)]
        k = np.stack(
            [nr.exact.pathways(t, s, depths, x, sigma) for s, x in zip(p.modes, p0.T, strict=True)], -1
        )
        found.append({
            "balance": max(np.abs(c - c[0]).max() for c in kept),
            "curve": np.abs(np.square(first) - last**2 - 1).max(),
            "invariant": np.ptp(np.array(level) - level[0], axis=1).max(),
            "strength": np.abs(k - nr.exact.pathway_field(last, 1.0, depths, sigma)[0]).max(),
        })  # fmt: skip
    return {name: max(f[name] for f in found) for name in found[0]}


def far(depth: int, p: PhasePortraits) -> dict[str, Any]:
    """Share of the second pathway at the end: the flow, Eq. 26 and Eq. 30."""
    s, (a, b) = np.array(p.strengths), p.start
    c = (2 - depth) * (nr.exact.pathway_invariant(a, depth) - nr.exact.pathway_invariant(b, depth))
    return {
        "flow": [nr.exact.pathways(1e3, v, [depth] * 2, p.start)[1] / v for v in p.strengths],
        "finite": nr.exact.pathway_split(s, c, depth) / s,
        "infinite": nr.exact.pathway_split(s, c) / s,
    }


def tails(depth: int) -> dict[str, Any]:
    """Relative error over p of Eq. 25 (of its power) and of the form for great depth."""
    p = np.geomspace(0.1, 50, 400)
    # What is left of the invariant above p, as a multiple of p^(2-D)/(D-2).
    left = hyp2f1((depth - 1) / 2, (depth - 2) / 2, depth / 2, -1 / p**2)
    deep = nr.exact.pathway_deep(p, depth) / nr.exact.pathway_invariant(p, depth)
    return {"p": p, "far": 1 / left - 1, "deep": np.abs(deep - 1)}


def strength_at(p: Any, depth: int) -> Any:
    """Strength of a mode that two equal pathways share with last layers p."""
    return 2 * nr.exact.pathway_field(np.atleast_1d(p)[None], 1.0, [depth])[0][0]


def last_layer(s: float, depth: int) -> float:
    """Last layers of two equal pathways that share a mode of strength s."""
    return np.asarray(brentq(lambda p: strength_at(p, depth)[0] - s, 0, s)).item()


def dominance(r: Results) -> np.ndarray:
    """Difference of the contributions at the end, as a share of their sum, `(depths, sigmas, seeds)`."""
    k = r["portraits"]["k"][..., -1]
    return np.abs(k[:, 0] - k[:, 1]) / k.sum(axis=1)


def valid(p: PhasePortraits, form: str, r: Results) -> str:
    """The strengths among those tried at which a form is right to 10% and to 1%, in words."""
    texts = []
    for depth, row in zip(p.far, np.abs(r["far"][form] / r["far"]["flow"] - 1), strict=True):
        spans = [np.array(p.strengths)[row < share] for share in (0.1, 0.01)]
        said = [f"{v.min():.2g} to {v.max():.2g}" if len(v) else "none" for v in spans]
        texts.append(f"depth {depth}: {said[0]} ({said[1]})")
    return f"Strengths at which it is within 10% (1%), of those from {p.strengths[0]:.2g} to " + (
        f"{p.strengths[-1]:.2g}: {'; '.join(texts)}."
    )


def figures(p: PhasePortraits, r: Results) -> dict[str, tuple[Figure, str]]:
    return {"phase-portraits": portraits(p, r), "pathway-asymptotics": asymptotics(p, r)}


def portraits(p: PhasePortraits, r: Results) -> tuple[Figure, str]:
    rows = len(p.sigmas)
    share: dict[str, Any] = {"sharex": True, "sharey": True, "squeeze": False}
    width = min(plot.PAGE, 1.6 * len(p.depths) + 0.6)
    fig, axes = plot.figure(rows, len(p.depths), width, 1.75 * rows + 0.6, **share)
    low, high = -0.25 * p.strength, 1.25 * p.strength
    for j, depth in enumerate(p.depths):
        table = np.linspace(-1, 1, 4001) * last_layer(2 * high, depth)
        k, _ = nr.exact.pathway_field(table[None], p.strength, [depth])
        inverse = lambda side: np.interp(side, k[0], table)  # noqa: E731
        coarse, fine = (np.linspace(low, high, m) for m in (13, 121))
        grid = np.meshgrid(inverse(coarse), inverse(coarse))
        (x, y), (u, v) = nr.exact.pathway_field(grid, p.strength, [depth] * 2)
        size = np.hypot(u, v) + 1e-12
        level = nr.exact.pathway_invariant(inverse(fine), depth)
        spaced = level[60::10] - level[60]
        for i, sigma in enumerate(p.sigmas):
            ax = axes[i, j]
            ax.quiver(x, y, u / size, v / size, color="0.75", angles="xy", pivot="mid", scale=22, width=0.006)
            line: dict[str, Any] = {"colors": "0.55", "linewidths": 0.4, "linestyles": ":"}
            ax.contour(fine, fine, level[None] - level[:, None], sorted({*spaced, *-spaced}), **line)
            ax.plot([low, high], [p.strength - low, p.strength - high], color=plot.BLACK, lw=1, zorder=3)
            for path in np.moveaxis(r["portraits"]["k"][j, :, i], 0, 1):
                winner = WINNERS[1 if path[0, -1] > path[1, -1] else 2]
                ax.plot(*path, color=winner, lw=0.5, alpha=0.6, zorder=4)
                ax.plot(*path[:, -1], "o", color=winner, ms=1.5, zorder=5)
            ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")
            if i == 0:
                ax.set_title(f"depth {depth}")
            if i == rows - 1:
                ax.set_xlabel("pathway 1")
            if j == 0:
                ax.set_ylabel(rf"pathway 2, $\sigma$ = {sigma:g}")
    winners = [axes[0, 0].plot([], color=c, label=f"pathway {a} wins")[0] for a, c in WINNERS.items()]
    fig.legend(handles=winners, loc="outside lower center", ncols=2)
    caption = (
        f"Contributions of two pathways to a mode of strength {p.strength:g}, from {p.seeds} starts (the "
        "same in a row) with last layers of standard deviation sigma; coloured by the pathway that ends "
        "stronger. Arrows: the field of that depth; dotted: level lines of the invariant, Eq. 22; black: "
        "where the mode is learned."
    )
    return fig, caption


def asymptotics(p: PhasePortraits, r: Results) -> tuple[Figure, str]:
    fig, (a, b, c) = plot.figure(1, 3, height=2.6)
    for k, (depth, colour) in enumerate(zip(p.far, COLOURS, strict=False)):
        tail, ends = r["tails"], r["far"]
        plot.theory(a, tail["p"][k], tail["far"][k], colour, f"{depth}")
        plot.theory(a, tail["p"][k], tail["deep"][k], colour, ls=":", lw=1)
        plot.points(b, p.strengths, ends["flow"][k], colour, f"{depth}", ms=2.5)
        plot.theory(b, p.strengths, ends["finite"][k], colour)
        plot.theory(b, p.strengths, ends["infinite"][k], colour, ls=":", lw=1)
    for level in (0.01, 0.1):
        a.axhline(level, color=plot.BLACK, lw=0.6, ls="--")
    a.set(
        xscale="log",
        yscale="log",
        ylim=(1e-4, 10),
        xlabel="last layer p",
        ylabel="relative error of the invariant",
    )
    a.set_title("solid Eq. 25, dotted error function")
    b.set(xscale="log", yscale="log", xlabel="strength s of the mode", ylabel="share of the weaker pathway")
    b.set(title="solid Eq. 26, dotted Eq. 30", ylim=(1e-6, 1))
    b.legend(title="depth", loc="lower left")
    depths = np.arange(2, 21)
    for ratio, colour in ((0.9, plot.BLUE), (0.99, plot.RED)):
        need = [strength_at(ratio / np.sqrt(1 - ratio**2), int(d))[0] for d in depths]
        plot.theory(c, depths, need, colour, f"p/q > {ratio:g}")
    c.axhline(p.strength, color=plot.BLACK, lw=0.6, ls="--", label=f"Fig. 3: {p.strength:g}")
    c.set(yscale="log", xlabel="depth", ylabel="strength needed", title="range of p ≈ q (Eq. 23)")
    c.legend(loc="upper left")
    caption = (
        "Left: the power of p by which Eq. 25 replaces the invariant far above p = 1, and the error "
        "function that replaces it at great depth; dashed: 1% and 10%. Middle: share of the weaker of two "
        f"pathways at the end, from p = {p.start[0]:g} and {p.start[1]:g}; dots: the flow. Right: strength "
        "of a mode from which two equal pathways end with p near q, on which Eq. 24-31 rest."
    )
    return fig, caption


def claims(p: PhasePortraits, r: Results) -> list[Claim]:
    ends, moved, mix = dominance(r), r["portraits"], r["mixed"]
    rising = np.diff(ends.mean(axis=2), axis=0)
    at = int(np.argmin(np.abs(np.log(np.array(p.strengths) / p.strength))))
    off = {form: np.abs(r["far"][form] / r["far"]["flow"] - 1) for form in ("finite", "infinite")}
    reach = [
        crossing(np.log(x), y, 0.01) - 0.5 * np.log(50 * (d - 1) * (d - 2) / d)
        for d, x, y in zip(p.far, r["tails"]["p"], r["tails"]["far"], strict=True)
    ]
    deepest = max(p.depths)
    end = last_layer(p.strength, deepest)
    what = f"depth {deepest}, s = {p.strength:g}"
    small = "p is not far above 1 at the end: the strength of a mode would have to be far above p^depth."
    worst = {form: v[:, at].max() for form, v in off.items()}
    why = {form: f"{small} " if v > 0.1 else "" for form, v in worst.items()}
    needed = [strength_at(0.9 / np.sqrt(1 - 0.81), d)[0] for d in p.depths]
    weaker = "relative error of the weaker pathway's share"
    mixed = f"{'2 to ' * (p.cases > 1)}{len(MIXED[p.cases - 1])} pathways of mixed depths"
    return [
        paper.below("curve", "drift of q^2 - p^2, all panels", PAPER + "Eq. 19", 1e-8, moved["curve"]),
        paper.below("invariant", "drift of the invariant, all panels", PAPER + "Eq. 22", 1e-8,
                    moved["invariant"]),
        check.below(
            "balance-mixed", f"drift of W^T W - W W^T, {mixed}", "conservation", 1e-8, mix["balance"]
        ),
        paper.below("curve-mixed", f"drift of q^2 - p^2, {mixed}", PAPER + "Eq. 19", 1e-8, mix["curve"]),
        paper.below("invariant-mixed", f"drift of the invariant, {mixed}", PAPER + "Eq. 22", 1e-8,
                    mix["invariant"]),
        check.below("strengths-mixed", f"K of (q, p) - K of wide networks, {mixed}", PAPER + "Eq. 17-20",
                    1e-8, mix["strength"]),
        paper.relation("deeper-more-extreme",
                       "deeper is more extreme: least rise of |K1 - K2|/s from depth to depth", FIG, "> 0",
                       rising.min(), bool((rising > 0).all())),
        paper.relation("larger-more-extreme",
                       "larger starts are more extreme: |K1 - K2|/s, first sigma - last", FIG, "> 0",
                       (ends[:, 0] - ends[:, -1]).mean(axis=1).min(),
                       bool(((ends[:, 0] - ends[:, -1]).mean(axis=1) > 0).all())),
        paper.near("winner-share", f"share of the winner, {what}, sigma = {p.sigmas[0]:g}", PAPER + "Eq. 31",
                   1, 0.5 + 0.5 * ends[-1, 0].mean(), 0.1,
                   "Eq. 31 is the limit of |C'| s far above 1; such starts do not reach it at this depth."),
        paper.near("p-near-q", f"p/q at the end, {what}", PAPER + "Eq. 23", 1, end / np.hypot(1, end), 0.1,
                   small),
        finding.near("strength-needed", "strength from which p/q > .9 at the end: growth with every layer",
                     PAPER + "Eq. 23", 1 / np.sqrt(1 - 0.81),
                     (needed[-1] / needed[0]) ** (1 / (deepest - min(p.depths))), 1e-6,
                     "; ".join(f"depth {d}: {v:.3g}" for d, v in zip(p.depths, needed, strict=True))),
        finding.near("eq-25-reach", "p from which Eq. 25 is within 1%: log of p / sqrt(50 (D-1)(D-2)/D)",
                     PAPER + "Eq. 25", 0, reach, 0.05),
        paper.below("eq-26", f"Eq. 26, {weaker}, s = {p.strengths[at]:.3g}, most", PAPER + "Eq. 26", 0.1,
                    worst["finite"], why["finite"] + valid(p, "finite", r)),
        paper.below("eq-30", f"Eq. 30, {weaker}, s = {p.strengths[at]:.3g}, most", PAPER + "Eq. 30", 0.1,
                    worst["infinite"], why["infinite"]),
        paper.below("eq-30-all-strengths", f"Eq. 30, {weaker}, all strengths, most", PAPER + "Eq. 30", 0.1,
                    off["infinite"].max(), f"The power is 1 - 2/depth, not 1. {valid(p, 'infinite', r)}"),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "phase-portraits",
    "Phase portraits: pathways that compete for a mode",
    "multipathway Fig. 3, Eq. 17-31",
    PhasePortraits(),
    PhasePortraits(seeds=40, depths=(2, 7), far=(7,), cases=1, layers=(0.7,)),
    compute,
    figures,
    claims,
    (0.5, 1.0),
    needs_full=("eq-26", "eq-30"),  # the largest error over four depths; here there is one
)
