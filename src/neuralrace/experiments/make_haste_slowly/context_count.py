"""More contexts, all with the same hierarchy: pathways open in all contexts but one. The closed form of their
strengths takes the always open pathway to have learned before they begin. So it is exact for pathways that
learn what is left over; pathways that learn together are faster, and their block reduction says how fast. The
published figure starts the closed form from strengths set by hand, thousands of times those of the initial
weights: with these it follows ReLU networks, with those of the weights it is far too late."""

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
from neuralrace.experiments.claim import Claim, check, finding, paper
from neuralrace.experiments.declaration import Data, claims, figure, part
from neuralrace.experiments.experiment import Experiment, Parameters, option, require
from neuralrace.experiments.make_haste_slowly import modes
from neuralrace.experiments.store import along

FINE = nr.Adaptive(rtol=1e-10, atol=1e-12)  # closed forms are compared to 1e-6
# In the authors' scripts, for each number of contexts: how much larger the initial weights of pathways by
# context are than those of the common one; and the strengths from which the closed form of both starts.
SCRIPTS = {3: (2.0, 5e-9, 5e-5), 4: (1.0, 1e-8, 1e-4), 5: (1.0, 1e-9, 3e-4)}
MODES = {0: plot.ORANGE, 1: plot.GREEN, 3: plot.PINK}  # one of each strength


@dataclass(frozen=True)
class ContextCount(Parameters):
    seeds: int = option(5, "random starts of each network")
    counts: tuple[int, ...] = option((3, 4, 5), "numbers of contexts, C", least=3, most=5, count=2)
    hidden: tuple[int, ...] = option(
        (700, 500, 600), "units of the ReLU networks, for each number of contexts"
    )
    pathway: int = option(100, "units of each pathway of the gated networks that are trained as published")
    scale: float = option(0.005, "standard deviation of initial weights, times the units of the ReLU network")
    lr: float = option(0.001, "learning rate, on the loss summed over samples")
    epochs: int = option(8000, "steps of training", least=160)
    strength: float = option(0.01, "initial strength of each mode and layer of the pathways, decoupled start")
    t1: float = option(240.0, "end of the flow from the decoupled start")

    def check(self) -> None:
        require(len(self.hidden) == len(self.counts), f"hidden must have a width for each of {self.counts}")

    def std(self, c: int) -> float:
        """Standard deviation of the initial weights for C contexts."""
        return self.scale / self.hidden[self.counts.index(c)]

    def strengths(self, c: int) -> tuple[float, float]:
        """Expected strength of a mode in the random weights of the common pathway, and of one by context."""
        common = self.pathway * self.std(c) ** 2 / 2
        return common, SCRIPTS[c][0] ** 2 * common


@part(each=lambda p: [(c, seed) for c in p.counts for seed in range(p.seeds)])
def networks(p: ContextCount, item: tuple[int, int]) -> dict[str, Any]:
    """A ReLU network; pathways open in all contexts but one from its weights, reduced; and as published."""
    c, seed = item
    x, y = nr.tasks.contexts(c).arrays
    net = nr.relu.train(x, y, [p.hidden[p.counts.index(c)]], p.std(c), p.lr, p.epochs, 161, seed)
    pathways = nr.relu.imitate(net, nr.tasks.contexts(c, gating="shared"))
    start = {e: w[0] for e, w in pathways.trajectory.weights.items()}
    solved = nr.reduce(pathways.task, "block").solve(weights=start, t1=net.t[-1], save=net.t)
    task = nr.tasks.contexts(c, gating="shared", hidden=p.pathway)
    in_order = modes.as_published(net, task, p.std(c), SCRIPTS[c][0], seed)
    values = modes.singular_values(task.graph, in_order.weights, 8)
    n_open = (modes.open_in_contexts(net, c) > 0.5).sum(axis=0)  # contexts, of each unit
    size = nr.unit_sizes(*net.at(-1).values(), normalise=True)
    return {
        "epoch": ("epoch", net.steps),
        "relu": ("epoch", net.loss),
        "predicted": ("epoch", net.loss_scale * solved.loss),
        "published": ("epoch", in_order.loss),
        "common": ("epoch mode", values[0]),
        "contexts": ("epoch mode", values[1:].mean(axis=0)),
        "distance": ("epoch", pathways.distance),
        "share": ("contexts_open", np.bincount(n_open, size, minlength=c + 1)),
    }


