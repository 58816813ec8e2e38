"""Eight items in three contexts: some properties hold in every context, some in one only. A ReLU network
learns them with units that are reused across contexts, as gated linear pathways do: one that is always open
and three that are open in two contexts. Here both are trained side by side from the same weights, as far as
the pathways describe the network, and where they do not: its units start as always open ones and turn to
contexts later, and in the end most of them are open for part of the items only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.linalg import orthogonal_procrustes
from scipy.spatial.distance import pdist

import neuralrace as nr
from neuralrace import plot
from neuralrace.experiments.claim import Claim, check, finding, paper
from neuralrace.experiments.declaration import Data, claims, figure, part
from neuralrace.experiments.experiment import Experiment, Parameters, option
from neuralrace.experiments.store import along
from neuralrace.measure import principal_components

STRUCTURES = ("hierarchy", "ring", "cross")
CONTEXT = np.repeat([0, 1, 2], 8)
PUBLISHED = {2000: (22.6, 0.5), 4000: (4.4, 0.3), 6000: (0.58, 0.08), 8000: (0.03, 0.015)}  # loss, tolerance
GATINGS = ("shared", "single", "both")
LINES: dict[str, tuple[str, str, dict[str, float | str]]] = {
    "shared": ("pathways, two contexts", plot.BLUE, {"lw": 0.9}),
    "single": ("pathways, one context", plot.ORANGE, {"lw": 0.9}),
    "both": ("pathways, both kinds", plot.GREEN, {"lw": 0.9}),
    "imitation": ("two contexts, weights of the ReLU", plot.BLUE, {"ls": "--"}),
    "staged": ("predicted: always open, then by context", plot.RED, {}),
    "own": ("gates of its last epoch", plot.PINK, {"ls": ":"}),
}
SHOWN = (0.0625, 0.25, 0.5, 1.0)  # of training, when outputs are shown
VALUES = 6  # singular values that are shown


@dataclass(frozen=True)
class Contexts(Parameters):
    seeds: int = option(10, "random starts of each network")
    hidden: int = option(700, "units of the ReLU networks")
    pathway: int = option(100, "units of each pathway of the gated networks")
    std: float = option(0.005 / 700, "standard deviation of initial weights")
    lr: float = option(0.001, "learning rate, on the loss summed over samples")
    epochs: int = option(8000, "steps of training", least=160)

    @property
    def narrow(self) -> int:
        return max(1, self.hidden // 7)

    def train(self, hidden: int, seed: int) -> nr.relu.ReluNetwork:
        """A ReLU network of any width, with the initial strength of one with `self.hidden` units."""
        x, y = nr.tasks.contexts(3, STRUCTURES).arrays
        std = self.std * (self.hidden / hidden) ** 0.5
        return nr.relu.train(x, y, [hidden], std, self.lr, self.epochs, 161, seed)

    def pathways(self, kind: str) -> nr.Task:
        """An always open pathway, and others by kind."""
        return nr.tasks.contexts(3, STRUCTURES, gating=kind, hidden=self.pathway)


@part(each=lambda p: range(p.seeds))
def losses(p: Contexts, seed: int) -> dict[str, Any]:
    """A ReLU network, gated networks, and predictions of its loss; losses are summed over samples."""
    net = p.train(p.hidden, seed)
    imitation = nr.relu.imitate(net, p.pathways("shared"))
    own, _ = nr.relu.as_gdln(net, -1)
    loss = {"relu": net.loss, "imitation": imitation.loss, "staged": nr.relu.two_stage_loss(net, CONTEXT)}
    for kind in GATINGS:
        task = p.pathways(kind)
        start = nr.init.gaussian(task.graph, std=p.std, seed=seed)
        loss[kind] = nr.relu.train_like(net, task, start).loss
    loss["own"] = nr.relu.train_like(net, own, net.at(0)).loss
    loss["narrow"] = p.train(p.narrow, seed).loss
    return {
        "epoch": ("epoch", net.steps),
        **{name: ("epoch", value) for name, value in loss.items()},
        "distance": ("epoch", imitation.distance),
        "mixed": nr.relu.mixed_share(net, CONTEXT),
    }


@part
def pictures(p: Contexts) -> dict[str, Any]:
    """Outputs, singular values and hidden representations of a ReLU network and of its imitation."""
    net = p.train(p.hidden, 0)
    imitation = nr.relu.imitate(net, p.pathways("shared"))
    task, weights = imitation.task, imitation.trajectory.weights
    start = at(weights, 0)
    solved = nr.reduce(task, "block").solve(weights=start, t1=net.t[-1], save=net.t)
    shown = [round(share * (len(net.t) - 1)) for share in SHOWN]
    every = np.arange(0, len(net.t), 8)
    hidden = [nr.activity(task, at(weights, every), h) for h in task.graph.hidden]
    relu, gated = nr.activity(net.task, at(net.weights, every), "h1"), np.concatenate(hidden, axis=2)
    similar = [np.corrcoef(pdist(a), pdist(b))[0, 1] for a, b in zip(relu, gated, strict=True)]
    outputs = [np.stack([net.predict(i) for i in shown]), nr.predict(task, at(weights, shown))["y"]]
    values = [singular_values(task.graph, w) for w in (weights, solved.weights)]
    return {
        "epoch": ("epoch", net.steps),
        "targets": ("sample y", net.Y),
        "shown": ("shown", net.steps[shown]),
        "outputs": ("network shown sample y", outputs),
        "values": ("method pathway epoch mode", values),
        "block_loss": ("epoch", solved.loss),
        "flow_loss": ("epoch", nr.flow(task, start, net.t[-1], net.t).loss),
        "hidden": ("network every sample axis", [principal_components(h) for h in (relu, gated)]),
        "similar": ("every", similar),
    }


def at(weights: Any, k: Any) -> dict[str, np.ndarray]:
    return {e: w[k] for e, w in weights.items()}


def singular_values(graph: nr.Graph, weights: Any) -> np.ndarray:
    """Leading ones of the map of each pathway, `(pathways, save, 6)`."""
    maps = nr.pathway_maps(graph, weights).values()
    return np.stack([np.linalg.svd(m, compute_uv=False)[:, :VALUES] for m in maps])


def loss_factor(predicted: xr.DataArray, measured: xr.DataArray) -> float:
    """Largest ratio of mean losses, either way, until the measured one is below 1e-3 of its start."""
    a, b = predicted.mean("seed"), measured.mean("seed")
    return np.maximum(a / b, b / a)[b > 1e-3 * b[0]].max().item()


@figure("loss")
def loss(p: Contexts, data: Data) -> tuple[Figure, str]:
    fig, ax = plot.figure(width=5.2, height=3.2)
    d = along(data.losses, "seed")
    plot.runs(ax, d.epoch, d.relu, plot.BLACK, "ReLU network")
    for name, (label, colour, style) in LINES.items():
        plot.theory(ax, d.epoch, d[name].mean("seed"), colour, label, **style)
    ax.set(yscale="log", ylim=(1e-2, 200), xlabel="epoch", ylabel="loss, summed over samples")
    fig.legend(loc="outside right center")
    caption = (
        f"Loss of ReLU networks ({p.seeds} seeds, band) and means for gated networks from random weights of "
        "their own (thin), from those of the ReLU network (dashed), as predicted from its initial weights in "
        "two stages (red), and with the gates that the ReLU network has at the end, from the start (dotted)."
    )
    return fig, caption


@figure("outputs")
def outputs(p: Contexts, data: Data) -> tuple[Figure, str]:
    d = data.pictures
    fig, axes = plot.figure(2, d.sizes["shown"] + 1, height=3.2)
    for row, each, name in zip(axes, d.outputs, ("ReLU network", "four pathways"), strict=True):
        for ax, values in zip(row, (*each, d.targets), strict=True):
            plot.matrix(ax, values.T, "", 1.0)
        row[0].set_ylabel(name)
    for ax, title in zip(axes[0], (*(f"epoch {e:.0f}" for e in d.shown), "targets"), strict=True):
        ax.set_title(title)
    caption = (
        "Outputs of a ReLU network and of four gated pathways trained from the same weights. Columns are "
        "items, context by context; rows are properties, those of every context first. Red is positive."
    )
    return fig, caption


@figure("hidden")
def hidden(p: Contexts, data: Data) -> tuple[Figure, str]:
    fig, (first, second, *maps) = plot.figure(1, 4, height=2.3)
    d = data.pictures
    trained, theory = d["values"]
    kinds = {"always open": (first, slice(0, 1)), "open in two contexts": (second, slice(1, None))}
    for name, (ax, chosen) in kinds.items():
        for k, colour in enumerate(plot.COLOURS[:VALUES]):
            dots = trained[chosen, ::8, k].mean("pathway")
            ax.plot(d.epoch[::8], dots, "o", color=colour, ms=2.2, alpha=0.6)
            plot.theory(ax, d.epoch, theory[chosen, :, k].mean("pathway"), colour, lw=0.9)
        ax.set(xlabel="epoch", title=name)
    first.set_ylabel("singular value")
    relu, gated = d.hidden.values
    turn, _ = orthogonal_procrustes(gated.reshape(-1, 2), relu.reshape(-1, 2))
    limits = (-np.abs(d.hidden.values).max(), np.abs(d.hidden.values).max())
    panels = zip(maps, (relu, gated @ turn), ("ReLU network", "four pathways"), strict=True)
    for ax, points, name in panels:
        for sample, context in enumerate(CONTEXT):
            colour = plot.COLOURS[sample % 8]
            ax.plot(*points[:, sample].T, color=colour, lw=0.5, alpha=0.6)
            ax.plot(*points[-1, sample], "os^"[context], color=colour, ms=3)
        ax.set(xlim=limits, ylim=limits, xticks=[], yticks=[], title=name, aspect="equal")
    caption = (
        "Left: the six largest singular values of the always open pathway and of those open in two contexts "
        "(mean of three); lines from the block reduction at the initial weights, dots as trained. Right: "
        "hidden representations over training by multidimensional scaling; colours are items, markers are "
        "contexts at the end."
    )
    return fig, caption


FIG, PROPOSITION = "make_haste_slowly Fig. 4", "make_haste_slowly Prop. 4.2"
MIXED = "Its units are always open at first and mixed within contexts later; constant gates are not."


@claims
def predictions(p: Contexts, data: Data) -> Iterator[Claim]:
    agree = paper(f"{FIG}a", "We see excellent agreement across all dynamics and outputs.")
    same = paper(
        FIG,
        "Example outputs from the ReLU network and ReLN are also shown and we see exact agreement between "
        "these output samples.",
    )
    curve = check(f"{FIG}a, the published curve")
    d = along(data.losses, "seed")
    name = "half the sum of squares of the targets"
    yield check("make_haste_slowly Fig. 3").near("initial-loss", name, 105.623, d.relu[:, 0], 5e-4)
    for epoch, (value, tolerance) in PUBLISHED.items():
        if epoch <= p.epochs:
            name, measured = (
                f"loss of ReLU networks at epoch {epoch}",
                d.relu.sel(epoch=epoch, method="nearest"),
            )
            yield curve.near(f"relu-loss-epoch-{epoch}", name, value, measured, tolerance)
    predicted = (("four-pathways", "imitation", agree), ("two-stages", "staged", finding(f"{FIG}a")))
    for id, key, kind in predicted:
        error = np.abs(d[key].mean("seed") - d.relu.mean("seed")).max() / d.relu[:, 0].mean()
        name = f"{id.replace('-', ' ')}, predicted loss"
        yield kind.below(f"{id}-error", f"{name}: error / initial", 0.03, error, MIXED)
        factor = loss_factor(d[key], d.relu)
        yield kind.below(f"{id}-factor", f"{name}: factor until 1e-3", 2, factor, MIXED)
    name, distance = "four pathways, distance of outputs, largest", d.distance.max("epoch")
    yield same.below("four-pathways-outputs", name, 0.05, distance, MIXED)


@claims
def gates(p: Contexts, data: Data) -> Iterator[Claim]:
    faster = paper(
        PROPOSITION,
        "Clearly the architecture with pathways active in two contexts learns faster and matches the loss "
        "trajectory of the ReLU network.",
    )
    d = along(data.losses, "seed")
    end = d.isel(epoch=-1)
    name = "loss at the end, open in one context / in two"
    yield faster.above("two-contexts-faster", name, 1, end.single / end.shared)
    name = "loss at the end, ReLU network / with its last gates from the start"
    note = "The proposition has gates by context the fastest; mixed ones, its own, are faster still."
    yield finding(PROPOSITION).above("own-gates-faster", name, 1, end.relu / end.own, note)
    name = "weight in units mixed within a context, last epoch"
    note = "Against the letter of the lemma, which overlooks nested patterns."
    yield finding("make_haste_slowly Lemma 4.1").above("mixed-units", name, 0.9, d.mixed, note)
    name = f"loss at the end with {p.narrow} units of equal strength / {p.hidden}"
    note = "Late learning depends on the number of units, of which four pathways know nothing."
    ratio = end.narrow.mean() / end.relu.mean()
    yield finding(f"{FIG}a").above("narrow-network", name, 2, ratio, note)


@claims
def representations(p: Contexts, data: Data) -> Iterator[Claim]:
    d = data.pictures
    equal = paper(
        f"{FIG}c", "Both architectures demonstrate an equivalent latent representation at all points in time."
    )
    name = "correlation of hidden distances, ReLU and four pathways, mean"
    yield equal.above("hidden-distances", name, 0.9, d.similar[1:].mean())
    name = "block reduction from random weights - flow of the pathways, loss / initial"
    gap = np.abs(d.block_loss - d.flow_loss).max() / d.flow_loss[0]
    yield check(f"{FIG}b").below("block-reduction", name, 1e-5, gap)


EXPERIMENT = Experiment(
    "contexts",
    "Items in contexts: pathways that a ReLU network shares",
    "make_haste_slowly Fig. 3-4",
    Contexts(),
    Contexts(seeds=1, hidden=280, pathway=40, std=0.005 / 280),
    minutes=(0.4, 5),
)
