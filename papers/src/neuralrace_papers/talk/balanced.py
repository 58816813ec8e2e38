"""Two-layer networks from balanced weights, `W2^T W2 - W1 W1^T = lam I`, by their exact solution. The
relative scale lam of the layers takes learning from sigmoidal (lam = 0: rich) to exponential. Whether large
lam is lazy, with a tangent kernel that hardly turns, depends on the architecture: with as many hidden
neurons as the smaller of the two outer layers, square networks are lazy for either sign; a funnel (more
inputs than outputs) is lazy for lam > 0, where the readout is large, and has a delayed rich regime for lam
< 0: what the large first layer happens to span is learned at once, and much later the layer turns to span
the rest. An inverted funnel does the opposite. Inputs are white, targets random with singular values
`strengths`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace.init import random_frame
from neuralrace.measure import cosine, gram, half_time, kernel_turn, plateau_share, power_law_exponent
from neuralrace_papers.framework import Data, Experiment, figure, part, require, rows

SMALL, LARGE = 4, 8
SIZES = {
    "funnel": (LARGE, SMALL, SMALL),
    "square": (SMALL, SMALL, SMALL),
    "inverted funnel": (SMALL, SMALL, LARGE),
}
STYLES = dict(zip(SIZES, ((plot.BLUE, "o-"), (plot.BLACK, "s-"), (plot.ORANGE, "d-")), strict=True))
TIMES = np.append(0.0, np.geomspace(1e-4, 1e4, 161))
SPANNED = 1 - SMALL / LARGE  # turn of a layer from random directions to those of the task


@dataclass(frozen=True)
class Balanced:
    seeds: Annotated[int, "random starts of each network"] = 10
    scale: Annotated[float, "size of the initial weights, the balanced part apart"] = 0.03
    strengths: Annotated[tuple[float, ...], "singular values of the targets"] = (2.0, 1.6, 1.3, 1.0)
    relative: Annotated[tuple[float, ...], "|lam|/s of the single modes that are drawn"] = (
        0.0, 0.1, 0.3, 1.0, 3.0, 10.0,
    )  # fmt: skip
    a0: Annotated[float, "initial strength of the single modes"] = 1e-3
    sizes: Annotated[tuple[float, ...], "sizes |lam|, with both signs"] = (1.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    shown: Annotated[tuple[float, ...], "two of the sizes, whose curves are drawn"] = (4.0, 32.0)
    world: Annotated[float, "|lam| of the networks that learn a tree"] = 5.0

    def __post_init__(self) -> None:
        n = len(self.strengths)
        require(n == SMALL, f"strengths must be {SMALL} numbers, got {n}")
        require(self.sizes[-1] >= 10, f"sizes must increase to at least 10, got {self.sizes}")
        among = set(self.shown) <= set(self.sizes)
        require(among, f"shown must be among the sizes {self.sizes}, got {self.shown}")

    @property
    def lams(self) -> tuple[float, ...]:
        return (*(-v for v in self.sizes[::-1]), 0.0, *self.sizes)


@part(each=((2, 3, 5, 0.6), (5, 3, 2, -0.6)))
def partitioned(p: Balanced, case: tuple[int, int, int, float]):
    """Largest error of `Q Q^T` by Eq. 13-15, over its largest entry, as printed and with the last term of
    Eq. 15 mended; against the integrated flow."""
    n_in, hidden, n_out, lam = case
    graph, t = nr.Graph.chain([n_in, hidden, n_out]), 1.5
    start = nr.init.balanced(graph, lam, 0.3, seed=1)
    w1, w2 = start.values()
    syx = np.random.default_rng(0).standard_normal((n_out, n_in))
    run = nr.flow(nr.tasks.linear(syx, graph=graph), start, save=[0, t], method=nr.Adaptive(1e-12, 1e-14))
    q = np.vstack([run.weights["x->h1"][-1].T, run.weights["h1->y"][-1]])
    u, s, vt = np.linalg.svd(syx)
    more_out, v = n_out > n_in, vt.T
    u, v, across = u[:, : len(s)], v[:, : len(s)], (u if more_out else v)[:, len(s) :]
    root = np.sqrt(s**2 + lam**2 / 4)
    h = np.sign(lam) * np.sqrt((root - s) / (root + s))
    plus, minus = (1 + h) / np.sqrt(1 + h**2), (1 - h) / np.sqrt(1 + h**2)
    b, c = w2.T @ u * plus + w1 @ v * minus, w2.T @ u * minus - w1 @ v * plus
    rest, rate = (w2.T if more_out else w1) @ across, np.sign(n_out - n_in) * lam / 2
    grow, decay, alone = np.exp(root * t), np.exp(-root * t), np.exp(rate * t) * across @ rest.T
    z1 = (v * minus * grow) @ b.T / 2 - (v * plus * decay) @ c.T / 2 + (0 if more_out else alone)
    z2 = (u * plus * grow) @ b.T / 2 + (u * minus * decay) @ c.T / 2 + (alone if more_out else 0)
    z, a = np.vstack([z1, z2]), np.eye(hidden) + (b * (grow**2 - 1) / (4 * root)) @ b.T
    a = a - (c * (decay**2 - 1) / (4 * root)) @ c.T

    def error(last: float) -> float:
        form = z @ np.linalg.solve(a + last * rest @ rest.T, z.T)
        return np.abs(form - q @ q.T).max() / np.abs(q @ q.T).max()

    mended = np.expm1(2 * rate * t) / (2 * rate)
    return {"printed": error(np.expm1(rate * t) / rate), "corrected": error(mended)}


@part
def modes(p: Balanced):
    """One mode of strength 1 from a0, and the lam from which on it, and its loss, have no inflection."""
    t, until, fine = np.linspace(0, 12, 1201), np.linspace(0, 8, 201), np.geomspace(0.01, 10, 40)
    return {
        "t": ("t", t),
        "lam": ("lam", list(p.relative)),
        "a": ("lam t", [mode(t, lam, p.a0) for lam in p.relative]),
        "fine": ("fine", fine),
        "plateau": ("fine", [plateau_share(until, (1 - mode(until, v, p.a0)) ** 2, 0.01) for v in fine]),
        "mode_limit": last_inflection(p.a0, lambda a: a),
        "loss_limit": last_inflection(p.a0, lambda a: -((1 - a) ** 2)),
    }


def mode(t: np.ndarray, lam: float, a0: float) -> np.ndarray:
    """Product of two weights with the difference of squares lam, learning 1."""
    root = np.sqrt(lam**2 / 4 + a0**2)
    w1, w2 = np.sqrt(root - lam / 2), np.sqrt(root + lam / 2)
    v1, v2 = nr.exact.balanced(t, [[w1]], [[w2]], [[1.0]])
    return (v1 * v2)[:, 0, 0]


def last_inflection(a0: float, curve: Callable[[np.ndarray], np.ndarray]) -> float:
    """The lam up to which a function of the mode still speeds up at some time, by bisection."""
    low, high, t = 0.1, 3.0, np.linspace(0, 4, 401)
    while high - low > 1e-3:
        lam = (low + high) / 2
        speeds_up = (np.diff(curve(mode(t, lam, a0)), 2) > 1e-13).any()
        low, high = (lam, high) if speeds_up else (low, lam)
    return low


@part(each=tuple(SIZES))
def regimes(p: Balanced, name: str):
    """Loss relative to a silent network and turn of the tangent kernel, by the exact solution.

    And the sign of the determinant of the initial map relative to the target's, kept if square and lam = 0.
    """
    n_in, _, n_out = SIZES[name]
    graph = nr.Graph.chain(SIZES[name])
    white = nr.tasks.linear(np.zeros((n_out, n_in)), graph=graph)  # the kernel does not depend on targets

    def learn(lam: float, seed: int) -> tuple[Any, Any, Any]:
        w1, w2 = nr.init.balanced(graph, lam, p.scale, seed=seed).values()
        rng = np.random.default_rng([seed, 1])
        syx = random_frame(rng, n_out, SMALL) @ np.diag(p.strengths) @ random_frame(rng, SMALL, n_in)
        q1, q2 = nr.exact.balanced(TIMES, w1, w2, syx)
        loss = ((syx - q2 @ q1) ** 2).sum(axis=(1, 2)) / (syx**2).sum()
        turn = kernel_turn(nr.tangent_kernel(white, {"x->h1": q1, "h1->y": q2}))
        return loss, turn, np.linalg.slogdet(w2 @ w1 @ syx.T)[0]

    runs = zip(*(learn(lam, seed) for lam in p.lams for seed in range(p.seeds)), strict=True)
    loss, turn, sign = (np.reshape(v, (len(p.lams), p.seeds, -1)) for v in runs)
    return {
        "t": ("t", TIMES),
        "lam": ("lam", list(p.lams)),
        "loss": ("lam run t", loss),
        "turn": ("lam run t", turn),
        "determinant": ("lam run", sign[..., 0]),
    }


@part
def items(p: Balanced):
    """Similarity of a tree's eight items in the hidden layer, and its cosine with other matrices."""
    tree, lams = nr.tasks.tree((2, 2, 2), hidden=8), (-p.world, 0.0, p.world)
    s, v = np.sqrt(tree.values), tree.vectors
    syx, similar = np.diag(s) @ v.T / 8, []
    for lam in lams:
        starts = zip(*nr.init.balanced(tree.graph, lam, p.scale, seed=range(20)).values(), strict=True)
        w1, w2 = next((a, b) for a, b in starts if np.linalg.slogdet(b @ a @ syx.T)[0] > 0)  # or it waits
        q1, _ = nr.exact.balanced(TIMES, w1, w2, syx, sxx=np.eye(8) / 8)
        similar.append(gram(np.swapaxes(q1, 1, 2)))
    like = {"covariance": tree.covariance, "root": (v * s) @ v.T, "identity": np.eye(8)}
    return {
        "t": ("t", TIMES),
        "lam": ("lam", list(lams)),
        "similarity": ("lam item other", np.stack(similar)[:, -1]),
        **{name: ("lam t", cosine(similar, m)) for name, m in like.items()},
    }


