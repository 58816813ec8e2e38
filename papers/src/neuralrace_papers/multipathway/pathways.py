"""Parallel pathways from the same inputs to the same outputs share what they learn: in the singular basis
of the task, pathway a carries K_a, and all K_a add up to the singular values. From random weights nothing but
chance tells pathways apart. The deeper they are, the more of that chance is left in the end: modes
concentrate on one pathway; the wider, the less. What each carries is predicted from the initial weights."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
from scipy.stats import binomtest, mannwhitneyu

from neuralrace import plot
from neuralrace_papers.framework.claim import CHOSEN, check, finding, kebab, paper
from neuralrace_papers.framework.declaration import Data, claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, option, require
from neuralrace_papers.framework.quotes import quoted
from neuralrace_papers.multipathway import networks, pathway_figures
from neuralrace_papers.multipathway.networks import GROUPS, concentration, first_share, leading
from neuralrace_papers.multipathway.pathway_figures import READ

PREDICTIONS = {
    "Eq. 17": ("Eq. 17", plot.RED, "^"),
    "modes": ("one neuron per layer and mode", plot.ORANGE, "s"),
    "signals": ("weights between the initial signals", plot.BLUE, "o"),
}
WEIGHTS = {"large": r"$N(0, \sigma^2)$", "small": r"$N(0, \sigma^2/N)$"}
STEPS = 10  # shown in Fig. 4
SIGNIFICANT = "a standard of ours: significance at 1%"
FAIR = "a standard of ours: a fair coin is not refuted at 1%"
EVEN = "a standard of ours: concentration within a quarter of its range"
FINITE = "an equation; a fifth for finite width"


class Pathways(networks.Published):
    seeds: int = option(20, "random starts of each linear network", least=2, most=1000)
    epochs: tuple[int, ...] = option(
        (1000, 10_000, 10_000, 20_000), "steps in the published code, for each of depths"
    )
    printed_epochs: int = option(1000, "steps that the paper states")
    mixed: tuple[int, ...] = option((3, 4, 5), "depths in one network", least=2, count=2)
    mixed_seeds: int = option(5, "random starts of it", least=2, most=1000)
    method: str = option("flow", "gradient flow, or descent as published", choices=("flow", "descent"))
    error: float = option(0.01, "error that is allowed to the flow of wide networks")
    widths: tuple[int, ...] = option(
        (100, 300, 1000, 3000), "compared widths", least=8, count=2, increasing=True
    )
    width_depth: int = option(3, "depth of the pathways where widths are compared", least=2)

    def check(self) -> None:
        fits = len(self.epochs) == len(self.depths)
        require(fits, f"epochs must have one entry for each of depths {self.depths}, got {self.epochs}")

    @property
    def t1(self) -> dict[int, float]:
        """End of training for each depth, flow time."""
        return {d: n * self.epoch for d, n in zip(self.depths, self.epochs, strict=True)}


@part(each="depths")
def linear(p: Pathways, depth: int):
    return networks.train(p, [depth] * p.pathways, depth, p.t1[depth], p.seeds)


@part
def mixed(p: Pathways):
    """Networks with pathways of different depths."""
    return networks.train(p, p.mixed, 0, max(p.t1.values()), p.mixed_seeds)


@part(each=lambda p: [*product(p.widths, ("fixed", "scaled")), *product([p.width], WEIGHTS)])
def sized(p: Pathways, item: tuple[int, str]):
    """Final networks of other sizes: at each width with the same standard deviation, or with outputs of the
    same size; at `width` with std, or with std / sqrt(width)."""
    n, kind = item
    std = {"scaled": p.std * np.sqrt(p.width / n), "small": p.std / np.sqrt(n)}.get(kind, p.std)
    series = n + {"large": 1, "small": 2}.get(kind, 0)
    depths = [p.width_depth] * p.pathways
    return networks.train(p, depths, series, max(p.t1.values()), p.seeds, (n, std)).isel(t=[-1])


@part
def first_steps(p: Pathways):
    """The first steps of the published descent, shallowest networks."""
    task, save = networks.task([p.depths[0]] * p.pathways, p.width), p.epoch * np.arange(STEPS)
    return networks.descent(p, task, p.depths[0], STEPS - 1, save)


@part(each=lambda p: p.depths[:1] if p.method == "flow" else ())
def published(p: Pathways, depth: int, data):
    """The same networks by descent with the published rate: largest difference from the flow's final K."""
    steps = round(p.t1[depth] / p.epoch)
    task, save = networks.task([depth] * p.pathways, p.width), networks.times(p.t1[depth])
    end = networks.descent(p, task, depth, steps, save)["outputs"][1][:, -1]
    off = np.abs(end - data.linear[depth].outputs.values[:, -1]).max(axis=(1, 2, 3))
    return {"off": ("run", off / networks.S[0])}


