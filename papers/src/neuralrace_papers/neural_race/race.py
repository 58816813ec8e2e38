"""Shared, partly shared and dedicated pathways in one network. Every route from an input to an output domain
may use a pathway of its own, one that groups of domains share, and one that all routes share; all are open
together and their outputs add up. Trained from random weights, which of them comes to carry the answer? A
pathway that more routes share is trained by more of the samples, learns faster, and leaves no error to the
others. Of each mode of the data, the part that pathways carry is the strength of the mode in their map, mean
over trained routes; the parts of all pathways add up to one when the task is learned. The reduction of the
whole network, from its initial weights, stands beside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import sympy as sp

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework.claim import check, finding, paper
from neuralrace_papers.framework.declaration import Data, claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option, require
from neuralrace_papers.neural_race.domains_data import ITEMS, SILENT_LOSS, TARGETS

SECTION = "neural_race 4.2"
COLOURS = (plot.BLUE, plot.GREEN, plot.ORANGE, plot.RED)
U, S, VT = np.linalg.svd(TARGETS.T, full_matrices=False)  # modes of the map from items to features
HALF = "stated standard: more than half of the answer is more than all others together"


class Race(Parameters):
    domains: int = option(10, "input domains, and as many output domains, M", least=3)
    hidden: int = option(64, "units of each hidden layer of each pathway", least=ITEMS)
    scale: float = option(0.2, "singular values of the initial orthogonal weights")
    groups: tuple[int, ...] = option(
        (1, 2, 5, 10), "domains of a group: P = group^2 routes share a pathway", count=2, increasing=True
    )
    trained: tuple[int, ...] = option(
        (1, 2, 3, 4, 5, 6, 8, 10),
        "outputs trained with each input, K; the last is M",
        count=2,
        increasing=True,
    )
    t1: float = option(400.0, "latest end of training, flow time")
    stop: float = option(1e-4, "loss at which training stops, as a share of that of a silent network")

    def check(self) -> None:
        divide = not any(self.domains % g for g in self.groups)
        require(divide, f"groups must divide domains = {self.domains}, got {self.groups}")
        for name in ("groups", "trained"):
            last = getattr(self, name)[-1]
            require(last == self.domains, f"{name} must end with domains = {self.domains}, got {last}")

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
    theory = r.solve(b0=r.strengths(start), save=t, method=method, stop_loss=stop)
    products = [np.prod(layers(theory.b, p.domains, g), axis=0)[pairs].mean(axis=0) / S for g in groups]
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


@part
def reduced(p: Race):
    """The equations of the whole network: Eq. 16-17 for each P, with one error for all."""
    r = nr.reduce(p.task(np.ones((p.domains,) * 2, bool), p.groups))
    symbol = {e: sp.Symbol(f"B{k + 1}") for k, members in enumerate(r.classes) for e in members}
    derived = {sp.Symbol(f"B{k + 1}"): e.rhs for k, e in enumerate(r.equations())}
    strengths = [tuple(e[0, 0] for e in layers(symbol, p.domains, g)[:2]) for g in p.groups]
    s, d = sp.symbols("S D")
    error, routes = s - d * sum(b2 * b1**2 for b1, b2 in strengths), p.domains**2
    right = []
    for group, (b1, b2) in zip(p.groups, strengths, strict=True):  # P = group^2
        printed = {b1: group * b2 * b1 * error / routes, b2: group**2 * b1**2 * error / routes}
        right += [sp.simplify(derived[b] - rhs) == 0 for b, rhs in printed.items()]
    return {"residual": r.residual, "as_printed": all(right), "strengths": r.n_classes}


def won(runs: Mapping[int, Any], quantity: str = "carried") -> np.ndarray:
    """Part of the answer that each kind of pathway carries at the end, mean over modes.

    `(item, run, group)` for the items of a part.
    """
    return np.stack([run[quantity][:, -1].mean("mode").values for run in runs.values()])


def unlearned(p: Race, runs: Mapping[int, Any]) -> str:
    """What of the answer no pathway carries when training stops, for a note."""
    left = 1 - won(runs).sum(axis=2).mean(axis=1)
    return (
        f"No pathway carries {min(left):.2%} to {max(left):.2%} of the answer where training stops, at "
        f"{p.stop:g} of the first loss, and steps below that say nothing of who wins."
    )


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
        f"each kind carries (mean over modes); left: while all routes are trained, median and range of "
        f"{p.seeds} starts; right: at the end, where each input is trained with K of {p.domains} outputs, "
        "mean and standard deviation. Below, left: networks with dedicated pathways and those of one P only, "
        "all routes trained: what is left to the dedicated ones. Below, right: error on routes that were not "
        "trained. Theory (dashed): the reduction from the same initial weights, which has one hidden "
        "direction per mode in each pathway."
    )


@claims
def winners(p: Race, data: Data):
    d = data.reduced
    yield check(f"{SECTION}, Eq. 10").below("residual", "residual of the whole network", 1e-8, d.residual)
    written = "tau dB1/dt = sqrt(P)/M^2 B2 B1 [S - B2 B1^2 D], tau dB2/dt = P/M^2 B1^2 [S - B2 B1^2 D]"
    note = "In one network the error S - D sum B2 B1^2 is common to all pathways."
    yield paper("neural_race Eq. 16-17", written).relation(
        "equations", "equations of the whole network", "as printed", d.as_printed, d.as_printed, note,
        "exact: symbolic comparison",
    )  # fmt: skip
    parts = won(data.together)[-1]  # (run, group), K = M
    wins = paper(
        SECTION, "In a combined network that produces its output using both shared and non-shared "
        "representations, [...] the most-shared structure will dominate.",
    )  # fmt: skip
    weakest = data.together[p.domains].carried[:, -1, -1].min("mode")
    name = f"part of the answer on the pathway that all routes share, K = {p.domains}"
    yield wins.above("shared-wins", f"{name}, mean over modes", 0.5, parts[:, -1], bound=HALF)
    yield wins.above("shared-wins-every-mode", f"{name}, least of all modes", 0.5, weakest, bound=HALF)
    order = paper(
        "neural_race Fig. 5b", "in a single network where subparts share structure to different degrees, the "
        "maximally shared dynamics dominate the race between pathways.",
    )  # fmt: skip
    name = f"part carried by P = {p.groups[-1] ** 2} / that by the next largest, K = {p.domains}"
    ratio = parts[:, -1] / parts[:, :-1].max(axis=1)
    yield order.above("most-shared-leads", name, 1, ratio, bound="the paper: dominates")


@claims
def with_routes_and_sharing(p: Race, data: Data):
    shared = won(data.together)[..., -1]  # (K, run)
    grows = paper(
        SECTION, "The strength of this bias increases as each input domain is trained with more output "
        "domains.",
    )  # fmt: skip
    steps = np.diff(shared.mean(axis=1))
    name = "part of the answer on the pathway that all routes share: "
    few, many = p.trained[0], p.trained[-1]
    yield grows.above(
        "bias-grows-with-k", f"{name}K = {many} less K = {few}", 0, shared[-1] - shared[0],
        bound="the paper: increases",
    )  # fmt: skip
    yield grows.relation(
        "bias-grows-at-every-k", f"{name}least step from one K to the next, mean over starts", "> 0",
        steps.min(), (steps > 0).all(), unlearned(p, data.together), "the paper: increases",
    )  # fmt: skip
    duel = won(data.duel)[..., 1]
    faster = paper(SECTION, "From this, we can see that greater sharing leads to faster learning.")
    yield faster.above(
        "shared-beats-dedicated", "part of the answer on shared pathways, any P, against dedicated ones",
        0.5, duel.min(axis=0), bound=HALF,
    )  # fmt: skip
    if len(duel) > 1:
        yield faster.above(
            "grows-with-p", "part of the answer on shared pathways, least step from one P to the next", 0,
            np.diff(duel, axis=0).min(axis=0), unlearned(p, data.duel),
            "the paper: greater sharing, faster learning",
        )  # fmt: skip
    apart = (
        "The reduction has one hidden direction for all domains. Where few routes link them, domains learn "
        "in directions of their own, in the shared pathway too, so it carries more than the reduction says."
    )
    tenth = "stated standard: a tenth of the answer"
    gaps = np.abs(won(data.together) - won(data.together, "theory")).max(axis=2)  # (K, run)
    for k, gap in zip(p.trained, gaps, strict=True):
        name = f"part carried by any kind of pathway, |theory - network|, K = {k}"
        note = apart if gap.max() > 0.1 else ""
        yield finding(SECTION).below(f"theory-k-{k}", name, 0.1, gap, note, tenth)


@claims
def generalisation(p: Race, data: Data):
    some = [k for k in p.trained if k < p.domains]
    errors = np.stack([data.together[k].untrained for k in some])  # (K, run)
    last = nr.measure.last_crossing(some, errors.max(axis=1), 0.1)
    least = min((k for k in some if k >= last), default=np.nan)
    reliably = paper(
        SECTION, "shared representations begin to dominate reliably when roughly 40% of input-output routes "
        "are trained, enabling generalization to unseen input-output routes.",
    )  # fmt: skip
    yield reliably.near(
        "generalises-from-k", "K / M from which on the error on untrained routes is below 10%, all starts",
        0.4, least / p.domains, 0.1, "With dedicated and partly shared pathways beside the shared one.",
        "the paper: roughly 40%, to one K of ten; 10% of a silent network is a stated standard",
    )  # fmt: skip
    few = p.trained[0]
    note = (
        f"Untrained routes have {float(errors[0].mean()):.2g} of the error of no output. Where they fail, "
        "the failure is within the shared pathway, in hidden directions that domains do not share."
    )
    yield finding(SECTION).above(
        "shared-pathway-few-routes", f"part of the answer on the pathway that all routes share, K = {few}",
        0.5, won(data.together)[0, :, -1], note, HALF,
    )  # fmt: skip


EXPERIMENT = Experiment(
    "race",
    "The race: shared, partly shared and dedicated pathways in one network",
    "neural_race 4.2, Eq. 16-17, Fig. 5b",
    Race(),
    Race(seeds=2, domains=6, hidden=8, groups=(1, 2, 6), trained=(1, 3, 6)),
    minutes=(0.2, 25.0),
    needs_full=("generalises-from-k", "bias-grows-at-every-k"),  # many values of K
)
