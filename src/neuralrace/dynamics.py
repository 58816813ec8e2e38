"""Learning: gradient flow and gradient descent on the weights of a task's network.

Time is flow time with tau = 1 on the mean loss; step k of descent is at `t = lr k` (theory section 6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import InputError, array, integer, known, number
from neuralrace.graph import Graph
from neuralrace.network import (
    Program,
    Stack,
    cast,
    check,
    is_linear,
    precision,
    program,
    row_blocks,
    some_rows,
)
from neuralrace.strides import follow as follow_strides
from neuralrace.subspace import Frames, closed_frames, expand, rotation_invariant_nodes, shrink
from neuralrace.task import Task
from neuralrace.trajectory import Trajectory
from neuralrace.wide import ROUNDING, follow, small_shapes

Record = Callable[[dict[str, Any]], dict[str, Any]]


def flow(
    task: Task,
    weights: Mapping[str, Any],
    t1: float | None = None,
    save: int | Iterable[float] = 200,
    *,
    loss: str = "squared",
    rtol: float = 1e-8,
    atol: float = 1e-10,
    stop_loss: float | None = None,
    max_steps: int = 100_000,
    width_error: float | None = None,
    frozen: Iterable[str] = (),
    record: Record | None = None,
    save_weights: bool = True,
    progress: bool = False,
    dtype: Any = np.float64,
) -> Trajectory:
    """Gradient flow `dW/dt = -dL/dW` from `weights` to time `t1`, by an adaptive solver.

    `save` is a number of times, start and end included, or the times themselves. The run ends early when
    the loss falls to `stop_loss`. `atol` counts in units of the largest initial weight where that is
    below 1, so that tiny starts are followed as closely as large ones. Edges in `frozen` do not learn.
    `record(weights)` returns a dict of what else to keep at the saved times, written with `jax.numpy`;
    `save_weights=False` keeps only that. A leading axis on every weight runs all those starts.

    With `width_error` the flow of a linear network follows what its wide layers gain, in frames of low rank
    that grow until the estimated error of what flows through any edge to the outputs is below it; `settings`
    of the result state the estimate, and `record` sees the weights in small spaces, whose products along
    paths from inputs are those of the network (docs/network.md). Solver tolerances then follow the error.

    >>> import neuralrace as nr
    >>> task = nr.tasks.xor()
    >>> nr.flow(task, nr.init.gaussian(task.graph, std=1e-2), t1=40.0).outcome
    'finished at t = 40'
    """
    if width_error is not None:
        width_error = number("width_error", width_error, least=1e-10)
        if isinstance(task, Task) and not is_linear(task, loss):
            raise InputError("width_error needs a network without activations and loss='squared'")
    run = _Run.prepare(task, weights, loss, frozen, dtype, compress=True)
    t1, ts = save_times(t1, save)
    rtol, atol = number("rtol", rtol, above=0), number("atol", atol, above=0)
    stop = -np.inf if stop_loss is None else number("stop_loss", stop_loss, above=0)
    max_steps = integer("max_steps", max_steps)
    recorder = run.recorder(record, save_weights)
    grown: dict[str, Any] = {}
    error = np.zeros(len(run.start))
    if width_error is None or run.frames.keys() == set(rotation_invariant_nodes(task)):
        with precision(dtype):
            end, states, kept, status = _solve(
                run.program.stack, loss, recorder, max_steps, bool(progress), stop_loss is not None,
                run.start, run.data, jnp.asarray(ts, run.start.dtype), t1, stop, rtol,
                atol * np.minimum(1.0, np.abs(run.full).max(axis=-1)), run.mask,
                run.lift if width_error is None else None,
            )  # fmt: skip
    else:
        run = replace(run, task=task, start=run.full, frames={})
        end, states, kept, status, error, grown = _wide(
            run, recorder, ts, t1, width_error, stop, max_steps, bool(progress)
        )
    if width_error is not None:
        stated = error.tolist() if run.many else float(error[0])
        grown = {**grown, "width_error": width_error, "width_error_estimate": stated}
    end, status = np.asarray(end, float), {k: np.asarray(v) for k, v in status.items()}
    outcomes = []
    for k, at in enumerate(end):
        if status["event"][k]:
            outcomes.append(f"reached loss {stop_loss:g} at t = {at:g}")
        elif status["step_limit"][k]:
            outcomes.append(f"step limit of {max_steps} at t = {at:g}: try increasing max_steps")
        elif status["failed"][k] or not status["finite"][k]:
            outcomes.append(f"diverged at t = {at:g}: the solver found no step with finite weights")
        else:
            outcomes.append(f"finished at t = {t1:g}")
        if width_error is not None and not error[k] <= width_error:
            outcomes[-1] += f"; width error {error[k]:.2g}, above {width_error:g}"
    settings = {
        "method": "flow",
        "t1": t1,
        "rtol": rtol,
        "atol": atol,
        "stop_loss": stop_loss,
        "max_steps": max_steps,
        "solver_steps": status["steps"].tolist(),
        **grown,
    }
    # A run that ended between two times is shown at its end, not at the time it never reached.
    last = np.array([np.searchsorted(ts, at * (1 - 1e-12)) for at in end]).clip(max=len(ts) - 1)
    return run.trajectory(ts, end, last, outcomes, states, kept, None, settings)


def descend(
    task: Task,
    weights: Mapping[str, Any],
    lr: float,
    steps: int,
    save: int | Iterable[float] = 200,
    *,
    loss: str = "squared",
    batch_size: int | None = None,
    momentum: float = 0.0,
    optimizer: Any = "sgd",
    stop_loss: float | None = None,
    stride_error: float | None = None,
    frozen: Iterable[str] = (),
    record: Record | None = None,
    save_weights: bool = True,
    progress: bool = False,
    dtype: Any = np.float64,
    seed: int = 0,
) -> Trajectory:
    """Gradient descent on the mean loss with learning rate `lr`, in one compiled loop.

    `optimizer` is "sgd", "adam" or an optax transformation (`lr` then only sets the time axis). With
    `batch_size` every step sees that many samples, drawn without replacement in an order that `seed`
    shuffles anew each epoch (what does not fill a batch waits for the next epoch); `loss` at the saved
    times is then still that of all samples. A task that holds its samples context by context takes the same
    rows from every context. The rest is as in `flow`.

    With `stride_error` full-batch descent takes strides of several steps: gradients are computed at some
    steps and extrapolated in between, so that the loss at any step is wrong by no more than about this share
    of the initial loss. `settings` of the result state an estimate of the error, and how many gradients there
    were (docs/network.md has what this does and does not say).
    """
    lr, steps = number("lr", lr, above=0), integer("steps", steps)
    number("momentum", momentum, least=0)
    if isinstance(optimizer, str) and optimizer not in ("sgd", "adam"):
        raise InputError(f"optimizer must be sgd, adam or an optax transformation, got {optimizer!r}")
    if not isinstance(optimizer, str) and not hasattr(optimizer, "update"):
        raise InputError(f"optimizer must be sgd, adam or an optax transformation, got {optimizer!r}")
    if momentum and optimizer != "sgd":
        raise InputError("momentum goes with optimizer='sgd'")
    if stride_error is not None:
        stride_error = number("stride_error", stride_error, above=0)
        for name, value, plain in (
            ("batch_size", batch_size, None), ("momentum", momentum, 0),
            ("optimizer", optimizer, "sgd"), ("stop_loss", stop_loss, None),
        ):  # fmt: skip
            if value != plain:
                text = f"{name} must be {plain!r}, got {value!r}"
                raise InputError(f"stride_error is for plain descent with all samples: {text}")
    saves = _save_steps(steps, save, lr)
    stop = -np.inf if stop_loss is None else number("stop_loss", stop_loss, above=0)
    key_seed = integer("seed", seed, least=0)

    run = _Run.prepare(task, weights, loss, frozen, dtype, compress=optimizer == "sgd" and batch_size is None)
    batch, samples = None, None
    if batch_size is not None:
        made, n = _sampled(task, loss)
        size = integer("batch_size", batch_size)
        if size > n:
            raise InputError(f"batch_size must be at most the number of samples, {n}; got {size}")
        batch, samples = (made.stack, size, n), run.typed(made.data)
    with precision(dtype):
        bar = _Bar((len(saves) + (stride_error is not None)) * len(run.start), bool(progress))
        recorder, shown = run.recorder(record, save_weights), bar if progress else None
        start, at = jnp.asarray(run.start), jnp.asarray(saves, jnp.int32)
        strides: dict[str, Any] = {}
        if stride_error is None:
            end, states, kept, losses = _loop(
                run.program.stack, loss, (optimizer, momentum), batch, recorder, shown, steps,
                start, run.data, samples, at, lr, stop, run.mask, run.lift, jax.random.key(key_seed),
            )  # fmt: skip
        else:
            end, states, kept, losses, *found = _strides(
                run.program.stack, loss, recorder, shown, steps,
                start, run.data, at, lr, run.mask, run.lift, stride_error,
            )  # fmt: skip
            gradients, estimate = (np.asarray(v).tolist() for v in found)
            strides = {
                "stride_error": stride_error,
                "stride_error_estimate": estimate,
                "gradients": gradients,
            }
        jax.effects_barrier()
        bar.close()
    end, losses = np.asarray(end), np.asarray(losses, float)
    outcomes = []
    for k, at in enumerate(end):
        final = losses[k, at]
        if not np.isfinite(final):
            outcomes.append(f"diverged at step {at}: loss {final}; try a smaller lr than {lr:g}")
        elif final <= stop:
            outcomes.append(f"reached loss {stop_loss:g} at step {at}, t = {lr * at:g}")
        else:
            outcomes.append(f"finished after {at} steps, t = {lr * at:g}")
        if strides and not strides["stride_error_estimate"][k] <= stride_error:
            outcomes[-1] += (
                f"; stride error {strides['stride_error_estimate'][k]:.2g}, above {stride_error:g}"
            )
    if strides and not run.many:
        strides |= {n: strides[n][0] for n in ("stride_error_estimate", "gradients")}
    settings = {
        "method": "descend",
        "lr": lr,
        "steps": steps,
        "batch_size": batch_size,
        "momentum": momentum,
        "optimizer": optimizer if isinstance(optimizer, str) else "optax",
        "stop_loss": stop_loss,
        "seed": seed,
        **strides,
    }
    last = np.searchsorted(saves, end)
    return run.trajectory(lr * saves, lr * end, last, outcomes, states, kept, losses, settings)


# -- setting up and finishing ----------------------------------------------------------------


@dataclass(frozen=True)
class Recorder:
    """What to keep at a saved time; equal recorders share a compilation."""

    graph: Graph  # of the weights that learn
    full: Graph
    record: Record | None
    save_weights: bool

    def __call__(self, flat: Any, lift: Any) -> tuple[Any, dict[str, Any]]:
        kept = flat if self.save_weights else flat[:0]
        return kept, {} if self.record is None else self.made(self.lift(flat, lift))

    def made(self, weights: dict[str, Any]) -> dict[str, Any]:
        found = {} if self.record is None else self.record(weights)
        if not isinstance(found, Mapping):
            raise InputError(f"record must return a dict of arrays, got {type(found).__name__}")
        return dict(found)

    def lift(self, flat: Any, lift: Any) -> dict[str, Any]:
        """Full weights `W(0) + Q_t (B - B(0)) Q_s^T`."""
        if lift is None:  # no frames, or weights wanted in them
            return self.graph.unflatten(flat)
        frames, start, full = lift
        moved = expand(self.full, self.graph.unflatten(flat - start), frames)
        return {n: w + moved[n] for n, w in self.full.unflatten(full).items()}


@dataclass(frozen=True)
class _Run:
    """Checked arguments, in the arrays that the solvers run on; runs are the leading axis."""

    task: Task
    whole: Task  # as given
    many: bool
    kind: str
    program: Program
    start: np.ndarray  # (runs, n) weights that learn
    full: np.ndarray  # (runs, N) all weights
    frames: Frames
    graph: Graph
    frozen: tuple[str, ...]
    mask: np.ndarray | None
    origin: dict[str, Any] | None
    dtype: Any

    @classmethod
    def prepare(
        cls,
        task: Task,
        weights: Any,
        kind: str,
        frozen: Any,
        dtype: Any,
        compress: bool,
        frames: Frames | None = None,
    ) -> _Run:
        arrays = check(task, weights, kind)
        try:
            fits = np.dtype(dtype) in (np.float64, np.float32)
        except TypeError:
            fits = False
        if not fits:
            raise InputError(f"dtype must be float64 or float32, got {dtype!r}")
        frozen = (frozen,) if isinstance(frozen, str) else tuple(frozen)
        known("frozen", frozen, task.graph.shapes, "edge or bias")
        flat = task.graph.flatten(arrays)
        many = flat.ndim == 2
        if not many:
            arrays, flat = {n: w[None] for n, w in arrays.items()}, flat[None]
        if frames is None:
            frames = closed_frames(task, arrays) if compress and is_linear(task, kind) else {}
        whole, graph, start = task, task.graph, flat
        if frames:
            sizes = tuple((n, q.shape[-1]) for n, q in frames.items())
            if sizes not in task.programs:
                task.programs[sizes] = task.on(task.graph.resized(dict(sizes)))
            task = task.programs[sizes]
            start = task.graph.flatten(shrink(graph, arrays, frames))
        mask = None
        if frozen:
            shapes = {n: np.full(s, float(n not in frozen)) for n, s in task.graph.shapes.items()}
            mask = task.graph.flatten(shapes).astype(dtype)
        origin = getattr(weights, "origin", None)
        made = program(task, kind)
        return cls(
            task,
            whole,
            many,
            kind,
            made,
            start.astype(dtype, copy=False),
            flat.astype(dtype, copy=False),
            frames,
            graph,
            frozen,
            mask,
            origin,
            dtype,
        )

    def typed(self, data: Any) -> Any:
        return data if np.dtype(self.dtype) == np.float64 else cast(data, self.dtype)

    @property
    def data(self) -> Any:
        return self.typed(self.program.data)

    @property
    def lift(self) -> Any:
        return (
            ({n: q.astype(self.dtype) for n, q in self.frames.items()}, self.start, self.full)
            if self.frames
            else None
        )

    def recorder(self, record: Record | None, save_weights: bool) -> Recorder:
        if record is not None and not callable(record):
            raise InputError(f"record must be a function of the weights, got {record!r}")
        return Recorder(self.task.graph, self.graph, record, bool(save_weights))

    def trajectory(
        self,
        ts: Any,
        end: Any,
        last: Any,
        outcomes: Any,
        losses: Any,
        kept: Any,
        step_loss: Any,
        settings: Any,
    ) -> Trajectory:
        """Cut what no run reached; let a run that ended early keep its last finite state."""
        flat, recorded = kept
        losses = np.array(losses, float)
        good = np.isfinite(losses)
        cut = 0
        index = np.zeros(losses.shape, int)
        for k in range(len(losses)):
            bad = np.flatnonzero(~good[k, : last[k] + 1])
            stop = max(0, bad[0] - 1) if len(bad) else last[k]
            index[k] = np.minimum(np.arange(losses.shape[1]), stop)
            cut = max(cut, stop + 1)
        take = lambda a: _pick(np.asarray(a), index[:, :cut], self.many)  # noqa: E731
        t = np.array(ts[:cut], float)
        if not self.many:
            t[-1] = min(t[-1], end[0])
        weights = {}
        if flat.shape[-1]:
            weights = self._full_weights(np.asarray(flat, float), index[:, :cut])
        if step_loss is not None and not self.many:
            step_loss = step_loss[0, : np.max(np.flatnonzero(np.isfinite(step_loss[0])), initial=0) + 1]
        settings = {
            **settings, "loss": self.kind, "dtype": str(np.dtype(self.dtype)), "weights": self.origin,
            "dimensions": settings.get("dimensions", {n: q.shape[-1] for n, q in self.frames.items()}),
            "time": "flow time: tau = 1 on the mean loss",
        }  # fmt: skip
        return Trajectory(
            t, take(losses), weights, tuple(outcomes), end if self.many else end[0],
            {n: take(v) for n, v in recorded.items()}, step_loss, settings,
        )  # fmt: skip

    def _full_weights(self, flat: np.ndarray, index: np.ndarray) -> dict[str, np.ndarray]:
        flat = _pick(flat, index, many=True)
        if not self.frames:
            found = self.graph.unflatten(flat)
        else:
            small = self.task.graph.unflatten(flat - self.start[:, None])
            found = expand(self.graph, small, self.frames)
            for n, w in self.graph.unflatten(self.full).items():
                found[n] += w[:, None]
        return found if self.many else {n: w[0] for n, w in found.items()}


def _pick(values: np.ndarray, index: np.ndarray, many: bool) -> np.ndarray:
    if (index == np.arange(index.shape[1])).all():
        out = values[:, : index.shape[1]]
    else:
        out = np.take_along_axis(values, index.reshape(index.shape + (1,) * (values.ndim - 2)), axis=1)
    return out if many else out[0]


def _sampled(task: Task, loss: str) -> tuple[Program, int]:
    """What mini-batches are drawn from, and how many rows it has."""
    if task.n_samples is not None:
        return program(task, loss, "merged"), task.n_samples
    rows = {c.rows for c in task.sample_contexts}
    if len(rows) > 1:
        raise InputError(f"batch_size needs contexts with equally many samples, got {sorted(rows)[:6]}")
    return program(task, loss, "samples"), rows.pop()


def save_times(t1: Any, save: Any) -> tuple[float, np.ndarray]:
    if not isinstance(save, (int, np.integer)) and np.ndim(save) == 1:
        ts = array("save", save)
        end = number("t1", ts[-1] if t1 is None and len(ts) else t1, above=0)
        if not len(ts) or (np.diff(ts) <= 0).any() or ts[0] < 0 or ts[-1] > end:
            raise InputError(f"save must be increasing times between 0 and t1 = {end:g}")
        return end, ts
    end = number("t1", t1, above=0)
    return end, np.linspace(0, end, integer("save", save, least=2))


def _save_steps(steps: int, save: Any, lr: float) -> np.ndarray:
    if not isinstance(save, (int, np.integer)) and np.ndim(save) == 1:
        _, ts = save_times(lr * steps, save)
        return np.unique(np.round(ts / lr).astype(int))
    return np.unique(np.round(np.linspace(0, steps, integer("save", save, least=2))).astype(int))


# -- wide layers -----------------------------------------------------------------------------


def _wide(
    run: _Run, recorder: Recorder, ts: np.ndarray, t1: float, width_error: float, stop: float, max_steps: int,
    progress: bool,
) -> Any:  # fmt: skip
    """Every run by what its weights gain; `recorder` sees them in small spaces."""
    from tqdm import tqdm

    if recorder.record is not None:
        seen = {e: jax.ShapeDtypeStruct(s, run.dtype) for e, s in small_shapes(run.whole).items()}
        try:
            with precision(run.dtype):
                jax.eval_shape(recorder.made, seen)
        except InputError:
            raise
        except Exception as fault:
            shapes = ", ".join(f"{e} {s.shape}" for e, s in list(seen.items())[:8])
            text = f"record must take weights in small spaces ({shapes})"
            raise InputError(f"{text}, but failed with {type(fault).__name__}: {fault}") from fault
    found, flat, shapes, spaces = [], np.zeros((len(run.full), len(ts), 0)), run.graph.shapes, {}
    if recorder.save_weights:
        flat = np.repeat(run.full[:, None], len(ts), axis=1)
    for k, start in enumerate(tqdm(run.full, "flow", disable=not progress)):
        weights = run.graph.unflatten(start.astype(float, copy=False))
        f, spaces = follow(
            run.whole, weights, run.frozen, ts, t1, width_error, stop, max_steps, recorder.save_weights
        )
        small = {e: np.stack([w[e] for w, _ in f.kept]) for e in weights}
        if recorder.save_weights:
            gained = {e: np.stack([g[e].reshape(shapes[e]) for _, g in f.kept]) for e in weights}
            flat[k] += run.graph.flatten(gained)
        found.append((f._replace(kept=[]), small))
    recorded: dict[str, Any] = {}
    if recorder.record is not None:
        with precision(run.dtype):
            every = {e: jnp.asarray(np.stack([w[e] for _, w in found]), run.dtype) for e in shapes}
            recorded = _mapped(recorder.record, every)
    outcome = np.array([f.outcome for f, _ in found])
    end, losses, error = (np.array([getattr(f, name) for f, _ in found]) for name in ("end", "loss", "error"))
    if np.dtype(run.dtype) == np.float32:
        error += ROUNDING * np.finfo(np.float32).eps
    status = {
        "event": outcome == "stopped",
        "step_limit": outcome == "step limit",
        "failed": outcome == "failed",
        "finite": np.isfinite(losses).all(axis=1),
        "steps": np.array([f.steps for f, _ in found]),
    }
    return end, losses, (flat, recorded), status, error, {"dimensions": spaces}


@partial(jax.jit, static_argnums=0)
def _mapped(record: Record, weights: Any) -> Any:
    return jax.lax.map(lambda run: jax.lax.map(lambda w: dict(record(w)), run), weights)


# -- compiled --------------------------------------------------------------------------------


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4, 5))
def _solve(
    stack: Stack, kind: str, recorder: Recorder, max_steps: int, progress: bool, stopping: bool,
    start: Any, data: Any, ts: Any, t1: Any, stop: Any, rtol: Any, atol: Any, mask: Any, lift: Any,
) -> Any:  # fmt: skip
    import diffrax
    import optimistix

    def loss(w: Any) -> Any:
        return stack.loss(w, data, kind)

    def velocity(t: Any, w: Any, args: Any) -> Any:
        g = -jax.grad(loss)(w)
        return g if mask is None else g * mask

    def one(w0: Any, atol: Any, lift: Any) -> Any:
        tolerances: dict[str, Any] = {"rtol": rtol, "atol": atol}
        event = None
        if stopping:
            fine: Any = 10 * jnp.finfo(w0.dtype).eps
            event = diffrax.Event(
                lambda t, y, args, **kwargs: loss(y) - stop,
                root_finder=optimistix.Bisection(rtol=fine, atol=fine),
                direction=False,
            )
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(velocity),
            diffrax.Dopri8(),
            t0=0.0,
            t1=t1,
            dt0=None,
            y0=w0,
            saveat=diffrax.SaveAt(
                subs=[
                    diffrax.SubSaveAt(ts=ts, fn=lambda t, y, args: (loss(y), recorder(y, lift))),
                    diffrax.SubSaveAt(t1=True, fn=lambda t, y, args: (loss(y), recorder(y, lift))),
                ]
            ),
            stepsize_controller=diffrax.PIDController(**tolerances),
            event=event,
            max_steps=max_steps,
            throw=False,
            progress_meter=diffrax.TqdmProgressMeter() if progress else diffrax.NoProgressMeter(),
        )
        results = diffrax.RESULTS
        (ts_all, at_end), (series, final) = solution.ts, solution.ys  # pyright: ignore[reportGeneralTypeIssues]
        reached = jnp.isfinite(ts_all)

        def fill(path: Any, last: Any) -> Any:
            there = reached.reshape((-1,) + (1,) * (path.ndim - 1))
            return jnp.where(there, path, last)

        losses, kept = jax.tree.map(fill, series, final)
        event_hit = solution.result == results.event_occurred
        if stopping:  # the root finder asks for a difference of 0 up to rounding, which a steep loss denies
            event_hit |= jnp.abs(final[0][0] / stop - 1) < 1e-4
        limit = solution.result == results.max_steps_reached
        status = {
            "event": event_hit,
            "step_limit": limit,
            "failed": ~(event_hit | limit | (solution.result == results.successful)),
            "finite": jnp.isfinite(final[0][0]),
            "steps": solution.stats["num_steps"],
        }
        return at_end[0], losses, kept, status

    return _each(one, start, atol, lift)


class _Bar:
    """A progress bar that compiled code can move; all bars look alike to the compiler."""

    current: Any = None

    def __init__(self, total: int, shown: bool):
        if shown:
            from tqdm import tqdm

            _Bar.current = tqdm(total=total, desc="descend")

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Bar)

    @staticmethod
    def step() -> None:
        if _Bar.current is not None:
            _Bar.current.update()

    @staticmethod
    def close() -> None:
        if _Bar.current is not None:
            _Bar.current.close()
            _Bar.current = None


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4, 5, 6))
def _loop(
    stack: Stack, kind: str, rule: Any, batch: Any, recorder: Recorder, bar: Any, steps: int,
    start: Any, data: Any, samples: Any, saves: Any, lr: Any, stop: Any, mask: Any, lift: Any, key: Any,
) -> Any:  # fmt: skip
    import optax

    optimizer, momentum = rule
    if optimizer == "sgd":
        optimizer = optax.sgd(lr, momentum or None)
    elif optimizer == "adam":
        optimizer = optax.adam(lr)
    if batch is None:
        order = None
        full = lambda w: stack.loss(w, data, kind)  # noqa: E731
        slope = lambda w, k, order: (*jax.value_and_grad(full)(w), order)  # noqa: E731
    else:
        batch_stack, size, n = batch
        order, per_epoch = jnp.arange(n), n // size

        def slope(w: Any, k: Any, order: Any) -> Any:
            place = k % per_epoch
            shuffle = lambda: jax.random.permutation(jax.random.fold_in(key, k // per_epoch), n)  # noqa: E731
            order = jax.lax.cond(place == 0, shuffle, lambda: order)
            index = jax.lax.dynamic_slice(order, (place * size,), (size,))
            rows = some_rows(samples, index, n, n / size)
            return *jax.value_and_grad(lambda w: batch_stack.loss(w, rows, kind))(w), order

        def full(w: Any) -> Any:  # block by block: all samples at once may not fit
            blocks, weight = row_blocks(n)
            constant = samples["constant"]

            def block(one: Any) -> Any:
                return batch_stack.loss(w, some_rows(samples, one[0], n, one[1]), kind) - constant

            return constant + jax.lax.map(block, (blocks, weight)).sum()

    # The count of steps is one for all runs that go side by side, and so is the order of samples: else every
    # run would shuffle for itself, at every step.
    def step(carry: Any) -> Any:
        at, k, w, state, going, losses, order = carry
        value, g, order = slope(w, at, order)
        going = going & jnp.isfinite(value)
        if batch is None:
            going = going & (value > stop)
        losses = losses.at[k].set(jnp.where(k == at, value, losses[k]))
        change, new_state = optimizer.update(g if mask is None else g * mask, state, w)
        keep = lambda new, old: jnp.where(going, new, old)  # noqa: E731
        w, state = jax.tree.map(keep, (optax.apply_updates(w, change), new_state), (w, state))
        return at + 1, k + going, w, state, going, losses, order

    def one(start: Any, lift: Any) -> Any:
        def interval(carry: Any, until: Any) -> Any:
            carry = jax.lax.while_loop(lambda c: (c[0] < until) & _any_run(c[4]), step, carry)
            at, k, w, state, going, losses, order = carry
            value = jnp.zeros(())
            if batch is not None:
                value = full(w)
                going = going & jnp.isfinite(value) & (value > stop)
            if bar is not None:
                jax.debug.callback(bar.step)
            return (at, k, w, state, going, losses, order), (value, recorder(w, lift))

        losses = jnp.full(steps + 1, jnp.nan, start.dtype)
        carry = (jnp.int32(0), jnp.int32(0), start, optimizer.init(start), jnp.array(True), losses, order)
        (_, end, w, _, _, losses, _), (values, kept) = jax.lax.scan(interval, carry, saves)
        final = full(w)
        losses = losses.at[end].set(final)
        if batch is None:
            # A run that ended keeps the loss it ended with.
            values = jnp.where(saves < end, losses[saves], final)
        return end, values, kept, losses

    return _each(one, start, lift)


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _strides(
    stack: Stack, kind: str, recorder: Recorder, bar: Any, steps: int,
    start: Any, data: Any, saves: Any, lr: Any, mask: Any, lift: Any, error: Any,
) -> Any:  # fmt: skip
    value = lambda w: stack.loss(w, data, kind)  # noqa: E731

    def one(start: Any, lift: Any) -> Any:
        def keep(w: Any) -> Any:
            if bar is not None:
                jax.debug.callback(bar.step)
            return recorder(w, lift)

        end, kept, losses, *found = follow_strides(value, mask, keep, steps, start, saves, lr, error)
        return end, losses[saves], kept, losses, *found

    return _each(one, start, lift)


def _each(one: Callable[..., Any], *runs: Any) -> Any:
    """All runs: one after the other on a CPU, where that is faster, side by side elsewhere."""
    if jax.default_backend() == "cpu":
        return jax.lax.map(lambda run: one(*run), runs)
    return jax.vmap(one, axis_name="runs")(*runs)


def _any_run(going: Any) -> Any:
    """Whether any of the runs that `_each` has side by side is still going."""
    return going if jax.default_backend() == "cpu" else jax.lax.psum(going.astype(int), "runs") > 0
