"""What decides the result of a function: its code, and every value that it uses, as short texts.

A sweep is resumed only where these are what they were, and functions of which they are equal share a compiled
program. Values are followed into closures, defaults, global variables, partial arguments and attributes of
objects; functions of installed packages are known by name. An object of the package may list what decides it
(`_decided_by`), where it holds what it has computed of that too.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import hashlib
import inspect
import os
import sys
import types
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.errors import InputError, short

INSTALLED = tuple(f"{folder}{os.sep}" for folder in (sys.prefix, sys.base_prefix, Path(__file__).parents[1]))
_LONGEST = 200  # letters of a value that is told as it is, in place of a sum of it
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented), range, slice)


def identity(function: Callable[..., Any]) -> dict[str, str]:
    """The code of a function and what it uses, each as a text; refused where something cannot be compared."""
    described = _Described()
    found = {"python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
    for name, parts in described.uses(function):
        text = "\n".join(parts)
        long = len(text) > _LONGEST or "\n" in text
        found[name] = f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}" if long else text
    return found


def key(function: Callable[..., Any] | None) -> Hashable:
    """Equal for functions of one identity; a function with none is its own."""
    if function is None:
        return None
    try:
        return tuple(identity(function).items())
    except (InputError, RecursionError):
        return function


class _Described:
    """Values as lines of text, each once."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.kept: list[Any] = []  # or the number of one that is gone could be that of another
        self.path: list[str] = []

    def uses(self, function: Any) -> Iterator[tuple[str, list[str]]]:
        """Parts of a function by name, each as lines."""
        if isinstance(function, functools.partial):
            yield from self.uses(function.func)
            for k, value in enumerate(function.args):
                yield f"argument {k}", self.lines(f"argument {k}", value)
            for name, value in function.keywords.items():
                yield name, self.lines(name, value)
        elif isinstance(function, types.FunctionType):
            self._again(function)
            yield "code", list(self._code(function.__code__))
            for name, value in _values(function):
                yield name, self.lines(name, value)
        else:
            yield "function", self.lines("function", function)

    def lines(self, name: str, value: Any) -> list[str]:
        self.path.append(name)
        found = list(self._value(value))
        self.path.pop()
        return found

    def _again(self, value: Any) -> int | None:
        """The number of a value that was described before."""
        number = self.seen.get(id(value))
        if number is None:
            self.seen[id(value)] = len(self.seen)
            self.kept.append(value)
        return number

    def _value(self, value: Any) -> Iterator[str]:
        if isinstance(value, _PLAIN) and type(value) in _PLAIN:
            yield repr(value)
        elif (number := self._again(value)) is not None:
            yield f"again {number}"
        elif isinstance(value, types.ModuleType):
            yield from self._module(value)
        elif isinstance(value, (types.FunctionType, functools.partial)):
            if isinstance(value, types.FunctionType) and _installed(value):
                yield f"{value.__module__}.{value.__qualname__}"
            else:
                for name, lines in self.uses(value):
                    yield from (f"{name}: {line}" for line in lines)
        elif isinstance(value, type):
            yield f"class {value.__module__}.{value.__qualname__}"
            if not _installed(value):
                own = [(n, _function_of(v)) for n, v in vars(value).items()]
                usual = ("__", "_abc_")  # names of Python, such as __init__ and __doc__: the functions only
                kept = [v for v in own if isinstance(v[1], types.FunctionType) or not v[0].startswith(usual)]
                slots = (types.MemberDescriptorType, types.GetSetDescriptorType)
                kept = [v for v in kept if not isinstance(v[1], slots)]
                yield from self._items([("bases", value.__bases__), *kept])
        elif (listed := getattr(type(value), "_decided_by", None)) is not None:
            yield type(value).__qualname__
            yield from self._items(enumerate(listed(value)))
        elif dataclasses.is_dataclass(value) and _installed(type(value)):  # its fields alone, likewise
            yield type(value).__qualname__
            yield from self._items((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        elif (array := _array(value)) is not None:
            numbers = hashlib.sha256(array.tobytes()).hexdigest()
            yield f"{type(value).__name__} {array.dtype} {array.shape} {numbers}"
        elif isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            yield f"{type(value).__name__} of {len(value)}"
            yield from self._items(enumerate(value))
        elif isinstance(value, (set, frozenset)):
            yield type(value).__name__
            yield from sorted(" ".join(self.lines("item", item)) for item in value)
        else:
            yield from self._object(value)

    def _items(self, items: Any) -> Iterator[str]:
        for name, value in items:
            yield from (f"{name}: {line}" for line in self.lines(str(name), value))

    def _module(self, module: types.ModuleType) -> Iterator[str]:
        """A module by its name; one of the user's own by its text and its plain values too."""
        yield f"module {module.__name__}"
        if not _installed_module(module):
            file = getattr(module, "__file__", None)
            text = "" if file is None else Path(file).read_bytes().hex()
            values = [(n, v) for n, v in vars(module).items() if not n.startswith("__")]
            yield from self._items([("text", text), *(v for v in values if type(v[1]) in _PLAIN)])

    def _object(self, value: Any) -> Iterator[str]:
        """Something else, by what would be written to copy it."""
        if hasattr(value, "__wrapped__") and _installed(type(value)):  # a compiled or cached function
            yield from self._items([(type(value).__qualname__, value.__wrapped__)])
            return
        try:
            parts = value.__reduce_ex__(4)  # the name alone, if it is a function
            parts = [list(p) if isinstance(p, Iterator) else p for p in parts]
        except Exception:
            raise InputError(
                "function must use only what can be compared with what it was before; "
                f"{self.path[0]} holds {short(value)}. Make it inside, or pass a number or a text"
            ) from None
        yield from self._items(enumerate(parts))

    def _code(self, code: types.CodeType) -> Iterator[str]:
        yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars} {code.co_flags}"
        for constant in code.co_consts:
            yield from self._code(constant) if isinstance(constant, types.CodeType) else self._value(constant)


def _values(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function uses beside its arguments: defaults, variables around it, global ones."""
    given = inspect.getfullargspec(function)
    usual = given.defaults or ()
    yield from zip(given.args[len(given.args) - len(usual) :], usual, strict=True)
    yield from (given.kwonlydefaults or {}).items()
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not set yet
            continue
    yield from (item for item in vars(function).items() if item[0] != "__wrapped__")
    yield from dict(_global_values(function.__code__, function.__globals__)).items()


def _global_values(code: types.CodeType, known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Global variables that stand in code; of the user's own modules the attributes taken from them."""
    steps = [s for s in dis.get_instructions(code) if s.opname not in ("CACHE", "PUSH_NULL", "EXTENDED_ARG")]
    name, value = "", None
    for step, after in zip(steps, [*steps[1:], steps[-1]], strict=True):
        own = isinstance(value, types.ModuleType) and not _installed_module(value)
        taken = step.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, types.ModuleType)
        if taken and own:
            name, value = f"{name}.{step.argval}", getattr(value, str(step.argval), None)
        elif not taken and step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval in known:
            name, value = str(step.argval), known[step.argval]
        else:
            name, value = "", None
        of_module = isinstance(value, types.ModuleType) and after.opname in ("LOAD_ATTR", "LOAD_METHOD")
        if name and not of_module:
            yield name, value
        if step.opname == "IMPORT_NAME":
            yield f"import {step.argval}", sys.modules.get(str(step.argval))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_values(constant, known)


def _installed_module(module: types.ModuleType) -> bool:
    name, file = module.__name__, getattr(module, "__file__", None)
    if file is None:
        return name.split(".")[0] in sys.stdlib_module_names and name != "__main__"
    return name != "__main__" and file.startswith(INSTALLED)


def _installed(value: Any) -> bool:
    """Whether something belongs to an installed package, so that its name says all of it."""
    module = sys.modules.get(str(getattr(value, "__module__", None)))
    name = getattr(value, "__qualname__", "<none>")
    return module is not None and "<" not in name and _installed_module(module)


def _function_of(value: Any) -> Any:
    """The function in a property, a class method and the like."""
    for name in ("__func__", "fget", "func"):
        value = getattr(value, name, None) or value
    return value


def _array(value: Any) -> np.ndarray | None:
    """An array of numbers of NumPy, JAX or torch; None for anything else."""
    if type(value).__module__.split(".")[0] not in ("numpy", "jax", "jaxlib", "torch"):
        return None
    if not hasattr(value, "dtype") or not hasattr(value, "__array__"):
        return None
    found = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    return None if found.dtype.hasobject else np.ascontiguousarray(found)
