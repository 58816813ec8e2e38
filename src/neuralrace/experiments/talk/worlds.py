"""Structured worlds: sixteen items whose features come from a partition, a tree, a ring or a grid. A linear
network sees such a world through the singular values and vectors of its features, known in closed form: the
vectors mirror the structure, and the values fall from coarse to fine. A deep network learns each mode in a
time inverse to its singular value, so broad distinctions come before fine ones (progressive
differentiation), and on the way an item is believed to have features that only its relatives have (illusory
correlations). A shallow network learns all modes at the same rate and does neither."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from scipy.spatial.distance import pdist, squareform

import neuralrace as nr
from neuralrace import plot
from neuralrace.errors import InputError
from neuralrace.experiments.old import Claim, Experiment, Parameters, Parts, Results, check, option, paper
from neuralrace.measure import crossing
from neuralrace.tasks import World

ITEMS = 16
LINK, ORDER = "talk: analytic link", "talk: progressive differentiation"
BEYOND = "Saxe et al. 2019, illusory correlations"
NEIGHBOURS = ("ring", "grid")
WRONG = 0.1  # of a feature's standard deviation: beliefs further on the wrong side count
MAKE: dict[str, Callable[..., World]] = {
    "partition": lambda p, **k: nr.tasks.partition(4, 4, p.flip, hidden=p.hidden, **k),
    "tree": lambda p, **k: nr.tasks.tree((2, 2, 2, 2), p.flip, hidden=p.hidden, **k),
    "ring": lambda p, **k: nr.tasks.ring(16, p.sigma, hidden=p.hidden, **k),
    "grid": lambda p, **k: nr.tasks.grid(4, 4, p.sigma, hidden=p.hidden, **k),
}


@dataclass(frozen=True)
class Worlds(Parameters):
    flip: float = option(
        0.1, "probability that a feature flips from a node to one below it: partition and tree"
    )
    sigma: float = option(2.0, "how far items of the ring and the grid stay alike")
    features: int = option(100_000, "features that are sampled to compare singular values")
    trees: int = option(200, "random trees whose eigenvalues are checked")
    hidden: int = option(32, "hidden units", least=ITEMS)
    std: float = option(1e-3, "standard deviation of initial weights")
    beliefs: int = option(2000, "features that are sampled to look for wrong beliefs")
    looks: int = option(30, "times at which items in the hidden layer are drawn")
    rounds: int = option(400, "rounds of multidimensional scaling")

    def check(self) -> None:
        if self.flip >= 0.5:
            raise InputError(f"flip must be below 0.5, got {self.flip:g}")
        if self.features < 100 * ITEMS:
            raise InputError(f"features must be at least {100 * ITEMS}, got {self.features}")
        if self.std > 0.02:
            raise InputError(f"std must be at most 0.02, or there is no plateau to see; got {self.std:g}")

    @property
    def sampling(self) -> float:
        """Relative deviation of singular values of samples that is exceeded with p < exp(-8), if normal."""
        return (ITEMS**0.5 + 4) / self.features**0.5

    @property
    def a0(self) -> float:
        """Expected growing part of random weights in a mode."""
        return self.hidden * self.std**2 / 2


def compute(p: Worlds, parts: Parts) -> Results:
    found = {name: parts(name, study, name, p) for name in MAKE}
    return {**found, "trees": parts("trees", random_trees, p)}


def study(name: str, p: Worlds) -> dict[str, Any]:
    world = MAKE[name](p)
    values, vectors, covariance = world.values, world.vectors, world.covariance
    sample = MAKE[name](p, features=p.features).arrays[1]
    s = world.singular_values
    t = np.linspace(0, 1.4 * np.log(ITEMS * s[-1] / p.a0) / (2 * s[-1]), 281)
    return {
        "off_values": np.abs(np.linalg.eigvalsh(covariance)[::-1] - values).max(),
        "off_vectors": np.abs(covariance @ vectors - vectors * values).max(),
        "sampled": np.linalg.svd(sample, compute_uv=False),
        "t": t,
        **train(world, t, p, name in NEIGHBOURS),
        **beliefs(name, t, p),
    }


def train(world: World, t: np.ndarray, p: Worlds, neighbours: bool) -> dict[str, Any]:
    """Modes of networks from small random weights, with the closed form from the growing part of these."""
    start = nr.init.gaussian(world.graph, p.std, seed=range(p.seeds))
    hidden, readout = nr.flow(world, start, save=t).weights.values()
    maps = readout @ hidden @ world.vectors  # outputs are the modes themselves
    theory = []
    for w1, w2 in zip(start["x->h1"], start["h1->y"], strict=True):
        grown = (w1 @ world.vectors + w2.T) / 2
        q1, q2 = nr.exact.balanced(
            t, grown @ world.vectors.T, grown.T, np.diag(world.singular_values) @ world.vectors.T,
            sxx=np.eye(ITEMS) / ITEMS,
        )  # fmt: skip
        theory.append(q2 @ q1 @ world.vectors)
    scale = np.sqrt(world.values[0])
    pick = lambda m: np.stack([stage_progress(world, v) for v in m])  # noqa: E731
    at = np.linspace(0, len(t) - 1, p.looks).astype(int)
    shown = hidden[0, at]
    return {
        "off_map": np.abs(maps - theory).max(axis=(1, 2, 3)) / scale,
        "progress": pick(maps),
        "theory": pick(theory),
        "parting": parting(world, hidden),
        "scaled": scaling(shown - shown.mean(axis=2, keepdims=True), 0 if neighbours else p.rounds),
    }


def stage_progress(world: World, maps: Any) -> np.ndarray:
    """How much of each stage (distinct singular value) is learned, `(time, stages)`."""
    learned = np.diagonal(maps, axis1=-2, axis2=-1) / np.sqrt(world.values)
    return np.stack([learned[:, world.stages == k].mean(axis=1) for k in range(world.stages[-1] + 1)], axis=1)


def parting(world: World, hidden: np.ndarray) -> np.ndarray:
    """Mean squared distance in the hidden layer between items of each covariance, `(runs, time, kinds)`."""
    gram = np.einsum("rthi,rthj->rtij", hidden, hidden)
    size = np.diagonal(gram, axis1=-2, axis2=-1)
    distance = size[..., :, None] + size[..., None, :] - 2 * gram
    away = ~np.eye(ITEMS, dtype=bool)
    kinds = np.unique(world.covariance[away].round(9))
    where = [away & np.isclose(world.covariance, k, rtol=0, atol=1e-8) for k in kinds]
    return np.stack([distance[..., w].mean(axis=-1) for w in where], axis=-1)


def scaling(hidden: np.ndarray, rounds: int) -> np.ndarray:
    """Hidden activity `(time, hidden, items)` in the plane `(time, items, 2)`.

    Without rounds the two leading components of all points; else distances fit by least squares: the end
    first, best of several random starts, then all times from there on straight lines to the centre.
    """
    points = np.swapaxes(hidden, 1, 2)
    if not rounds:
        return points @ np.linalg.svd(points.reshape(-1, points.shape[-1]))[2][:2].T
    rng = np.random.default_rng(0)
    ends = [majorised(points[-1], rng.standard_normal((ITEMS, 2)), rounds) for _ in range(20)]
    wanted = pdist(points[-1])
    end = min(ends, key=lambda x: ((pdist(x) - wanted) ** 2).sum())
    size = np.linalg.norm(points, axis=-1, keepdims=True)
    x = majorised(points.reshape(-1, points.shape[-1]), (end * size / size[-1]).reshape(-1, 2), rounds)
    return x.reshape(len(points), ITEMS, 2)


def majorised(points: np.ndarray, x: np.ndarray, rounds: int) -> np.ndarray:
    """`x` `(n, 2)` after so many rounds of SMACOF, which never raise the squared error of distances."""
    from sklearn.manifold import smacof

    far = squareform(pdist(points))
    found: Any = smacof(far, n_components=2, init=x, n_init=1, max_iter=rounds, eps=0)
    return found[0]


def beliefs(name: str, t: np.ndarray, p: Worlds) -> dict[str, Any]:
    """How far outputs of aligned networks go to the wrong side, by item and feature; the worst feature."""
    y = MAKE[name](p, features=p.beliefs).arrays[1] * np.sqrt(p.beliefs)  # (items, features)
    u, s, vt = np.linalg.svd(y, full_matrices=False)
    worst, found = (0, 0), {}
    for depth in (2, 1):
        end = s / np.sqrt(p.beliefs)
        a = nr.exact.chain(t[:, None], end / ITEMS, 1 / ITEMS, p.a0, depth) / end
        believed = np.einsum("ik,tk,kf->tif", u, a, s[:, None] * vt)
        wrong = (-np.sign(y) * believed).max(axis=0) / y.std()
        if depth == 2:
            worst = np.unravel_index(wrong.argmax(), wrong.shape)
        found |= {f"wrong{depth}": wrong, f"belief{depth}": believed[:, :, worst[1]]}
    return {**found, "worst": worst[0]}


def random_trees(p: Worlds) -> dict[str, Any]:
    """Trees of any depth and branching: error of the closed form, and least fall of values by level."""
    off, fall = [], []
    for seed in range(p.trees):
        rng = np.random.default_rng(seed)
        branching = rng.integers(2, 5, size=rng.integers(1, 5)).tolist()
        world = nr.tasks.tree(branching, rng.uniform(0.01, 0.45, len(branching)).tolist())
        off.append(np.abs(np.linalg.eigvalsh(world.covariance)[::-1] - world.values).max() / world.values[0])
        levels = np.cumprod([1, *branching]) - 1  # the first mode of each level
        fall.append((world.values[levels[:-1]] / world.values[levels[1:]]).min() - 1)
    return {"off": off, "fall": fall}


def half_times(t: np.ndarray, progress: np.ndarray) -> np.ndarray:
    """Time to half of the final value, `(runs, stages)`."""
    return np.array([[crossing(t, -v, -0.5 * v[-1]) for v in run.T] for run in progress])


def figures(p: Worlds, r: Results) -> dict[str, tuple[Figure, str]]:
    found = {f"worlds-{name}": structure(p, name, r[name]) for name in MAKE}
    return {**found, "worlds-beliefs": wrong_beliefs(p, r)}


def structure(p: Worlds, name: str, r: Results) -> tuple[Figure, str]:
    world = MAKE[name](p)
    fig, ((a, b), (c, d)) = plot.figure(2, 2, height=4.6)
    image = plot.matrix(a, world.covariance, "covariance of items", 1.0)
    a.set(aspect="equal", xlabel="item", ylabel="item")
    fig.colorbar(image, ax=a, shrink=0.8)
    number, stages = np.arange(1, ITEMS + 1), world.stages[-1] + 1
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.92, stages))
    plot.theory(b, number, np.sqrt(world.values), plot.BLACK, "closed form", drawstyle="steps-mid", lw=0.9)
    label = f"{p.features:,} features"
    b.scatter(number, r["sampled"], c=colours[world.stages], s=16, zorder=4, label=label)
    b.set(xlabel="mode", ylabel=r"singular value $\sqrt{\lambda}$", ylim=(0, None))
    b.legend()
    for k in range(stages):
        c.plot(r["t"], r["theory"][0, :, k], color=colours[k])
        c.plot(r["t"][::7], r["progress"][0, ::7, k], "o", color=colours[k], ms=2)
    c.plot([], [], color=plot.BLACK, label="closed form")
    c.plot([], [], "o", color=plot.BLACK, ms=2, label="network")
    c.set(xlabel="time (τ = 1)", ylabel="learned of each stage", ylim=(-0.03, 1.06))
    c.legend(loc="lower right")
    hues = matplotlib.colormaps["viridis"](np.linspace(0, 0.95, ITEMS))
    x = r["scaled"]
    if name in NEIGHBOURS:
        near = np.argwhere(np.triu(np.abs(np.linalg.inv(world.covariance)) > 1e-6, 1))
        for i, j in near:
            d.plot(*x[-1, [i, j]].T, color="0.6", lw=0.8, zorder=1)
    for i in range(ITEMS):
        d.plot(*x[:, i].T, color=hues[i], lw=0.9, zorder=2)
    d.scatter(*x[-1].T, c=hues, s=18, zorder=3)
    d.set(aspect="equal", xticks=[], yticks=[], title="items in the hidden layer over time")
    d.spines[:].set_visible(False)
    d.set_adjustable("datalim")
    caption = (
        f"{name.capitalize()} of {ITEMS} items. Above: covariance of features, and singular values in closed "
        "form (line) and of sampled features (dots, coloured by stage from dark to bright). Below: how much "
        "of each stage is learned by a network from small random weights (dots) and by the closed form; and "
        "items in its hidden layer, from one point to their places at the end (dots), coloured in order; "
        + (
            "two leading components, neighbours joined."
            if name in NEIGHBOURS
            else "least squares of distances."
        )
    )
    return fig, caption


def wrong_beliefs(p: Worlds, r: Results) -> tuple[Figure, str]:
    fig, (a, b) = plot.figure(1, 2, height=2.5)
    found, item = r["tree"], int(r["tree"]["worst"])
    deep, end, drawn = found["belief2"].T, found["belief2"][-1], set()
    for i in [j for j in range(ITEMS) if j != item]:
        label, colour = ("others that have it", plot.BLUE) if end[i] > 0 else ("others without", plot.ORANGE)
        a.plot(found["t"], deep[i], color=colour, lw=0.7, label=None if label in drawn else label)
        drawn.add(label)
    a.plot(found["t"], deep[item], color=plot.RED, lw=1.8, label="this item, deep")
    a.plot(found["t"], found["belief1"][:, item], color=plot.RED, ls=":", label="this item, shallow")
    a.axhline(0, color=plot.BLACK, lw=0.6)
    a.set(xlabel="time (τ = 1)", ylabel="output for one feature of the tree", ylim=(-1.3, 2.2))
    a.set(yticks=(-1, 0, 1))
    a.legend(loc="upper right", ncols=2)
    styles = zip(MAKE, (plot.BLUE, plot.GREEN, plot.PINK, plot.ORANGE), ("-", "--", "-.", ":"), strict=True)
    for name, colour, ls in styles:
        wrong = np.sort(r[name]["wrong2"].ravel())[::-1]
        b.plot(wrong, np.arange(1, len(wrong) + 1) / len(wrong), color=colour, ls=ls, label=name)
    b.axvline(WRONG, color=plot.BLACK, lw=0.6)
    b.set(xlabel="furthest on the wrong side (sd of features)", ylabel="share of items and features")
    b.set(xlim=(0, 1), ylim=(0, 0.5))
    b.legend()
    caption = (
        "Illusory correlations. Left: outputs of a deep linear network for the feature of a tree that is "
        "believed most wrongly on the way, item by item; dotted, the same item in a shallow network. Right: "
        "share of all pairs of item and feature whose output was on the wrong side by more than the "
        f"abscissa at some time; the line is at {WRONG:g}. Shallow networks have none."
    )
    return fig, caption


def claims(p: Worlds, r: Results) -> list[Claim]:
    close = (
        "Short waves on the ring have singular values that differ by 2%, and random starts of single modes "
        "differ by more."
    )
    found, wrong = [], "beliefs on the wrong side on the way"
    for name in MAKE:
        w, world = r[name], MAKE[name](p)
        off = np.abs(w["sampled"] / np.sqrt(world.values) - 1).max()
        half, theory = half_times(w["t"], w["progress"]), half_times(w["t"], w["theory"])
        steps = (np.diff(half, axis=1) / half[:, :-1]).min(axis=1)
        deep, shallow = ((w[f"wrong{d}"] > WRONG).mean() for d in (2, 1))
        note = close if name == "ring" and steps.min() <= 0 else ""
        rows = [
            (check, "eigenvalues", "eigenvalues, closed form - covariance", 1e-12, w["off_values"]),
            (check, "eigenvectors", "eigenvectors, |C v - lambda v|", 1e-12, w["off_vectors"]),
            (
                paper, "sampled-values", f"singular values of {p.features:,} features / closed form - 1",
                p.sampling, off,
            ),
            (check, "map", "map of networks - closed form / largest singular value", 0.01, w["off_map"]),
            (
                check, "half-times", "half times of stages, networks / closed form - 1", 1e-4,
                np.abs(half / theory - 1).max(1),
            ),
        ]  # fmt: skip
        found += [
            *(
                kind.below(f"{key}-{name}", f"{name}: {what}", LINK, bound, value)
                for kind, key, what, bound, value in rows
            ),
            paper.above(
                f"order-{name}", f"{name}: stages in order, least step of half times", ORDER, 0, steps, note
            ),
            paper.above(f"illusory-deep-{name}", f"{name}: {wrong}, deep", BEYOND, 0.05, deep),
            paper.near(f"illusory-shallow-{name}", f"{name}: {wrong}, shallow", BEYOND, 0, shallow, 0),
        ]
    tree, trees = r["tree"], r["trees"]
    apart = half_times(tree["t"], tree["parting"])
    steps, many = (np.diff(apart, axis=1) / apart[:, :-1]).min(axis=1), f"{p.trees} random trees:"
    return [
        *found,
        paper.above(
            "tree-parting", "tree: items part level by level, least step of half times", ORDER, 0, steps
        ),
        check.below(
            "random-trees-eigenvalues", f"{many} eigenvalues, closed form / covariance - 1", LINK, 1e-12,
            trees["off"].max(),
        ),
        paper.above(
            "random-trees-order", f"{many} eigenvalue of a level / of the next - 1, least", ORDER, 0,
            trees["fall"].min(),
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "worlds",
    "Structured worlds: partitions, trees, rings, grids",
    "talk: structured worlds",
    Worlds(),
    Worlds(seeds=2, trees=50, beliefs=500, rounds=200),
    compute,
    figures,
    claims,
    (0.3, 0.4),
    needs_full=("order-ring",),  # its last stages change places in 4 of 10 networks
)
