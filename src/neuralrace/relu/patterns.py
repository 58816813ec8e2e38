"""Gating patterns: which ones a ReLU unit can have (theory.md section 8)."""

from __future__ import annotations

import math
from contextlib import suppress
from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.errors import InputError, array, flag, integer, sequence, short, without_nan

MAX_SAMPLES = 16
_PATIENCE = 5.0  # seconds until a terminal shows the progress
LISTED = 10_000_000  # cases that are tried at most: half a minute


def implementable(pattern: ArrayLike, X: ArrayLike, bias: bool = False) -> bool:
    r"""Whether one ReLU unit can be active on exactly the samples where a pattern is 1.

    It can if a $w$ exists with $w \cdot x \ge 1$ where the pattern is 1 and $w \cdot x \le 0$ where it is 0:
    a linear program.

    Parameters
    ----------
    pattern : array, shape (n,)
        0 and 1.
    X : array, shape (n, in)
        Inputs.
    bias : bool
        Whether the unit has a bias.

    Returns
    -------
    bool

    Examples
    --------
    >>> items_in_contexts = [[1, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1]]
    >>> implementable([1, 1, 0, 0], items_in_contexts), implementable([0, 1, 1, 0], items_in_contexts)
    (True, False)
    """
    x = unit_inputs(X, bias)
    g = array("pattern", pattern)
    if g.shape != (len(x),):
        raise InputError(f"pattern must have one entry per sample, shape ({len(x)},); got {g.shape}")
    if not np.isin(g, (0.0, 1.0)).all():
        raise InputError(f"pattern must hold 0 and 1, got {g.tolist()[:8]}")
    return _witness(x, g > 0) is not None


