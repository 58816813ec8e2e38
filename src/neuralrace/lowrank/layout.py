"""The network of a task as the low-rank flow walks through it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from neuralrace.subspace import rotation_invariant_nodes
from neuralrace.task import Task

Arrays = dict[str, np.ndarray]
Ends = dict[str, tuple[str, str]]  # edge: its source and target


class Layout:
    """Edges, data and gates of all contexts; a bias is an edge from the node "", whose value is constant.

    All contexts go through the network at once, as rows below each other. They are padded by zeros to the
    same numbers of samples and of outputs: `shape` is (contexts, samples, outputs). Gates of wide nodes are
    part of those of the edges that leave them.
    """

    def __init__(self, task: Task, rates: Mapping[str, float]) -> None:
        g, contexts = task.graph, task.moment_contexts
        self.rates = rates
        self.ends: Ends = {e: g.edges.get(e, ("", e)) for e in (*g.edges, *g.biases)}
        self.sizes: dict[str, int] = {**g.nodes, "": 1}
        self.order: list[str] = ["", *g.order]
        self.wide: list[str] = rotation_invariant_nodes(task)
        self.irreducible_loss: float = sum(c.irreducible_loss for c in contexts)

        rows = max(c.rows for c in contexts)
        outputs = max(sum(g.nodes[o] for o in c.targets) for c in contexts)
        self.shape: tuple[int, int, int] = (len(contexts), rows, outputs)
        self.targets: np.ndarray = np.zeros(self.shape)
        inputs = {v: np.zeros((len(contexts), rows, self.sizes[v])) for v in ("", *g.inputs)}
        units = {o: np.zeros((len(contexts), outputs, g.nodes[o])) for o in g.outputs}
        for k, c in enumerate(contexts):
            for v, x in c.inputs.items():
                inputs[v][k, : c.rows] = x
            if c.ones is not None:
                inputs[""][k, : c.rows, 0] = c.ones
            used = 0
            for o, y in c.targets.items():
                columns = slice(used, used + g.nodes[o])
                self.targets[k, : c.rows, columns] = y
                units[o][k, columns] = np.eye(g.nodes[o])
                used = columns.stop
        self.inputs: Arrays = {v: x.reshape(-1, x.shape[2]) for v, x in inputs.items()}
        self.units: Arrays = {o: x.reshape(-1, x.shape[2]) for o, x in units.items()}  # errors of 1

        gates: dict[str, list[Any]] = {v: [c.gate(v) for c in contexts] for v in g.nodes}
        edges = {e: [c.gate(e) for c in contexts] for e in g.edges}
        for e, (s, _) in g.edges.items():
            if s in self.wide:
                edges[e] = [a * b for a, b in zip(edges[e], gates[s], strict=True)]
        self.node_gates: list[Arrays] = self._by_row({v: x for v, x in gates.items() if v not in self.wide})
        self.edge_gates: list[Arrays] = self._by_row(edges)

    def _by_row(self, gates: Mapping[str, list[Any]]) -> list[Arrays]:
        """Those that are not all open, for the rows of samples and for those of outputs."""
        joined = {n: np.stack(np.broadcast_arrays(*map(np.atleast_1d, x))) for n, x in gates.items()}
        joined = {n: x for n, x in joined.items() if np.any(x != 1)}
        return [{n: np.repeat(x, rows, axis=0) for n, x in joined.items()} for rows in self.shape[1:]]
