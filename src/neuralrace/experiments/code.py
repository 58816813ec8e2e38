"""On which code a result depends, as one short text.

A stored part is used again only while the code that computed it is the same. That code is found by reading
sources, without running them. Of an experiment it is what its parts reach: a changed figure or claim keeps
the stored parts. Of the rest of the package it is every module that is imported from there, and every module
that those import. Comments, formatting, docstrings and the meanings of parameters do not count.
"""

from __future__ import annotations

import ast
import gc
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from symtable import SymbolTable, symtable
from typing import Any

Name = tuple[str, str | None]  # a module and a name in it; None for the whole module
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_LEFT_OUT = ("plot", "files", "experiments.store")  # draw and keep what was computed, and change no number


@dataclass(frozen=True)
class Package:
    """The sources of a package.

    Parameters
    ----------
    folder : Path
        The folder of the package, with its `__init__.py`.
    name : str
        The name under which it is imported.
    files : tuple of (str, Path)
        Modules whose file is elsewhere.
    """

    folder: Path
    name: str
    files: tuple[tuple[str, Path], ...] = ()

    def key(self, starts: Iterable[Name]) -> str:
        """A text that changes with the code that `starts` depend on.

        Parameters
        ----------
        starts : iterable of (module, name)
            Names to start from, such as ``("neuralrace.experiments.neural_race.xor", "relu")``.

        Returns
        -------
        str
            Hexadecimal digits of a SHA-256 sum.
        """
        digest = hashlib.sha256()
        with _uncollected():
            for module, name, code in sorted(self._reached(starts)):
                digest.update(f"{module}:{name}:{code}\n".encode())
        return digest.hexdigest()

    def modules(self, starts: Iterable[Name]) -> set[str]:
        """Names of the modules that `starts` depend on."""
        with _uncollected():
            return {module for module, _, _ in self._reached(starts)}

    def _reached(self, starts: Iterable[Name]) -> Iterator[tuple[str, str, str]]:
        """Module, name (empty for a whole module) and code of everything that is reached."""
        left, seen = [self._target(*start) for start in starts], set()
        while left:
            at = left.pop()
            if at is None or at in seen:
                continue
            seen.add(at)
            module, name = at
            if name is None:
                code, imported = _whole(*self._read(module))
                yield module, "", code
            else:
                parsed = _definitions(*self._read(module))
                definition = parsed.own[name]
                yield module, name, definition.code
                left += [self._used(module, parsed, use) for use in definition.uses]
                imported = definition.imported
            left += [self._target(*i) for i in imported]

    def _used(self, module: str, parsed: _Definitions, use: tuple[str, str | None]) -> Name | None:
        """Where a name that stands in a definition comes from, with the attribute taken from it."""
        name, attribute = use
        if name in parsed.own:
            return module, name
        if name not in parsed.imports:
            return None
        source, inner = parsed.imports[name]
        if inner is None:
            return self._target(source, attribute)
        if self._is_module(f"{source}.{inner}"):
            return self._target(f"{source}.{inner}", attribute)
        return self._target(source, inner)

    def _target(self, module: str, name: str | None) -> Name | None:
        """What is imported: a definition where experiments are read by definitions, else a whole module."""
        if name is not None and self._is_module(f"{module}.{name}"):
            module, name = f"{module}.{name}", None
        inside = module == self.name or module.startswith(f"{self.name}.")
        if not inside or module in {f"{self.name}.{m}" for m in _LEFT_OUT} or not self._is_module(module):
            return None
        if name is None or not self._by_definitions(module):
            return module, None
        parsed = _definitions(*self._read(module))
        if name in parsed.own:
            return module, name
        if name in parsed.imports:
            return self._target(*parsed.imports[name])
        return module, None

    def _by_definitions(self, module: str) -> bool:
        """The package itself, which imports all there is, and experiments, which hold figures and claims."""
        experiments = f"{self.name}.experiments"
        return module in (self.name, experiments) or module.startswith(f"{experiments}.")

    def _file(self, module: str) -> Path:
        elsewhere = dict(self.files)
        if module in elsewhere:
            return elsewhere[module]
        path = self.folder.joinpath(*module.split(".")[1:])
        return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")

    def _is_module(self, module: str) -> bool:
        return module.split(".")[0] == self.name and self._file(module).is_file()

    def _read(self, module: str) -> tuple[str, bool, bytes]:
        """The name of a module, whether it is a package, and its source."""
        file = self._file(module)
        return module, file.name == "__init__.py", file.read_bytes()


@dataclass(frozen=True)
class _Definition:
    """A name at the top of a module: its code, the names in it (with the attribute taken), its imports."""

    code: str
    uses: tuple[tuple[str, str | None], ...]
    imported: tuple[Name, ...]


@dataclass(frozen=True)
class _Definitions:
    """A module by its definitions, and where the names that it imports come from."""

    own: dict[str, _Definition]
    imports: dict[str, Name]


