"""More contexts, all with the same hierarchy: pathways open in all contexts but one. The closed form of their
strengths takes the always open pathway to have learned before they begin. So it is exact for pathways that
learn what is left over; pathways that learn together are faster, and their block reduction says how fast. The
published figure starts the closed form from strengths set by hand, thousands of times those of the initial
weights: with these it follows ReLU networks, with those of the weights it is far too late."""

from __future__ import annotations

from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace.measure import drawn_distance
from neuralrace_papers.framework.claim import check, finding
from neuralrace_papers.framework.declaration import claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option, require
from neuralrace_papers.framework.quotes import quoted
from neuralrace_papers.make_haste_slowly import modes

LEADING = 7  # modes of what the common pathway leaves
FINE = nr.Adaptive(rtol=1e-10, atol=1e-12)  # closed forms are compared to 1e-6
# In the authors' scripts, for each number of contexts: how much larger the initial weights of pathways by
# context are than those of the common one; and the strengths from which the closed form of both starts.
SCRIPTS = {3: (2.0, 5e-9, 5e-5), 4: (1.0, 1e-8, 1e-4), 5: (1.0, 1e-9, 3e-4)}
MODES = {0: plot.ORANGE, 1: plot.GREEN, 3: plot.PINK}  # one of each strength
STARTS = {"closed form, published start": "--", "closed form, start of the weights": ":"}


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
def networks(p: ContextCount, item: tuple[int, int]):
    """A ReLU network; pathways open in all contexts but one from its weights, reduced; and as published."""
    c, seed = item
    x, y = nr.tasks.contexts(c).arrays
    net = nr.relu.train(x, y, [p.hidden[p.counts.index(c)]], p.std(c), p.lr, p.epochs, 161, seed)
    pathways = nr.relu.imitate(net, nr.tasks.contexts(c, gating="shared"))
    start = {e: w[0] for e, w in pathways.trajectory.weights.items()}
    r = nr.reduce(pathways.task, "block")
    solved = r.solve(b0=r.strengths(start), t1=net.t[-1], save=net.t)
    task = nr.tasks.contexts(c, gating="shared", hidden=p.pathway)
    in_order = modes.as_published(net, task, p.std(c), SCRIPTS[c][0], seed)
    values = modes.singular_values(task.graph, in_order.weights, LEADING)
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
def closed(p: ContextCount, c: int):
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
    first, strengths = modes.mode_outputs(x, y, np.ones(len(x)), lambda s, d: nr.exact.chain(t, s, d, common))
    later = [modes.mode_outputs(x[:, :8], residual, gate, course) for gate in gates]
    outputs = first + sum(out for out, _ in later)
    largest_first = lambda values: -np.sort(-values[:, :8], axis=1)[:, :LEADING]  # noqa: E731
    return {
        "loss": 0.5 * ((y - outputs) ** 2).sum(axis=(1, 2)),
        "common": largest_first(strengths),
        "contexts": largest_first(later[0][1]),
    }


@part(each="counts")
def theory(p: ContextCount, c: int):
    """Pathways from a decoupled start: alone on what the common one leaves, together, and in closed form."""
    x, y = nr.tasks.contexts(c).arrays
    t = np.linspace(0, p.t1, 201)
    in_closed_form = closed_form(x, y, c, t, p.strength**2, p.strength**2)
    alone = modes.on_the_residual(x, y, c)
    together = nr.tasks.contexts(c, gating="shared", hidden=8 * c)
    runs = []
    for task in (alone, together):
        start = nr.init.decoupled(nr.reduce(task, "pathwise"), p.strength)
        runs.append(nr.flow(task, start, p.t1, t, method=FINE))
    r = nr.reduce(together, "block")
    block = r.solve(b0=r.strengths(start), t1=p.t1, save=t)
    return {
        "t": ("t", t),
        "closed": ("t mode", in_closed_form["contexts"]),
        "alone": ("t mode", modes.singular_values(alone.graph, runs[0].weights, LEADING)[0]),
        "together": ("t mode", modes.singular_values(together.graph, runs[1].weights, LEADING)[1]),
        "joint_loss": ("t", len(x) * runs[1].loss),
        "block_loss": ("t", len(x) * block.loss),
        "closed_loss": ("t", in_closed_form["loss"]),
    }


