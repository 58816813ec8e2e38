"""Many samples: the theory of two points (representations_align) for every pair, and how a network agrees.

Distances are squared throughout, as `dh2` is; matrices of them are (samples, samples).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from neuralrace.errors import InputError, array, flag, integer, number, short, without_nan
from neuralrace.graph import Graph
from neuralrace.measure import squared_distances
from neuralrace.universality.fitting import Interval
from neuralrace.universality.recording import samples
from neuralrace.universality.theory import final_distance

FEWEST = 8
MAX_DRAWS = 1_000_000


def structure(
    x: Any, y: Any, rate_h: float = 1.0, rate_y: float = 1.0, *, dh2: Any = None, dy2: Any = None
) -> np.ndarray:
    r"""Squared distance at which every two of the samples x with targets y end (Eq. 10-11).

    Without `dh2` and `dy2` it is the limit of small initial weights, $\sqrt{\tau_y/\tau_h}\, |x_i - x_j|\,
    |y_i - y_j|$, where the rates only set the unit. Pairs are taken one by one, as if there were no other
    samples.

    Parameters
    ----------
    x, y : array_like, shape (samples, ...)
        Inputs, all different, and targets.
    rate_h, rate_y : float
        Effective learning rates of the representation and of the output ($1/\tau_h$, $1/\tau_y$); only their
        ratio counts.
    dh2, dy2 : array_like, shape (samples, samples), optional
        Squared distances of representations and of outputs before learning; both or neither.

    Returns
    -------
    ndarray, shape (samples, samples)
        Squared distances of the representations after learning.

    Examples
    --------
    >>> from neuralrace.universality import structure
    >>> structure([[0, 0], [1, 0], [0, 1], [1, 1]], [0, 1, 1, 0]).round(3)
    array([[0., 1., 1., 0.],
           [1., 0., 0., 1.],
           [1., 0., 0., 1.],
           [0., 1., 1., 0.]])
    """
    rate_h, rate_y = number("rate_h", rate_h, above=0), number("rate_y", rate_y, above=0)
    dx, goal = (np.sqrt(squared_distances(samples(n, v))) for n, v in (("x", x), ("y", y)))
    n = len(dx)
    if len(goal) != n:
        raise InputError(f"y must have {n} rows, as many as x, got {len(goal)}")
    apart = ~np.eye(n, dtype=bool)
    same = np.argwhere((dx == 0) & apart)
    if len(same):
        raise InputError(
            f"samples {same[0][0]} and {same[0][1]} have identical inputs, so they can have no different "
            "representations; leave one of them out"
        )
    if (dh2 is None) != (dy2 is None):
        raise InputError("dh2 and dy2 go together: give both, or neither for the limit of small weights")
    final = np.sqrt(rate_h / rate_y) * dx * goal
    if dh2 is not None:
        h, out = (_matrix(name, v, n)[apart] for name, v in (("dh2", dh2), ("dy2", dy2)))
        final[apart] = final_distance(h, out, dx[apart], goal[apart], rate_h, rate_y)
    return without_nan("x, y and the rates", final)


def smooth_distances(distances: Any, unit: float = 1.0, *, normalised: bool = True) -> np.ndarray:
    r"""Squared distances averaged over the neighbours of both samples (exponential weights, Eq. 50).

    Sample k counts for sample i by $e^{-\text{distance} / \text{unit}}$. Two samples that are close to each
    other are then about equally far from any third.

    Parameters
    ----------
    distances : array_like, shape (samples, samples)
        Squared distances, such as those of `structure`.
    unit : float
        Squared distance at which a neighbour counts 1/e; the paper takes 1. The result depends on it,
        normalised or not.
    normalised : bool
        Divide the weights of the neighbours of each sample by their sum. False is the sum that is printed in
        the paper, in which samples with many neighbours are far from everything, also from themselves.

    Returns
    -------
    ndarray, shape (samples, samples)
        In units of `distances`.

    Examples
    --------
    >>> from neuralrace.universality import smooth_distances
    >>> smooth_distances([[0, 0.1, 4], [0.1, 0, 5], [4, 5, 0]]).round(2)
    array([[0.13, 0.11, 4.33],
           [0.11, 0.08, 4.4 ],
           [4.33, 4.4 , 0.2 ]])
    """
    values, unit = _matrix("distances", distances), number("unit", unit, above=0)
    near = np.exp(-values / unit)
    if flag("normalised", normalised):
        near /= near.sum(axis=1, keepdims=True)
    return near @ values @ near.T


@dataclass(frozen=True)
class Comparison:
    """Pearson correlation of two matrices over pairs of samples, with its interval.

    Attributes
    ----------
    correlation : float
        Over all pairs of different samples.
    interval : tuple of float
        Where it lies with the probability `confidence`.
    confidence : float
        Probability of the interval.
    draws : ndarray, shape (draws,)
        Correlations of the resampled sets; nan where all pairs of a set are alike. Those of another
        comparison with the same measured matrix and seed are of the same sets, so `over` says which of
        two predictions is better.

    Examples
    --------
    >>> from neuralrace.measure import squared_distances
    >>> from neuralrace.universality import compare
    >>> measured = squared_distances(np.random.default_rng(0).normal(size=(30, 2)))
    >>> result = compare(measured**2, measured)
    >>> result.interval[0] < result.correlation < result.interval[1]
    True
    """

    correlation: float
    interval: Interval
    confidence: float
    draws: np.ndarray = field(repr=False)

    def over(self, other: Comparison) -> tuple[float, Interval]:
        """How much higher this correlation is than the other, and the interval of that.

        Parameters
        ----------
        other : Comparison
            Of another prediction with the same measured matrix, number of draws and seed.

        Returns
        -------
        difference : float
        interval : tuple of float
            Where it lies with the probability `confidence`.

        Examples
        --------
        >>> x = np.random.default_rng(0).normal(size=(30, 2))
        >>> one, both = squared_distances(x[:, :1]), squared_distances(x)
        >>> difference, (low, high) = compare(both, both).over(compare(one, both))
        >>> low > 0
        True
        """
        if len(self.draws) != len(other.draws):
            raise InputError(f"other must have as many draws, {len(self.draws)}, got {len(other.draws)}")
        return self.correlation - other.correlation, _interval(self.draws - other.draws, self.confidence)


def compare(
    predicted: Any, measured: Any, *, confidence: float = 0.95, draws: int = 1000, seed: int = 0
) -> Comparison:
    """How two matrices of distances correlate over all pairs of different samples.

    The interval is the bootstrap over samples, not over pairs: pairs that share a sample are not independent,
    and n samples have only n independent sources of chance for their n (n-1)/2 pairs. A sample that was
    drawn twice is not paired with itself.

    Parameters
    ----------
    predicted, measured : array_like, shape (samples, samples)
        Symmetric matrices of distances, in any units; at least 8 samples.
    confidence : float
        Probability with which the interval holds the true correlation.
    draws : int
        Number of resampled sets, 100 to 1,000,000.
    seed : int
        Draws the sets.

    Returns
    -------
    Comparison
        The correlation, its interval and the draws.

    Examples
    --------
    >>> from neuralrace.measure import squared_distances
    >>> from neuralrace.universality import compare, structure
    >>> x = np.random.default_rng(0).normal(size=(30, 2))
    >>> compare(structure(x, x[:, :1]), squared_distances(x)).correlation > 0.5
    True
    """
    measured = _matrix("measured", measured)
    n = len(measured)
    predicted = _matrix("predicted", predicted, n)
    confidence = number("confidence", confidence, above=0, below=1)
    if n < FEWEST:
        raise InputError(f"measured has {n} samples, too few for an interval; at least {FEWEST} are needed")
    pairs = np.triu_indices(n, 1)
    centred = []
    for name, v in (("predicted", predicted), ("measured", measured)):
        off = v - v[pairs].mean()
        if np.abs(off[pairs]).max() <= 1e-12 * np.abs(v[pairs]).max():
            raise InputError(f"{name} is the same for all pairs, so it correlates with nothing")
        off = off / off[pairs].std()
        np.fill_diagonal(off, 0)
        centred.append(off)
    rng = np.random.default_rng(integer("seed", seed, least=0))
    counts = rng.multinomial(
        n, np.full(n, 1 / n), size=integer("draws", draws, least=100, most=MAX_DRAWS)
    ).astype(float)
    correlations = _correlations(np.vstack([np.ones(n), counts]), *centred)
    # A draw of few different samples, all pairs of which are alike, says nothing.
    usable = np.where(np.isfinite(correlations), correlations, np.nan)
    return Comparison(float(correlations[0]), _interval(usable[1:], confidence), confidence, usable[1:])


def _correlations(counts: np.ndarray, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Correlation of p and q over pairs i != j, each `counts[i] counts[j]` times; diagonals are zero."""
    total = lambda m: ((counts @ m) * counts).sum(axis=1)  # noqa: E731
    size = total(1 - np.eye(len(p)))
    a, b = total(p) / size, total(q) / size
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = (total(p * p) / size - a**2) * (total(q * q) / size - b**2)
        return (total(p * q) / size - a * b) / np.sqrt(np.where(spread > 1e-20, spread, np.nan))


