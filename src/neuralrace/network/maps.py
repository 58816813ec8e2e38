"""Maps that contexts share: a way to compile many contexts that differ in their data only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from neuralrace.graph import Graph
from neuralrace.task.contexts import Block, Blocks, Context, gate_bytes


def shared_maps(graph: Graph, contexts: Sequence[Context]) -> list[Context]:
    """Propagate the map from inputs to nodes, instead of rows, where that is less work.

    Contexts that differ in their data but not in the gates of hidden nodes then share one map, whose
    rows are unit vectors; each context's own rows are mixed in at its outputs.
    """
    late = {e for o in graph.outputs for e in graph.incoming[o]} | set(graph.outputs)
    groups: dict[tuple[str, ...], list[int]] = {}
    for k, c in enumerate(contexts):
        groups.setdefault(tuple(c.input_blocks), []).append(k)
    out = list(contexts)
    for xs, members in groups.items():
        distinct: dict[Any, int] = {}
        for k in members:
            c = contexts[k]
            gates = tuple((n, gate_bytes(g)) for n, g in sorted(c.gates.items()) if n not in late)
            distinct[gates, _data(c)] = c.rows
        sizes = [graph.nodes[x] for x in xs] + ([1] if graph.biases else [])
        width, maps = sum(sizes), len({gates for gates, _ in distinct})
        if width and maps * width < sum(distinct.values()):
            mapped = _map_rows(graph, [contexts[k] for k in members], xs, sizes)
            for k, c in zip(members, mapped, strict=True):
                out[k] = c
    return out


def _data(c: Context) -> tuple[Block | None, ...]:
    """The blocks that come into a context."""
    return (*c.input_blocks.values(), c.ones_block)


def _map_rows(graph: Graph, contexts: list[Context], xs: tuple[str, ...], sizes: list[int]) -> list[Context]:
    """Contexts with unit vectors as inputs, and their own rows as the mix at the outputs."""
    blocks, mixes = Blocks(), {}
    units = np.split(np.eye(sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
    ones = blocks.add(units.pop()[:, 0]) if graph.biases else None
    inputs = {x: blocks.add(u) for x, u in zip(xs, units, strict=True)}
    for c in contexts:
        if _data(c) not in mixes:
            rows = [*c.inputs.values(), *([] if c.ones is None else [c.ones[:, None]])]
            mixes[_data(c)] = blocks.add(np.concatenate(rows, axis=1))
    return [replace(c, input_blocks=inputs, ones_block=ones, mix_block=mixes[_data(c)]) for c in contexts]
