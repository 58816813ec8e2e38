"""Flows solved in one place: explicit steps of order 8, and a stiff method for what has become stiff.

The loop is in Python, whatever computes the velocities. It comes back between steps, so Ctrl-C and progress
bars work, and what a run goes through is written down once, for NumPy and JAX and for all methods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from neuralrace.dynamics import constants
from neuralrace.dynamics.explicit import ORDER, Attempt, interpolant
from neuralrace.dynamics.history import History, adapted_times
from neuralrace.dynamics.run import Path, Problem, Run, Step
from neuralrace.dynamics.status import Status
from neuralrace.dynamics.stiff import go_on
from neuralrace.interrupts import Progress


def evolve(problem: Problem, rtol: float, atols: np.ndarray, max_steps: int) -> Path:
    """Solve, with local errors rtol and atols (runs,), in at most so many steps of a run."""
    runs = [Run(problem, k, rtol, atol, max_steps) for k, atol in enumerate(atols.tolist())]
    side = problem.system.together(*problem.start.shape)
    with np.errstate(all="ignore"), Progress("flow", problem.progress) as progress:
        done = lambda: progress(sum(r.t / problem.t1 if r.status is None else 1 for r in runs) / len(runs))  # noqa: E731
        for at in range(0, len(runs), side):
            some = runs[at : at + side]
            _explicit(some, done)
            for run in some:
                while run.status is None:
                    go_on(run, done)
                    _explicit([run], done)
        ts, history = problem.ts, History.of([run.history for run in runs])
        if problem.choose:
            known = min(run.known for run in runs)
            better = adapted_times([history.run(k) for k in range(len(runs))], problem.t1, known)
            ts = ts if better is None else better
            if not np.isin(ts[ts > known], problem.ts).all():
                return evolve(replace(problem, ts=ts, choose=False), rtol, atols, max_steps)
        rows, endings = [run.rows(ts) for run in runs], tuple(run.ending for run in runs)
    path = Path.of(ts, rows, endings=endings, history=history)
    losses = path.losses if problem.decays else np.minimum.accumulate(path.losses, axis=1)
    stats = {"steps": np.array([run.steps for run in runs])}
    return replace(path, losses=np.maximum(losses, 0.0), stats=stats)  # rounding may leave less than 0


def _explicit(runs: list[Run], done: Callable[[], None]) -> None:
    """Explicit steps of some runs side by side, until each has ended or has become stiff."""
    problem, t1 = runs[0].problem, runs[0].problem.t1
    system = problem.system.of([run.k for run in runs])
    atol, y = np.array([run.atol for run in runs]), np.stack([run.y for run in runs])
    if runs[0].v is None:
        for run, *first in zip(runs, *map(np.asarray, system.begin(y)), strict=True):
            run.begin(first[0], float(first[1]), float(first[2]))
    v, h = np.stack([run.v for run in runs]), np.array([run.h for run in runs])  # pyright: ignore[reportCallIssue, reportArgumentType]
    while True:
        going = np.array([run.status is None and not run.stiff for run in runs])
        if not going.any():
            return
        if system.shrinks and not going.all():
            runs = [run for run, goes in zip(runs, going, strict=True) if goes]
            system = problem.system.of([run.k for run in runs])
            y, v, h, atol, going = y[going], v[going], h[going], atol[going], going[going]
        t = np.array([run.t for run in runs])
        last = h >= t1 - t
        length = np.where(going, np.where(last, t1 - t, h), 0.0)
        tried = system.attempt(y, v, length, runs[0].rtol, atol)
        error, stiffness, *points = np.asarray(tried.summary, float)
        accept = going & (error <= 1)
        h = length * _factor(error, accept)
        edge = accept & ~(stiffness <= constants.EDGE)
        states = np.asarray(tried.y)
        for n in np.flatnonzero(going).tolist():
            run, run.h = runs[n], float(h[n])
            run.steps += 1
            if accept[n]:
                run.calm = 0 if edge[n] else run.calm + 1
                run.at_edge = run.at_edge + 1 if edge[n] else 0 if run.calm >= constants.CALM else run.at_edge
                half, half_slope, loss, slope = (float(v[n]) for v in points)
                middle = float(t[n] + length[n] / 2), half, half_slope
                end = float(t1 if last[n] else t[n] + length[n]), loss, slope
                inside = partial(_inside, float(t[n]), float(length[n]), run.y, tried, n)
                run.accept(Step(end, middle, states[n], lambda n=n: np.asarray(tried.v)[n], inside))
            if run.status is None and ((not accept[n] and t[n] + 0.1 * h[n] <= t[n]) or h[n] <= 0):
                run.status = Status.DIVERGED
            if run.status is None and run.steps >= run.most:
                run.status = Status.STEP_LIMIT
            if run.stiff and run.status is None:
                run.v = np.asarray(tried.v)[n]
        if accept.all():
            y, v = tried.y, tried.v
        elif accept.any():
            where = np.where if system.shrinks else jnp.where
            y, v = (where(accept[:, None], *both) for both in ((tried.y, y), (tried.v, v)))
        done()


def _inside(t: float, h: float, y: np.ndarray, tried: Attempt, n: int) -> Callable[[Any], np.ndarray]:
    return interpolant(t, h, y, np.asarray(tried.k)[:, n])


def _factor(error: np.ndarray, accept: np.ndarray) -> np.ndarray:
    """The ratio of the next step to this one, from its error in tolerances."""
    factor = constants.SAFETY * np.maximum(error, 1e-20) ** (-1 / ORDER)
    factor = np.clip(factor, constants.SHORTEST, np.where(accept, constants.LONGEST, 1.0))
    return np.where(np.isfinite(error), factor, constants.SHORTEST)
