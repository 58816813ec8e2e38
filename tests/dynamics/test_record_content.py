"""Equal record functions are compiled once; those that compute something else are not."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import neuralrace as nr
from neuralrace.compiling import content

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
    assert content(make(same)) == content(make(copy))
    assert content(make(same)) != content(make(other))


def test_globals_that_are_named_count(monkeypatch):
    before = content(calling())
    assert before == content(calling())
    monkeypatch.setattr("tests.dynamics.test_record_content.SCALE", 3.0)
    assert content(calling()) != before


def test_what_may_change_without_a_trace_is_told_apart_by_identity():
    settings = Settings()
    one = closing(settings)
    assert content(one) == content(one)
    assert content(one) != content(closing(settings))
    rows = np.ones(2)
    before = content(closing(rows))
    rows[0] = 5.0
    assert content(closing(rows)) != before


def test_a_function_that_calls_itself_is_its_own():
    def loop(state):
        return loop(state)

    assert content(loop) is loop


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
