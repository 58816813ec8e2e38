"""Runs of experiments: what they write, where, and what they compute again."""

import json
from pathlib import Path

import pandas as pd
import pytest

import neuralrace_papers as experiments
from neuralrace.errors import InputError
from neuralrace_papers import Report
from neuralrace_papers.framework.declaration import Data, part
from neuralrace_papers.framework.store import Store
from neuralrace_papers.report import write_report


def test_run_writes_and_can_be_repeated(toy, out):
    first = experiments.run("toy", out=out)
    second = experiments.run("toy", out=out)
    assert toy.CALLS == [0, 1, 2, 3]
    assert first.holds
    assert first.claims == second.claims
    alike = [{k: v for k, v in r.to_dict().items() if k != "seconds"} for r in (first, second)]
    assert alike[0] == alike[1]
    assert first.parameters == {"seeds": 4, "scale": 2.0, "sizes": [1, 2], "wrong": False}
    assert first.about == "A toy that doubles numbers; 1 < 2."
    names = {p.name for p in (out / "toy").iterdir() if p.is_file()}
    assert names == {"result.json", "claims.csv", "values.svg", "values.pdf", "values.png", "values.csv"}
    loaded = Report.load(out / "toy")
    assert loaded.to_dict() == second.to_dict()
    assert loaded.claims == second.claims
    assert loaded.figures == (("values", "Values of <all> seeds & more"),)
    assert experiments.run("toy", quick=True, out=out).parameters["seeds"] == 2


def test_repeated_figures_are_the_same(toy, out):
    first = experiments.run("toy", True, out)
    files = [first.folder / f"values.{suffix}" for suffix in ("svg", "csv")]
    before = [file.read_bytes() for file in files]
    experiments.run("toy", True, out)
    assert [file.read_bytes() for file in files] == before


def test_data_of_a_figure_lie_beside_it(toy, out):
    report = experiments.run("toy", out=out)
    found = pd.read_csv(report.folder / "values.csv")
    assert found["x"].tolist() == [0, 1, 2, 3]
    assert found["y"].mean() == pytest.approx(report.claims[0].measured)
    assert set(found["series"]) == {"numbers"}
    assert set(found["x_label"]) == {"seed"}


def test_claims_as_a_table(toy, out):
    report = experiments.run("toy", True, out, {"wrong": True})
    found = pd.read_csv(report.folder / "claims.csv")
    assert found["id"].tolist() == ["mean", "spread", "never", "nothing"]
    assert found["kind"].tolist() == ["paper", "finding", "paper", "check"]
    assert found["verdict"].tolist() == ["holds", "undecided", "fails", "fails"]
    assert found["holds"].isna().tolist() == [False, True, False, False]
    assert set(found["experiment"]) == {"toy"}
    assert set(found["form"]) == {"quick"}
    assert set(found["run"]) == {"toy-quick-wrong=true"}


def test_an_interrupted_run_goes_on_from_what_was_finished(toy, out):
    toy.BREAK.append(2)
    with pytest.raises(KeyboardInterrupt):
        experiments.run("toy", out=out)
    assert toy.CALLS == [0, 1]
    assert not (out / "toy" / "result.json").exists()
    toy.BREAK.clear()
    resumed = experiments.run("toy", out=out)
    assert toy.CALLS == [0, 1, 2, 3]
    assert resumed.claims == experiments.run("toy", out=out.with_name("fresh")).claims


# -- what is computed again ------------------------------------------------------------------


def changed(toy, old, new):
    """The toy with another source; the code that runs stays as it was."""
    file = Path(toy.__file__)
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def test_changed_code_is_computed_anew(toy, out):
    experiments.run("toy", True, out)
    changed(toy, "normal(1, 0.01)}", "normal(1, 0.01) * 1.0}")
    experiments.run("toy", True, out)
    assert toy.CALLS == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("CALLS.append(seed)", "CALLS.append(seed)  # a comment"),
        ("CALLS, BREAK = [], []", "CALLS, BREAK = (\n    [],\n    [],\n)"),
        ("def numbers(p, seed):\n", 'def numbers(p, seed):\n    """Documented now."""\n'),
        ("Values of <all> seeds", "Values of every seed"),
        ('"mean <value>"', '"mean of the values"'),
        ("factor of all numbers", "factor of each number"),
    ],
    ids=["comment", "format", "docstring", "caption", "claim", "meaning"],
)
def test_what_changes_no_number_keeps_stored_parts(toy, out, old, new):
    experiments.run("toy", True, out)
    changed(toy, old, new)
    experiments.run("toy", True, out)
    assert toy.CALLS == [0, 1]


# -- folders ---------------------------------------------------------------------------------


def test_runs_do_not_overwrite_each_other(toy, out):
    runs = [
        experiments.run("toy", out=out),
        experiments.run("toy", True, out),
        experiments.run("toy", True, out, {"scale": "3"}),
        experiments.run("toy", True, out, {"scale": 3.5, "sizes": "1,2,3"}),
        experiments.run("toy", False, out, {"scale": 3.0}),
    ]
    assert [r.folder.name for r in runs] == [
        "toy",
        "toy-quick",
        "toy-quick-scale=3",
        "toy-quick-scale=3.5-sizes=1,2,3",
        "toy-scale=3",
    ]
    for report in runs:
        assert Report.load(report.folder).to_dict() == report.to_dict()
    assert len(toy.CALLS) == 4 + 2 + 2 + 2 + 4


