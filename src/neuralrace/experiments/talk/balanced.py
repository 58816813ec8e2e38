"""Two-layer networks from balanced weights, `W2^T W2 - W1 W1^T = lam I`, by their exact solution. The
relative scale lam of the layers takes learning from sigmoidal (lam = 0: rich) to exponential. Whether large
lam is lazy, with a tangent kernel that hardly turns, depends on the architecture: with as many hidden
neurons as the smaller of the two outer layers, square networks are lazy for either sign; a funnel (more
inputs than outputs) is lazy for lam > 0, where the readout is large, and has a delayed rich regime for lam
< 0: what the large first layer happens to span is learned at once, and much later the layer turns to span
the rest. An inverted funnel does the opposite. Inputs are white, targets random with singular values
`strengths`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

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
    kebab,
    option,
    paper,
    stacked,
)
from neuralrace.init import random_frame
from neuralrace.measure import crossing, plateau_share

SOLUTION, SHAPE = "talk Eq. 13-15", "talk: from exponential to sigmoidal"
REGIME, DELAYED = "talk: architecture and learning regime", "talk: delayed rich regime"
HIDDEN = "talk: rich and lazy learning"
SMALL, LARGE = 4, 8
SIZES = {
    "funnel": (LARGE, SMALL, SMALL),
    "square": (SMALL, SMALL, SMALL),
    "inverted funnel": (SMALL, SMALL, LARGE),
}
STYLES = dict(zip(SIZES, ((plot.BLUE, "o-"), (plot.BLACK, "s-"), (plot.ORANGE, "d-")), strict=True))
OTHERS = ((6, 3, 4), (3, 5, 4), (6, 5, 4))  # checked too: bottleneck, and hidden layers that forbid some lam
TIMES = np.append(0.0, np.geomspace(1e-4, 1e4, 161))


@dataclass(frozen=True)
class Balanced(Parameters):
    checked: tuple[float, ...] = option(
        (-5.0, -1.0, 0.0, 1e-9, 0.5, 5.0), "relative scales lam at which the solution is checked", least=-100
    )
    until: float = option(1000.0, "end of the flow to which the solution is compared")
    scale: float = option(0.03, "size of the initial weights, the balanced part apart")
    strengths: tuple[float, ...] = option((2.0, 1.6, 1.3, 1.0), "singular values of the targets")
    relative: tuple[float, ...] = option(
        (0.0, 0.1, 0.3, 1.0, 3.0, 10.0), "|lam|/s of the single modes that are drawn", least=0
    )
    a0: float = option(1e-3, "initial strength of the single modes")
    sizes: tuple[float, ...] = option(
        (1.0, 4.0, 8.0, 16.0, 32.0, 64.0), "sizes |lam| at which regimes are compared, with both signs"
    )
    shown: tuple[float, ...] = option((4.0, 32.0), "two of the sizes, whose curves are drawn")
    world: float = option(5.0, "|lam| of the networks that learn a tree")

    def check(self) -> None:
        if len(self.strengths) != SMALL:
            raise InputError(f"strengths must be {SMALL} numbers, got {len(self.strengths)}")
        if list(self.sizes) != sorted(set(self.sizes)) or len(self.sizes) < 4 or self.sizes[-1] < 10:
            raise InputError(f"sizes must increase to at least 10, at least four of them, got {self.sizes}")
        if not set(self.shown) <= set(self.sizes):
            raise InputError(f"shown must be among the sizes {self.sizes}, got {self.shown}")
        if self.a0 >= 0.05:
            raise InputError(f"a0 must be below 0.05, or nothing waits; got {self.a0:g}")

    @property
    def lams(self) -> tuple[float, ...]:
        return (*(-v for v in self.sizes[::-1]), 0.0, *self.sizes)


def compute(p: Balanced, parts: Parts) -> Results:
    found = {n: stacked(parts.each(n.replace(" ", "-"), learn, p.lams, n, p)) for n in SIZES}
    return {
        **found,
        "exact": parts("exact", exact, p),
        "modes": parts("modes", modes, p),
        "world": parts("world", world, p),
    }


# -- the solution ------------------------------------------------------


def exact(p: Balanced) -> dict[str, Any]:
    """Largest difference of `Q Q^T` from the integrated flow; and where lam is refused, by size and sign."""
    t, off = np.append(0.0, np.geomspace(0.01, p.until, 30)), []
    for sizes in (*SIZES.values(), *OTHERS):
        graph, white = nr.Graph.chain(sizes), np.sqrt(sizes[0]) * np.eye(sizes[0])
        syx = np.random.default_rng(0).standard_normal((sizes[2], sizes[0]))
        starts = [nr.init.balanced(graph, lam, 0.3, seed=1) for lam in p.checked if feasible(sizes, lam)]
        many = {e: np.stack([w[e] for w in starts]) for e in graph.edges}
        run = nr.flow(nr.Task(graph, white, white @ syx.T), many, save=t, method=nr.Adaptive(1e-12, 1e-14))
        integrated = squared(run.weights["x->h1"], run.weights["h1->y"])
        for start, qq in zip(starts, integrated, strict=True):
            off.append(np.abs(nr.exact.balanced_qq(t, start["x->h1"], start["h1->y"], syx) - qq).max())
    wrong = [
        refused(sizes, lam) == feasible(sizes, lam)
        for sizes in np.ndindex(5, 5, 5) if min(sizes) > 0 for lam in (-1.0, 0.0, 1.0)
    ]  # fmt: skip
    return {"off": off, "wrong": wrong}


def feasible(sizes: tuple[int, ...], lam: float) -> bool:
    """Whether `W2^T W2 - W1 W1^T = lam I` has a solution: the larger product must have full rank."""
    n_in, hidden, n_out = sizes
    return lam == 0 or hidden <= (n_out if lam > 0 else n_in)


def refused(sizes: tuple[int, ...], lam: float) -> bool:
    try:
        nr.init.balanced(nr.Graph.chain(sizes), lam)
    except InputError:
        return True
    return False


def squared(w1: np.ndarray, w2: np.ndarray) -> np.ndarray:
    q = np.concatenate([np.swapaxes(w1, -1, -2), w2], axis=-2)
    return q @ np.swapaxes(q, -1, -2)


# -- from sigmoidal to exponential ------------------------------------------------------


def modes(p: Balanced) -> dict[str, Any]:
    """One mode of strength 1 from a0, and the lam at which it, and its loss, lose their inflection."""
    t = np.linspace(0, 12, 1201)
    a = [mode(t, lam, p.a0) for lam in p.relative]

    def bends(curve: Any) -> float:
        low, high = 0.1, 3.0
        while high - low > 1e-3:
            lam = (low + high) / 2
            a = mode(t[:401], lam, p.a0)
            bent = (np.diff(curve(a), 2) > 1e-13).any()
            low, high = (lam, high) if bent else (low, lam)
        return low

    return {"t": t, "a": a, "sigmoid": bends(lambda a: a), "plateau": bends(lambda a: -((1 - a) ** 2))}


def mode(t: np.ndarray, lam: float, a0: float) -> np.ndarray:
    """Product of two weights with the difference of squares lam, learning 1."""
    root = np.sqrt(lam**2 / 4 + a0**2)
    w1, w2 = np.sqrt(root - lam / 2), np.sqrt(root + lam / 2)
    v1, v2 = nr.exact.balanced(t, [[w1]], [[w2]], [[1.0]])
    return (v1 * v2)[:, 0, 0]


# -- regimes ------------------------------------------------------


def learn(lam: float, name: str, p: Balanced) -> dict[str, Any]:
    """Loss relative to a silent network and turn of the tangent kernel, `(seeds, time)`.

    And the sign of the determinant of the initial map relative to the target's, kept if square and lam = 0.
    """
    n_in, _, n_out = SIZES[name]
    start = nr.init.balanced(nr.Graph.chain(SIZES[name]), lam, p.scale, seed=range(p.seeds))
    loss, turned, sign = [], [], []
    for seed, (w1, w2) in enumerate(zip(*start.values(), strict=True)):
        rng = np.random.default_rng([seed, 1])
        syx = random_frame(rng, n_out, SMALL) @ np.diag(p.strengths) @ random_frame(rng, SMALL, n_in)
        q1, q2 = nr.exact.balanced(TIMES, w1, w2, syx)
        loss.append(((syx - q2 @ q1) ** 2).sum(axis=(1, 2)) / (syx**2).sum())
        turned.append(turn(q1, q2))
        sign.append(np.linalg.slogdet(w2 @ w1 @ syx.T)[0])
    return {"loss": loss, "turn": turned, "sign": sign}


def turn(w1: np.ndarray, w2: np.ndarray) -> np.ndarray:
    """One minus the cosine between the tangent kernel and that at the start, `(time,)`.

    With white inputs the kernel is the Kronecker sum of `W2 W2^T` and `W1^T W1`.
    """
    a, b = w2 @ np.swapaxes(w2, 1, 2), np.swapaxes(w1, 1, 2) @ w1
    n_out, n_in = a.shape[1], b.shape[1]

    def product(a0: Any, b0: Any, a1: Any, b1: Any) -> Any:
        trace = lambda m: np.trace(m, axis1=-2, axis2=-1)  # noqa: E731
        return (
            n_in * (a0 * a1).sum(axis=(-1, -2)) + n_out * (b0 * b1).sum(axis=(-1, -2))
            + trace(a0) * trace(b1) + trace(a1) * trace(b0)
        )  # fmt: skip

    return 1 - product(a, b, a[0], b[0]) / np.sqrt(product(a, b, a, b) * product(a[0], b[0], a[0], b[0]))


# -- representations ------------------------------------------------------


def world(p: Balanced) -> dict[str, Any]:
    """Similarity of a tree's eight items in the hidden layer, over time and at the end."""
    tree = nr.tasks.tree((2, 2, 2), hidden=8)
    s, v = np.sqrt(tree.values), tree.vectors
    syx, found, off = np.diag(s) @ v.T / 8, [], []
    for lam in (-p.world, 0.0, p.world):
        starts = zip(*nr.init.balanced(tree.graph, lam, p.scale, seed=range(20)).values(), strict=True)
        w1, w2 = next((a, b) for a, b in starts if np.linalg.slogdet(b @ a @ syx.T)[0] > 0)  # or it waits
        q1, q2 = nr.exact.balanced(TIMES, w1, w2, syx, sxx=np.eye(8) / 8)
        found.append(np.swapaxes(q1, 1, 2) @ q1)
        large = np.sqrt(lam**2 / 4 + s**2)
        off.append(np.abs(found[-1][-1] - (v * (large - lam / 2)) @ v.T).max())
        off.append(np.abs(q2[-1] @ q2[-1].T - np.diag(large + lam / 2)).max())
    like = {"covariance": tree.covariance, "root": (v * s) @ v.T, "identity": np.eye(8)}
    return {
        "items": np.stack(found)[:, -1],
        "off": off,
        **{n: [[cosine(g, m) for g in grams] for grams in found] for n, m in like.items()},
    }


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))