def _interval(draws: np.ndarray, confidence: float) -> Interval:
    low, high = np.nanquantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def watch(graph: Graph, x: Any, node: str) -> Callable[[Any], dict[str, Any]]:
    """A `record` function for `nr.descend` and `nr.flow` that keeps the representation and output of samples.

    Parameters
    ----------
    graph : Graph
        A network with one input and one output.
    x : array_like, shape (samples, size)
        Inputs; all gates are 1 for them.
    node : str
        The hidden layer to look at.

    Returns
    -------
    callable
        `record(state)`, which keeps `hidden` (samples, size of `node`) and `output` (samples, outputs) at the
        saved times. Two that watch the same are equal, and share compiled functions.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.chain([2, 3, 1]), [[0.0, 1.0], [1.0, 0.0]], [[1.0], [2.0]])
    >>> start = nr.init.gaussian(task.graph, 0.1)
    >>> run = nr.flow(task, start, 1.0, 5, record=watch(task.graph, np.eye(2), "h1"))
    >>> run.recorded["hidden"].shape, run.recorded["output"].shape
    ((5, 2, 3), (5, 2, 1))
    """
    if not isinstance(graph, Graph) or len(graph.inputs) != 1 or len(graph.outputs) != 1:
        raise InputError("graph must be a Graph with one input and one output")
    if not isinstance(node, str) or node not in graph.hidden:
        raise InputError(f"node must be a hidden layer ({', '.join(graph.hidden)}), got {short(node)}")
    (first,), (last,) = graph.inputs, graph.outputs
    rows = array("x", x, (None, graph.nodes[first]))
    return _Watch(node, last, rows.shape, rows.tobytes())


@dataclass(frozen=True)
class _Watch:
    """Compared by what it holds, so that trainings with equal records share a compiled function."""

    node: str
    output: str
    shape: tuple[int, ...]
    rows: bytes

    def __call__(self, state: Any) -> dict[str, Any]:
        x = np.frombuffer(self.rows).reshape(self.shape)
        return {"hidden": state.activity(self.node, x), "output": state.activity(self.output, x)}


def _matrix(name: str, value: Any, n: int | None = None) -> np.ndarray:
    out = array(name, value, (n, n))
    if out.shape[0] != out.shape[1] or len(out) < 2:
        raise InputError(f"{name} must be a square matrix of at least two samples, got shape {out.shape}")
    if not np.allclose(out, out.T, rtol=1e-6, atol=1e-9 * np.abs(out).max()):
        raise InputError(f"{name} must be symmetric: distances of samples i and j")
    return out
