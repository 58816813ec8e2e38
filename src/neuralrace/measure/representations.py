"""How samples are represented: similarity, distances, sharing between domains, components; a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from neuralrace import plot
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError, array, flag, integer, known, need_extra, sequence, short
from neuralrace.measure.maps import Floats, floats, plain
from neuralrace.network import activity as activity_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_SAMPLES = 64  # of a picture
_PATH_TIMES = 25  # along the paths


def gram(activity: ArrayLike, *, centre: bool = False) -> Floats:
    """Inner products of the activity for every two samples.

    Parameters
    ----------
    activity : array_like, shape (..., samples, units)
        With any leading axes (runs, times).
    centre : bool
        Whether to subtract the mean over samples first.

    Returns
    -------
    ndarray, shape (..., samples, samples)

    Examples
    --------
    >>> gram([[1.0, 0.0], [1.0, 2.0]])
    array([[1., 1.],
           [1., 5.]])
    """
    h = floats("activity", activity, 2)
    h = h - h.mean(axis=-2, keepdims=True) if flag("centre", centre) else h
    return h @ h.swapaxes(-1, -2)


def cosine_similarity(activity: ArrayLike, *, centre: bool = False) -> Floats:
    """Cosine between the activity for every two samples.

    Parameters
    ----------
    activity : array_like, shape (..., samples, units)
        With any leading axes.
    centre : bool
        Whether to subtract the mean over samples first.

    Returns
    -------
    ndarray, shape (..., samples, samples)
        nan for samples without activity.

    Examples
    --------
    >>> cosine_similarity([[2.0, 0.0], [0.0, 3.0]])
    array([[1., 0.],
           [0., 1.]])
    """
    return _normalised(gram(activity, centre=centre))


def domain_similarity(similarity: ArrayLike, domains: int) -> Floats:
    """Cosine between the representations of the same item on every two domains.

    Parameters
    ----------
    similarity : array_like, shape (..., domains * items, domains * items)
        As of `gram` or `cosine_similarity`; samples are the items of the first domain, then of the next.
    domains : int
        Number of domains, with equally many items.

    Returns
    -------
    ndarray, shape (..., items, domains, domains)
        1 where domains share the representation of the item, as on the diagonal.

    Examples
    --------
    >>> domain_similarity(gram([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]), domains=2)[:, 0, 1]
    array([1., 0.])
    """
    g, n = floats("similarity", similarity, 2), integer("domains", domains)
    if g.shape[-1] != g.shape[-2] or g.shape[-1] % n:
        raise InputError(f"similarity must be square, of a multiple of {n} samples; got shape {g.shape}")
    blocks = g.reshape(*g.shape[:-2], n, g.shape[-1] // n, n, g.shape[-1] // n)
    return _normalised(np.einsum("...iaja->...aij", blocks))


def _normalised(g: Floats) -> Floats:
    size = np.sqrt(np.diagonal(g, axis1=-2, axis2=-1))
    with np.errstate(invalid="ignore"):
        return g / (size[..., :, None] * size[..., None, :])


def squared_distances(activity: ArrayLike) -> Floats:
    """Squared distance of the activity for every two samples.

    Parameters
    ----------
    activity : array_like, shape (..., samples, units)
        With any leading axes.

    Returns
    -------
    ndarray, shape (..., samples, samples)
        Summed from differences, so that those of close samples are not lost to rounding.

    Examples
    --------
    >>> squared_distances([[0.0, 0.0], [3.0, 4.0]])
    array([[ 0., 25.],
           [25.,  0.]])
    """
    from scipy.spatial.distance import cdist

    h = np.asarray(floats("activity", activity, 2), float)
    n = h.shape[-2]
    each = [cdist(one, one, "sqeuclidean") for one in h.reshape(-1, *h.shape[-2:])]
    return np.array(each, np.float64).reshape(*h.shape[:-2], n, n)


def cosine(a: ArrayLike, b: ArrayLike, axes: int = 2) -> Floats:
    """Cosine between arrays, taken as vectors over their last axes.

    Of two tangent kernels or similarity matrices this is their alignment; of two centred similarity matrices
    it is linear centred kernel alignment (CKA).

    Parameters
    ----------
    a, b : array_like, shapes (..., m, n)
        Leading axes broadcast.
    axes : int
        How many of the last axes make up a vector.

    Returns
    -------
    float or ndarray, shape (...)

    Examples
    --------
    >>> round(cosine([[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 0.0]]), 3)
    0.707
    """
    axes = integer("axes", axes)
    one, two = floats("a", a, axes), floats("b", b, axes)
    if one.shape[-axes:] != two.shape[-axes:]:
        raise InputError(f"a and b must agree in their last {axes} axes, got {one.shape} and {two.shape}")
    over = tuple(range(-axes, 0))
    norms = np.sqrt((one**2).sum(axis=over) * (two**2).sum(axis=over))
    with np.errstate(invalid="ignore"):
        return plain((one * two).sum(axis=over) / norms)


def share_within(vectors: ArrayLike, basis: ArrayLike) -> Floats:
    """Share of some vectors, as squared norm, that lies in the space of orthonormal directions.

    Parameters
    ----------
    vectors : array_like, shape (..., count, size)
        The vectors as rows.
    basis : array_like, shape (size, directions)
        The directions as columns.

    Returns
    -------
    float or ndarray, shape (...)
        From 0 to 1; nan where all vectors are zero.

    Examples
    --------
    >>> share_within([[3.0, 4.0], [0.0, 0.0]], [[1.0], [0.0]])
    0.36
    """
    rows, columns = floats("vectors", vectors, 2), floats("basis", basis, 2)
    if columns.shape[0] != rows.shape[-1]:
        raise InputError(
            f"basis must have {rows.shape[-1]} rows, as vectors have entries; got {columns.shape}"
        )
    with np.errstate(invalid="ignore"):
        return plain(((rows @ columns) ** 2).sum(axis=(-1, -2)) / (rows**2).sum(axis=(-1, -2)))


def principal_components(points: ArrayLike, k: int = 2) -> Floats:
    """The leading principal components of points, all leading axes pooled (classical scaling of distances).

    Parameters
    ----------
    points : array_like, shape (..., units)
        Such as (time, samples, units): one basis serves all times.
    k : int
        Number of components.

    Returns
    -------
    ndarray, shape (..., k)
        Coordinates around the mean of all points, largest variance first; signs are arbitrary.

    Examples
    --------
    >>> np.abs(principal_components([[0.0, 0.0], [3.0, 4.0]], k=1))
    array([[2.5],
           [2.5]])
    """
    h = floats("points", points, 2)
    k = integer("k", k, most=h.shape[-1])
    flat = h.reshape(-1, h.shape[-1])
    flat = flat - flat.mean(axis=0)
    basis = np.linalg.svd(flat, full_matrices=False)[2][:k]
    if len(basis) < k:
        raise InputError(f"k must be at most the number of points, {len(flat)}, got {k}")
    return (flat @ basis.T).reshape(*h.shape[:-1], k)


def multidimensional_scaling(points: ArrayLike, rounds: int = 300) -> Floats:
    """Points over time in the plane, with distances as near to the given ones as least squares can make them.

    The last time is fitted first, the best of 20 random starts. From there all times are fitted together,
    starting on straight lines to the centre, so that paths are continuous.

    Parameters
    ----------
    points : array_like, shape (time, samples, units)
        Centred on the origin at each time.
    rounds : int
        Steps of the SMACOF algorithm, which never raises the squared error.

    Returns
    -------
    ndarray, shape (time, samples, 2)

    Examples
    --------
    >>> multidimensional_scaling([[[0.0, 0.0, 3.0], [0.0, 0.0, -3.0]]], rounds=5).shape
    (1, 2, 2)
    """
    need_extra("sklearn", "sklearn")
    from sklearn.manifold import smacof

    h, rounds = array("points", points, (None, None, None)), integer("rounds", rounds)
    size = np.linalg.norm(h, axis=-1, keepdims=True)
    if not h.size or not size[-1].all() or not np.isfinite(size.sum() ** 2):
        raise InputError(
            f"points must be finite and of finite squares, and no sample at the origin at the last time, "
            f"got shape {h.shape}"
        )
    flat = h.reshape(-1, h.shape[-1])

    def fitted(distances: Floats, start: Floats) -> tuple[Floats, float]:
        result: Any = smacof(distances, n_components=2, init=start, n_init=1, max_iter=rounds, eps=0)
        return result[:2]

    rng, last = np.random.default_rng(0), np.sqrt(squared_distances(h[-1]))
    ends = [fitted(last, rng.standard_normal((h.shape[1], 2))) for _ in range(20)]
    end = min(ends, key=lambda found: found[1])[0]
    x, _ = fitted(np.sqrt(squared_distances(flat)), (end * size / size[-1]).reshape(-1, 2))
    return x.reshape(*h.shape[:2], 2)


def plot_representations(
    trajectory: Trajectory, node: str, times: int = 4, labels: Sequence[str] | None = None
) -> Figure:
    """How a layer represents the samples of the task while it learns.

    Similarity matrices (inner products) at a few times, on one scale, and the paths of the samples in the
    plane, by multidimensional scaling. Times are evenly spaced in how far the representations have moved.

    Parameters
    ----------
    trajectory : Trajectory
        A single run with its weights and its task, of at most 64 samples.
    node : str
        The layer.
    times : int
        Number of matrices, from 2 to 6; the first is of the start, the last of the end.
    labels : sequence of str, optional
        Names of the samples, at the ends of their paths.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import neuralrace as nr
    >>> sol = nr.reduce(nr.tasks.hierarchy(3)).solve(strengths=0.05, t1=40.0)
    >>> figure = plot_representations(sol, "h1", times=3)
    >>> len(figure.axes)  # three matrices, the paths, and the bar of colours
    5
    """
    h, names = _activities(trajectory, node, labels)
    times = integer("times", times, least=2, most=6)
    need_extra("sklearn", "sklearn")
    moved = np.append(0.0, np.linalg.norm(np.diff(h, axis=0), axis=(1, 2)).cumsum())
    at = [int(np.argmin(np.abs(moved - share * moved[-1]))) for share in np.linspace(0, 1, times)]
    path = np.unique(
        [np.argmin(np.abs(moved - share * moved[-1])) for share in np.linspace(0, 1, _PATH_TIMES)]
    )
    centred = h[path] - h[path].mean(axis=1, keepdims=True)
    if not np.linalg.norm(centred[-1], axis=-1).all() or len(path) < 2:
        raise InputError(
            f"node must be a layer whose representations change and tell samples apart, got {node!r}"
        )
    places = multidimensional_scaling(centred)
    fig, axes = plot.figure(
        1, times + 1, width=1.5 * times + 2.6, height=2.3, width_ratios=[1] * times + [1.6]
    )
    grams = gram(h[at])
    with plot.style():
        limit = float(np.abs(grams).max())
        images = [
            plot.matrix(ax, values, f"t = {trajectory.t[k]:.3g}", limit)
            for ax, k, values in zip(axes, at, grams, strict=False)
        ]
        for ax in axes[:-1]:
            ax.set_aspect("equal")
        fig.colorbar(images[-1], ax=list(axes[:-1]), label="inner product", location="bottom", shrink=0.5)
        _paths(axes[-1], places, names)
    return fig


def _activities(trajectory: Any, node: Any, labels: Any) -> tuple[Floats, list[str]]:
    """Activity of a layer (times, samples, units), and names of the samples."""
    if not isinstance(trajectory, Trajectory) or trajectory.many:
        raise InputError(f"trajectory must be a single run; of several take traj[0]; got {short(trajectory)}")
    if trajectory.task is None or not trajectory.weights:
        raise InputError(
            "trajectory must have its weights and its task: it was saved, or trained without them"
        )
    known("node", [node], trajectory.task.graph.nodes, "node")
    h = np.stack([activity_of(trajectory.task, trajectory.at(k), node) for k in range(len(trajectory.t))])
    if h.shape[1] > MAX_SAMPLES:
        raise InputError(f"trajectory must be of at most {MAX_SAMPLES} samples to be drawn, got {h.shape[1]}")
    names = (
        [str(n) for n in range(1, h.shape[1] + 1)] if labels is None else sequence("labels", labels, "names")
    )
    if len(names) != h.shape[1]:
        raise InputError(f"labels must name {h.shape[1]} samples, got {len(names)}")
    return h, [str(name) for name in names]


def _paths(ax: Any, places: Floats, names: list[str]) -> None:
    """Paths of the samples in the plane, with dots and names at their ends."""
    reach = 1.4 * np.abs(places).max()
    for path, name, colour in zip(places.swapaxes(0, 1), names, plot.shades(len(names)), strict=True):
        ax.plot(*path.T, color=colour)
        ax.plot(*path[-1], "o", color=colour)
        x, y = path[-1] / np.linalg.norm(path[-1])  # names stand outwards
        side = "left" if x > 0.3 else "right" if x < -0.3 else "center"
        height = "bottom" if y > 0.7 else "top" if y < -0.7 else "center"
        away = np.array([x, y]) * plot.sized("lines.markersize", 1.2)
        where = {"xytext": away, "textcoords": "offset points", "ha": side, "va": height}
        ax.annotate(name, path[-1], fontsize=plot.sized("legend.fontsize"), **where)
    ax.set(title="paths in the plane", xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    ax.axis("off")
