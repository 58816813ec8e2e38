"""Files written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from neuralrace.errors import InputError


def write(path: Path, fill: Callable[[IO[bytes]], Any]) -> None:
    """Write a file whole or not at all, by `fill(file)`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name[:100]}.{os.getpid()}")
    try:
        with half.open("wb") as file:
            fill(file)
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    write(path, lambda file: file.write(text.encode()))


def writable(folder: Path) -> Path:
    """A folder for results, made where it is missing; refused where nothing can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f".{os.getpid()}").touch()
        (folder / f".{os.getpid()}").unlink()
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"out must be a folder that can be written, got {str(folder)!r}: {why}") from None
    return folder
