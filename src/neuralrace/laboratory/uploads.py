"""Tables that a user brings: csv or npz, numbers only. Nothing in a file is ever executed."""

from __future__ import annotations

import io
import zipfile

import numpy as np

from neuralrace.errors import InputError, array
from neuralrace.files import csv_columns
from neuralrace.laboratory.protocol import MAX_NUMBERS, MAX_SAMPLES, MAX_SIZE, Table

MAX_UNPACKED = 40_000_000  # bytes of an npz file when unpacked


def read_table(content: bytes) -> Table:
    """The columns of a file; an npz is told by its first bytes."""
    columns = _npz(content) if content[:4] == b"PK\x03\x04" else _csv(content)
    if not columns:
        raise InputError("the file holds no columns")
    lengths = {len(v) for v in columns.values()}
    if len(lengths) > 1:
        raise InputError(f"all columns must be equally long, got {sorted(lengths)}")
    n = lengths.pop()
    if n == 0:
        raise InputError("the file holds no rows")
    if n > MAX_SAMPLES or len(columns) > 2 * MAX_SIZE or n * len(columns) > MAX_NUMBERS:
        raise InputError(
            f"the file has {n} rows of {len(columns)} columns; the page takes {MAX_SAMPLES} rows, "
            f"{2 * MAX_SIZE} columns and {MAX_NUMBERS:,} numbers. Use neuralrace reduce for more"
        )
    table = np.column_stack(list(columns.values()))
    if not np.isfinite(table).all():
        raise InputError("the file must hold finite numbers only")
    return Table(columns=list(columns), rows=table.tolist())


def _npz(content: bytes) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(part.file_size for part in archive.infolist()) > MAX_UNPACKED:
                raise InputError(f"the npz file unpacks to more than {MAX_UNPACKED:,} bytes")
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: array(name, archive[name]) for name in archive.files}
    except InputError:
        raise
    except Exception as error:  # whatever a broken archive raises
        raise InputError(f"the npz file cannot be read: it must hold arrays of numbers ({error})") from None
    columns: dict[str, np.ndarray] = {}
    for name, values in arrays.items():
        if values.ndim == 1:
            columns[name] = values
        elif values.ndim == 2:
            columns |= {f"{name}{k + 1}": column for k, column in enumerate(values.T)}
        else:
            raise InputError(f"the npz file: {name!r} must have one row per sample, got shape {values.shape}")
    return columns


def _csv(content: bytes) -> dict[str, np.ndarray]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("the file must be csv text in UTF-8, or npz") from None
    if "," in text and ";" in text:
        raise InputError("the file must separate columns by commas or by semicolons, with decimals as in 1.5")
    return csv_columns(io.StringIO(text.replace(";", ",").replace("\t", ",")), "the file", unnamed=True)
