"""Gating patterns: which ones a ReLU unit can have, and which ones it grows into (theory section 8)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import InputError, array, integer, number
from neuralrace.network import precision

MOST_SAMPLES = 16
SAME = 1e-5  # directions and rates that agree so far are one maximum


def implementable(pattern: Any, X: Any, bias: bool = False) -> bool:
    """Whether one ReLU unit can be active on exactly the samples where `pattern` `(n,)` is 1.

    It can if a w exists with `w.x >= 1` where the pattern is 1 and `w.x <= 0` where it is 0: a linear
    program. `bias` adds a bias to the unit.

    >>> items_in_contexts = [[1, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1]]
    >>> implementable([1, 1, 0, 0], items_in_contexts), implementable([0, 1, 1, 0], items_in_contexts)
    (True, False)
    """
    x = _inputs(X, bias)
    g = array("pattern", pattern)
    if g.shape != (len(x),):
        raise InputError(f"pattern must have one entry per sample, shape ({len(x)},); got {g.shape}")
    if not np.isin(g, (0.0, 1.0)).all():
        raise InputError(f"pattern must hold 0 and 1, got {g.tolist()[:8]}")
    return _witness(x, g > 0) is not None


def implementable_patterns(X: Any, bias: bool = False) -> np.ndarray:
    """All patterns that one ReLU unit can have on a small data set, `(m, n)` of 0 and 1; all-off is first.

    Samples are added one by one; what extends no pattern of those before is never looked at.
    """
    x = _inputs(X, bias)
    if len(x) > MOST_SAMPLES:
        raise InputError(f"X must have at most {MOST_SAMPLES} samples to list all patterns, got {len(x)}")
    found: list[tuple[list[bool], np.ndarray]] = [([], np.zeros(x.shape[1]))]
    for k in range(len(x)):
        longer = []
        for pattern, w in found:
            on = bool(x[k] @ w > 0.5)
            # The witness settles one side; where it lies in between, a linear program settles both.
            settled = on or bool(x[k] @ w <= 0)
            for side in (False, True):
                new = [*pattern, side]
                v = w if settled and side == on else _witness(x[: k + 1], np.array(new))
                if v is not None:
                    longer.append((new, v))
        found = longer
    return np.array([pattern for pattern, _ in found], float)


def _inputs(X: Any, bias: bool) -> np.ndarray:
    x = array("X", X, (None, None))
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


# -- what a small unit grows into ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Maxima:
    """Maxima of `|F(w)|`, fastest first, m of them.

    `patterns` `(m, n)`: gates, between 0 and 1 for samples on a kink; `rates` `(m,)`: |F|; `shares` `(m,)`:
    share of random starts that end there; `directions` `(m, in)` unit vectors; `readouts` `(m, out)`: F/|F|.
    `leftover` `(m,)`: size of the gradient along the sphere relative to the rate, with these gates. `dead` is
    the share of starts that end inactive on all samples.
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


def pattern_text(pattern: np.ndarray) -> str:
    """A pattern as digits; ~ where a gate is neither 0 nor 1."""
    return "".join("~" if 1e-6 < g < 1 - 1e-6 else str(round(g)) for g in pattern)


def self_consistent(
    X: Any,
    residual: Any,
    starts: int = 200,
    seed: int = 0,
    steps: int = 4000,
) -> Maxima:
    """Patterns that small ReLU units grow into while the residual `(n, out)` stays as it is.

    A unit with input weights w and readout v follows `w' = sum g_i (e_i.v) x_i / n`, `v' = F(w)` with
    `F(w) = sum e_i relu(w.x_i) / n`: it climbs `|F|` on the unit sphere, and then its weights grow at the
    rate `|F|`, their product at twice that. Random starts (normal w and v, as in a network) follow this flow;
    where they settle is found exactly as the top direction of the pattern there, restricted to the kinks it
    sits on.

    >>> found = self_consistent([[1.0, 0.0], [0.0, 1.0]], [[1.0], [-1.0]], starts=50)
    >>> found.patterns.tolist(), found.rates.tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5])
    """
    x, e = array("X", X, (None, None)), array("residual", residual)
    if e.ndim != 2 or len(e) != len(x):
        raise InputError(f"residual must have shape ({len(x)} samples, outputs), got {e.shape}")
    starts, steps = integer("starts", starts), integer("steps", steps)
    rng = np.random.default_rng(integer("seed", seed, least=0))
    basis, xs = _compressed(x)
    outs, es = _compressed(e)
    empty = np.zeros((0, len(x)))
    if not xs.shape[1] or not es.shape[1]:
        none = np.zeros(0)
        return Maxima(
            empty, none, none, np.zeros((0, x.shape[1])), np.zeros((0, e.shape[1])), none, 1.0
        )  # fmt: skip
    w = rng.standard_normal((starts, x.shape[1])) @ basis
    v = rng.standard_normal((starts, e.shape[1])) @ outs
    with precision(np.float64):
        w = np.asarray(_ascend(jnp.asarray(xs), jnp.asarray(es / len(x)), w, v, steps))
    return _gathered(x, xs, es / len(x), w, basis, outs)


