"""The page as text: verdicts by document, then figures and the sentences they show, contradictions last."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from neuralrace_papers import PAPERS, Report
from neuralrace_papers.framework.ledger import (
    CONTRADICTED,
    MISPRINT,
    NOT_DECIDED,
    VERDICTS,
    Claim,
    Ledger,
    Row,
)
from neuralrace_papers.framework.numbers import shown
from neuralrace_papers.framework.results import (
    Judged,
    counts,
    ledgers,
    picture,
    stored,
    stored_rows,
    verdicts,
)
from neuralrace_papers.report.tests import source_of

SHOWN = 3  # sentences beside the figures of an experiment; the others are folded
SIZE = re.compile(r'\b(width|height)="([\d.]+)pt"')  # of a whole picture, which comes first
LINK = re.compile(r"<(https?://[^>]+)>")


def page(reports: Sequence[Report], unreadable: Sequence[str] = ()) -> str:
    """The page for some runs; `unreadable` names folders that were left out."""
    left_out = f"Left out, as their results cannot be read: {', '.join(unreadable)}." if unreadable else ""
    style, script = (Path(__file__).with_name(f"page.{kind}").read_text() for kind in ("css", "js"))
    papers = {paper: [r for r in reports if r.name in own] for paper, own in PAPERS.items()}
    papers = {paper: own for paper, own in papers.items() if own}
    others = [r for r in reports if not any(r in own for own in papers.values())]
    quick = sum(r.quick for r in reports)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>neuralrace: figures and verdicts</title>
<style>{style}</style></head><body>
<nav aria-label="Contents"><p><a href="#top">Verdicts</a></p>
{"".join(_contents(paper, own) for paper, own in papers.items())}
<p><a href="#contradictions">Contradictions</a></p></nav>
<main>
<header id="top"><h1>neuralrace</h1>
<p>Figures and sentences of papers, computed anew. Verdicts and large figures are those of the full forms,
which were stored with the code that made them. Beside them stands what ran here:
{_plural(len(reports), "experiment")}, {quick} in quick form. In figures theory is a line, simulated networks
are points or bands. {escape(left_out)}</p></header>
{_summary(papers)}
{"".join(_document(ledgers().get(paper), paper, own) for paper, own in papers.items())}
{"<h2>Experiments of your own</h2>" if others else ""}
{"".join(map(_experiment, others))}
{_contradictions(papers)}
</main>
<dialog id="large" aria-label="figure"><img alt=""><p></p></dialog>
<script>{script}</script>
</body></html>
"""


def _plural(n: int, word: str) -> str:
    return f"{n} {word}{'s' if n != 1 else ''}"


def _contents(paper: str, own: Sequence[Report]) -> str:
    entries = "".join(f'<li><a href="#{escape(r.folder.name)}">{escape(r.folder.name)}</a></li>' for r in own)
    return f'<p><a href="#{paper}">{_name(paper)}</a></p><ol>{entries}</ol>'


def _name(paper: str) -> str:
    return escape(ledgers()[paper].short if paper in ledgers() else paper)


def _summary(papers: Iterable[str]) -> str:
    """How many claims of each document have each verdict."""
    given = verdicts()
    found = {paper: counts(given[paper].values()) for paper in papers if paper in given}
    used = [word for word in VERDICTS if any(word in own for own in found.values())]
    head = "".join(f"<th>{word}</th>" for word in used)
    rows = "".join(
        f'<tr><th scope="row"><a href="#{paper}">{_name(paper)}</a></th>'
        + "".join(f"<td>{own.get(word, '')}</td>" for word in used)
        + "</tr>"
        for paper, own in found.items()
    )
    table = f"<thead><tr><th>document</th>{head}</tr></thead><tbody>{rows}</tbody>"
    return f'<div class="scroll"><table class="counts">{table}</table></div>'


# -- a document ------------------------------------------------------------------------------


def _document(ledger: Ledger | None, paper: str, own: Sequence[Report]) -> str:
    if ledger is None:
        return f'<section id="{paper}"><h2>{paper}</h2>{"".join(map(_experiment, own))}</section>'
    reference = LINK.sub(r'<a href="\1">\1</a>', ledger.reference)
    return f"""<section id="{paper}"><h2>{_name(paper)}</h2>
<p class="reference">{reference}</p>
<p class="about">{escape(ledger.summary)}</p>
{"".join(map(_experiment, own))}
{_misprints(ledger)}</section>"""


