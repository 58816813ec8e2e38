"""What of the documents is reproduced (tools/coverage.py): items, claims and tests fit together."""

import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "coverage.py"


def load_tool():
    spec = importlib.util.spec_from_file_location("coverage_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


coverage = load_tool()


@pytest.mark.parametrize("paper", coverage.papers())
def test_items_of_a_paper(paper):
    assert coverage.check(paper, coverage.stored()) == []


def test_few_items_have_no_claim():
    items = [item for paper in coverage.papers() for item in coverage.load(paper)]
    assert sum(not (i.claims or i.kind == "definition") for i in items) < 10


def test_the_page_is_not_stale():
    assert coverage.PAGE.read_text() == coverage.page(coverage.stored()), "run tools/coverage.py"


def row(claim, kind="paper", verdict="holds", experiment="xor"):
    return coverage.Row(experiment, "quick", claim, kind, verdict, "1")


def item(name="eq-1", kind="equation", **more):
    return coverage.Item(name, kind, "1, Eq. 1", "It grows.", **more)


def test_every_rule_can_be_broken(tmp_path):
    (tmp_path / "test_a.py").write_text("def test_one(): ...\nclass TestB:\n    def test_two(self): ...\n")
    good = [
        item(claims=("xor/loss-*",)),
        item("eq-2", tests=("test_a.py::test_one", "test_a.py::TestB::test_two[3]"), reason="a setting"),
        item("eq-3", reason="no data"),
        item("eq-4", "definition"),
    ]
    claims = [row("loss-a"), row("time", "finding")]
    assert list(coverage.problems(good, claims, claims, tmp_path)) == []
    assert list(coverage.problems(good[1:], [], claims, tmp_path)) == []  # claims of another paper
    for wrong, message in (
        ([*good, item(claims=("xor/loss-a",))], "eq-1: 2 items have this id"),
        ([*good, item("x", "lemma", reason="r")], "x: kind must be one of"),
        ([*good, item("x")], "x: neither claim nor reason why not"),
        ([*good, item("x", claims=("xor/time",), reason="r")], "x: a reason why not, beside"),
        ([*good, item("x", claims=("xor/lost",))], "x: no stored claim is xor/lost"),
        (
            [*good, item("x", tests=("test_a.py::test_two",), reason="r")],
            "x: there is no test test_a.py::test_two",
        ),
        (
            [*good, item("x", tests=("test_b.py::test_one",), reason="r")],
            "x: there is no test test_b.py::test_one",
        ),
        ([*good, item("x", tests=("test_a.py",), reason="r")], "x: there is no test test_a.py"),
        (good[1:], "xor/loss-a: a claim of kind paper that no item names"),
    ):
        (found,) = coverage.problems(wrong, claims, claims, tmp_path)
        assert found.startswith(message)


def test_claims_that_are_new_or_gone_are_noticed(tmp_path):
    (tmp_path / "xor.py").write_text(
        'def f(s):\n    yield s.near("loss", "a", 1, 2, 3)\n    yield s.above(f"time-{s}", "a", 1, 2)\n'
        '    ax.near("no claim")\n'
    )
    (tmp_path / "helper.py").write_text('def g(s):\n    yield s.below("shared", "a", 1, 2)\n')
    claims = [row("loss"), row("time-2"), row("shared")]
    assert list(coverage.stale(["xor"], claims, tmp_path)) == []
    assert list(coverage.stale(["xor"], claims[1:], tmp_path)) == [
        "xor/loss: in the code but not stored; run it and --store"
    ]
    assert list(coverage.stale(["xor"], [*claims, row("old")], tmp_path)) == [
        "xor/old: stored but not in the code; run it and --store"
    ]
    assert list(coverage.stale(["xor"], [], tmp_path)) == ["xor: no claims are stored; run it and --store"]


def test_the_page_tells_verdicts(tmp_path):
    (tmp_path / "talk").mkdir()
    (tmp_path / "talk" / "items.toml").write_text(
        '[[item]]\nid = "a"\nkind = "sentence"\nwhere = "2"\ntext = "x | y"\n'
        'claims = ["xor/loss-*", "xor/one"]\n'
        '[[item]]\nid = "b"\nkind = "equation"\nwhere = "3"\ntext = "z"\nreason = "no data"\n'
        '[[item]]\nid = "c"\nkind = "figure"\nwhere = "3"\ntext = "z"\ntests = ["tests/test_a.py::test_b"]\n'
    )
    rows = [row("loss-a"), row("loss-b", verdict="fails"), row("one", verdict="undecided")]
    text = coverage.page({"xor": rows}, tmp_path)
    assert "| [Saxe, talk](#talk) | 3 | 1 | 1 | 1 | 0 |" in text
    assert "| a | 2 | “x \\| y” | `xor/loss-*` 1 hold, 1 refuted; `xor/one` undecided |" in text
    assert "| b | 3 | z | no data |" in text
    assert "| c | 3 | z | test `test_a.py::test_b` |" in text
    assert "only the quick form is stored: xor." in text


def test_claims_are_kept_as_a_table(tmp_path, monkeypatch):
    from neuralrace.files import write_text

    for folder, quick, measured in (
        ("xor", "false", "1.5"), ("xor-quick", "true", "2"), ("xor-seeds=3", "false", "3"),
        ("routing-quick", "true", "null"),
    ):  # fmt: skip
        claim = f'{{"id": "a", "kind": "check", "verdict": "holds", "measured": {measured}}}'
        name = folder.split("-")[0]
        text = f'{{"name": "{name}", "quick": {quick}, "claims": [{claim}]}}'
        write_text(tmp_path / folder / "result.json", text)
    found = coverage.results(tmp_path)
    file = tmp_path / "claims.csv"
    file.write_text(coverage.as_csv(found))
    assert coverage.stored(file) == found
    lines = [
        "experiment,form,id,kind,verdict,measured",
        "xor,full,a,check,holds,1.5",
        "routing,quick,a,check,holds,",
    ]
    assert file.read_text().splitlines() == lines
    with pytest.raises(SystemExit, match="there are none in"):
        coverage.results(tmp_path / "xor")
