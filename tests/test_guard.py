"""The guard: claims stored at one commit, and compared with those of another run."""

import json
import re
from typing import Any

import pytest

from benchmarks import guard


def claim(name, measured, expected: Any = 1.0, spread=None, tolerance: Any = 0.1, holds=True):
    return {
        "name": name,
        "measured": measured,
        "expected": expected,
        "spread": spread,
        "tolerance": tolerance,
        "holds": holds,
    }


def results(folder, **experiments):
    for name, claims in experiments.items():
        (folder / name).mkdir(parents=True)
        more = [{**c, "source": "", "note": ""} for c in claims]
        (folder / name / "result.json").write_text(json.dumps({"claims": more}))
    return folder


def test_values_are_compared_by_relative_difference_and_errors_by_their_bound():
    old = [
        claim("speed", 2.0, spread=0.5),
        claim("error", 1e-9, "< 1e-08", tolerance=None),
        claim("off", 1e-8, 0.0),
        claim("nothing", None),
    ]
    new = [
        claim("speed", 2.5),
        claim("error", 4e-9, "< 1e-08", tolerance=None),
        claim("off", 2e-8, 0.0),
        claim("nothing", None),
    ]
    row = guard.compare("a", old, new)
    assert (row.claims, row.claim, row.changed) == (4, "speed", ())
    assert row.difference == pytest.approx(0.2)
    assert row.spreads == pytest.approx(1.0)
    assert row.errors == pytest.approx(0.3)


def test_what_was_stored_is_found_again_and_a_changed_verdict_ends_with_1(tmp_path, capsys):
    path = tmp_path / "guard.json"
    before = results(
        tmp_path / "before", a=[claim("one", 1.0), claim("two", 0.5, "> 0.4")], b=[claim("c", 1)]
    )
    assert guard.main(["store", str(before), "--form", "quick", "--commit", "abc"], path) == 0
    assert guard.main(["store", str(before), "--form", "full", "--commit", "abd"], path) == 0
    assert [v["commit"] for v in json.loads(path.read_text()).values()] == ["abc", "abd"]
    assert guard.main(["compare", str(before), "--form", "quick"], path) == 0
    after = results(tmp_path / "after", a=[claim("two", 0.3, "> 0.4", holds=False)])
    assert guard.main(["compare", str(after), "--form", "quick"], path) == 1
    told = capsys.readouterr().out
    assert "verdict changed: one" in told
    assert "verdict changed: two" in told


def test_claims_are_found_by_their_id_and_else_by_their_name():
    old = [{"id": "a", **claim("first", 1.0)}, {"id": "b", **claim("second", 2.0)}, claim("third", 3.0)]
    new = [
        {"id": "third", **claim("third", 3.0)},
        {"id": "b", **claim("second, reworded", 2.5)},
        {"id": "c", **claim("first", 1.0)},  # another claim that has taken the name
    ]
    assert [None if b is None else b["id"] for _, b in guard.pairs(old, new)] == [None, "b", "third"]
    row = guard.compare("e", old, new)
    assert row.changed == ("a",)
    assert (row.claim, row.difference) == ("b", pytest.approx(0.2))
    assert guard.compare("e", [claim("first", 1.0)], new).changed == ()


def test_undecided_is_a_verdict():
    old, new = [{"id": "a", **claim("n", 1.0)}], [{"id": "a", **claim("n", 1.0, holds=None)}]
    assert guard.compare("e", old, new).changed == ("a",)
    assert guard.compare("e", new, new).changed == ()


def test_only_runs_of_that_form_without_changed_parameters_are_read(tmp_path):
    for folder, quick, measured in (
        ("a", False, 1.0), ("a-quick", True, 2.0), ("a-scale=3", False, 3.0), ("b-quick-seeds=2", True, 4.0),
    ):  # fmt: skip
        result = {"name": folder[0], "quick": quick, "claims": [{"id": "x", **claim("x", measured)}]}
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "result.json").write_text(json.dumps(result))
    found = {form: guard.read(tmp_path, form) for form in guard.FORMS}
    measured = {form: {n: c[0]["measured"] for n, c in claims.items()} for form, claims in found.items()}
    assert measured == {"quick": {"a": 2.0}, "full": {"a": 1.0}}


def test_the_stored_claims_are_those_of_all_experiments():
    from neuralrace_papers import names

    stored = json.loads(guard.STORE.read_text())
    assert set(stored["quick"]["experiments"]) == set(names())
    assert set(stored["full"]["experiments"]) <= set(names())


def test_stored_claims_have_ids_and_names_of_their_own():
    from neuralrace_papers.framework.claim import kebab

    for form in json.loads(guard.STORE.read_text()).values():
        for claims in form["experiments"].values():
            ids, titles = [c["id"] for c in claims], [c["name"] for c in claims]
            assert all(kebab(i) == i for i in ids)
            assert len(set(ids)) == len(ids)
            assert len(set(titles)) == len(titles)
            assert not any(re.search("(^|, |: )the same", title) for title in titles)


def test_claims_that_need_the_full_form_are_undecided_in_the_quick_one():
    from fnmatch import fnmatch

    from neuralrace_papers import experiment, names

    stored = json.loads(guard.STORE.read_text())["quick"]["experiments"]
    for name in names():
        patterns = experiment(name).needs_full
        for c in stored[name]:
            assert (c["holds"] is None) == any(fnmatch(c["id"], p) for p in patterns), (name, c["id"])
        for pattern in patterns:
            assert any(fnmatch(c["id"], pattern) for c in stored[name]), (name, pattern)


def test_wrong_use_is_refused(tmp_path):
    for wrong in (["store", str(tmp_path), "--form", "quick", "--commit", "a"], ["compare", str(tmp_path)]):
        with pytest.raises(SystemExit):
            guard.main(wrong, tmp_path / "guard.json")
