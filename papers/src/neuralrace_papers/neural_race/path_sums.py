"""The flow of a gated network is a sum over paths, and of the data only the correlations of paths enter it.
A small network with gates on nodes and edges shows both: slopes by automatic differentiation of the loss,
sample by sample, against the sums of Eq. 2-6; and descent on samples that differ in all but these
correlations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework import Data, Experiment, along, figure, part, rows

EDGES = [("a", "h"), ("b", "h"), ("h", "k"), ("h", "y"), ("k", "y"), ("k", "z"), ("b", "k")]
GATED = ("a", "h", "k", "y", "h->y", "b->k")


@dataclass(frozen=True)
class PathSums:
    seeds: Annotated[int, "random networks and data"] = 5
    width: Annotated[int, "size of every layer"] = 4
    samples: Annotated[int, "samples of each context"] = 30
    contexts: Annotated[int, "contexts: each has gates of its own"] = 3
    lr: Annotated[float, "learning rate of the descents"] = 0.1
    steps: Annotated[int, "their steps"] = 400

    @property
    def graph(self) -> nr.Graph:
        return nr.Graph(dict.fromkeys("abhkyz", self.width), EDGES)

    def drawn(self, seed: int) -> tuple[Any, ...]:
        """Inputs, targets and gates; a gate is one number for each context."""
        rng, n = np.random.default_rng(seed), self.samples * self.contexts
        inputs, targets = ({k: rng.normal(size=(n, self.width)) for k in names} for names in ("ab", "yz"))
        gates = {k: np.repeat(rng.random(self.contexts) < 0.7, self.samples) * 1.0 for k in GATED}
        return inputs, targets, gates


def loss(graph: nr.Graph, weights: Any, inputs: Any, targets: Any, gates: Any) -> Any:
    """Eq. 1, node by node: h_v = g_v sum_q g_q W_q h_s(q)."""
    opened = {name: jnp.asarray(gates.get(name, 1.0))[..., None] for name in (*graph.nodes, *graph.edges)}
    h = {x: opened[x] * value for x, value in inputs.items()}
    for node in "hkyz":
        into = [(edge, source) for edge, (source, target) in graph.edges.items() if target == node]
        h[node] = opened[node] * sum(opened[edge] * (h[source] @ weights[edge].T) for edge, source in into)
    return sum(((h[y] - targets[y]) ** 2).sum(axis=1).mean() / 2 for y in "yz")


def product(weights: Any, path: tuple[str, ...], size: int) -> np.ndarray:
    """The map of a path, the last layer on the left."""
    whole = np.eye(size)
    for edge in path:
        whole = weights[edge] @ whole
    return whole


def path_slope(task: nr.Task, weights: Any, edge: str) -> np.ndarray:
    """The right side of Eq. 2 with Eq. 4: a sum over the paths through the edge, each with its error."""
    graph, found = task.graph, np.zeros_like(weights[edge])
    for p in graph.paths_through(edge):
        error = np.array(task.syx(p))
        for j in graph.paths_into(graph.edges[p[-1]][1]):
            error -= product(weights, j, graph.nodes[graph.edges[j[0]][0]]) @ task.sxx(j, p)
        k = p.index(edge)
        before = product(weights, p[:k], graph.nodes[graph.edges[p[0]][0]])
        after = product(weights, p[k + 1 :], graph.nodes[graph.edges[edge][1]])
        found += after.T @ error @ before.T
    return found


def turned(p: PathSums, values: Any, rng: np.random.Generator) -> list[dict[str, np.ndarray]]:
    """Inputs and targets mixed within each context by a random rotation of its samples."""
    blocks = [np.linalg.qr(rng.normal(size=(p.samples, p.samples)))[0] for _ in range(p.contexts)]
    mix = lambda v: np.concatenate([q @ b for q, b in zip(blocks, np.split(v, p.contexts), strict=True)])  # noqa: E731
    return [{k: mix(v) for k, v in some.items()} for some in values]


@part(each=lambda p: range(p.seeds))
def networks(p: PathSums, seed: int):
    """Slopes by samples and by paths; descent, sample by sample, on three sets of samples."""
    graph, (inputs, targets, gates) = p.graph, p.drawn(seed)
    task, weights = nr.Task(graph, inputs, targets, gates), nr.init.gaussian(graph, 0.5, seed=seed)
    half = jax.jit(jax.value_and_grad(lambda w, x, y: loss(graph, w, x, y, gates)))
    other = turned(p, (inputs, targets), np.random.default_rng(100 + seed))
    sets = (inputs, targets), other, ({x: 1.1 * v for x, v in inputs.items()}, targets)
    with jax.enable_x64(True):
        _, slope = half(weights, inputs, targets)
        ends = [descent(half, p, seed, *some) for some in sets]
    by_samples = {e: -np.asarray(slope[e]) for e in graph.edges}
    by_paths = {e: path_slope(task, weights, e) for e in graph.edges}
    return {
        "slope": max(np.abs(by_paths[e] - by_samples[e]).max() for e in graph.edges),
        "pair": ("side entry", [np.hstack([v[e].ravel() for e in v]) for v in (by_paths, by_samples)]),
        "off": ("data", [max(np.abs(ends[0][1][e] - w[e]).max() for e in graph.edges) for _, w in ends]),
        "losses": ("data step", [losses for losses, _ in ends]),
    }


def descent(half: Any, p: PathSums, seed: int, inputs: Any, targets: Any) -> tuple[np.ndarray, Any]:
    """Losses, and weights at the end."""
    w, losses = nr.init.gaussian(p.graph, 0.1, seed=seed), []
    for _ in range(p.steps):
        value, down = half(w, inputs, targets)
        w = {e: v - p.lr * down[e] for e, v in w.items()}
        losses.append(float(value))
    return np.array(losses), w


@figure("path-sums")
def path_sums(p: PathSums, data: Data):
    d, (slopes, losses) = along(data.networks, "run"), plot.figure(1, 2)[1]
    paths, samples = (d.pair.isel(side=k).values.ravel() for k in (0, 1))
    plot.points(slopes, samples, paths, plot.BLUE, "entries of the slopes", ls="none", ms=3)
    slopes.axline((0, 0), slope=1, color=plot.BLACK, lw=0.8, label="equal")
    plot.label(slopes, "by samples (automatic differentiation)", "by paths (Eq. 2-6)", legend="best")
    names = {"samples": plot.BLUE, "rotated samples": plot.BLACK, "inputs 10% larger": plot.RED}
    for k, ((name, colour), style) in enumerate(zip(names.items(), ("-", ":", "--"), strict=True)):
        losses.plot(d.losses[0, k].values, style, color=colour, lw=3 - k, label=name)
    plot.label(losses, "step", "loss", legend="best")
    return slopes.figure, (
        "Left: slopes of the loss, entry by entry, as sums over paths and by automatic differentiation, "
        f"{p.seeds} networks. Right: learning on samples, on others with the same correlations of paths "
        "(rotated within contexts), and on larger inputs."
    )


@rows
def sums(p: PathSums, data: Data):
    d = along(data.networks, "run")
    yield "slopes", d.slope.max()
    yield "no-other-statistics", d.off[:, 1].max()
    yield "larger-inputs", d.off[:, 2]


EXPERIMENT = Experiment(
    "path-sums",
    "Gradients are sums over paths, and see only their correlations",
    "neural_race section 3, Eq. 1-6",
    PathSums(),
    quick={"seeds": 2, "samples": 10},
    minutes=(0.1, 0.2),
)
