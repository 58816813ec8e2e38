"""Rich or lazy: how far the tangent kernel and the weights moved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import neuralrace as nr
from neuralrace.apps.insight.answer import Answer

RICH, LAZY = 1.0, 0.2  # change of the kernel above which learning is rich, and below which it is lazy
TURNED = 0.1  # turn of the kernel below which its change is growth alone
FEWEST = 3  # probes from which an interval is known
GROWN = (
    " Most of the change is growth: the kernel turned by {:.2g} only, as it does where cross-entropy makes "
    "outputs grow."
)


@dataclass(frozen=True)
class Regime(Answer):
    """An answer with a verdict: "rich", "lazy", "between" or "not decided".

    Attributes
    ----------
    verdict : str
        The regime in which the whole interval lies; "not decided" where it holds a bound, or is not known.
    change : float
        Change of the kernel, relative to its norm at the start.
    interval : tuple of float
        Of the change: two standard errors either way.
    why : str
        The reason of the verdict, in a sentence.
    """

    verdict: str
    change: float
    interval: tuple[float, float]
    why: str


def verdict_of(*changes: float) -> str:
    """The regime of relative changes of the tangent kernel, such as the ends of an interval."""
    found = {"rich" if c > RICH else "lazy" if c < LAZY else "between" for c in changes}
    return found.pop() if len(found) == 1 and np.isfinite(changes).all() else "not decided"


def judged(change: float, interval: tuple[float, float], what: str) -> tuple[str, str]:
    """The verdict, and why; `what` changed."""
    verdict, (low, high) = verdict_of(*interval), interval
    if not np.isfinite(change):
        return verdict, f"The change of the {what} is not known, as it was zero at the start."
    if not np.isfinite(interval).all():
        return verdict, f"The change of the {what} is {change:.2g}, from too few probes to say how certain."
    bounds = f"below {LAZY:g} learning is lazy, above {RICH:g} rich"
    held = " and ".join(f"{bound:g}" for bound in (LAZY, RICH) if low <= bound <= high)
    reasons = {
        "rich": f"lies above {RICH:g}: the network left the linearisation around its start",
        "lazy": f"lies below {LAZY:g}: what is learned is near the linearisation around the start",
        "between": f"lies between the bounds: {bounds}",
        "not decided": f"may lie on either side of {held}: {bounds}",
    }
    return verdict, f"The change of the {what}, {low:.2g} to {high:.2g}, {reasons[verdict]}."


def told_change(change: float, interval: tuple[float, float], over: str) -> str:
    """How far something changed, in words that follow its name."""
    if not np.isfinite(change):
        return "was zero at the start"
    low, high = interval
    known = f"{low:.2g} to {high:.2g} over {over}" if np.isfinite(high) else f"too few {over} for an interval"
    return f"changed by {change:.3g} of its norm ({known})"


def regime_of(
    kernels: np.ndarray, probes: int, moved: float, weights: list[dict[str, float]], scale: float
) -> Regime:
    """From the kernels at start and end (2, n, n) of some probes, and norms of the weights at both.

    `scale` is the norm of the initial outputs, relative to that of the targets.
    """
    import xarray as xr

    change, interval = change_of(kernels, probes)
    turn = float(nr.measure.kernel_turn(kernels)[-1]) if np.isfinite(change) else np.nan
    verdict, why = judged(change, interval, "tangent kernel")
    if moved == 0:
        verdict, why = "not decided", "The weights did not change: nothing was learned."
    elif verdict == "rich" and turn < TURNED:
        why += GROWN.format(turn)
    matrices = list(weights[0])  # at least one
    norms = np.array([[w[name] for name in matrices] for w in weights])
    some = norms[0] > 0
    growth = norms[-1, some] / norms[0, some]
    grew = ""
    if len(growth):
        low, high = growth.min(), growth.max()
        grew = f", and the norm of each changed by a factor of {low:.2g} to {high:.2g}"
    turned = f" and turned by {turn:.2g}" if np.isfinite(turn) else ""
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
        f"The tangent kernel {told_change(change, interval, 'probes')}{turned}; weights moved by "
        f"{moved:.2g} of their norm{grew}. Initial "
        f"outputs had {scale:.2g} of the size of the targets. {_balance(norms)}",
        f"Learning: {verdict}. {why}",
        "The kernel is taken on a few probes, with the statistics of normalisations taken on all of them. In "
        "wide networks of random weights the change levels off near 0.1 however large they are. A network "
        "that was not trained to the end, or was watched late, looks lazier than it is.",
        data,
        verdict,
        change,
        interval,
        why,
    )


def _balance(norms: np.ndarray) -> str:
    """Drift of the difference of squared norms of successive weights (when, weights), which flow keeps."""
    if norms.shape[1] < 2:
        return ""
    drift = np.abs(np.diff(norms[-1] ** 2 - norms[0] ** 2)) / max((norms**2).max(), 1e-300)
    return (
        f"Balance between successive weights drifted by up to {drift.max():.0%} of the largest squared norm."
    )


def change_of(kernels: np.ndarray, probes: int) -> tuple[float, tuple[float, float]]:
    """Change of kernels (2, n, n) of some probes, and two standard errors either way.

    By leaving out one probe at a time. nan where the first kernel is zero, or there are too few probes.
    """
    each = kernels.shape[1] // probes

    def without(*left_out: int) -> float:
        keep = np.delete(np.arange(kernels.shape[1]), [k * each + i for k in left_out for i in range(each)])
        part = kernels[:, keep][:, :, keep]
        return float(nr.measure.kernel_change(part)[-1]) if part[0].any() else np.nan

    change = without()
    if probes < FEWEST or not np.isfinite(change):
        return change, (np.nan, np.nan)
    error = np.sqrt(probes - 1) * np.std([without(k) for k in range(probes)])
    return change, (float(max(0.0, change - 2 * error)), float(change + 2 * error))
