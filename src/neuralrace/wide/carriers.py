"""How signals travel through initial weights between the frames of wide nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Rows = dict[str, np.ndarray]


class Carrier:
    """What reaches one node through the initial weights, in one context, and what its frame sees of it.

    Blocks by the node where columns start: as they arrive (size, k), in the frame, and in random directions.
    """

    def __init__(self, omega: np.ndarray) -> None:
        self.omega = omega
        self.blocks: dict[str, Any] = {}
        self.reach: list[str] = []
        self.seen = self.sketch = np.zeros((0, 0))

    def arrive(self, start: str, columns: np.ndarray, frame: np.ndarray | None) -> None:
        small = columns if frame is None else frame.T @ columns
        new = columns, small.astype(float), (self.omega @ columns).astype(float)
        old = self.blocks.get(start)
        self.blocks[start] = (
            new if old is None else tuple(np.concatenate(p, 1) for p in zip(old, new, strict=True))
        )

    def grow(self, u: np.ndarray) -> None:
        """The frame sees more."""
        self.blocks = {
            k: (c, np.concatenate([s, (u.T @ c).astype(float)]), o) for k, (c, s, o) in self.blocks.items()
        }

    def turn(self, q: np.ndarray) -> None:
        """The frame is another one within its span."""
        self.blocks = {k: (c, q.T @ s, o) for k, (c, s, o) in self.blocks.items()}

    def settle(self, frame: np.ndarray | None) -> None:
        self.reach = list(self.blocks)
        self.seen = np.concatenate([s for _, s, _ in self.blocks.values()], axis=1)
        if frame is not None:
            whole = np.concatenate([o for _, _, o in self.blocks.values()], axis=1)
            self.sketch = whole - (self.omega @ frame) @ self.seen

    def gather(self, injected: Rows) -> np.ndarray:
        return np.concatenate([injected[k] for k in self.reach], axis=1)

    def outside(self, injected: Rows, frame: np.ndarray) -> np.ndarray:
        v = sum(injected[k].astype(c.dtype) @ c.T for k, (c, _, _) in self.blocks.items())
        return v - (v @ frame) @ frame.T


class Side:
    """Signals of one direction: its frames see them, and they start in the frames of the other direction."""

    def __init__(
        self, ends: Mapping[str, tuple[str, str]], order: list[str], weights: Any, sizes: Any
    ) -> None:
        self.ends, self.order, self.weights, self.sizes = ends, order, weights, sizes
        self.frames: dict[str, np.ndarray] = {}
        self.archive: dict[str, np.ndarray] = {}  # all that a frame ever held
        self.places: dict[str, np.ndarray] = {}  # the frame in the archive
        self.carriers: list[dict[str, Carrier]] = []
        self.routes: list[dict[str, list[tuple[str, str, Any]]]] = []  # edges into a node, starts, gates
        self.gates: list[Mapping[str, Any]] = []

    def store(self, v: str, u: np.ndarray) -> None:
        """Put new columns of a frame into the archive, as far as it does not have them."""
        old = self.archive[v]
        inside = old.T @ u
        rest, r = np.linalg.qr(u - old @ inside)
        rest, r = rest[:, : len(old) - old.shape[1]], r[: len(old) - old.shape[1]]
        self.archive[v] = np.concatenate([old, rest], axis=1)
        n, k = self.places[v].shape
        places = np.zeros((n + len(r), k + u.shape[1]))
        places[:n, :k], places[:n, k:], places[n:, k:] = self.places[v], inside, r
        self.places[v] = places

    def width(self, v: str) -> int:
        return self.frames[v].shape[1] if v in self.frames else self.sizes[v]

    def inject(self, new: Rows) -> None:
        """Send columns (size, k) that start at some nodes through the initial weights, in all contexts."""
        moving: list[dict[str, Rows]] = [{} for _ in self.carriers]
        for v in self.order:
            here: list[Rows] = [{v: new[v]} if v in new and new[v].shape[1] else {} for _ in moving]
            for e in {e: None for routes in self.routes for e, _, _ in routes.get(v, ())}:
                self._carry(e, v, moving, here)
            for carriers, gates, columns, found in zip(self.carriers, self.gates, moving, here, strict=True):
                if v in carriers and found:
                    gate = gates.get(v, 1.0)
                    gate = gate[:, None] if np.ndim(gate) else gate
                    columns[v] = {k: times(gate, c) for k, c in found.items()}
                    for k, c in columns[v].items():
                        carriers[v].arrive(k, c, self.frames.get(v))

    def _carry(self, e: str, v: str, moving: list[dict[str, Rows]], here: list[Rows]) -> None:
        """Columns through an edge to v in one product, and once what is the same in several contexts."""
        s, w = self.ends[e][0], self.weights[e]
        gates = [next((x for name, _, x in routes.get(v, ()) if name == e), 0.0) for routes in self.routes]
        sent = [m.get(s, {}) if np.any(x) else {} for m, x in zip(moving, gates, strict=True)]
        distinct = {id(c): c for parts in sent for c in parts.values()}
        if not distinct:
            return
        block = np.concatenate(list(distinct.values()), axis=1)
        block = w[:, None] * block if w.ndim == 1 else w @ block
        cuts = np.cumsum([c.shape[1] for c in distinct.values()])[:-1]
        through = dict(zip(distinct, np.split(block, cuts, axis=1), strict=True))
        for parts, gate, found in zip(sent, gates, here, strict=True):
            for k, c in parts.items():
                part = times(gate, through[id(c)])
                found[k] = found[k] + part if k in found else part

    def settle(self) -> None:
        for carriers in self.carriers:
            for v, carrier in carriers.items():
                carrier.settle(self.frames.get(v))

    def sweep(self, k: int, start: Rows, w: Rows) -> tuple[Rows, Rows]:
        """What is injected at every node, and what its frame then sees, in context k."""
        injected, seen = {}, {}
        for v, carrier in self.carriers[k].items():
            total = start.get(v)
            for e, s, gate in self.routes[k][v]:
                part = times(gate, seen[s] * w[e] if w[e].ndim == 1 else seen[s] @ w[e])
                total = part if total is None else total + part
            injected[v] = total
            seen[v] = carrier.gather(injected) @ carrier.seen.T
        return injected, seen


def times(gate: Any, v: Any) -> Any:
    return v if isinstance(gate, float) and gate == 1.0 else gate * v
