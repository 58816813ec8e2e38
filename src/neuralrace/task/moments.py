"""Moments of samples, in memory that does not grow with their number, and few rows that have them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from neuralrace.errors import InputError, need_extra
from neuralrace.files import as_path
from neuralrace.graph import Graph
from neuralrace.task.contexts import ArrayInterner, Block, Context, Gate, digest, gate_bytes, is_open
from neuralrace.task.samples import Samples, check_samples

DIGEST_COLUMNS = 256  # up to so many, a product costs less than the digest of its factors
# Weight, and of each context: key, gates, sums of products of inputs, of inputs and targets, of targets.
Part = tuple[float, list[tuple[Any, dict[str, Gate], np.ndarray, np.ndarray, float]]]
_WEIGHT = "sample_weight"  # an optional column
_LEAVES = 8  # parts that are added up at a time, so that no process holds many


@dataclass(frozen=True, eq=False)
class Factor:
    """A covariance of any rank as `rows^T rows`."""

    rows: Block  # (rank, n)
    pivots: np.ndarray  # columns that form a triangular matrix

    def triangle(self) -> np.ndarray:
        """The pivot columns of the rows, upper triangular."""
        return np.asfortranarray(self.rows.array[:, self.pivots])


def cholesky(s: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows `(rank, n)` with `rows^T rows = s scale^2`, and the pivots.

    Columns are scaled first so that units do not matter.
    """
    from scipy.linalg.lapack import dpstrf  # pyright: ignore[reportAttributeAccessIssue]

    n, units = len(s), np.sqrt(np.diagonal(s).clip(0))
    units = np.where(units > 0, units, 1.0)
    lower, pivots, rank, _ = dpstrf(s / np.outer(units, units), tol=n * np.finfo(float).eps, lower=1)
    rows = np.zeros((rank, n))
    rows[:, pivots - 1] = np.tril(lower)[:, :rank].T
    rows *= units * scale
    return rows, pivots[:rank] - 1


class PseudoSamples:
    """Makes pseudo-samples from moments; each distinct array is computed and stored once.

    Moments are known by keys that the caller gives: equal keys mean equal moments.
    """

    def __init__(self) -> None:
        self.inputs: ArrayInterner = ArrayInterner()
        self.targets: ArrayInterner = ArrayInterner()
        self._joint = ArrayInterner()  # rows of several inputs side by side, needed only for a while
        self._factors: dict[Hashable, Factor] = {}
        self._solved: dict[Hashable, tuple[list[Block], float]] = {}
        self._parts: dict[Hashable, Block] = {}
        self._last: tuple[Factor | None, np.ndarray] = (None, np.zeros((0, 0)))

    def consolidate(self) -> None:
        """Let go of everything but the blocks, and move these side by side."""
        self._joint, self._factors, self._solved, self._parts = ArrayInterner(), {}, {}, {}
        self.inputs.blocks.consolidate()
        self.targets.blocks.consolidate()

    def factor(self, key: Hashable, sxx: np.ndarray, scale: float, sizes: Sequence[int]) -> Factor:
        """X with `X^T X = sxx scale^2`, as many rows as sxx has rank."""
        if (key, scale) not in self._factors:
            rows, pivots = cholesky(sxx, scale)
            self._factors[key, scale] = Factor(self.joint_inputs(rows, sizes), pivots)
        return self._factors[key, scale]

    def solve(
        self, factor: Factor, key: Hashable, sxy: np.ndarray, scale: float, sizes: Sequence[int]
    ) -> tuple[list[Block], float]:
        """Y with `X^T Y = sxy scale^2`, split by nodes, and the sum of its squares."""
        from scipy.linalg.blas import dtrsm  # pyright: ignore[reportAttributeAccessIssue]

        name = (factor, key, scale, tuple(sizes))
        if name not in self._solved:
            if factor is not self._last[0]:  # contexts with the same inputs come in a row
                self._last = (factor, factor.triangle())
            y = dtrsm(1.0, self._last[1], (sxy * scale**2)[factor.pivots], trans_a=1)
            self._solved[name] = self.split_targets(y, sizes), float(np.vdot(y, y))
        return self._solved[name]

    def joint_inputs(self, rows: np.ndarray, sizes: Sequence[int]) -> Block:
        """Rows of all inputs side by side; where there is one input, its block."""
        return (self.inputs if list(sizes) == [rows.shape[1]] else self._joint)(rows)

    def split_inputs(self, rows: Block, sizes: Sequence[int]) -> list[Block]:
        """The columns that belong to each node; equal columns are one block."""
        if list(sizes) == [rows.shape[1]]:
            return [rows]
        return [self._columns(rows, slice(a, b)) for a, b in pairwise(np.cumsum([0, *sizes]))]

    def constant_input(self, rows: Block) -> Block:
        """The last column of the rows, `(rank,)`: the input of biases."""
        return self._columns(rows, -1)

    def _columns(self, rows: Block, which: slice | int) -> Block:
        key = (rows, str(which))
        if key not in self._parts:
            self._parts[key] = self.inputs(rows.array[:, which])
        return self._parts[key]

    def split_targets(self, rows: np.ndarray, sizes: Sequence[int]) -> list[Block]:
        """The columns that belong to each output."""
        return [self.targets(rows[:, a:b]) for a, b in pairwise(np.cumsum([0, *sizes]))]


