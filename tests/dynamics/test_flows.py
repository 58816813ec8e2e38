"""Flows of several tasks in one call: each is what `flow` gives alone, whatever goes beside it."""

import numpy as np
import pytest
from hypothesis import given, settings

import neuralrace as nr
from neuralrace.dynamics import field, flows
from neuralrace.errors import InputError
from tests.strategies import data, graphs, random_weights, seeds, some_fixed


def chains(count, scale=1.0, seed=0):
    """Tasks of one structure, each with data of its own."""
    rng = np.random.default_rng(seed)
    graph = nr.Graph.chain([4, 6, 6, 3])
    x, y = rng.standard_normal((2, count, 20, 4))
    return [nr.Task(graph, x[k], scale * (1 + k) * y[k, :, :3]) for k in range(count)]


def starts(tasks):
    return [nr.init.gaussian(task.graph, 0.3, seed=k) for k, task in enumerate(tasks)]


NEAR = (
    1e-6  # tolerances are 1e-8: of the first steps errors are rounding, which decides how long the next are
)


def assert_as_alone(tasks, weights, **options):
    found = flows(tasks, weights, **options)
    for task, w, run in zip(tasks, weights, found, strict=True):
        alone = nr.flow(task, w, **options)
        assert run.task is task
        assert run.settings == alone.settings
        assert run.status == alone.status
        assert abs(run.stats["steps"] - alone.stats["steps"]) <= 2
        if run.status == nr.Status.STEP_LIMIT:  # the last of so many steps may end elsewhere
            continue
        np.testing.assert_allclose(run.t, alone.t, rtol=NEAR)
        np.testing.assert_allclose(run.loss, alone.loss, rtol=NEAR, atol=NEAR * alone.loss[0])
        for name, w_t in alone.weights.items():
            np.testing.assert_allclose(run.weights[name], w_t, rtol=NEAR, atol=NEAR)
        level = (alone.loss[0] + alone.loss[-1]) / 2
        if level < 0.99 * alone.loss[0]:
            assert nr.learning_time(run, level) == pytest.approx(
                nr.learning_time(alone, level), rel=10 * NEAR
            )
    return found


@settings(max_examples=25)
@given(graphs(inputs=3, outputs=2, depth=4, biases=True), seeds)
def test_flows_of_random_tasks_are_those_of_each_alone(graph, seed):
    rng = np.random.default_rng(seed)
    graph = some_fixed(graph, rng) if rng.random() < 0.5 else graph
    tasks = [nr.Task(graph, *data(graph, rng)) for _ in range(3)]
    assert_as_alone(tasks, [random_weights(graph, rng) for _ in tasks], t1=2.0, save=4)


@pytest.mark.parametrize(
    "options",
    [
        {"stop_loss": 4.0, "save": 30},
        {"rates": nr.Rates(decay=0.01, scale={"x->h1": 0.5}, frozen=("h2->y",)), "save": [0.0, 1.0, 7.0]},
        {"method": nr.Adaptive(1e-6, 1e-8, max_steps=20), "save": 5},
        {"record": lambda state: {"size": abs(state.outputs["y"]).sum()}, "save": 3},
        {"dtype": "float32", "save": 3, "method": nr.Adaptive(1e-4, 1e-6)},
    ],
)
def test_options_hold_for_each(options):
    found = assert_as_alone(tasks := chains(3), starts(tasks), t1=7.0, **options)
    if "stop_loss" in options:
        assert len({len(run.t) for run in found}) > 1


def test_what_diverges_or_becomes_stiff_leaves_the_others_alone():
    graph = nr.Graph.chain([2, 2, 2])
    task = lambda factor: nr.Task(graph, factor * np.eye(2), np.eye(2))  # noqa: E731
    tasks = [task(1.0), task(30.0), task(1.0)]
    weights = [nr.init.gaussian(graph, s, seed=1) for s in (0.1, 0.1, 1e200)]
    found = assert_as_alone(tasks, weights, t1=300.0, save=5)
    assert [run.status for run in found] == [nr.Status.FINISHED, nr.Status.FINISHED, nr.Status.DIVERGED]


def test_small_networks_of_one_structure_go_side_by_side(monkeypatch):
    counts, attempt = [], field.InNumPy.attempt
    monkeypatch.setattr(
        field.InNumPy, "attempt", lambda self, y, *a: counts.append(len(y)) or attempt(self, y, *a)
    )
    tasks = chains(4)
    other = nr.tasks.xor()
    bent = nr.Graph.chain([4, 6, 6, 3], activations="tanh")
    bent = nr.Task(bent, *tasks[0].arrays)
    mixed = [tasks[0], other, tasks[1], bent, tasks[2]]
    assert_as_alone(mixed, starts(mixed), t1=3.0, save=2)
    assert max(counts) == 3


def test_without_times_those_side_by_side_are_saved_at_the_same(monkeypatch):
    tasks = chains(3)
    found = flows(tasks, starts(tasks), t1=500.0)
    assert all((run.t == found[0].t).all() for run in found)
    for task, w, run in zip(tasks, starts(tasks), found, strict=True):
        alone = nr.flow(task, w, save=run.t)
        np.testing.assert_allclose(run.loss, alone.loss, rtol=NEAR, atol=NEAR * alone.loss[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tasks, w: (tasks, w[:1]), "weights must be as many as tasks, 2; got 1"),
        (lambda tasks, w: (tasks[0], w), "tasks must be"),
        (lambda tasks, w: (tasks, 1.0), "weights must be"),
        (lambda tasks, w: ([tasks[0], 1], w), "task must be a Task"),
        (lambda tasks, w: (tasks, [w[0], {}]), "weights"),
        (lambda tasks, w: (tasks, [w[0], {e: v[None] for e, v in w[1].items()}]), "those of one run"),
    ],
)
def test_what_cannot_be_is_refused(change, message):
    tasks = chains(2)
    with pytest.raises(InputError, match=message):
        flows(*change(tasks, starts(tasks)), t1=1.0)
