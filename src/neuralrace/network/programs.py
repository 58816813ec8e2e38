"""Programs of a task, made once and kept; checks and precision of what runs on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from neuralrace.compiling import Compiled
from neuralrace.errors import InputError, array, choice, without_nan
from neuralrace.network.compiler import compile_program
from neuralrace.network.plan import Program, Stack
from neuralrace.network.represent import Described, forms
from neuralrace.tables import LOSSES
from neuralrace.task import Task

_LARGEST = 400  # cost of networks that NumPy computes


def program(task: Task, kind: str, mode: str | None = None) -> Program:
    """The network of a task with its numbers, made once per task.

    `mode` is moments, samples or merged (every sample a row with its own gates); by default moments
    where they say all, which is for linear networks with squared error.
    """
    mode = mode or ("moments" if is_linear(task, kind) else "samples")
    made = _programs.setdefault(task, {})
    if (mode, kind) not in made:
        if mode == "moments":
            found = _cheapest(task)
        else:
            contexts = task.sample_contexts if mode == "samples" else [task.merged_context]
            given = replace(Described.of(contexts), how="samples")
            found = compile_program(task.graph, given, kind)
        # The numbers of a large network are not held twice.
        plain = runs_in_numpy(found.stack, kind)
        made[mode, kind] = found if plain else replace(found, data=found.on_device)
    return made[mode, kind]


def _cheapest(task: Task) -> Program:
    """From whatever form of a task costs least by a count."""
    tried = [(compile_program(task.graph, form), form.whole) for form in forms(task)]
    made, whole = min(tried, key=lambda one: one[0].microseconds)
    return made if whole is None else compile_program(task.graph, whole())


# Mode and loss -> the program of a task, for as long as there is the task.
_programs: WeakKeyDictionary[Task, dict[tuple[str, str], Program]] = WeakKeyDictionary()


def runs_in_numpy(stack: Stack, kind: str) -> bool:
    """Whether NumPy computes this network (see `backward`): linear, and small enough to be as fast there."""
    linear = kind == "squared" and all(g.activation is None for g in stack.groups)
    return linear and stack.cost <= _LARGEST


def is_linear(task: Task, kind: str) -> bool:
    """Whether moments say all that this network sees."""
    return task.graph.is_linear and kind == "squared"


def precision(dtype: Any) -> Any:
    """Context manager under which JAX computes in float64, unless `dtype` is single precision."""
    return jax.enable_x64(np.dtype(dtype) == np.float64)


def cast(data: Any, dtype: Any) -> Any:
    """The numbers of a program in another precision, as NumPy arrays."""
    return jax.tree.map(lambda v: np.asarray(v, dtype), data)


def check(task: Any, weights: Any, kind: str = "squared") -> dict[str, np.ndarray]:
    """Refuse what cannot be computed; the weights as arrays."""
    check_task(task, kind)
    return task.graph.check_weights(weights)


def check_task(task: Any, kind: str = "squared") -> None:
    """Refuse a task without the samples that its network needs, and an unknown loss."""
    if not isinstance(task, Task):
        raise InputError(f"task must be a Task, got {type(task)}")
    choice("loss", kind, LOSSES)
    if not is_linear(task, kind) and not task.sampled:
        raise InputError(
            "this task was built from moments and holds no samples, which activations and cross-entropy "
            "need: build it by nr.Task(graph, inputs, targets)"
        )


def run(
    function: Callable[..., Any],
    task: Task,
    weights: Any,
    kind: str,
    made: Callable[[], Program],
    plain: Callable[..., Any] | None = None,
) -> Any:
    """`function(stack, flat weights, numbers, kind)` on the program that `made` gives.

    NumPy float64 comes back; under a JAX transformation of the weights, JAX arrays in their precision. Small
    networks are computed by `plain`, the same in NumPy, where compiling would take longer.
    """
    if _traced(weights):
        flat = task.graph.flatten(_check_traced(task, weights), jnp)
        program = made()
        data = cast(program.data, flat.dtype)
        one = lambda w: function(program.stack, w, data, kind)  # noqa: E731
        return jax.vmap(one)(flat) if flat.ndim == 2 else one(flat)
    flat = task.graph.flatten(task.graph.check_weights(weights))
    program, many = made(), flat.ndim == 2
    if plain is not None and runs_in_numpy(program.stack, kind):
        with np.errstate(all="ignore"):  # as in compiled code
            return _told(_each(lambda w: plain(program.stack, w, program.data, kind), flat))
    with precision(np.float64):
        values = _compiled(function, program.stack, kind, many, jnp.asarray(flat), program.on_device)
    return _told(jax.tree.map(lambda v: float(v) if v.ndim == 0 else np.asarray(v), values))


def _told(values: Any) -> Any:
    without_nan("weights and data", jax.tree.leaves(values))
    return values


def _each(one: Callable[[np.ndarray], Any], flat: np.ndarray) -> Any:
    """The result for flat weights `(n,)`, or those for all of `(runs, n)`, stacked."""
    if flat.ndim == 1:
        return jax.tree.map(lambda v: float(v) if np.ndim(v) == 0 else v, one(flat))
    return jax.tree.map(lambda *v: np.stack(v), *map(one, flat))


def _computed(function: Any, stack: Stack, kind: str, many: bool, flat: Any, data: Any) -> Any:
    one = lambda w: function(stack, w, data, kind)  # noqa: E731
    return jax.vmap(one)(flat) if many else one(flat)


_compiled = Compiled(_computed, 4)


def _traced(weights: Any) -> bool:
    return isinstance(weights, Mapping) and any(isinstance(w, jax.core.Tracer) for w in weights.values())


def _check_traced(task: Task, weights: Mapping[str, Any]) -> dict[str, Any]:
    """Weights of a JAX transformation: names, shapes and types are known, values are not."""

    def checked(name: str, w: Any) -> Any:
        if not isinstance(w, jax.core.Tracer):
            return jnp.asarray(array(name, w))
        if not jnp.issubdtype(w.dtype, jnp.floating):
            raise InputError(f"{name} must hold real numbers as floats under JAX, got {w.dtype}")
        return w

    return task.graph.check_weights(weights, checked)