class _Sum:
    """A running sum of outer products, known by the digest of all that went into it."""

    __slots__ = ("__weakref__", "key", "value")

    def __init__(self, value: np.ndarray, key: bytes):
        self.value, self.key = value, key


@dataclass
class _Seen:
    """What has been seen of one context: its rows while they are few, then their moments."""

    gates: dict[str, Gate]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rows: list[tuple[np.ndarray, np.ndarray]] | None = field(default_factory=list)
    xx: _Sum | None = None
    xy: _Sum | None = None
    yy: float = 0.0


class Accumulator:
    """Collects contexts from batches of samples."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.states: dict[Hashable, _Seen] = {}
        self.sums: WeakValueDictionary[bytes, _Sum] = WeakValueDictionary()
        self.weight: float = 0.0

    def add(self, s: Samples) -> None:
        """Count in a batch."""
        with np.errstate(over="ignore"):
            self.weight += float(s.sample_weight.sum())
        if not np.isfinite(self.weight):
            raise InputError(
                "sample_weight must have a finite sum over all batches; divide all of them by the same number"
            )
        root, even = np.sqrt(s.sample_weight)[:, None], bool((s.sample_weight == 1).all())
        for gates, index in s.patterns:
            xs = tuple(x for x in s.inputs if is_open(gates.get(x, 1.0)))
            ys = tuple(s.targets)
            key = (xs, ys, tuple((n, gate_bytes(g)) for n, g in sorted(gates.items())))
            state = self.states.setdefault(key, _Seen(gates, xs, ys))
            r = root[index]
            weighted = (lambda v: v) if even else (lambda v: v * r)
            columns = [weighted(s.inputs[x][index]) for x in xs]
            # Only biases see the constant input; without them it would add a needless row.
            x = hstack([*columns, r] if self.graph.biases or not columns else columns)
            y = hstack([weighted(s.targets[y][index]) for y in ys] or [r[:, :0]])
            self._extend(state, x, y)

    def _extend(self, state: _Seen, x: np.ndarray, y: np.ndarray) -> None:
        fold = [*(state.rows or []), (x, y)]
        if state.rows is not None and sum(len(a) for a, _ in fold) <= x.shape[1]:
            state.rows.append((x.copy(), y.copy()))  # a generator may use its arrays again
        else:
            self._fold(state, fold)

    def _fold(self, state: _Seen, rows: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """Replace rows by their moments."""
        state.rows = None
        for a, b in rows:
            state.xx = self._plus(state.xx, a, a)
            state.xy = self._plus(state.xy, a, b)
            state.yy += float(np.vdot(b, b))

    def _plus(self, total: _Sum | None, a: np.ndarray, b: np.ndarray) -> _Sum:
        if a.shape[1] <= DIGEST_COLUMNS:
            return self._sum(total, a.T @ b)
        return self._sum(total, None, a, b)

    def _sum(self, total: _Sum | None, product: np.ndarray | None, *factors: np.ndarray) -> _Sum:
        """A sum and one more product, computed from its factors if not given; equal sums are shared."""
        key = digest(total.key if total else b"", *(factors if product is None else (product,)))
        new = self.sums.get(key)
        if new is None:
            product = factors[0].T @ factors[1] if product is None else product
            new = _Sum(product if total is None else total.value + product, key)
            self.sums[key] = new
        return new

    def sums_of_products(self) -> Part:
        """What was seen so far as plain arrays, which another accumulator can `absorb`."""
        found = []
        for key, s in self.states.items():
            if s.rows is not None:
                self._fold(s, s.rows)
            assert s.xx is not None
            assert s.xy is not None
            found.append((key, s.gates, s.xx.value, s.xy.value, s.yy))
        return self.weight, found

    def absorb(self, part: Part) -> None:
        """Count in what another accumulator has seen of the same network."""
        weight, contexts = part
        self.weight += weight
        for key, gates, xx, xy, yy in contexts:
            state = self.states.setdefault(key, _Seen(gates, key[0], key[1], rows=None))
            if state.rows is not None:
                self._fold(state, state.rows)
            state.xx, state.xy = self._sum(state.xx, xx), self._sum(state.xy, xy)
            state.yy += yy

    def finish(self) -> list[Context]:
        """Contexts of pseudo-samples with the moments of all batches."""
        made = PseudoSamples()
        scale = 1 / np.sqrt(self.weight) if self.states else 1.0
        contexts = [self._context(made, state, scale) for state in self.states.values()]
        made.consolidate()
        return contexts

    def _context(self, made: PseudoSamples, state: _Seen, scale: float) -> Context:
        in_sizes = [self.graph.nodes[n] for n in state.inputs]
        out_sizes = [self.graph.nodes[n] for n in state.outputs]
        if state.rows is not None:
            x, y = (np.concatenate(part) for part in zip(*state.rows, strict=True))
            rows, irreducible = made.joint_inputs(x * scale, in_sizes), 0.0
            targets = made.split_targets(y * scale, out_sizes)
        else:
            assert state.xx is not None
            assert state.xy is not None
            factor = made.factor(state.xx.key, state.xx.value, scale, in_sizes)
            targets, squares = made.solve(factor, state.xy.key, state.xy.value, scale, out_sizes)
            rows, irreducible = factor.rows, 0.5 * max(state.yy * scale**2 - squares, 0.0)
        return Context(
            state.gates,
            dict(zip(state.inputs, made.split_inputs(rows, in_sizes), strict=True)),
            dict(zip(state.outputs, targets, strict=True)),
            made.constant_input(rows) if self.graph.biases else None,
            irreducible_loss=irreducible,
        )


def hstack(columns: list[np.ndarray]) -> np.ndarray:
    """Arrays side by side; no copy where there is one."""
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)


def is_dask(batches: Any) -> bool:
    """Whether this is a tuple of inputs and targets as dask arrays."""
    if not isinstance(batches, (tuple, list)) or not 2 <= len(batches) <= 4:
        return False
    return any(_lazy(v) for v in _leaves(batches))


def parts_in_parallel(graph: Graph, batches: Any) -> Part:
    """Sums over all rows."""
    need_extra("sweep", "dask")
    from dask.base import compute
    from dask.delayed import delayed

    count: Any = delayed(partial(_counted, graph))
    add: Any = delayed(partial(_added, graph))
    blocks = _files(graph, batches) if isinstance(batches, (str, Path)) else _rows(batches)
    parts = [count(block) for block in blocks]
    while len(parts) > 1:
        parts = [add(parts[k : k + _LEAVES]) for k in range(0, len(parts), _LEAVES)]
    return compute(*parts)[0]


def _counted(graph: Graph, block: Any) -> Part:
    batch: Any = block() if callable(block) else block
    moments = Accumulator(graph)
    moments.add(check_samples(graph, *batch, partial=True))
    return moments.sums_of_products()


def _added(graph: Graph, parts: list[Part]) -> Part:
    moments = Accumulator(graph)
    for part in parts:
        moments.absorb(part)
    return moments.sums_of_products()


def _lazy(value: Any) -> bool:
    return hasattr(value, "to_delayed") and hasattr(value, "chunks")


def _leaves(batches: Any) -> list[Any]:
    return [v for part in batches for v in (part.values() if isinstance(part, Mapping) else [part])]


def _rows(batches: Any) -> list[Any]:
    """Blocks of rows of dask arrays, delayed; every array has the same number of rows."""
    lazy = [v for v in _leaves(batches) if v is not None]
    if not all(_lazy(v) for v in lazy):
        raise InputError("batches must be dask arrays throughout, or NumPy arrays throughout")
    lengths = {v.shape[0] for v in lazy}
    if len(lengths) > 1 or any(np.isnan(n) for n in lengths):
        raise InputError(f"batches must have equally many rows in all arrays, got {sorted(lengths)}")
    chunks = lazy[0].chunks[0]

    def columns(value: Any) -> list[Any]:
        whole = value.rechunk({0: chunks, **dict.fromkeys(range(1, value.ndim), -1)})
        return whole.to_delayed().ravel().tolist()

    def split(part: Any) -> list[Any]:
        if part is None:
            return [None] * len(chunks)
        if not isinstance(part, Mapping):
            return columns(part)
        each = {name: columns(v) for name, v in part.items()}
        return [{name: v[k] for name, v in each.items()} for k in range(len(chunks))]

    return [list(block) for block in zip(*(split(part) for part in batches), strict=True)]


def _files(graph: Graph, folder: str | Path) -> list[Any]:
    """Row groups of the Parquet files in a folder, read where they are counted."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = sorted(as_path("batches", folder).rglob("*.parquet"))
    if not files:
        raise InputError(f"batches must be a folder with Parquet files; there are none in {folder}")
    found = []
    for file in files:
        try:
            stored = pq.ParquetFile(file)
        except (pa.ArrowException, OSError) as fault:
            raise InputError(f"batches must be Parquet files; {file} cannot be read: {fault}") from None
        _check_columns(graph, file, stored.schema_arrow)
        found += [partial(_read, graph, file, group) for group in range(stored.num_row_groups)]
    return found