@figure("balanced-modes")
def shapes(p: Balanced, data: Data):
    fig, (a, b, c) = plot.figure(1, 3, height=2.3)
    modes = data.modes
    for lam, learned, colour in zip(p.relative, modes.a.values, plot.shades(len(p.relative)), strict=True):
        t = modes.t / half_time(modes.t, learned, first=0.0, last=1.0)
        a.plot(t, learned, color=colour, label=f"{lam:g}")
        b.plot(t, (1 - learned) ** 2, color=colour)
    plot.theory(c, modes.fine, modes.plateau, label="exact solution")
    c.axvline(6**-0.5, color=plot.BLACK, lw=0.8, ls="--", label="1/√6")
    c.axvline(2**-0.5, color=plot.BLACK, lw=0.8, ls=":", label="1/√2")
    plot.label((a, b), "time / time to half", xlim=(0, 3))
    plot.label(a, y="mode a/s", legend={"title": "|λ|/s"})
    b.set_ylabel("loss / initial loss")
    above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1), "ncols": 3, "columnspacing": 0.8}
    c.set(xscale="log", ylim=(-0.03, 1))
    plot.label(c, "relative scale |λ|/s", "share of time on plateaus", legend=above)
    return fig, (
        f"A mode of strength s from a0 = {p.a0:g} s, exact solution: sigmoidal for weights of equal scale, "
        "exponential for unequal ones. Left and middle: mode and loss against time in units of the time to "
        "half. Right: share of the time, until 1% of the loss is left, in which the loss falls more slowly "
        "than later; it vanishes at |λ| = s/√6 (dashed), where the loss loses its inflection; the mode does"
        " at s/√2 (dotted)."
    )


