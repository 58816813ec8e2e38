"""Chains and phase portraits: what the experiments compute, and what integrated pathways keep."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import neuralrace as nr
from neuralrace import exact
from neuralrace.experiments import chains
from neuralrace.experiments import phase_portraits as portraits
from neuralrace.experiments.experiment import Results

P = chains.Chains(seeds=2)


@pytest.mark.parametrize(("depth", "start"), [(1, 0.3), (2, 0.3), (3, 0.5), (3, 1.0)])
def test_time_of_aligned_modes_is_that_of_the_closed_form(depth, start):
    found = chains.reached(P.s, depth, start, start, 0.01) / depth
    left = ((P.s - exact.chain(found, P.s, a0=start**depth, depth=depth)) ** 2).sum() / (P.s**2).sum()
    assert left == pytest.approx(0.01, rel=1e-6)


def test_time_of_a_small_readout_is_that_of_one_pathway():
    found = chains.reached(np.array([2.0]), 3, 1.0, 0.0, 0.01) / 3
    assert exact.pathways(found, 2.0, [3], [0.0])[0] == pytest.approx(2 * (1 - 0.1), rel=1e-7)


@pytest.mark.parametrize(("depth", "b0"), [(4, 1e-3), (6, 1e-2), (12, 0.1)])
def test_escape_from_small_weights(depth, b0):
    """D t = D/(D-2) / (s b0^(D-2)), up to what comes after the escape."""
    s = 1.5
    want = depth / (depth - 2) / (s * b0 ** (depth - 2))
    assert chains.reached(np.array([s]), depth, b0, b0, 0.01) == pytest.approx(want, rel=1e-4)


def test_theory_of_pretraining_adds_up():
    p = P
    one = np.log((1 / 0.01 - 1) * (1 / 0.2**2 - 1)) / 2  # the logistic curve from .2^2 to 1 - .01
    fine = chains.reached(p.s, 3, 1.0, 0.0, p.level)
    assert chains.theory(p, "pretrained", 3, 0.2) == pytest.approx((2 * 2 * one + fine) / p.rate, rel=1e-6)


def test_pretraining_makes_isometries_that_carry_the_data():
    p = chains.Chains(seeds=2, width=6, strengths=(2.0, 1.0), rate=0.1)
    encoders, spent = chains.pretrain(3, 0.05, p)
    assert [e.shape for e in encoders] == [(2, 6, 2), (2, 6, 6)]
    through = encoders[1] @ encoders[0]
    np.testing.assert_allclose(np.swapaxes(through, 1, 2) @ through, np.tile(np.eye(2), (2, 1, 1)), atol=0.06)
    first, second = ((w**2).sum(axis=(1, 2)) for w in encoders)
    np.testing.assert_allclose(first, 2, atol=0.1)
    np.testing.assert_allclose(second, 2, atol=0.15)  # of six directions, only the two that carry data
    one = chains.reached(np.ones(1), 2, 0.05, 0.05, p.reconstructed) / p.rate
    assert (np.abs(spent / (2 * one) - 1) < 0.4).all()


def test_epochs_are_steps_of_descent():
    p = chains.Chains(seeds=1, width=2, strengths=(1.5, 1.0), epochs=300)
    task = p.task(2, 2)
    np.testing.assert_allclose(task.syx(("x->h1", "h1->y")), np.diag(p.s), atol=1e-15)
    np.testing.assert_allclose(task.sxx(("x->h1", "h1->y"), ("x->h1", "h1->y")), np.eye(2), atol=1e-15)
    b, steps = np.array([0.5, 0.5]), 0
    while ((p.s - b**2) ** 2).sum() / 2 > 0.02:
        b, steps = b + p.rate / 2 * b * (p.s - b**2), steps + 1
    start = {e: np.stack([0.5 * np.eye(2), -np.eye(2) * (k or -1)]) for k, e in enumerate(task.graph.edges)}
    found = chains.epochs(task, start, 2, 0.02, p)
    assert found[0] == steps
    assert np.isnan(found[1])  # the wrong sign is never learned


def test_power_reads_exponents():
    x = np.array([1.0, 2.0, 5.0])
    np.testing.assert_allclose(chains.power(x, [3 * x**-2, x**0.5]), [-2, 0.5], atol=1e-12)


CHAINS = {"seeds": 2, "depths": (1, 2, 4, 6), "gains": (0.5, 0.7), "gain": 0.7, "deep": 4, "curves": (1, 2),
          "strengths": (2.0, 1.0), "width": 4, "rate": 0.1, "square": 8, "patience": 3000}  # fmt: skip


@pytest.mark.whole
def test_chains(tmp_path):
    report = nr.experiments.run("chains", quick=True, out=tmp_path, changes=CHAINS)
    found = {c.name: c for c in report.claims}
    for name in (
        "closed form - flow, depths as drawn and infinite",
        "distance from infinite depth, exponent in depth",
        "least curvature at the origin / s",
        "drift of w2^2 - w1^2 along the flow",
        "time at the saddle, slope in log(1/distance)",
        "small random, theory: growth of log epochs per layer / log(1/b0)",
        "stuck exactly where the determinant's sign is wrong, share",
    ):
        assert found[name].holds, found[name]
    assert found["small random, depth 4: exponent in b0"].measured == pytest.approx(-2, abs=0.7)
    assert abs(found["pretrained, depth 4: exponent in b0"].measured) < 0.3
    assert {n for n, _ in report.figures} == {"chains-trajectories", "chains-surface", "chains-depth"}


# -- pathways --------------------------------------------------------------------------------


@st.composite
def races(draw):
    depths = draw(st.lists(st.integers(1, 6), min_size=2, max_size=5))
    p0 = [draw(st.floats(-0.4, 0.4)) for _ in depths]
    return depths, np.array(p0), draw(st.floats(0.5, 8.0)), draw(st.sampled_from([0.6, 1.0, 1.4]))


@settings(max_examples=25, deadline=None)
@given(races())
def test_what_mixed_pathways_keep(race):
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


def test_what_wide_networks_of_pathways_keep():
    assert [len(depths) for depths in portraits.MIXED] == [2, 3, 4, 5]
    found = portraits.mixed(1, portraits.PhasePortraits(layers=(0.8,), width=3))
    assert set(found) == {"balance", "curve", "invariant", "strength"}
    assert all(v < 1e-8 for v in found.values()), found


def test_field_of_a_panel_has_its_own_depth():
    p = portraits.PhasePortraits(seeds=1, depths=(2, 5), sigmas=(0.1, 0.01))
    k = np.ones((2, 2, 2, 1, 3))
    results: Results = {"portraits": {"k": k}}
    fig, _ = portraits.portraits(p, results)
    from matplotlib.quiver import Quiver

    for ax, depth in zip(fig.axes[:2], p.depths, strict=True):
        (arrows,) = [c for c in ax.collections if isinstance(c, Quiver)]
        for n in (20, 45, 80, 130):
            x, y = arrows.XY[n]

            def speed(strength, depth=depth):  # of K = p q^(D-1), by its layers
                value = brentq(lambda v: v * (1 + v**2) ** ((depth - 1) / 2) - strength, -20, 20)
                q = math.hypot(1, value)
                return (q ** (depth - 1)) ** 2 + (depth - 1) * (value * q ** (depth - 2)) ** 2

            want = np.array([speed(x), speed(y)]) * np.sign(p.strength - x - y)
            want /= np.linalg.norm(want)
            np.testing.assert_allclose([arrows.U[n], arrows.V[n]], want, atol=1e-4)


@pytest.mark.whole
def test_phase_portraits(tmp_path):
    changes = {"seeds": 6, "depths": (2, 4), "far": (3,), "strengths": (10.0, 1e3), "layers": (0.7,)}
    report = nr.experiments.run("phase-portraits", quick=True, out=tmp_path, changes=changes)
    found = {c.id: c for c in report.claims}
    for claim in found.values():
        if "drift" in claim.name or "extreme" in claim.name or "growth" in claim.name:
            assert claim.holds, claim
    assert found["eq-26"].measured < 0.01
    assert found["eq-26"].verdict == "undecided"  # of the quick form, which has one depth
    assert found["eq-30-all-strengths"].measured > 0.5
    assert len(report.figures) == 2


WRONG = [
    (chains.Chains, {"depths": (2, 3, 4, 5)}, "depths must increase from 1"),
    (chains.Chains, {"depths": (1, 4, 2, 3)}, "depths must increase from 1"),
    (chains.Chains, {"width": 3}, "width must be at least 4"),
    (chains.Chains, {"gains": (0.5,)}, "gains and offsets"),
    (chains.Chains, {"gain": 0.2}, "gain must be at least 0.32"),
    (chains.Chains, {"gain": 1.2}, "gain must be below 1"),
    (chains.Chains, {"offsets": (0.7, 0.1)}, "offsets must be below"),
    (chains.Chains, {"rate": 0.5}, "rate must be below"),
    (chains.Chains, {"deep": 2}, "deep must be at least 3"),
    (chains.Chains, {"level": -1.0}, "level must be greater than 0"),
    (portraits.PhasePortraits, {"start": (0.1,)}, "start must be two numbers"),
    (portraits.PhasePortraits, {"start": (0.1, 0.2)}, "start must be two numbers"),
    (portraits.PhasePortraits, {"width": 1}, "width must be at least 2"),
    (portraits.PhasePortraits, {"depths": (3,)}, "depths must be at least two"),
    (portraits.PhasePortraits, {"depths": (1, 3)}, "depths must be at least 2"),
    (portraits.PhasePortraits, {"far": (2, 3)}, "far must be at least 3"),
    (portraits.PhasePortraits, {"strengths": (10.0, 1.0)}, "strengths must increase"),
    (portraits.PhasePortraits, {"sigmas": (0.01, 0.1)}, "sigmas must decrease"),
    (portraits.PhasePortraits, {"cases": 5}, "cases must be at most 4"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "changes", "message"), WRONG)
def test_wrong_parameters_are_refused(kind, changes, message):
    with pytest.raises(nr.errors.InputError, match=message):
        kind(**changes)
