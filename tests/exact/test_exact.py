"""Closed forms against their own flow, the networks they describe, and what the papers print."""

import math

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import lambertw

import neuralrace as nr
from neuralrace import exact


def integrate(velocity, times, start, method="DOP853", atol=1e-15):
    found = solve_ivp(velocity, (0, max(times)), start, method, times, rtol=3e-13, atol=atol)
    assert found.success
    return found.y


def chain_miss(a, t, s, d, a0, depth):
    """Relative error of a: its time by quadrature of dt/da in log a, times the growth rate."""
    with mp.workdps(20):
        a, t, s, d, a0 = map(mp.mpf, (a, t, s, d, a0))
        factor, power = (1, mp.mpf(1)) if depth == math.inf else (depth, 1 - 2 / mp.mpf(depth))

        def rate(log):
            return factor * mp.e ** (power * log) * (s - d * mp.e**log)

        low, high, end = mp.log(a0), mp.log(a), mp.log(s / d)
        cuts = {
            low + (high - low) * i / (1 + int(abs(high - low) / 4))
            for i in range(int(abs(high - low) / 4) + 2)
        }
        cuts |= {end - (end - low) * mp.mpf(4) ** -j for j in range(1, 16)}
        cuts = sorted(c for c in cuts | {low, high} if min(low, high) <= c <= max(low, high))
        time = mp.quad(lambda u: 1 / rate(u), cuts, maxdegree=4) * (1 if high > low else -1)
        return float(abs((time - t) * rate(high)))


CASES = np.array(
    [(1, 1, 1e-3), (0.3, 2, 1e-2), (3, 0.2, 1e-5), (1, 1, 1e-300), (2, 1, 1.999), (2, 1, 2.1), (2, 1, 300)]
)


@pytest.mark.parametrize(("depth", "start"), [(1, 0.3), (2, 0.3), (3, 0.5), (3, 1.0), (math.inf, 0.5)])
def test_chain_time_is_when_that_share_is_left(depth, start):
    s = np.array([3.0, 2.0, 1.5])
    t = exact.chain_time(0.01, s, start, depth)
    left = ((s - exact.chain(t, s, a0=start, depth=depth)) ** 2).sum() / (s**2).sum()
    assert left == pytest.approx(0.01, rel=1e-6)


@pytest.mark.parametrize(("depth", "b0"), [(4, 1e-3), (6, 1e-2), (12, 0.1)])
def test_chain_time_from_small_weights(depth, b0):
    """D t = D/(D-2) / (s b0^(D-2)), up to what comes after the escape."""
    want = 1 / ((depth - 2) * 1.5 * b0 ** (depth - 2))
    assert exact.chain_time(0.01, 1.5, b0**depth, depth) == pytest.approx(want, rel=1e-4)


def test_chain_time_is_nan_where_the_level_is_not_crossed():
    assert math.isnan(exact.chain_time(0.5, 1.0, 0.9))
    assert math.isnan(exact.chain_time(0.5, 1.0, 1e-40, math.inf))
    with pytest.raises(nr.errors.InputError, match="share must be less than 1"):
        exact.chain_time(1.0, 1.0, 0.1)


@pytest.mark.parametrize("depth", [1, 2, 3, 1000, math.inf])
def test_chain(depth):
    times = np.array([0, 1e-3, 0.1, 1, 4, 10, 300, 1e6])[:, None]
    s, d, a0 = CASES.T
    found = exact.chain(times, s, d, a0, depth)
    assert found.shape == (8, len(CASES))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found[0], a0, rtol=1e-12)
    if depth <= 3:
        np.testing.assert_allclose(found[-1, :3], (s / d)[:3], rtol=1e-14)
    for (k, i), a in np.ndenumerate(found):
        if k and abs(a * d[i] / s[i] - 1) > 1e-6:
            assert chain_miss(a, times[k, 0], s[i], d[i], a0[i], depth) < 1e-9


def test_chain_at_the_end_of_a_long_plateau():
    """From 1e-18 at depth 3 the escape comes at t = 1e6, and one unit of time decides."""
    t = 1e6 + np.array([-9e5, -100, -10, -2, -1, 0, 1, 2, 3])
    for a, when in zip(exact.chain(t, 1.0, 1.0, 1e-18, 3), t, strict=True):
        assert chain_miss(a, when, 1.0, 1.0, 1e-18, 3) < 1e-8  # measured 1.5e-9: rounding of log a0


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_chain_of_scalar_weights(depth):
    times = np.linspace(0, 8, 9)

    def velocity(_, b):
        return np.prod(b) / b * (1.5 - 0.8 * np.prod(b))

    weights = integrate(velocity, times, np.full(depth, 0.02 ** (1 / depth)))
    np.testing.assert_allclose(exact.chain(times, 1.5, 0.8, 0.02, depth), weights.prod(0), rtol=1e-9)
    np.testing.assert_allclose(
        exact.chain(3 * times, 1.5, 0.8, 0.02, depth, tau=3.0), weights.prod(0), rtol=1e-9
    )


