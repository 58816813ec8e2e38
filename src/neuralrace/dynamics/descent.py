"""Gradient descent on the weights of a task's network, in one compiled loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from neuralrace.compiling import compiled, room
from neuralrace.dynamics.devices import over_devices
from neuralrace.dynamics.gradient_flow import each_run
from neuralrace.dynamics.history import History
from neuralrace.dynamics.methods import check_steps
from neuralrace.dynamics.progress import Bar
from neuralrace.dynamics.rates import Rates
from neuralrace.dynamics.record import Record, Recorder
from neuralrace.dynamics.setup import Setup, Solved, finish
from neuralrace.dynamics.times import DEFAULT, adapted_times, save_steps
from neuralrace.dynamics.trajectory import Status, Trajectory
from neuralrace.dynamics.uncompiled_descent import Descended, descend_in_numpy
from neuralrace.errors import InputError, flag, integer, number, short
from neuralrace.network import Program, program, row_blocks, some_rows
from neuralrace.task import Task

_LARGE = 100_000  # weights whose products take all the time of a step
_COMPILER = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}  # compiles in 2/3


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
    batches = _Batches.of(setup, batch_size)
    run = partial(
        _descended, setup, rule, batches, lr, steps, stop, seed, progress=flag("progress", progress)
    )
    solved, losses = run(saves)
    history = History(lr * np.arange(steps + 1), losses, None) if batches is None else None
    if save is None and history is not None and steps >= DEFAULT:
        better = _adapted_steps(history, steps, lr)
        if better is not None:
            solved, losses = run(better)
    settings = {
        "process": "descend", "lr": lr, "steps": steps, "batch_size": batch_size, "momentum": momentum,
        "optimizer": optimizer if isinstance(optimizer, str) else "optax", "stop_loss": stop_loss,
        "seed": seed,
    }  # fmt: skip
    step_loss, ends = losses, np.round(solved.end / lr).astype(int)
    if not setup.many:
        step_loss = losses[0, : ends[0] + 1]
        history = (
            None if history is None else History(history.t[: ends[0] + 1], losses[:, : ends[0] + 1], None)
        )
    return replace(finish(setup, solved, settings, {"steps": ends}, history, step_loss), task=task)


def _check_optimizer(optimizer: Any, momentum: Any) -> tuple[Any, float]:
    named = isinstance(optimizer, str) and optimizer in ("sgd", "adam")
    if not named and not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
        raise InputError(f"optimizer must be sgd, adam or an optax transformation, got {short(optimizer)}")
    momentum = number("momentum", momentum, least=0)
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
) -> tuple[Solved, np.ndarray]:  # fmt: skip
    found = None
    if rule[0] == "sgd" and batches is None and not progress:
        found = descend_in_numpy(setup, rule[1], lr, steps, stop, saves)
    if found is None:
        found = _compiled(setup, rule, batches, lr, steps, stop, seed, saves, progress)
    end, values, kept, losses = found
    statuses, outcomes = [], []
    for k, at in enumerate(end):
        final = losses[k, at]
        if not np.isfinite(final):
            statuses.append(Status.DIVERGED)
            outcomes.append(f"diverged at step {at}: loss {final}; try a smaller lr than {lr:g}")
        elif stop is not None and final <= stop:
            statuses.append(Status.REACHED_LOSS)
            outcomes.append(f"reached loss {stop:g} at step {at}, t = {lr * at:g}")
        else:
            statuses.append(Status.FINISHED)
            outcomes.append(f"finished after {at} steps, t = {lr * at:g}")
        losses[k, at + 1 :] = final
        good = np.flatnonzero(np.isfinite(losses[k]))
        losses[k, good[-1] + 1 if len(good) else 0 :] = losses[k, good[-1]] if len(good) else np.nan
    last = np.searchsorted(saves, end).clip(max=len(saves) - 1)
    return Solved(lr * saves, lr * end, last, values, kept, statuses, outcomes), losses


def _compiled(
    setup: Setup, rule: Any, batches: _Batches | None, lr: float, steps: int, stop: float | None, seed: int,
    saves: np.ndarray, progress: bool,
) -> Descended:  # fmt: skip
    # The loop ends at the last of its stops: a loop of its own from there to the end would be compiled again.
    stops = saves if saves[-1] == steps else np.append(saves, steps)
    bar = Bar(len(stops) * len(setup.start), "descend") if progress else None
    batch, samples = (None, None) if batches is None else (batches[:3], batches.data)
    with setup.precision():
        call = (setup.program.stack, setup.kind, rule, batch, setup.recorder, bar, room(steps))
        start, lift = over_devices(jnp.asarray(setup.start), setup.lift)
        given = (
            start, setup.data, samples, jnp.asarray(stops, jnp.int32), lr,
            -np.inf if stop is None else stop, setup.vectors, lift, jax.random.key(seed),
        )  # fmt: skip
        large = batch is None and setup.start.shape[1] > _LARGE and jax.default_backend() == "cpu"
        loop = compiled(_loop, tuple(range(len(call))), *(_COMPILER.items() if large else ()))
        if bar is None:
            found = loop(*call, *given)
        else:
            with bar:
                found = jax.block_until_ready(loop(*call, *given))
        end, values, kept, losses = jax.tree.map(lambda v: np.asarray(v)[: setup.count], found)
    values, kept = jax.tree.map(lambda v: v[:, : len(saves)], (values, kept))
    return Descended(end, values, kept, np.array(losses[:, : steps + 1], float))


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


def _loop(
    stack: Any, kind: str, rule: Any, batch: Any, recorder: Recorder, bar: Any, places: int,
    start: Any, data: Any, samples: Any, saves: Any, lr: Any, stop: Any, vectors: Any, lift: Any, key: Any,
) -> Any:  # fmt: skip
    if batch is None:
        order, full = None, lambda w: stack.loss(w, data, kind)
        slope = lambda w, k, order: (*stack.loss_and_gradient(w, data, kind), order)  # noqa: E731
    else:
        batch_stack, size, n = batch
        order, full = jnp.arange(n), _full_loss(batch_stack, n, kind, samples)
        slope = _batch_slope(batch_stack, size, n, kind, samples, key)
    # A given optimizer sees one vector.
    form = stack.for_updates if isinstance(rule[0], str) else lambda flat: flat
    scale, decay = (None if v is None else form(v) for v in vectors)
    init, advance = _sgd(rule[1], lr, scale) if rule[0] == "sgd" else _optax(rule[0], lr, scale)
    step = _step(advance, slope, scale, decay, stop, stops=batch is None)

    def one(start: Any, lift: Any) -> Any:
        def interval(c: _Carry, k: Any) -> Any:
            c = jax.lax.while_loop(lambda c: (c.step < k) & _any_run(c.going), step, c)
            value = jnp.zeros(())
            if batch is not None:
                value = full(stack.flat(c.w))
                c = c._replace(going=c.going & jnp.isfinite(value) & (value > stop))
            if bar is not None:
                jax.debug.callback(bar.step)
            return c, (value, recorder(lr * c.taken, stack.flat(c.w), lift))

        losses = jnp.full(places, jnp.nan, start.dtype)
        zero, w = jnp.int32(0), form(start)
        c = _Carry(zero, zero, w, init(w), jnp.array(True), losses, order)
        c, (values, kept) = jax.lax.scan(interval, c, saves)
        final = full(stack.flat(c.w))
        losses = c.losses.at[c.taken].set(final)
        if batch is None:
            # A run that ended keeps the loss it ended with.
            values = jnp.where(saves < c.taken, losses[saves], final)
        return c.taken, values, kept, losses

    return each_run(one, start, lift)


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
        change = jax.tree.map(lambda g: jnp.where(going, -lr * g, 0), g)
        if scale is not None:
            change = jax.tree.map(jnp.multiply, change, scale)
        return jax.tree.map(jnp.add, w, change), state

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
    advance: Any, slope: Callable[..., Any], scale: Any, decay: Any, stop: Any, stops: bool
) -> Callable[[_Carry], _Carry]:
    """One step of descent; where `stops`, a loss at or below `stop` ends the run."""

    def step(c: _Carry) -> _Carry:
        value, g, order = slope(c.w, c.step, c.order)
        going = c.going & jnp.isfinite(value)
        if stops:
            going = going & (value > stop)
        losses = c.losses.at[c.taken].set(jnp.where(c.taken == c.step, value, c.losses[c.taken]))
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