def test_a_parameter_set_to_its_default_is_no_other_run(toy, out):
    assert experiments.run("toy", True, out, {"scale": "2", "seeds": 2}).folder == out / "toy-quick"


def test_long_changes_have_a_short_key(toy, out):
    first = experiments.run("toy", True, out, {"sizes": range(1, 90)} | {"sizes": tuple(range(1, 90))})
    second = experiments.run("toy", True, out, {"sizes": tuple(range(1, 91))})
    assert first.folder != second.folder
    assert first.folder.name.startswith("toy-quick-")
    assert len(first.folder.name) == len("toy-quick-") + 8


# -- claims ----------------------------------------------------------------------------------


def test_the_quick_form_leaves_claims_undecided(toy, out):
    quick, full = experiments.run("toy", True, out), experiments.run("toy", out=out)
    assert [c.verdict for c in quick.claims] == ["holds", "undecided"]
    assert quick.claims[1].holds is None
    assert quick.holds
    assert [c.verdict for c in full.claims] == ["holds", "holds"]


def test_claims_without_a_number_survive_json(toy, out, strict):
    found = experiments.run("toy", True, out, {"wrong": True})
    assert not found.holds
    text = (found.folder / "result.json").read_text()
    assert [c["measured"] is None for c in strict(text)["claims"]] == [False, False, False, True]
    assert Report.load(found.folder).claims[3].measured is None


def test_what_fails_has_a_reason(toy, out):
    claims = experiments.run("toy", True, out, {"wrong": True}).claims
    assert claims[2].note == "the <toy> is positive"
    assert claims[3].note == "No reason is known."
    assert claims[1].note == ""  # undecided


def test_two_claims_with_one_id_are_refused(toy, out, monkeypatch):
    monkeypatch.setattr(toy, "again", toy.all_claims, raising=False)
    with pytest.raises(InputError, match="toy: two claims have the id 'mean'"):
        experiments.run("toy", True, out)


def test_wrong_runs_are_refused(toy, tmp_path):
    with pytest.raises(InputError, match="no experiment 'tay'; there are toy"):
        experiments.run("tay", out=tmp_path)
    with pytest.raises(InputError, match="toy: scale must be greater than 0"):
        experiments.run("toy", out=tmp_path, changes={"scale": -1})
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="out must be a folder that can be written"):
        experiments.run("toy", out=tmp_path / "file" / "below")
    assert toy.CALLS == []


@pytest.mark.parametrize("path", sorted(Path("docs/results").glob("*.json")), ids=lambda p: p.stem)
def test_published_results_are_read(path, tmp_path):
    if "claims" not in json.loads(path.read_text()):
        pytest.skip("a table, not a report")
    (tmp_path / "result.json").write_text(path.read_text())
    found = Report.load(tmp_path)
    assert found.claims
    assert found.name in experiments.names()
    assert len({c.id for c in found.claims}) == len(found.claims)
    assert all(c.kind in ("paper", "check", "finding") for c in found.claims)


# -- experiments of one's own ----------------------------------------------------------------


def test_an_experiment_in_a_file_of_ones_own(out):
    report = experiments.run(
        "examples/bottleneck.py", out=out, changes={"seeds": 2, "hidden": 6, "narrow": (1, 3)}
    )
    assert report.name == "bottleneck"
    assert [c.verdict for c in report.claims[:3]] == ["holds"] * 3
    assert len(report.claims) == 4
    assert [name for name, _ in report.figures] == ["bottleneck-modes", "bottleneck-loss"]
    assert "A chain with a bottleneck" in write_report(out).read_text()


def test_files_without_an_experiment(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*nothing\.py with an experiment"):
        experiments.experiment(str(tmp_path / "nothing.py"))
    (tmp_path / "empty.py").write_text("x = 1\n")
    with pytest.raises(InputError, match=r"empty\.py must define EXPERIMENT"):
        experiments.experiment(str(tmp_path / "empty.py"))


def test_files_of_the_same_name_in_two_folders(tmp_path):
    text = Path("examples/bottleneck.py").read_text()
    for folder, title in (("a", "first"), ("b", "second")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text(text.replace("A chain with a bottleneck", title))
    titles = [experiments.experiment(str(tmp_path / f / "same.py")).title for f in ("a", "b", "a")]
    assert titles == ["first", "second", "first"]


def test_parts_in_threads_have_the_precision_of_others(tmp_path):
    import jax

    @part(each=(1, 2), threads=2)
    def precision(p, item):
        return {"precision": str(jax.config.jax_default_matmul_precision)}

    results = precision.compute(None, Data(), Store(tmp_path, "key"), lambda found, name, n: found)
    assert [str(d.precision.values) for d in results.values()] == ["highest", "highest"]


def test_parts_that_are_filled_are_not_computed_again(toy, tmp_path):
    experiments.fill("toy", True, tmp_path, {"seeds": 2})
    assert toy.CALLS == [0, 1]
    assert not list(tmp_path.glob("*/result.json"))
    experiments.run("toy", True, tmp_path, {"seeds": 3})
    experiments.run("toy", True, tmp_path, {"seeds": 2})
    assert toy.CALLS == [0, 1, 0, 1, 2]
