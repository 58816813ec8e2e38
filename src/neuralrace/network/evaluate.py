"""Predictions, loss, gradient, errors and activity of the network of a task.

The gradient of a linear network in NumPy, which waits for no compiler, is written out at the end, for the
squared error; its pass forwards is that of `Stack`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import InputError, known
from neuralrace.graph import WeightsLike
from neuralrace.network.compiler import compile_program
from neuralrace.network.plan import (
    Product,
    Program,
    Stack,
    library,
    read,
    reordered,
    row_blocks,
    some_rows,
    summed,
    take,
    weight_blocks,
)
from neuralrace.network.programs import check_task, program, run
from neuralrace.task import Context, Task
from neuralrace.task.contexts import Blocks
from neuralrace.task.samples import check_gates, check_rows, common_length, gates_by_row


def loss(task: Task, weights: WeightsLike, loss: str = "squared") -> Any:
    """Mean loss over samples, summed over outputs (neural_race Eq. 1).

    Parameters
    ----------
    task : Task
        Graph and data.
    weights : dict of str to array_like
        Weights of every edge `(target size, source size)` (diagonal edges and biases `(size,)`), all or none
        with a leading axis of runs.
    loss : {"squared", "cross_entropy"}
        One half of the squared error, or the cross-entropy of the softmax of each output.

    Returns
    -------
    float or ndarray, shape (runs,)
        A JAX scalar under a JAX transformation of the weights, in their precision.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.chain([1, 1, 1]), [1.0], [1.0])
    >>> loss(task, {"x->h1": [[1.0]], "h1->y": [[0.0]]})
    0.5
    """
    check_task(task, loss)
    return run(Stack.loss, task, weights, loss, lambda: program(task, loss), Stack.loss)


def _gradient(stack: Stack, flat: Any, data: Any, kind: str) -> Any:
    return stack.loss_and_gradient(flat, data, kind)[1]


def _gradient_in_numpy(stack: Stack, flat: np.ndarray, data: Any, kind: str) -> np.ndarray:
    return loss_and_gradient(stack, flat, data)[1]


def gradient(task: Task, weights: WeightsLike, loss: str = "squared") -> dict[str, Any]:
    """Gradient of the mean loss with respect to every weight (neural_race Eq. 3-4, without a sum over paths).

    Parameters
    ----------
    task : Task
        Graph and data.
    weights : dict of str to array_like
        As in `loss`.
    loss : {"squared", "cross_entropy"}
        As in `loss`.

    Returns
    -------
    dict of str to ndarray
        Shapes of the weights.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.chain([1, 1, 1]), [1.0], [1.0])
    >>> gradient(task, {"x->h1": [[2.0]], "h1->y": [[1.0]]})["h1->y"]
    array([[2.]])
    """
    check_task(task, loss)
    flat = run(_gradient, task, weights, loss, lambda: program(task, loss), _gradient_in_numpy)
    return task.graph.unflatten(flat)


def predict(task: Task, weights: WeightsLike) -> dict[str, Any]:
    """Activity of every output for every sample.

    Parameters
    ----------
    task : Task
        Graph and samples.
    weights : dict of str to array_like
        As in `loss`.

    Returns
    -------
    dict of str to ndarray
        Output -> `(n, size)`, with the leading axis of the weights; zeros where an output is gated off.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.chain([1, 1, 1]), [1.0, 3.0], [1.0, 0.0])
    >>> predict(task, {"x->h1": [[2.0]], "h1->y": [[1.0]]})["y"]
    array([[2.],
           [6.]])
    """
    check_task(task)
    task.samples  # noqa: B018 - refuses a task that does not hold them
    outputs = task.graph.outputs
    made = program(task, "squared", "merged")
    reader = _read(made, task, outputs)
    activities = run(reader, task, weights, "squared", lambda: made, reader)
    return dict(zip(outputs, activities, strict=True))


def activity(task: Task, weights: WeightsLike, node: str, inputs: Any = None, gates: Any = None) -> Any:
    """Activity of a node, after its gate and activation.

    Parameters
    ----------
    task : Task
        Graph and samples.
    weights : dict of str to array_like
        As in `loss`; JAX may trace them.
    node : str
        Any node; an input gives the input times its gate.
    inputs : array_like or dict of str to array_like, optional
        What to show to the network instead of the task's samples, as in `Task`; inputs that a dict leaves
        out are off. A task without samples needs them.
    gates : dict of str to array_like, optional
        Gates for these inputs, as in `Task`; 1 where not given.

    Returns
    -------
    ndarray, shape (..., n, size)
        Rows in the order of the samples (context by context where the task holds them so), with the leading
        axis of the weights; zeros where the node is gated off.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.chain([1, 2, 1]), [1.0, 3.0], [1.0, 0.0], gates={"h1": [1, 0]})
    >>> weights = {"x->h1": [[2.0], [1.0]], "h1->y": [[1.0, 1.0]]}
    >>> activity(task, weights, "h1")
    array([[2., 1.],
           [0., 0.]])
    >>> activity(task, weights, "h1", inputs=[5.0])
    array([[10.,  5.]])
    """
    if not isinstance(task, Task):
        raise InputError(f"task must be a Task, got {type(task)}")
    known("node", [node], task.graph.nodes, "node")
    if inputs is not None:
        made = compile_program(task.graph, [_shown(task, inputs, gates)])
    elif gates is not None:
        raise InputError("gates must come with inputs; the task's samples have their own")
    elif not task.sampled:
        raise InputError("inputs must be given: this task was built from moments and holds no samples")
    else:
        made = program(task, "squared", "samples" if task.n_samples is None else "merged")
    reader = _read(made, task, (node,))
    return run(reader, task, weights, "squared", lambda: made, reader)[0]


def _shown(task: Task, inputs: Any, gates: Any) -> Context:
    """Rows that are shown to the network, as one context."""
    graph, blocks = task.graph, Blocks()
    xs = check_rows("inputs", inputs, graph, graph.inputs, partial=True)
    n = common_length({"inputs": xs})
    gs = check_gates(graph, gates, n)
    return Context(
        gates_by_row(gs, n),
        {x: blocks.add(v) for x, v in xs.items()},
        {o: blocks.add(np.zeros((n, graph.nodes[o]))) for o in graph.outputs},
        blocks.add(np.ones(n)) if graph.biases else None,
        blocks.add(np.full(n, 1 / n)),
    )


@dataclass(frozen=True)
class _NodeReader:
    """Activities of nodes, rows of one context after the other: a static argument of compiled functions."""

    places: tuple[tuple[tuple[int, int] | None, ...], ...]  # node, context -> group and place in it
    sizes: tuple[int, ...]
    rows: tuple[int, ...]

    def __call__(self, stack: Stack, flat: Any, data: Any, kind: str) -> list[Any]:
        activities, xp = stack.activities(stack.in_stacks(flat), data), library(flat)
        return [
            xp.concatenate(
                [
                    xp.zeros((n, size), flat.dtype) if at is None else activities[at[0]][at[1], :n]
                    for at, n in zip(places, self.rows, strict=True)
                ]
            )
            for places, size in zip(self.places, self.sizes, strict=True)
        ]


def _read(made: Program, task: Task, nodes: tuple[str, ...]) -> _NodeReader:
    places = tuple(tuple(here.get(n) for here in made.nodes) for n in nodes)
    return _NodeReader(places, tuple(task.graph.nodes[n] for n in nodes), tuple(made.rows))


def error_rate(task: Task, weights: WeightsLike) -> np.ndarray:
    """Share of samples that are classified wrongly, in each context.

    An output of several neurons is wrong where its largest neuron is not that of the target. An output of one
    neuron is wrong where it lies on the other side of a threshold than its target: the midpoint of the least
    and the greatest target of that output in the task (0 for targets of +-1, 0.5 for 0 and 1), or half the
    target where all are equal.

    Parameters
    ----------
    task : Task
        Graph and samples.
    weights : dict of str to array_like
        As in `loss`.

    Returns
    -------
    ndarray, shape (..., contexts)
        With the leading axis of the weights. Where a context has several outputs, the mean over them; nan
        where all are off.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.chain([1, 1]), [1.0, 2.0, 3.0, 4.0], [1, 1, 1, -1])
    >>> error_rate(task, {"x->y": [[1.0]]})
    array([0.25])
    """
    check_task(task)
    if not task.sampled:
        raise InputError(
            "task must hold samples, as nr.Task(graph, inputs, targets) does; it was built from moments"
        )
    made = program(task, "squared", "samples")
    thresholds = _thresholds(task)
    middle = [np.array([thresholds.get(o, 0.0) for _, o in here]) for here in made.outputs]
    with_middle = replace(made, data={**made.data, "thresholds": middle})
    wrong = run(_wrong, task, weights, "squared", lambda: with_middle)
    places = [c for here in made.outputs for c, _ in here]
    rates = np.concatenate([np.asarray(w) for w in wrong], axis=-1) if wrong else _nothing(task, weights)
    if (rates < 0).any():
        raise InputError(
            "sample_weight must not be zero for all samples of a context: none of it can be wrong"
        )
    total = np.zeros((*rates.shape[:-1], task.n_contexts))
    for k, c in enumerate(places):
        total[..., c] += rates[..., k]
    with np.errstate(invalid="ignore"):
        return total / np.bincount(places, minlength=task.n_contexts)


def _nothing(task: Task, weights: WeightsLike) -> np.ndarray:
    """No errors of no outputs, with the leading axis of the weights."""
    return task.graph.flatten(task.graph.check_weights(weights))[..., :0]


def _thresholds(task: Task) -> dict[str, float]:
    """What separates the two classes of each output of one neuron."""
    ends: dict[str, tuple[float, float]] = {}
    for c in task.sample_contexts:
        for o, y in c.targets.items():
            if y.shape[1] == 1 and len(y):
                least, most = ends.get(o, (np.inf, -np.inf))
                ends[o] = min(least, float(y.min())), max(most, float(y.max()))
    return {o: a / 2 + b / 2 if a < b else a / 2 for o, (a, b) in ends.items()}


def _wrong(stack: Stack, flat: Any, data: Any, kind: str) -> list[Any]:
    def missed(h: Any, y: Any, threshold: Any) -> Any:
        if h.shape[-1] > 1:
            return h.argmax(axis=-1) != y.argmax(axis=-1)
        middle = threshold[:, None]
        return jnp.sign(h[..., 0] - middle) != jnp.sign(y[..., 0] - middle)

    def weighted(rows: Any) -> list[Any]:
        outputs = zip(
            stack.outputs(flat, rows), stack.readouts, rows["readouts"], rows["thresholds"], strict=True
        )
        sums = []
        for h, r, d, threshold in outputs:
            weight = take(d["weight"], r.weight, -2)
            wrong = missed(h, take(d["target"], r.target), threshold)
            sums.append(jnp.stack([(wrong * weight).sum(axis=-1), weight.sum(axis=-1)]))
        return sums

    sizes = {g["rows"].shape[1] for g in data["groups"] if "rows" in g}
    if len(sizes) == 1:  # block by block: all samples at once may not fit
        n = sizes.pop()
        blocks = jax.lax.map(lambda one: weighted(some_rows(data, one[0], n, one[1])), row_blocks(n))
        sums = [b.sum(axis=0) for b in blocks]
    else:
        sums = weighted(data)
    return [jnp.where(total > 0, wrong / total, -1.0) for wrong, total in sums]  # -1: no weight


# -- loss and gradient, by JAX or in NumPy ------------------------------------------------------------


def loss_and_gradient(stack: Stack, flat: Any, data: Any, kind: str = "squared") -> tuple[Any, Any]:
    """Loss `(...)` of flat weights `(..., n_weights)`, and its gradient in the same form; in NumPy or JAX.

    In JAX runs go one after the other on a CPU, where that is faster, else side by side.
    """
    if isinstance(flat, np.ndarray):
        one = many = lambda w: _in_numpy(stack, w, data)
    else:
        one = lambda w: stack.loss_and_gradient(w, data, kind)  # noqa: E731
        many = _each(one)
    if flat.ndim == 2 and len(flat) == 1:  # an axis of one run costs time
        return jax.tree.map(lambda v: v[None], one(flat[0]))
    return one(flat) if flat.ndim == 1 else many(flat)


def _each(one: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same of every run."""
    if jax.default_backend() != "cpu":
        return jax.vmap(one)
    return lambda flat: jax.lax.map(one, flat)


