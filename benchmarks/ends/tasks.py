"""Random gated tasks of the kinds that people build, by seed.

`draw` gives one of six kinds in turn: parallel pathways, a trunk with gated heads, overlapping experts, two
modalities, routing, and experts that must cancel what a shared pathway supplies. `narrow` gives the same with
hidden layers of one to three units, and `at_width` random graphs just as wide as needed, or one unit less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

import neuralrace as nr
from benchmarks.ends.attainable import initial_loss, learnable

WIDTH = 16
Rng = np.random.Generator
Pattern = tuple[str, tuple[float, ...]]  # an end, and gates over the contexts


@dataclass
class Context:
    """Gates of one context, and what is to be learned in it."""

    gates: dict[str, float] = field(default_factory=dict)
    maps: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)  # (output, input) -> (out, in)


class Maker:
    """Random choices that belong to one task: sizes, frames of inputs and outputs, gates."""

    def __init__(self, rng: Rng, width: Callable[[], int]) -> None:
        self.rng, self.width = rng, width
        self.nodes: dict[str, int] = {}
        self.edges: list[tuple[str, str]] = []
        self.ends: list[str] = []
        self.depth: int = int(rng.choice([1, 2, 3], p=[0.45, 0.3, 0.25]))  # hidden layers
        self.aligned: bool = rng.random() < 0.65  # all maps and variances share their frames
        self.white: bool = rng.random() < 0.5
        self.real: bool = rng.random() < 0.2  # gates that are not 0 or 1
        self.on_edges: bool = rng.random() < 0.2  # gates of edges in place of nodes
        self.noise: float = 0.3 if rng.random() < 0.3 else 0.0
        self.correlation: float = 0.0  # between inputs
        self.frames: dict[str, np.ndarray] = {}

    def end(self, name: str) -> str:
        """An input or output of one to four dimensions."""
        size = int(self.rng.integers(1, 5))
        self.nodes[name] = size
        self.ends.append(name)
        self.frames[name] = np.linalg.qr(self.rng.standard_normal((size, size)))[0]
        return name

    def chain(self, source: str, hidden: list[str], target: str | None = None) -> str:
        """Edges from source through new hidden nodes to the target; the last hidden node, or the source."""
        self.nodes.update({h: self.width() for h in hidden})
        row: list[str] = [source, *hidden, *([target] if target else [])]
        self.edges += list(pairwise(row))
        return hidden[-1] if hidden else source

    def size(self) -> float:
        """The size of a target, of any sign; sometimes none."""
        rng = self.rng
        value = np.exp(rng.uniform(np.log(0.3), np.log(2)))
        return float(rng.choice([-1, 0, 1], p=[0.45, 0.1, 0.45]) * value)

    def map(self, output: str, source: str) -> np.ndarray:
        """What is to be learned from an input to an output."""
        n, m = self.nodes[output], self.nodes[source]
        if not self.aligned:
            return self.size() * self.rng.standard_normal((n, m)) / np.sqrt(min(n, m))
        k = min(n, m)
        values = np.array([self.size() for _ in range(k)])
        return self.frames[output][:, :k] * values @ self.frames[source][:, :k].T

    def open(self) -> float:
        """The gate of something that is on."""
        return float(self.rng.choice([-1, 1]) * self.rng.uniform(0.5, 1.5)) if self.real else 1.0

    def patterns(self, contexts: int, units: int) -> np.ndarray:
        """Gates (contexts, units): in each context something is on, and each unit is on somewhere."""
        while True:
            on = self.rng.random((contexts, units)) < self.rng.choice([0.4, 0.6])
            if on.any(axis=0).all() and on.any(axis=1).all():
                return np.where(on, np.vectorize(lambda _: self.open())(on), 0.0)

    def gated(self, node: str) -> str:
        """What bears the gate of a hidden node: the node, or the first edge into it."""
        into = [f"{s}->{t}" for s, t in self.edges if t == node]
        return into[0] if self.on_edges and len(into) == 1 else node

    # -- kinds: each adds nodes and edges, and returns its contexts --------------------------

    def pathways(self) -> list[Context]:
        x, y = self.end("x"), self.end("y")
        count, contexts = int(self.rng.integers(2, 4)), int(self.rng.integers(2, 5))
        first = []
        for a in range(count):
            depth = self.depth if self.rng.random() < 0.7 else int(self.rng.integers(1, 4))
            self.chain(x, [f"p{a}h{k + 1}" for k in range(depth)], y)
            first.append(f"p{a}h1")
        return self._gated_contexts(first, contexts, [y], x)

    def heads(self) -> list[Context]:
        x = self.end("x")
        count = int(self.rng.integers(2, 4))
        last = self.chain(x, [f"t{k + 1}" for k in range(max(1, self.depth - 1))])
        own = self.rng.random() < 0.5  # an output for each head
        outputs = [self.end(f"y{k}") for k in range(count)] if own else [self.end("y")]
        for k in range(count):
            self.chain(last, [f"head{k}"], outputs[k % len(outputs)])
        if own:
            self.on_edges = False
        contexts = self._gated_contexts(
            [f"head{k}" for k in range(count)], count + int(self.rng.integers(0, 2)), outputs, x
        )
        for c in contexts if own else []:
            for k, output in enumerate(outputs):
                if c.gates[f"head{k}"] == 0:
                    c.gates[output] = 0.0
                    c.maps.pop((output, x))
        return contexts

    def experts(self) -> list[Context]:
        x, y = self.end("x"), self.end("y")
        before = int(self.rng.integers(0, self.depth))
        after = int(self.rng.integers(0, self.depth - before))
        last = self.chain(x, [f"a{k + 1}" for k in range(before)])
        middle = self.depth - before - after
        first = "b1" if after else y
        for e in range(int(self.rng.integers(2, 4))):
            self.chain(last, [f"e{e}h{k + 1}" for k in range(middle)], first)
        if after:
            self.nodes["b1"] = self.width()
            self.chain("b1", [f"b{k + 1}" for k in range(1, after)], y)
        gated = [n for n in self.nodes if n.startswith("e") and n.endswith("h1")]
        return self._gated_contexts(gated, int(self.rng.integers(2, 5)), [y], x)

    def modalities(self) -> list[Context]:
        a, v, y = self.end("audio"), self.end("vision"), self.end("y")
        self.correlation = float(self.rng.uniform(-0.8, 0.8))
        own = int(self.rng.integers(0, self.depth + 1))
        fused = self.depth - own
        target = "f1" if fused else y
        for m in (a, v):
            length = int(self.rng.integers(1, 4)) if not fused and self.rng.random() < 0.3 else own
            self.chain(m, [f"{m}{k + 1}" for k in range(length)], target)
        if fused:
            self.nodes["f1"] = self.width()
            self.chain("f1", [f"f{k + 1}" for k in range(1, fused)], y)
        maps = {(y, m): self.map(y, m) for m in (a, v)}
        both = Context({}, maps)
        if self.rng.random() < 0.5:
            return [both]
        alone = [Context({off: 0.0}, {(y, on): self.map(y, on)}) for on, off in ((a, v), (v, a))]
        return [both, *alone[: int(self.rng.integers(1, 3))]]

    def routing(self) -> list[Context]:
        count = int(self.rng.integers(2, 4))
        xs, ys = [self.end(f"x{k}") for k in range(count)], [self.end(f"y{k}") for k in range(count)]
        trained = int(self.rng.integers(1, count + 1))
        own = self.depth > 1 and self.rng.random() < 0.3
        self.nodes["h1"] = self.width()
        for k, x in enumerate(xs):
            self.chain(x, [f"own{k}"] if own else [], "h1")
        last = self.chain("h1", [f"h{k + 1}" for k in range(1, self.depth - own)])
        self.edges += [(last, y) for y in ys]
        pairs = [(i, (i + k) % count) for i in range(count) for k in range(trained)]
        found = []
        for i, j in pairs:
            gates = {n: 0.0 for k in range(count) for n in (xs[k],) if k != i}
            gates |= {ys[k]: 0.0 for k in range(count) if k != j}
            if self.real:
                gates |= {xs[i]: self.open(), ys[j]: self.open()}
            found.append(Context(gates, {(ys[j], xs[i]): self.map(ys[j], xs[i])}))
        return found

    def cancel(self) -> list[Context]:
        """A pathway that is always on; experts must take away from it, or nearly so, where they are on."""
        x, y = self.end("x"), self.end("y")
        trunk = self.rng.random() < 0.4 and self.depth > 1  # shared first layers
        count = int(self.rng.integers(1, 3))
        source = self.chain(x, [f"t{k + 1}" for k in range(self.depth - 1)]) if trunk else x
        length = 1 if trunk else self.depth
        for name in ("shared", *(f"e{e}" for e in range(count))):
            self.chain(source, [f"{name}h{k + 1}" for k in range(length)], y)
        common = self.map(y, x)
        contexts = [Context({}, {(y, x): common})]
        for _ in range(int(self.rng.integers(count, 4))):
            share = self.rng.choice([-1.0, -0.5, 0.0, 0.0, 0.5, 0.9])
            contexts.append(Context({}, {(y, x): share * common}))
        on = self.patterns(len(contexts) - 1, count)
        for k, c in enumerate(contexts):
            gates = np.zeros(count) if k == 0 else on[k - 1]
            c.gates = {self.gated(f"e{e}h1"): float(gates[e]) for e in range(count)}
        return contexts

    def _gated_contexts(self, gated: list[str], count: int, outputs: list[str], x: str) -> list[Context]:
        on = self.patterns(count, len(gated))
        names = [self.gated(node) for node in gated]
        return [
            Context(dict(zip(names, row.tolist(), strict=True)), {(y, x): self.map(y, x) for y in outputs})
            for row in on
        ]

    # -- data --------------------------------------------------------------------------------

    def task(self, contexts: list[Context]) -> nr.Task:
        """Samples with exactly the moments that were drawn, as many in each context."""
        graph = nr.Graph(self.nodes, self.edges)
        total = sum(graph.nodes[x] for x in graph.inputs)
        n = total + (2 if self.noise else 0)
        root = self._root(graph)
        inputs: dict[str, list[np.ndarray]] = {x: [] for x in graph.inputs}
        targets: dict[str, list[np.ndarray]] = {y: [] for y in graph.outputs}
        gates: dict[str, list[np.ndarray]] = {name: [] for c in contexts for name in c.gates}
        for c in contexts:
            white = np.linalg.qr(self.rng.standard_normal((n, total)))[0]
            rows = np.sqrt(n) * white @ root
            parts = dict(zip(inputs, np.split(rows, self._splits(graph), axis=1), strict=True))
            for x, values in parts.items():
                inputs[x].append(values)
            for y, values in targets.items():
                wanted = np.zeros((n, graph.nodes[y]))
                for (output, x), map_ in c.maps.items():
                    wanted += c.gates.get(x, 1.0) * parts[x] @ map_.T if output == y else 0.0
                noise = self.noise * self.rng.standard_normal(wanted.shape)
                values.append(wanted + (noise - white @ (white.T @ noise)) * (c.gates.get(y, 1.0) != 0))
            for name, values in gates.items():
                values.append(np.full(n, c.gates.get(name, 1.0)))
        joined = [{k: np.concatenate(v) for k, v in table.items()} for table in (inputs, targets, gates)]
        return nr.Task(graph, *joined)

    def _splits(self, graph: nr.Graph) -> np.ndarray:
        return np.cumsum([graph.nodes[x] for x in graph.inputs])[:-1]

    def _root(self, graph: nr.Graph) -> np.ndarray:
        """R (total, total) with `R^T R` the covariance of all inputs together."""
        sizes = [graph.nodes[x] for x in graph.inputs]
        variance = [
            np.ones(k) if self.white else np.exp(self.rng.uniform(np.log(0.2), np.log(3), k)) for k in sizes
        ]
        root = np.diag(np.sqrt(np.concatenate(variance)))
        if self.correlation:
            a, v = sizes
            across = (
                np.eye(a, v) if self.aligned else np.linalg.qr(self.rng.standard_normal((4, 4)))[0][:a, :v]
            )
            both = np.block(
                [[np.eye(a), self.correlation * across], [self.correlation * across.T, np.eye(v)]]
            )
            root = np.linalg.cholesky(both).T @ root
        frames = [
            self.frames[x] if self.aligned else np.linalg.qr(self.rng.standard_normal((k, k)))[0]
            for x, k in zip(graph.inputs, sizes, strict=True)
        ]
        at = np.concatenate([[0], np.cumsum(sizes)])
        for k, frame in enumerate(frames):
            part = slice(at[k], at[k + 1])
            root[:, part] = root[:, part] @ frame.T
        return root


KINDS = ("pathways", "heads", "experts", "modalities", "routing", "cancel")


def kind(seed: int) -> str:
    """The kind of the task that `draw(seed)` and `narrow(seed)` give."""
    return KINDS[seed % len(KINDS)]


def draw(seed: int, kind_: str | None = None, width: tuple[int, int] = (WIDTH, WIDTH)) -> nr.Task:
    """A random task; hidden widths are drawn between two numbers, both included."""
    rng = np.random.default_rng([39, seed])
    maker = Maker(rng, lambda: int(rng.integers(width[0], width[1] + 1)))
    return maker.task(getattr(maker, kind_ or kind(seed))())


def narrow(seed: int) -> nr.Task:
    """The same kinds with hidden layers of one to three units, other tasks than those of `draw`."""
    return draw(10**6 + seed, kind(seed), width=(1, 3))


# -- random graphs at the width condition ------------------------------------------------------


def needed_widths(task: nr.Task) -> dict[str, int]:
    """Units that each hidden node needs: the least of what comes from upstream and what goes downstream.

    Each is the sum of the sizes of inputs (outputs) over distinct patterns of gates of the halves of paths,
    the gate of the node itself counted on both sides. Dead halves do not count.
    """
    graph, n = task.graph, len(next(iter(task.samples.inputs.values())))

    def gate(name: str) -> np.ndarray:
        return np.broadcast_to(np.ravel(np.asarray(task.samples.gates.get(name, 1.0), float)), (n,))

    def classes(order: list[str], neighbours: Callable[[str], list[tuple[str, str]]], ends: tuple[str, ...]):
        found: dict[str, set[Pattern]] = {}
        for node in order:
            own = gate(node)
            if node in ends:
                found[node] = {(node, tuple(own.tolist()))}
                continue
            found[node] = {
                (end, tuple(pattern))
                for edge, other in neighbours(node)
                for end, gates in found[other]
                if any(pattern := (own * gate(edge) * np.array(gates)).round(9).tolist())
            }
        return found

    order = list(graph.order)
    up = classes(order, lambda v: [(e, graph.edges[e][0]) for e in graph.incoming[v]], graph.inputs)
    out = {v: [(e, t) for e, (s, t) in graph.edges.items() if s == v] for v in graph.nodes}
    down = classes(order[::-1], out.__getitem__, graph.outputs)
    size = lambda found: sum(graph.nodes[end] for end, _ in found)  # noqa: E731
    return {v: min(size(up[v]), size(down[v])) for v in graph.hidden}


def _random_graph(rng: Rng) -> nr.Graph:
    """One to four hidden nodes in any acyclic arrangement."""
    xs = [f"x{k}" for k in range(rng.integers(1, 4))]
    hs = [f"h{k}" for k in range(rng.integers(1, 5))]
    ys = [f"y{k}" for k in range(rng.integers(1, 3))]
    edges: list[tuple[str, str]] = []
    for k, h in enumerate(hs):
        sources = rng.permutation(xs + hs[:k])[: rng.integers(1, 4)]
        edges += [(str(s), h) for s in sources]
    for s in (*xs, *hs):
        later = [*hs[hs.index(s) + 1 :], *ys] if s in hs else hs
        if not any(e[0] == s for e in edges):
            edges.append((s, str(rng.choice(later))))
    for y in ys:
        if not any(e[1] == y for e in edges):
            edges.append((str(rng.choice(hs)), y))
    edges = list(dict.fromkeys(edges))
    sizes = {n: int(rng.integers(1, 4)) for n in (*xs, *ys)}
    return nr.Graph({**sizes, **dict.fromkeys(hs, 1)}, edges)


def at_width(seed: int, below: bool) -> nr.Task:
    """A random gated graph just as wide as `needed_widths` says, or one unit less at one node.

    Targets are of full rank, so that a unit less is missed wherever it can be.
    """
    rng = np.random.default_rng([395, seed])
    while True:
        graph = _random_graph(rng)
        contexts = int(rng.integers(1, 5))
        n = contexts * 12
        which = np.repeat(np.arange(contexts), 12)
        gates = {}
        for name in (*graph.hidden, *graph.edges, *graph.inputs):
            if rng.random() < (0.5 if name in graph.hidden else 0.15):
                values = (rng.random(contexts) < 0.6).astype(float)
                if rng.random() < 0.2:
                    values *= rng.uniform(0.5, 1.5, contexts)
                gates[name] = values[which]
        inputs = {x: rng.standard_normal((n, graph.nodes[x])) for x in graph.inputs}
        targets = {}
        for y in graph.outputs:
            maps = rng.standard_normal((contexts, graph.nodes[y], sum(graph.nodes[x] for x in graph.inputs)))
            together = np.concatenate([inputs[x] for x in graph.inputs], axis=1)
            targets[y] = np.einsum("noi,ni->no", maps[which], together)
        widths = needed_widths(nr.Task(graph, inputs, targets, gates))
        wide = [h for h, k in widths.items() if k > 1]
        if min(widths.values()) == 0 or not wide:
            continue
        if below:
            widths[str(rng.choice(wide))] -= 1
        found = nr.Task(
            nr.Graph({**graph.nodes, **widths}, list(graph.edges.values())), inputs, targets, gates
        )
        if learnable(found) > 0.01 * initial_loss(found):
            return found


def depth(task: nr.Task) -> int:
    """Layers of weights on the longest path."""
    layers: dict[str, int] = {}
    for node in task.graph.order:
        before = [layers[task.graph.edges[e][0]] for e in task.graph.incoming[node]]
        layers[node] = 1 + max(before) if before else 0
    return max(layers.values())


def std(task: nr.Task) -> float:
    """Standard deviation of small initial weights: products of all layers are about equally small."""
    return {1: 0.01, 2: 0.01, 3: 0.05, 4: 0.1}.get(depth(task), 0.2)
