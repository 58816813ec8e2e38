"""The reduced system of a task as pure functions of strengths, data and gates.

Weights are small blocks B in fixed bases, `W_e = Q_t B_e Q_s^T`. Bases that hold all inputs and targets do
not depend on gates (theory.md section 4), so gates are arguments here as data and strengths are: JAX may
differentiate by them (reverse mode), run many side by side, and compile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from neuralrace.compiling import traced
from neuralrace.dynamics.adjoint import crossing_time, integrate
from neuralrace.dynamics.methods import Adaptive
from neuralrace.dynamics.rates import Rates
from neuralrace.errors import InputError, array, known, number
from neuralrace.graph import Graph
from neuralrace.interrupts import uninterrupted
from neuralrace.network import Program, compile_program, precision
from neuralrace.reduction.basis import spanned
from neuralrace.reduction.family import Family, between, block, by_edge
from neuralrace.task import Blocks, Context, Task

if TYPE_CHECKING:
    from neuralrace.reduction.reduction import Reduction


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


Strengths = Mapping[str, Any]
Gates = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class System:
    """The reduced system of a task: made by `Reduction.to_jax`.

    `loss`, `velocity`, `solve` and `learning_time` are pure: they use nothing but their arguments, the graph
    and its learning rates. Called with plain arrays they compute in float64 and return NumPy arrays; under
    `jax.grad`, `jax.vmap` or `jax.jit` they follow the caller's precision, which is single unless inside
    `jax.enable_x64(True)`. Since any gate may open, every context goes through the whole graph.

    Attributes
    ----------
    network : GatedNetwork
        The small graph, with learning rates and weight decays.
    family : Family
        The bases: `lift` and `project` go to weights and back.
    strengths : dict of str to ndarray
        The start: edge -> block `(target dimension, source dimension)`.
    statistics : Statistics
        The task's data.
    gates : dict of str to ndarray, shape (contexts,)
        Of every node and every edge. Gates that are not given in a call are 1.
    """

    network: GatedNetwork
    family: Family
    strengths: dict[str, np.ndarray]
    statistics: Statistics
    gates: dict[str, np.ndarray]

    def __repr__(self) -> str:
        g, sizes = self.network.graph, self.statistics.irreducible_loss.shape
        return f"System({g.n_weights} strengths, {sizes[0]} contexts, {g!r})"

    def lift(self, strengths: Strengths) -> dict[str, np.ndarray]:
        """The weights `(target size, source size)` of the network with these strengths."""
        return self.family.lift({e: np.asarray(b) for e, b in strengths.items()})

    def project(self, weights: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The strengths of the nearest weights that this system describes.

        Other weights are described by a system of their own: `Reduction.to_jax(weights=...)`.
        """
        return self.family.project(self.family.graph.check_weights(weights))

    def loss(self, strengths: Strengths, statistics: Statistics, gates: Gates) -> Any:
        """The mean loss over samples, as `neuralrace.loss` of the lifted weights.

        Parameters
        ----------
        strengths : dict of str to array
            Edge -> block.
        statistics : Statistics
        gates : dict of str to array, shape (contexts,), or float
            Of nodes and edges; 1 where not given.

        Returns
        -------
        float

        Examples
        --------
        >>> import neuralrace as nr
        >>> s = nr.reduce(nr.tasks.xor()).to_jax(strength=0.1)
        >>> closed = {name: 0.0 for name in s.gates}
        >>> s.loss(s.strengths, s.statistics, closed)
        0.5
        """
        return self._call(GatedNetwork.loss, strengths, statistics, gates)

    def velocity(self, strengths: Strengths, statistics: Statistics, gates: Gates) -> dict[str, Any]:
        """Time derivative of the strengths, `-scale (dL/dB + decay B)`; arguments as in `loss`."""
        return self._call(_velocity, strengths, statistics, gates)

    def solve(
        self,
        strengths: Strengths,
        statistics: Statistics,
        gates: Gates,
        ts: Any,
        method: Adaptive | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Losses and strengths at some times.

        Parameters
        ----------
        strengths, statistics, gates
            As in `loss`; the strengths at time 0.
        ts : array, shape (times,)
            Increasing, at least 0.
        method : Adaptive, optional
            `Adaptive(rtol=1e-9, atol=1e-11, max_steps=10_000)` by default, tolerances 1e-5 and 1e-7 in single
            precision. Derivatives take memory that grows with the root of `max_steps`.

        Returns
        -------
        losses : array, shape (times,)
        strengths : dict of str to array, shape (times, target dimension, source dimension)

        Examples
        --------
        >>> import neuralrace as nr
        >>> s = nr.reduce(nr.tasks.xor()).to_jax(strength=0.1)
        >>> losses, b = s.solve(s.strengths, s.statistics, s.gates, [0.0, 40.0])
        >>> losses.round(3)
        array([0.5, 0. ])
        """
        ts = _times(ts)
        return self._call(_solve, strengths, statistics, gates, ts, method=_method(method))

    def learning_time(
        self,
        strengths: Strengths,
        statistics: Statistics,
        gates: Gates,
        level: Any,
        t1: Any,
        method: Adaptive | None = None,
    ) -> Any:
        """First time at which the loss falls to a level.

        Its first derivatives are exact, by the implicit function theorem where the loss crosses the level:
        `dT = -dL(T) / (dL/dt)`.

        Parameters
        ----------
        strengths, statistics, gates
            As in `loss`; the strengths at time 0.
        level : float
            Loss to reach.
        t1 : float
            Largest time.
        method : Adaptive, optional
            As in `solve`.

        Returns
        -------
        float
            Flow time (tau = 1, mean loss). nan, with derivatives nan, where the level is not reached by t1 or
            within the steps of the method; 0, with derivatives 0, where the start is below it.

        Examples
        --------
        >>> import neuralrace as nr
        >>> s = nr.reduce(nr.tasks.xor()).to_jax(strength=0.1)
        >>> time = lambda gates: s.learning_time(s.strengths, s.statistics, gates, 0.1, 100.0)
        >>> round(time(s.gates), 3)
        9.206
        >>> with jax.enable_x64(True):
        ...     slopes = jax.grad(time)(s.gates)
        >>> np.asarray(slopes["p0h1"]).round(3)  # of the first pathway, in each of the four samples
        array([-2.357,  0.832, -0.379,  1.983])
        """
        level, t1 = _number("level", level), _number("t1", t1, above=0)
        return self._call(_learning_time, strengths, statistics, gates, level, t1, method=_method(method))

    def _call(
        self,
        function: Callable[..., Any],
        strengths: Any,
        statistics: Any,
        gates: Any,
        *others: Any,
        **options: Any,
    ) -> Any:
        given = (*self.network.check(strengths, statistics, gates), *others)
        if traced(given) or traced(jnp.zeros(())):  # under jax.jit constants are traced too
            return _compiled(function, self.network, _one_type(given), tuple(options.items()))
        with precision(np.float64), uninterrupted():
            found = _compiled(function, self.network, _one_type(given), tuple(options.items()))
        return jax.tree.map(lambda v: float(v) if v.ndim == 0 else np.asarray(v), found)


@partial(jax.jit, static_argnums=(0, 1, 3))
def _compiled(function: Any, network: GatedNetwork, given: Any, options: Any) -> Any:
    strengths, statistics, gates, *others = given
    y, data = network.graph.flatten(strengths, jnp), network.data(statistics, gates)
    return function(network, y, data, *others, **dict(options))


def _one_type(values: Any) -> Any:
    """The values as JAX arrays of one floating type."""
    dtype = jnp.result_type(float, *jax.tree.leaves(values))
    return jax.tree.map(lambda v: jnp.asarray(v, dtype), values)


# -- checks ------------------------------------------------------------------------------------


def _method(method: Any) -> Adaptive | None:
    if method is not None and not isinstance(method, Adaptive):
        raise InputError(f"method must be nr.Adaptive(...), got {method!r}")
    return method


def _number(name: str, value: Any, above: float | None = None) -> Any:
    if not isinstance(value, jax.core.Tracer):
        return number(name, value, above=above)
    if value.shape:
        raise InputError(f"{name} must be a number, got shape {value.shape}; jax.vmap takes several")
    return value


def _times(ts: Any) -> Any:
    value = numbers("ts", ts)
    if value.ndim != 1 or not len(value):
        raise InputError(f"ts must be times in one dimension, got shape {value.shape}")
    if not isinstance(value, jax.core.Tracer):
        value = array("ts", value)
        if value[0] < 0 or value[-1] <= 0 or (np.diff(value) <= 0).any():
            raise InputError("ts must be increasing times, at least 0 and the last above 0")
    return value


# -- solving -----------------------------------------------------------------------------------


def _velocity(network: GatedNetwork, y: Any, data: Any) -> Any:
    return network.graph.unflatten(network.velocity(0.0, y, data))


def _solve(network: GatedNetwork, y: Any, data: Any, ts: Any, method: Adaptive | None) -> tuple[Any, Any]:
    rtol, atol, most = _tolerances(method, y)
    found = integrate(network.velocity, y, data, rtol, atol, ts, most)
    return jax.vmap(network.loss, (0, None))(found, data), network.graph.unflatten(found)


def _learning_time(network: GatedNetwork, y: Any, data: Any, level: Any, t1: Any, method: Any) -> Any:
    rtol, atol, most = _tolerances(method, y)
    return crossing_time(network.velocity, network.loss, y, data, level, t1, rtol, atol, most)


def _tolerances(method: Adaptive | None, y: Any) -> tuple[Any, Any, int]:
    """Relative and absolute errors, and the most steps; `atol` is relative to starts below 1, as in flow."""
    if method is None:
        rtol, atol = (1e-9, 1e-11) if y.dtype == jnp.float64 else (1e-5, 1e-7)
        method = Adaptive(rtol, atol, max_steps=10_000)
    largest = jax.lax.stop_gradient(jnp.abs(y).max())
    return method.rtol, method.atol * jnp.where(largest > 0, jnp.minimum(largest, 1.0), 1.0), method.max_steps


# -- making one -----------------------------------------------------------------------------------


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
        make_small=lambda: Task.from_contexts(small, contexts),
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
