"""How far a ReLU network is from the conditions under which its reduction is exact."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuralrace.errors import InputError, array
from neuralrace.graph import Graph
from neuralrace.measure import unit_sizes
from neuralrace.network import activity
from neuralrace.reduction import reduce
from neuralrace.relu.patterns import nearest_pattern
from neuralrace.relu.training import ReluNetwork, check_network
from neuralrace.task import Task


def reduction_conditions(net: ReluNetwork, patterns: Any) -> dict[str, np.ndarray]:
    """How far ReLU networks are from what makes the reduction to gated pathways exact.

    A unit belongs to the pathway with which its last gates agree on most samples, and counts by its size at
    the time (`nr.unit_sizes`).

    Parameters
    ----------
    net : ReluNetwork
        Several networks with one hidden layer and no biases, as `train` returned them for several seeds.
    patterns : array, shape (pathways, n)
        Gates of the pathways, 0 and 1.

    Returns
    -------
    dict of str to ndarray, shape (runs, save)
        "match": share of all gates, one per unit and sample, that are those of the unit's pathway; 1 where
        the reduction is exact. "moved": share of all gates that are not what they were at the start; 0 where
        it is exact. "coupled": share of the squared weights outside the modes of an always open network, in
        whichever hidden directions fit best (`Reduction.off_manifold_fraction`); 0 if layers are aligned, one
        hidden direction for each mode.

    Examples
    --------
    >>> import neuralrace as nr
    >>> net = nr.relu.train(*nr.tasks.contexts(2).arrays, [20], 1e-3, 1e-3, 50, save=3, seed=range(2))
    >>> shares = reduction_conditions(net, np.ones((1, 16)))
    >>> shares["match"].shape, shares["moved"][:, 0]
    ((2, 3), array([0., 0.]))
    """
    if len(check_network(net, many=True).task.graph.hidden) != 1 or net.task.graph.biases:
        raise InputError("net must have one hidden layer and no biases")
    patterns = array("patterns", patterns, (None, len(net.X)))
    linear = Task(Graph.chain(list(net.task.graph.nodes.values())), net.X, net.Y)
    modes, shares = reduce(linear, "pathwise"), []
    for one in (net[k] for k in range(len(net))):
        w1, w2 = one.weights.values()
        gates = activity(one.task, one.weights, "h1") > 0  # (save, n, units)
        size = unit_sizes(w1, w2, normalise=True)
        own = patterns[nearest_pattern(gates[-1].T, patterns)].T
        match, moved = ((size * g.mean(axis=1)).sum(axis=-1) for g in (gates == own, gates != gates[0]))
        shares.append([match, moved, modes.off_manifold_fraction(one.weights)])
    return dict(zip(("match", "moved", "coupled"), np.stack(shares, axis=1), strict=True))
