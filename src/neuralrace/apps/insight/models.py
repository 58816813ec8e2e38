"""A network of the user's own, seen on probes: outputs, activity of its layers, weights, tangent kernel.

A torch module is seen in evaluation mode, without gradients, and left as it was: its mode, gradients, random
state and hooks. A function `(params, x) -> outputs`, or `-> (outputs, {layer: activity})`, is called with the
parameters of the moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from neuralrace.apps.insight.modules import as_function
from neuralrace.errors import InputError
from neuralrace.universality.torch_module import as_array, is_module

MOST_UNITS = 512  # of a layer that are kept; of more, a random choice stands for all


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
    units: dict[str, int]  # of each layer, also those that are not kept

    def observe(self, *state: Any) -> Observation: ...

    def kernel(self, probes: Sequence[int], directions: np.ndarray, *state: Any) -> np.ndarray: ...

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
        listed = ", ".join(list(names)[:12]) + (", ..." if len(names) > 12 else "")
        raise InputError(f"branches must name weights of the model ({listed}); got {empty[0]!r}")
    return chosen


def rows(name: str, value: Any, n: int) -> np.ndarray:
    """One row per probe."""
    out = np.asarray(as_array(value))
    if out.ndim == 0 or len(out) != n:
        raise InputError(
            f"{name} must have one row per probe, {n}; its shape is {out.shape}. `pick` takes the right part "
            "of what a layer returns"
        )
    return out.reshape(n, -1)


def some_units(activity: np.ndarray, seed: int = 0) -> np.ndarray:
    """At most `MOST_UNITS` columns, scaled so that squared distances are those of all on average."""
    size = activity.shape[1]
    if size <= MOST_UNITS:
        return activity.astype(np.float32)
    chosen = np.random.default_rng(seed).choice(size, MOST_UNITS, replace=False)
    return activity[:, np.sort(chosen)].astype(np.float32) * np.float32(np.sqrt(size / MOST_UNITS))


class TorchNetwork:
    """A torch module on its probes."""

    def __init__(self, model: Any, x: Any, layers: Sequence[str] | None, pick: Callable[..., Any] | None):
        try:
            import torch  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise ImportError(
                "watching a torch.nn.Module needs torch: pip install 'neuralrace[torch]'"
            ) from error
        self.torch: Any = torch
        self.model, self.pick = model, pick
        inputs = x if isinstance(x, torch.Tensor) else torch.as_tensor(np.asarray(x))
        weight = next(model.parameters(), None)
        if weight is None:
            raise InputError("model must have parameters to learn; this module has none")
        self._inputs = inputs.to(weight.device, weight.dtype if inputs.is_floating_point() else None)
        self.start = {n: p.detach().clone() for n, p in model.named_parameters()}
        self.layers = self._layers(layers)
        self.units: dict[str, int] = {}
        self.rectified: dict[str, bool] = {}
        self.observe()

    @property
    def inputs(self) -> Any:
        """The probes, where the module is now: trainers move it."""
        device = next(self.model.parameters()).device
        if self._inputs.device != device:
            self._inputs = self._inputs.to(device)
            self.start = {name: value.to(device) for name, value in self.start.items()}
        return self._inputs

    def _layers(self, layers: Sequence[str] | None) -> tuple[str, ...]:
        names = {n: m for n, m in self.model.named_modules() if n}
        if layers is not None:
            for name in layers:
                if name not in names:
                    known = ", ".join(list(names)[:12]) + (", ..." if len(names) > 12 else "")
                    raise InputError(f"layers must name submodules of the model ({known}); got {name!r}")
            return tuple(layers)
        order: list[str] = []
        leaves = {m: n for n, m in names.items() if not list(m.children())}
        with self._hooked({m: lambda m, *_: order.append(leaves[m]) for m in leaves}):
            self.model(self.inputs)
        order = list(dict.fromkeys(order))
        if len(order) < 2:
            raise InputError("the model has no hidden layer: it runs fewer than two modules")
        return tuple(order[:-1])

    @contextmanager
    def _hooked(self, hooks: Mapping[Any, Callable[..., Any]], gradients: bool = False) -> Iterator[None]:
        """The module in evaluation mode with some hooks; as it was before, afterwards."""
        modes = [(m, m.training) for m in self.model.modules()]
        handles = [m.register_forward_hook(hook) for m, hook in hooks.items()]
        device = self.inputs.device
        self.model.eval()
        try:
            with (
                self.torch.random.fork_rng([device] if device.type == "cuda" else []),
                self.torch.set_grad_enabled(gradients),
            ):
                yield
        finally:
            for handle in handles:
                handle.remove()
            for m, training in modes:
                m.training = training

    def _tensor(self, value: Any) -> Any:
        """The first tensor in what a module returned."""
        if isinstance(value, self.torch.Tensor):
            return value
        items = (
            value.values()
            if isinstance(value, Mapping)
            else value
            if isinstance(value, (tuple, list))
            else ()
        )
        found = (self._tensor(item) for item in items)
        return next((v for v in found if v is not None), None)

    def observe(self, *state: Any) -> Observation:
        """Outputs, activity and weights now."""
        if state:
            raise InputError("a torch module is watched as it is: call watch(step) without parameters")
        seen: dict[str, Any] = {}
        modules = {self.model.get_submodule(name): name for name in self.layers}

        def keep(module: Any, given: Any, out: Any) -> None:
            name = modules[module]
            if isinstance(out, self.torch.Tensor) and given and given[0].shape == out.shape:
                self.rectified[name] = bool((out == given[0].clamp_min(0)).all())
            seen[name] = self.pick(name, out) if self.pick else self._tensor(out)

        with self._hooked(dict.fromkeys(modules, keep)):
            out = self._tensor(self.model(self.inputs))
        n = len(self.inputs)
        whole = {
            name: rows(f"layer {name}", seen[name], n) for name in self.layers if seen.get(name) is not None
        }
        self.units |= {name: v.shape[1] for name, v in whole.items()}
        norms, moved, size = {}, 0.0, 0.0
        for name, p in self.model.named_parameters():
            value, first = p.detach(), self.start[name]
            if value.ndim > 1:
                norms[name] = float(value.norm())
            moved += float((value - first).norm()) ** 2
            size += float(first.norm()) ** 2
        activity = {name: some_units(v) for name, v in whole.items()}
        return Observation(
            rows("outputs", out, n).astype(float), activity, norms, (moved / max(size, 1e-300)) ** 0.5
        )

    def kernel(self, probes: Sequence[int], directions: np.ndarray, *state: Any) -> np.ndarray:
        """Tangent kernel of outputs along directions, `(probes x directions)` squared."""
        torch = self.torch
        learned = [p for p in self.model.parameters() if p.requires_grad]
        slopes = []
        with self._hooked({}, gradients=True):
            out = self._tensor(self.model(self.inputs[list(probes)])).reshape(len(probes), -1)
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
        with self._hooked({}):
            out = self._tensor(self.torch.func.functional_call(self.model, zeros, (self.inputs,)))
        return rows("outputs", out, len(self.inputs)).astype(float)

    def activity_of(self, layer: str) -> np.ndarray:
        """Activity of all units of a layer, (probes, units)."""
        seen: list[Any] = []
        with self._hooked({self.model.get_submodule(layer): lambda *call: seen.append(call[2])}):
            self.model(self.inputs)
        value = self.pick(layer, seen[-1]) if self.pick else self._tensor(seen[-1])
        return rows(f"layer {layer}", value, len(self.inputs))

    def with_gates(self, layer: str, gates: np.ndarray) -> np.ndarray:
        """Outputs where the units of a rectifying layer have constant gates `(probes, units)` instead."""
        module = self.model.get_submodule(layer)
        held = self.torch.as_tensor(gates, dtype=self.inputs.dtype, device=self.inputs.device)

        def gated(_: Any, given: Any, out: Any) -> Any:
            return given[0] * held.reshape(given[0].shape).to(given[0].dtype)

        with self._hooked({module: gated}):
            out = self._tensor(self.model(self.inputs))
        return rows("outputs", out, len(self.inputs))

    def without_units(self, layer: str, kept: np.ndarray) -> np.ndarray:
        """Outputs where only some units `(units,)` of a layer are kept."""
        module = self.model.get_submodule(layer)

        def masked(_: Any, __: Any, out: Any) -> Any:
            mask = self.torch.as_tensor(kept.reshape(out.shape[1:]), dtype=out.dtype, device=out.device)
            return out * mask

        with self._hooked({module: masked}):
            out = self._tensor(self.model(self.inputs))
        return rows("outputs", out, len(self.inputs))


def named_leaves(params: Any) -> list[tuple[str, np.ndarray]]:
    """Arrays of a pytree, named as torch names parameters: `"layer.weight"`."""
    import jax

    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    name = lambda path: jax.tree_util.keystr(path, simple=True, separator=".")  # noqa: E731
    return [(name(path), np.asarray(v)) for path, v in leaves if hasattr(v, "dtype")]


class FunctionNetwork:
    """A function of parameters and inputs, written with JAX."""

    def __init__(self, function: Callable[..., Any], x: Any, layers: Sequence[str] | None):
        self.function, self.x = function, x
        self.layers: tuple[str, ...] = tuple(layers or ())
        self.units: dict[str, int] = {}
        self.start: list[np.ndarray] | None = None

    def _called(self, params: Any, x: Any) -> tuple[Any, Mapping[str, Any]]:
        found = self.function(params, x)
        if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Mapping):
            return found
        return found, {}

    def observe(self, *state: Any) -> Observation:
        """Outputs, activity and weights at these parameters."""
        if len(state) != 1:
            raise InputError("a function is watched with its parameters: call watch(step, params)")
        n = len(self.x)
        outputs, activity = self._called(state[0], self.x)
        chosen = self.layers or tuple(activity)
        missing = [name for name in chosen if name not in activity]
        if missing:
            raise InputError(
                f"layers must be among those the function returns, {list(activity)}; got {missing[0]!r}"
            )
        self.layers = chosen
        whole = {name: rows(f"layer {name}", activity[name], n) for name in chosen}
        self.units |= {name: v.shape[1] for name, v in whole.items()}
        learned = [(name, v.astype(float)) for name, v in named_leaves(state[0]) if v.dtype.kind == "f"]
        self.start = self.start or [v for _, v in learned]
        moved = sum(
            float(((v - first) ** 2).sum()) for (_, v), first in zip(learned, self.start, strict=True)
        )
        size = sum(float((first**2).sum()) for first in self.start)
        norms = {name: float(np.linalg.norm(v)) for name, v in learned if v.ndim > 1}
        kept = {name: some_units(v) for name, v in whole.items()}
        return Observation(
            rows("outputs", outputs, n).astype(float), kept, norms, (moved / max(size, 1e-300)) ** 0.5
        )

    def kernel(self, probes: Sequence[int], directions: np.ndarray, *state: Any) -> np.ndarray:
        """Tangent kernel of outputs along directions, `(probes x directions)` squared."""
        import jax
        import jax.numpy as jnp

        x = jnp.asarray(self.x)[np.asarray(probes)]
        leaves, form = jax.tree_util.tree_flatten(state[0])
        places = [
            k for k, v in enumerate(leaves) if hasattr(v, "dtype") and jnp.issubdtype(v.dtype, jnp.floating)
        ]

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
