"""Parallel pathways compete for a mode. Trajectories of two pathways follow the level lines of an invariant
(Eq. 22), which bend away from the diagonal the more, the deeper the pathways: small differences at the start
end as one pathway that does nearly all. The arrows of every panel are those of its own depth. The asymptotic
forms of the paper (Eq. 23-31) need last layers p far above 1. For a mode of strength s this means s far above
`p^depth`, so depth takes them further out of reach: at a given strength, deep pathways finish with p below 1,
where the invariant is an error function."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from scipy.optimize import brentq
from scipy.special import hyp2f1

import neuralrace as nr
from neuralrace import plot
from neuralrace.init import random_frame
from neuralrace_papers.framework.claim import check, finding, paper
from neuralrace_papers.framework.declaration import Data, claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option, require
from neuralrace_papers.framework.store import along

COLOURS = (plot.BLUE, plot.ORANGE, plot.GREEN, plot.PINK, plot.SKY, plot.RED)
WINNERS = {1: plot.BLUE, 2: plot.ORANGE}
MIXED = ((2, 5), (2, 3, 6), (2, 2, 4, 7), (2, 3, 4, 5, 6))


class PhasePortraits(Parameters):
    seeds: int = option(100, "starts of each panel")
    strength: float = option(10.0, "strength of the mode")
    depths: tuple[int, ...] = option(
        (2, 3, 8, 13), "depths of both pathways, as in the published code", least=2, count=2, increasing=True
    )
    sigmas: tuple[float, ...] = option((0.1, 0.01), "standard deviations of the initial last layers", count=2)
    t1: float = option(5.0, "end of learning, flow time")
    start: tuple[float, ...] = option((0.1, 0.05), "initial last layers, for the asymptotic forms")
    far: tuple[int, ...] = option(
        (3, 4, 7, 15), "depths at which the asymptotic forms are compared", least=3, increasing=True
    )
    strengths: tuple[float, ...] = option(
        tuple((10.0 ** np.arange(0.5, 8.1, 0.5)).tolist()), "strengths there", increasing=True
    )
    cases: int = option(4, "how many networks with pathways of mixed depths are checked", most=len(MIXED))
    layers: tuple[float, ...] = option((0.7, 1.3), "sizes of the initial orthogonal layers, mixed depths")
    modes: tuple[float, ...] = option((4.0, 2.0), "singular values of the targets, mixed depths")
    width: int = option(5, "units of each hidden layer, mixed depths")

    def check(self) -> None:
        two = len(self.start) == 2 and self.start[0] > self.start[1]
        require(two, f"start must be two numbers, the larger one first, got {self.start}")
        wide, n = self.width >= len(self.modes), len(self.modes)
        require(wide, f"width must be at least {n}, a neuron for each of modes; got {self.width}")
        fall = list(self.sigmas) == sorted(set(self.sigmas), reverse=True)
        require(fall, f"sigmas must decrease, got {self.sigmas}")


@part(each="depths")
def portrait(p: PhasePortraits, depth: int):
    """Two pathways of one neuron per layer from the same random starts at every depth, by integration."""
    draw = np.random.default_rng(0).standard_normal((p.seeds, 2))
    start = np.concatenate([sigma * draw for sigma in p.sigmas])
    task = nr.Task(nr.Graph.pathways(1, 1, [[1] * (depth - 1)] * 2), [[1.0]], [[p.strength]])
    paths, weights = task.graph.paths(), {}
    for path, own in zip(paths, start.T[..., None, None], strict=True):
        weights |= {**dict.fromkeys(path, np.hypot(1, own)), path[-1]: own}
    save = np.append(0, np.geomspace(1e-4, p.t1, 120))
    run = nr.flow(task, weights, save=save, method=nr.Adaptive(1e-11, 1e-13))
    first, last = (np.stack([run.weights[path[k]][..., 0, 0] for path in paths]) for k in (0, -1))
    level = np.subtract(*nr.exact.pathway_invariant(last, depth))
    k = nr.exact.pathway_field(last, p.strength, [depth] * 2)[0]
    starts = len(p.sigmas), p.seeds
    return {
        "k": ("pathway sigma run t", k.reshape(2, *starts, -1)),
        "constant": ("sigma run", level[:, 0].reshape(starts)),
        "ratio": ("pathway sigma run", (last / first)[..., -1].reshape(2, *starts)),
        "curve": np.abs(first**2 - last**2 - 1).max(),
        "invariant": np.ptp(level, axis=-1).max(),
    }


@part(each=lambda p: range(p.cases))
def mixed(p: PhasePortraits, case: int):
    """Wide pathways of mixed depths from sigma times orthogonal layers: conserved quantities, and Eq. 17."""
    depths, modes, rng = MIXED[case], sorted(p.modes, reverse=True), np.random.default_rng(case)
    n = len(modes)
    u, v = (random_frame(rng, n, n) for _ in range(2))
    graph = nr.Graph.pathways(n, n, [[p.width] * (d - 1) for d in depths])
    task = nr.Task(graph, np.sqrt(n) * np.eye(n), np.sqrt(n) * (v * modes) @ u.T)
    p0, t, errors = 0.2 * rng.standard_normal((len(depths), n)), np.append(0, np.geomspace(1e-3, 20, 40)), []
    reduced, paths = nr.reduce(task), graph.paths()
    for sigma in p.layers:
        start = {e: sigma * np.hypot(1, own) for path, own in zip(paths, p0, strict=True) for e in path[:-1]}
        start |= {path[-1]: sigma * own for path, own in zip(paths, p0, strict=True)}
        run = nr.flow(task, reduced.lift(start), save=t, method=nr.Adaptive(1e-12, 1e-14))
        strengths = reduced.project(run.weights)
        first, last = (np.stack([strengths[path[k]] for path in paths]) / sigma for k in (0, -1))
        level = [nr.exact.pathway_invariant(x, d, sigma) for x, d in zip(last, depths, strict=True)]
        theory = [nr.exact.pathways(t, s, depths, x, sigma) for s, x in zip(modes, p0.T, strict=True)]
        k = nr.exact.pathway_field(last, 1.0, depths, sigma)[0]
        errors.append([
            max(np.abs(c - c[0]).max() for c in nr.conserved(task, run.weights).values()),
            np.abs(first**2 - last**2 - 1).max(),
            np.ptp(np.array(level) - level[0], axis=1).max(),
            np.abs(np.stack(theory, -1) - k).max(),
        ])  # fmt: skip
    return dict(zip(("balance", "curve", "invariant", "strength"), np.max(errors, axis=0), strict=True))


@part(each="far")
def asymptotic(p: PhasePortraits, depth: int):
    """Share of the second pathway at the end: the flow, Eq. 26 and Eq. 30; and relative errors of Eq. 25 (of
    its power) and of the form for great depth, over last layers."""
    s, (a, b) = np.array(p.strengths), p.start
    c = (2 - depth) * (nr.exact.pathway_invariant(a, depth) - nr.exact.pathway_invariant(b, depth))
    last = np.geomspace(0.1, 50, 400)
    # The invariant between p and infinity, as a multiple of p^(2-D)/(D-2).
    above = hyp2f1((depth - 1) / 2, (depth - 2) / 2, depth / 2, -1 / last**2)
    deep = nr.exact.pathway_deep(last, depth) / nr.exact.pathway_invariant(last, depth)
    return {
        "strength": ("strength", s),
        "flow": ("strength", [nr.exact.pathways(1e3, v, [depth] * 2, p.start)[1] / v for v in p.strengths]),
        "finite": ("strength", nr.exact.pathway_split(s, c, depth) / s),
        "infinite": ("strength", nr.exact.pathway_split(s, c) / s),
        "last": ("last", last),
        "power_error": ("last", 1 / above - 1),
        "deep_error": ("last", np.abs(deep - 1)),
    }


def strength_at(p: float, depth: int) -> float:
    """Strength of a mode that two equal pathways share with last layers p: twice `p q^(D-1)` (Eq. 19-20)."""
    return 2 * p * (1 + p**2) ** ((depth - 1) / 2)


def last_layer(s: float, depth: int) -> float:
    """Last layers of two equal pathways that share a mode of strength s."""
    return np.asarray(brentq(lambda p: strength_at(p, depth) - s, 0, s)).item()


def relative_error(data: Data, form: str) -> xr.DataArray:
    """Of the weaker pathway's share by an asymptotic form, (depth, strength)."""
    ends = along(data.asymptotic, "depth")
    return np.abs(ends[form] / ends.flow - 1)


