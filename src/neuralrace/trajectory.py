"""What `flow` and `descend` return: times, losses, weights, and how the run ended."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.errors import InputError, choice, integer, known, number

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A learning trajectory, or several from different initial weights.

    `t` `(save,)` is flow time with tau = 1 on the mean loss; `loss` `(save,)`; `weights` edge name ->
    `(save, out, in)`. With several runs all but `t` have a leading axis, `outcomes` has one text each, and
    a run that ended early keeps its last state. `end` is the time at which each run ended, `recorded` what
    the `record` function returned at the saved times, `step_loss` (descent) the loss before every step.
    """

    t: np.ndarray
    loss: np.ndarray
    weights: dict[str, np.ndarray]
    outcomes: tuple[str, ...]
    end: np.ndarray
    recorded: dict[str, np.ndarray] = field(default_factory=dict)
    step_loss: np.ndarray | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=lambda: dict(versions()))

    @property
    def outcome(self) -> str:
        """How the run ended: text that starts with finished, reached loss, diverged or step limit."""
        if len(self.outcomes) == 1:
            return self.outcomes[0]
        ranks = ("diverged", "step limit", "finished", "reached loss")
        worst = min(self.outcomes, key=lambda o: next(k for k, r in enumerate(ranks) if o.startswith(r)))
        kind = next(r for r in ranks if worst.startswith(r))
        same = [k for k, o in enumerate(self.outcomes) if o.startswith(kind)]
        n, missed = len(self.outcomes), [x for o in self.outcomes if " error " in (x := o.partition("; ")[2])]
        end = f"; {missed[0]} ({len(missed)} of {n} runs)" if missed else ""
        if len(same) == n:
            return f"{kind} in all {n} runs{end}"
        return f"{kind} in {len(same)} of {n} runs ({', '.join(map(str, same[:8]))}){end}"

    @property
    def many(self) -> bool:
        return self.loss.ndim == 2

    def __repr__(self) -> str:
        runs = f"{len(self.loss)} runs, " if self.many else ""
        return f"Trajectory({runs}{len(self.t)} times to t = {self.t[-1]:g}, {self.outcome})"

    def singular_values(self, edge: str) -> np.ndarray:
        """Singular values of a weight matrix over time, `(save, r)`."""
        known("edge", [edge], self.weights, "saved edge")
        if edge in self.weights and self.weights[edge].ndim - self.many != 3:
            raise InputError(f"edge must name a weight matrix; {edge!r} is a bias")
        return np.linalg.svd(self.weights[edge], compute_uv=False)

    def time(
        self,
        unit: str = "flow",
        *,
        lr: float | None = None,
        tau: float = 1.0,
        loss: str = "mean",
        n: int | None = None,
    ) -> np.ndarray:
        """The time axis in other units.

        "flow": time of `tau dW/dt = -dL/dW`; "steps": number of steps of descent with learning rate `lr`.
        `loss="sum"` with `n` samples means that the flow or the descent runs on the summed loss.
        """
        choice("unit", unit, ("flow", "steps"))
        choice("loss", loss, ("mean", "sum"))
        if loss == "sum" and n is None:
            raise InputError("n, the number of samples, is needed for loss='sum'")
        speed = integer("n", n) if loss == "sum" else 1
        if unit == "steps":
            if lr is None:
                raise InputError("lr, the learning rate, is needed for unit='steps'")
            return self.t / (number("lr", lr, above=0) * speed)
        return self.t * number("tau", tau, above=0) / speed

    def to_xarray(self) -> xarray.Dataset:
        """All that is here as an `xarray.Dataset`; settings and versions are attributes."""
        import xarray as xr

        run = ("run",) if self.many else ()
        data: dict[str, Any] = {"loss": ((*run, "t"), self.loss), "end": (run, self.end)}
        for prefix, values in (("weights", self.weights), ("recorded", self.recorded)):
            for name, value in values.items():
                axes = [f"{name}:{k}" for k in range(value.ndim - len(run) - 1)]
                data[f"{prefix}:{name}"] = ((*run, "t", *axes), value)
        if self.step_loss is not None:
            data["step_loss"] = ((*run, "step"), self.step_loss)
        notes = {"outcomes": self.outcomes, "settings": self.settings, "versions": self.versions}
        return xr.Dataset(data, {"t": self.t}, {k: json.dumps(v, default=str) for k, v in notes.items()})

    def save(self, path: str | Path) -> None:
        """Write to a zarr folder at `path`, replacing one that is there."""
        self.to_xarray().to_zarr(Path(path), mode="w", consolidated=False)

    @classmethod
    def load(cls, path: str | Path) -> Trajectory:
        """Read what `save` wrote."""
        import xarray as xr

        if not Path(path).is_dir():
            raise InputError(f"path must be a folder written by Trajectory.save; there is none at {path}")
        with xr.open_zarr(Path(path), chunks=None, consolidated=False) as ds:
            if "outcomes" not in ds.attrs:
                raise InputError(f"path must be a folder written by Trajectory.save, got {path}")
            notes = {k: json.loads(ds.attrs[k]) for k in ("outcomes", "settings", "versions")}
            arrays = {str(k): np.asarray(v.values) for k, v in ds.data_vars.items()}

            def part(prefix: str) -> dict[str, np.ndarray]:
                found = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
                return found

            return cls(
                np.asarray(ds["t"].values),
                arrays["loss"],
                part("weights:"),
                tuple(notes["outcomes"]),
                arrays["end"],
                part("recorded:"),
                arrays.get("step_loss"),
                notes["settings"],
                notes["versions"],
            )


@cache
def versions() -> dict[str, str]:
    """Versions of what computed a result."""
    found = {"python": platform.python_version()}
    for package in ("neuralrace", "jax", "diffrax", "optax", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
