"""Pathways that a ReLU network grows, predicted from the data alone (theory.md section 8).

A small unit climbs its rate of growth on the unit sphere: its maxima are the patterns that emerge.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.dynamics import Status
from neuralrace.errors import InputError, array, integer, number
from neuralrace.interrupts import Progress
from neuralrace.relu.patterns import pattern_text, unit_inputs
from neuralrace.relu.training import checked_data, target_rows

SAME = 1e-5  # directions and rates that agree so far are one maximum
MAX_STARTS = MAX_STEPS = 1_000_000


@dataclass(frozen=True, eq=False)
class Maxima:
    """Maxima of $|F(w)|$, fastest first, m of them.

    Attributes
    ----------
    patterns : ndarray, shape (m, n)
        Gates, between 0 and 1 for samples on a kink.
    rates : ndarray, shape (m,)
        $|F|$, per unit of flow time.
    shares : ndarray, shape (m,)
        Share of random starts that end there.
    directions : ndarray, shape (m, in)
        Unit vectors of input weights.
    readouts : ndarray, shape (m, out)
        $F/|F|$.
    leftover : ndarray, shape (m,)
        Size of the gradient along the sphere relative to the rate, with these gates.
    dead : float
        Share of starts that end inactive on all samples.

    Examples
    --------
    >>> self_consistent([[1.0, 0.0], [0.0, 1.0]], [[1.0], [-1.0]], starts=50)
    Maxima(2 of |F|, 0.32 of starts dead)
      rate 0.5, share 0.32, 10
      rate 0.5, share 0.36, 01
    """

    patterns: np.ndarray
    rates: np.ndarray
    shares: np.ndarray
    directions: np.ndarray
    readouts: np.ndarray
    leftover: np.ndarray
    dead: float

    def __repr__(self) -> str:
        lines = [f"Maxima({len(self.rates)} of |F|, {self.dead:.3g} of starts dead)"]
        for g, rate, share in zip(self.patterns[:12], self.rates, self.shares, strict=False):
            lines.append(f"  rate {rate:.4g}, share {share:.3g}, {pattern_text(g)}")
        return "\n".join([*lines, *(["  ..."] if len(self.rates) > 12 else [])])


def self_consistent(
    X: ArrayLike,
    residual: ArrayLike,
    starts: int = 200,
    seed: int = 0,
    iterations: int = 4000,
) -> Maxima:
    r"""Patterns that small ReLU units grow into while the residual stays as it is.

    A unit with input weights $w$ and readout $v$ follows $w' = \frac1n \sum_i g_i (e_i \cdot v) x_i$ and $v'
    = F(w)$ with $F(w) = \frac1n \sum_i e_i\, \mathrm{relu}(w \cdot x_i)$. It climbs $|F|$ on the unit sphere.
    Then its weights grow at the rate $|F|$, and their product at twice that. Random starts (normal $w$ and
    $v$, as in a network) follow this flow. Where they settle, the maximum is the top direction of the pattern
    there, restricted to the kinks that it sits on.

    Parameters
    ----------
    X : array, shape (n, in)
        Inputs.
    residual : array, shape (n, out)
        What is left to learn: targets minus outputs.
    starts : int
        Number of random starts, at most a million.
    seed : int
        Of the starts.
    iterations : int
        Steps of the flow, at most a million.

    Returns
    -------
    Maxima
        Fastest first.

    Examples
    --------
    >>> maxima = self_consistent([[1.0, 0.0], [0.0, 1.0]], [[1.0], [-1.0]], starts=50)
    >>> maxima.patterns.tolist(), maxima.rates.tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5])
    """
    x, e = unit_inputs(X), array("residual", residual)
    if e.ndim != 2 or len(e) != len(x) or not e.size:
        raise InputError(f"residual must have shape ({len(x)} samples, outputs), got {e.shape}")
    starts, iterations = (
        integer("starts", starts, most=MAX_STARTS),
        integer("iterations", iterations, 4, MAX_STEPS),
    )
    rng = np.random.default_rng(integer("seed", seed, least=0))
    basis, xs = _compressed(x)
    outs, es = _compressed(e)
    if not xs.shape[1] or not es.shape[1]:
        none, *empty = (np.zeros((0, *size)) for size in ((), (len(x),), x.shape[1:], e.shape[1:]))
        return Maxima(empty[0], none, none, empty[1], empty[2], none, 1.0)
    w = rng.standard_normal((starts, x.shape[1])) @ basis
    v = rng.standard_normal((starts, e.shape[1])) @ outs
    w = _ascend(xs, es / len(x), w, v, iterations)
    return _gathered(x, xs, es / len(x), w, basis, outs)


def _compressed(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis of the row space `(size, r)` and the rows in it `(n, r)`."""
    _, s, vt = np.linalg.svd(a, full_matrices=False)
    basis = vt[s > 1e-12 * max(s.max(initial=0.0), 1e-300)].T
    return basis, a @ basis