# -- figures and claims ------------------------------------------------------


def turn_time(turned: np.ndarray) -> np.ndarray:
    """Time to half of the turn at the end, `(seeds,)`."""
    return np.array([crossing(TIMES, -v, -v[-1] / 2) for v in turned])


def figures(p: Balanced, r: Results) -> dict[str, tuple[Figure, str]]:
    return {
        "balanced-modes": shapes(p, r["modes"]),
        "balanced-regimes": regimes(p, r),
        "balanced-architecture": architecture(p, r),
        "balanced-representation": representation(p, r["world"]),
    }


def shapes(p: Balanced, r: Results) -> tuple[Figure, str]:
    fig, (a, b, c) = plot.figure(1, 3, height=2.3)
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.92, len(p.relative)))
    fine = np.geomspace(0.01, 10, 40)
    for lam, learned, colour in zip(p.relative, r["a"], colours, strict=True):
        half = crossing(r["t"], -learned, -0.5)
        a.plot(r["t"] / half, learned, color=colour, label=f"{lam:g}")
        b.plot(r["t"] / half, (1 - learned) ** 2, color=colour)
    t = np.linspace(0, 8, 801)
    share = []
    for lam in fine:
        loss = (1 - mode(t, lam, p.a0)) ** 2
        share.append(plateau_share(t[loss > 0.01], loss[loss > 0.01]))
    plot.theory(c, fine, share)
    c.axvline(6**-0.5, color=plot.BLACK, lw=0.8, ls="--", label="1/√6")
    c.axvline(2**-0.5, color=plot.BLACK, lw=0.8, ls=":", label="1/√2")
    a.set(xlim=(0, 3), xlabel="time / time to half", ylabel="mode a/s")
    b.set(xlim=(0, 3), xlabel="time / time to half", ylabel="loss / initial loss")
    c.set(xscale="log", xlabel="relative scale |λ|/s", ylabel="share of time on plateaus", ylim=(-0.03, 1))
    a.legend(title="|λ|/s")
    c.legend()
    caption = (
        f"A mode of strength s from a0 = {p.a0:g} s, exact solution: sigmoidal for weights of equal scale, "
        "exponential for unequal ones. Left and middle: mode and loss against time in units of the time to "
        "half. Right: share of the time, until 1% of the loss is left, in which the loss falls more slowly "
        "than later; it vanishes at |λ| = s/√6 (dashed), where the loss loses its inflection; the mode does"
        " at s/√2 (dotted)."
    )
    return fig, caption


