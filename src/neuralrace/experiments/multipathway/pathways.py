"""Parallel pathways from the same inputs to the same outputs share what they learn: in the singular basis
of the task, pathway a carries K_a, and all K_a add up to the singular values. From random weights nothing but
chance tells pathways apart. The deeper they are, the more of that chance is left in the end: modes
concentrate on one pathway; the wider, the less. What each carries is predicted from the initial weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.stats import mannwhitneyu

import neuralrace as nr
from neuralrace import plot
from neuralrace.experiments.claim import Claim, check, finding, kebab, paper
from neuralrace.experiments.declaration import Data, claims, figure, part
from neuralrace.experiments.experiment import Experiment, Parameters, option, require
from neuralrace.experiments.multipathway import networks
from neuralrace.experiments.multipathway.networks import GROUPS, concentration, first_share, leading

COLOURS = dict(zip(GROUPS, (plot.BLUE, plot.ORANGE, plot.GREEN, plot.PINK), strict=True))
NONLINEAR = ("relu", "tanh")
PREDICTIONS = dict(zip(networks.PREDICTIONS, (plot.RED, plot.ORANGE, plot.BLUE), strict=True))


@dataclass(frozen=True)
class Pathways(Parameters):
    seeds: int = option(20, "random starts of each linear network", least=2, most=1000)
    pathways: int = option(2, "parallel pathways", least=2)
    width: int = option(1000, "units of each hidden layer", least=8)
    std: float = option(0.01, "standard deviation of initial weights")
    lr: float = option(0.01, "published learning rate, on the squared error summed over samples")
    depths: tuple[int, ...] = option(
        (2, 3, 4, 7), "depths of the pathways", least=2, count=2, increasing=True
    )
    epochs: tuple[int, ...] = option((1000, 10_000, 10_000, 20_000), "published steps, for each of depths")
    mixed: tuple[int, ...] = option((3, 4, 5), "depths in one network; a single number: none", least=2)
    method: str = option("flow", "gradient flow, or descent as published", choices=("flow", "descent"))
    error: float = option(0.01, "error that is allowed to the flow of wide networks")
    widths: tuple[int, ...] = option(
        (100, 300, 1000, 3000), "compared widths", least=8, count=2, increasing=True
    )
    width_depth: int = option(3, "depth of the pathways where widths are compared", least=2)
    nonlinear_width: int = option(100, "units of each hidden layer of networks with activations", least=8)
    nonlinear_seeds: int = option(5, "random starts of each network with activations", least=2, most=1000)

    def check(self) -> None:
        fits = len(self.epochs) == len(self.depths)
        require(fits, f"epochs must have one entry for each of depths {self.depths}, got {self.epochs}")

    @property
    def epoch(self) -> float:
        """Flow time of an epoch: the published loss is summed over samples and has no factor 1/2."""
        return 2 * len(networks.Y) * self.lr

    @property
    def t1(self) -> dict[int, float]:
        """End of training for each depth, flow time."""
        return {d: n * self.epoch for d, n in zip(self.depths, self.epochs, strict=True)}

    def scaled(self, width: int) -> float:
        """The standard deviation that keeps that of a layer's output, `std sqrt(width)`."""
        return self.std * np.sqrt(self.width / width)


@part(each="depths")
def linear(p: Pathways, depth: int) -> xr.Dataset:
    return networks.train(p, [depth] * p.pathways, depth, p.t1[depth], p.seeds)


@part(each=lambda p: [p.mixed] if len(p.mixed) > 1 else [])
def mixed(p: Pathways, depths: tuple[int, ...]) -> xr.Dataset:
    """Networks with pathways of different depths."""
    return networks.train(p, depths, 0, max(p.t1.values()), seeds=2)


@part(each=lambda p: [(n, kind) for n in p.widths for kind in ("fixed", "scaled")])
def width(p: Pathways, item: tuple[int, str]) -> xr.Dataset:
    """Final networks of other widths, with the same standard deviation or with outputs of the same size."""
    n, kind = item
    size, depths = (n, p.std if kind == "fixed" else p.scaled(n)), [p.width_depth] * p.pathways
    return networks.train(p, depths, n, max(p.t1.values()), p.seeds, size).isel(t=[-1])


@part(each=lambda p: p.depths[:1] if p.method == "flow" else ())
def published(p: Pathways, depth: int, data: Data) -> dict[str, Any]:
    """The same networks by descent with the published rate: largest difference from the flow's final K."""
    run = networks.descent(p, networks.task([depth] * p.pathways, p.width), p.std, p.seeds, depth)
    off = np.abs(run.recorded["outputs"][:, -1] - data.linear[depth].outputs.values[:, -1])
    return {"off": ("run", off.max(axis=(1, 2, 3)) / networks.S[0])}


