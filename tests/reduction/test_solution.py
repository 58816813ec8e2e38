"""What `Reduction.solve` returns."""

import numpy as np
import pytest
import xarray as xr

import neuralrace as nr

TASK = nr.tasks.routing(3, 2, hidden=(6, 5))
R = nr.reduce(TASK)
BLOCK = nr.reduce(TASK, basis="block")


@pytest.mark.parametrize("r", [R, BLOCK], ids=["tied", "block"])
def test_a_solution_is_a_trajectory(r, tmp_path):
    many = r.solve(strengths=[0.1, 0.2], t1=30.0, save=9, runs={"size": [0.1, 0.2]})
    assert isinstance(many, nr.Trajectory)
    assert many.status == (nr.Status.UNSETTLED,) * 2
    assert many.loss.shape == (2, 9)
    assert many.strengths.shape == (2, 9, r.n_modes, r.n_classes)
    assert many.stats["steps"].shape == (2,)
    one = many[1]
    assert isinstance(one.source, nr.reduction.Solution)
    single = r.solve(strengths=0.2, t1=30.0, save=9)
    assert single.status is nr.Status.UNSETTLED
    for e in TASK.graph.edges:
        np.testing.assert_allclose(one.source.b[e], single.source.b[e], atol=1e-8)
        np.testing.assert_allclose(one.weights[e], single.weights[e], atol=1e-8)
        assert many.weights[e].shape == (2, *single.weights[e].shape)
        assert many[[1, 0]].weights[e].shape == many.weights[e].shape
    assert one.strengths.shape == single.strengths.shape
    assert one.runs["size"] == 0.2
    assert one.residual < 1e-8
    many.save(tmp_path / "solution")
    with xr.open_zarr(tmp_path / "solution") as ds:
        assert ds["strengths"].dims == ("run", "t", "mode", "class")
        np.testing.assert_array_equal(ds["strengths"], many.strengths)
        assert ds["weights:h1->h2"].dims == ("run", "t", "h2", "h1")
    back = nr.Trajectory.load(tmp_path / "solution")
    np.testing.assert_array_equal(back.weights["h1->h2"], many.weights["h1->h2"])
    assert nr.learning_time(back, 1.0).tolist() == nr.learning_time(many, 1.0).tolist()


@pytest.mark.parametrize("r", [R, BLOCK], ids=["tied", "block"])
def test_learning_times_do_not_depend_on_what_is_saved(r):
    fine = r.solve(strengths=0.1, t1=100.0, save=20_001)
    level = (fine.loss[0] + fine.loss[-1]) / 2
    true = np.interp(-level, -fine.loss, fine.t)
    for save in (2, 20, None):
        sol = r.solve(strengths=0.1, t1=100.0 if save else 1e5, save=save)
        assert nr.learning_time(sol, level) == pytest.approx(true, rel=1e-3)
    assert np.diff(sol.loss).min() > -0.1 * sol.loss[0]  # by default times are where something happens
    assert len(sol.t) == 200


@pytest.mark.parametrize("r", [R, BLOCK], ids=["tied", "block"])
def test_zero_strengths_rest(r):
    zero = {e: np.zeros(s) for e, s in r.family.shape.items()}
    for start in (0.0, zero):
        sol = r.solve(start, t1=10.0)
        assert sol.status is nr.Status.SADDLE
        assert np.ptp(sol.loss) < 1e-14
        assert np.abs(sol.strengths).max() == 0
    both = r.solve(strengths=[0.0, 0.2], t1=10.0)
    assert both.status == (nr.Status.SADDLE, nr.Status.UNSETTLED)


@pytest.mark.parametrize("r", [R, BLOCK], ids=["tied", "block"])
def test_a_solve_that_fails_says_so(r):
    sol = r.solve(strengths=0.1, t1=100.0, save=50, method=nr.Adaptive(1e-9, 1e-11, max_steps=5))
    assert sol.status is nr.Status.STEP_LIMIT
    assert sol.outcome.startswith("step limit of 5 at t = ")
    assert np.isfinite(sol.loss).all()
    assert sol.t[-1] == sol.end < 100
    stopped = r.solve(strengths=0.1, t1=100.0, stop_loss=1.0)
    assert stopped.status is nr.Status.REACHED_LOSS
    assert stopped.loss[-1] == pytest.approx(1.0)


