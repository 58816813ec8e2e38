"""The same routing network from small and from large random weights. Small ones race: modes are learned one
after the other, in hidden directions that all domains share, and routes never trained work. Large ones
learn as a kernel machine does: every route for itself, with the random features that are there, and
untrained routes fail. Two signs tell the regimes apart while a network learns: how far its tangent kernel
has turned, and how much of what it has learned lies outside the modes of the reduction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import neuralrace as nr
from neuralrace import plot
from neuralrace.errors import InputError
from neuralrace.experiments.neural_race.routing import TARGETS, each_item
from neuralrace.experiments.old import (
    Claim,
    Experiment,
    Parameters,
    Parts,
    Results,
    finding,
    option,
    paper,
    stacked,
)
from neuralrace.measure import crossing, plateau_share

ITEMS, FEATURES = TARGETS.shape
SILENCE = 0.5 * (TARGETS**2).sum() / ITEMS  # loss of a network without output
LEARNED = 0.01  # of that loss: the end of learning, where times are compared
FIG, BEYOND = "neural_race Fig. 6", "beyond neural_race 4.3"
SCALE = r"initial singular value $\sigma_0$"


@dataclass(frozen=True)
class Initialisation(Parameters):
    scales: tuple[float, ...] = option(
        (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0),
        "singular values sigma0 of the initial orthogonal weights",
    )
    shown: tuple[float, ...] = option(
        (0.05, 2.0, 5.0), "three of the scales, whose representations are drawn"
    )
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
        if not set(self.shown) <= set(self.scales) or len(self.shown) != 3:
            raise InputError(f"shown must be three of the scales {self.scales}, got {self.shown}")
        if list(self.scales) != sorted(set(self.scales)):
            raise InputError(f"scales must increase, got {self.scales}")
        if self.trained >= self.domains:
            raise InputError(f"trained must be below domains = {self.domains}, got {self.trained}")

    @property
    def pairs(self) -> np.ndarray:
        return nr.tasks.circulant(self.domains, self.trained)

    def task(self, pairs: np.ndarray) -> nr.Task:
        items = {"inputs": np.eye(ITEMS), "targets": TARGETS}
        return nr.tasks.routing(self.domains, pairs, ITEMS, (self.hidden, self.hidden), **items)


def compute(p: Initialisation, parts: Parts) -> Results:
    return stacked(parts.each("scale", train, p.scales, p, threads=2))


def train(scale: float, p: Initialisation) -> dict[str, Any]:
    """Flow until the loss is `stop` of that of a silent network; times of all scales are the same."""
    task, untrained = p.task(p.pairs), p.task(~p.pairs)
    start = nr.init.orthogonal(task.graph, scale, seed=range(p.seeds))
    save = np.concatenate([[0.0], np.geomspace(1e-6 * p.t1, p.t1, 240)])
    run = nr.flow(task, start, p.t1, save, stop_loss=p.stop * SILENCE)
    end = {e: w[:, -1] for e, w in run.weights.items()}
    every = each_item(p.domains)
    shown = nr.activity(task, end, "h1", every)
    shown = shown / np.linalg.norm(shown, axis=-1, keepdims=True)
    answers = [nr.activity(task, end, y, every) for y in task.graph.outputs]
    loss = np.pad(run.loss, ((0, 0), (0, len(save) - len(run.t))), mode="edge") / SILENCE
    return {
        "t": save,
        "loss": loss,
        "plateau": [plateau_share(save[v >= LEARNED], v[v >= LEARNED]) for v in loss],
        "trained": nr.loss(task, end) / SILENCE,
        "untrained": nr.loss(untrained, end) / SILENCE,
        "cosine": shown @ np.swapaxes(shown, -1, -2),
        "answers": np.concatenate(answers, axis=-1),
        **signs(p, task, run),
    }


def signs(p: Initialisation, task: nr.Task, run: nr.Trajectory) -> dict[str, Any]:
    """Turn and growth of the tangent kernel, and misfit of what was learned, `(seeds, times)`."""
    r, found = nr.reduce(task), []
    done = nr.learning_time(run, LEARNED * SILENCE)
    last = len(run.t) - 1
    for k in range(min(p.kernels, p.seeds)):
        at = np.searchsorted(run.t, done[k] * np.array([0, *p.looks, np.inf])).clip(max=last)
        w = {e: v[k, at] for e, v in run.weights.items()}
        kernels = nr.tangent_kernel(task, w)
        norm = np.linalg.norm(kernels, axis=(1, 2))
        turn = 1 - np.einsum("tij,ij->t", kernels, kernels[0]) / (norm * norm[0])
        misfit = r.off_manifold_fraction({e: v - v[0] for e, v in w.items()})
        found.append(np.stack([run.t[at] / done[k], turn, norm / norm[0], misfit]))
    return dict(zip(("progress", "turn", "growth", "misfit"), np.stack(found, axis=1), strict=True))


def similarity(p: Initialisation, r: Results) -> np.ndarray:
    """Cosine of the first hidden layer for the same item on two input domains, mean, `(scales, seeds)`."""
    cosine = r["cosine"].reshape(len(p.scales), p.seeds, p.domains, ITEMS, p.domains, ITEMS)
    same = np.einsum("csiaja->csaij", cosine)
    return same[..., *np.triu_indices(p.domains, 1)].mean(axis=(-1, -2))


def change(p: Initialisation, r: Results) -> np.ndarray:
    """Scale at which the untrained error is half of that of a silent network, coming from large scales."""
    logs = np.log(p.scales)[::-1]
    return np.exp([crossing(logs, error[::-1], 0.5) for error in r["untrained"].T])


def figures(p: Initialisation, r: Results) -> dict[str, tuple[Figure, str]]:
    return {
        "initialisation-error": error(p, r),
        "initialisation-representation": representation(p, r),
        "initialisation-signs": regime(p, r),
    }


def error(p: Initialisation, r: Results) -> tuple[Figure, str]:
    fig, (a, b, c) = plot.figure(1, 3, height=2.3)
    last = 0.0
    for k, (scale, loss) in enumerate(zip(p.scales, r["loss"], strict=True)):
        colour = matplotlib.colormaps["viridis"](0.9 * k / max(len(p.scales) - 1, 1))
        t, loss = r["t"][k], np.median(loss, axis=0)
        done = crossing(t, loss, LEARNED)
        last = max(last, done)
        label = f"{scale:g}" if scale in (*p.shown, p.scales[0]) else None
        a.plot(t[1:], loss[1:], color=colour)
        b.plot(t / done, loss / loss[0], color=colour, label=label)
    a.set(xscale="log", xlim=(0.03, 2 * last), xlabel="time (τ = 1)", ylabel="loss / silent network")
    a.set(yscale="log", ylim=(LEARNED / 10, None))
    b.set(xlim=(0, 1), ylim=(0, 1.03), xlabel="time / time to 99% learned", ylabel="loss / initial loss")
    b.legend(title=r"$\sigma_0$", loc="upper right")
    plot.points(c, p.scales, r["trained"].T, plot.BLUE, "trained routes", fmt="o-")
    plot.points(c, p.scales, r["untrained"].T, plot.RED, "untrained routes", fmt="s-")
    c.axhline(1, color=plot.BLACK, lw=0.8, ls="--", label="silent network")
    c.axvline(change(p, r).mean(), color=plot.BLACK, lw=0.8, ls=":", label="error 1/2")
    c.set(xscale="log", yscale="log", xlabel=SCALE, ylabel="loss / silent network", ylim=(p.stop / 5, 1e7))
    c.legend(loc="upper left")
    caption = (
        "Left: training loss (median over starts), dark for small and bright for large initial weights. "
        "Middle: the same against time relative to that at which 1% is left: drops after plateaus from "
        "small weights, exponential from large ones. Right: error at the end on trained and untrained "
        f"routes, {p.seeds} starts (mean, standard deviation); dotted: where the untrained error is half "
        "that of a network without output."
    )
    return fig, caption


def representation(p: Initialisation, r: Results) -> tuple[Figure, str]:
    fig, axes = plot.figure(2, 3, height=4.4)
    limit, middle = float(np.abs(TARGETS).max()), np.arange(p.domains)
    images: tuple[Any, ...] = ()
    for scale, above, below in zip(p.shown, *axes, strict=True):
        k = p.scales.index(scale)
        images = (
            plot.matrix(above, r["cosine"][k, 0], rf"$\sigma_0$ = {scale:g}", 1.0),
            plot.matrix(below, r["answers"][k, 0], "", limit),
        )
        for ax, width in ((above, ITEMS), (below, FEATURES)):
            ax.set(xticks=middle * width + (width - 1) / 2, yticks=middle * ITEMS + (ITEMS - 1) / 2)
            ax.set(xticklabels=middle + 1, yticklabels=middle + 1)
            ax.tick_params(length=0)
        above.set_xlabel("input domain")
        below.set_xlabel("output domain")
        for i, j in np.argwhere(p.pairs):
            corner = (j * FEATURES - 0.5, i * ITEMS - 0.5)
            below.add_patch(Rectangle(corner, FEATURES, ITEMS, fill=False, lw=0.6))
    for row, shown, label in zip(axes, images, ("cosine", "output"), strict=True):
        row[0].set_ylabel("input domain")
        fig.colorbar(shown, ax=row, label=label, shrink=0.9)
    caption = (
        f"Above: cosine of the first hidden layer's activity for {ITEMS} items on each input domain, after "
        "training, from small, medium and large initial weights; one shared representation shows as the "
        f"same block everywhere. Below: outputs on all routes, {ITEMS} items by {FEATURES} features each, "
        f"colours cut at {limit:g}; trained routes are framed."
    )
    return fig, caption


def regime(p: Initialisation, r: Results) -> tuple[Figure, str]:
    fig, axes = plot.figure(2, 2, height=4.2)
    for scale, colour, marker in zip(p.shown, (plot.BLUE, plot.GREEN, plot.RED), "osd", strict=True):
        k = p.scales.index(scale)
        for ax, name in zip(axes[:, 0], ("turn", "misfit"), strict=True):
            style = {"color": colour, "marker": marker, "lw": 0.9, "alpha": 0.8}
            x, y = r["progress"][k].T, r[name][k].T
            first = 0 if name == "turn" else 1  # before anything is learned there is no misfit
            ax.plot(
                x[first:], y[first:], **style, label=[rf"$\sigma_0$ = {scale:g}"] + [None] * (x.shape[1] - 1)
            )
    for (left, right), name, label in zip(
        axes, ("turn", "misfit"), ("turn of the tangent kernel", "learned outside the modes"), strict=True
    ):
        left.set(xlabel="time / time to 99% learned", ylabel=label, xlim=(-0.03, 1.6), ylim=(-0.03, 1.03))
        plot.points(right, p.scales, r[name][..., -1].T, plot.BLACK, "at the end", fmt="o-")
        plot.points(right, p.scales, r["untrained"].clip(max=1).T, plot.RED, "untrained error", fmt="s-")
        right.set(xscale="log", xlabel=SCALE, ylabel=label, ylim=(-0.03, 1.03))
        right.axvline(change(p, r).mean(), color=plot.BLACK, lw=0.8, ls=":")
        right.legend(loc=(0.02, 0.3))
    axes[0, 0].legend(loc="upper right")
    caption = (
        "Above: one minus the cosine between the tangent kernel and that at the start. Below: share of the "
        "change of the weights (squared norm) that is no sum of modes, W = b r r^T, as the reduction has "
        f"them, with hidden directions r turned to fit. Left: while networks learn, {r['turn'].shape[1]} "
        "starts each. Right: at the end, beside the untrained error (relative to a silent network, cut at "
        "1); dotted: where that is 1/2."
    )
    return fig, caption


def claims(p: Initialisation, r: Results) -> list[Claim]:
    least, most = f", sigma0 = {p.scales[0]:g}", f", sigma0 = {p.scales[-1]:g}"
    same, at = similarity(p, r), change(p, r)
    fall = np.diff(same.mean(axis=1))
    natural = float(np.linalg.svd(TARGETS)[1][0] ** (1 / 3))
    turn, growth, misfit = (r[name][..., -1] for name in ("turn", "growth", "misfit"))
    untrained, error = r["untrained"], "error on untrained routes / silent network"
    cosine = "cosine of an item on two domains"
    note = (
        "Expected is where three layers with singular values sigma0 make a map as large as the strongest "
        "mode of the targets."
    )
    return [
        paper.below(
            "trained-error", "error on trained routes / silent network, all sigma0", FIG + "b", 1e-5,
            r["trained"].max(0),
        ),
        paper.below("untrained-smallest", error + least, FIG + "b", 1e-4, untrained[0]),
        paper.above(
            "untrained-largest", error + most, FIG + "b", 1, untrained[-1],
            "Above 1: worse than no output at all.",
        ),
        finding.near(
            "scale-of-change", "sigma0 at which the error on untrained routes is 1/2 of a silent network's",
            BEYOND, natural, at, 0.25 * natural, note,
        ),
        paper.above(
            "plateaus-smallest", "share of time on plateaus" + least, FIG + "a", 0.7, r["plateau"][0]
        ),
        paper.below(
            "plateaus-largest", "share of time on plateaus" + most, FIG + "a", 0.02, r["plateau"][-1]
        ),
        paper.above("shared-items-smallest", cosine + least, FIG + "c", 0.95, same[0]),
        paper.below("shared-items-largest", cosine + most, FIG + "c", 0.05, same[-1]),
        paper.relation(
            "shared-items-fall", cosine + ", largest step up the scales", FIG + "c", "< 0", fall.max(),
            (fall < 0).all(),
        ),
        finding.above("kernel-turn-smallest", "turn of the tangent kernel" + least, BEYOND, 0.5, turn[0]),
        finding.below("kernel-turn-largest", "turn of the tangent kernel" + most, BEYOND, 0.05, turn[-1]),
        finding.above(
            "kernel-growth-smallest", "growth of the tangent kernel" + least, BEYOND, 1e3, growth[0]
        ),
        finding.near(
            "kernel-growth-largest", "growth of the tangent kernel" + most, BEYOND, 1, growth[-1], 0.3
        ),
        finding.below("outside-modes-smallest", "learned outside the modes" + least, BEYOND, 0.01, misfit[0]),
        finding.above("outside-modes-largest", "learned outside the modes" + most, BEYOND, 0.8, misfit[-1]),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "initialisation",
    "Initialisation: from the neural race to a kernel machine",
    "neural_race Fig. 6, 4.3",
    Initialisation(),
    Initialisation(
        seeds=2, scales=(0.1, 1.0, 2.0, 5.0), shown=(0.1, 2.0, 5.0), kernels=1, looks=(0.1, 0.3, 1.0)
    ),
    compute,
    figures,
    claims,
    (0.4, 3.5),
)
