"""Two points in any network: the closed form, what the paper prints, fits and records."""

import contextlib
import itertools
import sys

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

import neuralrace as nr
from neuralrace import universality
from neuralrace.errors import InputError
from neuralrace.measure import squared_distances
from tests.universality import recovery

RATES = {"dx": 0.7, "dy": 1.1, "rate_h": 1.3, "rate_y": 0.4}


def eq7(state, dx, dy, rate_h, rate_y):
    """Eq. 7 as printed."""
    h, y, w = state
    return (
        -rate_h * dx**2 * w,
        -w * (rate_y * h + rate_h * dx**2 * y / h),
        -rate_y / 2 * (3 * w - y + dy**2) * h - rate_h / 2 * dx**2 * (y + w) * w / h,
    )


def matrices(t, dh2, dy2, cosine, dx, dy, rate_h, rate_y):
    """The flow of Eq. 17 itself: Jacobian of the encoder along dh, and of the decoder, as a vector."""
    r = np.sqrt(dh2)
    target = np.array([dy, 0.0])
    start = [r, *(np.sqrt(dy2) / r * np.array([cosine, np.sqrt(1 - cosine**2)]))]

    def velocity(_, state):
        miss = state[0] * state[1:] - target
        return [-rate_h / 2 * dx**2 * state[1:] @ miss, *(-rate_y / 2 * state[0] * miss)]

    found = solve_ivp(velocity, (0, t[-1]), start, "DOP853", t, rtol=1e-13, atol=1e-30)
    assert found.success
    r, d = found.y[0], found.y[0] * found.y[1:]
    return r**2, (d**2).sum(0), (d**2).sum(0) - target @ d


def rate(dh2, dy2, dx, dy, rate_h, rate_y):
    """Half of the slowest time scale of the escape from a small start."""
    return rate_y * np.hypot(*np.multiply(universality.scales(dh2, dy2, dx, dy, rate_h, rate_y), (1, 2))) / 4


# -0.95: the representations pass through each other, where Eq. 7 itself divides by zero.
@pytest.mark.parametrize("cosine", [1.0, 0.3, -0.95])
def test_solution(cosine):
    rng = np.random.default_rng(0)
    for dh2 in (1e-12, 1e-6, 1.0, 1e2):
        for dy2 in (1e-12, 1e-3, 1e2):
            given = dict(zip(RATES, 10 ** rng.uniform([-1, -1, -2, -2], [1, 1, 2, 2]), strict=True))
            t = np.linspace(0, rng.uniform(3, 30), 12) / rate(dh2, dy2, **given)
            expected = matrices(t, dh2, dy2, cosine, **given)
            w = dy2 - cosine * np.sqrt(dy2) * given["dy"]
            for found, wanted in zip(universality.solve(t, dh2, dy2, w, **given), expected, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8 * np.abs(wanted).max())


@pytest.mark.parametrize(("dh2", "dy2", "cosine"), [(1e2, 1e2, 0.5), (1e-6, 0.1, 0.2)])
def test_solution_with_many_digits(dh2, dy2, cosine):
    """Eq. 7 by Taylor series with 30 digits: also w is right in all digits long after it has faded."""
    with mp.workdps(30):
        w = mp.mpf(dy2) - cosine * mp.sqrt(mp.mpf(dy2)) * mp.mpf(RATES["dy"])
        given = {k: mp.mpf(v) for k, v in RATES.items()}
        path = mp.odefun(
            lambda t, s: eq7(s, **given), 0, [mp.mpf(dh2), mp.mpf(dy2), w], tol=mp.mpf(10) ** -20
        )
        t = np.array([0.3, 3, 20]) / rate(dh2, dy2, **RATES)
        expected = np.array([[float(v) for v in path(s)] for s in t]).T
    assert abs(expected[2, -1]) < 1e-6 * abs(expected[2, 0])
    np.testing.assert_allclose(universality.solve(t, dh2, dy2, float(w), **RATES), expected, rtol=1e-12)


def test_solution_satisfies_the_printed_equation():
    def at(t):
        return jnp.stack(universality.solve(t, 0.02, 0.03, -0.05, **RATES))

    with jax.enable_x64(True):
        for t in (0.0, 2.0, 9.0):
            value, slope = jax.jvp(at, (t,), (1.0,))
            np.testing.assert_allclose(slope, eq7(value, **RATES), rtol=1e-11)
    np.testing.assert_allclose(universality.velocity(0.1, 0.2, 0.3, **RATES), eq7((0.1, 0.2, 0.3), **RATES))


