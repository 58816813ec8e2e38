"""Finished parts of experiments on disk, so that an interrupted or repeated run reuses them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.errors import InputError
from neuralrace.files import read_npz, write


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
        items, bar = list(items), None
        if self.progress:  # tqdm holds a semaphore, which a worker that is ended would leave behind
            from tqdm import tqdm

            bar = tqdm(total=len(items), desc=f"{self.name} {part}", delay=2, disable=None, leave=False)

        def one(item: Any) -> dict[str, Any]:
            found = self(f"{part}-{item}", function, item, *args)
            if bar is not None:
                bar.update()
            return found

        pool = ThreadPoolExecutor(threads)
        try:
            return [one(item) for item in items] if threads == 1 else list(pool.map(one, items))
        finally:
            pool.shutdown(cancel_futures=True)
            if bar is not None:
                bar.close()


def _stored(path: Path) -> dict[str, Any] | None:
    """The arrays of a finished part; None where there is none that can be read."""
    try:
        found = read_npz(path)
    except InputError:
        return None
    return found if "seconds" in found else None


def stacked(parts: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Equal-shaped results of several parts, one leading axis."""
    return {k: np.stack([p[k] for p in parts]) for k in parts[0]}


def key_of(settings: dict[str, Any], code: str) -> str:
    """A short text that changes with the settings of a run or with its code (`code.Package.key`).

    >>> key_of({"seeds": 2}, "0b67") == key_of({"seeds": 3}, "0b67")
    False
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    digest.update(code.encode())
    return digest.hexdigest()[:12]
