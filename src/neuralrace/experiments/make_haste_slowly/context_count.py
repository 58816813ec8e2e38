"""More contexts, all with the same hierarchy: pathways open in all contexts but one. The closed form of their
strengths takes the always open pathway to have learned before they begin. So it is exact for pathways that
learn what is left over; pathways that learn together are faster, and their block reduction says how fast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import plot
from neuralrace.experiments.claim import Claim, check, paper
from neuralrace.experiments.declaration import Data, claims, figure, part
from neuralrace.experiments.experiment import Experiment, Parameters, option
from neuralrace.experiments.make_haste_slowly.modes import loss_factor, mode_outputs
from neuralrace.experiments.store import along

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


@part(each=lambda p: [(c, seed) for c in p.counts for seed in range(p.seeds)])
def networks(p: ContextCount, item: tuple[int, int]) -> dict[str, Any]:
    """A ReLU network and pathways open in all contexts but one from its weights; and their reduction."""
    c, seed = item
    x, y = nr.tasks.contexts(c).arrays
    net = nr.relu.train(x, y, [p.hidden], p.std, p.lr, p.epochs, 161, seed)
    pathways = nr.relu.imitate(net, nr.tasks.contexts(c, gating="shared"))
    start = {e: w[0] for e, w in pathways.trajectory.weights.items()}
    solved = nr.reduce(pathways.task, "block").solve(weights=start, t1=net.t[-1], save=net.t)
    n_open = (net.gates(-1)[0].reshape(c, 8, -1).mean(axis=1) > 0.5).sum(axis=0)  # contexts, of each unit
    size = nr.unit_sizes(*net.at(-1).values(), normalise=True)
    return {
        "epoch": ("epoch", net.steps),
        "relu": ("epoch", net.loss),
        "predicted": ("epoch", net.loss_scale * solved.loss),
        "distance": ("epoch", pathways.distance),
        "share": ("contexts_open", np.bincount(n_open, size, minlength=c + 1)),
    }


@part(each="counts")
def theory(p: ContextCount, c: int) -> dict[str, Any]:
    """Pathways from a decoupled start: alone on what the common one leaves, together, and in closed form."""
    x, y = nr.tasks.contexts(c).arrays
    t = np.linspace(0, p.t1, 201)
    residual, patterns = nr.relu.pathway_residual(x, y), np.repeat(1 - np.eye(c), 8, axis=1)
    # Each item is one in eight, in c - 1 of c contexts.
    course = lambda s, d: nr.exact.context_strength(t, s, d, c, p.strength**2)  # noqa: E731
    outputs = mode_outputs(x, y, np.ones(len(x)), lambda s, d: nr.exact.chain(t, s, d, p.strength**2))
    for gate in patterns:
        outputs = outputs + mode_outputs(x[:, :8], residual, gate, course)

    alone = nr.tasks.gated(x, residual, patterns, 16, {k: range(8) for k in range(c)})
    s = np.linalg.svd(alone.syx(alone.graph.paths()[0]), compute_uv=False)
    s = s[s > 1e-10 * s[0]]
    together = nr.tasks.contexts(c, gating="shared", hidden=8 * c)
    runs = []
    for task in (alone, together):
        start = nr.init.decoupled(nr.reduce(task, "pathwise"), p.strength)
        record = singular_values(task.graph, len(s))
        runs.append(nr.flow(task, start, p.t1, t, method=FINE, record=record, save_weights=False))
    block = nr.reduce(together, "block").solve(weights=start, t1=p.t1, save=t)
    return {
        "t": ("t", t),
        "closed": ("t mode", np.stack([course(v, (c - 1) / (8 * c)) for v in s], axis=1)),
        "alone": ("t mode", runs[0].recorded["p0h1"]),
        "together": ("t mode", runs[1].recorded["p1h1"]),
        "joint_loss": ("t", len(x) * runs[1].loss),
        "block_loss": ("t", len(x) * block.loss),
        "closed_loss": ("t", 0.5 * ((y - outputs) ** 2).sum(axis=(1, 2))),
    }


def singular_values(graph: nr.Graph, k: int) -> Callable[[nr.State], dict[str, Any]]:
    """What to record: the leading singular values of the map of each pathway, by its hidden node."""

    def record(state: nr.State) -> dict[str, Any]:
        maps = nr.pathway_maps(graph, state)
        return {n: jnp.linalg.svd(m, compute_uv=False)[:k] for n, m in maps.items()}

    return record


def of_count(p: ContextCount, data: Data, c: int) -> xr.Dataset:
    """The networks of all seeds for a number of contexts."""
    return along({seed: data.networks[c, seed] for seed in range(p.seeds)}, "seed")


@figure("contexts")
def courses(p: ContextCount, data: Data) -> tuple[Figure, str]:
    fig, axes = plot.figure(3, len(p.counts), height=5.6, squeeze=False)
    dots: dict[str, Any] = {"ms": 2.5, "alpha": 0.6}
    for (top, middle, bottom), c in zip(axes.T, p.counts, strict=True):
        nets, d = of_count(p, data, c), data.theory[c]
        plot.runs(top, nets.epoch, nets.relu, plot.BLACK, "ReLU networks")
        plot.theory(top, nets.epoch, nets.predicted.mean("seed"), plot.BLUE, "pathways, block reduction")
        top.set(yscale="log", xlabel="epoch", title=f"{c} contexts", ylim=(0.02, 200))
        plot.points(middle, d.t[::8], d.joint_loss[::8], plot.BLUE, "trained together", **dots)
        plot.theory(middle, d.t, d.block_loss, plot.BLUE, "block reduction")
        plot.theory(middle, d.t, d.closed_loss, plot.RED, "closed form", ls="--")
        middle.set(yscale="log", xlabel="time (τ = 1)", ylim=(0.02, 200))
        for k, colour in zip((0, 1, 3), (plot.ORANGE, plot.GREEN, plot.PINK), strict=True):
            plot.theory(bottom, d.t, d.closed[:, k], colour, ls="--", label=f"mode {k + 1}")
            plot.points(bottom, d.t[::8], d.alone[::8, k], colour, **dots)
            plot.theory(bottom, d.t, d.together[:, k], colour, lw=0.9)
        bottom.set(xlabel="time (τ = 1)")
    for ax, label in zip(axes[:, 0], ("loss", "loss", "singular value"), strict=True):
        ax.set_ylabel(label)
        ax.legend()
    caption = (
        f"Top: loss of ReLU networks ({p.seeds} seeds) and of pathways open in all contexts but one, from "
        "their weights. Middle: pathways from a decoupled start, trained together, by block reduction, "
        "and by the closed form that has the common pathway learn first. Bottom: their strengths; dashed "
        "the closed form, dots pathways alone on what the common one leaves, solid trained together."
    )
    return fig, caption


FIG = "make_haste_slowly Fig. 5"
PERFECT = paper(
    FIG,
    "Consequently we can in closed form derive the loss trajectory for each architecture and see perfect "
    "agreement to both the ReLN and ReLU networks.",
)


@claims
def closed_forms(p: ContextCount, data: Data) -> Iterator[Claim]:
    joint = "The pathways learn while the common one does: the closed form has them wait for it."
    for c, d in data.theory.items():
        first = d.joint_loss[0]
        name = f"C = {c}, common pathway settled: closed form - flow"
        settled = np.abs(d.closed - d.alone).max()
        yield check("make_haste_slowly F, G").below(f"closed-form-settled-{c}", name, 1e-6, settled)
        name = f"C = {c}, trained together: closed form - flow, loss / initial"
        off = np.abs(d.closed_loss - d.joint_loss).max() / first
        yield PERFECT.below(f"closed-form-together-{c}", name, 0.03, off, joint)
        name = f"C = {c}, trained together: block reduction - flow, loss / initial"
        off = np.abs(d.block_loss - d.joint_loss).max() / first
        yield check(FIG).below(f"block-reduction-{c}", name, 1e-6, off)


@claims
def relu_networks(p: ContextCount, data: Data) -> Iterator[Claim]:
    same = paper(
        "make_haste_slowly Def. 3.1",
        "We show that for a ReLU network it is possible to create an equivalent GDLN which has the same "
        "output as the ReLU network at all points in time.",
    )
    reuse = paper(
        "make_haste_slowly section 5",
        "The ReLN then has C context specific pathways which are active for C - 1 contexts.",
    )
    gates = "Pathways have constant gates by context. Units do not: late in training most are mixed."
    for c in p.counts:
        d = of_count(p, data, c)
        name = f"C = {c}, half the sum of squares"
        yield check(FIG).near(f"initial-loss-{c}", name, 32 * c, d.relu[:, 0], 1e-6)
        name = f"C = {c}, block reduction - ReLU networks, loss / initial"
        off = np.abs(d.predicted - d.relu).max("epoch") / d.relu[:, 0]
        yield PERFECT.below(f"relu-error-{c}", name, 0.03, off, gates)
        name = f"C = {c}, block reduction - ReLU networks, largest factor until 1e-3"
        yield PERFECT.below(f"relu-factor-{c}", name, 2, loss_factor(d.predicted, d.relu), gates)
        name = f"C = {c}, pathways - ReLU networks, outputs, largest distance"
        yield same.below(f"relu-outputs-{c}", name, 0.05, d.distance.max("epoch"), gates)
        name = f"C = {c}, weight in units open in C - 1 contexts"
        shares = ", ".join(f"{share:.2f}" for share in d.share.mean("seed"))
        note = f"By number of contexts, from 0: {shares}."
        yield reuse.above(f"units-open-{c}", name, 0.5, d.share[:, c - 1], note)


EXPERIMENT = Experiment(
    "context-count",
    "More contexts: what pathways learn together, and after one another",
    "make_haste_slowly Fig. 5, F, G",
    ContextCount(),
    ContextCount(seeds=1, counts=(3,), hidden=280, std=0.005 / 280),
    minutes=(0.4, 5),
)
