"""The solver against SciPy's and closed forms, in NumPy and in JAX; and its stiff methods."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import neuralrace as nr
from neuralrace.dynamics import constants, explicit, stiff
from neuralrace.dynamics.field import InNumPy
from neuralrace.dynamics.methods import Adaptive
from neuralrace.dynamics.run import Path, Problem
from neuralrace.dynamics.status import Ending, Status

RTOL = 1e-9
BETWEEN = 50 * RTOL  # error allowed between steps


class Field:
    """Any equations of motion (runs, numbers), whose loss is the first number or given."""

    def __init__(self, velocity, loss=lambda y: y[:, 0], slope=lambda y, v: v[:, 0]):
        self.given, self.loss, self.slope, self.calls = velocity, loss, slope, 0

    def velocity(self, y):
        self.calls += 1
        return self.given(y), self.loss(y)


class InJax(InNumPy):
    """The same, compiled."""

    shrinks = False

    def __init__(self, field, keep):
        super().__init__(field, keep)
        self.compiled = jax.jit(lambda *given: explicit.attempt(field, *given))

    def attempt(self, *given):
        with jax.enable_x64(True):
            return self.compiled(*map(jnp.asarray, given))

    def velocity(self, y, sliding=False):
        with jax.enable_x64(True):
            v, loss = self.field.velocity(jnp.asarray(y)[None])
            return np.asarray(v)[0], float(loss[0]), float(self.field.slope(y[None], v)[0])


@pytest.fixture(params=[InNumPy, InJax])
def solved(request):
    """A function that solves `dy/dt = velocity(y)` from y0 (runs, numbers)."""

    def solve(velocity, y0, ts, t1=None, rtol=RTOL, atol=1e-11, most=100_000, **more):
        y0, field = np.atleast_2d(np.asarray(y0, float)), more.pop("field", None) or Field(velocity)
        keep = lambda run, ts, y: (np.asarray(field.loss(y)), (y, np.full(len(ts), run)))  # noqa: E731
        system = request.param(field, keep)
        ts, choose = np.asarray(ts, float), more.pop("choose", False)
        problem = Problem(system, y0, np.ones(len(y0)), t1 or ts[-1], ts, choose, **more)
        return Adaptive(rtol, atol, most).solve(problem)

    return solve


def library(y):
    return np if isinstance(y, np.ndarray) else jnp


def pendulum(y):
    """A driven pendulum; its last number is the time."""
    xp = library(y)
    return xp.stack([y[:, 1], -xp.sin(y[:, 0]) + 0.1 * xp.cos(y[:, 2]), xp.ones_like(y[:, 0])], axis=1)


def test_agrees_with_scipy_at_all_times_and_takes_about_as_many_steps(solved):
    ts = np.linspace(0, 30, 301)
    path = solved(pendulum, [1.0, 0.0, 0.0], ts)
    plain = lambda t, y: pendulum(y[None])[0]  # noqa: E731
    start = [1.0, 0.0, 0.0]
    fine = solve_ivp(plain, (0, 30), start, "DOP853", ts, rtol=1e-13, atol=1e-15)
    assert np.abs(path.kept[0][0] - fine.y.T).max() < 2 * BETWEEN
    other = solve_ivp(plain, (0, 30), start, "DOP853", ts, rtol=RTOL, atol=RTOL / 100)
    assert abs(path.stats["steps"][0] * 13 / other.nfev - 1) < 0.5
    assert str(path.endings[0]) == "finished at t = 30"


def test_times_may_start_late_end_early_and_be_many(solved):
    late = solved(lambda y: -y, [1.0], [2.0, 3.0], t1=5.0)
    assert np.abs(late.losses[0] - np.exp([-2.0, -3.0])).max() < BETWEEN
    assert late.endings[0].t == 5
    many = solved(lambda y: -y, [1.0], np.linspace(0, 1, 2000))
    assert np.abs(many.losses[0] - np.exp(-np.linspace(0, 1, 2000))).max() < BETWEEN


def test_times_are_chosen_where_the_value_falls_also_if_it_is_solved_twice(solved, monkeypatch):
    given = ([1.0], np.linspace(0, 1e4, 200))
    once = solved(lambda y: -y, *given, choose=True)
    assert ((once.t > 0) & (once.t < 5)).sum() > 50
    monkeypatch.setattr(constants, "KEPT_NUMBERS", 1)
    again = solved(lambda y: -y, *given, choose=True)
    assert np.array_equal(once.t, again.t)
    assert np.array_equal(once.losses, again.losses)


def test_stops_where_the_loss_falls_to_a_level(solved):
    path = solved(lambda y: -y, [[1.0], [2.0]], np.linspace(0, 10, 11), stop=0.25)
    assert [e.status for e in path.endings] == [Status.REACHED_LOSS] * 2
    times = [e.t for e in path.endings]
    assert times == pytest.approx(np.log([4, 8]), abs=4 * BETWEEN)
    assert path.losses[0] == pytest.approx([1, np.exp(-1), 0.25, 0.25])  # the shorter run repeats its end
    assert path.losses[1] == pytest.approx([2, 2 * np.exp(-1), 2 * np.exp(-2), 0.25])
    assert path.kept[1].tolist() == [[0] * 4, [1] * 4]
    history = path.history.run(0)
    last = (history.t <= times[0]).sum() - 1
    assert history.slope[: last + 1].min() < -0.9
    assert np.max(history.t) == times[0]
    start = solved(lambda y: -y, [1.0], np.linspace(0, 10, 11), stop=2.0)
    assert start.endings[0].status is Status.REACHED_LOSS
    assert start.endings[0].t == start.stats["steps"][0] == 0


def test_a_level_at_which_nothing_changes_any_more_is_rest(solved):
    path = solved(lambda y: -y, [1.0], [0.0, 1.0, 9.0, 50.0], rest=1e-3)
    assert path.endings[0].since == pytest.approx(np.log(1e3), rel=1e-6)
    assert path.endings[0].t == 50
    assert path.losses[0] == pytest.approx([1, np.exp(-1), 1e-3, 1e-3])


def test_rests_gives_up_and_fails(solved):
    rest = solved(lambda y: 0 * y, [0.0, 1.0], [0.0, 1e9])
    assert rest.endings[0].t == 1e9
    assert rest.stats["steps"][0] == 1
    limited = solved(pendulum, [1.0, 0.0, 0.0], [0.0, 1e3], most=7)
    assert limited.endings[0].status is Status.STEP_LIMIT
    assert limited.stats["steps"][0] == 7
    burst = solved(lambda y: y**2, [1.0], [0.0, 2.0])  # infinite at t = 1
    assert burst.endings[0].status is Status.DIVERGED
    assert burst.endings[0].t == pytest.approx(1, abs=1e-6)
    assert np.isfinite(burst.losses).all()
    assert solved(lambda y: y / 0, [1.0], [0.0, 1.0]).endings[0].status is Status.DIVERGED


def test_a_step_that_overflows_is_tried_again(solved):
    """Steps that are too long leave the region in which the velocity is finite."""
    inf = lambda y, v: library(y).where(y > 1, np.inf, v)  # noqa: E731
    path = solved(lambda y: inf(y, 1 - y), [0.5], [0.0, 3.0])
    assert path.losses[0, -1] == pytest.approx(1 - 0.5 * np.exp(-3), rel=1e-8)
    steep = solved(lambda y: inf(y, 40 * (1 - y) * y), [1e-3], [0.0, 1.0])
    assert steep.losses[0, -1] == pytest.approx(1, rel=1e-6)


def test_a_start_at_zero_that_moves(solved):
    path = solved(lambda y: 1 - y, [0.0], [0.0, 3.0])
    assert path.losses[0, -1] == pytest.approx(1 - np.exp(-3), rel=1e-8)


def test_stored_coefficients_are_those_of_diffrax_and_of_order_eight():
    from tools.coefficients import coefficients

    table, stored = explicit.tableau(), coefficients()
    a, c = np.array(stored["a"]), np.array(stored["c"])
    assert np.array_equal(table.rows[:-1], a)
    assert np.array_equal(table.error, stored["error"])
    assert np.array_equal(table.curve, np.array(stored["curve"]).T)
    assert np.abs(a.sum(axis=1) - c).max() < 1e-14
    assert all(abs(a[-1] @ c**k - 1 / (k + 1)) < 1e-14 for k in range(8))
    assert np.abs(table.curve.sum(axis=0) - a[-1]).max() < 1e-10  # the interpolant ends at the step


class Euler:
    """A method of one's own: steps of one length."""

    def __init__(self, length):
        self.length = length

    def solve(self, problem):
        rows = []
        for run, y in enumerate(problem.start):
            states, at = [], 0.0
            for t in problem.ts:
                for h in np.full(n := round((t - at) / self.length), (t - at) / max(n, 1)):
                    y = y + h * problem.system.velocity(y)[0]
                states, at = [*states, y], t
            rows.append(problem.system.keep(run, problem.ts, np.array(states)))
        endings = (Ending(Status.FINISHED, problem.t1),) * len(rows)
        return Path.of(problem.ts, rows, endings=endings, settings={"method": "Euler"})


