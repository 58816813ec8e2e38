"""Trajectories of pairs of samples: what `record` follows."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.dynamics.trajectory import Status, Trajectory
from neuralrace.errors import InputError, flag, integer, number
from neuralrace.universality.fitting import Fit, fit

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, eq=False, repr=False)
class Training(Trajectory):
    """Pairs of samples while networks learn them: a `Trajectory` with the distances of both samples.

    A run is one network and one pair, as `record` follows them. Weights are not kept. A run that diverged is
    not finite from there on.

    Attributes
    ----------
    t : ndarray, shape (times,)
        The times of the calls.
    loss : ndarray, shape (runs, times)
        One half of the mean squared error of both samples.
    recorded : dict
        `dh2` (runs, times, layers), `dy2` and `w` (runs, times).
    runs : dict
        The distances `dx` and `dy` of each run, (runs,), and its samples `first` and `second`.
    settings : dict
        How it was recorded; `half` is the layer half way, where it is known.
    """

    @property
    def half(self) -> int:
        """The layer half way, counted from 1: as the settings say, or half way among those recorded."""
        layers = self.recorded["dh2"].shape[-1]
        return self.settings.get("half", layers // 2 + 1)

    def converged(self, share: float = 0.01) -> Any:
        """Whether the loss of each run ended below that share of its first value.

        Parameters
        ----------
        share : float, default 0.01
            Of the first loss, above 0.

        Returns
        -------
        ndarray of bool, shape (runs,)
            Or one bool, of one run taken out (`run[0]`).
        """
        return self.loss[..., -1] < number("share", share, above=0) * self.loss[..., 0]

    def fit(
        self, run: int = 0, layer: int | None = None, *, loss: bool = False, times: int = 300,
        level: float = 0.95, strict: bool = True,
    ) -> Fit:  # fmt: skip
        """Effective learning rates of one run: `universality.fit` of its series.

        Parameters
        ----------
        run : int, default 0
            Its place among the runs.
        layer : int, optional
            The layer among those recorded, counted from 1; by default the one half way.
        loss : bool, default False
            Whether to fit the loss too, for the rate of the mean output.
        times : int, default 300
            How many of the times to use, evenly spaced.
        level, strict
            As in `universality.fit`.

        Returns
        -------
        Fit
            Rates per unit of `t`.
        """
        if integer("run", run, 0) >= (n := len(self.loss) if self.many else 1):
            raise InputError(f"run must be below {n}, the number of runs; got {run}")
        one = self[run] if self.many else self
        dh2, layers = one.recorded["dh2"], one.recorded["dh2"].shape[-1]
        chosen = one.half if layer is None else integer("layer", layer)
        if chosen > layers:
            raise InputError(f"layer must be at most {layers}, the hidden layers; got {layer}")
        if one.status is Status.DIVERGED:
            raise InputError(f"run {run} {one.outcome}; there is nothing to fit")
        keep = np.unique(
            np.linspace(0, len(one.t) - 1, min(integer("times", times), len(one.t))).round().astype(int)
        )
        dh2, dy2, w = (v[keep] for v in (dh2[:, chosen - 1], one.recorded["dy2"], one.recorded["w"]))
        dx, dy = float(one.runs["dx"]), float(one.runs["dy"])
        losses = one.loss[keep] if flag("loss", loss) else None
        return fit(one.t[keep], dh2, dy2, w, dx, dy, loss=losses, level=level, strict=strict)

    @classmethod
    def from_xarray(cls, ds: xarray.Dataset) -> Training:
        """The inverse of `to_xarray`.

        Parameters
        ----------
        ds : xarray.Dataset
            As `to_xarray` returned it.

        Returns
        -------
        Training
        """
        return cls._of(Trajectory.from_xarray(ds))

    @classmethod
    def load(cls, path: str | Path) -> Training:
        """Read what `save` wrote.

        Parameters
        ----------
        path : str or Path
            The zarr folder that was written.

        Returns
        -------
        Training
        """
        return cls._of(Trajectory.load(path))

    @classmethod
    def _of(cls, trajectory: Trajectory) -> Training:
        if "dh2" not in trajectory.recorded:
            raise InputError("the trajectory must be one of universality.record; it has no distances dh2")
        return cls(**{f.name: getattr(trajectory, f.name) for f in dataclasses.fields(trajectory)})