@figure("phase-portraits")
def portraits(p: PhasePortraits, data):
    rows, columns = len(p.sigmas), len(p.depths)
    size = min(plot.PAGE, 1.6 * columns + 0.6), 1.75 * rows + 0.6
    fig, axes = plot.figure(rows, columns, *size, sharex=True, sharey=True, squeeze=False)
    for column, depth in zip(axes.T, p.depths, strict=True):
        for i, ax in enumerate(column):
            draw_field(ax, p, depth)
            for path in data.portrait[depth].k[:, i].transpose("run", "pathway", "t").values:
                winner = WINNERS[1 if path[0, -1] > path[1, -1] else 2]
                ax.plot(*path, color=winner, lw=0.5, alpha=0.6, zorder=4)
                ax.plot(*path[:, -1], "o", color=winner, ms=1.5, zorder=5)
        column[0].set_title(f"depth {depth}")
        column[-1].set_xlabel("K of pathway 1")
    for ax, sigma in zip(axes[:, 0], p.sigmas, strict=True):
        ax.set_ylabel(rf"K of pathway 2, $\sigma$ = {sigma:g}")
    for a, colour in WINNERS.items():
        plot.key(axes[0, 0], {f"pathway {a} wins": "-"}, colour)
    plot.key(axes[0, 0], {"mode is learned": "-"})
    plot.key(axes[0, 0], {"level line of Eq. 22": ":"}, "0.55")
    plot.key(axes[0, 0], {"flow (arrows)": "-"}, "0.75")
    plot.legend_below(fig, axes[0, 0], 2 if columns < 3 else 5)
    return fig, (
        f"Contributions of two pathways to a mode of strength {p.strength:g}, from {p.seeds} starts (the "
        "same in a row) with last layers of standard deviation sigma; coloured by the pathway that ends "
        "stronger, with a dot where it ends. Arrows and level lines of the invariant are those of the depth."
    )


