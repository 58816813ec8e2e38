"""One HTML page with the claims and figures of all finished experiments; it needs no other file."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from neuralrace.errors import InputError
from neuralrace.experiments import Report, names
from neuralrace.experiments.experiment import Claim
from neuralrace.files import writable, write_text

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
h1 { margin-bottom: 0 } h2 { margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1rem }
table { border-collapse: collapse; width: 100%; font-size: 13.5px }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #e4e4e4; vertical-align: top }
th { border-bottom: 2px solid #888; position: sticky; top: 0; background: #fff }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap }
.holds { color: #00664a; font-weight: 600; white-space: nowrap }
.fails { color: #a63d00; font-weight: 600; white-space: nowrap }
tr.fails-row { background: #fdf1ea } .note { color: #555 }
figure { display: inline-block; vertical-align: top; margin: 1rem 1.5rem 1rem 0; max-width: 100% }
figure img { max-width: 100%; height: auto } figcaption { font-size: 13px; color: #444; max-width: 44rem }
details { margin: .6rem 0 } summary { cursor: pointer; color: #444 } .small { color: #555; font-size: 13px }
"""


def write_report(out: str | Path = "results") -> Path:
    """Gather what is finished under `out` into `out/report.html`; its path."""
    folder = Path(out)
    there = [name for name in names() if (folder / name / "result.json").is_file()]
    reports = {name: _finished(folder / name) for name in there}
    found = [r for r in reports.values() if r is not None]
    if not found:
        raise InputError(f"out must hold results of `neuralrace run`; there are none in {folder}")
    path = writable(folder) / "report.html"
    write_text(path, page(found, [name for name, r in reports.items() if r is None]))
    return path


def _finished(folder: Path) -> Report | None:
    """The report in a folder; None where another version wrote it or a file of it is gone."""
    try:
        report = Report.load(folder)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return report if all((folder / f"{name}.svg").is_file() for name, _ in report.figures) else None


def page(reports: list[Report], unreadable: Sequence[str] = ()) -> str:
    """The page as text."""
    left_out = f" Left out, as their results cannot be read: {', '.join(unreadable)}." if unreadable else ""
    claims = [(r, c) for r in reports for c in r.claims]
    held = sum(c.holds for _, c in claims)
    rows = "".join(_row(r, c) for r, c in claims)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>neuralrace: claims and figures</title><style>{STYLE}</style></head><body>
<h1>neuralrace</h1>
<p>{held} of {len(claims)} claims hold, in {len(reports)} experiments{_modes(reports)}.
Theory is drawn as lines, simulated networks as points or bands.{left_out}</p>
<table><thead><tr><th></th><th>claim</th><th>where</th><th>expected</th><th>measured</th><th>spread</th>
<th>tolerance</th></tr></thead><tbody>{rows}</tbody></table>
<p class="small">Measured is the mean over seeds, spread their standard deviation.</p>
{"".join(_section(r) for r in reports)}
</body></html>
"""


def _modes(reports: list[Report]) -> str:
    quick = sum(r.quick for r in reports)
    if quick == len(reports):
        return ", in their quick form"
    return f" ({quick} in quick form)" if quick else ""


def _row(report: Report, claim: Claim) -> str:
    kind, word = ("holds", "✓ holds") if claim.holds else ("fails", "✗ does not hold")
    note = f'<div class="note">{escape(claim.note)}</div>' if claim.note else ""
    cells = "".join(
        f'<td class="number">{escape(shown(v))}</td>'
        for v in (claim.expected, claim.measured, claim.spread, claim.tolerance)
    )
    return (
        f'<tr class="{kind}-row"><td class="{kind}">{word}</td>'
        f'<td><a href="#{report.name}">{report.name}</a>: '
        f"{escape(claim.name)}{note}</td><td>{escape(claim.source)}</td>{cells}</tr>\n"
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
    return f"""<h2 id="{r.name}">{escape(r.title)}</h2>
<p class="small">{r.name} · {escape(r.source)} · {form} · {r.seconds:.1f} s</p>
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
