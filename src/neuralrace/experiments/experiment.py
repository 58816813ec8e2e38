"""What an experiment is: parameters, what it computes in parts, figures and claims."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import numpy as np

from neuralrace.errors import InputError, choice, integer, known, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from neuralrace.experiments.store import Parts

Results = dict[str, Any]


def option(default: Any, **limits: Any) -> Any:
    """A parameter with limits: `least`, `above` (numbers), `choices` (text). Numbers are else positive."""
    return field(default=default, metadata=limits)


@dataclass(frozen=True)
class Parameters:
    """Parameters of an experiment: whole numbers, numbers, texts, flags, or tuples of numbers."""

    seeds: int = 10

    def __post_init__(self):
        kinds = get_type_hints(type(self))
        for f in dataclasses.fields(self):
            checked = _checked(f.name, kinds[f.name], getattr(self, f.name), f.metadata)
            object.__setattr__(self, f.name, checked)
        self.check()

    def check(self) -> None:
        """Refuse parameters that do not fit together; before anything is computed."""

    def changed(self, changes: dict[str, Any]) -> Parameters:
        """These parameters with some replaced; texts are read as the parameter's type."""
        kinds = get_type_hints(type(self))
        known("parameters", changes, kinds, "parameter of this experiment")
        read = {n: _read(n, kinds[n], v) if isinstance(v, str) else v for n, v in changes.items()}
        return dataclasses.replace(self, **read)


def _checked(name: str, kind: Any, value: Any, limits: Any) -> Any:
    if get_origin(kind) is tuple:
        if not isinstance(value, (tuple, list)) or not value:
            raise InputError(f"{name} must be a list of numbers, got {value!r}")
        return tuple(_checked(name, get_args(kind)[0], v, limits) for v in value)
    if kind is bool:
        if not isinstance(value, bool):
            raise InputError(f"{name} must be true or false, got {value!r}")
        return value
    if kind is str:
        if not isinstance(value, str):
            raise InputError(f"{name} must be text, got {value!r}")
        return choice(name, value, limits["choices"]) if "choices" in limits else value
    if kind is int:
        return integer(name, value, least=limits.get("least", 1))
    given = {k: limits[k] for k in ("least", "above") if k in limits} or {"above": 0}
    return number(name, value, **given)


def _read(name: str, kind: Any, text: str) -> Any:
    if get_origin(kind) is tuple:
        return tuple(_read(name, get_args(kind)[0], part) for part in text.strip("()[], ").split(","))
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    if kind is str:
        return text
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise InputError(f"{name} must be {what}, got {text!r}") from None


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, and what was measured.

    `expected` is a number or a relation; `measured` the mean over seeds, `spread` their standard deviation
    (None for a single number); `tolerance` how far from a number the mean may lie. `note` says what the
    reader needs to know, above all why a claim does not hold.
    """

    name: str
    source: str
    expected: float | str
    measured: float
    spread: float | None
    tolerance: float | None
    holds: bool
    note: str = ""

    @classmethod
    def near(
        cls, name: str, source: str, expected: float, measured: Any, tolerance: float, note: str = ""
    ) -> Claim:
        """The mean lies within `tolerance` of a number."""
        mean, spread = _mean(measured)
        holds = bool(abs(mean - expected) <= tolerance)
        return cls(name, source, float(expected), mean, spread, float(tolerance), holds, note)

    @classmethod
    def below(cls, name: str, source: str, bound: float, measured: Any, note: str = "") -> Claim:
        """Every value is below a bound."""
        mean, spread = _mean(measured)
        holds = bool((np.asarray(measured, float) < bound).all())
        return cls(name, source, f"< {bound:g}", mean, spread, None, holds, note)

    @classmethod
    def above(cls, name: str, source: str, bound: float, measured: Any, note: str = "") -> Claim:
        """Every value is above a bound."""
        mean, spread = _mean(measured)
        holds = bool((np.asarray(measured, float) > bound).all())
        return cls(name, source, f"> {bound:g}", mean, spread, None, holds, note)

    @classmethod
    def relation(
        cls, name: str, source: str, expected: str, measured: Any, holds: bool, note: str = ""
    ) -> Claim:
        """Any other relation, told in words."""
        mean, spread = _mean(measured)
        return cls(name, source, expected, mean, spread, None, bool(holds) and not np.isnan(mean), note)


def _mean(measured: Any) -> tuple[float, float | None]:
    values = np.asarray(measured, float).ravel()
    if not len(values):
        raise InputError("measured must hold at least one number")
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None


@dataclass(frozen=True)
class Experiment:
    """An experiment: its parameters, what it computes, its figures and its claims.

    `compute(p, parts)` returns results (arrays by name); what it computes through `parts` is stored and
    reused. `figures(p, results)` returns name -> (figure, caption). `minutes` is how long the quick and the
    full form take on two cores.
    """

    name: str
    title: str
    source: str
    parameters: Parameters
    quick: Parameters
    compute: Callable[[Any, Parts], Results]
    figures: Callable[[Any, Results], dict[str, tuple[Figure, str]]]
    claims: Callable[[Any, Results], Iterable[Claim]]
    minutes: tuple[float, float]

    def chosen(self, quick: bool, changes: dict[str, Any]) -> Parameters:
        """The parameters of a run."""
        try:
            return (self.quick if quick else self.parameters).changed(changes)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None
