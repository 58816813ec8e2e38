"""Activity of a layer of a torch module, without importing torch unless there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from neuralrace.errors import InputError, integer


def is_module(model: Any) -> bool:
    """Whether something is a torch module; torch, which takes seconds, is not imported for that."""
    return any(c.__name__ == "Module" and c.__module__.split(".")[0] == "torch" for c in type(model).__mro__)


def as_array(value: Any) -> Any:
    """A torch tensor as a NumPy array; anything else as it is."""
    return value.detach().cpu().numpy() if type(value).__module__.split(".")[0] == "torch" else value


def measure_module(model: Any, x: Any, layer: Any, pick: Any) -> tuple[Callable[[], Any], str]:
    """A function that gives representation and output of a module now, and the name of its layer.

    `x` are the inputs; `layer` and `pick` are as in `record`.
    """
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        message = (
            "recording a torch.nn.Module needs torch, which is not installed: pip install neuralrace[torch]"
        )
        raise ImportError(message) from error
    inputs = x if isinstance(x, torch.Tensor) else torch.as_tensor(np.asarray(x))
    weight = next(model.parameters(), None)
    if weight is not None:  # integers, such as tokens, keep their type
        inputs = inputs.to(weight.device, weight.dtype if inputs.is_floating_point() else None)

    def run(hooks: dict[Any, Callable[..., None]]) -> Any:
        modes = [(m, m.training) for m in model.modules()]
        handles = [m.register_forward_hook(hook) for m, hook in hooks.items()]
        model.eval()
        try:
            with torch.no_grad():
                return model(inputs)
        finally:
            for handle in handles:
                handle.remove()
            for m, training in modes:
                m.training = training

    name = _layer(model, run, layer)
    module = model.get_submodule(name)

    def measure() -> Any:
        seen: list[Any] = []
        output = run({module: lambda *call: seen.append(call[2])})
        if not seen:
            raise InputError(f"layer {name!r} did not run when the model did")
        hidden = pick(seen[-1]) if pick else _tensor(torch, seen[-1])
        return tuple(v.detach().cpu().double().numpy() for v in (hidden, _tensor(torch, output)))

    return measure, name


def _layer(model: Any, run: Any, layer: Any) -> str:
    names = {m: n for n, m in model.named_modules() if n}
    if isinstance(layer, str):
        if layer not in names.values():
            listed = ", ".join(list(names.values())[:12]) + (", ..." if len(names) > 12 else "")
            raise InputError(f"layer must be a submodule of the model ({listed}); got {layer!r}")
        return layer
    order: list[str] = []
    run({m: lambda m, *_: order.append(names[m]) for m in names if not list(m.children())})
    order = list(dict.fromkeys(order))
    if len(order) < 2:
        raise InputError("the model has no hidden layer: it runs fewer than two modules")
    at = (len(order) - 1) // 2 if layer is None else integer("layer", layer, -len(order))
    if at >= len(order):
        raise InputError(f"layer must be below {len(order)}, the number of modules that run; got {at}")
    return order[at]


def _tensor(torch: Any, value: Any) -> Any:
    """The first tensor in what a module returned."""
    if isinstance(value, torch.Tensor):
        return value
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    for item in items:
        tensor = _tensor(torch, item)
        if tensor is not None:
            return tensor
    return None