@part(each=lambda p: [(f, d) for f in NONLINEAR for d in p.depths])
def nonlinear(p: Pathways, item: tuple[str, int]) -> dict[str, Any]:
    """Networks with an activation at every hidden layer, trained as published."""
    activation, depth = item
    task = networks.task([depth] * p.pathways, p.nonlinear_width, activation)
    run = networks.descent(p, task, p.scaled(p.nonlinear_width), p.nonlinear_seeds, depth)
    k = {name: (networks.K, value) for name, value in run.recorded.items()}
    return {"t": ("t", run.t), "loss": ("run t", run.loss), **k}


@part(each=lambda p: p.depths[1:])
def stability(p: Pathways, depth: int) -> dict[str, Any]:
    return networks.off_diagonal_rates(depth, p.pathways, p.width, p.std, p.t1[depth])


def last_epoch(p: Pathways, run: xr.Dataset) -> float:
    """An epoch by which the loss of all networks has long been below a hundredth."""
    late = np.flatnonzero((run.loss > 0.01 * run.loss.isel(t=0, drop=True)).any("run"))[-1]
    return float(run.t[min(int(1.3 * late), run.sizes["t"] - 1)]) / p.epoch


@figure("learning")
def learning(p: Pathways, data: Data) -> tuple[Figure, str]:
    runs = {("linear", d): run for d, run in data.linear.items()} | data.nonlinear
    fig, axes = plot.figure(3, len(p.depths), height=5.55)
    for ax, ((kind, depth), run) in zip(axes.flat, runs.items(), strict=True):
        strengths = np.diagonal(run.outputs[0], axis1=-2, axis2=-1)  # (t, pathway, mode)
        for group, colour in COLOURS.items():
            for a, style in zip(range(p.pathways), ("-", "--", ":", "-."), strict=False):
                mean = strengths[:, a, GROUPS[group]].mean(axis=-1)
                ax.plot(run.t / p.epoch, mean, style, color=colour, label=None if a else group)
        ax.set(title=f"{kind}, depth {depth}", xlim=(0, last_epoch(p, run)))
    for ax in axes[:, 0]:
        ax.set(ylabel="K of a pathway")
    for ax in axes[-1]:
        ax.set(xlabel="epoch")
    for style, label in (("-", "first pathway"), ("--", "second")):
        axes[0, 0].plot([], [], style, color=plot.BLACK, label=label)
    plot.legend_below(fig, axes[0, 0], 6)
    caption = (
        "What each pathway carries of the modes of the task (Fig. 5, 7, 8; first pathway solid, second "
        "dashed), in one network per panel. Groups of modes of equal strength are shown by the mean of their "
        f"diagonal. Linear networks {p.width} wide, gradient flow; ReLU and tanh {p.nonlinear_width} wide, "
        "descent as published, outputs of the pathways."
    )
    return fig, caption


