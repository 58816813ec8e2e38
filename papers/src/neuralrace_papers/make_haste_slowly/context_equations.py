"""Formulas of the appendices that are printed wrongly, each beside the right one: overlaps of the pathways
that learn what the common pathway leaves, the closed form of their strengths, and the variance of the
inputs that one sample gives. And what the proofs say of the data: singular values without a feature or a
label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework import Data, Experiment, figure, part, rows
from neuralrace_papers.make_haste_slowly.modes import ITEMS, STRUCTURES, on_the_residual, singular_values

PRINTED = {3: -1 / 2, 4: -1 / 6, 5: -1 / 12}  # overlap of the outputs of two pathways, by contexts


@dataclass(frozen=True)
class ContextEquations:
    counts: Annotated[tuple[int, ...], "numbers of contexts"] = (3, 4, 5)
    strength: Annotated[float, "initial strength of each mode"] = 1e-4
    t1: Annotated[float, "end of the flow of the contextual pathways"] = 150.0
    margin: Annotated[float, "margin of the exclusive or"] = 0.7


@part(each="counts")
def overlaps(p: ContextEquations, count: int):
    """Overlaps of two pathways, closed in one context each, on what the common pathway leaves (F, G); and the
    strengths of one of them, by its flow with all others and by the closed form, as printed and right."""
    task = on_the_residual(*nr.tasks.contexts(count).arrays, count)
    u, v = (task.syx(path) for path in task.graph.paths()[:2])
    mode = np.linalg.svd(u)[2][0]
    s = np.linalg.norm(u @ mode)
    t = np.linspace(0, p.t1, 101)
    start = nr.init.decoupled(nr.reduce(task, "pathwise"), p.strength**0.5)
    run = nr.flow(task, start, p.t1, t, method=nr.Adaptive(rtol=1e-10, atol=1e-13))
    flow = singular_values(task.graph, run.weights, 1)[0, :, 0]
    k, d = count - 1, (count - 1) / (ITEMS * count)  # variance of one item where the pathway is open
    printed = (k * s / d) / (1 - (1 - s / (d * p.strength)) * np.exp(2 * s * t))
    return {
        "outputs": ("", (u @ mode) @ (v @ mode) / s**2),
        "t": ("t", t),
        "flow": ("t", flow),
        "printed": ("t", printed),
        "right": ("t", nr.exact.context_strength(t, s, d, count, p.strength)),
    }


@figure("context-equations")
def drawn(p: ContextEquations, data: Data):
    fig, (over, course) = plot.figure(1, 2, height=2.8)
    counts = [*p.counts]
    over.plot(counts, [float(data.overlaps[c].outputs) for c in counts], "o", color=plot.BLUE, label="data")
    plot.theory(over, counts, [-1 / (c - 1) for c in counts], plot.BLACK, "$-1/(C-1)$")
    over.plot(counts, [PRINTED[c] for c in counts], "x", color=plot.RED, label="printed")
    plot.label(over, "contexts C", "overlap of the outputs of two pathways", legend="best", xticks=counts)
    d = data.overlaps[counts[0]]
    plot.theory(course, d.t, d.flow, plot.BLUE, "flow", lw=3, alpha=0.5)
    plot.theory(course, d.t, d.right, plot.BLACK, "closed form, corrected")
    plot.theory(course, d.t, d.printed, plot.RED, "closed form as printed", ls="--")
    plot.label(course, "time (τ = 1)", "strength of the first mode", f"{counts[0]} contexts", legend="best")
    return fig, (
        "Left: overlap of the outputs of two contextual pathways on what the common pathway leaves. Right: "
        "strength of the first mode of one of them. The printed closed form starts too strong and falls."
    )


@rows
def as_printed_and_right(p: ContextEquations, data: Data):
    for count, d in data.overlaps.items():
        yield f"overlap-{count}", d.outputs
        for form in ("printed", "right"):
            yield f"closed-form-{form}-{count}", np.abs(d[form] - d.flow).max() / d.flow.max()
    s = (1 / 8 + p.margin**2 / 16) ** 0.5
    for form, d in {"printed": s**2, "right": 1 / 2 + p.margin**2 / 4}.items():
        a = nr.exact.chain(1e3, s, d, 0.05)
        yield f"xor-loss-{form}", 0.5 - 4 * s * a + 2 * d * a**2


@rows
def of_the_data(p: ContextEquations, data: Data):
    x, y = nr.tasks.contexts(3, STRUCTURES["different"]).arrays
    largest = lambda a, b: np.linalg.norm(b.T @ a, 2)  # noqa: E731
    features = [largest(np.delete(x, k, 1), y) for k in range(x.shape[1])]
    labels = [largest(x, np.delete(y, k, 1)) for k in range(y.shape[1])]
    yield "interlacing-features", max(features) / largest(x, y)
    yield "interlacing-labels", max(labels) / largest(x, y)
    for kind, structures in STRUCTURES.items():
        x, y = nr.tasks.contexts(3, structures).arrays
        sxx, squares = x.T @ x, x.T @ y @ y.T @ x
        apart = np.linalg.norm(sxx @ squares - squares @ sxx) / np.linalg.norm(sxx @ squares)
        yield f"diagonalisable-{kind}", apart


EXPERIMENT = Experiment(
    "context-equations",
    "Items in contexts: printed formulas, and the right ones",
    "make_haste_slowly A.1, C, E-G",
    ContextEquations(),
    quick={"counts": (3, 4)},
    minutes=(0.1, 0.2),
)
