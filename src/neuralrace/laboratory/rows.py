"""The samples of a task as plain rows, whatever it was made from; and the activity of layers for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from neuralrace.errors import InputError
from neuralrace.task import Task


@dataclass(frozen=True)
class TaskRows:
    """Rows that make the same task again: `nr.Task(graph, inputs, targets, gates, weight)`.

    A task from moments has pseudo-samples instead, which a linear network cannot tell from its samples.
    """

    inputs: dict[str, np.ndarray]
    targets: dict[str, np.ndarray]
    gates: dict[str, np.ndarray]
    weight: np.ndarray | None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(next(iter(self.inputs.values())))

    @classmethod
    def of(cls, task: Task) -> TaskRows:
        """The rows of a task with one gate per node and edge."""
        if task.n_samples is not None:
            s = task.samples
            gates = {
                name: np.broadcast_to(np.asarray(g, float), (s.n, *np.shape(g)[1:]))
                for name, g in s.gates.items()
            }
            if any(g.ndim > 1 and g.shape[1] > 1 for g in gates.values()):
                raise InputError("task must have one gate per node: split nodes whose neurons have their own")
            weight = None if np.ptp(s.sample_weight) == 0 else s.sample_weight
            return cls(dict(s.inputs), dict(s.targets), {k: g.reshape(s.n) for k, g in gates.items()}, weight)
        return cls._of_moments(task)

    @classmethod
    def _of_moments(cls, task: Task) -> TaskRows:
        contexts, graph = task.moment_contexts, task.graph
        counts = [c.rows for c in contexts]
        scale = np.sqrt(sum(counts))  # rows of contexts are summed, samples are averaged

        def column(name: str, c: int, kind: str) -> np.ndarray:
            rows = getattr(contexts[c], kind).get(name)
            return np.zeros((counts[c], graph.nodes[name])) if rows is None else scale * rows

        def table(names: tuple[str, ...], kind: str) -> dict[str, np.ndarray]:
            return {n: np.concatenate([column(n, c, kind) for c in range(len(counts))]) for n in names}

        # An output that a context does not list is off there: it has no part in the loss.
        given = [{**c.gates, **{o: 0.0 for o in graph.outputs if o not in c.targets}} for c in contexts]
        gated = dict.fromkeys(name for gates in given for name in gates)
        gates = {
            name: np.repeat([float(np.asarray(g.get(name, 1.0))) for g in given], counts) for name in gated
        }
        return cls(table(graph.inputs, "inputs"), table(graph.outputs, "targets"), gates, None)

    def activity(self, task: Task, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Activity of every node, `(..., n, size)`, in a linear network; `nr.activity` without a compiler."""
        graph, found = task.graph, {}
        for node in graph.order:
            gate = self.gates.get(node, np.ones(self.n))[:, None]
            if node in self.inputs:
                found[node] = gate * self.inputs[node]
                continue
            total: np.ndarray | float = 0.0
            for edge in graph.incoming[node]:
                own = self.gates.get(edge, np.ones(self.n))[:, None]
                total = total + own * (found[graph.edges[edge][0]] @ np.swapaxes(weights[edge], -1, -2))
            found[node] = gate * total
        return found
