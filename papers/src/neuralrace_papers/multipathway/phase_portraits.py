"""Two parallel pathways compete for a mode. Their trajectories follow the level lines of a conserved quantity
(Eq. 22), which bend away from the diagonal the more, the deeper the pathways are, so that a small difference
at the start ends with one pathway that does nearly all. The asymptotic forms of the paper (Eq. 24 to 30) hold
where both pathways end with much of the mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from matplotlib.axes import Axes
from scipy.optimize import brentq
from scipy.special import hyp2f1

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework import Data, Experiment, along, figure, part, require, rows

WINNERS = {1: plot.BLUE, 2: plot.ORANGE}
COLOURS = (plot.BLUE, plot.ORANGE, plot.GREEN, plot.PINK, plot.SKY)
SEED = 49827345  # of the authors' script for Fig. 3
MIXED = ((2, 5), (2, 3, 6), (2, 2, 4, 7), (2, 3, 4, 5, 6))
LEAD = 0.1  # last layer of the leading pathway at the start, for the asymptotic forms
VERY_DEEP = 50  # from here on the power of Eq. 25 is no longer drawn


@dataclass(frozen=True)
class PhasePortraits:
    seeds: Annotated[int, "starts of each panel"] = 100
    strength: Annotated[float, "strength of the mode"] = 10.0
    depths: Annotated[tuple[int, ...], "depths of both pathways, as in the published code"] = (2, 3, 8, 13)
    sigmas: Annotated[tuple[float, ...], "standard deviations of the initial last layers"] = (0.1, 0.01)
    t1: Annotated[float, "end of learning, flow time"] = 5.0
    far: Annotated[tuple[int, ...], "depths at which the asymptotic forms are compared"] = (
        4, 7, 15, 100, 1000,
    )  # fmt: skip
    strengths: Annotated[tuple[float, ...], "strengths there"] = (1e2, 3e2, 1e3, 3e3, 1e4)
    cases: Annotated[int, "networks with pathways of unequal depths"] = len(MIXED)
    layers: Annotated[tuple[float, ...], "sizes of their initial layers"] = (0.7, 1.3)

    def __post_init__(self) -> None:
        require(min(self.depths) >= 2, f"depths must be at least 2, got {self.depths}")
        require(min(self.far) >= 3, f"far must be at least 3, got {self.far}")
        fall = len(self.sigmas) > 1 and list(self.sigmas) == sorted(set(self.sigmas), reverse=True)
        require(fall, f"sigmas must decrease, got {self.sigmas}")
        most = len(MIXED)
        require(1 <= self.cases <= most, f"cases must be from 1 to {most}, got {self.cases}")


def compete(strength: float, depths: Any, start: np.ndarray, save: np.ndarray, sigma: float = 1.0) -> Any:
    """First and last layers, over sigma, of pathways with one neuron per layer, each (pathway, run, t)."""
    task = nr.Task(nr.Graph.pathways(1, 1, [[1] * (d - 1) for d in depths]), [[1.0]], [[strength]])
    paths, weights = task.graph.paths(), {}
    for path, own in zip(paths, sigma * start[..., None, None], strict=True):
        weights |= {**dict.fromkeys(path, np.hypot(sigma, own)), path[-1]: own}
    run = nr.flow(task, weights, save=save, method=nr.Adaptive(1e-11, 1e-13))
    return (np.stack([run.weights[path[k]][..., 0, 0] for path in paths]) / sigma for k in (0, -1))


@part(each="depths")
def portrait(p: PhasePortraits, depth: int):
    """Two pathways from the starts of the authors' script, the same at every depth."""
    rng = np.random.default_rng(SEED)
    start = np.concatenate([rng.normal(0, sigma, (p.seeds, 2)) for sigma in p.sigmas]).T
    save = np.append(0, np.geomspace(1e-4, p.t1, 120))
    first, last = compete(p.strength, [depth] * 2, start, save)
    constant = np.subtract(*nr.exact.pathway_invariant(last, depth))
    k = nr.exact.pathway_field(last, p.strength, [depth] * 2)[0]
    starts = len(p.sigmas), p.seeds
    return {
        "k": ("pathway sigma run t", k.reshape(2, *starts, -1)),
        "constant": ("sigma run", constant[:, 0].reshape(starts)),
        "ratio": ("pathway sigma run", (last / first)[..., -1].reshape(2, *starts)),
        "curve": np.abs(first**2 - last**2 - 1).max(),
        "invariant": np.ptp(constant, axis=-1).max(),
    }