def test_a_method_of_ones_own():
    task = nr.tasks.xor(hidden=3)
    w = nr.init.gaussian(task.graph, 0.3, seed=range(2))
    given = {"t1": 5.0, "save": 11, "record": lambda s: {"out": s.outputs["y"]}}
    own, usual = nr.flow(task, w, method=Euler(1e-3), **given), nr.flow(task, w, **given)
    assert own.settings["method"] == "Euler"
    assert np.abs(own.loss - usual.loss).max() < 1e-3 * usual.loss.max()
    assert np.abs(own.recorded["out"] - usual.recorded["out"]).max() < 1e-2
    r = nr.reduce(task)
    solved = [r.solve(0.3, 5.0, 11, method=method) for method in (Euler(1e-3), nr.Adaptive())]
    assert np.abs(solved[0].strengths - solved[1].strengths).max() < 1e-2
    net = nr.relu.train([[1.0, 0.0], [0.0, 1.0]], [[1.0], [2.0]], [4], 0.1, 0.1, 20, method=Euler(1e-2))
    assert net.loss[-1] < net.loss[0]
    for wrong in ("euler", Euler):
        with pytest.raises(ValueError, match="method must be"):
            nr.flow(task, w, 1.0, method=wrong)


# -- stiff ---------------------------------------------------------------------------------------