@part(each="counts")
def closed(p: ContextCount, c: int) -> dict[str, Any]:
    """The closed form, from published strengths and from those of the weights."""
    x, y = nr.tasks.contexts(c).arrays
    epoch = np.linspace(0, p.epochs, 161)
    results = [closed_form(x, y, c, epoch * p.lr * len(x), *s) for s in (SCRIPTS[c][1:], p.strengths(c))]
    return {
        "epoch": ("epoch", epoch),
        "loss": ("start epoch", [r["loss"] for r in results]),
        **{name: ("start epoch mode", [r[name] for r in results]) for name in ("common", "contexts")},
    }


def closed_form(x: Any, y: Any, c: int, t: np.ndarray, common: float, others: float) -> dict[str, np.ndarray]:
    """Loss `(t,)` and leading strengths `(t, mode)` of pathways that start from given strengths."""
    residual, gates = nr.relu.pathway_residual(x, y), np.repeat(1 - np.eye(c), 8, axis=1)
    course = lambda s, d: nr.exact.context_strength(t, s, d, c, others)  # noqa: E731
    outputs = modes.mode_outputs(x, y, np.ones(len(x)), lambda s, d: nr.exact.chain(t, s, d, common))
    for gate in gates:
        outputs = outputs + modes.mode_outputs(x[:, :8], residual, gate, course)
    _, s, vt = np.linalg.svd(y.T @ x / len(x), full_matrices=False)
    first = np.stack(
        [nr.exact.chain(t, a, ((x @ v) ** 2).mean(), common) for a, v in zip(s[:8], vt[:8], strict=True)]
    )
    s = np.linalg.svd((gates[0][:, None] * residual).T @ x[:, :8] / len(x), compute_uv=False)[:7]
    # Each item is one in eight, in c - 1 of c contexts.
    later = np.stack([course(a, (c - 1) / (8 * c)) for a in s])
    largest_first = lambda values: -np.sort(-values.T, axis=1)  # noqa: E731
    return {
        "loss": 0.5 * ((y - outputs) ** 2).sum(axis=(1, 2)),
        "common": largest_first(first),
        "contexts": largest_first(np.concatenate([later, np.zeros((1, len(t)))])),
    }


@part(each="counts")
def theory(p: ContextCount, c: int) -> dict[str, Any]:
    """Pathways from a decoupled start: alone on what the common one leaves, together, and in closed form."""
    x, y = nr.tasks.contexts(c).arrays
    t = np.linspace(0, p.t1, 201)
    in_closed_form = closed_form(x, y, c, t, p.strength**2, p.strength**2)
    alone = modes.on_the_residual(x, y, c)
    s = np.linalg.svd(alone.syx(alone.graph.paths()[0]), compute_uv=False)
    s = s[s > 1e-10 * s[0]]
    together = nr.tasks.contexts(c, gating="shared", hidden=8 * c)
    runs = []
    for task in (alone, together):
        start = nr.init.decoupled(nr.reduce(task, "pathwise"), p.strength)
        record = leading_values(task.graph, len(s))
        runs.append(nr.flow(task, start, p.t1, t, method=FINE, record=record, save_weights=False))
    block = nr.reduce(together, "block").solve(weights=start, t1=p.t1, save=t)
    return {
        "t": ("t", t),
        "closed": ("t mode", in_closed_form["contexts"][:, : len(s)]),
        "alone": ("t mode", runs[0].recorded["p0h1"]),
        "together": ("t mode", runs[1].recorded["p1h1"]),
        "joint_loss": ("t", len(x) * runs[1].loss),
        "block_loss": ("t", len(x) * block.loss),
        "closed_loss": ("t", in_closed_form["loss"]),
    }


