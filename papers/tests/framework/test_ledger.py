"""Verdicts: the order of the rules, and what can never be contradicted."""

from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralrace.errors import InputError
from neuralrace_papers.framework import ledger as module
from neuralrace_papers.framework.ledger import VERDICTS, Claim, Criterion, Row, judge

numbers = st.floats(-10, 10)
errors = st.none() | st.floats(0, 3)
bounds = st.builds(lambda a, b: Criterion(above=min(a, b), below=max(a, b) + 1), numbers, numbers)
criteria = st.one_of(
    st.builds(lambda x, d: Criterion(near=x, within=d), numbers, st.floats(0, 3)),
    st.builds(lambda x: Criterion(below=x), numbers),
    st.builds(lambda x: Criterion(above=x), numbers),
    bounds,
)
claims = st.builds(
    Claim,
    id=st.just("id"),
    kind=st.sampled_from(["sentence", "equation", "figure", "table"]),
    place=st.just("1"),
    quote=st.just("q"),
    row=st.just("toy/a"),
    setting=st.sampled_from(module.SETTINGS),
    reproduced=st.none() | criteria,
    approximately=st.none() | criteria,
    in_direction=st.none() | criteria,
    limit=st.sampled_from(["", "small"]),
    corrected=st.just("toy/b"),
    corrected_when=criteria,
    counterexample=st.sampled_from(["", "a test"]),
    undecided=st.sampled_from(["", "", "not run"]),
)
rows = st.builds(
    lambda a, b, e: {"toy/a": Row("a", a, e, 3), "toy/b": Row("b", b)},
    numbers | st.just(nan),
    numbers,
    errors,
)


def slow(claim, rows, quick):
    """The rules one by one, as the contributors' page has them."""
    value, error = rows["toy/a"].value, rows["toy/a"].error or 0

    def within(c):
        if c.near is not None:
            return abs(value - c.near) <= c.within
        return c.above < value < c.below

    def outside(c):
        if c.near is not None:
            return abs(value - c.near) - c.within
        return value - c.below if value >= c.below else c.above - value

    if claim.undecided:
        return "not decided"
    if claim.reproduced is not None and within(claim.reproduced):
        return "in a limit" if claim.limit else "reproduced"
    if claim.approximately is not None and within(claim.approximately):
        return "in a limit" if claim.limit else "approximately"
    if claim.corrected_when.met(rows["toy/b"].value):
        return "misprint"
    if claim.in_direction is not None and within(claim.in_direction):
        return "in direction"
    last = [c for c in (claim.reproduced, claim.approximately, claim.in_direction) if c is not None][-1:]
    if not last or np.isnan(value) or outside(last[0]) <= 2 * error:
        return "not decided"
    if quick or claim.setting == "ours" or not claim.counterexample:
        return "not decided"
    return "contradicted"


@given(claims, rows, st.booleans())
def test_verdicts_are_those_of_the_rules_one_by_one(claim, rows, quick):
    assert judge(claim, rows, quick) == slow(claim, rows, quick)


@given(claims, rows)
def test_what_can_never_be_contradicted(claim, rows):
    for mild in (replace(claim, setting="ours"), replace(claim, counterexample="")):
        assert judge(mild, rows) != "contradicted"
    assert judge(claim, rows, quick=True) != "contradicted"
    assert judge(claim, {}) == "not decided"
    assert judge(replace(claim, kind="background"), rows) == ""
    assert judge(claim, rows) in VERDICTS


@given(claims, rows, st.floats(0, 3))
def test_a_larger_error_contradicts_no_more(claim, rows, more):
    row = rows["toy/a"]
    wider = {**rows, "toy/a": replace(row, error=(row.error or 0) + more)}
    before, after = judge(claim, rows), judge(claim, wider)
    assert after in (before, "not decided")
    assert before == "contradicted" or after == before


@given(criteria, numbers)
def test_a_criterion_is_met_where_nothing_is_missing(criterion, value):
    assert criterion.missed(value) >= 0
    if criterion.met(value):
        assert criterion.missed(value) == 0
    assert not criterion.met(nan)


def test_claims_without_a_row_are_decided_by_tests():
    claim = Claim("id", "equation", "1", "q", tests=("a test",))
    assert judge(claim, {}) == "reproduced"
    assert judge(replace(claim, limit="small"), {}) == "in a limit"
    assert judge(replace(claim, slip="sigma"), {}) == "misprint"
    assert judge(replace(claim, counterexample="a test"), {}) == "contradicted"
    assert judge(replace(claim, counterexample="a test", undecided="?"), {}) == "not decided"


def test_rows_survive_json():
    for value in (1.5, inf, -inf):
        row = Row("a", value, 0.1, 4)
        assert Row.from_dict("a", row.to_dict()) == row
    assert np.isnan(Row.from_dict("a", Row("a", nan).to_dict()).value)
    values = np.random.default_rng(0).normal(size=7)
    row = Row.of("a", values)
    assert row.error == pytest.approx(values.std(ddof=1) / np.sqrt(7))
    assert (Row.of("a", True).value, Row.of("a", 3).error) == (1.0, None)
    with pytest.raises(InputError, match="row a must have at least one number"):
        Row.of("a", [])


HEAD = '[document]\nname = "toy"\nreference = "r"\nsummary = "s"\n'
CLAIM = '[[claim]]\nid = "a"\nkind = "sentence"\nplace = "1"\nquote = "q"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CLAIM, "claim a: needs a row, tests, a counterexample, or a reason"),
        (CLAIM + 'row = "x/y"\n', "claim a: needs a criterion for its row"),
        (CLAIM + 'tests = ["t"]\ncolour = "red"\n', "'colour', which is no field of a ledger"),
        (CLAIM + 'tests = ["t"]\nsetting = "mine"\n', "setting must be one of as printed"),
        (CLAIM.replace("sentence", "rumour"), "kind must be one of sentence"),
        (CLAIM + 'row = "x/y"\nreproduced = {near = 1}\n', "near` and `within` together"),
        (CLAIM + 'row = "x/y"\nreproduced = {}\n', "must have `near` and `within`"),
        (CLAIM + 'tests = ["t"]\ncorrected = "x/z"\n', "`corrected` and `corrected_when` go together"),
        ((CLAIM + 'tests = ["t"]\n') * 2, "two claims have the id a"),
        ('[[claim]]\nid = "a"\n', "missing"),
    ],
)
def test_a_ledger_that_says_too_little_is_refused(tmp_path, text, message):
    (tmp_path / "claims.toml").write_text(HEAD + text)
    with pytest.raises(InputError, match=message):
        module.read(tmp_path / "claims.toml")