def _check_columns(graph: Graph, file: Path, schema: Any) -> None:
    """Refuse a file with columns that are missing, that nothing reads, or that are not numbers."""
    import pyarrow.types as types

    needed = {f"{n}_{k}" for n in (*graph.inputs, *graph.outputs) for k in range(graph.nodes[n])}
    missing = sorted(needed - set(schema.names))
    if missing:
        raise InputError(
            f"batches must have a column for every neuron of inputs and outputs; {file} lacks {missing[0]!r}"
        )
    for column in schema:
        kind = column.type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise InputError(f"batches must hold numbers; {column.name!r} in {file} is {kind}")
        if column.name not in {*needed, _WEIGHT} and not column.name.startswith("gate_"):
            raise InputError(
                f"batches must have no columns but those of inputs, outputs, gate_NAME and {_WEIGHT}; "
                f"{file} has {column.name!r}"
            )


def _read(graph: Graph, file: Path, group: int) -> tuple[Any, Any, Any, Any]:
    import pyarrow.parquet as pq

    table = pq.ParquetFile(file).read_row_group(group).to_pandas()
    node = lambda n: table[[f"{n}_{k}" for k in range(graph.nodes[n])]].to_numpy(float)  # noqa: E731
    gates = {c.removeprefix("gate_"): table[c].to_numpy(float) for c in table if c.startswith("gate_")}
    weight = table[_WEIGHT].to_numpy(float) if _WEIGHT in table else None
    return {x: node(x) for x in graph.inputs}, {y: node(y) for y in graph.outputs}, gates, weight
