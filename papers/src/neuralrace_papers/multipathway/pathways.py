"""Parallel pathways from the same inputs to the same outputs share what they learn: in the singular basis
of the task, pathway a carries K_a, and all K_a add up to the singular values. From random weights nothing but
chance tells pathways apart. The deeper they are, the more of that chance is left in the end, and modes
concentrate on one pathway; the wider they are, the less."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import Annotated

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework import Data, Experiment, figure, part, require, rows
from neuralrace_papers.multipathway import networks, pathway_figures
from neuralrace_papers.multipathway.networks import GROUPS, S, concentration, first_share, leading, two_modes
from neuralrace_papers.multipathway.pathway_figures import READ

PREDICTIONS = {
    "eq17": ("Eq. 17", plot.RED, "^"),
    "signals": ("weights between the initial signals", plot.BLUE, "o"),
}
WEIGHTS = {"large": r"$N(0, \sigma^2)$", "small": r"$N(0, \sigma^2/N)$"}
STEPS = 10  # shown in Fig. 4


@dataclass(frozen=True)
class Pathways(networks.Published):
    epochs: Annotated[tuple[int, ...], "steps in the published code, for each of depths"] = (
        1000, 10_000, 10_000, 20_000,
    )  # fmt: skip
    printed_epochs: Annotated[int, "steps that the paper states"] = 1000
    mixed: Annotated[tuple[int, ...], "depths of pathways in one network"] = (3, 4, 5)
    mixed_seeds: Annotated[int, "random starts of it"] = 5
    error: Annotated[float, "error that is allowed to the flow of wide networks"] = 0.01
    widths: Annotated[tuple[int, ...], "compared widths"] = (100, 300, 1000, 3000)
    width_depth: Annotated[int, "depth of the pathways where widths are compared"] = 3

    def __post_init__(self) -> None:
        fits = len(self.epochs) == len(self.depths)
        require(fits, f"epochs must have one entry for each of depths {self.depths}, got {self.epochs}")
        require(min(self.depths) >= 2, f"depths must be at least 2, got {self.depths}")
        require(self.width > 16, f"width must be more than 16, got {self.width}")
        require(len(self.widths) > 2, f"widths must be at least three, got {self.widths}")

    @property
    def t1(self) -> dict[int, float]:
        """End of training for each depth, flow time."""
        return {d: n * self.epoch for d, n in zip(self.depths, self.epochs, strict=True)}


@part(each="depths")
def linear(p: Pathways, depth: int):
    return learn(p, (depth, depth), depth, p.t1[depth], p.seeds)


@part
def mixed(p: Pathways):
    """Networks with pathways of different depths."""
    return learn(p, p.mixed, 0, max(p.t1.values()), p.mixed_seeds)


def learn(p: Pathways, depths: tuple[int, ...], series: int, t1: float, seeds: int):
    """Networks of published size, with what their initial weights predict."""
    task = networks.task(depths, p.width)
    start = networks.draw(task, p.std, seeds, series)
    run = networks.train(task, start, t1, p.error)
    found = networks.predict(task, start, p.std, run.t.values)
    return run.assign({name: (dims.split(), values) for name, (dims, values) in found.items()})


@part(each=lambda p: [*product(p.widths, ("fixed", "scaled")), *product([p.width], WEIGHTS)])
def sized(p: Pathways, item: tuple[int, str]):
    """Final networks of other sizes: at each width with the same standard deviation, or with outputs of the
    same size; at `width` with std, or with std / sqrt(width)."""
    n, kind = item
    std = {"scaled": p.std * np.sqrt(p.width / n), "small": p.std / np.sqrt(n)}.get(kind, p.std)
    task = networks.task([p.width_depth] * 2, n)
    start = networks.draw(task, std, p.seeds, n + {"large": 1, "small": 2}.get(kind, 0))
    return networks.train(task, start, max(p.t1.values()), p.error).isel(t=[-1])


@part
def first_steps(p: Pathways):
    """The first steps of the published descent, shallowest networks."""
    task, save = networks.task([p.depths[0]] * 2, p.width), p.epoch * np.arange(STEPS)
    return networks.descent(p, task, p.depths[0], STEPS - 1, save)


@figure("learning")
def learning(p: Pathways, data: Data):
    runs = {f"depth {d}": run for d, run in data.linear.items()}
    return pathway_figures.learning(runs, p.epoch), (
        f"Learning in one linear network of each depth (Fig. 5), {p.width} wide, weights of standard "
        f"deviation {p.std:g}, gradient flow for the time of {', '.join(map(str, p.epochs))} epochs. {READ}"
    )


@figure("seeds")
def two_seeds(p: Pathways, data: Data):
    deep = p.depths[-1]
    runs = {f"depth {deep}, seed {k + 1}": data.linear[deep].isel(run=slice(k, k + 1)) for k in (0, 1)}
    return pathway_figures.learning(runs, p.epoch), (
        f"Two networks of depth {deep} that differ in their seed only (Fig. 6), {p.width} wide. {READ}"
    )


@figure("diagonal")
def diagonal(p: Pathways, data: Data):
    fig, below = pathway_figures.first_steps(data.first_steps.outputs[0, :, 0].values)
    for d, colour in zip(p.depths, plot.COLOURS, strict=False):
        run = data.linear[d]
        learned = 1 - run.loss.mean("run") / run.loss[:, 0].mean()
        below.plot(learned, networks.off_diagonal(run).mean(axis=0), color=colour, label=f"depth {d}")
    below.axhline(0.05, color=plot.BLACK, lw=0.7, ls="--", label="5%")
    share = "share of squared K\noff the diagonal"
    plot.label(below, "share of the loss that is learned", share, legend={"ncols": 2}, ylim=(0, None))
    return fig, (
        f"Above: K of the first pathway in the first steps of descent, depth {p.depths[0]} (Fig. 4). Below: "
        "squared entries between modes of different strength, as a share of all; mean over networks and "
        "pathways. What is off the diagonal in one pathway is undone by the other, and stays."
    )


@figure("initial-weights")
def from_initial_weights(p: Pathways, data: Data):
    deep = p.depths[-1]
    chosen = [(f"depth {deep}, seed {k + 1}", data.linear[deep], k) for k in (0, 1)]
    chosen.append((f"depths {', '.join(map(str, p.mixed))}", data.mixed, 0))
    return pathway_figures.predicted(chosen, p.epoch), (
        "Modes 1 and 2 in two networks that differ in their seed only, and in one with pathways of different "
        "depths; predicted from their initial weights and the signals that pass through them."
    )


@figure("concentration")
def concentrations(p: Pathways, data: Data):
    fig, (a, b, c) = plot.figure(1, 3, height=2.8, sharey=True, width_ratios=[3, 3, 2])
    place = np.arange(len(p.depths))
    by_depth = np.stack([concentration(run.outputs) for run in data.linear.values()], axis=1)
    for g, (group, colour) in enumerate(pathway_figures.COLOURS.items()):
        plot.points(a, place + 0.08 * (g - 1.5), by_depth[..., g], colour, group)
    wide = np.array(p.widths)
    for kind, ax, x, colour, label in (
        ("fixed", b, 1.05 * wide, plot.BLACK, "std fixed"),
        ("scaled", b, 0.95 * wide, plot.SKY, r"std $\propto 1/\sqrt{N}$"),
        ("large", c, [0], plot.BLACK, WEIGHTS["large"]),
        ("small", c, [1], plot.RED, WEIGHTS["small"]),
    ):
        plot.points(ax, x, np.transpose(by_size(data, kind)), colour, label)
    plot.label(a, "depth", "concentration", "by depth", "upper left", xticks=place, xticklabels=p.depths)
    a.set(ylim=(0, 1.35), yticks=np.linspace(0, 1, 6))
    plot.logarithmic(b.xaxis, p.widths)
    plot.label(b, "width N", title=f"by width, modes 1-2, depth {p.width_depth}", legend="upper right")
    c.set(xticks=[0, 1], xticklabels=["std", r"std/$\sqrt{N}$"], xlim=(-0.5, 1.5))
    where = f"N = {p.width}, depth {p.width_depth}"
    plot.label(c, where, title="by weights, modes 1-2", legend="upper left")
    return fig, (
        "Concentration of modes on one pathway at the end: 0 shared evenly, 1 all on one; mean and standard "
        f"deviation over {p.seeds} linear networks. Left: by depth, N = {p.width}, weights of standard "
        f"deviation {p.std:g}. Middle: by width; the two meet at N = {p.width}. Right: smaller weights "
        "make for more concentration, not less."
    )


def by_size(data: Data, kind: str) -> list[np.ndarray]:
    """Concentration of modes 1 and 2 in networks of each width, of one kind of initial weights."""
    return [two_modes(run) for (_, own), run in data.sized.items() if own == kind]


@figure("prediction")
def prediction(p: Pathways, data: Data):
    fig, axes = plot.figure(1, len(p.depths), height=2.6, sharey=True)
    for ax, (d, run) in zip(axes, data.linear.items(), strict=True):
        share = first_share(leading(run.outputs[:, -1])).ravel()
        for name, (label, colour, marker) in PREDICTIONS.items():
            ax.plot(
                predicted_share(run, name).ravel(), share, marker, color=colour, ms=3, alpha=0.6, label=label
            )
        ax.plot([0, 1], [0, 1], color=plot.BLACK, lw=0.7, label="predicted = network")
        ax.set(title=f"depth {d}", xlabel="predicted share")
    axes[0].set(ylabel="share in the network")
    plot.legend_below(fig, axes[0], 4)
    return fig, (
        "The first pathway's share of modes 1 and 2 at the end, in networks and as initial weights predict "
        "it: by Eq. 17, and by the weights between the signals that pass through the layers at the start. "
        f"{p.seeds} networks of each depth."
    )


def predicted_end(run, name: str) -> np.ndarray:
    """K of modes 1 and 2 at the end, as predicted, `(run, pathway, mode)`."""
    return (run.signals[:, -1] if name == "signals" else run[name]).values


def predicted_share(run, name: str) -> np.ndarray:
    return first_share(predicted_end(run, name))


@rows
def by_depth(p: Pathways, data: Data):
    groups = {d: concentration(run.outputs) for d, run in data.linear.items()}
    two = {d: two_modes(run) for d, run in data.linear.items()}
    shallow, deep = p.depths[0], p.depths[-1]
    for d in p.depths:
        yield f"concentration-depth-{d}", two[d]
    yield "concentration-rise", two[deep] - two[shallow].mean()
    yield "concentrated-deepest", (groups[deep][:, :2] > 0.5).mean(axis=1)  # three quarters on one pathway
    for g, group in enumerate(GROUPS):
        own = [c[:, g] for c in groups.values()]
        yield f"depth-{group.replace(' ', '-')}", networks.trend(p.depths, own, "greater")
    for less, more in pairwise(p.depths):
        yield f"depth-{more}-over-{less}", networks.trend((0, 1), (two[less], two[more]), "greater")


@rows
def by_width(p: Pathways, data: Data):
    for kind in ("fixed", "scaled"):
        by = by_size(data, kind)
        yield f"width-{kind}", networks.trend(p.widths, by, "less")
        means = [np.mean(v) for v in by]
        yield f"width-{kind}-exponent", nr.measure.power_law_exponent(p.widths[1:], means[1:])
    (large,), (small,) = (by_size(data, kind) for kind in WEIGHTS)
    yield "larger-weights", large - small.mean()
    first = np.concatenate([first_share(leading(run.outputs[:, -1])) > 0.5 for run in data.linear.values()])
    yield "modes-together", first[:, 0] == first[:, 1]


@rows
def diagonal_parts(p: Pathways, data: Data):
    steps = networks.off_diagonal(data.first_steps)
    yield "starts-random", steps[:, 0]
    yield "diagonal-first-steps", steps[:, -1]
    for d, run in data.linear.items():
        off, learned = networks.off_diagonal(run), 1 - run.loss.values / run.loss.values[:, :1]
        yield f"diagonal-along-depth-{d}", np.where(learned > 0.1, off, 0).max(axis=1)
        yield f"diagonal-depth-{d}", off[:, -1]
        left = run.loss.interp(t=min(p.printed_epochs * p.epoch, float(run.t[-1]))) / run.loss[:, 0]
        yield f"printed-epochs-depth-{d}", left
    sums = [run.outputs[:, -1].sum("pathway") - np.diag(S) for run in data.linear.values()]
    yield "steady-state", max(float(np.abs(rest).max()) for rest in sums) / S[0]


@rows
def predictions(p: Pathways, data: Data):
    for d, run in data.linear.items():
        shares = first_share(leading(run.outputs[:, -1]))
        for name, key in (("eq17", "eq-17"), ("signals", "signals")):
            predicted = predicted_share(run, name)
            both = zip(predicted.T, shares.T, strict=True)
            yield f"share-{key}-depth-{d}", np.mean([np.corrcoef(a, b)[0, 1] for a, b in both])
        yield f"growth-depth-{d}", run.rate.mean(["pathway", "mode"])
    run, shallow = data.mixed, int(np.argmin(p.mixed))
    end = leading(run.outputs[:, -1])  # (run, pathway, mode)
    rest = 1 - end[:, shallow] / end.sum(axis=1)
    for name, key in (("eq17", "eq-17"), ("signals", "signals")):
        predicted = predicted_end(run, name)
        off = rest / (1 - predicted[:, shallow] / predicted.sum(axis=1))
        yield f"mixed-{key}", off.mean(axis=1)


EXPERIMENT = Experiment(
    "pathways",
    "Parallel pathways: depth breaks the symmetry between them",
    "multipathway Fig. 4-6",
    Pathways(),
    quick={
        "seeds": 10, "width": 32, "std": 0.056, "depths": (2, 3), "epochs": (300, 500), "mixed": (2, 3),
        "mixed_seeds": 2, "widths": (17, 24, 32),
    },
    minutes=(0.3, 9.0),
)  # fmt: skip
