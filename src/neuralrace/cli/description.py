"""A network described in a file: graph, gates, data and start, read from YAML and checked line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import neuralrace as nr
from neuralrace.errors import InputError, array, choice, integer, known, listed, number, short
from neuralrace.files import as_number, csv_columns, read_csv, read_npz
from neuralrace.reduction import BASES

NEEDED = ("nodes", "edges", "inputs", "targets")
KEYS = (*NEEDED, "data", "gates", "weights", "basis", "start", "time", "save")
EDGE = ("source", "target", "fixed")  # keys of an edge that is a mapping
Entries = dict[str, tuple[yaml.Node, yaml.Node]]  # name -> (where it is written, what stands there)
Check = Callable[[str, Any], Any]
SETTINGS: dict[str, Check] = {
    "basis": partial(choice, options=BASES),
    "time": partial(number, above=0),
    "save": partial(integer, least=2),
}
START: dict[str, Check] = {
    "strength": partial(number, above=0),
    "std": partial(number, above=0),
    "seeds": integer,
}


@dataclass(frozen=True, eq=False)
class Description:
    """What a file says: the task, and how to reduce and solve it.

    Attributes
    ----------
    path : Path
        The file.
    task : Task
    basis : str
        As in `nr.reduce`.
    strength : float or None
        Start of every mode of every edge; None for a random start.
    std : float or None
        Standard deviation of random weights.
    seeds : int
        Number of random starts.
    time : float or None
        End of the curves, in flow time; None to choose it.
    save : int or None
        Number of times in the curves; None to choose them.
    """

    path: Path
    task: nr.Task
    basis: str = "auto"
    strength: float | None = 0.01
    std: float | None = None
    seeds: int = 1
    time: float | None = None
    save: int | None = None


def read_description(path: str | Path) -> Description:
    """The network that a YAML file describes; `InputError` names the file and the line of a mistake."""
    if not isinstance(path, (str, Path)):
        raise InputError(f"path must be the name of a file, got {path!r}")
    try:
        return _FileReader(Path(path)).read()
    except _Placed as error:
        raise InputError(f"{path}, {error}") from None


class _Placed(InputError):
    """An error with the line that it is about."""


@contextmanager
def _at(node: yaml.Node) -> Iterator[None]:
    """Errors of the block are about the line of this node, unless they have one already."""
    try:
        yield
    except _Placed:
        raise
    except InputError as error:
        raise _Placed(f"line {node.start_mark.line + 1}: {error}") from None


class _FileReader:
    def __init__(self, path: Path):
        self.path = path
        self.tables: dict[str, np.ndarray] | None = None

    def read(self) -> Description:
        top = _mapping("the file", self.compose())
        for name in {"activations", "biases"} & set(top):
            with _at(top[name][0]):
                raise InputError(f"{name}: only linear networks without biases can be reduced; leave it out")
        _only("the file", top, KEYS, "key")
        for name in NEEDED:
            if name not in top:
                raise InputError(f"{self.path}: lacks {name!r}; it needs {', '.join(NEEDED)}")
        if "data" in top:
            self.tables = self.data(top["data"][1])
        task = self.task(self.graph(top), top)
        settings = {name: _checked(name, top[name][1], SETTINGS[name]) for name in SETTINGS if name in top}
        if "start" in top:
            settings |= _start(*top["start"])
        return Description(self.path, task, **settings)

    def compose(self) -> yaml.Node:
        try:
            document = yaml.compose(self.path.read_bytes(), yaml.SafeLoader)
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror}") from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = f", line {mark.line + 1}" if mark else ""
            raise InputError(f"{self.path}{line}: malformed YAML: {error.problem}") from None
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
            raise InputError(f"{self.path} must be a text file in YAML") from None
        if document is None:
            raise InputError(f"{self.path} is empty; it needs {', '.join(NEEDED)}")
        return document

    def graph(self, top: Entries) -> nr.Graph:
        sizes = _mapping("nodes", top["nodes"][1])
        nodes = {name: _checked(f"size of node {name!r}", node, integer) for name, (_, node) in sizes.items()}
        key, node = top["edges"]
        if isinstance(node, yaml.MappingNode):
            edges = {name: self.edge(pair, nodes) for name, (_, pair) in _mapping("edges", node).items()}
        elif isinstance(node, yaml.SequenceNode):
            edges = [self.edge(pair, nodes) for pair in node.value]
        else:
            edges = _plain(node)
        with _at(key):
            return nr.Graph(nodes, edges)

    def edge(self, node: yaml.Node, nodes: Mapping[str, int]) -> nr.Edge:
        """A pair `[source, target]`, or a mapping of source, target and fixed."""
        with _at(node):
            ends, fixed = node.value, None
            if isinstance(node, yaml.MappingNode):
                entries = _mapping("edges", node)
                _only("an edge", entries, EDGE, "key")
                if len(entries) < len(EDGE):
                    raise InputError(f"edges: an edge that is a mapping needs {', '.join(EDGE)}")
                *ends, fixed = (entries[key][1] for key in EDGE)
            elif not isinstance(node, yaml.SequenceNode) or len(ends) != 2:
                raise InputError(f"edges must be pairs [source, target], got {short(_plain(node))}")
            source, target = (_text("edges", end) for end in ends)
            known("edges", (source, target), nodes, "node")
            if fixed is None:
                return nr.Edge(source, target)
            where, shape = f"fixed of edge {source}->{target}", (nodes[target], nodes[source])
            if fixed.value == "identity":
                if shape[0] != shape[1]:
                    raise InputError(f"{where}: identity needs nodes of equal size, got {shape[::-1]}")
                return nr.Edge(source, target, np.eye(shape[0]))
            return nr.Edge(source, target, self.array(where, fixed, shape))

    def task(self, graph: nr.Graph, top: Entries) -> nr.Task:
        n: int | None = None
        tables: dict[str, dict[str, np.ndarray]] = {"inputs": {}, "targets": {}}
        for key, ends in (("inputs", graph.inputs), ("targets", graph.outputs)):
            for name, node in _by_node(key, top[key], ends).items():
                value = self.array(f"{key}: {name}", node, (n, graph.nodes[name]))
                tables[key][name], n = value, len(value)
        gates: dict[str, Any] = {}
        if "gates" in top:
            entries = _mapping("gates", top["gates"][1])
            _only("gates", entries, graph.names, "node or edge")
            for name, (_, node) in entries.items():
                single = isinstance(_plain(node), (int, float))
                where = f"gates: {name}"
                gates[name] = _checked(where, node, number) if single else self.array(where, node, (n,))
        weights = self.array("weights", top["weights"][1], (n,)) if "weights" in top else None
        with _at(top["weights" if "weights" in top else "inputs"][0]):
            return nr.Task(graph, tables["inputs"], tables["targets"], gates, weights)

    # -- arrays ------------------------------------------------------------------------------

    def array(self, where: str, node: yaml.Node, shape: tuple[int | None, ...]) -> np.ndarray:
        """An array of a shape; a row or a column of numbers may stand for the other."""
        with _at(node):
            value = self.numbers(where, node)
            if value.ndim + len(shape) == 3 and value.size == len(value):
                value = value.reshape(len(value), *(1,) * (len(shape) - 1))
            return array(where, value, shape)

    def numbers(self, where: str, node: yaml.Node) -> np.ndarray:
        """Numbers written in place, a csv file, an array of the data file, or several side by side."""
        if isinstance(node, yaml.ScalarNode) and node.value.lower().endswith(".csv"):
            return read_csv(path := self.path.parent / node.value, str(path))[1]
        if isinstance(node, yaml.ScalarNode):
            return self.named(where, node)
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            raise InputError(
                f"{where} must be the name of an array, a csv file or numbers, got {short(_plain(node))}"
            )
        if isinstance(_plain(node.value[0]), str):
            columns = [self.named(where, part) for part in node.value]
            if len({len(c) for c in columns}) > 1 or any(c.ndim > 2 for c in columns):
                raise InputError(f"{where}: the arrays must have equally many samples")
            return np.column_stack(columns)
        first = _checked(where, node.value[0], array)
        rows = [_checked(where, part, partial(array, shape=first.shape)) for part in node.value]
        return np.stack(rows)

    def named(self, where: str, node: yaml.Node) -> np.ndarray:
        name = _text(where, node)
        if self.tables is None:
            raise InputError(f"{where} names the array {name!r}, but no data file is given (key data)")
        known(where, [name], self.tables, "array of the data")
        value = array(name, self.tables[name])
        if not value.ndim:
            raise InputError(f"{where}: {name!r} must have one row per sample, but is a single number")
        return value

    def data(self, node: yaml.Node) -> dict[str, np.ndarray]:
        with _at(node):
            path = self.path.parent / _text("data", node)
            if path.suffix.lower() == ".csv":
                return csv_columns(path, str(path))
            if path.suffix.lower() == ".npz":
                return read_npz(path)
            raise InputError(f"data must be an .npz or .csv file, got {path.name}")


def _start(key: yaml.Node, node: yaml.Node) -> dict[str, Any]:
    entries = _mapping("start", node)
    _only("start", entries, START, "key")
    if ("strength" in entries) == ("std" in entries) or {"strength", "seeds"} <= set(entries):
        with _at(key):
            raise InputError("start must give strength, or std and seeds")
    given = {name: _checked(f"start: {name}", value, START[name]) for name, (_, value) in entries.items()}
    return {"strength": None, **given}


def _by_node(key: str, entry: tuple[yaml.Node, yaml.Node], ends: Sequence[str]) -> dict[str, yaml.Node]:
    """Arrays of all inputs or outputs; the name may be left out where there is one."""
    named = isinstance(entry[1], yaml.MappingNode) or len(ends) > 1
    entries = _mapping(key, entry[1]) if named else {ends[0]: entry}
    _only(key, entries, ends, "input" if key == "inputs" else "output")
    with _at(entry[0]):
        for name in ends:
            if name not in entries:
                raise InputError(f"{key} must hold an array for each of {listed(ends)}; {name!r} is missing")
    return {name: entries[name][1] for name in ends}


# -- parts of YAML ---------------------------------------------------------------------------


def _mapping(where: str, node: yaml.Node) -> Entries:
    with _at(node):
        if not isinstance(node, yaml.MappingNode):
            raise InputError(f"{where} must be a mapping, name: value; got {short(_plain(node))}")
    entries: Entries = {}
    for key, value in node.value:
        with _at(key):
            name = _text(where, key)
            if name in entries:
                raise InputError(f"{where} has {name!r} twice")
            entries[name] = key, value
    return entries


def _only(where: str, entries: Entries, options: Any, what: str) -> None:
    for name, (key, _) in entries.items():
        with _at(key):
            known(where, [name], options, what)


def _checked(where: str, node: yaml.Node, check: Check) -> Any:
    with _at(node):
        return check(where, _plain(node))


def _text(where: str, node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode) or not node.value:
        raise InputError(f"{where} must be named by text, got {short(_plain(node))}")
    return node.value


def _plain(node: yaml.Node) -> Any:
    """A node as Python writes it. 1e-3 is a number here, though not in YAML 1.1; '1' is text."""
    if isinstance(node, yaml.SequenceNode):
        return [_plain(part) for part in node.value]
    if isinstance(node, yaml.MappingNode):
        return {_plain(key): _plain(value) for key, value in node.value}
    value = as_number(node.value) if isinstance(node, yaml.ScalarNode) and node.style is None else np.nan
    if np.isnan(value):
        return node.value or None
    return int(value) if value.is_integer() and "." not in node.value else value
