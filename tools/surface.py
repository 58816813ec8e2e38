#!/usr/bin/env python3
"""Every public name with its arguments, a line each; the test of the surface compares them with those stored.

python tools/surface.py > tests/stored/surface.txt
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import neuralrace as nr


def lines() -> list[str]:
    """The names of `nr`, those of its modules, and the methods and attributes of its classes."""
    found = list(_members("nr", nr))
    for name in nr.__all__:
        if isinstance(module := getattr(nr, name), ModuleType):
            found += _members(f"nr.{name}", module)
    return found


def _members(prefix: str, module: ModuleType) -> Iterator[str]:
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            continue
        yield f"{prefix}.{name}{_arguments(value)}"
        if inspect.isclass(value) and not issubclass(value, BaseException):
            yield from (f"{prefix}.{name}.{line}" for line in _attributes(value))


def _attributes(value: type) -> Iterator[str]:
    """Methods, properties and fields that a class or its parents in the package define."""
    own = [c for c in value.__mro__ if c.__module__.startswith("neuralrace")]
    fields = {name for c in own for name in inspect.get_annotations(c)}
    for name in sorted(fields | {name for c in own for name in vars(c)}):
        if not name.startswith("_"):
            yield f"{name}{_arguments(inspect.getattr_static(value, name, None))}"


def _arguments(value: Any) -> str:
    """The arguments of a function, without their types."""
    value = inspect.unwrap(getattr(value, "__func__", value))
    made = inspect.isclass(value) and not issubclass(value, enum.Enum)
    if not (made or inspect.isfunction(value)):
        return ""
    try:
        signature = inspect.signature(value)
    except ValueError:  # of a built-in type
        return ""
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    shown = str(signature.replace(parameters=plain, return_annotation=signature.empty))
    return re.sub(r"<(?:function|class|module) '?([\w.]+)[^>]*>", r"\1", shown)


if __name__ == "__main__":
    print(*lines(), sep="\n")