def spread(numbers, rates):
    """Modes that decay at very different rates, and pull at each other a little."""
    rates = np.resize(np.geomspace(1.0, rates, 12), numbers)
    return Field(
        lambda y: -rates * (y - 0.1 * library(y).sin(y[:, :1])),
        lambda y: 1 + 0.5 * (y**2).sum(axis=1),
        lambda y, v: (y * v).sum(axis=1),
    )


@pytest.mark.parametrize(("numbers", "rtol"), [(12, 1e-8), (120, 1e-5)])
def test_a_stiff_problem_is_solved_in_few_evaluations(solved, numbers, rtol, monkeypatch):
    """By LSODA where numbers are few, by the exponential method where they are many."""
    ts, field = np.linspace(0, 5, 51), spread(numbers, 1e5)
    path = solved(None, np.ones(numbers), ts, rtol=rtol, atol=1e-8, field=field)
    assert path.endings[0].status is Status.FINISHED
    fine = solve_ivp(
        lambda t, y: field.given(y[None])[0], (0, 5), np.ones(numbers), "LSODA", ts, rtol=1e-10, atol=1e-12
    )
    assert np.abs(path.kept[0][0] - fine.y.T).max() < 1e-4
    assert path.stats["steps"][0] < 5 * 1e5 / constants.EDGE / 5  # a fifth of the explicit ones