def leading_values(graph: nr.Graph, k: int) -> Callable[[nr.State], dict[str, Any]]:
    """What to record: the leading singular values of the map of each pathway, by its hidden node."""

    def record(state: nr.State) -> dict[str, Any]:
        maps = nr.pathway_maps(graph, state)
        return {n: jnp.linalg.svd(m, compute_uv=False)[:k] for n, m in maps.items()}

    return record


def of_count(p: ContextCount, data: Data, c: int) -> xr.Dataset:
    """The networks of all seeds for a number of contexts."""
    return along({seed: data.networks[c, seed] for seed in range(p.seeds)}, "seed")


@figure("published")
def as_in_the_paper(p: ContextCount, data: Data) -> tuple[Figure, str]:
    fig, axes = plot.figure(3, len(p.counts), height=7.6, squeeze=False)
    for column, c in zip(axes.T, p.counts, strict=True):
        nets, d = of_count(p, data, c), data.closed[c]
        top, *others = column
        plot.runs(top, nets.epoch, nets.relu, plot.BLACK, "ReLU networks")
        plot.runs(top, nets.epoch, nets.published, plot.BLUE, "pathways, trained as published")
        plot.theory(
            top, nets.epoch, nets.predicted.mean("seed"), plot.ORANGE, "trained together, block reduction"
        )
        plot.theory(top, d.epoch, d.loss[0], plot.RED, "closed form, published start", ls="--")
        plot.theory(top, d.epoch, d.loss[1], plot.RED, "closed form, start of the weights", ls=":")
        top.set(yscale="log", xlabel="epoch", title=f"{c} contexts: loss", ylim=(0.02, 200))
        for ax, name in zip(others, ("common", "contexts"), strict=True):
            for k, colour in MODES.items():
                plot.runs(ax, nets.epoch, nets[name][..., k], colour, f"network, mode {k + 1}")
                plot.theory(ax, d.epoch, d[name][0, :, k], colour, ls="--", lw=0.9)
                plot.theory(ax, d.epoch, d[name][1, :, k], colour, ls=":", lw=0.9)
            ax.set(xlabel="epoch", title="common pathway" if name == "common" else "by context, mean")
        others[0].set_xlim(0, p.epochs / 4)
    for ax, label in zip(axes[:, 0], ("loss, summed over samples", *["singular value"] * 2), strict=True):
        ax.set_ylabel(label)
    for style, label in (("--", "closed form, published start"), (":", "closed form, start of the weights")):
        axes[1, -1].plot([], [], color="grey", ls=style, lw=0.9, label=label)
    top = fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    fig.add_artist(top)
    plot.legend_below(fig, axes[1, -1], 3)
    caption = (
        f"Top: loss of ReLU networks ({p.seeds} seeds) and of pathways open in all contexts but one: "
        "trained as published, the common one as if alone and the others on what it leaves; trained "
        "together; and in closed form, from the strengths in the authors' scripts and from those of the "
        "initial weights. Middle and bottom: singular values of the pathways trained as published (bands) "
        "and in closed form."
    )
    return fig, caption


