"""Ledgers: what a document says, which row of which experiment decides it, and the verdict.

A ledger is the file `claims.toml` in the folder of a document. Everything that a reader sees about a claim
(the report, the gallery, the coverage page) is made from it and from rows, which are numbers alone.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from functools import cache
from math import inf, isnan
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.errors import InputError, known

REPRODUCED, APPROXIMATELY, IN_DIRECTION = "reproduced", "approximately", "in direction"
IN_A_LIMIT, MISPRINT, CONTRADICTED = "in a limit", "misprint", "contradicted"
NOT_DECIDED = "not decided"
VERDICTS = (
    REPRODUCED, APPROXIMATELY, IN_DIRECTION, IN_A_LIMIT, MISPRINT, CONTRADICTED, NOT_DECIDED,
)  # fmt: skip
KINDS = ("sentence", "equation", "figure", "table", "background")
SETTINGS = ("as printed", "authors' code", "ours")


@dataclass(frozen=True)
class Row:
    """A number that an experiment found: its mean over runs, standard error, and how many runs.

    >>> Row.of("ratio", [1.0, 2.0, 3.0])
    Row(id='ratio', value=2.0, error=0.5773502691896258, runs=3)
    >>> Row.of("worst", 0.2)
    Row(id='worst', value=0.2, error=None, runs=1)
    """

    id: str
    value: float
    error: float | None = None
    runs: int = 1

    @classmethod
    def of(cls, id: str, measured: Any) -> Row:
        """A number, or an array with one number for each run."""
        values = np.asarray(measured, float).ravel()
        if not values.size:
            raise InputError(f"row {id} must have at least one number")
        error = float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else None
        return cls(id, float(values.mean()), error, values.size)

    def to_dict(self) -> dict[str, Any]:
        """Value, error and runs, as JSON can hold them."""
        return {"value": _finite(self.value), "error": _finite(self.error), "runs": self.runs}

    @classmethod
    def from_dict(cls, id: str, read: Mapping[str, Any]) -> Row:
        """The inverse of `to_dict`."""
        value = read["value"]
        return cls(
            id, float("nan") if value is None else float(value), read.get("error"), read.get("runs", 1)
        )


def _finite(value: float | None) -> float | str | None:
    """A number as JSON can hold it: infinities as the text that `float` reads."""
    return None if value is None or isnan(value) else value if abs(value) < inf else str(value)


@dataclass(frozen=True)
class Criterion:
    """A range in which a value must lie: within a distance of a number, or below or above one."""

    near: float | None = None
    within: float | None = None
    below: float = inf
    above: float = -inf

    def __post_init__(self) -> None:
        if (self.near is None) != (self.within is None):
            raise InputError("a criterion has `near` and `within` together")
        if self.near is None and self.below == inf and self.above == -inf:
            raise InputError("a criterion must have `near` and `within`, `below`, or `above`")
        if self.near is not None and (self.below, self.above) != (inf, -inf):
            raise InputError("a criterion has either `near` and `within`, or `below` and `above`")

    def missed(self, value: float) -> float:
        """How far a value lies outside of the range; 0 inside."""
        if self.near is not None and self.within is not None:
            return max(0.0, abs(value - self.near) - self.within)
        return max(0.0, value - self.below, self.above - value)

    def met(self, value: float) -> bool:
        """Whether a value lies in the range; `below` and `above` are strict."""
        inside = self.near is not None or self.above < value < self.below
        return inside and not isnan(value) and self.missed(value) == 0

    def __str__(self) -> str:
        if self.near is not None:
            return f"{self.near:g}" if not self.within else f"{self.near:g} ± {self.within:g}"
        low, high = f"above {self.above:g}", f"below {self.below:g}"
        return low if self.below == inf else high if self.above == -inf else f"{low} and {high}"


@dataclass(frozen=True)
class Claim:
    """What a document says at one place, and what decides it; see `CONTRIBUTING.md` for the fields."""

    id: str
    kind: str
    place: str
    quote: str
    row: str = ""
    setting: str = "as printed"
    reproduced: Criterion | None = None
    approximately: Criterion | None = None
    in_direction: Criterion | None = None
    source: str = ""
    limit: str = ""
    corrected: str = ""
    corrected_when: Criterion | None = None
    slip: str = ""
    counterexample: str = ""
    tests: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    note: str = ""
    undecided: str = ""

    @property
    def criterion(self) -> Criterion | None:
        """The mildest criterion, which a value must miss for the claim to be contradicted."""
        return self.in_direction or self.approximately or self.reproduced

    @property
    def required(self) -> str:
        """The criteria in words."""
        named = {
            REPRODUCED: self.reproduced,
            APPROXIMATELY: self.approximately,
            IN_DIRECTION: self.in_direction,
        }
        return "; ".join(f"{word}: {c}" for word, c in named.items() if c is not None)


def judge(claim: Claim, rows: Mapping[str, Row], quick: bool = False) -> str:
    """The verdict on a claim, from rows by `experiment/row`; empty for background, which is never judged.

    Examples
    --------
    >>> half = Claim("half", "sentence", "2", "about a half", "toy/half", approximately=Criterion(0.5, 0.1))
    >>> judge(half, {"toy/half": Row("half", 0.55)})
    'approximately'
    >>> judge(half, {"toy/half": Row("half", 0.7)})
    'not decided'
    """
    if claim.kind == "background":
        return ""
    if claim.undecided or (claim.row and claim.row not in rows):
        return NOT_DECIDED
    corrected = rows.get(claim.corrected)
    mended = corrected and claim.corrected_when and claim.corrected_when.met(corrected.value)
    if not claim.row:
        if claim.counterexample:
            return CONTRADICTED
        word = MISPRINT if mended or (claim.slip and not claim.corrected) else REPRODUCED
        return IN_A_LIMIT if word == REPRODUCED and claim.limit else word
    row = rows[claim.row]
    for word, criterion in ((REPRODUCED, claim.reproduced), (APPROXIMATELY, claim.approximately)):
        if criterion and criterion.met(row.value):
            return IN_A_LIMIT if claim.limit else word
    if mended:
        return MISPRINT
    if claim.in_direction and claim.in_direction.met(row.value):
        return IN_DIRECTION
    criterion = claim.criterion
    close = criterion is None or isnan(row.value) or criterion.missed(row.value) <= 2 * (row.error or 0.0)
    mild = quick or claim.setting == "ours" or not claim.counterexample
    return NOT_DECIDED if close or mild else CONTRADICTED


@dataclass(frozen=True)
class Naming:
    """What the rows are whose id fits a pattern."""

    id: str
    name: str
    setting: str = "as printed"
    note: str = ""


@dataclass(frozen=True)
class Ledger:
    """The ledger of a document: reference, summary in plain words, claims in its order, names of rows."""

    name: str
    reference: str
    summary: str
    claims: tuple[Claim, ...]
    rows: tuple[Naming, ...] = field(default=())

    @property
    def short(self) -> str:
        """Authors and year, as a text cites it."""
        return SHORT.get(self.name, self.name)

    def naming(self, row: str) -> Naming:
        """What a row `experiment/id` is; its id stands for the name where the ledger has none."""
        return next((n for n in self.rows if fnmatchcase(row, n.id)), Naming(row, row.split("/")[-1]))


SHORT = {
    "neural_race": "Saxe et al. 2022",
    "make_haste_slowly": "Jarvis et al. 2025",
    "multipathway": "Shi et al. 2022",
    "talk": "Saxe, talk",
    "representations_align": "van Rossem and Saxe 2024",
}


@cache
def read(file: Path) -> Ledger:
    """The ledger in a file; refused where a field is unknown, missing or of the wrong kind."""
    read = tomllib.loads(file.read_text(encoding="utf-8"))
    known(file.name, read, ("document", "claim", "row"), "part of a ledger")
    claims = tuple(_claim(entry) for entry in read.get("claim", ()))
    twice = {c.id for c in claims if sum(o.id == c.id for o in claims) > 1}
    if twice:
        raise InputError(f"{file}: two claims have the id {', '.join(sorted(twice))}")
    rows = tuple(_made(Naming, entry) for entry in read.get("row", ()))
    return Ledger(**_strings(read["document"]), claims=claims, rows=rows)


def _claim(entry: Mapping[str, Any]) -> Claim:
    criteria = {k: Criterion(**v) if isinstance(v, dict) else v for k, v in entry.items()}
    claim = _made(Claim, {k: tuple(v) if isinstance(v, list) else v for k, v in criteria.items()})
    for name, options in (("kind", KINDS), ("setting", SETTINGS)):
        if getattr(claim, name) not in options:
            raise InputError(f"claim {claim.id}: {name} must be one of {', '.join(options)}")
    decided = claim.row or claim.tests or claim.counterexample or claim.undecided
    if claim.kind != "background" and not decided:
        raise InputError(
            f"claim {claim.id}: needs a row, tests, a counterexample, or a reason in `undecided`"
        )
    if claim.row and not claim.undecided and claim.criterion is None:
        raise InputError(f"claim {claim.id}: needs a criterion for its row")
    if bool(claim.corrected) != bool(claim.corrected_when):
        raise InputError(f"claim {claim.id}: `corrected` and `corrected_when` go together")
    return claim


def _made(kind: Any, entry: Mapping[str, Any]) -> Any:
    known(str(entry.get("id", "?")), entry, [f.name for f in fields(kind)], "field of a ledger")
    try:
        return kind(**_strings(entry))
    except TypeError as error:
        raise InputError(f"{entry.get('id', '?')}: {error}") from None


def _strings(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Texts in one line each, as TOML may break them."""
    return {k: " ".join(v.split()) if isinstance(v, str) else v for k, v in entry.items()}