def regimes(p: Balanced, r: Results) -> tuple[Figure, str]:
    fig, axes = plot.figure(2, 3, height=4.2, sharex=True, sharey="row")
    kinds = [(-p.shown[-1], plot.BLUE, "--"), (-p.shown[0], plot.SKY, "--"), (0.0, plot.BLACK, "-"),
             (p.shown[0], plot.ORANGE, "-"), (p.shown[-1], plot.RED, "-")]  # fmt: skip
    for (above, below), (name, (n_in, hidden, n_out)) in zip(axes.T, SIZES.items(), strict=True):
        for lam, colour, ls in kinds:
            k = p.lams.index(lam)
            for ax, what in ((above, "loss"), (below, "turn")):
                ax.plot(
                    TIMES[1:], r[name][what][k, :, 1:].mean(axis=0), color=colour, ls=ls, label=f"{lam:g}"
                )
        above.set(xscale="log", title=f"{name} {n_in}-{hidden}-{n_out}", xlim=(1e-3, 1e3))
        below.set(xlabel="time (τ = 1)")
    axes[0, 0].set(ylabel="loss / silent network", ylim=(-0.03, 1.06))
    axes[1, 0].set(ylabel="turn of the tangent kernel", ylim=(-0.02, None))
    axes[0, 2].legend(title="λ", loc="upper right")
    caption = (
        "Loss and turn of the tangent kernel (one minus the cosine with that at the start), mean of "
        f"{p.seeds} starts, exact solution. Dashed: λ < 0, large first layer; solid: λ > 0, large readout. "
        "Learned at once with a kernel that stays: lazy. A second fall of the loss together with a late "
        "turn: delayed rich, in funnels for λ < 0 and in inverted funnels for λ > 0. A square network with "
        "λ = 0 keeps the sign of its determinant: half of them wait at a saddle, until rounding frees them "
        "(about t = 40)."
    )
    return fig, caption


