"""Parameters of experiments that are not plain dataclasses yet."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Self, dataclass_transform, get_args, get_origin, get_type_hints

from neuralrace.errors import InputError, choice, integer, known, number
from neuralrace_papers.framework.declaration import Experiment
from neuralrace_papers.framework.parameters import require

__all__ = ["Experiment", "Parameters", "option", "require"]


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
