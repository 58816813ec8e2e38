"""Which layer of a deep network is looked at decides the effective learning rates: the deeper it lies, the
more weights are before it and the fewer after it. The default network of the paper learns two samples, and
the theory is fitted at every hidden layer. Distances start smaller in later layers, where a linear
approximation should hold better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from neuralrace import plot
from neuralrace.experiments.old import Claim, Experiment, Parameters, Parts, Results, check, option, paper
from neuralrace.experiments.representations_align.two_point import BOUND, fit
from neuralrace.universality import ZOO, Network, train, two_points

FIG = "representations_align Fig. 10"


@dataclass(frozen=True)
class Layers(Parameters):
    seeds: int = option(5, "random starts", least=2)
    depth: int = option(20, "hidden layers", least=4)
    width: int = option(500, "units of each hidden layer")
    gain: float = option(ZOO["default"][0].gain, "gain of the initial Xavier weights")
    lr: float = option(ZOO["default"][1], "learning rate")
    steps: int = option(6000, "steps of training", least=100)


def compute(p: Layers, parts: Parts) -> Results:
    return parts("layers", fits, p)


def fits(p: Layers) -> dict[str, Any]:
    """Fits at every layer `(seeds, layers)`, nan where the series do not tell the rates."""
    network = Network(p.depth, p.width, gain=p.gain)
    run = train(network, *two_points(), p.lr, p.steps, range(p.seeds))
    found = np.full((4, p.seeds, p.depth), np.nan)
    for seed in range(p.seeds):
        for layer in range(p.depth):
            if (f := fit(run, seed, layer=layer + 1)) is not None:
                found[:, seed, layer] = f.rate_h, f.rate_y, f.error, f.final
    names = ("rate_h", "rate_y", "error", "final")
    return {
        **dict(zip(names, found, strict=True)),
        "start": run.recorded["dh2"][:, 0], "end": run.recorded["dh2"][:, -1], "converged": run.converged(),
    }  # fmt: skip


def order(values: np.ndarray) -> np.ndarray:
    """Rank correlation of each row with the layer, `(seeds,)`."""
    return np.array([spearmanr(np.arange(len(v)), v, nan_policy="omit")[0] for v in values])


def figures(p: Layers, r: Results) -> dict[str, tuple[Figure, str]]:
    fig, (a, b, c) = plot.figure(1, 3, height=2.3)
    layers = np.arange(1, p.depth + 1)
    for ax in (a, b, c):
        ax.axvspan(0.5, p.depth / 2 + 0.5, color="0.93", lw=0, zorder=0)
        ax.set(xlabel="hidden layer", xlim=(0.5, p.depth + 0.5))
    plot.points(a, layers, r["error"], plot.RED)
    a.axhline(BOUND, color=plot.BLACK, lw=0.8, ls="--")
    a.set(ylabel="error of the fit", ylim=(0, None), title="earlier half grey")
    plot.points(b, layers, r["rate_h"], plot.BLUE, "encoder, 1/τh")
    plot.points(b, layers, r["rate_y"], plot.ORANGE, "decoder, 1/τy")
    plot.logarithmic(b.yaxis)
    b.set(ylabel="effective learning rate")
    b.legend()
    plot.points(c, layers, r["end"], plot.BLUE, "end")
    plot.theory(c, layers, np.nanmean(r["final"], axis=0), plot.BLUE, "end, Eq. 10")
    plot.points(c, layers, r["start"], plot.GREEN, "start")
    plot.theory(c, layers, r["start"][:, 0].mean() * gain(p) ** (layers - 1), plot.GREEN, "start, Eq. 14")
    c.set(ylabel="|dh|²", yscale="log")
    c.legend()
    caption = (
        f"The default network ({p.depth} layers of {p.width} units, {p.seeds} seeds, mean and standard "
        "deviation), the theory fitted at every hidden layer: error of the fit as a share of each series' "
        "largest value (dashed: bound of the claims), effective learning rates, and distances of "
        "representations at the start and at the end."
    )
    return {"layers": (fig, caption)}


def gain(p: Layers) -> float:
    """Factor of squared distances per layer: inputs of one sign open the same half of the units."""
    return p.gain**2 * (1 + 0.01**2) / 2


def claims(p: Layers, r: Results) -> list[Claim]:
    half, quarter = p.depth // 2, p.depth // 4
    early, late, first = (
        r["error"][:, some].mean(axis=1) for some in (slice(half), slice(half, None), slice(quarter))
    )
    falls = (r["start"][:, -1] / r["start"][:, 0]) ** (1 / (p.depth - 1))
    ends = (r["end"] / r["final"])[:, half:].mean(axis=1)
    encoder, decoder = (order(r[n][:, half:]) for n in ("rate_h", "rate_y"))
    before = order(r["rate_y"][:, :half])
    eq = "representations_align Eq."
    return [
        paper.below("fit-later", "error of the fit, mean of the later half of layers", FIG, BOUND, late),
        paper.above(
            "fit-earlier-over-later", "error in the earlier half / in the later half", FIG, 1, early / late
        ),
        paper.above(
            "fit-first-quarter", "error in the first quarter of layers: the theory fails", FIG, BOUND, first
        ),
        paper.above(
            "encoder-rate", "encoder's rate and depth, later half, rank correlation", FIG, 0.9, encoder
        ),
        paper.below(
            "decoder-rate", "decoder's rate and depth, later half, rank correlation", FIG, -0.9, decoder
        ),
        paper.above(
            "decoder-rate-earlier", "decoder's rate and depth, earlier half, rank correlation", FIG, 0,
            before,
        ),
        paper.near(
            "initial-distance", "initial squared distance, factor per layer", f"{eq} 14", gain(p), falls,
            0.05,
        ),
        check.near(
            "final-distance", "final distance / Eq. 10 of the fit, later half", f"{eq} 10", 1, ends, 0.05
        ),
        check.above("converged", "share of networks that converged", FIG, 0.99, r["converged"].mean()),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "layers",
    "Effective learning rates against depth",
    "representations_align Fig. 10",
    Layers(),
    Layers(seeds=2, depth=10, width=60, steps=2000),
    compute,
    figures,
    claims,
    (0.2, 4),
    needs_full=("encoder-rate", "decoder-rate"),  # the order of ten layers; here there are five
)