@part(each=lambda p: range(p.cases))
def mixed(p: PhasePortraits, case: int):
    """Pathways of unequal depths: change of the constants of Eq. 22, with powers of sigma and without."""
    depths, drift = MIXED[case], []
    start = 0.2 * np.random.default_rng(case).standard_normal((len(depths), 4))
    for sigma in p.layers:
        _, last = compete(4.0, depths, start, np.append(0, np.geomspace(1e-3, 20, 40)), sigma)
        for size in (sigma, 1.0):
            level = [nr.exact.pathway_invariant(x, d, size) for x, d in zip(last, depths, strict=True)]
            drift.append(np.ptp(np.array(level) - level[0], axis=-1).max())
    return {"right": max(drift[::2]), "printed": max(drift[1::2])}


@part(each="far")
def asymptotic(p: PhasePortraits, depth: int):
    """Share of the weaker pathway at the end: the flow, Eq. 26 and Eq. 30. Starts are such that Eq. 26 gives
    it the same share at any strength: C' S^(1 - 2/D) = -2. And the error of the power of Eq. 25 over p."""
    share, lead = [], nr.exact.pathway_invariant(LEAD, depth)
    for s in p.strengths:
        c = -2 * s ** (2 / depth - 1)
        behind = lead - c / (2 - depth)
        second = brentq(lambda v, at=behind: nr.exact.pathway_invariant(v, depth) - at, -3, LEAD, xtol=1e-15)
        flow = nr.exact.pathways(1e3, s, [depth] * 2, (LEAD, second))[1]
        share.append([flow / s, nr.exact.pathway_split(s, c, depth) / s, nr.exact.pathway_split(s, c) / s])
    last = np.geomspace(0.1, 50, 400)
    # The invariant between p and infinity, as a multiple of p^(2-D)/(D-2).
    above = hyp2f1((depth - 1) / 2, (depth - 2) / 2, depth / 2, -1 / last**2) if depth < VERY_DEEP else np.nan
    return {
        "share": ("strength form", share),
        "form": ("form", ["flow", "Eq. 26", "Eq. 30"]),
        "last": ("last", last),
        "power_error": ("last", np.broadcast_to(1 / above - 1, last.shape)),
    }


def strength_at(p: float, depth: int) -> float:
    """Strength of a mode that two equal pathways share with last layers p: twice `p q^(D-1)` (Eq. 19-20)."""
    return 2 * p * (1 + p**2) ** ((depth - 1) / 2)


@figure("phase-portraits")
def portraits(p: PhasePortraits, data: Data):
    n, columns = len(p.sigmas), len(p.depths)
    size = min(plot.PAGE, 1.6 * columns + 0.6), 1.75 * n + 0.6
    fig, axes = plot.figure(n, columns, *size, sharex=True, sharey=True, squeeze=False)
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
    plot.key(axes[0, 0], {"the mode is learned": "-"})
    plot.key(axes[0, 0], {"level line of Eq. 22": ":"}, "0.55")
    plot.key(axes[0, 0], {"direction of the flow": "-"}, "0.75")
    plot.legend_below(fig, axes[0, 0], 2 if columns < 3 else 5)
    return fig, (
        f"How two pathways come to share a mode of strength {p.strength:g}, from the {p.seeds} starts of the "
        "authors' script in each row (standard deviation sigma). A path has the colour of the pathway that "
        "ends ahead, and a dot where it ends. Deeper pathways and larger starts end further apart."
    )


