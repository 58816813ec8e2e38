"""Sweeps: equal to calls in a loop, and safe against whatever stops them."""

import errno
import importlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
import types
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import neuralrace as nr
from neuralrace.apps.sweep import folder as folder_module
from neuralrace.apps.sweep.axes import Grid, read_axis
from neuralrace.apps.sweep.run import FAILED, compute
from neuralrace.errors import InputError
from neuralrace.identity import INSTALLED, identity

XOR = nr.tasks.xor()
TASKS = {k: nr.tasks.routing(3, k, items=2, hidden=(5, 5)) for k in (1, 2)}


def one_run(scale, trained, seed):
    task = TASKS[trained]
    return nr.Run(task, nr.init.orthogonal(task.graph, scale, seed=seed), t1=20.0, save=5)


def small_run(std, seed):
    task = nr.tasks.xor(hidden=3)
    return nr.Run(task, nr.init.gaussian(task.graph, std, seed=seed), t1=60.0, save=50)


def own_data(delta, seed):
    """Tasks of one program with data of their own."""
    task = nr.tasks.separability(delta)
    start = nr.init.gaussian(task.graph, 0.1, seed=seed)
    return nr.Run(task, start, measure=lambda run: {"loss": run.loss}, t1=20.0, save=5)


class Calls(list):
    """A list that decides nothing: copies of it are empty."""

    stop = None  # the call that is interrupted

    def __reduce_ex__(self, protocol):
        return Calls, ()


def counted(calls):
    def function(std, seed):
        calls.append((std, seed))
        task = nr.tasks.xor()
        if std == 0.3 and seed == 1:
            raise RuntimeError("this one cannot be described")
        return nr.Run(task, nr.init.gaussian(task.graph, std, seed=seed), t1=5.0, save=3)

    return function


OVER = {"std": [0.1, 0.3]}


def test_equals_calls_in_a_loop(tmp_path):
    ds = nr.sweep(one_run, {"scale": [0.1, 0.5], "trained": [1, 2]}, seeds=2, out=tmp_path / "a", batch=3)
    assert ds.half_time.dims == ("scale", "trained", "seed")
    for scale in (0.1, 0.5):
        for trained in (1, 2):
            for seed in (0, 1):
                run = one_run(scale, trained, seed)
                alone = nr.flow(run.task, run.weights, t1=20.0, save=5)
                here = ds.sel(scale=scale, trained=trained, seed=seed)
                assert here.final_loss == pytest.approx(alone.loss[-1], rel=1e-9, abs=1e-14)
                middle = (alone.loss[0] + alone.loss[-1]) / 2
                assert here.half_time == pytest.approx(nr.learning_time(alone, middle), rel=1e-9)
                assert here.status == "FINISHED"
    table = pd.read_parquet(tmp_path / "a" / "runs.parquet")
    assert len(table) == 8
    assert {"scale", "trained", "seed", "status", "seconds", "error", "version_jax"} <= set(table)
    again = xr.open_zarr(tmp_path / "a" / "data.zarr", chunks=None)
    xr.testing.assert_equal(again.load(), ds.load())


def test_descent_and_own_process():
    task = nr.tasks.xor()
    w = nr.init.gaussian(task.graph, 0.1)

    def described(lr):
        return nr.Run(task, w, process=nr.descend, lr=lr, steps=10, save=2)

    def reduced(t1):
        solve = lambda task, w, t1: nr.reduce(task, weights=w).solve(t1=t1, save=3)  # noqa: E731
        return nr.Run(task, w, process=solve, t1=t1)

    ds = nr.sweep(described, {"lr": [0.1, 0.2]})
    assert ds.final_loss[1] == pytest.approx(nr.descend(task, w, lr=0.2, steps=10, save=2).loss[-1])
    ds = nr.sweep(reduced, {"t1": [1.0, 2.0]})
    assert ds.final_loss[0] == pytest.approx(nr.reduce(task, weights=w).solve(t1=1.0, save=3).loss[-1])