@figure("learning")
def learning(p: Pathways, data):
    runs = {f"depth {d}": run for d, run in data.linear.items()}
    how = "gradient flow" if p.method == "flow" else "descent"
    return pathway_figures.learning(runs, p.epoch), (
        f"Learning in one linear network per depth (Fig. 5), {p.width} wide, weights of standard deviation "
        f"{p.std:g}, {how} for the time of {', '.join(map(str, p.epochs))} epochs (the text has "
        f"{p.printed_epochs}). {READ}"
    )


@figure("seeds")
def two_seeds(p: Pathways, data):
    deep = p.depths[-1]
    runs = {f"depth {deep}, seed {k + 1}": data.linear[deep].isel(run=slice(k, k + 1)) for k in (0, 1)}
    return pathway_figures.learning(runs, p.epoch), (
        f"Two networks of depth {deep} that differ in their seed only (Fig. 6), {p.width} wide. {READ}"
    )


@figure("diagonal")
def diagonal(p: Pathways, data):
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
        "pathways."
    )


@figure("initial-weights")
def from_initial_weights(p: Pathways, data):
    deep = p.depths[-1]
    chosen = [(f"depth {deep}, seed {k + 1}", data.linear[deep], k) for k in (0, 1)]
    chosen.append((f"depths {', '.join(map(str, p.mixed))}", data.mixed, 0))
    return pathway_figures.predicted(chosen, p.epoch), (
        "Modes 1 and 2 in two networks that differ in their seed only, and in one with pathways of different "
        "depths; predicted from their initial weights and the signals that pass through them."
    )


@figure("concentration")
def concentrations(p: Pathways, data):
    fig, (a, b, c) = plot.figure(1, 3, height=2.8, sharey=True, width_ratios=[3, 3, 2])
    place = np.arange(len(p.depths))
    by_depth = np.stack([concentration(run.outputs) for run in data.linear.values()], axis=1)
    for g, (group, colour) in enumerate(pathway_figures.COLOURS.items()):
        plot.points(a, place + 0.08 * (g - 1.5), by_depth[..., g], colour, group)
    wide = np.array(p.widths)
    for kind, ax, x, colour, label in (
        ("fixed", b, 1.05 * wide, plot.BLUE, "std fixed"),
        ("scaled", b, 0.95 * wide, plot.ORANGE, r"std $\propto 1/\sqrt{N}$"),
        ("large", c, [0], plot.BLUE, WEIGHTS["large"]),
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
        f"deviation over {p.seeds} linear networks. Left: against depth, N = {p.width}, weights of standard "
        f"deviation {p.std:g}. Middle: against width; the two meet at N = {p.width}. Right: smaller weights "
        "make for more concentration, not less."
    )


def by_size(data: Data, kind: str) -> list[np.ndarray]:
    """Concentration of modes 1-2 in networks of each width, of one kind of initial weights."""
    return networks.two_modes(run.outputs for (_, own), run in data.sized.items() if own == kind)