def test_end():
    """The long-time limit is Eq. 10-11, also of paths that pass through dh2 = 0 and of equal targets."""
    dh2, dy2 = 10 ** np.random.default_rng(1).uniform(-12, 2, (2, 200))
    cosine = np.linspace(-0.9, 1, 200)
    w = dy2 - cosine * np.sqrt(dy2) * 1.1
    final = universality.final_distance(dh2, dy2, **RATES)
    end = universality.solve(60 / (RATES["rate_y"] * final), dh2, dy2, w, **RATES)
    np.testing.assert_allclose(end.dh2, final, rtol=1e-8)
    np.testing.assert_allclose(end.dy2, 1.1**2, rtol=1e-8)
    high, low = universality.scales(dh2, dy2, **RATES)
    np.testing.assert_allclose(final**2, high * final + low**2, rtol=1e-9, atol=1e-9 * low**2)
    np.testing.assert_allclose(universality.final_distance(3.0, 1.0, 0.5, 0.0, 2.0, 1.0), 3 - 0.5 / 3)
    assert universality.final_distance(1e-3, 1.0, 0.5, 0.0, 2.0, 1.0) == 0


def test_plane_and_its_fixed_points():
    """Eq. 25 against Eq. 7 and 24; eigenvalues against finite differences and the printed Eq. 29."""
    dh2, dy2, w = 0.3, 0.2, -0.1
    high, low = universality.scales(dh2, dy2, **RATES)
    np.testing.assert_allclose(
        universality.plane_velocity(dh2, w, high, **RATES), np.array(eq7((dh2, dy2, w), **RATES))[[0, 2]]
    )
    end, saddle = universality.fixed_points(dh2, dy2, **RATES)
    assert end.stable
    assert not saddle.stable

    def flow(v):
        return np.array(universality.plane_velocity(v[0], v[1], high, **RATES))

    step = 1e-5
    point = np.array([end.dh2, 0.0])
    jacobian = np.stack([(flow(point + step * e) - flow(point - step * e)) / 2 / step for e in np.eye(2)], 1)
    np.testing.assert_allclose(sorted(end.eigenvalues), sorted(np.linalg.eigvals(jacobian)), rtol=1e-6)
    b, root = RATES["rate_y"], np.hypot(high, 2 * low)
    a = RATES["rate_h"] * RATES["dx"] ** 2
    printed = [[0, -a], [b**2 / a / 4 * (2 * low**2 + (high + root) ** 2 / 2), -b * (high / 2 + root)]]
    np.testing.assert_allclose(jacobian, printed, rtol=1e-6, atol=1e-9)


def test_saddle_is_left_at_its_eigenvalue():
    """With a decoder that starts large across the target: a_high < 0, both eigenvalues differ (Eq. 35)."""
    dh2, dy2 = 1e-10, 1e-10
    t = np.array([20.0, 21.0])
    path = universality.solve(t, dh2, dy2, dy2, **RATES)
    eigenvalues = universality.fixed_points(dh2, dy2, **RATES)[1].eigenvalues
    assert eigenvalues[0] < -0.8 * eigenvalues[1]
    assert path.dh2[1] < 1e-6
    np.testing.assert_allclose(np.log(path.dh2[1] / path.dh2[0]), eigenvalues[0], rtol=1e-3)


@pytest.mark.parametrize(
    ("dh2", "dy2"), [(1.0, 0.5), (0.01, 2.0), (1e-9, 1e-12), (1.0, 1 / (1.3 / 0.4 * 0.49))]
)
def test_equal_targets(dh2, dy2):
    given = {k: RATES[k] for k in ("dx", "rate_h", "rate_y")}
    t = np.array([0.0, 0.3, 2.0, 10.0, 100.0])
    found = universality.equal_targets(t, dh2, dy2, **given)
    for a, b in zip(found, universality.solve(t, dh2, dy2, dy2, dy=0.0, **given), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-300)
    with jax.enable_x64(True):
        for s in (0.3, 2.0):
            state, slope = jax.jvp(
                lambda s: jnp.stack(universality.equal_targets(s, dh2, dy2, **given)), (s,), (1.0,)
            )
            np.testing.assert_allclose(slope, eq7(state, dy=0.0, **given), rtol=1e-10)


