"""What was learned first: the modes of the data in the network's outputs over training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import neuralrace as nr
from neuralrace.apps.insight.answer import Answer

if TYPE_CHECKING:
    import xarray

MOST_MODES = 10
MOST_INPUTS = 1024  # of which the share that is linear in them is computed
LEAST = 1e-2  # strength of the weakest mode that is followed, relative to the strongest
ROUNDING = 1e-7  # strength, relative to the size of inputs and targets, that is none
LINEAR = 0.1  # share of the targets that is linear in the inputs, below which modes say little
BEGUN = 0.25  # share of a mode at the start above which theory's start from little does not describe it
STARTS = 1000  # initial strengths that are tried
NODES = 100  # of the integral over a mode's growth
HELD_OUT = (  # python -m benchmarks.own_networks
    "In random networks that were held out they were off by 15% (mean: 63%) with squared error and descent, "
    "20% (58%) with cross-entropy, 28% (55%) with Adam."
)
LEARNED = 0.5  # share of a mode above which it counts as learned


class Modes(NamedTuple):
    """The strongest singular modes of the correlation of targets with inputs."""

    left: np.ndarray  # (modes, outputs)
    right: np.ndarray  # (modes, inputs)
    strength: np.ndarray  # (modes,)
    variance: np.ndarray  # (modes,), of the inputs along each
    explained: float  # share of the targets' variance that a linear map of the inputs explains

    def shares(self, outputs: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Share of each mode in outputs (..., probes, outputs), relative to that in the targets."""
        along = lambda out: np.einsum("ak,...nk,na->...a", self.left, out, x @ self.right.T)  # noqa: E731
        return along(outputs) / along(y)


