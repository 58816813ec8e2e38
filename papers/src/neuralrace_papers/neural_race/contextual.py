"""Two numbers come in; context says which one to report. One network without gates can only average the
two answers; with a pathway for each context the same linear layers solve the task, because each pathway
learns from the data of its own context alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace.tasks import contextual_classification
from neuralrace_papers.framework import Data, Experiment, figure, part, rows


@dataclass(frozen=True)
class Contextual:
    seeds: Annotated[int, "random starts of each network"] = 10
    samples: Annotated[int, "samples drawn for each network that learns from samples"] = 10_000
    hidden: Annotated[int, "hidden units of each pathway"] = 32
    std: Annotated[float, "standard deviation of initial weights"] = 1e-2
    t1: Annotated[float, "end of training, flow time"] = 150.0


@part(each=("linear", "gated", "sampled"))
def networks(p: Contextual, kind: str):
    """One pathway without gates, or one for each context; from moments, or each network from its samples."""
    graph = nr.Graph.pathways(2, 1, [[p.hidden]]) if kind == "linear" else None
    runs, maps = [], []
    for seed in range(p.seeds):
        task = contextual_classification(p.samples if kind == "sampled" else None, seed, p.hidden, graph)
        runs.append(nr.flow(task, nr.init.gaussian(task.graph, p.std, seed=seed), p.t1, 200))
        maps.append([m[-1, 0] for m in nr.measure.pathway_maps(task.graph, runs[-1]).values()])
    return {
        "t": ("t", runs[0].t),
        "loss": ("run t", [run.loss for run in runs]),
        "attainable": ("run", [nr.attainable_loss(run.task).loss for run in runs]),
        "weights": ("run pathway input", maps),
    }


@part
def moments(p: Contextual):
    """Path statistics of all samples that are drawn, without gates and with a pathway for each context."""
    found: dict[str, list[Any]] = {"all_yx": [], "all_xx": [], "yx": [], "xx": []}
    for k in range(p.seeds):
        plain = contextual_classification(p.samples, k, graph=nr.Graph.pathways(2, 1, [[1]]))
        gated = contextual_classification(p.samples, k, hidden=1)
        (path,), paths = plain.graph.paths(), gated.graph.paths()
        found["all_yx"].append(plain.syx(path)[0])
        found["all_xx"].append(plain.sxx(path, path))
        found["yx"].append([gated.syx(a)[0] for a in paths])
        found["xx"].append([[gated.sxx(a, b) for b in paths] for a in paths])
    axes = {"all_yx": "run i", "all_xx": "run i j", "yx": "run pathway i", "xx": "run pathway other i j"}
    return {name: (axes[name], values) for name, values in found.items()}


@figure("contextual")
def losses_and_maps(p: Contextual, data: Data):
    fig, (left, right) = plot.figure(1, 2)
    linear, gated, sampled = (data.networks[kind] for kind in ("linear", "gated", "sampled"))
    plot.runs(left, linear.t, linear.loss, plot.RED, "one pathway, no gates")
    plot.runs(left, gated.t, gated.loss, plot.BLUE, "a pathway per context")
    left.axhline(1 / 12, color=plot.BLACK, lw=0.8, ls="--", label="error of the best linear map: 1/12")
    left.set(ylim=(0, None), xlim=(0, min(p.t1, 60)))
    plot.label(left, "time (τ = 1)", "loss", legend="best")
    for end, style, colour, label in (
        (linear.weights[:, 0], "s", plot.RED, "no gates"),
        (sampled.weights[:, 0], "o", plot.BLUE, "pathway of context 1"),
        (sampled.weights[:, 1], "^", plot.GREEN, "pathway of context 2"),
    ):
        right.plot(*end.T, style, color=colour, ms=4, label=label, alpha=0.7)
    right.plot([0.5, 1, 0], [0.5, 0, 1], "+", color=plot.BLACK, ms=12, label="least squares")
    right.set(xlim=(-0.2, 1.3), ylim=(-0.2, 1.3))
    plot.label(right, "weight of input 1", "weight of input 2", legend="best")
    return fig, (
        "Left: loss over time; without gates it ends at the error of the best linear map. Right: the map "
        f"from inputs to output that each pathway ends with, for {p.seeds} draws of {p.samples} samples."
    )


@rows
def path_statistics(p: Contextual, data: Data):
    """Means over all samples of all draws, less the printed numbers: the largest entry."""
    found, sixth = data.moments.mean("run"), np.eye(2) / 6
    for key, values, printed in (
        ("eq-24", found.all_yx, np.full(2, 1 / 6)),
        ("eq-25", found.all_xx, np.eye(2) / 3),
        ("eq-26-27", found.yx, sixth),
        ("eq-28", found.xx.values[[0, 1], [0, 1]], sixth),
    ):
        yield f"moments-{key}", np.abs(np.asarray(values) - printed).max()


@rows
def final_maps(p: Contextual, data: Data):
    linear, gated, sampled = (data.networks[kind] for kind in ("linear", "gated", "sampled"))
    yield "no-gates-map", np.abs(linear.weights - 0.5).max(["pathway", "input"])
    yield "no-gates-above-attainable", linear.loss[:, -1] - linear.attainable
    yield "context-maps", np.abs(gated.weights - np.eye(2)).max(["pathway", "input"])
    yield "gated-loss", gated.loss[:, -1]
    yield "gated-loss-samples", sampled.loss[:, -1]


EXPERIMENT = Experiment(
    "contextual",
    "Contextual classification: gates make linear layers solve a nonlinear task",
    "neural_race A.2",
    Contextual(),
    quick={"seeds": 3, "samples": 1000},
    minutes=(0.1, 0.3),
)