def _misprints(ledger: Ledger) -> str:
    """Printed forms that are wrong, each slip once, with the numbers of both forms."""
    slips: dict[str, list[Claim]] = {}
    for claim in ledger.claims:
        if verdicts()[ledger.name][claim.id] == MISPRINT:
            slips.setdefault(claim.slip or claim.id, []).append(claim)
    lines = [
        f"<li><b>{escape(slip)}</b> ({escape('; '.join(c.place for c in claims))}): {_both_forms(claims[0])} "
        f"{escape(claims[0].note)}</li>"
        for slip, claims in slips.items()
    ]
    return f"<h3>Misprints</h3><ul>{''.join(lines)}</ul>" if lines else ""


def _both_forms(claim: Claim) -> str:
    rows, forms = stored_rows(), {"printed": claim.row, "corrected": claim.corrected}
    told = [f"{word} {_number(rows.get(row))}" for word, row in forms.items() if row]
    return f"{', '.join(told)}." if told else ""


def _number(row: Row | None) -> str:
    return shown(row.value, row.error, row.runs) if row else "not run"


# -- an experiment ---------------------------------------------------------------------------


def _experiment(r: Report) -> str:
    form = "quick form" if r.quick else "full form"
    given = verdicts()
    judged = [c for c in r.claims if c.verdict]
    rank = {"figure": 0, "sentence": 1, "equation": 2, "table": 3}
    first = sorted(judged, key=lambda c: (given[c.document][c.claim.id] == NOT_DECIDED, rank[c.claim.kind]))[
        :SHOWN
    ]
    about = " ".join(r.about.split("\n\n")[0].split())
    data = ", ".join(f"<code>{escape(p.name)}</code>" for p in sorted((r.folder / "parts").glob("*.npz"))[:3])
    parameters = "".join(
        f"<tr><td>{escape(k)}</td><td>{escape(str(v))}</td></tr>" for k, v in r.parameters.items()
    )
    packages = ", ".join(f"{k} {v}" for k, v in r.versions.items())
    return f"""<section class="experiment" id="{escape(r.folder.name)}">
<h3>{escape(r.title)}</h3>
<p class="small"><code>{escape(r.folder.name)}</code> · {escape(r.source)} · {form} · {r.seconds:.1f} s</p>
{"".join(_figure(r, name, caption) for name, caption in r.figures)}
<p class="about">{escape(about)}</p>
{"".join(_sentence(c, given[c.document][c.claim.id]) for c in first)}
{_table(r, judged)}
{_findings([c for c in r.claims if not c.verdict])}
<details class="parameters"><summary>Parameters, data and versions</summary>
<table class="plain">{parameters}</table>
<p class="small">The data that the figures show are NumPy archives (<code>np.load</code>) in
<code>{escape(r.folder.name)}/parts</code>: {data or "none"}. Code {brief(r.digest)}; {escape(packages)}.</p>
</details>
</section>
"""


def _figure(r: Report, name: str, caption: str) -> str:
    """The stored figure of the full form, large, and the one of this run small beside it."""
    there, folder = picture(r.name, name), escape(r.folder.name)
    svg = (r.folder / f"{name}.svg").read_text(encoding="utf-8")
    links = " · ".join(
        f'<a href="{folder}/{name}.{kind}">{kind.upper()}</a>'
        for kind in ("svg", "pdf", "png")
        if (r.folder / f"{name}.{kind}").is_file()
    )
    command = f"<code>{escape(r.command)}</code>"
    here = f"This run ({'quick' if r.quick else 'full'} form): {links} · {command}"
    if there is None or not r.quick:
        return f'<div class="pair">{_picture(embedded(svg), svg, caption, here, "wide")}</div>'
    file, digest = there
    told = f"Full form, code {escape(brief(digest))}: <code>neuralrace run {escape(r.name)}</code>"
    kept = "data:image/png;base64," + b64encode(file.read_bytes()).decode()
    before = (stored(r.name) or {}).get("figures", {}).get(name, caption)
    return (
        f'<div class="pair">{_picture(kept, "", before, told, "wide")}'
        f"{_picture(embedded(svg), svg, '', here, 'beside', caption)}</div>"
    )


def _picture(address: str, svg: str, caption: str, small: str, kind: str, alt: str = "") -> str:
    sizes = SIZE.findall(svg)[:2]
    size = " ".join(f'{side}="{4 * float(points) / 3:.0f}"' for side, points in sizes)
    text = escape(caption)
    return (
        f'<figure class="{kind}"><a class="picture" href="#" title="open large"><img src="{address}" {size} '
        f'alt="{escape(alt or caption)}" loading="lazy"></a>'
        f'<figcaption>{text}{"<br>" if text else ""}<span class="small">{small}</span></figcaption></figure>'
    )


