import json

import numpy as np
import pytest

import neuralrace as nr

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
    assert np.allclose(traj.time("steps", lr=0.01), [0, 50, 100])
    # Descent on the sum over 4 samples with lr .0025 takes the same steps.
    assert np.allclose(traj.time("steps", lr=0.0025, loss="sum", n=4), [0, 50, 100])
    assert np.allclose(traj.time("flow", tau=2.5), 2.5 * traj.t)
    assert np.allclose(traj.time(loss="sum", n=4), traj.t / 4)
    for wrong, message in (
        ({"unit": "epochs"}, "unit"),
        ({"unit": "steps"}, "lr"),
        ({"loss": "sum"}, "n, the number"),
        ({"tau": 0}, "tau"),
        ({"unit": "steps", "lr": -1}, "lr"),
    ):
        with pytest.raises(ValueError, match=message):
            traj.time(**wrong)


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
