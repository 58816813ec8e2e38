"""Weights that are computed from fewer numbers when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np


class LiftedWeights(Mapping[str, np.ndarray]):
    """Weights by edge: `lift(edge)` of each of the names, computed whenever one is read."""

    def __init__(self, names: Mapping[str, object], lift: Callable[[str], np.ndarray]):
        self.names: Mapping[str, object] = names
        self.lift: Callable[[str], np.ndarray] = lift

    def __getitem__(self, edge: str) -> np.ndarray:
        if edge not in self.names:
            raise KeyError(edge)
        return self.lift(edge)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, edge: object) -> bool:
        return edge in self.names
