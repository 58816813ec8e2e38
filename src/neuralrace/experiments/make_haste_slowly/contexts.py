"""Eight items in three contexts: some properties hold in every context, some in one only. A ReLU network
learns them with units that are reused across contexts, as gated linear pathways do: one that is always open
and three that are open in two contexts. Here both are trained side by side from the same weights, as far as
the pathways describe the network, and where they do not: its units start as always open ones and turn to
contexts later, and in the end most of them are open for part of the items only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import plot
from neuralrace.experiments.old import (
    Claim,
    Experiment,
    Parameters,
    Parts,
    Results,
    check,
    finding,
    kebab,
    option,
    paper,
    stacked,
)

SOURCE = "make_haste_slowly"
STRUCTURES = ("hierarchy", "ring", "cross")
PUBLISHED = {2000: (22.6, 0.5), 4000: (4.4, 0.3), 6000: (0.58, 0.08), 8000: (0.03, 0.015)}  # loss, tolerance
KINDS = {"shared": "two contexts", "single": "one context", "both": "both kinds"}
COLOURS = {"shared": plot.BLUE, "single": plot.ORANGE, "both": plot.GREEN}
SHOWN = (0.0625, 0.25, 0.5, 1.0)  # of training, when outputs are shown


@dataclass(frozen=True)
class Contexts(Parameters):
    seeds: int = option(10, "random starts of each network")
    hidden: int = option(700, "units of the ReLU networks")
    pathway: int = option(100, "units of each pathway of the gated networks")
    std: float = option(0.005 / 700, "standard deviation of initial weights")
    lr: float = option(0.001, "learning rate, on the loss summed over samples")
    epochs: int = option(8000, "steps of training", least=160)

    def train(self, hidden: int, seed: int) -> nr.relu.ReluNetwork:
        """A ReLU network of any width, with the initial strength of one with `self.hidden` units."""
        x, y = nr.tasks.contexts(3, STRUCTURES).arrays
        std = self.std * (self.hidden / hidden) ** 0.5
        return nr.relu.train(x, y, [hidden], std, self.lr, self.epochs, 161, seed)

    def pathways(self, kind: str) -> nr.Task:
        """An always open pathway, and others by kind."""
        return nr.tasks.contexts(3, STRUCTURES, gating=kind, hidden=self.pathway)


def compute(p: Contexts, parts: Parts) -> Results:
    return {
        "losses": stacked(parts.each("losses", losses, range(p.seeds), p)),
        "pictures": parts("pictures", pictures, p),
    }


def losses(seed: int, p: Contexts) -> dict[str, Any]:
    """A ReLU network, gated networks, and what they predict of it; losses summed over samples `(save,)`."""
    net = p.train(p.hidden, seed)
    gated = {}
    for kind in KINDS:
        task = p.pathways(kind)
        start = nr.init.gaussian(task.graph, std=p.std, seed=seed)
        gated[kind] = nr.relu.train_like(net, task, start).loss
    same = nr.relu.imitate(net, p.pathways("shared"))
    own, _ = nr.relu.as_gdln(net, -1)
    return {
        "epoch": net.steps, "relu": net.loss, **gated, "imitation": same.loss, "distance": same.distance,
        "staged": staged(net), "own": nr.relu.train_like(net, own, net.at(0)).loss,
        "narrow": p.train(max(1, p.hidden // 7), seed).loss,
        "mixed": nr.relu.mixed_share(net, np.repeat(np.arange(3), 8)),
    }  # fmt: skip


def staged(net: nr.relu.ReluNetwork) -> np.ndarray:
    """The loss of a ReLU network `(save,)` predicted from its initial weights, without training it.

    First all units that the linear network makes always open are one linear pathway. That lasts as long as
    it agrees with itself: while all but 1% of its weight is in units that it has open everywhere. From then
    on each unit is open in the contexts in which the linear network ends up exciting it.
    """
    x, y, graph = net.X, net.Y, nr.Graph.chain(list(net.task.graph.nodes.values()))
    units = graph.nodes["h1"]
    plain = nr.Task(graph, x, y)
    linear = nr.relu.train_like(net, plain, net.at(0))
    on, off, size = _signs(plain, linear, x)
    aligned = np.flatnonzero(((on | off) * size).sum(axis=1) >= 0.99 * size.sum(axis=1))
    if not len(aligned):
        raise nr.errors.InputError("std must be smaller: no time at which all units are open or closed")
    live = on[aligned[-1]]
    open_ = np.repeat(live[None], len(x), axis=0)
    pathway = nr.Task(graph, x, y, gates={"h1": open_.astype(float)})
    linear = nr.relu.train_like(net, pathway, net.at(0))
    on, _, size = _signs(plain, linear, x)
    first = np.flatnonzero((on * size * live).sum(axis=1) >= 0.99 * (size * live).sum(axis=1))[-1]
    left = round(net.steps[-1] - net.steps[first])
    if not left:
        return linear.loss
    end = {e: w[-1] for e, w in linear.weights.items()}
    by_context = nr.activity(plain, end, "h1").reshape(-1, 8, units).mean(axis=1) > 0
    gates = np.repeat(by_context, 8, axis=0) & open_
    task = nr.Task(graph, x, y, gates={"h1": gates.astype(float)})
    start = {e: w[first] for e, w in linear.weights.items()}
    rest = nr.descend(task, start, net.loss_scale * net.lr, left, net.t[: len(net.t) - first])
    return np.append(linear.loss[:first], net.loss_scale * rest.loss)


def _signs(task: nr.Task, path: nr.Trajectory, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which units are open on all samples, on none, and their size; each `(save, units)`."""
    w, v = path.weights["x->h1"], path.weights["h1->y"]
    active = nr.activity(task, path.weights, "h1", x) > 0
    size = np.linalg.norm(w, axis=-1) * np.linalg.norm(v, axis=-2)
    return active.all(axis=1), ~active.any(axis=1), size