def test_printed_equal_targets():
    """Eq. 39-40 without rate_y in the exponent solve nothing unless rate_y = 1."""
    given = {k: RATES[k] for k in ("dx", "rate_h", "rate_y")}
    dh2, dy2, t = 1.0, 0.5, 2.0
    high = universality.scales(dh2, dy2, dy=0.0, **given)[0]

    def printed(rate):
        return high / (1 + (high / dh2 - 1) * np.exp(-high * rate * t))

    found = universality.equal_targets(t, dh2, dy2, **given).dh2
    np.testing.assert_allclose(printed(RATES["rate_y"]), found, rtol=1e-12)
    assert printed(1.0) / found < 0.7


def test_printed_gradient():
    """Eq. 17: the slopes of the loss have a factor 1/4, not 1/2, so the rates of Eq. 7 are 1/(2 tau)."""
    rng = np.random.default_rng(4)
    x, y, encoder, decoder = (rng.normal(size=s) for s in ((2, 3), (2, 2), (4, 3), (2, 4)))

    def loss(encoder, decoder):
        half = decoder @ encoder @ (x[1] - x[0]) / 2
        return sum(((y.mean(0) + s * half - v) ** 2).sum() for s, v in zip((-1, 1), y, strict=True)) / 4

    with jax.enable_x64(True):
        slopes = jax.grad(loss, (0, 1))(jnp.asarray(encoder), jnp.asarray(decoder))
    dx = x[1] - x[0]
    miss = decoder @ encoder @ dx - (y[1] - y[0])
    np.testing.assert_allclose(slopes[0], np.outer(decoder.T @ miss, dx) / 4, rtol=1e-10)
    np.testing.assert_allclose(slopes[1], np.outer(miss, encoder @ dx) / 4, rtol=1e-10)


def test_printed_plane():
    """Eq. 25 as printed, its last term outside the bracket, is not Eq. 7; with a factor -1/2 it is."""
    h, y, w, (dx, dy, rate_h, rate_y) = 0.3, 0.2, -0.1, RATES.values()
    a, b = rate_h * dx**2, rate_y
    constant = y / h - b / a * h
    first = -(-(b**2) / a * h**3 + b * dy**2 * h + 4 * b * h * w + a * w**2 / h) / 2
    last = constant * (a * w - b * h**2)
    wanted = eq7((h, y, w), **RATES)[2]
    np.testing.assert_allclose(first - last / 2, wanted, rtol=1e-12)
    assert abs(first + last - wanted) > 0.3 * abs(wanted)


def test_large_weights():
    """A.5: the rescaled path tends to that of equal targets as 1/G. Eq. 42 needs 1/G, not G."""
    dh2, dy2, t = 0.5, 0.4, np.array([0.5, 2.0])
    given = {k: RATES[k] for k in ("dx", "rate_h", "rate_y")}
    limit = universality.equal_targets(t, dh2, dy2, **given)
    misses = []
    for g in (1e2, 1e3):
        y = g**2 * dy2
        path = universality.solve(t / g, g * dh2, y, y - 0.5 * np.sqrt(y) * 1.1, **RATES)
        misses.append(
            [np.abs(v / g**p / m - 1).max() for v, p, m in zip(path, (1, 2, 2), limit, strict=True)]
        )
    assert np.max(misses[1]) < 5e-3
    np.testing.assert_allclose(np.divide(*misses), 10, rtol=0.1)
    g, (h, y, w) = 10.0, (0.3, 0.2, -0.1)
    plain = np.array(eq7((h, y, w), **RATES))
    inverted = eq7((h / g, y / g**2, w / g**2), **(RATES | {"dy": RATES["dy"] / g}))
    np.testing.assert_allclose(plain / g ** np.array([2, 3, 3]), inverted, rtol=1e-12)
    printed = eq7((h * g, y * g**2, w * g**2), **(RATES | {"dy": RATES["dy"] / g}))
    assert abs(plain[2] * g**3 / printed[2] - 1) > 0.1


