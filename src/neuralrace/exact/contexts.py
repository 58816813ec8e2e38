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
    """Strength B(t) of a pathway's mode: `tau B' = 2 B (s - d B / (contexts - 1))`.

    s and d belong to the residual that the common pathway leaves at its fixed point, and to the inputs of the
    pathway. It is make_haste_slowly appendices F and G with their misprints put right (see errata), from
    overlaps `U_p^T U_j = -1/(C-1)` and input correlations `(C-2)/(C-1)`.

    >>> round(context_strength(1e3, s=0.1, d=0.2, contexts=4, b0=1e-6), 6)
    1.5
    """
    t, s, d, b0, tau = floats(t, s, d, b0, tau)
    d = d / (_contexts("contexts", contexts) - 1)
    return s / d * jnp.exp(log_fraction(t / tau, s, d, b0, 2))