def _compressed(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis of the row space `(size, r)` and the rows in it `(n, r)`."""
    _, s, vt = np.linalg.svd(a, full_matrices=False)
    basis = vt[s > 1e-12 * max(s.max(initial=0.0), 1e-300)].T
    return basis, a @ basis


@partial(jax.jit, static_argnums=4)
def _ascend(x: Any, e: Any, w: Any, v: Any, steps: int) -> Any:
    """Directions after a long time; the field is homogeneous, so that only lengths are lost by scaling."""
    # No pattern grows faster than this.
    fastest = jnp.linalg.norm(x, ord=2) * jnp.linalg.norm(e, ord=2)

    def step(state: Any, dt: Any) -> Any:
        w, v = state
        a = w @ x.T
        slope = ((a > 0) * (v @ e.T)) @ x
        w, v = w + dt * slope, v + dt * (jnp.maximum(a, 0) @ e)
        size = jnp.sqrt((w**2).sum(-1, keepdims=True) + (v**2).sum(-1, keepdims=True))
        return (w / size, v / size), None

    # Long at first, then ever shorter: units on a kink cross it at every step, by as much as a step.
    later = jnp.geomspace(0.2, 1e-6, steps // 4)
    dt = jnp.concatenate([jnp.full(steps - steps // 4, 0.2), later]) / fastest
    (w, v), _ = jax.lax.scan(step, (jnp.asarray(w), jnp.asarray(v)), dt)
    return w / jnp.maximum(jnp.linalg.norm(w, axis=-1, keepdims=True), 1e-300)


def _gathered(
    x: np.ndarray, xs: np.ndarray, es: np.ndarray, w: np.ndarray, basis: np.ndarray, outs: np.ndarray
) -> Maxima:
    """Equal ends merged, each put exactly on its maximum."""
    size = np.linalg.norm(xs, axis=1)
    alive = np.flatnonzero((xs @ w.T > 1e-9 * size[:, None]).any(axis=0))
    kept: list[tuple[np.ndarray, np.ndarray, float, float]] = []
    count: list[int] = []
    rough: list[np.ndarray] = []
    place: list[int] = []
    for k in alive:
        near = [j for j, r in enumerate(rough) if np.abs(r - w[k]).max() < SAME]
        if near:
            count[place[near[0]]] += 1
            continue
        direction, pattern, rate, left = _settled(xs, es, w[k])
        same = [
            j
            for j, (d, _, r, _) in enumerate(kept)
            if abs(r - rate) < SAME * r and np.abs(d - direction).max() < 1e-3
        ]
        if same:
            j = same[0]
            if left < kept[j][3]:
                kept[j] = (direction, pattern, rate, left)
            count[j] += 1
        else:
            j = len(kept)
            kept.append((direction, pattern, rate, left))
            count.append(1)
        rough.append(w[k])
        place.append(j)
    total = max(len(w), 1)
    digits = [
        (-round(r / max(1e-300, max(q[2] for q in kept)), 6), pattern_text(1 - g)) for _, g, r, _ in kept
    ]
    order = sorted(range(len(kept)), key=lambda j: digits[j])
    directions = np.array([kept[j][0] for j in order]).reshape(-1, xs.shape[1])
    readouts = np.maximum(directions @ xs.T, 0) @ es
    readouts /= np.maximum(np.linalg.norm(readouts, axis=1, keepdims=True), 1e-300)
    return Maxima(
        np.array([kept[j][1] for j in order]).reshape(-1, len(x)),
        np.array([kept[j][2] for j in order]),
        np.array([count[j] / total for j in order]),
        directions @ basis.T,
        readouts @ outs.T,
        np.array([kept[j][3] for j in order]),
        1 - len(alive) / total,
    )


def _settled(x: np.ndarray, e: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
    """The maximum next to w: its direction, gates, rate, and what is left of the gradient.

    Whether a sample lies on a kink is tried at several tolerances; the try that leaves least is taken.
    """
    a = x @ w / np.maximum(np.linalg.norm(x, axis=1), 1e-300)
    tries, seen = [], set()
    for tolerance in (1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
        on, kink = a > tolerance, np.abs(a) <= tolerance
        if (on.tobytes(), kink.tobytes()) in seen or not on.any():
            continue
        seen.add((on.tobytes(), kink.tobytes()))
        tries.append(_top(x, e, w, on, kink))
        if tries[-1][3] < 1e-9:
            break
    return min(tries, key=lambda found: found[3])


def _top(
    x: np.ndarray, e: np.ndarray, w: np.ndarray, on: np.ndarray, kink: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """The maximum with these samples on and these on a kink, nearest to w where it is degenerate."""
    from scipy.optimize import lsq_linear

    free = np.eye(x.shape[1])
    if kink.any():
        _, s, vt = np.linalg.svd(x[kink])
        free = vt[(s > 1e-9 * s[0]).sum() :].T
    none = (w, on + 0.5 * kink, float(np.linalg.norm(np.maximum(x @ w, 0) @ e)), np.inf)
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
    return d, gates, rate, float(np.linalg.norm(rest) / rate) + wrong


# -- pathway after pathway -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pathways:
    """Predicted pathways, first to emerge first: `patterns` `(m, n)` and `rates` `(m,)`.

    Those of one `rounds` entry `(m,)` emerge together. `shares` `(m,)` are the shares of random starts in
    their basins, `loss` `(rounds + 1,)` the mean loss before the first round and after each. `outcome` starts
    with `finished` or `step limit`.
    """

    patterns: np.ndarray
    rates: np.ndarray
    rounds: np.ndarray
    shares: np.ndarray
    loss: np.ndarray
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
    X: Any,
    Y: Any,
    loss: float = 1e-3,
    most: int = 10,
    starts: int = 400,
    seed: int = 0,
    tie: float = 1e-4,
    bias: bool = False,
) -> Pathways:
    """Pathways of a ReLU network on inputs `X` and targets `Y` in the order they emerge, without training.

    Round by round: the fastest maxima of `|F|` on the residual (see `self_consistent`; all whose rates agree
    to `tie`, relative) become pathways with the gates they have there; all pathways so far are then learned
    together, which for constant gates is one least-squares problem; what they leave is the next residual.
    It ends when the loss is below `loss` times the initial one, when a round gains nothing, or after `most`
    rounds. Between rounds gates are constant and a pathway learns all its modes: the picture of
    make_haste_slowly section 4, with gates found instead of given.

    >>> predict_pathways([[1.0, 0.0], [0.0, 1.0]], [[1.0], [-1.0]]).patterns.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    x, y = _inputs(X, bias), array("Y", Y, (None, None))
    if len(y) != len(x):
        raise InputError(f"Y must have as many rows as X, {len(x)}; got {len(y)}")
    level, tie = number("loss", loss, above=0), number("tie", tie, least=0)
    e = y
    losses = [0.5 * float((y**2).sum()) / len(y)]
    patterns, rates, rounds, shares = np.zeros((0, len(x))), [], [], []
    outcome = f"step limit of {most} rounds: try increasing most"
    for k in range(integer("most", most)):
        if losses[-1] <= level * losses[0]:
            outcome = f"finished: loss {losses[-1]:.2g} after {k} rounds"
            break
        found = self_consistent(x, e, starts, seed + k)
        new = found.rates >= found.rates.max(initial=0.0) * (1 - tie)
        if not new.any():
            outcome = f"finished: no start grows on what is left, loss {losses[-1]:.2g}"
            break
        patterns = np.concatenate([patterns, found.patterns[new]])
        rates += found.rates[new].tolist()
        shares += found.shares[new].tolist()
        rounds += [k] * int(new.sum())
        e = _left(x, y, patterns)
        losses.append(0.5 * float((e**2).sum()) / len(y))
        if losses[-1] > losses[-2] * (1 - 1e-9):
            outcome = f"finished: round {k} gained nothing, loss {losses[-1]:.2g}"
            break
    else:
        if losses[-1] <= level * losses[0]:
            outcome = f"finished: loss {losses[-1]:.2g} after {most} rounds"
    return Pathways(
        patterns, np.array(rates), np.array(rounds, int), np.array(shares), np.array(losses), outcome
    )


def _left(x: np.ndarray, y: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """What linear pathways with these gates, learned together, leave of the targets."""
    seen = np.concatenate([g[:, None] * x for g in np.unique(patterns, axis=0)], axis=1)
    u, s, _ = np.linalg.svd(seen, full_matrices=False)
    u = u[:, s > 1e-9 * s.max(initial=0.0)]
    return y - u @ (u.T @ y)