@figure("published")
def as_in_the_paper(p: ContextCount, data):
    fig, axes = plot.figure(3, len(p.counts), height=7.6, squeeze=False)
    for (top, *others), (c, nets) in zip(axes.T, modes.by_case(data.networks).items(), strict=True):
        d = data.closed[c]
        plot.runs(top, nets.epoch, nets.relu, plot.BLACK, "ReLU networks")
        plot.runs(top, nets.epoch, nets.published, plot.BLUE, "pathways, trained as published")
        together = nets.predicted.mean("seed")
        plot.theory(top, nets.epoch, together, plot.ORANGE, "trained together, block reduction")
        for start, (label, style) in enumerate(STARTS.items()):
            plot.theory(top, d.epoch, d.loss[start], plot.RED, label, ls=style)
        for ax, name in zip(others, ("common", "contexts"), strict=True):
            for k, colour in MODES.items():
                plot.runs(ax, nets.epoch, nets[name][..., k], colour, f"network, mode {k + 1}")
                for values, style in zip(d[name][..., k], STARTS.values(), strict=True):
                    plot.theory(ax, d.epoch, values, colour, ls=style, lw=0.9)
        plot.label(top, "epoch", title=f"{c} contexts: loss", yscale="log", ylim=(0.02, 200))
        plot.label(others[0], "epoch", title="common pathway", xlim=(0, p.epochs / 4))
        plot.label(others[1], "epoch", title="by context, mean")
    for ax, label in zip(axes[:, 0], ("loss, summed over samples", *["singular value"] * 2), strict=True):
        ax.set_ylabel(label)
    plot.key(axes[1, -1], STARTS, "grey")
    fig.add_artist(fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3))
    plot.legend_below(fig, axes[1, -1], 3)
    return fig, (
        f"Top: loss of ReLU networks ({p.seeds} seeds) and of pathways open in all contexts but one: "
        "trained as published, the common one as if alone and the others on what it leaves; trained "
        "together; and in closed form, from the strengths in the authors' scripts and from those of the "
        "initial weights. Middle and bottom: singular values of the pathways trained as published (bands) "
        f"and in closed form. Networks of {', '.join(map(str, p.hidden))} units and initial weights of std "
        f"{p.scale:g} over these, as in the authors' scripts; Table 1 has 700 and 1e-7."
    )


@figure("contexts")
def courses(p: ContextCount, data):
    fig, axes = plot.figure(2, len(p.counts), height=4.8, squeeze=False)
    dots: dict[str, Any] = {"ms": 2.5, "alpha": 0.6}
    for (top, bottom), c in zip(axes.T, p.counts, strict=True):
        d = data.theory[c]
        plot.points(top, d.t[::8], d.joint_loss[::8], plot.BLUE, "trained together", **dots)
        plot.theory(top, d.t, d.block_loss, plot.BLUE, "block reduction")
        plot.theory(top, d.t, d.closed_loss, plot.RED, "closed form", ls="--")
        plot.label(top, "time (τ = 1)", title=f"{c} contexts: loss", yscale="log", ylim=(0.02, 200))
        for k, colour in MODES.items():
            plot.points(bottom, d.t[::8], d.alone[::8, k], colour, f"alone, mode {k + 1}", **dots)
            plot.theory(bottom, d.t, d.closed[:, k], colour, ls="--")
            plot.theory(bottom, d.t, d.together[:, k], colour, lw=0.9)
        plot.label(bottom, "time (τ = 1)", title="a pathway by context")
    plot.key(axes[1, -1], {"closed form": "--", "trained together": "-"}, "grey")
    for row, label in zip(axes, ("loss, summed over samples", "singular value"), strict=True):
        row[0].set_ylabel(label)
        plot.label(row[-1], legend=plot.BESIDE)
    return fig, (
        "Pathways from a decoupled start. Top: their loss when trained together, by block reduction, and "
        "by the closed form that has the common pathway learn first. Bottom: strengths of a pathway by "
        "context; dashed the closed form, dots pathways alone on what the common one leaves, solid trained "
        "together."
    )


FIG, APART = "make_haste_slowly Fig. 5", "distance in the figure"
PERFECT = quoted(FIG, "fig-5-perfect")
SMALL = "3% of the initial loss, chosen here"