def implementable_patterns(X: ArrayLike, bias: bool = False) -> np.ndarray:
    """All patterns that one ReLU unit can have on a small data set.

    Parameters
    ----------
    X : array, shape (n, in)
        Inputs, at most 16 samples.
    bias : bool
        Whether the unit has a bias.

    Returns
    -------
    ndarray, shape (patterns, n)
        0 and 1; all-off is first.

    Examples
    --------
    >>> implementable_patterns([[1.0], [2.0]]).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    from tqdm import tqdm

    x = unit_inputs(X, bias)
    if len(x) > MAX_SAMPLES:
        raise InputError(f"X must have at most {MAX_SAMPLES} samples to list all patterns, got {len(x)}")
    if np.linalg.matrix_rank(x) == len(x):  # weights exist for any activity
        return np.array(list(product((0.0, 1.0), repeat=len(x))))
    # Samples are added one by one; what extends no pattern of those before is never looked at.
    patterns: list[tuple[list[bool], np.ndarray]] = [([], np.zeros(x.shape[1]))]
    for k in range(len(x)):
        longer = []
        for pattern, w in tqdm(
            patterns, f"sample {k + 1} of {len(x)}", disable=None, leave=False, delay=_PATIENCE
        ):
            on = bool(x[k] @ w > 0.5)
            # The witness settles one side; where it lies in between, a linear program settles both.
            settled = on or bool(x[k] @ w <= 0)
            for side in (False, True):
                new = [*pattern, side]
                v = w if settled and side == on else _witness(x[: k + 1], np.array(new))
                if v is not None:
                    longer.append((new, v))
        patterns = longer
    return np.array([pattern for pattern, _ in patterns], float)


def context_patterns(items: int, contexts: int) -> np.ndarray:
    """All patterns that one ReLU unit can have on one-hot items in one-hot contexts.

    These are the nested ones, `a_i + b_c > 0`: the sets of contexts in which items are on form a chain. There
    are many more than those that depend on the context alone (Lemma 4.1 of make_haste_slowly leaves them
    out).

    Parameters
    ----------
    items, contexts : int
        Numbers of items and contexts; the time grows as ``(contexts + 1)**items``.

    Returns
    -------
    ndarray of bool, shape (patterns, contexts * items)
        Samples are the items of the first context, then of the next.

    Examples
    --------
    >>> len(context_patterns(2, 2))  # all 16 but those open for one item in each context, crosswise
    14
    """
    items, contexts, patterns = integer("items", items), integer("contexts", contexts), set()
    if contexts > 10 or items > 60 or math.factorial(contexts) * (contexts + 1.0) ** items > LISTED:
        raise InputError(
            f"items and contexts must be fewer, got {items} and {contexts}: more than {LISTED:,} cases to try"
        )
    for order in permutations(range(contexts)):
        place = np.argsort(order)[:, None]
        for level in product(range(contexts + 1), repeat=items):
            patterns.add((place < level).tobytes())
    return np.array([np.frombuffer(g, bool) for g in sorted(patterns)])


def growth_rates(patterns: Any, X: Any, E: Any) -> np.ndarray:
    r"""Rates at which small units with constant gates grow on given errors.

    The largest singular value of $\frac1n \sum_i g_i e_i x_i^\top$, for each pattern $g$.

    Parameters
    ----------
    patterns : array, shape (patterns, n)
        Gates between 0 and 1.
    X : array, shape (n, in)
        Inputs.
    E : array, shape (n, out)
        Errors: targets minus outputs; the targets themselves while outputs are small.

    Returns
    -------
    ndarray, shape (patterns,)

    Examples
    --------
    >>> growth_rates([[1, 1], [1, 0]], [[1.0], [1.0]], [[1.0], [-1.0]])
    array([0. , 0.5])
    """
    x, e = array("X", X, (None, None)), array("E", E)
    gates, e = array("patterns", patterns, (None, len(x))), array("E", e, (len(x), None))
    small = np.linalg.qr(e.T)[1]  # the same singular values in fewer outputs
    rates = []
    for some in np.array_split(gates, -(-len(gates) // 4096)):
        syx = np.einsum("oi,bi,ik->bok", small, some, x, optimize=True) / len(x)
        rates.append(np.linalg.eigvalsh(np.swapaxes(syx, 1, 2) @ syx)[:, -1].clip(0))
    return np.sqrt(without_nan("X and E", np.concatenate(rates)))


def unit_inputs(X: ArrayLike, bias: bool = False) -> np.ndarray:
    """Inputs as an array, with a column of ones for the bias."""
    x, bias = array("X", X, (None, None)), flag("bias", bias)
    if not x.size:
        raise InputError(f"X must hold at least one sample, got shape {x.shape}")
    return np.concatenate([x, np.ones((len(x), 1))], axis=1) if bias else x


def _witness(x: np.ndarray, on: np.ndarray) -> np.ndarray | None:
    """Weights that are active exactly where `on`, None if there are none."""
    from scipy.optimize import linprog

    if not on.any():
        return np.zeros(x.shape[1])
    size = np.abs(x).max(axis=1, initial=0.0)
    if (size[on] == 0).any():
        return None
    rows = x / np.where(size > 0, size, 1.0)[:, None]  # the answer does not depend on the length of inputs
    sign = np.where(on, -1.0, 1.0)
    result = linprog(
        np.zeros(x.shape[1]), sign[:, None] * rows, -on.astype(float), bounds=(None, None), method="highs"
    )
    if result.status not in (0, 2):
        raise RuntimeError(f"the linear program of an implementable pattern failed: {result.message}")
    if result.status == 2:
        return None
    return result.x / size[on].min()


def pattern_text(pattern: ArrayLike) -> str:
    """A pattern as digits.

    Parameters
    ----------
    pattern : array, shape (n,)
        Gates between 0 and 1.

    Returns
    -------
    str
        A digit per sample; ~ where a gate is neither 0 nor 1.

    Examples
    --------
    >>> pattern_text([1.0, 0.0, 0.5])
    '10~'
    """
    return "".join("~" if 1e-6 < g < 1 - 1e-6 else str(round(g)) for g in array("pattern", pattern, (None,)))


def nearest_pattern(gates: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """The pattern on which each row of 0 and 1 differs for the fewest samples."""
    g = np.asarray(gates, float)
    apart = g.sum(axis=1)[:, None] + patterns.sum(axis=1)[None] - 2 * g @ patterns.T
    return apart.argmin(axis=1)


def context_labels(context: Any, n: int) -> np.ndarray:
    """Labels of samples as an array, `(n,)`."""
    given = list(context) if isinstance(context, str) else sequence("context", context, "labels")
    labels = np.empty(0)
    with suppress(ValueError):
        labels = np.asarray([] if np.ma.is_masked(context) else given)
    if labels.dtype.kind not in "biufSU" or (labels.dtype.kind == "f" and np.isnan(labels).any()):
        raise InputError(f"context must be numbers or texts, one for each sample; got {short(context)}")
    if labels.shape != (n,):
        raise InputError(f"context must have one label per sample, shape ({n},); got {labels.shape}")
    return labels
