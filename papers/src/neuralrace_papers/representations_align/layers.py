"""The effective learning rates depend on the layer that is looked at: the deeper it lies, the more weights
are before it and the fewer after it. The default network of the paper learns two samples, and the theory is
fitted at every hidden layer, as the paper does (two rates, from the observed start) and with the start fitted
too. Distances start smaller in later layers, where a linear approximation should hold better."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import spearmanr

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework.claim import CHOSEN, check, finding, paper
from neuralrace_papers.framework.declaration import claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option
from neuralrace_papers.framework.quotes import quoted
from neuralrace_papers.representations_align.fits import both_ways
from neuralrace_papers.zoo import ZOO, Network, train

PAPER, SOURCE = "representations_align", "representations_align Fig. 10"
BOUND = 0.05  # share of a series' largest value
LEAK = 0.01  # slope of a leaky rectifier below 0


class Layers(Parameters):
    seeds: int = option(5, "random starts", least=2)
    dx2: float = option(1.0, "squared distance of the inputs")
    dy2: float = option(0.5, "squared distance of the targets")
    depth: int = option(20, "hidden layers", least=4)
    width: int = option(500, "units of each hidden layer")
    gain: float = option(ZOO["default"][0].gain, "gain of the initial Xavier weights")
    lr: float = option(ZOO["default"][1], "learning rate")
    steps: int = option(6000, "steps of training", least=100)

    @property
    def growth(self) -> float:
        """Factor of squared distances per layer: inputs of one sign open the same half of the units."""
        return self.gain**2 * (1 + LEAK**2) / 2


@part
def networks(p: Layers):
    """The theory fitted at every layer in both ways, with distances at the start and at the end."""
    network = Network(p.depth, p.width, gain=p.gain)
    run = train(network, *nr.tasks.two_points(p.dx2, p.dy2).arrays, p.lr, p.steps, range(p.seeds))
    fits = both_ways(run, layers=range(1, p.depth + 1))
    dh2 = run.recorded["dh2"]
    return fits.drop_dims("series").assign(
        start=(("run", "layer"), dh2[:, 0]),
        end=(("run", "layer"), dh2[:, -1]),
        shape=(("run", "t", "layer"), dh2[:, :: max(1, p.steps // 300)][:, : fits.sizes["t"]] / dh2[:, -1:]),
        converged=("run", run.converged()),
    )


def rank_correlation(values: xr.DataArray) -> list[Any]:
    """With the layer, of each run."""
    return [spearmanr(values.layer, one, nan_policy="omit")[0] for one in values]


@figure("layers")
def by_layer(p: Layers, data):
    found, layer = data.networks, data.networks.layer
    fig, (errors, rates, distances) = plot.figure(1, 3, width=plot.PAGE, height=2.9)
    for ax in (errors, rates, distances):
        ax.axvspan(0.5, p.depth / 2 + 0.5, color="0.93", lw=0, zorder=0, label="earlier half")
    plot.points(errors, layer, found.error.sel(fit="rates"), plot.RED, "two rates fitted (Eq. 49)")
    plot.points(errors, layer, found.error.sel(fit="start"), plot.PINK, "start fitted too")
    errors.axhline(BOUND, color=plot.BLACK, lw=0.8, ls="--", label="standard of the claims")
    errors.set(ylabel="error / largest value of a series", ylim=(0, None))
    both = found.sel(fit="rates")
    plot.points(rates, layer, both.rate_h, plot.BLUE, "encoder, 1/τh (Eq. 49)")
    plot.points(rates, layer, both.rate_y, plot.ORANGE, "decoder, 1/τy (Eq. 49)")
    plot.logarithmic(rates.yaxis)
    rates.set(ylabel="rate, 1 / (steps times lr)")
    plot.points(distances, layer, found.end, plot.BLUE, "after learning")
    plot.points(distances, layer, found.start, plot.GREEN, "before learning")
    scaling = float(found.start[:, 0].mean()) * p.growth ** (layer - 1)
    plot.theory(distances, layer, scaling, plot.GREEN, "before, Eq. 14")
    distances.set(ylabel="|dh|²", yscale="log")
    above = {**plot.ABOVE, "bbox_to_anchor": (0.45, 1.0)}
    plot.label((errors, rates, distances), "hidden layer", legend=above, xlim=(0.5, p.depth + 0.5))
    return fig, (
        f"The default network ({p.depth} layers of {p.width} units, {p.seeds} seeds, mean and standard "
        "deviation), the theory fitted at every hidden layer: root mean square error of the fit, effective "
        f"learning rates, and squared distances of representations. Rate {p.lr:g} of Table 1 for {p.steps} "
        f"steps, on samples at squared distances of {p.dx2:g} and {p.dy2:g}; the authors' code has twice the "
        "rate and half the steps."
    )


STANDARD = "Stated standard: 5% of each series' largest value, root mean square over steps."
ORDER = "Stated standard for an order: rank correlation .9."


@claims
def accuracy(p: Layers, data):
    # Of all layers: a layer without a fit must not go unnoticed.
    parts = (slice(p.depth // 2), slice(p.depth // 2, None))
    means = [data.networks.error[..., some].mean("layer", skipna=False) for some in parts]
    early, late = (mean.sel(fit="rates") for mean in means)
    second_half, more = (quoted(SOURCE, id) for id in ("accurate-in-the-second-half", "later-more-accurate"))
    what = "{} fitted: error, mean of the {} half of layers".format
    yield second_half.near("fit-later", what("two rates", "later"), 0, late, BOUND, NEAR_END, STANDARD)
    yield second_half.above("fit-earlier", what("two rates", "earlier"), BOUND, early, bound=STANDARD)
    ratio = "two rates fitted: error in the earlier half / in the later half"
    yield more.above("fit-earlier-over-later", ratio, 1, early / late, bound="The paper: an order.")
    what, late = what("rates and start", "later"), means[1].sel(fit="start")
    yield finding(SOURCE).near("fit-start-later", what, 0, late, BOUND, bound=STANDARD)
    converged = data.networks.converged.mean()
    yield check(SOURCE, CHOSEN).above("converged", "share of networks that converged", 0.99, converged)


@claims
def rates(p: Layers, data):
    found, half = data.networks.sel(fit="rates"), p.depth // 2
    later = quoted(SOURCE, "rates-and-depth")
    what = "rank correlation of the {}'s rate with depth, {} half of layers".format
    encoder, decoder = (rank_correlation(found[name][:, half:]) for name in ("rate_h", "rate_y"))
    yield later.above("encoder-rate", what("encoder", "later"), 0.9, encoder, bound=ORDER)
    yield later.below("decoder-rate", what("decoder", "later"), -0.9, decoder, bound=ORDER)
    earlier, what = rank_correlation(found.rate_y[:, :half]), what("decoder", "earlier")
    increases = quoted(SOURCE, "decoder-rate-at-earlier-layers")
    yield increases.above("decoder-rate-earlier", what, 0, earlier, bound="The paper: a direction.")


@claims
def distances(p: Layers, data):
    scales = paper(
        f"{PAPER} Eq. 14",
        "The initial representational distance as a function of the depth n scales roughly as "
        "||dh(0)||^2 ~ G^n ||x_2 - x_1||^2.",
    )
    found, what = data.networks, "initial squared distance, factor per layer"
    factor = (found.start[:, -1] / found.start[:, 0]) ** (1 / (p.depth - 1))
    bound = "Theory: gain² (1 + leak²)/2 for inputs that open the same units; stated standard 10%."
    yield scales.near("initial-distance", what, p.growth, factor, 0.05, bound=bound)
    later = found.shape[..., p.depth // 2 :]
    alike = quoted(f"{PAPER} 5.2", "later-layers-alike")
    apart = np.sqrt(((later - later.mean("layer")) ** 2).mean("t")).max("layer")
    what = "|dh|² / its end in later layers: distance from their mean, the worst layer"
    yield alike.near("later-layers-alike", what, 0, apart, BOUND, ALIKE, STANDARD)


NEAR_END = "Fitted so, the theory is best in the middle of the later half, and worse again near the output."
ALIKE = "Only the size may differ by layer: two rates that are rescaled together change time, not the end."
EXPERIMENT = Experiment(
    "layers",
    "Effective learning rates against depth",
    "representations_align Fig. 10",
    Layers(),
    Layers(seeds=2, depth=10, width=60, lr=0.02, steps=2000),
    minutes=(0.2, 4),
    needs_full=("encoder-rate", "decoder-rate"),  # the order of ten layers; here there are five
)