def test_large_weights_end_at_a_high_only_if_it_is_positive():
    final = universality.final_distance(1e-2 * 1e4, 1e8, **RATES)
    high, low = universality.scales(1e-2 * 1e4, 1e8, **RATES)
    assert high < -1e5
    np.testing.assert_allclose(final, low**2 / -high, rtol=1e-6)


def test_loss():
    """Eq. 9 against the outputs: mean and difference of two points in three dimensions."""
    rng = np.random.default_rng(2)
    y, f = rng.normal(size=(2, 2, 3))
    d, goal = f[1] - f[0], y[1] - y[0]
    offset = np.linalg.norm(f.mean(0) - y.mean(0))
    found = universality.loss(0.0, d @ d, d @ (d - goal), np.linalg.norm(goal), offset, 0.7)
    np.testing.assert_allclose(found, ((f - y) ** 2).sum(1).mean() / 2, rtol=1e-12)
    later = universality.loss([0.0, 2.0], d @ d, d @ (d - goal), np.linalg.norm(goal), offset, 0.7)
    np.testing.assert_allclose(later[0] - later[1], offset**2 / 2 * (1 - np.exp(-2.8)), rtol=1e-12)


@pytest.mark.parametrize("rates", [(1.0, 1.0), (3.0, 0.8)])
def test_random_starts(rates):
    """A.6 by sampling. The printed Eq. 47 is the case of equal rates."""
    gain, dx, dy = 0.4, 0.7, 1.1
    rng = np.random.default_rng(3)
    encoder, decoder = rng.normal(gain, gain, (2, 200_000))
    ratio = rates[0] / rates[1]
    high, low2 = dx**2 * (encoder - ratio * decoder), ratio * dx**2 * dy**2
    h = np.sort(high / 2 + np.sqrt(high**2 / 4 + low2))
    at = np.quantile(h, [0.05, 0.3, 0.5, 0.8, 0.99])
    np.testing.assert_allclose(
        universality.final_cdf(at, gain, dx, dy, *rates), [0.05, 0.3, 0.5, 0.8, 0.99], atol=4e-3
    )
    area = quad(lambda v: universality.final_density(v, gain, dx, dy, *rates), at[0], at[-1])[0]
    np.testing.assert_allclose(
        area, np.diff(universality.final_cdf(at[[0, -1]], gain, dx, dy, *rates))[0], rtol=1e-7
    )
    if ratio != 1:
        assert abs(universality.final_cdf(at[2], gain, dx, dy) - 0.5) > 0.1


def test_initial_distance():
    np.testing.assert_allclose(universality.initial_distance([0, 3], 0.5, 2.0), [4, 0.5])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"w": -1.0}, "w must lie within"),
        ({"dh2": 0.0}, "dh2 must be greater than 0"),
        ({"dx": 0.0}, "dx must be greater than 0"),
        ({"rate_h": -1.0}, "rate_h must be greater than 0"),
        ({"t": [-1.0]}, "t must be at least 0"),
        ({"dy": 0.0}, "w must lie within"),
    ],
)
def test_wrong_arguments(change, message):
    with pytest.raises(InputError, match=message):
        universality.solve(**({"t": [0.0, 1.0], "dh2": 1e-2, "dy2": 1e-4, "w": -1e-3} | RATES | change))


def test_recovery():
    """`python tests/universality/recovery.py 200 0 0.5` has the full numbers: 0.2%, 93% and 97%."""
    miss, inside, refused = recovery.summary(recovery.recover(30))
    assert refused <= 2
    assert np.median(miss) < 0.01
    assert 0.85 <= inside.mean() < 1


def series(t, noise=0.0, dy=1.1, loss=None, **start):
    start = {"dh2": 1e-4, "dy2": 1e-5, "w": -2e-3} | start
    path = universality.solve(t, **start, **(RATES | {"dy": dy}))
    curves = [*path] + ([] if loss is None else [universality.loss(t, path.dy2, path.w, dy, *loss)])
    rng = np.random.default_rng(0)
    return [v + noise * np.abs(v).max() * rng.normal(size=v.shape) for v in curves]


