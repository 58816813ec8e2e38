"""Errors of the library, and the checks that raise them before anything is computed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class InputError(ValueError):
    """An argument is wrong; the message names it, says what it was and what it should be."""


class GraphError(InputError):
    """The nodes and edges do not form a network."""


def array(name: str, value: Any, shape: tuple[int | None, ...] | None = None) -> np.ndarray:
    """`value` as a finite float64 array; `shape` with None where any length will do."""
    try:
        out = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} must be an array of numbers, got {_short(value)}") from error
    if out.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold real numbers, got {_short(value)}")
    out = out.astype(np.float64, copy=False)
    if shape is not None and (
        out.ndim != len(shape)
        or any(want not in (None, have) for want, have in zip(shape, out.shape, strict=True))
    ):
        wanted = (
            "(" + ", ".join("any" if n is None else str(n) for n in shape) + ("," * (len(shape) == 1)) + ")"
        )
        raise InputError(f"{name} must have shape {wanted}, got {out.shape}")
    # A finite sum proves all entries finite without a mask as large as the data.
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(out.sum()) and not np.isfinite(out).all():
            raise InputError(f"{name} must be finite, but holds NaN or infinity")
    return out


def number(name: str, value: Any, *, above: float | None = None, least: float | None = None) -> float:
    """`value` as a finite float, greater than `above` and at least `least`."""
    try:
        if isinstance(value, (str, bytes, bool)) or (not np.isscalar(value) and np.ndim(value) != 0):
            raise TypeError("no number")
        out = float(value)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a number, got {_short(value)}") from error
    except OverflowError as error:
        raise InputError(f"{name} must be finite, but is too large for a float") from error
    if not math.isfinite(out):
        raise InputError(f"{name} must be finite, got {out}")
    if above is not None and out <= above:
        raise InputError(f"{name} must be greater than {above:g}, got {out:g}")
    if least is not None and out < least:
        raise InputError(f"{name} must be at least {least:g}, got {out:g}")
    return out


def integer(name: str, value: Any, least: int = 1, most: int = 2**63 - 1) -> int:
    """`value` as an int from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(f"{name} must be a whole number, got {_short(value)}")
    if value < least:
        raise InputError(f"{name} must be at least {least}, got {_short(value)}")
    if value > most:
        raise InputError(f"{name} must be at most {most}, got {_short(value)}")
    return int(value)


def boolean(name: str, value: Any) -> bool:
    """`value` as True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be true or false, got {_short(value)}")
    return bool(value)


def choice(name: str, value: Any, options: Any) -> Any:
    """`value`, which must be one of `options`."""
    if not isinstance(value, str) or value not in options:
        raise InputError(f"{name} must be one of {', '.join(options)}; got {_short(value)}")
    return value


def known(name: str, given: Any, options: Any, what: str) -> None:
    """Refuse keys in `given` that are not among `options`."""
    for key in given:
        if key not in options:
            listed = ", ".join(str(o) for o in list(options)[:12])
            more = ", ..." if len(options) > 12 else ""
            raise InputError(f"{name} names {key!r}, which is no {what}; there are {listed}{more}")


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # an int of thousands of digits
        return f"a {type(value).__name__} that is too long to show"
    return text if len(text) <= 60 else text[:57] + "..."