def draw_field(ax: Axes, p: PhasePortraits, depth: int) -> None:
    """Arrows of the flow, level lines of the invariant, and where the mode is learned."""
    low, high = -0.25 * p.strength, 1.25 * p.strength
    table = np.linspace(-1, 1, 4001) * last_layer(2 * high, depth)
    k, _ = nr.exact.pathway_field(table[None], p.strength, [depth])
    coarse, fine = (np.linspace(low, high, m) for m in (13, 121))
    side = np.interp(coarse, k[0], table)  # last layers at these contributions
    (x, y), (u, v) = nr.exact.pathway_field(np.meshgrid(side, side), p.strength, [depth] * 2)
    size = np.hypot(u, v) + 1e-12
    ax.quiver(x, y, u / size, v / size, color="0.75", angles="xy", pivot="mid", scale=22, width=0.006)
    level = nr.exact.pathway_invariant(np.interp(fine, k[0], table), depth)
    spaced = level[60::10] - level[60]
    line: dict[str, Any] = {"colors": "0.55", "linewidths": 0.4, "linestyles": ":"}
    ax.contour(fine, fine, level[None] - level[:, None], sorted({*spaced, *-spaced}), **line)
    ax.plot([low, high], [p.strength - low, p.strength - high], color=plot.BLACK, lw=1, zorder=3)
    ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")


