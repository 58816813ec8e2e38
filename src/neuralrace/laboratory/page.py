"""The files of the page, built from `frontend/` and part of the wheel."""

from __future__ import annotations

from pathlib import Path

from neuralrace.errors import InputError

FOLDER = Path(__file__).parent / "static"
FILES = {
    "html": "text/html", "js": "text/javascript", "css": "text/css", "woff2": "font/woff2",
}  # fmt: skip


def page_files() -> dict[str, bytes]:
    """Name -> content of every file of the page."""
    found = {
        p.relative_to(FOLDER).as_posix(): p.read_bytes()
        for p in sorted(FOLDER.rglob("*"))
        if p.is_file() and p.suffix[1:] in FILES
    }
    if "index.html" not in found:
        raise InputError("the page of the lab is not built; from a checkout, `make lab` builds and starts it")
    return found
