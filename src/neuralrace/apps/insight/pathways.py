"""Which pathways a network of gated units uses: the few patterns of gates, and what each carries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from neuralrace.apps.insight.answer import Answer
from neuralrace.apps.insight.modes import Modes
from neuralrace.errors import InputError

MOST_PATTERNS = 8
MIXED = (
    0.25  # share of probes on which a unit differs from the pattern it belongs to, above which it is mixed
)
EARNED = 0.02  # gain of the silhouette score by which a further pattern earns its place
DRAWS = 5  # of units of one pattern, to whose best score two patterns are compared
SILENT = 1e-3  # size of a unit, relative to the largest, below which it is left out
CLUSTERED = 512  # units on which clusters are found; further ones go to the nearest
GATED = 0.02, 0.999  # share of closed gates in a layer of a function that counts as gated

TITLE = "Which pathways does it use?"


def gated_layers(activity: Mapping[str, np.ndarray], network: Any) -> list[str]:
    """Layers of a module with rectified units; of a function, those where some units are exactly zero."""
    if hasattr(network, "rectified"):
        return [name for name in activity if network.rectified.get(name) and activity[name].max() > 0]
    closed = {name: (a == 0).mean() for name, a in activity.items() if (a != 0).any()}
    return [name for name, share in closed.items() if GATED[0] < share < GATED[1]]


def pathways_of(
    activity: Mapping[str, np.ndarray], network: Any, read: Callable[[np.ndarray], np.ndarray],
    loss: Callable[[np.ndarray], float], outputs: np.ndarray, x: np.ndarray, y: np.ndarray, modes: Modes,
) -> Answer:  # fmt: skip
    """Patterns of the gates of gated layers (times, probes, units), what each carries, constant gates.

    `read` makes of outputs (probes, outputs) what modes are seen in, `loss` the loss.
    """
    import xarray as xr

    layers = gated_layers({name: a[-1] for name, a in activity.items()}, network)
    if not layers:
        return Answer(
            TITLE,
            "No layer has gated units: a ReLU module, or units that are exactly 0 on some probes.",
            "A network without gates has one linear pathway where its activation is linear.",
            "Smooth activations (tanh, GELU) have no gates in this sense.",
            xr.Dataset(),
        )
    parts, told = {}, []
    for layer in layers:
        history = activity[layer]
        last = network.activity_of(layer) if hasattr(network, "activity_of") else history[-1]
        patterns, membership, mixed = find_patterns(last)
        gated = _gated_outputs(network, layer, patterns, membership)
        carried, gap, contribution = _effects(gated, len(patterns), outputs, read, x, y, modes)
        parts |= {
            f"patterns:{layer}": ((f"pattern:{layer}", "probe"), patterns),
            f"membership:{layer}": (f"unit:{layer}", membership),
            f"mixed:{layer}": (f"unit:{layer}", mixed),
            f"carried:{layer}": (f"pattern:{layer}", carried),
            f"contribution:{layer}": ((f"pattern:{layer}", "mode"), contribution),
            f"constant_gates_error:{layer}": gap,
            f"settled:{layer}": ("step", settled(history)),
        }
        held = f" (loss {loss(gated[0]):.3g}, now {loss(outputs):.3g})" if gated else ""
        told.append(_told(layer, patterns, mixed[membership >= 0], carried, gap, held, history))
    return Answer(
        TITLE,
        ". ".join(told) + ".",
        "A ReLU network is a gated linear network. Where few patterns of gates describe all units, each is a "
        "pathway, and the network learns as a gated linear network with these pathways does.",
        "Patterns are of the probes. Carried is the share of the output that is lost without the units of a "
        "pattern; with later nonlinear layers shares need not add up. No more than "
        f"{MOST_PATTERNS} patterns are looked for.",
        xr.Dataset(parts, {"mode": np.arange(1, len(modes.strength) + 1)}),
    )


def _told(
    layer: str, patterns: np.ndarray, mixed: np.ndarray, carried: np.ndarray, gap: float, held: str,
    history: np.ndarray,
) -> str:  # fmt: skip
    known = np.isfinite(carried).all()
    shown = ", ".join(f"{c:.0%}" for c in -np.sort(-carried)) if known else "not known"
    gates = (
        f"constant gates change the output by {gap:.0%}{held}"
        if np.isfinite(gap)
        else "outputs cannot be gated"
    )
    kept, many = settled(history), "s" * (len(patterns) > 1)
    return (
        f"Layer {layer}: {len(patterns)} pattern{many}, {mixed.mean():.0%} of units mixed; "
        f"carried {shown}; {gates}; "
        f"gates are as at the end on {kept[0]:.0%} at the start, {kept[len(kept) // 2]:.0%} half way"
    )


def settled(history: np.ndarray) -> np.ndarray:
    """Share of gates (times, probes, units) that are as at the end, at each time; by size of the unit."""
    size = np.linalg.norm(history[-1], axis=0)
    same = ((history != 0) == (history[-1] != 0)).mean(axis=1)
    return np.average(same, axis=1, weights=size)


def find_patterns(activity: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Patterns (patterns, probes) of the gates, the pattern of each unit (-1 if silent), and mixed units."""
    size = np.linalg.norm(activity, axis=0)
    used = np.flatnonzero(size > SILENT * size.max())
    gates = (activity[:, used] != 0).astype(float).T  # (units, probes)
    labels = _clustered(gates, size[used])
    weighted = lambda k: np.average(gates[labels == k], axis=0, weights=size[used][labels == k])  # noqa: E731
    patterns = np.stack([weighted(k) for k in range(labels.max() + 1)]) > 0.5
    membership, mixed = np.full(activity.shape[1], -1), np.zeros(activity.shape[1], bool)
    membership[used] = labels
    mixed[used] = (gates != patterns[labels]).mean(axis=1) > MIXED
    return patterns, membership, mixed


