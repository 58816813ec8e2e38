"""Samples as the user gives them: checked, and grouped by equal gates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from neuralrace.errors import InputError, array, known
from neuralrace.graph import Graph
from neuralrace.task.contexts import Gate, distinct_rows, tidy_gates

LARGEST = 1e150  # of data


@dataclass(frozen=True)
class Samples:
    """Checked samples; a gate is a number or has one row per sample."""

    inputs: dict[str, np.ndarray]
    targets: dict[str, np.ndarray]
    gates: dict[str, Gate]
    sample_weight: np.ndarray

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.sample_weight)

    @property
    def share(self) -> np.ndarray:
        """Weights of the samples divided by their sum, `(n,)`."""
        return self.sample_weight / self.sample_weight.sum()

    @cached_property
    def patterns(self) -> list[tuple[dict[str, Gate], Any]]:
        """Distinct gates, each with the index of its samples."""
        constant = {name: float(g) for name, g in self.gates.items() if np.ndim(g) == 0}
        varied = {n: np.asarray(g).reshape(self.n, -1) for n, g in self.gates.items() if np.ndim(g)}
        if not varied:
            return [(tidy_gates(constant), slice(None))]
        first, of = distinct_rows(np.concatenate(list(varied.values()), axis=1))
        place = np.argsort(np.argsort(first))[of]  # contexts in the order of their first sample
        members = np.argsort(place, kind="stable")
        groups = np.split(members, np.cumsum(np.bincount(place))[:-1])
        return [
            (tidy_gates({**constant, **{n: g[index[0]] for n, g in varied.items()}}), index)
            for index in groups
        ]


def check_samples(
    graph: Graph,
    inputs: Any,
    targets: Any,
    gates: Any = None,
    sample_weight: Any = None,
    partial: bool = False,
) -> Samples:
    """The arguments of `Task` as samples.

    With `partial`, inputs and outputs may be left out, and arrays are not copied.
    """
    xs = check_rows("inputs", inputs, graph, graph.inputs, partial)
    ys = check_rows("targets", targets, graph, graph.outputs, partial)
    n = common_length({"inputs": xs, "targets": ys})
    gs = check_gates(graph, gates, n)
    ws = np.ones(n) if sample_weight is None else array("sample_weight", sample_weight, (n,))
    if not partial:  # a task keeps its samples, and they must not change under it
        xs, ys = ({k: v.copy() for k, v in table.items()} for table in (xs, ys))
        gs.update({k: v.copy() for k, v in gs.items() if isinstance(v, np.ndarray)})
        ws = ws.copy()
    if (ws < 0).any() or not ws.any():
        raise InputError("sample_weight must be non-negative and not all zero")
    with np.errstate(over="ignore"):
        if not np.isfinite(ws.sum()) and not partial:  # only their ratios matter
            ws = ws / ws.max()
    return Samples(xs, ys, gs, ws)


def check_rows(
    name: str, value: Any, graph: Graph, nodes: tuple[str, ...], partial: bool = False
) -> dict[str, np.ndarray]:
    """Inputs or targets as arrays `(n, size)`, one per node."""
    if not isinstance(value, Mapping):
        if len(nodes) != 1:
            raise InputError(f"{name} must be a dict over {', '.join(nodes[:6])}, got {type(value)}")
        value = {nodes[0]: value}
    known(name, value, nodes, "input node" if name == "inputs" else "output node")
    missing = [n for n in nodes if n not in value]
    if missing and not partial:
        raise InputError(f"{name} must hold every such node; {missing[0]!r} is missing")
    return {n: _columns(f"{name}[{n!r}]", value[n], graph.nodes[n]) for n in nodes if n in value}


def _columns(name: str, value: Any, size: int) -> np.ndarray:
    """An array `(n, size)`; a list of numbers is one column."""
    values = array(name, value)
    size_of_data = np.abs(values).max(initial=0.0)
    if size_of_data > LARGEST or 0 < size_of_data < 1 / LARGEST:
        raise InputError(
            f"{name} must be 0, or between {1 / LARGEST:g} and {LARGEST:g} in size, so that squares of it "
            f"are numbers; the largest entry is {size_of_data:.3g}"
        )
    if values.ndim == 1 and size == 1:
        values = values[:, None]
    return array(name, values, (None, size))


def check_gates(graph: Graph, gates: Any, n: int) -> dict[str, Gate]:
    """Gates of `n` samples: numbers, or arrays with one row per sample."""
    if gates is None:
        return {}
    if not isinstance(gates, Mapping):
        raise InputError(f"gates must be a dict from node or edge names to arrays, got {type(gates)}")
    known("gates", gates, graph.names, "node or edge")
    checked: dict[str, Gate] = {}
    for name, value in gates.items():
        g = array(f"gates[{name!r}]", value)
        shapes = [(), (n,)] + ([(n, graph.nodes[name])] if name in graph.nodes else [])
        if g.shape not in shapes:
            wanted = " or ".join(map(str, shapes[1:]))
            raise InputError(f"gates[{name!r}] must have shape {wanted}, or be a number; got {g.shape}")
        checked[name] = g if g.ndim else float(g)
    return checked


def common_length(tables: Mapping[str, Mapping[str, np.ndarray]]) -> int:
    """The number of samples, which must be the same everywhere."""
    lengths = {f"{name}[{k!r}]": len(v) for name, table in tables.items() for k, v in table.items()}
    n = next(iter(lengths.values()), 0)
    if n == 0:
        raise InputError(f"{' and '.join(tables)} must hold at least one sample")
    for name, length in lengths.items():
        if length != n:
            raise InputError(f"{name} must have {n} samples as the others, got {length}")
    return n


def gates_by_row(gates: Mapping[str, Gate], n: int) -> dict[str, Gate]:
    """Gates of samples as gates of one context, each row with its own."""
    return {name: g.reshape(n, -1) if isinstance(g, np.ndarray) else g for name, g in gates.items()}