def pictures(p: Contexts) -> dict[str, Any]:
    """Outputs, singular values and hidden representations of a ReLU network and of its imitation."""
    net = p.train(p.hidden, 0)
    same = nr.relu.imitate(net, p.pathways("shared"))
    task, path = same.task, same.trajectory
    at = [round(share * (len(net.t) - 1)) for share in SHOWN]
    every = np.arange(0, len(net.t), 8)
    hidden = {
        "relu": nr.activity(net.task, {e: w[every] for e, w in net.weights.items()}, "h1"),
        "imitation": np.concatenate(
            [nr.activity(task, {e: w[every] for e, w in path.weights.items()}, h) for h in task.graph.hidden],
            axis=2,
        ),
    }
    start = {e: w[0] for e, w in path.weights.items()}
    solved = nr.reduce(task, "block").solve(weights=start, t1=net.t[-1], save=net.t)
    outputs = nr.predict(task, {e: w[at] for e, w in path.weights.items()})["y"]
    return {
        "epoch": net.steps, "targets": net.Y, "at": net.steps[at], "every": net.steps[every],
        "relu outputs": np.stack([net.predict(i) for i in at]), "imitation outputs": outputs,
        "values": singular_values(task, path.weights), "theory": singular_values(task, solved.weights),
        "theory loss": solved.loss, "flow": nr.flow(task, start, net.t[-1], net.t).loss,
        "scaled": np.stack([scaled(h) for h in hidden.values()]),
        "similar": np.array(
            [np.corrcoef(_distances(a), _distances(b))[0, 1] for a, b in zip(*hidden.values(), strict=True)]
        ),
    }  # fmt: skip


def pathway_maps(graph: nr.Graph, activity: Callable[..., Any]) -> dict[str, Any]:
    """The map `(..., out, in)` of each pathway of one hidden node, by that node: all others are closed."""
    found = {}
    for first, _ in graph.paths():
        source, node = graph.edges[first]
        closed = {n: 0.0 for n in graph.hidden if n != node}
        found[node] = activity("y", {source: np.eye(graph.nodes[source])}, closed).swapaxes(-1, -2)
    return found


def singular_values(task: nr.Task, weights: Any) -> np.ndarray:
    """Those of the map of each pathway, `(pathways, save, 10)`."""
    maps = pathway_maps(task.graph, partial(nr.activity, task, weights))
    values = [np.linalg.svd(m, compute_uv=False)[:, :10] for m in maps.values()]
    return np.stack([np.pad(v, ((0, 0), (0, 10 - v.shape[1]))) for v in values])