def test_chain_of_infinite_depth_is_the_limit_and_lamberts_function():
    t = np.linspace(0, 30, 9)
    limit = exact.chain(t, 1.5, 0.5, 0.1, math.inf)
    np.testing.assert_allclose(exact.chain(t, 1.5, 0.5, 0.1, 10**6, tau=10**6), limit, rtol=1e-4)
    z = lambertw(29 * np.exp(29 - 1.5**2 * t / 0.5)).real
    np.testing.assert_allclose(limit, 3 / (1 + z), rtol=1e-10)


RACES = [
    (1.0, 1.0, (0.1, 0.1)), (0.5, 2.0, (1e-3, 0.5)), (2.0, 0.3, (0.3, 1e-6)), (1.0, 1.0, (0.9, 3.0)),
    (1.0, 1.0, (3.0, 3.0)), (1.0, 1.0, (1.5, 1e-9)), (3.0, 1.0, (0.02, 0.02 * 10**0.5)),
]  # fmt: skip


@pytest.mark.parametrize("case", RACES)
@pytest.mark.parametrize(("m", "p"), [(1, 1), (10, 100), (10, 30)])
def test_race(m, p, case):
    s, d, start = case
    times = np.array([0, 1e-2, 0.1, 1, 3, 10, 30, 100, 200])

    def velocity(_, b):
        error = s - d * b[1] * b[0] ** 2
        return p**0.5 / m**2 * b[1] * b[0] * error, p / m**2 * b[0] ** 2 * error

    want = integrate(velocity, times, start, atol=1e-20)
    np.testing.assert_allclose(exact.sharing(times, s, d, m, p, start), want, rtol=1e-8)
    if p == m**2:
        np.testing.assert_allclose(exact.routing(2 * times, s, d, m, start, tau=2.0), want, rtol=1e-8)


def test_race_at_the_extremes():
    t = np.array([0.0, 1.0, 1e3, 1e6, 1e9])
    b1, b2 = exact.routing(
        t, 1.0, 1.0, 10, (np.array([[1e-100], [1e-100], [1e-3]]), np.array([[1e-100], [1.0], [1e-100]]))
    )
    np.testing.assert_allclose(b1[0], 1e-100, rtol=1e-12)
    np.testing.assert_allclose(b1[1, :3], 1e-100 * np.exp(np.array([0, 0.1, 100])), rtol=1e-9)
    np.testing.assert_allclose((b2 * b1**2)[1:, -2:], 1, rtol=1e-12)
    np.testing.assert_allclose(
        10 * b1**2 - b2**2, np.tile(10 * b1[:, :1] ** 2 - b2[:, :1] ** 2, 5), atol=1e-14
    )


def test_race_of_one_domain_is_a_chain_of_depth_three():
    t = np.linspace(0, 20, 9)
    b1, b2 = exact.routing(t, 0.7, 1.2, 1, 0.3)
    np.testing.assert_allclose(b1**2 * b2, exact.chain(t, 0.7, 1.2, 0.027, 3), rtol=1e-12)


def test_routing_network():
    task = nr.tasks.routing(3, 2, items=1, hidden=(1, 1), targets=[[2.0]])
    path = next(iter(task.graph.paths()))
    sign = np.sign(task.syx(path).item())
    start = {
        e: np.full((1, 1), 0.3 * (sign if s.startswith("x") else 1)) for e, (s, _) in task.graph.edges.items()
    }
    flow = nr.flow(task, start, t1=20.0, save=9, method=nr.Adaptive(1e-11, 1e-13))
    b1, b2 = exact.routing(flow.t, 2.0, 1.0, 3, 0.3)
    np.testing.assert_allclose(flow.weights[path[-1]][:, 0, 0], b1, rtol=1e-8)
    np.testing.assert_allclose(flow.weights[path[1]][:, 0, 0], b2, rtol=1e-8)


def gated(delta, gating):
    x = np.array([[-1, -1, -delta], [1, -1, delta], [-1, 1, delta], [1, 1, -delta]], float)
    y = np.array([[-1.0], [1], [1], [-1]])
    gates = (y == [[1, -1]]) if gating == "linear" else np.eye(4, dtype=bool)
    graph = nr.Graph.pathways(3, 1, [[2]] * gates.shape[1])
    task = nr.Task(graph, x, y, gates={f"p{k}h1": gates[:, k].astype(float) for k in range(gates.shape[1])})
    weights = {}
    for k, gate in enumerate(gates.T):
        v = (y * x)[gate].mean(0)
        weights[f"x->p{k}h1"] = 0.05**0.5 * np.outer([0.6, 0.8], v / np.linalg.norm(v))
        weights[f"p{k}h1->y"] = 0.05**0.5 * np.array([[0.6, 0.8]])
    return task, weights


