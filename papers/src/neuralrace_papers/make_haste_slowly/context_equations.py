"""What text, proofs and appendices state of items in contexts, on the data themselves and on small networks:
singular values of parts of the data, what a trained common pathway leaves, overlaps of the pathways that
learn it, and how pathways add up. ReLU networks have a gated twin at every moment of learning."""

from __future__ import annotations

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework.claim import ROUNDING, check, paper
from neuralrace_papers.framework.declaration import Data, claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option
from neuralrace_papers.framework.quotes import quoted
from neuralrace_papers.framework.store import along

ITEMS, BLOCK = 8, 15  # items of a context; targets of a block
STRUCTURES = ("hierarchy", "ring", "cross")
PRINTED = {3: -1 / 2, 4: -1 / 6, 5: -1 / 12}  # overlap of the outputs of two pathways, by contexts


class ContextEquations(Parameters):
    seeds: int = option(5, "random networks", least=1)
    counts: tuple[int, ...] = option((3, 4, 5), "numbers of contexts", within=(3, 5))
    hidden: int = option(30, "units of ReLU and linear networks, and of all pathways together", least=16)
    std: float = option(0.01, "standard deviation of initial weights")
    t1: float = option(400.0, "end of learning, on the mean loss")
    steps: int = option(400, "steps of the ReLU networks, at rate .01", least=10)


@part(each="counts")
def overlaps(p: ContextEquations, count: int):
    """Overlaps of two pathways, closed in one context each, on what the common pathway leaves (F, G)."""
    x, y = nr.tasks.contexts(count).arrays
    left, context = nr.relu.pathway_residual(x, y), np.repeat(np.arange(count), ITEMS)
    first, second = (np.where((context != c)[:, None], x[:, :ITEMS], 0) for c in (0, 1))
    u, v = (left.T @ some / len(x) for some in (first, second))
    _, s, modes = np.linalg.svd(u)
    mode = modes[0]
    inputs = (mode @ first.T @ second @ mode) / (mode @ first.T @ first @ mode)
    return {"outputs": ("", (u @ mode) @ (v @ mode) / s[0] ** 2), "inputs": ("", inputs)}


@part
def parts_of_data(p: ContextEquations):
    """Largest singular value without one input feature, or without one label / that of all (E)."""
    x, y = nr.tasks.contexts(3, STRUCTURES).arrays
    largest = lambda a, b: np.linalg.norm(b.T @ a, 2)  # noqa: E731
    features = [largest(np.delete(x, k, 1), y) for k in range(x.shape[1])]
    labels = [largest(x, np.delete(y, k, 1)) for k in range(y.shape[1])]
    ratios = {"features": features, "labels": labels}
    return {k: (f"without_{k}", np.divide(v, largest(x, y))) for k, v in ratios.items()}