@claims
def closed_forms(p: ContextCount, data):
    joint = "The pathways learn while the common one does: the closed form has them wait for it."
    for c, d in data.theory.items():
        name = f"C = {c}, common pathway settled: closed form - flow"
        settled = np.abs(d.closed - d.alone).max()
        why = "Rounding grows on plateaus: 1e-12 added to the initial weights changes it by 8e-6 for C = 5."
        yield check("make_haste_slowly F, G").below(f"closed-form-settled-{c}", name, 1e-6, settled, why)
        name = f"C = {c}, trained together: loss, closed form from flow, {APART}"
        off = drawn_distance(d.t, d.closed_loss, d.joint_loss)
        yield PERFECT.below(f"closed-form-together-{c}", name, 0.03, off, joint, modes.DRAWN)
        name = f"C = {c}, trained together: block reduction - flow, loss / initial"
        off = np.abs(d.block_loss - d.joint_loss).max() / d.joint_loss[0]
        yield check(FIG).below(f"block-reduction-{c}", name, 1e-6, off)


@claims
def published_figure(p: ContextCount, data):
    exactly = quoted(FIG, "fig-5-exactly")
    for c, d in modes.by_case(data.networks).items():
        closed = data.closed[c].isel(start=0)
        _, common, others = SCRIPTS[c]
        weights = " and ".join(f"{v:.0e}" for v in p.strengths(c))
        by_hand = f"From {common:g} and {others:g}, set by hand; the weights have {weights}."
        early = "Pathways by context begin while the common one learns. The closed form starts when it has."
        where, start = f"C = {c}, loss: {{}}, {APART}".format, "closed form, published start, from"
        name, off = where(f"{start} ReLU networks"), drawn_distance(d.epoch, closed.loss, d.relu)
        yield PERFECT.below(f"closed-form-relu-{c}", name, 0.03, off, by_hand, modes.DRAWN)
        name, off = where(f"{start} pathways as published"), drawn_distance(d.epoch, closed.loss, d.published)
        yield PERFECT.below(f"closed-form-published-{c}", name, 0.03, off, early, modes.DRAWN)
        name = where("pathways as published from ReLU networks")
        off = drawn_distance(d.epoch, d.published, d.relu)
        yield PERFECT.below(f"published-relu-{c}", name, 0.03, off, early, modes.DRAWN)
        for which in ("common", "contexts"):
            theory, trained = (v[which].isel(mode=list(MODES)).transpose(..., "epoch") for v in (closed, d))
            off = drawn_distance(d.epoch, theory, trained, closed[which].max().item()).max(axis=-1)
            name = f"C = {c}, singular values, {which}: closed form from pathways as published, {APART}"
            yield exactly.below(f"singular-values-{which}-{c}", name, 0.03, off, by_hand, modes.DRAWN)
        name = where("closed form from the strengths of the weights, from ReLU networks")
        off = drawn_distance(d.epoch, data.closed[c].loss[1], d.relu)
        note = "So the agreement is that of the strengths set by hand."
        yield finding(FIG).above(f"closed-form-weights-{c}", name, 0.03, off, note, modes.DRAWN)


@claims
def relu_networks(p: ContextCount, data):
    same = quoted("make_haste_slowly section 5, Def. 3.1", "section-5-imitates")
    reuse = quoted("make_haste_slowly section 5", "section-5-pathways")
    grows = quoted("make_haste_slowly section 5", "section-5-reuse")
    gates = "Pathways have constant gates by context, units do not: late in training most are mixed."
    mean_open = {}
    for c, d in modes.by_case(data.networks).items():
        name = f"C = {c}, half the sum of squares"
        targets = check(FIG, "the targets: 32 for each context; weights are near zero")
        yield targets.near(f"initial-loss-{c}", name, 32 * c, d.relu[:, 0], 1e-6)
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
        note = f"The rest is in units open in other numbers of contexts; from 0: {shares}."
        yield reuse.above(f"units-open-{c}", name, 0.5, d.share[:, c - 1], note, "most of the weight")
        mean_open[c] = (d.share.mean("seed") * np.arange(c + 1)).sum().item()
    name = "mean share of contexts in which units are open, least growth from C to C + 1"
    told = ", ".join(f"{mean:.2f} of {c}" for c, mean in mean_open.items())
    note = f"Units are open in {told} contexts; random gates in half of them at any C."
    least = np.diff([mean / c for c, mean in mean_open.items()]).min()
    yield grows.above("reuse-grows", name, 0, least, note, "the paper: it grows")


EXPERIMENT = Experiment(
    "context-count",
    "More contexts: what pathways learn together, and after one another",
    "make_haste_slowly Fig. 5, F, G",
    ContextCount(),
    ContextCount(seeds=1, counts=(3, 4), hidden=(280, 200), pathway=40),
    minutes=(1, 8),
    needs_full=("closed-form-relu-*", "closed-form-published-*", "singular-values-*"),  # published strengths
)
