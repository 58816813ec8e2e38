import contextlib
import json
import shutil
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.dynamics.trajectory import _singular_values as singular_values
from neuralrace.files import ZARR_MARK

TASK = nr.tasks.xor(hidden=3)


def test_saved_and_loaded(tmp_path):
    one = nr.init.gaussian(TASK.graph, 0.1, seed=4)
    many = nr.init.gaussian(TASK.graph, 0.1, seed=range(3))
    for k, traj in enumerate(
        (
            nr.flow(TASK, one, t1=5.0, save=6, record=lambda s: {"norm": (s.weights["x->p0h1"] ** 2).sum()}),
            nr.descend(TASK, many, lr=0.1, steps=30, save=4),
        )
    ):
        path = tmp_path / f"run{k}.zarr"
        traj.save(path)
        back = nr.Trajectory.load(path)
        for name in ("t", "loss", "end", "step_loss"):
            a, b = getattr(traj, name), getattr(back, name)
            assert (a is None and b is None) or np.array_equal(a, b)
        for name in ("weights", "recorded"):
            a, b = getattr(traj, name), getattr(back, name)
            assert list(a) == list(b) or set(a) == set(b)
            assert all(np.array_equal(a[e], b[e]) for e in a)
        assert back.outcomes == traj.outcomes
        assert back.statuses == traj.statuses
        assert back.settings == json.loads(json.dumps(traj.settings))
        assert {n: v.tolist() for n, v in back.runs.items()} == {n: v.tolist() for n, v in traj.runs.items()}
        assert (back.history is None) == (traj.history is None)
        assert np.array_equal(back.history.loss, traj.history.loss)
        assert np.array_equal(nr.learning_time(back, 0.3), nr.learning_time(traj, 0.3), equal_nan=True)
        assert back.versions == traj.versions
        assert {"neuralrace", "jax", "python"} <= set(back.versions)
        traj.save(path)  # replaces what was there
        ds = traj.to_xarray()
        assert ds["loss"].dims[-1] == "t"
        assert ds["weights:x->p0h1"].dims[-2:] == ("p0h1", "x")
        assert ds["weights:x->p0h1"].shape[-2:] == (3, 2)


def test_time_in_other_units():
    w = nr.init.gaussian(TASK.graph, 0.1)
    traj = nr.descend(TASK, w, lr=0.01, steps=100, save=3)
    assert np.allclose(traj.time("steps"), [0, 50, 100])
    assert np.allclose(traj.time("steps", lr=0.02), [0, 25, 50])
    # Descent on the sum over 4 samples with lr .0025 takes the same steps.
    assert np.allclose(traj.time("steps", lr=0.0025, loss="sum", n=4), [0, 50, 100])
    assert np.allclose(traj.time("flow", tau=2.5), 2.5 * traj.t)
    assert np.allclose(traj.time(loss="sum", n=4), traj.t / 4)
    for wrong, message in (
        ({"unit": "epochs"}, "unit"),
        ({"loss": "sum"}, "n, the number"),
        ({"tau": 0}, "tau"),
        ({"unit": "steps", "lr": -1}, "lr"),
    ):
        with pytest.raises(ValueError, match=message):
            traj.time(**wrong)
    with pytest.raises(ValueError, match="lr, the learning rate, is needed"):
        nr.flow(TASK, w, t1=1.0, save=3).time("steps")


@pytest.mark.parametrize("shape", [(3, 5, 5), (2, 4, 7, 3), (6, 1, 4), (2, 8, 8)])
def test_singular_values_are_those_of_an_svd(shape):
    """Of matrices near to and far from singular, and of any size."""
    rng = np.random.default_rng(0)
    m = rng.standard_normal(shape)
    near = m.copy()
    near[..., -1, :] = near[..., 0, :] * (1 + 1e-9 * m[..., -1, :])
    orthogonal = np.linalg.qr(m)[0]
    for matrices in (m, near, orthogonal, 1e200 * m, 1e-200 * m, 0 * m, m.astype(np.float32).astype(float)):
        expected = np.linalg.svd(matrices, compute_uv=False)
        error = np.abs(singular_values(matrices) - expected)
        assert (error <= 1e-9 * expected + 1e-15 * expected.max(initial=0.0)).all()