def test_zipped_axes_and_padding():
    def described(depth, width, seed):
        task = nr.tasks.hierarchy(2, graph=nr.Graph.chain([2, *(depth - 1) * [width], 3]))
        measure = lambda run: {"layers": [float(np.abs(w[-1]).max()) for w in run.weights.values()]}  # noqa: E731
        return nr.Run(task, nr.init.xavier(task.graph, seed=seed), measure, t1=1.0, save=2)

    ds = nr.sweep(described, {"depth": [2, 3], "width": [4, 6]}, seeds=[3], zipped=[("depth", "width")])
    assert dict(ds.sizes) == {"depth": 2, "seed": 1, "layers_0": 3}
    assert ds.width.dims == ("depth",)
    assert np.isnan(ds.layers.values[0, 0]).tolist() == [False, False, True]


def test_failures_are_recorded_and_retried(tmp_path):
    calls = Calls()
    ds = nr.sweep(counted(calls), OVER, seeds=2, out=tmp_path / "a")
    assert ds.status.values.tolist() == [["FINISHED", "FINISHED"], ["FINISHED", FAILED]]
    assert np.isnan(ds.final_loss[1, 1])
    table = pd.read_parquet(tmp_path / "a" / "runs.parquet")
    assert "RuntimeError: this one cannot be described" in table.message[3]
    before = len(calls)
    nr.sweep(counted(calls), OVER, seeds=2, out=tmp_path / "a")
    assert len(calls) == before + 1  # the first point is described to know how large a run is
    nr.sweep(counted(calls), OVER, seeds=2, out=tmp_path / "a", retry_failed=True)
    assert calls[-1] == (0.3, 1)


@pytest.mark.parametrize("batch", [4, None])
def test_scattered_failures_are_retried_and_nothing_is_lost(tmp_path, batch):
    healthy = Calls()

    def described(k):
        if k % 10 == 0 and not healthy:
            raise RuntimeError("not today")
        return one_std(0.1 + 0.01 * k, seed=0)

    over = {"k": range(24)}
    first = nr.sweep(described, over, out=tmp_path / "a", batch=batch).load()
    assert np.flatnonzero(first.status == FAILED).tolist() == [0, 10, 20]
    healthy.append(True)
    again = nr.sweep(described, over, out=tmp_path / "a", batch=batch, retry_failed=True)
    assert (again.status == "FINISHED").all()
    assert np.isfinite(again.half_time).all()
    kept = first.status == "FINISHED"
    np.testing.assert_array_equal(first.half_time[kept], again.half_time[kept])


def test_a_process_that_returns_something_else_is_recorded():
    task = nr.tasks.xor()
    wrong = nr.Run(task, nr.init.gaussian(task.graph, 0.1), process=lambda task, weights: None)
    (record,) = compute(lambda: wrong, [{}])
    assert record.status == FAILED
    assert "process must return a Trajectory" in record.message


def test_a_run_that_diverges_says_so():
    def described(lr):
        task = nr.tasks.xor()
        w = nr.init.gaussian(task.graph, 0.5)
        return nr.Run(task, w, process=nr.descend, lr=lr, steps=200, save=3)

    ds = nr.sweep(described, {"lr": [0.01, 1e4]})
    assert ds.status.values.tolist() == ["FINISHED", "DIVERGED"]
    assert np.isnan(ds.final_loss.values).tolist() == [False, True]  # not the loss before it diverged
    assert np.isnan(ds.half_time.values).tolist() == [False, True]


def test_one_bad_run_of_a_batch(monkeypatch):
    """A batch that raises is computed run by run."""

    def described(std, seed):
        def measure(run):
            if seed == 1:
                raise ZeroDivisionError
            return {"end": run.loss[-1]}

        task = TASKS[1]
        return nr.Run(task, nr.init.orthogonal(task.graph, std, seed=seed), measure, t1=1.0, save=2)

    records = compute(described, [{"std": 0.1, "seed": k} for k in range(3)])
    assert [r.status for r in records] == ["FINISHED", FAILED, "FINISHED"]
    assert "ZeroDivisionError" in records[1].message


def interrupted(calls):
    """A function that is interrupted in one of its calls."""

    def function(std, seed):
        calls.append((std, seed))
        if len(calls) == calls.stop:
            raise KeyboardInterrupt
        task = nr.tasks.xor()
        return nr.Run(task, nr.init.gaussian(task.graph, std, seed=seed), t1=5.0, save=3)

    return function