@pytest.mark.parametrize("gating", ["linear", "xor"])
def test_separability_network(gating):
    task, weights = gated(0.7, gating)
    flow = nr.flow(task, weights, t1=12.0, save=13, method=nr.Adaptive(1e-11, 1e-13))
    np.testing.assert_allclose(
        exact.separability_loss(flow.t, 0.7, gating, 0.05), flow.loss, rtol=1e-8, atol=1e-11
    )


def test_xor():
    t = np.linspace(0, 40, 9)
    task, weights = nr.tasks.xor(hidden=1), {}
    for k, (x, y) in enumerate(zip(*task.arrays, strict=True)):
        weights[f"x->p{k}h1"], weights[f"p{k}h1->y"] = 0.05**0.5 * x[None] / 2**0.5, 0.05**0.5 * y[None]
    flow = nr.flow(task, weights, t1=12.0, save=9, method=nr.Adaptive(1e-11, 1e-13))
    np.testing.assert_allclose(exact.xor_loss(flow.t, 0.05), flow.loss, rtol=1e-8, atol=1e-11)
    a = exact.chain(t, 2**0.5 / 4, 0.5, 1e-6)
    np.testing.assert_allclose(exact.xor_loss(t, 1e-6), 0.5 - 2**0.5 * a + a**2, atol=1e-15)
    assert exact.xor_loss(1e6, 1e-300) == 0
    np.testing.assert_array_equal(exact.separability_loss(t, 0.0, "linear", 1e-3), 0.5)
    rates = [np.log(0.5 - exact.separability_loss(np.array([1, 2]), exact.separability_crossover(), g, 1e-9))
             for g in ("linear", "xor")]  # fmt: skip
    assert np.diff(rates[0]) == pytest.approx(np.diff(rates[1]), abs=1e-6)


PATHS = [
    ((2, 5), (0.1, 0.05), 4.0, 0.7),
    ((1, 4, 2), (0.0, -0.2, 0.3), 2.0, 1.3),
]


@pytest.mark.parametrize(("depths", "p0", "s", "sigma"), PATHS)
def test_pathways(depths, p0, s, sigma):
    times, n = np.array([0, 0.01, 0.05, 0.1, 0.3, 1, 3, 10]), np.array(depths)

    def velocity(_, w):
        q, p = np.split(w, 2)
        error = s - (p * q ** (n - 1)).sum()
        return np.concatenate([np.where(n > 1, q ** (n - 2.0) * p, 0) * error, q ** (n - 1) * error])

    q, p = np.split(integrate(velocity, times, sigma * np.append(np.hypot(1, p0), p0), "Radau"), 2)
    found = exact.pathways([*times, 1e6], s, depths, p0, sigma)
    np.testing.assert_allclose(found[:, :-1], p * q ** (n[:, None] - 1), rtol=1e-8, atol=1e-12)
    assert found[:, -1].sum() == pytest.approx(s, rel=1e-9)
    kept = np.array(
        [exact.pathway_invariant(v / sigma, int(d), sigma) for v, d in zip(p, depths, strict=True)]
    )
    np.testing.assert_allclose(kept - kept[0], np.tile((kept - kept[0])[:, :1], len(times)), atol=1e-10)
    printed = np.array([exact.pathway_invariant(v / sigma, int(d)) for v, d in zip(p, depths, strict=True)])
    assert abs(np.diff((printed - printed[0])[:, [0, -1]])).max() > 0.1


def test_small_pathways_over_long_times():
    """Some of these had a first step so long that it overflowed, and was tried for ever."""
    times, small = 1e4 ** (np.arange(300) / 199) / 128, np.array([-2.31932378e-05, -3.90800977e-05])
    assert exact.pathways(times, 1.0, (3, 3), small, 0.16)[:, -1].sum() == pytest.approx(1, rel=1e-9)
    with jax.enable_x64(True):
        total = lambda p0, s: exact.pathways(times[-1], s, (3, 3), p0, 0.16).sum()  # noqa: E731
        by_start, by_strength = jax.grad(total, (0, 1))(jnp.asarray(small), jnp.float64(1.0))
    assert np.abs(by_start).max() < 1e-9
    assert by_strength == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 8, 9])
def test_pathway_invariant(depth):
    p = np.array([-30, -2, 1e-8, 0.3, 1, 100])
    want = [float(1.3 ** (2 - depth) * v * mp.hyp2f1(0.5, (depth - 1) / 2, 1.5, -(v**2))) for v in p.tolist()]
    np.testing.assert_allclose(exact.pathway_invariant(p, depth, 1.3), want, rtol=1e-13)