def test_where_explicit_steps_are_the_better_ones_they_come_back(monkeypatch):
    """A mode that is learned late: stiff while it waits, not while it grows."""
    task = nr.tasks.hierarchy(3, graph=nr.Graph.chain([4, 12, 12, 7]))
    w = nr.init.gaussian(task.graph, 0.02)
    calls, usual = [], stiff._by_exponential
    monkeypatch.setattr(stiff, "_by_exponential", lambda *given: calls.append(1) or usual(*given))
    run = nr.flow(task, w, t1=4000.0, save=30)
    fine = nr.flow(task, w, t1=4000.0, save=30, method=nr.Adaptive(1e-10, 1e-12))
    assert len(calls) > 1
    assert np.abs(run.loss - fine.loss).max() < 1e-6 * run.loss[0]


@pytest.mark.parametrize("length", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("scaled", [False, True])
def test_a_step_is_exact_where_the_velocity_is_linear(length, scaled):
    """Against the exponential of the whole matrix, which learning rates make unsymmetric."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((60, 60))
    j = -(a @ a.T) / 20 * (rng.uniform(0.1, 3, (60, 1)) if scaled else 1)
    y, tolerance = rng.standard_normal(60), np.full(60, 1e-6)
    space, taken = stiff._course(lambda w: j @ w, y, j @ y, length, tolerance)
    assert 0 < taken <= length
    assert np.abs(space.states([taken])[0] - expm(taken * j) @ y).max() < 1e-5
    assert np.abs(space.velocity(taken) - j @ expm(taken * j) @ y).max() < 1e-4
    assert space.parts[0].rate <= 1.01 * np.abs(np.linalg.eigvals(j)).max()


def test_a_step_is_made_shorter_where_few_directions_are_not_enough():
    j = -np.geomspace(1e-3, 1e5, 400)
    y, tolerance = np.ones(400), np.full(400, 1e-9)
    space, taken = stiff._course(lambda w: j * w, y, j * y, 10.0, tolerance)
    assert taken < 1
    assert np.abs(space.states([taken])[0] - np.exp(taken * j)).max() < 1e-7


def test_a_force_moves_what_is_linear_as_it_should():
    """Against sums over small parts of the time."""
    rng = np.random.default_rng(1)
    a, b, x = rng.standard_normal((12, 12)), rng.standard_normal(12), 0.8
    j = -(a @ a.T) / 5
    y, tolerance = rng.standard_normal(12), np.full(12, 1e-10)
    part, taken = stiff._krylov(lambda w: j @ w, y, j @ y, b, 2, x, tolerance)
    assert taken == x
    s, weights = np.polynomial.legendre.leggauss(30)
    s, weights = x * (s + 1) / 2, x * weights / 2
    exact = sum(w * at**2 * expm((x - at) * j) @ b for at, w in zip(s, weights, strict=True))
    assert np.abs(part.moved(x) @ part.basis - exact).max() < 1e-7
    assert np.abs(part.velocity(x) @ part.basis - j @ exact - x**2 * b).max() < 1e-6


def test_an_exponential_step_is_of_order_four():
    rates, y, errors = np.resize(np.geomspace(1.0, 3.0, 12), 40), np.linspace(0.5, 1.5, 40), []
    velocity = lambda y: -rates * (y - 0.1 * np.sin(y[:1]) - 0.3 * np.sin(2 * y[1:2]) * y)  # noqa: E731
    for h in (0.2, 0.1):
        course, taken = stiff._course(velocity, y, velocity(y), h, np.full(40, 1e-11))
        fine = solve_ivp(lambda _, y: velocity(y), (0, h), y, "DOP853", rtol=1e-13, atol=1e-14).y[:, -1]
        errors.append(np.abs(course.states([h])[0] - fine).max())
        assert taken == h
    assert errors[0] / errors[1] > 2**4.5  # of one step


@pytest.mark.parametrize(("width", "seed"), [(30, 2), (60, 0)])
def test_weights_slide_along_kinks_as_small_steps_of_descent_do(width, seed):
    """Both sides of a kink lead back to it; a run comes to rest after some hundred steps."""
    graph = nr.Graph.chain([2, width, 1], activations={"h1": "relu"})
    task = nr.Task(graph, [[1, 0], [0, 1], [1, 1], [-1, 1]], [1, 0, 1, -1])
    w, ts = nr.init.gaussian(graph, 0.5, seed=seed), [0.0, 1.0, 2.0, 5.0, 10.0]
    coarse, fine = (nr.descend(task, w, lr, round(10 / lr), ts).loss for lr in (1e-3, 5e-4))
    run = nr.flow(task, w, 1e6, [*ts, 1e6])
    assert run.endings[0].since < 1e3
    assert run.stats["steps"] < 5000
    assert np.abs(run.loss[:5] - (2 * fine - coarse)).max() < 2e-6 * run.loss[0]
    assert np.abs(run.loss[:5] - fine).max() > 1e-8 * run.loss[0]  # no step of descent is a flow


def narrow(std=0.2):
    task = nr.tasks.hierarchy(3, graph=nr.Graph.chain([4, 12, 12, 7]))
    return task, nr.init.gaussian(task.graph, std)


@pytest.mark.parametrize("rates", [None, nr.Rates(scale={"h1->h2": 3.0}, frozen=("x->h1",))])
def test_a_network_rests_where_the_loss_left_can_move_nothing(rates):
    task, w = narrow(0.3)
    run = nr.flow(task, w, t1=1e4, rates=rates)
    fine = nr.flow(task, w, t1=1e4, rates=rates, method=nr.Adaptive(1e-12, 1e-14))
    assert run.endings[0].since < 2e3
    assert run.loss[-1] <= constants.NOTHING_LEFT * run.loss[0]
    for e, v in run.weights.items():
        assert np.abs(v[-1] - fine.weights[e][-1]).max() < 1e-6


def test_times_of_a_large_network_are_chosen_without_solving_again(monkeypatch):
    task, w = narrow()
    given = {"t1": 2000.0, "method": nr.Adaptive()}
    whole, tries, attempt = nr.flow(task, w, **given), [], explicit.attempt
    monkeypatch.setattr(constants, "KEPT_NUMBERS", 8 * 60 * sum(v.size for v in w.values()))
    monkeypatch.setattr(explicit, "attempt", lambda *a: tries.append(1) or attempt(*a))
    some = nr.flow(task, w, **given)
    assert len(tries) <= some.stats["steps"] + 1
    assert len(some.t) == len(whole.t) == 200
    even = np.isin(some.t, np.linspace(0, 2000, 200))
    assert even[-50:].all()
    assert not even[1:50].any()
    assert np.abs(some.loss - nr.flow(task, w, save=some.t, **given).loss).max() < 1e-8 * some.loss[0]


@pytest.mark.parametrize("t1", [20.0, 200.0, 2000.0])
@pytest.mark.parametrize("steps", [3, 12, 40])
def test_what_is_saved_belongs_to_its_times_however_little_is_kept(monkeypatch, steps, t1):
    """Runs of different lengths; some of the even times after those that can be chosen are asked for."""
    task = nr.tasks.hierarchy(3, graph=nr.Graph.chain([4, 6, 7]))
    w = nr.init.gaussian(task.graph, [0.4, 0.05, 0.2], seed=1)
    monkeypatch.setattr(constants, "KEPT_NUMBERS", 3 * 8 * steps * task.graph.n_weights)
    chosen = nr.flow(task, w, t1=t1)
    asked = nr.flow(task, w, t1=t1, save=chosen.t)
    assert chosen.loss.shape == asked.loss.shape == (3, len(chosen.t))
    assert np.abs(chosen.loss - asked.loss).max() < 1e-8 * asked.loss.max()
    for e, v in asked.weights.items():
        assert np.abs(chosen.weights[e] - v).max() < 1e-6
