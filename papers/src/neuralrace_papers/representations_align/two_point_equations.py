"""The equations of the two-point theory, as they are printed, against the gradient flow they stand for: a
linear encoder, a linear decoder and a mean output descend the loss of two samples (Eq. 16), with slopes by
automatic differentiation. Some are misprinted; checks show the form that holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp
from scipy.stats import norm

import neuralrace as nr
from neuralrace import plot, universality
from neuralrace_papers.framework.claim import check, paper
from neuralrace_papers.framework.declaration import Data, claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option
from neuralrace_papers.framework.quotes import quoted

PAPER = "representations_align"
EQUATION = "an equation; 1e-6 for the errors of integration"
ALONG = np.array([1.0, 0.0])  # direction of the difference of targets
SAVED = 200


class TwoPointEquations(Parameters):
    seeds: int = option(20, "random starts", least=2)
    dx: float = option(0.7, "distance of the inputs")
    dy: float = option(1.1, "distance of the targets")
    rate_h: float = option(1.3, "rate of the encoder in Eq. 7")
    rate_y: float = option(0.4, "rate of the decoder in Eq. 7")
    rate_mean: float = option(0.1, "rate of the mean output")
    draws: int = option(20000, "random starts of the distribution of final distances", least=100)
    gain: float = option(0.4, "gain of these starts")
    small: float = option(1e-3, "a gain at which nothing random should be left")

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
    """dh2, dy2, w and loss `(4, times)` along the flow of Eq. 16.

    Its rates are twice those of Eq. 7: the claim on Eq. 17 says why.
    """
    rates = np.repeat([2 * p.rate_h, 2 * p.rate_y, p.rate_mean], [1, 2, 2])
    with jax.enable_x64(True):
        both = jax.jit(jax.value_and_grad(lambda v: eq_16(v[0], v[1:3], v[3:], p.dx, dy)))
        path = integrated(lambda v: -rates * np.asarray(both(v)[1]), start, t)
        loss = [float(both(jnp.asarray(v))[0]) for v in path.T]
    outputs = path[1:3] * path[0] * p.dx
    dy2 = (outputs**2).sum(axis=0)
    return np.array([(path[0] * p.dx) ** 2, dy2, dy2 - dy * ALONG @ outputs, loss])


def integrated(slope: Any, start: Any, t: np.ndarray) -> np.ndarray:
    return solve_ivp(lambda _, v: slope(v), (0, t[-1]), start, "DOP853", t, rtol=1e-11, atol=1e-15).y


@part
def flows(p: TwoPointEquations):
    """From random starts: the flow with different and with equal targets, Eq. 21 and its closed form."""
    rng, names = np.random.default_rng(1), ("t", "flow", "equal", "eq_21", "closed", "offset")
    found: dict[str, list[Any]] = {name: [] for name in names}
    for _ in range(p.seeds):
        (encoder, size), angle, mean = 10 ** rng.uniform(-1, 0.3, 2), rng.uniform(0, 1.5), rng.normal(size=2)
        start = [encoder, size * np.cos(angle), size * np.sin(angle), *mean]
        dh2 = (encoder * p.dx) ** 2
        last = 30 / (p.rate_y * universality.final_distance(dh2, size**2 * dh2, **p.given))
        t = np.append(0, np.geomspace(1e-4 * last, last, SAVED - 1))
        flow = descended(p, start, t, p.dy)
        system = integrated(lambda v: np.array(universality.velocity(*v, **p.given)), flow[:3, 0], t)
        closed = universality.solve(t, *flow[:3, 0], **p.given)
        values = t, flow, descended(p, start, t, 0.0), system, np.array(closed), np.linalg.norm(mean)
        for name, value in zip(names, values, strict=True):
            found[name].append(value)
    kinds = {"t": "run time", "flow": "run series time", "equal": "run series time", "offset": "run"}
    return {name: (kinds.get(name, "run variable time"), np.array(v)) for name, v in found.items()}


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
    plot.runs(equal, t, other[None, 0], plot.BLUE, "flow")
    for rate, style, label in ((p.rate_y, "-", "with the rate"), (1.0, "--", "Eq. 39, printed")):
        plot.theory(equal, t, eq_39(p, t, other[0, 0], other[1, 0], rate), plot.BLACK, label, ls=style)
    timed = {"xscale": "log", "xlim": (t[1], t[-1]), "ylim": (0, None)}
    plot.label(equal, "time (units of Eq. 7)", "|dh|², equal targets", legend=plot.ABOVE, **timed)
    plot.runs(losses, t, flow[None, 3], plot.BLUE, "flow")
    for rate, style, label in (
        (p.rate_mean, "-", "rate of the mean"),
        (2 * p.rate_y, "--", "Eq. 22, printed"),
    ):
        value = universality.loss(t, flow[1], flow[2], p.dy, float(d.offset[0]), rate)
        plot.theory(losses, t, value, plot.BLACK, label, ls=style)
    plot.label(losses, "time (units of Eq. 7)", "loss", legend=plot.ABOVE, **timed)
    final = data.starts.final.values[0, 0]
    shares = (np.arange(p.draws) + 0.5) / p.draws
    plot.runs(distances, final, shares[None], plot.BLUE, "random starts")
    right = universality.final_cdf(final, p.gain, **p.given)
    plot.theory(distances, final, right, plot.BLACK, "rates that differ")
    plot.theory(distances, final, eq_47(p, final), plot.BLACK, "Eq. 47, printed", ls="--")
    plot.label(distances, "final |dh|²", "share below", legend=plot.ABOVE)
    return equal.figure, (
        "The flow of Eq. 16 from one start, the equations as they are printed, and the form that holds: "
        "representations of equal targets, the loss, and final distances over random starts of gain "
        f"{p.gain:g}."
    )


def gap(theory: Any, flow: Any) -> np.ndarray:
    """Largest difference of each run, relative to the largest value of each series."""
    off = np.abs(np.asarray(theory) - flow) / np.abs(flow).max(axis=-1, keepdims=True)
    return np.reshape(off, (len(off), -1)).max(axis=1)


@claims
def reduction(p: TwoPointEquations, data: Data):
    rng = np.random.default_rng(0)
    encoder, (decoder, mean) = rng.normal(), rng.normal(size=(2, 2))
    with jax.enable_x64(True):
        h, y = jax.grad(eq_16, (0, 1))(encoder, jnp.asarray(decoder), jnp.asarray(mean), p.dx, p.dy)
    miss = decoder * encoder * p.dx - p.dy * ALONG
    slopes = [float(h) / (decoder @ miss * p.dx / 2), *(np.asarray(y) / (miss * encoder * p.dx / 2))]
    text = "dD_h/dt = -1/tau_h 1/2 D_y^T (D_y D_h (x_2 - x_1) - (y_2 - y_1)) (x_2 - x_1)^T"
    note = "The halves of Eq. 15 and of Eq. 16 make a quarter, so that the rates of Eq. 7 are 1/(2 tau)."
    name = "slopes of the loss, Eq. 16 / as printed"
    yield paper(f"{PAPER} Eq. 17", text).near("eq-17", name, 1, slopes, 1e-6, note, EQUATION)
    d = data.flows
    flow = d.flow.values
    closes = paper(f"{PAPER} Eq. 7, 20-21", "form a self-contained 3 dimensional system")
    name = "three variables, Eq. 21 with rates 1/(2 tau) - flow, relative"
    yield closes.below("eq-21", name, 1e-6, gap(d.eq_21, flow[:, :3]), bound=EQUATION)
    name = "three variables, closed form - flow, relative"
    unsolved, note = (
        quoted(f"{PAPER} A.3", "not-solvable"),
        "It can: `nr.universality.solve` is a closed form.",
    )
    none = "the paper: no formula agrees to the errors of integration"
    yield unsolved.above("closed-form", name, 1e-6, gap(d.closed, flow[:, :3]), note, none)
    text = "L = 1/4 (2 |(y(0) - (y_2 + y_1)/2) e^(-t/tau_y)|^2 + w + 1/2 (|y_2 - y_1|^2 - |dy|^2))"
    for statement, key, rate, words in (
        (paper(f"{PAPER} Eq. 9, 22", text), "eq-22", 2 * p.rate_y, "as printed"),
        (check(f"{PAPER} Eq. 22"), "eq-22-mean-rate", p.rate_mean, "with tau_ybar"),
    ):
        given = d.t.values, flow[:, 1], flow[:, 2], p.dy, d.offset.values[:, None], rate
        note = "The mean output has a rate of its own, as in Eq. 18." if "printed" in words else ""
        name = f"loss, Eq. 22 {words} - flow, relative"
        yield statement.below(key, name, 1e-6, gap(universality.loss(*given), flow[:, 3]), note, EQUATION)


@claims
def plane(p: TwoPointEquations, data: Data):
    """Eq. 23-36: the plane of |dh|^2 and w, and its fixed points."""
    h, y, w, _ = data.flows.flow.values.swapaxes(0, 1)
    a, b = p.encoding, p.rate_y
    constant = y / h - b / a * h
    name = "drift of |dy|^2 / |dh|^2 less its part in |dh|^2, relative"
    stated = paper(f"{PAPER} Eq. 23-24", "we can write |dy|^2 as a function of |dh|^2")
    yield stated.below("eq-24", name, 1e-6, np.ptp(constant, axis=1) / np.ptp(y / h, axis=1), bound=EQUATION)
    first = -(-(b**2) / a * h**3 + b * p.dy**2 * h + 4 * b * h * w + a * w**2 / h) / 2
    last = constant * (a * w - b * h**2)
    slope = np.array(universality.velocity(h, y, w, **p.given))[2]
    stated = paper(f"{PAPER} Eq. 25", "reducing the dynamics to a 2-dimensional system")
    note = "The last term belongs into the bracket, with its factor of -1/2."
    name = "slope of w along the flow, Eq. 25 {} - Eq. 21, relative".format
    yield stated.below("eq-25", name("as printed"), 1e-6, gap(first + last, slope), note, EQUATION)
    moved = check(f"{PAPER} Eq. 25")
    yield moved.below("eq-25-in-bracket", name("with it there"), 1e-6, gap(first - last / 2, slope))
    final = universality.final_distance(h[:, 0], y[:, 0], **p.given)
    one = quoted(f"{PAPER} Eq. 10, 26-28, 36", "one-stable-fixed-point")
    name = "|dh|^2 at the end less the stable fixed point of Eq. 36, relative"
    left = "an equation; 1e-6 of the way is left"
    yield one.below("eq-36", name, 1e-6, np.abs(h[:, -1] / final - 1), bound=left)
    high, low = universality.scales(h[:, 0], y[:, 0], **p.given)
    root, step = np.hypot(high, 2 * low), 1e-5 * final
    by_h, by_w = (
        np.subtract(*(universality.plane_velocity(final + s * u, s * v, high, **p.given) for s in (1, -1)))
        / (2 * step)
        for u, v in ((step, 0 * step), (0 * step, step))
    )
    trace, determinant = by_h[0] + by_w[1], by_h[0] * by_w[1] - by_h[1] * by_w[0]
    printed = -b * (high / 2 + root), b**2 / 4 * (2 * low**2 + (high + root) ** 2 / 2)
    stated = paper(f"{PAPER} Eq. 29-31", "This fixed point is therefore always stable.")
    name = "trace and determinant at the end, printed / by differences - 1"
    off = np.abs([printed[0] / trace - 1, printed[1] / determinant - 1]).max(axis=0)
    signs = "Both have the signs of a stable point." if (trace < 0).all() and (determinant > 0).all() else ""
    yield stated.below("eq-29", name, 1e-4, off, signs, "an equation; 1e-4 for differences")
    small, t = 1e-10, np.array([20.0, 21.0]) / (b * np.hypot(*universality.scales(1e-10, 1e-10, **p.given)))
    grown = (
        np.log(np.divide(*universality.solve(t, small, small, small, **p.given).dh2[::-1])) / np.diff(t)[0]
    )
    high, low = universality.scales(small, small, **p.given)
    stated = paper(f"{PAPER} Eq. 32-35", "There is always one direction along which perturbations increase")
    name = "growth of |dh|^2 near 0 / eigenvalue of Eq. 35"
    rate = b * (high + np.hypot(high, 2 * low)) / 2
    yield stated.near("eq-35", name, 1, grown / rate, 0.01, bound="theory near 0; a standard of ours: 1%")


@claims
def limits(p: TwoPointEquations, data: Data):
    """Equal targets and large weights (A.4-5)."""
    d = data.flows
    h, y, w, _ = d.flow.values.swapaxes(0, 1)
    equal = d.equal.values[:, 0]
    given = {"dx": p.dx, "rate_h": p.rate_h, "rate_y": p.rate_y}
    stated = paper(f"{PAPER} Eq. 37-40", "which is a Bernoulli equation and has solution")
    lost = "1/tau_y of Eq. 38 is lost in the exponent."
    for statement, key, rate, note in (
        (stated, "eq-39", 1.0, lost),
        (check(f"{PAPER} Eq. 39"), "eq-39-with-rate", p.rate_y, ""),
    ):
        theory = eq_39(p, d.t.values, h[:, :1], y[:, :1], rate)
        name = "|dh|^2 of equal targets, Eq. 39 {} - flow, relative"
        name = name.format("as printed" if note else "with 1/tau_y")
        yield statement.below(key, name, 1e-6, gap(theory, equal), note, EQUATION)
    powers = np.array([1, 2, 2])[:, None, None]
    plain, state = np.array(universality.velocity(h, y, w, **p.given)), np.array([h, y, w])
    stated = paper(f"{PAPER} Eq. 41-43", "Under the variable change [...] the dynamics change to")
    for statement, key, factor, note in (
        (stated, "eq-42", 10.0, "G^-2 of Eq. 43 takes G^-1, G^-2 and t' = G t in Eq. 42."),
        (check(f"{PAPER} Eq. 42"), "eq-42-inverted", 0.1, ""),
    ):
        changed = universality.velocity(*(factor**powers * state), **p.given | {"dy": p.dy / 10})
        off = gap(np.array(changed)[2], (factor ** (powers + 1) * plain)[2])
        name = f"slope of w' at G = 10, Eq. 43 - that of w, variables times {factor:g} and its square"
        yield statement.below(key, name, 1e-6, off, note, EQUATION)
    off = []
    for start in zip(h[:, 0], y[:, 0], strict=True):
        t, scale = np.linspace(0, 5 / (p.rate_y * start[0]), 50), 1e3
        dh2, dy2 = scale * start[0], scale**2 * start[1]
        large = universality.solve(t / scale, dh2, dy2, dy2 - 0.5 * np.sqrt(dy2) * p.dy, **p.given).dh2
        off.append(gap([large / scale], [universality.equal_targets(t, *start, **given).dh2])[0])
    stated = paper(
        f"{PAPER} A.5",
        "Taking the large initial weight limit [...], these dynamics reduce to the dynamics for identical "
        "outputs.",
    )
    name = "|dh|^2 / G from weights of G = 1000 - that of equal targets, relative"
    yield stated.below("large-weights", name, 0.05, off, bound="theory: falls as 1/G; a standard of ours: 5%")


@claims
def random_starts(p: TwoPointEquations, data: Data):
    """The distribution of final distances (A.6)."""
    final, shares = data.starts.final.values, (np.arange(p.draws) + 0.5) / p.draws
    chance = f"the 1% level of chance of {p.draws} draws"
    level = 1.63 / np.sqrt(p.draws)
    stated = paper(
        f"{PAPER} Eq. 44-48",
        "The distribution on A_high is Gaussian [...] giving us a final representational distribution",
    )
    name = "share of final distances below h, {} - random starts, largest".format
    rates = "Eq. 46 leaves out tau_y / tau_h of Eq. 11: it is the case of equal rates."
    off = np.abs(eq_47(p, final[0, 0]) - shares).max()
    yield stated.below("eq-47", name("Eq. 47 as printed"), level, off, rates, chance)
    for key, given, column in (("rates", p.given, 0), ("equal-rates", p.given | {"rate_h": p.rate_y}, 1)):
        right = universality.final_cdf(final[0, column], p.gain, **given)
        text, off = name(f"Eq. 47 with {key.replace('-', ' ')}"), np.abs(right - shares).max()
        yield check(f"{PAPER} Eq. 47", chance).below(f"eq-47-with-{key}", text, level, off)
    vanishes = quoted(f"{PAPER} A.6", "randomness-vanishes")
    spread = final[1, 0].std() / final[1, 0].mean()
    name = f"spread of final distances / their mean, gain {p.small:g}"
    yield vanishes.below("randomness-vanishes", name, 0.01, spread, bound="a standard of ours: 1%")


@claims
def many_points(p: TwoPointEquations, data: Data):
    """Distances of many samples from those of pairs (4.6, B.4)."""
    x, y = nr.tasks.digits().arrays
    squares = universality.structure((x[:100] - x.mean()) / x.std(), y[:100])
    before, after = broken(squares), broken(universality.smooth_distances(squares, normalised=False))
    ignored = quoted(f"{PAPER} 4.6", "triangle-inequality")
    name = "triples of 100 digits whose distances by Eq. 10 break the triangle inequality, share"
    yield ignored.above("triangle", name, 0.01, before, bound="a standard of ours: 1% of the triples")
    reduces = quoted(f"{PAPER} Eq. 50", "weighing-reduces-violations")
    name = "triples that break it after the weighing of Eq. 50 / before"
    yield reduces.below("weighing", name, 0.5, after / before, bound="a standard of ours: half as many")


def broken(squares: np.ndarray) -> float:
    """Share of triples in which one distance is longer than the way by the third sample."""
    far = np.sqrt(squares) * (1 - np.eye(len(squares)))
    return float((far[:, None] > far[:, :, None] + far[None] + 1e-9).mean())


EXPERIMENT = Experiment(
    "two-point-equations",
    "Two samples: the printed equations against the flow that they stand for",
    "representations_align Eq. 7-50, A",
    TwoPointEquations(),
    TwoPointEquations(seeds=4, draws=2000),
    minutes=(0.1, 0.2),
)