def test_pathway_field():
    p, depths, sigma, h = np.array([[0.3, -0.2], [0.1, 1.0], [0.5, 0.0]]), [1, 2, 4], 0.8, 1e-6
    k, velocity = exact.pathway_field(p, 3.0, depths, sigma)
    for j in range(2):
        near = exact.pathways([0.0, h, 2 * h], 3.0, depths, p[:, j], sigma)
        np.testing.assert_allclose(k[:, j], near[:, 0], rtol=1e-13, atol=1e-15)
        slope = (4 * near[:, 1] - near[:, 2] - 3 * near[:, 0]) / (2 * h)
        np.testing.assert_allclose(velocity[:, j], slope, rtol=1e-6)


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 7, 15])
def test_asymptotic_forms(depth):
    """Eq. 25 with its constant; at depth 2 a logarithm, where Eq. 25-26 as printed divide by zero."""
    sigma, p = 1.3, np.array([30.0, 100.0, 300.0])
    with mp.workdps(60):
        n, end = mp.mpf(depth), mp.mpf(0)
        if depth > 2:
            end = mp.sqrt(mp.pi) / 2 * mp.gamma(n / 2 - 1) / mp.gamma((n - 1) / 2)

        def invariant(v):
            return mp.mpf(v) * mp.hyp2f1(0.5, (n - 1) / 2, 1.5, -(mp.mpf(v) ** 2))

        true = np.array([float(invariant(v)) for v in p])
        tail = np.array([float(end - invariant(v)) for v in p])
    found = exact.pathway_far(p, depth, sigma) / sigma ** (2 - depth)
    if depth == 1:
        np.testing.assert_allclose(found, true, rtol=1e-14)
    elif depth == 2:
        np.testing.assert_allclose(true - found, 1 / (4 * p**2), rtol=2e-3)
    else:
        share = p ** (2.0 - depth) / (depth - 2) / tail - 1
        np.testing.assert_allclose(share, (depth - 1) * (depth - 2) / (2 * depth * p**2), rtol=0.02)
        np.testing.assert_allclose(found, float(end) - p ** (2.0 - depth) / (depth - 2), rtol=1e-13)


def test_great_depth():
    """Where p^2 depth is of order 1, the invariant tends to an error function as 1/depth."""
    worst = []
    for depth in (10, 40, 160):
        p = np.linspace(0.1, 2.5, 25) / np.sqrt(depth)
        ratio = exact.pathway_deep(-p, depth, 1.1) / exact.pathway_invariant(-p, depth, 1.1)
        worst.append(np.abs(ratio - 1).max())
    np.testing.assert_allclose(np.diff(np.log(worst)) / np.log(4), -1, atol=0.1)
    assert worst[-1] < 0.01


def test_pathway_split():
    s, c = np.array([0.5, 10.0, 1e6]), np.array([-3.0, -1e-3, 0.2])
    for depth, m in ((3, 1 / 3), (7, 5 / 7), (math.inf, 1.0)):
        b = exact.pathway_split(s, c, depth)
        np.testing.assert_allclose((s - b) ** -m - b**-m, c, rtol=1e-8)  # Eq. 26, 27
        np.testing.assert_allclose(exact.pathway_split(s, -c, depth), s - b, rtol=1e-9)
        assert exact.pathway_split(10.0, 0.0, depth) == pytest.approx(5.0)
    printed = (c * s - 2 + np.sqrt((c * s - 2) ** 2 + 4 * s * c)) / (2 * c)  # Eq. 30
    np.testing.assert_allclose(exact.pathway_split(s, c), printed, rtol=1e-6)
    np.testing.assert_allclose(exact.pathway_split(10.0, [1e9, -1e9]), [10, 0], atol=1e-8)  # Eq. 31


def test_split_of_the_flow():
    """C' of Eq. 27 is 2 - D times the invariant's C of Eq. 22 and 25, so its sign is the other one."""
    depth, start, s = 4, [0.1, 0.05], 1e6
    c = (2 - depth) * np.subtract(*(exact.pathway_invariant(v, depth) for v in start))
    assert c < 0
    weaker = exact.pathways(1e3, s, [depth, depth], start)[1]
    assert exact.pathway_split(s, c, depth) == pytest.approx(weaker, rel=1e-3)
    assert exact.pathway_split(s, c) < 0.2 * weaker  # Eq. 30 has the power of infinite depth
    assert weaker < s / 100


SIZES = [
    (3, 3, 3, 0.0, 0.1),
    (4, 2, 3, 0.5, 0.3),
    (3, 2, 5, -0.4, 1e-3),
    (5, 4, 3, -2.0, 1.0),
    (2, 6, 3, 0.0, 0.2),
    (4, 4, 4, 5.0, 1e-8),
]


