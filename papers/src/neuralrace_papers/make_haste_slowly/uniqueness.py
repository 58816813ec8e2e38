"""Which gated linear network is the ReLU network on items in contexts, and is it the only one? Pathways open
in two contexts learn faster than pathways open in one, or for one sample; trained together with them those of
one context hardly grow. Of all gates that a unit can have, always open has the largest correlation with the
targets. On the residual that the always-open pathway leaves this is no longer so: there one context
correlates as much as the two others, gates that split the items of a context correlate more than either, and
pathways that start then grow alike.
The theory is exact for a ReLU network whose units have the gates of their pathway, never switch and start
decoupled; networks from small random weights start with none of the three."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

import neuralrace as nr
from neuralrace import plot
from neuralrace.measure import crossing
from neuralrace_papers.framework.claim import finding
from neuralrace_papers.framework.declaration import claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option
from neuralrace_papers.framework.quotes import quoted
from neuralrace_papers.make_haste_slowly.modes import CONTEXT, ITEMS, STRUCTURES

CONTEXTS, KINDS = 3, tuple(STRUCTURES)
# Pathways, named by the contexts in which they are open.
OPEN = {"always": ["111"], "two": ["110", "101", "011"], "one": ["100", "010", "001"]}
PATHWAYS = [name for names in OPEN.values() for name in names]
GATES = np.repeat([[int(digit) for digit in pathway] for pathway in PATHWAYS], ITEMS, axis=1)
GATINGS = {
    "shared": ("two contexts", plot.BLUE),
    "single": ("one context", plot.ORANGE),
    "both": ("both kinds", plot.GREEN),
}
PATHWAY_LINES = {"always open": plot.BLACK, "two contexts": plot.BLUE, "one context": plot.ORANGE}
LEARNED = 0.05  # of the initial loss, where learning times are compared


class Uniqueness(Parameters):
    hidden: int = option(700, "units of the ReLU networks", least=4)
    pathway: int = option(100, "units of each pathway of the gated networks")
    std: float = option(0.005 / 700, "standard deviation of initial weights")
    lr: float = option(1e-3, "learning rate, on the loss summed over samples")
    steps: int = option(8000, "steps of training")
    save: int = option(81, "times that are saved", least=2)
    raced: tuple[str, ...] = option(
        KINDS, "structures of the contexts for which decoupled pathways race", choices=KINDS
    )
    level: float = option(0.05, "loss that ends the race, as a share of the initial one")
    stride: int = option(1, "every so many of all gates that a unit can have are tried")
    strength: float = option(1e-3, "initial strength of each mode and layer in the race")

    def descend(self, task: nr.Task, save: Any, save_weights: bool = True) -> nr.Trajectory:
        """Gated networks from small random weights, trained as the ReLU networks are."""
        start, lr = nr.init.gaussian(task.graph, self.std, seed=range(self.seeds)), self.lr * len(GATES[0])
        return nr.descend(task, start, lr, self.steps, save, save_weights=save_weights)


@part(each=KINDS)
def networks(p: Uniqueness, kind: str):
    """A ReLU network and three gated ones, trained alike from small random weights by the whole gradient."""
    x, y = nr.tasks.contexts(CONTEXTS, STRUCTURES[kind]).arrays
    net = nr.relu.train(x, y, [p.hidden], p.std, p.lr, p.steps, p.save, range(p.seeds))
    tasks = {g: nr.tasks.contexts(CONTEXTS, STRUCTURES[kind], g, hidden=p.pathway) for g in GATINGS}
    runs = {g: p.descend(task, net.t, save_weights=g == "both") for g, task in tasks.items()}
    conditions = nr.relu.reduction_conditions(net, GATES[:4])
    return {
        "epoch": ("epoch", net.steps),
        "network": ("network", ["relu", *GATINGS]),
        "pathway": ("pathway", PATHWAYS),
        "loss": ("network run epoch", [net.loss, *(net.loss_scale * run.loss for run in runs.values())]),
        "size": ("run epoch pathway", pathway_sizes(runs["both"], tasks["both"].graph)),
        **{name: ("run epoch", share) for name, share in conditions.items()},
    }


@part(each=KINDS)
def rates(p: Uniqueness, kind: str):
    """Growth rates of small units with constant gates: on the targets, and on what always open leaves.

    Nothing in the inputs and targets is negative, so a gate that is opened for one more sample adds to the
    rate on the targets: of all gates but always open, those closed for one sample have the largest.
    """
    x, y = nr.tasks.contexts(CONTEXTS, STRUCTURES[kind]).arrays
    residual = nr.relu.pathway_residual(x, y)
    patterns = nr.relu.context_patterns(ITEMS, CONTEXTS)[:: p.stride]
    return {
        "pathway": ("pathway", PATHWAYS),
        "targets": ("pathway", nr.relu.growth_rates(GATES, x, y)),
        "residual": ("pathway", nr.relu.growth_rates(GATES, x, residual)),
        "one_closed": nr.relu.growth_rates(1 - np.eye(len(x)), x, y).max(),
        "any_on_residual": nr.relu.growth_rates(patterns, x, residual).max(),
        "patterns": len(patterns),
    }


@part(each=KINDS)
def late(p: Uniqueness, kind: str):
    """Sizes of the pathways of one and of two contexts that start when always open has learned."""
    x, y = nr.tasks.contexts(CONTEXTS, STRUCTURES[kind]).arrays
    residual, gates, items = nr.relu.pathway_residual(x, y), GATES[1:], range(ITEMS)
    task = nr.tasks.gated(x, residual, gates, p.pathway, dict.fromkeys(range(len(gates)), items))
    sizes = pathway_sizes(p.descend(task, 2), task.graph)
    return {"pathway": ("pathway", PATHWAYS[1:]), "size": ("run pathway", sizes[:, -1])}


@part(each="raced")
def race(p: Uniqueness, kind: str):
    """Learning time of the always-open pathway with those open in one context, in two, all of them, or with
    one pathway for each sample."""
    x, y = nr.tasks.contexts(CONTEXTS, STRUCTURES[kind]).arrays
    candidates = nr.relu.context_candidates(x, y, CONTEXT, range(ITEMS), hidden=len(x))
    each = np.concatenate([np.ones((1, len(x))), np.eye(len(x))])
    columns = dict.fromkeys(range(1, len(each)), range(ITEMS))
    candidates["samples"] = nr.tasks.gated(x, y, each, CONTEXTS + ITEMS, columns)
    return nr.race(candidates, p.level, p.strength).times


def pathway_sizes(run: nr.Trajectory, graph: nr.Graph) -> np.ndarray:
    """Frobenius norm of the map of every pathway, `(run, save, pathway)`."""
    maps = nr.pathway_maps(graph, run).values()
    return np.stack([np.linalg.norm(m, axis=(-2, -1)) for m in maps], axis=-1)


def one_over_two(size: xr.DataArray) -> xr.DataArray:
    """Largest pathway open in one context, relative to the mean of those open in two."""
    return size.sel(pathway=OPEN["one"]).max("pathway") / size.sel(pathway=OPEN["two"]).mean("pathway")


@figure("uniqueness")
def courses(p: Uniqueness, data):
    fig, axes = plot.figure(2, 3, height=4.2, sharex=True)
    for row, (kind, d) in zip(axes, data.networks.items(), strict=True):
        draw_networks(row, d)
        row[0].set_title(f"{kind} structure{'s' * (kind == 'different')}: loss")
    for top, bottom, place in zip(*axes, ("lower left", (0.42, 0.6), (0.33, 0.42)), strict=True):
        top.legend(loc=place)
        bottom.set_xlabel("epoch")
    return fig, (
        "Left: summed loss of ReLU networks (band) and of gated linear ones with an always-open pathway and "
        "others (lines, median). Middle: Frobenius norm of the map of each pathway, all of them trained in "
        "one network. Right: how far ReLU networks are from the conditions under which the reduction is "
        "exact, which are 1, 0 and 0; gates that are those of the unit's pathway, gates that differ from the "
        "start, and squared weights outside the modes of the always-open network. "
        f"{p.seeds} seeds, median and range."
    )


def draw_networks(axes: Any, d: xr.Dataset) -> None:
    """Losses, sizes of pathways, and conditions of the reduction, over epochs."""
    loss, size, share = axes
    relu = d.loss.sel(network="relu")
    plot.runs(loss, d.epoch, relu, plot.BLACK, "ReLU network")
    for gating, (label, colour) in GATINGS.items():
        style = {"ls": "--", "zorder": 4} if gating == "both" else {}
        plot.theory(loss, d.epoch, d.loss.sel(network=gating).median("run"), colour, f"+ {label}", **style)
    plot.label(loss, y="loss, summed over samples", yscale="log", ylim=(relu.min() / 2, None))
    for pathways, (label, colour) in zip(OPEN.values(), PATHWAY_LINES.items(), strict=True):
        each = d["size"].sel(pathway=pathways).stack(curve=("run", "pathway")).T
        plot.runs(size, d.epoch, each, colour, label)
    plot.label(size, "", "norm of a pathway's map", "all pathways in one network", ylim=(0, None))
    plot.runs(share, d.epoch, d.match, plot.BLUE, "gates as in pathway")
    plot.runs(share, d.epoch, d.moved, plot.RED, "gates switched")
    plot.runs(share, d.epoch, d.coupled, plot.PINK, "weights off modes")
    plot.label(share, "", "share of gates; of weights", "ReLU network: conditions", ylim=(0, 1.02))


SECTION, APPENDIX = "make_haste_slowly Prop. 4.2", "make_haste_slowly E"
RIVAL, TENTH = "the paper: it is the faster one", "a tenth of the learning time, chosen here for 'matches'"
SMALL = "a twentieth of the others, chosen here for 'inactive'"
TWENTIETH = "a twentieth of the learning time, chosen here for 'inactive'"
FASTER = quoted(SECTION, "two-contexts-faster")
INACTIVE = quoted(APPENDIX, "e-inactive")


@claims
def races(p: Uniqueness, data):
    samples = quoted(APPENDIX, "e-single-samples")
    more = "More pathways are never slower; what those of one context add is little."
    for kind, time in data.race.items():
        name = f"{kind}: race, time of {{}}".format
        what, ratio = name("two contexts / of one"), time["2"] / time["1"]
        yield FASTER.below(f"race-two-contexts-{kind}", what, 1, ratio, bound=RIVAL)
        what, ratio = name("two contexts / of one pathway for each sample"), time["2"] / time["samples"]
        yield samples.below(f"race-samples-{kind}", what, 1, ratio, bound=RIVAL)
        what, ratio = name("all pathways / of two contexts"), time["1+2"] / time["2"]
        yield INACTIVE.near(f"race-all-{kind}", what, 1, ratio, 0.05, more, TWENTIETH)


@claims
def trained(p: Uniqueness, data):
    single = quoted("make_haste_slowly Fig. 4a", "gdln-single")
    grown = (
        "The pathway of the ring context grows, and later the others: what is particular to one context "
        "is for its own pathway to learn. They stay small, not inactive."
    )
    slow = "The ReLU network is the faster one: constant gates by context are not quite what it has."
    for kind, d in data.networks.items():
        relu, shared, alone, both = crossing(d.epoch, d.loss / d.loss[..., 0], LEARNED)
        notes = (grown, slow) if kind == "different" else ("", "")
        name = f"{kind}: largest one-context / mean two-context pathway at the end, in one network"
        ratio = one_over_two(d["size"].isel(epoch=-1))
        yield INACTIVE.below(f"single-inactive-{kind}", name, 0.05, ratio, notes[0], SMALL)
        name = f"{kind}: learning time, {{}} - 1".format
        what, late = name("two contexts / ReLU"), shared / relu - 1
        yield FASTER.near(f"time-two-contexts-{kind}", what, 0, late, 0.1, notes[1], TENTH)
        what, late = name("one context / ReLU"), alone / relu - 1
        yield single.above(f"time-one-context-{kind}", what, 0.1, late, bound=TENTH)
        what, late = name("both kinds / two contexts"), both / shared - 1
        yield INACTIVE.near(f"time-both-{kind}", what, 0, late, 0.05, bound=TWENTIETH)


@claims
def growth(p: Uniqueness, data):
    fastest, wins = quoted(SECTION, "common-fastest"), quoted(APPENDIX, "e-wins")
    lemma = quoted("make_haste_slowly Lemma 4.1", "lemma-4-1")
    alike = (
        "The residual sums to nothing over contexts, so one context and the two others correlate alike: the "
        "race that two contexts win is run before, on what contexts share, not on the residual."
    )
    ahead = (
        "Those of one context then grow as well: those of two win together with always open because they "
        "start to grow with it, on what contexts share; not by a faster race on the residual."
    )
    for kind, r in data.rates.items():
        two, one = (r.residual.sel(pathway=OPEN[n]).values for n in ("two", "one"))
        wide = (
            "The lemma leaves out gates that split the items of a context; on the residual such gates "
            f"correlate more, held constant, than any by context. Of {r.patterns.item()} gates."
        )
        name = f"{kind}: largest singular value, other gates of a unit / always open"
        ratio = r.one_closed / r.targets.sel(pathway="111")
        yield fastest.below(f"rate-always-open-{kind}", name, 1, ratio, bound="the paper: it is the fastest")
        name, ratio = f"{kind}: growth rate on the residual, two contexts / the third", two[::-1] / one
        bound = "the paper, and rounding"
        yield wins.above(f"residual-two-contexts-{kind}", name, 1 + 1e-9, ratio, alike, bound)
        name = f"{kind}: largest one-context / mean two-context pathway, started on the residual"
        ratio = one_over_two(data.late[kind]["size"])
        yield INACTIVE.below(f"residual-single-inactive-{kind}", name, 0.05, ratio, ahead, SMALL)
        name = f"{kind}: on the residual, largest of all gates of a unit / of two contexts"
        ratio, bound = r.any_on_residual / two.max(), "the lemma, and rounding: no other gates"
        yield lemma.below(f"residual-all-gates-{kind}", name, 1 + 1e-9, ratio, wide, bound)


@claims
def conditions(p: Uniqueness, data):
    """The talk names these as assumptions under which the reduction is exact for ReLU networks."""
    assumed = finding("learning_dynamics_talk, exact for ReLU networks")
    start = "Random weights: half of all gates are open, and no hidden direction belongs to a mode."
    mean = "Units leave out or add items of their own; only sums over units follow the pathways."
    turn = "First to always open, while weights are small; then again as pathways form."
    align = "Weights align as they grow: while always open learns, the network is nearly decoupled."
    for kind, d in data.networks.items():
        name = f"{kind}: gates that are those of the pathway, at the"
        yield assumed.above(f"gates-match-start-{kind}", f"{name} start", 0.9, d.match[:, 0], start)
        yield assumed.above(f"gates-match-end-{kind}", f"{name} end", 0.9, d.match[:, -1], mean)
        name = f"{kind}: gates that have switched since the start"
        yield assumed.below(f"gates-switched-{kind}", name, 0.1, d.moved[:, -1], turn)
        name = f"{kind}: weights outside the modes of always open"
        yield assumed.below(f"decoupled-start-{kind}", f"{name}, at the start", 0.1, d.coupled[:, 0], start)
        least = d.coupled.min("epoch")
        yield assumed.below(f"decoupled-least-{kind}", f"{name}, where they are fewest", 0.1, least, align)


EXPERIMENT = Experiment(
    "uniqueness",
    "Items in contexts: is the gated network that a ReLU network is the only one?",
    "make_haste_slowly Prop. 4.2, Fig. 4a, D, E",
    Uniqueness(),
    Uniqueness(
        seeds=1, hidden=120, pathway=30, std=1e-5, lr=4e-3, steps=2000, save=41, raced=("same",), stride=20
    ),
    minutes=(0.4, 6.0),
    needs_full=("time-two-contexts-different",),  # .09 here, .11 at full width
)
