"""Which pathways a ReLU network has can be found from how it trains: cluster the gates that its units have
over time. On items in three contexts four clusters follow the network, open everywhere and in each pair of
contexts. They are means: late in training nearly all weight is in units that split the items of some context,
which the theory says no unit does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import plot
from neuralrace.experiments.old import (
    Claim,
    Experiment,
    Parameters,
    Parts,
    Results,
    finding,
    kebab,
    option,
    paper,
    stacked,
)

STRUCTURES = {"different": ("hierarchy", "ring", "cross"), "same": None}
CONTEXT = np.repeat([1, 2, 3], 8)
ANSWER = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]])[:, CONTEXT - 1]
SHOWN = (2, 3, 4)
FIG8, FIG9 = "make_haste_slowly Fig. 8", "make_haste_slowly Fig. 9"
ALGORITHM, LEMMA = "make_haste_slowly Algorithm 1", "make_haste_slowly Lemma 4.1"
PLAIN = {"one start": (1, True), "ten starts": (10, True), "one start, no silent units": (1, False)}
COLOURS = {"different": plot.BLUE, "same": plot.ORANGE}


@dataclass(frozen=True)
class Discovery(Parameters):
    hidden: int = option(700, "units of the ReLU networks", least=len(ANSWER))
    runs: int = option(3, "networks that are clustered together, for each seed")
    std: float = option(7e-6, "standard deviation of initial weights")
    lr: float = option(1e-3, "learning rate, on the loss summed over samples")
    steps: int = option(8000, "steps of training")
    save: int = option(81, "times at which gates are looked at", least=2)
    most: int = option(6, "largest number of clusters that is tried", least=max(SHOWN))


def compute(p: Discovery, parts: Parts) -> Results:
    return {kind: stacked(parts.each(kind, find, range(p.seeds), p, kind)) for kind in STRUCTURES}


def find(seed: int, p: Discovery, kind: str) -> dict[str, Any]:
    """Networks from `runs` starts; clusters of their gates, weighted and plain; how mixed units are."""
    x, y = nr.tasks.contexts(3, STRUCTURES[kind]).arrays
    starts = range(p.runs * seed, p.runs * (seed + 1))
    net = nr.relu.train(x, y, [p.hidden], p.std, p.lr, p.steps, p.save, starts)
    found = nr.relu.discover(net=net, max_clusters=p.most, seed=seed)
    elbow = np.full(p.most, np.nan)  # it stops where more clusters are no better
    elbow[: len(found.elbow)] = list(found.elbow.values())
    runs = [net[k] for k in range(p.runs)]
    return {
        "k": found.k,
        "answer": np.array_equal(found.patterns, ANSWER),
        "elbow": elbow,
        **{f"centres{k}": found.candidates[k] for k in SHOWN},
        "plain": [plain(net, seed, restarts, silent) for restarts, silent in PLAIN.values()],
        "epoch": net.steps,
        "mixed": [[nr.relu.mixed_share(one, CONTEXT, k) for k in range(len(net.t))] for one in runs],
    }


def plain(net: nr.relu.ReluNetwork, seed: int, restarts: int, silent: bool) -> bool:
    """Whether Algorithm 1 as printed, all units and times alike, has the four patterns for four clusters.

    Without `silent` units, those that are active on no sample at the time are left out.
    """
    from sklearn.cluster import KMeans

    gates = np.concatenate([net.gates(k)[0] for k in range(len(net.t))], axis=-1)  # (runs, samples, units)
    rows, count = np.unique(np.concatenate(list(gates), axis=-1).T, axis=0, return_counts=True)
    kept = silent | rows.any(axis=1)
    rows, count = rows[kept], count[kept]
    means: Any = KMeans  # its annotations are not those of its documentation
    made = means(len(ANSWER), n_init=restarts, random_state=seed).fit(rows, sample_weight=count)
    return {tuple(g) for g in made.cluster_centers_ > 0.5} == {tuple(g) for g in ANSWER > 0}


def figures(p: Discovery, r: Results) -> dict[str, tuple[Figure, str]]:
    return {"discovery-clusters": clusters(p, r["different"]), "discovery-elbow": elbow(p, r)}


def clusters(p: Discovery, r: Results) -> tuple[Figure, str]:
    fig, axes = plot.figure(
        len(SHOWN), 1, width=plot.COLUMN, height=3.2, gridspec_kw={"height_ratios": SHOWN}
    )
    image: Any = None
    for ax, k in zip(axes, SHOWN, strict=True):
        image = ax.imshow(r[f"centres{k}"][0], vmin=0, vmax=1, cmap="Blues", aspect="auto")
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


def elbow(p: Discovery, r: Results) -> tuple[Figure, str]:
    fig, (a, b) = plot.figure(1, 2, height=2.4)
    for shift, (kind, found) in zip((-0.06, 0.06), r.items(), strict=True):
        there = np.isfinite(found["elbow"]).all(axis=0)
        k = np.arange(1, p.most + 1)[there]
        name = f"{kind} structure{'s' * (kind == 'different')}"
        plot.points(a, k + shift, found["elbow"][:, there], COLOURS[kind], name, ls="-")
        plot.runs(b, found["epoch"][0], np.concatenate(found["mixed"]), COLOURS[kind], name)
    a.axvline(4, color=plot.BLACK, lw=0.8, ls="--", zorder=0)
    a.set(
        xlabel="clusters", ylabel="distance of outputs / targets", ylim=(0, None), xticks=range(1, p.most + 1)
    )
    a.legend()
    b.set(xlabel="epoch", ylabel="share of the weight", ylim=(0, 1.02), title="units that split a context")
    b.legend(loc="lower right")
    caption = (
        "Left: distance of ReLU networks from linear ones with the gates of each number of clusters, trained "
        f"beside them ({p.seeds} seeds of {p.runs} networks, mean and standard deviation). Right: share of "
        "the weight in units that are open for some items of a context and closed for others (median, range)."
    )
    return fig, caption


def claims(p: Discovery, r: Results) -> list[Claim]:
    found = []
    lemma = (
        "Gates of units split contexts: a unit can have any nested pattern, which the lemma leaves out. The "
        "pathways of the theory are means over many units, and only their sum follows it."
    )
    silence = "As printed, units that are active on no sample are clustered too, and pull at a cluster."
    alike = "All units and times count alike, the many small units as much as the few large ones."
    for kind, f in r.items():
        gain = (f["elbow"][:, 0] - f["elbow"][:, 3]) / (f["elbow"][:, 0] - np.nanmin(f["elbow"], axis=1))
        right = f["answer"].mean()
        found += [
            paper.relation(
                f"clusters-{kind}", f"{kind}: number of clusters chosen", FIG9, "4 in at least 9 of 10 seeds",
                f["k"], (f["k"] == 4).mean() >= 0.9,
            ),
            paper.relation(
                f"patterns-{kind}", f"{kind}: seeds with the patterns 111, 110, 101, 011", FIG8, ">= .9",
                right, right >= 0.9,
            ),
            paper.above(
                f"elbow-{kind}", f"{kind}: share of the best gain that four clusters have", FIG9, 0.95, gain
            ),
            *(
                (paper if silent else finding).near(
                    f"plain-{kebab(name)}-{kind}",
                    f"{kind}: plain k-means, {name}: seeds with the four patterns", ALGORITHM, 1, share, 0.1,
                    silence if silent else alike,
                )
                for (name, (_, silent)), share in zip(PLAIN.items(), f["plain"].mean(axis=0), strict=True)
            ),
            paper.near(
                f"units-split-{kind}", f"{kind}: weight in units that split a context, at the end", LEMMA, 0,
                f["mixed"][..., -1], 0.05, lemma,
            ),
        ]  # fmt: skip
    return found


EXPERIMENT = Experiment(
    "discovery",
    "Finding the pathways of a ReLU network in its gates",
    "make_haste_slowly Fig. 8-9, Algorithm 1, Lemma 4.1",
    Discovery(),
    Discovery(seeds=1, runs=1, hidden=400, std=1e-5, lr=2e-3, steps=4000, save=41),
    compute,
    figures,
    claims,
    (0.3, 12.0),
    needs_full=("clusters-*", "patterns-*", "plain-*"),  # shares of ten seeds
)