def balanced_case(n_in, hidden, n_out, lam, scale):
    w1, w2 = nr.init.balanced(nr.Graph.chain([n_in, hidden, n_out]), lam, scale, seed=1).values()
    return w1, w2, np.random.default_rng(0).standard_normal((n_out, n_in))


def qq(w1, w2):
    q = np.concatenate([w1.swapaxes(-1, -2), w2], -2)
    return q @ q.swapaxes(-1, -2)


@pytest.mark.parametrize("sizes", SIZES)
def test_balanced(sizes):
    w1, w2, syx = balanced_case(*sizes)
    cut, times = w1.size, np.array([100.0, 0, 0.1, 1, 3, 10, 30])

    def velocity(_, w):
        a, b = w[:cut].reshape(w1.shape), w[cut:].reshape(w2.shape)
        return np.append(b.T @ (syx - b @ a), (syx - b @ a) @ a.T)

    flow = integrate(velocity, np.sort(times), np.append(w1, w2)).T
    want = qq(flow[:, :cut].reshape(-1, *w1.shape), flow[:, cut:].reshape(-1, *w2.shape))
    found = exact.balanced_qq(2 * times, w1, w2, syx, tau=2.0)
    np.testing.assert_allclose(found[np.argsort(times)], want, atol=1e-9 * abs(want).max())
    np.testing.assert_allclose(qq(*exact.balanced(times, w1, w2, syx)), found, atol=1e-12 * abs(want).max())
    late = exact.balanced_qq([1e3, 1e6, 1e9], w1, w2, syx)
    np.testing.assert_allclose(late[1:], late[[0, 0]], atol=1e-9 * abs(want).max())
    assert exact.balanced_qq(1.0, w1, w2, syx).shape == late.shape[1:]


def test_balanced_slow_and_tiny_modes():
    """A mode that grows from 1e-40 long after another is learned; one that decays like 1/t."""
    w = np.diag([0.1, 1e-40])
    found = exact.balanced_qq([50.0, 4000.0], w, w, np.diag([10.0, 0.1]))
    np.testing.assert_allclose(found[:, 0, 2], 10, rtol=1e-12)
    np.testing.assert_allclose(found[:, 1, 3], exact.chain([50.0, 4000.0], 0.1, 1.0, 1e-80), rtol=1e-10)
    t = np.array([1.0, 1e3, 1e5])
    found = exact.balanced_qq(t, np.eye(2), np.eye(2), np.diag([3.0, 0.0]))[:, 1, 3]
    np.testing.assert_allclose(found, 1 / (1 + 2 * t), rtol=1e-9)


def test_traced():
    def numeric(f, args):
        h = 1e-5 * np.maximum(np.abs(args), 1e-2)
        value = np.asarray(f(*(np.array(args) + np.concatenate([np.diag(h), -np.diag(h)])).T))
        return (value[: len(h)] - value[len(h) :]) / 2 / h

    chains = [(2, 1.3 / 0.7), (3, 1.3 / 0.7), (3, 0.1)]
    checks = [(lambda *v, n=n: exact.chain(*v, depth=n), (2.0, 1.3, 0.7, a0)) for n, a0 in chains]
    checks += [
        (lambda t, s, d, b1, b2: exact.routing(t, s, d, 10, (b1, b2))[1], (5.0, 1.3, 0.7, 0.1, 0.3)),
        (lambda t, s, d, b1, b2: exact.routing(t, s, d, 1, (b1, b2))[1], (3.0, 1.0, 1.0, 0.3, 0.3)),
        (lambda t, delta, a0: exact.separability_loss(t, delta, "xor", a0), (5.0, 0.4, 0.01)),
        (lambda t, s, d, b0: exact.context_strength(t, s, d, 4, b0), (5.0, 0.4, 0.7, 0.01)),
        (lambda p, sigma: exact.pathway_invariant(p, 4, sigma), (0.7, 1.2)),
        (lambda s, c: exact.pathway_split(s, c, 5), (3.0, -0.7)),
    ]  # fmt: skip
    for f, args in checks:
        with jax.enable_x64(True):
            found = jax.jit(jax.grad(f, tuple(range(len(args)))))(*args)
        np.testing.assert_allclose(found, numeric(f, args), rtol=1e-5, atol=1e-8)


def test_traced_pathways():
    def f(t, s, first):
        return exact.pathways(t, s, (3, 2), jnp.array([first, 0.1]))[0]

    with jax.enable_x64(True):
        found = jax.jit(jax.grad(f, (0, 1, 2)))(0.3, 2.0, 0.2)
        h, args = 1e-5, np.array([0.3, 2.0, 0.2])
        want = [(f(*(args + e)) - f(*(args - e))) / 2 / h for e in h * np.eye(3)]
    np.testing.assert_allclose(found, want, rtol=1e-6)


