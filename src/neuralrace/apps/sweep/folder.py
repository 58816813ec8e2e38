"""The folder of a sweep: its definition, finished pieces, and the result that they are gathered into.

A piece is a file with the records of some points, written whole or not at all. An interrupt loses what is
being computed, nothing that is finished. Pieces are gathered into `data.zarr` and `runs.parquet` at the end.
"""

from __future__ import annotations

import difflib
import io
import json
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.apps.sweep.axes import RESERVED, Grid
from neuralrace.apps.sweep.run import FAILED, Record
from neuralrace.dynamics import versions
from neuralrace.errors import InputError, short
from neuralrace.files import (
    FORMAT,
    as_path,
    clear_leftovers,
    read_npz,
    refuse_foreign,
    replace_folder,
    writable,
    write,
    write_text,
)

if TYPE_CHECKING:
    import xarray

_NUMBERS, _TEXTS = ("seconds", "steps", "error"), ("status", "outcome", "message")  # of a record
_CHUNK = 2**22  # numbers in a chunk of the stored data
_KIND = "result of a sweep"  # in data.zarr
_NAME = re.compile(r"\w[^/\\\x00-\x1f]{0,99}")  # of a measure: that of a folder in data.zarr too


def folder_path(out: Any) -> Path:
    """The argument `out` as a path, checked."""
    return writable(as_path("out", out))


