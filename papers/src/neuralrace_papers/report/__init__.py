"""One HTML page with the figures and verdicts of all finished experiments; it needs no other file."""

from __future__ import annotations

from pathlib import Path

from neuralrace.errors import InputError
from neuralrace.files import writable, write_text
from neuralrace_papers import Report, names
from neuralrace_papers.report.render import page


def write_report(out: str | Path = "results") -> Path:
    """Gather what is finished under `out` into `out/report.html` and `out/claims.csv`; the page's path."""
    import pandas as pd

    folder = Path(out)
    try:
        there = sorted(file.parent for file in folder.glob("*/result.json"))
    except (OSError, ValueError) as error:  # ValueError: a name that no folder can have
        raise InputError(f"out must be a folder with results of `neuralrace run`: {error}") from None
    reports = {one.name: _finished(one) for one in there}
    found = sorted((r for r in reports.values() if r is not None), key=_place)
    if not found:
        raise InputError(f"out must hold results of `neuralrace run`; there are none in {folder}")
    path = writable(folder) / "report.html"
    write_text(path, page(found, [name for name, r in reports.items() if r is None]))
    write_text(folder / "claims.csv", pd.concat([r.table() for r in found]).to_csv(index=False))
    return path


def _place(report: Report) -> tuple[int, str]:
    """Where a report stands: in the order of the experiments, own ones last, the full form before others."""
    order = names()
    return order.index(report.name) if report.name in order else len(order), report.folder.name


def _finished(folder: Path) -> Report | None:
    """The report in a folder; None where another version wrote it or a file of it is gone."""
    try:
        report = Report.load(folder)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    whole = all((folder / f"{name}.svg").is_file() for name, _ in report.figures)
    return report if whole else None
