#!/usr/bin/env python3
"""What of the five documents is reproduced: every equation, figure, table and testable sentence.

    python tools/coverage.py                      # writes docs/coverage.md
    python tools/coverage.py --check PAPER        # what is wrong with the items of a paper; status 1 if any
    python tools/coverage.py --results FOLDER     # with the claims that `neuralrace run --out FOLDER` wrote
    python tools/coverage.py --store FOLDER       # the same, and keeps them in docs/results/claims.csv

The items of a paper stand in `papers/src/neuralrace_papers/PAPER/items.toml`, in the order of the paper:

    [[item]]
    id = "eq-13"                # unique in the file
    kind = "equation"           # equation, figure, table, sentence, or definition (neither true nor false)
    where = "4.1, Eq. 13-14"
    text = "..."                # a sentence quoted, or in a few words what the equation or figure says
    claims = ["routing/layer-ratio-*"]                  # experiment/claim, shell patterns
    tests = ["tests/exact/test_exact.py::test_routing"]
    reason = "..."              # where there is no claim: why not

Verdicts are those in `docs/results/claims.csv`: of the full form of an experiment where it was stored, else
of the quick one. That file is compared with the ids in the code of the experiments, so a claim that is new or
gone is noticed.
"""

from __future__ import annotations

import argparse
import ast
import csv
import io
import json
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path

from neuralrace_papers import PAPERS
from neuralrace_papers.framework.papers import REFERENCES

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = ROOT / "papers" / "src" / "neuralrace_papers"
STORED = ROOT / "docs" / "results" / "claims.csv"
PAGE = ROOT / "docs" / "coverage.md"
KINDS = ("equation", "figure", "table", "sentence", "definition")
VERDICTS = {"holds": "holds", "fails": "refuted", "undecided": "undecided"}
MAKERS = ("near", "below", "above", "relation")  # methods of a statement that make a claim


@dataclass(frozen=True)
class Item:
    """A line of a paper: an equation, a figure, a table, a sentence, or a definition."""

    id: str
    kind: str
    where: str
    text: str
    claims: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Row:
    """A stored claim."""

    experiment: str
    form: str
    id: str
    kind: str
    verdict: str
    measured: str

    @property
    def path(self) -> str:
        return f"{self.experiment}/{self.id}"


# -- reading ---------------------------------------------------------------------------------


def papers(folder: Path = EXPERIMENTS) -> list[str]:
    """Papers that have a file of items."""
    return [paper for paper in PAPERS if (folder / paper / "items.toml").is_file()]


def load(paper: str, folder: Path = EXPERIMENTS) -> list[Item]:
    """Items of a paper, in its order."""
    file = folder / paper / "items.toml"
    found = []
    for number, read in enumerate(tomllib.loads(file.read_text(encoding="utf-8")).get("item", []), start=1):
        unknown = set(read) - {f.name for f in fields(Item)}
        missing = {"id", "kind", "where", "text"} - set(read)
        if unknown or missing:
            name = read.get("id", f"number {number}")
            sys.exit(f"{file}: item {name}: unknown {sorted(unknown)}, missing {sorted(missing)}")
        lists = {key: tuple(read.get(key, ())) for key in ("claims", "tests")}
        found.append(Item(**{**read, **lists}))
    return found


def stored(file: Path = STORED) -> dict[str, list[Row]]:
    """The claims of each experiment, as they were kept."""
    found: dict[str, list[Row]] = {}
    with file.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            found.setdefault(row["experiment"], []).append(Row(**row))
    return found


def results(folder: Path) -> dict[str, list[Row]]:
    """The claims of each experiment in a folder of results: full form before quick, no changed parameters.

    Results are `NAME/result.json`, or `NAME.json` as in docs/results.
    """
    found = {}
    files = {file.parent.name: file for file in folder.glob("*/result.json")}
    files |= {file.stem: file for file in folder.glob("*.json")}
    for form in ("quick", "full"):
        for place, file in sorted(files.items()):
            read = json.loads(file.read_text(encoding="utf-8"))
            name = read.get("name", "")
            if place == (name if form == "full" else f"{name}-quick") and read["quick"] == (form == "quick"):
                found[name] = [_row(name, form, claim) for claim in read["claims"]]
    if not found:
        sys.exit(f"FOLDER must hold results of `neuralrace run`; there are none in {folder}")
    return found


def _row(experiment: str, form: str, claim: Mapping[str, object]) -> Row:
    measured = claim["measured"]
    text = f"{measured:.4g}" if isinstance(measured, float | int) else ""
    return Row(experiment, form, str(claim["id"]), str(claim["kind"]), str(claim["verdict"]), text)