def draw_field(ax: Axes, p: PhasePortraits, depth: int) -> None:
    """Arrows of the flow, level lines of the invariant, and where the mode is learned."""
    low, high = -0.25 * p.strength, 1.25 * p.strength
    end = float(np.asarray(brentq(lambda v: strength_at(v, depth) - 2 * high, 0, 2 * high)))
    table = np.linspace(-1, 1, 4001) * end
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
def asymptotics(p: PhasePortraits, data: Data):
    fig, (a, b) = plot.figure(1, 2, height=2.9)
    for (depth, forms), colour in zip(data.asymptotic.items(), COLOURS, strict=False):
        if depth < VERY_DEEP:
            plot.theory(a, forms["last"], forms.power_error, colour, f"depth {depth}")
        flow, finite, infinite = forms.share.transpose("form", "strength")
        plot.points(b, p.strengths, flow, colour, f"flow, depth {depth}", ms=2.5)
        plot.theory(b, p.strengths, finite, colour)
        plot.theory(b, p.strengths, infinite, colour, ls=":", lw=1)
    a.axhline(0.01, color=plot.BLACK, lw=0.6, ls="--", label="1%")
    plot.key(b, {"Eq. 26": "-", "Eq. 30": ":"})
    below: dict[str, Any] = {"legend": {**plot.BELOW, "fontsize": 6, "ncols": 2}}
    plot.label(
        a, "last layer p", "relative error", "power of p (Eq. 25)",
        xscale="log", yscale="log", ylim=(1e-4, 10), **below,
    )  # fmt: skip
    y = "share of the weaker pathway"
    plot.label(
        b, "strength S of the mode", y, "two pathways at the end", xscale="log", ylim=(0, None), **below
    )
    return fig, (
        "Left: error of the power of p by which Eq. 25 replaces the conserved quantity. Right: share of the "
        "weaker of two pathways at the end, from starts at which Eq. 26 gives it the same share at any "
        "strength. Eq. 26 is right for strong modes at any depth, Eq. 30 for great depth."
    )


@rows
def conserved(p: PhasePortraits, data: Data):
    alike, cases = along(data.portrait, "depth"), along(data.mixed, "case")
    yield "curve", alike.curve.max()
    yield "invariant", alike.invariant.max()
    yield "invariant-mixed", cases.right.max()
    yield "invariant-mixed-printed", cases.printed.max()


@rows
def competition(p: PhasePortraits, data: Data):
    panels = along(data.portrait, "depth")
    end = panels.k[..., -1]
    apart = np.abs(end[:, 0] - end[:, 1]) / end.sum("pathway")  # (depth, sigma, run)
    rise = apart.diff("depth").stack(step=("depth", "sigma"))
    yield "deeper-more-extreme", rise[:, rise.mean("run").values.argmin()]
    larger = apart[:, 0] - apart[:, -1].mean("run")
    yield "larger-more-extreme", larger[larger.mean("run").values.argmin()]
    extreme = (apart[:, 0] > 0.8).mean("run")  # nine tenths on one pathway
    yield "more-extreme-trajectories", extreme[-1] - extreme[0]
    yield "winner-share", 0.5 + 0.5 * apart[-1, 0]
    yield "sign-decides", (np.sign(panels.constant) == np.sign(end[:, 0] - end[:, 1])).mean()
    for depth, ratio in zip(p.depths, panels.ratio[..., -1, :].max("pathway"), strict=True):
        yield f"p-over-q-depth-{depth}", ratio


@rows
def asymptotic_forms(p: PhasePortraits, data: Data):
    forms = {d: one for d, one in data.asymptotic.items() if d < VERY_DEEP}
    yield "eq-25", max(float(np.abs(one.power_error[-1])) for one in forms.values())
    reach = {d: nr.measure.crossing(np.log(one["last"]), one.power_error, 0.01) for d, one in forms.items()}
    yield "eq-25-reach", [v - 0.5 * np.log(50 * (d - 1) * (d - 2) / d) for d, v in reach.items()]
    error = {d: np.abs(one.share / one.share.sel(form="flow") - 1) for d, one in data.asymptotic.items()}
    for key, at in (("eq-26", -1), ("eq-26-at-100", 0)):
        yield key, max(float(error[d].sel(form="Eq. 26")[at]) for d in forms)
    for depth, one in error.items():
        yield f"eq-30-depth-{depth}", one.sel(form="Eq. 30").max()


EXPERIMENT = Experiment(
    "phase-portraits",
    "Phase portraits: pathways that compete for a mode",
    "multipathway Fig. 3, Eq. 18-31",
    PhasePortraits(),
    quick={"seeds": 40, "depths": (2, 8), "far": (7, 1000), "cases": 1, "layers": (0.7,)},
    minutes=(0.2, 1.0),
)
