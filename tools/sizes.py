#!/usr/bin/env python3
"""Code lines of the package by room, its longest file and its longest function.

    python tools/sizes.py [FOLDER]        # src if not given

A code line is not blank and not part of a comment or docstring. A room is a folder of the package, or a file
beside the folders.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(text: str) -> set[int]:
    """Numbers of the code lines of a file."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return lines


def main() -> None:
    """Print the sizes."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "src")
    rooms: Counter[str] = Counter()
    files, functions = [], []
    for path in sorted(root.rglob("*.py")):
        text = path.read_text()
        lines = code_lines(text)
        parts = path.relative_to(root).parts
        rooms[parts[1] if len(parts) > 1 else parts[0]] += len(lines)
        files.append((text.count("\n"), f"{path}"))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                own = lines & set(range(node.lineno, (node.end_lineno or 0) + 1))
                functions.append((len(own), f"{path}:{node.lineno} {node.name}"))
    for room, count in rooms.most_common():
        print(f"{count:7,}  {room}")
    print(f"{rooms.total():7,}  in all, {rooms.total() - rooms['experiments']:,} without experiments")
    print("longest file, in lines: {:,} ({})".format(*max(files)))
    print("longest function, in code lines: {:,} ({})".format(*max(functions)))


if __name__ == "__main__":
    main()