def test_second_derivative():
    with jax.enable_x64(True):
        first = jax.jit(jax.grad(lambda a: exact.chain(3.0, 1.0, 1.0, a, 3)))
        found = jax.jit(jax.grad(first))(0.1)
        want = (first(0.1 + 1e-5) - first(0.1 - 1e-5)) / 2e-5
    assert found == pytest.approx(float(want), rel=1e-6)


@pytest.mark.parametrize("depth", [1, 2, 3, math.inf])
def test_gradients_stay_finite_at_the_limits(depth):
    t, a0 = jnp.array([0.0, 0, 0, 350, 1e6, 1e6, 1e6]), np.array([1e-3, 1e-300, 1, 1e-300, 1e-3, 1e-300, 1])
    with jax.enable_x64(True):
        each = jax.vmap(jax.grad(lambda *v: exact.chain(*v, depth=depth), (0, 1, 2, 3)), (0, None, None, 0))
        found = np.array(jax.jit(each)(jnp.asarray(t, float), 1.0, 1.0, jnp.asarray(a0)))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[3, :3], 1, rtol=1e-12)
    if depth < 3:
        np.testing.assert_allclose(found[:, -3:], np.array([[0, 1, -1, 0]] * 3).T, atol=1e-12)


def test_precision_and_shapes():
    assert isinstance(exact.chain(1, 1), float)
    assert isinstance(exact.chain(jnp.ones(3), 1.0), np.ndarray)
    assert exact.chain([[0.0], [1.0]], [1.0, 2.0, 3.0]).shape == (2, 3)
    assert exact.pathways([[0.0, 1.0]], 1.0, [2], 0.1).shape == (1, 1, 2)
    single = jax.jit(lambda t: exact.chain(t, 1.0, 1.0, 0.01, 4))(
        jnp.linspace(0.0, 30.0, 5, dtype=jnp.float32)
    )
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, exact.chain(np.linspace(0, 30, 5), 1.0, 1.0, 0.01, 4), rtol=1e-3)


W = [[0.1, 0.0], [0.0, 0.1]]
WRONG = [
    ("t", lambda: exact.chain(-1.0, 1.0)),
    ("t", lambda: exact.chain([0.0, np.nan], 1.0)),
    ("t", lambda: exact.chain("soon", 1.0)),
    ("s", lambda: exact.chain(1.0, 0.0)),
    ("d", lambda: exact.chain(1.0, 1.0, -1.0)),
    ("a0", lambda: exact.chain(1.0, 1.0, a0=0.0)),
    ("depth", lambda: exact.chain(1.0, 1.0, depth=0)),
    ("depth", lambda: exact.chain(1.0, 1.0, depth=2.5)),
    ("depth", lambda: exact.chain(1.0, 1.0, depth="deep")),
    ("tau", lambda: exact.xor_loss(1.0, 1e-3, tau=0.0)),
    ("shapes", lambda: exact.chain([1.0, 2.0], [1.0, 2.0, 3.0])),
    ("gating", lambda: exact.separability_loss(1.0, 1.0, "relu", 1e-3)),
    ("delta", lambda: exact.separability_loss(1.0, -1.0, "xor", 1e-3)),
    ("P", lambda: exact.sharing(1.0, 1.0, 1.0, 3, 10, 0.1)),
    ("P", lambda: exact.sharing(1.0, 1.0, 1.0, 3, 0.5, 0.1)),
    ("M", lambda: exact.routing(1.0, 1.0, 1.0, 0, 0.1)),
    ("b0", lambda: exact.routing(1.0, 1.0, 1.0, 3, -0.1)),
    ("b0", lambda: exact.routing(1.0, 1.0, 1.0, 3, (0.1, 0.1, 0.1))),
    ("b0", lambda: exact.routing(1.0, 1.0, 1.0, 3, "small")),
    ("contexts", lambda: exact.context_strength(1.0, 1.0, 1.0, 1, 0.1)),
    ("depths", lambda: exact.pathways(1.0, 1.0, [0], [0.1])),
    ("depths", lambda: exact.pathways(1.0, 1.0, 3, [0.1])),
    ("p0", lambda: exact.pathways(1.0, 1.0, [2, 2], [0.1, 0.1, 0.1])),
    ("sigma", lambda: exact.pathway_invariant(1.0, 2, sigma=0.0)),
    ("p", lambda: exact.pathway_far(0.0, 3)),
    ("depth", lambda: exact.pathway_deep(1.0, 1)),
    ("depth", lambda: exact.pathway_invariant(1.0, 2**31)),
    ("depth", lambda: exact.pathway_far(1.0, 10**400)),
    ("depth", lambda: exact.chain(1.0, 1.0, depth=2**70)),
    ("contexts", lambda: exact.context_strength(1.0, 1.0, 1.0, 2**70, 0.1)),
    ("t must hold at least one time", lambda: exact.pathways([], 1.0, [2, 2], 0.1)),
    ("P must be finite", lambda: exact.sharing(1.0, 1.0, 1.0, 3, 10**400, 0.1)),
    ("depth", lambda: exact.pathway_split(1.0, 1.0, 2)),
    ("s", lambda: exact.pathway_split(-1.0, 1.0)),
    ("p", lambda: exact.pathway_field([0.1, 0.2, 0.3], 1.0, [2, 2])),
    ("balanced", lambda: exact.balanced(1.0, W, [[0.1, 0.0], [0.1, 0.1]], W)),
    ("w2", lambda: exact.balanced(1.0, W, [[0.1]], W)),
    ("syx", lambda: exact.balanced(1.0, W, W, [[1.0]])),
    ("t", lambda: exact.balanced(-1.0, W, W, W)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "call"), WRONG)
