"""Moments of training that are kept: few, and most where the outputs change."""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np

from neuralrace.apps.insight.models import Observation

MOST = 80  # snapshots that are kept
OFTEN, RARE = 1.04, 1.3  # growth of the steps between looks: as time allows, and at most
CREDIT, SHARE = 0.15, 0.05  # seconds of looking that are free, and share of the time that it may take beyond


class Snapshot(NamedTuple):
    """An observation and its step."""

    step: float
    seen: Observation


class Snapshots:
    """Keeps at most `MOST` snapshots: of too many, the one whose loss changes the outputs least goes."""

    def __init__(self, most: int = MOST):
        self.most, self.kept = most, list[Snapshot]()
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

    def add(self, step: float, seen: Observation, seconds: float = 0.0) -> None:
        """Keep an observation that took some seconds."""
        self.kept.append(Snapshot(step, seen))
        self.spent += seconds
        if len(self.kept) > self.most:
            del self.kept[self._least()]

    def _least(self) -> int:
        """Place of the snapshot that a straight line between its neighbours replaces best."""
        outputs = [s.seen.outputs for s in self.kept]
        t = [np.log1p(s.step - self.kept[0].step) for s in self.kept]

        def bend(k: int) -> float:
            share = (t[k] - t[k - 1]) / (t[k + 1] - t[k - 1])
            between = (1 - share) * outputs[k - 1] + share * outputs[k + 1]
            return float(np.linalg.norm(outputs[k] - between))

        return min(range(1, len(self.kept) - 1), key=bend)

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
