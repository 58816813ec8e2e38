"""Contexts: rows that pass through the network under the same gates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace.task.blocks import Block

Gate = float | np.ndarray


@dataclass(frozen=True)
class Context:
    """Rows that pass through the network under the same gates.

    Data is stored as blocks, so that contexts can share it. `inputs`, `targets`, `ones`, `weight` and `mix`
    are the arrays themselves.

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
    mix_block : Block, optional
        Matrix to apply to the rows of an output before it is compared with its target; None: identity.
    irreducible_loss : float
        The part of the loss that no weights can remove.
    """

    gates: dict[str, Gate]
    input_blocks: dict[str, Block]
    target_blocks: dict[str, Block]
    ones_block: Block | None = None
    weight_block: Block | None = None
    mix_block: Block | None = None
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

    @property
    def mix(self) -> np.ndarray | None:
        """Matrix applied to the rows of outputs."""
        return None if self.mix_block is None else self.mix_block.array

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
