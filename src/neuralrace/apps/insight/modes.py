"""What was learned first: the modes of the data in the network's outputs over training."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.optimize import least_squares

from neuralrace.apps.insight.answer import Answer
from neuralrace.measure import half_time

MOST_MODES = 10
LEAST = 1e-2  # strength of the weakest mode that is followed, relative to the strongest
LEARNED = 0.5  # share of a mode above which it counts as learned


def modes_of(
    steps: np.ndarray, outputs: np.ndarray, x: np.ndarray, y: np.ndarray, depth: int, probabilities: bool
) -> Answer:
    """Strengths of the data's singular modes over training, their order and times, and those of theory.

    `outputs` (times, probes, outputs) are probabilities where the loss is cross-entropy; `depth` counts
    layers of weights.
    """
    import xarray as xr

    n = len(x)
    u, s, vt = np.linalg.svd(y.T @ x / n, full_matrices=False)
    kept = s > LEAST * s[0]
    u, s, vt = (part[kept[: len(part)]][:MOST_MODES] for part in (u.T, s, vt))
    variance = np.einsum("ad,ad->a", (vt @ x.T @ x) / n, vt)
    share = np.einsum("ak,tnk,na->ta", u, outputs, x @ vt.T) / n / s
    times = half_time(steps, share.T, axis=-1)
    learned = (share[-1] > LEARNED) & (share[0] < LEARNED)  # a mode may be there from the start
    times = np.where(learned, times, np.nan)
    order = np.argsort(np.where(learned, times, np.inf), kind="stable")
    theory = predicted_times(times, s, variance, depth)
    off = np.abs(theory / times - 1)
    data = xr.Dataset(
        {
            "share": (("step", "mode"), share), "strength": ("mode", s), "variance": ("mode", variance),
            "half_time": ("mode", times), "predicted_half_time": ("mode", theory),
            "left": (("mode", "output"), u), "right": (("mode", "input"), vt),
        },
        {"step": steps, "mode": np.arange(1, len(s) + 1)},
    )  # fmt: skip
    return Answer(
        "What did it learn first?",
        _measured(times, order, learned, len(s), probabilities),
        _theory(off, s, times, depth),
        "Modes are of the probes, in the order of their strength. Theory is that of a deep linear chain with "
        "one initial strength for all modes; one time unit and that strength are fitted, so only the ratios "
        "of times are predicted. Adaptive optimisers, normalisation and weight decay change them.",
        data,
    )


def _measured(times: np.ndarray, order: np.ndarray, learned: np.ndarray, n: int, probabilities: bool) -> str:
    seen = "probabilities" if probabilities else "outputs"
    if not learned.any():
        return f"None of the {n} strongest modes is learned: no share in the {seen} rises above one half."
    first = ", ".join(f"{k + 1} at step {times[k]:.4g}" for k in order[: min(4, learned.sum())])
    return f"{learned.sum()} of the {n} strongest modes are learned. Half times in the {seen}: mode {first}."


def _theory(off: np.ndarray, s: np.ndarray, times: np.ndarray, depth: int) -> str:
    from scipy.stats import spearmanr  # half a second to import

    known = np.isfinite(times)
    if known.sum() < 3:
        return (
            "Stronger modes are learned first. Fewer than three are learned here, too few to compare times."
        )
    correlation: Any = spearmanr(-s[known], times[known])
    rank = correlation.statistic
    agree = "as they are here" if rank > 0.9 else f"here their rank correlation is {rank:.2f}"
    return (
        f"A deep linear network of depth {depth} learns modes in the order of their strength, {agree}. "
        f"Its half times are off by {np.nanmedian(off):.0%} (median), {np.nanmax(off):.0%} (largest)."
    )


def predicted_times(times: np.ndarray, s: np.ndarray, variance: np.ndarray, depth: int) -> np.ndarray:
    """Half times of a deep linear chain whose time unit and initial strength fit the given ones best."""
    known = np.isfinite(times) & (times > 0)
    out = np.full(len(s), np.nan)
    if known.sum() < 3:
        return out

    def chain(a0: float) -> np.ndarray:
        return np.array(
            [chain_half_time(a0, *mode, depth) for mode in zip(s[known], variance[known], strict=True)]
        )

    top = np.log(0.4 * (s / variance)[known].min())

    def residual(theta: np.ndarray) -> np.ndarray:
        logs = np.log(chain(float(np.exp(theta[0]))))
        return logs - logs.mean() - np.log(times[known]) + np.log(times[known]).mean()

    starts = top - np.array([0.5, 3.0, 8.0, 15.0])
    searches = (least_squares(residual, [a], bounds=(top - 40, top)) for a in starts)
    best = min(searches, key=lambda f: f.cost)
    found = chain(float(np.exp(best.x[0])))
    out[known] = found * np.exp(np.mean(np.log(times[known]) - np.log(found)))
    return out


def chain_half_time(a0: float, s: float, d: float, depth: int) -> float:
    """When a mode of a balanced chain reaches half of `s/d` from `a0`.

    The integral of `da / (D a^(2-2/D) (s - d a))`, theory section 7.
    """
    end = 0.5 * s / d
    if depth == 1:
        return float(np.log((s - d * a0) / (s - d * end)) / d)
    speed: Any = lambda z: np.exp(z * (2 / depth - 1)) / (depth * (s - d * np.exp(z)))  # noqa: E731
    return float(quad(speed, np.log(a0), np.log(end))[0])
