"""Flows of wide linear networks in low-rank bases, in the terms of `flow`."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.interpolate import PchipInterpolator

from neuralrace.dynamics.history import SIZE, History
from neuralrace.dynamics.methods import LowRank
from neuralrace.dynamics.record import Recorder, State
from neuralrace.dynamics.setup import Setup, Solved, ending, resized
from neuralrace.dynamics.trajectory import Status
from neuralrace.errors import InputError
from neuralrace.task import Task
from neuralrace.wide import ROUNDING, Saved, follow, small_shapes

_STATUS = {
    "finished": Status.FINISHED,
    "stopped": Status.REACHED_LOSS,
    "step limit": Status.STEP_LIMIT,
    "failed": Status.DIVERGED,
}


def low_rank_flow(
    setup: Setup, method: LowRank, ts: np.ndarray, t1: float, stop: float | None, progress: bool
) -> tuple[Solved, History, dict[str, Any], dict[str, Any]]:
    """Every run by the change of its weights; see `flow` and `LowRank`."""
    from tqdm import tqdm

    task, graph = setup.given, setup.given.graph
    if not setup.rates.on_or_off:
        raise InputError("method=LowRank takes no lr_scale and no weight_decay: use method=Adaptive")
    frozen = [e for e, s in setup.rates.scale.items() if s == 0]
    keep_weights = setup.recorder.save_weights
    recording = _Recording(setup)
    flat = (
        np.repeat(setup.full[:, None], len(ts), axis=1)
        if keep_weights
        else np.zeros((len(setup.full), len(ts), 0))
    )
    found, spaces, kept = [], {}, []
    for k, start in enumerate(tqdm(setup.full, "flow", disable=not progress)):
        first = graph.unflatten(start.astype(float, copy=False))

        def keep(saved: Saved, first: Any = first) -> Any:
            gained = saved.gained() if keep_weights else {}
            return gained, recording(saved, first)

        f, spaces = follow(
            task,
            first,
            frozen,
            ts,
            t1,
            method.error,
            -np.inf if stop is None else stop,
            method.max_steps,
            keep,
            method.tolerance,
        )
        if keep_weights:
            gained = {e: np.stack([g[e].reshape(s) for g, _ in f.kept]) for e, s in graph.shapes.items()}
            flat[k] += graph.flatten(gained)
        kept.append({n: np.stack([r[n] for _, r in f.kept]) for n in f.kept[0][1]})
        found.append(f._replace(kept=[]))
    recorded = {n: np.stack([r[n] for r in kept]) for n in kept[0]}
    end, losses, error = (np.array([getattr(f, name) for f in found]) for name in ("end", "loss", "error"))
    if np.dtype(setup.dtype) == np.float32:
        error += ROUNDING * np.finfo(np.float32).eps
    statuses, outcomes = _endings(found, losses, end, error, t1, stop, method)
    solved = Solved(ts, end, _last_reached(ts, end), losses, (flat, recorded), statuses, outcomes)
    stats = {"steps": np.array([f.steps for f in found]), "error": error}
    settings = {"error": method.error, "max_steps": method.max_steps, "dimensions": spaces}
    return solved, _history(found), stats, settings


def _last_reached(ts: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Index of the time at which the end of each run is shown: not one that it never reached."""
    return np.array([np.searchsorted(ts, at * (1 - 1e-12)) for at in end]).clip(max=len(ts) - 1)


def _endings(
    found: list[Any], losses: np.ndarray, end: np.ndarray, error: np.ndarray, t1: float, stop: float | None,
    method: LowRank,
) -> tuple[list[Status], list[str]]:  # fmt: skip
    statuses, outcomes = [], []
    for k, (f, at) in enumerate(zip(found, end, strict=True)):
        status = _STATUS[f.outcome] if np.isfinite(losses[k]).all() else Status.DIVERGED
        text = ending(status, at, t1, stop, method.max_steps)
        if method.tolerance is None and not error[k] <= method.error:
            text += f"; stated error {error[k]:.2g}, above {method.error:g}"
            if status in (Status.FINISHED, Status.REACHED_LOSS):
                status, text = Status.MISSED_ERROR, f"{Status.MISSED_ERROR.value}: {text}"
        statuses.append(status)
        outcomes.append(text)
    return statuses, outcomes


def _history(found: list[Any]) -> History:
    """Losses at the solver's own steps, with slopes of the monotone cubics through them."""
    n = min(max(len(f.curve) for f in found), SIZE)
    rows = np.zeros((3, len(found), n))
    for k, f in enumerate(found):
        t, loss = np.array(f.curve).T
        some = np.unique(np.linspace(0, len(t) - 1, n).round().astype(int))
        t, loss = t[some], loss[some]
        slope = PchipInterpolator(t, loss).derivative()(t) if len(t) > 1 else np.zeros(1)
        pad = n - len(t)
        rows[:, k] = np.pad(t, (0, pad), "edge"), np.pad(loss, (0, pad), "edge"), np.pad(slope, (0, pad))
    return History(rows[0], rows[1], rows[2])


class _Recording:
    """Calls `record` at a saved time, with full weights only if it asks for them."""

    def __init__(self, setup: Setup):
        self.recorder, self.task, self.setup = setup.recorder, setup.given, setup
        if self.recorder.record is not None:
            self.small = resized(self.task, _sizes(self.task))
            with setup.precision():
                self.full = _asks_for_weights(self.recorder, self.small, setup.dtype)

    def __call__(self, saved: Saved, first: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if self.recorder.record is None:
            return {}
        dtype, full = self.setup.dtype, None
        if self.full:
            gained = saved.gained()
            full = {e: np.asarray(w + gained[e].reshape(w.shape), dtype) for e, w in first.items()}
        small = {e: np.asarray(w, dtype) for e, w in saved.small().items()}
        with self.setup.precision():
            given = np.asarray(saved.t, dtype), small, full
            out = _record(self.recorder, self.small, *given)
        return {n: np.asarray(v) for n, v in out.items()}


@lru_cache(maxsize=64)
def _asks_for_weights(recorder: Recorder, small: Task, dtype: Any) -> bool:
    full = False

    def asked() -> dict[str, Any]:
        nonlocal full
        full = True
        return {e: jnp.zeros(s, dtype) for e, s in recorder.task.graph.shapes.items()}

    def once() -> dict[str, Any]:
        weights = {e: jnp.zeros(s, dtype) for e, s in small.graph.shapes.items()}
        return recorder.recorded(State(jnp.zeros(()), recorder.task, asked, (small, weights)))

    jax.eval_shape(once)
    return full


@partial(jax.jit, static_argnums=(0, 1))
def _record(recorder: Recorder, small: Task, t: Any, weights: Any, full: Any) -> Any:
    return recorder.recorded(State(t, recorder.task, lambda: dict(full), (small, weights)))


def _sizes(task: Task) -> dict[str, int]:
    """Sizes of nodes in the small network whose outputs are those of the wide one."""
    shapes, g = small_shapes(task), task.graph
    sizes = {}
    for e, (source, target) in g.edges.items():
        if len(shapes[e]) == 2:
            sizes[target], sizes[source] = shapes[e]
    return {n: s for n, s in sizes.items() if n in g.hidden}
