"""What representations became: the two-point theory at every layer, for many pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace.apps.insight.answer import Answer
from neuralrace.errors import InputError
from neuralrace.universality import Comparison, compare, fit_recorded, follow_pair, structure

LOOKS = 12  # steps at which the correlation with theory is shown
PAIRS = 6  # that are fitted at each layer
FITS = 0.1  # error of a fit, as a share of the series, below which theory describes a pair

Distances = Callable[[str, int], np.ndarray]


def representations_of(
    steps: np.ndarray, distances: Distances, layers: Sequence[str], x: np.ndarray, y: np.ndarray,
    series: tuple[np.ndarray, Mapping[str, np.ndarray]] | str,
) -> Answer:  # fmt: skip
    """Distance matrices of every layer against the theory's, and fitted rates of some pairs.

    `distances(layer, k)` are the squared distances (probes, probes) at step number k. `series` are outputs
    and activity of each layer (times, probes, units), to which rates are fitted; or why they are not.
    """
    import xarray as xr

    # Two probes with the same input have one representation.
    keep = np.sort(np.unique(x, axis=0, return_index=True)[1])
    own = np.ix_(keep, keep)
    goal = structure(x[keep], y[keep])
    measured = np.stack([distances(name, len(steps) - 1)[own] for name in layers])
    found: list[Comparison | None] = [_compared(goal, m) for m in measured]
    inputs = [_compared(nr.measure.squared_distances(x[keep]), m) for m in measured]
    looks = np.unique(np.linspace(0, len(steps) - 1, LOOKS).round().astype(int))
    course = [[_correlation(goal, distances(name, k)[own]) for k in looks] for name in layers]
    nan = (np.nan, np.nan)
    gains = [
        (np.nan, nan) if a is None or b is None else a.over(b) for a, b in zip(found, inputs, strict=True)
    ]
    data: dict[str, Any] = {
        "predicted": (("probe", "other"), goal),
        "measured": (("layer", "probe", "other"), measured),
        "correlation": ("layer", [np.nan if c is None else c.correlation for c in found]),
        "interval": (("layer", "end"), [nan if c is None else c.interval for c in found]),
        "correlation_with_inputs": ("layer", [np.nan if c is None else c.correlation for c in inputs]),
        "gain_over_inputs": ("layer", [g[0] for g in gains]),
        "gain_interval": (("layer", "end"), [g[1] for g in gains]),
        "correlation_over_steps": (("layer", "step"), course),
    }
    if not isinstance(series, str):
        outputs, activity = series
        pairs, t = _pairs(y[keep]), np.asarray(steps, float)
        recorded = lambda name: {"hidden": activity[name][None, :, keep], "output": outputs[None, :, keep]}  # noqa: E731
        runs = [nr.Trajectory(t, np.zeros((1, len(t))), recorded=recorded(name)) for name in layers]
        fits = np.stack([_fits(run, x[keep], y[keep], pairs) for run in runs], axis=1)
        names = ("fit_error", "rate_h", "rate_y")
        data |= {name: (("layer", "pair"), values) for name, values in zip(names, fits, strict=True)}
    ds = xr.Dataset(data, {"layer": list(layers), "probe": keep, "step": steps[looks]})
    return Answer(
        "What do its representations look like?",
        _measured(ds, list(layers)),
        _theory(ds, list(layers), series if isinstance(series, str) else ""),
        "The theory takes pairs of samples one by one, and a network that is expressive enough to move each "
        "representation freely. It fails for narrow layers, for layers near input and output, for far pairs, "
        "and for optimisers whose steps are no gradient descent. Intervals are over probes (bootstrap).",
        ds,
    )


def _correlation(predicted: np.ndarray, measured: np.ndarray) -> float:
    pairs = np.triu_indices(len(predicted), 1)
    one, two = predicted[pairs], measured[pairs]
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(two) == 0:
        return np.nan
    return float(np.corrcoef(one, two)[0, 1])


def _compared(predicted: np.ndarray, measured: np.ndarray) -> Comparison | None:
    try:
        return compare(predicted, measured)
    except InputError:  # all distances alike, or too few probes
        return None


def _pairs(y: np.ndarray) -> list[tuple[int, int]]:
    """Some pairs with different targets."""
    rng, n = np.random.default_rng(0), len(y)
    found: list[tuple[int, int]] = []
    for _ in range(50 * PAIRS):
        i, j = sorted(rng.choice(n, 2, replace=False).tolist())
        if (y[i] != y[j]).any() and (i, j) not in found:
            found.append((i, j))
        if len(found) == PAIRS:
            break
    return found


def _fits(run: nr.Trajectory, x: np.ndarray, y: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
    """Error and rates of each pair (3, pairs), of recorded activity; nan where no fit is possible."""
    found = np.full((3, len(pairs)), np.nan)
    for k, pair in enumerate(pairs):
        with suppress(InputError):
            f = fit_recorded(follow_pair(run, x, y, pair), strict=False)
            known = f.rate_h_interval is not None and f.rate_y_interval is not None
            found[:, k] = f.error, *((f.rate_h, f.rate_y) if known else (np.nan, np.nan))
    return found


def _measured(ds: Any, names: list[str]) -> str:
    c = ds.correlation.values
    if np.isnan(c).all():
        return "Too few different probes (at least 8 are needed) to compare distances."
    best = int(np.nanargmax(c))
    low, high = ds.interval.values[best]
    inputs = ds.correlation_with_inputs.values[best]
    alone = f"with squared input distances there by {inputs:.2f}"
    alone = alone if np.isfinite(inputs) else "input distances are all alike"
    return (
        "Squared distances between probes correlate with the theory's, input distance times target distance, "
        f"by up to {c[best]:.2f} ({low:.2f} to {high:.2f}), at layer {names[best]}; {alone}."
    )


def _compared_with_inputs(gain: np.ndarray, names: list[str]) -> str:
    """Where theory describes distances better than the inputs alone do, from intervals (layers, ends)."""
    kinds = ("better", "worse", "")
    found: dict[str, list[str]] = {kind: [] for kind in kinds}
    for name, (low, high) in zip(names, gain, strict=True):
        found["better" if low > 0 else "worse" if high < 0 else ""].append(name)
    if not np.isfinite(gain).any():
        return "Whether this holds here is not decided, as there is nothing to compare with."
    said = [f"{kind} at {', '.join(found[kind])}" for kind in kinds[:2] if found[kind]]
    said += [f"at {', '.join(found[''])} this is not decided"] if found[""] else []
    return f"Compared with input distances alone, theory describes distances {'; '.join(said)}."


def _theory(ds: Any, names: list[str], reason: str) -> str:
    told = (
        "In a rich network the final squared distance of two samples is proportional to the distance of "
        f"their inputs times that of their targets. {_compared_with_inputs(ds.gain_interval.values, names)} "
    )
    if reason:
        return f"{told}Rates are not fitted: {reason}."
    error = ds.fit_error.median("pair", skipna=True).values
    good = [name for name, e in zip(names, error, strict=True) if e < FITS]
    where = f"layer{'s' * (len(good) > 1)} {', '.join(good)}" if good else "no layer"
    return (
        f"{told}Two effective learning rates describe how a pair of samples separates (van Rossem and Saxe "
        f"2024, Eq. 7). With fitted rates they describe the pairs to within {FITS:.0%} at {where}."
    )
