"""Lists every message that the package raises; `python tools/messages.py WORD` those with a word in them.

Parts that are filled in stand in braces. The last line counts them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def messages(folder: Path = ROOT / "src") -> Iterator[tuple[str, int, str, str]]:
    """File, line, error and message of every `raise` with a message in a folder."""
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                yield (
                    str(file.relative_to(folder)),
                    node.lineno,
                    ast.unparse(node.exc.func),
                    text(node.exc.args[0]),
                )


def text(node: ast.expr) -> str:
    """A message as its reader sees it, as far as the code tells."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(text(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text(node.left) + text(node.right)
    return f"{{{ast.unparse(node)}}}"


if __name__ == "__main__":
    word = " ".join(sys.argv[1:])
    found = [m for m in messages() if word in m[3]]
    for file, line, error, message in found:
        print(f"{file}:{line}: {error}: {message}")
    print(f"{len(found)} messages")
