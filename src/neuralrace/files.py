"""Files written whole or not at all, and arrays read with a clear word where they cannot be."""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.errors import InputError, short

__all__ = [
    "FORMAT",
    "as_number",
    "as_path",
    "check_folder",
    "check_format",
    "clear_leftovers",
    "csv_columns",
    "folder_for",
    "read_csv",
    "read_npz",
    "refuse_foreign",
    "replace_folder",
    "restore",
    "writable",
    "write",
    "write_text",
]
FORMAT = 1  # of everything that is stored: it grows when older versions could no longer read what is written
MARK = ".neuralrace.json"  # in a folder that was written here: what it is, its format, sums of its files
ZARR_MARK = ".zattrs"  # in its place in a zarr folder, where other files are frowned upon


def as_path(name: str, given: Any) -> Path:
    """`given` as a path; refused where no file can have that name."""
    if not isinstance(given, (str, Path)) or not str(given):
        raise InputError(f"{name} must be the name of a folder, got {short(given)}")
    try:
        os.lstat(given)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        pass  # said where it is read or written
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(
            f"{name} must be a folder that can be written and read, got {short(str(given))}: {why}"
        ) from None
    return Path(given)


def replace_folder(path: Path, kind: str, fill: Callable[[Path], Any]) -> None:
    """Write a folder by `fill(folder)`, whole or not at all, in the place of an older one of that kind.

    A folder with anything else in it is refused. The older one stays until the new one is in its place.
    """
    writable(as_path("path", path).parent).mkdir(parents=True, exist_ok=True)
    new, old = (_beside(path, age) for age in ("new", "old"))
    with _alone_in(path.parent):
        _restore(path)
        refuse_foreign(path, kind)
        try:
            for left in (new, old):  # by a process that was killed
                shutil.rmtree(left, ignore_errors=True)
            fill(new)
            sums = {name: _sum(new / name) for name in sorted(_contents(new))}
            file, mark = _mark_file(new), {"kind": kind, "format": FORMAT, "files": sums}
            before = json.loads(file.read_text()) if file.exists() else {}
            file.write_text(json.dumps({**before, "neuralrace": mark}, indent=1))
            if path.exists():
                path.rename(old)
            new.rename(path)
        finally:
            _restore(path)
            for left in (new, old):
                shutil.rmtree(left, ignore_errors=True)


def _beside(path: Path, age: str) -> Path:
    return path.with_name(f".{path.name}.neuralrace-{age}")


def restore(path: Path) -> None:
    """Put back an older folder that a killed process had moved aside to replace it."""
    with suppress(OSError):
        if _beside(path, "old").is_dir() and not path.exists():
            with _alone_in(path.parent):  # or it is in the midst of being replaced
                _restore(path)


def _restore(path: Path) -> None:
    with suppress(OSError):
        if _beside(path, "old").is_dir() and not path.exists():
            _beside(path, "old").rename(path)


def check_folder(name: str, path: Path, kind: str) -> None:
    """Refuse a folder that is not one of that kind, that a later version wrote, or that is damaged."""
    mark = _mark(path)
    if mark is None or mark["kind"] != kind:
        raise InputError(f"{name} must be a folder that holds a {kind}; there is none at {path}")
    check_format(str(path), mark["format"])
    for file, total in mark["files"].items():
        try:
            fault = "was changed after it was written" if _sum(path / file) != total else ""
        except OSError:
            fault = "is missing"
        if fault:
            raise InputError(f"{name} must hold a whole {kind}; in {path} the file {file} {fault}")


def check_format(name: str, version: Any) -> None:
    """Refuse what a later version of the package wrote."""
    if not isinstance(version, int) or version > FORMAT:
        raise InputError(
            f"{name} has format {short(version)}, and this version of neuralrace reads those up to {FORMAT}"
        )


def _mark_file(folder: Path) -> Path:
    return folder / (ZARR_MARK if (folder / ZARR_MARK).exists() else MARK)


def _mark(path: Path) -> dict[str, Any] | None:
    """What a folder says of itself; None where it was not written here."""
    try:
        found = json.loads(_mark_file(path).read_text())["neuralrace"]
        return found if found.keys() >= {"kind", "format", "files"} else None
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return None


