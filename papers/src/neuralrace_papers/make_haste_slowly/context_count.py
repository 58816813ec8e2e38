"""Three, four and five contexts, all with the same hierarchy: ReLU networks, pathways that are open in all
contexts but one, and the closed form of their strengths. The closed form takes the always open pathway to
have learned before the others begin. The published figure starts it from strengths set by hand, thousands
of times those of the initial weights: with these it follows the networks, with those of the weights it is
far too late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework import Data, Experiment, figure, part, require, rows
from neuralrace_papers.make_haste_slowly import modes

LEADING = 7  # modes of what the common pathway leaves
# In the authors' scripts, for each number of contexts: how much larger the initial weights of pathways by
# context are than those of the common one; and the strengths from which the closed form of both starts.
SCRIPTS = {3: (2.0, 5e-9, 5e-5), 4: (1.0, 1e-8, 1e-4), 5: (1.0, 1e-9, 3e-4)}
MODES = {0: plot.ORANGE, 1: plot.GREEN, 3: plot.PINK}  # one of each strength
STARTS = {"closed form, start as in the authors' script": "--", "closed form, start of the weights": ":"}


@dataclass(frozen=True)
class ContextCount:
    seeds: Annotated[int, "random starts of each network"] = 5
    counts: Annotated[tuple[int, ...], "numbers of contexts, C"] = (3, 4, 5)
    hidden: Annotated[tuple[int, ...], "units of the ReLU networks, for each number of contexts"] = (
        700, 500, 600,
    )  # fmt: skip
    pathway: Annotated[int, "units of each pathway of the gated networks"] = 100
    scale: Annotated[float, "standard deviation of initial weights, times the units of the network"] = 0.005
    lr: Annotated[float, "learning rate, on the loss summed over samples"] = 0.001
    epochs: Annotated[int, "steps of training"] = 8000
    strength: Annotated[float, "initial strength of each mode and layer from a decoupled start"] = 0.01
    t1: Annotated[float, "end of the flow from the decoupled start"] = 240.0

    def __post_init__(self) -> None:
        require(set(self.counts) <= {*SCRIPTS}, f"counts must be among 3, 4 and 5, got {self.counts}")
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
    solved = r.solve(strengths=r.strengths(start), t1=net.t[-1], save=net.t)
    task = nr.tasks.contexts(c, gating="shared", hidden=p.pathway)
    in_order = modes.as_published(net, task, p.std(c), SCRIPTS[c][0], seed)
    values = modes.singular_values(task.graph, in_order.weights, LEADING)
    return {
        "epoch": ("epoch", net.time("steps")),
        "relu": ("epoch", net.loss),
        "predicted": ("epoch", net.loss_scale * solved.loss),
        "published": ("epoch", in_order.loss),
        "common": ("epoch mode", values[0]),
        "contexts": ("epoch mode", values[1:].mean(axis=0)),
        "share": ("contexts_open", modes.by_contexts_open(net, c)),
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
    residual, gates = nr.relu.pathway_residual(x, y), np.repeat(1 - np.eye(c), modes.ITEMS, axis=1)
    course = lambda s, d: nr.exact.context_strength(t, s, d, c, others)  # noqa: E731
    first, strengths = modes.mode_outputs(x, y, np.ones(len(x)), lambda s, d: nr.exact.chain(t, s, d, common))
    later = [modes.mode_outputs(x[:, : modes.ITEMS], residual, gate, course) for gate in gates]
    outputs = first + sum(out for out, _ in later)
    largest_first = lambda values: -np.sort(-values[:, :8], axis=1)[:, :LEADING]  # noqa: E731
    return {
        "loss": 0.5 * ((y - outputs) ** 2).sum(axis=(1, 2)),
        "common": largest_first(strengths),
        "contexts": largest_first(later[0][1]),
    }


@part(each="counts")
def together(p: ContextCount, c: int):
    """Pathways from a decoupled start, by the gradient of the whole loss, and in closed form."""
    x, y = nr.tasks.contexts(c).arrays
    t = np.linspace(0, p.t1, 201)
    task = nr.tasks.contexts(c, gating="shared", hidden=8 * c)
    start = nr.init.decoupled(nr.reduce(task, "pathwise"), p.strength)
    run = nr.flow(task, start, p.t1, t, method=nr.Adaptive(rtol=1e-10, atol=1e-12))
    in_closed_form = closed_form(x, y, c, t, p.strength**2, p.strength**2)
    return {
        "t": ("t", t),
        "flow": ("t mode", modes.singular_values(task.graph, run.weights, LEADING)[1]),
        "closed": ("t mode", in_closed_form["contexts"]),
        "flow_loss": ("t", len(x) * run.loss),
        "closed_loss": ("t", in_closed_form["loss"]),
    }


@figure("published")
def as_in_the_paper(p: ContextCount, data: Data):
    fig, axes = plot.figure(3, len(p.counts), height=7.6, squeeze=False)
    for (top, *others), (c, nets) in zip(axes.T, modes.by_case(data.networks).items(), strict=True):
        d = data.closed[c]
        plot.runs(top, nets.epoch, nets.relu, plot.BLACK, "ReLU networks")
        plot.runs(top, nets.epoch, nets.published, plot.BLUE, "pathways, trained as published")
        for start, (label, style) in enumerate(STARTS.items()):
            plot.theory(top, d.epoch, d.loss[start], plot.RED, label, ls=style)
        for ax, name in zip(others, ("common", "contexts"), strict=True):
            for k, colour in MODES.items():
                plot.runs(ax, nets.epoch, nets[name][..., k], colour, f"network, mode {k + 1}")
                for values, style in zip(d[name][..., k], STARTS.values(), strict=True):
                    plot.theory(ax, d.epoch, values, colour, ls=style, lw=0.9)
        plot.label(top, "epoch", title=f"{c} contexts: loss", yscale="log", ylim=(0.02, 200))
        plot.label(others[0], "epoch", title="common pathway", xlim=(0, p.epochs / 4))
        plot.label(others[1], "epoch", title="pathways by context, mean")
    for ax, label in zip(axes[:, 0], ("loss, summed over samples", *["singular value"] * 2), strict=True):
        ax.set_ylabel(label)
    plot.key(axes[1, -1], STARTS, "grey")
    fig.add_artist(fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2))
    plot.legend_below(fig, axes[1, -1], 2)
    return fig, (
        f"Top: loss of ReLU networks ({p.seeds} random starts, median and range), of pathways open in all "
        "contexts but one that are trained as published, and in closed form from the strengths in the "
        "authors' scripts (dashed) and from those of the initial weights (dotted). Middle and bottom: "
        f"singular values of the pathways. Networks have {', '.join(map(str, p.hidden))} units, as in the "
        "authors' scripts."
    )


@figure("contexts")
def learning_together(p: ContextCount, data: Data):
    fig, axes = plot.figure(2, len(p.counts), height=4.8, squeeze=False)
    for (top, bottom), (c, d) in zip(axes.T, data.together.items(), strict=True):
        plot.theory(top, d.t, d.flow_loss, plot.BLUE, "all pathways together, flow")
        plot.theory(top, d.t, d.closed_loss, plot.RED, "closed form: the common pathway first", ls="--")
        plot.label(top, "time (τ = 1)", title=f"{c} contexts: loss", yscale="log", ylim=(0.02, 200))
        for k, colour in MODES.items():
            plot.theory(bottom, d.t, d.flow[:, k], colour, f"mode {k + 1}")
            plot.theory(bottom, d.t, d.closed[:, k], colour, ls="--")
        plot.label(bottom, "time (τ = 1)", title="a pathway by context")
    for ax, label in zip(axes[:, 0], ("loss, summed over samples", "singular value"), strict=True):
        ax.set_ylabel(label)
    plot.legend_below(fig, axes[0, 0], 2)
    return fig, (
        "Pathways from a decoupled start. Solid: all learn together, by the gradient of the whole loss. "
        "Dashed: the closed form, which takes the common pathway to have learned before the others begin."
    )


@rows
def figure_5(p: ContextCount, data: Data):
    far, every = nr.measure.drawn_distance, modes.by_case(data.networks)
    found: dict[str, list[np.ndarray]] = {}
    for c, d in every.items():
        start, weights = (data.closed[c].isel(start=k) for k in (0, 1))
        apart = {
            "closed-form-relu": far(d.epoch, start.loss, d.relu),
            "closed-form-published": far(d.epoch, start.loss, d.published),
            "published-relu": far(d.epoch, d.published, d.relu),
            "closed-form-weights": far(d.epoch, weights.loss, d.relu),
        }
        for which in ("common", "contexts"):
            theory, trained = (v[which].isel(mode=list(MODES)).transpose(..., "epoch") for v in (start, d))
            of_modes = far(d.epoch, theory, trained, start[which].max().item())
            apart[f"singular-values-{which}"] = of_modes.max(axis=-1)
        for id, value in apart.items():
            found.setdefault(id, []).append(value)
            yield f"{id}-{c}", value
    for id, values in found.items():
        yield f"{id}-largest", max(values, key=np.mean)


@rows
def reuse(p: ContextCount, data: Data):
    mean_open = []
    for c, d in modes.by_case(data.networks).items():
        t = data.together[c]
        yield f"closed-form-together-{c}", nr.measure.drawn_distance(t.t, t.closed_loss, t.flow_loss)
        yield f"relu-error-{c}", np.abs(d.predicted - d.relu).max("epoch") / d.relu[:, 0]
        yield f"units-open-{c}", d.share[:, c - 1]
        mean_open.append(d.share.values @ np.arange(c + 1))
        yield f"contexts-open-{c}", mean_open[-1]
    yield "reuse-grows", np.diff(mean_open, axis=0).min(axis=0)


EXPERIMENT = Experiment(
    "context-count",
    "More contexts: pathways are open in more of them",
    "make_haste_slowly Fig. 5, F, G",
    ContextCount(),
    quick={"seeds": 1, "counts": (3, 4), "hidden": (280, 200), "pathway": 40},
    minutes=(1, 8),
)