@figure("prediction")
def prediction(p: Pathways, data):
    fig, axes = plot.figure(1, len(p.depths), height=2.6, sharey=True)
    for ax, (d, run) in zip(axes, data.linear.items(), strict=True):
        share = first_share(leading(run.outputs[:, -1])).ravel()
        for name, (label, colour, marker) in PREDICTIONS.items():
            predicted = first_share(run.predicted.sel(prediction=name).values).ravel()
            ax.plot(predicted, share, marker, color=colour, ms=3, alpha=0.6, label=label)
        ax.plot([0, 1], [0, 1], color=plot.BLACK, lw=0.7, label="predicted = network")
        ax.set(title=f"depth {d}", xlabel="predicted share")
    axes[0].set(ylabel="share in the network")
    plot.legend_below(fig, axes[0], 4)
    return fig, (
        "The first pathway's share of modes 1 and 2 at the end, in networks and as initial weights predict "
        "it: by Eq. 17, by the strengths of modes in one neuron per layer, and by the weights between the "
        f"signals that pass through the layers at the start. {p.seeds} networks per depth."
    )


@claims
def trained(p: Pathways, data):
    left = [float(run.loss[:, -1].max() / run.loss[:, 0].max()) for run in data.linear.values()]
    yield check("multipathway", CHOSEN).below(
        "learned", "largest loss at the end / first, linear", 1e-3, left
    )
    for run in data.published.values():
        name = "K at the end, published steps - flow, over S1"
        yield check("multipathway", CHOSEN).near("published-steps", name, 0, run.off, 0.01)
    stated = quoted("multipathway section 4", "epochs")
    bound = "a standard of ours: learned where 1% of the loss is left"
    for d, run in data.linear.items():
        left = run.loss.interp(t=min(p.printed_epochs * p.epoch, float(run.t[-1]))) / run.loss[:, 0]
        name = f"depth {d}, loss after {p.printed_epochs} epochs / first"
        code = p.epochs[p.depths.index(d)]
        note = f"Deeper networks learn more slowly: the authors' code has {code} epochs at this depth."
        yield stated.below(f"printed-epochs-depth-{d}", name, 0.01, left, note, bound)


@claims
def depth_trends(p: Pathways, data):
    quote = "with larger depths, the features have a stronger tendency to concentrate on one pathway"
    stated, few = paper("multipathway Fig. 5", quote), few_networks(p)
    groups = [concentration(run.outputs) for run in data.linear.values()]
    for g, group in enumerate(GROUPS):
        value = networks.trend(p.depths, [c[:, g] for c in groups], "greater")
        name = f"{group} more on one pathway with depth, linear: p"
        yield stated.below(f"depth-{kebab(group)}", name, 0.01, value, few, SIGNIFICANT)
    broken = quoted("multipathway section 4", "broken-at-3-and-4")
    lead = {d: c[:, :2].mean(axis=1) for d, c in zip(p.depths, groups, strict=True)}
    for shallow, deep in pairwise(p.depths):
        value = more_on_one(lead[deep], lead[shallow])
        name = f"modes 1-2, depth {deep} more than {shallow}, linear: p"
        source = broken if deep in (3, 4) else stated
        yield source.below(f"depth-{deep}-over-{shallow}", name, 0.01, value, few, SIGNIFICANT)


def more_on_one(a: np.ndarray, b: np.ndarray) -> float:
    """p of a one-sided test that networks a concentrate modes more than networks b."""
    return float(mannwhitneyu(a, b, alternative="greater").pvalue)


def few_networks(p: Pathways) -> str:
    return f"{p.seeds} networks each." + " Few for a test of significance." * (p.seeds < 20)


