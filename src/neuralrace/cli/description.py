"""A network described in a file: graph, gates, data and start, read from YAML and checked line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import yaml

from neuralrace.errors import InputError, array, choice, integer, listed, number
from neuralrace.files import as_number, csv_columns, read_csv, read_npz
from neuralrace.graph import Edge, Graph
from neuralrace.reduction.family import FAMILIES
from neuralrace.task import Task

NEEDED = ("nodes", "edges", "inputs", "targets")
KEYS = (*NEEDED, "data", "gates", "weights", "basis", "start", "time", "save")
Entries = dict[str, tuple[yaml.Node, yaml.Node]]  # name -> (where it is written, what stands there)


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
    task: Task
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
    return _Reader(Path(path)).read()


class _Reader:
    def __init__(self, path: Path):
        self.path = path
        self.tables: dict[str, np.ndarray] | None = None

    def read(self) -> Description:
        top = self.mapping("", self.compose())
        for name, (key, _) in top.items():
            if name in ("activations", "biases"):
                self.fail(key, f"{name}: only linear networks without biases can be reduced; leave it out")
        self.only("", top, KEYS, "key")
        for name in NEEDED:
            if name not in top:
                raise InputError(f"{self.path}: lacks {name!r}; it needs {', '.join(NEEDED)}")
        if "data" in top:
            self.tables = self.data(top["data"][1])
        graph = self.graph(top)
        task = self.task(graph, top)
        settings: dict[str, Any] = {}
        if "basis" in top:
            node = top["basis"][1]
            with self.at(node):
                settings["basis"] = choice("basis", self.text("basis", node), ("auto", *FAMILIES))
        if "start" in top:
            settings |= self.start(*top["start"])
        if "time" in top:
            settings["time"] = self.number("time", top["time"][1], lambda v: number("time", v, above=0))
        if "save" in top:
            settings["save"] = self.number("save", top["save"][1], lambda v: integer("save", v, least=2))
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

    # -- graph and task ----------------------------------------------------------------------

    def graph(self, top: Entries) -> Graph:
        nodes = {
            name: self.number("nodes", node, lambda v, n=name: integer(f"size of node {n!r}", v))
            for name, (_, node) in self.mapping("nodes", top["nodes"][1]).items()
        }
        node = top["edges"][1]
        if isinstance(node, yaml.MappingNode):
            edges = {name: self.edge(pair, nodes) for name, (_, pair) in self.mapping("edges", node).items()}
        elif isinstance(node, yaml.SequenceNode):
            edges = [self.edge(pair, nodes) for pair in node.value]
            pairs = [tuple(edge) for edge in edges]
            for k, pair in enumerate(pairs):
                if pair in pairs[:k]:
                    text = f"edges: {list(pair)} stands twice; parallel edges need names: {{W1: [x, h], ...}}"
                    self.fail(node.value[k], text)
        else:
            self.fail(node, f"edges must be a list of [source, target], got {_kind(node)}")
        with self.at(top["edges"][0]):
            return Graph(nodes, edges)

    def edge(self, node: yaml.Node, nodes: Mapping[str, int]) -> Edge:
        """A pair `[source, target]`, or a mapping of source, target and fixed."""
        fixed: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            entries = self.mapping("edges", node)
            keys = ("source", "target", "fixed")
            self.only("edges", entries, keys, "key")
            if len(entries) < len(keys):
                self.fail(node, f"edges: an edge that is a mapping needs {', '.join(keys)}")
            *ends, fixed = (entries[key][1] for key in keys)
        elif isinstance(node, yaml.SequenceNode) and len(node.value) == 2:
            ends = node.value
        else:
            self.fail(node, f"edges must be pairs [source, target], got {_kind(node)}")
        source, target = (self.text("edges", end) for end in ends)
        for name, end in zip((source, target), ends, strict=True):
            if name not in nodes:
                self.fail(end, f"edges: {name!r} is no node; there are {listed(nodes)}")
        if fixed is None:
            return Edge(source, target)
        where, shape = f"edges: fixed of {source}->{target}", (nodes[target], nodes[source])
        if isinstance(fixed, yaml.ScalarNode) and fixed.value == "identity":
            if shape[0] != shape[1]:
                self.fail(fixed, f"{where}: identity needs nodes of equal size, got {shape[::-1]}")
            return Edge(source, target, np.eye(shape[0]))
        value = self.array(where, fixed)
        with self.at(fixed):
            return Edge(source, target, array(where, value, shape))

    def task(self, graph: Graph, top: Entries) -> Task:
        tables: dict[str, dict[str, np.ndarray]] = {}
        n: int | None = None
        for key, ends in (("inputs", graph.inputs), ("targets", graph.outputs)):
            tables[key] = {}
            for name, node in self.by_node(key, top[key], ends).items():
                where = f"{key}: {name}"
                value = self.array(where, node)
                value = value[:, None] if value.ndim == 1 else value
                with self.at(node):
                    tables[key][name] = array(where, value, (n, graph.nodes[name]))
                n = len(value)
                if n == 0:
                    self.fail(node, f"{where} must hold at least one sample")
        gates: dict[str, Any] = {}
        if "gates" in top:
            entries = self.mapping("gates", top["gates"][1])
            self.only("gates", entries, graph.names, "node or edge")
            for name, (_, node) in entries.items():
                single = isinstance(node, yaml.ScalarNode) and _float(node) is not None
                gates[name] = (
                    self.number(f"gates: {name}", node, lambda v, m=name: number(f"gates: {m}", v))
                    if single
                    else self.row(f"gates: {name}", node, n)
                )
        weights = self.row("weights", top["weights"][1], n) if "weights" in top else None
        with self.at(top["weights" if "weights" in top else "inputs"][0]):
            return Task(graph, tables["inputs"], tables["targets"], gates, weights)

    def by_node(self, key: str, entry: tuple[yaml.Node, yaml.Node], ends: Sequence[str]):
        """Arrays of all inputs or outputs; the name may be left out where there is one."""
        where, node = entry
        if not isinstance(node, yaml.MappingNode):
            if len(ends) > 1:
                self.fail(node, f"{key} must name an array for each of {listed(ends)}, got {_kind(node)}")
            return {ends[0]: node}
        entries = self.mapping(key, node)
        self.only(key, entries, ends, "input" if key == "inputs" else "output")
        for name in ends:
            if name not in entries:
                self.fail(where, f"{key}: lacks {name!r}")
        return {name: entries[name][1] for name in ends}

    def start(self, key: yaml.Node, node: yaml.Node) -> dict[str, Any]:
        entries = self.mapping("start", node)
        self.only("start", entries, ("strength", "std", "seeds"), "key")
        if ("strength" in entries) == ("std" in entries) or {"strength", "seeds"} <= set(entries):
            self.fail(key, "start must give strength, or std and seeds")
        settings: dict[str, Any] = {"strength": None}
        for name, (_, value) in entries.items():
            if name == "seeds":
                settings[name] = self.number("start: seeds", value, lambda v: integer("start: seeds", v))
            else:
                settings[name] = self.number(
                    f"start: {name}", value, lambda v, m=name: number(f"start: {m}", v, above=0)
                )
        return settings

    # -- arrays ------------------------------------------------------------------------------

    def row(self, where: str, node: yaml.Node, n: int | None) -> np.ndarray:
        value = self.array(where, node)
        if value.ndim == 2 and value.shape[1] == 1:
            value = value[:, 0]
        if value.shape != (n,):
            self.fail(
                node, f"{where} must have one number for each of the {n} samples, got shape {value.shape}"
            )
        return value

    def array(self, where: str, node: yaml.Node) -> np.ndarray:
        """Numbers written in place, a csv file, an array of the data file, or several side by side."""
        if isinstance(node, yaml.ScalarNode):
            if node.value.lower().endswith(".csv"):
                with self.at(node):
                    return read_csv(path := self.path.parent / node.value, str(path))[1]
            return self.named(where, node)
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            self.fail(node, f"{where} must be the name of an array, a csv file or numbers, got {_kind(node)}")
        first = node.value[0]
        if isinstance(first, yaml.ScalarNode) and _float(first) is None:
            columns = [self.named(where, part) for part in node.value]
            if len({len(c) for c in columns}) > 1 or any(c.ndim > 2 for c in columns):
                self.fail(node, f"{where}: the arrays must have equally many samples")
            return np.column_stack(columns)
        if isinstance(first, yaml.SequenceNode):
            rows = [self.numbers(where, row) for row in node.value]
            for row, part in zip(rows, node.value, strict=True):
                if len(row) != len(rows[0]):
                    self.fail(part, f"{where}: rows must be equally long, {len(rows[0])}; got {len(row)}")
            return np.array(rows)
        return np.array(self.numbers(where, node))

    def named(self, where: str, node: yaml.Node) -> np.ndarray:
        name = self.text(where, node)
        if self.tables is None:
            self.fail(node, f"{where} names the array {name!r}, but no data file is given (key data)")
        if name not in self.tables:
            self.fail(node, f"{where}: {name!r} is no array of the data; there are {listed(self.tables)}")
        with self.at(node):
            value = array(name, self.tables[name])
        if not value.ndim:
            self.fail(node, f"{where}: {name!r} must have one row per sample, but is a single number")
        return value

    def numbers(self, where: str, node: yaml.Node) -> list[float]:
        if not isinstance(node, yaml.SequenceNode):
            self.fail(node, f"{where} must be a list of numbers, got {_kind(node)}")
        return [self.number(where, part, lambda v: number(where, v)) for part in node.value]

    def data(self, node: yaml.Node) -> dict[str, np.ndarray]:
        path = self.path.parent / self.text("data", node)
        with self.at(node):
            if path.suffix.lower() == ".csv":
                return csv_columns(path, str(path))
            if path.suffix.lower() == ".npz":
                return read_npz(path)
            raise InputError(f"data must be an .npz or .csv file, got {path.name}")

    # -- parts of YAML -----------------------------------------------------------------------

    def fail(self, node: yaml.Node, text: str) -> NoReturn:
        raise InputError(f"{self.path}, line {node.start_mark.line + 1}: {text}")

    @contextmanager
    def at(self, node: yaml.Node) -> Iterator[None]:
        """Errors of the library with the line that they are about."""
        try:
            yield
        except InputError as error:
            raise InputError(f"{self.path}, line {node.start_mark.line + 1}: {error}") from None

    def mapping(self, where: str, node: yaml.Node) -> Entries:
        what = where or "the file"
        if not isinstance(node, yaml.MappingNode):
            self.fail(node, f"{what} must be a mapping, name: value; got {_kind(node)}")
        entries: Entries = {}
        for key, value in node.value:
            name = self.text(where or "keys", key)
            if name in entries:
                self.fail(key, f"{what} has {name!r} twice")
            entries[name] = key, value
        return entries

    def only(self, where: str, entries: Entries, options: Any, what: str) -> None:
        for name, (key, _) in entries.items():
            if name not in options:
                self.fail(
                    key, f"{where}{': ' * bool(where)}{name!r} is no {what}; there are {listed(options)}"
                )

    def text(self, where: str, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode) or not node.value:
            self.fail(node, f"{where} must be named by text, got {_kind(node)}")
        return node.value

    def number(self, where: str, node: yaml.Node, check: Callable[[float | int], Any]) -> Any:
        value = _float(node)
        if value is None:
            self.fail(node, f"{where} must be a number, got {_kind(node)}")
        with self.at(node):
            return check(int(value) if value.is_integer() and "." not in node.value else value)


def _float(node: yaml.Node) -> float | None:
    """A plain scalar as a number; 1e-3 is one here, though not in YAML 1.1."""
    if not isinstance(node, yaml.ScalarNode) or node.style is not None:
        return None
    found = as_number(node.value)
    return None if np.isnan(found) and "nan" not in node.value.lower() else found


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.SequenceNode):
        return f"a list of {len(node.value)}"
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return repr(node.value) if node.value else "nothing"
