"""Counterexamples to the sentences of the paper that are contradicted; Eq. 7 is integrated as printed."""

import numpy as np
from scipy.integrate import solve_ivp

from neuralrace import universality


def eq_7(state, dx2, dy2, rate_h, rate_y):
    h, y, w = state
    return (
        -rate_h * dx2 * w,
        -w * (rate_y * h + rate_h * dx2 * y / h),
        -rate_y / 2 * (3 * w - y + dy2) * h - rate_h / 2 * dx2 * (y + w) * w / h,
    )


def integrated(t, start, *given):
    return solve_ivp(lambda _, s: eq_7(s, *given), (0, t[-1]), start, "LSODA", t, rtol=1e-10, atol=1e-12).y


def test_large_weights_do_not_end_at_a_negative_a_high():
    """Section 4.1: both ratios of Eq. 12 are far above 1, but the decoder is larger than the encoder."""
    dh2, ratio = 1e2, 1e4  # |dh(0)|^2/dx^2 and |dy(0)|^2/|dh(0)|^2, at dx = dy = 1 and equal rates
    dy2 = ratio * dh2
    a_high, a_low = dh2 - ratio, 1.0
    end = integrated(np.array([0.0, 1.0]), (dh2, dy2, dy2 - np.sqrt(dy2)), 1, 1, 1, 1)[0, -1]
    assert a_high < -9e3
    assert end > 0
    np.testing.assert_allclose(end, a_low**2 / -a_high, rtol=1e-3)
    start = (ratio, dy2, dy2 - np.sqrt(dy2))  # encoder and decoder exchanged: here the sentence is right
    np.testing.assert_allclose(integrated(np.array([0.0, 1.0]), start, 1, 1, 1, 1)[0, -1], -a_high, rtol=1e-3)


def test_the_three_equations_have_a_closed_form():
    """Appendix A.3: `solve` has exponentials of t alone, and agrees with Eq. 7 from any start."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        dx, dy, rate_h, rate_y = 10 ** rng.uniform(-0.5, 0.5, 4)
        dh2, dy2, cosine = *10 ** rng.uniform(-2, 1, 2), rng.uniform(-0.3, 1)
        start = dh2, dy2, dy2 - cosine * np.sqrt(dy2) * dy
        t = np.linspace(0, 10 / (rate_y * universality.final_distance(dh2, dy2, dx, dy, rate_h, rate_y)), 30)
        expected = integrated(t, start, dx**2, dy**2, rate_h, rate_y)
        found = universality.solve(t, *start, dx, dy, rate_h, rate_y)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6 * np.abs(other).max())