def test_interrupt_and_resume(tmp_path):
    calls = Calls()
    calls.stop = 3
    with pytest.raises(KeyboardInterrupt):
        nr.sweep(interrupted(calls), OVER, seeds=2, out=tmp_path / "a", batch=1)
    assert len(list((tmp_path / "a" / "pieces").iterdir())) == 2
    calls.clear()
    calls.stop = None
    ds = nr.sweep(interrupted(calls), OVER, seeds=2, out=tmp_path / "a", batch=1)
    assert calls == [(0.3, 0), (0.3, 1)]
    assert (ds.status == "FINISHED").all()
    whole = nr.sweep(interrupted(Calls()), OVER, seeds=2, out=tmp_path / "b", batch=1)
    np.testing.assert_array_equal(ds.half_time, whole.half_time)


def measured_anew(std, seed):
    """A run whose measure solves others, which count as evaluations too."""
    task = nr.tasks.xor(hidden=3)

    def measure(run):
        last = {e: w[-1] for e, w in run.weights.items()}
        again = nr.flow(task, last, t1=3.0, save=3)
        return {"loss": run.loss, "again": again.loss, "slope": nr.gradient(task, last)["x->p0h1"]}

    return nr.Run(task, nr.init.gaussian(task.graph, std, seed=seed), measure, t1=20.0, save=5)


@pytest.mark.parametrize(("function", "jobs"), [(small_run, 1), (small_run, 2), (measured_anew, 1)])
def test_a_sweep_in_two_processes_equals_that_in_one(function, jobs, tmp_path):
    over = {"std": [0.05, 0.1, 0.2, 0.4]}
    whole = nr.sweep(function, over, seeds=24, out=tmp_path / "whole", batch=2, jobs=1)
    shutil.copytree(tmp_path / "whole", tmp_path / "half")
    for piece in sorted((tmp_path / "half" / "pieces").iterdir())[::2]:
        piece.unlink()  # as if never computed
    again = nr.sweep(function, over, seeds=24, out=tmp_path / "half", batch=2, jobs=jobs)
    xr.testing.assert_equal(whole.drop_vars("seconds"), again.drop_vars("seconds"))


def test_changed_definition_is_refused(tmp_path):
    nr.sweep(counted(Calls()), {"std": [0.1]}, seeds=1, out=tmp_path / "a")
    with pytest.raises(InputError, match=r"(?s)defined otherwise.*\+.*0\.2"):
        nr.sweep(counted(Calls()), {"std": [0.1, 0.2]}, seeds=1, out=tmp_path / "a")
    with pytest.raises(InputError, match=r"(?s)defined otherwise.*-.*calls.append"):
        nr.sweep(one_std, {"std": [0.1]}, seeds=1, out=tmp_path / "a")


def one_std(std, seed):
    task = nr.tasks.xor()
    return nr.Run(task, nr.init.gaussian(task.graph, std, seed=seed), t1=5.0, save=3)


def test_another_version_is_refused(tmp_path):
    nr.sweep(one_std, {"std": [0.1]}, seeds=1, out=tmp_path / "a")
    file = tmp_path / "a" / "definition.json"
    stored = json.loads(file.read_text()) | {"neuralrace": "0.0.1"}
    file.write_text(json.dumps(stored, indent=1, sort_keys=True))
    with pytest.raises(InputError, match=r"(?s)defined otherwise.*0\.0\.1"):
        nr.sweep(one_std, {"std": [0.1]}, seeds=1, out=tmp_path / "a")


def test_corrupted_piece_is_computed_again(tmp_path):
    first = nr.sweep(one_std, OVER, seeds=2, out=tmp_path / "a", batch=2).load()
    for damage in (
        lambda piece: piece.write_bytes(piece.read_bytes()[:200]),
        lambda piece: np.savez(piece, a=1),
    ):
        damage(sorted((tmp_path / "a" / "pieces").iterdir())[1])
        with pytest.warns(UserWarning, match="computed again"):
            again = nr.sweep(one_std, OVER, seeds=2, out=tmp_path / "a", batch=2).load()
        np.testing.assert_array_equal(first.final_loss, again.final_loss)


