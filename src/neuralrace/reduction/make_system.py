"""From a reduction to its system: bases that hold for all gates, data and gates as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.errors import InputError, number
from neuralrace.graph import Graph
from neuralrace.reduction.basis import spanned
from neuralrace.reduction.family import Family, between, block, by_edge
from neuralrace.reduction.gated import GatedNetwork, Statistics
from neuralrace.reduction.system import System
from neuralrace.task import Blocks, Context, Task

if TYPE_CHECKING:
    from neuralrace.reduction.reduction import Reduction


def make_system(r: Reduction, strength: Any, weights: Any) -> System:
    """The system of `Reduction.to_jax`."""
    if strength is not None and weights is not None:
        raise InputError("strength and weights must not both be given: weights are a start of their own")
    size = 1.0 if strength is None else number("strength", strength, least=0)
    rates = r.rates
    if r.family.split is not None:
        rates = r.family.split.rates_of_whole(rates)
        if weights is None:
            weights = r.lift({e: size * v for e, v in r.family.start.items()})
    task = with_all_inputs(r.task)
    own = r.basis == "block" and task is r.task
    family = r.family if own else block(task, np.random.default_rng(0))
    if weights is not None:
        w = task.graph.check_weights(weights)
        if task.graph.flatten(w).ndim > 1:
            raise InputError("weights must be those of a single network, without a leading axis of runs")
        family = around_weights(family, w)
        strengths = family.project(w)
    else:
        strengths = {
            e: size * np.eye(family.left[e].shape[1], family.right[e].shape[1]) for e in family.shape
        }
    contexts = family.small.moment_contexts
    network = GatedNetwork.of(family.small.graph, rates)
    return System(network, family, strengths, statistics_of(family.small.graph, contexts), gates_of(task))


def statistics_of(graph: Graph, contexts: list[Context]) -> Statistics:
    """The data of contexts side by side; shorter ones end in zeros."""
    rows = max([1, *(c.rows for c in contexts)])

    def stacked(node: str, tables: list[dict[str, np.ndarray]]) -> np.ndarray:
        found = np.zeros((len(contexts), rows, graph.nodes[node]))
        for place, table in zip(found, tables, strict=True):
            if node in table:
                place[: len(table[node])] = table[node]
        return found

    inputs, targets = [c.inputs for c in contexts], [c.targets for c in contexts]
    return Statistics(
        {x: stacked(x, inputs) for x in graph.inputs},
        {o: stacked(o, targets) for o in graph.outputs},
        {o: np.array([float(o in table) for table in targets]) for o in graph.outputs},
        np.array([c.irreducible_loss for c in contexts]),
    )


def gates_of(task: Task) -> dict[str, np.ndarray]:
    """The gate of every node and edge, `(contexts,)`."""
    contexts = task.moment_contexts
    return {name: np.array([float(c.gate(name)) for c in contexts]) for name in task.graph.names}


def with_all_inputs(task: Task) -> Task:
    """A task with the data of closed inputs too, which contexts omit, so that they can be opened.

    These data come from samples. In a task without samples such inputs are zero.
    """
    g, contexts = task.graph, task.moment_contexts
    if task.n_samples is None or all(x in c.input_blocks for c in contexts for x in g.inputs):
        return task
    s, blocks, found = task.samples, Blocks(), []
    for (_, index), c in zip(s.patterns, contexts, strict=True):
        root = np.sqrt(s.share[index])[:, None]
        x = np.concatenate([root * s.inputs[n][index] for n in g.inputs], axis=1)
        y = np.concatenate([root * s.targets[n][index] for n in g.outputs], axis=1)
        irreducible = 0.0
        if len(x) > x.shape[1]:  # as many rows as numbers of the inputs have the same moments
            q, x = np.linalg.qr(x)
            irreducible = 0.5 * float(np.vdot(y, y))
            y = q.T @ y
            irreducible -= 0.5 * float(np.vdot(y, y))
        inputs, targets = {}, {}
        for table, nodes, rows in ((inputs, g.inputs, x), (targets, g.outputs, y)):
            parts = np.split(rows, np.cumsum([g.nodes[n] for n in nodes])[:-1], axis=1)
            table |= {n: blocks.add(part) for n, part in zip(nodes, parts, strict=True)}
        found.append(Context(c.gates, inputs, targets, irreducible_loss=irreducible))
    return Task.from_contexts(g, found)


def around_weights(family: Family, weights: Mapping[str, np.ndarray]) -> Family:
    """A block family that these weights never leave, whatever the gates.

    Its bases span the images of inputs and targets under products of the weights, forwards and backwards,
    repeated until they no longer grow (theory.md section 3): one round if hidden nodes touch only inputs and
    outputs, else up to as many dimensions as there are neurons. Those of outputs also hold what the initial
    network puts outside the targets. No signal reaches the weights outside.
    """
    g = family.graph
    every = g.with_fixed(weights)
    frames = {n: np.zeros((g.nodes[n], 0)) for n in g.hidden}
    for e, (source, target) in g.edges.items():
        frames |= {source: family.right[e]} if source in g.inputs else {}
        frames |= {target: family.left[e]} if target in g.outputs else {}
    grown = True
    while grown:
        grown = False
        for n in (*g.hidden, *g.outputs):
            signals = [every[e] @ frames[g.edges[e][0]] for e in g.incoming[n]]
            signals += [every[e].T @ frames[g.edges[e][1]] for e in g.outgoing[n]]
            before = frames[n].shape
            for signal in signals:
                frames[n] = spanned(frames[n], signal)
            grown |= frames[n].shape != before
    frames = {n: q if q.shape[1] else np.eye(len(q), 1) for n, q in frames.items()}
    left, right = by_edge(g, frames)
    small = family.small.graph.resized({n: q.shape[1] for n, q in frames.items()}, between(g, frames))
    offset = {e: w - left[e] @ (left[e].T @ w @ right[e]) @ right[e].T for e, w in weights.items()}
    contexts = [_padded(c, small.nodes) for c in family.small.moment_contexts]
    return replace(
        family,
        left=left,
        right=right,
        small=Task.from_contexts(small, contexts),
        modes=max(q.shape[1] for q in frames.values()),
        shape=small.shapes,
        offset=offset,
    )


def _padded(context: Context, sizes: Mapping[str, int]) -> Context:
    """A context whose targets end in zeros, in directions of the outputs that were added."""
    blocks, targets = Blocks(), {}
    for o, y in context.targets.items():
        targets[o] = blocks.add(np.pad(y, ((0, 0), (0, sizes[o] - y.shape[1]))))
    return replace(context, target_blocks=targets)
