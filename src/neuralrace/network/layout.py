"""How products, gates and blocks are laid out so that little is copied and padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralrace.task.contexts import Block, Context, Gate, stacked

_MOST = 4  # products in a block of all edges and items, for each that is wanted
_ROOM = 1_000_000  # numbers that such a block may have as outputs


def layout(
    edge: np.ndarray, place: np.ndarray, n_edges: int, n_places: int, shape: tuple[int, ...], width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrange products (edge, item) in blocks so that little is copied and padded.

    Either each block has one edge and its items, or one item and its edges, or a block is one product; or
    there is one block of all edges and all items, of whose products many are wanted.
    Returns the edges (blocks, k), items (blocks, j) and, for each product in that order, its number in the
    list given (-1 where it only pads).
    """
    t, s = shape if len(shape) == 2 else (1, *shape)
    options = []
    for by, other, swap in ((edge, place, False), (place, edge, True)):
        heads, counts = np.unique(by, return_counts=True)
        most = counts.max()
        order = np.full((len(heads), most), -1)
        order[np.arange(most) < counts[:, None]] = np.argsort(by, kind="stable")
        tails = np.append(other, np.int32(0))[order]
        w, a = (tails, heads[:, None]) if swap else (heads[:, None], tails)
        options.append((w, a, order.ravel()))
    options.append((edge[:, None], place[:, None], np.arange(len(edge))))
    pairs = n_edges * n_places
    if pairs <= _MOST * len(edge) and pairs * t * width <= _ROOM:
        order = np.full((n_edges, n_places), -1)
        order[edge, place] = np.arange(len(edge))
        if np.count_nonzero(order >= 0) == len(edge):  # no pair twice, with different gates
            whole = np.arange(n_edges, dtype=np.int32)[None], np.arange(n_places, dtype=np.int32)[None]
            options.append((*whole, order.ravel()))

    def cost(option: tuple[np.ndarray, np.ndarray, np.ndarray]) -> float:
        w, a, order = option
        copied = 0 if is_plain(w, n_edges) else w.size * t * s
        copied += 0 if is_plain(a, n_places) else a.size * s * width
        return len(order) * t * width * (s + 16) + 8 * copied  # outputs are gathered, and spread backwards

    return min(options, key=cost)


def is_plain(index: np.ndarray, n: int) -> bool:
    """Whether an index just lists all n in order."""
    return index.size == n and bool((index.ravel() == np.arange(n)).all())


def runs(target: np.ndarray, items: int) -> np.ndarray | int | None:
    """Which item each product feeds: None for one each, m where m in a row feed one item."""
    if is_plain(target, items):
        return None
    m, odd = divmod(len(target), items)
    if not odd and (target == np.repeat(np.arange(items), m)).all():
        return m
    return target


def common_gate(gates: list[Gate], width: int) -> np.ndarray | None:
    """Gates as one array (n, 1 or rows, 1 or size), None where all are 1."""
    if all(np.ndim(g) == 0 and g == 1.0 for g in gates):
        return None
    if all(np.ndim(g) == 0 for g in gates):
        return np.array(gates, dtype=float)[:, None, None]
    full = [np.atleast_2d(np.asarray(g, dtype=float)) for g in gates]
    full = [_padded(g, width) if len(g) > 1 else g for g in full]
    return np.stack(np.broadcast_arrays(*full))


def _padded(rows: Any, width: int) -> np.ndarray:
    """Rows of zeros appended: they carry no input, no target and no weight."""
    out = np.zeros((width, *rows.shape[1:]))
    out[: len(rows)] = rows
    return out


def distinct(blocks: Sequence[Block], width: int) -> tuple[np.ndarray | None, np.ndarray]:
    """Each distinct block once, padded to `width` rows, and which one each place has (None: in order)."""
    first = {block: k for k, block in enumerate(dict.fromkeys(blocks))}
    index = np.array([first[b] for b in blocks], np.int32)
    return (None if is_plain(index, len(first)) else index), stacked(list(first), width)


def width_of(c: Context) -> int:
    """Rows that run through the network for a context."""
    return c.rows if c.mix_block is None else c.mix_block.shape[1]


def buckets(sizes: set[int]) -> dict[int, int]:
    """Few row counts instead of many: sizes within a factor of two are padded to the largest."""
    most: dict[int, int] = {}
    for n in sizes:
        most[n.bit_length()] = max(n, most.get(n.bit_length(), 0))
    return {n: max(1, most[n.bit_length()]) for n in sizes}