def test_singular_values_and_learning_time():
    w = nr.init.gaussian(TASK.graph, 0.1, seed=range(2))
    traj = nr.flow(TASK, w, t1=40.0, save=200)
    s = traj.singular_values("x->p0h1")
    assert s.shape == (2, 200, 2)
    assert np.allclose(s[1, 5], np.linalg.svd(traj.weights["x->p0h1"][1, 5])[1])
    times = nr.learning_time(traj, 0.1)
    assert times.shape == (2,)
    for k in range(2):
        one = nr.flow(TASK, {n: v[k] for n, v in w.items()}, t1=40.0, stop_loss=0.1)
        assert times[k] == pytest.approx(one.end, rel=1e-3)
    assert np.isnan(nr.learning_time(traj, -1.0)).all()
    with pytest.raises(ValueError, match="'q'"):
        traj.singular_values("q")
    with pytest.raises(ValueError, match=r"Trajectory\.save"):
        nr.Trajectory.load("nowhere")


def test_flow_time_is_the_time_of_the_definition():
    """tau dW/dt = -dL/dW with tau = 1 on the mean loss: a scalar net with a known solution."""
    task = nr.Task(nr.Graph.chain([1, 1]), [[1.0], [1.0]], [[2.0], [2.0]])
    traj = nr.flow(task, {"x->y": [[0.0]]}, t1=3.0, save=5)
    assert np.allclose(traj.weights["x->y"][:, 0, 0], 2 * (1 - np.exp(-traj.t)), atol=1e-8)


def test_one_run_of_several():
    w = nr.init.gaussian(TASK.graph, 0.1, seed=range(3))
    many = nr.descend(TASK, w, lr=0.1, steps=30, save=4, runs={"seed": range(3), "std": [0.1] * 3})
    one = nr.descend(TASK, {n: v[1] for n, v in w.items()}, lr=0.1, steps=30, save=4)
    for run in (many[1], many[-2], many[[1]][0], many[1:][0]):
        assert np.array_equal(run.loss, one.loss)
        assert run.outcome == one.outcome
        assert run.status is nr.Status.FINISHED
        assert run.runs["seed"] == 1
        assert nr.learning_time(run, 0.45) == nr.learning_time(one, 0.45)
    assert many.status == (nr.Status.FINISHED,) * 3
    assert len(many) == len(list(many)) == 3
    assert one  # a single run is no empty list
    for k in (3, "a", None, []):
        with pytest.raises(ValueError, match="run must"):
            many[k]
    with pytest.raises(ValueError, match="single run"):
        one[0]


def relu_runs():
    graph = nr.Graph.chain([2, 5, 1], activations={"h1": "relu"})
    rng = np.random.default_rng(0)
    task = nr.Task(graph, rng.normal(size=(6, 2)), rng.normal(size=(6, 1)))
    return nr.flow(task, nr.init.gaussian(graph, 0.5, seed=range(2)), t1=2.0, save=3)


def wide():
    graph = nr.Graph.chain([2, 60, 50, 3])
    return nr.Task(graph, np.eye(2), np.eye(2, 3)), nr.init.xavier(graph, seed=range(2))


def wide_runs():
    return nr.flow(*wide(), 5.0, 4, method=nr.LowRank(1e-3))


def solved_runs():
    return nr.reduce(TASK).solve([0.1, 0.2], t1=5.0, save=4)


@pytest.mark.parametrize("make", [relu_runs, wide_runs, solved_runs])
def test_the_network_at_a_saved_time(make):
    """Of several runs and of one, whether its weights are stored or computed on demand."""
    many = make()
    outputs, graph = many.predict(), many.task.graph
    active = [n for n in graph.hidden if n in graph.activations]
    for traj, own in ((many, ...), (many[1], 1), (many[[1, 0]], [1, 0])):
        for i in (1, -1):
            at = traj.at(i)
            assert set(at) == set(many.weights)
            for e, w in many.weights.items():
                assert np.allclose(at[e], np.asarray(w)[:, i][own], atol=1e-12)
            for o, y in traj.predict(i).items():
                assert np.array_equal(y, nr.predict(many.task, at)[o])
                assert np.allclose(y, outputs[o][own][..., i, :, :], atol=1e-12)
            for n, gates in zip(active, traj.gates(i), strict=True):
                assert np.array_equal(gates, nr.activity(many.task, at, n) > 0)
    for wrong in (len(many.t), 0.5, "end"):
        with pytest.raises(ValueError, match="i must be the index of one of"):
            many.at(wrong)


