"""Modules of flax and equinox as functions `(params, x) -> outputs, {layer: activity}`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


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
