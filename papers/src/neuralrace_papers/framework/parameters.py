"""Parameters of experiments: plain frozen dataclasses, read from texts and checked before anything runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from neuralrace.errors import InputError, choice, integer, known, number


def require(condition: Any, message: str) -> None:
    """Refuse parameters that do not fit together, with a message that names them."""
    if not condition:
        raise InputError(message)


def meanings(kind: type) -> dict[str, str]:
    """What each parameter of a dataclass sets: the text in its `Annotated`."""
    return {name: text for name, (_, text) in _kinds(kind).items()}


def changed(parameters: Any, changes: Mapping[str, Any]) -> Any:
    """Parameters with some replaced; texts are read as the parameter's type, and every value is checked.

    A number must be positive where its usual value is, and at least 0 where that is 0; of a tuple that is the
    smallest usual entry.

    Examples
    --------
    >>> @dataclasses.dataclass(frozen=True)
    ... class Some:
    ...     seeds: Annotated[int, "random starts"] = 10
    ...     scales: Annotated[tuple[float, ...], "sizes of the start"] = (0.1, 1.0)
    >>> changed(Some(), {"seeds": "3", "scales": "1,2"})
    Some(seeds=3, scales=(1.0, 2.0))
    >>> changed(Some(), {"seeds": 0})
    Traceback (most recent call last):
        ...
    neuralrace.errors.InputError: seeds must be at least 1, got 0
    """
    kinds = _kinds(type(parameters))
    known("parameters", changes, kinds, "parameter of this experiment")
    values = {n: _value(n, kinds[n][0], v, getattr(parameters, n)) for n, v in changes.items()}
    return dataclasses.replace(parameters, **values)


def _kinds(kind: type) -> dict[str, tuple[Any, str]]:
    """Type and meaning of each parameter."""
    hints = get_type_hints(kind, include_extras=True)
    found = {f.name: hints[f.name] for f in dataclasses.fields(kind)}
    return {n: get_args(h)[:2] if get_origin(h) is Annotated else (h, "") for n, h in found.items()}


def _value(name: str, kind: Any, value: Any, usual: Any) -> Any:
    if get_origin(kind) is tuple:
        entry = get_args(kind)[0]
        if isinstance(value, str):
            value = [text.strip() for text in value.strip("()[], ").split(",") if text.strip()]
        if not isinstance(value, (tuple, list)) or not value:
            raise InputError(f"{name} must be a list of at least one value, got {value!r}")
        return tuple(_value(name, entry, v, min(usual)) for v in value)
    if get_origin(kind) is Literal:
        return choice(name, value, get_args(kind))
    if kind is str:
        require(isinstance(value, str), f"{name} must be text, got {value!r}")
        return value
    if kind is bool:
        value = {"true": True, "false": False}.get(str(value).lower(), value)
        require(isinstance(value, bool), f"{name} must be true or false, got {value!r}")
        return value
    if isinstance(value, str):
        value = _read(name, kind, value)
    if kind is int:
        return integer(name, value, least=min(1, usual) if usual >= 0 else -(2**63))
    return number(name, value, **({"above": 0} if usual > 0 else {"least": 0} if usual == 0 else {}))


def _read(name: str, kind: Any, text: str) -> Any:
    try:
        return kind(text.replace("_", "?"))  # Python reads 1_0 as 10
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise InputError(f"{name} must be {what}, got {text!r}") from None
