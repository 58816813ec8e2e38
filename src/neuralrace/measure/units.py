"""Single units and modes of two layers: sizes, and the part of the weights that grows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.errors import InputError, array, flag
from neuralrace.measure.arrays import Floats, floats


def unit_sizes(incoming: ArrayLike, outgoing: ArrayLike, *, normalise: bool = False) -> Floats:
    """Size of each hidden unit: norm of its incoming times norm of its outgoing weights.

    Parameters
    ----------
    incoming : array_like, shape (..., units, in)
        Weights into the units, with any leading axes.
    outgoing : array_like, shape (..., out, units)
        Weights from the units on.
    normalise : bool
        Whether to divide by the sum over units, so that a mean over units counts each by its size.

    Returns
    -------
    ndarray, shape (..., units)
        A JAX array if the weights are.

    Examples
    --------
    >>> unit_sizes([[3.0, 4.0], [1.0, 0.0]], [[2.0, 1.0]])
    array([10.,  1.])
    """
    into, out = floats("incoming", incoming, 2), floats("outgoing", outgoing, 2)
    if into.shape[-2] != out.shape[-1]:
        raise InputError(
            f"incoming must be (..., units, in) and outgoing (..., out, units), got {into.shape}, {out.shape}"
        )
    sizes = (into**2).sum(axis=-1) ** 0.5 * (out**2).sum(axis=-2) ** 0.5
    return sizes / sizes.sum(axis=-1, keepdims=True) if flag("normalise", normalise) else sizes


def growing_part(
    w1: ArrayLike, w2: ArrayLike, v: ArrayLike | None = None, u: ArrayLike | None = None
) -> Floats:
    """The part of two small layers that grows in each mode, `(W1 v + W2^T u) / 2`.

    The rest, `(W1 v - W2^T u) / 2`, decays (theory section 9). The squared norm of the growing part is the
    strength `a0` from which the mode starts.

    Parameters
    ----------
    w1 : array_like, shape (..., hidden, in)
        First layer, with any leading axes.
    w2 : array_like, shape (..., out, hidden)
        Second layer.
    v, u : array_like, shapes (in, modes) and (out, modes), optional
        Input and output directions of the modes; by default the units of the layers, for data in which input
        k goes with output k.

    Returns
    -------
    ndarray, shape (..., hidden, modes)

    Examples
    --------
    >>> growing_part([[3.0], [0.0]], [[1.0, 2.0]])
    array([[2.],
           [1.]])
    """
    into, out = floats("w1", w1, 2), floats("w2", w2, 2).swapaxes(-1, -2)
    into = into if v is None else into @ floats("v", v, 2)
    out = out if u is None else out @ floats("u", u, 2)
    if into.shape[-2:] != out.shape[-2:]:
        raise InputError(
            f"W1 v and W2^T u must both be (..., hidden, modes), got {into.shape} and {out.shape}"
        )
    return (into + out) / 2


def xor_strengths(w1: ArrayLike, w2: ArrayLike) -> Floats:
    """Initial strength `a0` of each of the four pathways that a ReLU network grows on exclusive or.

    While outputs are small the error is the target, and every unit learns by itself. It is active on two
    samples: with p along their sum, q along the difference of the positive and the negative one and v its
    outgoing weight, `q' = v/2` and `v' = q/2` until `|q| = |p|`. From there it moves along the diagonal,
    active on one sample, and its strength grows as that of a pathway (neural_race Eq. 21). The result is the
    strength at time 0 of a pathway that is as strong as the unit when it reaches the diagonal.

    Parameters
    ----------
    w1 : array_like, shape (..., units, 2)
        Small first layer.
    w2 : array_like, shape (..., 1, units)
        Small readout.

    Returns
    -------
    ndarray, shape (..., 4)
        For the samples in the order of `tasks.xor`.

    Examples
    --------
    >>> xor_strengths([[2.0, 0.0]], [[1.0]]).round(3)
    array([0.   , 0.832, 0.   , 0.   ])
    """
    w, rows = array("w1", w1), array("w2", w2)
    if w.ndim < 2 or w.shape[-1] != 2 or rows.shape != (*w.shape[:-2], 1, w.shape[-2]):
        raise InputError(f"w1 must be (..., n, 2) and w2 (..., 1, n), got {w.shape} and {rows.shape}")
    v = rows[..., 0, :]
    first = np.abs(w[..., 0]) >= np.abs(w[..., 1])
    p, other = np.where(first, w[..., 0], w[..., 1]), np.where(first, w[..., 1], w[..., 0])
    q = -np.sign(p) * other
    arrived = np.sqrt(p**2 + v**2 - q**2)  # |v| when |q| = |p|, as v^2 - q^2 is constant
    wait = np.abs(v + q) / np.maximum(np.abs(p) + arrived, 1e-300)  # exp(-t/2) at that time
    a = np.where(p == 0, 0.0, ((np.sqrt(2) * np.abs(p) + arrived) / 2 * wait ** np.sqrt(0.5)) ** 2)
    turned = np.sign(v + q) * -np.sign(p)
    x0, x1 = np.where(first, p, turned), np.where(first, turned, p)
    sample = 2 * (x0 < 0) + (x1 < 0)
    return np.stack([np.where(sample == k, a, 0.0).sum(axis=-1) for k in range(4)], axis=-1)
