"""More contexts, all with the same hierarchy: pathways open in all contexts but one. The closed form of their
strengths takes the always open pathway to have learned before they begin. So it is exact for pathways that
learn what is left over; pathways that learn together are faster, and their block reduction says how fast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import plot
from neuralrace.experiments.make_haste_slowly.contexts import SOURCE, factor, pathway_maps
from neuralrace.experiments.old import (
    Claim,
    Experiment,
    Parameters,
    Parts,
    Results,
    check,
    option,
    paper,
    stacked,
)

FIG = f"{SOURCE} Fig. 5"
FINE = nr.Adaptive(rtol=1e-10, atol=1e-12)  # closed forms are compared to 1e-6


@dataclass(frozen=True)
class ContextCount(Parameters):
    seeds: int = option(5, "random starts of each network")
    counts: tuple[int, ...] = option((3, 4, 5), "numbers of contexts, C", least=3)
    hidden: int = option(700, "units of the ReLU networks")
    std: float = option(0.005 / 700, "standard deviation of initial weights")
    lr: float = option(0.001, "learning rate, on the loss summed over samples")
    epochs: int = option(8000, "steps of training", least=160)
    strength: float = option(0.01, "initial strength of each mode and layer of the pathways, decoupled start")
    t1: float = option(240.0, "end of the flow from the decoupled start")


def compute(p: ContextCount, parts: Parts) -> Results:
    return {
        str(c): stacked(parts.each(f"networks-{c}", networks, range(p.seeds), c, p))
        | parts(f"theory-{c}", theory, c, p)
        for c in p.counts
    }


def networks(seed: int, c: int, p: ContextCount) -> dict[str, Any]:
    """A ReLU network and pathways open in all contexts but one from its weights; and their reduction."""
    x, y = nr.tasks.contexts(c).arrays
    net = nr.relu.train(x, y, [p.hidden], p.std, p.lr, p.epochs, 161, seed)
    same = nr.relu.imitate(net, nr.tasks.contexts(c, gating="shared"))
    start = {e: w[0] for e, w in same.trajectory.weights.items()}
    solved = nr.reduce(same.task, "block").solve(weights=start, t1=net.t[-1], save=net.t)
    gates = net.gates(-1)[0].reshape(c, 8, -1).mean(axis=1) > 0.5  # (contexts, units)
    size = np.linalg.norm(net.at(-1)["x->h1"], axis=1) * np.linalg.norm(net.at(-1)["h1->y"], axis=0)
    share = np.array([size[gates.sum(axis=0) == k].sum() for k in range(c + 1)]) / size.sum()
    return {
        "epoch": net.steps, "relu": net.loss, "pathways": same.loss,
        "predicted": net.loss_scale * solved.loss, "distance": same.distance, "share": share,
    }  # fmt: skip


def theory(c: int, p: ContextCount) -> dict[str, Any]:
    """Pathways from a decoupled start: alone on what the common one leaves, together, and in closed form."""
    x, y = nr.tasks.contexts(c).arrays
    n, t = len(x), np.linspace(0, p.t1, 201)
    left = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    patterns = np.repeat(1 - np.eye(c), 8, axis=1)
    alone = nr.tasks.gated(x, left, patterns, 16, {k: range(8) for k in range(c)})
    path = alone.graph.paths()[0]
    s = np.linalg.svd(alone.syx(path), compute_uv=False)
    s = s[s > 1e-10 * s[0]]
    closed = np.stack([strengths(t, v, c, p) for v in s], axis=1)
    begin = nr.init.decoupled(nr.reduce(alone, "pathwise"), p.strength)
    run = nr.flow(alone, begin, p.t1, t, method=FINE, record=recorded(alone), save_weights=False)
    both = nr.tasks.contexts(c, gating="shared", hidden=8 * c)
    block = nr.reduce(both, "block")
    start = nr.init.decoupled(nr.reduce(both, "pathwise"), p.strength)
    together = nr.flow(both, start, p.t1, t, method=FINE, record=recorded(both), save_weights=False)
    solved = block.solve(weights=start, t1=p.t1, save=t)
    return {
        "t": t, "closed": closed, "alone": run.recorded["p0h1"][:, : len(s)],
        "together": together.recorded["p1h1"][:, : len(s)],
        "joint loss": n * together.loss, "block loss": n * solved.loss,
        "closed loss": _closed_loss(x, y, left, patterns, t, p.strength**2, c),
    }  # fmt: skip


def strengths(t: np.ndarray, s: float, c: int, p: ContextCount) -> np.ndarray:
    """The closed form of a context pathway's mode; each item is one in eight, in c - 1 of c contexts."""
    return nr.exact.context_strength(t, s, (c - 1) / (8 * c), c, p.strength**2)


def recorded(task: nr.Task) -> Callable[[nr.State], dict[str, Any]]:
    """What to record: singular values of the map of each pathway, by its hidden node."""

    def values(state: nr.State) -> dict[str, Any]:
        maps = pathway_maps(task.graph, state.activity)
        return {n: jnp.linalg.svd(m, compute_uv=False) for n, m in maps.items()}

    return values