@cache
def _whole(module: str, package: bool, source: bytes) -> tuple[str, list[Name]]:
    """The code of a module and all that it imports."""
    words, nodes = _flat(ast.parse(source))
    return _digest(words), [(m, n) for node in nodes for _, m, n in _imports(node, module, package)]


@cache
def _definitions(module: str, package: bool, source: bytes) -> _Definitions:
    tree = ast.parse(source)
    found: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in _defined(statement):
            found.setdefault(name, []).append(statement)
    scopes = symtable(source.decode(), module, "exec").get_children()
    globals_of = {name: {g for s in scopes if s.get_name() == name for g in _globals(s)} for name in found}
    own = {
        name: _definition(statements, globals_of[name], module, package) for name, statements in found.items()
    }
    nodes = [i for node in ast.walk(tree) for i in _imports(node, module, package)]
    return _Definitions(own, {name: (m, n) for name, m, n in nodes})


def _globals(scope: SymbolTable) -> Iterator[str]:
    """Names in a function or class, and in those inside it, that are neither local nor arguments."""
    yield from (s.get_name() for s in scope.get_symbols() if s.is_global())
    for inner in scope.get_children():
        yield from _globals(inner)


def _definition(
    statements: list[ast.stmt], global_names: set[str], module: str, package: bool
) -> _Definition:
    words: list[str] = []
    nodes: list[ast.AST] = []
    for statement in statements:
        more, inside = _flat(statement)
        words, nodes = words + more, nodes + inside
    uses = dict.fromkeys(use for statement in statements for use in _outer_uses(statement, global_names))
    imported = tuple((m, n) for node in nodes for _, m, n in _imports(node, module, package))
    return _Definition(_digest(words), tuple(uses), imported)


def _outer_uses(statement: ast.stmt, global_names: set[str]) -> Iterator[tuple[str, str | None]]:
    """Names of the module that a statement at its top uses; local variables of the same name are none."""
    body = statement.body if isinstance(statement, _DOCUMENTED) else []
    for child in ast.iter_child_nodes(statement):
        inside = child in body
        if not _is_part(child):
            yield from (use for use in _uses(child) if not inside or use[0] in global_names)


def _uses(node: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Names that stand in a syntax tree; of `a.b.c` the name a with its attribute b."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        yield node.value.id, node.attr
        return
    if isinstance(node, ast.Name):
        yield node.id, None
    for child in ast.iter_child_nodes(node):
        yield from _uses(child)


def _is_part(node: ast.AST) -> bool:
    """Whether this declares a part: how a part is declared changes no number in it."""
    named = node.func if isinstance(node, ast.Call) else node
    return isinstance(named, ast.Name) and named.id == "part"


def _defined(statement: ast.stmt) -> list[str]:
    """Names that a statement at the top of a module defines, imports apart."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    stored = (n for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return list(dict.fromkeys(n.id for n in stored))


def _imports(node: ast.AST, module: str, package: bool) -> list[tuple[str, str, str | None]]:
    """What an import statement binds: local name, module, name in it."""
    if isinstance(node, ast.Import):
        return [(a.asname or a.name.split(".")[0], a.name, None) for a in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    source = node.module or ""
    if node.level:
        above = module.split(".")[: len(module.split(".")) - node.level + package]
        source = ".".join([*above, *([source] if source else [])])
    return [(a.asname or a.name, source, a.name) for a in node.names]


def _flat(tree: ast.AST) -> tuple[list[str], list[ast.AST]]:
    """A syntax tree as words, without documentation and places; and the imports in it."""
    words: list[str] = []
    imports: list[ast.AST] = []

    def visit(node: ast.AST) -> None:
        words.append(node.__class__.__name__)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.append(node)
        for field in node._fields:
            if field == "ctx":  # load or store, which the place in the tree tells too
                continue
            value = getattr(node, field, None)
            if isinstance(value, ast.AST):
                words.append(field)
                visit(value)
            elif isinstance(value, list):
                items = _code_of(node, field, value) if field in ("body", "args", "decorator_list") else value
                if items:
                    words.append(f"{field}[")  # empty lists are left out: later versions of Python have more
                    for item in items:
                        visit(item) if isinstance(item, ast.AST) else words.append(repr(item))
                    words.append("]")
            elif value is not None:
                words.append(f"{field}={value!r}")

    visit(tree)
    return words, imports


def _code_of(node: ast.AST, field: str, items: list[Any]) -> list[Any]:
    """Parts of a syntax tree that are code: not the docstring, nor the meaning of a parameter."""
    if field == "body" and isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
        return items[1:]
    if field == "decorator_list":
        return [item for item in items if not _is_part(item)]
    if field == "args" and isinstance(node, ast.Call) and getattr(node.func, "id", None) == "option":
        return items[:1]
    return items


def _digest(words: list[str]) -> str:
    return hashlib.sha256(" ".join(words).encode()).hexdigest()


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the garbage collector, which would look at every new syntax tree again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