def test_what_a_trajectory_lacks_is_said(tmp_path):
    w = nr.init.gaussian(TASK.graph, 0.1)
    bare = nr.flow(TASK, w, t1=1.0, save=3, save_weights=False)
    with pytest.raises(ValueError, match="weights were not saved"):
        bare.at(0)
    for name in ("reduction", "strengths", "residual"):
        with pytest.raises(ValueError, match="reduction"):
            getattr(bare, name)
    solved_runs().save(tmp_path / "run")
    back = nr.Trajectory.load(tmp_path / "run")
    with pytest.raises(ValueError, match="predict needs the task"):
        back.predict(0)


def test_endings_survive_the_way_to_xarray_and_back():
    """All that is said of an end is made of its numbers, also in other units."""
    task = nr.tasks.xor(hidden=3)
    w = nr.init.gaussian(task.graph, 0.5, seed=range(2))
    for traj in (
        nr.flow(task, w, 30.0, stop_loss=0.1),
        nr.flow(task, w, 30.0, method=nr.Adaptive(max_steps=5)),
        nr.descend(task, w, 1e3, 20),
        nr.descend(task, w, 0.1, 400, stop_loss=0.2),
        nr.reduce(task).solve([0.1, 0.2], t1=3.0),
        nr.reduce(task).solve([0.1, 0.2], t1=1e6),
        nr.flow(*wide(), 5.0, 2, method=nr.LowRank(1e-9, max_steps=20)),
    ):
        back = nr.Trajectory.from_xarray(traj.to_xarray())
        for end, true in zip(back.endings, traj.endings, strict=True):
            assert (end.status, end.t, str(end.numbers)) == (true.status, true.t, str(true.numbers))
        for some, others in ((back, traj), (back[0], traj[0]), (back.rescaled(4), traj.rescaled(4))):
            assert some.outcome == others.outcome
            assert some.outcomes == others.outcomes


def test_scale_of_the_loss():
    w = nr.init.gaussian(TASK.graph, 0.1)
    mean = nr.flow(TASK, w, t1=5.0, save=4)
    total = mean.rescaled(4)
    assert np.array_equal(total.loss, 4 * mean.loss)
    assert nr.learning_time(total, 1.6) == nr.learning_time(mean, 0.4)
    assert np.array_equal(total.rescaled(1).loss, mean.loss)


def test_xarray_and_back_with_shared_names(tmp_path):
    import warnings

    import xarray as xr

    graph = nr.Graph({"t": 2, "h": 3, "y": 1}, [("t", "h"), ("h", "y"), ("t", "y")], biases=["h"])
    task = nr.Task(graph, np.eye(2), [[1.0], [-1.0]])
    w = nr.init.gaussian(graph, [0.1, 0.2], seed=3)
    traj = nr.flow(task, w, t1=5.0, save=4, record=lambda s: {"y": s.outputs["y"]}, runs={"std": [0.1, 0.2]})
    ds = traj.to_xarray()
    assert ds["weights:t->h"].dims == ("run", "t", "h", "t_node")
    assert ds["weights:h"].dims == ("run", "t", "h")
    assert ds.coords["std"].values.tolist() == [0.1, 0.2]
    assert ds["std"].dims == ("run",)
    back = nr.Trajectory.from_xarray(ds)
    assert xr.testing.assert_identical(back.to_xarray(), ds) is None
    traj.save(tmp_path / "a.zarr")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert xr.open_zarr(tmp_path / "a.zarr")["loss"].shape == (2, 4)
    with pytest.raises(ValueError, match="ds must be a Dataset"):
        nr.Trajectory.from_xarray(xr.Dataset())


