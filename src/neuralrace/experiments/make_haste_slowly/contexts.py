"""Eight items in three contexts: some properties hold in every context, some in one only. A ReLU network
learns them with units that are reused across contexts, as gated linear pathways do: one that is always open
and three that are open in two contexts. Here both are trained side by side: as published, where the always
open pathway learns as if alone and the others on what it leaves; and by the gradient of the whole loss, from
the same weights. It shows how far the pathways describe the network, and where they do not: its units start
as always open ones and turn to contexts later, and in the end most of them are open for part of the items
only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.spatial.distance import pdist

import neuralrace as nr
from neuralrace.experiments.claim import Claim, check, finding, paper
from neuralrace.experiments.declaration import Data, claims, figure, part
from neuralrace.experiments.experiment import Experiment, Parameters, option
from neuralrace.experiments.make_haste_slowly import context_figures, modes
from neuralrace.experiments.store import along
from neuralrace.measure import principal_components

STRUCTURES = ("hierarchy", "ring", "cross")
CONTEXT = np.repeat([0, 1, 2], 8)
PUBLISHED = {2000: (22.6, 0.5), 4000: (4.4, 0.3), 6000: (0.58, 0.08), 8000: (0.03, 0.015)}  # loss, tolerance
RACE_START = (3e-9, 6e-5)  # strengths of the always open pathway and of the others, in the authors' script
SHOWN = (0.0625, 0.25, 0.5, 1.0)  # of training, when outputs are shown


@dataclass(frozen=True)
class Contexts(Parameters):
    seeds: int = option(10, "random starts of each network")
    hidden: int = option(700, "units of the ReLU networks")
    pathway: int = option(100, "units of each pathway of the gated networks")
    std: float = option(0.005 / 700, "standard deviation of initial weights")
    context_std: float = option(
        2.0, "that of pathways by context, relative to `std`, where they are trained as published"
    )
    table_std: float = option(1e-7, "standard deviation of initial weights in Table 1")
    lr: float = option(0.001, "learning rate, on the loss summed over samples")
    epochs: int = option(8000, "steps of training", least=160)

    @property
    def narrow(self) -> int:
        return max(1, self.hidden // 7)

    @property
    def start_strength(self) -> float:
        """Expected strength of a mode in the random weights of a pathway by context."""
        return self.pathway * (self.context_std * self.std) ** 2 / 2

    def train(self, hidden: int, seed: int, std: float | None = None) -> nr.relu.ReluNetwork:
        """A ReLU network of any width, with the initial strength of one with `self.hidden` units."""
        x, y = nr.tasks.contexts(3, STRUCTURES).arrays
        std = self.std if std is None else std
        scaled = std * (self.hidden / hidden) ** 0.5
        return nr.relu.train(x, y, [hidden], scaled, self.lr, self.epochs, 161, seed)

    def pathways(self, kind: str) -> nr.Task:
        """An always open pathway, and others by kind."""
        return nr.tasks.contexts(3, STRUCTURES, gating=kind, hidden=self.pathway)


@part(each=lambda p: range(p.seeds))
def losses(p: Contexts, seed: int) -> dict[str, Any]:
    """A ReLU network, gated networks, and predictions of its loss; losses are summed over samples."""
    net = p.train(p.hidden, seed)
    imitation = nr.relu.imitate(net, p.pathways("shared"))
    own, _ = nr.relu.as_gdln(net, -1)
    loss = {"relu": net.loss, "imitation": imitation.loss, "staged": nr.relu.two_stage_loss(net, CONTEXT)}
    for kind in ("shared", "single", "both"):
        task = p.pathways(kind)
        start = nr.init.gaussian(task.graph, std=p.std, seed=seed)
        loss[kind] = nr.relu.train_like(net, task, start).loss
    loss["own"] = nr.relu.train_like(net, own, net.at(0)).loss
    loss["narrow"] = p.train(p.narrow, seed).loss
    two, one = (
        modes.as_published(net, p.pathways(k), p.std, p.context_std, seed) for k in ("shared", "single")
    )
    loss["published"], loss["published_single"] = two.loss, one.loss
    apart = nr.predict(p.pathways("shared"), two.weights)["y"] - nr.predict(net.task, net.weights)["y"]
    open_ = modes.open_in_contexts(net, 3)
    size = nr.unit_sizes(*net.at(-1).values(), normalise=True)
    return {
        "epoch": ("epoch", net.steps),
        **{name: ("epoch", value) for name, value in loss.items()},
        "distance": ("epoch", imitation.distance),
        "published_distance": ("epoch", np.sqrt((apart**2).sum(axis=(1, 2)) / (net.Y**2).sum())),
        "mixed": nr.relu.mixed_share(net, CONTEXT),
        "one_context": ("context", (open_ > 0) @ (size * ((open_ > 0).sum(axis=0) == 1))),
        "mostly_one_context": size[(open_ > 0.5).sum(axis=0) == 1].sum(),
    }


@part
def table_1(p: Contexts) -> dict[str, Any]:
    """A ReLU network from the initial weights of Table 1."""
    net = p.train(p.hidden, 0, p.table_std)
    return {"epoch": ("epoch", net.steps), "loss": ("epoch", net.loss)}


@part
def race(p: Contexts, data: Data) -> dict[str, Any]:
    """Appendix F for different structures: modes that race on what the always open pathway leaves.

    The reduction has a strength for each mode of each pathway; beside it the flow that it stands for.
    """
    x, y = nr.tasks.contexts(3, STRUCTURES).arrays
    t = data.losses[0].epoch.values * p.lr * len(x)
    alone, (common, others) = modes.on_the_residual(x, y, 3), RACE_START
    reduction = nr.reduce(alone, "pathwise")
    solved = reduction.solve(strength=others**0.5, t1=t[-1], save=t)
    start = nr.init.decoupled(reduction, others**0.5)
    flow = nr.flow(alone, start, t[-1], t)
    values = [
        modes.singular_values(alone.graph, found.weights, context_figures.VALUES) for found in (solved, flow)
    ]
    first = modes.mode_outputs(x, y, np.ones(len(x)), lambda s, d: nr.exact.chain(t, s, d, common))
    outputs = first + nr.predict(alone, solved.weights)["y"]
    syx = [alone.syx(path) for path in alone.graph.paths()]
    squares = [s.T @ s for s in syx]
    turned = [np.linalg.norm(a @ b - b @ a) / np.linalg.norm(a @ b) for a, b in combinations(squares, 2)]
    return {
        "t": ("t", t),
        "loss": ("t", 0.5 * ((y - outputs) ** 2).sum(axis=(1, 2))),
        "residual_loss": ("method t", [solved.loss, flow.loss]),
        "values": ("method pathway t mode", values),
        "commutator": ("pair", turned),
    }


@part
def pictures(p: Contexts) -> dict[str, Any]:
    """Outputs, singular values and hidden representations of a ReLU network and of its imitation."""
    net = p.train(p.hidden, 0)
    imitation = nr.relu.imitate(net, p.pathways("shared"))
    task, weights = imitation.task, imitation.trajectory.weights
    start = at(weights, 0)
    solved = nr.reduce(task, "block").solve(weights=start, t1=net.t[-1], save=net.t)
    shown = [round(share * (len(net.t) - 1)) for share in SHOWN]
    every = np.arange(0, len(net.t), 8)
    hidden = [nr.activity(task, at(weights, every), h) for h in task.graph.hidden]
    relu, gated = nr.activity(net.task, at(net.weights, every), "h1"), np.concatenate(hidden, axis=2)
    similar = [np.corrcoef(pdist(a), pdist(b))[0, 1] for a, b in zip(relu, gated, strict=True)]
    outputs = [np.stack([net.predict(i) for i in shown]), nr.predict(task, at(weights, shown))["y"]]
    values = [modes.singular_values(task.graph, w, context_figures.VALUES) for w in (weights, solved.weights)]
    return {
        "epoch": ("epoch", net.steps),
        "targets": ("sample y", net.Y),
        "shown": ("shown", net.steps[shown]),
        "outputs": ("network shown sample y", outputs),
        "values": ("method pathway epoch mode", values),
        "block_loss": ("epoch", solved.loss),
        "flow_loss": ("epoch", nr.flow(task, start, net.t[-1], net.t).loss),
        "hidden": ("network every sample axis", [principal_components(h) for h in (relu, gated)]),
        "similar": ("every", similar),
    }


def at(weights: Any, k: Any) -> dict[str, np.ndarray]:
    return {e: w[k] for e, w in weights.items()}


@figure("loss")
def loss(p: Contexts, data: Data) -> tuple[Figure, str]:
    caption = (
        f"Loss of ReLU networks ({p.seeds} seeds, band) and means for gated networks. Left, as published: "
        f"the always open pathway learns as if alone, those by context, from weights {p.context_std:g} "
        "times as large, on what it leaves; green: the race of their modes from the strengths in the "
        "authors' script. Right, by the whole gradient: from random weights of their own (thin), from "
        "those of the ReLU network (dashed), predicted from its initial weights in two stages (red), and "
        "with the gates that the ReLU network has at the end, from the start (dotted)."
    )
    return context_figures.losses(along(data.losses, "seed"), data.race.loss), caption


@figure("outputs")
def outputs(p: Contexts, data: Data) -> tuple[Figure, str]:
    caption = (
        "Outputs of a ReLU network and of four gated pathways trained from the same weights by the "
        "gradient of the whole loss. Columns are items, context by context; rows are properties, those of "
        "every context first, then those of each."
    )
    return context_figures.outputs(data.pictures), caption


@figure("hidden")
def hidden(p: Contexts, data: Data) -> tuple[Figure, str]:
    caption = (
        "Top: the six largest singular values of the always open pathway and of those open in two contexts "
        "(mean of three); lines from the block reduction at the initial weights, dots as trained. Bottom: "
        "hidden representations over training by multidimensional scaling (lines), with markers at the end; "
        "coordinates in the units of hidden activity, the same in both."
    )
    return context_figures.hidden(data.pictures, CONTEXT), caption


@figure("race")
def race_on_the_residual(p: Contexts, data: Data) -> tuple[Figure, str]:
    caption = (
        "Singular values of the pathways open in two contexts, alone on what the always open one leaves, "
        f"from a decoupled start of strength {RACE_START[1]:g}: the race reduction of appendix F, which "
        "keeps a strength for each mode of a pathway, and the flow of the pathways."
    )
    return context_figures.race(data.race, data.losses[0].epoch), caption


FIG, PROPOSITION = "make_haste_slowly Fig. 4", "make_haste_slowly Prop. 4.2"
MIXED = "Its units are always open at first and mixed within contexts later; constant gates are not."
SMALL = "3% of the initial loss, chosen here for equal losses"
TWICE = "a factor of 2, chosen here for curves on a logarithmic axis"
OUTPUTS = "5% of the targets, chosen here for 'exact'"


def error(predicted: xr.DataArray, d: xr.Dataset) -> float:
    """Largest difference of mean losses, relative to the initial loss."""
    return (np.abs(predicted.mean("seed") - d.relu.mean("seed")).max() / d.relu[:, 0].mean()).item()


@claims
def published_curves(p: Contexts, data: Data) -> Iterator[Claim]:
    agree = paper(f"{FIG}a", "We see excellent agreement across all dynamics and outputs.")
    same = paper(
        FIG,
        "Example outputs from the ReLU network and ReLN are also shown and we see exact agreement between "
        "these output samples.",
    )
    table = paper("make_haste_slowly Table 1", "Init-Scale 1 x 10^-7")
    d = along(data.losses, "seed")
    name = "half the sum of squares of the targets"
    yield check("make_haste_slowly Fig. 3").near("initial-loss", name, 105.623, d.relu[:, 0], 5e-4)
    curve = check(f"{FIG}a, the published curve")
    for epoch, (value, tolerance) in PUBLISHED.items():
        if epoch <= p.epochs:
            name, measured = f"loss of ReLU networks at epoch {epoch}", at_epoch(d.relu, epoch)
            yield curve.near(f"relu-loss-epoch-{epoch}", name, value, measured, tolerance)
    early = "Pathways by context learn at once, on what contexts share, while the always open one does."
    set_by_hand = (
        f"The start of {RACE_START[1]:g} is set by hand: that of the weights is {p.start_strength:.0e}. "
        "Modes of different structures turn into one another, which the race leaves out."
    )
    d["race"] = d.relu.copy(data=np.tile(data.race.loss, (p.seeds, 1)))
    for id, what, note in (
        ("published", "pathways trained as published", early),
        ("race", "race reduction, published start", set_by_hand),
    ):
        off = modes.drawn_distance(d.epoch.values, d[id].mean("seed"), d.relu.mean("seed"))
        yield agree.below(
            f"{id}-loss", f"loss of {what}, from ReLU, distance in the figure", 0.03, off, note, modes.DRAWN
        )
    name, distance = "pathways trained as published, distance of outputs, largest", d.published_distance
    yield same.below("published-outputs", name, 0.05, distance.max("epoch"), early, OUTPUTS)
    if p.epochs >= 2000:
        value, tolerance = PUBLISHED[2000]
        name = f"loss at epoch 2000 from the initial weights of Table 1, std {p.table_std:g}"
        slow = "Smaller weights learn later. Fig. 4a is that of std .005/700, as in the authors' code."
        loss, bound = at_epoch(data.table_1.loss, 2000), "read off Fig. 4a, as for the other epochs"
        yield table.near("table-1-init-scale", name, value, loss, tolerance, slow, bound)


def at_epoch(loss: xr.DataArray, epoch: int) -> xr.DataArray:
    return loss.sel(epoch=epoch, method="nearest")


@claims
def race_of_modes(p: Contexts, data: Data) -> Iterator[Claim]:
    reduces = paper(
        "make_haste_slowly F",
        "Section 4 where the output matrix has different structure, the 'race' dynamics are obtain using "
        "this reduction.",
    )
    shared = paper(
        "make_haste_slowly F",
        "noting that V_s(p) = V_s(j) since all pathways share the same input correlation",
    )
    t = data.race.t.values
    note = "Different structures have different modes: strengths of modes do not close."
    name = "race on the residual, different structures: loss, reduction from flow, distance in the figure"
    off = modes.drawn_distance(t, *data.race.residual_loss)
    yield reduces.below("race-reduction", name, 0.03, off, note, modes.DRAWN)
    solved, flow = (
        data.race["values"].stack(curve=("pathway", "mode")).transpose("method", "curve", "t").values
    )
    apart = [modes.drawn_distance(t, a, b, flow.max()) for a, b in zip(solved, flow, strict=True)]
    name = "race on the residual, different structures: singular values, largest distance in the figure"
    yield reduces.below("race-singular-values", name, 0.03, np.max(apart), note, modes.DRAWN)
    name = "different structures: |[A, B]| / |A B|, A and B the Syx^T Syx of two pathways, largest"
    note = "Inputs are white, so they have no modes of their own; those of the residual differ."
    bound = "rounding: 0 where modes are shared"
    yield shared.below("shared-modes", name, 1e-9, data.race.commutator.max(), note, bound)


@claims
def gates(p: Contexts, data: Data) -> Iterator[Claim]:
    unique = paper(
        PROPOSITION,
        "There is a unique G*(X) (up to symmetries such as permutations) such that L_GDLN(W(t), G*(X)) = "
        "L_ReLU(W(t)) for all t in R+",
    )
    fastest = paper(
        PROPOSITION,
        "for alternative gating strategies G'(X) then L_GDLN(W(t), G*(X)) < L_GDLN(W(t), G'(X))",
    )
    definition = paper(
        "make_haste_slowly Def. 3.1",
        "GDLN(W(t), G*(x^i), x^i) = ReLU(W(t), x^i) for all t in R+ and for all i in {0, 1, ..., N}.",
    )
    faster = paper(
        PROPOSITION,
        "Clearly the architecture with pathways active in two contexts learns faster and matches the loss "
        "trajectory of the ReLU network.",
    )
    d = along(data.losses, "seed")
    predicted = (("four-pathways", "imitation", unique), ("two-stages", "staged", finding(f"{FIG}a")))
    for id, key, kind in predicted:
        name = f"{id.replace('-', ' ')}, predicted loss"
        apart = error(d[key], d)
        yield kind.below(f"{id}-error", f"{name}: error / initial, whole path", 0.03, apart, MIXED, SMALL)
        factor = modes.loss_factor(d[key], d.relu)
        yield kind.below(f"{id}-factor", f"{name}: factor until 1e-3", 2, factor, MIXED, TWICE)
    name, distance = "four pathways, distance of outputs, largest", d.distance.max("epoch")
    yield definition.below("four-pathways-outputs", name, 0.05, distance, MIXED, OUTPUTS)
    end, mean, always = d.isel(epoch=-1), d.mean("seed").isel(epoch=slice(1, None)), "the paper: at all times"
    name = "loss at the end, open in one context / in two"
    yield faster.above("two-contexts-faster", name, 1, end.single / end.shared, bound="the paper")
    name = "epochs at which two contexts have less loss than one, share"
    first = "Until the always open pathway has learned both are the same but for random weights."
    share = (mean.shared < mean.single).mean()
    yield fastest.near("less-than-one-context", name, 1, share, 0, first, always)
    name = "epochs at which two contexts have less loss than the last gates of the ReLU network, share"
    note = "Mixed gates, the network's own, are implementable, and faster than those by context."
    share = (mean.shared < mean.own).mean()
    yield fastest.near("less-than-own-gates", name, 1, share, 0, note, always)


@claims
def units(p: Contexts, data: Data) -> Iterator[Claim]:
    lemma = paper(
        "make_haste_slowly Lemma 4.1",
        "This means all hidden neurons must gate consistently using either context or object features.",
    )
    none = paper(
        "make_haste_slowly section 4",
        "By interpreting the corresponding ReLN, we find that there are no neurons in the ReLU network which "
        "are context specific.",
    )
    d = along(data.losses, "seed")
    few = "1% of the weight, chosen here for 'no'"
    name = "weight in units mixed within a context, last epoch"
    note = "The lemma overlooks nested patterns: open for some items of a context and not for others."
    yield lemma.below("mixed-units", name, 0.01, d.mixed, note, few)
    name = "weight in units open in one context only, last epoch"
    shares = zip(STRUCTURES, d.one_context.mean("seed").values, strict=True)
    told = ", ".join(f"{structure} {share:.1%}" for structure, share in shares)
    note = f"By context: {told}. What only the ring has is learned by units of its own, if few and late."
    yield none.below("one-context-units", name, 0.01, d.one_context.sum("context"), note, few)
    name = "weight in units open for most items of one context only, last epoch"
    note = "They are open for a few items of other contexts too, and work for one."
    yield none.below("mostly-one-context-units", name, 0.01, d.mostly_one_context, note, few)
    name = f"loss at the end with {p.narrow} units of equal strength / {p.hidden}"
    note = "Late learning depends on the number of units, of which four pathways know nothing."
    end = d.isel(epoch=-1)
    ratio = end.narrow.mean() / end.relu.mean()
    yield finding(f"{FIG}a").above("narrow-network", name, 2, ratio, note)


@claims
def representations(p: Contexts, data: Data) -> Iterator[Claim]:
    d = data.pictures
    equal = paper(
        f"{FIG}c", "Both architectures demonstrate an equivalent latent representation at all points in time."
    )
    name = "correlation of hidden distances, ReLU and four pathways, least over training"
    bound = "a correlation of .9, chosen here for 'equivalent'"
    turn = "Least while units turn from always open to contexts."
    yield equal.above("hidden-distances", name, 0.9, d.similar[1:].min(), turn, bound)
    name = "block reduction from random weights - flow of the pathways, loss / initial"
    gap = np.abs(d.block_loss - d.flow_loss).max() / d.flow_loss[0]
    yield check(f"{FIG}b").below("block-reduction", name, 1e-5, gap)


EXPERIMENT = Experiment(
    "contexts",
    "Items in contexts: pathways that a ReLU network shares",
    "make_haste_slowly Fig. 3-4, F, Table 1",
    Contexts(),
    Contexts(seeds=1, hidden=280, pathway=40, std=0.005 / 280),
    minutes=(0.6, 8),
    needs_full=("race-loss",),  # the published start belongs to the published width
)
