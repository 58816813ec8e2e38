"""The method for stiff flows against SciPy's implicit solver, its order, and against `Adaptive`."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from neuralrace.dynamics.chebyshev import Mode, _polynomial, follow, step, unknown
from neuralrace.dynamics.integrate import FINISHED, integrate
from scipy.integrate import solve_ivp

import neuralrace as nr
from neuralrace.dynamics import chebyshev

RATES = np.geomspace(1.0, 3e3, 12)
STABLE = 0.653  # largest stable rate of s stages, divided by s^2 - 1: 2/3 (1 - 2/15 damping)


def stiff(y):
    """Modes that decay at very different rates, and pull at each other a little."""
    return -RATES * (y - 0.1 * jnp.sin(y[0]))


def solved(ts, rtol=1e-5, **keywords):
    calls = []

    def velocity(t, y):
        jax.debug.callback(lambda: calls.append(1))
        return stiff(y)

    with jax.enable_x64(True):
        path = jax.jit(lambda y: integrate(velocity, y, jnp.asarray(ts), ts[-1], rtol, 1e-8, **keywords))(
            jnp.ones(len(RATES))
        )
        jax.effects_barrier()
    return jax.tree.map(np.asarray, path), len(calls)


def test_a_stiff_problem_is_solved_in_few_evaluations():
    ts = np.linspace(0, 5, 51)
    path, calls = solved(ts, order=2)
    other, many = solved(ts, order=8)
    plain = lambda t, y: np.asarray(-RATES * (y - 0.1 * np.sin(y[0])))  # noqa: E731
    fine = solve_ivp(plain, (0, 5), np.ones(len(RATES)), "Radau", ts, rtol=1e-10, atol=1e-12).y.T
    assert path.status == other.status == FINISHED
    assert np.abs(path.kept - fine).max() < 1e-4
    assert calls < many / 5


@pytest.mark.parametrize("stages", [2, 7, 40])
def test_a_step_is_of_order_two_and_estimates_its_error(stages):
    """The local error falls by 8 when the step is halved; the number of stages follows the rate."""

    def velocity(y):
        return jnp.stack([y[1], -jnp.sin(y[0])])

    with jax.enable_x64(True):
        y = jnp.array([1.0, 0.5])
        rate = lambda h: (stages**2 - 1.5) / (1.54 * 1.1 * h)  # noqa: E731

        def off(h):
            known = Mode(jnp.zeros(2), jnp.asarray(rate(h)))
            # Without rounds of the power method the rate is taken as it is.
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("neuralrace.dynamics.chebyshev.follow", lambda *_: known)
                end, _, estimate, _ = step(velocity, y, velocity(y), jnp.asarray(h), known)
            fine = solve_ivp(
                lambda t, y: [y[1], -np.sin(y[0])], (0, h), np.asarray(y), "DOP853", rtol=1e-13, atol=1e-15
            ).y[:, -1]
            return np.abs(end - fine).max(), np.abs(estimate).max()

        (coarse, _), (finer, estimate) = off(0.04), off(0.02)
    assert coarse / finer == pytest.approx(8, rel=0.1)
    assert 1.1 < estimate / finer < 1.9  # 1.2 for two stages, 1.8 for many


@pytest.mark.parametrize("stages", [2, 3, 10, 60, 2000])
def test_a_step_is_the_published_polynomial_stable_and_damped(stages):
    """Sommeijer, Shampine and Verwer 1998: 1 - b T(w0) + b T(w0 + w1 z), with damping 2/13."""
    rates = np.linspace(0, STABLE * (stages**2 - 1), 2001)
    with jax.enable_x64(True):
        y, z = jnp.ones(len(rates)), jnp.asarray(-rates)
        found = np.asarray(_polynomial(lambda y: z * y, y, z * y, jnp.ones(()), jnp.asarray(float(stages))))
    with mpmath.workdps(50):
        w0 = 1 + mpmath.mpf(2) / 13 / stages**2
        last, x = mpmath.chebyt(stages, w0), mpmath.acosh(w0)
        first = stages * mpmath.sinh(stages * x) / mpmath.sinh(x)
        second = (stages**2 * last - w0 * first) / (w0**2 - 1)
        b, w1 = second / first**2, first / second
        some = range(0, len(rates), 50)
        expected = [1 - b * last + b * mpmath.chebyt(stages, w0 - w1 * float(rates[k])) for k in some]
    assert found[some] == pytest.approx(np.array(expected, float), abs=1e-9)
    assert np.abs(found[rates > 2]).max(initial=0) < 0.96


@pytest.mark.parametrize("rate", [0.0, 3.0, 50.0, 2e4])
def test_a_step_has_the_stages_that_its_fastest_mode_needs(rate, monkeypatch):
    seen = []
    with jax.enable_x64(True):
        y, known = jnp.ones(2), Mode(jnp.zeros(2), jnp.asarray(rate))
        monkeypatch.setattr(chebyshev, "follow", lambda *_: known)
        monkeypatch.setattr(chebyshev, "_polynomial", lambda *given: seen.append(int(given[-1])) or y)
        step(jnp.zeros_like, y, 0 * y, jnp.ones(()), known)
    stages = seen[0]
    assert STABLE * (stages**2 - 1) > rate
    assert stages == 2 or STABLE * ((stages - 2) ** 2 - 1) < 1.1 * rate  # 1.1: a margin


def test_a_step_that_needs_too_many_stages_is_refused():
    with jax.enable_x64(True):
        fast = lambda y: -1e7 * y  # noqa: E731
        y = jnp.ones(2)
        off = [step(fast, y, fast(y), h, unknown(y))[2] for h in (jnp.asarray(0.2), jnp.asarray(0.3))]
    assert np.isfinite(off[0]).all()
    assert np.isinf(off[1]).all()


def test_the_fastest_mode_is_found_and_followed():
    with jax.enable_x64(True):
        y = jnp.ones(len(RATES))
        found = follow(stiff, y, stiff(y), unknown(y))
        again = follow(stiff, y, stiff(y), found)
    assert found.rate == pytest.approx(RATES[-1], rel=0.15)
    assert again.rate == pytest.approx(RATES[-1], rel=0.05)


def test_the_fastest_mode_is_found_where_the_velocity_has_little_of_it():
    with jax.enable_x64(True):
        decay = lambda y: -jnp.array([1.0, 10.0, 100.0]) * y  # noqa: E731
        y = jnp.array([1.0, 1e-3, 1e-6])
        found = follow(decay, y, decay(y), unknown(y))
    assert found.rate == pytest.approx(100, rel=0.1)
    assert abs(found.direction[-1]) == pytest.approx(1, abs=0.1)


def test_a_flow_agrees_with_the_usual_method():
    """Inputs of very different variances, from small weights; two runs."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 6)) * np.geomspace(10, 0.1, 6)
    task = nr.Task(nr.Graph.chain([6, 5, 5, 2]), x, x @ rng.standard_normal((6, 2)))
    start = nr.init.gaussian(task.graph, 0.05, seed=range(2))
    end = float(np.linalg.eigvalsh(x.T @ x / 200)[0]) ** -1
    fine = nr.flow(task, start, end, save=30, method=nr.Adaptive())
    found = nr.flow(task, start, end, save=30, method=nr.Chebyshev(1e-5, 1e-6))
    assert found.settings["method"] == "Chebyshev"
    assert np.abs(found.loss - fine.loss).max() < 1e-3 * fine.loss.max()
    level = 0.1 * float(fine.loss.max())
    assert nr.learning_time(found, level) == pytest.approx(nr.learning_time(fine, level), rel=1e-2)
    goal = float(fine.loss[:, -10].max())
    stopped = nr.flow(task, start, end, save=2, method=nr.Chebyshev(1e-5, 1e-6), stop_loss=goal)
    assert set(stopped.statuses) == {nr.Status.REACHED_LOSS}
    assert stopped.loss[:, -1] == pytest.approx(goal)


def test_it_is_refused_where_only_the_usual_method_is_there():
    r = nr.reduce(nr.tasks.xor())
    system = r.to_jax(strength=0.1)
    given = (system.strengths, system.statistics, system.gates)
    calls = [
        lambda: r.solve(strength=0.1, t1=1.0, method=nr.Chebyshev()),
        lambda: system.solve(*given, [1.0], nr.Chebyshev()),
        lambda: system.learning_time(*given, 0.1, 1.0, nr.Chebyshev()),
    ]
    for call in calls:
        with pytest.raises(nr.errors.InputError, match=r"method must be nr.Adaptive\(...\), got Chebyshev"):
            call()


def test_flows_of_relu_networks_take_it():
    method = nr.Chebyshev(1e-5, 1e-6)
    x, y = np.eye(2), np.array([[1.0], [2.0]])
    net = nr.relu.train(x, y, [4], 0.3, 0.05, 100, 3, method=method)
    usual = nr.relu.train(x, y, [4], 0.3, 0.05, 100, 3, method=nr.Adaptive())
    assert net.settings["method"] == "Chebyshev"
    assert net.loss == pytest.approx(usual.loss, abs=1e-3)
