"""Conserved quantities of pathways of mixed depths, by integration of every layer."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from neuralrace import exact


@st.composite
def races(draw):
    depths = draw(st.lists(st.integers(1, 6), min_size=2, max_size=5))
    p0 = [draw(st.floats(-0.4, 0.4)) for _ in depths]
    return depths, np.array(p0), draw(st.floats(0.5, 8.0)), draw(st.sampled_from([0.6, 1.0, 1.4]))


@settings(max_examples=25, deadline=None)
@given(races())
def test_conserved_quantities_of_mixed_pathways(race):
    """Every layer is its own variable; nothing of the (q, p) form is put in but the start."""
    depths, p0, s, sigma = race
    start = [sigma * np.append(np.full(d - 1, np.hypot(1, v)), v) for d, v in zip(depths, p0, strict=True)]
    cuts = np.cumsum(depths)[:-1]

    def velocity(_, w):
        layers = np.split(w, cuts)
        error = s - sum(np.prod(v) for v in layers)
        return np.concatenate([[error * np.prod(np.delete(v, k)) for k in range(len(v))] for v in layers])

    times = np.append(0, np.geomspace(1e-2, 10, 12))
    run = solve_ivp(velocity, (0, 10), np.concatenate(start), "LSODA", times, rtol=1e-12, atol=1e-13)
    assert run.success
    layers = np.split(run.y, cuts)
    for v, first in zip(layers, start, strict=True):
        assert np.abs(np.diff(v**2, axis=0) - np.diff(first**2)[:, None]).max(initial=0) < 1e-8
        if len(v) > 1:
            assert np.abs((v[0] ** 2 - v[-1] ** 2) / sigma**2 - 1).max() < 1e-8
    kept = np.array([exact.pathway_invariant(v[-1] / sigma, len(v), sigma) for v in layers])
    assert np.ptp(kept - kept[0], axis=1).max() < 1e-8
    k = exact.pathway_field(np.array([v[-1] for v in layers]) / sigma, s, depths, sigma)[0]
    np.testing.assert_allclose(k, [np.prod(v, axis=0) for v in layers], atol=1e-7)
