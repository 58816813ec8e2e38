"""The network of a task as the low-rank flow walks through it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from neuralrace.lowrank import constants
from neuralrace.lowrank.linalg import scaled
from neuralrace.subspace import rotation_invariant_nodes
from neuralrace.task import Context, Gate, Task

Arrays = dict[str, np.ndarray]
Ends = dict[str, tuple[str, str]]  # edge: its source and target
Routes = dict[str, tuple[Gate, list[tuple[str, str, float]]]]  # node: its gate, edges into it (source, gate)


class Layout:
    """Contexts, open edges, gates and sizes; a bias is an edge from the node "", whose value is constant."""

    def __init__(self, task: Task, rates: Mapping[str, float]) -> None:
        g = task.graph
        self.rates = rates
        self.ends: Ends = {e: g.edges.get(e, ("", e)) for e in g.shapes}
        self.sizes: dict[str, int] = {**g.nodes, "": 1}
        self.order: list[str] = ["", *g.order]
        self.wide: list[str] = rotation_invariant_nodes(task)
        self.input_dims: dict[str, int] = input_dimensions(task)
        contexts = task.moment_contexts
        self.irreducible_loss = sum(c.irreducible_loss for c in contexts)
        self.inputs: list[Arrays] = [_inputs(c) for c in contexts]
        self.gates: list[dict[str, Gate]] = [c.gates for c in contexts]
        self.open: list[dict[str, float]] = [self._open_edges(c) for c in contexts]

        ends = np.cumsum([0, *(c.rows for c in contexts)])
        self.rows: list[slice] = [slice(*ends[k : k + 2]) for k in range(len(contexts))]
        cut = np.cumsum([0, *(g.nodes[o] for o in g.outputs)])
        columns = {o: slice(*cut[k : k + 2]) for k, o in enumerate(g.outputs)}
        self.columns: list[dict[str, slice]] = [{o: columns[o] for o in c.targets} for c in contexts]
        self.targets: np.ndarray = np.zeros((ends[-1], cut[-1]))
        for rows, c in zip(self.rows, contexts, strict=True):
            for o, y in c.targets.items():
                self.targets[rows, columns[o]] = y
        unit = np.eye(cut[-1])
        self.units: list[Arrays] = [{o: unit[:, at] for o, at in found.items()} for found in self.columns]
        self.is_complete: bool = self._is_complete()

    def routes(self, k: int, ends: Mapping[str, tuple[str, str]], order: list[str]) -> Routes:
        """The nodes of context k through which anything flows, in order, with the edges into each."""
        alive = {n for e in self.open[k] for n in ends[e]}
        routes: Routes = {v: (self.gates[k].get(v, 1.0), []) for v in order if v in alive}
        for e, gate in self.open[k].items():
            routes[ends[e][1]][1].append((e, ends[e][0], gate))
        return routes

    def _open_edges(self, c: Context) -> dict[str, float]:
        """Gates of the edges that lie on an open path from an input to a target."""
        gates: dict[str, Any] = {e: c.gate(e) if s else 1.0 for e, (s, _) in self.ends.items()}
        gates = {e: x for e, x in gates.items() if x and all(np.any(c.gate(n)) for n in self.ends[e])}
        reached, used = {*c.inputs, *(() if c.ones is None else ("",))}, set(c.targets)
        ends = [self.ends[e] for e in gates]
        for v in self.order:
            reached |= {t for s, t in ends if s == v and v in reached}
        for v in reversed(self.order):
            used |= {s for s, t in ends if t == v and v in used}
        return {e: x for e, x in gates.items() if reached & used >= set(self.ends[e])}

    def _is_complete(self) -> bool:
        """Whether bases of the samples' signals are bases of all inputs' signals.

        That is so where one path leads to each wide node, and the samples that take it span its input.
        """
        roots: dict[str, str] = {}
        for v in self.order:
            sources = [s for s, t in self.ends.values() if t == v]
            roots[v] = roots[sources[0]] if v in self.input_dims and len(sources) == 1 else v
        for v in self.input_dims:
            here = [k for k, edges in enumerate(self.open) if any(self.ends[e][1] == v for e in edges)]
            if not here or roots[v] not in self.inputs[here[0]]:
                return False
            x = [scaled(self.gates[k].get(roots[v], 1.0), self.inputs[k][roots[v]]) for k in here]
            size = np.linalg.svd(np.concatenate(x), compute_uv=False)
            if len(size) < self.sizes[roots[v]] or size[-1] <= constants.EVEN_INPUTS * size[0]:
                return False
        return True


def _inputs(c: Context) -> Arrays:
    given = c.inputs if c.ones is None else {**c.inputs, "": c.ones[:, None]}
    return {v: np.asarray(x, float) for v, x in given.items()}


def input_dimensions(task: Task) -> dict[str, int]:
    """Dimensions that the inputs span at each wide node, over all paths that lead there."""
    g, wide, dims = task.graph, set(rotation_invariant_nodes(task)), {}
    for v in (v for v in g.order if v in wide):
        arriving = [dims.get(s, g.nodes[s]) for s, t in g.edges.values() if t == v]
        dims[v] = min(sum(arriving) + (v in g.shapes), g.nodes[v])  # a bias adds one
    return dims
