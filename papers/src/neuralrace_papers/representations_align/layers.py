"""The effective learning rates depend on the layer that is looked at: the deeper it lies, the more weights
are before it and the fewer after it. The default network of the paper learns two samples, and the theory is
fitted at every hidden layer, as the paper does (two rates, from the observed start) and with the start fitted
too. Distances start smaller in later layers, where a linear approximation should hold better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import xarray as xr
from scipy.stats import spearmanr

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework import Data, Experiment, figure, part, rows
from neuralrace_papers.representations_align.fits import both_ways
from neuralrace_papers.zoo import ZOO, Network, train

LEAK = 0.01  # slope of a leaky rectifier below 0


@dataclass(frozen=True)
class Layers:
    seeds: Annotated[int, "random starts"] = 5
    dx2: Annotated[float, "squared distance of the inputs"] = 1.0
    dy2: Annotated[float, "squared distance of the targets"] = 0.5
    depth: Annotated[int, "hidden layers"] = 20
    width: Annotated[int, "units of each hidden layer"] = 500
    gain: Annotated[float, "gain of the initial Xavier weights"] = ZOO["default"][0].gain
    lr: Annotated[float, "learning rate"] = ZOO["default"][1]
    steps: Annotated[int, "steps of training"] = 6000

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
    )


@figure("layers")
def by_layer(p: Layers, data: Data):
    found, layer = data.networks, data.networks.layer
    fig, (errors, rates, distances) = plot.figure(1, 3, width=plot.PAGE, height=2.9)
    for ax in (errors, rates, distances):
        ax.axvspan(0.5, p.depth / 2 + 0.5, color="0.93", lw=0, zorder=0, label="earlier half")
    plot.points(errors, layer, found.error.sel(fit="rates"), plot.RED, "two rates fitted (Eq. 49)")
    plot.points(errors, layer, found.error.sel(fit="start"), plot.PINK, "start fitted too")
    errors.set(ylabel="error / largest value of a series", ylim=(0, None))
    both = found.sel(fit="rates")
    plot.points(rates, layer, both.rate_h, plot.BLUE, "encoder, 1/τh")
    plot.points(rates, layer, both.rate_y, plot.ORANGE, "decoder, 1/τy")
    plot.logarithmic(rates.yaxis)
    rates.set(ylabel="rate, 1 / (steps times lr)")
    plot.points(distances, layer, found.end, plot.BLACK, "after learning")
    plot.points(distances, layer, found.start, plot.GREEN, "before learning")
    scaling = float(found.start[:, 0].mean()) * p.growth ** (layer - 1)
    plot.theory(distances, layer, scaling, plot.GREEN, "before, Eq. 14")
    distances.set(ylabel="|dh|²", yscale="log")
    above = {**plot.ABOVE, "bbox_to_anchor": (0.45, 1.0)}
    plot.label((errors, rates, distances), "hidden layer", legend=above, xlim=(0.5, p.depth + 0.5))
    return fig, (
        f"The theory fitted at every hidden layer of the default network ({p.depth} layers of {p.width} "
        f"units, {p.seeds} seeds, mean and standard deviation): root mean square error, effective learning "
        f"rates of the fit by Eq. 49, and squared distances of representations. Learning rate {p.lr:g} of "
        f"Table 1 for {p.steps} steps; the authors' code has twice the rate and half the steps."
    )


@rows
def accuracy(p: Layers, data: Data):
    # Of all layers: a layer without a fit must not go unnoticed.
    parts = (slice(p.depth // 2), slice(p.depth // 2, None))
    early, late = (data.networks.error[..., some].mean("layer", skipna=False) for some in parts)
    yield "fit-later", late.sel(fit="rates")
    yield "fit-earlier", early.sel(fit="rates")
    yield "fit-earlier-over-later", early.sel(fit="rates") / late.sel(fit="rates")
    yield "fit-start-later", late.sel(fit="start")


def rank_correlation(values: xr.DataArray) -> np.ndarray:
    """With the layer, of each run."""
    return np.array([spearmanr(values.layer, one, nan_policy="omit")[0] for one in values])


@rows
def by_depth(p: Layers, data: Data):
    found, half = data.networks, p.depth // 2
    encoder, decoder = (found[name].sel(fit="rates") for name in ("rate_h", "rate_y"))
    yield "encoder-rate", rank_correlation(encoder[:, half:])
    yield "decoder-rate", rank_correlation(decoder[:, half:])
    yield "decoder-rate-earlier", rank_correlation(decoder[:, :half])
    yield "initial-distance", (found.start[:, -1] / found.start[:, 0]) ** (1 / (p.depth - 1))
    later = found.shape[..., half:]
    yield "later-layers-alike", np.sqrt(((later - later.mean("layer")) ** 2).mean("t")).max("layer")


EXPERIMENT = Experiment(
    "layers",
    "Effective learning rates against depth",
    "representations_align Fig. 10",
    Layers(),
    quick={"seeds": 2, "depth": 10, "width": 60, "lr": 0.02, "steps": 2000},
    minutes=(0.2, 4),
)