def scaled(hidden: np.ndarray) -> np.ndarray:
    """Classical multidimensional scaling of `(time, samples, units)` to two dimensions."""
    flat = hidden.reshape(-1, hidden.shape[-1])
    u, s, _ = np.linalg.svd(flat - flat.mean(axis=0), full_matrices=False)
    return (u[:, :2] * s[:2]).reshape(*hidden.shape[:2], 2)


def _distances(hidden: np.ndarray) -> np.ndarray:
    from scipy.spatial.distance import pdist

    return pdist(hidden)


def factor(predicted: Any, measured: Any) -> np.ndarray:
    """Largest ratio of mean losses, either way, until the measured one is below 1e-3 of its start."""
    a, b = predicted.mean(axis=0), measured.mean(axis=0)
    return np.maximum(a / b, b / a)[b > 1e-3 * b[0]].max()


def apart(predicted: Any, measured: Any) -> np.ndarray:
    """Largest difference of mean losses, relative to the initial one."""
    return np.abs(predicted.mean(axis=0) - measured.mean(axis=0)).max() / measured[:, 0].mean()


def figures(p: Contexts, r: Results) -> dict[str, tuple[Figure, str]]:
    fig, ax = plot.figure(width=5.2, height=3.2)
    d = r["losses"]
    epoch = d["epoch"][0]
    plot.runs(ax, epoch, d["relu"], plot.BLACK, "ReLU network")
    for kind, label in KINDS.items():
        plot.theory(ax, epoch, d[kind].mean(axis=0), COLOURS[kind], f"pathways, {label}", lw=0.9)
    plot.theory(
        ax, epoch, d["imitation"].mean(axis=0), plot.BLUE, "two contexts, weights of the ReLU", ls="--"
    )
    plot.theory(ax, epoch, d["staged"].mean(axis=0), plot.RED, "predicted: always open, then by context")
    plot.theory(ax, epoch, d["own"].mean(axis=0), plot.PINK, "gates of its last epoch", ls=":")
    ax.set(yscale="log", ylim=(1e-2, 200), xlabel="epoch", ylabel="loss, summed over samples")
    fig.legend(loc="outside right center")
    loss = (
        f"Loss of ReLU networks ({p.seeds} seeds, band) and means for gated networks from random weights of "
        "their own (thin), from those of the ReLU network (dashed), as predicted from its initial weights in "
        "two stages (red), and with the gates that the ReLU network has at the end, from the start (dotted)."
    )
    return {"loss": (fig, loss), "outputs": _outputs(r["pictures"]), "hidden": _hidden(r["pictures"])}


def _outputs(d: Results) -> tuple[Figure, str]:
    fig, axes = plot.figure(2, len(d["at"]) + 1, height=3.2)
    for k, epoch in enumerate(d["at"]):
        plot.matrix(axes[0, k], d["relu outputs"][k].T, f"epoch {epoch:.0f}", 1.0)
        plot.matrix(axes[1, k], d["imitation outputs"][k].T, "", 1.0)
    for ax in axes[:, -1]:
        plot.matrix(ax, d["targets"].T, "targets", 1.0)
    axes[1, -1].set_title("")
    axes[0, 0].set_ylabel("ReLU network")
    axes[1, 0].set_ylabel("four pathways")
    caption = (
        "Outputs of a ReLU network and of four gated pathways trained from the same weights. Columns are "
        "items, context by context; rows are properties, those of every context first. Red is positive."
    )
    return fig, caption


