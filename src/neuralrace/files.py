"""Files written whole or not at all, and arrays read with a clear word where they cannot be."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.errors import InputError


def write(path: Path, fill: Callable[[Any], Any]) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=path.suffix)
    try:
        with os.fdopen(handle, "wb") as file:
            fill(file)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    write(path, lambda file: file.write(text.encode()))


def writable(folder: Path) -> Path:
    """`folder`, refused where nothing can be written; what had to be made to see that is removed again."""
    missing = [f for f in (folder, *folder.parents) if not f.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"out must be a folder that can be written, got {folder}: {error.strerror}"
        ) from None
    finally:
        for made in missing:
            with suppress(OSError):
                made.rmdir()
    return folder


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file by name."""
    try:
        with path.open("rb") as file, np.load(file) as archive:
            return {name: archive[name] for name in archive.files}
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'not an npz file'}") from None
    except (ValueError, EOFError, TypeError, AttributeError, KeyError, zipfile.BadZipFile):
        raise InputError(f"{path} cannot be read: it must be an npz file with arrays of numbers") from None
