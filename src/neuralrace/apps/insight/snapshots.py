"""Moments of training that are kept: few, and most where the outputs change."""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np

from neuralrace.apps.insight.models import Observation
from neuralrace.errors import InputError

MOST = 80  # snapshots that are kept
OFTEN, RARE = 1.04, 1.3  # growth of the steps between looks: as time allows, and at most
CREDIT, SHARE = 0.01, 0.04  # seconds of looking that are free, and share of the time that it may take beyond


class Snapshot(NamedTuple):
    """An observation and its step."""

    step: float
    seen: Observation


class Snapshots:
    """Keeps at most `MOST` snapshots: of too many, the one whose loss changes the outputs least goes."""

    def __init__(self, most: int = MOST):
        self.most, self.kept = most, list[Snapshot]()
        self._bends = list[float]()  # of each snapshot, how badly a straight line replaces it
        self.began, self.spent = perf_counter(), 0.0  # seconds

    def due(self, step: float) -> bool:
        """Whether to look at this step.

        Looks are ever further apart, and rare where they would take more than a small share of the time.
        """
        if not self.kept:
            return True
        last = self.kept[-1].step
        past, affordable = step - self.kept[0].step, CREDIT + SHARE * (perf_counter() - self.began)
        growth = OFTEN if self.spent < affordable else RARE
        return step - last >= max(1.0, (growth - 1) * past)

    def add(self, step: float, seen: Observation) -> None:
        """Keep an observation; of too many, let the one go that a straight line replaces best."""
        shapes = [
            {"outputs": s.outputs.shape[1], **{name: a.shape[1] for name, a in s.activity.items()}}
            for s in (seen, self.kept[0].seen if self.kept else seen)
        ]
        if shapes[0] != shapes[1]:
            raise InputError(f"layers must keep their sizes, {shapes[1]}; now they have {shapes[0]}")
        self.kept.append(Snapshot(step, seen))
        self._bends.append(np.inf)
        self._measure(len(self.kept) - 2)
        if len(self.kept) > self.most:
            least = int(np.argmin(self._bends))
            del self.kept[least], self._bends[least]
            self._measure(least - 1)
            self._measure(least)

    def _measure(self, k: int) -> None:
        """Distance of the outputs from those on a straight line between neighbours in logarithmic time."""
        if not 0 < k < len(self.kept) - 1:
            return
        t = [np.log1p(s.step - self.kept[0].step) for s in self.kept[k - 1 : k + 2]]
        before, now, after = (s.seen.outputs for s in self.kept[k - 1 : k + 2])
        share = (t[1] - t[0]) / (t[2] - t[0])
        self._bends[k] = float(np.linalg.norm(now - (1 - share) * before - share * after))

    @property
    def steps(self) -> np.ndarray:
        return np.array([s.step for s in self.kept])

    @property
    def outputs(self) -> np.ndarray:
        """(times, probes, outputs)"""
        return np.stack([s.seen.outputs for s in self.kept])

    def activity(self, layer: str) -> np.ndarray:
        """(times, probes, units)"""
        return np.stack([s.seen.activity[layer] for s in self.kept])

    @property
    def bytes(self) -> int:
        """Memory of all that is kept."""
        arrays = [a for s in self.kept for a in (s.seen.outputs, *s.seen.activity.values())]
        return sum(a.nbytes for a in arrays)
