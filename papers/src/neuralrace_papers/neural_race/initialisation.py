"""The same routing network from small and from large random weights. Small ones race: modes are learned one
after the other, in hidden directions that all domains share, and routes never trained work. Large ones
learn as a kernel machine does: every route for itself, with the random features that are there, and
untrained routes fail. Two signs tell the regimes apart while a network learns: how far its tangent kernel
has turned, and how much of what it has learned lies outside the modes of the reduction."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework.claim import finding, paper
from neuralrace_papers.framework.declaration import Data, claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option, require
from neuralrace_papers.framework.store import along
from neuralrace_papers.neural_race import domains_data
from neuralrace_papers.neural_race.block_matrix import block_matrix
from neuralrace_papers.neural_race.domains_data import FEATURES, ITEMS, SILENT_LOSS, TARGETS

LIMIT = float(np.abs(TARGETS).max())
LEARNED = 0.01  # of the loss of a silent network: the end of learning, where times are compared
SCALE = r"initial singular value $\sigma_0$"
OURS = finding("beyond neural_race 4.3")
RAPID = paper(
    "neural_race Fig. 6a", "Large sigma0 yields NTK-like dynamics with rapid, exponential learning curves."
)
SIGNS = {"turn": "turn of the tangent kernel", "outside": "learned outside the modes"}


class Initialisation(Parameters):
    scales: tuple[float, ...] = option(
        (0.05, 0.2, 0.66, 1.12, 1.58, 2.04, 2.5, 5.0),
        "initial singular values sigma0; those of the authors' code run from .2 to 2.5",
        increasing=True,
    )
    published: tuple[float, ...] = option((0.2, 2.5), "two of the scales: ends of the published range")
    shown: tuple[float, ...] = option((0.2, 2.04, 5.0), "three of the scales, that are drawn in detail")
    kernels: int = option(3, "starts of each scale for which the tangent kernel is computed")
    looks: tuple[float, ...] = option(
        (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5),
        "times at which the kernel is computed, in units of the time to 99% learned",
    )
    domains: int = option(7, "input domains, and as many output domains", least=2)
    trained: int = option(4, "output domains with which each input domain is trained")
    hidden: int = option(64, "units of each hidden layer", least=ITEMS)
    stop: float = option(1e-6, "loss at which training stops, as a share of that of a silent network")
    t1: float = option(3000.0, "latest end of training, flow time")

    def check(self) -> None:
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
        "plateau": ("run", nr.measure.plateau_share(save, loss, until=LEARNED)),
        "trained": ("run", nr.loss(task, end) / SILENT_LOSS),
        "untrained": ("run", nr.loss(untrained, end) / SILENT_LOSS),
        "cosine": ("run sample other", nr.measure.cosine_similarity(hidden)),
        "outputs": ("run sample feature", outputs),
        "time": ("run", nr.learning_time(run, LEARNED * SILENT_LOSS)),
        **by_first_kernel(p, task, start, save),
        **signs(p, task, run),
    }


def by_first_kernel(p: Initialisation, task: nr.Task, start: Any, t: np.ndarray) -> dict[str, Any]:
    """Loss of the network linearised around its start, and when it is learned."""
    some = {e: w[: p.kernels] for e, w in start.items()}
    fine = np.append(t, np.geomspace(t[1], t[-1], 4000))
    fine.sort()
    linear = nr.measure.linearised_loss(task, some, fine) / SILENT_LOSS
    return {
        "linear": ("kernel t", linear[:, np.searchsorted(fine, t)]),
        "linear_time": ("kernel", nr.measure.crossing(fine, linear, LEARNED)),
    }


def signs(p: Initialisation, task: nr.Task, run: nr.Trajectory) -> dict[str, Any]:
    """Turn and growth of the tangent kernel, and the share that was learned outside the modes."""
    r, rows = nr.reduce(task), []
    done = nr.learning_time(run, LEARNED * SILENT_LOSS)
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


@figure("initialisation-error")
def error(p: Initialisation, data: Data):
    fig, ((a, b), (c, d)) = plot.figure(2, 2, height=5.0)
    runs, ends = along(data.networks, "scale"), []
    norm = LogNorm(p.scales[0], p.scales[-1])
    colours = ScalarMappable(norm, "viridis")
    shades = colours.to_rgba(np.array(p.scales))
    for colour, run in zip(shades, runs.loss.median("run"), strict=True):
        ends.append(nr.measure.crossing(run.t, run, LEARNED))
        a.plot(run.t[1:], run[1:], color=colour)
        b.plot(run.t / ends[-1], run / run[0].item(), color=colour)
    fig.colorbar(colours, ax=b, label=SCALE, ticks=p.scales, format="%g").minorticks_off()
    a.set(xscale="log", xlim=(0.03, 2 * np.nanmax(ends)), yscale="log", ylim=(LEARNED / 10, None))
    plot.label(a, "time (τ = 1)", "loss / silent network", "training loss")
    clock, relative = "time / time to 99% learned", "loss / initial loss"
    plot.label(b, clock, relative, "the same, each on its own clock", xlim=(0, 1), ylim=(0, 1.03))
    for scale, colour in zip(p.shown, (plot.BLUE, plot.GREEN, plot.RED), strict=True):
        run = data.networks[scale].isel(run=0, kernel=0)
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
        f"{p.scales[-1]:g} (published: {p.published[0]:g} to {p.published[1]:g}). "
        "Above: training loss, median over starts; right: each against time relative to "
        "that at which 1% is left: drops after plateaus from small weights, exponential from large ones. "
        "Below, left: one start each, and what its first tangent kernel predicts (dashed), a sum of "
        f"exponentials. Below, right: error at the end on trained and untrained routes, {p.seeds} starts "
        "(mean, standard deviation); training stops at the same loss for all."
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
        for scale, colour, marker in zip(p.shown, (plot.BLUE, plot.GREEN, plot.RED), "osd", strict=True):
            first = 0 if sign == "turn" else 1  # before anything is learned there is nothing outside
            run = data.networks[scale].isel(look=slice(first, None))
            title = rf"$\sigma_0$ = {scale:g}"
            left.plot(
                run.progress.T, run[sign].T, color=colour, marker=marker, lw=0.9, alpha=0.8, label=title
            )
        plot.label(left, "time / time to 99% learned", label, xlim=(-0.03, 1.6), ylim=(-0.03, 1.35))
        plot.points(right, p.scales, runs[sign][..., -1].T, plot.BLACK, label, fmt="o-")
        plot.points(right, p.scales, runs.untrained.clip(max=1).T, plot.RED, "untrained error", fmt="s-")
        right.axvline(half, color=plot.BLACK, lw=0.8, ls=":", label="untrained error 1/2")
        plot.label(right, SCALE, "share, at the end", xscale="log", ylim=(-0.03, 1.55))
        for ax, columns in ((left, 3), (right, 1)):
            plot.label(ax, legend={"loc": "upper left", "ncols": columns}, yticks=[0, 0.5, 1])
    return fig, (
        "Above: one minus the cosine between the tangent kernel and that at the start. Below: share of the "
        "change of the weights (squared norm) that is no sum of modes, W = b r r^T, as the reduction has "
        f"them, with hidden directions r turned to fit. Left: while networks learn, {runs.sizes['kernel']} "
        "starts each. Right: at the end, beside the untrained error (relative to a silent network, cut at 1)."
    )


def ends(p: Initialisation, data: Data) -> tuple[xr.Dataset, str, xr.Dataset, str]:
    """Networks from the smallest and from the largest scale, each with words for it."""
    small, large = p.scales[0], p.scales[-1]
    return data.networks[small], f", sigma0 = {small:g}", data.networks[large], f", sigma0 = {large:g}"


@claims
def errors(p: Initialisation, data: Data):
    least, small, most, large = ends(p, data)
    trained = along(data.networks, "scale").trained.max("scale")
    fig = "neural_race Fig. 6b"
    name = "error on trained routes / silent network, all sigma0"
    quote = "While performance on trained domains is excellent for all scales"
    standard = "stated standard: {} of a silent network's error"
    until = f"Training stops at {p.stop:g}: the row fails where a scale does not get there by t = {p.t1:g}."
    yield paper(fig, quote).below("trained-error", name, 1e-5, trained, until, standard.format("1e-5"))
    only = paper(fig, "zero-shot generalization only emerges in the neural race regime.")
    name, silent = "error on untrained routes / silent network", "theory: no output at all is as good"
    worse = "Above 1: worse than no output at all."
    low, high = p.published
    for key, scale, limit in (("smallest", p.scales[0], 1e-4), ("published-smallest", low, 1e-2)):
        text, found = f"{name}, sigma0 = {scale:g}", data.networks[scale].untrained
        yield only.below(f"untrained-{key}", text, limit, found, bound=standard.format(f"{limit:g}"))
    yield only.above("untrained-largest", name + large, 1, most.untrained, worse, silent)
    text, found = f"{name}, sigma0 = {high:g}", data.networks[high].untrained
    yield only.above("untrained-published-largest", text, 0.5, found, bound=standard.format("half"))
    natural = float(np.linalg.svd(TARGETS)[1][0] ** (1 / 3))
    name = "sigma0 at which the error on untrained routes is 1/2 of a silent network's"
    note = (
        "Expected is where three layers with singular values sigma0 make a map as large as the strongest "
        "mode of the targets."
    )
    bound = "theory, for a scale: a quarter of it"
    yield OURS.near("scale-of-change", name, natural, change(p, data), 0.25 * natural, note, bound)
    fig, name = "neural_race Fig. 6a", "share of time on plateaus"
    drops = paper(fig, "Small sigma0 yields pathway race dynamics with stage-like drops through training.")
    long, none = "stated standard: most of the time", "theory: exponentials have no plateau"
    yield drops.above("plateaus-smallest", name + small, 0.7, least.plateau, bound=long)
    yield RAPID.below("plateaus-largest", name + large, 0.02, most.plateau, bound=none)


@claims
def exponential(p: Initialisation, data: Data):
    """Networks against their linearisation, whose loss is a sum of exponentials."""
    least, small, most, _ = ends(p, data)
    linear = paper(
        "neural_race 4.3",
        "training dynamics follow a simple linear dynamical system and error trajectories exhibit "
        "exponential approach to their asymptote",
    )
    tenth = "stated standard: 10%"
    for key, scale in (("published-largest", p.published[1]), ("largest", p.scales[-1])):
        run, words = data.networks[scale], f", sigma0 = {scale:g}"
        end = float(run.growth[:, -1].mean())
        grown = f"The kernel is not fixed: its norm ends at {end:.2f} of that at the start."
        name = f"|loss - that of the first kernel| / initial loss, largest at any time{words}"
        yield linear.below(f"kernel-loss-{key}", name, 0.1, off_linear(run), grown, tenth)
        ratio = run.time[: len(run.linear_time)].values / run.linear_time.values
        name = f"time to 99% learned, network / first kernel{words}"
        yield linear.near(f"kernel-time-{key}", name, 1, ratio, 0.1, grown, tenth)
    name = f"|loss - that of the first kernel| / initial loss, largest{small}"
    yield OURS.above("kernel-loss-smallest", name, 0.5, off_linear(least))
    name = f"time to 99% learned, sigma0 = {p.scales[-1]:g} / {p.scales[0]:g}"
    yield RAPID.below("rapid", name, 0.1, most.time / least.time, bound="stated standard: ten times as fast")


def off_linear(run: xr.Dataset) -> np.ndarray:
    """Largest difference of the loss from that of the first kernel, over the initial loss, `(kernel,)`."""
    loss, linear = run.loss[: run.sizes["kernel"]].values, run.linear.values
    return np.abs(loss - linear).max(axis=1) / loss[:, 0]


@claims
def representations(p: Initialisation, data: Data):
    _, small, _, large = ends(p, data)
    fig, name = "neural_race Fig. 6c", "cosine of an item on two domains"
    same = domains_data.same_item(along(data.networks, "scale").cosine, p.domains)  # (scale, run)
    quote = "At small initialization scales, internal representations [...] are similar even across domains"
    near, far = "stated standard: 5% below 1", "stated standard: 5% above 0, random directions"
    yield paper(fig, quote).above("shared-items-smallest", name + small, 0.95, same[0], bound=near)
    quote = "yielding distinct high-dimensional random representations for each domain."
    yield paper(fig, quote).below("shared-items-largest", name + large, 0.05, same[-1], bound=far)
    quote = "a transition from shared to independent representations as networks move from the rich to"
    fall = np.diff(same.mean(axis=1))
    yield paper(fig, f"{quote} the lazy regime").relation(
        "shared-items-fall", f"{name}, largest step up the scales", "< 0", fall.max(), (fall < 0).all(),
        bound="the paper: a transition",
    )  # fmt: skip


@claims
def regimes(p: Initialisation, data: Data):
    least, small, most, large = ends(p, data)
    growth = "growth of the tangent kernel"
    yield OURS.above("kernel-turn-smallest", SIGNS["turn"] + small, 0.5, least.turn[:, -1])
    yield OURS.below("kernel-turn-largest", SIGNS["turn"] + large, 0.05, most.turn[:, -1])
    yield OURS.above("kernel-growth-smallest", growth + small, 1e3, least.growth[:, -1])
    yield OURS.near("kernel-growth-largest", growth + large, 1, most.growth[:, -1], 0.3)
    yield OURS.below("outside-modes-smallest", SIGNS["outside"] + small, 0.01, least.outside[:, -1])
    yield OURS.above("outside-modes-largest", SIGNS["outside"] + large, 0.8, most.outside[:, -1])


EXPERIMENT = Experiment(
    "initialisation",
    "Initialisation: from the neural race to a kernel machine",
    "neural_race Fig. 6, 4.3",
    Initialisation(),
    Initialisation(
        seeds=2,
        scales=(0.05, 0.2, 1.12, 2.5, 5.0),
        shown=(0.2, 2.5, 5.0),
        kernels=1,
        looks=(0.3, 1.0),
        domains=5,
        trained=3,
    ),
    minutes=(0.2, 4.0),
    needs_full=("scale-of-change",),  # more scales
)
