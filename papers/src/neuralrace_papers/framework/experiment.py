"""What an experiment is: parameters, and what its module declares (`declaration`)."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from types import ModuleType
from typing import (
    TYPE_CHECKING,
    Any,
    Self,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from neuralrace.errors import InputError, choice, integer, known, number
from neuralrace_papers.framework.claim import FAILS, UNDECIDED, Claim
from neuralrace_papers.framework.declaration import Data, Drawing, Part, Statements

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from neuralrace_papers.framework.store import Store

T = TypeVar("T", Part, Drawing, Statements)


def option(default: Any, meaning: str = "", **limits: Any) -> Any:
    """A parameter of an experiment.

    Parameters
    ----------
    default : number, text, flag or tuple of numbers or texts
    meaning : str
        What it sets, in a few words; `neuralrace show` prints it.
    **limits
        `least` or `above` for numbers, which else must be positive; `below` or `most` for numbers; `choices`
        for texts. For tuples, these of each entry; `count`, the least number of entries, and `increasing`.
    """
    return field(default=default, metadata={"meaning": meaning, **limits})


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Parameters:
    """Parameters of an experiment: whole numbers, numbers, texts, flags, or tuples of these.

    Classes made from this one are frozen dataclasses too, with or without the decorator.
    """

    seeds: int = option(10, "random starts of each network")

    def __new__(cls, *_args: Any, **_values: Any) -> Self:
        for kind in reversed(cls.__mro__):  # those that have no decorator become dataclasses when first made
            if issubclass(kind, Parameters) and "__dataclass_fields__" not in vars(kind):
                dataclass(frozen=True)(kind)
        return super().__new__(cls)

    def __post_init__(self) -> None:
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

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """What each parameter sets, by its name; with the choices where there are some."""
        found = {}
        for f in dataclasses.fields(cls):
            choices = f.metadata.get("choices")
            told = f" ({', '.join(choices)})" if choices else ""
            found[f.name] = f.metadata.get("meaning", "") + told
        return found


def _checked(name: str, kind: Any, value: Any, limits: Any) -> Any:
    if get_origin(kind) is tuple:
        if not isinstance(value, (tuple, list)):
            raise InputError(f"{name} must be a list of numbers, got {value!r}")
        entries = tuple(_checked(name, get_args(kind)[0], v, limits) for v in value)
        count, rising = limits.get("count", 1), list(entries) == sorted(set(entries))
        require(len(entries) >= count, f"{name} must be a list of at least {count} values, got {entries}")
        require(rising or not limits.get("increasing"), f"{name} must increase, got {entries}")
        return entries
    if kind is bool:
        if not isinstance(value, bool):
            raise InputError(f"{name} must be true or false, got {value!r}")
        return value
    if kind is str:
        if not isinstance(value, str):
            raise InputError(f"{name} must be text, got {value!r}")
        return choice(name, value, limits["choices"]) if "choices" in limits else value
    if kind is int:
        return integer(name, value, **{"least": 1, **_given(limits, "least", "most")})
    lower = _given(limits, "least", "above") or {"above": 0}
    return number(name, value, **lower, **_given(limits, "below", "most"))


def _given(limits: Any, *names: str) -> dict[str, Any]:
    return {name: limits[name] for name in names if name in limits}


def _read(name: str, kind: Any, text: str) -> Any:
    if get_origin(kind) is tuple:
        entries = text.strip("()[], ")
        return tuple(_read(name, get_args(kind)[0], part) for part in entries.split(",")) if entries else ()
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    if kind is str:
        return text
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise InputError(f"{name} must be {what}, got {text!r}") from None


def require(condition: Any, message: str) -> None:
    """Refuse parameters that do not fit together, with a message that names them."""
    if not condition:
        raise InputError(message)


@dataclass(frozen=True)
class Experiment:
    """An experiment: its parameters, and what the module of these declares (`declaration`).

    Parameters
    ----------
    name, title : str
        How it is called; what it shows.
    source : str
        Paper and figure.
    parameters, quick : Parameters
        Of the full form, with published settings, and of the small one.
    minutes : tuple of float
        How long the quick and the full form take on two cores.
    needs_full : tuple of str
        Claims that the quick form is too small to decide: ids, or patterns such as ``trend-*``.
    """

    name: str
    title: str
    source: str
    parameters: Parameters
    quick: Parameters
    minutes: tuple[float, float]
    needs_full: tuple[str, ...] = ()

    @property
    def module(self) -> ModuleType:
        """The module that declares parts, figures and claims."""
        return sys.modules[type(self.parameters).__module__]

    def declared(self, kind: type[T]) -> list[T]:
        """Parts, drawings or statements in the order in which the module defines them."""
        own = self.module.__name__
        return [v for v in vars(self.module).values() if isinstance(v, kind) and v.function.__module__ == own]

    def chosen(self, quick: bool, changes: dict[str, Any]) -> Parameters:
        """The parameters of a run."""
        try:
            return (self.quick if quick else self.parameters).changed(changes)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None

    def compute(self, p: Parameters, store: Store, progress: bool = False) -> Data:
        """Results of all parts; those that are stored are not computed again."""

        def bar(results: Iterable[Any], part: str, total: int) -> Iterable[Any]:
            if not progress:
                return results
            from tqdm import tqdm

            return tqdm(results, f"{self.name} {part}", total, delay=2, disable=None, leave=False)

        data = Data()
        for part in self.declared(Part):
            setattr(data, part.name, part.compute(p, data, store, bar))
        return data

    def figures(self, p: Parameters, data: Data) -> dict[str, tuple[Figure, str]]:
        """Figures with their captions, by name."""
        return {drawing.name: drawing.function(p, data) for drawing in self.declared(Drawing)}

    def judged(self, p: Parameters, data: Data, quick: bool) -> tuple[Claim, ...]:
        """The claims; those that need the full form are undecided in the quick one."""
        judged: dict[str, Claim] = {}
        for claim in (c for s in self.declared(Statements) for c in s.function(p, data)):
            if claim.id in judged:
                raise InputError(f"{self.name}: two claims have the id {claim.id!r}")
            if quick and any(fnmatch(claim.id, pattern) for pattern in self.needs_full):
                claim = dataclasses.replace(claim, verdict=UNDECIDED)
            elif claim.verdict == FAILS and not claim.note:
                claim = dataclasses.replace(claim, note="No reason is known.")
            judged[claim.id] = claim
        return tuple(judged.values())
