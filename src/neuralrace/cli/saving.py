"""Tables and figures that commands leave."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace import plot
from neuralrace.errors import MissingPackageError
from neuralrace.files import write_text


def save_table(columns: Mapping[str, np.ndarray], file: Path) -> None:
    """Write columns of equal length as csv, with their names in the first line."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    write_text(file, text.getvalue())


def save_figure(draw: Callable[[], Any], folder: Path, name: str) -> list[Path]:
    """Draw and write a figure; where matplotlib is not installed, say so on stderr instead."""
    try:
        return plot.save(draw(), folder, name)
    except MissingPackageError as missing:
        print(f"neuralrace: no figure: {missing}", file=sys.stderr)
        return []