def _ascend(x: np.ndarray, e: np.ndarray, w: np.ndarray, v: np.ndarray, steps: int) -> np.ndarray:
    """Directions after a long time; the field is homogeneous, so that only lengths are lost by scaling."""
    # No pattern grows faster than this.
    fastest = np.linalg.norm(x, ord=2) * np.linalg.norm(e, ord=2)
    # Long at first, then ever shorter: units on a kink cross it at every step, by as much as a step.
    later = np.geomspace(0.2, 1e-6, steps // 4)
    with Progress("maxima") as progress:
        for k, dt in enumerate(np.concatenate([np.full(steps - steps // 4, 0.2), later]) / fastest):
            a = w @ x.T
            slope = np.where(a > 0, v @ e.T, 0.0) @ x
            w, v = w + dt * slope, v + dt * (np.maximum(a, 0) @ e)
            size = np.sqrt((w**2).sum(axis=-1, keepdims=True) + (v**2).sum(axis=-1, keepdims=True))
            w, v = w / size, v / size
            progress(k / steps)
    return w / np.maximum(np.linalg.norm(w, axis=-1, keepdims=True), 1e-300)


@dataclass
class _Maximum:
    """A maximum in the row space of the inputs, and the starts that ended there."""

    direction: np.ndarray
    gates: np.ndarray
    rate: float
    leftover: float
    ends: list[np.ndarray] = field(default_factory=list)  # distinct ends of the flow that belong to it
    count: int = 0


def _gathered(
    x: np.ndarray, xs: np.ndarray, es: np.ndarray, w: np.ndarray, basis: np.ndarray, outs: np.ndarray
) -> Maxima:
    """Equal ends of the flow merged, each put exactly on its maximum."""
    size = np.linalg.norm(xs, axis=1)
    alive = np.flatnonzero((xs @ w.T > 1e-9 * size[:, None]).any(axis=0))
    maxima: list[_Maximum] = []
    for end in w[alive]:
        here = next((m for m in maxima if any(np.abs(v - end).max() < SAME for v in m.ends)), None)
        if here is None:
            here = _merged(maxima, _settled(xs, es, end))
            here.ends.append(end)
        here.count += 1
    fastest = max((m.rate for m in maxima), default=1.0) or 1.0
    maxima.sort(key=lambda m: (-round(m.rate / fastest, 6), pattern_text(1 - m.gates)))
    directions = np.array([m.direction for m in maxima]).reshape(-1, xs.shape[1])
    readouts = np.maximum(directions @ xs.T, 0) @ es
    readouts /= np.maximum(np.linalg.norm(readouts, axis=1, keepdims=True), 1e-300)
    return Maxima(
        np.array([m.gates for m in maxima]).reshape(-1, len(x)),
        np.array([m.rate for m in maxima]),
        np.array([m.count / len(w) for m in maxima]),
        directions @ basis.T,
        readouts @ outs.T,
        np.array([m.leftover for m in maxima]),
        1 - len(alive) / len(w),
    )


def _merged(maxima: list[_Maximum], new: _Maximum) -> _Maximum:
    """The maximum in the list that is the same as a new one, which is added if there is none."""
    for m in maxima:
        if abs(m.rate - new.rate) < SAME * m.rate and np.abs(m.direction - new.direction).max() < 1e-3:
            if new.leftover < m.leftover:
                m.direction, m.gates = new.direction, new.gates
                m.rate, m.leftover = new.rate, new.leftover
            return m
    maxima.append(new)
    return new


def _settled(x: np.ndarray, e: np.ndarray, w: np.ndarray) -> _Maximum:
    """The maximum next to w.

    Whether a sample lies on a kink is tried at several tolerances; the one with the least leftover gradient
    is taken.
    """
    a = x @ w / np.maximum(np.linalg.norm(x, axis=1), 1e-300)
    tries: dict[bytes, _Maximum] = {}
    for tolerance in (1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
        on, kink = a > tolerance, np.abs(a) <= tolerance
        key = on.tobytes() + kink.tobytes()
        if on.any() and key not in tries:
            tries[key] = _top(x, e, w, on, kink)
            if tries[key].leftover < 1e-9:
                break
    return min(tries.values(), key=lambda m: m.leftover)


def _top(x: np.ndarray, e: np.ndarray, w: np.ndarray, on: np.ndarray, kink: np.ndarray) -> _Maximum:
    """The maximum with these samples on and these on a kink, nearest to w where it is degenerate."""
    from scipy.optimize import lsq_linear

    free = np.eye(x.shape[1])
    if kink.any():
        _, s, vt = np.linalg.svd(x[kink])
        free = vt[(s > 1e-9 * s[0]).sum() :].T
    none = _Maximum(w, on + 0.5 * kink, float(np.linalg.norm(np.maximum(x @ w, 0) @ e)), np.inf)
    if not free.shape[1]:
        return none
    syx = e[on].T @ x[on] @ free
    _, s, vt = np.linalg.svd(syx, full_matrices=False)
    tied = vt[s > s[0] * (1 - 1e-7)] @ free.T
    d = tied.T @ (tied @ w)
    if np.linalg.norm(d) < 1e-3:
        return none
    d /= np.linalg.norm(d)
    r = np.maximum(x @ d, 0) * on
    u = r @ e
    rate = float(np.linalg.norm(u))
    if rate == 0:
        return none
    pull = (e @ (u / rate))[:, None] * x  # of each sample, on w
    rest = pull[on].sum(axis=0) - rate * d
    gates = on.astype(float)
    if kink.any() and np.linalg.norm(rest) > 1e-9 * rate:  # else they are off: nothing needs them
        # Where gates are not unique, those nearest to one half.
        small = 1e-6 * np.abs(pull[kink]).max() * np.eye(kink.sum())
        both = np.concatenate([pull[kink].T, small]), np.concatenate([-rest, 0.5 * small.sum(axis=0)])
        gates[kink] = lsq_linear(*both, bounds=(0.0, 1.0), tol=1e-14).x
        rest = rest + gates[kink] @ pull[kink]
    wrong = float(np.abs(np.where(kink, 0.0, (x @ d > 0) != on)).max())  # gates that d does not have
    return _Maximum(d, gates, rate, float(np.linalg.norm(rest) / rate) + wrong)


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
    share: float = 1e-3,
    max_rounds: int = 10,
    starts: int = 400,
    seed: int = 0,
    tie: float = 1e-4,
    bias: bool = False,
) -> Pathways:
    """Pathways of a ReLU network in the order they emerge, without training.

    Round by round: the fastest maxima of $|F|$ on the residual (see `self_consistent`) become pathways with
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
    share : float
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
    share, tie = number("share", share, above=0), number("tie", tie, least=0)
    max_rounds, seed = integer("max_rounds", max_rounds), integer("seed", seed, least=0)
    residual = y
    losses = [0.5 * float((y**2).sum()) / len(y)]
    patterns, rates, rounds, shares = np.zeros((0, len(x))), [], [], []
    ending = None
    while ending is None:
        k = len(losses) - 1
        if losses[-1] <= share * losses[0]:
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
