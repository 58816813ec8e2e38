"""Trajectories as xarray datasets and zarr folders."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.dynamics import constants
from neuralrace.dynamics.history import History
from neuralrace.dynamics.status import Ending, Status
from neuralrace.errors import InputError, need_extra
from neuralrace.files import FORMAT, as_path, check_folder, check_format, replace_folder, restore

if TYPE_CHECKING:
    import xarray

    from neuralrace.dynamics.trajectory import Trajectory

KIND = "trajectory of Trajectory.save"
_TEXTS = ("stats", "settings", "versions", "dims", "runs", "loss_scale")  # beside "axes" of the arrays
_TAKEN = ("run", *constants.RESERVED)  # names that axes of nodes do not have
_ENDS = ("status", "end", "outcome")
_PLAIN = re.compile(r"[\w:][\w:>.+-]{0,99}", re.ASCII)  # names of arrays that every file system can have
_STORED = "stored_names"  # of the others


def to_xarray(traj: Trajectory) -> xarray.Dataset:
    """See `Trajectory.to_xarray`."""
    need_extra("data", "xarray")
    import xarray as xr

    run = ("run",) if traj.many else ()
    data: dict[str, Any] = {"loss": ((*run, "t"), traj.loss), "end": (run, np.asarray(traj.end, float))}
    ended = {"status": [s.name for s in traj.statuses], "outcome": traj.outcomes}
    ended["ending"] = [json.dumps(e.numbers, default=_plain) for e in traj.endings]
    data |= {name: (run, np.array(texts if run else texts[0])) for name, texts in ended.items()}
    shared, each = {}, {}
    for name, value in traj.stats.items():
        own = run and np.shape(value) == (len(traj.loss),) and np.asarray(value).dtype.kind in "biufU"
        (each if own else shared)[name] = value
    data |= {f"stats:{name}": (run, np.asarray(value)) for name, value in each.items()}
    sizes = Counter({"t": len(traj.t), **({"run": len(traj.loss)} if traj.many else {})})
    for prefix, values in (("weights", traj.weights), ("recorded", traj.recorded)):
        for name, value in values.items():
            value = np.asarray(value)
            own = value.shape[len(run) + 1 :]
            axes = _axes(traj.dims.get(f"{prefix}:{name}"), own, name, sizes, traj.runs)
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
    if traj.source is not None:
        axes = ("t", "mode", "class")
        data["strengths"] = ((*run, *axes), traj.strengths)
    coords: dict[str, Any] = {"t": traj.t}
    if traj.many:
        coords["run"] = np.arange(len(traj.loss))
    coords |= {name: (run, values) for name, values in traj.runs.items()}
    notes = {name: getattr(traj, name) for name in _TEXTS if name != "runs"}
    notes |= {
        "stats": shared,
        "runs": list(traj.runs),
        "axes": {name: axes for name, (axes, _) in data.items()},
    }
    texts = {k: json.dumps(v, default=_plain) for k, v in notes.items()}
    return xr.Dataset(data, coords, {**texts, "format": FORMAT})


def _axes(
    named: tuple[str, ...] | None, shape: tuple[int, ...], name: str, sizes: Mapping[str, int], runs: Any
) -> Any:
    """Names of the axes, those given where they fit the sizes of axes with these names."""
    if named is not None and len(named) == len(shape):
        safe = tuple(f"{n}_node" if n in _TAKEN or n in runs or ":" in n else n for n in named)
        if len(set(safe)) == len(safe) and all(
            sizes.get(n, s) == s for n, s in zip(safe, shape, strict=True)
        ):
            return safe
    return tuple(f"{name}_{k}" for k in range(len(shape)))


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)


def from_xarray(ds: Any) -> dict[str, Any]:
    """The fields of the trajectory that `to_xarray` wrote, also of some of its runs or times."""
    need_extra("data", "xarray")
    import xarray as xr

    if not isinstance(ds, xr.Dataset) or any(n not in ds.attrs for n in (*_TEXTS, "axes", "format")):
        raise InputError(f"ds must be a Dataset that Trajectory.to_xarray made, got {type(ds).__name__}")
    check_format("ds", ds.attrs["format"])
    try:
        return _fields(ds)
    except (KeyError, TypeError, AttributeError, ValueError) as fault:
        why = fault if isinstance(fault, InputError) else f"{type(fault).__name__}: {fault}"
        raise InputError(
            f"ds must be as Trajectory.to_xarray made it, or some runs or times of that; {why}"
        ) from None


def _fields(ds: xarray.Dataset) -> dict[str, Any]:
    notes = {n: json.loads(ds.attrs[n]) for n in (*_TEXTS, "axes")}
    ours = {n: [a for a in axes if a in ds[n].dims] for n, axes in notes["axes"].items() if n in ds}
    arrays = {n: np.asarray(ds[n].transpose(*axes).values) for n, axes in ours.items()}
    runs = [n for n in ds["loss"].dims if n == "run"]
    if arrays["loss"].ndim != len(runs) + 1 or not arrays["loss"].size:
        raise InputError("it must have the loss at several times t")
    for name in _ENDS:
        if arrays[name].shape != arrays["loss"].shape[: len(runs)]:
            raise InputError(f"it must have the {name} of each run")

    def part(prefix: str) -> dict[str, np.ndarray]:
        return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}

    history = part("history:")
    ends = [np.atleast_1d(arrays[n]).tolist() for n in _ENDS]
    said = [{"said": words} for words in ends[2]]  # in files that have no numbers
    numbers = map(json.loads, np.atleast_1d(arrays["ending"]).tolist()) if "ending" in arrays else said
    names = [n for n in notes["runs"] if n in ds.coords]
    return {
        "t": np.asarray(ds["t"].values),
        "loss": arrays["loss"],
        "weights": part("weights:"),
        "endings": tuple(
            Ending(Status[status], t, **more) for status, t, more in zip(*ends[:2], numbers, strict=True)
        ),
        "recorded": part("recorded:"),
        "step_loss": arrays.get("step_loss"),
        "history": History(history["t"], history["loss"], history.get("slope")) if history else None,
        "stats": notes["stats"] | {n: v if v.ndim else v[()] for n, v in part("stats:").items()},
        "settings": notes["settings"],
        "versions": notes["versions"],
        "runs": {n: np.asarray(ds.coords[n].values) for n in names},
        "dims": {k: tuple(v) for k, v in notes["dims"].items()},
        "loss_scale": notes["loss_scale"],
    }


def save(ds: xarray.Dataset, path: str | Path) -> None:
    """See `Trajectory.save`."""
    need_extra("data", "zarr")
    odd = [str(name) for name in ds.variables if not _PLAIN.fullmatch(str(name))]
    stored = {name: f"stored:{k}" for k, name in enumerate(odd)}
    ds = ds.rename(stored).assign_attrs({_STORED: json.dumps({v: k for k, v in stored.items()})})
    write = lambda folder: ds.to_zarr(folder, mode="w", zarr_format=2, consolidated=True)  # noqa: E731
    replace_folder(as_path("path", path).resolve(), KIND, write)


def load(path: str | Path) -> dict[str, Any]:
    """The fields of a saved trajectory."""
    need_extra("data", "xarray", "zarr")
    import xarray as xr

    path = as_path("path", path).resolve()
    restore(path)
    check_folder("path", path, KIND)
    with xr.open_zarr(path, chunks=None) as ds:
        return from_xarray(ds.rename(json.loads(ds.attrs.get(_STORED, "{}"))))
