"""What a user takes away: YAML for `neuralrace reduce`, and Python that makes the same curves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from neuralrace.laboratory.closed import ClosedForm
from neuralrace.laboratory.model import std_of
from neuralrace.laboratory.protocol import Scene
from neuralrace.laboratory.theory import Solved

BEGIN = """import numpy as np

import neuralrace as nr
"""
FIGURE = """
import matplotlib.pyplot as plt

fig, ax = plt.subplots()
{curves}
ax.set(xlabel="time (tau = 1)", ylabel="loss")
ax.legend()
fig.savefig("race.svg")
"""


def yaml_text(solved: Solved, scene: Scene) -> str:
    """The first lane as `neuralrace reduce` reads it: the same task, start, times."""
    lane = solved.lanes[0]
    task, graph = lane.reduction.task, lane.reduction.task.graph
    rows = task.as_samples().samples
    own = set(solved.model.edge_strength.values()) - {solved.model.strength}
    lines = [f"# {scene.entry}, from the lab:  neuralrace reduce FILE"]
    if len(solved.lanes) > 1:
        others = ", ".join(other.name for other in solved.lanes[1:])
        lines.append(f"# The gating {lane.name!r}; the others of the race ({others}) are files of their own.")
    if own:
        lines.append(
            "# Some edges start with other strengths on the page; a file has one start for all edges."
        )
    edges: dict[str, Any] = {
        e: {"source": s, "target": t, "fixed": graph.fixed[e]} if e in graph.fixed else (s, t)
        for e, (s, t) in graph.edges.items()
    }
    lines += [
        f"nodes: {_json(graph.nodes)}",
        f"edges: {_json(edges)}",
        "inputs:", *(f"  {_json(n)}: {_json(v)}" for n, v in rows.inputs.items()),
        "targets:", *(f"  {_json(n)}: {_json(v)}" for n, v in rows.targets.items()),
    ]  # fmt: skip
    if rows.gates:
        lines += ["gates:", *(f"  {_json(n)}: {_json(v)}" for n, v in rows.gates.items())]
    if np.ptp(rows.sample_weight):
        lines.append(f"weights: {_json(rows.sample_weight)}")
    if scene.start == "random":
        start = f"{{std: {std_of(task, solved.model.strength)!r}, seeds: {max(scene.seeds, 1)}}}"
    else:
        start = f"{{strength: {solved.model.strength!r}}}"
    lines += [f"start: {start}", f"time: {float(solved.t[-1])!r}", f"save: {len(solved.t)}"]
    return "\n".join(lines) + "\n"


def python(solved: Solved, scene: Scene) -> str:
    """Code with public calls that computes and draws the losses of all lanes."""
    model, lines, curves = solved.model, [BEGIN, _times(solved.t)], []
    for k, lane in enumerate(solved.lanes):
        task = lane.reduction.task
        lines += ["", *_task_lines(model.code[lane.name], solved, k)]
        start = model.start(lane.name)
        std = {e: std_of(task, b) for e, b in start.items()} if solved.random else None
        lines += _start_lines(start, k, std, lane.n_runs, lane.reduction.directions > 1)
        curves += [
            f'ax.plot(t, theory_{k}.loss.T, label="{lane.name}: theory")',
            f'ax.plot(t[::8], networks_{k}.loss.T[::8], ".", label="{lane.name}: trained")',
        ]
    return "\n".join(lines) + "\n" + FIGURE.format(curves="\n".join(curves))


def _start_lines(
    start: dict[str, float], k: int, std: dict[str, float] | None, runs: int, wide: bool
) -> list[str]:
    """Lines that reduce and solve `task`, and train networks from the same start."""
    flow = f"networks_{k} = nr.flow(task, w, save=t, save_weights=False)"
    if std is not None:
        return [
            f"std = {_json(std)}",
            f"w = nr.init.gaussian(task.graph, 1.0, seed=range({runs}))",
            "w = {e: std[e] * x for e, x in w.items()}",
            f"theory_{k} = nr.reduce(task, weights=w).solve(t1=t[-1], save=t)",
            flow,
        ]
    alike = len(set(start.values())) == 1
    return [
        f"strength = {_json(next(iter(start.values())) if alike else start)}",
        f"r = nr.reduce(task{'' if alike else ', ties=strength'}){'.widened()' * wide}",
        f"theory_{k} = r.solve(strength, t1=t[-1], save=t)",
        f"w = {{e: x[0] for e, x in theory_{k}.weights.items()}}",
        flow,
    ]


def _task_lines(code: str, solved: Solved, k: int) -> list[str]:
    """Lines that make the task: a call of the library, or the rows of a drawn network."""
    if code.startswith("nr."):
        return [f"task = {code}"]
    task = solved.lanes[k].reduction.task
    rows, graph = task.as_samples().samples, task.graph
    edges = [
        f"{_json(e)}: nr.Edge({_json(s)}, {_json(t)}, fixed={_json(graph.fixed[e])})"
        if e in graph.fixed
        else f"{_json(e)}: {_json((s, t))}"
        for e, (s, t) in graph.edges.items()
    ]
    return [
        f"graph = nr.Graph({_json(graph.nodes)}, {{{', '.join(edges)}}})",
        f"inputs = {_json(rows.inputs)}",
        f"targets = {_json(rows.targets)}",
        f"gates = {_json(rows.gates)}",
        f"weights = {rows.sample_weight.tolist() if np.ptp(rows.sample_weight) else None}",
        "task = nr.Task(graph, inputs, targets, gates, weights)",
    ]


def closed_python(closed: ClosedForm) -> str:
    """Code that evaluates the closed form."""
    lines = [BEGIN, _times(closed.times()), closed.code]
    return "\n".join(lines) + "\n" + FIGURE.format(curves='ax.plot(t, loss, label="theory")')


def _times(t: np.ndarray) -> str:
    return f"t = np.linspace(0.0, {float(t[-1])!r}, {len(t)})"


def _json(value: Any) -> str:
    """Mappings, arrays and names as text that YAML and Python read alike."""
    plain = dict(value) if isinstance(value, Mapping) else value
    return json.dumps(plain, ensure_ascii=False, default=np.ndarray.tolist)
