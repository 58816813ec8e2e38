"""Trajectories as xarray datasets and zarr folders."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.dynamics.history import History
from neuralrace.dynamics.status import Status
from neuralrace.errors import InputError, short

if TYPE_CHECKING:
    import xarray

    from neuralrace.dynamics.trajectory import Trajectory

_TEXTS = ("outcomes", "statuses", "stats", "settings", "versions", "dims", "runs", "loss_scale")
_TAKEN = ("run", "t", "step", "solver_step")  # names of axes that a node may have too


def to_xarray(traj: Trajectory) -> xarray.Dataset:
    """See `Trajectory.to_xarray`."""
    import xarray as xr

    run = ("run",) if traj.many else ()
    data: dict[str, Any] = {"loss": ((*run, "t"), traj.loss), "end": (run, np.asarray(traj.end, float))}
    sizes = Counter({"t": len(traj.t), **({"run": len(traj.loss)} if traj.many else {})})
    for prefix, values in (("weights", traj.weights), ("recorded", traj.recorded)):
        for name, value in values.items():
            value = np.asarray(value)
            own = value.shape[len(run) + 1 :]
            axes = _axes(traj.dims.get(f"{prefix}:{name}"), own, name, sizes)
            sizes.update(dict(zip(axes, own, strict=True)) if not set(axes) & set(sizes) else {})
            data[f"{prefix}:{name}"] = ((*run, "t", *axes), value)
    if traj.step_loss is not None:
        data["step_loss"] = ((*run, "step"), traj.step_loss)
    if traj.history is not None:
        for part in History._fields:
            value = getattr(traj.history, part)
            if value is not None:
                axes = (*run, "solver_step") if value.ndim == 1 + len(run) else ("solver_step",)
                data[f"history:{part}"] = (axes, value)
    coords: dict[str, Any] = {"t": traj.t}
    if traj.many:
        coords["run"] = np.arange(len(traj.loss))
    coords |= {name: (run, values) for name, values in traj.runs.items()}
    notes = {name: getattr(traj, name) for name in _TEXTS if name != "runs"}
    notes |= {"statuses": [s.name for s in traj.statuses], "runs": list(traj.runs)}
    return xr.Dataset(data, coords, {k: json.dumps(v, default=_plain) for k, v in notes.items()})


def _axes(named: tuple[str, ...] | None, shape: tuple[int, ...], name: str, sizes: Mapping[str, int]) -> Any:
    """Names of the axes, those given where they fit the sizes of axes with these names."""
    if named is not None and len(named) == len(shape) == len(set(named)):
        safe = tuple(f"{n}_node" if n in _TAKEN else n for n in named)
        if all(sizes.get(n, s) == s for n, s in zip(safe, shape, strict=True)):
            return safe
    return tuple(f"{name}_{k}" for k in range(len(shape)))


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)


def from_xarray(ds: Any) -> dict[str, Any]:
    """The fields of the trajectory that `to_xarray` wrote."""
    import xarray as xr

    if not isinstance(ds, xr.Dataset) or any(n not in ds.attrs for n in _TEXTS):
        raise InputError(f"ds must be a Dataset that Trajectory.to_xarray made, got {type(ds).__name__}")
    notes = {n: json.loads(ds.attrs[n]) for n in _TEXTS}
    arrays = {str(k): np.asarray(v.values) for k, v in ds.data_vars.items()}

    def part(prefix: str) -> dict[str, np.ndarray]:
        return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}

    history = part("history:")
    names = [n for n in notes["runs"] if n in ds.coords]
    return {
        "t": np.asarray(ds["t"].values),
        "loss": arrays["loss"],
        "weights": part("weights:"),
        "statuses": tuple(Status[s] for s in notes["statuses"]),
        "outcomes": tuple(notes["outcomes"]),
        "end": arrays["end"] if arrays["end"].ndim else arrays["end"][()],
        "recorded": part("recorded:"),
        "step_loss": arrays.get("step_loss"),
        "history": History(history["t"], history["loss"], history.get("slope")) if history else None,
        "stats": notes["stats"],
        "settings": notes["settings"],
        "versions": notes["versions"],
        "runs": {n: np.asarray(ds.coords[n].values) for n in names},
        "dims": {k: tuple(v) for k, v in notes["dims"].items()},
        "loss_scale": notes["loss_scale"],
    }


def save(ds: xarray.Dataset, path: str | Path) -> None:
    """See `Trajectory.save`. Written beside `path` first, so that an interrupt loses nothing."""
    path = _path(path)
    if path.exists() and not _replaceable(path):
        raise InputError(
            f"path must be new, or a folder that Trajectory.save wrote; {path} holds other files"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        new = Path(folder) / path.name
        ds.to_zarr(new, mode="w", zarr_format=2, consolidated=True)
        if path.exists():
            shutil.rmtree(path)
        new.rename(path)


def _path(path: Any) -> Path:
    if not isinstance(path, (str, Path)) or not str(path):
        raise InputError(f"path must be the name of a folder, got {short(path)}")
    return Path(path).resolve()


def _replaceable(path: Path) -> bool:
    """Whether a folder is empty, or holds a saved trajectory and nothing else."""
    if not path.is_dir():
        return False
    entries = list(path.iterdir())
    if not entries:
        return True
    try:
        ours = "outcomes" in json.loads((path / ".zattrs").read_text())
    except (OSError, ValueError):
        return False
    return ours and all(e.name.startswith(".z") or (e / ".zarray").is_file() for e in entries)


def load(path: str | Path) -> dict[str, Any]:
    """The fields of a saved trajectory."""
    import xarray as xr

    path = _path(path)
    if not (path / ".zattrs").is_file():
        raise InputError(f"path must be a folder written by Trajectory.save; there is none at {path}")
    with xr.open_zarr(path, chunks=None) as ds:
        return from_xarray(ds)
