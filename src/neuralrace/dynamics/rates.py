"""Learning rates, weight decay and frozen edges: how fast each weight learns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from neuralrace.errors import InputError, known, number, sequence, short
from neuralrace.graph import Graph


@dataclass(frozen=True)
class Rates:
    r"""Learning rates and weight decay.

    Learning follows $\dot W = -\text{scale}\, (\partial L/\partial W + \text{decay}\; W)$.

    Parameters
    ----------
    decay : float or dict, optional
        Weight decay: a number for all weights, or one for some edges and biases.
    scale : dict, optional
        Learning rates of some edges and biases, relative to the others.
    frozen : names, optional
        Edges and biases that do not learn: their rate is 0.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.tasks.xor()
    >>> rates = nr.Rates(decay=0.01, frozen=("p0h1->y",))
    >>> w = nr.flow(task, nr.init.gaussian(task.graph, 0.1), 5.0, 3, rates=rates).weights["p0h1->y"]
    >>> bool((w == w[0]).all())
    True
    """

    decay: float | Mapping[str, float] = 0.0
    scale: Mapping[str, float] = field(default_factory=dict)
    frozen: Iterable[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.scale, Mapping):
            raise InputError(f"scale must be a dict from edges to learning rates, got {short(self.scale)}")
        frozen = (self.frozen,) if isinstance(self.frozen, str) else sequence("frozen", self.frozen, "edges")
        object.__setattr__(self, "decay", _checked("decay", self.decay))
        object.__setattr__(self, "scale", _checked("scale", self.scale))
        object.__setattr__(self, "frozen", tuple(frozen))

    @classmethod
    def check(cls, given: Any, graph: Graph) -> Rates:
        """The argument `rates` of a function, whose names must be those of a graph; None changes nothing."""
        given = cls() if given is None else given
        if not isinstance(given, cls):
            raise InputError(f"rates must be nr.Rates(...), got {short(given)}")
        decay = given.decay if isinstance(given.decay, Mapping) else {}
        for name, names in (("decay", decay), ("scale", given.scale), ("frozen", given.frozen)):
            known(name, names, graph.shapes, "edge or bias that learns")
        return given

    def of(self, name: str) -> tuple[float, float]:
        """Learning rate and weight decay of an edge or bias."""
        decay = self.decay.get(name, 0.0) if isinstance(self.decay, Mapping) else self.decay
        return 0.0 if name in self.frozen else self.scale.get(name, 1.0), decay

    def scales(self, graph: Graph) -> dict[str, float]:
        """The learning rate of each edge and bias of a graph: 0 for fixed edges."""
        return {n: 0.0 if n in graph.fixed else self.of(n)[0] for n in (*graph.edges, *graph.biases)}

    def decays(self, graph: Graph) -> bool:
        """Whether any weight of a graph decays."""
        return any(scale * decay > 0 for scale, decay in map(self.of, graph.shapes))

    def vectors(self, graph: Graph, dtype: Any) -> tuple[Any, Any]:
        """Learning rates and decays over the flat weights of a graph; None where they change nothing."""

        def flat(k: int, usual: float) -> np.ndarray | None:
            values = {name: self.of(name)[k] for name in graph.shapes}
            if all(v == usual for v in values.values()):
                return None
            return graph.flatten({e: np.full(s, values[e]) for e, s in graph.shapes.items()}).astype(dtype)

        return flat(0, 1.0), flat(1, 0.0)

    def settings(self, graph: Graph) -> dict[str, Any]:
        """What a result says of them."""
        each = {name: self.of(name) for name in graph.shapes}
        return {
            "lr_scale": {name: scale for name, (scale, _) in each.items() if scale != 1},
            "weight_decay": {name: decay for name, (_, decay) in each.items() if decay},
            "frozen": list(self.frozen),
        }


def _checked(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {e: number(f"{name}[{e!r}]", v, least=0) for e, v in value.items()}
    return number(name, value, least=0)
