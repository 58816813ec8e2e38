"""Finished parts of experiments on disk, so that an interrupted or repeated run reuses them."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import neuralrace
from neuralrace.errors import InputError
from neuralrace.files import write

if TYPE_CHECKING:
    import xarray as xr


HEADER = "dimensions"  # entry of a file that says what the axes of its arrays are


class Taken(Exception):
    """Another process is computing this part."""


class Store:
    """A folder with the results of parts, under one key of settings and code.

    A part is an archive of NumPy, which `np.load` opens: an array for each name that the part returned.

    `seconds` is how long the parts that were reused took when they were computed, `reused` their number.
    Several processes may fill one folder: each part is computed by one of them.
    """

    def __init__(self, folder: Path, key: str):
        self.folder: Path = folder
        self.key: str = key
        self.seconds: float = 0.0
        self.reused: int = 0

    def __call__(self, name: str, compute: Callable[[], Any], wait: bool = True) -> xr.Dataset:
        """The stored result of that name, or else `compute()`, as a dataset; see `dataset`.

        Where another process is computing it, this one waits; or raises `Taken` where `wait` is false.
        """
        plain = re.sub(r"[^\w.+-]+", "-", name)
        path = self.folder / f"{plain}-{self.key}.npz"
        with _turn(path, wait):
            stored = _load(path)
            if stored is not None:
                self.reused += 1
                self.seconds += stored.attrs.pop("seconds")
                return stored
            start = time.perf_counter()
            result = dataset(name, compute())
            _save(path, result.assign_attrs(seconds=time.perf_counter() - start))
            return result


def dataset(name: str, values: Any) -> xr.Dataset:
    """What a part returns, as a dataset.

    Parameters
    ----------
    name : str
        The part, for messages.
    values : Dataset, or mapping of str to values
        A value is a number, a `DataArray`, or a pair of dimensions and array. Dimensions are one text,
        separated by spaces.

    Examples
    --------
    >>> dataset("networks", {"loss": ("run t", [[2.0, 1.0, 0.5]]), "residual": 1e-12}).sizes["t"]
    3
    """
    import xarray as xr

    if isinstance(values, xr.Dataset):
        return values.load()
    if not isinstance(values, Mapping):
        raise InputError(f"part {name} must return a Dataset or a dict, got {type(values).__name__}")
    for key, value in values.items():
        if not isinstance(value, (tuple, xr.DataArray)) and np.ndim(value):
            raise InputError(f"part {name} must name the dimensions of {key!r}, as in ('run t', array)")
    split = {k: (v[0].split(), np.asarray(v[1])) if isinstance(v, tuple) else v for k, v in values.items()}
    return xr.Dataset(split)


def along(results: Mapping[Any, xr.Dataset], dim: str) -> xr.Dataset:
    """Results of a part for each of several items, as one dataset with a new first dimension.

    Parameters
    ----------
    results : dict of item to Dataset
        All with the same variables, shapes and coordinates.
    dim : str
        Name of the new dimension; its coordinate holds the items.
    """
    import xarray as xr

    items = xr.DataArray(np.asarray(list(results)), dims=dim, name=dim)
    return xr.concat(
        list(results.values()), items, data_vars="all", coords="minimal", compat="equals", join="exact",
        combine_attrs="drop",
    )  # fmt: skip


@contextmanager
def _turn(path: Path, wait: bool) -> Iterator[None]:
    """No other process computes that file until the end of the block."""
    try:
        import fcntl
    except ImportError:  # on Windows every process computes
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f".{path.stem}.lock")
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise Taken(path.stem) from None
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _save(path: Path, result: xr.Dataset) -> None:
    arrays: dict[str, Any] = {str(n): v.values for n, v in result.variables.items()}
    header = np.asarray(json.dumps(result.to_dict(data=False)))
    write(path, lambda file: np.savez(file, **{HEADER: header}, **arrays))


def _load(path: Path) -> xr.Dataset | None:
    """The result in a file; None where there is none that can be read."""
    import xarray as xr

    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = dict(archive)
        header = json.loads(str(arrays.pop(HEADER)))
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        return None
    parts = {
        kind: {n: (v["dims"], arrays[n], v["attrs"]) for n, v in header[kind].items()}
        for kind in ("data_vars", "coords")
    }
    return xr.Dataset(parts["data_vars"], parts["coords"], header["attrs"])


def key_of(settings: dict[str, Any], code: str) -> str:
    """A short text that changes with the settings of a run or with its code (`digest`).

    >>> key_of({"seeds": 2}, "0b67") == key_of({"seeds": 3}, "0b67")
    False
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    digest.update(code.encode())
    return digest.hexdigest()[:12]


PACKAGE = Path(__file__).parents[1]
SHOWN = {"figure", "rows"}  # decorators of what is made from parts, and changes none


def digest(file: Path) -> str:
    """A short text that changes with the code on which the parts of an experiment may depend.

    That is the library, what all experiments share, and the modules in the folder of the experiment, or a
    file of the user's own. Figures and rows are left out of these modules, with all comments: a caption can
    be mended without computing anything anew.
    """
    own = sorted(file.parent.glob("*.py")) if PACKAGE in file.parents else [file]
    sums = hashlib.sha256(_shared().encode())
    for module in own:
        sums.update(_computing(module.read_bytes()))
    return sums.hexdigest()[:12]


@cache
def _shared() -> str:
    """Digest of the sources of the library, and of what all experiments share."""
    library = Path(str(neuralrace.__file__)).parent
    shared = [f for folder in (".", "framework", "zoo") for f in (PACKAGE / folder).glob("*.py")]
    sums = hashlib.sha256()
    for file in sorted([*library.rglob("*.py"), *shared]):
        sums.update(file.read_bytes())
    return sums.hexdigest()


def _computing(source: bytes) -> bytes:
    """The code of a module without figures and rows, comments and docstrings."""
    tree = ast.parse(source)
    tree.body = [s for s in tree.body if not (isinstance(s, ast.FunctionDef) and _shows(s))]
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(
            node, clean=False
        ):
            node.body = node.body[1:]
    return ast.dump(tree).encode()


def _shows(function: ast.FunctionDef) -> bool:
    made = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
    return any(isinstance(name, ast.Name) and name.id in SHOWN for name in made)