def test_two_sweeps_in_one_folder(tmp_path):
    held = folder_module.Folder(tmp_path / "a", Grid.of({"std": [0.1]}, seeds=1), {"function": "another"})
    with held.opened(), pytest.raises(InputError, match="no other sweep is using"):
        nr.sweep(one_std, {"std": [0.1]}, seeds=1, out=tmp_path / "a")


def test_folders_that_cannot_be_used(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match=r"thesis\.tex"):
        nr.sweep(one_std, {"std": [0.1]}, seeds=1, out=other)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="folder that can be written"):
        nr.sweep(one_std, {"std": [0.1]}, seeds=1, out=tmp_path / "file" / "a")


def test_disk_full_loses_nothing(tmp_path, monkeypatch):
    real, written = folder_module.write, []

    def write(path, fill):
        if path.suffix == ".npz" and len(written) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(path)
        real(path, fill)

    monkeypatch.setattr(folder_module, "write", write)
    with pytest.raises(OSError, match=r"No space left.*goes on from there"):
        nr.sweep(one_std, OVER, seeds=2, out=tmp_path / "a", batch=1)
    monkeypatch.setattr(folder_module, "write", real)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "a" / "pieces").iterdir()}
    assert len(before) == 2
    ds = nr.sweep(one_std, OVER, seeds=2, out=tmp_path / "a", batch=1)
    assert (ds.status == "FINISHED").all()
    assert all(p.stat().st_mtime_ns == at for p, at in before.items())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"function": 3}, "function must describe"),
        ({"over": {"std": 0.1}}, "must be a list of values"),
        ({"over": {"std": []}}, "must list numbers"),
        ({"over": {"std": [0.1, 0.1]}}, "different values"),
        ({"over": {"status": [1]}}, "must not use 'status'"),
        ({"over": {"other": [0.1]}}, "parameters of the function"),
        ({"over": {}, "seeds": None}, "over must be a dict"),
        ({"zipped": [("std", "nothing")]}, "nothing"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"jobs": -1}, "jobs must be at least 1"),
        ({"jobs": 1, "cluster": "tcp://127.0.0.1:1"}, "jobs must not be given"),
        ({"jobs": 2**31}, "jobs must be at most 1024"),
        ({"cluster": 3}, "cluster must be the address .* got 3"),
        ({"cluster": ""}, "cluster must be the address"),
        ({"out": 3}, "out must be the name of a folder, got 3"),
        ({"out": ""}, "out must be the name of a folder"),
        ({"out": "a\0b"}, "out must be a folder that can be written"),
        ({"out": 300 * "a"}, "out must be a folder that can be written"),
        ({"retry_failed": "no"}, "retry_failed must be True or False"),
        ({"progress": []}, "progress must be True or False"),
        ({"zipped": None}, "zipped must be a list of groups of parameters, got None"),
        ({"zipped": ("std", "seed")}, "each group of zipped must be a list of parameters, got 'std'"),
        ({"zipped": [[["std"], {}]]}, "zipped names"),
        ({"over": {"std": [[0.1], [0.1, 0.2]]}}, r"over\['std'\] must list numbers"),
        ({"over": {"std": np.ma.array([0.1, 0.2], mask=[0, 1])}}, "no masked entries"),
        ({"over": {"std": [0.1, np.ma.masked]}}, "no masked entries"),
        ({"over": {"std": np.array(0.1)}}, "must be a list of values"),
        ({"over": {"std": [0.1, np.nan]}}, "must list numbers"),
        ({"over": {"std": [0.1, "a"]}}, "must list numbers"),
        ({"over": {"std": itertools.count()}}, "at most 1,000,000 values"),
        ({"over": {"std": range(1001)}, "seeds": 1000}, "at most 1,000,000 runs, got 1,001,000"),
        ({"seeds": 2**31}, "seeds must be at most 1000000, got 2147483648"),
        ({"seeds": [1.5]}, "seeds must be a whole number, got 1.5"),
        ({"seeds": ["x"]}, "seeds must be a whole number, got 'x'"),
        ({"seeds": [np.nan]}, "seeds must list numbers"),
        ({"seeds": [True]}, "seeds must be a whole number, got True"),
        ({"seeds": [-1]}, "seeds must be at least 0"),
        ({"seeds": [[1], [1, 2]]}, "seeds must list numbers"),
        ({"seeds": np.ma.array([1, 2], mask=[0, 1])}, "seeds must have no masked entries"),
        ({"seeds": np.array(2)}, "seeds must be a whole number"),
    ],
)
def test_wrong_arguments(arguments, message):
    def described(std, seed):
        pytest.fail("wrong arguments must be refused before a run is described")

    given = {"function": described, "over": {"std": [0.1]}, "seeds": 1} | arguments
    with pytest.raises(InputError, match=message):
        nr.sweep(**given)


