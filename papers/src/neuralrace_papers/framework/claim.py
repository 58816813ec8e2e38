"""Claims: what is stated, what was measured, and whether it holds."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.errors import InputError, known
from neuralrace_papers.framework.ledger import Row

HOLDS, FAILS, UNDECIDED = VERDICTS = ("holds", "fails", "undecided")
EXACT = "exact: errors of rounding and of integration"
ROUNDING = "exact: rounding"
CHOSEN = "a standard of ours"


@dataclass(frozen=True)
class Claim:
    """A statement, what was expected and what was measured. Made by `paper`, `check` and `finding`.

    Parameters
    ----------
    id : str
        Words joined by hyphens; unique within its experiment, and kept when the name is reworded.
    kind : str
        "paper", a statement of a paper; "check", this library against itself or an exact solution;
        "finding", a statement of ours. Empty where results were written before there were kinds.
    name, source : str
        What is measured; where it is stated.
    expected : float or str
        A number or a relation.
    measured : float
        The mean over seeds.
    spread : float or None
        Standard deviation over seeds; None for a single number.
    tolerance : float or None
        How far from the expected number the mean may lie.
    verdict : str
        "holds", "fails", or "undecided": the quick form is too small to tell.
    note : str
        What the reader needs to know; always there where the claim fails.
    quote : str
        The sentence of the paper that is tested.
    criterion : str
        What is compared: "mean" over seeds, or "all seeds". Empty where the relation is stated in words.
    bound : str
        Where the bound comes from: the paper, theory, or a stated standard.
    count : int or None
        How many values `measured` is the mean of; None for a single number.
    worst : float or None
        The value that is nearest to the limit or furthest beyond it, where all values are compared.
    """

    id: str
    kind: str
    name: str
    source: str
    expected: float | str
    measured: float
    spread: float | None
    tolerance: float | None
    verdict: str
    note: str = ""
    quote: str = ""
    criterion: str = ""
    bound: str = ""
    count: int | None = None
    worst: float | None = None

    @property
    def result(self) -> str:
        """What was measured, in words.

        >>> finding("this").above("x", "a", 0.9, [0.88, 0.96, 1.01]).result
        '0.95 ± 0.06557 (mean of 3 values, worst 0.88)'
        """
        spread = "" if self.spread is None else f" ± {shown(self.spread)}"
        worst = "" if self.worst is None else f", worst {shown(self.worst)}"
        many = "" if self.count is None else f" (mean of {self.count} values{worst})"
        return f"{shown(self.measured)}{spread}{many}"

    @property
    def required(self) -> str:
        """What must be so for the claim to hold, in words.

        >>> finding("this").above("x", "a", 0.9, [0.88, 0.96, 1.01]).required
        'every value > 0.9'
        >>> finding("this").near("x", "a", 2.65, [2.6, 2.66], 0.1).required
        'mean within 0.1 of 2.65'
        """
        subject = {"mean": "mean ", "all seeds": "every value "}.get(self.criterion, "")
        if isinstance(self.expected, str):
            return subject + self.expected
        if self.tolerance:
            return f"{subject}within {shown(self.tolerance)} of {shown(self.expected)}"
        return f"{subject}exactly {shown(self.expected)}"

    @property
    def row(self) -> Row:
        """The number alone."""
        error = (
            None if self.spread is None or self.count is None else float(self.spread / np.sqrt(self.count))
        )
        return Row(self.id, float(self.measured), error, self.count or 1)

    @property
    def holds(self) -> bool | None:
        """True, False, or None where undecided."""
        return None if self.verdict == UNDECIDED else self.verdict == HOLDS

    def to_dict(self) -> dict[str, Any]:
        """All of it by name, and `holds`."""
        return {**dataclasses.asdict(self), "holds": self.holds}

    @classmethod
    def from_dict(cls, read: dict[str, Any]) -> Claim:
        """The inverse of `to_dict`; of older results, without id, kind and verdict, too."""
        names = [f.name for f in dataclasses.fields(cls)]
        known("claim", read, [*names, "holds"], "part of a claim")
        verdict = {True: HOLDS, False: FAILS, None: UNDECIDED}[read["holds"]]
        given = {"id": kebab(read["name"]), "kind": "", "verdict": verdict, **read}
        return cls(**{n: given[n] for n in names if n in given})


def shown(value: Any) -> str:
    """A number as a reader wants it.

    >>> shown(0.123456), shown(None), shown(3)
    ('0.1235', '-', '3')
    """
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def kebab(text: str) -> str:
    """Words of a text, joined by hyphens: part of the id of a claim.

    >>> kebab("inverted funnel, lam = 0.5")
    'inverted-funnel-lam-0-5'
    """
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))


@dataclass(frozen=True)
class Statement:
    """Where something is stated, and in which words; makes the claims that test it.

    Made by `paper`, `check` and `finding`. `measured` is a number or one for each seed. `bound` says where
    bounds come from, for claims that do not say so themselves.

    >>> faster = paper("neural_race Eq. 51", "the change in singular values is sqrt(M) faster")
    >>> faster.near("layer-ratio", "B2 / B1 at the end", 2.65, [2.6, 2.66], 0.1).holds
    True
    """

    kind: str
    source: str
    quote: str = ""
    bound: str = ""

    def near(
        self,
        id: str,
        name: str,
        expected: float,
        measured: ArrayLike,
        tolerance: float,
        note: str = "",
        bound: str = "",
    ) -> Claim:
        """The mean lies within `tolerance` of a number; `bound` says where the tolerance comes from."""
        claim = self._claim(id, name, float(expected), measured, note, bound, "mean")
        holds = abs(claim.measured - expected) <= tolerance
        return replace(claim, tolerance=float(tolerance), verdict=HOLDS if holds else FAILS)

    def below(
        self, id: str, name: str, limit: float, measured: ArrayLike, note: str = "", bound: str = ""
    ) -> Claim:
        """Every value is below a limit; `bound` says where the limit comes from."""
        claim = self._claim(id, name, f"< {limit:g}", measured, note, bound, "all seeds")
        return _judged(claim, np.less(measured, limit), np.max(measured))

    def above(
        self, id: str, name: str, limit: float, measured: ArrayLike, note: str = "", bound: str = ""
    ) -> Claim:
        """Every value is above a limit; `bound` says where the limit comes from."""
        claim = self._claim(id, name, f"> {limit:g}", measured, note, bound, "all seeds")
        return _judged(claim, np.greater(measured, limit), np.min(measured))

    def relation(
        self,
        id: str,
        name: str,
        expected: str,
        measured: ArrayLike,
        holds: Any,
        note: str = "",
        bound: str = "",
    ) -> Claim:
        """Any other relation, stated in words."""
        claim = self._claim(id, name, expected, measured, note, bound)
        return _judged(claim, bool(holds) and not np.isnan(claim.measured))

    def _claim(
        self, id: str, name: str, expected: float | str, measured: Any, note: str, bound: str, by: str = ""
    ) -> Claim:
        """A claim that is not judged yet; `by` is the criterion if there are several values."""
        if not id or kebab(id) != id:
            raise InputError(f"id must be words in small letters, joined by hyphens; got {id!r}")
        mean, spread = mean_and_spread(measured)
        count = np.size(measured) if spread is not None else None
        by = by if count else ""
        stated = id, self.kind, name, self.source, expected, mean, spread, None, FAILS, note, self.quote
        return Claim(*stated, criterion=by, bound=bound or self.bound, count=count)


def _judged(claim: Claim, holds: Any, worst: Any = None) -> Claim:
    """A claim with its verdict, and with the worst value if there are several."""
    verdict = HOLDS if np.all(holds) else FAILS
    if claim.count is None or worst is None:
        return replace(claim, verdict=verdict)
    return replace(claim, verdict=verdict, worst=float(worst))


def paper(source: str, quote: str) -> Statement:
    """A statement of a paper: where it stands, and the sentence itself."""
    return Statement("paper", source, quote)


def check(source: str, bound: str = EXACT) -> Statement:
    """A check of this library, against itself or an exact solution; `source` is the equation or figure."""
    return Statement("check", source, bound=bound)


def finding(source: str, bound: str = CHOSEN) -> Statement:
    """A finding of ours; `source` is what it is about."""
    return Statement("finding", source, bound=bound)


def mean_and_spread(measured: ArrayLike) -> tuple[float, float | None]:
    """Mean, and standard deviation (n - 1) where there is more than one value."""
    values = np.asarray(measured, float).ravel()
    if not len(values):
        raise InputError("measured must hold at least one number")
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None