def test_fit_finds_the_start_the_end_and_the_loss():
    t = np.linspace(5, 65, 150)
    curves = series(t - 5, 0.01, loss=(0.6, 0.1))
    found = universality.fit(t, *curves[:3], 0.7, 1.1, loss=curves[3])
    for name, true in (("rate_h", 1.3), ("rate_y", 0.4), ("rate_mean", 0.1)):
        low, high = getattr(found, f"{name}_interval")
        assert low < true < high < 1.1 * low
        assert low < getattr(found, name) < high
    np.testing.assert_allclose(found.offset, 0.6, rtol=0.02)
    np.testing.assert_allclose(found.final, universality.final_distance(1e-4, 1e-5, **RATES), rtol=0.02)
    np.testing.assert_allclose(found.error, 0.01, rtol=0.15)
    assert len(found.errors) == 4
    for a, b in zip([*found.curves(t), found.loss(t)], series(t - 5, loss=(0.6, 0.1)), strict=True):
        np.testing.assert_allclose(a, b, atol=0.02 * np.abs(b).max())


def test_fit_of_equal_targets():
    t = np.linspace(0, 12, 100)
    curves = series(t, 0.01, dy=0.0, dh2=0.5, dy2=0.4, w=0.4)
    found = universality.fit(t, *curves, 0.7, 0.0)
    np.testing.assert_allclose([found.rate_h, found.rate_y], [1.3, 0.4], rtol=0.05)


def test_fit_says_when_it_cannot():
    t = np.linspace(0, 60, 100)
    curves = series(t, 0.01)
    with pytest.raises(InputError, match="7 times, too few"):
        universality.fit(t[:7], *(v[:7] for v in curves), 0.7, 1.1)
    early = [v[:60] for v in series(t / 1e5, 0.0)]
    rng = np.random.default_rng(1)
    with pytest.raises(InputError, match="dh2 is flat"):
        universality.fit(t[:60], *(v * (1 + 0.05 * rng.normal(size=60)) for v in early), 0.7, 1.1)
    with pytest.raises(InputError, match="flat"):
        universality.fit(t, np.ones(100), np.ones(100), np.zeros(100), 0.7, 1.1)
    plateau = [v * (1 + 0.05 * rng.normal(size=100)) for v in series(t / 100)]
    with pytest.raises(InputError, match="do not determine rate_"):
        universality.fit(t / 100, *plateau, 0.7, 1.1)
    loose = universality.fit(t / 100, *plateau, 0.7, 1.1, strict=False)
    assert "do not determine rate_" in loose.problems[0]
    for interval in (loose.rate_h_interval, loose.rate_y_interval):
        assert interval is None or interval[1] <= 1e6 * interval[0]
    assert loose.error < 0.1
    with pytest.raises(InputError, match="t must increase"):
        universality.fit(t[::-1], *curves, 0.7, 1.1)
    with pytest.raises(InputError, match="dy2 must be finite"):
        universality.fit(t, curves[0], curves[1] * np.nan, curves[2], 0.7, 1.1)
    with pytest.raises(InputError, match="w must have shape"):
        universality.fit(t, *curves[:2], curves[2][:5], 0.7, 1.1)


def test_a_rate_that_is_not_identified_has_no_interval():
    # A representation that falls while the outputs part, as with cross-entropy: nothing that Eq. 7 can do.
    t = np.linspace(0, 1, 100)
    curves = np.exp(-5 * t), 1e-3 + t**4, -0.2 + 0.3 * t
    with pytest.raises(InputError, match="do not determine rate_"):
        universality.fit(t, *curves, 1.0, 1.0)
    found = universality.fit(t, *curves, 1.0, 1.0, strict=False)
    assert None in (found.rate_h_interval, found.rate_y_interval)
    assert found.problems
    assert found.error > 0.1
    assert not universality.fit(*(lambda s: (s, *series(s)))(np.linspace(0, 60, 100)), 0.7, 1.1).problems


def linear_net(params, x):
    hidden = x @ params["w1"]
    return hidden, hidden @ params["w2"]