@claims
def symmetry(p: Pathways, data):
    even, single = (quoted("multipathway Fig. 5", id) for id in ("depth-2-even", "depth-7-concentrated"))
    first, *_, last = networks.two_modes(run.outputs for run in data.linear.values())
    name = "concentration at depth {}, modes 1-2".format
    yield even.near("concentration-shallowest", name(p.depths[0]), 0, first, 0.25, bound=EVEN)
    far = "Random starts do not reach |C'| s far above 1 at this depth."
    yield single.near("concentration-deepest", name(p.depths[-1]), 1, last, 0.25, far, EVEN)
    breaks = quoted("multipathway section 3.2", "strict-limit")
    for kind, std in (("fixed", "std fixed"), ("scaled", "std / sqrt(N)")):
        name = f"modes 1-2 less on one pathway with width, {std}: p"
        value = networks.trend(p.widths, by_size(data, kind), "less")
        yield breaks.below(f"width-{kind}", name, 0.01, value, few_networks(p), SIGNIFICANT)
    enhance = quoted("multipathway section 3.2", "larger-fluctuations")
    (large,), (small,) = (by_size(data, kind) for kind in WEIGHTS)
    note = (
        "Fluctuations relative to a layer's size are 1/sqrt(N) in both; larger layers amplify them less (Eq. "
        f"22). Concentration {large.mean():.2g} and {small.mean():.2g}."
    )
    more = "modes 1-2 more on one pathway with N(0, sigma) than N(0, sigma/sqrt N)"
    name, value = f"{more}, depth {p.width_depth}: p", more_on_one(large, small)
    yield enhance.below("larger-weights", name, 0.01, value, note, SIGNIFICANT)


@claims
def assignment(p: Pathways, data):
    """Two-sided binomial tests against a fair coin, networks of all depths together."""
    first = np.concatenate([first_share(leading(run.outputs[:, -1])) > 0.5 for run in data.linear.values()])
    random = paper("multipathway Fig. 6", "the final assignment of the features to each pathway is random.")
    apart = quoted("multipathway section 5", "no-preference")
    for stated, key, words, which in (
        (random, "assignment-mode-1", "mode 1 mostly on the first pathway", first[:, 0]),
        (random, "assignment-mode-2", "mode 2 mostly on the first pathway", first[:, 1]),
        (apart, "modes-independent", "modes 1 and 2 mostly on the same pathway", first[:, 0] == first[:, 1]),
    ):
        wins, n = int(which.sum()), len(which)
        name, chance = f"{words} in {wins} of {n} networks: p", binomtest(wins, n).pvalue
        note = f"One fair coin in {1 / chance:.0f} is as uneven, and there are three. All depths together."
        yield stated.above(key, name, 0.01, chance, note, FAIR)


@claims
def different_depths(p: Pathways, data):
    run, shallow = data.mixed, int(np.argmin(p.mixed))
    end = leading(run.outputs[:, -1])  # (run, pathway, mode)
    rest = 1 - end[:, shallow] / end.sum(axis=1)
    related = paper("multipathway Eq. 21-22", "Different pathways will then be related by the relationship")
    note = (
        "Deeper pathways learn faster than Eq. 17 says, as all of their random layers learn from the start. "
        f"The shallowest has {1 - rest.mean():.1%}."
    )
    for key, stated, why, bound in (
        ("Eq. 17", related, note, FINITE),
        ("signals", finding(related.source), "", "a standard of ours: a fifth"),
    ):
        predicted = run.predicted.sel(prediction=key).values
        off = rest / (1 - predicted[:, shallow] / predicted.sum(axis=1))
        share = f"share of the deeper pathways / by {PREDICTIONS[key][0]}"
        name = f"depths {', '.join(map(str, p.mixed))}, modes 1-2: {share}"
        yield stated.near(f"mixed-{kebab(key)}", name, 1, off.mean(axis=1), 0.2, why, bound)


