"""Who races in a reduction: its modes, or its pathways where there are several kinds.

A racer has a path that stands for it. What it carries is read off the strengths of the reduction and, in the
same way, off the weights of a network: the product of the weights along the path, in the directions of modes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

import neuralrace as nr

MOST = 12  # racers that are shown
MOST_PATHS = 3000  # paths that are looked through for one that stands for its class


@dataclass(frozen=True)
class RacerPath:
    """A path and the modes of it that race together; `alone` is what they would carry without the others."""

    name: str
    path: tuple[str, ...]
    modes: tuple[int, ...]  # empty for blocks
    alone: float
    members: tuple[tuple[str, ...], ...] = field(default=())

    def carries(self, r: nr.Reduction, b: Mapping[str, np.ndarray]) -> np.ndarray:
        """What the racer carries, from strengths `(..., modes)` or blocks with leading axes."""
        along = self.along(r, b)
        return np.linalg.norm(along, axis=(-2, -1)) if r.basis == "block" else _together(along)

    def along(self, r: nr.Reduction, b: Mapping[str, np.ndarray]) -> np.ndarray:
        """The product of strengths along the path: (..., modes of the racer), or a block (..., out, in)."""
        if r.family.split is not None:
            learned = _product([r.family.split.signed(e, b) for e in self.path])[..., 0, 0]
            return learned[..., list(self.modes)]
        fixed = r.family.small.graph.fixed
        if r.basis == "block":
            return _product([fixed[e] if e in fixed else b[e] for e in self.path])
        learned = np.prod([b[e] for e in self.path if e not in fixed], axis=0)
        return (learned * _constant(r, self.path))[..., list(self.modes)]

    def carried(self, r: nr.Reduction, weights: Mapping[str, np.ndarray]) -> np.ndarray:
        """The same of a network with these weights `(..., out, in)`."""
        every = r.task.graph.with_fixed(weights)
        product = _product([every[e] for e in self.path])
        if r.basis == "block":
            return np.linalg.norm(product, axis=(-2, -1))
        modes = list(self.modes)
        u, v = r.family.left[self.path[-1]][:, modes], r.family.right[self.path[0]][:, modes]
        return _together(np.einsum("om,...oi,im->...m", u, product, v))


def _product(along: list[np.ndarray]) -> np.ndarray:
    product = along[0]
    for matrix in along[1:]:
        product = matrix @ product
    return product


def _constant(r: nr.Reduction, path: tuple[str, ...]) -> np.ndarray:
    """What the fixed edges of a path multiply each mode by."""
    fixed = r.family.small.graph.fixed
    return np.prod([np.ones(r.n_modes), *(np.diagonal(fixed[e]) for e in path if e in fixed)], axis=0)


def _together(strengths: np.ndarray) -> np.ndarray:
    """One number for several modes: the strength that each has where they are equal."""
    if strengths.shape[-1] == 1:
        return strengths[..., 0]
    return np.sqrt((strengths**2).mean(axis=-1))


def racers(r: nr.Reduction, names: Mapping[str, str]) -> tuple[list[RacerPath], bool]:
    """The racers of a reduction, and whether they are pathways (else modes)."""
    graph = r.task.graph
    paths = graph.paths() if graph.n_paths <= MOST_PATHS else []
    paths = [p for p in paths if not graph.fixed.keys() >= {*p}]  # what never changes does not race
    if r.tied is None or not paths:
        return _open_paths(r, paths, names), True
    tied, of_class = r.tied, {e: k for k, members in enumerate(r.classes) for e in members}
    groups: dict[tuple[int, ...], list[tuple[str, ...]]] = {}
    for path in paths:
        counts = np.bincount([of_class[e] for e in path if e in of_class], minlength=r.n_classes)
        groups.setdefault(tuple(counts.tolist()), []).append(path)
    live = [(k, groups[p]) for k, p in enumerate(tied.powers) if p in groups]
    kinds = [group for _, group in live]
    s, own = (np.stack([v[k] for k, _ in live]) for v in (tied.s, np.einsum("kkm->km", tied.d)))
    constants = np.stack([_constant(r, group[0]) for group in kinds])
    alone = s * constants / np.where(own > 0, own, np.inf)
    used = np.abs(alone) > 1e-9 * np.abs(alone).max(initial=1e-300)
    if len(kinds) == 1:
        modes = _alike(s[0], alone[0], used[0])
        if len(modes) > 1 or not 1 < len(kinds[0]) <= 8:
            first = kinds[0][0]
            every = tuple(kinds[0])
            numbers = np.cumsum([0, *map(len, modes)])
            return [
                RacerPath(_mode_name(int(k), len(m)), first, m, float(alone[0][m[0]]), every)
                for k, m in zip(numbers, modes[:MOST], strict=False)
            ], False
        return [
            RacerPath(
                _name(r.task.graph, p, kinds[0], names), p, modes[0], float(alone[0][modes[0][0]]), (p,)
            )
            for p in kinds[0]
        ], True
    found = []
    for k, group in enumerate(kinds[:MOST]):
        modes = tuple(np.flatnonzero(used[k]).tolist())
        if modes:
            size = float(_together(alone[k][list(modes)]))
            name = _group_name(r.task.graph, group, paths, names)
            found.append(RacerPath(name, group[0], modes, size, tuple(group)))
    return found, True


def _open_paths(r: nr.Reduction, paths: list[tuple[str, ...]], names: Mapping[str, str]) -> list[RacerPath]:
    """Racers where modes are coupled: every path that data reaches."""
    found = []
    for path in paths[: 4 * MOST]:
        syx, sxx = r.task.syx(path), r.task.sxx(path, path)
        alone = float(np.linalg.norm(syx @ np.linalg.pinv(sxx, rcond=1e-9, hermitian=True)))
        if alone > 1e-9 and len(found) < MOST:
            modes = () if r.basis == "block" else tuple(range(r.n_modes))
            if modes:
                alone /= np.sqrt(len(modes))
            found.append(RacerPath(_name(r.task.graph, path, paths, names), path, modes, alone, (path,)))
    return found


def _alike(s: np.ndarray, alone: np.ndarray, used: np.ndarray) -> list[tuple[int, ...]]:
    """Modes with the same statistics, strongest first."""
    order = [int(m) for m in np.argsort(-s, kind="stable") if used[m]]
    found: list[tuple[int, ...]] = []
    scale = np.abs(s).max(initial=1e-300)
    for m in order:
        if (
            found
            and abs(s[m] - s[found[-1][0]]) < 1e-6 * scale
            and abs(alone[m] - alone[found[-1][0]]) < 1e-6
        ):
            found[-1] = (*found[-1], m)
        else:
            found.append((m,))
    return found


def _mode_name(first: int, count: int) -> str:
    return f"mode {first + 1}" if count == 1 else f"modes {first + 1} to {first + count}"


def _name(
    graph: nr.Graph, path: tuple[str, ...], others: list[tuple[str, ...]], names: Mapping[str, str]
) -> str:
    """A name for readers: that of the first node that no other path has."""
    elsewhere = {n for p in others if p != path for n in _nodes(graph, p)}
    own = [n for n in _nodes(graph, path) if n not in elsewhere and n in graph.hidden]
    for n in own:
        if n in names:
            return names[n]
    return f"through {own[0]}" if own else " → ".join(_nodes(graph, path))


def _group_name(
    graph: nr.Graph, group: list[tuple[str, ...]], paths: list[tuple[str, ...]], names: Mapping[str, str]
) -> str:
    """A name for paths that act alike: of the first two, and how many there are."""
    said = [_name(graph, path, paths, names) for path in group[:2]]
    if len(group) == 1:
        return said[0]
    both = " and ".join([said[0], said[1].removeprefix("through ")])
    return both if len(group) == 2 else f"{said[0]} and {len(group) - 1} alike"


def labels(graph: nr.Graph, names: Mapping[str, str]) -> dict[str, str]:
    """Names of hidden nodes: that of their pathway, and their layer where it has several."""
    found = {}
    for n in graph.hidden:
        path, _, layer = n.rpartition("h")
        if name := names.get(f"{path}h1", "").partition(",")[0]:
            found[n] = f"{name.split()[-1]}: h{layer}" if f"{path}h2" in graph.nodes else name
    return found


def _nodes(graph: nr.Graph, path: tuple[str, ...]) -> list[str]:
    return [graph.edges[path[0]][0], *(graph.edges[e][1] for e in path)]
