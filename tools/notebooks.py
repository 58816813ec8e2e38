"""Runs the notebooks and keeps what they show: `python tools/notebooks.py [NAME ...]`, or all.

The outputs are stored in `notebooks/NAME.ipynb`. The site shows them as they are stored.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
SHOWN = ("image/png", "text/html", "text/plain")  # of what an output holds, the first that there is
WIDGET = "application/vnd.jupyter.widget-view+json"


def run(file: Path) -> Any:
    """The notebook with the outputs of a run by a fresh kernel."""
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(file, as_version=4)
    own = {**os.environ, "PYTHONPATH": str(ROOT / "src")}  # the kernel sees this copy of the library
    NotebookClient(book, timeout=300, resources={"metadata": {"path": str(file.parent)}}).execute(env=own)
    return book


def tidy(book: Any) -> Any:
    """Without times, states of widgets, and forms of outputs that nobody looks at."""
    book.metadata.pop("widgets", None)
    for cell in book.cells:
        cell.metadata = {}
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            keep = WIDGET if WIDGET in data else next((form for form in SHOWN if form in data), None)
            for form in [form for form in data if form not in (keep, "text/plain")]:
                del data[form]
        if "outputs" in cell:
            cell.outputs = _joined([o for o in cell.outputs if o.get("name") != "stderr"])
    return book


def _joined(outputs: list[Any]) -> list[Any]:
    """Outputs with the printed lines that follow each other as one."""
    kept: list[Any] = []
    for output in outputs:
        if kept and output.get("name") == kept[-1].get("name") == "stdout":
            kept[-1]["text"] += output["text"]
        else:
            kept.append(output)
    return kept


if __name__ == "__main__":
    import nbformat

    for notebook in sys.argv[1:] or sorted(file.stem for file in FOLDER.glob("*.ipynb")):
        nbformat.write(tidy(run(FOLDER / f"{notebook}.ipynb")), FOLDER / f"{notebook}.ipynb")
