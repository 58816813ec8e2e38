"""Shared, partly shared and dedicated pathways in one network. Every route from an input to an output domain
may use a pathway of its own, one that groups of domains share, and one that all routes share; all are open
together and their outputs add up. Trained from random weights, which of them comes to carry the answer? A
pathway that more routes share is trained by more of the samples, learns faster, and leaves no error to the
others. Of each mode of the data, the part that pathways carry is the strength of the mode in their map, mean
over trained routes; the parts of all pathways add up to one when the task is learned. The reduction of the
whole network, from its initial weights, stands beside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework import Data, Experiment, figure, part, require, rows
from neuralrace_papers.neural_race.domains_data import ITEMS, SILENT_LOSS, TARGETS

COLOURS = (plot.BLUE, plot.GREEN, plot.ORANGE, plot.RED)
U, S, VT = np.linalg.svd(TARGETS.T, full_matrices=False)  # modes of the map from items to features


@dataclass(frozen=True)
class Race:
    seeds: Annotated[int, "random starts of each network"] = 10
    domains: Annotated[int, "input domains, and as many output domains, M"] = 10
    hidden: Annotated[int, "units of each hidden layer of each pathway"] = 64
    scale: Annotated[float, "singular values of the initial orthogonal weights"] = 0.2
    groups: Annotated[tuple[int, ...], "domains of a group, whose group^2 = P routes share a pathway"] = (
        1, 2, 5, 10,
    )  # fmt: skip
    trained: Annotated[tuple[int, ...], "outputs trained with each input, K; the last is M"] = (
        1, 2, 3, 4, 5, 6, 8, 10,
    )  # fmt: skip
    t1: Annotated[float, "latest end of training, flow time"] = 400.0
    stop: Annotated[float, "loss at which training stops, as a share of a silent network's"] = 1e-4

    def __post_init__(self) -> None:
        divide = not any(self.domains % g for g in self.groups)
        require(divide, f"groups must divide domains = {self.domains}, got {self.groups}")
        for name in ("groups", "trained"):
            given = getattr(self, name)
            rising = len(given) > 1 and list(given) == sorted(set(given)) and given[-1] == self.domains
            require(rising, f"{name} must increase and end with domains = {self.domains}, got {given}")

    def task(self, pairs: np.ndarray, groups: tuple[int, ...]) -> nr.Task:
        hidden, inputs = (self.hidden,) * 2, np.eye(ITEMS)
        return nr.tasks.sharing(
            self.domains, groups, ITEMS, hidden, targets=TARGETS, trained=pairs, inputs=inputs
        )


def layers(values: Mapping[str, Any], domains: int, size: int) -> tuple[np.ndarray, ...]:
    """Values of the edges of every route through the pathways of groups of one size, `(in, out, ...)`.

    From the input, between the hidden layers, and to the output.
    """
    edges = np.empty((3, domains, domains), object)
    for i, j in np.ndindex(domains, domains):
        at = f"s{size}g{i // size}.{j // size}"
        edges[:, i, j] = f"x{i}->{at}h1", f"{at}h1->{at}h2", f"{at}h2->y{j}"
    return tuple(np.array([[values[e] for e in row] for row in layer]) for layer in edges)


def train(p: Race, pairs: np.ndarray, groups: tuple[int, ...]) -> dict[str, Any]:
    """Networks from random weights, and the reduction from the same weights."""
    task = p.task(pairs, groups)
    start = nr.init.orthogonal(task.graph, p.scale, seed=range(p.seeds))
    t = np.append(0, np.geomspace(0.01, 1, 60) * p.t1)
    method, stop = nr.Adaptive(1e-5, 1e-7), p.stop * SILENT_LOSS
    loss, modes, off = [], [], []
    for k in range(p.seeds):  # one at a time: all weights at all times take much memory
        run = nr.flow(task, {e: w[k] for e, w in start.items()}, save=t, method=method, stop_loss=stop)
        edges = (layers(run.weights, p.domains, g) for g in groups)
        maps = np.stack([out @ across @ into for into, across, out in edges])  # (group, in, out, t, ...)
        saved = np.arange(len(t)).clip(max=len(run.t) - 1)  # a run that has learned stays where it is
        carried = np.einsum("om,grtoi,mi->tgm", U, maps[:, pairs], VT) / (S * pairs.sum())
        wrong = ((maps.sum(axis=0)[..., -1, :, :] - TARGETS.T) ** 2).sum(axis=(-1, -2))
        loss.append(run.loss[saved] / SILENT_LOSS)
        modes.append(carried[saved])
        off.append(np.nan if pairs.all() else wrong[~pairs].mean() / (2 * ITEMS * SILENT_LOSS))
    r = nr.reduce(task)
    theory = r.solve(strengths=r.strengths(start), save=t, method=method, stop_loss=stop)
    b = theory.source.b
    products = [np.prod(layers(b, p.domains, g), axis=0)[pairs].mean(axis=0) / S for g in groups]
    saved = np.arange(len(t)).clip(max=len(theory.t) - 1)
    return {
        "t": ("t", t),
        "loss": ("run t", loss),
        "carried": ("run t group mode", modes),
        "theory": ("run t group mode", np.stack(products, axis=2)[:, saved]),
        "untrained": ("run", off),
    }


@part(each="trained", threads=2)
def together(p: Race, count: int):
    """All pathways in one network; each input is trained with so many outputs."""
    return train(p, nr.tasks.circulant(p.domains, count), p.groups)


@part(each=lambda p: p.groups[1:], threads=2)
def duel(p: Race, group: int):
    """Pathways of groups of one size against dedicated ones; all routes are trained."""
    return train(p, np.ones((p.domains,) * 2, bool), (p.groups[0], group))


def won(runs: Mapping[int, Any], quantity: str = "carried") -> np.ndarray:
    """Part of the answer that each kind of pathway carries at the end, mean over modes.

    `(item, run, group)` for the items of a part.
    """
    return np.stack([run[quantity][:, -1].mean("mode").values for run in runs.values()])


@figure("race")
def race(p: Race, data: Data):
    fig, ((time, routes), (sharing, untrained)) = plot.figure(2, 2, height=4.8)
    whole = data.together[p.domains]
    for k, (group, colour) in enumerate(zip(p.groups, COLOURS, strict=False)):
        plot.runs(time, whole.t[1:], whole.carried[:, 1:, k].mean("mode"), colour, f"P = {group**2}")
        expected = whole.theory[:, 1:, k].mean("mode").median("run")
        plot.theory(time, whole.t[1:], expected, colour, ls="--", lw=1)
        parts, expected = (won(data.together, what)[..., k] for what in ("carried", "theory"))
        plot.points(routes, p.trained, parts.T, colour, f"P = {group**2}", fmt="os^d"[k % 4])
        plot.theory(routes, p.trained, expected.mean(axis=1), colour, ls="--", lw=1)
    counts = np.array(p.groups[1:]) ** 2
    left, expected = (won(data.duel, what)[..., 0] for what in ("carried", "theory"))
    plot.points(sharing, counts, left.T, plot.BLUE, "networks")
    plot.theory(sharing, counts, expected.mean(axis=1), plot.BLUE, "theory", ls="--", lw=1)
    some = [k for k in p.trained if k < p.domains]
    errors = np.stack([data.together[k].untrained for k in some])
    untrained.plot(some, np.median(errors, axis=1), color=plot.RED, label="median")
    untrained.plot(np.repeat(some, p.seeds), errors.ravel(), "o", color=plot.RED, ms=3, label="each start")
    for ax in (time, routes):
        plot.key(ax, {"theory": "--"})
        ax.set(ylim=(-0.05, 1.45), yticks=[0, 0.25, 0.5, 0.75, 1])
        plot.label(ax, y="part of the answer carried", legend={"loc": "upper left", "ncols": 3})
    plot.label(time, "time (τ = 1)", title=f"all routes trained, K = {p.domains}", xscale="log")
    many, title = "outputs trained per input, K", "shared against dedicated pathways"
    plot.label(routes, many, title="at the end, fewer routes trained", xticks=p.trained)
    texts = "routes through a shared pathway, P", "part carried by dedicated pathways", title
    plot.label(sharing, *texts, legend="best", yscale="log")
    plot.logarithmic(sharing.xaxis, counts.tolist())
    texts = many, "loss / silent network", "untrained routes"
    plot.label(untrained, *texts, legend="best", yscale="log", xticks=some)
    return fig, (
        f"One network with a pathway for every route (P = 1), for groups of domains, and for all "
        f"{p.domains**2} routes (P = {p.domains**2}), from random weights. Above: part of the answer that "
        f"each kind carries (mean over modes). Left: while all routes are trained, median and range of "
        f"{p.seeds} starts; right: at the end, where each input is trained with K of {p.domains} outputs, "
        "mean and standard deviation. Below, left: networks with dedicated pathways and those of one P only, "
        "all routes trained: what is left to the dedicated ones. Below, right: error on routes that were not "
        "trained. Theory (dashed): the reduction from the same initial weights, which has one hidden "
        "direction per mode in each pathway."
    )


@rows
def winners(p: Race, data: Data):
    """Part of the answer on the pathway that all routes share, all routes trained."""
    parts = won(data.together)[-1]  # (run, group), K = M
    yield "shared-wins", parts[:, -1]
    yield "shared-wins-every-mode", data.together[p.domains].carried[:, -1, -1].min("mode")
    yield "most-shared-leads", parts[:, -1] / parts[:, :-1].max(axis=1)


@rows
def with_routes_and_sharing(p: Race, data: Data):
    shared = won(data.together)[..., -1]  # (K, run)
    yield "bias-grows-with-k", shared[-1] - shared[0]
    yield "bias-grows-at-every-k", np.diff(shared.mean(axis=1)).min()
    duel = won(data.duel)[..., 1]
    yield "shared-beats-dedicated", duel.min(axis=0)
    if len(duel) > 1:
        yield "grows-with-p", np.diff(duel, axis=0).min(axis=0)
    gaps = np.abs(won(data.together) - won(data.together, "theory")).max(axis=2)  # (K, run)
    for k, gap in zip(p.trained, gaps, strict=True):
        yield f"theory-k-{k}", gap
    yield "not-carried", 1 - won(data.together).sum(axis=2)[-1]


@rows
def generalisation(p: Race, data: Data):
    some = [k for k in p.trained if k < p.domains]
    errors = np.stack([data.together[k].untrained for k in some])  # (K, run)
    last = nr.measure.last_crossing(some, errors.max(axis=1), 0.1)
    yield "generalises-from-k", min((k for k in some if k >= last), default=np.nan) / p.domains
    yield "shared-pathway-few-routes", won(data.together)[0, :, -1]
    yield "untrained-few-routes", errors[0]


EXPERIMENT = Experiment(
    "race",
    "The race: shared, partly shared and dedicated pathways in one network",
    "neural_race 4.2, Eq. 16-17, Fig. 5b",
    Race(),
    quick={"seeds": 2, "domains": 6, "hidden": 8, "groups": (1, 2, 6), "trained": (1, 3, 6)},
    minutes=(0.2, 25.0),
)