def _in_numpy(stack: Stack, flat: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
    activities = stack.activities(stack.in_stacks(flat), data)
    loss, errors = _errors(stack, data, activities)
    gradient = np.zeros_like(flat)
    weights, parts = [*stack.in_stacks(flat), *data["fixed"]], stack.in_stacks(gradient)  # views
    for k in reversed(range(len(stack.groups))):
        group, d, error = stack.groups[k], data["groups"][k], errors[k]
        if error is None or "rows" in d:
            continue
        error = error if d["gate"] is None else error * d["gate"]
        if group.bias is not None:
            biases = parts[group.bias[0]]
            each = (error * d["ones"][..., None]).sum(axis=-2)
            biases += summed(each, group.bias[1], biases.shape[-2], axis=-2)
        for product, gate in zip(group.products, d["edge_gates"], strict=True):
            items, at = activities[product.source], product.stack
            here = _spread(error, product.target)
            here = _in_blocks(product, here if gate is None else here * gate)
            if "rows" not in data["groups"][product.source]:  # inputs learn nothing
                before = errors[product.source]
                put = _put(_by_item(product, weights[at], here, items.shape[-2]), product.a, items.shape[-3])
                errors[product.source] = put if before is None else before + put
            if at < len(parts):  # else it is fixed
                parts[at] += _by_weight(product, items, here, parts[at].shape[-1 - len(product.shape)])
    return loss + np.zeros(flat.shape[:-1]), gradient


def _errors(
    stack: Stack, data: Any, activities: list[np.ndarray]
) -> tuple[np.ndarray, list[np.ndarray | None]]:
    """The loss, and its derivative by the activity of each group as far as its readouts make it."""
    total = np.asarray(data["constant"], float)
    errors: list[np.ndarray | None] = [None] * len(stack.groups)
    for r, d in zip(stack.readouts, data["readouts"], strict=True):
        off = read(r, d, activities) - take(d["target"], r.target)
        weighted = off if d["weight"] is None else off * take(d["weight"], r.weight, -2)[..., None]
        total = total + 0.5 * np.einsum("...nrs,...nrs->...", off, weighted)
        if d["mix"] is not None:
            weighted = take(d["mix"], r.mix).swapaxes(-1, -2) @ weighted
        if r.joined > 1:
            *lead, count, rows, size = weighted.shape
            weighted = weighted.reshape(*lead, count * r.joined, rows // r.joined, size)
        put = _put(weighted, r.item, activities[r.group].shape[-3])
        before = errors[r.group]
        errors[r.group] = put if before is None else before + put
    return total, errors


def _spread(error: np.ndarray, target: np.ndarray | int | None) -> np.ndarray:
    """The error of the item that each product feeds; 0 for products that only pad."""
    if target is None:
        return error
    if isinstance(target, int):
        return np.repeat(error, target, axis=-3)
    return np.concatenate([error, np.zeros_like(error[..., :1, :, :])], axis=-3).take(target, axis=-3)


def _in_blocks(p: Product, error: np.ndarray) -> np.ndarray:
    """The errors of the products of each block, as the columns of its product of matrices."""
    (n, k, j), (*lead, _, rows, t) = p.blocks, error.shape
    parts = error.reshape(*lead, n, k, j, rows, t)
    if len(p.shape) == 1:
        return parts
    if k == 1:
        return error.reshape(*lead, n, j * rows, t)
    return reordered(parts, 0, 2, 3, 1, 4).reshape(*lead, n, j * rows, k * t)


def _by_weight(p: Product, items: np.ndarray, error: np.ndarray, count: int) -> np.ndarray:
    """Derivatives by the weights of each block, put where they are among all of the stack."""
    (n, k, j), a = p.blocks, take(items, p.a)
    *lead, _, rows, s = items.shape
    before = error.shape[: -5 if len(p.shape) == 1 else -3]
    if len(p.shape) == 1:
        found = np.einsum("...nkjrs,...njrs->...nks", error, a.reshape(*lead, n, j, rows, s))
        return _put(found.reshape(*before, n * k, s), p.w, count, axis=-2)
    found = error.swapaxes(-1, -2) @ a.reshape(*lead, n, j * rows, s)
    return _put(found.reshape(*before, n * k, p.shape[0], s), p.w, count)


def _by_item(p: Product, weights: np.ndarray, error: np.ndarray, rows: int) -> np.ndarray:
    """Derivatives by the items of each block."""
    (n, _, j), w = p.blocks, weight_blocks(p, weights)
    if len(p.shape) == 1:
        found = np.einsum("...nkjrs,...nks->...njrs", error, w)
        return found.reshape(*found.shape[:-4], n * j, rows, -1)
    found = error @ w
    return found.reshape(*found.shape[:-3], n * j, rows, -1)


def _put(values: np.ndarray, index: np.ndarray | None, count: int, axis: int = -3) -> np.ndarray:
    """The sums of the values that belong to each of `count` places: the transpose of `take`."""
    return values if index is None else summed(values, index, count, axis)
