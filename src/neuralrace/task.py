"""Tasks: samples or moments on a graph, gathered into contexts of equal gates (theory section 2).

Inside a context a linear network sees its samples only through second moments. The moments are kept
as *pseudo-samples*: rows X, Y with `X^T X = Sxx`, `Y^T X = Syx`, never more rows than inputs, plus the
part of the loss that no weights can remove. Training on them is training on all samples, so one forward
pass serves moments and samples alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any
from weakref import WeakValueDictionary, ref

import numpy as np
from scipy.linalg.blas import dtrsm  # pyright: ignore[reportAttributeAccessIssue]
from scipy.linalg.lapack import dpstrf  # pyright: ignore[reportAttributeAccessIssue]

from neuralrace.errors import InputError, array, known, number
from neuralrace.graph import Graph

Gate = float | np.ndarray


@dataclass(frozen=True)
class Context:
    """Rows that pass through the network under the same gates.

    `gates` holds what is not 1: a number, `(size,)` for single neurons of a node, or `(rows, 1)` and
    `(rows, size)` where each row has its own. Inputs and outputs that are not listed are off. `ones` is
    the constant input that biases see (None: there are no biases), `weight` the weight of each row (None:
    one), `mix` a matrix to apply to the rows of an output before it is compared with its target (None:
    identity). `rest` is the part of the loss that no weights can remove.
    """

    gates: dict[str, Gate]
    inputs: dict[str, np.ndarray]
    targets: dict[str, np.ndarray]
    ones: np.ndarray | None = None
    weight: np.ndarray | None = None
    mix: np.ndarray | None = None
    rest: float = 0.0

    @property
    def rows(self) -> int:
        return len(next(iter({**self.targets, **self.inputs}.values()), ()))

    def gate(self, name: str) -> Gate:
        return self.gates.get(name, 1.0)


class Task:
    """A graph with data: inputs, targets and gates per sample.

    `inputs` and `targets` map input and output nodes to `(n, size)` arrays (bare arrays where there is
    one of them); `gates` maps nodes and edges to `(n,)` arrays, for nodes also `(n, size)`, or to a
    number; `weights` are relative sample weights `(n,)`.

    >>> g = Graph.chain([2, 4, 1])
    >>> task = Task(g, inputs=[[1, 0], [0, 1]], targets=[[1], [-1]], gates={"h1": [1, 0]})
    >>> task.n_contexts
    2
    """

    def __init__(
        self,
        graph: Graph,
        inputs: Any,
        targets: Any,
        gates: Mapping[str, Any] | None = None,
        weights: Any = None,
    ):
        _check_graph(graph)
        self.graph = graph
        self._samples: _Samples | None = _samples(graph, inputs, targets, gates, weights)
        self._contexts: list[Context] | None = None

    @classmethod
    def from_batches(cls, graph: Graph, batches: Iterable[Any]) -> Task:
        """A task whose samples arrive in batches and are never held together.

        Each batch is `(inputs, targets)`, `(inputs, targets, gates)` or `(inputs, targets, gates,
        weights)` as in `Task`. An input or output that a batch leaves out is off in it.
        """
        _check_graph(graph)
        if not isinstance(batches, Iterable):
            raise InputError(f"batches must be an iterable of batches, got {type(batches)}")
        moments = _Accumulator(graph)
        for k, batch in enumerate(batches):
            if not isinstance(batch, Sequence) or not 2 <= len(batch) <= 4:
                raise InputError(f"batches[{k}] must be (inputs, targets, gates), got {type(batch)}")
            try:
                moments.add(_samples(graph, *batch, partial=True))
            except InputError as error:
                raise InputError(f"batches[{k}]: {error}") from error
        return cls.from_contexts(graph, moments.finish())

    @classmethod
    def from_moments(cls, graph: Graph, contexts: Iterable[Mapping[str, Any]]) -> Task:
        """A task given by population moments, context by context.

        A context is a dict with `sxx`: input or pair of inputs -> `<x x'^T>`; `syx`: (output, input) ->
        `<y x^T>`; `syy`: output -> `<|y|^2>` (if left out, the least that agrees with the rest: targets
        without noise); `gates`: node or edge -> number or, for nodes, `(size,)`; `default_gate` for hidden
        nodes without a gate (1); `probability`, which multiplies the context's moments (1). Bare arrays
        where there is one input and output. Moments left out are zero, and inputs and outputs that no
        moment names are off. Graphs with biases need means, hence samples.
        """
        _check_graph(graph)
        if graph.biases:
            raise InputError("from_moments needs a graph without biases: biases also see the means")
        if isinstance(contexts, Mapping) or not isinstance(contexts, Iterable):
            raise InputError(f"contexts must be a list of dicts, got {type(contexts)}")
        factors = _Factors()
        found = [_given_context(graph, k, c, factors) for k, c in enumerate(contexts)]
        del factors  # nothing else may hold the arrays that are moved now
        return cls.from_contexts(graph, _consolidated(found))

    @classmethod
    def from_contexts(cls, graph: Graph, contexts: list[Context]) -> Task:
        """A task whose contexts are already at hand: pseudo-samples, or samples if they have weights.

        Contexts of samples may share arrays, so that many contexts with the same inputs need little memory.
        """
        if not contexts:
            raise InputError("a task needs at least one context, got none")
        task = cls.__new__(cls)
        task.graph, task._samples, task._contexts = graph, None, contexts
        return task

    def __repr__(self) -> str:
        kept = "samples by context" if self.sampled else "moments"
        kept = kept if self._samples is None else f"{self._samples.n} samples"
        return f"Task({kept}, {self.n_contexts} contexts, {self.graph!r})"

    @property
    def n_contexts(self) -> int:
        """Number of distinct gate patterns."""
        return len(self._samples.patterns if self._contexts is None else self._contexts)  # type: ignore[union-attr]

    @property
    def sampled(self) -> bool:
        """Whether samples are at hand, not only moments."""
        return self._contexts is None or self._contexts[0].weight is not None

    @property
    def n_samples(self) -> int | None:
        """Number of samples, None where only moments are known."""
        return None if self._samples is None else self._samples.n

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """`(X, Y)` where there is one input and one output."""
        s = self.samples
        if len(s.inputs) != 1 or len(s.targets) != 1:
            raise InputError("arrays needs a graph with one input and one output")
        return next(iter(s.inputs.values())), next(iter(s.targets.values()))

    @property
    def samples(self) -> _Samples:
        if self._samples is None:
            if self.sampled:
                raise InputError("this task holds its samples context by context, not as one list")
            raise InputError("this task was built from moments and holds no samples")
        return self._samples

    def on(self, graph: Graph) -> Task:
        """The same data and gates on a graph that differs in hidden sizes or activations only."""
        if graph.edges != self.graph.edges or graph.biases != self.graph.biases:
            raise InputError("graph must have the same edges and biases as the task's own")
        task = Task.__new__(Task)
        task.graph, task._samples, task._contexts = graph, self._samples, self._contexts
        task.__dict__.update({k: v for k, v in self.__dict__.items() if k.endswith("_contexts")})
        return task

    @cached_property
    def programs(self) -> dict[Any, Any]:
        """What has been prepared for computing with this task."""
        return {}

    # -- the data as contexts ----------------------------------------------------------------

    @cached_property
    def moment_contexts(self) -> list[Context]:
        """Contexts of pseudo-samples: all that a linear network with squared error sees."""
        if self._contexts is not None and not self.sampled:
            return self._contexts
        moments = _Accumulator(self.graph)
        if self._contexts is None:
            moments.add(self.samples)
        for c in self._contexts or ():
            moments.add(_Samples(c.inputs, c.targets, c.gates, np.asarray(c.weight)))
        return moments.finish()

    @cached_property
    def sample_contexts(self) -> list[Context]:
        """Contexts of the samples themselves."""
        if self._contexts is not None and self.sampled:
            return self._contexts
        s, held = self.samples, _Held()
        contexts = []
        for gates, index in s.patterns:
            contexts.append(
                Context(
                    gates,
                    {x: held(v[index]) for x, v in s.inputs.items() if _on(gates, x)},
                    {y: held(v[index]) for y, v in s.targets.items()},
                    held(np.ones(s.n)[index]) if self.graph.biases else None,
                    held(s.weights[index] / s.weights.sum()),
                )
            )
        return contexts

    @cached_property
    def merged_context(self) -> Context:
        """All samples in their order as one context, each row with its own gates."""
        s = self.samples
        gates: dict[str, Gate] = {
            name: g.reshape(s.n, -1) if isinstance(g, np.ndarray) else g for name, g in s.gates.items()
        }
        weight = s.weights / s.weights.sum()
        return Context(gates, s.inputs, s.targets, np.ones(s.n), weight)

    # -- path statistics ---------------------------------------------------------------------

    def syx(self, path: Sequence[str]) -> np.ndarray:
        """Sigma^yx(p) = <g_p y x^T>, neural_race Eq. 5."""
        path = self.graph.check_path("path", path)
        x, y = self.graph.edges[path[0]][0], self.graph.edges[path[-1]][1]
        total = np.zeros((self.graph.nodes[y], self.graph.nodes[x]))
        for c in self.moment_contexts:
            g = self._path_gate(c, path)
            if g and y in c.targets:
                total += g * (c.targets[y].T @ c.inputs[x])
        return total

    def sxx(self, path_j: Sequence[str], path_p: Sequence[str]) -> np.ndarray:
        """Sigma^x(j, p) = <g_j x_j x_p^T g_p>, neural_race Eq. 6; both paths end at one output."""
        j, p = self.graph.check_path("path_j", path_j), self.graph.check_path("path_p", path_p)
        if self.graph.edges[j[-1]][1] != self.graph.edges[p[-1]][1]:
            raise InputError(f"path_j and path_p must end at the same output, got {j} and {p}")
        xj, xp = self.graph.edges[j[0]][0], self.graph.edges[p[0]][0]
        total = np.zeros((self.graph.nodes[xj], self.graph.nodes[xp]))
        for c in self.moment_contexts:
            g = self._path_gate(c, j) * self._path_gate(c, p)
            if g:
                total += g * (c.inputs[xj].T @ c.inputs[xp])
        return total

    def _path_gate(self, context: Context, path: tuple[str, ...]) -> float:
        source, output = self.graph.edges[path[0]][0], self.graph.edges[path[-1]][1]
        if source not in context.inputs or output not in context.targets:
            return 0.0
        g = context.gate(source)
        for edge in path:
            node = self.graph.edges[edge][1]
            g = g * context.gate(edge) * context.gate(node)
            if np.ndim(g):
                raise InputError(
                    f"path statistics need scalar gates; {node!r} or {source!r} has one per neuron"
                )
        return float(g)


# -- samples ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Samples:
    """Checked samples; a gate is a number or has one row per sample."""

    inputs: dict[str, np.ndarray]
    targets: dict[str, np.ndarray]
    gates: dict[str, Gate]
    weights: np.ndarray

    @property
    def n(self) -> int:
        return len(self.weights)

    @cached_property
    def patterns(self) -> list[tuple[dict[str, Gate], Any]]:
        """Distinct gates, each with the index of its samples."""
        constant = {name: float(g) for name, g in self.gates.items() if np.ndim(g) == 0}
        varied = {n: np.asarray(g).reshape(self.n, -1) for n, g in self.gates.items() if np.ndim(g)}
        if not varied:
            return [(_tidy(constant), slice(None))]
        table = np.concatenate(list(varied.values()), axis=1) + 0.0
        rows = np.ascontiguousarray(table).view([("", table.dtype)] * table.shape[1]).ravel()
        _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))  # contexts in the order of their first sample
        members = np.argsort(rank[inverse.ravel()], kind="stable")
        groups = np.split(members, np.cumsum(np.bincount(rank[inverse.ravel()]))[:-1])
        return [
            (_tidy({**constant, **{n: g[index[0]] for n, g in varied.items()}}), index) for index in groups
        ]


def _tidy(gates: Mapping[str, Any]) -> dict[str, Gate]:
    """Gates without those that are 1, equal gates of all neurons as one number."""
    found: dict[str, Gate] = {}
    for name, g in gates.items():
        g = np.asarray(g, dtype=float).ravel() + 0.0  # -0 and 0 are one gate
        if (g != g[0]).any():
            found[name] = g
        elif g[0] != 1.0:
            found[name] = float(g[0])
    return found


def _on(gates: Mapping[str, Gate], name: str) -> bool:
    return bool(np.any(gates.get(name, 1.0)))


def _check_graph(graph: Any) -> None:
    if not isinstance(graph, Graph):
        raise InputError(f"graph must be a Graph, got {type(graph)}")


def _samples(
    graph: Graph, inputs: Any, targets: Any, gates: Any = None, weights: Any = None, partial: bool = False
) -> _Samples:
    xs = _table("inputs", inputs, graph, graph.inputs, partial)
    ys = _table("targets", targets, graph, graph.outputs, partial)
    lengths = {f"inputs[{k!r}]": len(v) for k, v in xs.items()}
    lengths.update({f"targets[{k!r}]": len(v) for k, v in ys.items()})
    n = next(iter(lengths.values()), 0)
    if n == 0:
        raise InputError("inputs and targets must hold at least one sample")
    for name, length in lengths.items():
        if length != n:
            raise InputError(f"{name} must have {n} samples as the others, got {length}")
    if gates is not None and not isinstance(gates, Mapping):
        raise InputError(f"gates must be a dict from node or edge names to arrays, got {type(gates)}")
    known("gates", gates or {}, graph.names, "node or edge")
    gs: dict[str, Gate] = {}
    for name, value in (gates or {}).items():
        g = array(f"gates[{name!r}]", value)
        shapes = [(), (n,)] + ([(n, graph.nodes[name])] if name in graph.nodes else [])
        if g.shape not in shapes:
            wanted = " or ".join(map(str, shapes[1:]))
            raise InputError(f"gates[{name!r}] must have shape {wanted}, or be a number; got {g.shape}")
        gs[name] = g if g.ndim else float(g)
    ws = np.ones(n) if weights is None else array("weights", weights, (n,))
    if not partial:  # a task keeps its samples, and they must not change under it
        xs, ys = ({k: v.copy() for k, v in table.items()} for table in (xs, ys))
        gs.update({k: v.copy() for k, v in gs.items() if isinstance(v, np.ndarray)})
        ws = ws.copy()
    if (ws < 0).any() or not ws.sum() > 0:
        raise InputError("weights must be non-negative and not all zero")
    return _Samples(xs, ys, gs, ws)


def _table(
    name: str, value: Any, graph: Graph, nodes: tuple[str, ...], partial: bool
) -> dict[str, np.ndarray]:
    if not isinstance(value, Mapping):
        if len(nodes) != 1:
            raise InputError(f"{name} must be a dict over {', '.join(nodes[:6])}, got {type(value)}")
        value = {nodes[0]: value}
    known(name, value, nodes, f"{name[:-1]} node" if name == "inputs" else "output node")
    missing = [n for n in nodes if n not in value]
    if missing and not partial:
        raise InputError(f"{name} must hold every such node; {missing[0]!r} is missing")
    return {n: array(f"{name}[{n!r}]", value[n], (None, graph.nodes[n])) for n in nodes if n in value}


# -- moments ---------------------------------------------------------------------------------


class _Held:
    """Equal arrays become one array."""

    slab_bytes = 2**26  # memory of this size goes back to the system as soon as it is free

    def __init__(self):
        self.arrays: dict[bytes, np.ndarray] = {}
        self.slabs: dict[tuple[int, ...], list[np.ndarray]] = {}

    def __call__(self, value: np.ndarray) -> np.ndarray:
        value = np.ascontiguousarray(value)
        key = _digest(value)
        if key not in self.arrays:
            self.arrays[key] = value if value.nbytes < 2**15 else self._place(value)
        return self.arrays[key]

    def _place(self, value: np.ndarray) -> np.ndarray:
        free = self.slabs.setdefault(value.shape, [])
        if not free:
            free.extend(np.zeros((self.slab_bytes // value.nbytes + 1, *value.shape))[::-1])
        place = free.pop()
        place[:] = value
        return place


def _digest(*parts: np.ndarray | bytes) -> bytes:
    h = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            h.update(str(part.shape).encode())
            part = np.ascontiguousarray(part).data
        h.update(part)
    return h.digest()


class _Sum:
    """A running sum of outer products, known by the digest of all that went into it."""

    __slots__ = ("__weakref__", "key", "value")

    def __init__(self, value: np.ndarray, key: bytes):
        self.value, self.key = value, key


@dataclass
class _State:
    """What has been seen of one context: its rows while they are few, then their moments."""

    gates: dict[str, Gate]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rows: list[tuple[np.ndarray, np.ndarray]] | None = field(default_factory=list)
    xx: _Sum | None = None
    xy: _Sum | None = None
    yy: float = 0.0


class _Accumulator:
    """Collects contexts from batches of samples in memory that does not grow with their number."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.states: dict[Any, _State] = {}
        self.sums: WeakValueDictionary[bytes, _Sum] = WeakValueDictionary()
        self.weight = 0.0

    def add(self, s: _Samples) -> None:
        self.weight += s.weights.sum()
        root, even = np.sqrt(s.weights)[:, None], bool((s.weights == 1).all())
        for gates, index in s.patterns:
            xs = tuple(x for x in s.inputs if _on(gates, x))
            ys = tuple(s.targets)
            key = (xs, ys, tuple((n, np.asarray(g).tobytes()) for n, g in sorted(gates.items())))
            state = self.states.setdefault(key, _State(gates, xs, ys))
            r = root[index]
            weigh = (lambda v: v) if even else (lambda v: v * r)
            columns = [weigh(s.inputs[x][index]) for x in xs]
            # Only biases see the constant input; without them it would add a needless row.
            x = _beside([*columns, r] if self.graph.biases or not columns else columns)
            y = _beside([weigh(s.targets[y][index]) for y in ys] or [r[:, :0]])
            self._extend(state, x, y)

    def _extend(self, state: _State, x: np.ndarray, y: np.ndarray) -> None:
        fold = [*(state.rows or []), (x, y)]
        if state.rows is not None and sum(len(a) for a, _ in fold) <= x.shape[1]:
            state.rows.append((x.copy(), y.copy()))  # a generator may use its arrays again
            return
        state.rows = None
        for a, b in fold:
            state.xx = self._plus(state.xx, a, a)
            state.xy = self._plus(state.xy, a, b)
            state.yy += float(np.vdot(b, b))

    def _plus(self, total: _Sum | None, a: np.ndarray, b: np.ndarray) -> _Sum:
        # A product of few columns costs less than the digest of its factors.
        product = a.T @ b if a.shape[1] <= 256 else None
        key = _digest(total.key if total else b"", *((a, b) if product is None else (product,)))
        found = self.sums.get(key)
        if found is None:
            product = a.T @ b if product is None else product
            found = _Sum(product if total is None else total.value + product, key)
            self.sums[key] = found
        return found

    def finish(self) -> list[Context]:
        factors, contexts = _Factors(), []
        scale = 1 / np.sqrt(self.weight) if self.states else 1.0
        for state in self.states.values():
            if state.rows is not None:
                x, y = (np.concatenate(part) for part in zip(*state.rows, strict=True))
                x, y, rest = factors.held(x * scale), factors.held(y * scale), 0.0
            else:
                assert state.xx is not None
                assert state.xy is not None
                x, y = factors.rows(state.xx.value, state.xy.value, scale)
                rest = 0.5 * (state.yy * scale**2 - float(np.vdot(y, y)))
            sizes = [self.graph.nodes[n] for n in state.inputs]
            inputs = dict(zip(state.inputs, factors.split(x, sizes), strict=True))
            sizes = [self.graph.nodes[n] for n in state.outputs]
            targets = dict(zip(state.outputs, factors.split(y, sizes), strict=True))
            ones = factors.held(x[:, -1]) if self.graph.biases else None
            contexts.append(Context(state.gates, inputs, targets, ones, rest=rest))
        del factors  # nothing else may hold the arrays that are moved now
        return _consolidated(contexts)


