"""Errors of the library, and the checks that raise them before anything is computed.

A check takes the name of an argument and the value that was given, and returns the value in its proper type.

Examples
--------
>>> number("lr", 1, above=0)
1.0
>>> number("lr", -1, above=0)
Traceback (most recent call last):
    ...
neuralrace.errors.InputError: lr must be greater than 0, got -1
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from itertools import islice
from typing import Any

import numpy as np

__all__ = [
    "GraphError",
    "InputError",
    "MissingPackageError",
    "NothingToReduceError",
    "OutOfRange",
]


def __dir__() -> list[str]:
    return __all__


MOST = 1_000_000  # entries of a list
LONGEST = 4_000  # letters of a message: what a user gave may be a megabyte
LONGEST_CALL = 3600.0  # seconds by an estimate
TO_INSTALL = "in a checkout of the repository, `pip install . ./papers` installs both"


class InputError(ValueError):
    """An argument is wrong; the message names it, says what it was and what it should be."""

    def __init__(self, message: str):
        half = LONGEST // 2
        message = re.sub(r"\S{300,}", lambda word: f"{word[0][:57]}...{word[0][-20:]}", message)
        super().__init__(message if len(message) <= LONGEST else f"{message[:half]} ... {message[-half:]}")


class GraphError(InputError):
    """The nodes and edges do not form a network."""


class OutOfRange(InputError):
    """Numbers are finite, but so large or small that what is computed from them is not."""


class NothingToReduceError(InputError):
    """No open path of a task correlates an input with a target: nothing can be learned."""


class MissingPackageError(InputError, ImportError):
    """A package that is needed for this is not installed; the message says how to install it."""


def array(
    name: str, value: Any, shape: tuple[int | None, ...] | None = None, finite: bool = True
) -> np.ndarray:
    """`value` as a float64 array, finite unless that is not asked for; `shape` has None for any length."""
    refuse_masked(name, value)
    if isinstance(value, range):  # of any length, without memory of its own
        value = sequence(name, value, "numbers")
    try:
        out = np.asarray(detached(value))
    except (ValueError, TypeError, OverflowError, RecursionError, RuntimeError) as error:
        raise InputError(f"{name} must be an array of numbers, got {short(value)}") from error
    if out.dtype.kind == "V" and "float" in out.dtype.name:  # such as bfloat16 of JAX
        out = out.astype(np.float64)
    if out.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold real numbers, got {short(value)}")
    if out.dtype != np.float64:
        with np.errstate(over="ignore", invalid="ignore"):
            out = out.astype(np.float64)
    if shape is not None and (
        out.ndim != len(shape)
        or any(want not in (None, have) for want, have in zip(shape, out.shape, strict=True))
    ):
        wanted = str(tuple("any" if n is None else n for n in shape)).replace("'", "")
        raise InputError(f"{name} must have shape {wanted}, got {out.shape}")
    # A finite sum proves all entries finite without a mask as large as the data.
    with np.errstate(over="ignore", invalid="ignore"):
        if finite and not np.isfinite(out.sum()) and not np.isfinite(out).all():
            at = f" (first at {np.argwhere(~np.isfinite(out))[0].tolist()})" if out.ndim else ""
            raise InputError(f"{name} must be finite, but holds NaN or infinity{at}")
    return out


def detached(value: Any) -> Any:
    """A torch tensor without its gradient, of a type that NumPy has; anything else as it is."""
    if not hasattr(value, "detach"):
        return value
    value = value.detach().cpu()
    return value.float() if value.is_floating_point() and value.dtype.itemsize < 4 else value


def without_nan(name: str, value: Any) -> Any:
    """`value`, computed from finite numbers; refused where these were too large or too small for float64."""
    if any(np.isnan(part).any() for part in (value.values() if isinstance(value, dict) else value)):
        raise OutOfRange(f"{name} must be of sizes whose products are finite numbers; the result holds NaN")
    return value


def refuse_masked(name: str, value: Any) -> None:
    """NumPy would use the numbers behind a mask."""
    if type(value) is np.ndarray:
        return
    parts = value if isinstance(value, (list, tuple)) else (value,)
    if any(isinstance(v, np.ma.MaskedArray) and np.ma.is_masked(v) for v in parts):
        raise InputError(f"{name} must have no masked entries; fill them, or leave those samples out")


def number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> float:
    """A finite float: greater than `above`, at least `least`, less than `below`, at most `most`."""
    if type(value) not in (int, float):
        refuse_masked(name, value)
        given: Any = value
        single = getattr(given, "ndim", 1 if isinstance(given, Iterable) else 0) == 0
        if isinstance(value, bool) or not single or getattr(getattr(value, "dtype", 0), "kind", "") == "b":
            raise InputError(f"{name} must be a number, got {short(value)}")
    try:
        out = float(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a number, got {short(value)}") from error
    except OverflowError as error:
        raise InputError(f"{name} must be finite, but is too large for a float") from error
    if not math.isfinite(out):
        raise InputError(f"{name} must be finite, got {out}")
    if above is not None and out <= above:
        raise InputError(f"{name} must be greater than {above:g}, got {out:g}")
    if least is not None and out < least:
        raise InputError(f"{name} must be at least {least:g}, got {out:g}")
    if below is not None and out >= below:
        raise InputError(f"{name} must be less than {below:g}, got {out:g}")
    if most is not None and out > most:
        raise InputError(f"{name} must be at most {most:g}, got {out:g}")
    return out


def integer(name: str, value: Any, least: int = 1, most: int = 2**63 - 1) -> int:
    """`value` as an int from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(f"{name} must be a whole number, got {short(value)}")
    if value < least:
        raise InputError(f"{name} must be at least {least}, got {short(int(value))}")
    if value > most:
        raise InputError(f"{name} must be at most {most}, got {short(int(value))}")
    return int(value)


