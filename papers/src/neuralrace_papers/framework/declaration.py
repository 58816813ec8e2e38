"""What an experiment declares: parts that are computed and stored, figures, and rows.

    @part
    def networks(p): ...                       # -> xarray.Dataset, or a dict of ("run t", array)

    @part(each="depths")
    def deeper(p, depth): ...                  # once for each value of the parameter `depths`

    @figure("losses")
    def losses(p, data): ...                   # -> figure, caption

    @rows
    def times(p, data):
        yield "half-time", data.networks.half      # a number, or one number for each run

Results are found by the name of their part: `data.networks` is a dataset, `data.deeper[3]` that for depth 3.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from neuralrace.errors import InputError
from neuralrace_papers.framework.ledger import Row
from neuralrace_papers.framework.parameters import changed
from neuralrace_papers.framework.store import Store, Taken

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Each = str | Sequence[Any] | Callable[[Any], Iterable[Any]]


class Data:
    """Results of the parts that have been computed, by name."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no part named {name!r} has been computed; there are {', '.join(vars(self))}")


@dataclass(frozen=True)
class Part:
    """A function whose result is stored; it may still be called as the function it is."""

    function: Callable[..., Any]
    each: Each | None = None
    threads: int | Callable[[Any], int] = 1

    @property
    def name(self) -> str:
        return self.function.__name__

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.function(*args, **keywords)

    def items(self, p: Any) -> list[Any]:
        """Items for which the part is computed."""
        if isinstance(self.each, str):
            return list(getattr(p, self.each))
        return list(self.each(p) if callable(self.each) else self.each or ())

    def compute(self, p: Any, data: Data, store: Store, progress: Callable[..., Any]) -> Any:
        """The result, or results by item, computed or as stored."""
        import jax

        more = {"data": data} if "data" in inspect.signature(self.function).parameters else {}

        def run(*item: Any) -> Any:
            with jax.default_matmul_precision("highest"):  # else GPUs multiply float32 matrices with ten bits
                return self.function(p, *item, **more)

        if self.each is None:
            return store(self.name, run)
        items = self.items(p)

        def one(item: Any, wait: bool = False) -> Any:
            try:
                return store(f"{self.name}-{item}", lambda: run(item), wait)
            except Taken:
                return None

        threads = self.threads(p) if callable(self.threads) else self.threads
        with ThreadPoolExecutor(threads) as pool:
            results = map(one, items) if threads == 1 else pool.map(one, items)
            try:
                found = dict(zip(items, progress(results, self.name, len(items)), strict=True))
                # None where another process was computing it: comes last.
                return {item: one(item, True) if r is None else r for item, r in found.items()}
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


@overload
def part(function: Callable[..., Any]) -> Part: ...
@overload
def part(
    *, each: Each | None = None, threads: int | Callable[[Any], int] = 1
) -> Callable[[Callable[..., Any]], Part]: ...
def part(
    function: Callable[..., Any] | None = None,
    *,
    each: Each | None = None,
    threads: int | Callable[[Any], int] = 1,
) -> Part | Callable[[Callable[..., Any]], Part]:
    """Declare a stored part of an experiment.

    Parameters
    ----------
    each : str, sequence or function of the parameters, optional
        Items for each of which the part is computed and stored by itself: the name of a parameter, or the
        items. The function takes the item after the parameters. A function that has an argument `data` gets
        the results of the parts before it.
    threads : int or function of the parameters
        Items side by side; worth having where they compile for long.
    """
    return Part(function) if function else lambda f: Part(f, each, threads)


@dataclass(frozen=True)
class Drawing:
    """A function that draws a figure, with its name."""

    function: Callable[[Any, Data], tuple[Figure, str]]
    name: str


def figure(name: str) -> Callable[[Callable[[Any, Data], tuple[Figure, str]]], Drawing]:
    """Declare a figure: a function of parameters and results that returns it with its caption."""
    return lambda function: Drawing(function, name)


@dataclass(frozen=True)
class Rows:
    """A function that yields what was measured."""

    function: Callable[[Any, Data], Iterable[tuple[str, Any]]]


def rows(function: Callable[[Any, Data], Iterable[tuple[str, Any]]]) -> Rows:
    """Declare rows: a function of parameters and results that yields ids, each with a number.

    In place of a number there may be an array with one number for each run. An id is words joined by hyphens;
    what it means, and what it should be, stands in the ledger of the document.
    """
    return Rows(function)


T = TypeVar("T", Part, Drawing, Rows)


@dataclass(frozen=True)
class Experiment:
    """An experiment: its parameters, and what the module of these declares.

    Parameters
    ----------
    name, title : str
        How it is called; what it shows.
    source : str
        Document and figure.
    parameters : dataclass
        Of the full form, with published settings.
    quick : dict
        Parameters that differ in the small form.
    minutes : tuple of float
        How long the quick and the full form take on two cores.
    """

    name: str
    title: str
    source: str
    parameters: Any
    quick: dict[str, Any]
    minutes: tuple[float, float]

    @property
    def module(self) -> ModuleType:
        """The module that declares parts, figures and rows."""
        return sys.modules[type(self.parameters).__module__]

    def declared(self, kind: type[T]) -> list[T]:
        """Parts, drawings or rows in the order in which the module defines them."""
        own = self.module.__name__
        return [v for v in vars(self.module).values() if isinstance(v, kind) and v.function.__module__ == own]

    def chosen(self, quick: bool, changes: dict[str, Any]) -> Any:
        """The parameters of a run; refused where one is wrong."""
        try:
            return changed(self.parameters, {**(self.quick if quick else {}), **changes})
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None

    def compute(self, p: Any, store: Store, progress: bool = False) -> Data:
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

    def figures(self, p: Any, data: Data) -> dict[str, tuple[Figure, str]]:
        """Figures with their captions, by name."""
        return {drawing.name: drawing.function(p, data) for drawing in self.declared(Drawing)}

    def rows(self, p: Any, data: Data) -> dict[str, Row]:
        """What was measured, by id."""
        found: dict[str, Row] = {}
        for id, measured in (row for declared in self.declared(Rows) for row in declared.function(p, data)):
            if id in found:
                raise InputError(f"{self.name}: two rows have the id {id!r}")
            found[id] = Row.of(id, measured)
        return found
