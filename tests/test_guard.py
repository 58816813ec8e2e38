"""The guard: claims stored at one commit, and compared with those of another run."""

import json
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


def test_the_stored_claims_are_those_of_all_experiments():
    from neuralrace.experiments import names

    stored = json.loads(guard.STORE.read_text())
    assert set(stored["quick"]["experiments"]) == set(names())
    assert set(stored["full"]["experiments"]) <= set(names())


def test_wrong_use_is_refused(tmp_path):
    for wrong in (["store", str(tmp_path), "--form", "quick", "--commit", "a"], ["compare", str(tmp_path)]):
        with pytest.raises(SystemExit):
            guard.main(wrong, tmp_path / "guard.json")
