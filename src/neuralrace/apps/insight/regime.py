"""Rich or lazy: how far the tangent kernel and the weights moved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neuralrace.apps.insight.answer import Answer
from neuralrace.measure import kernel_change, kernel_turn

RICH, LAZY = 1.0, 0.2  # change of the kernel above which learning is rich, and below which it is lazy
TURNED = 0.1  # turn of the kernel below which its change is growth alone
GROWN = (
    "The kernel grew but hardly turned, as it does where cross-entropy makes outputs grow: features changed "
    "less than the verdict says. "
)


@dataclass(frozen=True)
class Regime(Answer):
    """An answer with a verdict: "rich", "lazy" or "between"; `interval` holds the change of the kernel."""

    verdict: str
    change: float
    interval: tuple[float, float]


def verdict_of(change: float) -> str:
    """The regime at a relative change of the tangent kernel."""
    return "rich" if change > RICH else "lazy" if change < LAZY else "between"


def regime_of(
    kernels: np.ndarray, probes: int, moved: float, weights: list[dict[str, float]], scale: float
) -> Regime:
    """From the kernels at start and end (2, n, n) of some probes, and norms of the weights at both.

    `scale` is the norm of the initial outputs, relative to that of the targets.
    """
    import xarray as xr

    change, turn = float(kernel_change(kernels)[-1]), float(kernel_turn(kernels)[-1])
    low, high = change_interval(kernels, probes, change)
    verdict = verdict_of(change)
    grown = GROWN if verdict == "rich" and turn < TURNED else ""
    firm = verdict_of(low) == verdict_of(high)
    matrices = list(weights[0])  # at least one
    norms = np.array([[w[name] for name in matrices] for w in weights])
    growth = np.divide(norms[-1], norms[0], out=np.full(len(matrices), np.nan), where=norms[0] > 0)
    data = xr.Dataset(
        {
            "kernel": (("when", "row", "column"), kernels), "kernel_change": change, "kernel_turn": turn,
            "distance_moved": moved, "initial_scale": scale, "norm": (("when", "weight"), norms),
            "balance": (("when", "between"), np.diff(norms**2, axis=1)),
        },
        {"when": ["start", "end"], "weight": matrices},
    )  # fmt: skip
    return Regime(
        "Rich or lazy?",
        f"The tangent kernel changed by {change:.3g} of its norm ({low:.2g} to {high:.2g} over probes) and "
        f"turned by {turn:.2g}; weights moved by {moved:.2g} of their norm, each grew by "
        f"{np.nanmin(growth):.2g} to {np.nanmax(growth):.2g}. Initial outputs had {scale:.2g} of the size of "
        f"the targets. {_balance(norms)}",
        f"Learning was {verdict if verdict != 'between' else 'between rich and lazy'}. Above a change of "
        f"{RICH:g} it is called rich: features are learned. Below {LAZY:g} it is lazy: the network stays "
        f"near its linearisation.{'' if firm else ' The interval reaches into another regime.'}",
        f"{grown}The kernel is taken on a few probes. In wide networks of random weights the change levels "
        "off near .1 however large they are. A network that was not trained to the end, or was watched late, "
        "looks lazier than it is.",
        data,
        verdict,
        change,
        (low, high),
    )


def _balance(norms: np.ndarray) -> str:
    """Drift of the difference of squared norms of successive weights (when, weights), which flow keeps."""
    if norms.shape[1] < 2:
        return ""
    drift = np.abs(np.diff(norms[-1] ** 2 - norms[0] ** 2)) / max((norms**2).max(), 1e-300)
    return (
        f"Balance between successive weights drifted by up to {drift.max():.0%} of the largest squared norm."
    )


def change_interval(kernels: np.ndarray, probes: int, change: float) -> tuple[float, float]:
    """Two standard errors of a kernel's change either way, by leaving out one probe at a time."""
    if probes < 3:
        return change, change
    each = kernels.shape[1] // probes
    found = []
    for k in range(probes):
        keep = np.delete(np.arange(kernels.shape[1]), slice(k * each, (k + 1) * each))
        found.append(float(kernel_change(kernels[:, keep][:, :, keep])[-1]))
    error = np.sqrt(probes - 1) * np.std(found)
    return max(0.0, change - 2 * error), change + 2 * error