def _beside(columns: list[np.ndarray]) -> np.ndarray:
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)


class _Factors:
    """Pseudo-samples from moments, each distinct array computed and held once."""

    def __init__(self):
        self.found: dict[Any, tuple[Any, tuple[Any, ...]]] = {}
        self.last: tuple[Any, Any] = (None, None)
        self.held = _Held()

    def once(self, label: Any, arrays: tuple[np.ndarray, ...], compute: Any) -> Any:
        """`compute()`, once for these array objects, which may be gone when it is asked for again."""
        key = (label, *map(id, arrays))
        value, seen = self.found.get(key, (None, ()))
        if not seen or any(ref() is not a for ref, a in zip(seen, arrays, strict=True)):
            value = compute()
            self.found[key] = (value, tuple(map(ref, arrays)))
        return value

    def rows(self, sxx: np.ndarray, sxy: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """X, Y with X^T X = sxx scale^2 and X^T Y = sxy scale^2, as many rows as sxx has rank."""
        factor = self.once(scale, (sxx,), lambda: _Cholesky.of(sxx, scale, self.held))
        if factor is not self.last[0]:
            self.last = (factor, factor.upper())  # contexts with the same inputs come in a row
        y = self.once(scale, (sxx, sxy), lambda: self.held(factor.solve(self.last[1], sxy * scale**2)))
        return factor.rows, y

    def split(self, rows: np.ndarray, sizes: list[int]) -> list[np.ndarray]:
        """The columns that belong to each node; equal columns are one array."""
        if sizes == [rows.shape[1]]:
            return [rows]
        ends = np.cumsum([0, *sizes])
        return [
            self.once((a, b), (rows,), lambda a=a, b=b: self.held(rows[:, a:b])) for a, b in pairwise(ends)
        ]


@dataclass(frozen=True)
class _Cholesky:
    """A covariance of any rank as `rows^T rows`; columns are scaled first so that units do not matter."""

    rows: np.ndarray  # (rank, n)
    head: np.ndarray  # the pivots

    @classmethod
    def of(cls, s: np.ndarray, scale: float, held: _Held) -> _Cholesky:
        n, units = len(s), np.sqrt(np.diagonal(s).clip(0))
        units = np.where(units > 0, units, 1.0)
        lower, pivots, rank, _ = dpstrf(s / np.outer(units, units), tol=n * np.finfo(float).eps, lower=1)
        rows = np.zeros((rank, n))
        rows[:, pivots - 1] = np.tril(lower)[:, :rank].T
        rows *= units * scale
        return cls(held(rows), pivots[:rank] - 1)

    def upper(self) -> np.ndarray:
        return np.asfortranarray(self.rows[:, self.head])

    def solve(self, upper: np.ndarray, sxy: np.ndarray) -> np.ndarray:
        """Y with rows^T Y = sxy."""
        return dtrsm(1.0, upper, sxy[self.head], trans_a=1)


def _given_context(graph: Graph, k: int, given: Any, factors: _Factors) -> Context:
    """One context of `Task.from_moments`, checked."""
    where = f"contexts[{k}]"
    if not isinstance(given, Mapping):
        raise InputError(f"{where} must be a dict with sxx, syx, syy and gates, got {type(given)}")
    known(where, given, ("sxx", "syx", "syy", "gates", "default_gate", "probability"), "key of a context")
    p = number(f"{where}['probability']", given.get("probability", 1.0), least=0)
    xx = _pairs(f"{where}['sxx']", given.get("sxx", {}), graph, graph.inputs)
    yx = _pairs(f"{where}['syx']", given.get("syx", {}), graph, graph.outputs)
    yy = given.get("syy", {})
    if not isinstance(yy, Mapping):
        yy = dict.fromkeys(graph.outputs if len(graph.outputs) == 1 else (), yy)
    for o in yy:
        if graph.outgoing.get(o, True):
            known(f"{where}['syy']", [o], graph.outputs, "output node")
    yy = {o: number(f"{where}['syy'][{o!r}]", v, least=0) for o, v in yy.items()}

    named = {n for pair in xx for n in pair} | {x for _, x in yx}
    xs = tuple(sorted(named, key=graph.rank.__getitem__))
    ys = tuple(sorted({*yy, *(o for o, _ in yx)}, key=graph.rank.__getitem__))
    sizes = [graph.nodes[x] for x in xs]
    alone = xx.get((xs[0], xs[0])) if len(xs) == 1 else None
    sxx = _assemble(xx, xs, xs, graph, symmetric=True) if alone is None else alone

    def joint() -> np.ndarray:
        return _assemble({(x, o): a.T for (o, x), a in yx.items()}, xs, ys, graph)

    label = "alone" if len(xs) == len(ys) == len(yx) == 1 else (xs, ys, *yx)
    sxy = factors.once(label, tuple(yx.values()), joint) if yx else joint()
    x, y = np.zeros((0, 0)), np.zeros((0, sxy.shape[1]))
    if xs:
        x, y = factors.rows(sxx, sxy, np.sqrt(p))
        factors.once("checked", (sxx,), lambda: _check_sxx(where, sxx * p, x))
        factors.once("checked", (sxx, sxy), lambda: _check_syx(where, sxy * p, x, y))
    targets = dict(zip(ys, factors.split(y, [graph.nodes[o] for o in ys]), strict=True))

    rest = 0.0
    for o, value in yy.items():
        least = float(np.vdot(targets[o], targets[o]))
        if p * value < least * (1 - 1e-9):
            raise InputError(
                f"{where}['syy'][{o!r}] must be at least {least / p:.6g} with this sxx and syx, got {value:g}"
            )
        rest += 0.5 * max(p * value - least, 0.0)
    gates = _given_gates(where, given, graph, xs, ys)
    return Context(gates, dict(zip(xs, factors.split(x, sizes), strict=True)), targets, rest=rest)


def _given_gates(where: str, given: Mapping[str, Any], graph: Graph, xs: Any, ys: Any) -> dict[str, Gate]:
    named = given.get("gates", {})
    known(f"{where}['gates']", named, graph.names, "node or edge")
    default = number(f"{where}['default_gate']", given.get("default_gate", 1.0))
    gates: dict[str, Any] = {} if default == 1 else dict.fromkeys(graph.hidden, default)
    for name, value in named.items():
        g = array(f"{where}['gates'][{name!r}]", value)
        if g.shape not in ((), (graph.nodes.get(name),)):
            raise InputError(f"{where}['gates'][{name!r}] must be a number or one per neuron, got {g.shape}")
        ends = name in graph.nodes and not (graph.incoming[name] and graph.outgoing[name])
        if not ends or name in xs or name in ys:  # other inputs and outputs are off anyway
            gates[name] = g
    return _tidy(gates)


def _pairs(name: str, given: Any, graph: Graph, rows: tuple[str, ...]) -> dict[tuple[str, str], np.ndarray]:
    """Blocks of a moment matrix, keyed by (row node, input node)."""
    if not isinstance(given, Mapping):
        if len(graph.inputs) != 1 or len(rows) != 1:
            raise InputError(f"{name} must be a dict from pairs of nodes to arrays, got {type(given)}")
        given = {(rows[0], graph.inputs[0]): given}
    found = {}
    for key, value in given.items():
        pair = (key, key) if isinstance(key, str) else tuple(key)
        if len(pair) != 2:
            raise InputError(f"{name} must be keyed by pairs of nodes, got {key!r}")
        for node, end in zip(pair, (rows, graph.inputs), strict=True):
            side = graph.incoming if end is graph.inputs else graph.outgoing
            if side.get(node, True):
                known(name, [node], end, "input node" if end is graph.inputs else "output node")
        found[pair] = array(f"{name}[{key!r}]", value, (graph.nodes[pair[0]], graph.nodes[pair[1]]))
    return found


def _assemble(
    blocks: Mapping[Any, np.ndarray], rows: Any, columns: Any, graph: Graph, symmetric: bool = False
):
    def block(a: str, b: str) -> np.ndarray:
        if (a, b) in blocks:
            return blocks[a, b]
        if symmetric and (b, a) in blocks:
            return blocks[b, a].T
        return np.zeros((graph.nodes[a], graph.nodes[b]))

    if not rows or not columns:
        return np.zeros((sum(graph.nodes[a] for a in rows), sum(graph.nodes[b] for b in columns)))
    return np.block([[block(a, b) for b in columns] for a in rows])


def _check_sxx(where: str, sxx: np.ndarray, x: np.ndarray) -> bool:
    largest = np.abs(np.diagonal(sxx)).max()
    if np.abs(sxx - sxx.T).max() > 1e-9 * largest or np.abs(sxx - x.T @ x).max() > 1e-9 * largest:
        raise InputError(f"{where}['sxx'] must be symmetric and positive semi-definite")
    return True


def _check_syx(where: str, sxy: np.ndarray, x: np.ndarray, y: np.ndarray) -> bool:
    if len(x) < len(sxy) and sxy.size and np.abs(sxy - x.T @ y).max() > 1e-6 * np.abs(sxy).max():
        raise InputError(f"{where}['syx'] has a part on inputs that sxx says do not vary")
    return True


def _consolidated(contexts: list[Context]) -> list[Context]:
    """Distinct arrays of equal shape moved side by side, where they can be used as one array."""
    for field_name in ("inputs", "targets"):
        tables = [getattr(c, field_name) for c in contexts]
        users: dict[tuple[int, ...], dict[int, list[tuple[dict[str, np.ndarray], str]]]] = {}
        for table in tables:
            for node, value in table.items():
                users.setdefault(value.shape, {}).setdefault(id(value), []).append((table, node))
        for shape, arrays in users.items():
            together = aligned_zeros((len(arrays), *shape))
            for place, uses in zip(together, arrays.values(), strict=True):
                place[:] = uses[0][0][uses[0][1]]
                for table, node in uses:  # the last of these lets go of the original
                    table[node] = place
    return contexts


def aligned_zeros(shape: tuple[int, ...]) -> np.ndarray:
    """Zeros that `jax.device_put` can use as they are, without a copy."""
    n = int(np.prod(shape)) * 8
    raw = np.zeros(n + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + n].view(np.float64).reshape(shape)


def shared_maps(graph: Graph, contexts: list[Context]) -> list[Context]:
    """Propagate the map from inputs to nodes, instead of rows, where that is less work.

    Contexts that differ in their data but not in the gates of hidden nodes then share one map, whose
    rows are unit vectors; each context's own rows are mixed in at its outputs.
    """
    late = {e for o in graph.outputs for e in graph.incoming[o]} | set(graph.outputs)
    groups: dict[Any, list[int]] = {}
    for k, c in enumerate(contexts):
        groups.setdefault(tuple(c.inputs), []).append(k)
    out = list(contexts)
    for xs, members in groups.items():
        own: dict[Any, int] = {}
        for k in members:
            c = contexts[k]
            gates = tuple((n, np.asarray(g).tobytes()) for n, g in sorted(c.gates.items()) if n not in late)
            own[gates, tuple(id(v) for v in c.inputs.values()), id(c.ones)] = c.rows
        sizes = [graph.nodes[x] for x in xs] + ([1] if graph.biases else [])
        width, maps = sum(sizes), len({gates for gates, *_ in own})
        if not width or maps * width >= sum(own.values()):
            continue
        eye = [np.ascontiguousarray(e) for e in np.split(np.eye(width), np.cumsum(sizes)[:-1], axis=1)]
        ones = eye.pop()[:, 0] if graph.biases else None
        mixes: dict[Any, np.ndarray] = {}
        for k in members:
            c = contexts[k]
            key = (*(id(v) for v in c.inputs.values()), id(c.ones))
            if key not in mixes:
                rows = [*c.inputs.values(), *([] if c.ones is None else [c.ones[:, None]])]
                mixes[key] = np.concatenate(rows, axis=1)
            out[k] = replace(c, inputs=dict(zip(xs, eye, strict=True)), ones=ones, mix=mixes[key])
    return out
