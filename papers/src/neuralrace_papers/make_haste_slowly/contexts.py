"""Eight items in three contexts: some properties hold in every context, some in one only. A ReLU network
learns them as gated linear pathways do that are trained beside it: one that is always open, and three that
are open in two contexts each. Here the pathways are trained as the authors train them, where the always
open one learns as if alone and the others at once on what it leaves; and, for comparison, by the gradient
of the whole loss."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any

import numpy as np
from scipy.spatial.distance import pdist

import neuralrace as nr
from neuralrace_papers.framework import Data, Experiment, along, figure, part, rows
from neuralrace_papers.make_haste_slowly import context_figures, modes
from neuralrace_papers.make_haste_slowly.context_figures import VALUES
from neuralrace_papers.make_haste_slowly.stages import two_stage_loss

STRUCTURES = modes.STRUCTURES["different"]
GATINGS = {"two": "shared", "one": "single", "six": "both"}  # pathways beside the always open one
READ = (2000, 4000, 6000, 8000)  # epochs at which the published curve was read
RACE_START = (3e-9, 6e-5)  # strengths of the always open pathway and of the others, in the authors' script
SHOWN = (1 / 8, 1 / 2, 1)  # of training: epochs 1000, 4000 and 8000, whose outputs the authors' script draws
FIRST_TARGETS = 15  # those of every context


@dataclass(frozen=True)
class Contexts:
    seeds: Annotated[int, "random starts of each network"] = 5
    hidden: Annotated[int, "units of the ReLU networks"] = 700
    pathway: Annotated[int, "units of each pathway of the gated networks"] = 100
    std: Annotated[float, "standard deviation of initial weights"] = 0.005 / 700
    context_std: Annotated[float, "that of pathways by context, relative to `std`"] = 2.0
    table_std: Annotated[float, "standard deviation of initial weights in Table 1"] = 1e-7
    lr: Annotated[float, "learning rate, on the loss summed over samples"] = 0.001
    epochs: Annotated[int, "steps of training"] = 8000

    def train(self, hidden: int, seed: int, std: float) -> nr.Trajectory:
        """A ReLU network of any width, with the initial strength of one with `self.hidden` units."""
        x, y = nr.tasks.contexts(3, STRUCTURES).arrays
        scaled = std * (self.hidden / hidden) ** 0.5
        return nr.relu.train(x, y, [hidden], scaled, self.lr, self.epochs, 161, seed)


@part(each=lambda p: range(p.seeds))
def networks(p: Contexts, seed: int):
    """A ReLU network; gated networks trained as published; and by the gradient of the whole loss."""
    net = p.train(p.hidden, seed, p.std)
    tasks = {name: nr.tasks.contexts(3, STRUCTURES, kind, p.pathway) for name, kind in GATINGS.items()}
    runs = {name: modes.as_published(net, t, p.std, p.context_std, seed) for name, t in tasks.items()}
    own, _ = nr.relu.as_gdln(net, -1)
    loss = {
        "relu": net.loss,
        **{name: run.loss for name, run in runs.items()},
        "imitation": nr.relu.imitate(net, nr.tasks.contexts(3, STRUCTURES, "shared", p.pathway)).loss,
        "staged": two_stage_loss(net, modes.CONTEXT),
        "own": nr.relu.train_like(net, own, net.at(0)).loss,
        "narrow": p.train(max(1, p.hidden // 7), seed, p.std).loss,
    }
    task, run = tasks["two"], runs["two"]
    outputs = nr.predict(net.task, net.weights)["y"], nr.predict(task, run.weights)["y"]
    shown, later = [round(s * 160) for s in SHOWN], np.arange(2, 161, 2)
    hidden = hidden_layers(net, task, run, later)
    end, edges = {e: w[-1] for e, w in run.weights.items()}, task.graph.edges
    of = [{e for e, ends in edges.items() if f"p{k}h1" in ends} for k in range(4)]
    alone = [nr.predict(task, {e: w * (e in names) for e, w in end.items()})["y"] for names in of]
    without = [nr.loss(task, {e: w * (e not in names) for e, w in end.items()}) for names in of]
    ins, outs = (np.linalg.svd(w, compute_uv=False)[:10] for e, w in end.items() if e in of[0])
    sizes = nr.unit_sizes(*net.at(-1).values(), normalise=True)
    y = net.task.arrays[1]
    maps = nr.pathway_maps(tasks["six"].graph, runs["six"]).values()
    return {
        "epoch": ("epoch", net.time("steps")),
        "shown": ("shown", net.time("steps")[shown]),
        **{name: ("epoch", values) for name, values in loss.items()},
        "apart": ("epoch", size(outputs[1] - outputs[0]) / size(y)),
        "outputs": ("network shown sample y", [values[shown] for values in outputs]),
        "targets": ("sample y", y),
        "hidden": ("network later sample axis", [nr.measure.principal_components(h) for h in hidden]),
        "similar": ("later", [np.corrcoef(pdist(a), pdist(b))[0, 1] for a, b in zip(*hidden, strict=True)]),
        "six_sizes": ("pathway6", [np.linalg.norm(m[-1]) for m in maps]),
        "values": ("pathway epoch mode", modes.singular_values(task.graph, run.weights, VALUES)),
        "blocks": ("by_context context block", [by_block(y) for y in alone[1:]]),
        "without": ("by_context", np.array(without[1:]) / (0.5 * (y**2).sum() / len(y))),
        "layers": ("layer_mode", np.abs(ins / outs - 1)),
        "by_contexts": ("contexts_open", modes.by_contexts_open(net, 3)),
        "one_context": sizes[(modes.open_in_contexts(net, 3) > 0).sum(axis=0) == 1].sum(),
        "mixed": nr.relu.mixed_share(net, modes.CONTEXT),
    }  # fmt: skip


def hidden_layers(net: Any, task: nr.Task, run: nr.Trajectory, later: np.ndarray) -> list[np.ndarray]:
    """Hidden activity of a ReLU network and of all pathways together, `(later, sample, unit)`."""
    relu, gated = ({e: w[later] for e, w in weights.items()} for weights in (net.weights, run.weights))
    pathways = [nr.activity(task, gated, h) for h in task.graph.hidden]
    return [nr.activity(net.task, relu, "h1"), np.concatenate(pathways, axis=2)]


def size(outputs: np.ndarray) -> np.ndarray:
    """Norm over samples and outputs."""
    return np.sqrt((outputs**2).sum(axis=(-2, -1)))


def by_block(outputs: np.ndarray) -> np.ndarray:
    """Size of what a pathway puts out in each context, for each block of labels that are of one context."""
    some = outputs[:, FIRST_TARGETS:].reshape(3, modes.ITEMS, 3, FIRST_TARGETS)
    return np.sqrt((some**2).mean(axis=(1, 3)))


def by_closed_context(values: Any) -> Any:
    """Of the pathways of two contexts, after the always open one: that closed in context 1 first."""
    return values[:0:-1]


@part
def table_1(p: Contexts):
    """A ReLU network from the initial weights of Table 1."""
    net = p.train(p.hidden, 0, p.table_std)
    return {"epoch": ("epoch", net.time("steps")), "loss": ("epoch", net.loss)}


@part
def race(p: Contexts, data: Data):
    """Appendix F for different structures: modes that race on what the always open pathway leaves.

    The reduction has a strength for each mode of each pathway; beside it the flow that it stands for.
    """
    x, y = nr.tasks.contexts(3, STRUCTURES).arrays
    t = data.networks[0].epoch.values * p.lr * len(x)
    alone, (common, others) = modes.on_the_residual(x, y, 3), RACE_START
    reduction = nr.reduce(alone, "pathwise")
    solved = reduction.solve(strengths=others**0.5, t1=t[-1], save=t)
    flow = nr.flow(alone, nr.init.decoupled(reduction, others**0.5), t[-1], t)
    both = [modes.singular_values(alone.graph, w.weights, VALUES) for w in (solved, flow)]
    first, _ = modes.mode_outputs(x, y, np.ones(len(x)), lambda s, d: nr.exact.chain(t, s, d, common))
    outputs = first + nr.predict(alone, solved.weights)["y"]
    squares = [s.T @ s for s in map(alone.syx, alone.graph.paths())]
    turned = [np.linalg.norm(a @ b - b @ a) / np.linalg.norm(a @ b) for a, b in combinations(squares, 2)]
    return {
        "t": ("t", t),
        "loss": ("t", 0.5 * ((y - outputs) ** 2).sum(axis=(1, 2))),
        "residual_loss": ("method t", [solved.loss, flow.loss]),
        "values": ("method pathway t mode", both),
        "commutator": ("pair", turned),
    }


@figure("loss")
def losses(p: Contexts, data: Data):
    return context_figures.losses(along(data.networks, "seed"), data.race.loss), (
        f"Loss of ReLU networks ({p.seeds} random starts, median and range) and mean loss of gated "
        "networks. Left: trained as published. The always open pathway learns as if alone; the others, "
        f"from weights {p.context_std:g} times as large, learn at once on what it leaves. The race "
        "reduction starts from the strengths in the authors' script. Right: trained by the gradient of the "
        "whole loss from the weights of the ReLU network. Initial weights have standard deviation "
        f"{p.std:.2g}, as in the authors' code."
    )


@figure("outputs")
def outputs(p: Contexts, data: Data):
    return context_figures.outputs(data.networks[0]), (
        "Outputs of a ReLU network and of four gated pathways trained as published, at the epochs that the "
        "authors' script shows. Columns are items, context by context. Rows are properties: first those of "
        "every context, then those of each."
    )


@figure("hidden")
def hidden(p: Contexts, data: Data):
    return context_figures.hidden(along(data.networks, "seed")), (
        "Left: correlation of the distances between hidden representations of the 24 samples, ReLU "
        f"networks and four pathways ({p.seeds} random starts, median and range). Right: the "
        "representations over training, for each network in the plane in which its own vary most (lines, "
        "with markers at the end)."
    )


@figure("race")
def singular_values(p: Contexts, data: Data):
    d = along(data.networks, "seed")
    return context_figures.race(data.race, d.epoch, by_closed_context(d["values"].mean("seed"))), (
        "The largest singular values of the three pathways that are open in two contexts. Dots: networks "
        f"trained as published (mean of {p.seeds}). Lines: the race reduction of appendix F on what the "
        f"always open pathway leaves, from strength {RACE_START[1]:g} as in the authors' script."
    )


@rows
def curves(p: Contexts, data: Data):
    d, far = along(data.networks, "seed"), nr.measure.drawn_distance
    mean = d.mean("seed")
    for epoch in READ:
        yield f"relu-loss-epoch-{epoch}", d.relu.sel(epoch=epoch, method="nearest")
    yield "published-loss", far(d.epoch, mean.two, mean.relu)
    yield "six-pathways-loss", far(d.epoch, mean.six, mean.relu)
    yield "one-context-loss", far(d.epoch, mean.one, mean.relu)
    yield "race-loss", far(d.epoch, data.race.loss, mean.relu)
    if p.seeds > 1:
        yield "seeds-apart", far(d.epoch, d.relu[0], d.relu[1:])
    yield "two-contexts-faster", d.one[:, -1] / d.two[:, -1]
    yield "less-than-one-context", (mean.two < mean.one)[1:].mean()
    yield "published-outputs", d.apart.sel(epoch=d.shown.values).max("epoch")
    yield "published-outputs-largest", d.apart.max("epoch")
    yield "table-1-init-scale", data.table_1.loss.sel(epoch=READ[0], method="nearest")
    for id, name in {"four-pathways": "imitation", "two-stages": "staged"}.items():
        yield f"{id}-error", np.abs(mean[name] - mean.relu).max() / mean.relu[0]
    yield "less-than-own-gates", (mean.two < mean.own)[1:].mean()
    yield "narrow-network", d.narrow[:, -1] / d.relu[:, -1].mean()


@rows
def race_of_modes(p: Contexts, data: Data):
    d = data.race
    yield "race-reduction", nr.measure.drawn_distance(d.t, *d.residual_loss)
    solved, flow = d["values"].transpose("method", ..., "t").values
    trained = along(data.networks, "seed")["values"].transpose(..., "epoch").mean("seed").values
    for id, values in {"singular-values": flow, "trained-values": by_closed_context(trained)}.items():
        yield f"race-{id}", nr.measure.drawn_distance(d.t, solved, values, values.max()).max()
    yield "shared-modes", d.commutator.max()


@rows
def pathways_and_units(p: Contexts, data: Data):
    d = along(data.networks, "seed")
    yield "hidden-distances", d.similar.min("later")
    yield "hidden-distances-mean", d.similar.mean("later")
    one, two = d.six_sizes[:, 4:], d.six_sizes[:, 1:4]
    yield "single-inactive", one.max("pathway6") / two.mean("pathway6")
    least = d.blocks.where(d.blocks > 1e-12).min(("by_context", "context", "block"))
    yield "all-blocks", least / d.blocks.max(("by_context", "context", "block"))
    yield "balance", d.without.min("by_context")
    yield "equal-layers", d.layers.max("layer_mode")
    yield "mixed-units", d.mixed
    yield "one-context-units", d.one_context
    yield "mostly-one-context-units", d.by_contexts[:, 1]


EXPERIMENT = Experiment(
    "contexts",
    "Items in contexts: pathways that a ReLU network shares",
    "make_haste_slowly Fig. 3-4, F, Table 1",
    Contexts(),
    quick={"seeds": 1, "hidden": 280, "pathway": 40, "std": 0.005 / 280},
    minutes=(0.6, 8),
)
