"""Which pathways a ReLU network has can be found from how it trains: cluster the gates that its units have
over time. On items in three contexts four clusters follow the network, open everywhere and in each pair of
contexts. They are means: late in training nearly all weight is in units that split the items of some context,
which the theory says no unit does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework import Data, Experiment, figure, part, rows
from neuralrace_papers.make_haste_slowly.context_figures import by_context
from neuralrace_papers.make_haste_slowly.modes import CONTEXT, STRUCTURES, by_case

COLOURS = {"different": plot.BLUE, "same": plot.ORANGE}
PATTERNS = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]])[:, CONTEXT]
SHOWN = (2, 3, 4)  # numbers of clusters
PLAIN = {"one start": (1, True), "ten starts": (10, True), "one start, no silent units": (1, False)}


@dataclass(frozen=True)
class Discovery:
    seeds: Annotated[int, "clusterings of each structure"] = 10
    hidden: Annotated[int, "units of the ReLU networks"] = 700
    runs: Annotated[int, "networks that are clustered together, for each seed"] = 3
    std: Annotated[float, "standard deviation of initial weights"] = 0.005 / 700
    lr: Annotated[float, "learning rate, on the loss summed over samples"] = 1e-3
    steps: Annotated[int, "steps of training"] = 8000
    save: Annotated[int, "times at which gates are looked at"] = 81
    most: Annotated[int, "largest number of clusters that is tried"] = 6


@part(each=lambda p: [(kind, seed) for kind in STRUCTURES for seed in range(p.seeds)])
def clusters(p: Discovery, item: tuple[str, int]):
    """Networks from `runs` starts; clusters of their gates, weighted and plain; how mixed units are."""
    kind, seed = item
    x, y = nr.tasks.contexts(3, STRUCTURES[kind]).arrays
    starts = range(p.runs * seed, p.runs * (seed + 1))
    net = nr.relu.train(x, y, [p.hidden], p.std, p.lr, p.steps, p.save, starts)
    discovered = nr.relu.discover(net=net, max_clusters=p.most, seed=seed)
    counts = range(1, p.most + 1)
    mixed = [[nr.relu.mixed_share(net[r], CONTEXT, k) for k in range(len(net.t))] for r in range(p.runs)]
    return {
        "k": discovered.k,
        "four_patterns": np.array_equal(discovered.patterns, PATTERNS),
        "count": ("count", counts),
        # Ends where more are no better.
        "elbow": ("count", [discovered.elbow.get(k, np.nan) for k in counts]),
        **{f"centres{k}": (f"cluster{k} sample", discovered.candidates[k]) for k in SHOWN},
        **{f"plain{k}": (f"cluster{k} sample", plain_centres(net, seed, k)) for k in SHOWN},
        "plain": ("method", [has_patterns(net, seed, *how) for how in PLAIN.values()]),
        "epoch": ("epoch", net.time("steps")),
        "mixed": ("run epoch", mixed),
    }


def has_patterns(net: nr.Trajectory, seed: int, restarts: int, silent: bool) -> bool:
    """Whether Algorithm 1 has the four patterns for four clusters."""
    centres = plain_centres(net, seed, len(PATTERNS), restarts, silent)
    return {tuple(g) for g in centres > 0.5} == {tuple(g) for g in PATTERNS > 0}


def plain_centres(
    net: nr.Trajectory, seed: int, k: int, restarts: int = 1, silent: bool = True
) -> np.ndarray:
    """Centres `(k, samples)` by Algorithm 1 as printed, all units and times alike; open on most first.

    Without `silent` units, those that are active on no sample at the time are left out.
    """
    from sklearn.cluster import KMeans

    gates = np.concatenate([net.gates(i)[0] for i in range(len(net.t))])  # (save * runs, samples, units)
    rows, count = np.unique(gates.swapaxes(1, 2).reshape(-1, len(CONTEXT)), axis=0, return_counts=True)
    kept = silent | rows.any(axis=1)
    means: Any = KMeans  # its annotations are not those of its documentation
    made = means(k, n_init=restarts, random_state=seed).fit(rows[kept], sample_weight=count[kept])
    return np.asarray(sorted(made.cluster_centers_, key=lambda g: (-g.sum().round(6), *-g)))


@figure("discovery-clusters")
def centres(p: Discovery, data: Data):
    fig, axes = plot.figure(len(SHOWN), 2, width=5.6, height=3.4, height_ratios=SHOWN, sharex=True)
    methods = {"centres": "units by size", "plain": "Algorithm 1 as printed"}
    for column, (method, title) in zip(axes.T, methods.items(), strict=True):
        for ax, k in zip(column, SHOWN, strict=True):
            shown = data.clusters["different", 0][f"{method}{k}"]
            ax.imshow(shown, vmin=0, vmax=1, cmap="Blues", aspect="auto")
            by_context(ax)
            ax.set(title=f"{title}: {k} clusters", yticks=range(k), yticklabels=range(1, k + 1))
            ax.spines[["top", "right"]].set_visible(True)
    plot.label(axes[:-1], x="")
    plot.label(axes[:, 0], y="cluster")
    fig.colorbar(axes[0, 0].images[0], ax=axes, label="mean gate", shrink=0.6)
    return fig, (
        "Centres of clusters of gates, one row each, over eight items in each of three contexts, for "
        f"different structures (first of {p.seeds} seeds, {p.runs} networks). Left: units count by their "
        "size, silent ones not at all. Right: Algorithm 1 as printed, where all units count alike. Initial "
        f"weights of std {p.std:.2g}, as in the authors' code; Table 1 has 1e-7."
    )


@figure("discovery-elbow")
def elbow(p: Discovery, data: Data):
    fig, (a, b) = plot.figure(1, 2, height=2.6)
    for shift, (kind, d) in zip((-0.06, 0.06), by_case(data.clusters).items(), strict=True):
        name = f"{kind} structure{'s' * (kind == 'different')}"
        distance = d.elbow.dropna("count")
        plot.points(a, distance["count"] + shift, distance, COLOURS[kind], name, ls="-")
        mixed = d.mixed.stack(network=("seed", "run")).T
        plot.runs(b, d.epoch, mixed, COLOURS[kind], name)
    a.axvline(4, color=plot.BLACK, lw=0.8, ls="--", zorder=0, label="published elbow")
    limits = {"xticks": range(1, p.most + 1), "xlim": (0.5, p.most + 0.5), "ylim": (0, None)}
    apart = "distance of outputs / size of targets"
    plot.label(a, "number of clusters", apart, "elbow", legend="best", **limits)
    weight, title = "share of the weight", "units that split a context"
    plot.label(b, "epoch", weight, title, legend="lower right", ylim=(0, 1.02))
    return fig, (
        "Left: distance of ReLU networks from linear ones with the gates of each number of clusters, trained "
        f"beside them ({p.seeds} seeds of {p.runs} networks, mean and standard deviation); numbers end where "
        "more clusters are no better. Right: share of the weight in units that are open for some items of a "
        "context and closed for others (median, range)."
    )


@rows
def four_clusters(p: Discovery, data: Data):
    every = by_case(data.clusters)
    for kind, d in every.items():
        yield f"clusters-{kind}", d.k == len(PATTERNS)
        yield f"patterns-{kind}", d.four_patterns
        one, four = d.elbow.sel(count=1), d.elbow.sel(count=4)
        yield f"elbow-{kind}", (one - four) / (one - d.elbow.min("count"))
        for how, right in zip(PLAIN, d.plain.T, strict=True):
            yield f"plain-{how.replace(',', '').replace(' ', '-')}-{kind}", right
        yield f"units-split-{kind}", d.mixed[..., -1]
    d = every["different"]
    found = [(d[f"plain{k}"] > 0.5).all("sample").any(f"cluster{k}").values for k in SHOWN]
    yield "common-in-all", np.mean(found, axis=0)
    for k in SHOWN:  # mean distance of centres from 0 or 1, at most 0.5
        yield f"grey-{k}", (0.5 - abs(d[f"plain{k}"] - 0.5)).mean(("sample", f"cluster{k}"))


EXPERIMENT = Experiment(
    "discovery",
    "Finding the pathways of a ReLU network in its gates",
    "make_haste_slowly Fig. 8-9, Algorithm 1, Lemma 4.1",
    Discovery(),
    quick={"seeds": 1, "runs": 1, "hidden": 400, "std": 1e-5, "lr": 2e-3, "steps": 4000, "save": 41},
    minutes=(0.3, 12.0),
)
