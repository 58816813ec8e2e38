"""The framework before parts, figures and claims were declared; goes when no experiment uses it."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.errors import InputError
from neuralrace.experiments.claim import FAILS, HOLDS, KINDS, UNDECIDED, Claim, kebab
from neuralrace.experiments.claim import mean_and_spread as _mean
from neuralrace.experiments.experiment import Parameters, option
from neuralrace.files import read_npz, write

Results = dict[str, Any]
__all__ = [
    "Claim",
    "Experiment",
    "Parameters",
    "Parts",
    "Results",
    "check",
    "finding",
    "kebab",
    "option",
    "paper",
    "stacked",
]


@dataclass(frozen=True)
class Kind:
    """Makes claims of one kind. `measured` is a number or one for each seed.

    >>> paper.near("layer-ratio", "B2 / B1 at the end", "neural_race Eq. 51", 2.65, [2.6, 2.66], 0.1).holds
    True
    """

    kind: str

    def near(
        self,
        id: str,
        name: str,
        source: str,
        expected: float,
        measured: Any,
        tolerance: float,
        note: str = "",
    ) -> Claim:
        """The mean lies within `tolerance` of a number."""
        mean, _ = _mean(measured)
        holds = abs(mean - expected) <= tolerance
        return self._claim(id, name, source, float(expected), measured, float(tolerance), holds, note)

    def below(self, id: str, name: str, source: str, bound: float, measured: Any, note: str = "") -> Claim:
        """Every value is below a bound."""
        holds = (np.asarray(measured, float) < bound).all()
        return self._claim(id, name, source, f"< {bound:g}", measured, None, holds, note)

    def above(self, id: str, name: str, source: str, bound: float, measured: Any, note: str = "") -> Claim:
        """Every value is above a bound."""
        holds = (np.asarray(measured, float) > bound).all()
        return self._claim(id, name, source, f"> {bound:g}", measured, None, holds, note)

    def relation(
        self, id: str, name: str, source: str, expected: str, measured: Any, holds: Any, note: str = ""
    ) -> Claim:
        """Any other relation, told in words."""
        known_number = not np.isnan(_mean(measured)[0])
        return self._claim(id, name, source, expected, measured, None, bool(holds) and known_number, note)

    def _claim(
        self,
        id: str,
        name: str,
        source: str,
        expected: float | str,
        measured: Any,
        tolerance: float | None,
        holds: Any,
        note: str,
    ) -> Claim:
        if not id or kebab(id) != id:
            raise InputError(f"id must be words in small letters, joined by hyphens; got {id!r}")
        mean, spread = _mean(measured)
        verdict = HOLDS if holds else FAILS
        return Claim(id, self.kind, name, source, expected, mean, spread, tolerance, verdict, note)


paper, check, finding = (Kind(k) for k in KINDS)


class Parts:
    """Computes the parts of one run, or takes them from where a run with the same key left them."""

    def __init__(self, folder: Path, key: str, name: str = "", progress: bool = False):
        self.folder, self.key, self.name, self.progress = folder, key, name, progress
        self.seconds, self.reused = 0.0, 0  # of parts that were computed before

    def __call__(self, part: str, function: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
        """`function(*args)`, a dict of arrays, unless it is stored already."""
        path = self.folder / f"{part}-{self.key}.npz"
        found: dict[str, Any] | None = _stored(path)
        if found is None:
            start = time.perf_counter()
            found = {k: np.asarray(v) for k, v in function(*args).items()}
            took = np.asarray(time.perf_counter() - start)
            write(path, lambda file: np.savez(file, **found, seconds=took))
        else:
            self.reused += 1
            self.seconds += float(found.pop("seconds"))
        return found

    def each(
        self,
        part: str,
        function: Callable[..., dict[str, Any]],
        items: Iterable[Any],
        *args: Any,
        threads: int = 1,
    ) -> list[dict[str, Any]]:
        """`function(item, *args)` for every item, with a progress bar where that takes long.

        Threads are worth having where items compile for long; interrupted, they finish what they are at.
        """
        items, bar = list(items), None
        if self.progress:  # tqdm holds a semaphore, which a worker that is ended would leave behind
            from tqdm import tqdm

            bar = tqdm(total=len(items), desc=f"{self.name} {part}", delay=2, disable=None, leave=False)

        def one(item: Any) -> dict[str, Any]:
            found = self(f"{part}-{item}", function, item, *args)
            if bar is not None:
                bar.update()
            return found

        pool = ThreadPoolExecutor(threads)
        try:
            return [one(item) for item in items] if threads == 1 else list(pool.map(one, items))
        finally:
            pool.shutdown(cancel_futures=True)
            if bar is not None:
                bar.close()


def _stored(path: Path) -> dict[str, Any] | None:
    """The arrays of a finished part; None where there is none that can be read."""
    try:
        found = read_npz(path)
    except InputError:
        return None
    return found if "seconds" in found else None


def stacked(parts: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Equal-shaped results of several parts, one leading axis."""
    return {k: np.stack([p[k] for p in parts]) for k in parts[0]}


@dataclass(frozen=True)
class Experiment:
    """An experiment: its parameters, what it computes, its figures and its claims.

    `compute(p, parts)` returns results (arrays by name); what it computes through `parts` is stored and
    reused. `figures(p, results)` returns name -> (figure, caption). `minutes` is how long the quick and the
    full form take on two cores. `needs_full` names claims that the quick form is too small to decide, by
    their ids or by patterns such as ``trend-*``.
    """

    name: str
    title: str
    source: str
    parameters: Parameters
    quick: Parameters
    compute: Callable[[Any, Parts], Results]
    figures: Callable[[Any, Results], dict[str, tuple[Any, str]]]
    claims: Callable[[Any, Results], Iterable[Claim]]
    minutes: tuple[float, float]
    needs_full: tuple[str, ...] = ()

    @property
    def module(self):
        return sys.modules[type(self.parameters).__module__]

    @property
    def code(self):
        return [(o.__module__, o.__name__) for o in (self.compute, type(self.parameters))]

    def chosen(self, quick: bool, changes: dict[str, Any]) -> Parameters:
        """The parameters of a run."""
        try:
            return (self.quick if quick else self.parameters).changed(changes)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None

    def judged(self, p: Parameters, results: Results, quick: bool) -> tuple[Claim, ...]:
        """The claims; those that need the full form are undecided in the quick one."""
        found: dict[str, Claim] = {}
        for claim in self.claims(p, results):
            if claim.id in found:
                raise InputError(f"{self.name}: two claims have the id {claim.id!r}")
            if quick and any(fnmatch(claim.id, pattern) for pattern in self.needs_full):
                claim = dataclasses.replace(claim, verdict=UNDECIDED)
            elif claim.verdict == FAILS and not claim.note:
                claim = dataclasses.replace(claim, note="No reason is known.")
            found[claim.id] = claim
        return tuple(found.values())