def architecture(p: Balanced, r: Results) -> tuple[Figure, str]:
    fig, (a, b) = plot.figure(1, 2, height=2.6)
    for name, (colour, fmt) in STYLES.items():
        plot.points(a, p.lams, r[name]["turn"][..., -1].T, colour, name, fmt=fmt)
    a.set_xscale("symlog", linthresh=1.0)
    a.set(xlabel="relative scale λ", ylabel="turn of the tangent kernel at the end", ylim=(-0.02, 0.85))
    a.axhline(1 - SMALL / LARGE, color=plot.BLACK, lw=0.8, ls=":")
    a.legend()
    for name, sign in (("funnel", -1), ("inverted funnel", 1), ("square", 1)):
        colour, fmt = STYLES[name]
        times = np.array([turn_time(r[name]["turn"][p.lams.index(sign * v)]) for v in p.sizes])
        plot.points(b, p.sizes, times.T, colour, f"{name}, λ {'<>'[sign > 0]} 0", fmt=fmt)
    scaling = np.array(p.sizes) / np.square(p.strengths).mean()
    plot.theory(b, p.sizes, scaling, plot.RED, r"$|λ| / \langle s^2\rangle$", ls="--", lw=1)
    b.set(xscale="log", yscale="log", xlabel="relative scale |λ|", ylabel="time to half of the turn")
    b.set_ylim(1e-3, None)
    b.legend(loc="lower left")
    caption = (
        f"Left: turn of the tangent kernel at the end of learning ({p.seeds} starts, mean and standard "
        f"deviation); dotted: {1 - SMALL / LARGE:g}, the turn of a layer that spans {SMALL} random of "
        f"{LARGE} directions to those of the task. Right: when half of the turn has happened. Where it is "
        "delayed, it takes a time that grows with |λ|, as |λ| over a squared singular value."
    )
    return fig, caption


def representation(p: Balanced, r: Results) -> tuple[Figure, str]:
    fig, axes = plot.figure(1, 4, height=2.0, width_ratios=(1, 1, 1, 1.7))
    lams = (-p.world, 0.0, p.world)
    for ax, lam, items in zip(axes[:3], lams, r["items"], strict=True):
        plot.matrix(ax, items / items.max(), f"λ = {lam:g}, max {items.max():.2g}", 1.0)
        ax.set(aspect="equal", xlabel="item")
    axes[0].set_ylabel("item")
    for lam, colour, ls, curve in zip(
        lams, (plot.BLUE, plot.BLACK, plot.RED), ("--", "-", "-."), r["covariance"], strict=True
    ):
        axes[3].plot(TIMES[1:], curve[1:], color=colour, ls=ls, label=f"λ = {lam:g}")
    axes[3].set(xscale="log", xlim=(0.1, 1e3), ylim=(0, 1.03))
    axes[3].set(xlabel="time (τ = 1)", ylabel="cosine with covariance")
    axes[3].legend(loc="lower right")
    caption = (
        "Similarity of the eight items of a tree in the hidden layer, W1^T W1, after learning (red is "
        "positive, relative to its maximum), and its cosine with the covariance of features over time. A "
        "large first layer (λ < 0) keeps items apart as they were; a small one takes the task's structure."
    )
    return fig, caption