def test_record_of_a_function():
    """A linear network of one hidden unit is Eq. 7 itself, with rates of one half (see Eq. 17)."""
    x, y = np.array([[-1.0], [1.0]]), np.array([[0.5], [-0.5]])
    params = {"w1": np.array([[0.02]]), "w2": np.array([[-0.01]])}
    rec = universality.record(linear_net, x, y)
    for step in range(400):
        if step % 4 == 0:
            rec(0.05 * step, params)
        hidden, out = linear_net(params, x)
        miss = (out - y) / 2
        slopes = {"w1": x.T @ miss @ params["w2"].T, "w2": hidden.T @ miss}
        params = {k: v - 0.05 * slopes[k] for k, v in params.items()}
    np.testing.assert_allclose([rec.dx[0], rec.dy[0]], [2, 1])
    run = rec.trajectory
    assert isinstance(run, nr.Trajectory)
    assert run.recorded["dh2"].shape == (1, 100, 1)
    dy2, w = run.recorded["dy2"], run.recorded["w"]
    np.testing.assert_allclose(run.loss, universality.loss(run.t, dy2, w, 1.0), atol=1e-12)
    assert nr.learning_time(run[0], run.loss[0, 50]) == pytest.approx(run.t[50])
    again = nr.Trajectory.from_xarray(run.to_xarray())
    assert universality.fit_recorded(again).rate_h == rec.fit().rate_h
    found = rec.fit()
    np.testing.assert_allclose([found.rate_h, found.rate_y], 0.5, rtol=0.02)  # steps of 0.05 are no flow
    assert found.error < 0.01


def test_record_says_what_is_wrong():
    x, y = np.array([[-1.0], [1.0], [1.0]]), np.ones((3, 1))
    params = {"w1": np.ones((1, 2)), "w2": np.ones((2, 1))}
    for wrong, message in (
        (lambda: universality.record(linear_net, x, y), "pairs must say which"),
        (lambda: universality.record(linear_net, x, y, pairs="all"), "samples 1 and 2 have identical inputs"),
        (lambda: universality.record(linear_net, x, y, pairs=[(0, 3)]), "numbers from 0 to 2"),
        (lambda: universality.record(linear_net, x[:1], y[:1]), "x must hold at least two samples, got 1"),
        (lambda: universality.record(linear_net, x[:2], y), "y must have 2 rows"),
        (lambda: universality.record("net", x, y), "torch.nn.Module or a function"),
        (lambda: universality.record(linear_net, x[:2], y[:2], layer="h"), "layer is for a torch.nn.Module"),
        (lambda: universality.record(lambda p, x: x, x[:2], y[:2])(0, 1), "return .representation, output"),
        (lambda: universality.record(linear_net, x[:2], np.ones((2, 4)))(0, params), "1 outputs per sample"),
    ):
        with pytest.raises(InputError, match=message):
            wrong()
    rec = universality.record(linear_net, x, y, pairs=[(0, 1), (2, 0)])
    with pytest.raises(InputError, match="nothing is recorded yet"):
        rec.fit()
    rec(0, params)
    with pytest.raises(InputError, match="t must increase"):
        rec(0, params)
    with pytest.raises(InputError, match="diverged: its representation at t = 1"):
        rec(1, {"w1": np.full((1, 2), np.inf), "w2": np.ones((2, 1))})
    assert rec.trajectory.recorded["dh2"].shape == (2, 1, 1)
    with pytest.raises(InputError, match="pair must be below 2"):
        rec.fit(2)
    with pytest.raises(InputError, match="too few"):
        rec.fit()


@pytest.fixture
def network():
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 8), torch.nn.Tanh(),
        torch.nn.Linear(8, 2),
    )  # fmt: skip


def test_record_of_a_module(network):
    import torch

    x, y = torch.randn(4, 3), torch.randn(4, 2)
    rec = universality.record(network, x, y, layer="4", pairs="all")
    network[2].eval()
    rec(0.0)
    assert network.training
    assert not network[2].training
    assert not network[4]._forward_hooks
    hidden = network.eval()[:5](x).detach().double().numpy()
    i, j = rec.pairs.T
    run = rec.trajectory
    dh2, w = run.recorded["dh2"][:, 0, 0], run.recorded["w"][:, 0]
    np.testing.assert_allclose(dh2, ((hidden[j] - hidden[i]) ** 2).sum(1), rtol=1e-6)
    out, goal = network(x).detach().double().numpy(), y.double().numpy()
    d = out[j] - out[i]
    np.testing.assert_allclose(w, (d * (d - goal[j] + goal[i])).sum(1), rtol=1e-5)
    np.testing.assert_allclose(
        run.loss[:, 0], [((out - goal)[[a, b]] ** 2).sum() / 4 for a, b in rec.pairs], rtol=1e-6
    )
    assert universality.record(network, x[:2], y[:2]).layer == "2"
    assert universality.record(network, x[:2], y[:2], layer=-2).layer == "4"
    network[5].weight.data *= np.inf
    with pytest.raises(InputError, match="diverged: its output at t = 1"):
        rec(1.0)


