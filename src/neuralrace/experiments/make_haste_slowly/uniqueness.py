"""Which gated linear network is the ReLU network on items in contexts, and is it the only one? Pathways open
in two contexts learn faster than pathways open in one; trained together with them the latter hardly grow. Of
all gates that a unit can have, always open has the largest correlation with the targets. On what the
always-open pathway leaves this is no longer so: there one context correlates as much as the two others, gates
that split the items of a context correlate more than either, and pathways that start then grow alike. The
theory is exact for a ReLU network whose units have the gates of their pathway, never switch and start
decoupled; networks from small random weights start with none of the three."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations, product
from typing import Any

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import plot
from neuralrace.experiments.make_haste_slowly.contexts import pathway_maps
from neuralrace.experiments.old import Claim, Experiment, Parameters, Parts, Results, finding, option, paper
from neuralrace.measure import crossing

STRUCTURES = {"different": ("hierarchy", "ring", "cross"), "same": None}
ITEMS, CONTEXTS = 8, 3
CONTEXT = np.repeat(np.arange(CONTEXTS), ITEMS)
PATTERNS = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]])[:, CONTEXT]
GATINGS = {"shared": plot.BLUE, "single": plot.ORANGE, "both": plot.GREEN}
KINDS = {"always": plot.BLACK, "two": plot.BLUE, "one": plot.ORANGE}
CONDITIONS = ("match", "moved", "coupled")
LEARNED = 0.05  # of the initial loss, where learning times are compared
FIG, PROP, LEMMA = (
    "make_haste_slowly Fig. 4a",
    "make_haste_slowly Prop. 4.2, E",
    "make_haste_slowly Lemma 4.1",
)
BEYOND = "beyond make_haste_slowly E"
TALK = "learning_dynamics_talk, exact for ReLU networks"


@dataclass(frozen=True)
class Uniqueness(Parameters):
    hidden: int = option(700, "units of the ReLU networks", least=4)
    std: float = option(7e-6, "standard deviation of initial weights")
    lr: float = option(1e-3, "learning rate, on the loss summed over samples")
    steps: int = option(8000, "steps of training")
    save: int = option(81, "times that are saved", least=2)
    raced: tuple[str, ...] = option(
        tuple(STRUCTURES),
        "structures of the contexts for which decoupled pathways race",
        choices=tuple(STRUCTURES),
    )
    level: float = option(0.05, "loss that ends the race, as a share of the initial one")
    stride: int = option(1, "every so many of all gates that a unit can have are tried")
    strength: float = option(1e-3, "initial strength of each mode and layer in the race")


def compute(p: Uniqueness, parts: Parts) -> Results:
    return {
        "networks": dict(zip(STRUCTURES, parts.each("networks", train, STRUCTURES, p), strict=True)),
        "rates": dict(zip(STRUCTURES, parts.each("rates", rates, STRUCTURES, p), strict=True)),
        "late": dict(zip(STRUCTURES, parts.each("late", late, STRUCTURES, p), strict=True)),
        "race": dict(zip(p.raced, parts.each("race", race, p.raced, p), strict=True)),
    }


def race(kind: str, p: Uniqueness) -> dict[str, Any]:
    """Learning time of the always-open pathway with those open in one context, in two, and all of them."""
    x, y = nr.tasks.contexts(CONTEXTS, STRUCTURES[kind]).arrays
    candidates = nr.relu.context_candidates(x, y, CONTEXT, range(ITEMS), hidden=ITEMS * CONTEXTS)
    return dict(nr.race(candidates, p.level, p.strength))


def train(kind: str, p: Uniqueness) -> dict[str, Any]:
    """A ReLU network and three gated ones, trained alike from small random weights by the whole gradient.

    Losses `(seeds, save)`; of the network with all pathways the size of the map of each, `(seeds, save)`.
    """
    x, y = nr.tasks.contexts(CONTEXTS, STRUCTURES[kind]).arrays
    net = nr.relu.train(x, y, [p.hidden], p.std, p.lr, p.steps, p.save, range(p.seeds))
    found: dict[str, Any] = {"epoch": net.steps, "relu": net.loss, **conditions(net)}
    for gating in GATINGS:
        task = nr.tasks.contexts(CONTEXTS, STRUCTURES[kind], gating, hidden=p.hidden // len(PATTERNS))
        start = nr.init.gaussian(task.graph, p.std, seed=range(p.seeds))
        record = sizes(task) if gating == "both" else None
        run = nr.descend(
            task, start, p.lr * net.loss_scale, p.steps, net.t, record=record, save_weights=False
        )
        found |= {gating: net.loss_scale * run.loss, **run.recorded}
    return found


def sizes(task: nr.Task) -> Callable[[nr.State], dict[str, Any]]:
    """What to record: Frobenius norm of the map of every pathway, by the contexts in which it is open."""
    gates = {n: np.asarray(task.samples.gates[n])[::ITEMS] for n in task.graph.hidden}

    def record(state: nr.State) -> dict[str, Any]:
        maps = pathway_maps(task.graph, state.activity)
        return {"".join(f"{g:.0f}" for g in gates[n]): jnp.linalg.norm(m) for n, m in maps.items()}

    return record


def conditions(net: nr.relu.ReluNetwork) -> dict[str, np.ndarray]:
    """How far a ReLU network is from what makes the reduction exact, `(seeds, save)` each, 0 to 1.

    A unit belongs to the pathway with which its last gates agree on most samples, and counts by the product
    of the lengths of its incoming and outgoing weights at the time.
    match: share of all gates, one per unit and sample, that are those of the unit's pathway.
    moved: share of all gates that are not what they were at the start.
    coupled: share of the squared weights outside the modes of the always-open network, in whichever hidden
    directions fit best (`Reduction.off_manifold_fraction`): 0 if layers are aligned, one hidden direction for
    each mode.
    """
    alone = nr.reduce(nr.Task(nr.Graph.chain(list(net.task.graph.nodes.values())), net.X, net.Y), "pathwise")
    found = []
    for one in (net[k] for k in range(len(net))):
        w1, w2 = one.weights.values()
        gates = np.stack([one.gates(k)[0] for k in range(len(one.t))])  # (save, samples, units)
        size = np.linalg.norm(w1, axis=-1) * np.linalg.norm(w2, axis=-2)
        size /= size.sum(axis=-1, keepdims=True)
        own = PATTERNS[np.abs(gates[-1].T[:, None] - PATTERNS).sum(axis=-1).argmin(axis=1)].T
        share = [(size * mean.mean(axis=1)).sum(axis=-1) for mean in (gates == own, gates != gates[0])]
        found.append([*share, alone.off_manifold_fraction(dict(one.weights))])
    return dict(zip(CONDITIONS, np.stack(found, axis=1), strict=True))


@cache
def nested(items: int, contexts: int) -> np.ndarray:
    """All gates that a ReLU unit can have on items in contexts, `(patterns, contexts * items)`.

    Those of the form `a_i + b_c > 0`: the sets of contexts in which items are on form a chain.
    """
    found = set()
    for order in permutations(range(contexts)):
        place = np.argsort(order)[:, None]
        for level in product(range(contexts + 1), repeat=items):
            found.add((place < level).tobytes())
    return np.array([np.frombuffer(g, bool) for g in sorted(found)])


def top_value(gates: np.ndarray, x: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Largest singular value of `Syx(g) = (1/n) sum_i g_i e_i x_i^T` for each row g, `(patterns,)`."""
    small = np.linalg.qr(e.T)[1]  # the same singular values in fewer outputs
    found = []
    for some in np.array_split(gates.astype(float), -(-len(gates) // 4096)):
        syx = np.einsum("oi,bi,ik->bok", small, some, x, optimize=True) / len(x)
        found.append(np.linalg.eigvalsh(np.swapaxes(syx, 1, 2) @ syx)[:, -1].clip(0))
    return np.sqrt(np.concatenate(found))


def rates(kind: str, p: Uniqueness) -> dict[str, Any]:
    """Growth rates of small units with constant gates: on the targets, and on what always open leaves.

    Nothing in the inputs and targets is negative, so a gate that is opened for one more sample adds to the
    rate on the targets: of all gates but always open, those closed for one sample have the largest.
    """
    x, y = nr.tasks.contexts(CONTEXTS, STRUCTURES[kind]).arrays
    left = residual(x, y)
    some = nested(ITEMS, CONTEXTS)[:: p.stride]
    open_in = {
        "always": PATTERNS[:1],
        **{
            name: np.array([np.isin(CONTEXT, c) for c in combinations(range(CONTEXTS), size)])
            for size, name in ((1, "one"), (2, "two"))
        },
    }
    found: dict[str, Any] = {"patterns": len(some), "left": top_value(some, x, left).max()}
    found["targets"] = top_value(1 - np.eye(len(x)), x, y).max()
    for name, e in (("targets", y), ("left", left)):
        found |= {f"{name}_{k}": top_value(g, x, e) for k, g in open_in.items()}
    return found


def residual(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What the always-open pathway leaves of the targets when it has learned."""
    return y - x @ np.linalg.lstsq(x, y)[0]


def late(kind: str, p: Uniqueness) -> dict[str, Any]:
    """Sizes of the pathways of one and of two contexts that start when always open has learned."""
    x, y = nr.tasks.contexts(CONTEXTS, STRUCTURES[kind]).arrays
    one = np.eye(CONTEXTS)[:, CONTEXT]
    gates = np.concatenate([1 - one[::-1], one])
    width = p.hidden // len(PATTERNS)
    task = nr.tasks.gated(x, residual(x, y), gates, width, dict.fromkeys(range(len(gates)), range(ITEMS)))
    start = nr.init.gaussian(task.graph, p.std, seed=range(p.seeds))
    record = sizes(task)
    return nr.descend(task, start, p.lr * len(x), p.steps, 2, record=record, save_weights=False).recorded


def by_kind(r: Results) -> dict[str, np.ndarray]:
    """Sizes of the maps of all pathways in one network, `(pathways, seeds, save)` for each kind."""
    kinds = {"always": ("111",), "two": ("110", "101", "011"), "one": ("100", "010", "001")}
    return {k: np.stack([r[n] for n in names]) for k, names in kinds.items() if names[0] in r}


def learning_times(r: Results, name: str) -> np.ndarray:
    """Epoch at which the loss is 5% of the first, `(seeds,)`."""
    return np.array([crossing(r["epoch"], v / v[0], LEARNED) for v in r[name]])


def figures(p: Uniqueness, r: Results) -> dict[str, tuple[Figure, str]]:
    fig, axes = plot.figure(2, 3, height=4.2, sharex=True)
    for (a, b, c), (kind, found) in zip(axes, r["networks"].items(), strict=True):
        t = found["epoch"]
        plot.runs(a, t, found["relu"], plot.BLACK, "ReLU network")
        labels = {"shared": "+ two contexts", "single": "+ one context", "both": "+ both kinds"}
        for gating, colour in GATINGS.items():
            style = {"ls": "--", "zorder": 4} if gating == "both" else {}
            plot.theory(a, t, np.median(found[gating], axis=0), colour, labels[gating], **style)
        a.set(yscale="log", ylabel="loss", title=f"{kind} structure{'s' * (kind == 'different')}: loss")
        a.set(ylim=(found["relu"].min() / 2, None))
        names = {"always": "always open", "two": "two contexts", "one": "one context"}
        for name, size in by_kind(found).items():
            plot.runs(b, t, size.reshape(-1, len(t)), KINDS[name], names[name])
        b.set(ylabel="size of a pathway's map", title="all pathways in one network", ylim=(0, None))
        shown = {
            "match": ("gates as in pathway", plot.BLUE),
            "moved": ("gates switched", plot.RED),
            "coupled": ("weights off modes", plot.PINK),
        }
        for name, (label, colour) in shown.items():
            plot.runs(c, t, found[name], colour, label)
        c.set(ylabel="share", title="ReLU network: conditions", ylim=(0, 1.02))
    for ax in axes[-1]:
        ax.set(xlabel="epoch")
    for ax, place in zip(axes[0], ("lower left", (0.42, 0.6), (0.33, 0.42)), strict=True):
        ax.legend(loc=place)
    caption = (
        "Left: summed loss of ReLU networks (band) and of gated linear ones with an always-open pathway and "
        "others (lines, median). Middle: Frobenius norm of the map of each pathway, all of them trained in "
        "one network. Right: how far ReLU networks are from the conditions under which the reduction is "
        "exact, which are 1, 0 and 0; gates that are those of the unit's pathway, gates that differ from the "
        "start, and squared weights outside the modes of the always-open network. "
        f"{p.seeds} seeds, median and range."
    )
    return {"uniqueness": (fig, caption)}


def claims(p: Uniqueness, r: Results) -> list[Claim]:
    found = []
    for kind in STRUCTURES:
        if kind in p.raced:
            found += race_claims(kind, r["race"][kind])
        found += network_claims(kind, r["networks"][kind])
        found += rate_claims(
            kind, r["rates"][kind], {k: v[..., -1] for k, v in by_kind(r["late"][kind]).items()}
        )
    for kind in STRUCTURES:
        found += condition_claims(kind, r["networks"][kind])
    return found


def race_claims(kind: str, r: Results) -> list[Claim]:
    more = "More pathways are never slower; what those of one context add is little."
    race = f"{kind}: race, time of"
    return [
        paper.below(f"race-two-contexts-{kind}", f"{race} two contexts / of one", PROP, 1, r["2"] / r["1"]),
        paper.near(
            f"race-all-{kind}",
            f"{race} all pathways / of two contexts",
            PROP,
            1,
            r["1+2"] / r["2"],
            0.05,
            more,
        ),
    ]


def network_claims(kind: str, r: Results) -> list[Claim]:
    last = {k: v[..., -1] for k, v in by_kind(r).items()}
    relu = learning_times(r, "relu")
    behind = {g: learning_times(r, g) / relu - 1 for g in GATINGS}
    grown, slow = "", ""
    if kind == "different":
        grown = (
            "The pathway of the ring context grows, and later the others: what is particular to one context "
            "is for its own pathway to learn. They stay small, not inactive."
        )
        slow = "The ReLU network is the faster one: constant gates by context are not quite what it has."
    return [
        paper.below(
            f"single-inactive-{kind}",
            f"{kind}: largest one-context / mean two-context pathway at the end, in one network", PROP, 0.05,
            last["one"].max(axis=0) / last["two"].mean(axis=0), grown,
        ),
        paper.near(
            f"time-two-contexts-{kind}", f"{kind}: learning time, two contexts / ReLU - 1", FIG, 0,
            behind["shared"], 0.1, slow,
        ),
        paper.above(
            f"time-one-context-{kind}", f"{kind}: learning time, one context / ReLU - 1", FIG, 0.1,
            behind["single"],
        ),
        paper.near(
            f"time-both-{kind}", f"{kind}: learning time, both kinds / two contexts - 1", PROP, 0,
            learning_times(r, "both") / learning_times(r, "shared") - 1, 0.05,
        ),
    ]  # fmt: skip


def rate_claims(kind: str, r: Results, late: Results) -> list[Claim]:
    pairs, always = r["left_two"].max(), r["targets_always"].max()
    wide = (
        "The lemma leaves out gates that split the items of a context; on the residual such gates correlate "
        f"more, held constant, than any by context. Of {int(r['patterns'])} gates."
    )
    signs = (
        "That samples can only add holds where nothing is negative. The residual has both signs, and always "
        "open sees nothing of it: closing gates adds correlation. Taking features away never does."
    )
    same = "The residual sums to nothing over contexts, so one context and the two others correlate alike."
    ahead = (
        "Those of one context then grow as well. Those of two win together with always open because they "
        "start to grow with it, on what contexts share; not by a faster race on the residual."
    )
    return [
        paper.below(
            f"rate-always-open-{kind}",
            f"{kind}: largest singular value, other gates of a unit / always open", PROP, 1,
            r["targets"] / always,
        ),
        finding.below(
            f"residual-always-open-{kind}", f"{kind}: on the residual, always open / two contexts", BEYOND, 1,
            r["left_always"].max() / pairs, signs,
        ),
        finding.near(
            f"residual-one-context-{kind}", f"{kind}: on the residual, one context / the two others", PROP, 1,
            r["left_one"] / r["left_two"][::-1], 1e-9, same,
        ),
        paper.below(
            f"residual-single-inactive-{kind}",
            f"{kind}: largest one-context / mean two-context pathway, started on the residual", PROP, 0.05,
            late["one"].max(axis=0) / late["two"].mean(axis=0), ahead,
        ),
        paper.near(
            f"residual-all-gates-{kind}",
            f"{kind}: on the residual, largest of all gates of a unit / of two contexts", LEMMA, 1,
            r["left"] / pairs, 1e-9, wide,
        ),
    ]  # fmt: skip


def condition_claims(kind: str, r: Results) -> list[Claim]:
    start = "Random weights: half of all gates are open, and no hidden direction belongs to a mode."
    mean = "Units leave out or add items of their own; only sums over units follow the pathways."
    turn = "First to always open, while weights are small; then again as pathways form."
    align = "Weights align as they grow: while always open learns, the network is nearly decoupled."
    gates, outside = f"{kind}: gates that", f"{kind}: weights outside the modes of always open"
    return [
        paper.above(
            f"gates-match-start-{kind}", f"{gates} are those of the pathway, at the start", TALK, 0.9,
            r["match"][:, 0], start,
        ),
        paper.above(
            f"gates-match-end-{kind}", f"{gates} are those of the pathway, at the end", TALK, 0.9,
            r["match"][:, -1], mean,
        ),
        paper.below(
            f"gates-switched-{kind}", f"{gates} have switched since the start", TALK, 0.1, r["moved"][:, -1],
            turn,
        ),
        paper.below(
            f"decoupled-start-{kind}", f"{outside}, at the start", TALK, 0.1, r["coupled"][:, 0], start
        ),
        paper.below(
            f"decoupled-least-{kind}", f"{outside}, where they are fewest", TALK, 0.1,
            r["coupled"].min(axis=1), align,
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "uniqueness",
    "Items in contexts: is the gated network that a ReLU network is the only one?",
    "make_haste_slowly Prop. 4.2, Fig. 4a, D, E",
    Uniqueness(),
    Uniqueness(seeds=1, hidden=120, std=1e-5, lr=4e-3, steps=2000, save=41, raced=("same",), stride=20),
    compute,
    figures,
    claims,
    (0.4, 6.0),
    needs_full=("time-two-contexts-different",),  # .09 here, .11 at full width
)
