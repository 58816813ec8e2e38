"""The effective learning rates depend on the layer that is looked at: the deeper it lies, the more weights
are before it and the fewer after it. The default network of the paper learns two samples, and the theory is
fitted at every hidden layer. Distances start smaller in later layers, where a linear approximation should
hold better."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from scipy.stats import spearmanr

from neuralrace import plot
from neuralrace.experiments.claim import Claim, check, paper
from neuralrace.experiments.declaration import Data, claims, figure, part
from neuralrace.experiments.experiment import Experiment, Parameters, option
from neuralrace.universality import ZOO, Network, fit_runs, train, two_points

if TYPE_CHECKING:
    import xarray as xr

BOUND = 0.05  # share of a series' largest value
LEAK = 0.01  # slope of a leaky rectifier below 0


@dataclass(frozen=True)
class Layers(Parameters):
    seeds: int = option(5, "random starts", least=2)
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
def networks(p: Layers) -> xr.Dataset:
    """The theory fitted at every layer, with distances at the start and at the end."""
    network = Network(p.depth, p.width, gain=p.gain)
    run = train(network, *two_points(), p.lr, p.steps, range(p.seeds))
    fits = fit_runs(run, range(1, p.depth + 1), times=301).drop_dims("series")
    dh2 = run.recorded["dh2"]
    return fits.assign(
        start=(("run", "layer"), dh2[:, 0]),
        end=(("run", "layer"), dh2[:, -1]),
        converged=("run", run.converged()),
    )


def rank_correlation(values: xr.DataArray) -> list[Any]:
    """With the layer, of each run."""
    return [spearmanr(values.layer, one, nan_policy="omit")[0] for one in values]


@figure("layers")
def by_layer(p: Layers, data: Data) -> tuple[Figure, str]:
    found, layer = data.networks, data.networks.layer
    fig, (errors, rates, distances) = plot.figure(1, 3, height=2.3)
    for ax in (errors, rates, distances):
        ax.axvspan(0.5, p.depth / 2 + 0.5, color="0.93", lw=0, zorder=0)
        ax.set(xlabel="hidden layer", xlim=(0.5, p.depth + 0.5))
    plot.points(errors, layer, found.error, plot.RED)
    errors.axhline(BOUND, color=plot.BLACK, lw=0.8, ls="--")
    errors.set(ylabel="error of the fit", ylim=(0, None), title="earlier half grey")
    plot.points(rates, layer, found.rate_h, plot.BLUE, "encoder, 1/τh")
    plot.points(rates, layer, found.rate_y, plot.ORANGE, "decoder, 1/τy")
    plot.logarithmic(rates.yaxis)
    rates.set(ylabel="effective learning rate")
    rates.legend()
    plot.points(distances, layer, found.end, plot.BLUE, "end")
    plot.theory(distances, layer, found.final.mean("run"), plot.BLUE, "end, Eq. 10")
    plot.points(distances, layer, found.start, plot.GREEN, "start")
    scaling = float(found.start[:, 0].mean()) * p.growth ** (layer - 1)
    plot.theory(distances, layer, scaling, plot.GREEN, "start, Eq. 14")
    distances.set(ylabel="|dh|²", yscale="log")
    distances.legend()
    return fig, (
        f"The default network ({p.depth} layers of {p.width} units, {p.seeds} seeds, mean and standard "
        "deviation), the theory fitted at every hidden layer: error of the fit as a share of each series' "
        "largest value (dashed: bound of the claims), effective learning rates, and distances of "
        "representations at the start and at the end."
    )


@claims
def accuracy(p: Layers, data: Data) -> Iterator[Claim]:
    source, error, half = "representations_align Fig. 10", data.networks.error, p.depth // 2
    # Of all layers: a layer without a fit must not go unnoticed.
    early, late, first = (
        error[:, some].mean("layer", skipna=False)
        for some in (slice(half), slice(half, None), slice(p.depth // 4))
    )
    second_half = paper(
        source, "We can see that the theory is accurate only in the second half of the network."
    )
    yield second_half.below("fit-later", "error of the fit, mean of the later half of layers", BOUND, late)
    yield paper(
        source,
        "Indeed, as can be seen in Figure 10 (red) the effective theory models the learning behavior more "
        "accurately at the later layers.",
    ).above("fit-earlier-over-later", "error in the earlier half / in the later half", 1, early / late)
    what = "error in the first quarter of layers, where the theory fails"
    yield second_half.above("fit-first-quarter", what, BOUND, first)
    converged = data.networks.converged.mean()
    yield check(source).above("converged", "share of networks that converged", 0.99, converged)


@claims
def rates(p: Layers, data: Data) -> Iterator[Claim]:
    source, found, half = "representations_align Fig. 10", data.networks, p.depth // 2
    later = paper(
        source,
        "In this regime the effective learning rate of the encoder increases with depth, whereas the "
        "effective learning rate of the decoder decreases.",
    )
    what = "rank correlation of the {}'s rate with depth, {} half of layers".format
    encoder, decoder = (rank_correlation(found[name][:, half:]) for name in ("rate_h", "rate_y"))
    yield later.above("encoder-rate", what("encoder", "later"), 0.9, encoder)
    yield later.below("decoder-rate", what("decoder", "later"), -0.9, decoder)
    yield paper(
        source, "at earlier layers the effective learning rate for the decoder seems to increase"
    ).above("decoder-rate-earlier", what("decoder", "earlier"), 0, rank_correlation(found.rate_y[:, :half]))


@claims
def distances(p: Layers, data: Data) -> Iterator[Claim]:
    found = data.networks
    factor = (found.start[:, -1] / found.start[:, 0]) ** (1 / (p.depth - 1))
    yield paper(
        "representations_align Eq. 14",
        "The initial representational distance as a function of the depth n scales roughly as "
        "||dh(0)||^2 ~ G^n ||x_2 - x_1||^2.",
    ).near("initial-distance", "initial squared distance, factor per layer", p.growth, factor, 0.05)
    ends = (found.end / found.final)[:, p.depth // 2 :].mean("layer", skipna=False)
    what = "final distance / Eq. 10 of the fit, later half of layers"
    yield check("representations_align Eq. 10").near("final-distance", what, 1, ends, 0.05)


EXPERIMENT = Experiment(
    "layers",
    "Effective learning rates against depth",
    "representations_align Fig. 10",
    Layers(),
    Layers(seeds=2, depth=10, width=60, steps=2000),
    minutes=(0.2, 4),
    needs_full=("encoder-rate", "decoder-rate"),  # the order of ten layers; here there are five
)
