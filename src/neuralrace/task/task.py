"""The task: a graph with its data.

Inside a context a linear network sees its samples only through second moments. The moments are kept as
*pseudo-samples*: rows X, Y with `X^T X = Sxx`, `Y^T X = Syx`, never more rows than inputs, plus the part of
the loss that no weights can remove. Training on them is training on all samples, so one forward pass serves
moments and samples alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.errors import InputError, listable
from neuralrace.graph import Graph, check_graph, some
from neuralrace.task.contexts import ArrayInterner, Blocks, Context, is_open
from neuralrace.task.gatings import Gatings
from neuralrace.task.given import given_contexts
from neuralrace.task.moments import Accumulator, is_dask, parts_in_parallel
from neuralrace.task.samples import Samples, check_samples, gates_by_row


@dataclass(frozen=True, eq=False)
class Data:
    """Samples, or contexts that are already at hand, and the forms in which networks take them."""

    graph: Graph  # a graph that has these inputs, outputs and biases
    samples: Samples | None
    contexts: list[Context] | None

    @property
    def sampled(self) -> bool:
        """Whether samples are at hand, not only moments."""
        return self.contexts is None or self.contexts[0].weight_block is not None

    @cached_property
    def moment_contexts(self) -> list[Context]:
        """See `Task.moment_contexts`."""
        if self.contexts is not None and not self.sampled:
            return self.contexts
        moments = Accumulator(self.graph)
        if self.samples is not None:
            moments.add(self.samples)
        for c in self.contexts or ():
            moments.add(Samples(c.inputs, c.targets, c.gates, np.asarray(c.weight)))
        return moments.finish()

    @cached_property
    def sample_contexts(self) -> list[Context]:
        """See `Task.sample_contexts`."""
        if self.samples is None:
            return self.contexts if self.contexts is not None and self.sampled else [self.merged_context]
        s, share = self.samples, self.samples.share
        inputs, targets = ArrayInterner(), ArrayInterner()
        contexts = []
        for gates, index in s.patterns:
            contexts.append(
                Context(
                    gates,
                    {x: inputs(v[index]) for x, v in s.inputs.items() if is_open(gates.get(x, 1.0))},
                    {y: targets(v[index]) for y, v in s.targets.items()},
                    inputs(np.ones(s.n)[index]) if self.graph.biases else None,
                    targets(share[index]),
                )
            )
        inputs.blocks.consolidate()
        targets.blocks.consolidate()
        return contexts

    @cached_property
    def merged_context(self) -> Context:
        """See `Task.merged_context`."""
        s, blocks = self.listed, Blocks()
        return Context(
            gates_by_row(s.gates, s.n),
            {x: blocks.add(v) for x, v in s.inputs.items()},
            {y: blocks.add(v) for y, v in s.targets.items()},
            blocks.add(np.ones(s.n)) if self.graph.biases else None,
            blocks.add(s.share),
        )

    @cached_property
    def gatings(self) -> Gatings | None:
        """The distinct gates of samples or contexts; None where single neurons have gates of their own."""
        if self.neuron_gated:
            return None
        if self.samples is None:
            return Gatings.of_dicts([c.gates for c in self.contexts or ()])
        s = self.samples
        columns = [np.asarray(g, float).reshape(len(np.atleast_1d(g)), -1)[:, 0] for g in s.gates.values()]
        table = np.array([np.broadcast_to(c, s.n) for c in columns]).reshape(-1, s.n).T
        return Gatings.distinct(list(s.gates), table)

    @cached_property
    def neuron_gated(self) -> frozenset[str]:
        """Nodes whose neurons have gates of their own."""
        if self.samples is None:
            return frozenset(n for c in self.contexts or () for n, gate in c.gates.items() if np.ndim(gate))
        wide = {n: np.asarray(g) for n, g in self.samples.gates.items() if np.ndim(g) > 1}
        return frozenset(n for n, g in wide.items() if (g != g[:, :1]).any())

    @property
    def signals(self) -> int:
        """Rows of inputs of all contexts, or as many as these have at most."""
        if self.gatings is None or self.samples is None:
            return sum(c.rows for c in self.moment_contexts)
        most = sum(self.graph.nodes[x] for x in self.graph.inputs)
        return int(np.minimum(np.bincount(self.gatings.of), most).sum())

    @property
    def counts(self) -> np.ndarray:
        """Rows of each sample or context."""
        return (
            np.ones(self.samples.n)
            if self.samples is not None
            else np.array([c.rows for c in self.contexts or ()])
        )

    @property
    def irreducible_loss(self) -> float:
        """The loss that no weights remove, as far as contexts say it."""
        return sum(c.irreducible_loss for c in self.contexts or ())

    def rows(self, output: str) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
        """All rows that are compared with targets of an output.

        Inputs `(n, size)`, targets `(n, size)`, and of each row the number of its gating and the root of its
        weight.
        """
        gatings = self.gatings
        assert gatings is not None
        if self.samples is not None:
            s = self.samples
            return s.inputs, s.targets[output], gatings.of, np.sqrt(s.share)
        have = [k for k, c in enumerate(self.contexts or ()) if output in c.target_blocks]
        some = [(self.contexts or [])[k] for k in have]
        counts = [c.rows for c in some]
        zeros = {x: np.zeros((max(counts, default=0), self.graph.nodes[x])) for x in self.graph.inputs}
        x = {n: np.concatenate([c.inputs.get(n, z[: c.rows]) for c in some]) for n, z in zeros.items()}
        root = [np.ones(c.rows) if c.weight is None else np.sqrt(c.weight) for c in some]
        y = np.concatenate([c.targets[output] for c in some])
        return x, y, np.repeat(gatings.of[have], counts), np.concatenate(root)

    @property
    def listed(self) -> Samples:
        """The samples, refused where they are not one list."""
        if self.samples is None:
            if self.sampled:
                raise InputError("this task holds its samples context by context, not as one list")
            raise InputError(
                "this task was built from moments and holds no samples; nr.Task(graph, inputs, targets) does"
            )
        return self.samples


class Task:
    """A graph with data: inputs, targets and gates per sample.

    Parameters
    ----------
    graph : Graph
        The network.
    inputs, targets : dict of str to array_like, or array_like
        Samples of each input and output node, `(n, size)`; `(n,)` is one column. Bare arrays where there is
        one input or output.
    gates : dict of str to array_like, optional
        Gates of nodes and edges, `(n,)`, for nodes also `(n, size)`, or a number for all samples. A gate on
        an input multiplies that input, on an output that output; 1 where not given.
    sample_weight : array_like, optional
        Relative weights of the samples, `(n,)`; they are divided by their sum. Equal if not given.

    Examples
    --------
    >>> g = Graph.chain([2, 4, 1])
    >>> task = Task(g, inputs=[[1, 0], [0, 1]], targets=[1, -1], gates={"h1": [1, 0]})
    >>> task.n_contexts
    2
    """

    def __init__(
        self,
        graph: Graph,
        inputs: Any,
        targets: Any,
        gates: Mapping[str, Any] | None = None,
        sample_weight: Any = None,
    ):
        self.graph: Graph = check_graph(graph)
        self.data: Data = Data(graph, check_samples(graph, inputs, targets, gates, sample_weight), None)

    @classmethod
    def from_batches(cls, graph: Graph, batches: Iterable[Any] | str | Path) -> Task:
        """A task whose samples arrive in batches: only moments are kept, so memory does not grow.

        Parameters
        ----------
        graph : Graph
            A linear network.
        batches : iterable of tuple, tuple of dask arrays, or path
            Each `(inputs, targets)` and, if wanted, `gates` and `sample_weight`, as in `Task`. An input or
            output that a batch leaves out is off in it. Or one such tuple of dask arrays, counted in
            parallel, or a folder of Parquet files with columns `x_0`, `y_0`, `gate_h`, `sample_weight`.

        Returns
        -------
        Task

        Examples
        --------
        >>> batches = (([[1.0, k]], [[k]]) for k in range(5))
        >>> Task.from_batches(Graph.chain([2, 3, 1]), batches).n_contexts
        1
        """
        if not check_graph(graph).is_linear:
            raise InputError("graph must be linear for from_batches: moments say nothing of activations")
        moments = Accumulator(graph)
        if isinstance(batches, (str, Path)) or is_dask(batches):
            moments.absorb(parts_in_parallel(graph, batches))
            return cls.from_contexts(graph, moments.finish())
        if not listable(batches):
            raise InputError(f"batches must be an iterable of batches, got {type(batches)}")
        for k, batch in enumerate(batches):
            if not isinstance(batch, (tuple, list)) or not 2 <= len(batch) <= 4:
                raise InputError(
                    f"batches[{k}] must be (inputs, targets, gates, sample_weight), got {type(batch)}"
                )
            try:
                moments.add(check_samples(graph, *batch, partial=True))
            except InputError as error:
                raise InputError(f"batches[{k}]: {error}") from error
        return cls.from_contexts(graph, moments.finish())

    @classmethod
    def from_moments(cls, graph: Graph, contexts: Iterable[Mapping[str, Any]]) -> Task:
        r"""A task given by population moments, context by context.

        Moments left out are zero, and inputs and outputs that no moment names are off. Graphs with biases
        need means, hence samples.

        Parameters
        ----------
        graph : Graph
            The network, linear and without biases.
        contexts : iterable of dict
            Each with some of these keys; bare arrays where there is one input and one output.

            - ``sxx``: input or pair of inputs -> $\langle x x'^\top \rangle$, `(size, size')`
            - ``syx``: (output, input) -> $\langle y x^\top \rangle$, `(output size, input size)`
            - ``syy``: output -> $\langle |y|^2 \rangle$, a number; if left out, the least that agrees with
              the others: targets without noise
            - ``gates``: node or edge -> number or, for nodes, `(size,)`
            - ``default_gate``: of hidden nodes without a gate (1)
            - ``probability``: multiplies the context's moments (1)

        Returns
        -------
        Task

        Examples
        --------
        >>> moments = {"sxx": [[1, 0], [0, 1]], "syx": [[1.0, 0.5]]}
        >>> Task.from_moments(Graph.chain([2, 3, 1]), [moments]).syx(["x->h1", "h1->y"])
        array([[1. , 0.5]])
        """
        if check_graph(graph).biases:
            raise InputError("graph must have no biases for from_moments: biases also see the means")
        if not listable(contexts):
            raise InputError(f"contexts must be a list of dicts, got {type(contexts)}")
        return cls.from_contexts(graph, given_contexts(graph, contexts))

    @classmethod
    def from_contexts(cls, graph: Graph, contexts: Sequence[Context]) -> Task:
        """A task whose contexts are already at hand: pseudo-samples, or samples if they have weights.

        Contexts hold their data as blocks (`ArrayInterner`, `Blocks`), so that many contexts with the same
        inputs need little memory.

        Parameters
        ----------
        graph : Graph
            The network.
        contexts : sequence of Context
            At least one.

        Returns
        -------
        Task
        """
        check_graph(graph)
        if not isinstance(contexts, (list, tuple)) or not all(isinstance(c, Context) for c in contexts):
            raise InputError(f"contexts must be a list of Context, got {type(contexts)}")
        if not contexts:
            raise InputError("a task needs at least one context, got none")
        return cls._of(graph, Data(graph, None, list(contexts)))

    @classmethod
    def _of(cls, graph: Graph, data: Data) -> Task:
        task = cls.__new__(cls)
        task.graph, task.data = graph, data
        return task

    def __repr__(self) -> str:
        return f"Task({self._data_words()}, {self.n_contexts} contexts, {self.graph!r})"

    def _repr_html_(self) -> str:
        from neuralrace.drawing import graph_svg, table_html

        g = self.graph
        gated = list(dict.fromkeys(name for gates in self._gate_tables() for name in gates))
        sized = lambda nodes: some([f"{n} ({g.nodes[n]})" for n in nodes])  # noqa: E731
        rows = [
            ("data", self._data_words()),
            ("contexts", f"{self.n_contexts:,}"),
            ("inputs", sized(g.inputs)),
            ("outputs", sized(g.outputs)),
            ("gates", some(gated) or "none"),
        ]
        return table_html("Task", rows, graph_svg(g))

    def _gate_tables(self) -> list[Mapping[str, Any]]:
        return [c.gates for c in self.data.contexts or ()] if self.n_samples is None else [self.samples.gates]

    def _data_words(self) -> str:
        """The kind of data, in words."""
        if self.n_samples is not None:
            return f"{self.n_samples} samples"
        return "samples by context" if self.sampled else "moments"

    @property
    def n_contexts(self) -> int:
        """Number of distinct gate patterns."""
        contexts, gatings = self.data.contexts, self.data.gatings
        if contexts is not None:
            return len(contexts)
        return len(self.samples.patterns if gatings is None else gatings)

    @property
    def sampled(self) -> bool:
        """Whether samples are at hand, not only moments."""
        return self.data.sampled

    @property
    def n_samples(self) -> int | None:
        """Number of samples; None where they are not one list."""
        return None if self.data.samples is None else self.data.samples.n

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs `(n, size)` and targets `(n, size)` where there is one input and one output."""
        s = self.samples
        if len(s.inputs) != 1 or len(s.targets) != 1:
            raise InputError("arrays needs a graph with one input and output; task.samples has all of them")
        return next(iter(s.inputs.values())), next(iter(s.targets.values()))

    @property
    def samples(self) -> Samples:
        """The samples with their gates and weights."""
        return self.data.listed

    def as_samples(self) -> Task:
        """The same task with its samples as one list.

        A task from moments gets pseudo-samples: rows with the same moments, and the same loss that no weights
        remove, so that a linear network cannot tell them from samples.

        Returns
        -------
        Task

        Examples
        --------
        >>> moments = {"sxx": [[1, 0], [0, 1]], "syx": [[1.0, 0.5]], "syy": 2.0}
        >>> task = Task.from_moments(Graph.chain([2, 3, 1]), [moments]).as_samples()
        >>> task.n_samples, task.syx(["x->h1", "h1->y"]).round(12)
        (3, array([[1. , 0.5]]))
        """
        return self if self.n_samples is not None else Task(self.graph, *pseudo_samples(self))

    def on(self, graph: Graph) -> Task:
        """The same data and gates on a graph that differs in hidden sizes or activations only.

        Parameters
        ----------
        graph : Graph
            With the same edges and biases, and the same sizes of inputs and outputs.

        Returns
        -------
        Task

        Examples
        --------
        >>> task = Task(Graph.chain([2, 4, 1]), [[1, 0], [0, 1]], [1, -1])
        >>> task.on(Graph.chain([2, 8, 1])).graph.nodes["h1"]
        8
        """
        own = self.graph
        if check_graph(graph).edges != own.edges or graph.biases != own.biases:
            raise InputError("graph must have the same edges and biases as the task's own")
        for n in (*own.inputs, *own.outputs):
            if graph.nodes[n] != own.nodes[n]:
                wanted, got = own.nodes[n], graph.nodes[n]
                raise InputError(f"graph must keep the size {wanted} of {n!r}, an input or output, got {got}")
        self._check_neuron_gates(graph)
        return Task._of(graph, self.data)

    def _check_neuron_gates(self, graph: Graph) -> None:
        """Gates of single neurons must still fit their node."""
        for gates in self._gate_tables():
            for n, g in gates.items():
                size = np.shape(g)[-1:] if np.ndim(g) > (self.n_samples is not None) else ()
                if size and n in graph.nodes and size != (graph.nodes[n],):
                    raise InputError(
                        f"graph must keep the size of {n!r}, whose neurons have gates of their own"
                    )

    def resized(self, sizes: Mapping[str, int]) -> Task:
        """The task on a graph whose hidden nodes have other sizes; made once, so that it is compiled once.

        Parameters
        ----------
        sizes : dict of str to int
            Of some hidden nodes.

        Returns
        -------
        Task

        Examples
        --------
        >>> Task(Graph.chain([2, 4, 1]), [[1, 0], [0, 1]], [1, -1]).resized({"h1": 8}).graph.nodes["h1"]
        8
        """
        key = tuple(sizes.items())
        if key not in self._resized:
            self._resized[key] = self.on(self.graph.resized(dict(sizes)))
        return self._resized[key]

    @cached_property
    def _resized(self) -> dict[tuple[tuple[str, int], ...], Task]:
        return {}

    @property
    def moment_contexts(self) -> list[Context]:
        """Contexts of pseudo-samples: all that a linear network with squared error sees."""
        return self.data.moment_contexts

    @property
    def sample_contexts(self) -> list[Context]:
        """Contexts of the samples themselves."""
        return self.data.sample_contexts

    def _decided_by(self) -> tuple[Any, ...]:
        contexts = self.sample_contexts if self.sampled else self.moment_contexts
        return self.graph, contexts if self.n_samples is None else self.samples

    @property
    def merged_context(self) -> Context:
        """All samples in their order as one context, each row with its own gates."""
        return self.data.merged_context

    # -- path statistics ---------------------------------------------------------------------

    def syx(self, path: Sequence[str]) -> np.ndarray:
        r"""Input-output correlation of a path (neural_race Eq. 5).

        It is $\Sigma^{yx}(p) = \langle g_p\, y x^\top \rangle$.

        Parameters
        ----------
        path : sequence of str
            Edges that follow one another from an input to an output.

        Returns
        -------
        ndarray, shape (output size, input size)
            Weighted mean over samples.

        Examples
        --------
        >>> task = Task(Graph.chain([2, 4, 1]), [[1, 0], [0, 1]], [1, -1])
        >>> task.syx(["x->h1", "h1->y"])
        array([[ 0.5, -0.5]])
        """
        path = self.graph.check_path("path", path)
        x, y = self.graph.edges[path[0]][0], self.graph.edges[path[-1]][1]
        total = np.zeros((self.graph.nodes[y], self.graph.nodes[x]))
        for c in self.moment_contexts:
            g = self._path_gate(c, path)
            if g and y in c.target_blocks:
                total += g * (c.targets[y].T @ c.inputs[x])
        return total

    def sxx(self, path_j: Sequence[str], path_p: Sequence[str]) -> np.ndarray:
        r"""Input correlation of two paths (neural_race Eq. 6).

        It is $\Sigma^{xx}(j, p) = \langle g_j\, x_j x_p^\top g_p \rangle$.

        Parameters
        ----------
        path_j, path_p : sequence of str
            Edges that follow one another from an input to an output, the same output for both.

        Returns
        -------
        ndarray, shape (size of input of path_j, size of input of path_p)
            Weighted mean over samples.

        Examples
        --------
        >>> task = Task(Graph.chain([2, 4, 1]), [[1, 0], [0, 1]], [1, -1])
        >>> path = ["x->h1", "h1->y"]
        >>> task.sxx(path, path)
        array([[0.5, 0. ],
               [0. , 0.5]])
        """
        j, p = self.graph.check_path("path_j", path_j), self.graph.check_path("path_p", path_p)
        if self.graph.edges[j[-1]][1] != self.graph.edges[p[-1]][1]:
            raise InputError(f"path_j and path_p must end at the same output, got {j} and {p}")
        xj, xp = self.graph.edges[j[0]][0], self.graph.edges[p[0]][0]
        total = np.zeros((self.graph.nodes[xj], self.graph.nodes[xp]))
        for c in self.moment_contexts:
            g = self._path_gate(c, j) * self._path_gate(c, p)
            if g:
                total += g * (c.inputs[xj].T @ c.inputs[xp])
        return total

    def _path_gate(self, context: Context, path: tuple[str, ...]) -> float:
        source, output = self.graph.edges[path[0]][0], self.graph.edges[path[-1]][1]
        if source not in context.input_blocks or output not in context.target_blocks:
            return 0.0
        g = context.gate(source)
        for edge in path:
            node = self.graph.edges[edge][1]
            g = g * context.gate(edge) * context.gate(node)
            if np.ndim(g):
                raise InputError(
                    f"path statistics need scalar gates; {node!r} or {source!r} has one per neuron"
                )
        return float(g)


Rows = dict[str, np.ndarray]  # of samples, by node or edge


def pseudo_samples(task: Task) -> tuple[Rows, Rows, Rows]:
    """Inputs, targets and gates of rows that have the moments of a task."""
    graph, contexts = task.graph, task.moment_contexts
    counts = [c.rows + (c.irreducible_loss > 0) for c in contexts]
    n = sum(counts)  # rows of contexts are summed, samples averaged
    rows = {node: np.zeros((n, graph.nodes[node])) for node in (*graph.inputs, *graph.outputs)}
    for c, place in zip(contexts, np.split(np.arange(n), np.cumsum(counts)[:-1]), strict=True):
        for node, values in {**c.inputs, **c.targets}.items():
            rows[node][place[: c.rows]] = np.sqrt(n) * values
        if c.irreducible_loss > 0:  # a row that has no input
            rows[next(iter(c.targets))][place[-1], 0] = np.sqrt(2 * n * c.irreducible_loss)

    def gate(name: str) -> np.ndarray:
        off = [name in graph.outputs and name not in c.targets for c in contexts]
        each = [0.0 if o else c.gate(name) for o, c in zip(off, contexts, strict=True)]
        return np.repeat(np.stack(np.broadcast_arrays(*each)), counts, axis=0)

    gated = [*(name for c in contexts for name in c.gates), *graph.outputs]
    gates = {name: g for name in dict.fromkeys(gated) if (g := gate(name)).min() != 1 or g.max() != 1}
    inputs, targets = ({node: rows[node] for node in nodes} for nodes in (graph.inputs, graph.outputs))
    return inputs, targets, gates
