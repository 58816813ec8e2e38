"""Networks of one's own: from a drawing to a task, and from a task to a drawing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace.errors import InputError, known, listed, number
from neuralrace.laboratory.gallery import initial
from neuralrace.laboratory.model import Model, Values
from neuralrace.laboratory.protocol import (
    MAX_CONTEXTS,
    MAX_NUMBERS,
    MAX_SAMPLES,
    MAX_SIZE,
    Drawn,
    Edge,
    Entry,
    Node,
    Samples,
    Scene,
    Slider,
    World,
)

OWN = Entry(
    name="own", title="A network of your own", figure="",
    sentence="Draw layers, connect them, open and close gates; the reduction answers as you draw.",
    sliders=[],
)  # fmt: skip
LEAST, MOST = 1e-3, 0.9  # of strengths


def world_arrays(world: World) -> tuple[np.ndarray, np.ndarray]:
    """Inputs `(n, in)` and targets `(n, out)` of a structured world."""
    n = world.size
    made = {
        "hierarchy": lambda: nr.tasks.hierarchy(min(n, 5) + 1),
        "partition": lambda: nr.tasks.partition(n + 1, 2),
        "ring": lambda: nr.tasks.ring(2 * n + 2),
        "grid": lambda: nr.tasks.grid(n + 1, 2),
        "xor": lambda: nr.tasks.xor(),
        "two modes": lambda: nr.tasks.linear(np.diag([float(n), 1.0])),
    }
    return made[world.name]().arrays


def task_of(drawn: Drawn) -> nr.Task:
    """The task that a drawing describes."""
    edges = [(e.source, e.target) for e in drawn.edges]
    if len({n.name for n in drawn.nodes}) < len(drawn.nodes):
        raise InputError("nodes must have different names")
    if not edges:
        raise InputError("edges: connect an input with an output first")
    shape = nr.Graph({n.name: n.size for n in drawn.nodes}, edges)
    inputs, targets, context, weight = _data(drawn, shape)
    sizes = {n.name: n.size for n in drawn.nodes}
    sizes |= {n: rows.shape[1] for n, rows in (inputs | targets).items()}
    graph = nr.Graph(sizes, [nr.Edge(e.source, e.target, e.fixed) for e in drawn.edges])
    known = (*graph.nodes, *graph.edges)
    gates = {}
    for name, by_context in drawn.gates.items():
        if name not in known:
            raise InputError(f"gates: {name!r} is no layer or edge")
        if len(by_context) != drawn.contexts:
            raise InputError(f"gates: {name!r} must have {drawn.contexts} numbers, got {len(by_context)}")
        if any(g != 1 for g in by_context):
            gates[name] = np.array(by_context)[context]
    return nr.Task(graph, inputs, targets, gates, weight)


def _data(drawn: Drawn, graph: nr.Graph):
    """Rows of every input and output, the context of each, and their weights."""
    if isinstance(drawn.data, World):
        x, y = world_arrays(drawn.data)
        n, c = len(x), drawn.contexts
        own = [np.roll(y, k, axis=0) if drawn.data.targets == "own" else y for k in range(c)]
        context = np.repeat(np.arange(c), n)
        inputs, targets = np.tile(x, (c, 1)), np.concatenate(own)
        return dict.fromkeys(graph.inputs, inputs), dict.fromkeys(graph.outputs, targets), context, None
    data = drawn.data
    for what, given, nodes in (
        ("inputs", data.inputs, graph.inputs),
        ("targets", data.targets, graph.outputs),
    ):
        for name in nodes:
            if name not in given:
                raise InputError(f"data: {what} lack rows for {name!r}")
    inputs = {n: _matrix(n, data.inputs[n]) for n in graph.inputs}
    targets = {n: _matrix(n, data.targets[n]) for n in graph.outputs}
    counts = {len(v) for v in (*inputs.values(), *targets.values())} | {len(data.context)}
    if len(counts) > 1:
        raise InputError(
            f"data: all inputs, targets and contexts need equally many rows, got {sorted(counts)}"
        )
    if sum(v.size for v in (*inputs.values(), *targets.values())) > MAX_NUMBERS:
        raise InputError(f"data: at most {MAX_NUMBERS:,} numbers here; use neuralrace reduce for more")
    context = np.array(data.context, int)
    if context.max(initial=0) >= drawn.contexts:
        raise InputError(f"data: context {context.max()} is not among the {drawn.contexts} contexts")
    if data.weight and len(data.weight) != len(context):
        raise InputError(f"data: weight must have {len(context)} numbers, got {len(data.weight)}")
    return inputs, targets, context, data.weight or None


def _matrix(name: str, rows: list[list[float]]) -> np.ndarray:
    if len({len(r) for r in rows}) > 1 or not rows[0]:
        raise InputError(f"data: rows of {name!r} must be equally long, and not empty")
    return np.array(rows, float)


def model_of(drawn: Drawn, values: Values) -> Model:
    """The drawn network as a model."""
    strength = values.get("strength", 0.05)
    if not 1e-6 <= strength <= 2:
        raise InputError(f"values: strength must be from 1e-06 to 2, got {strength:g}")
    own = {e: strength * times for e, times in drawn.strengths.items()}
    code = {"network": drawn.model_dump_json()}
    return Model({"network": task_of(drawn)}, strength, code, edge_strength=own)


def sliders_of(drawn: Drawn | None) -> list[Slider]:
    """The slider for the strength of the edges that start smallest."""
    ahead = max(drawn.strengths.values(), default=1.0) if drawn else 1.0
    slider = initial(0.05, LEAST, MOST / ahead)
    return [slider.model_copy(update={"label": f"{slider.label}, smallest"}) if ahead > 1 else slider]


def words_of(drawn: Drawn) -> dict[str, str]:
    """The title of a drawing that nobody gave one, and a sentence about it."""
    task = task_of(drawn)
    g, n = task.graph, task.as_samples().samples.n
    ways = f"{g.n_paths} paths" if g.n_paths > 1 else "one path"
    layers = listed(f"{name} {size}" for name, size in g.nodes.items())
    contexts = f" in {drawn.contexts} contexts" if drawn.contexts > 1 else ""
    title = f"From {' and '.join(g.inputs)} to {' and '.join(g.outputs)}, along {ways}"
    return {"title": title, "sentence": f"Neurons: {layers}. It learns {n} samples{contexts}."}


def scene_of(task: nr.Task, strengths: Any = 0.05) -> Scene:
    """The scene that shows a task from some strengths; for networks that the page can draw and hold."""
    graph = task.graph
    if not graph.is_linear or graph.biases:
        raise InputError("task must be on a linear graph without biases, as reductions are of such networks")
    widest = max(graph.nodes, key=lambda n: graph.nodes[n])
    if graph.nodes[widest] > MAX_SIZE:
        raise InputError(f"task: {widest!r} has {graph.nodes[widest]} neurons; the page takes {MAX_SIZE}")
    rows = task.as_samples().samples
    if rows.n > MAX_SAMPLES:
        raise InputError(f"task: has {rows.n} samples; the page takes {MAX_SAMPLES}")
    if any(np.size(g) > rows.n for g in rows.gates.values()):
        raise InputError("task must have one gate per node: split nodes whose neurons have their own")
    table = np.stack([np.ones(rows.n), *(np.ravel(g) * np.ones(rows.n) for g in rows.gates.values())], axis=1)
    patterns, context = np.unique(table, axis=0, return_inverse=True)
    if len(patterns) > MAX_CONTEXTS:
        raise InputError(f"task: has {len(patterns)} contexts; the page takes {MAX_CONTEXTS}")
    for edge, (source, target) in graph.edges.items():
        if edge != f"{source}->{target}":
            raise InputError(
                f"task: edge {edge!r} has a name of its own; the page names edges source->target"
            )
    start = _start(graph, strengths)
    least = min(start.values())
    data = Samples(
        inputs={n: v.tolist() for n, v in rows.inputs.items()},
        targets={n: v.tolist() for n, v in rows.targets.items()},
        context=context.ravel().tolist(),
        weight=rows.sample_weight.tolist() if np.ptp(rows.sample_weight) else [],
    )
    drawn = Drawn(
        nodes=[Node(name=n, size=k) for n, k in graph.nodes.items()],
        edges=[
            Edge(source=s, target=t, fixed=graph.fixed[e].tolist() if e in graph.fixed else None)
            for e, (s, t) in graph.edges.items()
        ],
        contexts=len(patterns),
        gates={name: patterns[:, k].tolist() for k, name in enumerate(rows.gates, 1)},
        data=data,
        strengths={e: b / least for e, b in start.items()} if max(start.values()) > least else {},
    )
    return Scene(entry="own", values={"strength": least}, drawn=drawn)


def _start(graph: nr.Graph, strengths: Any) -> dict[str, float]:
    """The strength of each edge that learns."""
    if not isinstance(strengths, Mapping):
        return dict.fromkeys(graph.shapes, number("strengths", strengths, least=LEAST, most=MOST))
    known("strengths", strengths, graph.shapes, "edge that learns")
    for e in graph.shapes:
        if e not in strengths:
            raise InputError(f"strengths must name every edge that learns; {e!r} is missing")
    return {e: number(f"strengths[{e!r}]", strengths[e], least=LEAST, most=MOST) for e in graph.shapes}
