"""Checkpoints of a torch module, in the order of training; weights only, no code is executed."""

from __future__ import annotations

import pickle
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from neuralrace.errors import InputError, listed, number, sequence, short
from neuralrace.torch_modules import is_module

STEPS = "global_step", "step", "iteration", "iter", "epoch"  # keys under which trainers store them
NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)")  # in a name


def in_order(model: Any, files: Any, allow_pickle: bool = False) -> tuple[list[tuple[float, Path]], str]:
    """Files with their steps, and in words where the order and the steps are from.

    Steps stored in the files give the order; without them it is that in which the files are given.
    """
    if not is_module(model):
        raise InputError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    files = sequence("files", files, "paths")
    if len(files) < 2 or not all(isinstance(f, (str, Path)) for f in files):
        raise InputError(f"files must list at least two checkpoints, got {short(files)}")
    paths = [Path(f) for f in files]
    stored = [weights_in(path, allow_pickle, model)[1] for path in paths]
    for key in STEPS:
        steps = [of_file[key] for of_file in stored if key in of_file]
        if len(set(steps)) == len(paths):
            return sorted(
                zip(steps, paths, strict=True)
            ), f"Steps are those stored in the checkpoints ({key!r})."
    steps, told = [float(k) for k in range(len(paths))], "counted from 0"
    parts = [NUMBER.split(path.name.removesuffix(path.suffix)) for path in paths]
    if len({len(p) for p in parts}) == 1:
        differ = [k for k in range(len(parts[0])) if len({p[k] for p in parts}) > 1]
        if len(differ) == 1 and differ[0] % 2:  # names that differ in one number
            steps, told = [float(p[differ[0]]) for p in parts], "those in the names"
    if steps != sorted(set(steps)):
        raise InputError(
            "files must be in the order of training, as no step is stored in them; the numbers in the names "
            f"do not increase: {listed(path.name for path in paths)}"
        )
    return list(zip(steps, paths, strict=True)), f"Checkpoints are in the order given; steps are {told}."


def weights_in(path: Path, allow_pickle: bool, model: Any) -> tuple[dict[str, Any], dict[str, float]]:
    """Weights of the model in a file, and the steps stored beside them."""
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
    steps = dict[str, float]()
    for key in STEPS if isinstance(found, dict) else ():
        with suppress(InputError):
            steps[key] = number(key, found.get(key))
    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            found = found[key]
    own = model.state_dict()
    fits = isinstance(found, dict) and found.keys() == own.keys()
    if not fits or any(getattr(found[k], "shape", None) != own[k].shape for k in own):
        raise InputError(f"{path} is a checkpoint of another model: its weights have other names or shapes")
    return found, steps