def claims(p: Balanced, r: Results) -> list[Claim]:
    far, high = p.sizes[-1], np.array([v for v in p.sizes if v >= 8])
    at = p.lams.index
    turned = "turn of the tangent kernel"
    end = {name: r[name]["turn"][..., -1] for name in SIZES}
    left = 1 - SMALL / LARGE
    pause = np.abs(TIMES - 1 / p.strengths[0]).argmin()  # between 1/lam and lam/s^2
    found = []
    for name, sign in (("funnel", -1), ("inverted funnel", 1)):
        times = np.log([turn_time(r[name]["turn"][at(sign * v)]) for v in high])
        slope, loss = np.polyfit(np.log(high), times, 1)[0], r[name]["loss"][at(sign * far), :, pause]
        late, lazy, key = *(f"{name}, lam = {s * far:g}:" for s in (sign, -sign)), kebab(name)
        found += [
            paper.near(
                f"delayed-turn-{key}", f"{late} {turned}", DELAYED, left, end[name][at(sign * far)], 0.1
            ),
            finding.near(
                f"delayed-loss-{key}", f"{late} loss left at the pause / initial", DELAYED, left, loss, 0.1
            ),
            finding.near(
                f"delayed-time-{key}", f"{name}: exponent of |lam| in the time of the late turn", DELAYED, 1,
                slope, 0.05,
            ),
            paper.below(f"lazy-{key}", f"{lazy} {turned}", REGIME, 0.01, end[name][at(-sign * far)], "Lazy."),
        ]  # fmt: skip
    square, w = r["square"], r["world"]
    waiting = square["loss"][at(0.0)][:, TIMES.searchsorted(20.0)] > 0.01
    odd = waiting != (square["sign"][at(0.0)] < 0)
    wait = "square, lam = 0: networks that wait at a saddle, or not, against the sign of their determinant"
    signs = "sizes up to 4-4-4 and signs of lam wrongly refused or taken"
    cosines = (
        ("negative", f"lam = {-p.world:g}: cosine with the identity", w["identity"][0, -1]),
        ("zero", "lam = 0: cosine with the root of the covariance", w["root"][1, -1]),
        ("positive", f"lam = {p.world:g}: cosine with the covariance", w["covariance"][2, -1]),
    )
    off, flow = r["exact"]["off"].max(), f"closed form - integrated flow, t up to {p.until:g}, most"
    return [
        check.below("closed-form", flow, SOLUTION, 1e-8, off),
        check.near("feasible", signs, SOLUTION, 0, r["exact"]["wrong"].sum(), 0),
        finding.near(
            "sigmoid-limit", "|lam|/s where a mode ceases to be sigmoidal", SHAPE, 2**-0.5,
            r["modes"]["sigmoid"], 0.01,
        ),
        finding.near(
            "plateau-limit", "|lam|/s where the loss has no plateau left", SHAPE, 6**-0.5,
            r["modes"]["plateau"], 0.01,
        ),
        *(
            paper.above(f"rich-{kebab(n)}", f"{n}, lam = 0: {turned}", REGIME, 0.1, end[n][at(0.0)], "Rich.")
            for n in SIZES
        ),
        *(
            paper.below(
                f"lazy-square-{key}", f"square, lam = {v:g}: {turned}", REGIME, 0.01, end["square"][at(v)],
                "Lazy.",
            )
            for key, v in (("negative", -far), ("positive", far))
        ),
        finding.near("saddle-sign", wait, REGIME, 0, odd.sum(), 0),
        *found,
        check.below(
            "hidden-closed-form", "hidden layer and readout at the end - closed form", HIDDEN, 1e-8,
            w["off"].max(),
        ),
        *(
            finding.above(f"items-{key}", f"items of a tree, {what}", HIDDEN, 0.99, value)
            for key, what, value in cosines
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "balanced",
    "Balanced weights: from rich to lazy, and later rich",
    "talk: nontrivial initializations",
    Balanced(),
    Balanced(seeds=3, until=100.0),
    compute,
    figures,
    claims,
    (0.3, 0.5),
)
