"""Tests that a ledger names: whether they are there, and their code."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]  # of the repository, where the tests are


def source_of(test: str, root: Path = ROOT) -> str:
    """The code of `file::function` or `file::class::function`; empty where it is not there."""
    path, *names = test.split("[")[0].split("::")
    if not names or not (root / path).is_file():
        return ""
    text = (root / path).read_text(encoding="utf-8")
    found: ast.AST = ast.parse(text)
    for name in names:
        inside = [n for n in ast.iter_child_nodes(found) if getattr(n, "name", "") == name]
        if not inside:
            return ""
        found = inside[0]
    return ast.get_source_segment(text, found) or ""
