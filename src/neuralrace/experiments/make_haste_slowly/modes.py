"""What experiments on contexts share: outputs of pathways in closed form, and ratios of losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr


def mode_outputs(inputs: Any, targets: Any, gate: Any, course: Callable[[Any, Any], Any]) -> np.ndarray:
    """Outputs `(t, n, out)` of a gated pathway whose modes follow `course(s, d)`, each by itself.

    s is the strength of the mode in the correlation of inputs and targets where the gate is open, d the
    variance of the inputs along it.
    """
    u, s, vt = np.linalg.svd((gate[:, None] * targets).T @ inputs / len(inputs), full_matrices=False)
    keep = s > 1e-10 * s[0]
    seen = gate[:, None] * (inputs @ vt[keep].T)
    b = np.stack([course(a, d) for a, d in zip(s[keep], (seen**2).mean(axis=0), strict=True)])
    return np.einsum("nk,kt,ok->tno", seen, b, u[:, keep])


def loss_factor(predicted: xr.DataArray, measured: xr.DataArray) -> float:
    """Largest ratio of mean losses, either way, until the measured one is below 1e-3 of its start."""
    a, b = predicted.mean("seed"), measured.mean("seed")
    return np.maximum(a / b, b / a)[b > 1e-3 * b[0]].max().item()
