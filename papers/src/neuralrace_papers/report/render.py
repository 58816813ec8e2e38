"""The page as text: summary, contents by paper, and a section for each run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from neuralrace_papers import PAPERS, Report
from neuralrace_papers.framework.claim import FAILS, HOLDS, UNDECIDED, Claim, shown
from neuralrace_papers.framework.papers import REFERENCES
from neuralrace_papers.report.counts import OWN, Sentence, counted, paper_of, sentences, verdicts

MARKS = {HOLDS: "✓ holds", FAILS: "✗ fails", UNDECIDED: "needs the full form"}
OF_PAPERS = {**MARKS, HOLDS: "✓ reproduced", FAILS: "✗ refuted"}
KINDS = {"paper": "Sentences of the paper", "finding": "Findings of ours", "check": "Checks", "": "Claims"}
CITED = re.compile(rf"\b({'|'.join(REFERENCES)})\b")
SIZE = re.compile(r'\b(width|height)="([\d.]+)pt"')  # of a whole picture, which comes first


def page(reports: Sequence[Report], unreadable: Sequence[str] = ()) -> str:
    """The page for some runs; `unreadable` names folders that were left out."""
    papers = {paper: [r for r in reports if paper_of(r.name) == paper] for paper in (*PAPERS, OWN)}
    papers = {paper: own for paper, own in papers.items() if own}
    left_out = f"Left out, as their results cannot be read: {', '.join(unreadable)}." if unreadable else ""
    style, script = (Path(__file__).with_name(f"page.{kind}").read_text() for kind in ("css", "js"))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>neuralrace: figures and claims</title>
<style>{style}</style></head><body>
{_contents(papers)}
<main>
<header id="top"><h1>neuralrace</h1>
<p>{len(reports)} run{"s" if len(reports) > 1 else ""}{_forms(reports)} of experiments that compute published
figures and sentences anew. In figures theory is a line, simulated networks are points or bands.
{escape(left_out)}</p></header>
{_summary(papers)}
{"".join(_paper(paper, own) for paper, own in papers.items())}
</main>
<dialog id="large" aria-label="figure"><img alt=""><p></p></dialog>
<script>{script}</script>
</body></html>
"""


def _forms(reports: Sequence[Report]) -> str:
    quick = sum(r.quick for r in reports)
    if quick == len(reports):
        return " in quick form"
    return f" ({quick} in quick form)" if quick else ""


def _contents(papers: dict[str, list[Report]]) -> str:
    parts = [
        f'<li><a href="#{paper or "own"}">{_name(paper)}</a><ol>'
        + "".join(f'<li><a href="#{_anchor(r)}">{escape(r.folder.name)}</a>{_failing(r)}</li>' for r in own)
        + "</ol></li>"
        for paper, own in papers.items()
    ]
    return f"""<nav aria-label="Contents"><p><a href="#top">Summary</a></p>
<label class="filter"><input type="checkbox" id="only-refuted"> refuted only</label>
<ol>{"".join(parts)}</ol></nav>"""


def _failing(r: Report) -> str:
    n = sum(c.verdict == FAILS for c in r.claims)
    return f' <span class="fails" title="claims that fail">✗ {n}</span>' if n else ""


