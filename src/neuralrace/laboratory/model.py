"""What a scene means: the networks that race, how they start, and how long they are watched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

import neuralrace as nr

Values = Mapping[str, float]


@dataclass(frozen=True)
class Model:
    """Networks to reduce, solve and train.

    Attributes
    ----------
    lanes : dict
        Name -> task. Several tasks are gatings that race for the same data.
    strength : float
        Start of every mode of every edge.
    code : dict
        Name -> the Python expression that makes the task, which begins with "nr." and is run as it stands, or
        another text: then the edges and rows of the task are written out. Reductions are kept under it, so it
        must tell tasks apart, also those of other entries.
    time : float or None
        End of the curves, in flow time; None to choose it.
    level : float
        Loss at which the race is decided, as a share of the initial loss.
    edge_strength : dict
        Edges that start with another strength: `edge`, or `lane/edge`.
    beside : Task or None
        A nonlinear network that is trained beside all lanes, from gaussian weights.
    beside_std : float
        Standard deviation of its initial weights.
    names : dict
        Names of pathways for readers, by their first hidden node.
    """

    lanes: dict[str, nr.Task]
    strength: float
    code: dict[str, str]
    time: float | None = None
    level: float = 0.4
    edge_strength: dict[str, float] = field(default_factory=dict)
    beside: nr.Task | None = None
    beside_std: float = 0.0
    names: dict[str, str] = field(default_factory=dict)

    def start(self, lane: str) -> dict[str, float]:
        """The strength with which each edge of a lane starts."""
        own = self.edge_strength
        return {e: own.get(f"{lane}/{e}", own.get(e, self.strength)) for e in self.lanes[lane].graph.shapes}


def std_of(task: nr.Task, strength: float) -> float:
    """Standard deviation of gaussian weights that grow about as weights of this strength do.

    In two layers of h hidden neurons a mode starts with `|W1 v + W2^T u|^2 / 4`, in the mean `h std^2 / 2`.
    """
    graph: nr.Graph = task.graph
    hidden = np.mean([graph.nodes[n] for n in graph.hidden]) if graph.hidden else 1.0
    return float(f"{strength * np.sqrt(2 / hidden):.3g}")