def _hidden(d: Results) -> tuple[Figure, str]:
    fig, (a, b, c, e) = plot.figure(1, 4, height=2.3)
    names = {a: ("always open", slice(0, 1)), b: ("open in two contexts", slice(1, None))}
    for ax, (name, chosen) in names.items():
        for k in range(6):
            colour = plot.COLOURS[k]
            trained, predicted = (d[v][chosen].mean(axis=0)[:, k] for v in ("values", "theory"))
            ax.plot(d["epoch"][::8], trained[::8], "o", color=colour, ms=2.2, alpha=0.6)
            plot.theory(ax, d["epoch"], predicted, colour, lw=0.9)
        ax.set(xlabel="epoch", title=name)
    a.set_ylabel("singular value")
    markers = "os^"
    size = np.abs(d["scaled"]).max()
    turned = _turned(d["scaled"][1], d["scaled"][0])
    for ax, points, name in ((c, d["scaled"][0], "ReLU network"), (e, turned, "four pathways")):
        for sample in range(points.shape[1]):
            colour = plot.COLOURS[sample % 8]
            ax.plot(*points[:, sample].T, color=colour, lw=0.5, alpha=0.6)
            ax.plot(*points[-1, sample], markers[sample // 8], color=colour, ms=3)
        ax.set(xlim=(-size, size), ylim=(-size, size), xticks=[], yticks=[], title=name, aspect="equal")
    caption = (
        "Left: the six largest singular values of the always open pathway and of those open in two contexts "
        "(mean of three); lines from the block reduction at the initial weights, dots as trained. Right: "
        "hidden representations over training by multidimensional scaling; colours are items, markers are "
        "contexts at the end."
    )
    return fig, caption


def _turned(points: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """Points rotated or mirrored to lie best on others, `(time, samples, 2)`."""
    u, _, vt = np.linalg.svd(np.einsum("tsi,tsj->ij", points, onto))
    return points @ (u @ vt)


def claims(p: Contexts, r: Results) -> list[Claim]:
    fig, d, shown = f"{SOURCE} Fig. 4", r["losses"], r["pictures"]
    epoch, relu = d["epoch"][0], d["relu"]
    mixed = "Its units are always open at first and mixed within contexts later; constant gates are not."
    narrow = max(1, p.hidden // 7)
    predictions = {"imitation": "four pathways", "staged": "two stages"}
    return [
        check.near(
            "initial-loss", "half the sum of squares of the targets", f"{SOURCE} Fig. 3", 105.623, relu[:, 0],
            5e-4,
        ),
        *(
            paper.near(
                f"relu-loss-epoch-{at}", f"loss of ReLU networks at epoch {at}", f"{fig}a", value,
                relu[:, epoch.searchsorted(at)], off,
            )
            for at, (value, off) in PUBLISHED.items()
            if at <= p.epochs
        ),
        *(
            claim
            for (key, name), kind in zip(predictions.items(), (paper, finding), strict=True)
            for claim in (
                kind.below(
                    f"{kebab(name)}-error", f"{name}, predicted loss: error / initial", f"{fig}a", 0.03,
                    apart(d[key], relu), mixed,
                ),
                kind.below(
                    f"{kebab(name)}-factor", f"{name}, predicted loss: factor until 1e-3", f"{fig}a", 2,
                    factor(d[key], relu), mixed,
                ),
            )
        ),
        paper.below(
            "four-pathways-outputs", "four pathways, distance of outputs, largest", f"{SOURCE} Def. 3.1",
            0.05, d["distance"].max(axis=1), mixed,
        ),
        paper.above(
            "two-contexts-faster", "loss at the end, open in one context / in two", f"{SOURCE} Prop. 4.2", 1,
            d["single"][:, -1] / d["shared"][:, -1],
        ),
        finding.above(
            "own-gates-faster", "loss at the end, ReLU network / with its last gates from the start",
            f"{SOURCE} Prop. 4.2", 1, relu[:, -1] / d["own"][:, -1],
            "The proposition has gates by context the fastest; mixed ones, its own, are faster still.",
        ),
        finding.above(
            "mixed-units", "weight in units mixed within a context, last epoch", f"{SOURCE} Lemma 4.1", 0.9,
            d["mixed"], "Against the letter of the lemma, which overlooks nested patterns.",
        ),
        finding.above(
            "narrow-network", f"loss at the end with {narrow} units of equal strength / {p.hidden}",
            f"{fig}a", 2, d["narrow"].mean(axis=0)[-1] / relu.mean(axis=0)[-1],
            "Late learning depends on the number of units, of which four pathways know nothing.",
        ),
        paper.above(
            "hidden-distances", "correlation of hidden distances, ReLU and four pathways, mean", f"{fig}c",
            0.9, shown["similar"][1:].mean(),
        ),
        check.below(
            "block-reduction", "block reduction from random weights - flow of the pathways, loss / initial",
            f"{fig}b", 1e-5, np.abs(shown["theory loss"] - shown["flow"]).max() / shown["flow"][0],
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "contexts",
    "Items in contexts: pathways that a ReLU network shares",
    "make_haste_slowly Fig. 3-4",
    Contexts(),
    Contexts(seeds=1, hidden=280, pathway=40, std=0.005 / 280),
    compute,
    figures,
    claims,
    (0.4, 5),
)
