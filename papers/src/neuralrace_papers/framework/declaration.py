"""What an experiment declares: parts that are computed and stored, figures, and claims.

    @part
    def networks(p): ...                       # -> xarray.Dataset, or a dict of ("run t", array)

    @part(each="depths")
    def deeper(p, depth): ...                  # once for each value of the parameter `depths`

    @figure("losses")
    def losses(p, data): ...                   # -> figure, caption

    @claims
    def times(p, data):
        yield paper("Eq. 3", "a quoted sentence").near("half-time", ..., data.networks.half, ...)

Results are found by the name of their part: `data.networks` is a dataset, `data.deeper[3]` that for depth 3.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from neuralrace_papers.framework.claim import Claim
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
class Statements:
    """A function that yields claims."""

    function: Callable[[Any, Data], Iterable[Claim]]


def claims(function: Callable[[Any, Data], Iterable[Claim]]) -> Statements:
    """Declare claims: a function of parameters and results that yields them."""
    return Statements(function)
