"""Training of ReLU networks: chains of layers under a short name, on the core's trainers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.dynamics import Rates, Trajectory, descend, flow
from neuralrace.dynamics.methods import Method, check_method, check_steps
from neuralrace.dynamics.trajectory import GATES
from neuralrace.errors import InputError, array, choice, flag, integer, listable, number, sequence, short
from neuralrace.graph import Graph
from neuralrace.init import gaussian
from neuralrace.network import activity
from neuralrace.task import Task

UNTRAINED = 1e-9  # size of the outputs of an initial network, relative to the targets
GROWTH = 0.04  # largest relative change of weights in the first step


def train(
    X: ArrayLike,
    Y: ArrayLike,
    hidden: Sequence[int] = (700,),
    std: float | None = None,
    lr: float | None = None,
    steps: int = 8000,
    save: int | Iterable[float] | None = 200,
    seed: int | Iterable[int] = 0,
    *,
    objective: str = "sum",
    bias: bool = False,
    method: str | Method = "descend",
    save_weights: bool = True,
    weights: Mapping[str, Any] | None = None,
    readout: str = "all",
    **keywords: Any,
) -> Trajectory:
    """Train a ReLU network on one half of the squared error; the output is linear.

    Parameters
    ----------
    X : array, shape (n, in)
        Inputs.
    Y : array, shape (n, out) or (n,)
        Targets.
    hidden : list of int
        Sizes of the ReLU layers.
    std : float, optional
        Standard deviation of the initial weights, which are normal. By default the outputs of the initial
        network are about 1e-9 of the targets, so that features are learned one after the other.
    lr : float, optional
        Learning rate on the objective. By default nothing grows by more than 4% in the first step. An
        optimizer other than gradient descent needs a rate.
    steps : int
        Steps of full-batch descent.
    save : int or times, optional
        Number of times to save, evenly spaced; or the times in the units of `net.t`; None chooses 200 where
        something happens.
    seed : int or several
        Of the initial weights. Several are trained in one call and are a leading axis of the result.
    objective : {"sum", "mean"}
        Whether the squared error is summed or averaged over samples.
    bias : bool
        Whether units have biases.
    method : "descend", nr.Adaptive or your own
        Descent, or the gradient flow for as long as the steps would take. Flow is the faster the fewer units
        switch. Where many slide along a kink tight tolerances cost many steps: ``nr.Adaptive(rtol=1e-3,
        atol=1e-2)`` is enough.
    save_weights : bool
        If not, only gates are kept, a byte per unit and sample.
    weights : dict, optional
        Initial weights, instead of `std` and `seed`.
    readout : {"all", "targets"}
        With "targets" the readout starts in the span of the targets (the random one, projected on it), where
        it then stays by itself, so that only so many outputs need be computed. From small weights nothing
        that is learned differs: the part left out would only decay.
    **keywords
        Those of `nr.descend` or `nr.flow`; `stop_loss` in units of the objective.

    Returns
    -------
    Trajectory
        Its loss is on the scale that was trained: one half of the squared error, summed over samples
        (``loss_scale`` is then their number) or averaged (1); ``net.rescaled(1)`` has it averaged. Times are
        flow time with tau = 1 on the mean loss, as everywhere; ``net.time("steps")`` are steps, or epochs.
        ``net.gates(i)`` says which units are active.

    Examples
    --------
    >>> x, y = [[1.0, 0.0], [0.0, 1.0]], [[1.0], [2.0]]
    >>> net = train(x, y, hidden=[4], std=0.1, lr=0.1, steps=200, save=5)
    >>> net.outcome, net.gates(-1)[0].shape
    ('finished after 200 steps, t = 40', (2, 4))
    """
    x, y = checked_data(X, Y)
    sizes = hidden_sizes(hidden)
    speed = _speed(choice("objective", objective, ("sum", "mean")), x)
    choice("readout", readout, ("all", "targets"))
    bias, save_weights = flag("bias", bias), flag("save_weights", save_weights)
    by_flow = not isinstance(method, str)
    if not by_flow and method != "descend":
        raise InputError(f"method must be 'descend', nr.Adaptive(...) or your own, got {short(method)}")
    optimizer = keywords.get("optimizer", "sgd")
    if lr is None and not (isinstance(optimizer, str) and optimizer == "sgd"):
        raise InputError("lr must be given for an optimizer other than gradient descent")
    lr = default_rate(x, y, objective) if lr is None else number("lr", lr, above=0)
    steps = check_steps("steps", steps)
    graph = relu_chain([x.shape[1], *sizes, y.shape[1]], bias)
    full = Task(graph, x, y)
    if weights is None:
        seed = sequence("seed", seed, "seeds") if isinstance(seed, Iterator) else seed
        start = gaussian(graph, _default_std(x, y, sizes) if std is None else std, seed)
        keywords.setdefault("runs", _seed_coordinate(seed, start))
    else:
        start = graph.check_weights(weights)
    task, start, span = _in_span_of_targets(full, start) if readout == "targets" else (full, start, None)
    stop = keywords.get("stop_loss")
    if stop is not None:
        keywords["stop_loss"] = number("stop_loss", stop, above=0) / speed
    if not save_weights:
        keywords["record"] = _RecordGates(graph.hidden, keywords.get("record"))
    saved = _with_exact_end(save, lr * speed * steps)
    keywords["save_weights"] = save_weights
    if by_flow:
        path = flow(task, start, lr * speed * steps, saved, method=check_method(method), **keywords)
    else:
        path = descend(task, start, lr * speed, steps, saved, **keywords)
    return _in_units_of_objective(path, full, objective, lr, stop, span)


def train_like(net: Trajectory, task: Task, weights: Mapping[str, Any]) -> Trajectory:
    """Train another network as `net` was trained, saved at the same times.

    Parameters
    ----------
    net : Trajectory
        What `train` returned. A network that followed the flow is followed by the flow, to the tolerances
        that `nr.flow` has by default.
    task : Task
        The other network and its data.
    weights : dict
        Its initial weights, edge name -> (out, in); a leading axis for several runs.

    Returns
    -------
    Trajectory
        Its loss on the scale of `net.loss`.

    Examples
    --------
    >>> import neuralrace as nr
    >>> net = train([[1.0, 0.0], [0.0, 1.0]], [[1.0], [2.0]], [4], 0.1, 0.1, 200, save=5)
    >>> linear = nr.Task(nr.Graph.chain([2, 4, 1]), *net.task.arrays)
    >>> train_like(net, linear, net.at(0)).t.tolist() == net.t.tolist()
    True
    """
    check_network(net)
    s = net.settings
    if s.get("optimizer") == "optax":
        raise InputError("net must be trained by sgd or adam: an optax transformation is not kept")
    decay = {s["weight_decay"].get(e, 0.0) for e in net.task.graph.shapes}
    if s["lr_scale"] or len(decay) > 1:
        raise InputError("net must have the same learning rate and weight decay in all layers")
    common = {"loss": s["loss"], "rates": Rates(decay.pop())}
    if s["process"] == "flow":
        path = flow(task, weights, s["t1"], net.t, **common)
    else:
        names = ("batch_size", "momentum", "optimizer", "seed")
        path = descend(task, weights, s["lr"], s["steps"], net.t, **common, **{n: s[n] for n in names})
    return path.rescaled(net.loss_scale)


def relu_chain(sizes: Sequence[int], bias: bool = False) -> Graph:
    """A chain x, h1, ..., y whose hidden layers are rectified."""
    hidden = [f"h{k}" for k in range(1, len(sizes) - 1)]
    return Graph.chain(list(sizes), activations=dict.fromkeys(hidden, "relu"), biases=bias)


def unit_gates(task: Task, weights: Mapping[str, Any], layer: int) -> np.ndarray:
    """Which units of a layer (1 is the first) are active, `(n, size)` booleans."""
    return np.asarray(activity(task, weights, task.graph.hidden[layer - 1])) > 0


def check_network(net: Any, many: bool | None = None) -> Trajectory:
    """`net`, which must be what `train` returned: for several seeds if `many`, for one if it is False."""
    if not is_network(net):
        raise InputError(f"net must be a network as nr.relu.train returns, got {type(net).__name__}")
    if many is not None and many != net.many:
        wanted = "several networks, trained with several seeds" if many else "one network, as net[0]"
        raise InputError(f"net must be {wanted}; got {len(net) if net.many else 'one'}")
    return net


def is_network(net: Any) -> bool:
    """Whether this is a trained chain of ReLU layers."""
    if not isinstance(net, Trajectory) or net.task is None:
        return False
    graph = net.task.graph
    return (
        graph.activations == dict.fromkeys(graph.hidden, "relu") and len(graph.edges) == len(graph.nodes) - 1
    )


# -- private ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _RecordGates:
    """Which units are active, and what else is recorded; a value: equal ones share a compilation."""

    hidden: tuple[str, ...]
    other: Callable[[Any], Any] | None = None

    def __call__(self, state: Any) -> Any:
        gates = {GATES + h: state.activity(h) > 0 for h in self.hidden}
        if self.other is None:
            return gates
        more = self.other(state)
        return {**gates, **more} if isinstance(more, Mapping) else more


def _speed(objective: str, x: np.ndarray) -> int:
    """How much faster than the mean loss the objective learns at the same learning rate."""
    return len(x) if objective == "sum" else 1


def default_rate(x: np.ndarray, y: np.ndarray, objective: str) -> float:
    """The learning rate at which no pattern of gates lets weights grow by more than `GROWTH` in a step."""
    fastest = np.linalg.norm(x, 2) * np.linalg.norm(y, 2)  # of correlations of inputs and targets, any gates
    return GROWTH / float(fastest or 1.0) * (len(x) if objective == "mean" else 1)


def _default_std(x: np.ndarray, y: np.ndarray, hidden: Sequence[int]) -> float:
    """The size of initial weights at which the outputs are about `UNTRAINED` of the targets."""
    # Half of the units are active; this is the size at std 1.
    outputs = np.sqrt((x**2).sum(axis=1).mean() * np.prod(np.asarray(hidden) / 2))
    size = UNTRAINED * np.sqrt((y**2).mean()) / outputs if outputs else 0.0
    return float(size or UNTRAINED) ** (1 / (len(hidden) + 1))


def _seed_coordinate(seed: Any, start: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
    """Seeds as coordinates of the runs, where there is one for each."""
    many = next(iter(start.values())).ndim == 3
    seeds = np.asarray(seed)
    if not many or seeds.shape != next(iter(start.values())).shape[:1] or seeds.dtype.kind not in "iu":
        return None
    return {"seed": seeds}


def _with_exact_end(save: Any, end: float) -> Any:
    """Times to save; one that is the end up to rounding is the end."""
    if save is None or isinstance(save, (str, bytes, int, np.integer)):
        return save
    if not listable(save):
        raise InputError(f"save must be a number of times, or the times; got {short(save)}")
    times = array("save", sequence("save", save, "times"), (None,))
    return np.where(np.abs(times - end) < 1e-9 * end, end, times)


def _in_span_of_targets(task: Task, start: Mapping[str, Any]) -> tuple[Task, dict[str, Any], np.ndarray]:
    """The network with outputs in the span of the targets alone, its weights, and that span `(out, k)`."""
    x, y = task.arrays
    _, sizes, v = np.linalg.svd(y, full_matrices=False)
    span = v[sizes > 1e-12 * sizes[0]].T if sizes[0] else v[:1].T
    nodes = task.graph.nodes | {"y": span.shape[1]}
    graph = relu_chain(list(nodes.values()), bool(task.graph.biases))
    return Task(graph, x, y @ span), _readout(graph, start, span.T), span


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


def _in_units_of_objective(
    path: Trajectory, task: Task, objective: str, lr: float, stop: Any, span: np.ndarray | None
) -> Trajectory:
    """The network of a trajectory, with losses and how it ended in units of the objective."""
    endings = tuple(e if e.lr is None else replace(e, lr=lr) for e in path.endings)
    speed = _speed(objective, task.arrays[0])
    settings = path.settings | {"objective": objective, "stop_loss": stop, "lr": lr * speed}
    weights = path.weights if span is None else _readout(task.graph, path.weights, span)
    found = replace(path, endings=endings, settings=settings, task=task, weights=weights)
    return found.rescaled(speed)


def target_rows(Y: ArrayLike, shape: tuple[int | None, int | None] = (None, None)) -> np.ndarray:
    """Targets, one row per sample; a list of numbers is one column."""
    y = array("Y", Y)
    return array("Y", y[:, None] if y.ndim == 1 else y, shape)


def checked_data(X: ArrayLike, Y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets as arrays with the same number of rows."""
    x, y = array("X", X, (None, None)), target_rows(Y)
    if len(x) != len(y):
        raise InputError(f"Y must have as many rows as X, {len(x)}; got {len(y)}")
    if not x.size or not y.size:
        raise InputError(f"X and Y must not be empty, got shapes {x.shape} and {y.shape}")
    return x, y


def hidden_sizes(hidden: Any) -> tuple[int, ...]:
    """The sizes of ReLU layers, at least one."""
    sizes = sequence("hidden", hidden, "sizes of ReLU layers")
    if not sizes:
        raise InputError(f"hidden must list the sizes of the ReLU layers, at least one; got {short(hidden)}")
    return tuple(integer(f"hidden[{k}]", size) for k, size in enumerate(sizes))
