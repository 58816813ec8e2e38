"""Files written whole or not at all, and arrays read with a clear word where they cannot be."""

from __future__ import annotations

import csv
import os
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
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
    missing: list[Path] = []
    try:
        missing += [f for f in (folder, *folder.parents) if not f.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"out must be a folder that can be written, got {str(folder)!r}: {why}") from None
    finally:
        for made in missing:
            with suppress(OSError, ValueError):
                made.rmdir()
    return folder


def read_npz(path: Path, *needed: str) -> dict[str, np.ndarray]:
    """The arrays of an npz file by name; refused where one of those needed is missing."""
    try:
        with path.open("rb") as file, np.load(file) as archive:
            found = {name: archive[name] for name in archive.files}
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'not an npz file'}") from None
    except (ValueError, EOFError, TypeError, AttributeError, KeyError, zipfile.BadZipFile):
        raise InputError(f"{path} cannot be read: it must be an npz file with arrays of numbers") from None
    if not found.keys() >= set(needed):
        wanted, held = f"{', '.join(needed[:-1])} and {needed[-1]}", ", ".join(found) or "nothing"
        raise InputError(f"{path} must hold the arrays {wanted}; it holds {held}")
    return found


def csv_columns(source: Any, name: str, unnamed: bool = False) -> dict[str, np.ndarray]:
    """The columns of a csv file by the names in its first line; `unnamed`: it may lack that line."""
    names, values = read_csv(source, name)
    if names is None and unnamed:
        names = [f"column{k + 1}" for k in range(values.shape[1])]
    if names is None or not all(names) or len(set(names)) < len(names):
        raise InputError(f"{name}, line 1: must name the columns, each differently")
    return dict(zip(names, values.T, strict=True))


def read_csv(source: Any, name: str) -> tuple[list[str] | None, np.ndarray]:
    """The first line of a csv file where it holds no number, and the numbers (rows, columns).

    `source` is a path or an open text file, `name` what messages call it.
    """
    try:
        with ExitStack() as open_files:
            file = source
            if isinstance(source, Path):
                file = open_files.enter_context(source.open(encoding="utf-8-sig", newline=""))
            reader = csv.reader(file, strict=True)  # pandas would take a quarter of a second to import
            table = [(reader.line_num, row) for row in reader if "".join(row).strip()]
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{name} cannot be read as csv: {error}") from None
    if not table:
        raise InputError(f"{name} is empty")
    n = len(table[0][1])
    for line, row in table:
        if len(row) != n:
            raise InputError(
                f"{name}, line {line}: must have {n} cells as the first line has, got {len(row)}"
            )
    names = None
    if np.isnan([_number(cell) for cell in table[0][1]]).all():
        names, table = [cell.strip() for cell in table[0][1]], table[1:]
    if not table:
        raise InputError(f"{name} holds no numbers")
    numbers = np.array([[_number(cell) for cell in row] for _, row in table])
    for k, j in np.argwhere(~np.isfinite(numbers))[:1]:
        line, row = table[k]
        raise InputError(f"{name}, line {line}: column {j + 1} must be a number, got {row[j]!r}")
    return names, numbers


def _number(text: str) -> float:
    """The number that a cell holds; nan where it holds none."""
    try:
        return float(text)
    except ValueError:
        return np.nan
