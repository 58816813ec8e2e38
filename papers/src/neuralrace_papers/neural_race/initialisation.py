"""The same routing network from small and from large random weights. Small ones race: modes are learned one
after the other, in hidden directions that all domains share, and routes never trained work. Large ones
learn as a kernel machine does: every route for itself, with the random features that are there, and
untrained routes fail. Two signs tell the regimes apart while a network learns: how far its tangent kernel
has turned, and how much of what it has learned lies outside the modes of the reduction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework import Data, Experiment, along, figure, part, require, rows
from neuralrace_papers.neural_race import domains_data
from neuralrace_papers.neural_race.block_matrix import block_matrix
from neuralrace_papers.neural_race.domains_data import FEATURES, ITEMS, SILENT_LOSS, TARGETS

LIMIT = float(np.abs(TARGETS).max())
END_LEVEL = 0.01  # of the loss of a silent network: the end of learning, where times are compared
SCALE = r"initial singular value $\sigma_0$"
SIGNS = {"turn": "turn of the tangent kernel", "outside": "learned outside the modes"}


@dataclass(frozen=True)
class Initialisation:
    seeds: Annotated[int, "random starts of each network"] = 10
    scales: Annotated[tuple[float, ...], "initial singular values; the authors' code has 0.2 to 2.5"] = (
        0.05, 0.2, 0.66, 1.12, 1.58, 2.04, 2.5, 5.0,
    )  # fmt: skip
    published: Annotated[tuple[float, ...], "two of the scales: ends of the published range"] = (0.2, 2.5)
    shown: Annotated[tuple[float, ...], "three of the scales, that are drawn in detail"] = (0.2, 2.04, 5.0)
    kernels: Annotated[int, "starts of each scale for which the tangent kernel is computed"] = 3
    looks: Annotated[tuple[float, ...], "times of these kernels, in units of the time to 99% learned"] = (
        0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5,
    )  # fmt: skip
    domains: Annotated[int, "input domains, and as many output domains"] = 7
    trained: Annotated[int, "output domains with which each input domain is trained"] = 4
    hidden: Annotated[int, "units of each hidden layer"] = 64
    widths: Annotated[tuple[int, ...], "hidden units compared at the largest scale"] = (64, 256)
    stop: Annotated[float, "loss at which training stops, as a share of a silent network's"] = 1e-6
    t1: Annotated[float, "latest end of training, flow time"] = 3000.0

    def __post_init__(self) -> None:
        for name, count, word in (("shown", 3, "three"), ("published", 2, "two")):
            given = getattr(self, name)
            chosen = set(given) <= set(self.scales) and len(given) == count
            require(chosen, f"{name} must be {word} of the scales {self.scales}, got {given}")
        fewer = self.trained < self.domains
        require(fewer, f"trained must be below domains = {self.domains}, got {self.trained}")

    @property
    def pairs(self) -> np.ndarray:
        return nr.tasks.circulant(self.domains, self.trained)


@part(each="scales", threads=2)
def networks(p: Initialisation, scale: float):
    """Flow until the loss is `stop` of that of a silent network; times of all scales are the same."""
    task, untrained = (domains_data.task(p.domains, pairs, p.hidden) for pairs in (p.pairs, ~p.pairs))
    start = nr.init.orthogonal(task.graph, scale, seed=range(p.seeds))
    save = np.append(0.0, np.geomspace(1e-6 * p.t1, p.t1, 240))
    run = nr.flow(task, start, p.t1, save, stop_loss=p.stop * SILENT_LOSS)
    end = {e: w[:, -1] for e, w in run.weights.items()}
    hidden, outputs = domains_data.answers(task, end)
    loss = run.loss[:, np.arange(len(save)).clip(max=len(run.t) - 1)] / SILENT_LOSS
    return {
        "t": ("t", save),
        "loss": ("run t", loss),
        "plateau": ("run", nr.measure.plateau_share(save, loss, until=END_LEVEL)),
        "trained": ("run", nr.loss(task, end) / SILENT_LOSS),
        "untrained": ("run", nr.loss(untrained, end) / SILENT_LOSS),
        "cosine": ("run sample other", nr.measure.cosine_similarity(hidden)),
        "outputs": ("run sample feature", outputs),
        "time": ("run", nr.learning_time(run, END_LEVEL * SILENT_LOSS)),
        **by_first_kernel(task, {e: w[: p.kernels] for e, w in start.items()}, save),
        **signs(p, task, run),
    }


@part(each="widths")
def wide(p: Initialisation, width: int):
    """Time to 99% learned from the largest scale, over that of the first kernel."""
    task = domains_data.task(p.domains, p.pairs, width)
    start = nr.init.orthogonal(task.graph, p.scales[-1], seed=range(p.kernels))
    save = np.append(0.0, np.geomspace(1e-6 * p.t1, p.t1, 240))
    linear = by_first_kernel(task, start, save)["linear_time"][1]
    run = nr.flow(task, start, p.t1, 2, stop_loss=END_LEVEL * SILENT_LOSS)
    return {"ratio": ("kernel", nr.measure.stopping_time(run) / linear)}


def by_first_kernel(task: nr.Task, start: Any, t: np.ndarray) -> dict[str, Any]:
    """Loss of networks linearised around their start, and when it is learned."""
    fine = np.append(t, np.geomspace(t[1], t[-1], 4000))
    fine.sort()
    linear = nr.measure.linearised_loss(task, start, fine) / SILENT_LOSS
    return {
        "linear": ("kernel t", linear[:, np.searchsorted(fine, t)]),
        "linear_time": ("kernel", nr.measure.crossing(fine, linear, END_LEVEL)),
    }


def signs(p: Initialisation, task: nr.Task, run: nr.Trajectory) -> dict[str, Any]:
    """Turn and growth of the tangent kernel, and the share that was learned outside the modes."""
    r, rows = nr.reduce(task), []
    done = nr.learning_time(run, END_LEVEL * SILENT_LOSS)
    for k in range(min(p.kernels, p.seeds)):
        at = np.searchsorted(run.t, done[k] * np.array([0, *p.looks, np.inf])).clip(max=len(run.t) - 1)
        w = {e: v[k, at] for e, v in run.weights.items()}
        kernels = nr.tangent_kernel(task, w)
        norm = np.linalg.norm(kernels, axis=(1, 2))
        outside = r.off_manifold_fraction({e: v - v[0] for e, v in w.items()})
        rows.append([run.t[at] / done[k], nr.measure.kernel_turn(kernels), norm / norm[0], outside])
    names = ("progress", "turn", "growth", "outside")
    return {name: ("kernel look", values) for name, values in zip(names, np.stack(rows, 1), strict=True)}


def change(p: Initialisation, data: Data) -> np.ndarray:
    """Scale at which the untrained error is half of that of a silent network, coming from large scales."""
    untrained = along(data.networks, "scale").untrained
    return np.exp(nr.measure.crossing(np.log(p.scales)[::-1], untrained[::-1].T, 0.5))


def shades(p: Initialisation) -> ScalarMappable:
    """Colours of the scales, the same in all panels."""
    return ScalarMappable(LogNorm(p.scales[0], p.scales[-1]), "viridis")


@figure("initialisation-error")
def error(p: Initialisation, data: Data):
    fig, ((a, b), (c, d)) = plot.figure(2, 2, height=5.0)
    runs, ends = along(data.networks, "scale"), []
    colours = shades(p)
    for scale, run in zip(p.scales, runs.loss.median("run"), strict=True):
        colour = colours.to_rgba(np.array(scale))
        ends.append(nr.measure.crossing(run.t, run, END_LEVEL))
        a.plot(run.t[1:], run[1:], color=colour)
        b.plot(run.t / ends[-1], run / run[0].item(), color=colour)
    fig.colorbar(colours, ax=b, label=SCALE, ticks=p.scales, format="%g").minorticks_off()
    a.set(xscale="log", xlim=(0.03, 2 * np.nanmax(ends)), yscale="log", ylim=(END_LEVEL / 10, None))
    plot.label(a, "time (τ = 1)", "loss / silent network", "training loss")
    clock, relative = "time / time to 99% learned", "loss / initial loss"
    plot.label(b, clock, relative, "the same, each on its own clock", xlim=(0, 1), ylim=(0, 1.03))
    for scale in p.shown:
        run, colour = data.networks[scale].isel(run=0, kernel=0), colours.to_rgba(np.array(scale))
        label, first = rf"$\sigma_0$ = {scale:g}", run.loss[0].item()
        c.plot(run.t[1:], run.loss[1:] / first, color=colour, label=label, lw=2.6, alpha=0.5)
        c.plot(run.t[1:], run.linear[1:] / first, "--", color=colour, lw=1)
    plot.key(c, {"first kernel": "--"})
    c.set(xscale="log", xlim=(0.003, 2 * np.nanmax(ends)), ylim=(0, 1.4), yticks=[0, 0.5, 1])
    above = {"loc": "upper center", "ncols": 2}
    plot.label(c, "time (τ = 1)", relative, "networks and their linearisation", legend=above)
    plot.points(d, p.scales, runs.trained.T, plot.BLUE, "trained routes", fmt="o-")
    plot.points(d, p.scales, runs.untrained.T, plot.RED, "untrained routes", fmt="s-")
    d.axhline(1, color=plot.BLACK, lw=0.8, ls="--", label="silent network")
    d.axvline(change(p, data).mean(), color=plot.BLACK, lw=0.8, ls=":", label="untrained error 1/2")
    d.set(xscale="log", yscale="log", ylim=(p.stop / 5, 1e7))
    plot.label(d, SCALE, "loss / silent network", "error at the end", legend="upper left")
    return fig, (
        f"Routing networks from orthogonal weights with singular values from {p.scales[0]:g} to "
        f"{p.scales[-1]:g} (published: {p.published[0]:g} to {p.published[1]:g}). Above: training loss, "
        "median over starts, and the same against time relative to that at which 1% is left. Small weights "
        "learn in drops after plateaus, large ones exponentially. Below, left: one start each, and what its "
        "first tangent kernel predicts, a sum of exponentials. Below, right: error at the end on trained and "
        f"untrained routes, mean and standard deviation of {p.seeds} starts."
    )


@figure("initialisation-representation")
def representation(p: Initialisation, data: Data):
    fig, axes = plot.figure(2, 3, height=4.4)
    images = []
    for scale, above, below in zip(p.shown, *axes, strict=True):
        run = data.networks[scale].isel(run=0)
        title = rf"$\sigma_0$ = {scale:g}"
        cosine = block_matrix(above, run.cosine, (ITEMS, ITEMS), title, 1.0)
        output = block_matrix(below, run.outputs, (ITEMS, FEATURES), "", LIMIT, framed=p.pairs)
        images = [cosine, output]
        above.set_xlabel("input domain")
        below.set_xlabel("output domain")
    for row, image, label in zip(axes, images, ("cosine", "output"), strict=True):
        row[0].set_ylabel("input domain")
        fig.colorbar(image, ax=row, label=label, shrink=0.9)
    return fig, (
        f"Above: cosine of the first hidden layer's activity for {ITEMS} items on each input domain, after "
        "training, from small, medium and large initial weights; one shared representation shows as the "
        f"same block everywhere. Below: outputs on all routes, {ITEMS} items by {FEATURES} features each, "
        f"colours cut at {LIMIT:g}; trained routes are framed."
    )


@figure("initialisation-signs")
def regime(p: Initialisation, data: Data):
    fig, axes = plot.figure(2, 2, height=4.6)
    runs, half = along(data.networks, "scale"), change(p, data).mean()
    for (left, right), (sign, label) in zip(axes, SIGNS.items(), strict=True):
        for scale, marker in zip(p.shown, "osd", strict=True):
            first = 0 if sign == "turn" else 1  # before anything is learned there is nothing outside
            run, colour = (
                data.networks[scale].isel(look=slice(first, None)),
                shades(p).to_rgba(np.array(scale)),
            )
            look = {"color": colour, "marker": marker, "lw": 0.9, "label": rf"$\sigma_0$ = {scale:g}"}
            left.plot(run.progress.T, run[sign].T, **look)
        plot.label(left, "time / time to 99% learned", label, xlim=(-0.03, 1.6), ylim=(-0.03, 1.35))
        plot.points(right, p.scales, runs[sign][..., -1].T, plot.BLACK, label, fmt="o-")
        plot.points(right, p.scales, runs.untrained.clip(max=1).T, plot.RED, "untrained error", fmt="s-")
        right.axvline(half, color=plot.BLACK, lw=0.8, ls=":", label="untrained error 1/2")
        plot.label(right, SCALE, "share, at the end", xscale="log", ylim=(-0.03, 1.55))
        for ax, columns in ((left, 3), (right, 1)):
            plot.label(ax, legend={"loc": "upper left", "ncols": columns}, yticks=[0, 0.5, 1])
    return fig, (
        "Above: one minus the cosine between the tangent kernel and that at the start. Below: the share of "
        "the weights' change (squared norm) that is no sum of modes as the reduction has them. Left: while "
        f"networks learn, {runs.sizes['kernel']} starts each. Right: at the end, beside the untrained error, "
        "which is relative to a silent network and cut at 1."
    )


@rows
def published_range(p: Initialisation, data: Data):
    """Networks at both ends of the published scales, and at the smallest and the largest."""
    small, large = p.published
    for key, scale in (
        ("smallest", p.scales[0]),
        ("published-smallest", small),
        ("published-largest", large),
        ("largest", p.scales[-1]),
    ):
        run = data.networks[scale]
        loss, linear = run.loss[: run.sizes["kernel"]].values, run.linear.values
        yield f"untrained-{key}", run.untrained
        yield f"plateaus-{key}", run.plateau
        yield f"shared-items-{key}", domains_data.same_item(run.cosine, p.domains)
        yield f"kernel-loss-{key}", np.abs(loss - linear).max(axis=1) / loss[:, 0]
        if key.endswith("largest"):  # from small weights the first kernel takes longer than `t1`
            yield f"kernel-time-{key}", run.time[: len(linear)].values / run.linear_time.values
        yield f"kernel-turn-{key}", run.turn[:, -1]
        yield f"kernel-growth-{key}", run.growth[:, -1]
        yield f"outside-modes-{key}", run.outside[:, -1]
    yield "rapid", data.networks[large].time / data.networks[small].time
    for width, run in data.wide.items():
        yield f"kernel-time-width-{width}", run.ratio


@rows
def along_the_scales(p: Initialisation, data: Data):
    runs = along(data.networks, "scale")
    yield "trained-error", runs.trained.max()
    yield "scale-of-change", change(p, data)
    yield "shared-items-fall", np.diff(domains_data.same_item(runs.cosine, p.domains).mean(axis=1)).max()


EXPERIMENT = Experiment(
    "initialisation",
    "Initialisation: from the neural race to a kernel machine",
    "neural_race Fig. 6, 4.3",
    Initialisation(),
    quick={
        "seeds": 2,
        "scales": (0.05, 0.2, 1.12, 2.5, 5.0),
        "shown": (0.2, 2.5, 5.0),
        "kernels": 1,
        "looks": (0.3, 1.0),
        "domains": 5,
        "trained": 3,
        "widths": (16, 64),
    },
    minutes=(0.2, 4.0),
)