@figure("pathway-asymptotics")
def asymptotics(p: PhasePortraits, data):
    fig, (a, b, c) = plot.figure(1, 3, height=3.2)
    for (depth, form), colour in zip(data.asymptotic.items(), COLOURS, strict=False):
        plot.theory(a, form["last"], form.power_error, colour, f"depth {depth}")
        plot.theory(a, form["last"], form.deep_error, colour, ls=":", lw=1)
        plot.points(b, p.strengths, form.flow, colour, f"flow, depth {depth}", ms=2.5)
        plot.theory(b, p.strengths, form.finite, colour)
        plot.theory(b, p.strengths, form.infinite, colour, ls=":", lw=1)
    for level, style in ((0.01, "--"), (0.1, "-.")):
        a.axhline(level, color=plot.BLACK, lw=0.6, ls=style, label=f"{level:.0%}")
    plot.key(a, {"Eq. 25": "-", "error function": ":"})
    plot.key(b, {"Eq. 26": "-", "Eq. 30": ":"})
    below: dict[str, Any] = {"legend": {**plot.BELOW, "fontsize": 6, "ncols": 2}}
    x, title = r"last layer p, units of $\sigma$", "invariant of a pathway"
    plot.label(a, x, "relative error", title, xscale="log", yscale="log", ylim=(1e-4, 10), **below)
    y, title = "share of the weaker pathway", "competition of two pathways"
    plot.label(b, "strength s of the mode", y, title, xscale="log", yscale="log", ylim=(1e-6, 1), **below)
    depths = np.arange(2, 21)
    for ratio, colour in ((0.9, plot.BLUE), (0.99, plot.RED)):
        need = [strength_at(ratio / np.sqrt(1 - ratio**2), int(d)) for d in depths]
        plot.theory(c, depths, need, colour, f"p/q > {ratio:g}")
    c.axhline(p.strength, color=plot.BLACK, lw=0.6, ls="--", label=f"s = {p.strength:g} of Fig. 3")
    plot.label(c, "depth", "strength s needed", "range of p ≈ q (Eq. 23)", yscale="log", **below)
    return fig, (
        "Left: the power of p by which Eq. 25 replaces the invariant far above p = 1, and the error "
        "function that replaces it at great depth. Middle: share of the weaker of two pathways at the end, "
        f"from p = {p.start[0]:g} and {p.start[1]:g}. Right: strength of a mode from which two equal "
        "pathways end with p near q, on which Eq. 24-31 rest."
    )


@claims
def invariants(p: PhasePortraits, data):
    alike, cases = along(data.portrait, "depth"), along(data.mixed, "case")
    mixed = f"{'2 to ' * (p.cases > 1)}{len(MIXED[p.cases - 1])} pathways of mixed depths"
    curve = paper("multipathway Eq. 19", "these values are related by p^2 = q^2 - 1")
    level = paper(
        "multipathway Eq. 22",
        "which gives p_a 2F1(1/2, (D_a-1)/2, 3/2, -p_a^2) - p_b 2F1(1/2, (D_b-1)/2, 3/2, -p_b^2) = [...] = C",
    )
    exact = "an equation; 1e-8 for the error of integration"
    for key, runs, where in (("", alike, "all panels"), ("-mixed", cases, mixed)):
        yield curve.below(f"curve{key}", f"drift of q^2 - p^2, {where}", 1e-8, runs.curve, bound=exact)
        name = f"drift of the invariant, {where}"
        yield level.below(f"invariant{key}", name, 1e-8, runs.invariant, bound=exact)
    name = f"drift of W^T W - W W^T, {mixed}"
    yield check("conservation").below("balance-mixed", name, 1e-8, cases.balance)
    name = f"K of (q, p) - K of wide networks, {mixed}"
    yield check("multipathway Eq. 17-20").below("strengths-mixed", name, 1e-8, cases.strength)


@claims
def competition(p: PhasePortraits, data):
    end = along(data.portrait, "depth").k[..., -1]
    apart = np.abs(end[:, 0] - end[:, 1]) / end.sum("pathway")  # (depth, sigma, run)
    extreme = paper(
        "multipathway Fig. 3",
        "for deeper networks and larger initial fluctuations the trajectories tend towards more extreme "
        "values where one or the other pathway dominates",
    )
    rise = apart.mean("run").diff("depth")
    more = "the paper: more; mean over the same starts"
    name = "deeper is more extreme: least rise of |K1 - K2|/s from depth to depth"
    yield extreme.relation("deeper-more-extreme", name, "> 0", rise.min(), (rise > 0).all(), bound=more)
    larger = (apart[:, 0] - apart[:, -1]).mean("run")
    name = "larger starts are more extreme: |K1 - K2|/s, first sigma - last"
    yield extreme.relation("larger-more-extreme", name, "> 0", larger.min(), (larger > 0).all(), bound=more)
    dominates = paper(
        "multipathway Eq. 31",
        "thus one pathway or the other dominates the singular value alpha for each alpha, depending upon the "
        "sign of C_ab.",
    )
    name = f"share of the winner, depth {max(p.depths)}, s = {p.strength:g}, sigma = {p.sigmas[0]:g}"
    note = "Eq. 31 is the limit of |C'| s far above 1; such starts do not reach it at this depth."
    winner = 0.5 + 0.5 * apart[-1, 0].mean()
    most = "a standard of ours: nine tenths count as all"
    yield dominates.near("winner-share", name, 1, winner, 0.1, note, most)
    decided = np.sign(along(data.portrait, "depth").constant) == np.sign(end[:, 0] - end[:, 1])
    name = "starts in which the sign of the constant of Eq. 22 decides the winner, all panels"
    yield dominates.near("sign-decides", name, 1, decided.mean(), 0, bound="the paper: always")