def test_saving_deletes_nothing_else(tmp_path):
    traj = nr.flow(TASK, nr.init.gaussian(TASK.graph, 0.1), t1=1.0, save=2)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds other files"):
        traj.save(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    traj.save(tmp_path / "run")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds other files"):
        traj.save(tmp_path / "run")
    with pytest.raises(ValueError, match="holds other files"):
        traj.save(tmp_path / "notes.txt")


def test_a_folder_with_the_name_of_an_unfinished_one_is_kept(tmp_path):
    (tmp_path / "run.zarr.partial").mkdir()
    (tmp_path / "run.zarr.partial" / "mine.txt").write_text("mine")
    nr.flow(TASK, nr.init.gaussian(TASK.graph, 0.1), t1=1.0, save=2).save(tmp_path / "run.zarr")
    assert (tmp_path / "run.zarr.partial" / "mine.txt").read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.zarr", "run.zarr.partial"]


def test_places_of_runs_survive_the_way_to_xarray_and_back():
    start = nr.init.gaussian(TASK.graph, 0.1, seed=range(3))
    for given, run in ((None, [0, 1, 2]), ({"run": [5, 6, 7]}, [5, 6, 7])):
        traj = nr.flow(TASK, start, t1=1.0, save=2, runs=given)
        for some, places in ((traj, run), (traj[1:], run[1:]), (traj[1], run[1])):
            ds = some.to_xarray()
            assert np.array_equal(ds.coords["run"], places)
            assert np.array_equal(nr.Trajectory.from_xarray(ds).runs["run"], places)


def test_shown_as_a_figure_and_in_a_notebook():
    w = nr.init.gaussian(TASK.graph, 0.1, seed=range(2))
    for traj in (nr.flow(TASK, w, t1=5.0, save=4), nr.flow(TASK, {n: v[0] for n, v in w.items()}, t1=5.0)):
        figure = traj.plot()
        assert figure.axes[0].get_ylabel() == "loss"
        assert figure.axes[1].get_title("left") == "x->p0h1"
        page = traj._repr_html_()
        assert "<svg" in page
        assert "finished" in page
    assert nr.flow(TASK, w, t1=1.0, save_weights=False).plot().axes
    lines = nr.reduce(nr.tasks.hierarchy(4)).solve(0.1, 1.0).plot().axes[1].lines
    assert len({line.get_color() for line in lines}) == len(lines) == 8  # no two values look alike
    assert [ax.get_title("left") for ax in figure.axes[1:]] == list(TASK.graph.edges)
    assert not figure.get_suptitle()


def _odd(names, runs=None):
    """A trajectory of two runs on a chain of three nodes with these names."""
    graph = nr.Graph(dict.fromkeys(names, 2), [names[:2], names[1:]], biases=[names[1]])
    task = nr.Task(graph, np.eye(2), np.eye(2))
    return nr.flow(task, nr.init.gaussian(graph, 0.1, seed=range(2)), t1=1.0, save=3, runs=runs)


@pytest.mark.parametrize(
    "names",
    [
        ("\\frac", "h", "y"), ("a\\b", "loss", "end"), ("t", "t_node", "y"), ("x" * 250, "h" * 250, "y"),
        ("step", "run", "status"), ("..", ".", "y"), ("x:y", "h ", "  "),
        ("weights:", "history:t", "stats:steps"),
        ("x\0", "a\nb", "ü"),
    ],
)  # fmt: skip
def test_every_name_that_a_graph_can_have_is_saved(tmp_path, names):
    for runs in (None, {"a/b": [1, 2], "..": ["p", "q"], "h": [3, 4]}):
        traj = _odd(names, runs)
        traj.save(tmp_path / "run")
        back = nr.Trajectory.load(tmp_path / "run")
        assert set(back.weights) == set(traj.weights)
        assert all(np.array_equal(back.weights[n], w) for n, w in traj.weights.items())
        assert {n: v.tolist() for n, v in back.runs.items()} == {n: v.tolist() for n, v in traj.runs.items()}
        assert sorted(p.name for p in tmp_path.iterdir()) == ["run"]


def test_some_runs_of_a_dataset_keep_their_own_ends():
    start = {n: w * np.array([1.0, 1e200, 1.0])[:, None, None] for n, w in nr.init.gaussian(
        TASK.graph, 0.1, seed=range(3)).items()}  # fmt: skip
    traj = nr.flow(TASK, start, t1=1.0, save=3, method=nr.Adaptive())
    for places in ([0, 2], [1], [2, 1]):
        some = nr.Trajectory.from_xarray(traj.to_xarray().isel(run=places))
        assert some.statuses == tuple(traj.statuses[k] for k in places)
        assert some.outcomes == tuple(traj.outcomes[k] for k in places)
        assert np.array_equal(some.stats["steps"], traj.stats["steps"][places])
    assert nr.Trajectory.from_xarray(traj.to_xarray().isel(run=1)).status is nr.Status.DIVERGED
    turned = nr.Trajectory.from_xarray(traj.to_xarray().transpose())
    assert np.array_equal(turned.loss, traj.loss, equal_nan=True)
    assert turned.weights["x->p0h1"].shape == traj.weights["x->p0h1"].shape


def test_damage_is_told_and_nothing_of_it_is_read(tmp_path):
    task = nr.Task(nr.Graph.chain([1, 1]), [[1.0]], [[1.0]])
    nr.flow(task, nr.init.gaussian(task.graph, 0.1), t1=1.0, save=3).save(tmp_path / "run")
    files = [p for p in (tmp_path / "run").rglob("*") if p.is_file()]
    assert len(files) > 10
    for file in files:
        content = file.read_bytes()
        for damage in (file.unlink, partial(file.write_bytes, content[: len(content) // 2])):
            damage()
            with pytest.raises(nr.errors.InputError, match="path must"):
                nr.Trajectory.load(tmp_path / "run")
        file.write_bytes(content)
    nr.Trajectory.load(tmp_path / "run")


def test_a_later_format_is_refused(tmp_path):
    traj = nr.flow(TASK, nr.init.gaussian(TASK.graph, 0.1), t1=1.0, save=3)
    traj.save(tmp_path / "a")
    mark = tmp_path / "a" / ZARR_MARK
    mark.write_text(mark.read_text().replace('"format": 1,', '"format": 2,'))
    with pytest.raises(nr.errors.InputError, match="format 2"):
        nr.Trajectory.load(tmp_path / "a")
    with pytest.raises(nr.errors.InputError, match="format 9"):
        nr.Trajectory.from_xarray(traj.to_xarray().assign_attrs(format=9))


def test_what_the_user_put_into_a_saved_folder_stays(tmp_path):
    import xarray as xr

    traj = nr.flow(TASK, nr.init.gaussian(TASK.graph, 0.1), t1=1.0, save=3)
    traj.save(tmp_path / "a")
    xr.Dataset({"mine": ("q", [1.0, 2.0])}).to_zarr(tmp_path / "a", mode="a", zarr_format=2)
    with pytest.raises(nr.errors.InputError, match="holds other files"):
        traj.save(tmp_path / "a")
    assert xr.open_zarr(tmp_path / "a", consolidated=False)["mine"].values.tolist() == [1, 2]


@pytest.mark.parametrize("at", range(8))
def test_an_interrupt_of_saving_leaves_the_old_or_the_new(tmp_path, at, monkeypatch):
    """At each move of a folder and each removal in turn, also of a process that can do nothing after it."""
    old, new = (nr.flow(TASK, nr.init.gaussian(TASK.graph, s), t1=1.0, save=3) for s in (0.1, 0.2))
    old.save(tmp_path / "a")
    calls = iter(range(1000))
    for owner, name in ((Path, "rename"), (shutil, "rmtree")):
        real = getattr(owner, name)

        def counted(*args, real=real, **keywords):
            ours = threading.current_thread() is threading.main_thread()  # zarr writes in threads of its own
            if ours and next(calls) >= at:
                raise KeyboardInterrupt
            return real(*args, **keywords)

        monkeypatch.setattr(owner, name, counted)
    with contextlib.suppress(KeyboardInterrupt):
        new.save(tmp_path / "a")
    monkeypatch.undo()
    assert nr.Trajectory.load(tmp_path / "a").loss[0] in (old.loss[0], new.loss[0])
    new.save(tmp_path / "a")
    assert nr.Trajectory.load(tmp_path / "a").loss[0] == new.loss[0]
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("path", ["a\0b", "x" * 300, "", 3, None])
def test_paths_that_no_folder_can_have(path):
    traj = nr.flow(TASK, nr.init.gaussian(TASK.graph, 0.1), t1=1.0, save=3)
    for call in (traj.save, nr.Trajectory.load):
        with pytest.raises(nr.errors.InputError, match="path must"):
            call(path)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda ds: ds.assign(status=("run2", ["FINISHED"] * 3)), "status of each run"),
        (lambda ds: ds.assign(status=("run", ["a", "b"])), "'a'"),
        (lambda ds: ds.assign_attrs(stats="{"), "JSONDecodeError"),
        (lambda ds: ds.assign_attrs(axes="[]"), "AttributeError"),
        (lambda ds: ds.drop_vars("end"), "'end'"),
        (lambda ds: ds.rename(t="time"), "t"),
        (lambda ds: ds.isel(t=0), "several times"),
        (lambda ds: ds.isel(run=[]), "several times"),
    ],
)
def test_a_dataset_that_was_changed_too_much_is_refused(change, word):
    task = nr.tasks.xor(hidden=2)
    ds = nr.flow(task, nr.init.gaussian(task.graph, 0.1, seed=range(2)), t1=1.0, save=3).to_xarray()
    with pytest.raises(nr.errors.InputError, match=f"ds must be as Trajectory.to_xarray made it.*{word}"):
        nr.Trajectory.from_xarray(change(ds))
