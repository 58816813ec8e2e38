"""Deep linear chains. Depth puts a saddle into the error surface, so learning waits near it and then comes in
a stage, mode by mode. Epochs are steps of gradient descent with a learning rate of `rate / depth`, as far as
it can go without diverging; counted so, a very deep chain from a given product learns in a finite time. How
long depends on the initial weights: from small random ones the product falls with every layer and the time
grows exponentially with depth; greedy pretraining pays for every layer once; orthogonal ones do not notice
depth.

Pretraining is greedy: each layer below the readout is trained as the encoder of a linear autoencoder (two
layers from the same small random weights, squared error, the same rate) on the data as they come through the
layers before it, until the reconstruction is learned. The encoders and the small random readout are then
fine-tuned together on the task, and all epochs count. Inputs are white, targets have singular values
`strengths`; random weights do not know directions, so the targets are diagonal."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import brentq

import neuralrace as nr
from neuralrace import plot
from neuralrace.dynamics.integrate import STOPPED, Observed, Path, integrate
from neuralrace.errors import InputError
from neuralrace.experiments.old import (
    Claim,
    Experiment,
    Parameters,
    Parts,
    Results,
    check,
    finding,
    option,
    paper,
    stacked,
)
from neuralrace.measure import crossing
from neuralrace.network import precision

TALK, SPEED, EFFECT = "talk: linear chain", "talk: training speed", "talk: effect of initialization"
SURFACE = "talk: error surface"
KINDS = {"small random": plot.BLUE, "pretrained": plot.ORANGE, "orthogonal": plot.GREEN}
MARKS = dict(zip(KINDS, "osd", strict=True))
DEPTH_COLOURS = (plot.BLUE, plot.ORANGE, plot.GREEN, plot.PINK, plot.SKY, plot.RED)
FAR = (20, 30, 40)  # depths at which the theory's exponent in depth is read


@dataclass(frozen=True)
class Chains(Parameters):
    depths: tuple[int, ...] = option(
        (1, 2, 3, 4, 5, 6, 8, 10), "depths of the networks whose learning time is measured"
    )
    strengths: tuple[float, ...] = option((3.0, 2.0, 1.5, 1.0), "singular values of the targets")
    width: int = option(16, "units of each hidden layer")
    gain: float = option(0.6, "gain of the initial layers where depth varies")
    before: float = option(0.1, "gain of the initial layers before pretraining")
    gains: tuple[float, ...] = option(
        (0.3, 0.4, 0.5, 0.6), "gains of the initial layers where they vary, at depth deep"
    )
    deep: int = option(6, "depth of the networks where the gain varies", least=3)
    rate: float = option(0.02, "learning rate times depth")
    level: float = option(0.01, "share of the error at which a task is learned")
    reconstructed: float = option(1e-4, "share of the error at which an autoencoder is learned")
    epochs: int = option(200_000, "steps after which training is given up")
    square: int = option(40, "orthogonal networks without neurons to spare")
    patience: int = option(10_000, "steps after which orthogonal networks are taken to be stuck")
    curves: tuple[int, ...] = option((1, 2, 3, 5, 10), "depths of the chains whose curves are drawn")
    product: float = option(0.1, "initial product of the weights of the chains that are drawn")
    small: float = option(0.02, "gain of the initial layers of the networks whose modes are drawn")
    offsets: tuple[float, ...] = option(
        (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6), "initial weights near the saddle of two layers"
    )

    def check(self) -> None:
        if list(self.depths) != sorted(set(self.depths)) or self.depths[0] != 1 or len(self.depths) < 4:
            raise InputError(f"depths must increase from 1, at least four of them, got {self.depths}")
        if self.width < len(self.strengths):
            raise InputError(f"width must be at least {len(self.strengths)}, a neuron for each of strengths; "
                             f"got {self.width}")  # fmt: skip
        if len(set(self.gains)) < 2 or len(set(self.offsets)) < 2:
            raise InputError("gains and offsets need at least two numbers each to fit an exponent")
        if max(self.offsets) >= 0.5:
            raise InputError(f"offsets must be below 0.5, got {max(self.offsets):g}")
        for name in ("gain", "before", "level", "reconstructed", "product"):
            if getattr(self, name) >= 1:
                raise InputError(f"{name} must be below 1, got {getattr(self, name):g}")
        deepest = max(*self.depths, *FAR)
        for name, gain, depth in ("gain", self.gain, deepest), ("gains", min(self.gains), self.deep):
            least = 10 ** (-20 / depth)
            if gain < least:
                raise InputError(
                    f"{name} must be at least {least:.2g}, or depth {depth} never learns; got {gain:g}"
                )
        top = 2 / max(1, *self.strengths) ** 2
        if self.rate >= top:
            raise InputError(f"rate must be below {top:g}, where descent diverges; got {self.rate:g}")

    @property
    def s(self) -> np.ndarray:
        return np.array(self.strengths)

    def task(self, depth: int, width: int) -> nr.Task:
        """White inputs: the second moment of the rows is the identity."""
        n = len(self.strengths)
        rows = np.sqrt(n) * np.eye(n)
        return nr.Task(nr.Graph.chain([n, *[width] * (depth - 1), n]), rows, rows * self.s)

    def small_random(self, graph: nr.Graph, gain: float, seeds: Any) -> nr.init.Weights:
        """Normal weights with a mean squared singular value of gain^2."""
        return nr.init.gaussian(graph, gain / np.sqrt(self.width), seed=seeds)


def compute(p: Chains, parts: Parts) -> Results:
    return {
        "curves": parts("curves", curves, p),
        **{f"modes{depth}": parts(f"modes{depth}", modes, p, depth) for depth in (1, 2)},
        "surface": parts("surface", surface, p),
        "depth": stacked(parts.each("depth", lambda depth: train(depth, p.gain, p.before, p), p.depths)),
        "gain": stacked(parts.each("gain", lambda gain: train(p.deep, gain, gain, p), p.gains)),
        "square": parts("square", square, p),
    }


# -- trajectories and the error surface ------------------------------------------------------


def curves(p: Chains) -> dict[str, Any]:
    """The product of weights over depth x time from the same start: closed form and integrated flow."""
    t = np.linspace(0, 2 + 2 / p.product, 201)
    form, flow = [], []
    for depth in p.curves:
        task = nr.Task(nr.Graph.chain([1] * (depth + 1)), [[1.0]], [[1.0]])
        start = {e: [[p.product ** (1 / depth)]] for e in task.graph.edges}
        run = nr.flow(task, start, save=t / depth, method=nr.Adaptive(1e-11, 1e-13))
        flow.append(np.prod([w[:, 0, 0] for w in run.weights.values()], axis=0))
        form.append(nr.exact.chain(t / depth, 1.0, a0=p.product, depth=depth))
    with precision(np.float64):
        limit_flow = lambda _, a: a**2 * (1 - a)  # noqa: E731
        last = jax.jit(lambda a, t: integrate(limit_flow, a, t, t[-1], 1e-12, 1e-14).kept)(p.product, t)
    limit = nr.exact.chain(t, 1.0, a0=p.product, depth=math.inf)
    many = np.array([100, 1000])
    gap = [np.abs(nr.exact.chain(t / d, 1.0, a0=p.product, depth=int(d)) - limit).max() for d in many]
    return {"t": t, "form": [*form, limit], "flow": [*flow, np.asarray(last)], "many": many, "gap": gap}


def modes(p: Chains, depth: int) -> dict[str, Any]:
    """Modes of networks from small random weights, and chains from the growing part of those weights."""
    task, t = p.task(depth, p.width), np.linspace(0, 8 if depth == 2 else 4, 161)
    start = p.small_random(task.graph, p.small, range(p.seeds))

    def diagonal(state: nr.State) -> dict[str, Any]:
        return {"modes": jnp.diagonal(state.activity("y", np.eye(len(p.s))))}

    run = nr.flow(task, start, save=t, record=diagonal, save_weights=False)
    if depth == 1:
        a0 = np.diagonal(start["x->y"], axis1=1, axis2=2)
        theory = p.s * -np.expm1(-t[:, None]) + a0[:, None] * np.exp(-t[:, None])
    else:
        a0 = ((np.swapaxes(start["x->h1"], 1, 2) + start["h1->y"]) ** 2).sum(axis=2) / 4
        theory = nr.exact.chain(t[:, None], p.s, a0=a0[:, None], depth=2)
    return {"t": t, "modes": run.recorded["modes"], "theory": theory}


def surface(p: Chains) -> dict[str, Any]:
    """Paths of the flow on the error of two weights, and the time to leave the saddle."""
    task = nr.Task(nr.Graph.chain([1, 1, 1]), [[1.0]], [[1.0]])

    angles = np.radians([100, 120, 130, 134.99, 135.01, 140, 150, 170])
    ring = 1.6 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    starts = np.array([*ring, *-ring, [0.05, 0], [-0.05, 0], *((v, v) for v in p.offsets)])[..., None, None]
    t = np.append(0, np.geomspace(1e-2, 5 - np.log(min(p.offsets)), 1500))
    run = nr.flow(
        task, {"x->h1": starts[:, 0], "h1->y": starts[:, 1]}, save=t, method=nr.Adaptive(1e-11, 1e-13)
    )
    paths = np.stack([w[..., 0, 0] for w in run.weights.values()], axis=-1)
    kept = paths[..., 1] ** 2 - paths[..., 0] ** 2
    step = 1e-3
    around = step * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])[:, :, None, None]
    slope = nr.gradient(task, {"x->h1": around[:, 0], "h1->y": around[:, 1]})
    slope = np.stack([slope["x->h1"], slope["h1->y"]], axis=1)[..., 0, 0]
    hessian = (slope[::2] - slope[1::2]) / (2 * step)
    count = len(p.offsets)
    return {
        "t": t, "paths": paths[:-count, ::5], "loss": run.loss[: len(ring)],
        "drift": np.abs(kept - kept[:, :1]).max(), "curvature": np.linalg.eigvalsh(hessian),
        "leave": nr.learning_time(run[-count:], 1 / 8),
    }  # fmt: skip


# -- learning time against depth -------------------------------------------------------------


def train(depth: int, gain: float, before: float, p: Chains) -> dict[str, Any]:
    """Epochs that networks of this depth take to the level, `(seeds,)` for each kind of initial weights.

    Random weights have that gain, `before` pretraining; aligned ones are diagonal, at the gain and at 1.
    """
    task = p.task(depth, p.width)
    random = p.small_random(task.graph, gain, range(p.seeds))
    encoders, spent = pretrain(depth, before, p)
    edges = list(task.graph.edges)
    readout = p.small_random(task.graph, before, range(p.seeds))
    pretrained = {**readout, **dict(zip(edges, encoders, strict=False))}
    orthogonal = nr.init.orthogonal(task.graph, seed=range(p.seeds))
    aligned = {e: np.array([gain, 1.0])[:, None, None] * np.eye(*random[e].shape[1:]) for e in edges}
    starts = {e: np.concatenate([w[e] for w in (random, pretrained, orthogonal, aligned)]) for e in edges}
    took = epochs(task, starts, depth, p.level * 0.5 * (p.s**2).sum(), p)
    found = dict(zip(KINDS, took[:-2].reshape(3, -1), strict=True))
    return {**found, "pretrained": found["pretrained"] + spent, "aligned": took[-2:]}


def epochs(task: nr.Task, starts: Any, depth: int, loss: float, p: Chains) -> np.ndarray:
    """Steps of descent at `rate / depth` until that loss; nan where it was not reached."""
    lr = p.rate / depth
    run = nr.descend(task, starts, lr, p.epochs, save=2, stop_loss=loss, save_weights=False)
    return np.where([s is nr.Status.REACHED_LOSS for s in run.statuses], np.rint(run.end / lr), np.nan)


def pretrain(depth: int, gain: float, p: Chains) -> tuple[list[np.ndarray], np.ndarray]:
    """Encoders of the layers below the readout, `(seeds, out, in)` each, and the epochs that they took."""
    n = len(p.strengths)
    data, found, spent = np.tile(np.sqrt(n) * np.eye(n), (p.seeds, 1, 1)), [], np.zeros(p.seeds)
    for layer in range(depth - 1):
        size = data.shape[2]
        graph = nr.Graph.chain([size, p.width, size])
        layers = np.zeros((p.seeds, p.width, size))
        for seed, rows in enumerate(data):
            task = nr.Task(graph, rows, rows)
            start = p.small_random(graph, gain, 1000 * (layer + 1) + seed)
            loss = p.reconstructed * 0.5 * (rows**2).sum() / n
            run = nr.descend(task, start, p.rate / 2, p.epochs, save=2, stop_loss=loss)
            layers[seed] = run.weights["x->h1"][-1]
            spent[seed] += np.rint(run.end / (p.rate / 2))
        found.append(layers)
        data = data @ np.swapaxes(layers, 1, 2)
    return found, spent


def square(p: Chains) -> dict[str, Any]:
    """Orthogonal networks without a neuron to spare: sign of the determinant, and epochs to the level."""
    task = p.task(p.deep, len(p.strengths))
    start = nr.init.orthogonal(task.graph, seed=range(p.square))
    sign = np.prod([np.linalg.det(w) for w in start.values()], axis=0)
    took = epochs(task, start, p.deep, p.level * 0.5 * (p.s**2).sum(), replace(p, epochs=p.patience))
    return {"sign": np.sign(sign), "epochs": took}


def theory(p: Chains, kind: str, depth: int, gain: float) -> float:
    """Epochs to the level. Modes start aligned, all layers at the gain (small random) or at 1 (orthogonal);
    pretrained, an autoencoder for every layer below the readout, which then are at 1 and the readout at 0."""
    if kind != "pretrained":
        start = gain if kind == "small random" else 1.0
        return reached(p.s, depth, start, start, p.level) / p.rate
    code = reached(np.ones(1), 2, gain, gain, p.reconstructed)
    return ((depth - 1) * code + reached(p.s, depth, 1.0, 0.0, p.level)) / p.rate


def reached(s: np.ndarray, depth: int, first: float, last: float, level: float) -> float:
    """Depth x time to a share of the error, of modes s with all layers at `first` but the last."""
    if first != last:
        with precision(np.float64):
            start = np.repeat([[first], [last]], len(s), axis=1)
            path = _integrated(jnp.asarray(s), float(depth), jnp.asarray(start), level)
        return float(path.t) if path.status == STOPPED else math.nan

    def error(log_t: float) -> float:
        a = nr.exact.chain(np.exp(log_t) / depth, s, a0=first**depth, depth=depth)
        return float(((s - a) ** 2).sum() / (s**2).sum() - level)

    low, high = -20.0, 70.0
    if not error(low) > 0 > error(high):
        return math.nan
    return math.exp(np.asarray(brentq(error, low, high, xtol=1e-12)).item())


@jax.jit
def _integrated(s: Any, depth: Any, start: Any, level: Any) -> Path:
    """Modes of one pathway (multipathway Eq. 17) until the error is a share `level` of that of silence."""

    def velocity(_: Any, state: Any) -> Any:
        q, p = state
        error = q ** (depth - 2) * (s - p * q ** (depth - 1)) / depth
        return jnp.stack([p * error, q * error])

    def share(state: Any) -> Any:
        q, p = state
        return ((s - p * q ** (depth - 1)) ** 2).sum() / (s**2).sum()

    followed = Observed(share, lambda state, v: jax.jvp(share, (state,), (v,))[1])
    return integrate(velocity, start, jnp.zeros(1), 1e30, 1e-10, 1e-12, observed=followed, stop=level)


def power(x: Any, y: Any) -> Any:
    """The exponent of y `(..., n)` in x: slope of the line through their logarithms."""
    return np.polyfit(np.log(x), np.log(np.asarray(y, float)).T, 1)[0]


def figures(p: Chains, r: Results) -> dict[str, tuple[Figure, str]]:
    return {
        "chains-trajectories": trajectories(p, r),
        "chains-surface": error_surface(p, r),
        "chains-depth": learning_time(p, r),
    }


def trajectories(p: Chains, r: Results) -> tuple[Figure, str]:
    fig, (a, b, c) = plot.figure(1, 3, height=2.4)
    found = r["curves"]
    for k, (form, flow) in enumerate(zip(found["form"], found["flow"], strict=True)):
        colour = DEPTH_COLOURS[k % len(DEPTH_COLOURS)] if k < len(p.curves) else plot.BLACK
        label = str(p.curves[k]) if k < len(p.curves) else "∞"
        plot.theory(a, found["t"], form, colour, label)
        plot.points(a, found["t"][::10], flow[::10], colour, ms=2.5)
    a.set(xlabel="depth x time (τ = 1)", ylabel="product of weights", xlim=(0, None))
    a.legend(title="depth", ncols=2)
    for ax, depth in ((b, 1), (c, 2)):
        found = r[f"modes{depth}"]
        for k, (s, colour) in enumerate(zip(p.strengths, DEPTH_COLOURS, strict=False)):
            plot.runs(ax, found["t"], found["modes"][..., k], colour, f"s = {s:g}")
            plot.theory(ax, found["t"], np.median(found["theory"][..., k], axis=0), colour, lw=0.9)
        ax.set(xlabel="time (τ = 1)", ylabel="strength of mode", title=("shallow", "deep")[depth - 1])
    c.set(ylim=(None, 1.5 * max(p.strengths)))
    c.legend(loc="upper right", ncols=2)
    caption = (
        f"Left: product of the weights of balanced chains from {p.product:g} to 1, time counted in steps of "
        "a learning rate that falls as 1/depth; lines are closed forms, dots the integrated flow. Middle "
        "and right: modes of networks with one and with two layers from small random weights (bands, "
        f"{p.seeds} seeds) and of chains that start with the growing part of those weights (lines): depth "
        "makes stages of what is learned at once."
    )
    return fig, caption


def error_surface(p: Chains, r: Results) -> tuple[Figure, str]:
    fig, (a, b, c) = plot.figure(1, 3, height=2.5)
    found, side = r["surface"], np.linspace(-1.9, 1.9, 201)
    x, y = np.meshgrid(side, side)
    root = np.abs(1 - x * y)  # equal steps of the root show both valleys and walls
    a.contourf(x, y, root, np.linspace(0, 4.75, 20), cmap="Greys", vmin=-0.5, vmax=6)
    a.contour(x, y, root, [1], colors=plot.BLACK, linewidths=0.6, linestyles="--")
    for path in found["paths"]:
        a.plot(*path.T, color=plot.BLUE, lw=0.8)
        a.plot(*path[0], "o", color=plot.BLUE, ms=2)
    for sign in (-1, 1):
        arm = np.linspace(0.52, 1.9, 100)
        a.plot(sign * arm, sign / arm, color=plot.ORANGE, lw=2, label="minima" if sign > 0 else None)
    a.plot(0, 0, "X", color=plot.RED, ms=6, ls="", label="saddle")
    a.set(xlabel="first weight", ylabel="second weight", aspect="equal", xlim=(-1.9, 1.9), ylim=(-1.9, 1.9))
    a.legend(loc="upper left", bbox_to_anchor=(-0.05, 1.18), ncols=2)
    b.plot(found["t"][1:], found["loss"][:, 1:].T, color=plot.BLUE, lw=0.9)
    b.axhline(0.5, color=plot.BLACK, lw=0.6, ls="--", label="loss at the saddle")
    b.set(xscale="log", xlabel="time (τ = 1)", ylabel="loss", ylim=(0, 2.5))
    b.legend()
    distance = np.array(p.offsets) * np.sqrt(2)
    plot.points(c, distance, found["leave"], plot.BLUE, "flow")
    plot.theory(c, distance, [logistic_time(v**2) for v in p.offsets], plot.BLACK, "closed form, depth 2")
    c.set(
        xscale="log", xlabel="initial distance from the saddle", ylabel="time to half (τ = 1)", ylim=(0, None)
    )
    c.legend()
    caption = (
        "Left: error of a chain of two weights, (1 - w1 w2)²/2, dark where large; paths of the flow (blue, "
        "from dots) keep the difference of squares, so those that start near the other diagonal pass the "
        "saddle. Dashed: the saddle's level. Middle: loss along the paths that start from above; it waits "
        "at the saddle. Right: time until half is learned from a start at a distance from the saddle on the"
        " diagonal."
    )
    return fig, caption


def logistic_time(a0: float) -> float:
    """When a chain of two layers, s = d = 1, is at one half: the logistic curve, solved for time."""
    return float(np.log(1 / a0 - 1) / 2)


def learning_time(p: Chains, r: Results) -> tuple[Figure, str]:
    fig, (a, b) = plot.figure(1, 2, height=2.9)
    every = range(1, max(p.depths) + 1)
    for kind, colour in KINDS.items():
        start = p.before if kind == "pretrained" else p.gain
        for ax, name, x, fine, line in (
            (a, "depth", p.depths, every, [theory(p, kind, depth, start) for depth in every]),
            (b, "gain", p.gains, p.gains, [theory(p, kind, p.deep, gain) for gain in p.gains]),
        ):
            plot.theory(ax, list(fine), line, colour, lw=1)
            plot.points(ax, x, r[name][kind].T, colour, kind, fmt=MARKS[kind])
            which = {"small random": 0, "orthogonal": 1}.get(kind)
            if which is not None:
                ax.plot(x, r[name]["aligned"][:, which], MARKS[kind], mec=colour, mfc="white", ms=4, zorder=4)
    a.set(yscale="log", xlabel="depth", ylabel="epochs to learn", title=f"initial gain {p.gain:g} "
          f"({p.before:g} before pretraining)")  # fmt: skip
    b.set(yscale="log", xlabel="initial gain of a layer", title=f"depth {p.deep}")
    plot.logarithmic(b.xaxis)
    a.plot([], color=plot.BLACK, lw=1, label="theory")
    a.plot([], "o", mec=plot.BLACK, mfc="white", ms=4, label="aligned weights")
    fig.legend(*a.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    caption = (
        f"Epochs of gradient descent with a learning rate of {p.rate:g} / depth until {p.level:.0%} of the "
        "error is left, against depth and against the gain (root mean square singular value) of the initial"
        f" layers. Filled: networks from random weights, {p.seeds} seeds (mean, standard deviation). Lines: "
        "chains with initial layers of that gain, which is the theory for weights aligned with the modes; "
        "hollow: networks with such weights. Pretraining counts the epochs of its autoencoders."
    )
    return fig, caption


def claims(p: Chains, r: Results) -> list[Claim]:
    found, saddle = r["curves"], r["surface"]
    gap = np.abs(found["form"] - found["flow"]).max(axis=1)
    half = [
        [crossing(r["modes2"]["t"], -curve, -s / 2) for s, curve in zip(p.s, run.T, strict=True)]
        for name in ("theory", "modes")
        for run in r["modes2"][name]
    ]
    ahead, behind = np.array(half).reshape(2, p.seeds, -1)
    grow, layers = np.log(1 / p.gain), np.array(p.depths[1:]) - 1
    small, pretrained, orthogonal = (r["depth"][k].T for k in KINDS)
    deep = np.array(p.depths) >= 4
    slope = np.polyfit(np.array(p.depths)[deep], np.log(small[:, deep]).T, 1)[0]
    aligned = np.polyfit(np.array(p.depths)[deep], np.log(r["depth"]["aligned"][deep, 0]), 1)[0]
    first = theory(p, "small random", 1, p.gain)
    far = [np.log(theory(p, "small random", d, p.gain) - first) for d in FAR]
    strengths = np.array([0.5, 1, 2, 4])
    waits = [np.log(4) / s**2 + (1 / 1e-6 - 1 / (s / 2)) / s for s in strengths]
    at = np.array(p.gains)
    tiny = (0.05, 0.1)
    exact = [theory(p, "small random", p.deep, g) for g in tiny]
    very = [theory(p, "small random", 100, g) for g in (0.8, 0.9)]
    sq = r["square"]
    wrong, stuck = sq["sign"] < 0, np.isnan(sq["epochs"])
    per_layer = "growth of log epochs per layer / log(1/b0)"
    shared = "Random networks start with modes that share hidden directions: theory comes a little early."
    part = (
        "Random layers are not aligned: only part of their singular values lies in directions that grow, "
        "and less so the more layers there are. Growth is exponential, faster than the formula's."
    )
    limit = (
        f"Chains of depth D take D/(D-2) / (s b0^(D-2)): the exponent is {2 - p.deep}, and the printed one "
        "its limit for great depth."
    )
    sign = (
        "Hidden layers as narrow as the input. Learning keeps the sign of the determinant, and half of all "
        "orthogonal maps have the wrong one."
    )
    logarithm = (
        "D/b0^2 bounds this from above. An autoencoder has two layers, whose time is log(1/b0^2): nearly no"
        " dependence on b0."
    )
    return [
        check.below("closed-form", "closed form - flow, depths as drawn and infinite", TALK, 1e-8, gap),
        check.near("infinite-depth", "distance from infinite depth, exponent in depth", TALK, -1,
                   power(found["many"], found["gap"]), 0.05),
        paper.near("networks-as-chains", "two layers, time to half a mode: theory / random networks - 1",
                   "talk: full networks", 0, (ahead / behind - 1).mean(axis=1), 0.01, shared),
        paper.near("saddle-falls", "least curvature at the origin / s", SURFACE, -1, saddle["curvature"][0],
                   1e-5),
        paper.near("saddle-rises", "largest curvature at the origin / s", SURFACE, 1, saddle["curvature"][1],
                   1e-5),
        check.below("conserved", "drift of w2^2 - w1^2 along the flow", "theory", 1e-8, saddle["drift"]),
        check.near("saddle-time", "time at the saddle, slope in log(1/distance)", "theory: 1/s", 1,
                   -np.polyfit(np.log(p.offsets), saddle["leave"], 1)[0], 0.02),
        check.near("infinite-depth-time", "infinite depth, exponent of time in s", SPEED, -1,
                   power(strengths, waits), 0.01),
        paper.near("small-random-theory", f"small random, theory: {per_layer}", EFFECT, 1,
                   np.polyfit(FAR, far, 1)[0] / grow, 0.05),
        paper.near("small-random-aligned", f"small random, aligned networks: {per_layer}", EFFECT, 1,
                   aligned / grow, 0.1),
        paper.near("small-random-networks", f"small random, random networks: {per_layer}", EFFECT, 1,
                   slope / grow, 0.1, part),
        paper.near("small-random-exponent", f"small random, depth {p.deep}: exponent in b0", EFFECT, -p.deep,
                   power(at, r["gain"]["small random"].T), 0.5, limit),
        finding.near("theory-exponent",
                     f"small random, depth {p.deep}, theory: exponent in b0 from .05 to .1, / (2 - depth)",
                     SPEED, 1, power(tiny, exact) / (2 - p.deep), 0.05),
        paper.near("theory-exponent-deep", "small random, depth 100, theory: exponent in b0 / -depth", SPEED,
                   1, power((0.8, 0.9), very) / -100, 0.05),
        paper.near("pretrained-depth",
                   "pretrained: exponent of the epochs beyond one layer in the layers beyond one", EFFECT, 1,
                   power(layers, pretrained[:, 1:] - pretrained[:, :1]), 0.1),
        paper.near("pretrained-exponent", f"pretrained, depth {p.deep}: exponent in b0", EFFECT, -2,
                   power(at, r["gain"]["pretrained"].T), 0.2, logarithm),
        paper.near("orthogonal-depth", "orthogonal: exponent of epochs in depth", EFFECT, 0,
                   power(p.depths[1:], orthogonal[:, 1:]), 0.15),
        paper.near("orthogonal-narrow", "orthogonal without spare neurons: share that never learns", EFFECT,
                   0, stuck.mean(), 0.05, sign),
        finding.near("orthogonal-sign", "stuck exactly where the determinant's sign is wrong, share",
                     "theory", 1, (stuck == wrong).mean(), 1e-9),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "chains",
    "Chains: what depth does to learning",
    "talk, part 1",
    Chains(),
    Chains(seeds=2, depths=(1, 2, 4, 8), gains=(0.4, 0.6), deep=4, square=20, curves=(2,)),
    compute,
    figures,
    claims,
    (0.4, 1.0),
)
