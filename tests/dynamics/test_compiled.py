"""Networks in NumPy against the same compiled; and that linear networks wait for no compiler."""

from contextlib import contextmanager, nullcontext

import jax
import numpy as np
import pytest
from hypothesis import given, settings

import neuralrace as nr
from neuralrace.dynamics import constants
from neuralrace.dynamics.status import Status
from tests.strategies import data, graphs, random_weights, seeds


@contextmanager
def compiled():
    """All networks are compiled."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("dynamics.setup", "network.programs"):
            patch.setattr(f"neuralrace.{module}.runs_in_numpy", lambda *_: False)
        yield


@pytest.fixture
def compilations(caplog):
    """A function that says how many functions JAX has compiled."""
    with jax.log_compiles():
        yield lambda: sum("Compiling" in r.getMessage() for r in caplog.records)


def chain(depth):
    return nr.tasks.hierarchy(3, graph=nr.Graph.chain([4, *[9] * (depth - 1), 7]))


def pathways(depth):
    return nr.tasks.hierarchy(3, graph=nr.Graph.pathways(4, 7, [[9] * (k + 1) for k in range(depth)]))


GALLERY = {
    "xor": nr.tasks.xor,
    "routing": lambda: nr.tasks.routing(7, 7),
    "contexts": lambda: nr.tasks.contexts(3, gating="shared"),
    "classification": nr.tasks.contextual_classification,
    "chains": lambda: chain(5),
    "hierarchy": lambda: nr.tasks.hierarchy(4),
    "sharing": lambda: nr.tasks.sharing(4, 2),
    "pathways": lambda: pathways(4),
    "separability": lambda: nr.tasks.separability(0.5),
}


@pytest.mark.parametrize("name", GALLERY)
@pytest.mark.parametrize("basis", ["auto", "block"])
def test_nothing_is_compiled_for_the_first_answers(name, basis, compilations):
    task = GALLERY[name]()
    r = nr.reduce(task, basis)
    sol = r.solve(strengths=0.1, t1=20.0)
    weights = {e: w[-1] for e, w in sol.weights.items()}
    assert nr.loss(task, weights) == pytest.approx(sol.loss[-1], abs=1e-9)
    nr.gradient(task, weights)
    if task.n_samples is not None:
        nr.predict(task, weights)
    assert compilations() == 0


def test_a_narrow_network_from_its_own_start_is_not_compiled(compilations):
    task = chain(3)
    w = nr.init.xavier(task.graph, 0.7)
    sol = nr.reduce(task, weights=w).solve(t1=20.0)
    assert compilations() == 0
    with compiled():
        full = nr.flow(task, w, t1=20.0, save=sol.t)
    assert compilations() > 0
    assert np.abs(sol.loss - full.loss).max() < sol.stats["error"] * full.loss[0]


@pytest.mark.parametrize("stop", [None, 0.1])
def test_reduced_systems_agree_with_compiled_ones(stop):
    task = nr.tasks.routing(3, 2, hidden=(8, 8))
    r = nr.reduce(task, "block", rates=nr.Rates(decay=1e-3, scale={"x0->h1": 0.5}))
    ts = [0.0, 0.1, 3.0, 40.0, 50.0]
    ours = r.solve(strengths=[0.3, 0.5], save=ts, stop_loss=stop)
    with compiled():
        other = r.solve(strengths=[0.3, 0.5], save=ts, stop_loss=stop)
    assert ours.t == pytest.approx(other.t, rel=1e-7)
    assert np.abs(ours.loss - other.loss).max() < 1e-8
    assert np.abs(ours.strengths - other.strengths).max() < 1e-7
    assert ours.statuses == other.statuses
    assert np.allclose(ours.end, other.end, rtol=1e-7)
    times = [nr.learning_time(s, 0.2) for s in (ours, other)]
    assert np.allclose(times[0], times[1], rtol=1e-6)
    assert (ours.stats["steps"] > 0).all()


@settings(max_examples=3)  # each compiles
@given(graphs(depth=3), seeds)
def test_flows_agree_with_compiled_ones(graph, seed):
    rng = np.random.default_rng(seed)
    inputs, targets, gates, _ = data(graph, rng)
    task = nr.Task(graph, inputs, targets, gates=gates)
    w = {e: np.stack([v, 0.1 * v]) for e, v in random_weights(graph, rng).items()}
    more = {"record": outputs_and_time, "rates": nr.Rates(decay=0.01, frozen=[next(iter(graph.edges))])}
    more["method"] = nr.Adaptive(1e-10, 1e-12)  # saved outputs are off by tens of tolerances and more
    ours = nr.flow(task, w, 3.0, 5, **more)
    with compiled():
        other = nr.flow(task, w, 3.0, 5, **more)
    assert np.abs(ours.loss - other.loss).max() < 1e-6 * other.loss.max()
    for e, v in other.weights.items():
        assert np.abs(ours.weights[e] - v).max() < 1e-6 * np.abs(v).max()
    for name, v in other.recorded.items():
        assert np.abs(ours.recorded[name] - v).max() < 1e-6 * max(np.abs(v).max(), 1)
    assert np.allclose(ours.history.slope[:, 0], other.history.slope[:, 0])


def test_runs_side_by_side_are_those_alone():
    """Runs of very different lengths: one rests, one diverges, one stops; more than fit into one batch."""
    task = chain(3)
    sizes = [1e160, 0.0, 0.6, 0.3, *np.geomspace(0.1, 0.5, 5)]
    w = nr.init.gaussian(task.graph, 1.0, seed=[3] * len(sizes))
    w = {e: np.array(sizes)[:, None, None] * v for e, v in w.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "CACHED_RUNS", 4 * task.graph.n_weights)
        for more in ({}, {"stop_loss": 0.05}, {"save": [0.5, 3.0]}, {"method": nr.Adaptive(max_steps=9)}):
            together = nr.flow(task, w, t1=6.0, **more)
            for k, run in enumerate(together):
                alone = nr.flow(task, {e: v[k] for e, v in w.items()}, t1=6.0, **{"save": run.t, **more})
                assert run.status is alone.status
                assert run.end == pytest.approx(alone.end, rel=1e-9)
                assert run.stats["steps"] == alone.stats["steps"]
                n = len(alone.t)
                assert np.allclose(run.loss[:n], alone.loss, rtol=1e-9, atol=1e-12, equal_nan=True)


def outputs_and_time(state):
    return {**state.outputs, "time": state.t}


def test_descents_end_as_they_should():
    task = chain(2)
    sizes = np.array([0.1, 100])[:, None, None]
    w = {"x->h1": sizes * np.ones((9, 4)), "h1->y": sizes * np.ones((7, 9))}
    run = nr.descend(task, w, 0.05, 40, [0.0, 0.25, 1.5, 2.0], stop_loss=1.0)
    assert run.statuses == (Status.REACHED_LOSS, Status.DIVERGED)
    first = run[0]
    at = int(first.stats["steps"])
    assert first.step_loss[at] <= 1 < first.step_loss[at - 1]
    assert first.loss[-1] == first.step_loss[at]
    last = {e: v[-1] for e, v in first.weights.items()}
    assert nr.loss(task, last) == pytest.approx(first.loss[-1])


@pytest.mark.parametrize("how", [nullcontext, compiled])
def test_runs_end_as_compiled_ones_do(how):
    task = chain(2)
    w = {"x->h1": np.ones((9, 4)), "h1->y": np.ones((7, 9))}
    zero = {e: 0 * v for e, v in w.items()}
    with how():
        limited = nr.flow(task, w, 1e3, 5, method=nr.Adaptive(max_steps=7))
        assert limited.status is Status.STEP_LIMIT
        assert limited.t[-1] == limited.end < 1e3
        last = {e: v[-1] for e, v in limited.weights.items()}
        assert nr.loss(task, last) == pytest.approx(limited.loss[-1])
        start = nr.flow(task, w, 10.0, [2.0, 10.0], stop_loss=1e9)
        assert start.status is Status.REACHED_LOSS
        assert start.end == start.t[-1] == 0
        rest = nr.flow(task, zero, 1e6, 3)
        assert rest.status is Status.FINISHED
        assert (rest.loss == rest.loss[0]).all()
        huge = {e: 1e160 * v for e, v in w.items()}  # the velocity overflows
        assert nr.flow(task, huge, 1.0, 3).status is Status.DIVERGED


@pytest.mark.parametrize("name", ["xor", "routing", "contexts"])
def test_the_same_call_gives_the_same_bits_however_often(name, compilations):
    task = GALLERY[name]()
    r, w = nr.reduce(task), nr.init.gaussian(task.graph, 0.1)
    calls = [
        lambda: nr.flow(task, w, t1=3.0).loss,
        lambda: r.solve(strengths=0.1, t1=3.0).loss,
        lambda: nr.descend(task, w, lr=0.1, steps=40).loss,
        lambda: next(iter(nr.gradient(task, w).values())),
    ]
    for call in calls:
        first, before = call(), None
        for k in range(12):
            before = compilations() if k == 1 else before
            np.testing.assert_array_equal(call(), first)
        assert compilations() == before  # what the first call compiled serves all others


@settings(max_examples=4)  # each compiles
@given(graphs(depth=3), seeds)
def test_long_flows_end_as_compiled_ones_do(graph, seed):
    """Both go on by the same stiff method, and come to rest or not alike."""
    rng = np.random.default_rng(seed)
    inputs, targets, gates, _ = data(graph, rng)
    task, w = nr.Task(graph, inputs, targets, gates=gates), random_weights(graph, rng)
    given = {"save": [0.0, 1.0, 1e3, 1e6], "method": nr.Adaptive(max_steps=3000)}
    ours = nr.flow(task, w, 1e6, **given)
    with compiled():
        other = nr.flow(task, w, 1e6, **given)
    assert ours.status is other.status
    n = min(len(ours.t), len(other.t))
    n -= ours.t[n - 1] != other.t[n - 1]  # where the steps of each are spent is rounding
    assert np.allclose(ours.loss[:n], other.loss[:n], rtol=1e-5, atol=1e-7 * ours.loss[0])


def test_modes_that_wait_for_long_agree_with_the_compiled_ones():
    r = nr.reduce(chain(4), "block")
    ours = r.solve(strengths=0.1, t1=2000.0)
    with compiled():
        other = r.solve(strengths=0.1, t1=2000.0, save=ours.t)
    assert ours.status is other.status is Status.FINISHED
    assert np.abs(ours.loss - other.loss).max() < 1e-7 * ours.loss[0]


@pytest.mark.parametrize("stop", [None, 0.01])
def test_a_system_at_rest_takes_few_steps_and_is_never_compiled(stop, compilations):
    r = nr.reduce(chain(5))
    for _ in range(20):
        sol = r.solve(strengths=0.02, t1=1e9, save=2, stop_loss=stop)
    assert sol.status is (Status.FINISHED if stop is None else Status.REACHED_LOSS)
    assert sol.stats["steps"] < 4000
    assert sol.loss[-1] == pytest.approx(stop or 0, abs=1e-9)
    assert compilations() == 0


@pytest.mark.parametrize("t1", [1e6, 2.0**63])
def test_a_solver_that_gives_up_says_so_in_the_outcome_alone(t1):
    task = nr.Task(nr.Graph.chain([2, 3, 1]), [[1, 0], [0, 1], [1, 1], [-1, 1]], [1, 0, 1, -1])
    run = nr.flow(task, nr.init.gaussian(task.graph, 0.5, seed=0), t1=t1)  # warnings are errors in tests
    assert np.isfinite(run.loss).all()
    assert run.end == t1 or run.status is not nr.Status.FINISHED