def test_names_that_the_reduction_would_make():
    """A pathwise reduction makes nodes of its own; they are none that the graph has already."""
    plain = nr.tasks.xor(hidden=5)
    x, y = plain.arrays
    found = []
    for new in ({}, {"x": "y@0", "y": "y"}, {"p0": "x@0", "p1": "x@1", "y": "a->b"}, {"x": "x@0", "p1": "x"}):
        name = {n: new.get(n, n) for n in plain.graph.nodes}
        edges = {e: (name[s], name[t]) for e, (s, t) in plain.graph.edges.items()}
        graph = nr.Graph({name[n]: size for n, size in plain.graph.nodes.items()}, edges)
        gates = {name[n]: [c.gates.get(n, 1.0) for c in plain.sample_contexts] for n in plain.graph.hidden}
        order = np.concatenate([c.inputs["x"] for c in plain.sample_contexts])
        at = [int(np.flatnonzero((x == row).all(axis=1))[0]) for row in order]
        r = nr.reduce(nr.Task(graph, order, y[at], gates), basis="pathwise")
        found.append((r.residual < 1e-10, r.solve(strengths=0.1, t1=20.0, save=5).loss))
    assert all(exact for exact, _ in found)
    for _, loss in found[1:]:
        np.testing.assert_allclose(loss, found[0][1])


OK = {e: np.full(4, 0.1) for e in TASK.graph.edges}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda v: nr.reduce(v), "task must be a Task"),
        (lambda v: nr.reduce(TASK, basis=v), "basis must be one of"),
        (lambda v: nr.reduce(TASK, ties=v), "ties must be"),
        (lambda v: nr.reduce(TASK, ties=dict.fromkeys(TASK.graph.edges, 1.0) | {"h1->h2": [v]}), "ties"),
        (lambda v: nr.reduce(TASK, seed=v), "seed must be"),
        (lambda v: nr.reduce(TASK, rates=nr.Rates(decay=v)), "decay"),
        (lambda v: nr.reduce(TASK, rates=nr.Rates(decay={"h1->h2": v})), "decay"),
        (lambda v: nr.reduce(TASK, rates=v), "rates must be nr.Rates"),
        (lambda v: R.solve(strengths=v, t1=1.0), "strengths must"),
        (lambda v: R.solve(strengths={**OK, "h1->h2": v}, t1=1.0), "h1->h2"),
        (lambda v: R.solve(strengths=0.1, t1=v), "t1"),
        (lambda v: R.solve(strengths=0.1, t1=1.0, save=v), "save"),
        (lambda v: R.solve(strengths=0.1, t1=1.0, method=v), "method must be"),
        (lambda v: R.solve(strengths=0.1, t1=1.0, runs=v), "runs must be"),
        (lambda v: R.solve(strengths=0.1, t1=1.0, stop_loss=v), "stop_loss"),
        (lambda v: R.equations(mode=v), "mode must be"),
        (lambda v: R.project(v), "weights must be a dict"),
        (lambda v: R.lift(v), "b must be a dict"),
        (lambda v: R.distance(v), "weights must be a dict"),
        (lambda v: R.strengths(v), "weights must be a dict"),
        (lambda v: R.off_manifold_fraction(v), "weights must be a dict"),
    ],
)
@pytest.mark.parametrize(
    "value", ["text", {None}, object(), [[None]]], ids=["text", "set", "object", "nested"]
)
def test_odd_arguments(call, message, value):
    with pytest.raises(nr.errors.InputError, match=message):
        call(value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nr.reduce(TASK, ties=3), "ties must be a dict"),
        (lambda: nr.reduce(TASK, rates=nr.Rates(decay=-1.0)), "decay"),
        (lambda: R.solve(strengths=[], t1=1.0), "strengths must be"),
        (lambda: R.solve(strengths=[[0.1]], t1=1.0), "strengths must be"),
        (lambda: R.solve(strengths={e: np.ones((2, 2, 4)) for e in OK}, t1=1.0), "leading axis of runs"),
        (
            lambda: R.solve(strengths={**OK, "h1->h2": np.ones((2, 4)), "h2->y0": np.ones((3, 4))}, t1=1.0),
            "equally many runs",
        ),
        (lambda: R.solve(strengths=0.1), "t1 must be"),
        (lambda: R.solve(strengths=0.1, t1=1.0, method=nr.LowRank(1e-3)), "method must be"),
        (lambda: R.solve(strengths=[0.1, 0.2], t1=1.0, runs={"a": [1]}), "runs"),
        (lambda: R.equations(mode=True), "mode"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(nr.errors.InputError, match=message):
        call()