def _closed_loss(x: Any, y: Any, left: Any, patterns: Any, t: Any, b0: float, c: int) -> np.ndarray:
    """What the appendices predict: the common pathway by Eq. 7, the others on what it leaves in the end."""
    n = len(x)

    def outputs(inputs: Any, targets: Any, gate: Any, course: Any) -> np.ndarray:
        u, s, vt = np.linalg.svd((gate[:, None] * targets).T @ inputs / n, full_matrices=False)
        keep = s > 1e-10 * s[0]
        seen = gate[:, None] * (inputs @ vt[keep].T)
        b = np.stack([course(a, d) for a, d in zip(s[keep], (seen**2).mean(axis=0), strict=True)])
        return np.einsum("nk,kt,ok->tno", seen, b, u[:, keep])

    made = outputs(x, y, np.ones(n), lambda s, d: nr.exact.chain(t, s, d, b0))
    for gate in patterns:
        made = made + outputs(x[:, :8], left, gate, lambda s, d: nr.exact.context_strength(t, s, d, c, b0))
    return 0.5 * ((y - made) ** 2).sum(axis=(1, 2))


def figures(p: ContextCount, r: Results) -> dict[str, tuple[Figure, str]]:
    fig, axes = plot.figure(3, len(p.counts), height=5.6, squeeze=False)
    for (a, b, e), c in zip(axes.T, p.counts, strict=True):
        d = r[str(c)]
        plot.runs(a, d["epoch"][0], d["relu"], plot.BLACK, "ReLU networks")
        plot.theory(a, d["epoch"][0], d["predicted"].mean(axis=0), plot.BLUE, "pathways, block reduction")
        a.set(yscale="log", xlabel="epoch", title=f"{c} contexts", ylim=(0.02, 200))
        b.plot(
            d["t"][::8],
            d["joint loss"][::8],
            "o",
            color=plot.BLUE,
            ms=2.5,
            alpha=0.6,
            label="trained together",
        )
        plot.theory(b, d["t"], d["block loss"], plot.BLUE, "block reduction")
        plot.theory(b, d["t"], d["closed loss"], plot.RED, "closed form", ls="--")
        b.set(yscale="log", xlabel="time (τ = 1)", ylim=(0.02, 200))
        for k, colour in zip((0, 1, 3), (plot.ORANGE, plot.GREEN, plot.PINK), strict=True):
            plot.theory(e, d["t"], d["closed"][:, k], colour, ls="--", label=f"mode {k + 1}")
            e.plot(d["t"][::8], d["alone"][::8, k], "o", color=colour, ms=2.5, alpha=0.6)
            plot.theory(e, d["t"], d["together"][:, k], colour, lw=0.9)
        e.set(xlabel="time (τ = 1)")
    for ax, label in zip(axes[:, 0], ("loss", "loss", "singular value"), strict=True):
        ax.set_ylabel(label)
        ax.legend()
    caption = (
        f"Top: loss of ReLU networks ({p.seeds} seeds) and of pathways open in all contexts but one, from "
        "their weights. Middle: pathways from a decoupled start, trained together, by block reduction, "
        "and by the closed form that has the common pathway learn first. Bottom: their strengths; dashed "
        "the closed form, dots pathways alone on what the common one leaves, solid trained together."
    )
    return {"contexts": (fig, caption)}


def by_count(share: np.ndarray) -> str:
    """Mean shares of the weight in units open in 0, 1, 2, ... contexts, as text."""
    return ", ".join(f"{v:.2f}" for v in share.mean(axis=0))


def claims(p: ContextCount, r: Results) -> list[Claim]:
    joint = "The pathways learn while the common one does: the closed form has them wait for it."
    gates = "Pathways have constant gates by context. Units do not: late in training most are mixed."
    found = []
    for c in p.counts:
        d = r[str(c)]
        name, first = f"C = {c}, ", d["joint loss"][0]
        settled = np.abs(d["closed"] - d["alone"]).max()
        off = np.abs(d["closed loss"] - d["joint loss"]).max() / first
        block = np.abs(d["block loss"] - d["joint loss"]).max() / first
        apart = np.abs(d["predicted"] - d["relu"]).max(axis=1) / d["relu"][:, 0]
        found += [
            check.near(
                f"initial-loss-{c}", f"{name}half the sum of squares", FIG, 32 * c, d["relu"][:, 0], 1e-6
            ),
            check.below(
                f"closed-form-settled-{c}", f"{name}common pathway settled: closed form - flow",
                f"{SOURCE} F, G", 1e-6, settled,
            ),
            paper.below(
                f"closed-form-together-{c}", f"{name}trained together: closed form - flow, loss / initial",
                FIG, 0.03, off, joint,
            ),
            check.below(
                f"block-reduction-{c}", f"{name}trained together: block reduction - flow, loss / initial",
                FIG, 1e-6, block,
            ),
            paper.below(
                f"relu-error-{c}", f"{name}block reduction - ReLU networks, loss / initial", FIG, 0.03, apart,
                gates,
            ),
            paper.below(
                f"relu-factor-{c}", f"{name}block reduction - ReLU networks, largest factor until 1e-3", FIG,
                2, factor(d["predicted"], d["relu"]), gates,
            ),
            paper.below(
                f"relu-outputs-{c}", f"{name}pathways - ReLU networks, outputs, largest distance",
                f"{SOURCE} Def. 3.1", 0.05, d["distance"].max(axis=1), gates,
            ),
            paper.above(
                f"units-open-{c}", f"{name}weight in units open in C - 1 contexts", FIG, 0.5,
                d["share"][:, c - 1], f"By number of contexts, from 0: {by_count(d['share'])}.",
            ),
        ]  # fmt: skip
    return found


EXPERIMENT = Experiment(
    "context-count",
    "More contexts: what pathways learn together, and after one another",
    "make_haste_slowly Fig. 5, F, G",
    ContextCount(),
    ContextCount(seeds=1, counts=(3,), hidden=280, std=0.005 / 280),
    compute,
    figures,
    claims,
    (0.4, 5),
)