class Folder:
    """Where a sweep is stored. `definition` is what a resumed sweep must have in common with this one."""

    def __init__(self, path: Path, grid: Grid, definition: Mapping[str, Any]):
        from neuralrace import __version__

        self.path, self.grid = path, grid
        self.definition = {
            **definition, "axes": grid.to_dict(), "neuralrace": __version__, "format": FORMAT,
        }  # fmt: skip
        self._next = 1 + max((int(file.stem) for file in self._files()), default=0)  # number of a new piece

    @contextmanager
    def opened(self) -> Iterator[Folder]:
        """Hold the folder while working in it; refused where another sweep does, or another is stored."""
        from filelock import FileLock, Timeout

        writable(self.path).mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / ".lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise InputError(
                f"out must be a folder that no other sweep is using; one runs in {self.path}"
            ) from None
        try:
            self._check_definition()
            clear_leftovers(self.path, ".gathering*", ".runs.parquet.*", ".definition.json.*")
            clear_leftovers(self.path / "pieces", ".????????.npz.*")
            yield self
        finally:
            lock.release()

    def _check_definition(self) -> None:
        file, own = self.path / "definition.json", _text(self.definition)
        refuse_foreign(self.path / "data.zarr", _KIND)
        for name, there in (("pieces", Path.is_dir), ("runs.parquet", Path.is_file)):
            if (self.path / name).exists() and not there(self.path / name):
                raise InputError(f"out must be a folder of a sweep; {self.path / name} is none of its files")
        if not file.exists():
            others = [p.name for p in self.path.iterdir() if not p.name.startswith(".")]
            if others:
                raise InputError(
                    f"out must be an empty folder or that of a sweep; {self.path} holds {others[0]}"
                )
            write_text(file, own)
            return
        try:
            stored = file.read_text()
        except (OSError, ValueError) as fault:
            raise InputError(f"out must be a folder of a sweep; {file} cannot be read: {fault}") from None
        if stored != own:
            lines = difflib.unified_diff(
                stored.splitlines(), own.splitlines(), "stored", "asked for", "", "", 1
            )
            difference = "\n".join(line.rstrip() for line in lines)
            raise InputError(
                f"out must be a new folder or hold this sweep; the one in {self.path} is defined otherwise. "
                f"Choose another folder, or undo the change:\n{difference}"
            )

    # -- pieces ------------------------------------------------------------------------------

    def add(self, places: Sequence[int], records: Sequence[Record]) -> None:
        """Store the records of some points."""
        arrays: dict[str, Any] = {"places": np.asarray(places)}
        arrays |= {f"number:{n}": np.array([getattr(r, n) for r in records], float) for n in _NUMBERS}
        arrays |= {f"text:{n}": np.array([getattr(r, n) for r in records], dtype=np.str_) for n in _TEXTS}
        for name in {name for r in records for name in (r.values or {})}:
            arrays[f"value:{name}"] = padded([(r.values or {}).get(name) for r in records])
        self._check_names(arrays)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        name = f"{self._next:08d}.npz"
        write(self.path / "pieces" / name, lambda file: file.write(buffer.getvalue()))
        self._next += 1

    def _check_names(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Refuse measures with names that the result has already: its own, those of parameters, of axes."""
        values = {k.removeprefix("value:"): v for k, v in arrays.items() if k.startswith("value:")}
        taken = {*RESERVED, *self.grid.coordinates()}
        for name, array in values.items():
            if not _NAME.fullmatch(name) or len(name.encode()) > 200:
                raise InputError(
                    f"measure must name what it returns by at most 100 letters without '/', and first a "
                    f"letter or digit; got {short(name)}"
                )
            own = [f"{name}_{k}" for k in range(array.ndim - 1)]
            clash = next((n for n in (name, *own) if n in taken or (n in own and n in values)), None)
            if clash is not None:
                raise InputError(
                    f"measure must not return {name!r}: the sweep has something else called {clash!r}; "
                    "choose another name"
                )

    def _files(self) -> list[Path]:
        """The pieces, as they were stored one after the other; later ones count."""
        return sorted((self.path / "pieces").glob("[0-9]" * 8 + ".npz"))

    def pieces(self) -> Iterator[dict[str, np.ndarray]]:
        """What is stored; a file that cannot be read is removed, and its points are computed again."""
        needed = ("places", *(f"number:{n}" for n in _NUMBERS), *(f"text:{n}" for n in _TEXTS))
        for file in self._files():
            try:
                piece = read_npz(file, *needed)
                places = piece["places"]
                if places.dtype.kind != "i" or places.ndim != 1 or not self._holds(places):
                    raise InputError(f"{file} holds other places than those of this sweep")
                if any(len(np.atleast_1d(column)) != len(places) for column in piece.values()):
                    raise InputError(f"{file} must hold a value for each of its places")
                yield piece
            except InputError as fault:
                warnings.warn(f"{fault}; its runs are computed again", stacklevel=2)
                file.unlink()

    def _holds(self, places: np.ndarray) -> bool:
        return places.min(initial=0) >= 0 and places.max(initial=-1) < len(self.grid)

    def missing(self, retry_failed: bool) -> list[int]:
        """Places of the points that are to be computed."""
        done = np.zeros(len(self.grid), bool)
        for piece in self.pieces():
            failed = piece["text:status"] == FAILED
            done[piece["places"]] = ~failed if retry_failed else True
        return np.flatnonzero(~done).tolist()

    # -- the result --------------------------------------------------------------------------

    def gather(self) -> xarray.Dataset:
        """Write `data.zarr` and `runs.parquet` from all pieces; the data, opened."""
        import pandas as pd
        import xarray as xr

        n, shapes = len(self.grid), self._shapes()
        texts = {name: np.full(n, "", dtype=object) for name in _TEXTS}
        numbers = {name: np.full(n, np.nan) for name in _NUMBERS}
        with tempfile.TemporaryDirectory(dir=self.path, prefix=".gathering") as folder:
            values = {
                name: np.lib.format.open_memmap(f"{folder}/{k}.npy", "w+", float, (n, *shape))
                for k, (name, shape) in enumerate(shapes.items())
            }
            for array in values.values():
                array[:] = np.nan
            for piece in self.pieces():
                places = piece["places"]
                for table, prefix in ((texts, "text:"), (numbers, "number:")):
                    for name, column in table.items():
                        column[places] = piece[prefix + name]
                for name, array in values.items():
                    found = piece.get(f"value:{name}")
                    if found is not None:
                        array[(places, *map(slice, found.shape[1:]))] = found
            table = pd.DataFrame([*self.grid.points]).assign(**texts, **numbers)
            table = table.assign(**{f"version_{k}": v for k, v in versions().items()})
            write(self.path / "runs.parquet", lambda file: table.to_parquet(file, index=False))
            names, grid_shape = tuple(axis.name for axis in self.grid.axes), self.grid.shape
            data = {
                name: (
                    (*names, *(f"{name}_{k}" for k in range(array.ndim - 1))),
                    array.reshape(*grid_shape, *array.shape[1:]),
                )
                for name, array in values.items()
            }
            data |= {name: (names, column.reshape(grid_shape)) for name, column in numbers.items()}
            data["status"] = (names, texts["status"].astype(np.str_).reshape(grid_shape))
            ds = xr.Dataset(data, self.grid.coordinates(), {"definition": _text(self.definition)})
            self._write_zarr(ds)
        return xr.open_zarr(self.path / "data.zarr", chunks=None)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The largest shape of each measure; smaller ones are filled up with nan."""
        shapes: dict[str, tuple[int, ...]] = {}
        for piece in self.pieces():
            for key, array in piece.items():
                if key.startswith("value:"):
                    name, own = key.removeprefix("value:"), array.shape[1:]
                    before = shapes.get(name, own)
                    if len(before) != len(own):
                        raise InputError(
                            f"measure must return {name!r} with the same number of axes in every run"
                        )
                    shapes[name] = tuple(map(max, before, own))
        return shapes

    def _write_zarr(self, ds: xarray.Dataset) -> None:
        chunks = _chunks(ds)
        replace_folder(
            self.path / "data.zarr", _KIND,
            lambda new: ds.to_zarr(new, mode="w", zarr_format=2, consolidated=True, encoding=chunks),
        )  # fmt: skip


def padded(values: Sequence[np.ndarray | None]) -> np.ndarray:
    """Arrays as one, `(len(values), ...)`; nan where one is missing or smaller than the largest."""
    known = [np.asarray(v) for v in values if v is not None]
    if len({v.ndim for v in known}) > 1:
        raise InputError("measure must return values with the same number of axes in every run")
    shape = tuple(np.max([v.shape for v in known], axis=0).astype(int))
    out = np.full((len(values), *shape), np.nan)
    for k, v in enumerate(values):
        if v is not None:
            out[(k, *map(slice, np.shape(v)))] = v
    return out


def _chunks(ds: xarray.Dataset) -> dict[str, Any]:
    """Chunks of stored arrays: whole trailing axes, and as much of the others as fits."""
    found = {}
    for name, variable in ds.data_vars.items():
        chunks, left = [], _CHUNK
        for size in reversed(variable.shape):
            chunks.append(max(1, min(size, left)))
            left //= chunks[-1]
        found[name] = {"chunks": tuple(reversed(chunks))}
    return found


def _text(definition: Mapping[str, Any]) -> str:
    plain = dict(definition)
    if "function" in plain:
        plain["function"] = plain["function"].splitlines()
    return json.dumps(plain, indent=1, sort_keys=True)
