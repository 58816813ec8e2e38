"""Moments of samples that lie in dask arrays or Parquet files, counted block by block in parallel."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.errors import InputError, need_extra
from neuralrace.files import as_path
from neuralrace.graph import Graph
from neuralrace.task.accumulate import Accumulator, Part
from neuralrace.task.samples import check_samples

_WEIGHT = "sample_weight"  # an optional column
_LEAVES = 8  # parts that are added up at a time, so that no process holds many


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
