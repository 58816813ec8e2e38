"""Which pathways a ReLU network has can be found from how it trains: cluster the gates that its units have
over time. On items in three contexts four clusters follow the network, open everywhere and in each pair of
contexts. They are means: late in training nearly all weight is in units that split the items of some context,
which the theory says no unit does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import plot
from neuralrace.experiments.claim import Claim, finding, kebab, paper
from neuralrace.experiments.declaration import Data, claims, figure, part
from neuralrace.experiments.experiment import Experiment, Parameters, option
from neuralrace.experiments.store import along

STRUCTURES = {"different": ("hierarchy", "ring", "cross"), "same": None}
COLOURS = {"different": plot.BLUE, "same": plot.ORANGE}
CONTEXT = np.repeat([0, 1, 2], 8)
PATTERNS = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]])[:, CONTEXT]
SHOWN = (2, 3, 4)  # numbers of clusters
PLAIN = {"one start": (1, True), "ten starts": (10, True), "one start, no silent units": (1, False)}


@dataclass(frozen=True)
class Discovery(Parameters):
    hidden: int = option(700, "units of the ReLU networks", least=len(PATTERNS))
    runs: int = option(3, "networks that are clustered together, for each seed")
    std: float = option(7e-6, "standard deviation of initial weights")
    lr: float = option(1e-3, "learning rate, on the loss summed over samples")
    steps: int = option(8000, "steps of training")
    save: int = option(81, "times at which gates are looked at", least=2)
    most: int = option(6, "largest number of clusters that is tried", least=max(SHOWN))


@part(each=lambda p: [(kind, seed) for kind in STRUCTURES for seed in range(p.seeds)])
def clusters(p: Discovery, item: tuple[str, int]) -> dict[str, Any]:
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
        "elbow": (
            "count",
            [discovered.elbow.get(k, np.nan) for k in counts],
        ),  # ends where more are no better
        **{f"centres{k}": (f"cluster{k} sample", discovered.candidates[k]) for k in SHOWN},
        "plain": ("method", [has_patterns(net, seed, *how) for how in PLAIN.values()]),
        "epoch": ("epoch", net.steps),
        "mixed": ("run epoch", mixed),
    }


def has_patterns(net: nr.relu.ReluNetwork, seed: int, restarts: int, silent: bool) -> bool:
    """Whether Algorithm 1 as printed, all units and times alike, has the four patterns for four clusters.

    Without `silent` units, those that are active on no sample at the time are left out.
    """
    from sklearn.cluster import KMeans

    gates = np.concatenate([net.gates(k)[0] for k in range(len(net.t))])  # (save * runs, samples, units)
    rows, count = np.unique(gates.swapaxes(1, 2).reshape(-1, len(CONTEXT)), axis=0, return_counts=True)
    kept = silent | rows.any(axis=1)
    means: Any = KMeans  # its annotations are not those of its documentation
    made = means(len(PATTERNS), n_init=restarts, random_state=seed).fit(rows[kept], sample_weight=count[kept])
    return {tuple(g) for g in made.cluster_centers_ > 0.5} == {tuple(g) for g in PATTERNS > 0}


def by_structure(p: Discovery, data: Data) -> dict[str, xr.Dataset]:
    """Results of all seeds, for each structure of the contexts."""
    return {
        kind: along({seed: data.clusters[kind, seed] for seed in range(p.seeds)}, "seed")
        for kind in STRUCTURES
    }


@figure("discovery-clusters")
def centres(p: Discovery, data: Data) -> tuple[Figure, str]:
    height_ratios = {"height_ratios": SHOWN}
    fig, axes = plot.figure(len(SHOWN), 1, width=plot.COLUMN, height=3.2, gridspec_kw=height_ratios)
    image: Any = None
    for ax, k in zip(axes, SHOWN, strict=True):
        shown = data.clusters["different", 0][f"centres{k}"]
        image = ax.imshow(shown, vmin=0, vmax=1, cmap="Blues", aspect="auto")
        for edge in (7.5, 15.5):
            ax.axvline(edge, color=plot.BLACK, lw=0.8)
        ax.set(title=f"{k} clusters", yticks=[], xticks=[])
        ax.spines[["top", "right"]].set_visible(True)
    axes[-1].set(xticks=(3.5, 11.5, 19.5), xticklabels=[f"context {c}" for c in (1, 2, 3)])
    fig.colorbar(image, ax=axes, label="mean gate", shrink=0.6)
    caption = (
        "Centres of clusters of gates, one row each, over eight items in each of three contexts, for "
        f"different structures (first of {p.seeds} seeds, {p.runs} networks)."
    )
    return fig, caption


@figure("discovery-elbow")
def elbow(p: Discovery, data: Data) -> tuple[Figure, str]:
    fig, (a, b) = plot.figure(1, 2, height=2.4)
    for shift, (kind, d) in zip((-0.06, 0.06), by_structure(p, data).items(), strict=True):
        name = f"{kind} structure{'s' * (kind == 'different')}"
        distance = d.elbow.dropna("count")
        plot.points(a, distance["count"] + shift, distance, COLOURS[kind], name, ls="-")
        mixed = d.mixed.stack(network=("seed", "run")).T
        plot.runs(b, d.epoch, mixed, COLOURS[kind], name)
    a.axvline(4, color=plot.BLACK, lw=0.8, ls="--", zorder=0)
    a.set(xlabel="clusters", ylabel="distance of outputs / targets", xticks=range(1, p.most + 1))
    a.set(ylim=(0, None))
    a.legend()
    b.set(xlabel="epoch", ylabel="share of the weight", ylim=(0, 1.02), title="units that split a context")
    b.legend(loc="lower right")
    caption = (
        "Left: distance of ReLU networks from linear ones with the gates of each number of clusters, trained "
        f"beside them ({p.seeds} seeds of {p.runs} networks, mean and standard deviation). Right: share of "
        "the weight in units that are open for some items of a context and closed for others (median, range)."
    )
    return fig, caption


@claims
def four_clusters(p: Discovery, data: Data) -> Iterator[Claim]:
    best = paper(
        "make_haste_slowly Fig. 9",
        "We show this elbow in Figure 9 and see that the 4-Cluster model is the appropriate choice for the "
        "elbow, as expected.",
    )
    exact = paper(
        "make_haste_slowly Fig. 8, Algorithm 1",
        "We note that when using 4-clusters the exact gating pattern used in Section 4 emerges.",
    )
    consistent = paper(
        "make_haste_slowly Lemma 4.1",
        "This means all hidden neurons must gate consistently using either context or object features.",
    )
    split = (
        "Gates of units split contexts: a unit can have any nested pattern, which the lemma leaves out. The "
        "pathways of the theory are means over many units, and only their sum follows it."
    )
    silence = "As printed, units that are active on no sample are clustered too, and pull at a cluster."
    alike = "All units and times count alike, the many small units as much as the few large ones."
    for kind, d in by_structure(p, data).items():
        name, most = f"{kind}: number of clusters chosen", (d.k == 4).mean() >= 0.9
        yield best.relation(f"clusters-{kind}", name, "4 in at least 9 of 10 seeds", d.k, most)
        name, right = f"{kind}: seeds with the patterns 111, 110, 101, 011", d.four_patterns.mean()
        yield exact.relation(f"patterns-{kind}", name, ">= .9", right, right >= 0.9)
        one, four = d.elbow.sel(count=1), d.elbow.sel(count=4)
        name = f"{kind}: share of the best gain that four clusters have"
        yield best.above(f"elbow-{kind}", name, 0.95, (one - four) / (one - d.elbow.min("count")))
        for (how, (_, silent)), right in zip(PLAIN.items(), d.plain.mean("seed"), strict=True):
            name = f"{kind}: plain k-means, {how}: seeds with the four patterns"
            kind_of_claim = exact if silent else finding("make_haste_slowly Algorithm 1")
            note = silence if silent else alike
            yield kind_of_claim.near(f"plain-{kebab(how)}-{kind}", name, 1, right, 0.1, note)
        name = f"{kind}: weight in units that split a context, at the end"
        yield consistent.near(f"units-split-{kind}", name, 0, d.mixed[..., -1], 0.05, split)


EXPERIMENT = Experiment(
    "discovery",
    "Finding the pathways of a ReLU network in its gates",
    "make_haste_slowly Fig. 8-9, Algorithm 1, Lemma 4.1",
    Discovery(),
    Discovery(seeds=1, runs=1, hidden=400, std=1e-5, lr=2e-3, steps=4000, save=41),
    minutes=(0.3, 12.0),
    needs_full=("clusters-*", "patterns-*", "plain-*"),  # shares of ten seeds
)