def as_csv(claims: Mapping[str, Sequence[Row]]) -> str:
    """Claims as the text of a file, in the order of the experiments."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([f.name for f in fields(Row)])
    for experiment in (name for own in PAPERS.values() for name in own):
        writer.writerows([getattr(r, f.name) for f in fields(Row)] for r in claims.get(experiment, ()))
    return text.getvalue()


# -- checking --------------------------------------------------------------------------------


def problems(
    items: Sequence[Item],
    own: Sequence[Row],
    claims: Sequence[Row],
    root: Path = ROOT,
    others: Sequence[Item] = (),
) -> Iterator[str]:
    """What is wrong with the items of a paper, given claims: its own, and of all experiments.

    A claim of its experiments may also be named by `others`: the experiment may test another document too.
    """
    ids = Counter(item.id for item in items)
    yield from (f"{name}: {n} items have this id" for name, n in ids.items() if n > 1)
    for item in items:
        if item.kind not in KINDS:
            yield f"{item.id}: kind must be one of {', '.join(KINDS)}, not {item.kind!r}"
        if item.kind != "definition" and not (item.claims or item.reason):
            yield f"{item.id}: neither claim nor reason why not"
        if item.reason and item.claims:
            yield f"{item.id}: a reason why not, beside a claim"
        for pattern in item.claims:
            if not any(fnmatchcase(row.path, pattern) for row in claims):
                yield f"{item.id}: no stored claim is {pattern}"
        yield from (f"{item.id}: there is no test {test}" for test in item.tests if not has_test(root, test))
    for row in own:
        named = (p for i in (*items, *others) for p in i.claims)
        if row.kind == "paper" and not any(fnmatchcase(row.path, p) for p in named):
            yield f"{row.path}: a claim of kind paper that no item names"


def has_test(root: Path, test: str) -> bool:
    """Whether `file::function` or `file::class::function` is there."""
    path, *names = test.split("[")[0].split("::")
    if not names or not (root / path).is_file():
        return False
    body = ast.parse((root / path).read_text(encoding="utf-8")).body
    for name in names:
        found = [n for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name == name]
        if not found:
            return False
        body = found[0].body
    return True


def stale(experiments: Sequence[str], claims: Sequence[Row], folder: Path) -> Iterator[str]:
    """Claims that are stored but not in the code of the experiments of a folder, or the other way round."""
    own = {name: folder / f"{name.replace('-', '_')}.py" for name in experiments}
    shared = [p for file in folder.glob("*.py") if file not in own.values() for p in id_patterns(file)]
    for name, file in own.items():
        rows, patterns = [row for row in claims if row.experiment == name], id_patterns(file)
        if not rows:
            yield f"{name}: no claims are stored; run it and --store"
            continue
        for pattern in patterns:
            if not any(fnmatchcase(row.id, pattern) for row in rows):
                yield f"{name}/{pattern}: in the code but not stored; run it and --store"
        for row in rows:
            if not any(fnmatchcase(row.id, pattern) for pattern in [*patterns, *shared]):
                yield f"{row.path}: stored but not in the code; run it and --store"


def id_patterns(file: Path) -> list[str]:
    """Ids of the claims that a file makes; `*` stands for what is computed."""
    calls = [n for n in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(n, ast.Call)]
    return [
        _pattern(call.args[0])
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in MAKERS and len(call.args) > 2
    ]


def _pattern(node: ast.expr) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in parts)


def check(paper: str, claims: Mapping[str, Sequence[Row]]) -> list[str]:
    """What is wrong with the items of a paper."""
    own = [row for name in PAPERS[paper] for row in claims.get(name, ())]
    every = [row for rows in claims.values() for row in rows]
    others = [item for other in papers() if other != paper for item in load(other)]
    found = problems(load(paper), own, every, others=others)
    return [*found, *stale(PAPERS[paper], own, EXPERIMENTS / paper)]


# -- the page --------------------------------------------------------------------------------


def page(claims: Mapping[str, Sequence[Row]], folder: Path = EXPERIMENTS) -> str:
    """The coverage table as Markdown."""
    listed = {paper: load(paper, folder) for paper in papers(folder)}
    rows = [row for own in claims.values() for row in own]
    head = [
        "| document | items | with a claim | with a test and a reason | with a reason alone | definitions |",
        "|---" * 6 + "|",
    ]
    head += [
        f"| [{REFERENCES[paper].short}](#{paper}) | {_counts(items)} |" for paper, items in listed.items()
    ]
    quick = sorted({row.experiment for row in rows if row.form == "quick"})
    said = f" Of these only the quick form is stored: {', '.join(quick)}." if quick else ""
    return "\n".join(
        [
            "# Coverage",
            "",
            "Every numbered equation, figure, table and testable sentence of the documents, with the claims "
            "(`experiment/claim`) and tests that show whether it is so, or the reason why there is no claim. "
            "`python tools/coverage.py` writes this page from `items.toml` in the folder of each document, "
            "and from the claims in `docs/results/claims.csv`. A claim holds, is refuted, or is undecided: "
            f"the form that was run is too small to tell.{said}",
            "",
            *head,
            "",
            "Of the full forms in `docs/results`: sentences and equations that claims quote, reproduced, "
            "refuted (where a claim that tests it fails), undecided; checks and findings that hold and fail.",
            "",
            "| document | reproduced | refuted | undecided | checks | findings |",
            "|---" * 6 + "|",
            *(f"| {REFERENCES[paper].short} | {_sentences(paper)} |" for paper in listed if paper in PAPERS),
            *(line for paper, items in listed.items() for line in _section(paper, items, rows)),
            "",
        ]
    )


def _counts(items: Sequence[Item]) -> str:
    real = [item for item in items if item.kind != "definition"]
    claimed = sum(bool(item.claims) for item in real)
    tested = sum(bool(item.tests) and not item.claims for item in real)
    counts = (len(real), claimed, tested, len(real) - claimed - tested, len(items) - len(real))
    return " | ".join(map(str, counts))


def _sentences(paper: str, folder: Path = STORED.parent) -> str:
    """How many sentences of a paper have each verdict, and how many checks and findings hold and fail."""
    files = [folder / f"{name}.json" for name in PAPERS[paper]]
    claims = [c for f in files if f.is_file() for c in json.loads(f.read_text(encoding="utf-8"))["claims"]]
    quotes: dict[str, set[str]] = {}
    for claim in claims:
        if claim["kind"] == "paper":
            quotes.setdefault(claim["quote"], set()).add(claim["verdict"])
    worst = Counter(
        next(v for v in ("fails", "holds", "undecided") if v in found) for found in quotes.values()
    )
    others = Counter((c["kind"], c["verdict"]) for c in claims)
    counts = [str(worst[v]) for v in ("holds", "fails", "undecided")]
    counts += [f"{others[kind, 'holds']}, {others[kind, 'fails']}" for kind in ("check", "finding")]
    return " | ".join(counts)


def _section(paper: str, items: Sequence[Item], rows: Sequence[Row]) -> Iterator[str]:
    reference = REFERENCES[paper]
    yield from ("", f"## {paper}", "")
    yield reference.reference + (f" <{reference.link}>" if reference.link else "")
    yield from ("", "| item | where | what it says | shown by |", "|---|---|---|---|")
    for item in items:
        text = f"“{item.text}”" if item.kind == "sentence" else item.text
        yield f"| {item.id} | {_cell(item.where)} | {_cell(text)} | {_cell(_shown(item, rows))} |"


def _shown(item: Item, rows: Sequence[Row]) -> str:
    """Claims with their verdicts, tests, or the reason."""
    parts = [f"`{pattern}` {_verdict(pattern, rows)}" for pattern in item.claims]
    parts += [f"test `{test.removeprefix('tests/')}`" for test in item.tests]
    return "; ".join([*parts, *([item.reason] if item.reason else [])]) or "definition"


def _verdict(pattern: str, rows: Sequence[Row]) -> str:
    counts = Counter(VERDICTS[row.verdict] for row in rows if fnmatchcase(row.path, pattern))
    if counts.total() == 1:
        return next(iter(counts))
    return (
        ", ".join(f"{n} {word if word != 'holds' else 'hold'}" for word, n in sorted(counts.items()))
        or "not run"
    )


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# -- the command -----------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser("python tools/coverage.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--check", metavar="PAPER", choices=PAPERS, help="what is wrong with a paper's items")
    parser.add_argument("--results", metavar="FOLDER", type=Path, help="take claims from these results")
    parser.add_argument("--store", metavar="FOLDER", type=Path, help="keep the claims of these results")
    given = parser.parse_args(arguments)
    claims = stored()
    for folder in (given.results, given.store):
        claims |= results(folder) if folder else {}
    if given.store:
        STORED.write_text(as_csv(claims), encoding="utf-8")
    if given.check:
        found = check(given.check, claims)
        print("\n".join([*found, f"{len(load(given.check))} items, {len(found)} problems"]))
        return int(bool(found))
    PAGE.write_text(page(claims), encoding="utf-8")
    if given.store:
        subprocess.run([sys.executable, str(ROOT / "tools" / "gallery.py")], check=True)
    print(f"{PAGE.relative_to(ROOT)}: {', '.join(f'{paper} {len(load(paper))}' for paper in papers())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