def _summary(papers: dict[str, list[Report]]) -> str:
    rows, refuted = "", ""
    for paper, own in papers.items():
        runs = counted(own)
        found = sentences(runs)
        told = [sum(s.verdict == v for s in found) for v in (HOLDS, FAILS, UNDECIDED)]
        others = [_pair(verdicts(runs, kind)) for kind in ("finding", "check")]
        cells = "".join(f"<td>{n}</td>" for n in (*told, *others))
        rows += f'<tr><th scope="row"><a href="#{paper or "own"}">{_name(paper)}</a></th>{cells}</tr>'
        lines = "".join(_refuted(s) for s in found if s.verdict == FAILS)
        refuted += f"<h3>{_name(paper)}</h3><ul>{lines}</ul>" if lines else ""
    listed = f"<h2>Refuted sentences</h2>{refuted}" if refuted else ""
    return f"""<section class="summary"><div class="scroll"><table class="counts"><thead>
<tr><th rowspan="2">document</th><th colspan="3">sentences of the document</th>
<th rowspan="2">findings of ours<br>hold / fail</th>
<th rowspan="2">checks of this library<br>hold / fail</th></tr>
<tr><th>reproduced</th><th>refuted</th><th>needs the full form</th></tr></thead>
<tbody>{rows}</tbody></table></div>
<p class="small">A sentence may be tested by several claims; it is refuted where one of them fails. Of each
experiment one run is counted, the full form where there is one; a claim that needs the full form is not
counted.</p>
{listed}</section>"""


def _pair(counts: dict[str, int]) -> str:
    return f"{counts[HOLDS]} / {counts[FAILS]}"


def _refuted(sentence: Sentence) -> str:
    """A refuted sentence, and in a line why."""
    decided = sum(c.verdict != UNDECIDED for _, c in sentence.claims)
    claim = sentence.failing[0][1]
    share = f"{len(sentence.failing)} of {decided} claims fail: " if decided > 1 else ""
    links = ", ".join(
        f'<a href="#{_anchor(r, c)}">{escape(r.name)}/{escape(c.id)}</a>' for r, c in sentence.failing
    )
    reason = escape(re.split(r"(?<=\.)\s(?=[A-Z])", claim.note)[0])
    return (
        f"<li><q>{escape(sentence.quote)}</q> ({_cite(claim.source)})<br>"
        f'{reason} <span class="small">{share}{links}</span></li>'
    )


def _paper(paper: str, reports: Sequence[Report]) -> str:
    reference = ""
    if paper:
        cited = REFERENCES[paper]
        where = f' <a href="{cited.link}">{cited.link}</a>' if cited.link else ""
        reference = f'<p class="reference">{escape(cited.reference)}{where}</p>'
    body = "".join(_section(r) for r in reports)
    return f'<section class="paper" id="{paper or "own"}"><h2>{_name(paper)}</h2>{reference}{body}</section>'


def _name(paper: str) -> str:
    if not paper:
        return "Experiments of your own"
    return f'{REFERENCES[paper].short}<span class="title">: {escape(REFERENCES[paper].title)}</span>'


def _section(r: Report) -> str:
    fails = any(c.verdict == FAILS for c in r.claims)
    form = "quick form" if r.quick else "full form"
    about = "".join(f"<p>{escape(text)}</p>" for text in r.about.split("\n\n"))
    figures = "".join(_figure(r, name, caption) for name, caption in r.figures)
    tables = "".join(_claims(r, kind) for kind in KINDS)
    parameters = "".join(
        f"<tr><td>{escape(k)}</td><td>{escape(shown(v))}</td></tr>" for k, v in r.parameters.items()
    )
    packages = ", ".join(f"{k} {v}" for k, v in r.versions.items())
    return f"""<section class="experiment{" has-fails" if fails else ""}" id="{_anchor(r)}">
<h3>{escape(r.title)}</h3>
<p class="small"><code>{escape(r.folder.name)}</code> · {_cite(r.source)} · {form} · {r.seconds:.1f} s</p>
{about}
<div class="figures">{figures}</div>
{tables}
<details class="parameters"><summary>Parameters and versions</summary>
<table class="plain">{parameters}</table>
<p class="small">{escape(packages)}</p></details>
</section>
"""


