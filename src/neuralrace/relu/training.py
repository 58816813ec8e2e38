"""Training of ReLU networks: chains of layers under a short name, on the core's trainers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from neuralrace.dynamics import descend, flow
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError, array, choice, integer, number
from neuralrace.graph import Graph
from neuralrace.init import gaussian
from neuralrace.network import predict
from neuralrace.task import Task


@dataclass(frozen=True, eq=False)
class ReluNetwork:
    """A trained ReLU network, or several from different seeds (then a leading axis on all but `t`).

    `trajectory` has everything on the mean loss, the scale of tasks and reductions; the properties here have
    the loss on the scale it was trained on, one half of the squared error summed (`reduction="sum"`) or
    averaged over samples. `t` is always flow time with tau = 1 on the mean loss, `steps` the epochs.
    """

    task: Task
    trajectory: Trajectory
    reduction: str
    lr: float

    @property
    def X(self) -> np.ndarray:
        return self.task.arrays[0]

    @property
    def Y(self) -> np.ndarray:
        return self.task.arrays[1]

    @property
    def scale(self) -> int:
        """Number of samples for `reduction="sum"`, else 1: what the mean loss is multiplied by."""
        return len(self.X) if self.reduction == "sum" else 1

    @property
    def t(self) -> np.ndarray:
        """Flow time with tau = 1 on the mean loss `(save,)`: `scale * lr` times the step."""
        return self.trajectory.t

    @property
    def steps(self) -> np.ndarray:
        """The saved steps, or epochs, `(save,)`; for `method="flow"` the steps that take as long."""
        return self.trajectory.t / (self.lr * self.scale)

    @property
    def loss(self) -> np.ndarray:
        return self.scale * self.trajectory.loss

    @property
    def step_loss(self) -> np.ndarray | None:
        """Loss before every step `(steps + 1,)`, None for `method="flow"`."""
        losses = self.trajectory.step_loss
        return None if losses is None else self.scale * losses

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """Edge -> `(save, out, in)` in layer order, then biases `(save, out)`."""
        return self.trajectory.weights

    @property
    def outcome(self) -> str:
        """How training ended, as in `Trajectory`, with losses on the scale that is trained."""
        stop = self.trajectory.settings.get("stop_loss")
        text = self.trajectory.outcome
        return text if stop is None else text.replace(f"loss {stop:g}", f"loss {self.scale * stop:g}")

    @property
    def many(self) -> bool:
        return self.trajectory.many

    def __repr__(self) -> str:
        sizes = " ".join(str(n) for n in self.task.graph.nodes.values())
        return f"ReluNetwork({sizes}, {self.trajectory!r})"

    def at(self, i: int) -> dict[str, np.ndarray]:
        """Weights at save index i."""
        if not self.weights:
            raise InputError("weights were not saved: train with save_weights=True")
        return {n: _at(w, i, self.many) for n, w in self.weights.items()}

    def gates(self, i: int) -> list[np.ndarray]:
        """Which units are active at save index i: for each hidden layer `(n, size)`, 1 where so, else 0."""
        if self.weights:
            found = step_gates(self.task.graph, self.at(i), self.X)
        else:
            found = [_at(g, i, self.many) for g in self.trajectory.recorded.values()]
        return [np.asarray(g, float) for g in found]

    def predict(self, i: int) -> np.ndarray:
        """Outputs at save index i, `(n, size)`."""
        return predict(self.task, self.at(i))["y"]

    def beside(self, task: Task, weights: Mapping[str, Any]) -> Trajectory:
        """Another network, trained as this one was and saved at the same times."""
        s = self.trajectory.settings
        if s["method"] == "flow":
            return flow(task, weights, s["t1"], self.t)
        names = ("batch_size", "momentum", "optimizer", "seed")
        return descend(task, weights, s["lr"], s["steps"], self.t, **{n: s[n] for n in names})

    def run(self, k: int) -> ReluNetwork:
        """One of several seeds, by its place."""
        if not self.many:
            raise InputError("run needs a network trained from several seeds; this has one")
        t = self.trajectory
        pick = lambda values: {n: v[k] for n, v in values.items()}  # noqa: E731
        one = replace(
            t,
            loss=t.loss[k],
            weights=pick(t.weights),
            outcomes=(t.outcomes[k],),
            end=t.end[k],
            recorded=pick(t.recorded),
            step_loss=None if t.step_loss is None else t.step_loss[k],
        )
        return replace(self, trajectory=one)


def train(
    X: Any,
    Y: Any,
    hidden: Sequence[int] = (700,),
    std: float = 7e-6,
    lr: float = 1e-3,
    steps: int = 8000,
    save: int | Iterable[float] = 200,
    seed: int | Iterable[int] = 0,
    *,
    reduction: str = "sum",
    bias: bool = False,
    method: str = "descend",
    save_weights: bool = True,
    weights: Any = None,
    readout: str = "all",
    **keywords: Any,
) -> ReluNetwork:
    """Train a ReLU network with `hidden` layers on inputs `X` `(n, in)` and targets `Y` `(n, out)`.

    Full-batch descent on one half of the squared error, summed over samples (`reduction="mean"`: averaged),
    from normal weights of standard deviation `std`, or from `weights`; the output is linear. Several seeds
    are trained in one call. `save` is a number of times, or times in the units of `net.t`. With
    `save_weights=False` only gates are kept, a byte per unit and sample.

    `readout="targets"` starts the readout in the span of the targets (the random one, projected on it), where
    it then stays by itself, so that only so many outputs need be computed. From small weights nothing that
    is learned differs: the part left out would only decay.

    `method="flow"` follows the gradient flow for as long as `steps` steps would take, by an adaptive solver,
    the faster the fewer units switch (rtol 1e-3 and atol 1e-2 by default: where many units slide along a
    kink, tight tolerances cost many steps). Further keywords are those of `nr.descend` or `nr.flow`
    (`stop_loss` on the scale of the loss that is trained).

    >>> x, y = [[1.0, 0.0], [0.0, 1.0]], [[1.0], [2.0]]
    >>> net = train(x, y, hidden=[4], std=0.1, lr=0.1, steps=200, save=5)
    >>> net.outcome, net.gates(-1)[0].shape
    ('finished after 200 steps, t = 40', (2, 4))
    """
    x, y = array("X", X, (None, None)), array("Y", Y, (None, None))
    if len(x) != len(y):
        raise InputError(f"Y must have as many rows as X, {len(x)}; got {len(y)}")
    if isinstance(hidden, (int, np.integer)) or not len(hidden):
        raise InputError(f"hidden must list the sizes of the ReLU layers, at least one; got {hidden!r}")
    choice("reduction", reduction, ("sum", "mean"))
    choice("method", method, ("descend", "flow"))
    choice("readout", readout, ("all", "targets"))
    lr, steps = number("lr", lr, above=0), integer("steps", steps)
    graph = relu_chain([x.shape[1], *hidden, y.shape[1]], bool(bias))
    task = Task(graph, x, y)
    w = gaussian(graph, std, seed) if weights is None else weights
    scale = len(x) if reduction == "sum" else 1
    full, span = task, None
    if readout == "targets":
        _, sizes, v = np.linalg.svd(y, full_matrices=False)
        span = v[sizes > 1e-12 * sizes[0]].T if sizes[0] else v[:1].T  # (out, k)
        w = _readout(graph, graph.check_weights(w), span.T)
        graph = relu_chain([x.shape[1], *hidden, span.shape[1]], bool(bias))
        task = Task(graph, x, y @ span)
    if keywords.get("stop_loss") is not None:
        keywords["stop_loss"] = number("stop_loss", keywords["stop_loss"], above=0) / scale
    if not save_weights:
        keywords.setdefault("record", _Gates(graph, x))
    if not isinstance(save, (int, np.integer)):
        times, end = array("save", list(save), (None,)), lr * scale * steps
        save = np.where(np.abs(times - end) < 1e-9 * end, end, times)  # the end, up to rounding
    if method == "descend":
        path = descend(task, w, lr * scale, steps, save, save_weights=save_weights, **keywords)
    else:
        keywords = {"rtol": 1e-3, "atol": 1e-2, **keywords}
        path = flow(task, w, lr * scale * steps, save, save_weights=save_weights, **keywords)
    if span is not None:
        path = replace(path, weights=_readout(graph, path.weights, span))
    return ReluNetwork(full, path, reduction, lr)


def _readout(graph: Graph, weights: Mapping[str, Any], turn: np.ndarray) -> dict[str, Any]:
    """Weights whose outputs are those of `weights`, times `turn` from the left."""
    w = dict(weights)
    if not w:
        return w
    last = graph.incoming["y"][0]
    w[last] = turn @ np.asarray(w[last])
    if "y" in w:
        w["y"] = np.asarray(w["y"]) @ turn.T
    return w


def relu_chain(sizes: Sequence[int], bias: bool = False) -> Graph:
    """A chain x, h1, ..., y whose hidden layers are rectified."""
    hidden = [f"h{k}" for k in range(1, len(sizes) - 1)]
    return Graph.chain(list(sizes), activations=dict.fromkeys(hidden, "relu"), biases=bias)


def step_gates(graph: Graph, weights: Any, x: Any, xp: Any = np) -> list[Any]:
    """`step(pre-activation)` of every hidden layer, `(..., n, size)` booleans."""
    h, found = xp.asarray(x), []
    for node in graph.hidden:
        a = h @ xp.swapaxes(weights[graph.incoming[node][0]], -1, -2)
        if node in graph.biases:
            a = a + weights[node][..., None, :]
        found.append(a > 0)
        h = a * found[-1]
    return found


class _Gates:
    """Gates at saved times; two for the same network and inputs are equal, so that nothing compiles twice."""

    def __init__(self, graph: Graph, x: np.ndarray):
        self.graph, self.x = graph, x

    def __call__(self, weights: dict[str, Any]) -> dict[str, Any]:
        x = self.x.astype(next(iter(weights.values())).dtype)
        return dict(zip(self.graph.hidden, step_gates(self.graph, weights, x, jnp), strict=True))

    def __hash__(self) -> int:
        return hash((self.graph, self.x.shape))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Gates) and self.graph == other.graph and np.array_equal(self.x, other.x)


def _at(values: np.ndarray, i: int, many: bool) -> np.ndarray:
    n = values.shape[1 if many else 0]
    if not -n <= integer("i", i, least=-n) < n:
        raise InputError(f"i must be a save index, -{n} to {n - 1}; got {i}")
    return values[:, i] if many else values[i]
