"""Deep linear chains. Depth puts a saddle into the error surface, so that learning waits near it and then
comes in a stage, mode by mode. Epochs are steps of gradient descent with a learning rate of `rate / depth`,
about as large as it can be without diverging. How long learning takes depends on the initial weights: from
small random ones the time grows exponentially with depth; greedy pretraining costs the same for every layer;
from orthogonal ones the time hardly depends on depth.

Pretraining is greedy: each layer below the readout first learns to encode its inputs. The encoders and the
small random readout are then fine-tuned together on the task, and all epochs count. Inputs are white, targets
diagonal with singular values `strengths`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import lambertw

import neuralrace as nr
from neuralrace import plot
from neuralrace.measure import crossing, end_to_end, growing_part, half_time, power_law_exponent
from neuralrace_papers.framework import Data, Experiment, along, figure, part, require, rows
from neuralrace_papers.talk.epochs import KINDS, aligned_half_times, epochs_to_learn, train

STYLES = dict(zip(KINDS, ((plot.BLUE, "o"), (plot.ORANGE, "s"), (plot.GREEN, "d")), strict=True))
PRECISE = nr.Adaptive(1e-11, 1e-13)


@dataclass(frozen=True)
class Chains:
    seeds: Annotated[int, "random starts of each network"] = 10
    depths: Annotated[tuple[int, ...], "depths whose learning time is measured"] = (1, 2, 3, 4, 5, 6, 8, 10)
    strengths: Annotated[tuple[float, ...], "singular values of the targets"] = (3.0, 2.0, 1.5, 1.0)
    width: Annotated[int, "units of each hidden layer"] = 16
    gain: Annotated[float, "gain of the initial layers where depth varies"] = 0.6
    before: Annotated[float, "gain of the initial layers before pretraining"] = 0.1
    gains: Annotated[tuple[float, ...], "gains where they vary"] = (0.3, 0.4, 0.5, 0.6)
    deep: Annotated[int, "depth of the networks where the gain varies"] = 6
    rate: Annotated[float, "learning rate times depth"] = 0.02
    level: Annotated[float, "share of the error at which a task is learned"] = 0.01
    reconstructed: Annotated[float, "share of the error at which an autoencoder is learned"] = 1e-4
    epochs: Annotated[int, "steps after which training is given up"] = 200_000
    square: Annotated[int, "orthogonal networks without neurons to spare"] = 40
    patience: Annotated[int, "steps after which these are taken to be stuck"] = 10_000
    curves: Annotated[tuple[int, ...], "depths of the chains whose curves are drawn"] = (1, 2, 3, 5, 10)
    product: Annotated[float, "initial product of the weights of these chains"] = 0.1
    aligned: Annotated[float, "gain of the initial layers where the strength of modes varies"] = 0.1
    small: Annotated[float, "gain of the initial layers of the networks whose modes are drawn"] = 0.02
    offsets: Annotated[tuple[float, ...], "initial weights near the saddle"] = (
        1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6,
    )  # fmt: skip

    def __post_init__(self) -> None:
        fit = self.depths[0] == 1 and len(self.depths) > 2 and self.depths[-2] >= 4
        require(fit, f"depths must start with 1, and two must be at least 4, got {self.depths}")
        n = len(self.strengths)
        require(self.width >= n, f"width must be at least {n}, one for each of strengths; got {self.width}")
        top = 2 / max(1, *self.strengths) ** 2
        require(self.rate < top, f"rate must be below {top:g}, where descent diverges; got {self.rate:g}")

    @property
    def s(self) -> np.ndarray:
        return np.array(self.strengths)

    @property
    def learned_loss(self) -> float:
        """Loss at which the task is learned."""
        return self.level * 0.5 * float((self.s**2).sum())

    def task(self, depth: int, width: int) -> nr.Task:
        return nr.tasks.linear(np.diag(self.s), [width] * (depth - 1))

    def small_random(self, graph: nr.Graph, gain: float, seeds: Any) -> nr.init.Weights:
        """Normal weights with a mean squared singular value of gain^2."""
        return nr.init.gaussian(graph, gain / np.sqrt(self.width), seed=seeds)


@part
def formulas(p: Chains):
    """Largest relative error of the talk's closed forms, as printed and mended, against the integrated
    equation of a chain with s = 2, lambda = 0.5, a0 = 0.1; the very deep one in time over depth."""
    s, lam, a0, t = 2.0, 0.5, 0.1, np.linspace(0, 5, 51)
    z = s / (lam * a0) - 1

    def error(form: np.ndarray, power: float, rate: float) -> float:
        """Of a form, where `a' = rate a^power (s - lambda a)`."""
        flow = solve_ivp(
            lambda _, a: rate * a**power * (s - lam * a),
            (0, t[-1]),
            [a0],
            "DOP853",
            t,
            rtol=1e-12,
            atol=1e-14,
        )
        return float(np.abs(form / flow.y[0] - 1).max())

    def shallow(decay: np.ndarray) -> np.ndarray:
        return s / lam * (1 - decay) + a0 * decay

    def very_deep(time: np.ndarray) -> np.ndarray:
        return s / lam / (1 + lambertw(z * np.exp(z - time)).real)

    return {
        "shallow_printed": error(shallow(np.exp(-t)), 0, 1),
        "shallow_corrected": error(shallow(np.exp(-lam * t)), 0, 1),
        "deep": error(s / lam / (1 + z * np.exp(-2 * s * t)), 1, 2),
        "very_deep_printed": error(very_deep(t), 2, 1),
        "very_deep_corrected": error(very_deep(s**2 * t / lam), 2, 1),
    }


@part
def curves(p: Chains):
    """The product of weights over depth x time from the same start: closed form and integrated flow."""
    t, depths, flow = np.linspace(0, 2 + 2 / p.product, 201), (*p.curves, math.inf), []
    for depth in p.curves:
        task = nr.tasks.linear([[1.0]], [1] * (depth - 1))
        start = {e: [[p.product ** (1 / depth)]] for e in task.graph.edges}
        run = nr.flow(task, start, save=t / depth, method=PRECISE)
        flow.append(end_to_end(task.graph, run)[:, 0, 0])
    times = [t if math.isinf(d) else t / d for d in depths]
    form = [nr.exact.chain(time, 1.0, a0=p.product, depth=d) for time, d in zip(times, depths, strict=True)]
    return {
        "t": ("t", t),
        "depth": ("depth", np.array(depths, float)),
        "closed_form": ("depth t", form),
        "flow": ("drawn t", flow),
    }


@part(each=(1, 2))
def modes(p: Chains, depth: int):
    """Modes of networks from small random weights, and chains from the growing part of those weights; `free`:
    from what of it lies outside the hidden directions that stronger modes have taken."""
    task, t = p.task(depth, p.width), np.linspace(0, 4 * depth, 161)
    start = p.small_random(task.graph, p.small, range(p.seeds))
    maps = end_to_end(task.graph, nr.flow(task, start, save=t))
    if depth == 1:
        a0 = np.diagonal(start["x->y"], axis1=1, axis2=2)[:, None]
        theory = free = p.s + (a0 - p.s) * np.exp(-t[:, None])
    else:
        grown = growing_part(start["x->h1"], start["h1->y"])  # (run, hidden, mode)
        apart = np.diagonal(np.linalg.qr(grown)[1], axis1=1, axis2=2)  # what earlier modes leave of it
        starts = (grown**2).sum(axis=1), apart**2
        theory, free = (nr.exact.chain(t[:, None], p.s, a0=a0[:, None], depth=2) for a0 in starts)
    return {
        "t": ("t", t),
        "networks": ("run t mode", np.diagonal(maps, axis1=-2, axis2=-1)),
        "theory": ("run t mode", theory),
        "free": ("run t mode", free),
    }


@part
def surface(p: Chains):
    """Paths of the flow on the error of two weights, and the time to leave the saddle."""
    task = nr.tasks.linear([[1.0]], hidden=1)
    angles = np.radians([100, 120, 130, 134.99, 135.01, 140, 150, 170])
    ring = 1.6 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    starts = np.array([*ring, *-ring, [0.05, 0], [-0.05, 0], *((v, v) for v in p.offsets)])
    weights = {"x->h1": starts[:, :1, None], "h1->y": starts[:, 1:, None]}
    t = np.append(0, np.geomspace(1e-2, 5 - np.log(min(p.offsets)), 1500))
    run = nr.flow(task, weights, save=t, method=PRECISE)
    origin = {e: np.zeros((1, 1)) for e in weights}
    drawn, one_layer = len(starts) - len(p.offsets), nr.tasks.linear([[1.0]], ())
    return {
        "t": ("t", t),
        "weights": ("path t layer", np.stack([w[:drawn, :, 0, 0] for w in run.weights.values()], axis=-1)),
        "loss": ("path t", run.loss[:drawn]),
        "curvature": ("direction", nr.landscape.hessian_eigenvalues(task, origin)),
        "shallow": nr.landscape.hessian_eigenvalues(one_layer, {"x->y": np.zeros((1, 1))})[0],
        "offset": ("offset", list(p.offsets)),
        "leave": ("offset", nr.learning_time(run[drawn:], 1 / 8)),
    }


@part
def by_strength(p: Chains):
    return {"half": ("mode", aligned_half_times(p))}


@part(each="depths")
def by_depth(p: Chains, depth: int):
    return train(p, depth, p.gain, p.before)


@part(each="gains")
def by_gain(p: Chains, gain: float):
    return train(p, p.deep, gain, gain)


@part
def narrow(p: Chains):
    """Orthogonal networks without a neuron to spare: sign of the determinant, and epochs to the level."""
    task = p.task(p.deep, len(p.strengths))
    start = nr.init.orthogonal(task.graph, seed=range(p.square))
    sign = np.sign(np.linalg.det(end_to_end(task.graph, start)))
    return {"determinant": ("run", sign), "epochs": ("run", epochs_to_learn(p, task, start, p.patience))}


@figure("chains-trajectories")
def trajectories(p: Chains, data: Data):
    fig, (a, b, c) = plot.figure(1, 3, height=2.4)
    colours = [*plot.shades(len(p.curves)), plot.BLACK]
    for depth, colour in zip(data.curves.depth.values, colours, strict=True):
        curve = data.curves.sel(depth=depth)
        plot.theory(a, curve.t, curve.closed_form, colour, "∞" if math.isinf(depth) else f"{depth:g}")
    for flow, colour in zip(data.curves.flow, colours, strict=False):
        plot.points(a, data.curves.t[::10], flow[::10], colour, ms=2.5)
    plot.key(a, {"flow": "points"}, "0.5")
    above = {"loc": "upper center", "columnspacing": 0.8}
    a.set(xlim=(0, None), ylim=(0, 1.75), yticks=(0, 0.5, 1))
    legend = {**above, "title": "closed form, depth", "ncols": 3}
    plot.label(a, "depth x time (τ = 1)", "product of weights", legend=legend)
    for ax, depth, title in ((b, 1, "shallow"), (c, 2, "deep")):
        modes = data.modes[depth]
        for k, colour in enumerate(plot.shades(len(p.s))):
            plot.runs(ax, modes.t, modes.networks[..., k], colour, f"s = {p.s[k]:g}")
            plot.theory(ax, modes.t, modes.theory[..., k].median("run"), colour, lw=0.9)
        plot.label(ax, "time (τ = 1)", "strength of mode", title)
    plot.key(b, {"networks": "runs", "chains": "theory"}, "0.5")
    plot.label((b, c), legend={**above, "ncols": 2}, ylim=(None, 1.75 * max(p.strengths)))
    return fig, (
        f"Left: product of the weights of balanced chains from {p.product:g} to 1, time counted in steps of "
        "a learning rate that falls as 1/depth; lines are closed forms, dots the integrated flow. Middle "
        "and right: modes of networks with one and with two layers from small random weights (bands, "
        f"{p.seeds} seeds) and of chains that start with the growing part of those weights (lines): a "
        "shallow network learns all modes at once, a deep one in stages."
    )


@figure("chains-surface")
def error_surface(p: Chains, data: Data):
    fig, (a, b, c) = plot.figure(1, 3, height=2.9)
    surface, side = data.surface, np.linspace(-1.9, 1.9, 201)
    x, y = np.meshgrid(side, side)
    root = np.abs(1 - x * y)  # equal steps of the root show both valleys and walls
    shades = a.contourf(x, y, root, np.linspace(0, 4.75, 20), cmap="Greys", vmin=-0.5, vmax=6)
    fig.colorbar(shades, ax=a, label="|1 - w1 w2|", ticks=range(5), location="bottom", shrink=0.8)
    a.contour(x, y, root, [1], colors=plot.BLACK, linewidths=0.6, linestyles="--")
    plot.key(a, {"saddle's level": "--"})
    for path in surface.weights.values:
        a.plot(*path.T, "o-", color=plot.BLUE, lw=0.8, ms=2, markevery=[0], label="paths")
    arm = np.linspace(0.52, 1.9, 100)
    for sign, label in ((-1, None), (1, "minima")):
        a.plot(sign * arm, sign / arm, color=plot.ORANGE, lw=2, label=label)
    a.plot(0, 0, "X", color=plot.RED, ms=6, ls="", label="saddle")
    a.set(aspect="equal", xlim=(-1.9, 1.9), ylim=(-1.9, 1.9))
    above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1), "ncols": 2, "columnspacing": 0.8}
    plot.label(a, "first weight", "second weight", legend=above)
    b.plot(surface.t[1:], surface.loss[:8, 1:].T, color=plot.BLUE, lw=0.9, label="paths from above")
    b.axhline(0.5, color=plot.BLACK, lw=0.6, ls="--", label="loss at the saddle")
    plot.label(b, "time (τ = 1)", "loss", legend="best", xscale="log", ylim=(0, 2.5))
    distance = surface.offset * np.sqrt(2)
    plot.points(c, distance, surface.leave, plot.BLUE, "flow")
    times = [nr.exact.chain_time(1 / 4, 1.0, v**2) for v in p.offsets]
    plot.theory(c, distance, times, plot.BLACK, "closed form, depth 2")
    c.set(xscale="log", ylim=(0, None))
    plot.label(c, "initial distance from the saddle", "time to half (τ = 1)", legend="best")
    return fig, (
        "Left: error of a chain of two weights, (1 - w1 w2)²/2, shaded by |1 - w1 w2|; paths of the flow "
        "(blue, from dots) keep the difference of squares: those that start near the other diagonal pass the "
        "saddle. Dashed: the saddle's level. Middle: loss along the paths that start from above; it waits "
        "at the saddle. Right: time until half is learned from a start at a distance from the saddle on the"
        " diagonal."
    )


@figure("chains-depth")
def learning_time(p: Chains, data: Data):
    fig, (a, b) = plot.figure(1, 2, height=2.9)
    for ax, x, runs in ((a, p.depths, data.by_depth), (b, p.gains, data.by_gain)):
        for kind, (colour, marker) in STYLES.items():
            one = along(runs, "x").sel(start=kind)
            plot.theory(ax, x, one.theory, colour, lw=1)
            plot.points(ax, x, one.epochs.T, colour, kind, fmt=marker)
            ax.plot(x, one.aligned, marker, mec=colour, mfc="white", ms=4, zorder=4)
    plot.label((a, b), y="epochs to learn", yscale="log")
    plot.label(a, "depth", title=f"initial gain {p.gain:g} ({p.before:g} before pretraining)")
    plot.label(b, "initial gain of a layer", title=f"depth {p.deep}")
    plot.logarithmic(b.xaxis, p.gains)
    plot.key(a, {"theory": "theory", "aligned weights": "hollow"})
    plot.legend_below(fig, a, 5)
    return fig, (
        f"Epochs of gradient descent with a learning rate of {p.rate:g} / depth until {p.level:.0%} of the "
        "error is left, against depth and against the gain (root mean square singular value) of the initial"
        f" layers. Filled: networks from random weights, {p.seeds} seeds (mean, standard deviation). Lines: "
        "chains with initial layers of that gain, which is the theory for weights aligned with the modes; "
        "hollow: networks with such weights. Pretraining counts the epochs of its autoencoders."
    )


@rows
def trajectories_and_surface(p: Chains, data: Data):
    yield "eq-shallow-printed", data.formulas.shallow_printed
    yield "eq-shallow-corrected", data.formulas.shallow_corrected
    yield "eq-deep", data.formulas.deep
    yield "eq-very-deep-printed", data.formulas.very_deep_printed
    yield "eq-very-deep-corrected", data.formulas.very_deep_corrected
    curve = data.curves.closed_form
    for depth in p.curves:
        if depth > 2:
            yield f"very-deep-form-depth-{depth}", np.abs(curve.sel(depth=depth) - curve[-1]).max()
    half = {}
    for key, depth in (("shallow", 1), ("deep", 2)):
        modes = data.modes[depth].transpose("run", "mode", "t")
        half = {k: half_time(modes.t, modes[k], first=0, last=p.s) for k in ("networks", "theory", "free")}
        early, late = (
            crossing(modes.t, modes.networks / p.s[:, None], level, rising=True) for level in (0.1, 0.9)
        )
        yield f"stages-{key}", ((late - early) / half["networks"]).mean(axis=1)
    yield "networks-as-chains", (half["theory"] / half["networks"] - 1).mean(axis=1)
    yield "networks-as-chains-free", (half["free"] / half["networks"] - 1).mean(axis=1)
    yield "saddle-falls", data.surface.curvature[0]
    yield "saddle-rises", data.surface.curvature[-1]
    yield "no-saddle-shallow", data.surface.shallow
    saddle = data.surface
    yield "saddle-time", -np.polyfit(np.log(saddle.offset), saddle.leave, 1)[0]


@rows
def small_random_weights(p: Chains, data: Data):
    runs = along(data.by_depth, "depth").sel(start="small random", depth=[d for d in p.depths if d >= 4])
    for key, epochs in (("aligned", runs.aligned), ("networks", runs.epochs)):
        yield f"small-random-{key}", np.polyfit(runs.depth, np.log(epochs), 1)[0] / np.log(1 / p.gain)
    by_gain = along(data.by_gain, "gain").sel(start="small random")
    yield "small-random-exponent", power_law_exponent(p.gains, by_gain.epochs.T)
    yield "small-random-exponent-aligned", power_law_exponent(p.gains, by_gain.aligned)
    yield "speed-sensitive", by_gain.epochs[0] / by_gain.epochs[-1]
    yield "time-by-strength", power_law_exponent(p.s, data.by_strength.half)


@rows
def other_weights(p: Chains, data: Data):
    runs = along(data.by_depth, "depth")
    epochs = runs.epochs.sel(start="pretrained")
    beyond = (epochs[1:] - epochs[0]).T  # one layer
    yield "pretrained-depth", power_law_exponent(np.array(p.depths[1:]) - 1, beyond)
    by_gain = along(data.by_gain, "gain").epochs.sel(start="pretrained")
    yield "pretrained-exponent", power_law_exponent(p.gains, by_gain.T)
    yield "orthogonal-depth", power_law_exponent(p.depths[1:], runs.epochs.sel(start="orthogonal")[1:].T)
    stuck = np.isnan(data.narrow.epochs)
    yield "orthogonal-narrow", stuck
    yield "orthogonal-sign", stuck == (data.narrow.determinant < 0)


EXPERIMENT = Experiment(
    "chains",
    "Chains: what depth does to learning",
    "talk, part 1",
    Chains(),
    quick={
        "seeds": 2,
        "depths": (1, 2, 4, 8),
        "gains": (0.4, 0.6),
        "deep": 4,
        "square": 20,
        "curves": (2, 10),
    },
    minutes=(0.3, 1.0),
)