@figure("contexts")
def courses(p: ContextCount, data: Data) -> tuple[Figure, str]:
    fig, axes = plot.figure(2, len(p.counts), height=4.8, squeeze=False)
    dots: dict[str, Any] = {"ms": 2.5, "alpha": 0.6}
    for (top, bottom), c in zip(axes.T, p.counts, strict=True):
        d = data.theory[c]
        plot.points(top, d.t[::8], d.joint_loss[::8], plot.BLUE, "trained together", **dots)
        plot.theory(top, d.t, d.block_loss, plot.BLUE, "block reduction")
        plot.theory(top, d.t, d.closed_loss, plot.RED, "closed form", ls="--")
        top.set(yscale="log", xlabel="time (τ = 1)", ylim=(0.02, 200), title=f"{c} contexts: loss")
        for k, colour in MODES.items():
            plot.points(bottom, d.t[::8], d.alone[::8, k], colour, f"alone, mode {k + 1}", **dots)
            plot.theory(bottom, d.t, d.closed[:, k], colour, ls="--")
            plot.theory(bottom, d.t, d.together[:, k], colour, lw=0.9)
        bottom.set(xlabel="time (τ = 1)", title="a pathway by context")
    for ax, label in zip(axes[:, 0], ("loss, summed over samples", "singular value"), strict=True):
        ax.set_ylabel(label)
    last = axes[1, -1]
    for style, label in (("--", "closed form"), ("-", "trained together")):
        last.plot([], [], color="grey", ls=style, lw=0.9, label=label)
    for ax in axes[:, -1]:
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    caption = (
        "Pathways from a decoupled start. Top: their loss when trained together, by block reduction, and "
        "by the closed form that has the common pathway learn first. Bottom: strengths of a pathway by "
        "context; dashed the closed form, dots pathways alone on what the common one leaves, solid trained "
        "together."
    )
    return fig, caption


FIG, APART = "make_haste_slowly Fig. 5", "distance in the figure"
PERFECT = paper(
    FIG,
    "Consequently we can in closed form derive the loss trajectory for each architecture and see perfect "
    "agreement to both the ReLN and ReLU networks.",
)
SMALL = "3% of the initial loss, chosen here"


@claims
def closed_forms(p: ContextCount, data: Data) -> Iterator[Claim]:
    joint = "The pathways learn while the common one does: the closed form has them wait for it."
    for c, d in data.theory.items():
        first = d.joint_loss[0]
        name = f"C = {c}, common pathway settled: closed form - flow"
        settled = np.abs(d.closed - d.alone).max()
        why = "Rounding grows on plateaus: 1e-12 added to the initial weights changes it by 8e-6 for C = 5."
        yield check("make_haste_slowly F, G").below(f"closed-form-settled-{c}", name, 1e-6, settled, why)
        name = f"C = {c}, trained together: loss, closed form from flow, {APART}"
        off = modes.drawn_distance(d.t.values, d.closed_loss, d.joint_loss)
        yield PERFECT.below(f"closed-form-together-{c}", name, 0.03, off, joint, modes.DRAWN)
        name = f"C = {c}, trained together: block reduction - flow, loss / initial"
        off = np.abs(d.block_loss - d.joint_loss).max() / first
        yield check(FIG).below(f"block-reduction-{c}", name, 1e-6, off)


@claims
def published_figure(p: ContextCount, data: Data) -> Iterator[Claim]:
    exactly = paper(
        FIG,
        "The singular value trajectories for the common pathway (second row) and mean trajectories for the "
        "contextual pathways (bottom row) match simulations exactly.",
    )
    for c in p.counts:
        d, closed = of_count(p, data, c), data.closed[c].isel(start=0)
        _, common, others = SCRIPTS[c]
        by_hand = (
            f"From {common:g} and {others:g}, set by hand; the weights have {p.strengths(c)[0]:.0e} and "
            f"{p.strengths(c)[1]:.0e}."
        )
        early = "Pathways by context begin while the common one learns. The closed form starts when it has."
        curves = {
            f"closed-form-relu-{c}": (
                "closed form, published start, from ReLU networks",
                closed.loss,
                d.relu,
                by_hand,
            ),
            f"closed-form-published-{c}": (
                "closed form, published start, from pathways as published",
                closed.loss,
                d.published,
                early,
            ),
            f"published-relu-{c}": ("pathways as published from ReLU networks", d.published, d.relu, early),
        }
        for id, (what, curve, other, note) in curves.items():
            name = f"C = {c}, loss: {what}, {APART}"
            yield PERFECT.below(id, name, 0.03, apart(curve, other), note, modes.DRAWN)
        for which in ("common", "contexts"):
            top = closed[which].max().item()
            off = [apart(closed[which][:, k], d[which][..., k], top) for k in MODES]
            name = f"C = {c}, singular values, {which}: closed form from pathways as published, {APART}"
            yield exactly.below(
                f"singular-values-{which}-{c}", name, 0.03, np.max(off, axis=0), by_hand, modes.DRAWN
            )
        name = f"C = {c}, loss: closed form from the strengths of the weights, from ReLU networks, {APART}"
        off = apart(data.closed[c].loss[1], d.relu)
        note = "So the agreement is that of the strengths set by hand."
        yield finding(FIG).above(f"closed-form-weights-{c}", name, 0.03, off, note, modes.DRAWN)


