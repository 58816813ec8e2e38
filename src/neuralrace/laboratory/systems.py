"""Reduced systems as data: polynomials that a page evaluates without this library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace.laboratory.protocol import Gauge, LaneDetails, Sum, System
from neuralrace.laboratory.racers import RacerPath
from neuralrace.reduction import UNSOLVED, class_rates

MOST_NUMBERS, MOST_PRODUCTS = 80, 3000  # of a system that a page solves while a slider moves
SAME = 1e-9  # of the largest: statistics of modes that differ less are the same
DIGITS = 14


class TooLarge(Exception):
    """A system has more numbers or products than a page can solve while a slider moves."""


class Polynomial:
    """A sum of products of the numbers that move: their places, sorted -> coefficient.

    Arrays of them go through the same products as strengths do.
    """

    def __init__(self, terms: Mapping[tuple[int, ...], float]) -> None:
        self.terms: dict[tuple[int, ...], float] = {k: v for k, v in terms.items() if v}

    def __add__(self, other: Polynomial) -> Polynomial:
        total = dict(self.terms)
        for places, c in other.terms.items():
            total[places] = total.get(places, 0.0) + c
        return Polynomial(total)

    def __mul__(self, other: Any) -> Polynomial:
        if not isinstance(other, Polynomial):
            return Polynomial({places: c * float(other) for places, c in self.terms.items()})
        total: dict[tuple[int, ...], float] = {}
        for a, c in self.terms.items():
            for b, d in other.terms.items():
                places = tuple(sorted(a + b))
                total[places] = total.get(places, 0.0) + c * d
        return Polynomial(total)

    __rmul__ = __mul__

    @property
    def sum(self) -> Sum:
        """As it is written in a message."""
        return [(rounded(c), list(places)) for places, c in self.terms.items()]


def rounded(value: Any) -> float:
    """A number with as many digits as matter."""
    return float(f"{float(value):.{DIGITS}g}")


@dataclass(frozen=True)
class Numbers:
    """The numbers that move: strengths of each class of edges, those of modes that learn alike once."""

    place: list[np.ndarray]  # of each class: where the numbers of its strengths are
    copies: np.ndarray  # how many modes each number stands for
    modes: np.ndarray  # the modes that stand for others

    @classmethod
    def of(cls, r: nr.Reduction, b: Mapping[str, np.ndarray]) -> Numbers:
        """That of a reduction that starts from strengths b."""
        shapes = [r.family.shape[members[0]] for members in r.classes]
        if r.tied is None:
            ends = np.cumsum([int(np.prod(s)) for s in shapes])
            place = [np.arange(e - np.prod(s), e).reshape(s) for e, s in zip(ends, shapes, strict=True)]
            return cls(place, np.ones(ends[-1]), np.arange(r.n_modes))
        start = np.stack([b[members[0]] for members in r.classes])
        known: dict[bytes, int] = {}
        columns = [r.tied.s, r.tied.d.reshape(-1, r.n_modes), start]
        grid = [np.round(c / (SAME * max(np.abs(c).max(initial=0.0), 1e-300))) for c in columns]
        first = [
            known.setdefault(np.concatenate([c[:, m] for c in grid]).tobytes(), m) for m in range(r.n_modes)
        ]
        modes, number, copies = np.unique(first, return_inverse=True, return_counts=True)
        place = [k * len(modes) + number for k in range(r.n_classes)]
        return cls(place, np.tile(copies, r.n_classes).astype(float), modes)

    def strengths(self, r: nr.Reduction) -> dict[str, Any]:
        """Symbols in the place of strengths, by edge."""
        symbol = np.frompyfunc(lambda k: Polynomial({(k,): 1.0}), 1, 1)
        return {e: symbol(at) for members, at in zip(r.classes, self.place, strict=True) for e in members}


def system(
    r: nr.Reduction, start: Mapping[str, float], powers: Mapping[str, Mapping[str, float]],
    whole: nr.Reduction, racing: Sequence[RacerPath], said: LaneDetails,
) -> System:  # fmt: skip
    """A reduction as a page solves it.

    `start` has the strength of each edge, and `powers` for each live slider how that depends on it. Groups
    are the classes of the reduction of the papers, `whole`.
    """
    b = {e: unit * start[r.family.edge_of(e)] for e, unit in r.family.start.items()}
    r = r if r.is_tied(b) else r.retied(b)
    numbers = Numbers.of(r, b)
    if r.paths is None or len(numbers.copies) > MOST_NUMBERS:
        raise TooLarge
    symbols = numbers.strengths(r)
    products, s, d = _statistics(r, numbers, symbols)
    if sum(len(p.terms) for p in products) > MOST_PRODUCTS:
        raise TooLarge
    of, first = (
        np.empty(len(numbers.copies), int),
        np.empty(len(numbers.copies)),
    )  # class and start of each number
    for k, (members, at) in enumerate(zip(r.classes, numbers.place, strict=True)):
        of[at], first[at] = k, b[members[0]]
    rates, decays = class_rates(r.classes, r.rates)
    sizes = np.array([len(c) for c in r.classes])
    edges = [r.family.edge_of(r.classes[k][0]) for k in of]
    return System(
        start=[rounded(v) for v in first],
        powers={name: [by[e] for e in edges] for name, by in powers.items()},
        speed=[rounded(v) for v in (rates / sizes)[of] / numbers.copies],
        decay=[rounded(v) for v in (sizes * decays)[of] * numbers.copies],
        sums=[p.sum for p in products], s=[rounded(v) for v in s],
        d=[(p, q, rounded(v)) for (p, q), v in d.items()],
        constant=rounded(r.paths.loss_of_zero), coupled=r.tied is None,
        groups=[_group(r, members, symbols) for members in whole.classes],
        racers=[_racer(r, p, symbols) for p in racing],
        goals=[None if whole.tied is None else p.alone for p in racing],
        directions=r.directions, attainable=r.attainable.loss, complete=r.complete_loss,
        settled=r.attainable.loss + UNSOLVED * max(r.untrained_loss - r.attainable.loss, 0.0),
        fastest=r.fastest_time, rest=None, why="", said=said,
    )  # fmt: skip


def _statistics(
    r: nr.Reduction, numbers: Numbers, symbols: Mapping[str, np.ndarray]
) -> tuple[list[Polynomial], np.ndarray, dict[tuple[int, int], float]]:
    """What each class of paths carries, entry by entry; its S; and D of each two entries."""
    paths = r.paths
    assert paths is not None
    factors = [*(symbols[members[0]] for members in r.classes), *paths.constants]
    total, couplings = paths.sums
    ordered, modes, n = r.basis == "block", numbers.modes, numbers.copies
    one = Polynomial({(): 1.0})
    carried = []
    for key in paths.index:
        word = [factors[c] for c in paths.classes_on(key)] or [np.ones(r.n_modes)]
        product = reduce(lambda before, x: x @ before if ordered else x * before, word) * one
        carried.append(product if ordered else product[modes])
    places = np.cumsum([0, *(c.size for c in carried)])
    entries = [np.arange(places[k], places[k + 1]).reshape(c.shape) for k, c in enumerate(carried)]
    copies = np.ones(1) if ordered or r.tied is None else n[: len(modes)]
    s = [np.ravel(v if ordered else np.asarray(v)[modes] * copies) for v in total]
    d: dict[tuple[int, int], float] = {}
    for (j, k), value in couplings.items():
        if ordered:
            at = ((o, i) for o in range(carried[k].shape[0]) for i in np.ndindex(value.shape))
            found = {(entries[j][o, i], entries[k][o, m]): value[i, m] for o, (i, m) in at}
        elif r.tied is not None:
            own = (value if value.ndim == 1 else np.diagonal(value))[modes] * copies
            found = dict(zip(zip(entries[j], entries[k], strict=True), own, strict=True))
        else:
            full = np.diag(value) if value.ndim == 1 else value
            found = {(entries[j][a], entries[k][c]): full[a, c] for a, c in np.ndindex(full.shape)}
        d |= {(int(p), int(q)): float(v) for (p, q), v in found.items()}
    least = 1e-15 * max((abs(v) for v in d.values()), default=0.0)
    every = [p for c in carried for p in c.ravel()]
    return every, np.concatenate([np.zeros(0), *s]), {pair: v for pair, v in d.items() if abs(v) > least}


def _gauge(parts: Mapping[Any, float], signed: bool = False) -> Gauge:
    """From weights of the terms of sums."""
    each = [(rounded(weight), Polynomial(dict(terms)).sum) for terms, weight in parts.items()]
    return Gauge(signed=signed, parts=each)


def _group(r: nr.Reduction, members: Sequence[str], symbols: Mapping[str, np.ndarray]) -> Gauge:
    """The mean size of the weights of some edges."""
    names = [name for e in members for name in r.family.strengths_of(e)]
    parts = Counter(tuple(p.terms.items()) for name in names for p in symbols[name].ravel())
    return _gauge({terms: count / len(members) for terms, count in parts.items()})


def _racer(r: nr.Reduction, path: RacerPath, symbols: Mapping[str, np.ndarray]) -> Gauge:
    """What a racer carries: see `RacerPath.carries`."""
    along = path.along(r, symbols).ravel()
    parts, n = Counter(tuple(p.terms.items()) for p in along), 1 if r.basis == "block" else len(along)
    return _gauge({terms: count / n for terms, count in parts.items()}, r.basis != "block" and n == 1)
