"""An edge as a user gives it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from numpy.typing import ArrayLike

from neuralrace.errors import array, short


@dataclass(frozen=True, eq=False)
class Edge:
    """An edge of a graph, in place of its pair `(source, target)`.

    Parameters
    ----------
    source, target : str
        Nodes that it joins.
    fixed : array_like, shape (target size, source size), optional
        Its weights, if they are constant: an identity skip, a fixed readout, a weight beside an adapter. They
        are not among the weights that learn.

    Examples
    --------
    >>> import numpy as np, neuralrace as nr
    >>> skip = nr.Edge("x", "h2", fixed=np.eye(3))
    >>> nr.Graph({"x": 3, "h1": 5, "h2": 3, "y": 1}, [("x", "h1"), ("h1", "h2"), skip, ("h2", "y")])
    Graph(4 nodes, 4 edges, 1 of them fixed, 2 paths, inputs x, outputs y)
    """

    source: str
    target: str
    fixed: ArrayLike | None = None

    def __post_init__(self) -> None:
        if self.fixed is not None:
            fixed = array(
                f"fixed of {short(self.source)} -> {short(self.target)}", self.fixed, (None, None)
            ).copy()
            fixed.flags.writeable = False
            object.__setattr__(self, "fixed", fixed)

    def __iter__(self) -> Iterator[str]:
        return iter((self.source, self.target))