SMALL = "p is not far above 1 at the end: the strength of a mode would have to be far above p^depth."
TENTH = "a standard of ours: an approximation is right to a tenth"


@claims
def large_last_layers(p: PhasePortraits, data):
    ratio = along(data.portrait, "depth").ratio[..., -1, :].max("pathway")  # of the winner, (depth, run)
    quote = "consider the case where S is sufficiently greater than 1 so that we can approximate p ≈ q"
    name = f"p/q of the winner at the end, depth {p.depths[-1]}, s = {p.strength:g}, least sigma"
    near = paper("multipathway Eq. 23", quote)
    mean = ratio.mean("run")
    yield near.near("p-near-q", name, 1, ratio[-1], 0.1, SMALL, TENTH)
    fall = -mean.diff("depth")
    ours = finding(near.source)
    name = "p/q of the winner at the end: least fall from depth to depth"
    note = "; ".join(f"depth {d}: {float(v):.3g}" for d, v in zip(p.depths, mean, strict=True))
    yield ours.relation("p-over-q-falls", name, "> 0", fall.min(), (fall > 0).all(), note)
    name = "p from which Eq. 25 is within 1%: log of p / sqrt(50 (D-1)(D-2)/D)"
    reach = [
        nr.measure.crossing(np.log(form["last"]), form.power_error, 0.01)
        - 0.5 * np.log(50 * (d - 1) * (d - 2) / d)
        for d, form in data.asymptotic.items()
    ]
    series = finding("multipathway Eq. 25", "theory: the next term of the series")
    yield series.near("eq-25-reach", name, 0, reach, 0.05)


@claims
def asymptotic_forms(p: PhasePortraits, data):
    at = int(np.argmin(np.abs(np.log(np.array(p.strengths) / p.strength))))
    name = "relative error of the weaker pathway's share"
    quotes = {
        "finite": "which further implies 1/(2-D_a) K_a^(2/D_a-1) - 1/(2-D_b) K_b^(2/D_b-1) = C_ab",
        "infinite": "K_b = (C' S' - 2 +- sqrt((C' S' - 2)^2 + 4 S' C')) / (2 C')",
    }
    for number, (form, quote) in zip((26, 30), quotes.items(), strict=True):
        off = relative_error(data, form)
        stated, most = paper(f"multipathway Eq. {number}", quote), float(off[:, at].max())
        notes = [SMALL] * (most > 0.1) + [valid_strengths(p, off)] * (form == "finite")
        title = f"Eq. {number}, {name}, s = {p.strengths[at]:.3g}, most"
        yield stated.below(f"eq-{number}", title, 0.1, most, " ".join(notes), TENTH)
        if form == "infinite":
            note = f"The power is 1 - 2/depth, not 1. {valid_strengths(p, off)}"
            title = f"Eq. 30, {name}, all strengths, most"
            yield stated.below("eq-30-all-strengths", title, 0.1, off.max(), note, TENTH)


def valid_strengths(p: PhasePortraits, off: xr.DataArray) -> str:
    """The strengths among those tried at which a form is right to 10% and to 1%, in words."""
    texts = []
    for depth, row in zip(p.far, off.values, strict=True):
        spans = [np.array(p.strengths)[row < share] for share in (0.1, 0.01)]
        ranges = [f"{v.min():.2g} to {v.max():.2g}" if len(v) else "none" for v in spans]
        texts.append(f"depth {depth}: {ranges[0]} ({ranges[1]})")
    tried = f"of those from {p.strengths[0]:.2g} to {p.strengths[-1]:.2g}: {'; '.join(texts)}."
    return f"Strengths at which it is within 10% (1%), {tried}"


EXPERIMENT = Experiment(
    "phase-portraits",
    "Phase portraits: pathways that compete for a mode",
    "multipathway Fig. 3, Eq. 17-31",
    PhasePortraits(),
    PhasePortraits(seeds=40, depths=(2, 8), far=(7,), cases=1, layers=(0.7,)),
    minutes=(0.2, 1.0),
    needs_full=("eq-26", "eq-30"),  # the largest error over four depths; here there is one
)
