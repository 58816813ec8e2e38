"""Balanced networks by their exact solution: the whole grid, white inputs, sequences of tasks."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import neuralrace as nr

TIMES = np.array([0, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000.0])
SIZES = [(4, 4, 4), (6, 3, 4), (3, 3, 6), (5, 2, 5), (3, 5, 4), (6, 5, 4)]
LAMS = [-5.0, -1.0, 0.0, 1e-9, 0.5, 5.0]


def flow(t, w1, w2, syx, sxx=None):
    """`Q Q^T` by SciPy from the gradient of the loss as it is written down."""
    cut, sxx = w1.size, np.eye(w1.shape[1]) if sxx is None else sxx

    def velocity(_, w):
        a, b = w[:cut].reshape(w1.shape), w[cut:].reshape(w2.shape)
        error = syx - b @ a @ sxx
        return np.append(b.T @ error, error @ a.T)

    run = solve_ivp(velocity, (0, t[-1]), np.append(w1, w2), "DOP853", t, rtol=1e-12, atol=1e-14).y.T
    q = np.concatenate(
        [np.swapaxes(run[:, :cut].reshape(-1, *w1.shape), 1, 2), run[:, cut:].reshape(-1, *w2.shape)], 1
    )
    return q @ np.swapaxes(q, 1, 2)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("lam", LAMS)
def test_closed_form_is_the_flow_or_lam_is_refused(sizes, lam):
    n_in, hidden, n_out = sizes
    graph = nr.Graph.chain(sizes)
    if (lam > 0 and hidden > n_out) or (lam < 0 and hidden > n_in):
        needed = r"W2\^T W2" if lam > 0 else r"W1 W1\^T"
        with pytest.raises(
            nr.errors.InputError, match=rf"lam = {lam:g} .* needs {needed} of full rank, so at most"
        ):
            nr.init.balanced(graph, lam)
        return
    w1, w2 = nr.init.balanced(graph, lam, 0.3, seed=1).values()
    syx = np.random.default_rng(0).standard_normal((n_out, n_in))
    assert np.abs(nr.exact.balanced_qq(TIMES, w1, w2, syx) - flow(TIMES, w1, w2, syx)).max() < 1e-8


def case(lam=0.5, sizes=(4, 3, 5)):
    w1, w2 = nr.init.balanced(nr.Graph.chain(sizes), lam, 0.3, seed=1).values()
    return w1, w2, np.random.default_rng(0).standard_normal((sizes[2], sizes[0]))


@pytest.mark.parametrize("variance", [0.125, 3.0])
def test_white_inputs_of_any_variance(variance):
    w1, w2, syx = case()
    sxx = variance * np.eye(4)
    found = nr.exact.balanced_qq(TIMES[:8], w1, w2, syx, sxx=sxx)
    assert np.abs(found - flow(TIMES[:8], w1, w2, syx, sxx)).max() < 1e-8
    v1, v2 = nr.exact.balanced([100.0], w1, w2, syx, sxx=sxx)
    u, s, vt = np.linalg.svd(syx / variance)
    assert np.allclose(v2[0] @ v1[0], (u[:, :3] * s[:3]) @ vt[:3], atol=1e-6)  # best of rank 3


def test_one_hot_items_are_white():
    world = nr.tasks.tree((2, 2), hidden=4)
    w1, w2 = (w := nr.init.balanced(world.graph, 0.3, 0.2, seed=2)).values()
    run = nr.flow(world, w, t1=40.0, save=9, method=nr.Adaptive(1e-11, 1e-13))
    syx = np.diag(world.singular_values) @ world.vectors.T
    v1, v2 = nr.exact.balanced(run.t, w1, w2, syx, sxx=np.eye(4) / 4)
    assert np.abs(v2 @ v1 - run.weights["h1->y"] @ run.weights["x->h1"]).max() < 1e-8


def test_inputs_that_are_not_white_are_refused_and_can_be_whitened():
    w1, w2, syx = case()
    root = np.diag([1.0, 1.1, 0.9, 1.0]) + 0.1
    sxx = root @ root
    with pytest.raises(
        nr.errors.InputError, match=r"white inputs, but the variances run from .* whiten them"
    ):
        nr.exact.balanced(1.0, w1, w2, syx, sxx=sxx)
    white = np.linalg.inv(root)
    found = nr.exact.balanced_qq(TIMES[:6], w1, w2, syx @ white, sxx=white @ sxx @ white)
    assert np.abs(found - flow(TIMES[:6], w1, w2, syx @ white)).max() < 1e-8
    for wrong, message in (
        (np.eye(3), "sxx must have shape"),
        (-np.eye(4), "positive multiple"),
        ("x", "sxx"),
    ):
        with pytest.raises(nr.errors.InputError, match=message):
            nr.exact.balanced(1.0, w1, w2, syx, sxx=wrong)


@pytest.mark.parametrize("lam", [-0.5, 0.0, 2.0])
def test_five_tasks_in_a_row(lam):
    """Losses of all tasks at all times, against one integration from task to task."""
    w1, w2, _ = case(lam, (5, 4, 4))
    syx = np.random.default_rng(1).standard_normal((5, 4, 5))
    t = np.linspace(0, 6, 13)
    v1, v2 = nr.exact.continual(t, w1, w2, syx)
    assert v1.shape == (5, 13, 4, 5)
    assert v2.shape == (5, 13, 4, 4)
    w = np.append(w1, w2)
    for k, target in enumerate(syx):

        def velocity(_, w, target=target):
            a, b = w[:20].reshape(4, 5), w[20:].reshape(4, 4)
            return np.append(b.T @ (target - b @ a), (target - b @ a) @ a.T)

        run = solve_ivp(velocity, (0, 6), w, "DOP853", t, rtol=1e-12, atol=1e-14).y.T
        maps = run[:, 20:].reshape(-1, 4, 4) @ run[:, :20].reshape(-1, 4, 5)
        for other in syx:
            want, found = (0.5 * ((other - m) ** 2).sum(axis=(1, 2)) for m in (maps, v2[k] @ v1[k]))
            assert np.abs(want - found).max() < 1e-6
        w = run[-1]


def test_wrong_sequences_are_refused():
    w1, w2, syx = case()
    for args, message in (
        (([1.0, 0.5], w1, w2, [syx]), "increasing"),
        ((1.0, w1, w2, [syx]), "increasing"),
        (([0.0, 1.0], w1, w2, syx), "syx must have shape"),
        (([0.0, 1.0], w1, w2, np.empty((0, 5, 4))), "at least one task"),
        (([0.0, 1.0], w1, 2 * w2, [syx]), "balanced"),
        (([-1.0, 1.0], w1, w2, [syx]), "t must be at least 0"),
    ):
        with pytest.raises(nr.errors.InputError, match=message):
            nr.exact.continual(*args)
