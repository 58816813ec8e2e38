"""A network of the user's own, seen on probes: outputs, activity of its layers, weights, tangent kernel.

A torch module is seen in evaluation mode, without gradients, and left as it was: its mode, gradients, random
state and hooks. A function `(params, x) -> outputs`, or `-> (outputs, {layer: activity})`, is called with the
parameters of the moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from neuralrace.apps.insight.modules import as_function
from neuralrace.errors import InputError, listed
from neuralrace.universality.torch_module import (
    as_array,
    as_inputs,
    check_layer,
    first_tensor,
    hooked,
    is_module,
    modules_in_order,
    need_torch,
)

MOST_UNITS = 512  # of a layer that are kept; of more, a random choice stands for all
ALL_UNITS = 4096  # of all layers together
MOST_LAYERS = 24  # of a module that are watched by default; of more, some evenly spaced


@dataclass(frozen=True)
class Observation:
    """The network at one moment, on the probes."""

    outputs: np.ndarray  # (probes, outputs)
    activity: dict[str, np.ndarray]  # layer -> (probes, units)
    weights: dict[str, float]  # name of a weight matrix -> norm
    moved: float  # norm of the change of all weights since the start, relative to their norm then


class Network(Protocol):
    """What the analyses need of a network."""

    layers: tuple[str, ...]

    def observe(self, *state: Any) -> Observation: ...

    def begin(self, *state: Any) -> None: ...

    def kernel(
        self, probes: Sequence[int], directions: np.ndarray, *state: Any, start: bool = False
    ) -> np.ndarray: ...

    def without(self, weights: Sequence[str], *state: Any) -> np.ndarray: ...


def as_network(model: Any, x: Any, layers: Sequence[str] | None, pick: Any) -> Network:
    """The network of a torch module or of a function."""
    if is_module(model):
        return TorchNetwork(model, x, layers, pick)
    if not callable(model):
        kind = type(model).__name__
        raise InputError(f"model must be a torch.nn.Module or a function (params, x) -> outputs, got {kind}")
    return FunctionNetwork(as_function(model), x, layers)


def belong(names: Sequence[str], prefixes: Sequence[str]) -> set[str]:
    """Names of weights that are, or lie in, one of the given; an error where there is none."""
    chosen = {n for n in names for p in prefixes if n == p or n.startswith(f"{p}.")}
    empty = [p for p in prefixes if not any(n == p or n.startswith(f"{p}.") for n in chosen)]
    if empty:
        raise InputError(f"branches must name weights of the model ({listed(names)}); got {empty[0]!r}")
    return chosen


def matrices(weights: Mapping[str, Any]) -> list[str]:
    """Names of weight matrices; of all weights where there is none."""
    return [name for name, value in weights.items() if value.ndim > 1] or list(weights)


def rows(name: str, value: Any, n: int) -> np.ndarray:
    """One row per probe."""
    out = np.asarray(as_array(value))
    if out.ndim == 0 or len(out) != n:
        raise InputError(
            f"{name} must have one row per probe, {n}; its shape is {out.shape}. `pick` takes the right part "
            "of what a layer returns"
        )
    return out.reshape(n, -1)


def some_units(activity: np.ndarray, layers: int = 1) -> np.ndarray:
    """At most `MOST_UNITS` columns, scaled so that squared distances are those of all on average.

    Of many layers fewer, so that all have at most `ALL_UNITS`.
    """
    size, most = activity.shape[1], min(MOST_UNITS, ALL_UNITS // max(layers, 1))
    if size <= most:
        return activity.astype(np.float32)
    chosen = np.random.default_rng(0).choice(size, most, replace=False)
    return activity[:, np.sort(chosen)].astype(np.float32) * np.float32(np.sqrt(size / most))


def observed(
    outputs: Any, activity: Mapping[str, Any], n: int, norms: dict[str, float], moved: float, size: float
) -> Observation:
    """What is kept of outputs and activity of n probes; `moved` and `size` are squared norms of weights."""
    whole = {name: rows(f"layer {name}", value, n) for name, value in activity.items()}
    kept = {name: some_units(v, len(whole)) for name, v in whole.items()}
    share = (moved / max(size, 1e-300)) ** 0.5
    return Observation(rows("outputs", outputs, n).astype(float), kept, norms, share)


class TorchNetwork:
    """A torch module on its probes."""

    def __init__(self, model: Any, x: Any, layers: Sequence[str] | None, pick: Callable[..., Any] | None):
        self.torch: Any = need_torch()
        self.model, self.pick = model, pick
        if next(model.parameters(), None) is None:
            raise InputError("model must have parameters to learn; this module has none")
        self._inputs = as_inputs(model, x)
        self.begin()
        self.layers = self._layers(layers)
        self.rectified: dict[str, bool] = {}
        self.observe()

    def begin(self, *state: Any) -> None:
        """Take the weights of now as those at the start."""
        learned = self.model.named_parameters()
        self.start = {n: p.detach().clone() for n, p in (*learned, *self.model.named_buffers())}
        self.size: float = sum(float(self.start[n].norm()) ** 2 for n, _ in self.model.named_parameters())

    @property
    def inputs(self) -> Any:
        """The probes, where the module is now: trainers move it."""
        device = next(self.model.parameters()).device
        if self._inputs.device != device:
            self._inputs = self._inputs.to(device)
            self.start = {name: value.to(device) for name, value in self.start.items()}
        return self._inputs

    def _layers(self, layers: Sequence[str] | None) -> tuple[str, ...]:
        if layers is not None:
            return tuple(check_layer("layers", self.model, name) for name in layers)
        order = modules_in_order(self.model, self.inputs)
        some = np.linspace(0, len(order) - 2, min(len(order) - 1, MOST_LAYERS)).round().astype(int)
        return tuple(order[k] for k in some)

    def observe(self, *state: Any) -> Observation:
        """Outputs, activity and weights now."""
        if state:
            raise InputError("a torch module is watched as it is: call watch(step) without parameters")
        seen: dict[str, Any] = {}
        modules = {self.model.get_submodule(name): name for name in self.layers}

        def keep(module: Any, given: Any, out: Any) -> None:
            name = modules[module]
            if name not in self.rectified:
                self.rectified[name] = self._rectifies(given, out)
            seen[name] = self.pick(name, out) if self.pick else first_tensor(out)

        out = self._outputs(dict.fromkeys(modules, keep))
        activity = {name: seen[name] for name in self.layers if seen.get(name) is not None}
        learned = {name: p.detach() for name, p in self.model.named_parameters()}
        norms = {name: float(learned[name].norm()) for name in matrices(learned)}
        moved = sum(float((value - self.start[name]).norm()) ** 2 for name, value in learned.items())
        return observed(out, activity, len(out), norms, moved, self.size)

    def _outputs(self, hooks: Mapping[Any, Callable[..., Any]], weights: Any = None) -> np.ndarray:
        """Outputs (probes, outputs) with some hooks, and some weights replaced."""
        with hooked(self.model, hooks):
            out = self.torch.func.functional_call(self.model, weights or {}, (self.inputs,))
            return rows("outputs", first_tensor(out), len(self.inputs)).astype(float)

    def _rectifies(self, given: Any, out: Any) -> bool:
        """Whether a module sets what is negative to zero."""
        if not given or not isinstance(out, self.torch.Tensor) or given[0].shape != out.shape:
            return False
        return bool((out == given[0].clamp_min(0)).all()) and bool((given[0] < 0).any())

    def kernel(
        self, probes: Sequence[int], directions: np.ndarray, *state: Any, start: bool = False
    ) -> np.ndarray:
        """Tangent kernel of outputs along directions, `(probes x directions)` squared; now or at start."""
        torch = self.torch
        own = dict(self.model.named_parameters())
        inputs = self.inputs[list(probes)]  # also moves what is kept to the device of the module
        weights = {n: self.start[n] if start else p.detach() for n, p in own.items()}
        weights = {n: w.clone().requires_grad_(own[n].requires_grad) for n, w in weights.items()}
        buffers = {n: self.start[n] for n, _ in self.model.named_buffers()} if start else {}
        learned, slopes = [w for w in weights.values() if w.requires_grad], []
        with hooked(self.model, {}, gradients=True):
            called = torch.func.functional_call(self.model, {**weights, **buffers}, (inputs,))
            out = first_tensor(called).reshape(len(probes), -1)
            seen = out @ torch.as_tensor(directions, dtype=out.dtype, device=out.device).T
            for value in seen.reshape(-1):
                grads = torch.autograd.grad(value, learned, retain_graph=True, allow_unused=True)
                parts = [g.reshape(-1) for g in grads if g is not None]
                slopes.append(torch.cat(parts).double().cpu())
        j = torch.stack(slopes)
        return (j @ j.T).numpy()

    def without(self, weights: Sequence[str], *state: Any) -> np.ndarray:
        """Outputs where the named weights are zero."""
        own = dict(self.model.named_parameters())
        zeros = {n: self.torch.zeros_like(own[n]) for n in belong(list(own), weights)}
        return self._outputs({}, zeros)

    def activity_of(self, layer: str) -> np.ndarray:
        """Activity of all units of a layer, (probes, units)."""
        seen: list[Any] = []
        self._outputs({self.model.get_submodule(layer): lambda *call: seen.append(call[2])})
        value = self.pick(layer, seen[-1]) if self.pick else first_tensor(seen[-1])
        return rows(f"layer {layer}", value, len(self.inputs))

    def with_gates(self, layer: str, gates: np.ndarray) -> np.ndarray:
        """Outputs where the units of a rectifying layer have constant gates `(probes, units)` instead."""
        held = self.torch.as_tensor(gates, dtype=self.inputs.dtype, device=self.inputs.device)

        def gated(_: Any, given: Any, out: Any) -> Any:
            return given[0] * held.reshape(given[0].shape).to(given[0].dtype)

        return self._outputs({self.model.get_submodule(layer): gated})

    def without_units(self, layer: str, kept: np.ndarray) -> np.ndarray:
        """Outputs where only some units `(units,)` of a layer are kept."""

        def masked(_: Any, __: Any, out: Any) -> Any:
            mask = self.torch.as_tensor(kept.reshape(out.shape[1:]), dtype=out.dtype, device=out.device)
            return out * mask

        return self._outputs({self.model.get_submodule(layer): masked})


def is_learned(value: Any) -> bool:
    """Whether a leaf of the parameters is an array of floating-point numbers."""
    import jax.numpy as jnp

    return hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.floating)


def named_leaves(params: Any) -> list[tuple[str, np.ndarray]]:
    """Arrays of a pytree, named as torch names parameters: `"layer.weight"`."""
    import jax

    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    name = lambda path: jax.tree_util.keystr(path, simple=True, separator=".")  # noqa: E731
    return [(name(path), np.asarray(v, float)) for path, v in leaves if is_learned(v)]


class FunctionNetwork:
    """A function of parameters and inputs, written with JAX."""

    def __init__(self, function: Callable[..., Any], x: Any, layers: Sequence[str] | None):
        self.function, self.x = function, x
        self.layers: tuple[str, ...] = tuple(layers or ())
        self.start: Any = None

    def begin(self, *state: Any) -> None:
        """Take these parameters as those at the start."""
        import jax

        if len(state) != 1:
            raise InputError("a function is watched with its parameters: call watch(step, params)")
        copied = lambda v: np.array(v) if is_learned(v) else v  # noqa: E731
        self.start = jax.tree_util.tree_map(copied, state[0])

    def _called(self, params: Any, x: Any) -> tuple[Any, Mapping[str, Any]]:
        found = self.function(params, x)
        if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Mapping):
            return found
        return found, {}

    def observe(self, *state: Any) -> Observation:
        """Outputs, activity and weights at these parameters."""
        outputs, activity = self._called(state[0], self.x)
        activity = activity or {"outputs": outputs}
        chosen = self.layers or tuple(activity)
        missing = [name for name in chosen if name not in activity]
        if missing:
            raise InputError(
                f"layers must be among those the function returns, {list(activity)}; got {missing[0]!r}"
            )
        self.layers = chosen
        learned, first = dict(named_leaves(state[0])), dict(named_leaves(self.start))
        moved = sum(float(((v - first[name]) ** 2).sum()) for name, v in learned.items())
        size = sum(float((v**2).sum()) for v in first.values())
        norms = {name: float(np.linalg.norm(learned[name])) for name in matrices(learned)}
        return observed(outputs, {name: activity[name] for name in chosen}, len(self.x), norms, moved, size)

    def kernel(
        self, probes: Sequence[int], directions: np.ndarray, *state: Any, start: bool = False
    ) -> np.ndarray:
        """Tangent kernel of outputs along directions, `(probes x directions)` squared; now or at start."""
        import jax
        import jax.numpy as jnp

        x = jnp.asarray(self.x)[np.asarray(probes)]
        leaves, form = jax.tree_util.tree_flatten(self.start if start else state[0])
        places = [k for k, v in enumerate(leaves) if is_learned(v)]

        def seen(learned: list[Any]) -> Any:
            filled = list(leaves)
            for place, value in zip(places, learned, strict=True):
                filled[place] = value
            out, _ = self._called(jax.tree_util.tree_unflatten(form, filled), x)
            return (jnp.reshape(out, (len(x), -1)) @ jnp.asarray(directions, out.dtype).T).ravel()

        try:
            slopes = jax.jacrev(seen)([leaves[k] for k in places])
        except jax.errors.TracerArrayConversionError:
            raise InputError(
                "model must be written with jax.numpy instead of numpy, as its tangent kernel is computed"
            ) from None
        each = [np.asarray(v, float).reshape(len(x) * len(directions), -1) for v in slopes]
        return np.asarray(sum(j @ j.T for j in each))

    def without(self, weights: Sequence[str], *state: Any) -> np.ndarray:
        """Outputs where the named arrays of the parameters are zero."""
        import jax

        chosen = belong([name for name, _ in named_leaves(state[0])], weights)

        def kept(path: Any, value: Any) -> Any:
            return value * 0 if jax.tree_util.keystr(path, simple=True, separator=".") in chosen else value

        changed = jax.tree_util.tree_map_with_path(kept, state[0])
        return rows("outputs", self._called(changed, self.x)[0], len(self.x)).astype(float)
