"""Context pathways, each closed in one of several contexts, after the common pathway has learned."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from neuralrace.errors import integer
from neuralrace.exact.chains import log_fraction
from neuralrace.exact.formula import closed_form, floats, nonnegative, positive


def _contexts(name: str, value: Any) -> int:
    return integer(name, value, least=2, most=2**53)


@closed_form(
    static=["contexts"], t=nonnegative, s=positive, d=positive, contexts=_contexts, b0=positive, tau=positive
)
def context_strength(t: Any, s: Any, d: Any, contexts: int, b0: Any, tau: Any = 1.0) -> Any:
    """Strength of a mode of a context pathway: `tau B' = 2 B (s - d B / (contexts - 1))`.

    make_haste_slowly appendices F and G with their misprints corrected (see errata), from overlaps
    `U_p^T U_j = -1/(C-1)` and input correlations `(C-2)/(C-1)`. The common pathway is at its fixed point.

    Parameters
    ----------
    t : array_like
        Times, at least 0.
    s, d : array_like
        Strength of the mode in the residual that the common pathway leaves, and variance of the input of the
        pathway; above 0.
    contexts : int
        Number of contexts, at least 2.
    b0 : array_like
        Strength at time 0, above 0.
    tau : array_like, default 1
        Unit of time.

    Returns
    -------
    float or ndarray
        B(t); it tends to `(contexts - 1) s / d`.

    Examples
    --------
    >>> round(context_strength(1e3, s=0.1, d=0.2, contexts=4, b0=1e-6), 6)
    1.5
    """
    t, s, d, b0, tau = floats(t, s, d, b0, tau)
    d = d / (_contexts("contexts", contexts) - 1)
    return s / d * jnp.exp(log_fraction(t / tau, s, d, b0, 2))