def test_wrong_input(name, call):
    with pytest.raises(nr.errors.InputError, match=name):
        call()


# What the papers print (docs/errata.md).


def residual_pathways(n_contexts):
    """Effective data of the pathways closed in one context, on what the common linear pathway leaves."""
    h = nr.tasks.hierarchy(3).arrays[1].T
    items, eye = h.shape[1], np.eye(n_contexts)
    x = np.concatenate(
        [np.vstack([np.eye(items), np.tile(eye[:, [c]], items)]) for c in range(n_contexts)], 1
    )
    y = np.concatenate([np.vstack([h, np.kron(eye[:, [c]], h)]) for c in range(n_contexts)], 1)
    residual = y - y @ np.linalg.pinv(x) @ x
    context, n = np.repeat(np.arange(n_contexts), items), x.shape[1]
    on = [context != c for c in range(n_contexts)]
    syx = [residual[:, g] @ x[:items, g].T / n for g in on]
    sxx = [[x[:items, g & k] @ x[:items, g & k].T / n for g in on] for k in on]
    return syx, sxx


@pytest.mark.parametrize(("n_contexts", "printed"), [(3, -1 / 2), (4, -1 / 6), (5, -1 / 12)])
def test_overlaps_of_context_pathways(n_contexts, printed):
    syx, sxx = residual_pathways(n_contexts)
    _, s, v = np.linalg.svd(syx[0])
    mode = v[0]
    u = [m @ mode / s[0] for m in syx]
    overlap = u[0] @ u[1]
    assert overlap == pytest.approx(-1 / (n_contexts - 1), abs=1e-12)
    assert (abs(overlap - printed) < 1e-12) == (n_contexts == 3)
    d = mode @ sxx[0][0] @ mode
    assert mode @ sxx[0][1] @ mode == pytest.approx((n_contexts - 2) / (n_contexts - 1) * d)

    # All pathways together, every one with its own two layers.
    every = range(n_contexts)
    coupling = np.array([[(u[p] @ u[j]) * (mode @ sxx[p][j] @ mode) for j in every] for p in every])

    def velocity(_, b):
        first, last = b.reshape(2, -1)
        error = s[0] - coupling @ (first * last)
        return np.append(last * error, first * error)

    times = np.linspace(0, 60, 7)
    b = integrate(velocity, times, np.full(2 * n_contexts, 0.1))
    found = exact.context_strength(times, s[0], d, n_contexts, 0.01)
    np.testing.assert_allclose(found, b[0] * b[n_contexts], rtol=1e-9)
    k = n_contexts - 1
    wrong = (k * s[0] / d) / (1 - (1 - s[0] / (d * 0.01)) * np.exp(2 * s[0] * times))
    assert wrong[0] == pytest.approx(k * 0.01)  # and not b0
    assert wrong[-1] < 0.01 < found[-1]


def test_printed_variance_of_xor_gating_gives_a_negative_loss():
    delta = 0.7
    s, d = np.sqrt(1 / 8 + delta**2 / 16), 1 / 8 + delta**2 / 16
    a = exact.chain(1e3, s, d, 0.05)
    assert 0.5 - 4 * s * a + 2 * d * a**2 == pytest.approx(-1.5)
    right = 4 * d
    a = exact.chain(1e3, s, right, 0.05)
    assert 0.5 - 4 * s * a + 2 * right * a**2 == pytest.approx(0, abs=1e-12)


