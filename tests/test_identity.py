"""What decides a function: equal record functions are compiled once, others are not (see also sweeps)."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import neuralrace as nr
from neuralrace.identity import key

SCALE = 2.0


class Settings:
    def __init__(self):
        self.scale = 1.0


@dataclass(frozen=True)
class Times:
    factor: float

    def __call__(self, state):
        return {"v": self.factor * state.t}


def twice(v):
    return SCALE * v


def closing(over):
    return lambda state: {"v": over * state.t}


def calling():
    return lambda state: {"v": twice(state.t) + jnp.tanh(state.t)}


def defaulting(v):
    return lambda state, w=v: {"v": w * state.t}


def keyed(v):
    def record(state, *, w=v):
        return {"v": w * state.t}

    return record


def nested(v):
    return lambda state: {"v": sum([v * state.t for _ in range(2)])}


@pytest.mark.parametrize("make", [closing, defaulting, keyed, nested, Times])
@pytest.mark.parametrize(
    ("same", "other"),
    [(2.0, 3.0), (1, True), (0.0, -0.0), (np.ones(3), np.ones((3, 1))), (np.ones(2), np.array([1.0, 2.0])),
     ((1, 2), [1, 2]), (jnp.float32(1), np.float32(1))],
)  # fmt: skip
def test_functions_are_told_apart_by_what_they_compute_from(make, same, other):
    copy = np.array(same) if isinstance(same, np.ndarray) else same
    assert key(make(same)) == key(make(copy))
    assert key(make(same)) != key(make(other))


def test_globals_that_are_named_count(monkeypatch):
    before = key(calling())
    assert before == key(calling())
    monkeypatch.setattr("tests.test_identity.SCALE", 3.0)
    assert key(calling()) != before


def test_objects_count_by_what_they_hold():
    settings = Settings()
    before = key(closing(settings))
    assert key(closing(settings)) == before
    settings.scale = 2.0
    assert key(closing(settings)) != before
    rows = np.ones(2)
    before = key(closing(rows))
    rows[0] = 5.0
    assert key(closing(rows)) != before


def test_a_function_that_calls_itself_is_described_once():
    def made(times):
        def loop(state):
            return loop(times * state)

        return loop

    assert key(made(2)) == key(made(2))
    assert key(made(2)) != key(made(3))


def test_what_cannot_be_compared_is_told_apart_by_identity():
    steps = (k for k in range(3))
    one = closing(steps)
    assert key(one) is one
    assert key(one) != key(closing(steps))


def test_an_object_that_changes_between_two_calls_is_seen():
    task, settings = nr.tasks.xor(), Settings()
    w = nr.init.gaussian(task.graph, 0.1)
    record = lambda state: {"v": settings.scale * state.activity("p0h1")}  # noqa: E731
    first = nr.flow(task, w, t1=1.0, save=3, record=record).recorded["v"]
    settings.scale = 3.0
    again = nr.flow(task, w, t1=1.0, save=3, record=record).recorded["v"]
    np.testing.assert_allclose(again, 3 * first, rtol=1e-12)


def test_a_fresh_function_in_each_call_is_compiled_once(caplog):
    task = nr.tasks.xor()
    w = nr.init.gaussian(task.graph, 0.1)

    def call(factor):
        record = lambda state: {"h": factor * state.activity("p0h1")}  # noqa: E731
        return nr.flow(task, w, t1=1.0, save=3, record=record).recorded["h"]

    first = call(2.0)
    with jax.log_compiles():
        np.testing.assert_array_equal(call(2.0), first)
    assert not any("Compiling" in r.getMessage() for r in caplog.records)
    np.testing.assert_allclose(call(3.0), 1.5 * first, rtol=1e-12)