def _clustered(gates: np.ndarray, size: np.ndarray) -> np.ndarray:
    """A cluster for each unit: its own pattern where there are few, else by k-means."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    means: Any = KMeans
    own = np.unique(gates, axis=0, return_inverse=True)[1].ravel()
    distinct = own.max() + 1
    if distinct <= MOST_PATTERNS:
        return own
    some = np.arange(len(gates))
    if len(gates) > CLUSTERED:
        some = np.random.default_rng(0).choice(len(gates), CLUSTERED, replace=False)

    def clusters(gates: np.ndarray, k: int) -> tuple[Any, float]:
        found = means(k, n_init=4, random_state=0).fit(gates, sample_weight=size[some])
        return found, float(silhouette_score(gates, found.labels_))

    # One pattern, unless two are told apart better than in units whose gates are drawn one by one.
    drawn = np.random.default_rng(0).random((DRAWS, *gates[some].shape)) < gates[some].mean(axis=0)
    labels, best = np.zeros(len(gates), int), max(clusters(each, 2)[1] for each in drawn.astype(float))
    for k in range(2, min(MOST_PATTERNS, len(np.unique(own[some])) - 1) + 1):
        found, score = clusters(gates[some], k)
        if score > best + EARNED:
            labels, best = found.predict(gates), score
    return np.unique(labels, return_inverse=True)[1].ravel()


def _gated_outputs(
    network: Any, layer: str, patterns: np.ndarray, membership: np.ndarray
) -> list[np.ndarray]:
    """Outputs with constant gates, then without the units of each pattern; none where that cannot be done."""
    if not hasattr(network, "with_gates"):
        return []
    gates = np.where(membership >= 0, patterns[membership].T, False).astype(float)
    lost = (network.without_units(layer, membership != k) for k in range(len(patterns)))
    return [network.with_gates(layer, gates), *lost]


def _effects(
    gated: list[np.ndarray], patterns: int, outputs: np.ndarray, read: Callable[[np.ndarray], np.ndarray],
    x: np.ndarray, y: np.ndarray, modes: Modes,
) -> tuple[np.ndarray, float, np.ndarray]:  # fmt: skip
    """Share of the output lost without each pattern; change with constant gates; share of each mode lost."""
    if not gated:
        return np.full(patterns, np.nan), np.nan, np.full((patterns, len(modes.strength)), np.nan)
    total = max(float(np.linalg.norm(outputs)), 1e-300)
    constant, *without = gated
    carried = np.array([np.linalg.norm(outputs - out) / total for out in without])
    full = modes.shares(read(outputs), x, y)
    contribution = np.stack([full - modes.shares(read(out), x, y) for out in without])
    return carried, float(np.linalg.norm(outputs - constant) / total), contribution


def pattern_agreement(first: Answer, second: Answer) -> dict[str, float]:
    """How well the pathways of two networks agree, such as two seeds watched on the same probes.

    Parameters
    ----------
    first, second : Answer
        Of `watch.pathways()`, with the same probes.

    Returns
    -------
    dict of str to float
        For each layer: share of probes on which a unit of the first network has the gate of the nearest
        pattern of the second, on average over units; 1 where the patterns are the same.

    Examples
    --------
    >>> import xarray as xr
    >>> from neuralrace.apps.insight import Answer, pattern_agreement
    >>> units = {"membership:h": ("unit", [0, 1, 1])}
    >>> seen = [
    ...     Answer("", "", "", "", xr.Dataset({"patterns:h": (("pattern", "probe"), p), **units}))
    ...     for p in ([[True, False, False, True], [True] * 4], [[True] * 4, [True, False, False, False]])
    ... ]
    >>> round(pattern_agreement(*seen)["h"], 3)
    0.917
    """
    names = [str(n) for n in first.data if str(n).startswith("patterns:")]
    if not names or any(n not in second.data for n in names):
        raise InputError("first and second must be pathways of the same gated layers")
    found = {}
    for name in names:
        one, two = (np.asarray(a.data[name].values, bool) for a in (first, second))
        if one.shape[1] != two.shape[1]:
            raise InputError(
                f"first and second must have the same probes, got {one.shape[1]}, {two.shape[1]}"
            )
        nearest = (one[:, None] == two[None]).mean(axis=2).max(axis=1)
        layer = name.removeprefix("patterns:")
        member = first.data[f"membership:{layer}"].values
        found[layer] = float(nearest[member[member >= 0]].mean())
    return found
