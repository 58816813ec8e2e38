"""The command `neuralrace`: list, show, run and report."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import neuralrace_papers as experiments
from neuralrace import cli
from neuralrace_papers import commands, running
from neuralrace_papers.commands import value_text


def test_show(toy, command):
    status, text, err = command("show", "toy")
    assert (status, err) == (0, "")
    title, source, takes, _, head, *rows = text.splitlines()
    assert title == "toy: A toy & its title"
    assert source == "reproduces: toy Fig. 1"
    assert takes == "takes: quick 1 s, full 3 min, on two cores"
    assert head.split() == ["parameter", "default", "quick", "meaning"]
    cells = [re.split(r"\s{2,}", row) for row in rows[:4]]
    assert cells == [
        ["seeds", "4", "2", "random starts of each network"],
        ["scale", "2", "factor of all numbers"],
        ["sizes", "1,2", "sizes that nothing uses"],
        ["wrong", "false", "measure nothing too"],
    ]
    status, text, err = command("show", "tay")
    assert (status, text) == (2, "")
    assert "there is no experiment 'tay'; there are toy" in err


def test_list_imports_nothing():
    code = (
        "import sys; from neuralrace_papers.command import list_experiments; list_experiments(None); "
        "assert not {'neuralrace', 'numpy', 'jax'} & set(sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rows = [line.split()[0] for line in run.stdout.split("\n\n")[0].splitlines()]
    assert rows == ["name", *experiments.names()]
    assert "xor" in rows
    for name in ("xor", "two-point"):
        assert experiments.experiment(name).title in run.stdout


def test_run_tells_claims(toy, ledger, out, command):
    status, text, err = command("run", "toy", "--out", out)
    assert (status, err) == (0, "")
    title, *claims, last = text.splitlines()
    assert title.startswith("toy: A toy & its title (")
    number = r"[\d.]+ ± [\d.]+ \(4 runs\)"
    assert re.fullmatch(rf"  reproduced     doubles: {number} \(reproduced: 2 ± 0.1\)", claims[0])
    assert re.fullmatch(rf"  contradicted   negative: {number} \(reproduced: below 0\)", claims[1])
    assert claims[2].startswith("  finding        spread: 0.0")
    assert last == f"report: {out / 'report.html'}"


def test_many_experiments_are_told_in_a_summary(toy, ledger, out, command, monkeypatch):
    monkeypatch.setattr(commands, "TOLD", 0)
    status, text, err = command("run", "toy", "--out", out)
    assert (status, err) == (0, "")
    assert text.splitlines()[1:-1] == [
        "Verdicts on the documents, by the stored results of the full forms:",
        "  toy: 2 not decided",
    ]


def test_run_json(toy, ledger, out, command, strict):
    status, text, err = command("run", "toy", "--quick", "--json", "--out", out, "--set", "wrong=true")
    assert (status, err) == (0, "")
    (found,) = strict(text).values()
    keys = {"id", "kind", "document", "quote", "place", "setting", "row", "value", "error", "runs"}
    assert all(c.keys() == keys | {"criterion", "verdict", "holds", "note"} for c in found["claims"])
    assert [c["holds"] for c in found["claims"]] == [True, None, None, None]
    assert [c["row"] for c in found["claims"]] == ["toy/mean", "toy/mean", "toy/spread", "toy/nothing"]
    assert found["claims"][3]["value"] is None
    assert found["seconds"] > 0
    folder = out / "toy-quick-wrong=true"
    assert Path(found["folder"]) == folder
    assert [Path(f) for f in found["figures"]] == [folder / "values.svg"]
    assert all(Path(f).is_file() for f in found["figures"])


def test_a_changed_verdict_ends_with_1(toy, ledger, out, command):
    (ledger / "quick.json").write_text('{"toy": {"toy/doubles": "misprint"}}')
    status, text, _ = command("run", "toy", "--quick", "--out", out)
    assert status == 1
    assert "toy: toy/doubles was 'misprint' when this form was stored, and is 'reproduced'" in text


def test_show_tells_every_parameter_of_every_experiment(command):
    for name in experiments.names():
        status, text, _ = command("show", name)
        assert status == 0
        reference, shown = text.splitlines()[2], [line.split()[0] for line in text.splitlines()[6:-2]]
        assert re.match(
            r"(neural_race|make_haste_slowly|multipathway|talk|representations_align): \w+", reference
        )
        assert shown == list(vars(experiments.experiment(name).parameters))


def test_values_are_shown_as_they_can_be_set():
    assert value_text((0.5, 1e-5)) == "0.5,1e-05"
    assert value_text(tuple(range(9))) == "0,1,2,...,7,8"
    assert (value_text(True), value_text(""), value_text("flow")) == ("true", "(empty)", "flow")


def test_seeds_and_set(toy, out, command, strict):
    arguments = ("--out", out, "--json", "--seeds", 3, "--set", "scale=5", "--set", "toy.sizes=7,8")
    status, text, _ = command("run", "toy", *arguments)
    assert status == 0
    changed = {"seeds": 3, "scale": 5.0, "sizes": [7, 8], "wrong": False}
    assert strict(text)["toy"]["parameters"] == changed
    status, _, err = command("run", "--all", "--out", out)
    assert (status, err) == (0, "")
    folders = {p.name for p in out.iterdir() if p.is_dir()}
    assert folders == {"toy", "toy-seeds=3-scale=5-sizes=7,8"}


def test_settings_of_one_of_several(other, out, command, strict):
    arguments = ("--jobs", "1", "--quick", "--json", "--out", out, "--set", "other.scale=3")
    status, text, _ = command("run", "toy", "other", *arguments)
    assert status == 0
    assert [r["parameters"]["scale"] for r in strict(text).values()] == [2.0, 3.0]
    status, _, err = command("run", "toy", "--out", out, "--set", "other.scale=3")
    assert status == 2
    assert "'other' is not among the experiments to run" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name the experiments to run, or give --all"),
        (("toy", "--all"), "name the experiments to run, or give --all"),
        (("tay",), "there is no experiment 'tay'; there are toy"),
        (("toy", "--set", "speed=1"), "'speed', which is no parameter of this experiment"),
        (("toy", "--set", "scale=fast"), "toy: scale must be a number, got 'fast'"),
        (("toy", "--set", "scale"), "--set must be KEY=VALUE, got 'scale'"),
        (("toy", "--set", "=3"), "--set must be KEY=VALUE, got '=3'"),
        (("toy", "--set", "tay.scale=1"), "'tay' is not among"),
        (("toy", "--seeds", "many"), "toy: seeds must be a whole number, got 'many'"),
        (("toy", "--seeds", "0"), "toy: seeds must be at least 1"),
    ],
)
def test_wrong_usage(toy, out, command, arguments, message):
    status, text, err = command("run", "--out", out, *arguments)
    assert (status, text) == (2, "")
    assert err.startswith("neuralrace: ")
    assert message in err
    assert toy.CALLS == []
    assert not out.exists()


@pytest.mark.parametrize("arguments", [(), ("fly",), ("run", "toy", "--fast"), ("reduce",), ("show",)])
def test_what_argparse_refuses(toy, capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(list(arguments))
    assert stop.value.code == 2
    assert "usage: neuralrace" in capsys.readouterr().err


def test_unwritable_folder(toy, tmp_path, command):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        status, _, err = command("run", "toy", "--quick", "--out", folder)
        assert status == 2
        assert "out must be a folder that can be written" in err
    assert toy.CALLS == []


def test_report_command(toy, out, command):
    status, _, err = command("report", "--out", out)
    assert status == 2
    assert "there are none in" in err
    out.mkdir()
    status, _, err = command("report", "--out", out)
    assert status == 2
    assert "there are none in" in err
    assert list(out.iterdir()) == []
    experiments.run("toy", True, out)
    status, text, err = command("report", "--out", out)
    assert (status, text, err) == (0, f"report: {out / 'report.html'}\n", "")


def test_experiments_side_by_side(out, command):
    small = ("--seeds", "2", "--set", "contextual.samples=50", "--set", "linear-background.hidden=8")
    names = ("linear-background", "contextual")
    status, text, err = command("run", *names, "--quick", *small, "--jobs", "3", "--out", out)
    assert (status, err) == (0, "")
    titles = [line.split(":")[0] for line in text.splitlines() if line.endswith(" s)")]
    assert titles == list(names)
    again = command("run", *names, "--quick", *small, "--jobs", "1", "--out", out)
    assert [c for c in again[1].splitlines() if c[0] == " "] == [c for c in text.splitlines() if c[0] == " "]
    status, _, err = command("run", *names, "--jobs", "0", "--out", out)
    assert (status, err) == (2, "neuralrace: --jobs must be at least 1, got 0\n")


@pytest.mark.parametrize("broken", [["toy"], ["toy", "other"]])
def test_an_experiment_that_stops_leaves_the_others(other, toy, out, command, monkeypatch, broken):
    run = running.run

    def breaks(name, *arguments, **more):
        if name in broken:
            raise ZeroDivisionError("nothing to divide")
        return run(name, *arguments, **more)

    monkeypatch.setattr(running, "run", breaks)
    status, text, err = command("run", "toy", "other", "--quick", "--jobs", "1", "--out", out)
    assert status == 1
    assert (out / "report.html").exists() == (broken == ["toy"])
    assert ("other: A toy" in text) == (broken == ["toy"])
    assert "toy stopped:\nTraceback" in err
    assert "ZeroDivisionError: nothing to divide" in err
    assert f"{len(broken)} of 2 experiments could not be finished: {', '.join(broken)};" in err


def test_interrupt(toy, out, command):
    toy.BREAK.append(1)
    status, text, err = command("run", "toy", "--quick", "--out", out)
    assert (status, text) == (130, "")
    assert err == "neuralrace: interrupted; the same command goes on from what was finished\n"
    toy.BREAK.clear()
    assert command("run", "toy", "--quick", "--out", out)[0] == 0
    assert toy.CALLS == [0, 1]


def test_a_reader_that_leaves_early_is_no_error():
    code = "import sys; from neuralrace.cli import main; sys.exit(main(['--version']))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("neuralrace ")
    code = (
        "import os, sys; from neuralrace.cli import main; r, w = os.pipe(); os.close(r); os.dup2(w, 1); "
        "sys.exit(main(['list']))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_workers_that_are_ended_leave_no_semaphores_of_progress_bars(tmp_path):
    code = """
import os
from multiprocessing import get_context

from neuralrace_papers.commands import begin_worker

if __name__ == "__main__":
    pool = get_context("spawn").Pool(1, begin_worker, (os.getpid(),))
    pool.apply(exec, ("from tqdm import tqdm; list(tqdm([1], disable=True))",))
    pool.terminate()
    pool.join()
"""
    (tmp_path / "pool.py").write_text(code)
    run = subprocess.run([sys.executable, tmp_path / "pool.py"], capture_output=True, text=True, check=True)
    assert run.stderr == ""