@pytest.mark.parametrize(
    ("found", "clash"), [({"std": 1.0}, "std"), ({"steps": 1.0}, "steps"), ({"a": [1.0], "a_0": 1.0}, "a_0")]
)
def test_measures_have_names_of_their_own(found, clash):
    def described(std):
        task = nr.tasks.xor()
        return nr.Run(task, nr.init.gaussian(task.graph, std), lambda run: found, t1=1.0, save=2)

    with pytest.raises(InputError, match=f"measure must not return .* called '{clash}'"):
        nr.sweep(described, {"std": [0.1]})


@pytest.mark.parametrize(
    "against",
    [3, [], ["k", "k"], ["k", "seed", "k"], [["k"]], {}, np.array(1), np.ones(2), "x", b"k", np.ma.masked],
)
def test_wrong_axes_of_a_figure(against):
    ds = xr.Dataset({"time": (("k", "seed"), np.ones((2, 2)))})
    with pytest.raises(InputError, match="against must"):
        nr.sweep_figure(ds, "time", against)
    with pytest.raises(InputError, match="ds must be the result of a sweep"):
        nr.sweep_figure(against, "time")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("k=1:3", ("k", [1, 2, 3])),
        ("k=1,2.5", ("k", [1, 2.5])),
        ("k=log:1:100:3", ("k", [1.0, 10.0, 100.0])),
        ("k=a,1", ("k", ["a", "1"])),
    ],
)
def test_axes_of_the_command(text, found):
    assert read_axis(text) == found


@pytest.mark.parametrize("text", ["k", "=1", "k=", "k=log:1:2", "k=log:0:2:3", "k=a:b", "k=log:1:2:1"])
def test_wrong_axes_of_the_command(text):
    with pytest.raises(InputError, match="--over"):
        read_axis(text)


def test_figure(tmp_path):
    ds = nr.sweep(one_run, {"scale": [0.1, 0.3, 0.5], "trained": [1, 2]}, seeds=2)
    figure = nr.sweep_figure(ds, "half_time")
    (ax,) = figure.axes
    assert ax.get_xlabel() == "scale"
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["trained = 1", "trained = 2"]
    ds = ds.assign(half_time=ds.half_time.where(ds.scale > 0.1))
    assert (
        "4 of 12 values are missing"
        in nr.sweep_figure(ds, "half_time").axes[0].get_legend().get_title().get_text()
    )
    with pytest.raises(InputError, match="measure"):
        nr.sweep_figure(ds, "status")


def test_figure_of_an_experiment():
    """The band is the deviation over its seeds; ticks of whole numbers are whole numbers."""
    claim = {"time": ("trained", [3.0, 2.0]), "spread:time": ("trained", [0.5, 0.25])}
    (ax,) = nr.sweep_figure(xr.Dataset(claim, {"trained": [1, 2]}), "time").axes
    corners = ax.collections[0].get_paths()[0].vertices
    assert {2.5, 3.5, 1.75, 2.25} <= set(corners[:, 1].tolist())
    assert ax.get_legend().get_title().get_text() == "band: standard deviation over seeds"
    assert all(float(tick).is_integer() for tick in ax.get_xticks())


