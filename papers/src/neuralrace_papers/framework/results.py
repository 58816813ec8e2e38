"""What a run found, what was stored of earlier ones, and the verdicts that follow from both."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuralrace.errors import InputError
from neuralrace_papers.framework import ledger
from neuralrace_papers.framework.ledger import CONTRADICTED, NOT_DECIDED, Claim, Ledger, Row, judge
from neuralrace_papers.framework.store import PACKAGE

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 2  # of `result.json`: it grows when older versions could no longer read what is written
DOCUMENTS = ("neural_race", "make_haste_slowly", "multipathway", "talk", "representations_align")


@dataclass(frozen=True)
class Judged:
    """A claim of a document, or a finding of ours, with the row that decides it and the verdict."""

    document: str
    claim: Claim
    row: Row | None
    verdict: str

    @property
    def path(self) -> str:
        """Document and claim."""
        return f"{self.document}/{self.claim.id}"

    @property
    def holds(self) -> bool | None:
        """False where it is contradicted; None where it is not decided, or a finding."""
        return None if self.verdict in ("", NOT_DECIDED) else self.verdict != CONTRADICTED

    def to_dict(self) -> dict[str, Any]:
        """All that is said of it, as JSON can hold it."""
        c = self.claim
        told = {"id": c.id, "kind": c.kind, "document": self.document, "quote": c.quote, "place": c.place}
        number = self.row.to_dict() if self.row else {"value": None, "error": None, "runs": 0}
        judged = {"criterion": c.required, "verdict": self.verdict, "holds": self.holds, "note": c.note}
        return {**told, "setting": c.setting, "row": c.row, **number, **judged}


@dataclass(frozen=True)
class Report:
    """What a run of an experiment found.

    `figures` are (name, caption), with files in `folder`; the data they show are the arrays in its folder
    `parts`. `command` makes all of it again, and `digest` names the code that made it.
    """

    name: str
    title: str
    source: str
    about: str
    rows: dict[str, Row]
    figures: tuple[tuple[str, str], ...]
    folder: Path
    quick: bool
    changed: bool
    parameters: dict[str, Any]
    versions: dict[str, str]
    digest: str
    seconds: float
    command: str

    @property
    def claims(self) -> tuple[Judged, ...]:
        """Claims that a row of this experiment decides, with verdicts; then its other rows, as findings."""
        own = {f"{self.name}/{id}": row for id, row in self.rows.items()}
        rows, mild = {**stored_rows(), **own}, self.quick or self.changed
        found = [
            Judged(document.name, c, rows.get(c.row), judge(c, rows, mild))
            for document in ledgers().values()
            for c in document.claims
            if c.row.split("/")[0] == self.name
        ]
        return (*found, *(finding(path, row) for path, row in own.items() if path not in deciding()))

    def table(self) -> pd.DataFrame:
        """All claims, a row each, with the experiment, its form (quick or full) and its folder."""
        import pandas as pd

        head = {"experiment": self.name, "form": "quick" if self.quick else "full", "run": self.folder.name}
        return pd.DataFrame([{**head, **c.to_dict()} for c in self.claims])

    def to_dict(self) -> dict[str, Any]:
        """All that was found, as JSON can hold it."""
        found = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        found |= {"rows": {id: row.to_dict() for id, row in self.rows.items()}, "folder": str(self.folder)}
        return json.loads(json.dumps(found, default=str))

    @classmethod
    def load(cls, folder: Path) -> Report:
        """The report that a run left in its folder."""
        read = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        if read.get("format") != FORMAT:
            told = f"has format {read.get('format', 1)}, and this version of neuralrace-papers reads {FORMAT}"
            raise InputError(f"{folder} {told}")
        found: dict[str, Any] = {f.name: read[f.name] for f in dataclasses.fields(cls)}
        found["folder"], found["figures"] = folder, tuple((n, c) for n, c in read["figures"])
        found["rows"] = {id: Row.from_dict(id, row) for id, row in read["rows"].items()}
        return cls(**found)


def finding(path: str, row: Row) -> Judged:
    """A row that decides no sentence."""
    named = next((n for d in ledgers().values() for n in d.rows if fnmatchcase(path, n.id)), None)
    told = (named.name, named.setting, named.note) if named else (row.id.replace("-", " "), "ours", "")
    name, setting, note = told
    return Judged("", Claim(row.id, "finding", "", name, path, setting, note=note), row, "")


@cache
def ledgers() -> dict[str, Ledger]:
    """The ledger of each document that has one."""
    files = {name: PACKAGE / name / "claims.toml" for name in DOCUMENTS}
    return {name: ledger.read(file) for name, file in files.items() if file.is_file()}


@cache
def deciding() -> frozenset[str]:
    """Rows that decide a claim."""
    return frozenset(c.row for d in ledgers().values() for c in d.claims if c.row)


# -- what is stored --------------------------------------------------------------------------


def kept(kind: str) -> Path:
    """The folder of stored `results` or `pictures`: in the package, or beside its sources in a checkout."""
    inside, beside = PACKAGE / kind, {"results": "results", "pictures": "docs/pictures"}
    return inside if inside.is_dir() else PACKAGE.parents[1] / beside[kind]


@cache
def stored(name: str) -> dict[str, Any] | None:
    """The stored full form of an experiment: digest, parameters, versions, rows and figures."""
    file = kept("results") / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


@cache
def stored_rows() -> dict[str, Row]:
    """All rows of stored full forms, by `experiment/row`."""
    found = {f.stem: (stored(f.stem) or {}).get("rows", {}) for f in sorted(kept("results").glob("*.json"))}
    return {
        f"{name}/{id}": Row.from_dict(id, row) for name, rows in found.items() for id, row in rows.items()
    }


def verdicts() -> dict[str, dict[str, str]]:
    """Verdict on each claim of each document, by the stored full forms."""
    rows = stored_rows()
    return {d.name: {c.id: judge(c, rows) for c in d.claims} for d in ledgers().values()}


def unexpected(report: Report) -> list[tuple[Judged, str]]:
    """Claims whose verdict differs from the stored one of the same form, with the stored one."""
    if report.changed:
        return []
    before: Mapping[str, str]
    if report.quick:
        before = (stored("quick") or {}).get(report.name, {})
    elif stored(report.name) is None:
        before = {}
    else:
        before = {f"{d}/{id}": v for d, own in verdicts().items() for id, v in own.items()}
    return [(c, before[c.path]) for c in report.claims if before.get(c.path, c.verdict) != c.verdict]


def counts(found: Iterable[str]) -> dict[str, int]:
    """How often each verdict was given, in their usual order; those that were not are left out."""
    given = list(found)
    return {word: given.count(word) for word in ledger.VERDICTS if word in given}


def picture_name(experiment: str, figure: str) -> str:
    """The file name of a stored picture: that of the figure, with the experiment in front."""
    return figure if figure.startswith(experiment) else f"{experiment}-{figure}"


def picture(experiment: str, figure: str) -> tuple[Path, str] | None:
    """The stored picture of a full form and the digest of the code that made it; None where there is none."""
    name = picture_name(experiment, figure)
    file, made = kept("pictures") / f"{name}.png", (stored("pictures") or {}).get(name, {})
    return (file, made["digest"]) if made.get("form") == "full" and file.is_file() else None