def refuse_foreign(path: Path, kind: str) -> None:
    """Refuse to replace what is not a folder of that kind, or holds something that was not written here."""
    if not path.exists():
        return
    mark = _mark(path)
    own = mark["files"] if mark is not None and mark["kind"] == kind else {}
    for name in _contents(path) if path.is_dir() else [path.name]:
        if name not in own or _sum(path / name) != own[name]:
            raise InputError(
                f"path must be new, or a folder that holds a {kind} and nothing else; {path} holds other "
                f"files, or changed ones: {short(name)}"
            )


def _contents(folder: Path) -> Iterator[str]:
    """Names of the files in a folder and in those inside it, and of folders that are empty."""
    mark = _mark_file(folder)
    for p in folder.rglob("*"):
        if p != mark and (not p.is_dir() or p.is_symlink() or not any(p.iterdir())):
            yield p.relative_to(folder).as_posix()


def _sum(file: Path) -> int:
    """A number by which a change of a file is seen."""
    total = 0
    with file.open("rb") as opened:
        while part := opened.read(2**22):
            total = zlib.crc32(part, total)
    return total


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """No other process replaces a folder inside that one until the end of the block."""
    try:
        import fcntl
    except ImportError:  # on Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # of file systems without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def clear_leftovers(folder: Path, *names: str) -> None:
    """Remove what a killed process left half written; only where no other process writes these names."""
    for left in (left for name in names for left in folder.glob(name)):
        shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)


def write(path: Path, fill: Callable[[Any], Any]) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=path.suffix)
    try:
        with os.fdopen(handle, "wb") as file:
            fill(file)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)  # missing: interrupted just after it took its place
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


def folder_for(out: str | Path, kind: str, source: Path) -> Path:
    """A folder `out/kind/NAME` for the results of a file, of its own where another file has the same name."""
    source = source.resolve()
    stem = source.stem.strip(".") or "unnamed"
    folder = Path(out) / kind / stem
    for name in chain([stem], (f"{stem}-{k}" for k in count(2))):
        folder = Path(out) / kind / name
        note = folder / "source.txt"
        if not folder.exists() or (note.is_file() and note.read_text() == str(source)):
            break
    write_text(writable(folder) / "source.txt", str(source))
    return folder


def read_npz(path: Path, *needed: str) -> dict[str, np.ndarray]:
    """The arrays of an npz file by name; refused where one of those needed is missing."""
    try:
        with path.open("rb") as file, np.load(file) as archive:
            found = {name: archive[name] for name in archive.files}
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'not an npz file'}") from None
    except (ValueError, EOFError, TypeError, AttributeError, KeyError, MemoryError, zipfile.BadZipFile):
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
    table = [(line, cells, [as_number(cell) for cell in cells]) for line, cells in _lines(source, name)]
    if not table:
        raise InputError(f"{name} is empty")
    _, first, numbers = table[0]
    names = [cell.strip() for cell in first] if np.isnan(numbers).all() else None
    table = table if names is None else table[1:]
    if not table:
        raise InputError(f"{name} holds no numbers")
    for line, cells, numbers in table:
        if len(cells) != len(first):
            wanted = f"must have {len(first)} cells as the first line has, got {len(cells)}"
            raise InputError(f"{name}, line {line}: {wanted}")
        for k in np.flatnonzero(~np.isfinite(numbers))[:1]:
            raise InputError(f"{name}, line {line}: column {k + 1} must be a number, got {cells[k]!r}")
    return names, np.array([numbers for *_, numbers in table])


def _lines(source: Any, name: str) -> Iterator[tuple[int, list[str]]]:
    """The lines of a csv file that are not blank: their numbers and cells."""
    try:
        with source.open(encoding="utf-8-sig", newline="") if isinstance(source, Path) else source as file:
            reader = csv.reader(file, strict=True)
            yield from ((reader.line_num, row) for row in reader if "".join(row).strip())
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{name} cannot be read as csv: {error}") from None


def as_number(text: str) -> float:
    """The number that a cell holds; nan where it holds none. To Python 1_0 is a number too."""
    try:
        return np.nan if "_" in text else float(text)
    except ValueError:
        return np.nan
