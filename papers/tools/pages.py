#!/usr/bin/env python3
"""Pages of the manual that are made from ledgers and stored rows, in papers/docs: index, coverage, gallery.

python papers/tools/pages.py            # writes the pages
python papers/tools/pages.py --check    # what is wrong with ledgers and stored rows; status 1 if anything
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from neuralrace_papers import PAPERS, experiment
from neuralrace_papers.framework.ledger import (
    CONTRADICTED,
    MISPRINT,
    NOT_DECIDED,
    REPRODUCED,
    VERDICTS,
    Claim,
    Ledger,
)
from neuralrace_papers.framework.numbers import shown
from neuralrace_papers.framework.results import counts, ledgers, stored, stored_rows, verdicts
from neuralrace_papers.report.tests import source_of

DOCS = Path(__file__).resolve().parents[1] / "docs"


def pages() -> dict[str, str]:
    """The text of each page, by its file name."""
    return {"index.md": index(), "coverage.md": coverage(), "gallery.md": gallery()}


def index() -> str:
    """What the documents are, and what was found of each."""
    lines = [
        "# Papers",
        "",
        "We computed the figures and claims of four papers and a talk anew. One number decides each "
        "sentence, equation, figure and table, by a criterion that is written down with its source. "
        "[Coverage](coverage.md) lists all of them, and [figures of the papers](gallery.md) shows one figure "
        "of each experiment. The table counts claims by verdict.",
        "",
        *_table(),
        "",
        "| verdict | when |",
        "|---|---|",
        "| reproduced | within the precision of the paper, or a printed equation to rounding |",
        "| approximately | the sentence is loose (“roughly”, “quite well”), and a fair reader agrees |",
        "| in direction | sign or order is right, the size is not |",
        "| in a limit | true where the condition of the paper holds; the claim says from where on |",
        "| misprint | the printed form is wrong, and the corrected one holds |",
        "| contradicted | published settings, and a counterexample, or a bound of the paper that is missed |",
        "| not decided | within two standard errors, not run, or settings that nobody published |",
        "",
    ]
    for ledger in ledgers().values():
        lines += [f"## {ledger.short}", "", ledger.reference, "", _told(ledger.name), "", ledger.summary, ""]
        if (DOCS / f"{ledger.name}.md").is_file():
            lines += [f"[Figures and what they show]({ledger.name}.md)", ""]
    listed = ["coverage", "gallery", *ledgers()]
    return "\n".join([*lines, "```{toctree}", ":hidden:", "", *listed, "../errata", "```", ""])


def _told(name: str) -> str:
    """How many claims of a document were reproduced."""
    found = counts(verdicts()[name].values())
    wrong = found.get(MISPRINT, 0) + found.get(CONTRADICTED, 0)
    exact, open_ = found.get(REPRODUCED, 0), found.get(NOT_DECIDED, 0)
    partly = sum(found.values()) - exact - open_ - wrong
    return (
        f"**Paper claims: {exact} reproduced, {partly} approximately or in a limit, {wrong} misprinted or "
        f"contradicted, {open_} not decided.**"
    )


def _table() -> list[str]:
    """How many claims of each document have each verdict."""
    found = {name: counts(own.values()) for name, own in verdicts().items()}
    used = [word for word in VERDICTS if any(word in own for own in found.values())]
    rows = [
        f"| {ledgers()[name].short} | {' | '.join(str(own.get(word, '')) for word in used)} |"
        for name, own in found.items()
    ]
    return [f"| document | {' | '.join(used)} |", "|---" * (len(used) + 1) + "|", *rows]


def coverage() -> str:
    """Every claim of every document with its verdict, number, criterion and where that comes from."""
    lines = [
        "# Coverage",
        "",
        "This page lists every equation, figure, table and testable sentence of four papers and a talk. "
        "Each claim stands in the words of its document, with our note after it. Then come the verdict, the "
        "number that was measured, and the criterion. In brackets is the name of the number "
        "(`experiment/row`) or of the test that decides. Definitions, premises and methods have no verdict. "
        "[Papers](index.md) says what the verdicts mean.",
        "",
        "The table counts claims. `python papers/tools/pages.py` writes this page from the ledgers "
        "(`claims.toml` in the folder of each document) and from the stored numbers.",
        "",
        *_table(),
    ]
    given = verdicts()
    for ledger in ledgers().values():
        lines += [
            "",
            f"## {ledger.short}",
            "",
            "| place | claim | verdict | measured | criterion |",
            "|---" * 5 + "|",
        ]
        lines += [_line(claim, given[ledger.name][claim.id]) for claim in ledger.claims]
    return "\n".join([*lines, ""])


def _line(claim: Claim, verdict: str) -> str:
    row = stored_rows().get(claim.row)
    number = f"{shown(row.value, row.error, row.runs)} (`{claim.row}`)" if row else ""
    tests = ", ".join(
        f"`{test.rsplit('::', 1)[-1]}`" for test in (claim.counterexample, *claim.tests) if test
    )
    measured = "; ".join(text for text in (number, f"test {tests}" if tests else "") if text)
    why = ". ".join(text.rstrip(".") for text in (claim.required, claim.source) if text)
    note = " ".join(text for text in (claim.note, claim.undecided) if text)
    told = verdict + (f" ({claim.limit})" if claim.limit and verdict == "in a limit" else "")
    cells = (claim.place, f"“{claim.quote}” {note}".strip(), told, measured, why)
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    """As it stands in a table of Markdown; formulas keep their signs."""
    parts = text.replace("|", "\\|").replace("\n", " ").split("$")
    return "$".join(part if i % 2 else part.replace("<", "&lt;") for i, part in enumerate(parts))


def gallery() -> str:
    """A figure of each experiment, large, with the sentence it shows and the command that makes it."""
    lines = [
        "# Figures of the papers",
        "",
        "This page shows one figure of each experiment, and a claim of its paper that the experiment tests. "
        "Click on a figure to enlarge it. Figures are of the full form of the experiment unless they are "
        "marked as quick.",
    ]
    made = stored("pictures") or {}
    for paper, names in PAPERS.items():
        lines += ["", f"## {ledgers()[paper].short}"]
        for name in names:
            own = {picture: one for picture, one in made.items() if one["experiment"] == name}
            lines += ["", *_entry(name, paper, own)]
    return "\n".join([*lines, ""])


def _entry(name: str, paper: str, own: dict[str, dict[str, str]]) -> list[str]:
    chosen = experiment(name)
    lines = [f"### {chosen.title}", ""]
    if own:
        file, one = next(iter(own.items()))
        form = " Quick form." if one["form"] == "quick" else ""
        lines += [
            f"[![{chosen.title}](pictures/{file}.png)](pictures/{file}.png)",
            "",
            f"{one['caption']}{form}",
            "",
        ]
    given = verdicts()
    judged = [(d, c) for d in ledgers().values() for c in d.claims if given[d.name][c.id]]
    shows = [(d, c) for d, c in judged if c.row.split("/")[0] == name]
    shows.sort(key=lambda one: (one[0].name != paper, given[one[0].name][one[1].id] == NOT_DECIDED))
    if shows:
        ledger, claim = shows[0]
        row, verdict = stored_rows().get(claim.row), given[ledger.name][claim.id]
        number = f": {shown(row.value, row.error, row.runs)}" if row else ""
        lines += [f"> “{claim.quote}” ({claim.place})", "", f"**{verdict}**{number}", ""]
    return [*lines, f"    neuralrace run {name}"]


# -- checks ----------------------------------------------------------------------------------


def problems() -> Iterator[str]:
    """What is wrong with the ledgers, and with what is stored."""
    rows = stored_rows()
    for ledger in ledgers().values():
        for claim in ledger.claims:
            where = f"{ledger.name}/{claim.id}"
            missing = [row for row in (claim.row, claim.corrected) if row and row not in rows]
            if missing and not claim.undecided:
                yield f"{where}: no row {missing[0]} is stored"
            named = [test for test in (claim.counterexample, *claim.tests) if test and not source_of(test)]
            yield from (f"{where}: there is no test {test}" for test in named)
            verdict = verdicts()[ledger.name][claim.id]
            if verdict == CONTRADICTED and not claim.counterexample:
                yield f"{where}: contradicted without a counterexample"
            if verdict == MISPRINT and not claim.slip:
                yield f"{where}: a misprint without the name of its slip"
        yield from _unnamed(ledger)


def _unnamed(ledger: Ledger) -> Iterator[str]:
    """Rows of a document's experiments that neither a claim nor a name of a row explains."""
    deciding = {row for d in ledgers().values() for c in d.claims for row in (c.row, c.corrected)}
    for path in stored_rows():
        own = path.split("/")[0] in PAPERS[ledger.name]
        named = any(fnmatchcase(path, row.id) for row in ledger.rows)
        if own and path not in deciding and not named:
            yield f"{path}: no [[row]] of the ledger says what it is"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="say what is wrong, and write nothing")
    if parser.parse_args(arguments).check:
        found = list(problems())
        print("\n".join(found) or "ledgers, rows and tests fit together")
        return int(bool(found))
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