def _sentence(c: Judged, verdict: str) -> str:
    row = stored_rows().get(c.claim.row)
    number = f" {_number(row)}" if row else ""
    named = ledgers()[c.document].naming(c.claim.row).name if row else ""
    words = " ".join(f"{text.rstrip('.')}." for text in (named, c.claim.note) if text)
    note = f'<span class="small"> {escape(words)}</span>' if words else ""
    return (
        f'<blockquote><q>{escape(c.claim.quote)}</q> <span class="small">{escape(c.claim.place)}</span><br>'
        f"{_badge(verdict, c.claim)}{number}{note}</blockquote>"
    )


def _badge(verdict: str, claim: Claim) -> str:
    limit = f" ({escape(claim.limit)})" if claim.limit and verdict == "in a limit" else ""
    return f'<b class="{verdict.replace(" ", "-")}">{verdict}</b>{limit}'


def _table(r: Report, judged: Sequence[Judged]) -> str:
    """All claims that rows of this experiment decide: verdict, stored number and that of this run."""
    if not judged:
        return ""
    rows = "".join(_claim(r, c) for c in judged)
    head = "<th>verdict</th><th>sentence</th><th>full form</th><th>this run</th><th>criterion</th>"
    return (
        f"<details><summary>{_plural(len(judged), 'claim')} with criteria</summary>"
        f'<table class="claims"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></details>'
    )


def _claim(r: Report, c: Judged) -> str:
    claim, before = c.claim, stored_rows().get(c.claim.row)
    told = f'<span class="small">{escape(claim.place)}. {escape(claim.note)}</span>'
    cells = (
        _badge(verdicts()[c.document][claim.id], claim),
        f"<q>{escape(claim.quote)}</q> {told}",
        _number(before),
        _number(c.row),
        f'{escape(claim.required)}<br><span class="small">{escape(claim.source)}</span>',
    )
    return f'<tr id="{escape(r.folder.name)}/{claim.id}"><td>{"</td><td>".join(cells)}</td></tr>\n'


def _findings(found: Sequence[Judged]) -> str:
    if not found:
        return ""
    rows = "".join(
        f'<tr><td>{escape(c.claim.quote)} <span class="small">{escape(c.claim.note)}</span></td>'
        f'<td class="number">{_number(stored_rows().get(c.claim.row))}</td>'
        f'<td class="number">{_number(c.row)}</td></tr>'
        for c in found
    )
    head = "<th>measured</th><th>full form</th><th>this run</th>"
    return (
        f"<details><summary>Other numbers, which decide no sentence: {len(found)}</summary>"
        f'<table class="plain"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></details>'
    )


# -- contradictions --------------------------------------------------------------------------


def _contradictions(papers: Iterable[str]) -> str:
    """What the documents say and is not so, each with its counterexample as code that runs."""
    parts = ""
    for paper in papers:
        claims = ledgers()[paper].claims if paper in ledgers() else ()
        parts += "".join(
            f"<li>{_sentence(Judged(paper, c, None, CONTRADICTED), CONTRADICTED)}"
            f"<details><summary><code>pytest {escape(c.counterexample)}</code></summary>"
            f"<pre>{escape(source_of(c.counterexample))}</pre></details></li>"
            for c in claims
            if verdicts()[paper][c.id] == CONTRADICTED
        )
    told = f"<ul>{parts}</ul>" if parts else "<p>None.</p>"
    return f'<section id="contradictions"><h2>Contradictions</h2>{told}</section>'


def brief(digest: str) -> str:
    """A digest as short as people quote it.

    >>> brief("commit:af7ddd0dbadd7c1a"), brief("0b6712ab9f00")
    ('af7ddd0', '0b6712a')
    """
    return digest.removeprefix("commit:")[:7]


def embedded(svg: str) -> str:
    """A picture as an address that holds all of it, to stand in an attribute of HTML.

    Coordinates keep two decimals, hundredths of a point.

    >>> embedded('<svg><path d="M 0.12345 1 L 2 3" style="fill: #fff"/></svg>')
    "data:image/svg+xml,<svg><path d='M 0.12 1 L 2 3' style='fill: %23fff'/></svg>"
    """
    short = re.sub(r'\b(d|x|y)="[^"]*"', lambda m: re.sub(r"(\.\d\d)\d+", r"\1", m[0]), svg)
    text = " ".join(short.split()).replace("%", "%25").replace("#", "%23").replace("&", "&amp;")
    return "data:image/svg+xml," + text.replace('"', "'")
