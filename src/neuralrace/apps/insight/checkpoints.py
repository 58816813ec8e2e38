"""Checkpoints of a torch module, loaded one after the other; weights only, no code is executed."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from neuralrace.errors import InputError
from neuralrace.universality.torch_module import is_module


def load_in_turn(model: Any, files: Sequence[str | Path], allow_pickle: bool = False) -> Iterator[float]:
    """Load each file into the model, and yield its step: the last number in its name, else its place."""
    if not is_module(model):
        raise InputError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if len(files) < 2:
        raise InputError(f"files must list at least two checkpoints, got {len(files)}")
    paths = [Path(f) for f in files]
    numbers = [re.findall(r"\d+", path.stem) for path in paths]
    steps = [float(n[-1]) for n in numbers if n]
    if len(steps) < len(paths) or len(set(steps)) < len(steps):
        steps = [float(k) for k in range(len(paths))]
    for step, path in sorted(zip(steps, paths, strict=True)):
        model.load_state_dict(_state(path, allow_pickle, model))
        yield step


def _state(path: Path, allow_pickle: bool, model: Any) -> Any:
    import torch  # pyright: ignore[reportMissingImports]

    try:
        found = torch.load(path, map_location="cpu", weights_only=not allow_pickle)
    except OSError as fault:
        raise InputError(f"{path} cannot be read: {fault.strerror or fault}") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as fault:
        raise InputError(
            f"{path} does not hold weights alone; nothing of it was executed. Save model.state_dict(), or "
            "give allow_pickle=True (--allow-pickle) for a file you trust"
        ) from fault
    if isinstance(found, torch.nn.Module):
        found = found.state_dict()
    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            found = found[key]
    own = model.state_dict()
    fits = isinstance(found, dict) and found.keys() == own.keys()
    if not fits or any(found[k].shape != own[k].shape for k in own):
        raise InputError(f"{path} is a checkpoint of another model: its weights have other names or shapes")
    return found
