"""From and to rsatoolbox, which is imported only where one of its objects is given or asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from neuralrace.errors import InputError

MEASURE = "squared euclidean"


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
        matrices, MEASURE, rdm_descriptors={"layer": names, "step": np.tile(steps, len(distances)).tolist()}
    )