@figure("diagonal")
def diagonal(p: Pathways, data: Data) -> tuple[Figure, str]:
    fig, axes = plot.figure(2, 4, height=3.6)
    shown = p.depths[len(p.depths) // 2 - 1]
    run = data.linear[shown].isel(run=0)
    at = [*(int(np.argmax(run.loss.values <= level * run.loss.values[0])) for level in (1, 0.9, 0.3)), -1]
    for ax, i in zip(axes[0], at, strict=True):
        plot.matrix(ax, run.outputs[i, 0], "end" if i < 0 else f"epoch {float(run.t[i]) / p.epoch:.0f}")
        ax.set(xlabel="input modes")
    axes[0, 0].set(ylabel=f"output modes, depth {shown}")
    for ax in axes[1]:
        ax.remove()
    a, b = (fig.add_subplot(axes[1, 0].get_gridspec()[1, span]) for span in (slice(2), slice(2, 4)))
    for d, colour in zip(p.depths, plot.COLOURS, strict=False):
        run = data.linear[d]
        off = nr.measure.off_diagonal_share(run.outputs, list(GROUPS.values())).mean(axis=(0, 2))
        a.plot(1 - run.loss.mean("run") / run.loss[:, 0].mean(), off, color=colour, label=f"depth {d}")
        if d in data.stability:
            s = data.stability[d]
            b.plot(1 - s.loss / s.loss[0], s.rates.max("entry"), "o-", color=colour)
    a.set(xlabel="loss learned", ylabel="share off the diagonal", ylim=(0, None))
    b.axhline(0, color=plot.BLACK, lw=0.7)
    b.set(xlabel="loss learned", ylabel="largest eigenvalue")
    a.legend()
    caption = (
        f"Above: K of the first pathway of a network of depth {shown} (Fig. 4), each in its own scale. Left: "
        "squared entries between modes of different strength, as a share of all; mean over networks and "
        "pathways. Right: fastest growth of an off-diagonal perturbation of a diagonal solution, largest "
        "eigenvalue of the Jacobian of Eq. 11: positive while there is error, zero at the end."
    )
    return fig, caption


@figure("seeds")
def two_seeds(p: Pathways, data: Data) -> tuple[Figure, str]:
    panels = [(f"depth {p.depths[-1]}, seed {k + 1}", data.linear[p.depths[-1]], k) for k in (0, 1)]
    panels += [(f"depths {', '.join(map(str, depths))}", run, 0) for depths, run in data.mixed.items()]
    fig, axes = plot.figure(1, len(panels), height=2.5)
    for ax, (title, run, seed) in zip(axes, panels, strict=True):
        epochs, k = run.t / p.epoch, leading(run.outputs[seed])
        for a, colour in zip(range(k.shape[1]), plot.COLOURS, strict=False):
            for mode, (style, marker) in enumerate((("-", "o"), ("--", "s"))):
                plot.theory(ax, epochs, run.signals[seed, :, a, mode], colour, ls=style, lw=1)
                label = None if mode else f"pathway {a + 1}"
                ax.plot(epochs, k[:, a, mode], marker, color=colour, ms=2.5, alpha=0.5, label=label)
        ax.set(title=title, xlabel="epoch", xlim=(0, last_epoch(p, run)))
    for marker, label in (("o-", "mode 1"), ("s--", "mode 2")):
        axes[-1].plot([], [], marker, color=plot.BLACK, ms=2.5, lw=1, label=label)
    plot.legend_below(fig, axes[-1], 6)
    axes[0].set(ylabel="K of a pathway")
    caption = (
        "Modes 1 and 2 in two networks of the greatest depth that differ "
        "in their seed only (Fig. 6), and (full form) in one with pathways of different depths. Dots are "
        "networks, lines the prediction from their initial weights and the signals that pass through them."
    )
    return fig, caption


@figure("concentration")
def concentrations(p: Pathways, data: Data) -> tuple[Figure, str]:
    fig, (a, b, c) = plot.figure(1, 3, height=2.6, sharey=True)
    place = np.arange(len(p.depths))
    by_depth = np.stack([concentration(run.outputs) for run in data.linear.values()], axis=1)
    for g, (group, colour) in enumerate(COLOURS.items()):
        plot.points(a, place + 0.08 * (g - 1.5), by_depth[..., g], colour, group)
    for kind, colour, label, shift in (
        ("fixed", plot.BLUE, r"$\sigma$ fixed", 1.05),
        ("scaled", plot.ORANGE, r"$\sigma \propto 1/\sqrt{N}$", 0.95),
    ):
        values = networks.two_modes([data.width[n, kind].outputs for n in p.widths])
        plot.points(b, shift * np.array(p.widths), np.transpose(values), colour, label)
    for n, (f, colour) in enumerate(zip(NONLINEAR, (plot.RED, plot.GREEN), strict=True)):
        for j, (kind, marker) in enumerate((("outputs", "o"), ("weights", "^"))):
            values = networks.two_modes([data.nonlinear[f, d][kind] for d in p.depths])
            at, style = place + 0.08 * (2 * n + j - 1.5), {"fmt": marker, "alpha": 1 - 0.5 * j}
            plot.points(c, at, np.transpose(values), colour, f"{f}, {kind}", **style)
    for ax in (a, c):
        ax.set(xlabel="depth", xticks=place, xticklabels=p.depths)
        ax.legend(loc="upper left", ncols=2, columnspacing=0.8)
    a.set(ylabel="concentration", ylim=(0, 1.35), yticks=np.linspace(0, 1, 6), title="linear")
    plot.logarithmic(b.xaxis)
    b.set(xlabel="width N", title=f"linear, depth {p.width_depth}, modes 1-2", xticks=p.widths)
    b.minorticks_off()
    b.legend(loc="upper right")
    c.set(title="modes 1-2")
    caption = (
        "Concentration of modes on one pathway at the end: 0 shared evenly, 1 all on one; mean and standard "
        f"deviation over {p.seeds} networks ({p.nonlinear_seeds} with activations, {p.nonlinear_width} wide, "
        "weights scaled to the same output). Left: against depth. Middle: against width. Right: with "
        "activations, measured on the outputs of pathways and on the products of their weights."
    )
    return fig, caption


@figure("prediction")
def prediction(p: Pathways, data: Data) -> tuple[Figure, str]:
    fig, axes = plot.figure(1, len(p.depths), height=2.5, sharey=True)
    for ax, (d, run) in zip(axes, data.linear.items(), strict=True):
        share = first_share(leading(run.outputs[:, -1])).ravel()
        for (name, colour), marker in zip(PREDICTIONS.items(), "^so", strict=True):
            predicted = first_share(run.predicted.sel(prediction=name).values).ravel()
            ax.plot(predicted, share, marker, color=colour, ms=3, alpha=0.6, label=name)
        ax.plot([0, 1], [0, 1], color=plot.BLACK, lw=0.7)
        ax.set(title=f"depth {d}", xlabel="predicted share")
    axes[0].set(ylabel="share of the first pathway")
    plot.legend_below(fig, axes[0], 3)
    caption = (
        "The first pathway's share of modes 1 and 2 at the end, against what initial weights predict: by "
        "Eq. 17, by the strengths of modes in one neuron per layer, and by the weights between the signals "
        f"that pass through the layers at the start. {p.seeds} networks per depth."
    )
    return fig, caption


CONCENTRATE = "with larger depths, the features have a stronger tendency to concentrate on one pathway"


@claims
def trained(p: Pathways, data: Data) -> Iterator[Claim]:
    left = [float(run.loss[:, -1].max() / run.loss[:, 0].max()) for run in data.linear.values()]
    yield check("multipathway").below("learned", "largest loss at the end / first, linear", 1e-3, left)
    for run in data.published.values():
        name = "K at the end, published steps - flow, over S1"
        yield check("multipathway").near("published-steps", name, 0, run.off, 0.01)


@claims
def depth_trends(p: Pathways, data: Data) -> Iterator[Claim]:
    stated, few = paper("multipathway Fig. 5", CONCENTRATE), few_networks(p)
    groups = [concentration(run.outputs) for run in data.linear.values()]
    for g, group in enumerate(GROUPS):
        value = networks.trend(p.depths, [c[:, g] for c in groups], "greater")
        name = f"{group} more on one pathway with depth, linear: p"
        yield stated.below(f"depth-{kebab(group)}", name, 0.01, value, few)
    lead = networks.two_modes(run.outputs for run in data.linear.values())
    for k, (shallow, deep) in enumerate(pairwise(p.depths)):
        value = mannwhitneyu(lead[k + 1], lead[k], alternative="greater").pvalue
        name = f"modes 1-2, depth {deep} more than {shallow}, linear: p"
        yield stated.below(f"depth-{deep}-over-{shallow}", name, 0.01, value, few)
    for f, source in zip(NONLINEAR, ("multipathway Fig. 7", "multipathway Fig. 8"), strict=True):
        runs = [data.nonlinear[f, d] for d in p.depths]
        left = max(float((run.loss[:, -1] / run.loss[:, 0]).max()) for run in runs)
        note = f"{p.nonlinear_seeds} networks per depth, {p.nonlinear_width} wide."
        note += f" Largest loss at the end / first {left:.2g}."
        for kind in ("outputs", "weights"):
            value = networks.trend(p.depths, networks.two_modes(run[kind] for run in runs), "greater")
            name = f"modes 1-2 more on one pathway with depth, {f}, {kind}: p"
            yield paper(source, CONCENTRATE).below(f"depth-{f}-{kind}", name, 0.01, value, note)


def few_networks(p: Pathways) -> str:
    return f"{p.seeds} networks each." + " Few for a test of significance." * (p.seeds < 20)


@claims
def symmetry(p: Pathways, data: Data) -> Iterator[Claim]:
    even = "the singular values are more or less divided evenly across the pathways."
    single = "Even by depth 7, the largest singular values are concentrated on one or the other pathway."
    far = "Random starts do not reach |C'| s far above 1 at this depth."
    shallow, deep = p.depths[0], p.depths[-1]
    for key, depth, expected, quote, note in (
        ("shallowest", shallow, 0, even, ""),
        ("deepest", deep, 1, single, far),
    ):
        stated, (value,) = (
            paper("multipathway Fig. 5", quote),
            networks.two_modes([data.linear[depth].outputs]),
        )
        name = f"concentration at depth {depth}, modes 1-2"
        yield stated.near(f"concentration-{key}", name, expected, value, 0.25, note)
    random = paper("multipathway Fig. 6", "the final assignment of the features to each pathway is random.")
    first = first_share(leading(data.linear[deep].outputs[:, -1]))[:, 0] > 0.5
    name, both = f"depth {deep}, networks with mode 1 on the first pathway", 0 < first.mean() < 1
    yield random.relation("assignment-random", name, "between 0 and 1", first, both)
    breaks = paper(
        "multipathway section 3.2",
        "In the strict limit, the solutions therefore must be equal across all pathways. Finite size "
        "fluctuations in the initial state will break this symmetry.",
    )
    for kind, std in (("fixed", "sigma fixed"), ("scaled", "sigma / sqrt(N)")):
        value = networks.trend(
            p.widths, networks.two_modes(data.width[n, kind].outputs for n in p.widths), "less"
        )
        name = f"modes 1-2 less on one pathway with width, {std}: p"
        yield breaks.below(f"width-{kind}", name, 0.01, value, few_networks(p))


@claims
def diagonal_solutions(p: Pathways, data: Data) -> Iterator[Claim]:
    becomes = paper(
        "multipathway Fig. 4",
        "In the initial state the K_a starts as a uniform random matrix and quickly becomes diagonal",
    )
    groups, total = list(GROUPS.values()), []
    note = "What is off the diagonal in one pathway is undone by the others, and stays: see the eigenvalues."
    for d, run in data.linear.items():
        end = run.outputs[:, -1]
        total.append(nr.measure.off_diagonal_share(end.sum("pathway"), groups).max())
        off = nr.measure.off_diagonal_share(end, groups).mean(axis=1)
        name = f"depth {d}, squared K off the diagonal at the end"
        yield becomes.below(f"diagonal-depth-{d}", name, 0.05, off, note)
    name = "squared K off the diagonal at the end, sum over pathways"
    steady = paper("multipathway Eq. 12", "in the steady state we have Omega(t -> infinity) = S")
    yield steady.below("diagonal-sum", name, 1e-3, total)
    stable = paper(
        "multipathway section 3.2",
        "these diagonal solutions are stable to off-diagonal perturbations, meaning that at finite size the "
        "small corrections [...] will decay to zero",
    )
    note = "Only the sum of pathways is driven to the diagonal; all else is neutral, and grows before."
    for d, run in data.stability.items():
        end, scale = run.rates[-1], np.abs(run.rates).max()
        name = f"depth {d}, largest off-diagonal eigenvalue at the end / fastest"
        yield stable.below(f"stable-depth-{d}", name, 1e-3, end.max() / scale)
        name = f"depth {d}, share of off-diagonal perturbations that decay at the end"
        yield stable.near(f"decay-depth-{d}", name, 1, (end < -1e-3 * scale).mean(), 1e-9, note)


@claims
def predictions(p: Pathways, data: Data) -> Iterator[Claim]:
    quote = (
        "For wide networks with random weight initialization, the learning dynamics reduces to a coupled set "
        "of ordinary differential equations"
    )
    orthogonal = "Gaussian layers are not orthogonal, and Eq. 17 leaves out most of the last one."
    spread = "Few directions of the initial weights are followed, which tells less the deeper the network."
    last = "Where the last layer is random too, all layers learn from the start, not the last one only."
    source = "multipathway Eq. 17-22"
    for d, run in data.linear.items():
        shares = first_share(leading(run.outputs[:, -1]))
        for method in PREDICTIONS:
            predicted = first_share(run.predicted.sel(prediction=method).values)
            value = [np.corrcoef(a, b)[0, 1] for a, b in zip(predicted.T, shares.T, strict=True)]
            stated = paper(source, quote) if method == "Eq. 17" else finding(source)
            name = f"depth {d}, correlation of predicted and final share, {method}, modes 1 and 2"
            note = orthogonal if method == "Eq. 17" else spread
            yield stated.above(f"share-{kebab(method)}-depth-{d}", name, 0.9, value, note)
        name, rate = f"depth {d}, initial growth of K / Eq. 17", run.rate.mean(["pathway", "mode"])
        yield paper("multipathway Eq. 17", quote).near(f"growth-depth-{d}", name, 1, rate, 0.2, last)


EXPERIMENT = Experiment(
    "pathways",
    "Parallel pathways: depth breaks the symmetry between them",
    "multipathway Fig. 4-8",
    Pathways(),
    Pathways(
        seeds=10, width=32, std=0.056, depths=(2, 3), epochs=(400, 1000), mixed=(2,), widths=(12, 32),
        nonlinear_width=24,
    ),
    minutes=(0.7, 8.0),
    # Tests of significance ask for 20 networks and four depths; other claims for depth 7 or great width.
    needs_full=("depth-*", "width-*", "concentration-deepest", "diagonal-depth-*"),
)  # fmt: skip
