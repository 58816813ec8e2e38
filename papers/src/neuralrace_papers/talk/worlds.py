"""Structured worlds: sixteen items whose features come from a partition, a tree, a ring or a grid. What a
linear network learns of such a world are the singular values and vectors of its features, known in closed
form: the vectors mirror the structure, and the values fall from coarse to fine. A deep network learns each
mode in a time inverse to its singular value, so broad distinctions come before fine ones (progressive
differentiation), and on the way an item is believed to have features that only its relatives have (illusory
correlations). A shallow network learns all modes at the same rate and does neither."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import measure, plot
from neuralrace.tasks import World
from neuralrace_papers.framework import Data, Experiment, figure, part, require, rows

ITEMS = 16
NEIGHBOURS = ("ring", "grid")
WRONG = 0.1  # of a feature's standard deviation: beliefs further on the wrong side count
MAKE: dict[str, Callable[..., World]] = {
    "partition": lambda p, **k: nr.tasks.partition(4, 4, p.flip, hidden=p.hidden, **k),
    "tree": lambda p, **k: nr.tasks.tree((2, 2, 2, 2), p.flip, hidden=p.hidden, **k),
    "ring": lambda p, **k: nr.tasks.ring(16, p.sigma, hidden=p.hidden, **k),
    "grid": lambda p, **k: nr.tasks.grid(4, 4, p.sigma, hidden=p.hidden, **k),
}


@dataclass(frozen=True)
class Worlds:
    seeds: Annotated[int, "random starts of each network"] = 10
    flip: Annotated[float, "probability that a feature flips from a node to one below it"] = 0.1
    sigma: Annotated[float, "how far items of the ring and the grid stay alike"] = 2.0
    features: Annotated[int, "features sampled to compare singular values"] = 100_000
    trees: Annotated[int, "random trees whose variances are compared"] = 200
    hidden: Annotated[int, "hidden units"] = 32
    std: Annotated[float, "standard deviation of initial weights"] = 1e-3
    beliefs: Annotated[int, "features that are sampled to look for wrong beliefs"] = 2000
    looks: Annotated[int, "times at which items in the hidden layer are drawn"] = 30
    rounds: Annotated[int, "rounds of multidimensional scaling"] = 400

    def __post_init__(self) -> None:
        require(self.hidden >= ITEMS, f"hidden must be at least {ITEMS}, got {self.hidden}")
        require(0 < self.flip < 0.5, f"flip must be above 0 and below 0.5, got {self.flip:g}")

    @property
    def a0(self) -> float:
        """Expected strength of the growing part of random weights in a mode."""
        return self.hidden * self.std**2 / 2


@part(each=tuple(MAKE))
def world(p: Worlds, name: str):
    """Closed forms against covariance and samples; what networks learn and believe."""
    made = MAKE[name](p)
    s = made.singular_values
    t = np.linspace(0, 1.4 * np.log(ITEMS * s[-1] / p.a0) / (2 * s[-1]), 281)
    hidden, readout, theory = train(p, made, t)
    maps = readout @ hidden @ made.vectors  # outputs are the modes themselves
    items = np.swapaxes(hidden, -1, -2)
    drawn = items[0, np.linspace(0, len(t) - 1, p.looks).astype(int)]
    drawn = drawn - drawn.mean(axis=1, keepdims=True)
    scaled = name not in NEIGHBOURS
    plane = (
        measure.multidimensional_scaling(drawn, p.rounds) if scaled else measure.principal_components(drawn)
    )
    of_stage = [made.stages == k for k in np.unique(made.stages)]
    u, sampled, _ = np.linalg.svd(MAKE[name](p, features=p.features).arrays[1], full_matrices=False)
    return {
        "t": ("t", t),
        "sampled": ("mode", sampled),
        "mirrored": ("stage", [measure.share_within(made.vectors.T[k], u[:, k]) for k in of_stage]),
        "off_map": ("run", np.abs(maps - theory).max(axis=(1, 2, 3)) / np.sqrt(made.values[0])),
        "networks": ("run t stage", learned(made, maps)),
        "theory": ("run t stage", learned(made, theory)),
        "parting": ("run t likeness", parting(made, items)),
        "plane": ("look item axis", plane),
        **beliefs(p, name, t),
    }


def train(p: Worlds, made: World, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both layers of networks from small random weights; maps in closed form from their growing part."""
    start = nr.init.gaussian(made.graph, p.std, seed=range(p.seeds))
    hidden, readout = nr.flow(made, start, save=t).weights.values()
    syx, theory = np.diag(made.singular_values) @ made.vectors.T, []
    for grown in measure.growing_part(start["x->h1"], start["h1->y"], made.vectors):
        q1, q2 = nr.exact.balanced(t, grown @ made.vectors.T, grown.T, syx, sxx=np.eye(ITEMS) / ITEMS)
        theory.append(q2 @ q1 @ made.vectors)
    return hidden, readout, np.stack(theory)


