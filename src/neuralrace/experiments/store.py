"""Finished parts of experiments on disk, so that an interrupted or repeated run reuses them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.errors import InputError


class Parts:
    """Computes the parts of one run, or takes them from where a run with the same key left them."""

    def __init__(self, folder: Path, key: str, name: str = "", progress: bool = False):
        self.folder, self.key, self.name, self.progress = folder, key, name, progress
        self.seconds, self.reused = 0.0, 0

    def __call__(self, part: str, function: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
        """`function(*args)`, a dict of arrays, unless it is stored already."""
        path = self.folder / f"{part}-{self.key}.npz"
        try:
            with np.load(path) as stored:
                found = {k: stored[k] for k in stored.files}
            self.reused += 1
        except (OSError, ValueError, zipfile.BadZipFile, KeyError):
            start = time.perf_counter()
            found = {k: np.asarray(v) for k, v in function(*args).items()}
            found["seconds"] = np.asarray(time.perf_counter() - start)
            write(path, lambda file: np.savez(file, **found))
        self.seconds += float(found.pop("seconds"))
        return found

    def each(
        self, part: str, function: Callable[..., dict[str, Any]], items: Iterable[Any], *args: Any
    ) -> list[dict[str, Any]]:
        """`function(item, *args)` for every item, with a progress bar where that takes long."""
        from tqdm import tqdm

        bar = tqdm(
            list(items),
            desc=f"{self.name} {part}",
            delay=2,
            disable=None if self.progress else True,
            leave=False,
        )
        return [self(f"{part}-{item}", function, item, *args) for item in bar]


def stacked(parts: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Equal-shaped results of several parts, one leading axis."""
    return {k: np.stack([p[k] for p in parts]) for k in parts[0]}


def key_of(settings: dict[str, Any], files: Iterable[Path]) -> str:
    """A short text that changes when the settings or the code of these files do."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


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
    """`folder`, made if need be; refused where nothing can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise InputError(
            f"out must be a folder that can be written, got {folder}: {error.strerror}"
        ) from None
