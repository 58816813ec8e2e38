"""Stiff methods, for runs whose explicit steps are kept short by stability alone.

What has been learned forces small steps on what grows slowly. A small system goes on by LSODA, which is
implicit. A large one goes on by the Runge-Kutta-Chebyshev method of order 2, for as long as its steps are
worth their stages: `s` stages are damped Chebyshev polynomials, which are stable for modes that decay at any
rate up to about `2 s^2 / 3` per step, so the cost of a long step grows with its square root (Sommeijer,
Shampine and Verwer 1998, RKC: an explicit solver for parabolic PDEs). The rates of a gradient flow are real,
as the method needs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from neuralrace.dynamics import constants
from neuralrace.dynamics.explicit import STAGES
from neuralrace.dynamics.history import cubic
from neuralrace.dynamics.run import Run, Step
from neuralrace.dynamics.status import Status

_DAMPING = 2 / 13

Velocity = Callable[[np.ndarray], np.ndarray]


def go_on(run: Run, done: Callable[[], None]) -> None:
    """Follow a stiff run to its end, or until explicit steps are the better ones."""
    (_by_lsoda if run.y.size <= constants.FEW_NUMBERS else _by_chebyshev)(run, done)


def _by_lsoda(run: Run, done: Callable[[], None]) -> None:
    from scipy.integrate import LSODA  # slow to import

    velocity, rtol = run.problem.system.velocity, max(constants.LSODA_SHARE * run.rtol, constants.LSODA_LEAST)
    start, atol = np.asarray(run.y, float), constants.LSODA_SHARE * run.atol
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "lsoda", UserWarning)  # the status of the run says so
        solver = LSODA(lambda _, y: velocity(y)[0], run.t, start, run.problem.t1, rtol=rtol, atol=atol)
        while run.status is None:
            if run.steps >= run.most:
                run.status = Status.STEP_LIMIT
                return
            solver.step()
            run.steps += 1
            if solver.status == "failed":
                run.status = Status.DIVERGED
                return
            dense, y = solver.dense_output(), solver.y
            v, loss, slope = velocity(y)
            inside = lambda dense=dense: lambda ts: dense(np.asarray(ts)).T  # noqa: E731
            run.accept(Step((float(solver.t), loss, slope), None, y, lambda v=v: v, inside))
            done()


def _by_chebyshev(run: Run, done: Callable[[], None]) -> None:
    velocity, t1 = run.problem.system.velocity, run.problem.t1
    v, h, most = velocity(run.y)[0], run.h, constants.MOST_STAGES[run.y.dtype.itemsize]
    mode, rate = _unit(v), 0.0
    work, since, taken = 0, run.t, 0
    while run.status is None:
        y, last = run.y, h >= t1 - run.t
        mode, rate, rounds = _fastest(lambda y: velocity(y)[0], y, v, mode, rate)
        longest = (most**2 - 1) / 1.54 / (constants.MARGIN * rate) if rate > 0 else np.inf
        last, length = last and t1 - run.t <= longest, min(h, t1 - run.t, longest)
        stages = max(2, int(1 + np.sqrt(1 + 1.54 * length * constants.MARGIN * rate)))
        end = _polynomial(lambda y: velocity(y)[0], y, v, length, stages)
        v_end, loss, slope = velocity(end)
        off = 0.8 * (y - end) + 0.4 * length * (v + v_end)
        tolerance = constants.CHEBYSHEV_SHARE * (run.atol + run.rtol * np.maximum(np.abs(y), np.abs(end)))
        error = float(np.sqrt(np.mean((off / tolerance) ** 2)))
        accept, work, taken = error <= 1, work + stages + rounds, taken + 1
        run.steps += -(-(stages + rounds) // STAGES)
        factor = 0.9 * max(error, 1e-20) ** (-1 / 3) if np.isfinite(error) else 0.2
        h = length * min(max(factor, 0.2), 10.0 if accept else 1.0)
        if accept:
            inside = lambda given=(run.t, length, y, v, end, v_end): lambda ts: _cubic(ts, *given)  # noqa: E731
            at = t1 if last else run.t + length
            run.accept(Step((at, loss, slope), None, end, lambda v=v_end: v, inside))
            v = v_end
        elif h <= 0 or run.t + 0.1 * h <= run.t:
            run.status = Status.DIVERGED
        if run.status is None and run.steps >= run.most:
            run.status = Status.STEP_LIMIT
        if taken % constants.TRIED == 0 and (run.t - since) * rate * STAGES < constants.EDGE * work:
            break
        elif taken % constants.TRIED == 0:
            work, since = 0, run.t
        done()
    run.v, run.h = v, min(h, constants.EDGE / rate) if rate > 0 else h
    run.at_edge, run.patience = 0, 2 * run.patience


def _fastest(
    velocity: Velocity, y: np.ndarray, v: np.ndarray, direction: np.ndarray, rate: float
) -> tuple[np.ndarray, float, int]:
    """The mode that decays, or grows, fastest at y, from an estimate; its rate; and how many rounds it took.

    By the power method on differences of velocities.
    """
    small = np.sqrt(np.finfo(y.dtype).eps) * max(np.linalg.norm(y), 1e-3)
    rounds = 0
    while rounds < constants.ROUNDS:
        rounds, before, change = rounds + 1, rate, (velocity(y + small * direction) - v) / small
        direction, rate = _unit(change), float(np.linalg.norm(change))
        if abs(rate - before) <= constants.CLOSE * rate:
            break
    return direction, rate, rounds


def _polynomial(velocity: Velocity, y: np.ndarray, v: np.ndarray, h: float, stages: int) -> np.ndarray:
    """The last stage: stages are sums of Chebyshev polynomials T_j, at w0 just above 1."""
    above = _DAMPING / stages**2
    w0, square = 1 + above, above * (2 + above)  # square: w0^2 - 1, in which rounding would be large
    x = np.log1p(above + np.sqrt(square))  # arccosh(w0)
    last, slope = np.cosh(stages * x), stages * np.sinh(stages * x) / np.sinh(x)
    w1 = slope * square / (stages**2 * last - w0 * slope)  # T'/T'' of the last one
    before, now = (1.0, 0.0, 0.0), (w0, 1.0, 0.0)  # T, T', T'' of the last two
    b_past = b = 1 / w0  # b0 is in no result: at stage 2, `past` is y
    past, at = y, y + b * w1 * h * v
    for _ in range(2, stages + 1):
        new = (
            2 * w0 * now[0] - before[0],
            2 * now[0] + 2 * w0 * now[1] - before[1],
            4 * now[1] + 2 * w0 * now[2] - before[2],
        )
        b_new = new[2] / new[1] ** 2
        mu, nu, pull = 2 * b_new * w0 / b, -b_new / b_past, 2 * b_new * w1 / b
        first = -(1 - b * now[0]) * pull
        ahead = (1 - mu - nu) * y + mu * at + nu * past + h * (pull * velocity(at) + first * v)
        past, at, before, now, b_past, b = at, ahead, now, new, b, b_new
    return at


def _cubic(
    ts: np.ndarray, t: float, h: float, y: np.ndarray, v: np.ndarray, end: np.ndarray, v_end: np.ndarray
) -> np.ndarray:
    """The state (times, numbers) inside a step of length h from t, y to `end`."""
    return cubic((np.asarray(ts)[:, None] - t) / h, h, y, v, end, v_end)


def _unit(v: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(v)
    return v / (size if size > 0 else 1.0)