@figure("balanced-regimes")
def curves(p: Balanced, data: Data):
    fig, axes = plot.figure(2, 3, height=4.2, sharex=True, sharey="row")
    least, most = p.shown[0], p.shown[-1]
    kinds = {-most: plot.BLUE, -least: plot.SKY, 0.0: plot.BLACK, least: plot.ORANGE, most: plot.RED}
    for (above, below), (name, sizes) in zip(axes.T, SIZES.items(), strict=True):
        mean = data.regimes[name].mean("run").isel(t=slice(1, None))
        for lam, colour in kinds.items():
            style = {"color": colour, "ls": "--" if lam < 0 else "-", "label": f"{lam:g}"}
            above.plot(mean.t, mean.loss.sel(lam=lam), **style)
            below.plot(mean.t, mean.turn.sel(lam=lam), **style)
        above.set(xscale="log", title=f"{name} {'-'.join(map(str, sizes))}", xlim=(1e-3, 1e3))
    plot.label(axes[1], "time (τ = 1)")
    plot.label(axes[0, 0], y="loss / silent network", ylim=(-0.03, 1.06))
    plot.label(axes[1, 0], y="turn of the tangent kernel", ylim=(-0.02, None))
    plot.label(axes[0, 2], legend={"title": "λ", "loc": "upper right"})
    return fig, (
        "Loss and turn of the tangent kernel (one minus the cosine with that at the start), mean of "
        f"{p.seeds} starts, exact solution. Dashed: λ < 0, large first layer; solid: λ > 0, large readout. "
        "Learned at once with a kernel that stays: lazy. A second fall of the loss together with a late "
        "turn: delayed rich, in funnels for λ < 0 and in inverted funnels for λ > 0. A square network with "
        "λ = 0 keeps the sign of its determinant: half of them wait at a saddle, until rounding frees them "
        "(about t = 40)."
    )


