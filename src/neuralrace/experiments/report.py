"""One HTML page with the claims and figures of all finished experiments; it needs no other file."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from neuralrace.errors import InputError
from neuralrace.experiments import Report, names
from neuralrace.experiments.claim import FAILS, HOLDS, UNDECIDED, VERDICTS, Claim
from neuralrace.files import writable, write_text

WORDS = {"paper": "statements of papers", "check": "checks", "finding": "findings", "": "other claims"}
MARKS = {HOLDS: "✓ holds", FAILS: "✗ fails", UNDECIDED: "needs the full form"}
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
h1 { margin-bottom: 0 } h2 { margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1rem }
table { border-collapse: collapse; width: 100%; font-size: 13.5px }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #e4e4e4; vertical-align: top }
th { border-bottom: 2px solid #888; position: sticky; top: 0; background: #fff }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap }
.holds { color: #00664a; font-weight: 600; white-space: nowrap }
.fails { color: #a63d00; font-weight: 600; white-space: nowrap }
.undecided { color: #555; white-space: nowrap } code { font-size: 12px; color: #555 }
tr.fails-row { background: #fdf1ea } .note { color: #555 }
q { display: block; color: #555; font-style: italic }
figure { display: inline-block; vertical-align: top; margin: 1rem 1.5rem 1rem 0; max-width: 100% }
figure img { max-width: 100%; height: auto } figcaption { font-size: 13px; color: #444; max-width: 44rem }
details { margin: .6rem 0 } summary { cursor: pointer; color: #444 } .small { color: #555; font-size: 13px }
"""


def write_report(out: str | Path = "results") -> Path:
    """Gather what is finished under `out` into `out/report.html` and `out/claims.csv`; the page's path."""
    import pandas as pd

    folder = Path(out)
    there = sorted(file.parent for file in folder.glob("*/result.json"))
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


def page(reports: list[Report], unreadable: Sequence[str] = ()) -> str:
    """The page as text."""
    left_out = f" Left out, as their results cannot be read: {', '.join(unreadable)}." if unreadable else ""
    rows = "".join(_row(r, c) for r in reports for c in r.claims)
    told = "; ".join(summary(reports))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>neuralrace: claims and figures</title><style>{STYLE}</style></head><body>
<h1>neuralrace</h1>
<p>{len(reports)} experiments{_modes(reports)}. {told}.
Theory is drawn as lines, simulated networks as points or bands.{left_out}</p>
<table><thead><tr><th>verdict</th><th>kind</th><th>claim</th><th>where</th><th>expected</th><th>measured</th>
<th>spread</th><th>tolerance</th></tr></thead><tbody>{rows}</tbody></table>
<p class="small">Measured is the mean over seeds, spread their standard deviation. A claim is a statement of a
paper, a check of this library, or a finding of ours.</p>
{"".join(_section(r) for r in reports)}
</body></html>
"""


def summary(reports: Sequence[Report]) -> list[str]:
    """How many claims of each kind hold, fail or are undecided, in words."""
    lines = []
    for kind, word in WORDS.items():
        found = [c.verdict for r in reports for c in r.claims if c.kind == kind]
        if found:
            counts = {verdict: found.count(verdict) for verdict in VERDICTS}
            need = f", {counts[UNDECIDED]} need the full form" if counts[UNDECIDED] else ""
            lines.append(f"{word}: {counts[HOLDS]} hold, {counts[FAILS]} fail{need}")
    return lines


def _modes(reports: list[Report]) -> str:
    quick = sum(r.quick for r in reports)
    if quick == len(reports):
        return ", in their quick form"
    return f" ({quick} in quick form)" if quick else ""


def _row(report: Report, claim: Claim) -> str:
    note = f"<q>{escape(claim.quote)}</q>" if claim.quote else ""
    note += f'<div class="note">{escape(claim.note)}</div>' if claim.note else ""
    cells = "".join(
        f'<td class="number">{escape(shown(v))}</td>'
        for v in (claim.expected, claim.measured, claim.spread, claim.tolerance)
    )
    run = escape(report.folder.name)
    return (
        f'<tr class="{claim.verdict}-row"><td class="{claim.verdict}">{MARKS[claim.verdict]}</td>'
        f"<td>{claim.kind}</td>"
        f'<td><a href="#{run}">{run}</a>: {escape(claim.name)} <code>{claim.id}</code>{note}</td>'
        f"<td>{escape(claim.source)}</td>{cells}</tr>\n"
    )


def shown(value: Any) -> str:
    """A number as a reader wants it."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _section(r: Report) -> str:
    figures = "".join(_figure(r.folder / f"{name}.svg", caption) for name, caption in r.figures)
    table = "".join(
        f"<tr><td>{escape(k)}</td><td>{escape(shown(v))}</td></tr>" for k, v in r.parameters.items()
    )
    packages = ", ".join(f"{k} {v}" for k, v in r.versions.items())
    form = "quick form" if r.quick else "full form"
    return f"""<h2 id="{escape(r.folder.name)}">{escape(r.title)}</h2>
<p class="small">{escape(r.folder.name)} · {escape(r.source)} · {form} · {r.seconds:.1f} s</p>
<p>{escape(r.about)}</p>
{figures}
<details><summary>Parameters and versions</summary><table>{table}</table>
<p class="small">{escape(packages)}</p></details>
"""


def _figure(path: Path, caption: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    text = escape(caption)
    image = f'<img src="data:image/svg+xml;base64,{data}" alt="{text}">'
    return f"<figure>{image}<figcaption>{text}</figcaption></figure>"
