"""A network of the user's own, seen on probes: outputs, activity of its layers, weights, tangent kernel.

A torch module is seen in evaluation mode, without gradients, and left as it was: its mode, gradients, random
state and hooks. A function `(params, x) -> outputs`, or `-> (outputs, {layer: activity})`, is called with the
parameters of the moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace.apps.insight.probes import Reading
from neuralrace.errors import InputError, detached, listed
from neuralrace.torch_modules import (
    check_layer,
    check_runs,
    first_tensor,
    hooked,
    is_module,
    modules_in_order,
    need_torch,
    running_on,
)

MOST_UNITS = 512  # of a layer that are kept; of more, a random choice stands for all
ALL_UNITS = 4096  # of all layers together
MOST_LAYERS = 24  # of a module that are watched by default; of more, some evenly spaced
MOST_SLOPES = 2**28  # numbers of the gradients that are kept at once


@dataclass(frozen=True)
class Observation:
    """The network at one moment, on the probes."""

    outputs: np.ndarray  # (probes, outputs)
    activity: dict[str, np.ndarray]  # layer -> (probes, units)
    weights: dict[str, float]  # name of a weight matrix -> norm
    moved: float  # norm of the change of all weights since the start, relative to their norm then


def as_network(model: Any, x: Any, layers: Sequence[str] | None, pick: Any, reading: Reading) -> Network:
    """The network of a torch module, with inputs as of `as_inputs`, or of a function."""
    if not is_module(model):
        return FunctionNetwork(as_function(model), x, layers, reading)
    check_runs(model, x)
    return TorchNetwork(model, x, layers, pick, reading)


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
    outputs: np.ndarray, activity: Mapping[str, Any], norms: dict[str, float], moved: float, size: float
) -> Observation:
    """What is kept of rows of outputs and activity; `moved` and `size` are squared norms of weights."""
    kept = {name: some_units(np.asarray(detached(v)), len(activity)) for name, v in activity.items()}
    return Observation(outputs, kept, norms, (moved / max(size, 1e-300)) ** 0.5)


def inner_products(row: Callable[[int], np.ndarray], n: int, size: int) -> np.ndarray:
    """Inner products of n rows of a size, of which few are in memory at once; those are computed again."""
    found, most = np.zeros((n, n)), max(1, MOST_SLOPES // max(size, 1))
    for begin in range(0, n, most):
        end = min(begin + most, n)
        own = np.empty((end - begin, size), np.float64 if size * n < MOST_SLOPES // 2 else np.float32)
        for k in range(begin, end):
            own[k - begin] = row(k)
        found[begin:end, begin:end] = own @ own.T
        for k in range(end, n):
            found[k, begin:end] = found[begin:end, k] = own @ row(k)
    return found


def same_weights(now: Mapping[str, Any], start: Mapping[str, Any]) -> None:
    """Refuse weights that came, went or changed their shape since the start."""
    shapes = [{name: tuple(v.shape) for name, v in weights.items()} for weights in (now, start)]
    other = [k for k in {**shapes[0], **shapes[1]} if shapes[0].get(k) != shapes[1].get(k)]
    if other:
        raise InputError(
            "the weights must have the names and shapes of the first look: watch a model that has all its "
            f"layers. Others now: {listed(other)}"
        )


class TorchNetwork:
    """A torch module on its probes."""

    def __init__(
        self, model: Any, x: Any, layers: Sequence[str] | None, pick: Callable[..., Any] | None,
        reading: Reading,
    ):  # fmt: skip
        self.torch: Any = need_torch()
        self.model, self.pick, self.reading, self._inputs = model, pick, reading, x
        self.begin()
        self.unread: tuple[str, ...] = ()
        self.rectified: dict[str, bool] = {}
        self.layers = self._layers(layers)
        self.observe()

    def begin(self, *state: Any) -> None:
        """Take the weights of now as those at the start."""
        own = dict(self.model.named_parameters())
        self.start = {n: v.detach().clone() for n, v in own.items()}
        self.learned = {n for n, v in own.items() if v.requires_grad}
        self.size: float = sum(self._norm(v) ** 2 for v in self.start.values())

    def _wide(self, value: Any) -> Any:
        """In at least single precision, as squares overflow in half precision."""
        return value.to(self.torch.promote_types(value.dtype, self.torch.float32))

    def _norm(self, value: Any) -> float:
        return float(self._wide(value).norm())

    @property
    def inputs(self) -> Any:
        """The probes, where the module is now and of its type: trainers move it."""
        own, given = dict(self.model.named_parameters()), self._inputs
        first = next(iter(own.values()))
        wanted = first.device, first.dtype if given.is_floating_point() else given.dtype
        if (given.device, given.dtype) != wanted:
            self._inputs = given.to(*wanted)
            self.start = {n: v.to(own[n]) for n, v in self.start.items() if n in own}
        return self._inputs

    def _layers(self, layers: Sequence[str] | None) -> tuple[str, ...]:
        if layers is not None:
            return tuple(check_layer("layers", self.model, name) for name in layers)
        order = modules_in_order(self.model, self.inputs)[:-1]
        some = np.linspace(0, len(order) - 1, min(len(order), MOST_LAYERS)).round().astype(int)
        self.layers = tuple(order[k] for k in some)
        seen, _ = self._run()
        read = tuple(n for n in self.layers if self.reading.fits(seen.get(n)))
        self.unread = tuple(n for n in self.layers if n not in read)
        if not read:
            raise InputError(f"no layer has a row for each probe ({listed(self.layers)}); name some: layers=")
        return read

    def _run(self) -> tuple[dict[str, Any], np.ndarray]:
        """What each watched layer returned last, and outputs."""
        seen: dict[str, Any] = {}
        modules = {self.model.get_submodule(name): name for name in self.layers}

        def keep(module: Any, given: Any, out: Any) -> None:
            name = modules[module]
            if name not in self.rectified:
                self.rectified[name] = self._rectifies(given, out)
            seen[name] = self.pick(name, out) if self.pick else first_tensor(out)

        out = self._outputs(dict.fromkeys(modules, keep))
        return seen, out

    def observe(self, *state: Any) -> Observation:
        """Outputs, activity and weights now."""
        if state:
            raise InputError("a torch module is watched as it is: call watch(step) without parameters")
        seen, out = self._run()
        activity = {name: self.reading.rows(f"layer {name}", seen.get(name)) for name in self.layers}
        learned = {name: p.detach() for name, p in self.model.named_parameters()}
        same_weights(learned, self.start)
        norms = {name: self._norm(learned[name]) for name in matrices(learned)}
        moved = sum(self._norm(self._wide(v) - self._wide(self.start[n])) ** 2 for n, v in learned.items())
        return observed(out, activity, norms, moved, self.size)

    def _outputs(self, hooks: Mapping[Any, Callable[..., Any]], weights: Any = None) -> np.ndarray:
        """Outputs (probes, outputs) with some hooks, and some weights replaced."""
        inputs = self.inputs
        with hooked(self.model, hooks), running_on(inputs):
            out = self._read(self.torch.func.functional_call(self.model, weights or {}, (inputs,)))
            return np.asarray(detached(out), float)

    def _read(self, returned: Any, reading: Reading | None = None) -> Any:
        return (reading or self.reading).outputs(returned, self.torch.logsumexp, self.torch.cat)

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
        samples, reading = self.reading.part(probes)
        with hooked(self.model, {}, gradients=True):
            inputs = self.inputs[samples]  # also moves what is kept to the device of the module
            weights = {n: (self.start[n] if start else p.detach()).clone() for n, p in own.items()}
            buffers = self._statistics(weights)
            chosen = [
                weights[n].requires_grad_() for n, p in own.items() if n in self.learned or p.requires_grad
            ]
            if not chosen:
                raise InputError("model must have parameters to learn; all are held (requires_grad)")
            called = torch.func.functional_call(self.model, {**weights, **buffers}, (inputs,))
            out = self._read(called, reading)
            seen = (out @ torch.as_tensor(directions, dtype=out.dtype, device=out.device).T).reshape(-1)
            if not seen.requires_grad:
                raise InputError("model must be differentiable: its outputs do not depend on its parameters")

            def slopes(k: int) -> np.ndarray:
                grads = torch.autograd.grad(seen[k], chosen, retain_graph=True, materialize_grads=True)
                return torch.cat([self._wide(g.to_dense()).reshape(-1) for g in grads]).cpu().numpy()

            return inner_products(slopes, len(seen), sum(w.numel() for w in chosen))

    def _statistics(self, weights: Mapping[str, Any]) -> dict[str, Any]:
        """Buffers with these weights: running means and variances are those of all probes.

        What training has kept lags behind the weights, and at the start is nothing but zeros and ones.
        """
        buffers = {n: b.clone() for n, b in self.model.named_buffers()}
        with hooked(self.model, {}, running=True):
            self.torch.func.functional_call(self.model, {**weights, **buffers}, (self.inputs,))
        return buffers

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
        return np.asarray(detached(self.reading.rows(f"layer {layer}", value)))

    def with_gates(self, layer: str, gates: np.ndarray) -> np.ndarray:
        """Outputs where the units of a rectifying layer have constant gates `(probes, units)` instead.

        In a sequence, places that are no probes keep their gates.
        """
        held = self.torch.as_tensor(gates, device=self.inputs.device)

        def gated(_: Any, given: Any, out: Any) -> Any:
            opened = (out != 0).to(out.dtype)
            flat, at = opened.reshape(-1, held.shape[1]), self.reading.places
            flat[slice(None) if at is None else at] = held.to(out.dtype)
            return given[0] * flat.reshape(out.shape)

        return self._outputs({self.model.get_submodule(layer): gated})

    def without_units(self, layer: str, kept: np.ndarray) -> np.ndarray:
        """Outputs where only some units `(units,)` of a layer are kept."""

        def masked(_: Any, __: Any, out: Any) -> Any:
            mask = self.torch.as_tensor(kept, dtype=out.dtype, device=out.device)
            return (out.reshape(-1, len(kept)) * mask).reshape(out.shape)

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


def trained(state: Any) -> Any:
    """What is learned: of the variables of flax all but running means."""
    if not isinstance(state, Mapping) or "batch_stats" not in state:
        return state
    return {name: value for name, value in state.items() if name != "batch_stats"}


class FunctionNetwork:
    """A function of parameters and inputs, written with JAX."""

    def __init__(
        self, function: Callable[..., Any], x: Any, layers: Sequence[str] | None, reading: Reading
    ):  # fmt: skip
        self.function, self.x, self.reading = function, x, reading
        self.layers: tuple[str, ...] = tuple(layers or ())
        self.unread: tuple[str, ...] = ()
        self.start: Any = None

    def begin(self, *state: Any) -> None:
        """Take these parameters as those at the start."""
        import jax

        if len(state) != 1:
            raise InputError("a function is watched with its parameters: call watch(step, params)")
        copied = lambda v: np.array(v) if is_learned(v) else v  # noqa: E731
        self.start = jax.tree_util.tree_map(copied, trained(state[0]))

    def _called(self, params: Any, x: Any, reading: Reading) -> tuple[Any, Mapping[str, Any]]:
        """Outputs (probes, outputs), and what each layer gives."""
        import jax
        import jax.numpy as jnp

        found = self.function(params, x)
        both = isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Mapping)
        out, activity = found if both else (found, {})
        return reading.outputs(out, jax.nn.logsumexp, jnp.concatenate), activity

    def observe(self, *state: Any) -> Observation:
        """Outputs, activity and weights at these parameters."""
        with running_on(self.x):
            outputs, activity = self._called(state[0], self.x, self.reading)
        chosen = self.layers or tuple(activity) or ("outputs",)
        activity = {name: self.reading.rows(f"layer {name}", v) for name, v in activity.items()}
        activity = activity or {"outputs": outputs}
        missing = [name for name in chosen if name not in activity]
        if missing:
            raise InputError(
                f"layers must be among those the function returns, {list(activity)}; got {missing[0]!r}"
            )
        self.layers = chosen
        learned, first = dict(named_leaves(trained(state[0]))), dict(named_leaves(self.start))
        same_weights(learned, first)
        moved = sum(float(((v - first[name]) ** 2).sum()) for name, v in learned.items())
        size = sum(float((v**2).sum()) for v in first.values())
        norms = {name: float(np.linalg.norm(learned[name])) for name in matrices(learned)}
        seen = {name: activity[name] for name in chosen}
        return observed(np.asarray(detached(outputs), float), seen, norms, moved, size)

    def kernel(
        self, probes: Sequence[int], directions: np.ndarray, *state: Any, start: bool = False
    ) -> np.ndarray:
        """Tangent kernel of outputs along directions, `(probes x directions)` squared; now or at start."""
        import jax
        import jax.numpy as jnp

        samples, reading = self.reading.part(probes)
        x = jnp.asarray(self.x)[samples]
        now = trained(state[0])
        leaves, form = jax.tree_util.tree_flatten(self.start if start else now)
        places = [k for k, v in enumerate(leaves) if is_learned(v)]

        def seen(learned: list[Any]) -> Any:
            filled = list(leaves)
            for place, value in zip(places, learned, strict=True):
                filled[place] = value
            whole = jax.tree_util.tree_unflatten(form, filled)
            whole = whole if now is state[0] else {**state[0], **whole}
            out, _ = self._called(whole, x, reading)
            return (out @ jnp.asarray(directions, out.dtype).T).ravel()

        try:
            out, pulled = jax.vjp(seen, [jnp.asarray(leaves[k]) for k in places])
        except jax.errors.TracerArrayConversionError:
            raise InputError(
                "model must be written with jax.numpy instead of numpy, as its tangent kernel is computed"
            ) from None

        def slopes(k: int) -> np.ndarray:
            (found,) = pulled(jnp.zeros_like(out).at[k].set(1))
            return np.concatenate([np.asarray(v, float).ravel() for v in found])

        return inner_products(slopes, len(out), sum(np.size(leaves[k]) for k in places))

    def without(self, weights: Sequence[str], *state: Any) -> np.ndarray:
        """Outputs where the named arrays of the parameters are zero."""
        import jax

        chosen = belong([name for name, _ in named_leaves(state[0])], weights)

        def kept(path: Any, value: Any) -> Any:
            return value * 0 if jax.tree_util.keystr(path, simple=True, separator=".") in chosen else value

        changed = jax.tree_util.tree_map_with_path(kept, state[0])
        return np.asarray(detached(self._called(changed, self.x, self.reading)[0]), float)


Network = TorchNetwork | FunctionNetwork  # what the analyses see


# -- modules of JAX libraries ----------------------------------------------------------------------


def as_function(model: Any) -> Callable[..., Any]:
    """The function of a module; any other callable as it is."""
    origin = {c.__module__.split(".")[0]: c.__module__ for c in reversed(type(model).__mro__)}
    if "equinox" in origin:
        return _equinox
    if origin.get("flax", "").startswith("flax.linen"):
        return _linen(model)
    if "flax" in origin:
        return lambda module, x: module(x)
    return model


def _equinox(module: Any, x: Any) -> Any:
    """A module of equinox takes one sample."""
    import jax
    import jax.numpy as jnp

    return jax.vmap(module)(jnp.asarray(x))


def _linen(module: Any) -> Callable[..., Any]:
    """Outputs of a module of flax, and of its submodules but the one that gives the output."""

    def function(variables: Any, x: Any) -> Any:
        given = variables if "params" in variables else {"params": variables}
        out, state = module.apply(given, x, capture_intermediates=True, mutable=["intermediates"])
        return out, {n: v for n, v in _leaves(state["intermediates"], ()) if n and v is not out}

    return function


def _leaves(tree: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, name))
        else:
            first = value[0][0] if isinstance(value[0], (tuple, list)) else value[0]
            yield ".".join(path), first
