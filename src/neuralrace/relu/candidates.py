"""Gated tasks to race against each other: by unions of contexts, and by patterns that a unit can have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.errors import InputError, array, flag, integer, sequence
from neuralrace.relu.given import checked_data
from neuralrace.relu.patterns import context_labels, implementable_patterns, pattern_text
from neuralrace.task import Task
from neuralrace.tasks.items_in_contexts import gated

MAX_CONTEXTS = 10  # unions of more are too many to list


def context_candidates(
    X: ArrayLike,
    Y: ArrayLike,
    context: ArrayLike,
    columns: Sequence[int] | None = None,
    common: bool = True,
    hidden: int = 32,
) -> dict[str, Task]:
    """Gated tasks whose pathways are open in unions of contexts, all unions of the chosen sizes.

    A candidate "1+2" has a pathway for every single context and one for every pair; there is one candidate
    for every set of sizes below the number of contexts.

    Parameters
    ----------
    X : array, shape (n, in)
        Inputs.
    Y : array, shape (n, out) or (n,)
        Targets.
    context : array, shape (n,)
        Label of each sample; 2 to 10 different ones.
    columns : list of int, optional
        Columns of the inputs that these pathways see; all by default.
    common : bool
        Whether each candidate also has the pathway that is always open and sees all inputs.
    hidden : int
        Neurons of each pathway.

    Returns
    -------
    dict
        Name -> Task.

    Examples
    --------
    >>> list(context_candidates(np.eye(3), np.eye(3), [0, 1, 2]))
    ['1', '2', '1+2']
    """
    x, y = checked_data(X, Y)
    labels = context_labels(context, len(x))
    kinds = np.unique(labels)
    if not 2 <= len(kinds) <= MAX_CONTEXTS:
        raise InputError(f"context must have 2 to {MAX_CONTEXTS} different labels, got {len(kinds)}")
    unions = {
        size: [np.isin(labels, chosen) for chosen in combinations(kinds, size)]
        for size in range(1, len(kinds))
    }
    tasks = {}
    for count in range(1, len(kinds)):
        for sizes in combinations(unions, count):
            patterns = [u for size in sizes for u in unions[size]]
            name = "+".join(map(str, sizes))
            tasks[name] = _with_common(x, y, patterns, columns, common, hidden)
    return tasks


def pattern_candidates(
    X: ArrayLike,
    Y: ArrayLike,
    patterns: ArrayLike | None = None,
    symmetries: Iterable[Sequence[int]] = (),
    columns: Sequence[int] | None = None,
    common: bool = True,
    hidden: int = 32,
) -> dict[str, Task]:
    """One gated task for each pattern that a unit can have, or for those given.

    Silent patterns are left out, and so is the always-open one where it is in every candidate.

    Parameters
    ----------
    X : array, shape (n, in)
        Inputs.
    Y : array, shape (n, out) or (n,)
        Targets.
    patterns : array, shape (m, n), optional
        By default all that a unit can have, as `implementable_patterns` lists them.
    symmetries : list of permutations, each of shape (n,), optional
        A task has a pathway for a pattern and for all its images under these permutations of the samples.
    columns, common, hidden
        As in `context_candidates`.

    Returns
    -------
    dict
        Digits of a pattern, the first of its images -> Task.

    Examples
    --------
    >>> list(pattern_candidates(np.eye(2), np.eye(2)))
    ['10', '01']
    """
    x, y = checked_data(X, Y)
    flag("common", common)
    given = implementable_patterns(x) if patterns is None else array("patterns", patterns, (None, len(x)))
    moves = _permutations(symmetries, len(x))
    tasks, seen = {}, set()
    for g in given[::-1]:
        if g.tobytes() in seen or not g.any() or (common and g.all()):
            continue
        images = _orbit(g, moves)
        seen |= {h.tobytes() for h in images}
        tasks[pattern_text(images[0])] = _with_common(x, y, images, columns, common, hidden)
    return tasks


def _permutations(symmetries: Any, n: int) -> list[np.ndarray]:
    moves = [
        array(f"symmetries[{k}]", p, (None,))
        for k, p in enumerate(sequence("symmetries", symmetries, "permutations"))
    ]
    for p in moves:
        if not np.array_equal(np.sort(p), np.arange(n)):
            raise InputError(f"symmetries must be permutations of {n} samples, got {p.tolist()[:8]}")
    return [p.astype(int) for p in moves]


def _orbit(pattern: np.ndarray, moves: Sequence[np.ndarray]) -> list[np.ndarray]:
    """All images of a pattern under permutations."""
    images, waiting = {pattern.tobytes(): pattern}, [pattern]
    while waiting:
        here = waiting.pop()
        for p in moves:
            image = np.ascontiguousarray(here[p])
            if image.tobytes() not in images:
                images[image.tobytes()] = image
                waiting.append(image)
    return list(images.values())


def _with_common(
    x: np.ndarray,
    y: np.ndarray,
    patterns: Sequence[Any],
    columns: Sequence[int] | None,
    common: bool,
    hidden: int,
) -> Task:
    """Pathways with these patterns, after the one that is always open."""
    if columns is not None:
        columns = sequence("columns", columns, "columns of the inputs")
    every = [np.ones(len(x))] if flag("common", common) else []
    seen = {} if columns is None else dict.fromkeys(range(len(every), len(every) + len(patterns)), columns)
    return gated(x, y, np.stack([*every, *patterns]).astype(float), integer("hidden", hidden), seen)