def turn_time(turn: Any) -> np.ndarray:
    """Time to half of the turn at the end, with the leading axes of `turn`."""
    return half_time(TIMES, turn, first=0.0)


@figure("balanced-architecture")
def architecture(p: Balanced, data: Data):
    fig, (a, b) = plot.figure(1, 2, height=2.6)
    for name, (colour, fmt) in STYLES.items():
        plot.points(a, p.lams, data.regimes[name].turn[..., -1].T, colour, name, fmt=fmt)
    a.set_xscale("symlog", linthresh=1.0)
    a.axhline(SPANNED, color=plot.BLACK, lw=0.8, ls=":", label=f"{SPANNED:g}, one layer turns")
    texts = "relative scale λ", "turn of the tangent kernel at the end"
    plot.label(a, *texts, legend={"ncols": 2, "loc": "upper center"}, ylim=(-0.02, 0.95))
    sizes = np.array(p.sizes)
    for name, sign in (("funnel", -1), ("inverted funnel", 1), ("square", 1)):
        colour, fmt = STYLES[name]
        times = turn_time(data.regimes[name].turn.sel(lam=sign * sizes))
        plot.points(b, p.sizes, times.T, colour, f"{name}, λ {'<>'[sign > 0]} 0", fmt=fmt)
    scaling = sizes / np.square(p.strengths).mean()
    plot.theory(b, p.sizes, scaling, plot.RED, r"$|λ| / \langle s^2\rangle$", ls="--", lw=1)
    b.set(xscale="log", yscale="log", ylim=(1e-3, None))
    plot.label(b, "relative scale |λ|", "time to half of the turn (τ = 1)", legend="lower left")
    return fig, (
        f"Left: turn of the tangent kernel at the end of learning ({p.seeds} starts, mean and standard "
        f"deviation); dotted: {SPANNED:g}, the turn of a layer that spans {SMALL} random of "
        f"{LARGE} directions to those of the task. Right: when half of the turn has happened. Where it is "
        "delayed, it takes a time that grows with |λ|, as |λ| over a squared singular value."
    )


