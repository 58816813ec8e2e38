"""Patterns that units can have, and how fast units with them grow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neuralrace as nr


def values(matrix):
    return np.linalg.svd(matrix, compute_uv=False)


shapes = st.tuples(st.integers(2, 7), st.integers(2, 7), st.integers(0, 2**32 - 1))


@settings(max_examples=200, deadline=None)
@given(shapes, st.booleans(), st.integers(0, 6))
def test_singular_values_interlace_when_a_feature_is_removed(shape, row, which):
    m, n, seed = shape
    a = np.random.default_rng(seed).normal(size=(m, n))
    less = np.delete(a, which % (m if row else n), axis=0 if row else 1)
    s, t = values(a), values(less)
    assert (t <= s[: len(t)] + 1e-12).all()
    assert (s[1 : len(t) + 1] <= t[: len(s) - 1] + 1e-12).all()


@settings(max_examples=200, deadline=None)
@given(shapes, st.integers(1, 9), st.integers(0, 8))
def test_a_sample_without_negative_terms_only_adds_to_the_rate(shape, samples, which):
    m, n, seed = shape
    rng = np.random.default_rng(seed)
    x, y = (rng.random((samples, k)) * (rng.random((samples, k)) < 0.6) for k in (m, n))
    gates = np.ones((3, samples))
    gates[1, which % samples], gates[2] = 0, rng.random(samples)  # a gate may close partly
    always, one_closed, partly = nr.relu.growth_rates(gates, x, y)
    assert max(one_closed, partly) <= always + 1e-7


@settings(max_examples=20, deadline=None)
@given(shapes, st.integers(2, 9))
def test_the_rate_is_the_largest_singular_value_of_the_gated_correlation(shape, samples):
    m, n, seed = shape
    rng = np.random.default_rng(seed)
    x, y, gates = rng.normal(size=(samples, m)), rng.normal(size=(samples, n)), rng.random((5, samples)) < 0.5
    slow = [values((y * g[:, None]).T @ x / samples)[0] for g in gates]
    assert np.allclose(nr.relu.growth_rates(gates, x, y), slow, atol=1e-7)


@pytest.mark.parametrize(("items", "contexts"), [(2, 2), (3, 2), (3, 3)])
def test_patterns_on_items_in_contexts_are_those_that_a_unit_can_have(items, contexts):
    x = np.concatenate(
        [np.tile(np.eye(items), (contexts, 1)), np.repeat(np.eye(contexts), items, axis=0)], axis=1
    )
    slow = {tuple(g) for g in nr.relu.implementable_patterns(x) > 0}
    assert {tuple(g) for g in nr.relu.context_patterns(items, contexts)} == slow


def test_the_residual_of_pathways_is_what_least_squares_leaves():
    rng = np.random.default_rng(0)
    x, y, gates = rng.normal(size=(9, 2)), rng.normal(size=(9, 3)), rng.random((2, 9)) < 0.5
    assert np.allclose(nr.relu.pathway_residual(x, y), y - x @ np.linalg.lstsq(x, y)[0])
    both = np.concatenate([g[:, None] * x for g in gates], axis=1)
    assert np.allclose(nr.relu.pathway_residual(x, y, gates), y - both @ np.linalg.lstsq(both, y)[0])


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r"patterns must have shape \(any, 2\), got \(1, 3\)"):
        nr.relu.growth_rates([[1, 1, 1]], np.eye(2), np.eye(2))
    with pytest.raises(ValueError, match=r"Y must have shape \(2, any\), got \(3, 3\)"):
        nr.relu.pathway_residual(np.eye(2), np.eye(3))
    with pytest.raises(ValueError, match="items must be at least 1, got 0"):
        nr.relu.context_patterns(0, 3)
