"""What the experiment `structure` reads off its results, and its rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import xarray as xr

from neuralrace import universality
from neuralrace.measure import squared_distances
from neuralrace.universality import Comparison, final_distance
from neuralrace_papers.framework.claim import Claim, Statement, finding
from neuralrace_papers.framework.declaration import Data
from neuralrace_papers.framework.quotes import quoted

PAPER = "representations_align"
KINDS = ("low", "intermediate", "high", "one-layer")
OPTIMIZERS = {"sgd": "gradient descent", "adam": "Adam"}
CORNERS = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]])
XOR = np.array([[0.0], [1], [1], [0]])
PAIRS = np.triu_indices(4, 1)
SAME = (XOR[PAIRS[0]] == XOR[PAIRS[1]])[:, 0]
NAMES = [f"{a:.0f}{b:.0f}\n{c:.0f}{d:.0f}" for (a, b), (c, d) in CORNERS[np.transpose(PAIRS)]]
PUBLISHED = 0.703  # correlation of the weighed theory with networks, MNIST
PREDICTIONS = {
    "theory": "theory",
    "printed": "theory, weighed",
    "weighed": "weighed, normalised",
    "inputs": "inputs alone",
    "targets": "targets alone",
}

BETWEEN = "Neither limit: distances by random weights and distances by targets are of one size."
SIZE = (
    "Rates are those of two samples. The pattern does not depend on them, the size does, and is not "
    "predicted for another data set or optimizer; the paper's figure has no common scale."
)
ONE_LAYER = "The theory fails here, as the paper says: one hidden layer is not free to merge both pairs."
TRACKED = (
    "Outputs of a pair among many overshoot the difference of its targets, and representations come together "
    "again, which Eq. 7 cannot."
)
LIKE = "Stated standard for a match: correlation .9 over the six pairs."
MERGED = "Stated standard: a pair has merged below a twentieth of the distance of others, not above a fifth."
ONE_OF_TWO = "Stated standard: one pair below a tenth, the other above half of the distance of others."
REASONABLY = "Stated standard for 'reasonably well': 10% of each series' largest value, root mean square."
ABOVE, CHANCE = "interval above 0", "Chance: 0, by the 95% interval over images."
MATCH = (
    "The learned hidden representational pair-wise distances match the theory prediction at varying initial "
    "weight scales for the default 20 layer network ({}), but not for a 2 layer network at small weights "
    "(right)."
).format
MERGE = (
    "The theory predicts that at small initial weights, representations of datapoints with the same target "
    "output will merge [...]. At large initial weights no such merging should occur. As can be seen in "
    "Figure 6 (middle), this matches the learned representation of the large 20-layer default network."
)


def xor_ends(data: Data, optimizer: str, kind: str) -> xr.Dataset:
    """Distances after learning, `end`; by Eq. 10 from the measured start with the rates of two samples,
    `theory`; their correlation. Of the runs that learned, as in the paper; nan where none did."""
    runs, two = data.xor[optimizer].sel(kind=kind), data.pair
    rates = [float(two[name].where(two.learned).mean().fillna(1)) for name in ("rate_h", "rate_y")]
    dx, dy = (np.sqrt(squared_distances(v)[PAIRS]) for v in (CORNERS, XOR))
    theory = final_distance(runs.dh2.values, runs.dy2.values, dx, dy, *rates)
    both = runs[["end"]].assign(theory=(("run", "pair"), theory))
    both = both.where(runs.learned, drop=bool(runs.learned.any()))
    return both.assign(correlation=xr.corr(both.theory, both.end, "pair"))


def merged(end: xr.DataArray) -> xr.DataArray:
    """Mean squared distance at equal targets / at different targets, of each run."""
    return end[:, SAME].mean("pair") / end[:, ~SAME].mean("pair")


def compared(data: Data, optimizer: str) -> dict[str, Comparison]:
    """Correlation of the measured distances of images with each prediction."""
    measured = data.digits[optimizer].distances
    return {name: universality.compare(data.predicted[name], measured) for name in PREDICTIONS}


def deep(data: Data, optimizer: str, match: Statement, merge: Statement) -> Iterator[Claim]:
    ends = {kind: xor_ends(data, optimizer, kind) for kind in KINDS}
    for kind, note in (("low", ""), ("intermediate", BETWEEN), ("high", "")):
        name = f"{OPTIMIZERS[optimizer]}, {kind} weights: correlation with Eq. 10"
        yield match.above(f"xor-{optimizer}-{kind}", name, 0.9, ends[kind].correlation, note, LIKE)
    name = f"{OPTIMIZERS[optimizer]}, {{}} weights: distance at equal targets / at different targets".format
    low, high = (merged(ends[kind].end) for kind in ("low", "high"))
    yield merge.below(f"xor-{optimizer}-low-merged", name("low"), 0.05, low, bound=MERGED)
    yield merge.above(f"xor-{optimizer}-high-apart", name("high"), 0.2, high, bound=MERGED)
    size = ends["low"].end.mean() / ends["low"].theory.mean()
    name = f"{OPTIMIZERS[optimizer]}, low weights: measured distance / predicted distance"
    yield finding(match.source).near(f"xor-{optimizer}-low-size", name, 1, size, 0.25, SIZE)


def one_layer(data: Data, optimizer: str, fails: Statement, merges: Statement) -> Iterator[Claim]:
    ends, key = xor_ends(data, optimizer, "one-layer"), f"xor-{optimizer}-one-layer"
    same, different = ends.end[:, SAME], ends.end[:, ~SAME].mean("pair")
    name = f"{OPTIMIZERS[optimizer]}, one hidden layer: {{}}".format
    what = name("correlation with Eq. 10")
    yield fails.below(f"{key}-fails", what, 0.9, ends.correlation, ONE_LAYER, LIKE)
    ratio = name("distance of the {} equal pair / mean distance at different targets").format
    far = same.max("pair") / different
    yield fails.above(f"{key}-apart", ratio("farther"), 0.5, far, ONE_LAYER, ONE_OF_TWO)
    near = same.min("pair") / different
    note = f"Networks that merge a pair: {int((near < 0.1).sum())} of {near.size}."
    yield merges.below(f"{key}-merged", ratio("closer"), 0.1, near, note, ONE_OF_TWO)


def span(interval: tuple[float, float]) -> str:
    return "95% interval {:.2f} to {:.2f}.".format(*interval)


def weighed(images: str, data: Data) -> Claim:
    """The published correlation, which is for MNIST; of other images only that there is one."""
    both = compared(data, "sgd")
    found = both["printed"]
    low, high = found.interval
    loss = float(data.digits["sgd"].loss.mean())
    note = f"{span(found.interval)} Normalised {both['weighed'].correlation:.3f}. Loss {loss:.2g}, from 0.5."
    what = f"gradient descent, {images}: correlation of the weighed theory with networks"
    nine = quoted(f"{PAPER} Fig. 9", "correlation-703")
    if images == "mnist":
        holds, bound = low <= PUBLISHED <= high, "The paper's number, by our 95% interval over images."
        expected = f"interval holds {PUBLISHED}"
        return nine.relation("images-sgd-weighed", what, expected, found.correlation, holds, note, bound)
    note, ours = f"{note} The paper's {PUBLISHED} is for MNIST.", finding(nine.source)
    return ours.relation("images-sgd-weighed", what, ABOVE, found.correlation, low > 0, note, CHANCE)


def image_distances(images: str, data: Data, optimizer: str, ours: Statement) -> Iterator[Claim]:
    found = compared(data, optimizer)
    theory = found["theory"]
    for rival in ("targets", "inputs"):
        gain, interval = theory.over(found[rival])
        what = f"{OPTIMIZERS[optimizer]}, {images}: correlation of the theory less that of {rival} alone"
        values = f"Theory {theory.correlation:.3f}, {rival} {found[rival].correlation:.3f}."
        note, over = f"{span(interval)} {values}", interval[0] > 0
        yield ours.relation(f"images-{optimizer}-over-{rival}", what, ABOVE, gain, over, note, CHANCE)


def tracked(data: Data, optimizer: str, statement: Statement) -> Iterator[Claim]:
    fits, name = data.digits[optimizer], OPTIMIZERS[optimizer]
    each = fits.errors.sel(fit="rates").mean("run").values
    note = f"{TRACKED} Of dh2, dy2 and w: {', '.join(f'{v:.2f}' for v in each)}."
    what, error = f"{name}: error of the fit of two rates to a tracked pair", fits.error.sel(fit="rates")
    yield statement.near(f"tracked-{optimizer}", what, 0, error, 0.1, note, REASONABLY)
    what, error = f"{name}: error of the fit of rates and start", fits.error.sel(fit="start")
    ours = finding(statement.source)
    yield ours.near(f"tracked-{optimizer}-start", what, 0, error, 0.1, TRACKED, REASONABLY)
