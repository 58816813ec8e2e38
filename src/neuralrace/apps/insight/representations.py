"""What representations became: the two-point theory at every layer, for many pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from neuralrace.apps.insight.answer import Answer
from neuralrace.errors import InputError
from neuralrace.measure import squared_distances
from neuralrace.universality import Comparison, compare, fit, structure

PAIRS = 6  # that are fitted at each layer
FITS = 0.1  # error of a fit, as a share of the series, below which theory describes a pair


def representations_of(
    steps: np.ndarray, outputs: np.ndarray, activity: Mapping[str, np.ndarray], x: np.ndarray, y: np.ndarray,
    squared: bool, seed: int = 0,
) -> Answer:  # fmt: skip
    """Distance matrices of every layer against the theory's, and fitted rates of some pairs.

    `activity` has (times, probes, units) of each layer. Rates are fitted only where outputs learn targets by
    squared error.
    """
    import xarray as xr

    keep = _different(x)
    goal, names = structure(x[keep], y[keep]), list(activity)
    measured = np.stack([squared_distances(a[-1][keep]) for a in activity.values()])
    found: list[Comparison | None] = [_compared(goal, m) for m in measured]
    inputs = [_compared(squared_distances(x[keep]), m) for m in measured]
    nan = (np.nan, np.nan)
    data: dict[str, Any] = {
        "predicted": (("probe", "other"), goal),
        "measured": (("layer", "probe", "other"), measured),
        "correlation": ("layer", [np.nan if c is None else c.correlation for c in found]),
        "interval": (("layer", "end"), [nan if c is None else c.interval for c in found]),
        "correlation_with_inputs": ("layer", [np.nan if c is None else c.correlation for c in inputs]),
    }
    if squared:
        pairs = _pairs(y[keep], seed)
        fits = [
            _fits(steps, a[:, keep], outputs[:, keep], x[keep], y[keep], pairs) for a in activity.values()
        ]
        data["fit_error"] = (("layer", "pair"), [[f[0] for f in own] for own in fits])
        data["rate_h"] = (("layer", "pair"), [[f[1] for f in own] for own in fits])
        data["rate_y"] = (("layer", "pair"), [[f[2] for f in own] for own in fits])
    ds = xr.Dataset(data, {"layer": names, "probe": keep})
    return Answer(
        "What do its representations look like?",
        _measured(ds, names),
        _theory(ds, names, squared),
        "The theory takes pairs of samples one by one, and a network that is expressive enough to move each "
        "representation freely. It fails for narrow layers, for layers near input and output, and for far "
        "pairs. Intervals are over probes (bootstrap).",
        ds,
    )


def _different(x: np.ndarray) -> np.ndarray:
    """Probes with inputs of their own: two with the same input have one representation."""
    return np.sort(np.unique(x, axis=0, return_index=True)[1])


def _compared(predicted: np.ndarray, measured: np.ndarray) -> Comparison | None:
    try:
        return compare(predicted, measured)
    except InputError:  # all distances alike, or too few probes
        return None


def _pairs(y: np.ndarray, seed: int) -> list[tuple[int, int]]:
    """Some pairs with different targets."""
    rng, n = np.random.default_rng(seed), len(y)
    found: list[tuple[int, int]] = []
    for _ in range(50 * PAIRS):
        i, j = sorted(rng.choice(n, 2, replace=False).tolist())
        if (y[i] != y[j]).any() and (i, j) not in found:
            found.append((i, j))
        if len(found) == PAIRS:
            break
    return found


def _fits(
    steps: np.ndarray, h: np.ndarray, out: np.ndarray, x: np.ndarray, y: np.ndarray,
    pairs: list[tuple[int, int]],
) -> list[tuple[float, float, float]]:  # fmt: skip
    """Error and rates of each pair; nan where no fit is possible."""
    results = []
    for i, j in pairs:
        dh, dy, goal = h[:, j] - h[:, i], out[:, j] - out[:, i], y[j] - y[i]
        series = (dh**2).sum(1), (dy**2).sum(1), (dy * (dy - goal)).sum(1)
        try:
            f = fit(
                steps, *series, float(np.linalg.norm(x[j] - x[i])), float(np.linalg.norm(goal)), strict=False
            )
        except InputError:
            results.append((np.nan, np.nan, np.nan))
            continue
        known = f.rate_h_interval is not None and f.rate_y_interval is not None
        results.append((f.error, f.rate_h if known else np.nan, f.rate_y if known else np.nan))
    return results


def _measured(ds: Any, names: list[str]) -> str:
    c = ds.correlation.values
    if np.isnan(c).all():
        return "Too few different probes (at least 8 are needed) to compare distances."
    best = int(np.nanargmax(c))
    low, high = ds.interval.values[best]
    inputs = ds.correlation_with_inputs.values[best]
    return (
        "Squared distances between probes correlate with the theory's, input distance times target distance, "
        f"by up to {c[best]:.2f} ({low:.2f} to {high:.2f}), at layer {names[best]}; with squared input "
        f"distances there by {inputs:.2f}."
    )


def _theory(ds: Any, names: list[str], squared: bool) -> str:
    if not squared:
        return (
            "In a rich network the final squared distance of two samples is proportional to the distance of "
            "their inputs times that of their targets. Rates are not fitted: with cross-entropy outputs grow "
            "without end, and Eq. 7 describes outputs that settle at their targets."
        )
    error = ds.fit_error.median("pair", skipna=True).values
    good = [name for name, e in zip(names, error, strict=True) if e < FITS]
    where = ", ".join(good) if good else "no layer"
    return (
        "Two effective learning rates describe how a pair of samples separates (van Rossem and Saxe 2024, "
        f"Eq. 7). With fitted rates they describe the pairs to within {FITS:.0%} at {where}."
    )
