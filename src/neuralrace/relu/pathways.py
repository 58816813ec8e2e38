"""Pathways that a ReLU network grows, predicted from the data alone (theory section 8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.dynamics import Status
from neuralrace.errors import array, integer, number
from neuralrace.relu.given import checked_data, target_rows
from neuralrace.relu.maxima import self_consistent
from neuralrace.relu.patterns import pattern_text, unit_inputs


@dataclass(frozen=True, eq=False)
class Pathways:
    """Predicted pathways, first to emerge first, m of them.

    Attributes
    ----------
    patterns : ndarray, shape (m, n)
        Gates, between 0 and 1 for samples on a kink.
    rates : ndarray, shape (m,)
        Rates at which they grow, per unit of flow time.
    rounds : ndarray, shape (m,)
        Those of one round emerge together.
    shares : ndarray, shape (m,)
        Shares of random starts in their basins.
    loss : ndarray, shape (rounds + 1,)
        Mean loss before the first round and after each.
    status : Status
        FINISHED, or STEP_LIMIT if there may be more rounds.
    outcome : str
        The same in words.

    Examples
    --------
    >>> predict_pathways([[1.0, 0.0], [0.0, 1.0]], [[1.0], [-1.0]])
    Pathways(2 in 1 rounds, finished: loss 0 after 1 rounds)
      0: rate 0.5, 10
      0: rate 0.5, 01
    """

    patterns: np.ndarray
    rates: np.ndarray
    rounds: np.ndarray
    shares: np.ndarray
    loss: np.ndarray
    status: Status
    outcome: str

    def __repr__(self) -> str:
        lines = [f"Pathways({len(self.rates)} in {len(self.loss) - 1} rounds, {self.outcome})"]
        for k, (g, rate) in enumerate(zip(self.patterns, self.rates, strict=True)):
            lines.append(f"  {self.rounds[k]}: rate {rate:.4g}, {pattern_text(g)}")
            if k == 40:
                lines.append("  ...")
                break
        return "\n".join(lines)


def predict_pathways(
    X: ArrayLike,
    Y: ArrayLike,
    level: float = 1e-3,
    max_rounds: int = 10,
    starts: int = 400,
    seed: int = 0,
    tie: float = 1e-4,
    bias: bool = False,
) -> Pathways:
    """Pathways of a ReLU network in the order they emerge, without training.

    Round by round: the fastest maxima of `|F|` on the residual (see `self_consistent`) become pathways with
    the gates they have there; all pathways so far are then learned together, which for constant gates is one
    least-squares problem; what they leave is the next residual. Between rounds gates are constant and a
    pathway learns all its modes: the picture of make_haste_slowly section 4, with gates maxima instead of
    given.

    Parameters
    ----------
    X : array, shape (n, in)
        Inputs.
    Y : array, shape (n, out) or (n,)
        Targets.
    level : float
        Share of the initial loss at which to end.
    max_rounds : int
        Rounds after which to end; it also ends after a round that gains nothing.
    starts, seed
        Number of random starts in each round, and their seed.
    tie : float
        Maxima whose rates agree so far, relatively, emerge together.
    bias : bool
        Whether units have biases.

    Returns
    -------
    Pathways
        First to emerge first.

    Examples
    --------
    >>> predict_pathways([[1.0, 0.0], [0.0, 1.0]], [[1.0], [-1.0]]).patterns.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    x, y = checked_data(X, Y)
    x = unit_inputs(x, bias)
    level, tie = number("level", level, above=0), number("tie", tie, least=0)
    max_rounds, seed = integer("max_rounds", max_rounds), integer("seed", seed, least=0)
    residual = y
    losses = [0.5 * float((y**2).sum()) / len(y)]
    patterns, rates, rounds, shares = np.zeros((0, len(x))), [], [], []
    ending = None
    while ending is None:
        k = len(losses) - 1
        if losses[-1] <= level * losses[0]:
            ending = f"loss {losses[-1]:.2g} after {k} rounds"
        elif k and losses[-1] > losses[-2] * (1 - 1e-9):
            ending = f"round {k - 1} gained nothing, loss {losses[-1]:.2g}"
        elif k == max_rounds:
            break
        else:
            maxima = self_consistent(x, residual, starts, seed + k)
            new = maxima.rates >= maxima.rates.max(initial=0.0) * (1 - tie)
            if not new.any():
                ending = f"no start grows on what is left, loss {losses[-1]:.2g}"
                break
            patterns = np.concatenate([patterns, maxima.patterns[new]])
            rates += maxima.rates[new].tolist()
            shares += maxima.shares[new].tolist()
            rounds += [k] * int(new.sum())
            residual = pathway_residual(x, y, patterns)
            losses.append(0.5 * float((residual**2).sum()) / len(y))
    status = Status.STEP_LIMIT if ending is None else Status.FINISHED
    outcome = ending or f"{max_rounds} rounds: try increasing max_rounds"
    return Pathways(
        patterns,
        np.array(rates),
        np.array(rounds, int),
        np.array(shares),
        np.array(losses),
        status,
        f"{status.value}: {outcome}",
    )


def pathway_residual(X: ArrayLike, Y: ArrayLike, patterns: ArrayLike | None = None) -> np.ndarray:
    """What linear pathways with constant gates leave of the targets when they have learned.

    Parameters
    ----------
    X : array, shape (n, in)
        Inputs.
    Y : array, shape (n, out) or (n,)
        Targets.
    patterns : array, shape (pathways, n), optional
        Gates of the pathways; by default one that is always open.

    Returns
    -------
    ndarray, shape (n, out)

    Examples
    --------
    >>> pathway_residual([[1.0], [1.0]], [[1.0], [3.0]]).round(12)
    array([[-1.],
           [ 1.]])
    """
    x = array("X", X, (None, None))
    y = target_rows(Y, (len(x), None))
    gates = np.ones((1, len(x))) if patterns is None else array("patterns", patterns, (None, len(x)))
    seen = np.concatenate([g[:, None] * x for g in np.unique(gates, axis=0)], axis=1)
    u, s, _ = np.linalg.svd(seen, full_matrices=False)
    u = u[:, s > 1e-9 * s.max(initial=0.0)]
    return y - u @ (u.T @ y)
