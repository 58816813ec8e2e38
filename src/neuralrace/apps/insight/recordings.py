"""Recorded representations alone, as of neurons over sessions: the same questions without a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace.apps.insight.answer import Answer
from neuralrace.apps.insight.modes import data_modes, modes_data, predicted, told_modes
from neuralrace.apps.insight.pathways import pathways_of
from neuralrace.apps.insight.probes import moderate
from neuralrace.apps.insight.regime import Regime, change_of, judged, told_change
from neuralrace.apps.insight.representations import representations_of
from neuralrace.errors import InputError, array, flag, listable, short

FEWEST = 3  # conditions


@dataclass(eq=False, repr=False)
class Recordings:
    """Representations over sessions of learning; made by `nr.watch.from_recordings`.

    `modes()`, `representations()`, `pathways()`, `regime()` and `report(folder)` are those of a watched
    network, as far as representations tell.
    """

    activity: dict[str, list[np.ndarray]] | None  # region -> sessions (conditions, units)
    distances: dict[str, np.ndarray]  # region -> (sessions, conditions, conditions)
    x: np.ndarray
    y: np.ndarray
    steps: np.ndarray
    problem: str = ""

    def __repr__(self) -> str:
        n, regions = len(self.x), ", ".join(self.distances)
        return f"Recordings({n} conditions, {len(self.steps)} sessions, {regions})"

    @property
    def layers(self) -> tuple[str, ...]:
        """Regions."""
        return tuple(self.distances)

    def _grams(self, region: str) -> np.ndarray:
        """Inner products around the mean, (sessions, conditions, conditions)."""
        n = len(self.x)
        centre = np.eye(n) - 1 / n
        return -0.5 * centre @ self.distances[region] @ centre

    def modes(self, region: str | None = None) -> Answer:
        """What was represented first: strength of the data's modes in a region (default: the last)."""
        region = self._region(region)
        x, y = self.x - self.x.mean(axis=0), self.y - self.y.mean(axis=0)
        modes = data_modes([(x, y)])
        along = x @ modes.right.T
        along = along / np.linalg.norm(along, axis=0)
        strength = np.einsum("na,tnm,ma->ta", along, self._grams(region), along)
        share = strength / np.where(strength[-1] > 0, strength[-1], np.nan)
        grown = (share[-1] - share[0]) > 0.5
        times = np.where(grown, nr.half_time(self.steps, share.T, axis=-1), np.nan)
        theory = predicted(times - self.steps[0], modes, 2)
        theory = theory._replace(times=theory.times + self.steps[0])
        measured, said = told_modes(times, theory, modes, 2, f"squared activity of {region}")
        return Answer(
            "What was represented first?",
            measured,
            said,
            "Strengths are relative to the last session, as a representation has no natural size. Noise adds "
            "to all of them, and drift between sessions looks like learning. One time unit and one initial "
            "strength are fitted, so only ratios of times are predicted.",
            modes_data(self.steps, share, times, theory, modes),
        )

    def representations(self) -> Answer:
        """What representations became, and whether the two-point theory describes them."""
        reason = "outputs were not recorded"
        at = lambda region, k: self.distances[region][k]  # noqa: E731
        return representations_of(self.steps, at, self.layers, self.x, self.y, reason)

    def pathways(self) -> Answer:
        """Patterns of silence of the units, where units of the same number were recorded in all sessions."""
        if self.activity is None:
            raise InputError("distances do not tell units apart: pathways need activity (trials, units)")
        same = self._same_units()
        if not same:
            raise InputError("pathways need the same units in all sessions; their numbers differ")
        modes = data_modes([(self.x, self.y)])
        return pathways_of(same, None, np.asarray, lambda _: np.nan, self.y, self.x, self.y, modes)

    def _same_units(self) -> dict[str, np.ndarray]:
        """Activity (sessions, conditions, units) of regions with the same number of units in all sessions."""
        regions = (self.activity or {}).items()
        return {k: np.stack(v) for k, v in regions if len({a.shape for a in v}) == 1}

    def regime(self, region: str | None = None) -> Regime:
        """Rich or lazy, from the change of inner products in a region (default: the last)."""
        import xarray as xr

        region = self._region(region)
        grams = self._grams(region)[[0, -1]]
        change, interval = change_of(grams, len(self.x))
        goal = self.y - self.y.mean(axis=0)
        aligned = np.asarray([nr.measure.cosine(g, goal @ goal.T) if g.any() else np.nan for g in grams])
        what = f"matrix of inner products in {region}"
        verdict, why = judged(change, interval, what)
        of_targets = (
            f" Its alignment with that of the targets went from {aligned[0]:.2f} to {aligned[1]:.2f}."
            if np.isfinite(aligned).all()
            else ""
        )
        return Regime(
            "Rich or lazy?",
            f"The {what} {told_change(change, interval, 'conditions')}.{of_targets}",
            f"Learning: {verdict}. {why}",
            "Inner products are the part of the tangent kernel that belongs to the readout; weights before "
            "the region are not seen. Noise and drift between sessions count as change.",
            xr.Dataset(
                {
                    "kernel": (("when", "row", "column"), grams), "kernel_change": change,
                    "alignment": ("when", aligned),
                },
                {"when": ["start", "end"]},
            ),
            verdict,
            change,
            interval,
            why,
        )  # fmt: skip

    def to_rsatoolbox(self) -> Any:
        """Distance matrices as `rsatoolbox.rdm.RDMs`, one per region and session."""
        return to_rdms(self.distances, self.steps)

    @property
    def described(self) -> str:
        """What was recorded, in a sentence."""
        regions, last = ", ".join(self.layers), self.steps[-1]
        return (
            f"{len(self.x)} conditions; {len(self.steps)} sessions from {self.steps[0]:g} to {last:g}; "
            f"recorded: {regions}."
        )

    def answers(self) -> dict[str, Answer]:
        """All answers that the recordings allow, by name."""
        found = {"modes": self.modes(), "representations": self.representations()}
        if self.activity is not None and self._same_units():
            found["pathways"] = self.pathways()
        return {**found, "regime": self.regime()}

    def report(self, folder: str | Path = "insight") -> Path:
        """Write `index.html`, figures and `data.zarr` to a folder; the path of the page."""
        from neuralrace.apps.insight.page import write_page

        return write_page(self, folder)[0]

    def _region(self, region: str | None) -> str:
        if region is not None and region not in self.distances:
            raise InputError(f"region must be one of {list(self.distances)}, got {region!r}")
        return region or list(self.distances)[-1]


