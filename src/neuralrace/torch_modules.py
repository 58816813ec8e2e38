"""Modules of PyTorch: run, looked into, and left as they were. Torch is imported only where there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from neuralrace.errors import InputError, integer, listed, need_extra

__all__ = [
    "as_inputs",
    "check_layer",
    "check_runs",
    "first_tensor",
    "hooked",
    "is_module",
    "measure_module",
    "modules_in_order",
    "need_torch",
    "running_on",
]


def is_module(model: Any) -> bool:
    """Whether something is a torch module; torch, which takes seconds, is not imported for that."""
    return any(c.__name__ == "Module" and c.__module__.split(".")[0] == "torch" for c in type(model).__mro__)


def need_torch() -> Any:
    """The library, where it is installed."""
    need_extra("torch", "torch")
    import torch  # pyright: ignore[reportMissingImports]

    return torch


def as_inputs(model: Any, x: Any) -> Any:
    """Samples as a tensor with which the module runs: whole numbers are tokens, or else numbers."""
    torch, parameters = need_torch(), list(model.parameters())
    jitted = torch.jit.ScriptModule, torch.nn.DataParallel
    wrong = {
        "parameters to learn; this module has none": not parameters,
        "layers of known sizes: call a lazy module on data first": any(
            torch.nn.parameter.is_lazy(p) for p in (*parameters, *model.buffers())
        ),
        "weights; those of this module are on the meta device": any(p.is_meta for p in parameters),
        "real weights; those of this module are complex": any(p.is_complex() for p in parameters),
        "layers that can be seen: watch the module inside, or before it is compiled by torch.jit": any(
            isinstance(m, jitted) for m in model.modules()
        ),
    }
    for what, found in wrong.items():
        if found:
            raise InputError(f"model must have {what}")
    if isinstance(x, torch.Tensor):
        given = x.detach()
    else:
        values = np.asarray(x)
        given = torch.as_tensor(np.ascontiguousarray(values, int if values.dtype.kind in "iu" else float))
    real = given.is_floating_point() or given.dtype == torch.bool
    first = given.to(parameters[0].device, parameters[0].dtype if real else torch.long)
    for inputs in (first, first.to(parameters[0].dtype)):
        with suppress(InputError):
            check_runs(model, inputs[:2])
            return inputs
    return check_runs(model, first[:2])


def check_runs(model: Any, inputs: Any) -> None:
    """Refuse inputs on which a module does not run."""
    with hooked(model, {}), running_on(inputs):
        model(inputs)


@contextmanager
def running_on(inputs: Any) -> Iterator[None]:
    """Whatever a model of the user's raises on these inputs is told as an error of input."""
    try:
        yield
    except InputError:
        raise
    except Exception as fault:
        whole = "int" in str(inputs.dtype)
        tokens = f", whole numbers up to {int(inputs.max())}, which are taken for tokens" if whole else ""
        told = f"{type(fault).__name__}: {fault}".splitlines()[0]
        given = f"x of shape {tuple(inputs.shape[1:])} per sample, {inputs.dtype}{tokens}"
        raise InputError(f"model does not run on {given}. {told}") from fault


@contextmanager
def hooked(
    model: Any, hooks: Mapping[Any, Callable[..., Any]], gradients: bool = False, running: bool = False
) -> Iterator[None]:
    """The module in evaluation mode with some hooks; as it was before, afterwards.

    `running`: normalisations take their running means and variances from the next call alone.
    """
    torch = need_torch()
    names = "training", "inplace", "momentum"
    kept = [(m, {n: getattr(m, n) for n in names if hasattr(m, n)}) for m in model.modules()]
    handles = [m.register_forward_hook(hook) for m, hook in hooks.items()]
    devices = {p.device for p in model.parameters() if p.device.type == "cuda"}
    model.eval()
    for m, own in kept:
        if own.get("inplace") is True:  # would change what a hook has kept
            m.inplace = False
        if running and getattr(m, "running_mean", None) is not None:
            m.training, m.momentum = True, 1.0
    try:
        with (
            torch.inference_mode(False),
            torch.random.fork_rng(list(devices)),
            torch.set_grad_enabled(gradients),
        ):
            yield
    finally:
        for handle in handles:
            handle.remove()
        for m, own in kept:
            for name, value in own.items():
                setattr(m, name, value)


def modules_in_order(model: Any, inputs: Any) -> list[str]:
    """Names of the modules without children, in the order in which they run; at least two."""
    leaves = {m: n for n, m in model.named_modules() if n and not list(m.children())}
    order: list[str] = []
    with hooked(model, {m: lambda m, *_: order.append(leaves[m]) for m in leaves}):
        model(inputs)
    order = list(dict.fromkeys(order))
    if len(order) < 2:
        raise InputError("the model has no hidden layer: it runs fewer than two modules")
    return order


def check_layer(argument: str, model: Any, name: Any) -> str:
    """The name of a submodule."""
    names = [n for n, _ in model.named_modules() if n]
    if name not in names:
        raise InputError(f"{argument} must name a submodule of the model ({listed(names)}); got {name!r}")
    return name


def first_tensor(value: Any) -> Any:
    """The first tensor in what a module returned; None where there is none."""
    if isinstance(value, need_torch().Tensor):
        return value
    items = list(value.values()) if isinstance(value, Mapping) else value
    found = (first_tensor(item) for item in items) if isinstance(items, (tuple, list)) else ()
    return next((v for v in found if v is not None), None)


def measure_module(model: Any, x: Any, layer: Any, pick: Any) -> tuple[Callable[[], Any], str]:
    """A function that gives representation and output of a module now, and the name of its layer.

    `x` are the inputs; `layer` and `pick` are as in `record`.
    """
    inputs = as_inputs(model, x)
    name = check_layer("layer", model, layer) if isinstance(layer, str) else _place(model, inputs, layer)
    module = model.get_submodule(name)

    def measure() -> Any:
        seen: list[Any] = []
        with hooked(model, {module: lambda *call: seen.append(call[2])}):
            output = model(inputs)
        if not seen:
            raise InputError(f"layer {name!r} did not run when the model did")
        hidden = pick(seen[-1]) if pick else first_tensor(seen[-1])
        return tuple(v.detach().cpu().double().numpy() for v in (hidden, first_tensor(output)))

    return measure, name


def _place(model: Any, inputs: Any, layer: int | None) -> str:
    order = modules_in_order(model, inputs)
    at = (len(order) - 1) // 2 if layer is None else integer("layer", layer, -len(order))
    if at >= len(order):
        raise InputError(f"layer must be below {len(order)}, the number of modules that run; got {at}")
    return order[at]
