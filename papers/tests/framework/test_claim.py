"""Claims: what holds, what fails, what is undecided."""

import dataclasses
import math
import re

import numpy as np
import pytest

from neuralrace.errors import InputError
from neuralrace_papers.framework.claim import CHOSEN, EXACT, Claim, check, finding, kebab, paper


def test_claims():
    claim = paper("b", "c").near("an-id", "a", 1, [0.9, 1.2], 0.06)
    assert claim.holds
    assert (claim.id, claim.kind, claim.verdict) == ("an-id", "paper", "holds")
    assert claim.measured == pytest.approx(1.05)
    assert claim.spread == pytest.approx(np.std([0.9, 1.2], ddof=1))
    failing = check("b").near("x", "a", 1, 1.06, 0.05)
    assert (failing.kind, failing.verdict, failing.holds) == ("check", "fails", False)
    assert check("b").near("x", "a", 1.0, 1.5, 0.5).holds
    for single in (2.0, [2.0], np.array([[2.0]])):
        wanted = Claim("x", "finding", "a", "b", "> 1", 2.0, None, None, "holds", "", bound=CHOSEN)
        assert finding("b").above("x", "a", 1, single) == wanted
    assert not paper("b", "c").above("x", "a", 1, [0.5, 3]).holds
    assert not paper("b", "c").below("x", "a", 1, 1.0).holds
    assert paper("b", "c").below("x", "a", 1e-10, [0.0, 1e-11]).expected == "< 1e-10"
    assert paper("b", "c").relation("x", "a", "x first", 3, np.True_).holds is True
    assert paper("b", "c").relation("x", "a", "x first", 3, False).holds is False


@pytest.mark.parametrize("measured", [math.nan, [1.0, math.nan]])
def test_nan_never_holds(measured):
    for claim in (
        paper("b", "c").near("x", "a", 1, measured, math.inf),
        paper("b", "c").below("x", "a", math.inf, measured),
        paper("b", "c").above("x", "a", -math.inf, measured),
        paper("b", "c").relation("x", "a", "x", measured, True),
    ):
        assert claim.verdict == "fails"


def test_a_claim_needs_a_number():
    with pytest.raises(InputError, match="at least one number"):
        paper("b", "c").below("x", "a", 1, [])


@pytest.mark.parametrize("wrong", ["", "Two Words", "two words", "-x", "x--y", "a.b", "x_y"])
def test_an_id_is_words_joined_by_hyphens(wrong):
    with pytest.raises(InputError, match=re.escape(f"joined by hyphens; got {wrong!r}")):
        paper("b", "c").below(wrong, "a", 1, 0)
    if kebab(wrong):
        assert paper("b", "c").below(kebab(wrong), "a", 1, 0).holds


def test_checks_and_findings_say_where_their_bounds_come_from():
    assert check("b").below("x", "a", 1, 0).bound == EXACT
    assert finding("b").below("x", "a", 1, 0).bound == CHOSEN
    assert finding("b", "theory").below("x", "a", 1, 0).bound == "theory"
    assert finding("b", "theory").below("x", "a", 1, 0, bound="a law").bound == "a law"


def test_claims_survive_json():
    claim = finding("b").near("x-y", "a", 1, [0.5, 1.0], 1.0, "why", bound="the law of large numbers")
    assert (claim.criterion, claim.bound) == ("mean", "the law of large numbers")
    found = claim.to_dict()
    assert set(found) == {f.name for f in dataclasses.fields(Claim)} | {"holds"}
    assert found["holds"] is True
    assert Claim.from_dict(found) == claim
    undecided = Claim.from_dict({**found, "verdict": "undecided", "holds": None})
    assert undecided.holds is None
    assert undecided.to_dict()["holds"] is None


def test_claims_quote_the_sentence_they_test():
    claim = paper("Eq. 3", "It grows.").near("x", "a", 1, 1.0, 0.1)
    assert (claim.source, claim.quote) == ("Eq. 3", "It grows.")
    assert Claim.from_dict(claim.to_dict()) == claim


def test_claims_of_older_results_are_read():
    older = {"name": "B2 / B1, end", "source": "s", "expected": 1.0, "measured": 2.0, "spread": None}
    claim = Claim.from_dict({**older, "tolerance": 0.1, "holds": False, "note": "late"})
    assert (claim.id, claim.kind, claim.verdict, claim.note) == ("b2-b1-end", "", "fails", "late")
    with pytest.raises(InputError, match="'weight', which is no part of a claim"):
        Claim.from_dict({**older, "holds": True, "weight": 1})