def flag(name: str, value: Any) -> bool:
    """`value` as True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be True or False, got {short(value)}")
    return bool(value)


def choice(name: str, value: Any, options: Any) -> Any:
    """`value`, which must be one of `options`."""
    if not isinstance(value, str) or value not in options:
        raise InputError(f"{name} must be one of {', '.join(options)}; got {short(value)}")
    return value


def known(name: str, given: Any, options: Any, what: str) -> None:
    """Refuse keys in `given` that are not among `options`."""
    if not isinstance(given, Mapping) and not listable(given):
        raise InputError(f"{name} must name each {what} in a list or dict, got {short(given)}")
    for key in given:
        try:
            recognised = key in options
        except TypeError:  # unhashable
            recognised = False
        if not recognised:
            raise InputError(f"{name} names {short(key)}, which is no {what}; there are {listed(options)}")


def listed(names: Iterable[Any]) -> str:
    """The first dozen of some names, for a message."""
    first = [str(name) for name in names]
    return ", ".join(first[:12]) + (", ..." if len(first) > 12 else "")


def distinct_names(name: str, given: Any, options: Any, what: str) -> tuple[str, ...]:
    """`given` as a tuple of distinct names that are among `options`."""
    given = tuple(sequence(name, given, "names"))
    known(name, given, options, what)
    return tuple(dict.fromkeys(given))


def sequence(name: str, given: Any, what: str, most: int = MOST) -> list[Any]:
    """`given` as a list, which must not be text, a dict, a single thing, or without end."""
    try:
        found = list(islice(given, most + 1)) if listable(given) else None
    except Exception:  # what a user made may do anything
        found = None
    if found is None:
        raise InputError(f"{name} must be a list of {what}, got {short(given)}")
    if len(found) > most:
        raise InputError(f"{name} must be a list of at most {most:,} {what}, got more")
    return found


def listable(given: Any) -> bool:
    """Whether something is a list, a tuple, a generator or the like, not text, a dict or a single thing."""
    single = isinstance(given, (str, bytes, Mapping)) or getattr(given, "ndim", 1) == 0
    return isinstance(given, Iterable) and not single


def need_extra(name: str, *modules: str) -> None:
    """Refuse to go on where packages of an extra of this one are not installed."""
    packages = {"sklearn": "scikit-learn"}
    missing = [packages.get(module, module) for module in modules if find_spec(module) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        what = f"{', '.join(missing)} (of the extra {name!r}) {verb} needed"
        raise MissingPackageError(f"{what}: pip install {' '.join(missing)}")


def affordable(name: str, value: Any, numbers: float) -> None:
    """Refuse what needs more than half of this machine's memory: so many float64 numbers."""
    most = memory() / 2
    if numbers * 8 > most:
        raise InputError(
            f"{name} = {short(value)} is too large: its data would take {numbers * 8 / 2**30:,.0f} GiB, "
            f"more than {most / 2**30:.0f}, half of this machine's memory"
        )


def quick(name: str, value: Any, seconds: float) -> None:
    """Refuse what would take more than an hour, by an estimate of its seconds."""
    if seconds > LONGEST_CALL:
        raise InputError(
            f"{name} must be fewer, got {short(value)}: they would take about {seconds / 3600:,.1f} hours"
        )


@cache
def memory() -> int:
    """Bytes of memory of this machine; 16 GiB where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 2**34


def short(value: Any) -> str:
    """`value` as a text that fits in a message."""
    try:
        text = repr(value)
    except Exception:  # an int of more digits than Python writes, or a broken object
        return f"a {type(value).__name__} too long to write"
    return text if len(text) <= 60 else text[:57] + "..."