def from_recordings(
    recorded: Any, x: Any, targets: np.ndarray, steps: Any = None, distances: bool = False
) -> Recordings:
    """Recordings of trials, averaged over trials with the same stimulus and target; see `nr.watch`."""
    regions = dict(recorded) if isinstance(recorded, Mapping) else {"recorded": recorded}
    sessions, distances = {}, flag("distances", distances)
    for name, value in regions.items():
        if is_rsa(value) or (isinstance(value, (list, tuple)) and value and is_rsa(value[0])):
            value, distances = as_sessions(value)
        sessions[str(name)] = _checked(name, value)
    stimuli = moderate("x", np.atleast_1d(array("x", x)))
    if len(stimuli) < 2 or not stimuli.size:
        raise InputError(f"x must have at least two samples, got shape {stimuli.shape}")
    stimuli = stimuli.reshape(len(stimuli), -1)
    if len(targets) != len(stimuli):
        raise InputError(f"y must have {len(stimuli)} rows, as many as x, got {len(targets)}")
    count = {len(s) for s in sessions.values()}
    if len(count) != 1 or min(count) < 2:
        raise InputError(f"recorded must have the same number of sessions, at least two, got {sorted(count)}")
    for name, own in sessions.items():
        for k, session in enumerate(own):
            if len(session) != len(stimuli) or (distances and session.shape[1] != len(stimuli)):
                kind = "trials x trials" if distances else "trials x units"
                raise InputError(
                    f"recorded {name!r}, session {k}, must be {kind} for {len(stimuli)} trials, as x; "
                    f"its shape is {session.shape}"
                )
    times = array("steps", np.arange(min(count)) if steps is None else steps, (min(count),))
    if (np.diff(times) <= 0).any():
        raise InputError(f"steps must increase from session to session, got {times.tolist()}")
    both = np.hstack([stimuli, targets])
    unique, index = np.unique(both, axis=0, return_inverse=True)
    mean = np.eye(len(unique))[index.ravel()].T
    mean = mean / mean.sum(axis=1, keepdims=True)  # (conditions, trials)
    if len(unique) < FEWEST:
        raise InputError(f"x and y must show at least {FEWEST} different conditions, got {len(unique)}")
    order = np.lexsort((mean @ targets).T)
    mean = mean[order]
    if distances:
        own = {k: np.stack([_squared(mean, s) for s in v]) for k, v in sessions.items()}
        return Recordings(None, own, mean @ stimuli, mean @ targets, times)
    activity = {k: [mean @ s for s in v] for k, v in sessions.items()}
    own = {k: np.stack([nr.measure.squared_distances(a) for a in v]) for k, v in activity.items()}
    return Recordings(activity, own, mean @ stimuli, mean @ targets, times)