def test_record_of_a_module_says_what_is_wrong(network, monkeypatch):
    x, y = np.ones((2, 3)) * [[1], [2]], np.ones((2, 2))
    for keys, message in (
        ({"layer": "hidden"}, r"submodule of the model \(0, 1, 2, 3, 4, 5\); got 'hidden'"),
        ({"layer": 6}, "layer must be below 6"),
        ({"layer": -7}, "layer must be at least -6"),
    ):
        with pytest.raises(InputError, match=message):
            universality.record(network, x, y, **keys)
    rec = universality.record(network, x, y, pick=lambda out: out.T)
    with pytest.raises(InputError, match=r"one row per sample, 2; its shape is \(8, 2\)"):
        rec(0)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="pip install torch"):
        universality.record(network, x, y)


def test_rates_of_a_deep_network():
    """A deep network of tanh units follows Eq. 7 to 5% of each series, and ends where Eq. 10 says."""
    import torch

    torch.manual_seed(1)
    widths = [1, 60, 60, 60, 60, 60, 1]
    layers = []
    for a, b in itertools.pairwise(widths):
        layers += [torch.nn.Linear(a, b), torch.nn.Tanh()]
        torch.nn.init.xavier_normal_(layers[-2].weight, gain=0.9)
    network = torch.nn.Sequential(*layers[:-1])
    x, y = torch.tensor([[-1.0], [-0.5]]), torch.tensor([[0.6], [1.6]])
    rec = nr.universality.record(network, x, y)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.02)
    for step in range(1200):
        if step % 8 == 0:
            rec(step)
        optimizer.zero_grad()
        (((network(x) - y) ** 2).sum(1).mean() / 2).backward()
        optimizer.step()
    found = rec.fit()
    assert found.error < 0.06
    np.testing.assert_allclose(found.final, rec.trajectory.recorded["dh2"][0, -1, 0], rtol=0.05)


WRONG = (None, "a", ["a"], [[1, 2], [3]], {"a": 1}, object(), 1j, 10**400, np.array([None]))
WILD = (True, [], -1, 2**70, float("inf"))  # some of which some arguments may be
U = universality
T = np.linspace(0, 40, 30)
PATH = U.solve(T, 1e-4, 1e-4, -5e-3, 1, 1, 2, 0.5)
ROWS = np.random.default_rng(0).normal(size=(9, 2))
CALLS = {
    "fit": (U.fit, {"t": T, **PATH._asdict(), "dx": 1.0, "dy": 1.0}, "confidence"),
    "fit_rates": (U.fit_rates, {"t": T, **PATH._asdict(), "dx": 1.0, "dy": 1.0}, "confidence"),
    "structure": (U.structure, {"x": ROWS, "y": ROWS, "rate_h": 1.0, "rate_y": 1.0}),
    "smooth_distances": (U.smooth_distances, {"distances": squared_distances(ROWS), "unit": 1.0}),
    "compare": (U.compare, dict.fromkeys(("predicted", "measured"), squared_distances(ROWS)), "draws"),
    "watch": (U.watch, {"graph": nr.Graph.chain([2, 3, 1]), "x": ROWS, "node": "h1"}),
    "record": (U.record, {"model": linear_net, "x": ROWS[:2], "y": ROWS[:2]}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_odd_inputs_are_refused_or_welcome(name):
    call, given, *more = CALLS[name]
    for argument in (*given, *more):
        for odd in WRONG:
            with pytest.raises(InputError):
                call(**{**given, argument: odd})
        for odd in WILD:
            with contextlib.suppress(InputError):
                call(**{**given, argument: odd})


@pytest.mark.parametrize("flag", [(U.fit, "strict"), (U.smooth_distances, "normalised")])
def test_flags_are_true_or_false(flag):
    call, name = flag
    given = CALLS[call.__name__][1]
    for odd in (None, 1, "yes", np.zeros((0, 2))):
        with pytest.raises(InputError, match=f"{name} must be True or False"):
            call(**{**given, name: odd})
