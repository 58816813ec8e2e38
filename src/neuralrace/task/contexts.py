"""Contexts: rows that pass through the network under the same gates, on blocks of data that they share.

A *table* holds the distinct arrays of one shape; a *block* is a table and a place in it. Two contexts have
the same data where their blocks are equal, and many blocks are stacked by indexing their table once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

SLAB_BYTES = 2**26  # memory of this size goes back to the system as soon as it is free
Gate = float | np.ndarray


class Table:
    """Arrays of one shape, added one by one, that lie in memory as one array `(n, *shape)`."""

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape
        self._chunks: list[np.ndarray] = []
        self._free: list[np.ndarray] = []  # places of the last chunk, the next one last
        self._entries: list[np.ndarray] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, place: int) -> np.ndarray:
        return self._entries[place]

    def append(self, value: np.ndarray) -> int:
        """Copy `value` into the table and return its place."""
        if not self._free:
            count = min(max(len(self), 1), SLAB_BYTES // max(value.nbytes, 1) + 1)
            self._chunks.append(aligned_zeros((count, *self.shape)))
            self._free = list(self._chunks[-1][::-1])
        entry = self._free.pop()
        entry[...] = value
        entry.flags.writeable = False
        self._entries.append(entry)
        return len(self._entries) - 1

    @property
    def array(self) -> np.ndarray:
        """All arrays as one, `(n, *shape)`; moved side by side first where they are not."""
        if len(self._chunks) != 1 or self._free:
            self._consolidate()
        return self._chunks[0]

    def _consolidate(self) -> None:
        whole, start = aligned_zeros((len(self), *self.shape)), 0
        chunks = self._chunks[::-1]
        self._chunks, self._free, self._entries = [whole], [], []
        while chunks:  # each is let go as soon as it is copied
            chunk = chunks.pop()[: len(whole) - start]
            whole[start : start + len(chunk)] = chunk
            start += len(chunk)
        whole.flags.writeable = False
        self._entries = list(whole)


def distinct_rows(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first of all equal rows, in lexicographic order, and which of them each row is."""
    codes, size = np.zeros(len(table), int), 1
    for column in table.T:  # an order of whole rows takes ten times as long
        values, place = np.unique(column, return_inverse=True)
        if size * len(values) > 2**62:
            codes = np.unique(codes, return_inverse=True)[1].ravel()
            size = int(codes.max()) + 1
        codes, size = codes * len(values) + place.ravel(), size * len(values)
    _, first, of = np.unique(codes, return_index=True, return_inverse=True)
    return first, of.ravel()


class Block(NamedTuple):
    """One array of a table; blocks are equal where they are the same place of the same table."""

    table: Table
    place: int

    @property
    def array(self) -> np.ndarray:
        return self.table[self.place]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.table.shape


class Blocks:
    """Tables of blocks by shape."""

    def __init__(self):
        self.tables: dict[tuple[int, ...], Table] = {}

    def add(self, value: np.ndarray) -> Block:
        """A new block that holds a copy of `value`."""
        table = self.tables.setdefault(value.shape, Table(value.shape))
        return Block(table, table.append(value))

    def consolidate(self) -> None:
        """Move every table into one array, after which no more memory is needed to read them."""
        for table in self.tables.values():
            _ = table.array


class ArrayInterner:
    """Turns arrays into blocks; arrays with equal names become one block."""

    def __init__(self, name: Callable[[np.ndarray], bytes] | None = None):
        self.blocks: Blocks = Blocks()
        self.known: dict[bytes, Block] = {}
        self.name: Callable[[np.ndarray], bytes] = name or digest

    def __call__(self, value: np.ndarray) -> Block:
        key = self.name(value)
        if key not in self.known:
            self.known[key] = self.blocks.add(value)
        return self.known[key]