def test_processes(tmp_path):
    """Two processes, one of which ends at once, as if killed."""
    marker = tmp_path / "killed"

    def described(std, seed):
        import signal

        if seed == 1 and not Path(marker).exists():
            Path(marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        task = nr.tasks.xor()
        return nr.Run(task, nr.init.gaussian(task.graph, std, seed=seed), t1=2.0, save=2)

    ds = nr.sweep(described, {"std": [0.1]}, seeds=3, out=tmp_path / "a", jobs=2, batch=1)
    assert (ds.status == "FINISHED").all()
    alone = described(0.1, 2)
    assert ds.final_loss[0, 2] == pytest.approx(alone.solve().loss[-1], rel=1e-9)


def test_a_run_that_ends_its_process_has_failed(tmp_path):
    def described(std, seed):
        if seed == 4:
            os._exit(3)
        task = nr.tasks.xor()
        return nr.Run(task, nr.init.gaussian(task.graph, std, seed=seed), t1=2.0, save=2)

    ds = nr.sweep(described, {"std": [0.1]}, seeds=range(1, 10), out=tmp_path / "a", jobs=2, batch=2)
    assert ds.seed.values[(ds.status == FAILED).values[0]].tolist() == [4]
    assert (ds.status == "FINISHED").sum() == 8
    assert "ended before" in pd.read_parquet(tmp_path / "a" / "runs.parquet").message[3]


class Unreadable:
    """Something that other processes cannot read."""

    def __reduce__(self):
        return int, ("no number",)


def test_a_function_that_processes_cannot_read_is_no_failure_of_its_runs(tmp_path):
    def described(std, seed, more=Unreadable()):  # noqa: B008
        return one_std(std, seed)

    with pytest.raises(OSError, match="un-serialize"):
        nr.sweep(described, OVER, seeds=2, out=tmp_path / "a", jobs=2, batch=1)


def test_processes_start_anew_where_a_module_of_the_user_changed(tmp_path, monkeypatch):
    from neuralrace.apps.sweep.verb import _environment

    file = tmp_path / "module_of_a_user.py"
    file.write_text("scale = 1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, file.stem, importlib.import_module(file.stem))
    before = _environment()
    assert _environment() == before
    os.utime(file, (0, 0))
    assert _environment() != before


def made(k):
    """Tasks made anew for each run, of two kinds, from moments and from samples."""
    kinds = (nr.tasks.routing, 3, 1), (nr.tasks.routing, 3, 2), (nr.tasks.separability, 0.5)
    make, *given = kinds[k % 3]
    task = make(*given, hidden=(5, 5)) if make is nr.tasks.routing else make(*given)
    return nr.Run(task, nr.init.gaussian(task.graph, 0.1, seed=k), t1=2.0, save=2)


def test_runs_on_one_graph_are_computed_in_one_call(monkeypatch):
    """Whatever lies between them in the grid; and with the same numbers as alone."""
    from neuralrace.apps.sweep import run as module

    calls, together = Calls(), module._together
    monkeypatch.setattr(module, "_together", lambda runs: calls.append(len(runs)) or together(runs))
    monkeypatch.setattr(module, "_AT_ONCE", 4)
    records = compute(made, [{"k": k} for k in range(15)])
    assert calls == [4, 4, 2, 4, 1]
    for k in (0, 1, 14):
        assert records[k].values is not None
        assert records[k].values["final_loss"] == made(k).solve().loss[-1]


def test_runs_that_differ_in_more_than_weights_and_data_are_computed_alone(monkeypatch):
    from neuralrace.apps.sweep import run as module

    calls, together = Calls(), module._together
    monkeypatch.setattr(module, "_together", lambda runs: calls.append(len(runs)) or together(runs))

    def described(k):
        options = {"t1": 1.0 + (k == 1), "save": 2}
        if k == 2:
            options["record"] = lambda state: {}
        weight = [1.0, 1.0, 1.0, 2.0] if k == 3 else None
        task = nr.Task(XOR.graph, *XOR.arrays, sample_weight=weight)
        return nr.Run(task, nr.init.gaussian(task.graph, 0.1, seed=k), **options)

    compute(described, [{"k": k} for k in range(5)])
    assert calls == [3, 1, 1]  # the first and the last two


def scaled(seed, lr=1.0):
    task = nr.tasks.xor()
    return nr.Run(task, nr.init.gaussian(task.graph, 0.1, seed=seed), t1=lr, save=3)


def made_by_exec(t1):
    names = {"nr": nr}
    exec(f"def function(seed):\n    return nr.Run(nr.tasks.xor(), {{}}, t1={t1})", names)
    return names["function"]


class Holder:
    def __init__(self, value):
        self.value = value

    def __call__(self, seed):
        return scaled(seed, self.value)


def around(value):
    return lambda seed: scaled(seed, value)


LATE = 1.0


def with_global(seed):
    return scaled(seed, LATE)


ONE, TWO = (lambda seed: scaled(seed, 1.0)), (lambda seed: scaled(seed, 2.0))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (partial(scaled, lr=1.0), partial(scaled, lr=0.1)),
        (made_by_exec(5), made_by_exec(50)),
        (Holder(1.0), Holder(2.0)),
        (Holder(1.0).__call__, Holder(2.0).__call__),
        (around(1.0), around(2.0)),
        (around(np.ones(3)), around(np.zeros(3))),
        (around(nr.tasks.separability(0.5)), around(nr.tasks.separability(0.6))),
        (around({"a", "b"}), around({"a", "c"})),
        (ONE, TWO),
        (scaled, with_global),
    ],
)
def test_what_decides_a_result_is_part_of_its_key(tmp_path, first, second):
    assert identity(first) == identity(first)
    assert identity(first) != identity(second)