@part(each=lambda p: range(p.seeds))
def networks(p: ContextEquations, seed: int):
    """A common pathway alone; pathways of two contexts beside it; a ReLU network and its gated twin."""
    x, y = nr.tasks.contexts(3, STRUCTURES).arrays
    chain = nr.Graph.chain([x.shape[1], p.hidden, y.shape[1]])
    alone, common = nr.Task(chain, x, y), nr.init.gaussian(chain, p.std, seed=seed)
    end = nr.flow(alone, common, p.t1, save=2)
    left = y - nr.predict(alone, {e: w[-1] for e, w in end.weights.items()})["y"]
    values = [np.linalg.svd(end.weights[e][-1], compute_uv=False) for e in chain.edges]
    known = np.linalg.matrix_rank(y.T @ x)
    shared = nr.tasks.contexts(3, STRUCTURES, gating="shared", hidden=p.hidden // 2)
    run = nr.flow(shared, nr.init.gaussian(shared.graph, p.std, seed=seed), p.t1, save=2)
    weights = {e: w[-1] for e, w in run.weights.items()}
    net = nr.relu.train(x, y, [p.hidden], std=0.1, lr=0.01, steps=p.steps, save=11, seed=seed)
    return {
        "features": ("", np.abs(x[:, ITEMS:].T @ left).max() / np.abs(x[:, ITEMS:].T @ y).max()),
        "layers": ("mode", np.abs(values[0][:known] / values[1][:known] - 1)),
        "blocks": ("pathway context block", np.array([blocks(shared, weights, k) for k in (1, 2, 3)])),
        "loss": ("", run.loss[-1] / run.loss[0]),
        "without": ("pathway", [lost(shared, weights, k) / run.loss[0] for k in (1, 2, 3)]),
        "twin": ("time", [twin_error(net, i) for i in range(len(net.t))]),
    }


def blocks(task: nr.Task, weights: dict[str, np.ndarray], pathway: int) -> np.ndarray:
    """Size of what a pathway puts out in each context, for each block of labels that are of one context."""
    own = {
        e: w if e.startswith(f"p{pathway}h") or f">p{pathway}h" in e else 0 * w for e, w in weights.items()
    }
    out = nr.predict(task, own)["y"][:, BLOCK:]
    return np.sqrt((out.reshape(3, ITEMS, 3, BLOCK) ** 2).mean(axis=(1, 3)))


def lost(task: nr.Task, weights: dict[str, np.ndarray], pathway: int) -> float:
    """Loss without one pathway."""
    rest = {e: 0 * w if e.startswith(f"p{pathway}h") else w for e, w in weights.items()}
    return float(nr.loss(task, rest))


def twin_error(net: nr.relu.ReluNetwork, i: int) -> float:
    """Largest difference between a ReLU network and its gated twin, in outputs and slopes."""
    task, w = nr.relu.as_gdln(net, i)
    (x, y), one, two = net.task.arrays, *(net.weights[e][i] for e in net.task.graph.edges)
    hidden = np.maximum(x @ one.T, 0)
    miss = (hidden @ two.T - y) / len(x)
    slopes = ((miss @ two) * (hidden > 0)).T @ x, miss.T @ hidden
    found = nr.gradient(task, w).values()
    outputs = np.abs(nr.predict(task, w)["y"] - hidden @ two.T).max()
    return max(outputs, *(np.abs(a - b).max() for a, b in zip(found, slopes, strict=True)))


@figure("context-equations")
def drawn(p: ContextEquations, data: Data):
    d, (over, sizes, without) = along(data.networks, "run"), plot.figure(1, 3, width=plot.PAGE, height=2.8)[1]
    counts = [*p.counts]
    over.plot(counts, [float(data.overlaps[c].outputs) for c in counts], "o", color=plot.BLUE, label="data")
    plot.theory(over, counts, [-1 / (c - 1) for c in counts], plot.BLACK, "-1/(C-1)")
    over.plot(counts, [PRINTED[c] for c in counts], "x", color=plot.RED, label="printed")
    plot.label(over, "contexts C", "overlap of outputs of two pathways", legend="best", xticks=counts)
    image = sizes.imshow(d.blocks.mean("run").values.reshape(3, 9), cmap="viridis", vmin=0, aspect="auto")
    sizes.set_xticks(range(9), [f"{b + 1}" for _ in range(3) for b in range(3)])
    sizes.set_yticks(range(3), ["1", "2", "3"])
    for edge in (2.5, 5.5):
        sizes.axvline(edge, color="white", lw=2)
    plot.label(sizes, "block of labels, contexts 1 to 3", "pathway", "size of its output")
    sizes.figure.colorbar(image, ax=sizes)
    plot.points(without, [0], d.loss.values[:, None], plot.BLACK, "all pathways", ls="none")
    plot.points(without, [1, 2, 3], d.without.values, plot.RED, "without one", ls="none")
    plot.label(without, "pathway that is left out", "loss / initial", legend="best", yscale="log")
    without.set_xticks(range(4), ["none", "1", "2", "3"])
    return over.figure, (
        "Left: overlap of the outputs of two pathways on what the common one leaves. Middle: what pathways "
        "of two contexts put out in every context, for each block of labels that belong to one context. "
        f"Right: loss after learning, and without one of the pathways. {p.seeds} networks."
    )


@claims
def of_the_data(p: ContextEquations, data: Data):
    note = "It is -1/(C-1); the brackets that follow are right, as they have it so."
    for count, found in data.overlaps.items():
        where = "F" if count == 3 else f"G.{count - 3}"
        text = f"we know that U_t(p)^T U_t(j) = {['-1/2', '-1/6', '-1/12'][count - 3]} I"
        name = f"C = {count}, overlap of the outputs of two pathways on the residual"
        known = paper(f"make_haste_slowly {where}", text)
        yield known.near(f"overlap-{count}", name, PRINTED[count], found.outputs, 1e-9, note, ROUNDING)
        inputs, name = (count - 2) / (count - 1), f"C = {count}, overlap of their inputs"
        yield check(f"make_haste_slowly {where}", ROUNDING).near(
            f"inputs-{count}", name, inputs, found.inputs, 1e-9
        )
    slower = quoted("make_haste_slowly E", "e-interlacing")
    for kind, ratio in data.parts_of_data.items():
        name = f"largest singular value of Syx without one of its {kind} / with all"
        yield slower.below(f"interlacing-{kind}", name, 1, ratio, bound="theory: interlacing")


@claims
def of_networks(p: ContextEquations, data: Data):
    d = along(data.networks, "run")
    always = quoted("make_haste_slowly section 3", "always-a-reln")
    name = "ReLU network less its gated twin, outputs and slopes, at all times, largest"
    yield always.below("gated-twin", name, 1e-12, d.twin.max("time"), bound=ROUNDING)
    none = quoted("make_haste_slowly E", "e-no-correlation")
    name = f"correlation of context features and labels, common pathway trained to t = {p.t1:g} / before"
    yield none.below("no-correlation", name, 0.01, d.features, bound="a standard of ours: 1%")
    equal = quoted("make_haste_slowly A.1", "a1-equal-layers")
    name = "singular values of both layers of that pathway, ratio - 1, all modes of the data"
    yield equal.below("equal-layers", name, 0.1, d.layers.max("mode"), bound="a standard of ours: 10%")
    every = quoted("make_haste_slowly Fig. 3", "fig-3-all-blocks")
    least, largest = (
        getattr(d.blocks.where(d.blocks > 0), which)(d.blocks.dims[1:]) for which in ("min", "max")
    )
    name = "output of a pathway of two contexts where it is open, least of all blocks / largest"
    yield every.above("all-blocks", name, 0.1, least / largest, bound="a standard of ours: a tenth")
    broken = quoted("make_haste_slowly Fig. 3", "fig-3-balance")
    name = "loss without one pathway of two contexts, least / initial; with all less than 1e-6"
    worse = d.without.min("pathway").where(d.loss < 1e-6)
    yield broken.above("balance", name, 0.01, worse, bound="a standard of ours: 1% of the initial loss")


EXPERIMENT = Experiment(
    "context-equations",
    "Items in contexts: what the proofs and appendices state of data and pathways",
    "make_haste_slowly Fig. 3, A.1, E-G",
    ContextEquations(),
    ContextEquations(seeds=2, counts=(3, 4), steps=100),
    minutes=(0.1, 0.3),
)