def data_modes(batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> Modes:
    """Modes of data that comes in batches of inputs and targets, gone through twice."""
    n, syx, size = 0, 0.0, 0.0
    for x, y in batches:
        n, syx, size = n + len(x), syx + y.T @ x, size + np.linalg.norm(x) * np.linalg.norm(y)
    u, s, vt = np.linalg.svd(np.asarray(syx) / n, full_matrices=False)
    kept = s > max(LEAST * s[0], ROUNDING * size / n)
    u, s, vt = (part[kept][:MOST_MODES] for part in (u.T, s, vt))
    variance = sum(((x @ vt.T) ** 2).sum(axis=0) for x, _ in batches) / n
    return Modes(
        u, vt, s, np.asarray(variance), linear_share(batches) if vt.shape[1] <= MOST_INPUTS else np.nan
    )


def linear_share(batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> float:
    """Share of the targets' variance that a linear map of the inputs explains, corrected for its freedom.

    nan where there are too few samples for the number of inputs.
    """
    both, inputs = 0.0, 0
    for x, y in batches:
        z = np.hstack([np.ones((len(x), 1)), x, y])
        both, inputs = both + z.T @ z, x.shape[1]
    c = np.asarray(both)
    n, means = c[0, 0], c[0, 1:] / c[0, 0]
    c = c[1:, 1:] / n - np.outer(means, means)
    xx, yx, total = c[:inputs, :inputs], c[inputs:, :inputs], float(np.trace(c[inputs:, inputs:]))
    size, basis = np.linalg.eigh(xx)
    used = size > 1e-8 * size[-1]
    free = n - used.sum() - 1
    if free < 0.1 * n or total <= 1e-12:
        return np.nan
    left = 1 - float(((yx @ basis[:, used]) ** 2 / size[used]).sum()) / total
    return float(max(0.0, 1 - left * (n - 1) / free))


def modes_of(
    steps: np.ndarray, outputs: np.ndarray, x: np.ndarray, y: np.ndarray, depth: int, probabilities: bool,
    modes: Modes,
) -> Answer:  # fmt: skip
    """Strengths of the data's singular modes over training, their order and times, and those of theory.

    `outputs` (times, probes, outputs) are probabilities where the loss is cross-entropy; `depth` counts
    layers of weights.
    """
    share = modes.shares(outputs, x, y)
    times = nr.half_time(steps, share.T, axis=-1)
    learned = (share[-1] > LEARNED) & (share[0] < LEARNED)  # a mode may be there from the start
    times = np.where(learned, times, np.nan)
    told_by_theory = (np.abs(share[0]) < BEGUN) & (not modes.explained < LINEAR)
    theory = predicted(np.where(told_by_theory, times, np.nan), modes, depth)
    seen = "probabilities" if probabilities else "outputs"
    measured, told = told_modes(times, theory, modes, depth, seen)
    return Answer(
        "What did it learn first?",
        measured,
        told,
        "Modes are numbered in the order of their strength. Theory is that of a deep linear chain with "
        "one initial strength for all modes; one time unit and that strength are fitted, so only the ratios "
        "of times are predicted, of modes that begin with little. Adaptive optimisers, cross-entropy, "
        "normalisation, skip connections and weight decay change them.",
        modes_data(steps, share, times, theory, modes),
    )


def modes_data(
    steps: np.ndarray, share: np.ndarray, times: np.ndarray, theory: Prediction, modes: Modes
) -> xarray.Dataset:
    """Shares of modes (times, modes), measured and predicted half times, and the modes themselves."""
    import xarray as xr

    return xr.Dataset(
        {
            "share": (("step", "mode"), share), "strength": ("mode", modes.strength),
            "variance": ("mode", modes.variance), "half_time": ("mode", times),
            "predicted_half_time": ("mode", theory.times), "predicted_error": theory.error,
            "constant_error": theory.constant, "left": (("mode", "output"), modes.left),
            "right": (("mode", "input"), modes.right), "linear_share": modes.explained,
        },
        {"step": steps, "mode": np.arange(1, len(times) + 1)},
    )  # fmt: skip


def told_modes(times: np.ndarray, theory: Prediction, modes: Modes, depth: int, seen: str) -> tuple[str, str]:
    """What was measured, and what theory says; `seen` is where modes are measured."""
    s, explained = modes.strength, modes.explained
    known = np.isfinite(times)
    order = np.argsort(np.where(known, times, np.inf), kind="stable")
    if not len(s):
        return (
            "Inputs and targets are not correlated: there are no modes.",
            "Linear theory has nothing to say.",
        )
    if known.any():
        first = ", ".join(f"{k + 1} at step {times[k]:.4g}" for k in order[: min(4, known.sum())])
        told = f"{known.sum()} of the {len(s)} strongest modes are learned. Half times in the {seen}: "
        told += f"mode {first}."
    else:
        told = (
            f"None of the {len(s)} strongest modes is learned: no share in the {seen} rises above one half."
        )
    if np.isfinite(explained):
        told += f" A linear map of the inputs explains {explained:.0%} of the variance of the targets"
        told += " (adjusted R², which leaves out what it explains by chance)."
    return told, _theory(theory, s, times, depth, explained)


def _theory(theory: Prediction, s: np.ndarray, times: np.ndarray, depth: int, explained: float) -> str:
    if explained < LINEAR:
        return (
            "Linear theory has little to say here: nearly all that is to be learned is not linear in the "
            "inputs, so the modes miss it."
        )
    if not np.isfinite(theory.error):
        return (
            "Stronger modes are learned first. Half times are not predicted, as fewer than three modes are "
            "learned from little here."
        )
    from scipy.stats import spearmanr  # half a second to import

    known = np.isfinite(times)
    correlation: Any = spearmanr(-s[known], times[known])
    rank = correlation.statistic
    agree = "as they are here" if rank > 0.9 else f"here their rank correlation is {rank:.2f}"
    told = f"A deep linear network of depth {depth} learns modes in the order of their strength, {agree}. "
    if not theory.error < theory.constant:
        return (
            f"{told}Half times are not predicted: from those of the other modes theory is off by "
            f"{theory.error:.0%} (median), their mean by {theory.constant:.0%}."
        )
    return (
        f"{told}Half times as predicted from those of the other modes are off by {theory.error:.0%} "
        f"(median), their mean by {theory.constant:.0%}. {HELD_OUT}"
    )


class Prediction(NamedTuple):
    """Half times of a fitted chain; all nan where the mean of the others predicts each better."""

    times: np.ndarray  # (modes,)
    error: float = np.nan  # median relative error of a half time, predicted from the others
    constant: float = np.nan  # that of the mean of the others


def predicted(times: np.ndarray, modes: Modes, depth: int) -> Prediction:
    """What theory says of half times, where it says more than a constant does."""
    known, found = np.isfinite(times) & (times > 0), np.full(len(times), np.nan)
    if known.sum() < 3:
        return Prediction(found)
    logs, chains = np.log(times[known]), _chains(modes.strength[known], modes.variance[known], depth)
    off = []
    for k in range(len(logs)):
        others = np.delete(np.arange(len(logs)), k)
        off.append([_fitted(chains, logs, others)[k] - logs[k], logs[others].mean() - logs[k]])
    error, constant = (float(e) for e in np.median(np.abs(np.expm1(off)), axis=0))
    if error < constant:
        found[known] = np.exp(_fitted(chains, logs, np.arange(len(logs))))
    return Prediction(found, error, constant)


def _chains(s: np.ndarray, variance: np.ndarray, depth: int) -> np.ndarray:
    """Logarithms of half times (starts, modes) from initial strengths, the largest first."""
    starts = np.log(0.4 * (s / variance).min()) - np.geomspace(0.01, 40.0, STARTS)
    return np.log(chain_half_time(np.exp(starts)[:, None], s, variance, depth))


def _fitted(chains: np.ndarray, logs: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Logarithms of half times of all modes, by the start that gives the ratios of some of them best."""
    best = chains[np.var((chains - logs)[:, some], axis=1).argmin()]
    return best + (logs - best)[some].mean()


def chain_half_time(a0: Any, s: Any, d: Any, depth: int) -> Any:
    """When modes of a balanced chain reach half of `s/d` from `a0`.

    The integral of `da / (D a^(2-2/D) (s - d a))`, theory.md section 7, over the logarithm of `a`.
    """
    end = 0.5 * s / d
    if depth == 1:
        return np.log((s - d * a0) / (s - d * end)) / d
    z, weights = np.polynomial.legendre.leggauss(NODES)
    first, s, d = np.log(a0)[..., None], np.asarray(s)[..., None], np.asarray(d)[..., None]
    half = (np.log(end)[..., None] - first) / 2
    a = first + half * (z + 1)
    return (half * weights / (depth * np.exp(a * (1 - 2 / depth)) * (s - d * np.exp(a)))).sum(axis=-1)
