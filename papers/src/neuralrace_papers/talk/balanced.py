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
from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace.errors import InputError
from neuralrace.init import random_frame
from neuralrace.measure import cosine, gram, half_time, kernel_turn, plateau_share, power_law_exponent
from neuralrace_papers.framework.claim import check, finding, kebab, paper
from neuralrace_papers.framework.declaration import Data, claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option, require

SMALL, LARGE = 4, 8
SIZES = {
    "funnel": (LARGE, SMALL, SMALL),
    "square": (SMALL, SMALL, SMALL),
    "inverted funnel": (SMALL, SMALL, LARGE),
}
STYLES = dict(zip(SIZES, ((plot.BLUE, "o-"), (plot.BLACK, "s-"), (plot.ORANGE, "d-")), strict=True))
OTHERS = ((6, 3, 4), (3, 5, 4), (6, 5, 4))  # checked too: bottleneck, and hidden layers that forbid some lam
TIMES = np.append(0.0, np.geomspace(1e-4, 1e4, 161))
SPANNED = 1 - SMALL / LARGE  # turn of a layer from random directions to those of the task


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
    a0: float = option(1e-3, "initial strength of the single modes", below=0.05)
    sizes: tuple[float, ...] = option(
        (1.0, 4.0, 8.0, 16.0, 32.0, 64.0), "sizes |lam|, with both signs", increasing=True, count=4
    )
    shown: tuple[float, ...] = option((4.0, 32.0), "two of the sizes, whose curves are drawn")
    world: float = option(5.0, "|lam| of the networks that learn a tree")

    def check(self) -> None:
        n = len(self.strengths)
        require(n == SMALL, f"strengths must be {SMALL} numbers, got {n}")
        require(self.sizes[-1] >= 10, f"sizes must increase to at least 10, got {self.sizes}")
        among = set(self.shown) <= set(self.sizes)
        require(among, f"shown must be among the sizes {self.sizes}, got {self.shown}")

    @property
    def lams(self) -> tuple[float, ...]:
        return (*(-v for v in self.sizes[::-1]), 0.0, *self.sizes)


@part
def solution(p: Balanced):
    """Largest difference of `Q Q^T` from the flow, and how many lams are wrongly refused or taken."""
    t, off = np.append(0.0, np.geomspace(0.01, p.until, 30)), []
    for sizes in (*SIZES.values(), *OTHERS):
        graph = nr.Graph.chain(sizes)
        syx = np.random.default_rng(0).standard_normal((sizes[2], sizes[0]))
        starts = [nr.init.balanced(graph, lam, 0.3, seed=1) for lam in p.checked if feasible(sizes, lam)]
        many = {e: np.stack([w[e] for w in starts]) for e in graph.edges}
        task = nr.tasks.linear(syx, graph=graph)
        w1, w2 = nr.flow(task, many, save=t, method=nr.Adaptive(1e-12, 1e-14)).weights.values()
        q = np.concatenate([np.swapaxes(w1, -1, -2), w2], axis=-2)
        for start, qq in zip(starts, q @ np.swapaxes(q, -1, -2), strict=True):
            off.append(np.abs(nr.exact.balanced_qq(t, start["x->h1"], start["h1->y"], syx) - qq).max())
    every = [(sizes, lam) for sizes in np.ndindex(5, 5, 5) if min(sizes) > 0 for lam in (-1.0, 0.0, 1.0)]
    wrong = sum(taken(sizes, lam) != feasible(sizes, lam) for sizes, lam in every)
    return {"off": max(off), "wrong": wrong}


def feasible(sizes: tuple[int, ...], lam: float) -> bool:
    """Whether `W2^T W2 - W1 W1^T = lam I` has a solution: the larger product must have full rank."""
    n_in, hidden, n_out = sizes
    return lam == 0 or hidden <= (n_out if lam > 0 else n_in)


def taken(sizes: tuple[int, ...], lam: float) -> bool:
    """Whether the library makes such weights."""
    try:
        nr.init.balanced(nr.Graph.chain(sizes), lam)
    except InputError:
        return False
    return True


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
    syx, similar, off = np.diag(s) @ v.T / 8, [], []
    for lam in lams:
        starts = zip(*nr.init.balanced(tree.graph, lam, p.scale, seed=range(20)).values(), strict=True)
        w1, w2 = next((a, b) for a, b in starts if np.linalg.slogdet(b @ a @ syx.T)[0] > 0)  # or it waits
        q1, q2 = nr.exact.balanced(TIMES, w1, w2, syx, sxx=np.eye(8) / 8)
        similar.append(gram(np.swapaxes(q1, 1, 2)))
        large = np.sqrt(lam**2 / 4 + s**2)
        off.append(np.abs(similar[-1][-1] - (v * (large - lam / 2)) @ v.T).max())
        off.append(np.abs(q2[-1] @ q2[-1].T - np.diag(large + lam / 2)).max())
    like = {"covariance": tree.covariance, "root": (v * s) @ v.T, "identity": np.eye(8)}
    return {
        "t": ("t", TIMES),
        "lam": ("lam", list(lams)),
        "similarity": ("lam item other", np.stack(similar)[:, -1]),
        "off": max(off),
        **{name: ("lam t", cosine(similar, m)) for name, m in like.items()},
    }


@figure("balanced-modes")
def shapes(p: Balanced, data: Data):
    fig, (a, b, c) = plot.figure(1, 3, height=2.3)
    modes = data.modes
    for lam, learned, colour in zip(p.relative, modes.a.values, plot.shades(len(p.relative)), strict=True):
        t = modes.t / half_time(modes.t, learned, start=0.0, end=1.0)
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
    return half_time(TIMES, turn, start=0.0)


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


