"""What the claims of several experiments amount to: sentences of papers, findings and checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from neuralrace_papers import PAPERS, Report
from neuralrace_papers.framework.claim import FAILS, HOLDS, UNDECIDED, VERDICTS, Claim

OWN = ""  # stands for the paper of experiments that belong to none
WORDS = {"paper": "statements of papers", "check": "checks", "finding": "findings", "": "other claims"}


@dataclass(frozen=True)
class Sentence:
    """A sentence of a paper, with the claims that test it and the run that each is from."""

    quote: str
    claims: tuple[tuple[Report, Claim], ...]

    @property
    def failing(self) -> list[tuple[Report, Claim]]:
        return [(r, c) for r, c in self.claims if c.verdict == FAILS]

    @property
    def verdict(self) -> str:
        """Fails where a claim fails; else holds where one holds. Undecided claims count nowhere."""
        found = {c.verdict for _, c in self.claims}
        return FAILS if FAILS in found else HOLDS if HOLDS in found else UNDECIDED


def paper_of(name: str) -> str:
    """The paper to which an experiment belongs; empty for one of the user's own."""
    return next((paper for paper, own in PAPERS.items() if name in own), OWN)


def counted(reports: Iterable[Report]) -> list[Report]:
    """One run of each experiment, the first: the full form where there is one, with published parameters."""
    return list({r.name: r for r in reversed(list(reports))}.values())[::-1]


def sentences(reports: Iterable[Report]) -> list[Sentence]:
    """The sentences that claims of kind `paper` test, in the order of the claims."""
    found: dict[str, list[tuple[Report, Claim]]] = {}
    for report in reports:
        for claim in report.claims:
            if claim.kind == "paper":
                found.setdefault(claim.quote or f"{report.name}: {claim.name}", []).append((report, claim))
    return [Sentence(quote, tuple(claims)) for quote, claims in found.items()]


def verdicts(reports: Iterable[Report], kind: str) -> dict[str, int]:
    """How many claims of a kind have each verdict."""
    found = [c.verdict for r in reports for c in r.claims if c.kind == kind]
    return {verdict: found.count(verdict) for verdict in VERDICTS}


def summary(reports: Sequence[Report]) -> list[str]:
    """How many claims of each kind hold, fail or are undecided, in words."""
    lines = []
    for kind, word in WORDS.items():
        counts = verdicts(reports, kind)
        if any(counts.values()):
            need = f", {counts[UNDECIDED]} need the full form" if counts[UNDECIDED] else ""
            lines.append(f"{word}: {counts[HOLDS]} hold, {counts[FAILS]} fail{need}")
    return lines
