#!/usr/bin/env python3
"""Where the project lives: its address, which `[project.urls]` of pyproject.toml gives, in every file.

python tools/urls.py          # the address, and the lines that have it
python tools/urls.py NEW      # another one, such as https://github.com/somebody/neuralrace, in all of them
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = (
    "pyproject.toml",
    "papers/pyproject.toml",
    "CITATION.cff",
    "SECURITY.md",
    ".github/ISSUE_TEMPLATE/config.yml",
)
RESERVED = "https://example.org/neuralrace"  # reserved for examples: until there is a repository


def address() -> str:
    """The address of the repository."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]


def lines(place: str) -> list[str]:
    """The lines of all files that have an address."""
    return [
        f"{name}: {line.strip()}"
        for name in FILES
        for line in (ROOT / name).read_text().splitlines()
        if place in line
    ]


def main() -> None:
    """Show the lines, or change them."""
    old = address()
    if len(sys.argv) > 1:
        new = sys.argv[1].rstrip("/")
        if not new.startswith("https://"):
            raise SystemExit(f"the address must begin with https://, got {new}")
        for file in (ROOT / name for name in FILES):
            file.write_text(file.read_text().replace(old, new))
    print(*lines(address()), sep="\n")


if __name__ == "__main__":
    main()
