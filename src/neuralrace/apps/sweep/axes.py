"""The axes of a sweep, and the points of its grid."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from neuralrace.errors import InputError, integer, known, listable, number, refuse_masked, sequence, short

SEED = "seed"
MAX_RUNS = 1_000_000  # of a sweep: each takes 1 to 4 kB in the process that calls it, so 1 to 4 GB together
RESERVED = ("status", "seconds", "error", "message", "outcome", "steps")


@dataclass(frozen=True)
class Axis:
    """One axis: its name, and the values of each parameter along it (several where they are zipped)."""

    name: str
    values: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.values[self.name])


@dataclass(frozen=True)
class Grid:
    """All points: the product of the axes, the last one fastest."""

    axes: tuple[Axis, ...]

    @classmethod
    def of(
        cls, over: Mapping[str, Iterable[Any]], zipped: Iterable[Sequence[str]] = (), seeds: Any = None
    ) -> Grid:
        """From the arguments of `sweep`, checked."""
        if not isinstance(over, Mapping) or (not over and seeds is None):
            raise InputError(f"over must be a dict from parameters to their values, got {short(over)}")
        for name in over:
            if not isinstance(name, str) or not name.isidentifier() or len(name.encode()) > 200:
                raise InputError(f"over must name parameters of the function, got {short(name)}")
            if name in RESERVED:
                raise InputError(f"over must not use {name!r}, which the result has for each run; rename it")
        values = {name: _values(f"over[{name!r}]", given) for name, given in over.items()}
        if SEED in values and seeds is not None:
            raise InputError("seeds must not be given when over names seed: leave out one of the two")
        groups = [
            tuple(sequence("each group of zipped", names, "parameters"))
            for names in sequence("zipped", zipped, "groups of parameters")
        ]
        together = [name for names in groups for name in names]
        known("zipped", together, values, "parameter of over")
        if len(together) != len(set(together)) or any(len(names) < 2 for names in groups):
            raise InputError(f"zipped must list groups of at least two different parameters, got {groups}")
        groups += [(name,) for name in values if name not in together]
        groups.sort(key=lambda names: list(values).index(names[0]))
        for names in groups:
            lengths = {name: len(values[name]) for name in names}
            if len(set(lengths.values())) > 1:
                raise InputError(f"zipped parameters must have equally many values, got {lengths}")
        axes = [Axis(names[0], {n: values[n] for n in names}) for names in groups]
        if seeds is not None:
            several = seeds if listable(seeds) else range(integer("seeds", seeds, most=MAX_RUNS))
            found = [integer("seeds", seed, least=0) for seed in _values("seeds", several).tolist()]
            axes.append(Axis(SEED, {SEED: np.array(found)}))
        grid = cls(tuple(axes))
        if len(grid) > MAX_RUNS:
            raise InputError(f"over and seeds must give at most {MAX_RUNS:,} runs, got {len(grid):,}")
        return grid

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis) for axis in self.axes)

    def __len__(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def points(self) -> list[dict[str, Any]]:
        """Parameters of each point, as plain numbers and texts."""
        columns = [
            [{n: v[k].item() for n, v in axis.values.items()} for k in range(len(axis))] for axis in self.axes
        ]
        return [{k: v for part in parts for k, v in part.items()} for parts in product(*columns)]

    def to_dict(self) -> dict[str, Any]:
        """All axes as JSON has them."""
        return {axis.name: {n: v.tolist() for n, v in axis.values.items()} for axis in self.axes}

    def coordinates(self) -> dict[str, tuple[str, np.ndarray]]:
        """Coordinates of the result: parameter -> (axis, values)."""
        return {n: (axis.name, v) for axis in self.axes for n, v in axis.values.items()}


def _values(name: str, given: Any) -> np.ndarray:
    """The values of an axis: different numbers, texts or flags."""
    refuse_masked(name, given)
    several = sequence(name, given, "values", MAX_RUNS)
    refuse_masked(name, several)
    try:
        found = np.asarray(several)
    except (ValueError, TypeError, OverflowError, RecursionError):  # of unequal lengths, or no values at all
        found = np.empty(0)
    texts = found.dtype.kind == "U" and all(np.asarray(v).dtype.kind == "U" for v in several)
    numbers = found.dtype.kind in "biuf" and not np.isnan(found).any()
    if found.ndim != 1 or not len(found) or not (texts or numbers) or found.tolist() != several:
        raise InputError(
            f"{name} must list numbers, texts or flags that one array can hold exactly; got {short(given)}"
        )
    if len(set(found.tolist())) < len(found):
        raise InputError(f"{name} must list different values, got {short(found.tolist())}")
    return found


def log(first: float, last: float, n: int) -> np.ndarray:
    """Values evenly spaced in their logarithm, both ends included.

    Examples
    --------
    >>> log(1e-3, 1.0, 4)
    array([0.001, 0.01 , 0.1  , 1.   ])
    """
    ends = number("first", first, above=0), number("last", last, above=0)
    return np.geomspace(ends[0], ends[1], integer("n", n, least=2))


def read_axis(text: str) -> tuple[str, list[Any]]:
    """An axis of the command line: ``a,b``, a range ``1:6`` with both ends, or ``log:1e-3:1:7``.

    Examples
    --------
    >>> read_axis("trained=1:4")
    ('trained', [1, 2, 3, 4])
    >>> read_axis("scale=log:0.01:1:3")
    ('scale', [0.01, 0.1, 1.0])
    >>> read_axis("readout=targets,random")
    ('readout', ['targets', 'random'])
    """
    name, equals, values = text.partition("=")
    usage = f"--over must be NAME=a,b, NAME=first:last or NAME=log:first:last:n; got {text!r}"
    if not equals or not name or not values:
        raise InputError(usage)
    try:
        if values.startswith("log:"):
            first, last, n = values[4:].split(":")
            return name, [float(f"{v:.12g}") for v in log(float(first), float(last), int(n))]
        if ":" in values:
            first, last = (int(v) for v in values.split(":"))
            if last - first >= MAX_RUNS:
                raise InputError(f"--over must give at most {MAX_RUNS:,} values, got {short(text)}")
            return name, list(range(first, last + 1))
    except ValueError as fault:
        raise InputError(
            f"{usage}" if not isinstance(fault, InputError) else f"--over {text}: {fault}"
        ) from None
    found: list[Any] = [_read(v) for v in values.split(",")]
    if any(isinstance(v, str) for v in found):
        return name, values.split(",")
    return name, found


def _read(text: str) -> Any:
    for kind in (int, float):
        if "_" in text:  # to Python 1_0 is a number
            break
        try:
            return kind(text)
        except ValueError:
            continue
    return text
