"""A small gated network as a pure function of its weights, its data and its gates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.dynamics.rates import Rates
from neuralrace.errors import InputError, array, known
from neuralrace.graph import Graph
from neuralrace.network import Program, compile_program
from neuralrace.task import Blocks, Context

if TYPE_CHECKING:
    pass


class Statistics(NamedTuple):
    """The data of a task in the bases of the reduced system; a pytree.

    Attributes
    ----------
    inputs, targets : dict of str to array, shape (contexts, rows, dimension)
        Of each input and output, in its basis. Rows have the second moments of a context's samples: they are
        the samples times the root of their weight where these are few. Shorter contexts end in zeros.
    counts : dict of str to array, shape (contexts,)
        Of each output: 1 where its error counts in the loss, 0 where the task has no target for it.
    irreducible_loss : array, shape (contexts,)
        Loss that no weights can remove.

    Examples
    --------
    >>> import neuralrace as nr
    >>> s = nr.reduce(nr.tasks.xor()).to_jax(strength=0.1)
    >>> brighter = s.statistics._replace(inputs={x: 2 * v for x, v in s.statistics.inputs.items()})
    >>> s.learning_time(s.strengths, brighter, s.gates, 0.1, 100.0) < 9.0  # 9.2 with inputs half as large
    True
    """

    inputs: dict[str, Any]
    targets: dict[str, Any]
    counts: dict[str, Any]
    irreducible_loss: Any


@cache
def _open(graph: Graph, rows: int) -> Program:
    """The program of a graph all of whose gates are open, for so many rows."""
    blocks = Blocks()
    zeros = {n: blocks.add(np.zeros((rows, graph.nodes[n]))) for n in (*graph.inputs, *graph.outputs)}
    inputs, targets = ({n: zeros[n] for n in nodes} for nodes in (graph.inputs, graph.outputs))
    return compile_program(graph, [Context({}, inputs, targets)])


class GatedNetwork(NamedTuple):
    """A linear graph with the learning rate and weight decay of each edge that learns; static in JAX.

    Weights are one vector, in the order of `Graph.flatten`.
    """

    graph: Graph
    scale: tuple[float, ...]
    decay: tuple[float, ...]

    @classmethod
    def of(cls, graph: Graph, rates: Rates) -> GatedNetwork:
        return cls(graph, *zip(*map(rates.of, graph.shapes), strict=True))

    def data(self, statistics: Statistics, gates: Any) -> Any:
        """Data and gates as the numbers of a program, with the rows of all contexts below each other."""
        contexts, rows, _ = statistics.inputs[self.graph.inputs[0]].shape
        program = _open(self.graph, contexts * rows)
        below = lambda v: v.reshape(contexts * rows, -1)  # noqa: E731
        # An output without a target is closed, and its target 0.
        shut = {o: gates[o] * counts for o, counts in statistics.counts.items()}
        by_row = {n: jnp.repeat(g, rows)[:, None] for n, g in {**gates, **shut}.items()}
        ones = jnp.ones_like(by_row[self.graph.outputs[0]])
        table = lambda names: jnp.stack([ones if n is None else by_row[n] for n in names])  # noqa: E731
        groups = []
        for group, nodes, edges in zip(program.stack.groups, program.items, program.edges, strict=True):
            if not group.products:
                shown = jnp.stack([below(statistics.inputs[n]) for n in nodes])
                groups.append({"rows": shown * table(nodes)})
            else:
                groups.append({"edge_gates": [table(names) for names in edges], "gate": table(nodes)})
        readouts = []
        for names in program.outputs:
            counted = [statistics.targets[o] * statistics.counts[o][:, None, None] for _, o in names]
            readouts.append({"target": jnp.stack([below(y) for y in counted]), "weight": None, "mix": None})
        constant, fixed = statistics.irreducible_loss.sum(), program.data["fixed"]
        fixed = [jnp.asarray(w, constant.dtype) for w in fixed]
        return {"groups": groups, "readouts": readouts, "constant": constant, "fixed": fixed}

    def loss(self, weights: Any, data: Any) -> Any:
        """The loss of flat weights."""
        rows = next(d["rows"].shape[1] for d in data["groups"] if "rows" in d)
        return _open(self.graph, rows).stack.loss(weights, data)

    def velocity(self, t: Any, weights: Any, data: Any) -> Any:
        """Time derivative of the weights at any time, `-scale (dL/dW + decay W)`."""
        move = -jax.grad(self.loss)(weights, data)
        if any(self.decay):
            move = move - self._by_weight(self.decay, weights.dtype) * weights
        return move if set(self.scale) == {1.0} else self._by_weight(self.scale, weights.dtype) * move

    def _by_weight(self, values: tuple[float, ...], dtype: Any) -> np.ndarray:
        g = self.graph
        table = {e: np.full(g.shapes[e], v, dtype) for e, v in zip(g.shapes, values, strict=True)}
        return g.flatten(table)

    # -- checks of arguments, whose shapes are known to JAX too ---------------------------------

    def check(self, strengths: Any, statistics: Any, gates: Any) -> tuple[Any, Statistics, Any]:
        """The arguments as arrays that fit the graph and each other, with all gates."""
        g = self.graph
        blocks = _named("strengths", strengths, g.shapes, "edge")
        for e, shape in g.shapes.items():
            _fit(f"strengths[{e!r}]", blocks[e], shape)
        if not isinstance(statistics, Statistics):
            raise InputError(f"statistics must be a Statistics, got {type(statistics).__name__}")
        inputs = _named("statistics.inputs", statistics.inputs, g.inputs, "input node")
        targets = _named("statistics.targets", statistics.targets, g.outputs, "output node")
        counts = _named("statistics.counts", statistics.counts, g.outputs, "output node")
        irreducible = numbers("statistics.irreducible_loss", statistics.irreducible_loss)
        if irreducible.ndim != 1 or not len(irreducible):
            raise InputError(
                f"statistics.irreducible_loss must have shape (contexts,), got {irreducible.shape}"
            )
        rows = inputs[g.inputs[0]].shape[1] if inputs[g.inputs[0]].ndim == 3 else 0
        for name, table in (("inputs", inputs), ("targets", targets)):
            for n, v in table.items():
                _fit(f"statistics.{name}[{n!r}]", v, (len(irreducible), rows, g.nodes[n]))
        for o, v in counts.items():
            _fit(f"statistics.counts[{o!r}]", v, (len(irreducible),))
        return blocks, Statistics(inputs, targets, counts, irreducible), self._gates(gates, len(irreducible))

    def _gates(self, gates: Any, contexts: int) -> dict[str, Any]:
        """A gate for every node and edge, `(contexts,)`."""
        if not isinstance(gates, Mapping):
            raise InputError(
                f"gates must be a dict from nodes and edges to arrays, got {type(gates).__name__}"
            )
        known("gates", gates, self.graph.names, "node or edge")
        found = {}
        for name in self.graph.names:
            value = numbers(f"gates[{name!r}]", gates.get(name, 1.0))
            if value.shape not in ((), (contexts,)):
                raise InputError(
                    f"gates[{name!r}] must be a number or have shape ({contexts},), one for each context; "
                    f"got {value.shape}"
                )
            xp = jnp if isinstance(value, jax.Array) else np
            found[name] = xp.broadcast_to(value, (contexts,))
        return found


def numbers(name: str, value: Any) -> Any:
    """A JAX array or tracer as it is, anything else as a finite float64 array."""
    return value if isinstance(value, jax.Array) else array(name, value)


def _named(name: str, given: Any, names: Any, what: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InputError(f"{name} must be a dict from each {what} to an array, got {type(given).__name__}")
    known(name, given, names, what)
    missing = [n for n in names if n not in given]
    if missing:
        raise InputError(f"{name} must hold every {what}; {missing[0]!r} is missing")
    return {n: numbers(f"{name}[{n!r}]", given[n]) for n in names}


def _fit(name: str, value: Any, shape: tuple[int, ...]) -> None:
    if value.shape != shape:
        raise InputError(f"{name} must have shape {shape}, got {value.shape}")