@claims
def formulas(p: Balanced, data: Data):
    exact = check("talk Eq. 13-15")
    shape = finding("talk: from exponential to sigmoidal", "theory, to 1% of s")
    name = f"closed form - integrated flow, t up to {p.until:g}, most"
    yield exact.below("closed-form", name, 1e-8, data.solution.off)
    name = "sizes up to 4-4-4 and signs of lam wrongly refused or taken"
    yield exact.near("feasible", name, 0, data.solution.wrong, 0)
    name = "|lam|/s where a mode ceases to be sigmoidal"
    yield shape.near("sigmoid-limit", name, 2**-0.5, data.modes.mode_limit, 0.01)
    name = "|lam|/s where the loss has no plateau left"
    yield shape.near("plateau-limit", name, 6**-0.5, data.modes.loss_limit, 0.01)


@claims
def rich_and_lazy(p: Balanced, data: Data):
    source, turned = "talk: architecture and learning regime", "turn of the tangent kernel"
    decides = paper(
        "talk: conclusion",
        "Initialization determines whether these saddle points influence dynamics, yielding several learning "
        "regimes",
    )
    square, regime = data.regimes["square"], finding("talk: rich and lazy learning")
    for name in SIZES:
        end = data.regimes[name].turn[..., -1].sel(lam=0.0)
        yield regime.above(f"rich-{kebab(name)}", f"{name}, lam = 0: {turned}", 0.1, end, "Rich.")
    for key, lam in (("negative", -p.sizes[-1]), ("positive", p.sizes[-1])):
        end, name = square.turn[..., -1].sel(lam=lam), f"square, lam = {lam:g}: {turned}"
        yield regime.below(f"lazy-square-{key}", name, 0.01, end, "Lazy.")
    large = plateau_share(TIMES, square.loss.sel(lam=[-p.sizes[-1], p.sizes[-1]]), 0.01)
    name, text = f"square, |lam| = {p.sizes[-1]:g}", "share of time on plateaus, until 1% of the loss is left"
    none = "Theory: none where |lam| > s/sqrt(6)."
    yield decides.below("plateaus-large", f"{name}: {text}", 0.01, large, bound=none)
    more = plateau_share(TIMES, square.loss.sel(lam=0.0), 0.01) - large.max()
    name, sign = f"{text}, square, lam = 0, less the most at |lam| = {p.sizes[-1]:g}", "The talk: more."
    yield decides.above("plateaus-zero", name, 0, more, bound=sign)
    waits = square.loss.sel(lam=0.0)[:, TIMES.searchsorted(20.0)] > 0.01
    odd = waits != (square.determinant.sel(lam=0.0) < 0)
    name = "square, lam = 0: networks that wait at a saddle, or not, against the sign of their determinant"
    yield finding(source, "theory: the sign is conserved").near("saddle-sign", name, 0, odd.sum(), 0)


@claims
def delayed_rich(p: Balanced, data: Data):
    delayed = finding("talk: delayed rich regime", "theory of large lam; a tenth, of exponents a twentieth")
    regime = finding("talk: architecture and learning regime")
    far, high = p.sizes[-1], np.array([v for v in p.sizes if v >= 8])
    pause = np.abs(TIMES - 1 / p.strengths[0]).argmin()  # between 1/lam and lam/s^2
    for name, sign in (("funnel", -1), ("inverted funnel", 1)):
        runs, key, turned = data.regimes[name], kebab(name), "turn of the tangent kernel"
        rich, lazy = runs.sel(lam=sign * far), runs.sel(lam=-sign * far)
        late = f"{name}, lam = {sign * far:g}:"
        yield delayed.near(f"delayed-turn-{key}", f"{late} {turned}", SPANNED, rich.turn[:, -1], 0.1)
        text, left = f"{late} loss left at the pause / initial", rich.loss[:, pause]
        yield delayed.near(f"delayed-loss-{key}", text, SPANNED, left, 0.1)
        exponent = power_law_exponent(high, turn_time(runs.turn.sel(lam=sign * high)).T)
        text = f"{name}: exponent of |lam| in the time of the late turn"
        yield delayed.near(f"delayed-time-{key}", text, 1, exponent, 0.05)
        text = f"{name}, lam = {-sign * far:g}: {turned}"
        yield regime.below(f"lazy-{key}", text, 0.01, lazy.turn[:, -1], "Lazy.")


@claims
def representations(p: Balanced, data: Data):
    source, end = "talk: rich and lazy learning", data.items.isel(t=-1)
    name = "hidden layer and readout at the end - closed form"
    yield check(source).below("hidden-closed-form", name, 1e-8, end.off)
    limits = finding(source, "theory of large |lam| and of 0, to 1%")
    for key, text, value in (
        ("negative", f"lam = {-p.world:g}: cosine with the identity", end.identity[0]),
        ("zero", "lam = 0: cosine with the root of the covariance", end.root[1]),
        ("positive", f"lam = {p.world:g}: cosine with the covariance", end.covariance[2]),
    ):
        yield limits.above(f"items-{key}", f"items of a tree, {text}", 0.99, value)


EXPERIMENT = Experiment(
    "balanced",
    "Balanced weights: from rich to lazy, and later rich",
    "talk: nontrivial initializations",
    Balanced(),
    Balanced(seeds=3, until=20.0, checked=(-5.0, 0.0, 1e-9, 5.0)),
    minutes=(0.2, 0.5),
)