def _checked(name: Any, value: Any) -> list[np.ndarray]:
    """Sessions, each a matrix."""
    told = f"recorded {name!r}"
    if not listable(value):
        raise InputError(f"{told} must be sessions x trials x units, got {short(value)}")
    sessions = [moderate(told, array(told, session, (None, None))) for session in value]
    if not all(s.shape[1] for s in sessions):
        raise InputError(f"{told} must have at least one unit in each session")
    return sessions


def _squared(mean: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """Squared distances of the means of trials, from those of trials."""
    if not np.allclose(distances, distances.T, atol=1e-9 * max(np.abs(distances).max(), 1e-300)):
        raise InputError("recorded distances must be symmetric")
    between = mean @ distances @ mean.T
    within = np.diag(between)
    return between - 0.5 * (within[:, None] + within[None, :])


# -- rsatoolbox ------------------------------------------------------------------------------------


def is_rsa(value: Any) -> bool:
    """Whether something is of rsatoolbox."""
    return type(value).__module__.split(".")[0] == "rsatoolbox"


def as_sessions(value: Any) -> tuple[list[np.ndarray], bool]:
    """Matrices of sessions, and whether they are distances.

    From an `RDMs` (one matrix per session, squared distances), a list of `Dataset`, one per session, or a
    `TemporalDataset`, whose times are the sessions.
    """
    if hasattr(value, "get_matrices"):
        return list(np.asarray(value.get_matrices(), float)), True
    if isinstance(value, (list, tuple)):
        return [np.asarray(v.measurements, float) for v in value], False
    measurements = np.asarray(value.measurements, float)
    if measurements.ndim != 3:
        raise InputError("one Dataset is one session: give a list of them, a TemporalDataset or RDMs")
    return list(np.moveaxis(measurements, 2, 0)), False


def to_rdms(distances: Mapping[str, np.ndarray], steps: np.ndarray) -> Any:
    """`RDMs` of squared distances (steps, n, n) of each layer, described by `layer` and `step`."""
    try:
        from rsatoolbox.rdm.rdms import RDMs  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("this conversion needs rsatoolbox: pip install rsatoolbox") from error
    matrices = np.concatenate(list(distances.values()))
    names = [name for name in distances for _ in steps]
    return RDMs(
        matrices,
        "squared euclidean",
        rdm_descriptors={"layer": names, "step": np.tile(steps, len(distances)).tolist()},
    )
