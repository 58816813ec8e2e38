"""The equations of the two-point theory, as they are printed, against the gradient flow they stand for: a
linear encoder, a linear decoder and a mean output descend the loss of two samples (Eq. 16), with slopes by
automatic differentiation. Where an equation is misprinted, a second row shows the form that holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp
from scipy.stats import norm

import neuralrace as nr
from neuralrace import plot, universality
from neuralrace.measure import half_time
from neuralrace_papers.framework import Data, Experiment, figure, part, rows

ALONG = np.array([1.0, 0.0])  # direction of the difference of targets
SAVED = 200


@dataclass(frozen=True)
class TwoPointEquations:
    seeds: Annotated[int, "random starts"] = 20
    dx: Annotated[float, "distance of the inputs"] = 0.7
    dy: Annotated[float, "distance of the targets"] = 1.1
    rate_h: Annotated[float, "rate of the encoder in Eq. 7"] = 1.3
    rate_y: Annotated[float, "rate of the decoder in Eq. 7"] = 0.4
    rate_mean: Annotated[float, "rate of the mean output"] = 0.1
    draws: Annotated[int, "random starts of the distribution of final distances"] = 20000
    gain: Annotated[float, "gain of these starts"] = 0.4
    small: Annotated[float, "a gain at which nothing random should be left"] = 1e-3

    @property
    def given(self) -> dict[str, float]:
        return {"dx": self.dx, "dy": self.dy, "rate_h": self.rate_h, "rate_y": self.rate_y}

    @property
    def encoding(self) -> float:
        """The factor of w in the first line of Eq. 21."""
        return self.rate_h * self.dx**2


def eq_16(encoder: Any, decoder: Any, mean: Any, dx: float, dy: float) -> Any:
    """Half of the mean squared error of two samples with targets on both sides of 0."""
    apart = decoder * encoder * dx - dy * ALONG
    return sum(((mean + sign * apart / 2) ** 2).sum() for sign in (-1, 1)) / 4


def descended(p: TwoPointEquations, start: Sequence[float], t: np.ndarray, dy: float) -> np.ndarray:
    """dh2, dy2, w, loss and length of the mean output `(5, times)` along the flow of Eq. 16.

    Its rates are twice those of Eq. 7, for the factor that Eq. 17 has lost.
    """
    rates = np.repeat([2 * p.rate_h, 2 * p.rate_y, p.rate_mean], [1, 2, 2])
    with jax.enable_x64(True):
        both = jax.jit(jax.value_and_grad(lambda v: eq_16(v[0], v[1:3], v[3:], p.dx, dy)))
        path = integrated(lambda v: -rates * np.asarray(both(v)[1]), start, t)
        loss = [float(both(jnp.asarray(v))[0]) for v in path.T]
    outputs = path[1:3] * path[0] * p.dx
    dy2, mean = (outputs**2).sum(axis=0), np.linalg.norm(path[3:], axis=0)
    return np.array([(path[0] * p.dx) ** 2, dy2, dy2 - dy * ALONG @ outputs, loss, mean])


def integrated(slope: Any, start: Any, t: np.ndarray) -> np.ndarray:
    return solve_ivp(lambda _, v: slope(v), (0, t[-1]), start, "DOP853", t, rtol=1e-11, atol=1e-15).y


@part
def flows(p: TwoPointEquations):
    """From random starts: the flow with different and with equal targets, Eq. 21 and its closed form."""
    rng, found = np.random.default_rng(1), []
    for _ in range(p.seeds):
        (encoder, size), angle, mean = 10 ** rng.uniform(-1, 0.3, 2), rng.uniform(0, 1.5), rng.normal(size=2)
        start = [encoder, size * np.cos(angle), size * np.sin(angle), *mean]
        dh2 = (encoder * p.dx) ** 2
        last = 30 / (p.rate_y * universality.final_distance(dh2, size**2 * dh2, **p.given))
        t = np.append(0, np.geomspace(1e-4 * last, last, SAVED - 1))
        flow = descended(p, start, t, p.dy)
        system = integrated(lambda v: np.array(universality.velocity(*v, **p.given)), flow[:3, 0], t)
        closed = np.array(universality.solve(t, *flow[:3, 0], **p.given))
        found.append((t, flow, descended(p, start, t, 0.0), system, closed))
    kinds = ("run time", "run series time", "run series time", "run variable time", "run variable time")
    names = ("t", "flow", "equal", "eq_21", "closed")
    return {n: (d, np.array(v)) for n, d, v in zip(names, kinds, zip(*found, strict=True), strict=True)}


@part
def starts(p: TwoPointEquations):
    """Final distances (Eq. 10) from random starts (A.6), by gain; with equal rates in the second column."""
    encoder, decoder = np.random.default_rng(2).normal(1, 1, (2, p.draws))
    final = np.empty((2, 2, p.draws))
    for k, gain in enumerate((p.gain, p.small)):
        for c, ratio in enumerate((p.rate_h / p.rate_y, 1.0)):
            high, low2 = p.dx**2 * gain * (encoder - ratio * decoder), ratio * (p.dx * p.dy) ** 2
            final[k, c] = high / 2 + np.sqrt(high**2 / 4 + low2)
    return {"final": ("gain rates draw", np.sort(final, axis=-1))}


def eq_39(p: TwoPointEquations, t: Any, dh2: Any, dy2: Any, rate: float) -> Any:
    """|dh|^2 of equal targets, with this rate in the exponent; as printed there is none."""
    high, _ = universality.scales(dh2, dy2, p.dx, 0.0, p.rate_h, p.rate_y)
    with np.errstate(over="ignore"):  # to 0 where high is negative
        return high / (1 + (high / dh2 - 1) * np.exp(-high * rate * t))


def eq_47(p: TwoPointEquations, h: Any) -> Any:
    """Probability of a final distance below h, as printed."""
    low2 = p.rate_h / p.rate_y * (p.dx * p.dy) ** 2
    return norm.cdf((h - low2 / h) / (np.sqrt(2) * p.dx**2 * p.gain))


@figure("equations")
def equations(p: TwoPointEquations, data: Data):
    d, (equal, losses, distances) = data.flows, plot.figure(1, 3, width=plot.PAGE, height=2.9)[1]
    t, flow, other = (d[name].values[0] for name in ("t", "flow", "equal"))
    timed = {"xscale": "log", "xlim": (t[1], t[-1]), "ylim": (0, None), "legend": plot.ABOVE}

    def panel(ax: Any, x: Any, measured: Any, curves: Iterable[Any], number: int) -> None:
        right, printed = curves
        plot.runs(ax, x, measured[None], plot.BLUE, "random starts" if ax is distances else "gradient flow")
        plot.theory(ax, x, right, plot.BLACK, f"Eq. {number}, corrected")
        plot.theory(ax, x, printed, plot.RED, f"Eq. {number}, as printed", ls="--")

    dh2, dy2 = other[:2, 0]
    panel(equal, t, other[0], (eq_39(p, t, dh2, dy2, rate) for rate in (p.rate_y, 1.0)), 39)
    plot.label(equal, "time (units of Eq. 7)", "|dh|², equal targets", **timed)
    given = t, flow[1], flow[2], p.dy, flow[4, 0]
    panel(losses, t, flow[3], (universality.loss(*given, r) for r in (p.rate_mean, 2 * p.rate_y)), 22)
    plot.label(losses, "time (units of Eq. 7)", "loss", **timed)
    final = data.starts.final.values[0, 0]
    shares = (np.arange(p.draws) + 0.5) / p.draws
    right = universality.final_cdf(final, p.gain, **p.given)
    panel(distances, final, shares, (right, eq_47(p, final)), 47)
    plot.label(distances, "final |dh|²", "share below", legend=plot.ABOVE)
    return equal.figure, (
        "Three of the equations with slips, beside what they stand for: representations of equal targets and "
        "the loss along the gradient flow of Eq. 16 from one start, and the distribution of final distances "
        f"over random starts of gain {p.gain:g}."
    )


def gap(theory: Any, flow: Any) -> np.ndarray:
    """Largest difference of each run, relative to the largest value of each series."""
    off = np.abs(np.asarray(theory) - flow) / np.abs(flow).max(axis=-1, keepdims=True)
    return np.reshape(off, (len(off), -1)).max(axis=1)


@rows
def reduction(p: TwoPointEquations, data: Data):
    """Eq. 17 to 24: slopes, the three variables, the mean output and the loss."""
    rng = np.random.default_rng(0)
    encoder, (decoder, mean) = rng.normal(), rng.normal(size=(2, 2))
    with jax.enable_x64(True):
        h, y = jax.grad(eq_16, (0, 1))(encoder, jnp.asarray(decoder), jnp.asarray(mean), p.dx, p.dy)
    miss = decoder * encoder * p.dx - p.dy * ALONG
    slopes = np.array([float(h) / (decoder @ miss * p.dx), *(np.asarray(y) / (miss * encoder * p.dx))])
    yield "eq-17", 2 * slopes
    yield "eq-17-quarter", 4 * slopes
    d, t = data.flows, data.flows.t.values
    flow = d.flow.values
    yield "eq-21", gap(d.eq_21, flow[:, :3])
    yield "closed-form", gap(d.closed, flow[:, :3])
    yield "eq-18", gap(flow[:, 4, :1] * np.exp(-p.rate_mean * t), flow[:, 4])
    given = t, flow[:, 1], flow[:, 2], p.dy, flow[:, 4, :1]
    yield "eq-22", gap(universality.loss(*given, 2 * p.rate_y), flow[:, 3])
    yield "eq-22-mean-rate", gap(universality.loss(*given, p.rate_mean), flow[:, 3])


@rows
def plane(p: TwoPointEquations, data: Data):
    """Eq. 23 to 36: the plane of |dh|^2 and w, and its fixed points."""
    h, y, w = data.flows.flow.values.swapaxes(0, 1)[:3]
    a, b = p.encoding, p.rate_y
    constant = y / h - b / a * h
    yield "eq-24", np.ptp(constant, axis=1) / np.ptp(y / h, axis=1)
    first = -(-(b**2) / a * h**3 + b * p.dy**2 * h + 4 * b * h * w + a * w**2 / h) / 2
    last = constant * (a * w - b * h**2)
    slope = np.array(universality.velocity(h, y, w, **p.given))[2]
    yield "eq-25", gap(first + last, slope)
    yield "eq-25-in-bracket", gap(first - last / 2, slope)
    final = universality.final_distance(h[:, 0], y[:, 0], **p.given)
    yield "eq-36", np.abs(h[:, -1] / final - 1)
    high, low = universality.scales(h[:, 0], y[:, 0], **p.given)
    root, step = np.hypot(high, 2 * low), 1e-5 * final
    by_h, by_w = (
        np.subtract(*(universality.plane_velocity(final + s * u, s * v, high, **p.given) for s in (1, -1)))
        / (2 * step)
        for u, v in ((step, 0 * step), (0 * step, step))
    )
    trace, determinant = by_h[0] + by_w[1], by_h[0] * by_w[1] - by_h[1] * by_w[0]
    printed = -b * (high / 2 + root), b**2 / 4 * (2 * low**2 + (high + root) ** 2 / 2)
    yield "eq-29", np.abs([printed[0] / trace - 1, printed[1] / determinant - 1]).max(axis=0)
    small = 1e-10
    high, low = universality.scales(small, small, **p.given)
    rate, t = b * (high + np.hypot(high, 2 * low)) / 2, np.array([20.0, 21.0]) / (b * np.hypot(high, low))
    before, after = universality.solve(t, small, small, small, **p.given).dh2
    yield "eq-35", np.log(after / before) / (t[1] - t[0]) / rate


@rows
def limits(p: TwoPointEquations, data: Data):
    """Equal targets, and what becomes of large and of small weights (3.2, 4.1, A.4-5)."""
    d = data.flows
    h, y, w = d.flow.values.swapaxes(0, 1)[:3]
    equal = d.equal.values[:, 0]
    yield "eq-39", gap(eq_39(p, d.t.values, h[:, :1], y[:, :1], 1.0), equal)
    yield "eq-39-with-rate", gap(eq_39(p, d.t.values, h[:, :1], y[:, :1], p.rate_y), equal)
    powers = np.array([1, 2, 2])[:, None, None]
    plain, state = np.array(universality.velocity(h, y, w, **p.given)), np.array([h, y, w])
    for name, factor in (("eq-42", 10.0), ("eq-42-inverted", 0.1)):
        changed = universality.velocity(*(factor**powers * state), **p.given | {"dy": p.dy / 10})
        yield name, gap(np.array(changed)[2], (factor ** (powers + 1) * plain)[2])
    given = {"dx": p.dx, "rate_h": p.rate_h, "rate_y": p.rate_y}
    off = []
    for start in zip(h[:, 0], y[:, 0], strict=True):
        t, scale = np.linspace(0, 5 / (p.rate_y * start[0]), 50), 1e3
        dh2, dy2 = scale * start[0], scale**2 * start[1]
        large = universality.solve(t / scale, dh2, dy2, dy2 - 0.5 * np.sqrt(dy2) * p.dy, **p.given).dh2
        off.append(gap([large / scale], [universality.equal_targets(t, *start, **given).dh2])[0])
    yield "large-weights", np.array(off)
    ratios = 10 ** np.random.default_rng(3).uniform(-1, 1, (2, 1000))  # of encoders, of decoders
    for name, size in (("high", 1e4), ("low", 1e-4)):
        dh2 = size * ratios[0] * p.dx**2
        dy2 = size * ratios[1] * dh2
        limit = universality.scales(dh2, dy2, **p.given)[name == "low"]
        off = np.abs(universality.final_distance(dh2, dy2, **p.given) / limit - 1)
        yield f"a-{name}", off.max()
        if name == "high":
            yield "a-high-positive", off[limit > 0].max()
    for name, size in (("small", 1e-4), ("large", 1e4)):
        dh2, dy2 = size * p.dx**2, 0.1 * size**2 * p.dx**2
        last = 40 / (p.rate_y * universality.final_distance(dh2, dy2, **p.given))
        t = np.linspace(0, last, 200_001)
        way = universality.solve(t, dh2, dy2, dy2 - 0.5 * np.sqrt(dy2) * p.dy, **p.given).dh2
        tenth, most = (half_time(t, way, share=share) for share in (0.1, 0.9))
        yield f"plateau-{name}", float(tenth / most)


@rows
def random_starts(p: TwoPointEquations, data: Data):
    """The distribution of final distances (A.6), by the statistic of Kolmogorov and Smirnov."""
    final, shares = data.starts.final.values, (np.arange(p.draws) + 0.5) / p.draws
    unit = np.sqrt(p.draws)
    yield "eq-47", unit * np.abs(eq_47(p, final[0, 0]) - shares).max()
    for name, given, column in (("rates", p.given, 0), ("equal-rates", p.given | {"rate_h": p.rate_y}, 1)):
        right = universality.final_cdf(final[0, column], p.gain, **given)
        yield f"eq-47-with-{name}", unit * np.abs(right - shares).max()
    yield "randomness-vanishes", final[1, 0].std() / final[1, 0].mean()


@rows
def many_points(p: TwoPointEquations, data: Data):
    """Distances of many samples from those of pairs (4.6, B.4)."""
    x, y = nr.tasks.digits().arrays
    squares = universality.structure((x[:100] - x.mean()) / x.std(), y[:100])
    before, after = broken(squares), broken(universality.smooth_distances(squares, normalised=False))
    yield "triangle", before
    yield "weighing", after / before


def broken(squares: np.ndarray) -> float:
    """Share of triples in which one distance is longer than the way by the third sample."""
    far = np.sqrt(squares) * (1 - np.eye(len(squares)))
    return float((far[:, None] > far[:, :, None] + far[None] + 1e-9).mean())


EXPERIMENT = Experiment(
    "two-point-equations",
    "Two samples: the printed equations against the flow that they stand for",
    "representations_align Eq. 7-50, A",
    TwoPointEquations(),
    quick={"seeds": 4, "draws": 2000},
    minutes=(0.1, 0.2),
)
