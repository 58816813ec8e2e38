"""Two numbers come in; context says which one to report. One network without gates can only average the
two answers; with a pathway for each context the same linear layers solve the task, because each pathway
learns from the data of its own context alone."""

from __future__ import annotations

from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace.tasks import contextual_classification
from neuralrace_papers.framework.claim import check, paper
from neuralrace_papers.framework.declaration import Data, claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option


class Contextual(Parameters):
    samples: int = option(10_000, "samples drawn for each network that learns from samples")
    hidden: int = option(32, "hidden units of each pathway")
    std: float = option(1e-2, "standard deviation of initial weights")
    t1: float = option(150.0, "end of training, flow time")


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


@claims
def path_statistics(p: Contextual, data: Data):
    """Means over all samples of all draws; no product of inputs or targets varies by more than 1/5."""
    limit = 4 * (0.2 / (p.samples * p.seeds)) ** 0.5
    bound = f"theory: 4 standard errors of a mean over {p.samples * p.seeds} samples"
    found, third, sixth = data.moments.mean("run"), np.eye(2) / 3, np.eye(2) / 6
    for key, quote, values, printed in (
        ("eq-24", "Sigma^yx = [1/6 1/6]", found.all_yx, [1 / 6, 1 / 6]),
        ("eq-25", "Sigma^x = 1/3 I", found.all_xx, third),
        ("eq-26-27", "Sigma^yx(1) = [1/6 0], Sigma^yx(2) = [0 1/6]", found.yx, sixth),
        ("eq-28", "Sigma^x(1,1) = Sigma^x(2,2) = 1/6 I", found.xx.values[[0, 1], [0, 1]], [sixth, sixth]),
    ):
        where = f"neural_race {key.replace('eq-', 'Eq. ')}"
        name = f"moments of samples less the printed ones, largest entry, {where[12:]}"
        yield paper(where, quote).below(
            f"moments-{key}", name, limit, np.abs(np.asarray(values) - printed).max(), bound=bound
        )
    between = "moments of samples from both pathways, largest entry: no sample opens both"
    yield check("neural_race Eq. 29").near(
        "moments-eq-29", between, 0, np.abs(found.xx.values[[0, 1], [1, 0]]).max(), 0
    )


@claims
def final_maps(p: Contextual, data: Data):
    source, solver = "neural_race A.2", "exact: end of a flow that has converged"
    linear = paper(source, "the total weights converge to the linear least squares solution [...] [1/2 1/2]")
    gated = paper(
        source, "W_tot(1) = [1 0] and W_tot(2) = [0 1], such that each pathway picks out the correct input"
    )
    for k in range(2):
        name, weight = f"no gates, weight of input {k + 1}", data.networks["linear"].weights[:, 0, k]
        yield linear.near(f"no-gates-input-{k + 1}", name, 0.5, weight, 1e-6, bound=solver)
    for c, k in np.ndindex(2, 2):
        name = f"pathway of context {c + 1}, weight of input {k + 1}"
        weight = data.networks["gated"].weights[:, c, k]
        yield gated.near(f"context-{c + 1}-input-{k + 1}", name, float(c == k), weight, 1e-6, bound=solver)
    solves = paper(
        source, "In combination with the gating scheme, these weights exactly solve this nonlinear task"
    )
    end = data.networks["gated"].loss[:, -1]
    yield solves.below("gated-loss", "gated loss at the end", 1e-10, end, bound=solver)
    name = f"gated loss at the end, {p.samples} samples"
    yield check(source).below("gated-loss-samples", name, 1e-10, data.networks["sampled"].loss[:, -1])


EXPERIMENT = Experiment(
    "contextual",
    "Contextual classification: gates make linear layers solve a nonlinear task",
    "neural_race A.2",
    Contextual(),
    Contextual(seeds=3, samples=1000),
    minutes=(0.1, 0.3),
)
