"""Solving a reduction: a few numbers per mode where its modes decouple, else a small network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.compiling import allowance, compiled
from neuralrace.dynamics.gradient_flow import each_run, flow
from neuralrace.dynamics.history import collect
from neuralrace.dynamics.integrate import Observed, Path, integrate
from neuralrace.dynamics.methods import Adaptive
from neuralrace.dynamics.setup import FLOW_TIME, Solved, weight_dims
from neuralrace.dynamics.times import adapted_times
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.dynamics.uncompiled import Problem, System, path_at, solve_runs
from neuralrace.network import precision
from neuralrace.reduction.path_classes import TiedLoss
from neuralrace.reduction.solution import Solution, TiedStrengths, lifted

if TYPE_CHECKING:
    from neuralrace.reduction.reduction import Reduction

_COMPILER = {"xla_cpu_use_fusion_emitters": False}  # half the time to compile; few numbers take as long
_UNROLLED = 8  # path classes up to which the sums over them are written out


def solve_small(
    r: Reduction, b: Mapping[str, np.ndarray], t1: float, save: Any, method: Adaptive, stop: float | None,
    more: dict[str, Any],
) -> Solution:  # fmt: skip
    """By the flow of the small network whose weights are the strengths; `more` are fields of the solution."""
    edge, shape = next(iter(r.family.shape.items()))
    lead = b[edge].shape[: b[edge].ndim - len(shape)]
    fixed = {n: np.broadcast_to(f, (*lead, *f.shape)) for n, f in r.family.fixed.items()}
    rates: dict[str, Any] = {"weight_decay": r.weight_decay, "lr_scale": r.lr_scale}
    run = flow(r.family.small, {**b, **fixed}, t1, save, frozen=fixed, method=method, stop_loss=stop, **rates)
    found = {e: run.weights[e] for e in r.task.graph.edges}
    settings = {**run.settings, **rates, "process": "reduction"}
    del settings["dimensions"]
    parts = {f.name: getattr(run, f.name) for f in fields(Trajectory)}
    parts |= {
        "settings": settings,
        "dims": weight_dims(r.task.graph),
        "weights": lifted(r.family, found),
    }
    return Solution(**{**parts, **more}, reduction=r, b=found)


def solve_tied(
    r: Reduction, b: Mapping[str, np.ndarray], t1: float, ts: np.ndarray, choose: bool, method: Adaptive,
    stop: float | None, more: dict[str, Any],
) -> Solution:  # fmt: skip
    """By the equations of the classes; with `choose`, at better times if `ts` skip the fall of the loss."""
    assert r.tied is not None
    start = np.stack([b[members[0]] for members in r.classes], axis=-2)
    many = start.ndim == 3
    start = start if many else start[None]
    problem = Problem(t1, method.rtol, stop, method.max_steps, None if choose else ts)
    plain = _in_numpy(r.tied, start, method, problem, len(ts))
    paths = plain or partial(_compiled, r.tied, start, t1, stop, method)
    path = paths(ts)
    history = collect(path.history)
    if choose:
        better = adapted_times([history.run(k) for k in range(len(start))], t1)
        if better is not None:
            ts, path = better, paths(better)
            history = collect(path.history)
    solved = Solved.of(path, ts, t1, stop, method.max_steps)
    found = TiedStrengths(r.classes, solved.pick(solved.kept, many))
    settings = {
        "process": "reduction", "method": "Adaptive", "t1": t1, "rtol": method.rtol, "atol": method.atol,
        "max_steps": method.max_steps, "stop_loss": stop, "compiled": plain is None,
        "weight_decay": r.weight_decay, "lr_scale": r.lr_scale, "time": FLOW_TIME,
    }  # fmt: skip
    return Solution(
        **solved.fields(many, history, {"steps": path.steps}),
        **more,
        weights=lifted(r.family, found),
        settings=settings,
        dims=weight_dims(r.task.graph),
        reduction=r,
        b=found,
    )


def _in_numpy(
    tied: TiedLoss, start: np.ndarray, method: Adaptive, problem: Problem, n: int
) -> Callable[[np.ndarray], Path] | None:
    """A function of the times to save, of which there are about n; None where it is to be compiled."""
    left = allowance((tied.powers, method.max_steps, start.shape, n, problem.stop is None))
    if not left.left:
        return None
    shape = start.shape[1:]
    by_gradient = -(tied.rates / tied.sizes)[:, None]
    by_strength = -(tied.rates * tied.decays)[:, None] if tied.decays.any() else None

    def velocity(y: np.ndarray, v: np.ndarray) -> np.ndarray:
        b, out = (a.reshape(-1, *shape) for a in (y, v))
        loss, g = tied.loss_and_gradient(b)
        np.multiply(by_gradient, g, out=out)
        if by_strength is not None:
            out += by_strength * b
        return loss

    def slope(y: np.ndarray, v: np.ndarray) -> np.ndarray:
        _, g = tied.loss_and_gradient(y.reshape(-1, *shape))
        return np.einsum("rn,rn->r", g.reshape(y.shape), v)

    def keep(_: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        b = rows.reshape(*rows.shape[:2], *shape)
        return tied.loss(b), b

    flat, atols = start.reshape(len(start), -1), method.absolute(start)
    solutions = solve_runs(lambda runs: System(velocity, slope), flat, atols, problem, left, tied.load)
    return None if solutions is None else lambda ts: path_at(solutions, ts, keep)


def _compiled(
    tied: TiedLoss, start: np.ndarray, t1: float, stop: float | None, method: Adaptive, ts: np.ndarray
) -> Path:
    with precision(np.float64):
        given = (start, method.absolute(start), *tied.on_device, ts, t1, stop, method.rtol)
        solve = compiled(tied_flow, (0, 1), *_COMPILER.items())
        return jax.tree.map(np.asarray, solve(tied.powers, method.max_steps, *given))


def tied_flow(
    powers: tuple[tuple[int, ...], ...], max_steps: int, start: Any, atol: Any,
    statistics: Any, rates: Any, ts: Any, t1: Any, stop: Any, rtol: Any,
) -> Path:  # fmt: skip
    """Integrate from each of `start` (runs, classes, modes); `kept` are losses and strengths at `ts`.

    `statistics` are S, D, the sizes of the classes and the constant of a `TiedLoss`; `rates` the learning
    rate and the weight decay of each class.
    """
    s, d, sizes, constant = statistics
    sizes, scale, decay = (v[:, None] for v in (sizes, *rates))

    def loss(b: Any) -> Any:
        m = [_product(b, p) for p in powers]
        if len(m) > _UNROLLED:
            products = jnp.einsum("klm,lm->km", d, jnp.stack(m))
        else:
            products = [sum(d[k, j] * m[j] for j in range(len(m))) for k in range(len(m))]
        return constant + sum(jnp.sum((0.5 * products[k] - s[k]) * m[k]) for k in range(len(m)))

    def velocity(_: Any, b: Any) -> Any:
        return -scale * (jax.grad(loss)(b) / sizes + decay * b)

    def slope(b: Any, v: Any) -> Any:
        g = v / jnp.where(scale > 0, scale, 1) + decay * b  # where a rate is 0, so is v
        return -jnp.sum(sizes * g * v)

    def one(b0: Any, atol: Any) -> Path:
        observed = Observed(loss, slope)
        path = integrate(
            velocity, b0, ts, t1, rtol, atol, observed=observed, stop=stop, max_steps=max_steps, order=5
        )
        return path._replace(kept=(jax.vmap(loss)(path.kept), path.kept))

    return each_run(one, start, atol)


def _product(b: Any, powers: tuple[int, ...]) -> Any:
    out = jnp.ones(b.shape[1], b.dtype)
    for k, p in enumerate(powers):
        out = out * b[k] ** p if p else out
    return out
