"""Learning times are right whatever is saved, and default times show where something happens."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neuralrace as nr

SHAPES = ([3, 4, 2], [3, 4, 4, 2])  # few, so that little is compiled


@settings(max_examples=8)
@given(
    st.sampled_from(SHAPES),
    st.integers(0, 10**6),
    st.floats(-3, 1),
    st.floats(0, 2),
    st.sampled_from((0.9, 0.5, 0.1)),
)
def test_learning_time_agrees_with_a_fine_solve(sizes, seed, scale, longer, share):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(10, 3)), rng.normal(size=(10, 2))
    task = nr.Task(nr.Graph.chain(sizes), x, y)
    w = nr.init.gaussian(task.graph, 10**scale, seed=seed)
    end = 10 ** (1 - min(scale, 0) * (len(sizes) - 2))
    run = nr.flow(task, w, t1=end * 10**longer, save=50)
    level = run.loss[-1] + share * (run.loss[0] - run.loss[-1])
    fine = nr.flow(task, w, t1=run.t[-1], save=50, stop_loss=level, method=nr.Adaptive(1e-11, 1e-13))
    assert nr.learning_time(run, level) == pytest.approx(fine.end, rel=1e-3)


def test_the_trial_that_was_off_by_a_fifth():
    task = nr.tasks.hierarchy(4)
    w = nr.init.gaussian(task.graph, 0.5)
    run = nr.flow(task, w, t1=400.0, save=200)
    level = 0.1 * run.loss[0]
    fine = nr.flow(task, w, t1=400.0, stop_loss=level, method=nr.Adaptive(1e-11, 1e-13)).end
    even = np.interp(-level, -run.loss, run.t)
    assert abs(even / fine - 1) > 0.1
    assert nr.learning_time(run, level) == pytest.approx(fine, rel=1e-4)


def test_few_long_steps():
    """Little is left to learn, and the half time is inside the second step."""
    rng = np.random.default_rng(22)
    graph = nr.Graph.chain([4, 200, 200, 3])
    w, x = nr.init.xavier(graph, 0.7, seed=1), rng.standard_normal((30, 4))
    y = nr.predict(nr.Task(graph, x, np.zeros((30, 3))), w)["y"]
    task = nr.Task(graph, x, 1.001 * y + 1e-3 * rng.standard_normal((30, 3)))
    run = nr.flow(task, w, 20.0, save=3, method=nr.Adaptive(1e-5, 1e-7))
    level = run.loss[[0, -1]].mean()
    fine = nr.flow(task, w, 20.0, save=2, stop_loss=level, method=nr.Adaptive(1e-11, 1e-13))
    assert nr.learning_time(run, level) == pytest.approx(fine.end, rel=1e-4)


@pytest.mark.parametrize("start", [0.5, [0.5, 0.01]])
def test_default_times_show_what_happens(start):
    task = nr.tasks.hierarchy(4)
    w = nr.init.gaussian(task.graph, start)
    run = nr.flow(task, w, t1=400.0)
    assert len(run.t) == 200
    assert run.t[0] == 0
    assert run.t[-1] == 400
    falls = -np.diff(np.atleast_2d(run.loss), axis=1)
    assert (falls.max(axis=1) < 0.1 * np.atleast_2d(run.loss)[:, 0]).all()
    even = nr.flow(task, w, t1=400.0, save=200)
    assert (-np.diff(np.atleast_2d(even.loss), axis=1)).max() > 0.3 * even.loss.max()
    steps = nr.descend(task, w, lr=0.02, steps=20_000)
    assert (-np.diff(np.atleast_2d(steps.loss), axis=1)).max() < 0.15 * steps.loss.max()
    slow = nr.flow(task, nr.init.gaussian(task.graph, 0.01), t1=60.0)
    assert np.allclose(np.diff(slow.t), np.diff(slow.t)[0])  # even times show it all


def test_descent_and_mini_batches():
    task = nr.tasks.hierarchy(3)
    w = nr.init.gaussian(task.graph, 0.1)
    run = nr.descend(task, w, lr=0.1, steps=300, save=2)
    k = np.argmax(run.step_loss <= 0.5)
    assert 0.1 * (k - 1) < nr.learning_time(run, 0.5) <= 0.1 * k
    batches = nr.descend(task, w, lr=0.1, steps=300, save=31, batch_size=2)
    k = np.argmax(batches.loss <= 0.5)
    assert batches.t[k - 1] < nr.learning_time(batches, 0.5) <= batches.t[k]


def test_low_rank_flows_have_learning_times_too():
    task = nr.tasks.hierarchy(2, graph=nr.Graph.pathways(2, 3, [[30, 30]]))
    w = nr.init.gaussian(task.graph, 0.1)
    a, b = (nr.flow(task, w, t1=20.0, save=2, method=m) for m in (nr.LowRank(1e-4), nr.Adaptive()))
    assert nr.learning_time(a, 0.5) == pytest.approx(nr.learning_time(b, 0.5), rel=1e-3)
    with pytest.raises(ValueError, match="trajectory must be a Trajectory"):
        nr.learning_time(3, 0.5)
    with pytest.raises(ValueError, match="level must be a number"):
        nr.learning_time(a, "half")


@pytest.mark.parametrize("far", [1.3, 4.0, 1e3])
def test_levels_in_the_first_steps(far):
    rng = np.random.default_rng(10)
    task = nr.Task(nr.Graph.chain([6, 5, 6, 5]), rng.normal(size=(8, 6)), rng.normal(size=(8, 5)))
    start = nr.init.gaussian(task.graph, 0.8, seed=10)
    for share in (0.99, 0.9, 0.5):
        level = share * nr.loss(task, start)
        exact = nr.flow(task, start, t1=1e3, stop_loss=level, method=nr.Adaptive(rtol=1e-11, atol=1e-13)).end
        for save in (2, 200, None):
            run = nr.flow(task, start, t1=far * float(exact), save=save)
            assert nr.learning_time(run, level) == pytest.approx(exact, rel=1e-4)