def test_printed_times_of_chains():
    t = np.array([1.0, 5.0])
    shallow = 2 / 0.5 * (1 - np.exp(-t)) + 0.1 * np.exp(-t)
    assert abs(shallow / exact.chain(t, 2.0, 0.5, 0.1, 1) - 1).max() > 0.5
    deep = 4 / (1 + lambertw(39 * np.exp(39 - t)).real)
    assert abs(deep / exact.chain(t, 2.0, 0.5, 0.1, math.inf) - 1).max() > 0.5
    deep = 4 / (1 + lambertw(39 * np.exp(39 - 2.0**2 / 0.5 * t)).real)
    np.testing.assert_allclose(deep, exact.chain(t, 2.0, 0.5, 0.1, math.inf), rtol=1e-12)


def test_printed_scaling_of_deep_chains():
    """Halving b0 makes depth 5 slower by 2^3, not by 2^5 (talk: training speed)."""

    def half(b0):
        t = np.linspace(0.9, 1.1, 401) / (3 * b0**3)
        return np.interp(0.5, exact.chain(t, 1.0, 1.0, b0**5, 5), t)

    assert half(0.005) / half(0.01) == pytest.approx(2**3, rel=1e-3)
    assert 5 * half(0.01) == pytest.approx(5 / 3 / 0.01**3, rel=1e-3)


@pytest.mark.parametrize("sizes", [(2, 3, 5, 0.6, 0.3), (5, 3, 2, -0.6, 0.3)])
def test_talk_partitioned_solution(sizes):
    w1, w2, syx = balanced_case(*sizes)
    lam, t = sizes[3], 1.5
    n_out, n_in = syx.shape
    u, s, vt = np.linalg.svd(syx)
    r, more_out = len(s), n_out > n_in
    u, v, perp = u[:, :r], vt.T[:, :r], (u if more_out else vt.T)[:, r:]
    sl = np.sqrt(s**2 + lam**2 / 4)
    h = np.sign(lam) * np.sqrt((sl - s) / (sl + s))
    g = 1 / np.sqrt(1 + h**2)
    l = np.sign(n_out - n_in) * lam / 2  # noqa: E741
    plus, minus = g + h * g, g - h * g
    b = w2.T @ u * plus + w1 @ v * minus
    c = w2.T @ u * minus - w1 @ v * plus
    dm = (w2.T if more_out else w1) @ perp
    grow, decay = np.exp(sl * t), np.exp(-sl * t)
    z1 = (v * minus * grow) @ b.T / 2 - (v * plus * decay) @ c.T / 2
    z2 = (u * plus * grow) @ b.T / 2 + (u * minus * decay) @ c.T / 2
    if more_out:
        z2 = z2 + np.exp(l * t) * perp @ dm.T
    else:
        z1 = z1 + np.exp(l * t) * perp @ dm.T
    a = np.eye(len(w1)) + (b * (grow**2 - 1) / (4 * sl)) @ b.T - (c * (decay**2 - 1) / (4 * sl)) @ c.T
    z = np.vstack([z1, z2])
    want = exact.balanced_qq(t, w1, w2, syx)

    def miss(last):
        return abs(z @ np.linalg.solve(a + last * dm @ dm.T, z.T) - want).max()

    assert miss((np.exp(2 * l * t) - 1) / (2 * l)) < 1e-12
    assert miss((np.exp(l * t) - 1) / l) > 1e-2


def test_balanced_can_be_traced():
    graph = nr.Graph.chain([3, 2, 4])
    w = nr.init.balanced(graph, 0.5, seed=1)
    w1, w2 = w["x->h1"], w["h1->y"]
    syx = np.random.default_rng(0).normal(size=(4, 3))
    probe = np.random.default_rng(1).normal(size=(7, 7))
    value = lambda s: float((nr.exact.balanced_qq(2.0, w1, w2, s, tau=1.5) * probe).sum())  # noqa: E731
    with jax.enable_x64(True):
        traced = lambda s: (nr.exact.balanced_qq(2.0, w1, w2, s, tau=1.5) * probe).sum()  # noqa: E731
        assert float(jax.jit(traced)(syx)) == pytest.approx(value(syx), rel=1e-8)
        slope = np.asarray(jax.grad(traced)(jnp.asarray(syx)))
    step = np.zeros_like(syx)
    step[1, 2] = 1e-5
    assert slope[1, 2] == pytest.approx((value(syx + step) - value(syx - step)) / 2e-5, rel=1e-6)


def test_tiny_starts_of_a_race():
    first, second = exact.routing([0.0, 1.0, 1e6], 1.0, 1.0, 7, 1e-100)
    assert np.allclose(first, 1e-100, rtol=1e-12, atol=0)
    assert np.allclose(second, 1e-100, rtol=1e-12, atol=0)
    with pytest.raises(ValueError, match="b0 must be at least 1e-150"):
        exact.routing(1.0, 1.0, 1.0, 7, 1e-300)
