"""Runs of experiments: what they write, where, and what they compute again."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import neuralrace_papers as experiments
from neuralrace.errors import InputError
from neuralrace_papers import Report
from neuralrace_papers.framework import results
from neuralrace_papers.framework.declaration import Data, part
from neuralrace_papers.framework.results import unexpected
from neuralrace_papers.framework.store import Store
from neuralrace_papers.report import write_report
from neuralrace_papers.running import fill


def test_run_writes_and_can_be_repeated(toy, out):
    first = experiments.run("toy", out=out)
    second = experiments.run("toy", out=out)
    assert toy.CALLS == [0, 1, 2, 3]
    assert first.rows == second.rows
    assert list(first.rows) == ["mean", "spread"]
    alike = [{k: v for k, v in r.to_dict().items() if k != "seconds"} for r in (first, second)]
    assert alike[0] == alike[1]
    assert first.parameters == {"seeds": 4, "scale": 2.0, "sizes": [1, 2], "wrong": False}
    assert first.about == "A toy that doubles numbers; 1 < 2."
    names = {p.name for p in (out / "toy").iterdir() if p.is_file()}
    assert names == {"result.json", "claims.csv", "values.svg", "values.pdf", "values.png"}
    loaded = Report.load(out / "toy")
    assert loaded.to_dict() == second.to_dict()
    assert loaded.figures == (("values", "Values of <all> seeds & more"),)
    assert experiments.run("toy", quick=True, out=out).parameters["seeds"] == 2


def test_repeated_figures_are_the_same(toy, out):
    first = experiments.run("toy", True, out)
    before = (first.folder / "values.svg").read_bytes()
    experiments.run("toy", True, out)
    assert (first.folder / "values.svg").read_bytes() == before


def test_data_of_parts_are_archives_of_numpy(toy, out):
    report = experiments.run("toy", out=out)
    files = sorted((report.folder / "parts").glob("numbers-*.npz"))
    values = [float(np.load(file)["value"]) for file in files]
    assert np.mean(values) == pytest.approx(report.rows["mean"].value)
    assert report.rows["mean"].error == pytest.approx(np.std(values, ddof=1) / 2)
    assert report.rows["mean"].runs == len(files) == 4


def test_claims_as_a_table(toy, ledger, out):
    report = experiments.run("toy", True, out, {"wrong": True})
    found = pd.read_csv(report.folder / "claims.csv")
    assert found["id"].tolist() == ["doubles", "negative", "spread", "nothing"]
    assert found["kind"].tolist() == ["sentence", "equation", "finding", "finding"]
    assert found["verdict"].fillna("").tolist() == ["reproduced", "not decided", "", ""]
    assert found["holds"].isna().tolist() == [False, True, True, True]
    assert found["quote"].tolist()[2:] == ["Spread over seeds", "nothing"]
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
    assert resumed.rows == experiments.run("toy", out=out.with_name("fresh")).rows


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
        ('yield "mean", values(data)', 'yield "mean", 2 * values(data)'),
    ],
    ids=["comment", "format", "docstring", "caption", "row"],
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


def test_quick_forms_and_changed_parameters_contradict_nothing(toy, ledger, out):
    full = experiments.run("toy", out=out)
    assert [c.verdict for c in full.claims] == ["reproduced", "contradicted", ""]
    assert [c.holds for c in full.claims] == [True, False, None]
    for report in (experiments.run("toy", True, out), experiments.run("toy", out=out, changes={"seeds": 3})):
        assert [c.verdict for c in report.claims] == ["reproduced", "not decided", ""]


def test_rows_without_a_number_survive_json(toy, out, strict):
    found = experiments.run("toy", True, out, {"wrong": True})
    text = (found.folder / "result.json").read_text()
    assert strict(text)["rows"]["nothing"] == {"value": None, "error": None, "runs": 1}
    assert np.isnan(Report.load(found.folder).rows["nothing"].value)


def test_two_rows_with_one_id_are_refused(toy, out, monkeypatch):
    monkeypatch.setattr(toy, "again", toy.measured, raising=False)
    with pytest.raises(InputError, match="toy: two rows have the id 'mean'"):
        experiments.run("toy", True, out)


def test_a_verdict_that_differs_from_the_stored_one_is_seen(toy, ledger, out):
    quick = experiments.run("toy", True, out)
    assert unexpected(quick) == []  # nothing is stored
    (ledger / "quick.json").write_text(json.dumps({"toy": {"toy/doubles": "in direction"}}))
    results.stored.cache_clear()
    assert [(c.path, before) for c, before in unexpected(quick)] == [("toy/doubles", "in direction")]
    full = experiments.run("toy", out=out)
    kept = {"rows": {"mean": {"value": -2.0, "error": 0.1, "runs": 4}}}
    (ledger / "toy.json").write_text(json.dumps(kept))
    results.stored.cache_clear()
    results.stored_rows.cache_clear()
    assert [before for _, before in unexpected(full)] == ["not decided", "reproduced"]
    assert unexpected(experiments.run("toy", out=out, changes={"seeds": 3})) == []


def test_wrong_runs_are_refused(toy, tmp_path):
    with pytest.raises(InputError, match="no experiment 'tay'; there are toy"):
        experiments.run("tay", out=tmp_path)
    with pytest.raises(InputError, match="toy: scale must be greater than 0"):
        experiments.run("toy", out=tmp_path, changes={"scale": -1})
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="out must be a folder that can be written"):
        experiments.run("toy", out=tmp_path / "file" / "below")
    assert toy.CALLS == []


# -- experiments of one's own ----------------------------------------------------------------


def test_an_experiment_in_a_file_of_ones_own(out):
    report = experiments.run(
        "examples/bottleneck.py", out=out, changes={"seeds": 2, "hidden": 6, "narrow": (1, 3)}
    )
    assert report.name == "bottleneck"
    values = [row.value for row in report.rows.values()]
    assert values[:3] == pytest.approx([1, 1, 0], abs=1e-3)
    assert values[3] > 1
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
    fill("toy", True, tmp_path, {"seeds": 2})
    assert toy.CALLS == [0, 1]
    assert not list(tmp_path.glob("*/result.json"))
    experiments.run("toy", True, tmp_path, {"seeds": 3})
    experiments.run("toy", True, tmp_path, {"seeds": 2})
    assert toy.CALLS == [0, 1, 0, 1, 2]