def learned(made: World, maps: np.ndarray) -> np.ndarray:
    """How much of each stage (distinct singular value) is learned, (runs, time, stages)."""
    modes = np.diagonal(maps, axis1=-2, axis2=-1) / np.sqrt(made.values)
    return np.stack([modes[..., made.stages == k].mean(axis=-1) for k in np.unique(made.stages)], axis=-1)


def parting(made: World, items: np.ndarray) -> np.ndarray:
    """Mean squared distance in the hidden layer of items with each covariance, (runs, time, covariances)."""
    distance, others = measure.squared_distances(items), ~np.eye(ITEMS, dtype=bool)
    alike = made.covariance.round(9)
    return np.stack(
        [distance[..., others & (alike == k)].mean(axis=-1) for k in np.unique(alike[others])], axis=-1
    )


def beliefs(p: Worlds, name: str, t: np.ndarray) -> dict[str, Any]:
    """How far outputs of aligned networks go to the wrong side, and outputs for the worst feature."""
    y = MAKE[name](p, features=p.beliefs).arrays[1] * np.sqrt(p.beliefs)  # (items, features)
    u, s, vt = np.linalg.svd(y, full_matrices=False)
    end, depths, outputs = s / np.sqrt(p.beliefs), (2, 1), []
    for depth in depths:
        a = nr.exact.chain(t[:, None], end / ITEMS, 1 / ITEMS, p.a0, depth) / end
        outputs.append((u * a[:, None]) @ (s[:, None] * vt))
    wrong = [(-np.sign(y) * output).max(axis=0) / y.std() for output in outputs]
    item, feature = np.unravel_index(wrong[0].argmax(), y.shape)  # of the deep network
    return {
        "depth": ("depth", list(depths)),
        "wrong": ("depth item feature", wrong),
        "worst_item": item,
        "output": ("depth t item", [output[:, :, feature] for output in outputs]),
    }


@part
def random_trees(p: Worlds):
    """Trees of any depth and branching: by how much variance falls from one level to the next, least."""
    fall = []
    for seed in range(p.trees):
        rng = np.random.default_rng(seed)
        branching = rng.integers(2, 5, size=rng.integers(1, 5)).tolist()
        tree = nr.tasks.tree(branching, rng.uniform(0.01, 0.45, len(branching)).tolist())
        across = distinctions(branching)
        first = np.einsum("ki,ij,kj->k", across, tree.covariance, across)
        fall.append((first[:-1] / first[1:]).min() - 1)
    return {"fall": ("tree", fall)}


def distinctions(branching: list[int]) -> np.ndarray:
    """Unit vectors (levels, items): all items of a tree alike, then two sister nodes of each level apart."""
    items = int(np.prod(branching))
    rows = [np.ones(items)]
    for nodes in np.cumprod(branching):
        below = items // nodes
        rows.append(np.repeat([1.0, -1.0, 0.0], [below, below, items - 2 * below]))
    return np.stack([row / np.linalg.norm(row) for row in rows])


