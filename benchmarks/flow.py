"""Gradient flow against two solvers around a jitted gradient: SciPy's DOP853 and plain steps of descent.

Both take the gradient from this library, so that only the solving is compared.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from scipy.integrate import solve_ivp

import neuralrace as nr
from benchmarks.measure import Row, fresh, race, seconds

LR = 0.05
Run = Callable[[], float]  # gives the final loss


def ours(task: nr.Task, weights: dict[str, np.ndarray], t1: float) -> Run:
    return lambda: nr.flow(task, weights, t1=t1, save=200).loss[-1]


def dop853(task: nr.Task, weights: dict[str, np.ndarray], t1: float) -> Run:
    """The tolerances and saved times of `nr.flow`."""
    unflatten, start = task.graph.unflatten, task.graph.flatten(weights)
    velocity = jax.jit(lambda t, w: -jax.grad(lambda w: nr.loss(task, unflatten(w)))(w))
    atol = 1e-10 * min(1, np.abs(start).max())
    settings = {"method": "DOP853", "rtol": 1e-8, "atol": atol, "t_eval": np.linspace(0, t1, 200)}

    def run() -> float:
        found = solve_ivp(lambda t, w: np.asarray(velocity(t, w)), (0, t1), start, **settings)
        return nr.loss(task, unflatten(found.y[:, -1]))

    return run


def descent(task: nr.Task, weights: dict[str, np.ndarray], t1: float) -> Run:
    slope = jax.grad(lambda w: nr.loss(task, w))
    update = jax.jit(lambda w: jax.tree.map(lambda w, g: w - LR * g, w, slope(w)))

    def run() -> float:
        w: Any = dict(weights)
        for _ in range(round(t1 / LR)):
            w = update(w)
        return nr.loss(task, w)

    return run


SOLVERS = {"ours": ours, "DOP853": dop853, "descent": descent}


def runs(names: list[str], t1: float) -> dict[str, Run]:
    task = nr.tasks.routing(7, 4)
    weights = nr.init.orthogonal(task.graph, scale=0.2)
    return {name: SOLVERS[name](task, weights, t1) for name in names}


def cold(name: str, t1: float) -> tuple[float, float]:
    losses: list[float] = []
    with jax.enable_x64(True):
        return seconds(lambda: losses.append(runs([name], t1)[name]())), losses[0]


def warm(t1: float) -> dict[str, float]:
    with jax.enable_x64(True):
        solvers = runs(list(SOLVERS), t1)
        race({"ours": runs(["ours"], 1e3)["ours"]}, 10)  # the first are in NumPy, then it is compiled
        race(solvers, 1)
        return race(solvers, 5)


def run(quick: bool) -> list[Row]:
    t1 = 5.0 if quick else 200.0
    first, again = {name: fresh(cold, name, t1) for name in SOLVERS}, fresh(warm, t1)
    times = {name: {"cold": first[name][0], "warm": again[name]} for name in SOLVERS}
    rows = []
    for name, text in {"DOP853": "SciPy DOP853", "descent": f"{round(t1 / LR)} jitted steps"}.items():
        extra = {"difference of final losses": abs(first[name][1] - first["ours"][1])}
        what = f"flow to t = {t1:g}, 7 domains"
        rows.append(Row("flow", what, text, "baseline / ours", times["ours"], times[name], extra))
    return rows