def apart(curve: xr.DataArray, measured: xr.DataArray, top: float | None = None) -> list[float]:
    """Distance in a figure of each measured run from a curve, one for all or one for each."""
    one = np.broadcast_to(curve, measured.shape)
    epoch = measured.epoch.values
    return [modes.drawn_distance(epoch, a, b, top) for a, b in zip(one, measured.values, strict=True)]


@claims
def relu_networks(p: ContextCount, data: Data) -> Iterator[Claim]:
    same = paper(
        "make_haste_slowly section 5, Def. 3.1",
        "Once again we construct a ReLN which imitates the ReLU networks and identify the effective "
        "datasets for each of its pathways.",
    )
    reuse = paper(
        "make_haste_slowly section 5",
        "The ReLN then has C context specific pathways which are active for C - 1 contexts.",
    )
    grows = paper(
        "make_haste_slowly section 5",
        "Thus, as the number of contexts increases, so too does the bias towards node reuse and mixed "
        "selectivity.",
    )
    gates = "Pathways have constant gates by context. Units do not: late in training most are mixed."
    mean_open = {}
    for c in p.counts:
        d = of_count(p, data, c)
        name = f"C = {c}, half the sum of squares"
        yield check(FIG).near(f"initial-loss-{c}", name, 32 * c, d.relu[:, 0], 1e-6)
        name = f"C = {c}, block reduction - ReLU networks, loss / initial"
        off = np.abs(d.predicted - d.relu).max("epoch") / d.relu[:, 0]
        yield finding(FIG).below(f"relu-error-{c}", name, 0.03, off, gates, SMALL)
        name = f"C = {c}, block reduction - ReLU networks, largest factor until 1e-3"
        yield finding(FIG).below(f"relu-factor-{c}", name, 2, modes.loss_factor(d.predicted, d.relu), gates)
        name = f"C = {c}, pathways - ReLU networks, outputs, largest distance"
        bound = "5% of the targets, chosen here for 'imitates'"
        yield same.below(f"relu-outputs-{c}", name, 0.05, d.distance.max("epoch"), gates, bound)
        name = f"C = {c}, weight in units open in C - 1 contexts"
        shares = ", ".join(f"{share:.2f}" for share in d.share.mean("seed"))
        note = f"By number of contexts, from 0: {shares}."
        yield reuse.above(f"units-open-{c}", name, 0.5, d.share[:, c - 1], note, "most of the weight")
        mean_open[c] = (d.share.mean("seed") * np.arange(c + 1)).sum().item()
    name = "mean number of contexts in which units are open, least growth from C to C + 1"
    told = ", ".join(f"{mean:.2f} of {c}" for c, mean in mean_open.items())
    least = np.diff(list(mean_open.values())).min()
    yield grows.above("reuse-grows", name, 0, least, f"They are {told}.", "the paper: it grows")


EXPERIMENT = Experiment(
    "context-count",
    "More contexts: what pathways learn together, and after one another",
    "make_haste_slowly Fig. 5, F, G",
    ContextCount(),
    ContextCount(seeds=1, counts=(3, 4), hidden=(280, 200), pathway=40),
    minutes=(1, 8),
    needs_full=("closed-form-relu-*", "closed-form-published-*", "singular-values-*"),  # published strengths
)
