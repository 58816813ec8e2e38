"""Which function computes which equation: `python tools/equations.py` writes the table in docs/theory.md.

Docstrings and comments of the library cite equations as "neural_race Eq. 13-14". A citation without a paper
belongs to the last paper named before it in the same text, or else to the one in the file's docstring.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "neuralrace"
PAGE = ROOT / "docs" / "theory.md"
BEGIN, END = "<!-- equations: begin -->\n", "<!-- equations: end -->"
PAPERS = ("neural_race", "make_haste_slowly", "multipathway", "talk", "representations_align")
CITED = re.compile(rf"\b({'|'.join(PAPERS)})\b|\bEqs?\.\s+(\d+(?:(?:-|,\s+|\s+and\s+)\d+)*)")


def citations(text: str, paper: str | None = None) -> Iterator[tuple[str | None, str]]:
    """(Paper, equations) of a text; `paper` is that of citations before any paper is named."""
    for found in CITED.finditer(text):
        paper = found[1] or paper
        if found[2]:
            yield paper, re.sub(r"\s+", " ", found[2].replace(" and ", ", "))


def texts(file: Path) -> Iterator[tuple[str, str]]:
    """(Name of a function or class, its docstring or a comment in it); the name is empty outside of all."""
    tree = ast.parse(file.read_text())
    spans = [(1, sys.maxsize, "")]

    def walk(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield name, ast.get_docstring(node) or ""
            spans.append((getattr(node, "lineno", 1), getattr(node, "end_lineno", sys.maxsize), name))
        for child in ast.iter_child_nodes(node):
            below = (
                getattr(child, "name", None) if isinstance(child, ast.ClassDef | ast.FunctionDef) else None
            )
            yield from walk(child, ".".join(filter(None, (name, below))))

    yield from walk(tree, "")
    with file.open("rb") as lines:
        for token in tokenize.tokenize(lines.readline):
            if token.type == tokenize.COMMENT:
                around = [s for s in spans if s[0] <= token.start[0] <= s[1]]
                yield max(around)[2], token.string


def places() -> dict[tuple[str | None, str], list[str]]:
    """(Paper, equations) -> functions that cite them, with their files."""
    found: dict[tuple[str | None, str], list[str]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        head = ast.get_docstring(ast.parse(file.read_text())) or ""
        named = [paper for paper in PAPERS if re.search(rf"\b{paper}\b", head)]
        for name, text in texts(file):
            for cited in citations(text, named[0] if len(named) == 1 else None):
                at = f"`{name}` in " * bool(name) + f"`{file.relative_to(PACKAGE).as_posix()}`"
                if at not in found.setdefault(cited, []):
                    found[cited].append(at)
    return found


def table() -> str:
    """The table, papers in the order of `PAPERS`, equations in theirs."""

    def order(cited: tuple[str | None, str]) -> tuple[int, list[int]]:
        return PAPERS.index(str(cited[0])), [int(n) for n in re.findall(r"\d+", cited[1])]

    rows = places()
    lines = [f"| {paper} Eq. {eq} | {', '.join(rows[paper, eq])} |" for paper, eq in sorted(rows, key=order)]
    return "\n".join(["| equation | function |", "|---|---|", *lines]) + "\n"


def page() -> str:
    """The page with the table as it should be."""
    before, rest = PAGE.read_text().split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page())