@claims
def diagonal_solutions(p: Pathways, data):
    becomes = paper(
        "multipathway Fig. 4",
        "In the initial state the K_a starts as a uniform random matrix and quickly becomes diagonal after a "
        "few time steps.",
    )
    first, small = networks.off_diagonal(data.first_steps), "a standard of ours: 5% of the squares"
    outside = 1 - sum(len(group) ** 2 for group in GROUPS.values()) / len(networks.S) ** 2
    name = "depth {}, squared K off the diagonal{}".format
    equal = "theory: entries of equal variance"
    what, last = (name(p.depths[0], f", {when}") for when in ("start", f"step {STEPS - 1}"))
    yield becomes.near("starts-random", what, outside, first[:, 0], 0.05, bound=equal)
    yield becomes.below("diagonal-first-steps", last, 0.05, first[:, -1], bound=small)
    note = "What is off the diagonal in one pathway is undone by the others, and stays."
    for d, run in data.linear.items():
        off, learned = networks.off_diagonal(run), 1 - run.loss.values / run.loss.values[:, :1]
        later, what = np.where(learned > 0.1, off, 0).max(axis=1), ", most from a tenth of the loss on"
        yield becomes.below(f"diagonal-along-depth-{d}", name(d, what), 0.05, later, note, small)
        yield becomes.below(f"diagonal-depth-{d}", name(d, " at the end"), 0.05, off[:, -1], note, small)
    steady = paper("multipathway Eq. 12", "in the steady state we have Omega(t -> infinity) = S")
    sums = [run.outputs[:, -1].sum("pathway") - np.diag(networks.S) for run in data.linear.values()]
    off = [float(np.abs(rest).max()) / networks.S[0] for rest in sums]
    name = "largest entry of U^T Omega V - S at the end, over S1, by depth"
    yield steady.below("steady-state", name, 0.01, off, bound="a standard of ours: 1%")


@claims
def predictions(p: Pathways, data):
    orthogonal = "Gaussian layers are not orthogonal, and Eq. 17 leaves out most of the last one."
    spread = "Few directions of the initial weights are followed, which tells less the deeper the network."
    last = "Where the last layer is random too, all layers learn from the start, not the last one only."
    source, bound = "multipathway Eq. 17-22", "a standard of ours: four fifths of the variance"
    stated = {name: (finding(source), spread) for name in PREDICTIONS}
    stated["Eq. 17"] = (quoted(source, "result-1"), orthogonal)
    eq_17 = quoted("multipathway Eq. 17", "result-1")
    for d, run in data.linear.items():
        shares = first_share(leading(run.outputs[:, -1]))
        for method, (label, _, _) in PREDICTIONS.items():
            predicted = first_share(run.predicted.sel(prediction=method).values)
            value = [np.corrcoef(a, b)[0, 1] for a, b in zip(predicted.T, shares.T, strict=True)]
            name = f"depth {d}, correlation of predicted and final share, {label}, modes 1 and 2"
            kind, note = stated[method]
            yield kind.above(f"share-{kebab(method)}-depth-{d}", name, 0.9, value, note, bound)
        name, rate = f"depth {d}, initial growth of K / Eq. 17", run.rate.mean(["pathway", "mode"])
        yield eq_17.near(f"growth-depth-{d}", name, 1, rate, 0.2, last, FINITE)


EXPERIMENT = Experiment(
    "pathways",
    "Parallel pathways: depth breaks the symmetry between them",
    "multipathway Fig. 4-6",
    Pathways(),
    Pathways(
        seeds=10, width=32, std=0.056, depths=(2, 3), epochs=(300, 500), mixed=(2, 3), mixed_seeds=2,
        widths=(12, 32),
    ),
    minutes=(0.3, 9.0),
    # Tests of significance ask for 20 networks and four depths; other claims for depth 7 or great width.
    needs_full=(
        "depth-*", "width-*", "concentration-deepest", "diagonal-depth-*", "diagonal-along-*",
        "diagonal-first-steps", "printed-epochs-*",
    ),
)  # fmt: skip