@figure("balanced-representation")
def representation(p: Balanced, data: Data):
    fig, axes = plot.figure(1, 4, height=2.2, width_ratios=(1, 1, 1, 1.5))
    styles = ((plot.BLUE, "--"), (plot.BLACK, "-"), (plot.RED, "-."))
    for k, (ax, (colour, ls)) in enumerate(zip(axes, styles, strict=False)):
        one = data.items.isel(lam=k)
        largest = float(one.similarity.max())
        plot.matrix(ax, one.similarity / largest, f"λ = {one.lam:g}, max {largest:.2g}", 1.0)
        ax.set(aspect="equal", xlabel="item")
        axes[3].plot(TIMES[1:], one.covariance[1:], color=colour, ls=ls, label=f"λ = {one.lam:g}")
    fig.colorbar(axes[2].images[0], ax=axes[2], ticks=(-1, 0, 1), label="similarity / max", shrink=0.6)
    axes[0].set_ylabel("item")
    axes[3].set(xscale="log", xlim=(0.1, 1e3), ylim=(0, 1.03))
    plot.label(axes[3], "time (τ = 1)", "cosine with covariance", legend="lower right")
    return fig, (
        "Similarity of the eight items of a tree in the hidden layer, W1^T W1, after learning (red is "
        "positive, relative to its maximum), and its cosine with the covariance of features over time. A "
        "large first layer (λ < 0) keeps items apart as they were; a small one takes the task's structure."
    )


@rows
def formulas(p: Balanced, data: Data):
    for key in ("printed", "corrected"):
        yield f"eq-15-{key}", max(float(case[key]) for case in data.partitioned.values())
    yield "sigmoid-limit", data.modes.mode_limit
    yield "plateau-limit", data.modes.loss_limit


@rows
def rich_and_lazy(p: Balanced, data: Data):
    far, square = p.sizes[-1], data.regimes["square"]
    for name, runs in data.regimes.items():
        yield f"rich-{name.replace(' ', '-')}", runs.turn[..., -1].sel(lam=0.0)
    for key, lam in (("negative", -far), ("positive", far)):
        yield f"lazy-square-{key}", square.turn[..., -1].sel(lam=lam)
    large = plateau_share(TIMES, square.loss.sel(lam=[-far, far]), 0.01)
    yield "plateaus-large", large
    yield "plateaus-zero", plateau_share(TIMES, square.loss.sel(lam=0.0), 0.01) - large.mean()
    waits = square.loss.sel(lam=0.0)[:, TIMES.searchsorted(20.0)] > 0.01
    yield "saddle-sign", waits == (square.determinant.sel(lam=0.0) < 0)
    for key, value in zip(("negative", "zero", "positive"), like_items(data), strict=True):
        yield f"items-{key}", value


def like_items(data: Data) -> tuple[Any, ...]:
    """Cosine of what the hidden layer shows of the items with the identity, the root and the covariance."""
    end = data.items.isel(t=-1)
    return end.identity[0], end.root[1], end.covariance[2]


@rows
def delayed_rich(p: Balanced, data: Data):
    far, high = p.sizes[-1], np.array([v for v in p.sizes if v >= 8])
    pause = np.abs(TIMES - 1 / p.strengths[0]).argmin()  # between 1/lam and lam/s^2
    for name, sign in (("funnel", -1), ("inverted funnel", 1)):
        runs, key = data.regimes[name], name.replace(" ", "-")
        late, lazy = runs.sel(lam=sign * far), runs.sel(lam=-sign * far)
        yield f"delayed-turn-{key}", late.turn[:, -1]
        yield f"delayed-loss-{key}", late.loss[:, pause]
        times = turn_time(runs.turn.sel(lam=sign * high))
        yield f"delayed-time-{key}", power_law_exponent(high, times.T)
        yield f"lazy-{key}", lazy.turn[:, -1]


EXPERIMENT = Experiment(
    "balanced",
    "Balanced weights: from rich to lazy, and later rich",
    "talk: nontrivial initializations",
    Balanced(),
    quick={"seeds": 3},
    minutes=(0.2, 0.5),
)
