"""Chains: what the experiment computes."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace import exact
from neuralrace.experiments import chains

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
]  # fmt: skip


@pytest.mark.parametrize(("kind", "changes", "message"), WRONG)
def test_wrong_parameters_are_refused(kind, changes, message):
    with pytest.raises(nr.errors.InputError, match=message):
        kind(**changes)