def test_a_changed_global_or_argument_is_refused_and_told(tmp_path, monkeypatch):
    nr.sweep(with_global, {}, seeds=1, out=tmp_path / "a")
    nr.sweep(with_global, {}, seeds=1, out=tmp_path / "a")
    monkeypatch.setitem(globals(), "LATE", 2.0)
    with pytest.raises(InputError, match=r'(?s)- *"LATE": "1.0",\n.*\+ *"LATE": "2.0"'):
        nr.sweep(with_global, {}, seeds=1, out=tmp_path / "a")
    nr.sweep(partial(scaled, lr=1.0), {}, seeds=1, out=tmp_path / "b")
    with pytest.raises(InputError, match="lr"):
        nr.sweep(partial(scaled, lr=0.1), {}, seeds=1, out=tmp_path / "b")


def test_a_key_is_the_same_in_every_process():
    used = "t.around({'a', 'b', 'c'})"
    code = f"from tests.apps.sweep import test_sweep as t; print(sorted(t.identity({used}).items()))"
    texts = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True,
            text=True, check=True, cwd=Path(__file__).parents[3],
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(texts) == 1


def test_what_tasks_have_computed_does_not_count():
    task = nr.tasks.separability(0.5)
    before = identity(around(task))
    nr.flow(task, nr.init.gaussian(task.graph, 0.1), t1=1.0)
    nr.reduce(task)
    assert identity(around(task)) == before


@pytest.mark.parametrize("value", [threading.Lock(), (k for k in range(3))])
def test_what_cannot_be_compared_is_refused(tmp_path, value):
    with pytest.raises(InputError, match=r"function must use only what can be compared.*value holds"):
        nr.sweep(around(value), {}, seeds=1, out=tmp_path / "a")


@pytest.mark.parametrize("name", ["a/b", "/abs", ".", "..", "x" * 300, "a\\b", "a\0b"])
def test_measures_that_no_folder_can_hold_are_refused(tmp_path, name):
    def function(seed):
        return nr.Run(XOR, nr.init.gaussian(XOR.graph, 0.1, seed=seed), lambda run: {name: 1.0}, t1=1.0)

    with pytest.raises(InputError, match="measure must name"):
        nr.sweep(function, {}, seeds=1, out=tmp_path / "a")


@pytest.mark.parametrize(
    "value", [2**53 + 1, np.array([1, -(2**60) + 1]), np.ma.masked_array([1.0, 2.0], [0, 1])]
)
def test_measures_that_floats_cannot_hold_are_told(value):
    def function(seed):
        return nr.Run(XOR, nr.init.gaussian(XOR.graph, 0.1, seed=seed), lambda run: {"q": value}, t1=1.0)

    assert nr.sweep(function, {}, seeds=1).status.item() == FAILED


def _damaged(kind, folder):
    folder.mkdir(exist_ok=True)
    if kind == "definition":
        (folder / "definition.json").write_bytes(b"\xff\xfe")
    elif kind == "definition folder":
        (folder / "definition.json").mkdir()
    elif kind == "pieces":
        (folder / "pieces").write_text("mine")
    elif kind == "table":
        (folder / "runs.parquet").mkdir()
    elif kind == "data":
        (folder / "data.zarr").write_text("mine")
    else:
        (folder / "data.zarr").mkdir()
        (folder / "data.zarr" / "mine").write_text("mine")


