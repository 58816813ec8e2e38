"""Eight items in three contexts: some properties hold in every context, some in one only. A ReLU network
learns them with units that are reused across contexts, as gated linear pathways do: one that is always open
and three that are open in two contexts. Here both are trained side by side: as published, where the always
open pathway learns as if alone and the others on what it leaves; and by the gradient of the whole loss, from
the same weights. It shows how far the pathways describe the network, and where they do not: its units start
as always open ones and turn to contexts later, and in the end most of them are open for part of the items
only."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import xarray as xr
from scipy.spatial.distance import pdist

import neuralrace as nr
from neuralrace.measure import drawn_distance, principal_components
from neuralrace_papers.framework.claim import check, finding, paper
from neuralrace_papers.framework.declaration import claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option
from neuralrace_papers.framework.quotes import quoted
from neuralrace_papers.framework.store import along
from neuralrace_papers.make_haste_slowly import context_figures, modes
from neuralrace_papers.make_haste_slowly.context_figures import VALUES
from neuralrace_papers.make_haste_slowly.stages import two_stage_loss

STRUCTURES = modes.STRUCTURES["different"]
PUBLISHED = {2000: (22.6, 0.5), 4000: (4.4, 0.3), 6000: (0.58, 0.08), 8000: (0.03, 0.015)}  # loss, tolerance
RACE_START = (3e-9, 6e-5)  # strengths of the always open pathway and of the others, in the authors' script
SHOWN = (0.0625, 0.25, 0.5, 1.0)  # of training, when outputs are shown


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

    def train(self, hidden: int, seed: int, std: float) -> nr.relu.ReluNetwork:
        """A ReLU network of any width, with the initial strength of one with `self.hidden` units."""
        x, y = nr.tasks.contexts(3, STRUCTURES).arrays
        scaled = std * (self.hidden / hidden) ** 0.5
        return nr.relu.train(x, y, [hidden], scaled, self.lr, self.epochs, 161, seed)

    def pathways(self, kind: str) -> nr.Task:
        """An always open pathway, and others by kind."""
        return nr.tasks.contexts(3, STRUCTURES, gating=kind, hidden=self.pathway)


@part(each=lambda p: range(p.seeds))
def losses(p: Contexts, seed: int):
    """A ReLU network, gated networks, and predictions of its loss; losses are summed over samples."""
    net = p.train(p.hidden, seed, p.std)
    imitation = nr.relu.imitate(net, p.pathways("shared"))
    own, _ = nr.relu.as_gdln(net, -1)
    staged = two_stage_loss(net, modes.CONTEXT)
    loss = {"relu": net.loss, "imitation": imitation.loss, "staged": staged}
    for kind in ("shared", "single", "both"):
        task = p.pathways(kind)
        start = nr.init.gaussian(task.graph, std=p.std, seed=seed)
        loss[kind] = nr.relu.train_like(net, task, start).loss
    loss["own"] = nr.relu.train_like(net, own, net.at(0)).loss
    loss["narrow"] = p.train(p.narrow, seed, p.std).loss
    kinds = p.pathways("shared"), p.pathways("single")
    two, one = (modes.as_published(net, task, p.std, p.context_std, seed) for task in kinds)
    loss["published"], loss["published_single"] = two.loss, one.loss
    apart = nr.predict(kinds[0], two.weights)["y"] - nr.predict(net.task, net.weights)["y"]
    open_ = modes.open_in_contexts(net, 3)
    size = nr.unit_sizes(*net.at(-1).values(), normalise=True)
    return {
        "epoch": ("epoch", net.steps),
        **{name: ("epoch", value) for name, value in loss.items()},
        "distance": ("epoch", imitation.distance),
        "published_distance": ("epoch", np.sqrt((apart**2).sum(axis=(1, 2)) / (net.Y**2).sum())),
        "mixed": nr.relu.mixed_share(net, modes.CONTEXT),
        "one_context": ("context", (open_ > 0) @ (size * ((open_ > 0).sum(axis=0) == 1))),
        "mostly_one_context": size[(open_ > 0.5).sum(axis=0) == 1].sum(),
    }


@part
def table_1(p: Contexts):
    """A ReLU network from the initial weights of Table 1."""
    net = p.train(p.hidden, 0, p.table_std)
    return {"epoch": ("epoch", net.steps), "loss": ("epoch", net.loss)}


@part
def race(p: Contexts, data):
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
    values = [modes.singular_values(alone.graph, found.weights, VALUES) for found in (solved, flow)]
    first, _ = modes.mode_outputs(x, y, np.ones(len(x)), lambda s, d: nr.exact.chain(t, s, d, common))
    outputs = first + nr.predict(alone, solved.weights)["y"]
    squares = [s.T @ s for s in map(alone.syx, alone.graph.paths())]
    turned = [np.linalg.norm(a @ b - b @ a) / np.linalg.norm(a @ b) for a, b in combinations(squares, 2)]
    return {
        "t": ("t", t),
        "loss": ("t", 0.5 * ((y - outputs) ** 2).sum(axis=(1, 2))),
        "residual_loss": ("method t", [solved.loss, flow.loss]),
        "values": ("method pathway t mode", values),
        "commutator": ("pair", turned),
    }


@part
def pictures(p: Contexts):
    """Outputs, singular values and hidden representations of a ReLU network and of its imitation."""
    net = p.train(p.hidden, 0, p.std)
    imitation = nr.relu.imitate(net, p.pathways("shared"))
    task, weights = imitation.task, imitation.trajectory.weights
    start = at(weights, 0)
    r = nr.reduce(task, "block")
    solved = r.solve(b0=r.strengths(start), t1=net.t[-1], save=net.t)
    shown = [round(share * (len(net.t) - 1)) for share in SHOWN]
    every = np.arange(0, len(net.t), 8)
    hidden = [nr.activity(task, at(weights, every), h) for h in task.graph.hidden]
    relu, gated = nr.activity(net.task, at(net.weights, every), "h1"), np.concatenate(hidden, axis=2)
    similar = [np.corrcoef(pdist(a), pdist(b))[0, 1] for a, b in zip(relu, gated, strict=True)]
    outputs = [np.stack([net.predict(i) for i in shown]), nr.predict(task, at(weights, shown))["y"]]
    values = [modes.singular_values(task.graph, w, VALUES) for w in (weights, solved.weights)]
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
def loss(p: Contexts, data):
    return context_figures.losses(along(data.losses, "seed"), data.race.loss), (
        f"Loss of ReLU networks ({p.seeds} seeds, band) and means for gated networks. Left, as published: "
        f"the always open pathway learns as if alone, those by context, from weights {p.context_std:g} "
        "times as large, on what it leaves; green: the race of their modes from the strengths in the "
        "authors' script. Right, by the whole gradient: from random weights of their own (thin), from "
        "those of the ReLU network (dashed), predicted from its initial weights in two stages (red), and "
        "with the gates that the ReLU network has at the end, from the start (dotted). Initial weights of "
        f"std {p.std:.2g}, as in the authors' code; Table 1 has {p.table_std:g}."
    )


@figure("outputs")
def outputs(p: Contexts, data):
    return context_figures.outputs(data.pictures), (
        "Outputs of a ReLU network and of four gated pathways trained from the same weights by the "
        "gradient of the whole loss. Columns are items, context by context; rows are properties, those of "
        "every context first, then those of each."
    )


@figure("hidden")
def hidden(p: Contexts, data):
    return context_figures.hidden(data.pictures), (
        "Top: the six largest singular values of the always open pathway and of those open in two contexts "
        "(mean of three); lines from the block reduction at the initial weights, dots as trained. Bottom: "
        "hidden representations over training by multidimensional scaling (lines), with markers at the end; "
        "coordinates in the units of hidden activity, the same in both."
    )


@figure("race")
def race_on_the_residual(p: Contexts, data):
    return context_figures.race(data.race, data.losses[0].epoch), (
        "Singular values of the pathways open in two contexts, alone on what the always open one leaves, "
        f"from a decoupled start of strength {RACE_START[1]:g}: the race reduction of appendix F, which "
        "keeps a strength for each mode of a pathway, and the flow of the pathways."
    )


FIG, PROPOSITION = "make_haste_slowly Fig. 4", "make_haste_slowly Prop. 4.2"
MIXED = "Its units are always open at first and mixed within contexts later; constant gates are not."
SMALL = "3% of the initial loss, chosen here for equal losses"
TWICE = "a factor of 2, chosen here for curves on a logarithmic axis"
OUTPUTS = "5% of the targets, chosen here for 'exact'"


@claims
def published_curves(p: Contexts, data):
    agree, same = quoted(f"{FIG}a", "fig-4a-agreement"), quoted(FIG, "fig-4a-outputs")
    d, published = along(data.losses, "seed"), {e: v for e, v in PUBLISHED.items() if e <= p.epochs}
    name = "half the sum of squares of the targets"
    targets = check("make_haste_slowly Fig. 3", "the targets, to three digits; weights are near zero")
    yield targets.near("initial-loss", name, 105.623, d.relu[:, 0], 5e-4)
    curve = check(f"{FIG}a, the published curve", "read off the figure, to the width of its line")
    for epoch, (value, tolerance) in published.items():
        name, measured = f"loss of ReLU networks at epoch {epoch}", at_epoch(d.relu, epoch)
        yield curve.near(f"relu-loss-epoch-{epoch}", name, value, measured, tolerance)
    early = "Pathways by context learn at once, on what contexts share, while the always open one does."
    set_by_hand = (
        f"The start of {RACE_START[1]:g} is set by hand: that of the weights is {p.start_strength:.0e}. "
        "Modes of different structures turn into one another, which the race leaves out."
    )
    name = "loss of {}, from ReLU, distance in the figure".format
    mean = d[["published", "relu"]].mean("seed")
    off, what = drawn_distance(d.epoch, mean.published, mean.relu), name("pathways trained as published")
    yield agree.below("published-loss", what, 0.03, off, early, modes.DRAWN)
    off, what = drawn_distance(d.epoch, data.race.loss, mean.relu), name("race reduction, published start")
    yield agree.below("race-loss", what, 0.03, off, set_by_hand, modes.DRAWN)
    name, distance = "pathways trained as published, distance of outputs, largest", d.published_distance
    yield same.below("published-outputs", name, 0.05, distance.max("epoch"), early, OUTPUTS)
    for epoch, (value, tolerance) in list(published.items())[:1]:
        name = f"loss at epoch {epoch} from the initial weights of Table 1, std {p.table_std:g}"
        slow = "Smaller weights learn later. Fig. 4a is that of std .005/700, as in the authors' code."
        loss, bound = at_epoch(data.table_1.loss, epoch), "read off Fig. 4a, as for the other epochs"
        table = paper("make_haste_slowly Table 1", "Init-Scale 1 x 10^-7")
        yield table.near("table-1-init-scale", name, value, loss, tolerance, slow, bound)


def at_epoch(loss: xr.DataArray, epoch: int) -> xr.DataArray:
    return loss.sel(epoch=epoch, method="nearest")


@claims
def race_of_modes(p: Contexts, data):
    reduces = paper(
        "make_haste_slowly F",
        "Section 4 where the output matrix has different structure, the 'race' dynamics are obtain using "
        "this reduction.",
    )
    shared = quoted("make_haste_slowly F", "f-shared-modes")
    d = data.race
    note = "Different structures have different modes: strengths of modes do not close."
    name = "race on the residual, different structures: loss, reduction from flow, distance in the figure"
    off = drawn_distance(d.t, *d.residual_loss)
    yield reduces.below("race-reduction", name, 0.03, off, note, modes.DRAWN)
    solved, flow = d["values"].transpose("method", ..., "t").values
    off = drawn_distance(d.t, solved, flow, flow.max()).max()
    name = "race on the residual, different structures: singular values, largest distance in the figure"
    yield reduces.below("race-singular-values", name, 0.03, off, note, modes.DRAWN)
    name = "different structures: |[A, B]| / |A B|, A and B the Syx^T Syx of two pathways, largest"
    note = "Inputs are white, so they have no modes of their own; those of the residual differ."
    bound = "rounding: 0 where modes are shared"
    yield shared.below("shared-modes", name, 1e-9, d.commutator.max(), note, bound)


@claims
def gates(p: Contexts, data):
    unique, fastest = quoted(PROPOSITION, "prop-4-2-equal"), quoted(PROPOSITION, "prop-4-2-less")
    d = along(data.losses, "seed")
    mean, end = d.mean("seed"), d.isel(epoch=-1)
    for id, key, kind in (
        ("four-pathways", "imitation", unique),
        ("two-stages", "staged", finding(f"{FIG}a")),
    ):
        name = f"{id.replace('-', ' ')}, predicted loss"
        apart = np.abs(mean[key] - mean.relu).max() / mean.relu[0]
        yield kind.below(f"{id}-error", f"{name}: error / initial, whole path", 0.03, apart, MIXED, SMALL)
        factor = modes.loss_factor(d[key], d.relu)
        yield kind.below(f"{id}-factor", f"{name}: factor until 1e-3", 2, factor, MIXED, TWICE)
    name, distance = "four pathways, distance of outputs, largest", d.distance.max("epoch")
    definition = quoted("make_haste_slowly Def. 3.1", "def-3-1")
    yield definition.below("four-pathways-outputs", name, 0.05, distance, MIXED, OUTPUTS)
    name = "loss at the end, open in one context / in two"
    faster = quoted(PROPOSITION, "two-contexts-faster")
    yield faster.above("two-contexts-faster", name, 1, end.single / end.shared, bound="the paper")
    name = "epochs at which two contexts have less loss than {}, share".format
    note = "Until the always open pathway has learned both are the same but for random weights."
    share = (mean.shared < mean.single)[1:].mean()
    always = "the paper: at all times"
    yield fastest.near("less-than-one-context", name("one"), 1, share, 0, note, always)
    note = "Mixed gates, the network's own, are implementable, and faster than those by context."
    share, what = (mean.shared < mean.own)[1:].mean(), name("the last gates of the ReLU network")
    yield fastest.near("less-than-own-gates", what, 1, share, 0, note, always)


@claims
def units(p: Contexts, data):
    lemma = quoted("make_haste_slowly Lemma 4.1", "lemma-4-1-consistently")
    none = quoted("make_haste_slowly section 4", "no-context-specific-neurons")
    d, few = along(data.losses, "seed"), "1% of the weight, chosen here for 'no'"
    name = "weight in units mixed within a context, last epoch"
    note = "The lemma overlooks nested patterns: open for some items of a context and not for others."
    yield lemma.below("mixed-units", name, 0.01, d.mixed, note, few)
    name = "weight in units open in one context only, last epoch"
    shares = zip(STRUCTURES, d.one_context.mean("seed").values, strict=True)
    told = ", ".join(f"{structure} {share:.1%}" for structure, share in shares)
    note = f"What only the ring has is learned by units of its own, if few and late. By context: {told}."
    yield none.below("one-context-units", name, 0.01, d.one_context.sum("context"), note, few)
    name = "weight in units open for most items of one context only, last epoch"
    note = "They are open for a few items of other contexts too, and work for one."
    yield none.below("mostly-one-context-units", name, 0.01, d.mostly_one_context, note, few)
    name = f"loss at the end with {p.narrow} units of equal strength / {p.hidden}"
    note = "Late learning depends on the number of units, of which four pathways know nothing."
    ratio = d.narrow[:, -1].mean() / d.relu[:, -1].mean()
    yield finding(f"{FIG}a").above("narrow-network", name, 2, ratio, note)


@claims
def representations(p: Contexts, data):
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
