"""Which gated linear network is the ReLU network on items in contexts, and is it the only one? Pathways
open in two contexts learn faster than pathways open in one, or for one sample. Of all gates that a unit can
have, always open has the largest correlation with the targets. On the residual that the always-open pathway
leaves this is no longer so: there one context correlates as much as the two others, and gates that split
the items of a context correlate more than either. The reduction is exact for a ReLU network whose units
have the gates of their pathway, never switch and start decoupled; networks from small random weights start
with none of the three."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import xarray as xr

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework import Data, Experiment, figure, part, rows
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
LEVEL = 0.05  # of the initial loss, where learning times are compared


@dataclass(frozen=True)
class Uniqueness:
    seeds: Annotated[int, "random starts of each network"] = 10
    hidden: Annotated[int, "units of the ReLU networks"] = 700
    pathway: Annotated[int, "units of each pathway of the gated networks"] = 100
    std: Annotated[float, "standard deviation of initial weights"] = 0.005 / 700
    lr: Annotated[float, "learning rate, on the loss summed over samples"] = 1e-3
    steps: Annotated[int, "steps of training"] = 8000
    save: Annotated[int, "times that are saved"] = 81
    raced: Annotated[tuple[str, ...], "structures of the contexts for which decoupled pathways race"] = KINDS
    level: Annotated[float, "loss that ends the race, as a share of the initial one"] = 0.05
    stride: Annotated[int, "every so many of all gates that a unit can have are tried"] = 1
    strength: Annotated[float, "initial strength of each mode and layer in the race"] = 1e-3

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
        "epoch": ("epoch", net.time("steps")),
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


@figure("uniqueness")
def courses(p: Uniqueness, data: Data):
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
        "exact, which are 1, 0 and 0. They are gates that are those of the unit's pathway, gates that differ "
        "from the start, and squared weights outside the modes of the always-open network. "
        f"{p.seeds} seeds, median and range."
    )


def draw_networks(axes: Any, d: xr.Dataset) -> None:
    """Losses, sizes of pathways, and conditions of the reduction, over epochs."""
    loss, size, share = axes
    relu = d.loss.sel(network="relu")
    plot.runs(loss, d.epoch, relu, plot.BLACK, "ReLU network")
    for gating, (label, colour) in GATINGS.items():
        style = {"ls": "--", "zorder": 4} if gating == "both" else {}
        plot.theory(
            loss, d.epoch, d.loss.sel(network=gating).median("run"), colour, f"pathways of {label}", **style
        )
    plot.label(loss, y="loss, summed over samples", yscale="log", ylim=(relu.min() / 2, None))
    for pathways, (label, colour) in zip(OPEN.values(), PATHWAY_LINES.items(), strict=True):
        each = d["size"].sel(pathway=pathways).stack(curve=("run", "pathway")).T
        plot.runs(size, d.epoch, each, colour, label)
    plot.label(size, "", "norm of a pathway's map", "all pathways in one network", ylim=(0, None))
    plot.runs(share, d.epoch, d.match, plot.BLUE, "gates as in pathway")
    plot.runs(share, d.epoch, d.moved, plot.RED, "gates switched")
    plot.runs(share, d.epoch, d.coupled, plot.PINK, "weights off modes")
    plot.label(share, "", "share of gates; of weights", "ReLU network: conditions", ylim=(0, 1.02))


@rows
def races(p: Uniqueness, data: Data):
    for kind, time in data.race.items():
        yield f"race-two-contexts-{kind}", time["2"] / time["1"]
        yield f"race-samples-{kind}", time["2"] / time["samples"]
        yield f"race-all-{kind}", time["1+2"] / time["2"]


@rows
def growth(p: Uniqueness, data: Data):
    for kind, r in data.rates.items():
        two, one = (r.residual.sel(pathway=OPEN[n]).values for n in ("two", "one"))
        yield f"rate-always-open-{kind}", r.one_closed / r.targets.sel(pathway="111")
        yield f"residual-two-contexts-{kind}", two[::-1] / one
        yield f"residual-all-gates-{kind}", r.any_on_residual / two.max()


@rows
def by_the_whole_gradient(p: Uniqueness, data: Data):
    for kind, d in data.networks.items():
        relu, shared, alone, both = nr.measure.crossing(d.epoch, d.loss / d.loss[..., 0], LEVEL)
        end = d["size"].isel(epoch=-1)
        one, two = (end.sel(pathway=OPEN[n]) for n in ("one", "two"))
        yield f"single-inactive-{kind}", one.max("pathway") / two.mean("pathway")
        yield f"time-two-contexts-{kind}", shared / relu - 1
        yield f"time-one-context-{kind}", alone / relu - 1
        yield f"time-both-{kind}", both / shared - 1
        yield f"gates-match-start-{kind}", d.match[:, 0]
        yield f"gates-match-end-{kind}", d.match[:, -1]
        yield f"gates-switched-{kind}", d.moved[:, -1]
        yield f"decoupled-start-{kind}", d.coupled[:, 0]
        yield f"decoupled-least-{kind}", d.coupled.min("epoch")


EXPERIMENT = Experiment(
    "uniqueness",
    "Items in contexts: is the gated network that a ReLU network is the only one?",
    "make_haste_slowly Prop. 4.2, Fig. 4a, D, E",
    Uniqueness(),
    quick={
        "seeds": 1, "hidden": 120, "pathway": 30, "std": 1e-5, "lr": 4e-3, "steps": 2000, "save": 41,
        "raced": ("same",), "stride": 20,
    },
    minutes=(0.4, 6.0),
)  # fmt: skip