def colour_key(fig: Figure, ax: Any, colours: list[Any], label: str) -> None:
    """A bar beside a panel that tells which of the colours is the first, and which the last."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, ListedColormap

    n = len(colours)
    scale = ScalarMappable(BoundaryNorm(np.arange(n + 1) + 0.5, n), ListedColormap(list(colours)))
    bar = fig.colorbar(scale, ax=ax, label=label, ticks=[1, n], shrink=0.8, aspect=25)
    bar.ax.tick_params(which="both", length=0)


def structure(p: Worlds, data: Data, name: str) -> tuple[Figure, str]:
    made, world = MAKE[name](p), data.world[name]
    fig, ((a, b), (d, c)) = plot.figure(2, 2, height=4.6, width_ratios=(1, 1.35))
    image = plot.matrix(a, made.covariance, "covariance of items", 1.0)
    a.set(aspect="equal", xlabel="item", ylabel="item")
    fig.colorbar(image, ax=a, shrink=0.8)
    mode, colours = np.arange(1, ITEMS + 1), plot.shades(world.sizes["stage"])
    plot.theory(b, mode, np.sqrt(made.values), plot.BLACK, "closed form", drawstyle="steps-mid", lw=0.9)
    label = f"{p.features:,} features"
    b.scatter(mode, world.sampled, c=[colours[k] for k in made.stages], s=16, zorder=4, label=label)
    plot.label(b, "mode", r"singular value $\sqrt{\lambda}$", legend="best", ylim=(0, None))
    for k, colour in enumerate(colours):
        c.plot(world.t, world.theory[0, :, k], color=colour)
        c.plot(world.t[::7], world.networks[0, ::7, k], "o", color=colour, ms=2)
    plot.key(c, {"closed form": "theory", "network": "points"})
    c.set_ylim(-0.03, 1.06)
    plot.label(c, "time (τ = 1)", "share learned of each stage", legend="lower right")
    for ax in (b, c):
        colour_key(fig, ax, colours, "stage")
    x, hues, method = world.plane.values, plot.shades(ITEMS), "least squares of distances."
    if name in NEIGHBOURS:
        method = "two leading components, neighbours joined."
        for pair in np.argwhere(np.triu(np.abs(np.linalg.inv(made.covariance)) > 1e-6, 1)):
            d.plot(*x[-1, pair].T, color="0.6", lw=0.8, zorder=1)
    for i in range(ITEMS):
        d.plot(*x[:, i].T, color=hues[i], lw=0.9, zorder=2)
    d.scatter(*x[-1].T, c=hues, s=18, zorder=3)
    colour_key(fig, d, hues, "item")
    d.set(aspect="equal", xticks=[], yticks=[], title="items in the hidden layer over time")
    d.spines[:].set_visible(False)
    d.set_adjustable("datalim")
    caption = (
        f"{name.capitalize()} of {ITEMS} items. Above: covariance of features, and singular values in closed "
        "form (line) and of sampled features (dots), coloured by stage. Below: items in the hidden layer of "
        "a network from small random weights, from one point to their places at the end (dots); "
        f"{method} And how much of each stage that network (dots) and the closed form have learned."
    )
    return fig, caption


_partition, _tree, _ring, _grid = (
    figure(f"worlds-{name}")(lambda p, data, name=name: structure(p, data, name)) for name in MAKE
)


@figure("worlds-beliefs")
def wrong_beliefs(p: Worlds, data: Data):
    fig, (a, b) = plot.figure(1, 2, height=2.5)
    tree = data.world["tree"]
    item = int(tree.worst_item)
    deep, shallow = tree.output.values
    others, has = np.arange(ITEMS) != item, deep[-1] > 0
    a.plot(tree.t, deep[:, others & has], color=plot.BLUE, lw=0.7, label="others that have it")
    a.plot(tree.t, deep[:, others & ~has], color=plot.ORANGE, lw=0.7, label="others without")
    a.plot(tree.t, deep[:, item], color=plot.RED, lw=1.8, label="this item, deep")
    a.plot(tree.t, shallow[:, item], color=plot.RED, ls=":", label="this item, shallow")
    a.axhline(0, color="0.6", lw=0.6)
    a.set(ylim=(-1.3, 2.2), yticks=(-1, 0, 1))
    above = {"loc": "upper right", "ncols": 2}
    plot.label(a, "time (τ = 1)", "output for one feature of the tree", legend=above)
    styles = zip(MAKE, (plot.BLUE, plot.GREEN, plot.PINK, plot.ORANGE), ("-", "--", "-.", ":"), strict=True)
    for name, colour, ls in styles:
        wrong = np.sort(data.world[name].wrong.sel(depth=2).values.ravel())[::-1]
        b.plot(wrong, np.arange(1, len(wrong) + 1) / len(wrong), color=colour, ls=ls, label=name)
    b.axvline(WRONG, color=plot.BLACK, lw=0.6, label=f"{WRONG:g}, counted beyond")
    b.set(xlim=(0, 1), ylim=(0, 0.5))
    texts = "furthest on the wrong side (sd of features)", "share of items and features"
    plot.label(b, *texts, legend="best")
    return fig, (
        "Illusory correlations. Left: outputs of a deep linear network for the feature of a tree that is "
        "believed most wrongly on the way, item by item; dotted, the same item in a shallow network. Right: "
        "share of all pairs of item and feature whose output was on the wrong side by more than the "
        f"abscissa at some time; the line is at {WRONG:g}. Shallow networks have none."
    )


def half_times(world: Any, quantity: str) -> np.ndarray:
    """Times to half of the final value of each stage (runs, stages)."""
    return measure.half_time(world.t, world[quantity], first=0.0, axis=1)


def least_step(half: np.ndarray) -> np.ndarray:
    """Least relative step between the half times (runs, stages) of one stage and the next."""
    return (np.diff(half, axis=1) / half[:, :-1]).min(axis=1)


@rows
def closed_forms(p: Worlds, data: Data):
    sampled, off, late = [], [], []
    for name, world in data.world.items():
        sampled.append(float(np.abs(world.sampled / np.sqrt(MAKE[name](p).values) - 1).max()))
        off.append(float(world.off_map.max()))
        late.append(np.abs(half_times(world, "networks") / half_times(world, "theory") - 1).max())
    yield "sampled-values", max(sampled)
    yield "map", max(off)
    yield "half-times", max(late)


@rows
def differentiation(p: Worlds, data: Data):
    for name, world in data.world.items():
        step = least_step(half_times(world, "networks"))
        yield f"order-{name}", step.min() if name == "tree" else step
        if name not in NEIGHBOURS:
            yield f"vectors-{name}", world.mirrored.min()
        yield f"illusory-deep-{name}", (world.wrong.sel(depth=2) > WRONG).mean()
    yield "tree-parting", least_step(half_times(data.world["tree"], "parting")).min()
    yield "random-trees-order", data.random_trees.fall.min()


EXPERIMENT = Experiment(
    "worlds",
    "Structured worlds: partitions, trees, rings, grids",
    "talk: structured worlds",
    Worlds(),
    quick={"seeds": 2, "trees": 50, "beliefs": 500, "looks": 15, "rounds": 200},
    minutes=(0.2, 0.4),
)