def _claims(r: Report, kind: str) -> str:
    """Claims of a kind as a table, those of one sentence together; checks that all hold are folded."""
    own = [c for c in r.claims if c.kind == kind]
    if not own:
        return ""
    bodies = "".join(
        f"<tbody>{_quote(quote)}{''.join(_row(r, c) for c in own if c.quote == quote)}</tbody>"
        for quote in dict.fromkeys(c.quote for c in own)
    )
    head = "<thead><tr><th>verdict</th><th>claim</th><th>measured</th><th>required</th></tr></thead>"
    table = f'<table class="claims">{head}{bodies}</table>'
    if kind == "check" and all(c.verdict == HOLDS for c in own):
        told = (
            f"{len(own)} checks of this library, which all hold" if len(own) > 1 else "A check, which holds"
        )
        return f"<details><summary>{told}</summary>{table}</details>"
    return f"<h4>{KINDS[kind]}</h4>{table}"


def _quote(quote: str) -> str:
    return f'<tr class="quote"><td colspan="4"><q>{escape(quote)}</q></td></tr>' if quote else ""


def _row(r: Report, c: Claim) -> str:
    note = f'<p class="note">{escape(c.note)}</p>' if c.note else ""
    bound = f'<p class="note">{escape(c.bound)}</p>' if c.bound else ""
    mark = (OF_PAPERS if c.kind == "paper" else MARKS)[c.verdict]
    return (
        f'<tr class="{c.verdict}" id="{_anchor(r, c)}"><td class="verdict">{mark}</td>'
        f'<td>{escape(c.name)} <code>{c.id}</code> <span class="small">{_cite(c.source)}</span>{note}</td>'
        f'<td class="number">{escape(c.result)}</td>'
        f'<td class="number">{escape(c.required)}{bound}</td></tr>\n'
    )


def _figure(r: Report, name: str, caption: str) -> str:
    """A figure in the page itself, with links to its files and the command that makes it."""
    files = [f"{name}.svg", f"{name}.pdf", f"{name}.png", f"{name}.csv", f"{name}.csv.gz"]
    words = ("SVG", "PDF", "PNG", "data", "data")
    there = [(f, w) for f, w in zip(files, words, strict=True) if (r.folder / f).is_file()]
    folder, text = escape(r.folder.name), escape(caption)
    links = " · ".join(f'<a href="{folder}/{escape(f)}">{word}</a>' for f, word in there)
    command = f" · <code>{escape(r.command)}</code>" if r.command else ""
    svg = (r.folder / f"{name}.svg").read_text(encoding="utf-8")
    width, height = (f'{side}="{4 * float(points) / 3:.0f}"' for side, points in SIZE.findall(svg)[:2])
    return (
        f'<figure><a class="picture" href="{folder}/{escape(name)}.svg" title="open large">'
        f'<img src="{embedded(svg)}" {width} {height} alt="{text}" loading="lazy"></a>'
        f'<figcaption>{text}<br><span class="small">{links}{command}</span></figcaption></figure>'
    )


def embedded(svg: str) -> str:
    """A picture as an address that holds all of it, to stand in an attribute of HTML.

    Coordinates keep two decimals, hundredths of a point.

    >>> embedded('<svg><path d="M 0.12345 1 L 2 3" style="fill: #fff"/></svg>')
    "data:image/svg+xml,<svg><path d='M 0.12 1 L 2 3' style='fill: %23fff'/></svg>"
    """
    short = re.sub(r'\b(d|x|y)="[^"]*"', lambda m: re.sub(r"(\.\d\d)\d+", r"\1", m[0]), svg)
    text = " ".join(short.split()).replace("%", "%25").replace("#", "%23").replace("&", "&amp;")
    return "data:image/svg+xml," + text.replace('"', "'")


def _anchor(r: Report, c: Claim | None = None) -> str:
    return escape(r.folder.name if c is None else f"{r.folder.name}/{c.id}")


def _cite(source: str) -> str:
    """A source, with the short names of papers as links to their references."""

    def link(found: re.Match[str]) -> str:
        paper = REFERENCES[found[1]]
        return f'<a href="#{found[1]}" title="{escape(paper.reference)}">{escape(paper.short)}</a>'

    return CITED.sub(link, escape(source))
