"""Two numbers come in; context says which one to report. One network without gates can only average the
two answers; with a pathway for each context the same linear layers solve the task, because each pathway meets
the data of its own context alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import plot
from neuralrace.experiments.old import Claim, Experiment, Parameters, Parts, Results, check, option, paper

SOURCE = "neural_race A.2"
COVARIANCE = np.eye(2) / 6  # of each input, in the half of the samples that a context has


@dataclass(frozen=True)
class Contextual(Parameters):
    samples: int = option(10_000, "samples drawn for each network that learns from samples")
    hidden: int = option(32, "hidden units of each pathway")
    std: float = option(1e-2, "standard deviation of initial weights")
    t1: float = option(150.0, "end of training, flow time")


def compute(p: Contextual, parts: Parts) -> Results:
    return {name: parts(name, train, p, name) for name in ("linear", "gated", "sampled")}


def train(p: Contextual, kind: str) -> dict[str, np.ndarray]:
    """The map of each pathway along the flow, `(seeds, save, pathways, 2)`."""
    paths = 1 if kind == "linear" else 2
    graph = nr.Graph.pathways(2, 1, [[p.hidden]] * paths)
    weights = nr.init.gaussian(graph, p.std, seed=range(p.seeds))
    if kind == "sampled":
        starts = [{n: w[k : k + 1] for n, w in weights.items()} for k in range(p.seeds)]
        data = [nr.tasks.contextual_classification(p.samples, k, p.hidden) for k in range(p.seeds)]
    else:
        starts, data = [weights], [population(graph)]

    def recorded(state: nr.State) -> dict[str, Any]:
        closed = [{n: 0.0 for n in graph.hidden if n != open_} for open_ in graph.hidden]
        return {"map": jnp.concatenate([state.activity("y", np.eye(2), g) for g in closed], axis=1).T}

    flows = [
        nr.flow(task, w, p.t1, 200, record=recorded, save_weights=False)
        for task, w in zip(data, starts, strict=True)
    ]
    maps = np.concatenate([f.recorded["map"] for f in flows])
    return {"t": flows[0].t, "loss": np.concatenate([f.loss for f in flows]), "map": maps}


def population(graph: nr.Graph) -> nr.Task:
    """The moments of infinitely many samples (Eq. 24-29)."""
    contexts = []
    for c in range(2):
        gates = {n: float(n == f"p{c}h1") for n in graph.hidden} if len(graph.hidden) > 1 else {}
        contexts.append({"sxx": COVARIANCE, "syx": COVARIANCE[c : c + 1], "syy": 1 / 6, "gates": gates})
    return nr.Task.from_moments(graph, contexts)


def figures(p: Contextual, r: Results) -> dict[str, tuple[Figure, str]]:
    fig, (left, right) = plot.figure(1, 2)
    plot.runs(left, r["linear"]["t"], r["linear"]["loss"], plot.RED, "one pathway, no gates")
    plot.runs(left, r["gated"]["t"], r["gated"]["loss"], plot.BLUE, "a pathway per context")
    left.axhline(1 / 12, color=plot.BLACK, lw=0.8, ls="--", label="best linear map: 1/12")
    left.set(xlabel="time (τ = 1)", ylabel="loss", ylim=(0, None), xlim=(0, min(p.t1, 60)))
    left.legend()
    for name, k, marker, colour, label in (
        ("linear", 0, "s", plot.RED, "no gates"),
        ("sampled", 0, "o", plot.BLUE, "pathway of context 1"),
        ("sampled", 1, "^", plot.GREEN, "pathway of context 2"),
    ):
        end = r[name]["map"][:, -1, k]
        right.plot(*end.T, marker, color=colour, ms=4, label=label, alpha=0.7)
    for x, y in ((0.5, 0.5), (1, 0), (0, 1)):
        right.plot(x, y, "+", color=plot.BLACK, ms=12, label="least squares" if x == 1 else None)
    right.set(xlabel="weight of input 1", ylabel="weight of input 2", xlim=(-0.2, 1.3), ylim=(-0.2, 1.3))
    right.legend()
    caption = (
        "Left: loss over time; without gates it ends at the error of the best linear map. Right: the map "
        f"from inputs to output that each pathway ends with, for {p.seeds} draws of {p.samples} samples."
    )
    return {"contextual": (fig, caption)}


def claims(p: Contextual, r: Results) -> list[Claim]:
    linear, gated = r["linear"]["map"][:, -1, 0], r["gated"]["map"][:, -1]
    return [
        *(
            paper.near(
                f"no-gates-input-{k + 1}",
                f"no gates, weight of input {k + 1}",
                SOURCE,
                0.5,
                linear[:, k],
                1e-6,
            )
            for k in range(2)
        ),
        *(
            paper.near(
                f"context-{c + 1}-input-{k + 1}",
                f"pathway of context {c + 1}, weight of input {k + 1}",
                SOURCE,
                float(c == k),
                gated[:, c, k],
                1e-6,
            )
            for c in range(2)
            for k in range(2)
        ),
        paper.below("gated-loss", "gated loss at the end", SOURCE, 1e-10, r["gated"]["loss"][:, -1]),
        check.below(
            "gated-loss-samples",
            f"gated loss at the end, {p.samples} samples",
            SOURCE,
            1e-10,
            r["sampled"]["loss"][:, -1],
        ),
    ]


EXPERIMENT = Experiment(
    "contextual",
    "Contextual classification: gates make linear layers solve a nonlinear task",
    "neural_race A.2",
    Contextual(),
    Contextual(seeds=3, samples=1000),
    compute,
    figures,
    claims,
    (0.1, 0.3),
)