def stacked(blocks: Sequence[Block], rows: int) -> np.ndarray:
    """Blocks as one array `(len(blocks), rows, ...)`, with zeros appended to shorter ones."""
    table, places = blocks[0].table, [b.place for b in blocks]
    if table.shape[0] == rows and all(b.table is table for b in blocks):
        first = places[0]
        if places == list(range(first, first + len(places))):
            return table.array[first : first + len(places)]
        out = aligned_zeros((len(places), *table.shape))
        np.take(table.array, places, axis=0, out=out)
        return out
    columns = [max(sizes) for sizes in zip(*(b.shape[1:] for b in blocks), strict=True)]
    out = aligned_zeros((len(blocks), rows, *columns))
    for entry, block in zip(out, blocks, strict=True):
        entry[tuple(map(slice, block.shape))] = block.array
    return out


def digest(*parts: np.ndarray | bytes) -> bytes:
    """A fingerprint of the content of arrays."""
    h = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            h.update(str(part.shape).encode())
            part = np.ascontiguousarray(part).data
        h.update(part)
    return h.digest()


def aligned_zeros(shape: tuple[int, ...]) -> np.ndarray:
    """Zeros that `jax.device_put` can use as they are, without a copy."""
    n = prod(shape) * 8
    raw = np.zeros(n + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + n].view(np.float64).reshape(shape)


@dataclass(frozen=True)
class Context:
    """Rows that pass through the network under the same gates.

    Data is stored as blocks, so that contexts can share it. `inputs`, `targets`, `ones` and `weight` are
    the arrays themselves.

    Parameters
    ----------
    gates : dict of str to float or ndarray
        What is not 1: a number, `(size,)` for single neurons of a node, or `(rows, 1)` and `(rows, size)`
        where each row has its own.
    input_blocks, target_blocks : dict of str to Block
        Rows `(rows, size)` of each input and output. Inputs and outputs that are not listed are off.
    ones_block : Block, optional
        The constant input `(rows,)` that biases see; None where there are no biases.
    weight_block : Block, optional
        Weight of each row `(rows,)`; None for pseudo-samples, whose rows all weigh one.
    irreducible_loss : float
        The part of the loss that no weights can remove.
    """

    gates: dict[str, Gate]
    input_blocks: dict[str, Block]
    target_blocks: dict[str, Block]
    ones_block: Block | None = None
    weight_block: Block | None = None
    irreducible_loss: float = 0.0

    @property
    def rows(self) -> int:
        """Number of rows."""
        for blocks in (self.target_blocks, self.input_blocks):
            for block in blocks.values():
                return block.shape[0]
        return 0

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """Rows of each input, `(rows, size)`."""
        return {x: b.array for x, b in self.input_blocks.items()}

    @property
    def targets(self) -> dict[str, np.ndarray]:
        """Rows of each output, `(rows, size)`."""
        return {o: b.array for o, b in self.target_blocks.items()}

    @property
    def ones(self) -> np.ndarray | None:
        """The constant input of biases, `(rows,)`."""
        return None if self.ones_block is None else self.ones_block.array

    @property
    def weight(self) -> np.ndarray | None:
        """Weights of the rows, `(rows,)`."""
        return None if self.weight_block is None else self.weight_block.array

    def gate(self, name: str) -> Gate:
        """Gate of a node or edge."""
        return self.gates.get(name, 1.0)


def tidy_gates(gates: Mapping[str, Any]) -> dict[str, Gate]:
    """Gates without those that are 1, equal gates of all neurons as one number."""
    tidy: dict[str, Gate] = {}
    for name, g in gates.items():
        g = np.asarray(g, dtype=float).ravel() + 0.0  # -0 and 0 are one gate
        if (g != g[0]).any():
            tidy[name] = g
        elif g[0] != 1.0:
            tidy[name] = float(g[0])
    return tidy


def is_open(gate: Gate) -> bool:
    """Whether anything passes a gate."""
    return gate != 0 if isinstance(gate, float) else bool(np.any(gate))


def gate_bytes(gate: Gate) -> bytes:
    """The content of a gate, for comparing."""
    return np.asarray(gate).tobytes()
