"""The argument of a `record` function at a saved time, and the values that it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import InputError
from neuralrace.graph import Graph
from neuralrace.identity import key
from neuralrace.network import activity, precision
from neuralrace.subspace import expand
from neuralrace.task import Task

Record = Callable[[Any], Mapping[str, Any]]


class State:
    """A network at one moment of learning: the argument of `record(state)`. Values are computed on demand.

    Attributes
    ----------
    t : scalar
        Flow time.
    weights : dict
        Edge name -> (out, in), of the whole network whatever the method.
    outputs : dict
        Output -> (n, size), for the samples of the task in their order.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.tasks.xor()
    >>> w = nr.init.gaussian(task.graph, 0.1)
    >>> run = nr.flow(task, w, t1=1.0, save=3, record=lambda state: {"h": state.activity("p0h1")})
    >>> run.recorded["h"].shape  # times, samples, neurons
    (3, 4, 32)
    """

    def __init__(
        self,
        t: Any,
        task: Task,
        weights: Callable[[], dict[str, Any]],
        outputs: tuple[Task, Any] | None = None,
    ):
        self.t = t
        self._task, self._weights = task, weights
        self._outputs = outputs  # a smaller network with the same outputs, where there is one

    @cached_property
    def weights(self) -> dict[str, Any]:
        return self._weights()

    @cached_property
    def outputs(self) -> dict[str, Any]:
        return {o: self.activity(o) for o in self._task.graph.outputs}

    def activity(self, node: str, inputs: Any = None, gates: Any = None) -> Any:
        """Activity of a node after its gate and activation.

        Parameters
        ----------
        node : str
        inputs : array (n, size), or dict over input nodes, optional
            By default the samples of the task, with their own gates.
        gates : dict, optional
            Gates of `inputs`, as in `Task`; 1 where not given.

        Returns
        -------
        array, shape (n, size)
        """
        if self._outputs is not None and node in self._task.graph.outputs:
            small, weights = self._outputs
            return activity(small, weights, node, inputs, gates)
        return activity(self._task, self.weights, node, inputs, gates)


@dataclass(frozen=True, eq=False)
class Recorder:
    """The values to save at a time. A static argument of compiled functions; equal ones compile once."""

    graph: Graph  # of the weights that are integrated
    task: Task  # as given
    record: Record | None
    save_weights: bool

    def __call__(self, t: Any, flat: Any, lift: Any) -> tuple[Any, dict[str, Any]]:
        kept = flat if self.save_weights else flat[:0]
        if self.record is None:
            return kept, {}
        return kept, self.recorded(State(t, self.task, lambda: self.full_weights(flat, lift)))

    def recorded(self, state: State) -> dict[str, Any]:
        """The values that `record` returns, as arrays."""
        if self.record is None:
            return {}
        found = self.record(state)
        if not isinstance(found, Mapping):
            raise InputError(f"record must return a dict of arrays, got {type(found).__name__}")
        out = {}
        for name, value in found.items():
            if not isinstance(name, str) or not name or "/" in name:
                raise InputError(f"record must return a dict whose keys are text without '/', got {name!r}")
            try:
                if isinstance(value, Mapping):
                    raise TypeError("a dict")
                out[name] = jnp.asarray(value)
            except (TypeError, ValueError) as fault:
                raise InputError(f"record must return arrays; {name!r} is {type(value).__name__}") from fault
        return out

    def full_weights(self, flat: Any, lift: Any) -> dict[str, Any]:
        """Full weights `W(0) + Q_t (B - B(0)) Q_s^T`, Q the bases of layers integrated in small spaces."""
        if lift is None:
            return self.graph.unflatten(flat)
        frames, start, full = lift
        graph = self.task.graph
        moved = expand(graph, self.graph.unflatten(flat - start), frames)
        return {n: w + moved[n] for n, w in graph.unflatten(full).items()}

    def check(self, dtype: Any) -> None:
        """Trace `record` without computing, so that errors in it are raised before solving."""
        if self.record is not None:
            _checked(self, dtype)

    @cached_property
    def _content(self) -> tuple[Any, ...]:
        return self.graph, self.task.graph, key(self.record), self.save_weights

    def __hash__(self) -> int:
        return hash(self._content)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recorder) or self._content != other._content:
            return False
        return self.record is None or self.task is other.task or _same_samples(self.task, other.task)


@lru_cache(maxsize=64)
def _checked(recorder: Recorder, dtype: Any) -> None:
    shapes = {n: jax.ShapeDtypeStruct(s, dtype) for n, s in recorder.task.graph.shapes.items()}
    record = lambda t, w: recorder.recorded(State(t, recorder.task, lambda: dict(w)))  # noqa: E731
    try:
        with precision(dtype):
            jax.eval_shape(record, jax.ShapeDtypeStruct((), dtype), shapes)
    except InputError:
        raise
    except Exception as fault:
        raise InputError(f"record failed with {type(fault).__name__}: {fault}") from fault


def _same_samples(a: Task, b: Task) -> bool:
    """Whether two tasks on the same graph have the same samples and gates."""
    if a.n_samples is None or a.n_samples != b.n_samples:
        return False
    tables = ((getattr(t.samples, n) for n in ("inputs", "gates")) for t in (a, b))
    return all(
        x.keys() == y.keys() and all(np.array_equal(x[k], y[k]) for k in x)
        for x, y in zip(*tables, strict=True)
    )
