"""The network at a saved time: its weights, in full or in small spaces, computed when they are asked for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from neuralrace.lowrank.layout import Arrays
from neuralrace.lowrank.linalg import transport
from neuralrace.lowrank.network import ReducedNetwork


class Saved(NamedTuple):
    """A time, the network in its bases then, and its coordinates.

    `projected` says whether the outputs that the bases see are good enough to stand for the network's.
    """

    t: float
    net: ReducedNetwork
    y: np.ndarray
    projected: bool

    def change(self, e: str) -> np.ndarray:
        """The change of an edge's weights since the start, lifted from the bases."""
        net, n = self.net, self.net.split(self.y)[e]
        s, t = net.ends[e]
        n = net.backward.basis[t].T @ n if t in net.backward.basis else n
        return n @ net.forward.basis[s] if s in net.forward.basis else n

    def small_weights(self) -> Arrays:
        """Weights between the spaces that the inputs span at each node.

        Products along paths from the inputs are those of the network, or, where `projected`, those that the
        bases see at nodes where they hold all signals of the inputs.
        """
        net = self.net
        layout, forward, backward = net.layout, net.forward, net.backward
        complete = layout.complete if self.projected else set()
        small, typed = net.split(self.y), net.split(self.y.astype(net.dtype))
        weights: Arrays = {}
        spaces: Arrays = {}
        for v in layout.order:
            arriving, wide = {}, v in layout.input_dims
            for e in backward.out[v]:
                s = net.ends[e][0]
                if s in layout.input_dims and s not in complete:
                    gained = typed[e] @ (forward.basis[s] @ spaces[s].T)
                    gained = backward.basis[v].T @ gained if wide else gained
                    arriving[e] = transport(net.weights[e], spaces[s]).T + gained
                    continue
                if wide and v not in complete:
                    w = forward.image[e].T + backward.basis[v].T @ typed[e]
                else:
                    w = forward.own[e] + (forward.overlap[v] @ small[e] if wide else small[e])
                arriving[e] = w @ spaces[s].T if s in spaces else w
            if wide:
                rows = np.concatenate(list(arriving.values()), axis=1)
                size, dims = len(rows), layout.input_dims[v]
                q = np.linalg.qr(rows)[0] if size > dims else np.eye(size, dims)
                arriving = {e: q.T @ a for e, a in arriving.items()}
                spaces[v] = np.ascontiguousarray(q.T)
            weights |= {e: a if net.ends[e][0] else a[:, 0] for e, a in arriving.items()}
        return weights
