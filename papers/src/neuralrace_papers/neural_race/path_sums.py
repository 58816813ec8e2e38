"""The flow of a gated network is a sum over paths, and of the data only the correlations of paths enter it.
A small network with gates on nodes and edges shows both: slopes by automatic differentiation of the loss,
sample by sample, against the sums of Eq. 2-6; and descent on samples that differ in all but these
correlations."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework.claim import ROUNDING, check, paper
from neuralrace_papers.framework.declaration import Data, claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option
from neuralrace_papers.framework.quotes import quoted
from neuralrace_papers.framework.store import along

EDGES = [("a", "h"), ("b", "h"), ("h", "k"), ("h", "y"), ("k", "y"), ("k", "z"), ("b", "k")]


class PathSums(Parameters):
    seeds: int = option(5, "random networks and data", least=1)
    width: int = option(4, "size of every layer")
    samples: int = option(30, "samples of each context")
    contexts: int = option(3, "contexts: each has gates of its own", least=2)
    lr: float = option(0.1, "learning rate of the descents")
    steps: int = option(400, "their steps", least=10)

    @property
    def graph(self) -> nr.Graph:
        return nr.Graph(dict.fromkeys("abhkyz", self.width), EDGES)

    def drawn(self, seed: int) -> tuple[Any, ...]:
        """Inputs, targets and gates; a gate is one number for each context."""
        rng, n = np.random.default_rng(seed), self.samples * self.contexts
        inputs, targets = ({k: rng.normal(size=(n, self.width)) for k in names} for names in ("ab", "yz"))
        gated = ("a", "h", "k", "y", "h->y", "b->k")
        gates = {k: np.repeat(rng.random(self.contexts) < 0.7, self.samples) * 1.0 for k in gated}
        return inputs, targets, gates


def activities(graph: nr.Graph, weights: Any, inputs: Any, gates: Any) -> dict[str, Any]:
    """h_v = g_v sum_q g_q W_q h_s(q), node by node."""
    open_ = lambda name: jnp.asarray(gates.get(name, np.ones(1)))[:, None]  # noqa: E731
    h = {x: open_(x) * value for x, value in inputs.items()}
    for node in "hkyz":
        into = [(edge, source) for edge, (source, target) in graph.edges.items() if target == node]
        h[node] = open_(node) * sum(open_(edge) * (h[source] @ weights[edge].T) for edge, source in into)
    return h


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
    """Outputs and slopes by samples and by paths; descent, sample by sample, on three sets of samples."""
    graph, (inputs, targets, gates) = p.graph, p.drawn(seed)
    task, weights = nr.Task(graph, inputs, targets, gates), nr.init.gaussian(graph, 0.5, seed=seed)

    @jax.jit
    def half(w: Any, inputs: Any, targets: Any) -> Any:
        h = activities(graph, w, inputs, gates)
        return sum(((h[y] - targets[y]) ** 2).sum(axis=1).mean() / 2 for y in "yz")

    other = turned(p, (inputs, targets), np.random.default_rng(100 + seed))
    sets = (inputs, targets), other, ({x: 1.1 * v for x, v in inputs.items()}, targets)
    with jax.enable_x64(True):
        outputs = activities(graph, weights, inputs, gates)
        value, slope = jax.value_and_grad(half)(weights, inputs, targets)
        paths = [descent(jax.jit(jax.value_and_grad(half)), p, seed, *some) for some in sets]
        off = [max(float(jnp.abs(paths[0][1][e] - w[e]).max()) for e in graph.edges) for _, w in paths]
        by_samples = {e: -np.asarray(slope[e]) for e in graph.edges}
        activity = max(np.abs(nr.predict(task, weights)[y] - np.asarray(outputs[y])).max() for y in "yz")
    by_paths = {e: path_slope(task, weights, e) for e in graph.edges}
    return {
        "activity": ("", activity), "loss": ("", abs(nr.loss(task, weights) / float(value) - 1)),
        "slope": ("", max(np.abs(by_paths[e] - by_samples[e]).max() for e in graph.edges)),
        "pair": ("side entry", [np.hstack([v[e].ravel() for e in v]) for v in (by_paths, by_samples)]),
        "samples": ("", np.mean([np.abs(other[0][x] - inputs[x]).mean() for x in "ab"])),
        "off": ("data", off), "losses": ("data step", [losses for losses, _ in paths]),
    }  # fmt: skip


def descent(slope: Any, p: PathSums, seed: int, inputs: Any, targets: Any) -> tuple[np.ndarray, Any]:
    """Losses, and weights at the end."""
    w, losses = nr.init.gaussian(p.graph, 0.1, seed=seed), []
    for _ in range(p.steps):
        loss, down = slope(w, inputs, targets)
        w = {e: v - p.lr * down[e] for e, v in w.items()}
        losses.append(float(loss))
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


@claims
def sums(p: PathSums, data: Data):
    d = along(data.networks, "run")
    activity = check("neural_race 2", ROUNDING)
    yield activity.below("activity", "outputs, library - node by node, largest", 1e-12, d.activity)
    yield check("neural_race Eq. 1", ROUNDING).below(
        "loss", "loss, library / sample by sample - 1", 1e-12, d.loss
    )
    through = paper("talk: intuition", "All paths through an edge sum to determine dynamics")
    name = "slope of every edge, sum over paths (Eq. 2-6) - automatic differentiation, largest"
    yield through.below("slopes", name, 1e-12, d.slope, bound=ROUNDING)


@claims
def statistics(p: PathSums, data: Data):
    d, none = along(data.networks, "run"), quoted("neural_race 3", "no-other-statistics")
    name = (
        f"weights after {p.steps} steps, other samples with equal correlations of paths, largest difference"
    )
    note = (
        f"The samples differ by {float(d.samples.mean()):.2f} on average. Inputs that are 10% larger change "
        f"weights by {float(d.off[:, 2].mean()):.2f}."
    )
    yield none.below("no-other-statistics", name, 1e-9, d.off[:, 1], note, ROUNDING)


EXPERIMENT = Experiment(
    "path-sums",
    "Gradients are sums over paths, and see only their correlations",
    "neural_race section 3, Eq. 1-6",
    PathSums(),
    PathSums(seeds=2, samples=10),
    minutes=(0.1, 0.2),
)
