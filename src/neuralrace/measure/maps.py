"""What weights say: maps of networks and pathways, sizes of units, and what gradient flow conserves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from neuralrace.compiling import traced
from neuralrace.dynamics.rates import Rates
from neuralrace.dynamics.record import State
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import (
    InputError,
    array,
    choice,
    flag,
    known,
    listed,
    number,
    sequence,
    short,
    without_nan,
)
from neuralrace.graph import Graph, check_graph
from neuralrace.task import Task

Floats = NDArray[np.float64]
Network = State | Trajectory | Mapping[str, ArrayLike]
Groups = Sequence[Sequence[int]]
MOST_AXES = 8  # before those of a weight: seeds, sizes, times


def end_to_end(
    graph: Graph, network: Network, source: str | None = None, target: str | None = None
) -> Floats:
    """The map of a network from an input to an output.

    Parameters
    ----------
    graph : Graph
        Without biases.
    network : State, Trajectory or dict of str to array_like
        Weights give the sum over paths of the products of their weights, as if all units were linear. A state
        (in `record`) is asked for its outputs for the unit vectors, with its activations, at no more cost
        than a forward pass; in a linear network both are the same.
    source, target : str, optional
        Input and output; by default the only ones.

    Returns
    -------
    ndarray, shape (..., size of target, size of source)
        With the leading axes of the weights; a JAX array if they are.

    Examples
    --------
    >>> import neuralrace as nr
    >>> graph = nr.Graph.chain([1, 2, 1])
    >>> end_to_end(graph, {"x->h1": [[1.0], [2.0]], "h1->y": [[3.0, 4.0]]})
    array([[11.]])
    """
    _check_linear_map(graph, network)
    source, target = _only("source", source, graph.inputs), _only("target", target, graph.outputs)
    if isinstance(network, State):
        return _shown(graph, network, source, target, {})
    maps: dict[str, Floats | None] = {source: None}  # None: the identity
    for node in graph.order:
        parts = []
        for edge in graph.incoming[node]:
            if graph.edges[edge][0] in maps:
                before, w = maps[graph.edges[edge][0]], _matrix(graph, edge, network)
                parts.append(w if before is None else w @ before)
        if parts:
            maps[node] = sum(parts[1:], parts[0])
    found = maps.get(target)
    if found is None:
        raise InputError(f"target must be an output that {source!r} reaches, got {target!r}")
    return found


def pathway_maps(graph: Graph, network: Network) -> dict[str, Floats]:
    """The map of each path from its input to its output, all others being closed.

    Parameters
    ----------
    graph : Graph
        Without biases.
    network : State, Trajectory or dict of str to array_like
        As in `end_to_end`: products of weights, or outputs for the unit vectors. For a state every path must
        have a hidden node that no other path has.

    Returns
    -------
    dict of str to ndarray, shape (..., out, in)
        By the first hidden node that belongs to the path alone, in the order of `Graph.paths`; where there is
        none, by the edges of the path, such as "a->h h->y". `events` says what all paths through a node do.

    Examples
    --------
    >>> import neuralrace as nr
    >>> graph = nr.Graph.pathways(1, 1, [[1], [1]])
    >>> weights = {"x->p0h1": [[2.0]], "p0h1->y": [[3.0]], "x->p1h1": [[1.0]], "p1h1->y": [[-1.0]]}
    >>> {name: m.item() for name, m in pathway_maps(graph, weights).items()}
    {'p0h1': 6.0, 'p1h1': -1.0}
    """
    _check_linear_map(graph, network)
    found = {}
    for name, path in _pathways(graph, alone=isinstance(network, State)):
        if isinstance(network, State):
            ends = graph.edges[path[0]][0], graph.edges[path[-1]][1]
            passed = {graph.edges[e][1] for e in path}
            found[name] = _shown(graph, network, *ends, {n: 0.0 for n in graph.hidden if n not in passed})
        else:
            product = _matrix(graph, path[0], network)
            for edge in path[1:]:
                product = _matrix(graph, edge, network) @ product
            found[name] = product
    return found


def contributions(graph: Graph, network: Network, u: ArrayLike, v: ArrayLike) -> Floats:
    r"""What each pathway contributes to each mode of a task, the $K_a = U^\top W_a V$ of multipathway.

    Parameters
    ----------
    graph : Graph
        Parallel pathways from one input to one output, as in `pathway_maps`.
    network : State, Trajectory or dict of str to array_like
        As in `end_to_end`.
    u, v : array_like, shapes (out, modes) and (in, modes)
        Output and input directions of the modes, such as those of the singular value decomposition of Syx.

    Returns
    -------
    ndarray, shape (..., pathways, modes, modes)
        Strengths of the modes are on the diagonal.

    Examples
    --------
    >>> import neuralrace as nr
    >>> graph = nr.Graph.pathways(2, 2, [[2], [2]])
    >>> weights = {e: np.eye(2) for e in graph.edges}
    >>> contributions(graph, weights, np.eye(2)[:, :1], np.eye(2)[:, :1]).shape
    (2, 1, 1)
    """
    left, right = _modes(graph, u, v)
    maps = pathway_maps(graph, network).values()
    return stack([left.T @ m @ right for m in maps], -3)


def pathway_coordinates(
    graph: Graph,
    weights: Mapping[str, ArrayLike],
    initial: Mapping[str, ArrayLike],
    u: ArrayLike,
    v: ArrayLike,
    sigma: float = 1.0,
) -> dict[str, Floats]:
    r"""Layers of parallel pathways in the modes of a task (multipathway Eq. 5-7, with the powers of sigma
    that Eq. 13 and 19 need).

    Every layer is written between two frames, in units of $\sigma$: the input directions $v$ as the *initial*
    weights $R$ carry them forwards, $R_d \cdots R_1 v / \sigma^d$, and for the last layer the output
    directions $u$. If initial layers are $\sigma$ times orthogonal, and weights stay within the frames, the
    product of a pathway's layers is `contributions` over $\sigma^D$, and they change by $\sigma^{D-2}$ times
    Eq. 11.

    Parameters
    ----------
    graph : Graph
        Parallel pathways from one input to one output, without biases.
    weights, initial : dict of str to array_like
        Weights, with any leading axes, and those at the start, without or with the same ones.
    u, v : array_like, shapes (out, modes) and (in, modes)
        Output and input directions of the modes.
    sigma : float, default 1
        Size of the initial layers: their singular values, or $\text{std} \sqrt{\text{width}}$ of random ones.

    Returns
    -------
    dict of str to ndarray, shape (..., modes, modes)
        By edge. Eq. 7 as printed is $\sigma^{-D}$ times the last layers here.

    Examples
    --------
    >>> import neuralrace as nr
    >>> graph = nr.Graph.pathways(2, 2, [[2], [2]])
    >>> w = {e: 0.5 * np.eye(2) for e in graph.edges}
    >>> pathway_coordinates(graph, w, w, np.eye(2), np.eye(2), sigma=0.5)["x->p0h1"]
    array([[1., 0.],
           [0., 1.]])
    """
    sigma = number("sigma", sigma, above=0)
    _check_linear_map(graph, weights, initial)
    left, right = _modes(graph, u, v)
    weights, initial = (w.weights if isinstance(w, Trajectory) else w for w in (weights, initial))
    axes = [
        floats(e, w[e]).shape[: -len(graph.shapes[e])]
        for w in (weights, initial)
        for e in graph.shapes
        if e in w
    ]
    try:
        np.broadcast_shapes(*axes)
    except ValueError:
        raise InputError(f"weights and initial must have the same leading axes, got {listed(axes)}") from None
    found = {}
    for _, path in _pathways(graph, alone=True):
        before = right
        for edge in path:
            after = left if edge == path[-1] else _matrix(graph, edge, initial) @ before / sigma
            found[edge] = after.swapaxes(-1, -2) @ _matrix(graph, edge, weights) @ before / sigma
            before = after
    given = [
        left,
        right,
        *(_matrix(graph, edge, network) for edge in found for network in (weights, initial)),
    ]
    if traced((found, given)) or not all(np.isfinite(part).all() for part in given):
        return found
    return without_nan("u, v, weights and initial, over powers of sigma,", found)


def group_strengths(k: ArrayLike, groups: Groups | None = None) -> Floats:
    """Strengths of modes in maps, whatever the basis within groups of modes of equal strength.

    Within a group any rotation of the modes is a basis as good, and diagonal entries depend on it. The
    eigenvalues of the symmetric part of the group's block do not; where two pathways have learned a group of
    strength s, theirs add up to s, the largest of one with the smallest of the other.

    Parameters
    ----------
    k : array_like, shape (..., modes, modes)
        Maps in the modes of a task, as of `contributions`.
    groups : list of list of int, optional
        Modes of each group; by default each mode by itself, whose strength is the diagonal entry.

    Returns
    -------
    ndarray, shape (..., modes)
        Group by group, from the largest down.

    Examples
    --------
    >>> group_strengths([[1.0, 1.0], [1.0, 1.0]], groups=[[0, 1]])
    array([2., 0.])
    """
    blocks = _blocks(floats("k", k, 2), groups)
    values = [np.linalg.eigvalsh((b + np.swapaxes(b, -1, -2)) / 2)[..., ::-1] for b in blocks]
    return np.asarray(np.concatenate(values, axis=-1), float)


def concentration(k: ArrayLike, groups: Groups | None = None) -> Floats:
    r"""How much each mode, or group of modes, is on one pathway: 0 shared evenly, 1 each on one of them.

    With $r = \sum_a |K_a|^2 / |\sum_a K_a|^2$ over the block of a group, for $M$ pathways it is
    $\sqrt{(M r - 1) / (M - 1)}$, whatever the basis within a group. For one mode and two pathways it is
    $|K_1 - K_2| / |K_1 + K_2|$.

    Parameters
    ----------
    k : array_like, shape (..., pathways, modes, modes)
        Contributions of at least two pathways, as of `contributions`.
    groups : list of list of int, optional
        Modes of each group, such as those of equal strength; by default each mode by itself.

    Returns
    -------
    ndarray, shape (..., groups)

    Examples
    --------
    >>> concentration([[[3.0]], [[1.0]]])
    array([0.5])
    """
    k = floats("k", k, 3)
    m = k.shape[-3]
    if m < 2:
        raise InputError(f"k must have at least two pathways, got shape {k.shape}")
    shares = []
    for block in _blocks(k, groups):
        ratio = (block**2).sum(axis=(-1, -2, -3)) / (block.sum(axis=-3) ** 2).sum(axis=(-1, -2))
        shares.append(np.sqrt(np.maximum(m * ratio - 1, 0) / (m - 1)))
    return np.stack(shares, axis=-1)


def off_diagonal_share(k: ArrayLike, groups: Groups | None = None) -> Floats:
    """Share of the squared norm of maps between different modes, or groups of modes.

    Parameters
    ----------
    k : array_like, shape (..., modes, modes)
        Maps in the modes of a task, as of `contributions`.
    groups : list of list of int, optional
        Modes of each group; by default each mode by itself.

    Returns
    -------
    float or ndarray, shape (...)

    Examples
    --------
    >>> off_diagonal_share([[1.0, 1.0], [0.0, 0.0]])
    0.5
    """
    k = floats("k", k, 2)
    inside = sum((block**2).sum(axis=(-1, -2)) for block in _blocks(k, groups))
    return plain(1 - inside / (k**2).sum(axis=(-1, -2)))


def _blocks(k: Floats, groups: Groups | None) -> Iterator[Floats]:
    """The blocks of k on the diagonal, one for each group."""
    if k.shape[-1] != k.shape[-2]:
        raise InputError(f"k must be square in its last two axes, got shape {k.shape}")
    n = k.shape[-1]
    given = [[i] for i in range(n)] if groups is None else sequence("groups", groups, "groups of modes")
    if not given:
        raise InputError("groups must list at least one group of modes")
    for group in (sequence("each group of groups", one, "modes") for one in given):
        if not all(isinstance(i, (int, np.integer)) and 0 <= i < n for i in group):
            raise InputError(f"groups must list modes from 0 to {n - 1}, got {short(group)}")
        yield k[..., group, :][..., group]


def _pathways(graph: Graph, alone: bool) -> list[tuple[str, tuple[str, ...]]]:
    """Each path with the first hidden node that no other passes; with its edges, if not `alone`."""
    paths = graph.paths()
    passed = [[graph.edges[e][1] for e in path[:-1]] for path in paths]
    counts: dict[str, int] = {}
    for node in (n for nodes in passed for n in nodes):
        counts[node] = counts.get(node, 0) + 1
    named = []
    for path, nodes in zip(paths, passed, strict=True):
        own = [n for n in nodes if counts[n] == 1]
        name = " ".join(path)
        if not own and alone:
            raise InputError(
                f"graph must have a hidden node for each path alone; {name} has none. nr.pathway_maps(graph, "
                "weights) and nr.events work where paths share nodes"
            )
        named.append((own[0] if own else name, path))
    return named


def _shown(graph: Graph, state: State, source: str, target: str, gates: dict[str, float]) -> Floats:
    """What a state answers to the unit vectors of an input, (out, in)."""
    return state.activity(target, {source: np.eye(graph.nodes[source])}, gates).swapaxes(-1, -2)


def _matrix(graph: Graph, edge: str, network: Trajectory | Mapping[str, ArrayLike]) -> Floats:
    if edge in graph.fixed:
        return graph.fixed[edge]
    weights = network.weights if isinstance(network, Trajectory) else network
    known("network", [edge], weights, "saved edge")
    w, shape = floats(edge, weights[edge]), tuple(graph.shapes[edge])
    if w.shape[w.ndim - len(shape) :] != shape:
        raise InputError(f"{edge} must have shape (..., {str(shape)[1:]}, got {w.shape}")
    return as_matrix(graph, edge, w)


def _only(name: str, given: str | None, options: Sequence[str]) -> str:
    if given is None and len(options) != 1:
        raise InputError(f"{name} must be one of {', '.join(options)}")
    return options[0] if given is None else choice(name, given, options)


def _modes(graph: Graph, u: Any, v: Any) -> tuple[Floats, Floats]:
    """Output and input directions of modes that the pathways of a graph share."""
    if len(check_graph(graph).inputs) != 1 or len(graph.outputs) != 1:
        raise InputError("graph must have one input and one output, so that pathways share their modes")
    left, right = floats("u", u, 2), floats("v", v, 2)
    sizes = graph.nodes[graph.outputs[0]], graph.nodes[graph.inputs[0]]
    if (left.shape[-2], right.shape[-2]) != sizes:
        raise InputError(f"u and v must have {sizes[0]} and {sizes[1]} rows, got {left.shape}, {right.shape}")
    return left, right


def _check_linear_map(graph: Graph, *networks: Any) -> None:
    if check_graph(graph).biases:
        raise InputError("graph must have no biases: with them a network is no linear map")
    for network in networks:
        if not isinstance(network, (State, Trajectory, Mapping)):
            raise InputError(f"network must be a state, a trajectory or a dict, got {short(network)}")


def unit_sizes(incoming: ArrayLike, outgoing: ArrayLike, *, normalise: bool = False) -> Floats:
    """Size of each hidden unit: norm of its incoming times norm of its outgoing weights.

    Parameters
    ----------
    incoming : array_like, shape (..., units, in)
        Weights into the units, with any leading axes.
    outgoing : array_like, shape (..., out, units)
        Weights from the units on.
    normalise : bool
        Whether to divide by the sum over units, so that a mean over units counts each by its size.

    Returns
    -------
    ndarray, shape (..., units)
        A JAX array if the weights are.

    Examples
    --------
    >>> unit_sizes([[3.0, 4.0], [1.0, 0.0]], [[2.0, 1.0]])
    array([10.,  1.])
    """
    into, out = floats("incoming", incoming, 2), floats("outgoing", outgoing, 2)
    if into.shape[-2] != out.shape[-1]:
        raise InputError(
            f"incoming must be (..., units, in) and outgoing (..., out, units), got {into.shape}, {out.shape}"
        )
    sizes = (into**2).sum(axis=-1) ** 0.5 * (out**2).sum(axis=-2) ** 0.5
    return sizes / sizes.sum(axis=-1, keepdims=True) if flag("normalise", normalise) else sizes


def growing_part(
    w1: ArrayLike, w2: ArrayLike, v: ArrayLike | None = None, u: ArrayLike | None = None
) -> Floats:
    r"""The part of two small layers that grows in each mode, $\frac12 (W_1 v + W_2^\top u)$.

    The rest, $\frac12 (W_1 v - W_2^\top u)$, decays (theory.md section 9). The squared norm of the growing
    part is the strength `a0` from which the mode starts.

    Parameters
    ----------
    w1 : array_like, shape (..., hidden, in)
        First layer, with any leading axes.
    w2 : array_like, shape (..., out, hidden)
        Second layer.
    v, u : array_like, shapes (in, modes) and (out, modes), optional
        Input and output directions of the modes; by default the units of the layers, for data in which input
        k goes with output k.

    Returns
    -------
    ndarray, shape (..., hidden, modes)

    Examples
    --------
    >>> growing_part([[3.0], [0.0]], [[1.0, 2.0]])
    array([[2.],
           [1.]])
    """
    into, out = floats("w1", w1, 2), floats("w2", w2, 2).swapaxes(-1, -2)
    into = into if v is None else into @ floats("v", v, 2)
    out = out if u is None else out @ floats("u", u, 2)
    if into.shape[-2:] != out.shape[-2:]:
        raise InputError(
            f"W1 v and W2^T u must both be (..., hidden, modes), got {into.shape} and {out.shape}"
        )
    return (into + out) / 2


def xor_strengths(w1: ArrayLike, w2: ArrayLike) -> Floats:
    """Initial strength `a0` of each of the four pathways that a ReLU network grows on exclusive or.

    While outputs are small the error is the target, and every unit learns by itself. It is active on two
    samples: with $p$ along their sum, $q$ along the difference of the positive and the negative one and $v$
    its outgoing weight, $q' = v/2$ and $v' = q/2$ until $|q| = |p|$. From there it moves along the diagonal,
    active on one sample, and its strength grows as that of a pathway (neural_race Eq. 21). The result is the
    strength at time 0 of a pathway that is as strong as the unit when it reaches the diagonal.

    Parameters
    ----------
    w1 : array_like, shape (..., units, 2)
        Small first layer.
    w2 : array_like, shape (..., 1, units)
        Small readout.

    Returns
    -------
    ndarray, shape (..., 4)
        For the samples in the order of `tasks.xor`.

    Examples
    --------
    >>> xor_strengths([[2.0, 0.0]], [[1.0]]).round(3)
    array([0.   , 0.832, 0.   , 0.   ])
    """
    w, rows = array("w1", w1), array("w2", w2)
    if w.ndim < 2 or w.shape[-1] != 2 or rows.shape != (*w.shape[:-2], 1, w.shape[-2]):
        raise InputError(f"w1 must be (..., n, 2) and w2 (..., 1, n), got {w.shape} and {rows.shape}")
    v = rows[..., 0, :]
    first = np.abs(w[..., 0]) >= np.abs(w[..., 1])
    p, other = np.where(first, w[..., 0], w[..., 1]), np.where(first, w[..., 1], w[..., 0])
    q = -np.sign(p) * other
    arrived = np.sqrt(p**2 + v**2 - q**2)  # |v| when |q| = |p|, as v^2 - q^2 is constant
    wait = np.abs(v + q) / np.maximum(np.abs(p) + arrived, 1e-300)  # exp(-t/2) at that time
    a = np.where(p == 0, 0.0, ((np.sqrt(2) * np.abs(p) + arrived) / 2 * wait ** np.sqrt(0.5)) ** 2)
    turned = np.sign(v + q) * -np.sign(p)
    x0, x1 = np.where(first, p, turned), np.where(first, turned, p)
    sample = 2 * (x0 < 0) + (x1 < 0)
    return np.stack([np.where(sample == k, a, 0.0).sum(axis=-1) for k in range(4)], axis=-1)


def conserved(task: Task, weights: Mapping[str, ArrayLike], rates: Rates | None = None) -> dict[str, Floats]:
    r"""What gradient flow keeps constant at each hidden node.

    It is $\sum_{out} W^\top W - \sum_{in} W W^\top - b b^\top$ over the outgoing and the incoming edges.

    The law holds between neurons that are gated alike in every sample, for linear nodes. With relu and
    leaky_relu, and at nodes with a diagonal edge, it holds only for each neuron with itself
    (theory.md section 5).

    Parameters
    ----------
    task : Task
        Graph and gates.
    weights : dict of str to array_like
        Weights of every edge and bias, with any leading axes, such as those of `Trajectory.weights`.
    rates : Rates, optional
        As in `flow`: each term is divided by its learning rate. Nodes with a rate of 0 or a fixed edge are
        left out.

    Returns
    -------
    dict of str to ndarray, shape (..., size, size)
        One for each hidden node; nodes with other activations are left out. Entries where the law does not
        hold are zero. Weight decay $\lambda$ at the learning rate $\eta$ lets it shrink by $e^{-2 \eta
        \lambda t}$ if $\eta \lambda$ is the same for all edges at the node; otherwise there is no such law.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.chain([1, 1, 1]), [1.0], [1.0])
    >>> conserved(task, {"x->h1": [[2.0]], "h1->y": [[3.0]]})["h1"]
    array([[5.]])
    """
    if not isinstance(task, Task):
        raise InputError(f"task must be a Task, got {type(task)}")
    g, law = task.graph, {}
    weights = g.check_weights(weights, most_axes=MOST_AXES)
    rate = Rates.check(rates, g).scales(g)
    contexts = task.sample_contexts if task.n_samples is not None else task.moment_contexts
    for node in g.hidden:
        activation = g.activations.get(node, "linear")
        if activation not in ("linear", "relu", "leaky_relu", "leaky_relu_torch"):
            continue
        if not all(rate[e] for e in (*g.outgoing[node], *g.incoming[node], *({node} & set(g.biases)))):
            continue
        holds = np.eye(g.nodes[node], dtype=bool)
        if activation == "linear" and not g.diagonal & {*g.incoming[node], *g.outgoing[node]}:
            gates = [c.gate(node) for c in contexts]
            single = np.array([gate for gate in gates if np.ndim(gate)]).reshape(-1, g.nodes[node])
            holds = (single[:, :, None] == single[:, None, :]).all(axis=0)
        full = {e: as_matrix(g, e, weights[e]) for e in (*g.outgoing[node], *g.incoming[node])}
        out = sum(np.swapaxes(full[e], -1, -2) @ full[e] / rate[e] for e in g.outgoing[node])
        into = sum(full[e] @ np.swapaxes(full[e], -1, -2) / rate[e] for e in g.incoming[node])
        if node in g.biases:
            bias = weights[node]
            into = into + bias[..., :, None] * bias[..., None, :] / rate[node]
        law[node] = np.where(holds, out - into, 0.0)
    return without_nan("weights", law)


def power_law_exponent(x: ArrayLike, y: ArrayLike) -> Floats:
    """The exponent of y in x: slope of the straight line through their logarithms by least squares.

    Parameters
    ----------
    x : array_like, shape (n,)
        At least two positive numbers.
    y : array_like, shape (..., n)
        Positive numbers, with any leading axes.

    Returns
    -------
    float or ndarray, shape (...)
        nan where y holds nan.

    Examples
    --------
    >>> round(power_law_exponent([1.0, 2.0, 4.0], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    xs, ys = floats("x", x, 1), floats("y", y, 1)
    if xs.ndim != 1 or ys.shape[-1] != len(xs):
        raise InputError(f"x must be (n,) and y (..., n), got {xs.shape} and {ys.shape}")
    if len(np.unique(xs)) < 2 or (xs <= 0).any() or (ys <= 0).any():
        raise InputError("x and y must be positive, with at least two different x")
    log_x = np.log(xs) - np.log(xs).mean()
    return plain(np.log(ys) @ log_x / (log_x @ log_x))


# -- arguments of measures as arrays -----------------------------------------------------------------


def floats(name: str, value: ArrayLike, least_axes: int = 0) -> Floats:
    """`value` as a float64 array of at least so many axes; a JAX array stays one, so that it can be traced.

    Unlike `errors.array` it takes nan and infinity: a run may have diverged.
    """
    by_jax = isinstance(value, jax.Array) and value.dtype.kind in "biuf"
    out = cast(Floats, value) if by_jax else array(name, value, finite=False)
    if out.ndim < least_axes:
        raise InputError(f"{name} must have at least {least_axes} axes, got shape {out.shape}")
    return out


def stack(parts: list[Floats], axis: int) -> Floats:
    """Arrays side by side along a new axis, by JAX if any of them is a JAX array."""
    by_jax = any(isinstance(p, jax.Array) for p in parts)
    return cast(Floats, jnp.stack(parts, axis)) if by_jax else np.stack(parts, axis)


def as_matrix(graph: Graph, edge: str, w: Floats) -> Floats:
    """The weights `(..., out, in)` of an edge, also where they are stored as a diagonal."""
    return w[..., None] * np.eye(w.shape[-1]) if edge in graph.diagonal else w


def plain(value: Floats) -> Floats:
    """`value`, as a float where it has no axes."""
    return value if isinstance(value, jax.Array) or np.ndim(value) else cast(Floats, float(value))
