"""Named branches and domains: what each branch carries, what domains share, and what should generalise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace.apps.insight.answer import Answer
from neuralrace.apps.insight.modes import Modes
from neuralrace.apps.insight.probes import as_labels
from neuralrace.errors import InputError, listable, sequence, short

SHARED = 0.8  # transfer of a readout to another domain above which it counts as generalising
RACE = (
    "Pathways race: the one that is reached by most of the data learns a mode first, and what it has "
    "explained the others no longer learn."
)
ZEROED = (
    "A branch is left out by setting its weights to zero. Contributions add up to the share of a mode only "
    "where branches are added and nothing nonlinear follows."
)
FIRST = (
    "The readout is what gradient descent learns first, apart from an offset of each domain; one that is "
    "learned for longer may do worse on other domains."
)


def as_branches(given: Any) -> dict[str, tuple[str, ...]]:
    """Names of branches and of their weights, from a list of names or a dict."""
    if given is None:
        return {}
    wrong = InputError(f"branches must be a list of names of weights, or a dict of such; got {short(given)}")
    pairs = (
        list(given.items())
        if isinstance(given, Mapping)
        else [(name, name) for name in sequence("branches", given, "names of weights")]
    )
    if not all(isinstance(v, str) or listable(v) for _, v in pairs):
        raise wrong
    found = {str(k): (v,) if isinstance(v, str) else tuple(v) for k, v in pairs}
    if not all(isinstance(n, str) for v in found.values() for n in v):
        raise wrong
    return found


def as_domains(given: Any, n: int) -> np.ndarray | None:
    """The domain of each sample; at least two, of at least two samples each."""
    if given is None:
        return None
    labels = as_labels("domains", given)
    if labels.shape != (n,):
        raise InputError(f"domains must have one label per sample, {n}; its shape is {labels.shape}")
    names, counts = np.unique(labels, return_counts=True)
    if len(names) < 2 or counts.min() < 2:
        told = dict(zip(names.tolist(), counts.tolist(), strict=True))
        raise InputError(f"domains must be at least two, with at least two samples each; got {told}")
    return labels


def branches_of(
    without: Mapping[str, np.ndarray], outputs: np.ndarray, activity: Mapping[str, np.ndarray],
    x: np.ndarray, y: np.ndarray, modes: Modes, domains: np.ndarray | None, items: np.ndarray,
) -> Answer:  # fmt: skip
    """From outputs (probes, outputs) `without` each branch, and layers' activity (probes, units).

    `items` (probes, features) say which probes of different domains correspond.
    """
    import xarray as xr

    data: dict[str, Any] = {}
    coordinates: dict[str, Any] = {"mode": np.arange(1, len(modes.strength) + 1)}
    told, theory, caution = [], [], []
    if without:
        theory.append(RACE)
        caution.append(ZEROED)
        full = modes.shares(outputs, x, y)
        contribution = np.stack([full - modes.shares(out, x, y) for out in without.values()])
        data |= {"contribution": (("branch", "mode"), contribution), "share": ("mode", full)}
        coordinates["branch"] = list(without)
        told.append(_carried(list(without), contribution))
    if domains is not None:
        names = np.unique(domains)
        coordinates |= {"domain": names, "other": names}
        if without:
            usage = np.stack([_usage(outputs, out, domains) for out in without.values()])
            common = np.asarray(nr.measure.cosine(usage.T[:, None], usage.T[None], axes=1))
            data |= {"usage": (("branch", "domain"), usage), "common": (("domain", "other"), common)}
            told.append(f"Two domains use the same branches to {_between(common).mean():.2f} (1: the same).")
        if activity:
            transfer = np.stack([readout_transfer(a, items, domains) for a in activity.values()])
            data["transfer"] = ("layer", "domain", "other"), transfer
            coordinates["layer"] = list(activity)
            told.append(_transferred(list(activity), transfer))
            caution.append(FIRST)
            theory.append(_generalises(list(activity)[-1], transfer[-1], names))
    return Answer(
        "What does each branch carry, and what do domains share?",
        " ".join(told),
        " ".join(theory),
        " ".join(caution),
        xr.Dataset(data, coordinates),
    )


def _usage(outputs: np.ndarray, without: np.ndarray, domains: np.ndarray) -> np.ndarray:
    """Share of the output on the probes of each domain that is lost without a branch."""
    parts = [domains == d for d in np.unique(domains)]
    return np.array(
        [np.linalg.norm((outputs - without)[p]) / max(np.linalg.norm(outputs[p]), 1e-300) for p in parts]
    )


def readout_transfer(activity: np.ndarray, items: np.ndarray, domains: np.ndarray) -> np.ndarray:
    """How well a readout of items that is learned on one domain (rows) does on another (columns).

    The readout is what gradient descent learns first from zero: the covariance of activity and items. How
    well it does is the squared cosine of what it says and the items, both around their means in the domain,
    relative to that of the domain's own readout; zero where they point apart.
    """
    parts = [domains == d for d in np.unique(domains)]
    centred = [(_centred(activity[p]), _centred(items[p])) for p in parts]
    out = np.zeros((len(parts), len(parts)))
    for i, (h, z) in enumerate(centred):
        for j, (other, truth) in enumerate(centred):
            guess = other @ (h.T @ z)
            size = np.linalg.norm(guess) * np.linalg.norm(truth)
            out[i, j] = max(0.0, float((guess * truth).sum() / size)) ** 2 if size > 0 else 0.0
    own = np.diag(out)
    return np.minimum(1.0, np.divide(out, own, out=np.zeros_like(out), where=own > 0))


def _centred(values: np.ndarray) -> np.ndarray:
    return values - values.mean(axis=0, dtype=float)


def _between(matrix: np.ndarray) -> np.ndarray:
    """Entries of pairs of different domains."""
    return matrix[..., ~np.eye(matrix.shape[-1], dtype=bool)]


def _carried(names: list[str], contribution: np.ndarray) -> str:
    best = contribution.argmax(axis=0)
    each = [f"{names[b]} {contribution[b, k]:.0%}" for k, b in enumerate(best[:4])]
    return "The branch that carries most of each mode, from the strongest: " + ", ".join(each) + "."


def _transferred(layers: list[str], transfer: np.ndarray) -> str:
    mean = [f"{name} {_between(t).mean():.2f}" for name, t in zip(layers, transfer, strict=True)]
    return (
        "A linear readout that is learned on one domain reaches on another, relative to a readout of that "
        f"domain itself (1: as good, 0: useless), by layer: {', '.join(mean)}."
    )


def _generalises(layer: str, transfer: np.ndarray, names: np.ndarray) -> str:
    pairs = [(i, j) for i, j in np.ndindex(transfer.shape) if i != j and transfer[i, j] > SHARED]
    total = transfer.size - len(transfer)
    if not pairs:
        return f"No two domains share what layer {layer} represents: what is learned on one stays there."
    shown = ", ".join(f"{names[i]} to {names[j]}" for i, j in pairs[:6]) + (", ..." if len(pairs) > 6 else "")
    return (
        f"What is learned after layer {layer} on one domain should generalise to another in {len(pairs)} of "
        f"{total} pairs: {shown}."
    )