@pytest.mark.parametrize(
    "kind", ["definition", "definition folder", "pieces", "table", "data", "data folder"]
)
def test_folders_with_odd_files_are_refused_and_kept(tmp_path, kind):
    _damaged(kind, tmp_path / "a")
    before = sorted(p for p in tmp_path.rglob("*") if p.name != ".lock")
    with pytest.raises(InputError, match=r"out must|path must"):
        nr.sweep(one_std, {"std": [0.1]}, seeds=1, out=tmp_path / "a")
    assert sorted(p for p in tmp_path.rglob("*") if p.name != ".lock") == before


@pytest.mark.parametrize("places", [[7], [-1], [0.5], [[0]], [0, 1]])
def test_pieces_of_other_places_are_computed_again(tmp_path, places):
    first = nr.sweep(one_std, {"std": [0.1]}, seeds=1, out=tmp_path / "a").load()
    piece = next((tmp_path / "a" / "pieces").iterdir())
    with np.load(piece) as found:
        arrays = dict(found)
    np.savez(piece, **(arrays | {"places": np.array(places)}))
    with pytest.warns(UserWarning, match="computed again"):
        again = nr.sweep(one_std, {"std": [0.1]}, seeds=1, out=tmp_path / "a").load()
    xr.testing.assert_equal(first.drop_vars("seconds"), again.drop_vars("seconds"))


def test_what_a_kill_left_is_removed_and_nothing_else(tmp_path):
    nr.sweep(one_std, {"std": [0.1]}, seeds=1, out=tmp_path / "a")
    left = [tmp_path / "a" / ".gatheringxyz", tmp_path / "a" / ".runs.parquet.abc.parquet"]
    left[0].mkdir()
    (left[0] / "0.npy").write_text("half")
    left[1].write_text("half")
    (tmp_path / "a" / ".git").mkdir()
    nr.sweep(one_std, {"std": [0.1]}, seeds=1, out=tmp_path / "a")
    assert not any(p.exists() for p in left)
    assert (tmp_path / "a" / ".git").exists()


def test_a_folder_whose_name_begins_as_that_of_the_environment_is_not_installed():
    assert f"{sys.prefix}/lib/module.py".startswith(INSTALLED)
    assert not f"{sys.prefix}-of-mine/module.py".startswith(INSTALLED)


class Settings:
    values = frozenset({1.0})


def test_what_hangs_on_functions_classes_and_modules_is_part_of_a_sweep(monkeypatch):
    made = types.ModuleType("made_by_hand")
    monkeypatch.setitem(sys.modules, "made_by_hand", made)

    def by_attribute(std):
        return by_attribute.t1 * std

    def by_class(std):
        return min(Settings.values) * std

    def by_module(std):
        return made.t1 * std

    def by_name(std):
        return getattr(made, "t" + "1") * std

    def change(value):
        by_attribute.t1 = made.t1 = value
        monkeypatch.setattr(Settings, "values", frozenset({value}))

    functions = (by_attribute, by_class, by_module, by_name)
    found = []
    for value in (1.0, 2.0, 1.0):
        change(value)
        found.append([identity(function) for function in functions])
    assert found[0] == found[2]
    assert all(one != two for one, two in zip(*found[:2], strict=True))


@pytest.mark.parametrize("values", [[2**53 + 1, 0.5], ["a", "a\0"], range(10**12)])
def test_values_that_an_axis_cannot_hold_are_refused(values):
    with pytest.raises(InputError, match=r"over\['std'\] must"):
        nr.sweep(one_run_of_xor, {"std": values})


def one_run_of_xor(std):
    return nr.Run(XOR, nr.init.gaussian(XOR.graph, std), t1=1.0, save=itertools.chain([0.0, 1.0]))


def test_times_to_save_may_come_from_a_generator():
    assert nr.sweep(one_run_of_xor, {"std": [0.1]}).status.item() == "FINISHED"


def test_names_of_measures_fit_into_names_of_files(tmp_path):
    def one(std):
        return nr.Run(XOR, nr.init.gaussian(XOR.graph, std), lambda t: {"数" * 100: t.loss[-1]}, t1=1.0)

    with pytest.raises(InputError, match="measure must name"):
        nr.sweep(one, {"std": [0.1]}, out=tmp_path / "a")
