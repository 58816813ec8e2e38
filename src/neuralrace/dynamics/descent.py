"""Gradient descent on the weights of a task's network, in one compiled loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from time import perf_counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from neuralrace.compiling import Compiled
from neuralrace.dynamics import constants
from neuralrace.dynamics.history import DEFAULT, History, adapted_times, save_steps
from neuralrace.dynamics.methods import check_steps
from neuralrace.dynamics.rates import Rates
from neuralrace.dynamics.record import Record, Recorder
from neuralrace.dynamics.run import Path
from neuralrace.dynamics.setup import Setup, finish
from neuralrace.dynamics.status import Ending, Status
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError, affordable, flag, integer, need_extra, number, short
from neuralrace.interrupts import Progress
from neuralrace.network import Program, program, row_blocks, some_rows
from neuralrace.task import Task

_COMPILER = {  # compiles in a third of the time what runs as fast
    "xla_cpu_use_fusion_emitters": False,
    "xla_backend_optimization_level": 1,
    "xla_cpu_parallel_codegen_split_count": 1,
}


def descend(
    task: Task,
    weights: Mapping[str, ArrayLike],
    lr: float,
    steps: int,
    save: int | Iterable[float] | None = None,
    *,
    optimizer: Any = "sgd",
    momentum: float = 0.0,
    batch_size: int | None = None,
    loss: str = "squared",
    stop_loss: float | None = None,
    rates: Rates | None = None,
    runs: Mapping[str, ArrayLike] | None = None,
    record: Record | None = None,
    save_weights: bool = True,
    progress: bool = False,
    dtype: DTypeLike = np.float64,
    seed: int = 0,
) -> Trajectory:
    """Gradient descent on the mean loss.

    Parameters
    ----------
    task, weights, loss, stop_loss, runs, record, save_weights, progress, dtype
        As in `flow`.
    lr : float
        Learning rate; step k is at flow time `lr k`.
    steps : int
    save : int or times, optional
        Number of times, evenly spaced, or times in units of flow time. By default 200 steps, evenly spaced,
        or half of them where the loss falls if even ones would skip that; descent then runs twice.
    optimizer : {"sgd", "adam"} or optax transformation
        With a transformation, `lr` only sets the time axis.
    momentum : float
        Of "sgd".
    batch_size : int, optional
        Samples per step, drawn without replacement in an order that `seed` shuffles anew each epoch (those
        that do not fill a batch are left out of that epoch). A task whose samples are stored context by
        context takes the same rows from every context. The loss at the saved times is always that of all
        samples.
    rates : Rates, optional
        Weight decay adds `decay W` to the gradient, before the optimizer sees it. Learning rates of edges or
        biases are relative to `lr`: the updates of the optimizer are multiplied by them.
    seed : int
        Of the order of samples.

    Returns
    -------
    Trajectory
        `step_loss` has the loss before every step (of the batch, where there are batches).

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.tasks.xor()
    >>> nr.descend(task, nr.init.gaussian(task.graph, std=0.1), lr=0.1, steps=300).outcome
    'finished after 300 steps, t = 30'
    """
    lr, steps = number("lr", lr, above=0), check_steps("steps", steps)
    rule = _check_optimizer(optimizer, momentum)
    saves = save_steps(steps, save, lr)
    stop = None if stop_loss is None else number("stop_loss", stop_loss, above=0)
    if integer("seed", seed, least=0) >= 2**63:
        raise InputError(f"seed must be below 2^63, got {seed}")
    compress = rule[0] == "sgd" and batch_size is None
    setup = Setup.prepare(task, weights, loss, rates, runs, dtype, record, save_weights, compress)
    affordable("steps", steps, 3 * setup.count * room(steps))
    batches = _Batches.of(setup, batch_size)
    run = partial(
        _descended, setup, rule, batches, lr, steps, stop, seed, progress=flag("progress", progress)
    )
    path, losses = run(saves)
    if save is None and path.history is not None and steps >= DEFAULT:
        better = _adapted_steps(path.history, steps, lr)
        path, losses = (path, losses) if better is None else run(better)
    settings = {
        "process": "descend", "lr": lr, "steps": steps, "batch_size": batch_size, "momentum": momentum,
        "optimizer": optimizer if isinstance(optimizer, str) else "optax", "stop_loss": stop_loss,
        "seed": seed,
    }  # fmt: skip
    if batches is not None:
        settings["representation"] = "samples"
    if not setup.many:
        taken = int(path.stats["steps"][0]) + 1
        losses = losses[0, :taken]
        if path.history is not None:
            path = replace(path, history=History(path.history.t[:taken], losses[None], None))
    return finish(setup, path, settings, losses)


def room(steps: int) -> int:
    """Places for `steps` + 1 values in a program: of few sizes, so that runs of many lengths share it.

    >>> room(10), room(4095), room(4096)
    (4096, 4096, 8192)
    """
    return max(constants.LEAST_ROOM, 1 << steps.bit_length())


def _check_optimizer(optimizer: Any, momentum: Any) -> tuple[Any, float]:
    named = isinstance(optimizer, str) and optimizer in ("sgd", "adam")
    if not named and not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
        raise InputError(f"optimizer must be sgd, adam or an optax transformation, got {short(optimizer)}")
    momentum = number("momentum", momentum, least=0)
    if not named or optimizer == "adam":
        need_extra("optax", "optax")
    if momentum and optimizer != "sgd":
        raise InputError("momentum must be 0 unless optimizer='sgd'; an optax transformation has its own")
    return optimizer, momentum


def _adapted_steps(history: History, steps: int, lr: float) -> np.ndarray | None:
    """Steps at which losses change, as many as by default."""
    ts = adapted_times([history.run(k) for k in range(len(history.loss))], lr * steps)
    if ts is None:
        return None
    chosen = np.unique(np.round(ts / lr).astype(int).clip(max=steps))
    others = np.setdiff1d(np.round(np.linspace(0, steps, 2 * DEFAULT)).astype(int), chosen)
    fill = others[np.unique(np.linspace(0, len(others) - 1, max(DEFAULT - len(chosen), 0)).astype(int))]
    return np.unique(np.concatenate([chosen, fill]))


class _Batches(NamedTuple):
    """Samples from which mini-batches are drawn."""

    stack: Any
    size: int
    n: int
    data: Any

    @classmethod
    def of(cls, setup: Setup, batch_size: Any) -> _Batches | None:
        if batch_size is None:
            return None
        made, n = _sampled(setup.given, setup.kind)
        size = integer("batch_size", batch_size)
        if size > n:
            raise InputError(f"batch_size must be at most the number of samples, {n}; got {size}")
        return cls(made.stack, size, n, setup.typed(made.on_device))


def _sampled(task: Task, loss: str) -> tuple[Program, int]:
    if task.n_samples is not None:
        return program(task, loss, "merged"), task.n_samples
    rows = {c.rows for c in task.sample_contexts}
    if len(rows) > 1:
        raise InputError(f"batch_size needs contexts with equally many samples, got {sorted(rows)[:6]}")
    return program(task, loss, "samples"), rows.pop()


def _descended(
    setup: Setup, rule: Any, batches: _Batches | None, lr: float, steps: int, stop: float | None, seed: int,
    saves: np.ndarray, progress: bool,
) -> tuple[Path, np.ndarray]:  # fmt: skip
    """What all runs leave behind, and the loss before every step (runs, steps + 1)."""
    side = 1 if jax.default_backend() == "cpu" else setup.count
    rows, losses, endings = [], np.empty((setup.count, steps + 1)), []
    with setup.precision(), Progress("descend", progress) as shown:
        stretches = _Stretches(setup, rule, batches, lr, stop, seed, steps)
        for at in range(0, setup.count, side):
            done = lambda step, at=at: shown((at + side * step / steps) / setup.count)  # noqa: E731
            carry, found = stretches.follow(slice(at, at + side), saves, done)
            for k in range(len(carry.taken)):
                end, own, row = int(carry.taken[k]), losses[at + k], jax.tree.map(lambda v, k=k: v[k], found)
                own[:] = carry.losses[k, : steps + 1]
                endings.append(_ending(end, lr, float(own[end]), stop))
                own[end + 1 :] = own[end]
                values = own[np.minimum(saves, end)] if batches is None else row[0]
                count = min(int(np.searchsorted(saves, end)) + 1, len(saves))
                rows.append(jax.tree.map(lambda v, n=count: v[:n], (values, row[1])))
                good = np.flatnonzero(np.isfinite(own))
                own[good[-1] + 1 if len(good) else 0 :] = own[good[-1]] if len(good) else np.nan
    taken = np.array([ending.step for ending in endings])
    history = History(lr * np.arange(steps + 1), losses, None) if batches is None else None
    path = Path.of(lr * saves, rows, endings=tuple(endings), history=history, stats={"steps": taken})
    return path, losses


def _ending(step: int, lr: float, final: float, stop: float | None) -> Ending:
    """How a run ended, in numbers."""
    at = partial(Ending, t=lr * step, step=step, lr=lr)
    if not np.isfinite(final):
        return at(Status.DIVERGED, loss=final)
    return at(Status.REACHED_LOSS, level=stop) if stop is not None and final <= stop else at(Status.FINISHED)


class _Carry(NamedTuple):
    """A run on its way. The count of steps is one for all runs that go side by side, and so is the order of
    samples: else every run would shuffle for itself, at every step."""

    step: Any
    taken: Any  # steps of this run
    w: Any
    state: Any
    going: Any
    losses: Any
    order: Any


_BY_RUN = _Carry(None, 0, 0, 0, 0, 0, None)  # axes of runs that go side by side


class _Stretches:
    """Descent in stretches that a compiled loop takes less than a second for, so that it can be interrupted.

    Where a stretch ends changes no result.
    """

    def __init__(
        self, setup: Setup, rule: Any, batches: _Batches | None, lr: float, stop: float | None, seed: int,
        steps: int,
    ) -> None:  # fmt: skip
        n = setup.start.shape[1]
        batch, samples = (None, None) if batches is None else (batches[:3], batches.data)
        self.loop = _LOOP if batch is None or n <= constants.LARGE_WEIGHTS else _LARGE_LOOP
        self.setup, self.rule, self.steps, self.batch = setup, rule, steps, batch
        self.rows: int = max(1, min(constants.STRETCH_ROWS, constants.STRETCH_NUMBERS // n))
        self.static = setup.program.stack, setup.kind, rule, batch, setup.recorder, self.rows
        level = -np.inf if stop is None else stop
        key = None if batch is None else jax.random.key(seed)  # compiles
        self.shared = setup.data, samples, lr, level, np.int32(steps), setup.vectors, key

    def begin(self, which: slice) -> _Carry:
        """Some runs before their first step."""
        start = self.setup.start[which]
        runs = len(start)
        if isinstance(self.rule[0], str):  # all states of these begin with zeros
            w = self.setup.program.stack.for_updates(start)
            state = jax.tree.map(lambda v: np.zeros((runs, *v.shape), v.dtype), self.zeros)
        else:
            w, state = start, jax.vmap(_rule(self.rule, 1.0, None)[0])(jnp.asarray(start))
        order = None if self.batch is None else np.arange(self.batch[2])
        losses = np.full((runs, room(self.steps)), np.nan, start.dtype)
        return _Carry(np.int32(0), np.zeros(runs, np.int32), w, state, np.ones(runs, bool), losses, order)

    @cached_property
    def zeros(self) -> Any:
        """Shapes of the state of the optimizer of one run."""
        return jax.eval_shape(
            _rule(self.rule, 1.0, None)[0], self.setup.program.stack.for_updates(self.setup.start[0])
        )

    def follow(self, which: slice, saves: np.ndarray, done: Callable[[int], None]) -> tuple[_Carry, Any]:
        """Some runs side by side at their end, and rows (runs, save, ...) at the saved steps."""
        # Without batches a last step, which changes nothing, has the loss at the end.
        stops = np.union1d(saves, self.steps + (self.batch is None))
        lift, carry = self.setup.lift(which), self.begin(which)
        found, now, budget = [], 0, constants.FIRST_STRETCH
        while len(stops):
            ahead = stops[: self.rows]
            ahead = ahead[ahead <= now + budget]
            given, saved = (ahead, True) if len(ahead) else (np.array([now + budget]), False)
            padded = np.concatenate([given, np.zeros(self.rows - len(given), int)]).astype(np.int32)
            began = perf_counter()
            count = np.int32(len(given))
            carry, rows = self.loop(*self.static, *self.shared, lift, padded, count, saved, carry)
            going, before, now = np.asarray(carry.going).any(), now, int(given[-1])
            fitting = (now - before) * constants.STRETCH_SECONDS / (perf_counter() - began)
            budget = 1 + int(np.clip(fitting, budget / 2, 4 * budget))
            if saved:
                found.append(jax.tree.map(lambda v, n=count: np.asarray(v)[:, :n], rows))
                stops = stops[len(given) :]
            if not going and saved:
                break
            done(min(now, self.steps))
        carry = jax.tree.map(np.array, carry._replace(w=(), state=()))
        if self.batch is not None:
            carry.losses[np.arange(len(carry.taken)), carry.taken] = found[-1][0][:, -1]
        return carry, jax.tree.map(lambda *v: np.concatenate(v, axis=1)[:, : len(saves)], *found)


def _stretch(
    stack: Any, kind: str, rule: Any, batch: Any, recorder: Recorder, rows: int,
    data: Any, samples: Any, lr: Any, stop: Any, last: Any, vectors: Any, key: Any, lift: Any,
    stops: Any, count: Any, saved: Any, carry: _Carry,
) -> Any:  # fmt: skip
    """Steps of all runs to the last of `count` stops: new carry, and rows at the stops."""
    full = None
    if batch is None:
        slope = lambda w, k, order: (*stack.loss_and_gradient(w, data, kind), order)  # noqa: E731
    else:
        batch_stack, size, n = batch
        full, slope = (
            _full_loss(batch_stack, n, kind, samples),
            _batch_slope(batch_stack, size, n, kind, samples, key),
        )
    # A given optimizer sees one vector.
    form = stack.for_updates if isinstance(rule[0], str) else lambda flat: flat
    scale, decay = (None if v is None else form(v) for v in vectors)
    step = _step(_rule(rule, lr, scale)[1], slope, scale, decay, stop, last if full is None else None)

    put = jax.lax.dynamic_update_index_in_dim

    def one(c: _Carry, lift: Any) -> Any:
        def interval(i: Any, found: Any) -> Any:
            c, values, kept = found
            c = jax.lax.while_loop(lambda c: (c.step < stops[i]) & _any_run(c.going), step, c)
            if full is not None:
                value = full(stack.flat(c.w))
                values = put(values, value, i, 0)
                c = c._replace(going=c.going & (~saved | (jnp.isfinite(value) & (value > stop))))
            row = recorder(lr * c.taken, stack.flat(c.w), lift)
            return c, values, jax.tree.map(lambda v, new: put(v, new, i, 0), kept, row)

        shapes = jax.eval_shape(recorder, lr * c.taken, stack.flat(c.w), lift)
        kept = jax.tree.map(lambda v: jnp.zeros((rows, *v.shape), v.dtype), shapes)
        values = None if full is None else jnp.zeros(rows, c.losses.dtype)
        c, values, kept = jax.lax.fori_loop(0, count, interval, (c, values, kept))
        return c, (values, kept)

    return _by_run(one, carry, lift)


def _by_run(one: Callable[..., Any], carry: _Carry, lift: Any) -> Any:
    """One run on a CPU, else several side by side."""
    if jax.default_backend() == "cpu":

        def each(change: Callable[[Any], Any], c: _Carry) -> _Carry:
            parts = zip(c, _BY_RUN, strict=True)
            return _Carry(*(v if axis is None else jax.tree.map(change, v) for v, axis in parts))

        alone = each(lambda v: v[0], carry), jax.tree.map(lambda v: v[0], lift)
        c, rows = one(*alone)
        return each(lambda v: v[None], c), jax.tree.map(lambda v: v[None], rows)
    return jax.vmap(one, (_BY_RUN, 0), (_BY_RUN, 0), axis_name="runs")(carry, lift)


def _rule(rule: Any, lr: Any, scale: Any) -> tuple[Any, Any]:
    """The state of an optimizer at first, and its step."""
    return _sgd(rule[1], lr, scale) if rule[0] == "sgd" else _optax(rule[0], lr, scale)


def _sgd(momentum: float, lr: Any, scale: Any) -> tuple[Any, Any]:
    """The state of descent at first, and a step: new weights and state, or the old ones where `going` is not.

    What is added to the weights is selected, not the weights: that would copy them at every step. The state
    of a run that has ended is of no use.
    """

    def init(w: Any) -> Any:
        return jax.tree.map(jnp.zeros_like, w) if momentum else ()

    def advance(w: Any, g: Any, state: Any, going: Any) -> Any:
        if momentum:
            g = state = jax.tree.map(lambda v, g: g + momentum * v, state, g)
        change = jax.tree.map(lambda g: jax.lax.select(going, lr * g, jnp.zeros_like(g)), g)
        if scale is not None:
            change = jax.tree.map(jnp.multiply, change, scale)
        return jax.tree.map(jnp.subtract, w, change), state

    return init, advance


def _optax(optimizer: Any, lr: Any, scale: Any) -> tuple[Any, Any]:
    """The same of "adam" or an optax transformation."""
    import optax

    rule = optax.adam(lr) if isinstance(optimizer, str) else optimizer

    def advance(w: Any, g: Any, state: Any, going: Any) -> Any:
        change, new = rule.update(g, state, w)
        if scale is not None:
            change = jax.tree.map(jnp.multiply, change, scale)
        keep = lambda new, old: jnp.where(going, new, old)  # noqa: E731
        return jax.tree.map(keep, (optax.apply_updates(w, change), new), (w, state))

    return rule.init, advance


def _step(
    advance: Any, slope: Callable[..., Any], scale: Any, decay: Any, stop: Any, last: Any
) -> Callable[[_Carry], _Carry]:
    """One step of descent; with `last`, that step or a loss at or below `stop` ends the run."""

    def step(c: _Carry) -> _Carry:
        value, g, order = slope(c.w, c.step, c.order)
        going = c.going & jnp.isfinite(value)
        if last is not None:
            going = going & (value > stop) & (c.step < last)
        losses = jax.lax.dynamic_update_index_in_dim(c.losses, value, c.step, 0)
        if decay is not None:
            g = jax.tree.map(lambda g, decay, w: g + decay * w, g, decay, c.w)
        if scale is not None:
            g = jax.tree.map(lambda g, scale: jnp.where(scale > 0, g, 0), g, scale)
        w, state = advance(c.w, g, c.state, going)
        return _Carry(c.step + 1, c.taken + going, w, state, going, losses, order)

    return step


def _batch_slope(stack: Any, size: int, n: int, kind: str, samples: Any, key: Any) -> Callable[..., Any]:
    """Loss and gradient of the batch of step k."""
    per_epoch = n // size

    def slope(w: Any, k: Any, order: Any) -> Any:
        place = k % per_epoch
        shuffle = lambda: jax.random.permutation(jax.random.fold_in(key, k // per_epoch), n)  # noqa: E731
        order = jax.lax.cond(place == 0, shuffle, lambda: order)
        index = jax.lax.dynamic_slice(order, (place * size,), (size,))
        rows = some_rows(samples, index, n, n / size)
        return *stack.loss_and_gradient(w, rows, kind), order

    return slope


def _full_loss(stack: Any, n: int, kind: str, samples: Any) -> Callable[[Any], Any]:
    """The loss of all samples, block by block: all at once may not fit."""

    def full(w: Any) -> Any:
        blocks, weight = row_blocks(n)
        constant = samples["constant"]

        def block(one: Any) -> Any:
            return stack.loss(w, some_rows(samples, one[0], n, one[1]), kind) - constant

        return constant + jax.lax.map(block, (blocks, weight)).sum()

    return full


def _any_run(going: Any) -> Any:
    """Whether any of the runs that `each_run` has side by side is still going."""
    return going if jax.default_backend() == "cpu" else jax.lax.psum(going.astype(int), "runs") > 0


_LOOP, _LARGE_LOOP = Compiled(_stretch, 6, **_COMPILER), Compiled(_stretch, 6)
