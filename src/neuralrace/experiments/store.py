"""Finished parts of experiments on disk, so that an interrupted or repeated run reuses them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.errors import InputError


class Parts:
    """Computes the parts of one run, or takes them from where a run with the same key left them."""

    def __init__(self, folder: Path, key: str, name: str = "", progress: bool = False):
        self.folder, self.key, self.name, self.progress = folder, key, name, progress
        self.seconds, self.reused = 0.0, 0  # of parts that were computed before

    def __call__(self, part: str, function: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
        """`function(*args)`, a dict of arrays, unless it is stored already."""
        path = self.folder / f"{part}-{self.key}.npz"
        found: dict[str, Any] | None = _stored(path)
        if found is None:
            start = time.perf_counter()
            found = {k: np.asarray(v) for k, v in function(*args).items()}
            took = np.asarray(time.perf_counter() - start)
            write(path, lambda file: np.savez(file, **found, seconds=took))
        else:
            self.reused += 1
            self.seconds += float(found.pop("seconds"))
        return found

    def each(
        self,
        part: str,
        function: Callable[..., dict[str, Any]],
        items: Iterable[Any],
        *args: Any,
        threads: int = 1,
    ) -> list[dict[str, Any]]:
        """`function(item, *args)` for every item, with a progress bar where that takes long.

        Threads are worth having where items compile for long; interrupted, they finish what they are at.
        """
        from tqdm import tqdm

        items = list(items)
        shown = None if self.progress else True
        bar = tqdm(total=len(items), desc=f"{self.name} {part}", delay=2, disable=shown, leave=False)

        def one(item: Any) -> dict[str, Any]:
            found = self(f"{part}-{item}", function, item, *args)
            bar.update()
            return found

        pool = ThreadPoolExecutor(threads)
        try:
            return [one(item) for item in items] if threads == 1 else list(pool.map(one, items))
        finally:
            pool.shutdown(cancel_futures=True)
            bar.close()


def _stored(path: Path) -> dict[str, Any] | None:
    """The arrays of a finished part; None where there is none that can be read."""
    try:
        with path.open("rb") as file, np.load(file) as stored:
            found = {k: stored[k] for k in stored.files}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, KeyError):
        return None
    return found if "seconds" in found else None


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
