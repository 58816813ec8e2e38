import numpy as np
import pytest

import neuralrace as nr
from neuralrace.measure import xor_strengths


def frozen_error_strengths(w1, w2, t1=16.0, dt=2e-3):
    """Euler steps of ReLU units while the error is the target; then strengths taken back to time 0."""
    x, y = nr.tasks.xor().arrays
    w, v = w1.copy(), w2[0].copy()
    for _ in range(round(t1 / dt)):
        active = w @ x.T > 0
        w, v = (
            w + dt * v[:, None] * (active * y[:, 0]) @ x / 4,
            v + dt * (np.maximum(w @ x.T, 0) @ y[:, 0]) / 4,
        )
    along = w @ x.T / np.sqrt(2)
    grown = ((along.max(axis=1) + np.abs(v)) / 2) ** 2 * np.exp(-t1 / np.sqrt(2))
    return np.array([grown[along.argmax(axis=1) == k].sum() for k in range(4)])


@pytest.mark.parametrize("seed", range(3))
def test_xor_strengths_are_those_of_units_followed_to_their_diagonal(seed):
    rng = np.random.default_rng(seed)
    w1, w2 = rng.standard_normal((40, 2)), rng.standard_normal((1, 40))
    np.testing.assert_allclose(xor_strengths(w1, w2), frozen_error_strengths(w1, w2), rtol=0.01)


def test_xor_strengths_symmetries():
    rng = np.random.default_rng(0)
    w1, w2 = rng.standard_normal((5, 30, 2)), rng.standard_normal((5, 1, 30))
    a = xor_strengths(w1, w2)
    assert a.shape == (5, 4)
    np.testing.assert_allclose(xor_strengths(1e-4 * w1, 1e-4 * w2), 1e-8 * a)
    np.testing.assert_allclose(xor_strengths(-w1, w2), a[:, ::-1])  # the samples are their own mirror image
    np.testing.assert_allclose(xor_strengths(w1 * [1, -1], -w2), a[:, [1, 0, 3, 2]])
    np.testing.assert_allclose(xor_strengths(w1[2], w2[2]), a[2])
    assert (xor_strengths(np.zeros((3, 2)), np.zeros((1, 3))) == 0).all()


def test_xor_strengths_refuse_other_shapes():
    with pytest.raises(ValueError, match="w1 must be"):
        xor_strengths(np.ones((4, 3)), np.ones((1, 4)))
    with pytest.raises(ValueError, match="w1 must be"):
        xor_strengths(np.ones((4, 2)), np.ones((1, 5)))
