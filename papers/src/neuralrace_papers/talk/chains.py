"""Deep linear chains. Depth puts a saddle into the error surface, so learning waits near it and then comes in
a stage, mode by mode. Epochs are steps of gradient descent with a learning rate of `rate / depth`, about as
large as it can be without diverging; counted so, a very deep chain from a given product of weights learns in
a finite time. How long depends on the initial weights: from small random ones the product falls with every
layer and the time grows exponentially with depth; greedy pretraining costs the same for every layer; from
orthogonal ones the time does not depend on depth.

Pretraining is greedy: each layer below the readout first learns to encode its inputs (`pretraining`). The
encoders and the small random readout are then fine-tuned together on the task, and all epochs count. Inputs
are white, targets have singular values `strengths`; random weights prefer no direction, so the targets are
diagonal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import neuralrace as nr
from neuralrace import plot
from neuralrace.measure import end_to_end, growing_part, half_time, power_law_exponent
from neuralrace_papers.framework.claim import check, finding, paper
from neuralrace_papers.framework.declaration import Data, claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option, require
from neuralrace_papers.framework.store import along
from neuralrace_papers.talk.epochs import KINDS, aligned_half_times, epochs_to_learn, train

SPEED, EFFECT = "talk: training speed", "talk: effect of initialization"
STYLES = dict(zip(KINDS, ((plot.BLUE, "o"), (plot.ORANGE, "s"), (plot.GREEN, "d")), strict=True))
PRECISE = nr.Adaptive(1e-11, 1e-13)


class Chains(Parameters):
    depths: tuple[int, ...] = option(
        (1, 2, 3, 4, 5, 6, 8, 10), "depths whose learning time is measured", increasing=True, count=4
    )
    strengths: tuple[float, ...] = option((3.0, 2.0, 1.5, 1.0), "singular values of the targets")
    width: int = option(16, "units of each hidden layer")
    gain: float = option(0.6, "gain of the initial layers where depth varies", least=0.32, below=1)
    before: float = option(0.1, "gain of the initial layers before pretraining", below=1)
    gains: tuple[float, ...] = option(
        (0.3, 0.4, 0.5, 0.6), "gains where they vary", increasing=True, count=2, least=0.1
    )
    deep: int = option(6, "depth of the networks where the gain varies", least=3, most=20)
    rate: float = option(0.02, "learning rate times depth")
    level: float = option(0.01, "share of the error at which a task is learned", below=1)
    reconstructed: float = option(1e-4, "share of the error at which an autoencoder is learned", below=1)
    epochs: int = option(200_000, "steps after which training is given up")
    square: int = option(40, "orthogonal networks without neurons to spare")
    patience: int = option(10_000, "steps after which orthogonal networks are taken to be stuck")
    curves: tuple[int, ...] = option((1, 2, 3, 5, 10), "depths of the chains whose curves are drawn")
    product: float = option(0.1, "initial product of the weights of the chains that are drawn", below=1)
    aligned: float = option(0.1, "gain of the initial layers where the strength of modes varies", below=0.5)
    small: float = option(0.02, "gain of the initial layers of the networks whose modes are drawn")
    offsets: tuple[float, ...] = option(
        (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6), "initial weights near the saddle", below=0.5, count=2
    )

    def check(self) -> None:
        fit = self.depths[0] == 1 and self.depths[-2] >= 4
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
def curves(p: Chains):
    """The product of weights over depth x time from the same start: closed form and integrated flow."""
    t, depths, flow = np.linspace(0, 2 + 2 / p.product, 201), (*p.curves, math.inf), []
    for depth in p.curves:
        task = nr.tasks.linear([[1.0]], [1] * (depth - 1))
        start = {e: [[p.product ** (1 / depth)]] for e in task.graph.edges}
        run = nr.flow(task, start, save=t / depth, method=PRECISE)
        flow.append(end_to_end(task.graph, run)[:, 0, 0])

    def integrated(depth: float) -> np.ndarray:
        power = 2 - 2 / depth
        solved = solve_ivp(
            lambda _, a: a**power * (1 - a), (0, t[-1]), [p.product], "DOP853", t, rtol=1e-12, atol=1e-14
        )
        return solved.y[0]

    def closed_form(depth: float) -> np.ndarray:
        return nr.exact.chain(t if math.isinf(depth) else t / depth, 1.0, a0=p.product, depth=depth)

    form, many = [closed_form(d) for d in depths], [100, 1000]
    gap = [np.abs(integrated(d) - form[-1]).max() for d in many]
    return {
        "t": ("t", t),
        "depth": ("depth", np.array(depths, float)),
        "closed_form": ("depth t", form),
        "flow": ("depth t", [*flow, integrated(math.inf)]),
        "many": ("many", many),
        "gap": ("many", gap),
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
    kept = nr.conserved(task, run.weights)["h1"]
    origin = {e: np.zeros((1, 1)) for e in weights}
    drawn, one_layer = len(starts) - len(p.offsets), nr.tasks.linear([[1.0]], ())
    return {
        "t": ("t", t),
        "weights": ("path t layer", np.stack([w[:drawn, :, 0, 0] for w in run.weights.values()], axis=-1)),
        "loss": ("path t", run.loss[:drawn]),
        "drift": np.abs(kept - kept[:, :1]).max(),
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
        plot.points(a, curve.t[::10], curve.flow[::10], colour, ms=2.5)
    plot.key(a, {"flow": "points"}, "0.5")
    above = {"loc": "upper center", "columnspacing": 0.8}
    a.set(xlim=(0, None), ylim=(0, 1.45))
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


@claims
def trajectories_and_surface(p: Chains, data: Data):
    chain, saddle = check("talk: linear chain"), data.surface
    gap = np.abs(data.curves.closed_form - data.curves.flow).max("t")
    yield chain.below("closed-form", "closed form - flow, depths as drawn and infinite", 1e-8, gap)
    near = power_law_exponent(data.curves.many, data.curves.gap)
    name = "distance of integrated chains from the closed form of infinite depth, exponent in depth"
    yield chain.near("infinite-depth", name, -1, near, 0.05, bound="theory: 1/depth, to a twentieth")
    deep = data.modes[2].transpose("run", "mode", "t")
    half = {k: half_time(deep.t, deep[k], start=0, end=p.s) for k in ("networks", "theory", "free")}
    early, free = ((half[k] / half["networks"] - 1).mean(axis=1) for k in ("theory", "free"))
    yield paper("talk: full networks", "Full networks act like several 1D chains").near(
        "networks-as-chains", "two layers, time to half a mode: theory / random networks - 1", 0, early, 0.01,
        "Random modes share hidden directions, and a later mode cannot have what an earlier one took: chains "
        f"without that part are {free.mean():+.2%} off.",
        "Standard: 1%. Chains are the exact solution for modes in hidden directions of their own.",
    )  # fmt: skip
    surface, exact = paper("talk: error surface", "Depth introduces a saddle point"), "Theory, to rounding."
    least, largest = saddle.curvature.values
    name = "curvature of the error at zero weights / s"
    yield surface.near("saddle-falls", f"least {name}, depth 2", -1, least, 1e-5, bound=exact)
    yield surface.near("saddle-rises", f"largest {name}, depth 2", 1, largest, 1e-5, bound=exact)
    yield surface.near("no-saddle-shallow", f"least {name}, depth 1", 1, saddle.shallow, 1e-5, bound=exact)
    yield check("theory").below("conserved", "drift of w2^2 - w1^2 along the flow", 1e-8, saddle.drift)
    slope = -np.polyfit(np.log(saddle.offset), saddle.leave, 1)[0]
    name = "time at the saddle, slope in log(1/distance)"
    yield check("theory: 1/s", "theory, to 2%").near("saddle-time", name, 1, slope, 0.02)


@claims
def small_random_weights(p: Chains, data: Data):
    exponential = paper(EFFECT, "Small random weights scale exponentially t_inf - t_1 ≈ O(1/b_0^D)")
    speed = paper(SPEED, "Time difference for deep net vs shallow net is t_inf - t_1 ≈ O(1/(s b_0^D))")
    runs = along(data.by_depth, "depth").sel(start="small random", depth=[d for d in p.depths if d >= 4])
    per_layer, tenth = "growth of log epochs per layer / log(1/b0)", "Standard: a rate within 10%."

    def growth(depths: Any, epochs: Any) -> Any:
        return np.polyfit(depths, np.log(epochs), 1)[0] / np.log(1 / p.gain)

    name = f"small random, aligned networks: {per_layer}"
    aligned = growth(runs.depth, runs.aligned)
    yield exponential.near("small-random-aligned", name, 1, aligned, 0.1, bound=tenth)
    yield exponential.near(
        "small-random-networks", f"small random, random networks: {per_layer}", 1,
        growth(runs.depth, runs.epochs), 0.1,
        "Random layers are not aligned: only part of their singular values lies in directions that grow, "
        "and less so the more layers there are. Growth is exponential, faster than the formula's.", tenth,
    )  # fmt: skip
    by_gain = along(data.by_gain, "gain").sel(start="small random")
    note = (
        f"Chains of depth D take D/(D-2) / (s b0^(D-2)): the exponent is {2 - p.deep}, and the printed one "
        "its limit for great depth."
    )
    for key, epochs in (("", by_gain.epochs.T), ("-aligned", by_gain.aligned)):
        kind = "aligned networks" if key else "random networks"
        name = f"small random, {kind}, depth {p.deep}: exponent of epochs in b0"
        exponent, half = power_law_exponent(p.gains, epochs), "Standard: half a layer."
        yield exponential.near(f"small-random-exponent{key}", name, -p.deep, exponent, 0.5, note, half)
    sensitive = paper(SPEED, "Deep learning speed is highly sensitive to initial conditions")
    name = f"random networks, depth {p.deep}: epochs from gain {p.gains[0]:g} / from gain {p.gains[-1]:g}"
    slower, twice = (by_gain.epochs[0] / by_gain.epochs[-1]), "Standard: more than twice as long."
    yield sensitive.above("speed-sensitive", name, 2, slower, bound=twice)
    exponent = power_law_exponent(p.s, data.by_strength.half)
    name = f"small weights, aligned networks, depth {p.deep}: exponent of the time in s"
    yield speed.near("time-by-strength", name, -1, exponent, 0.05, bound="Standard: an exponent within 5%.")


@claims
def other_weights(p: Chains, data: Data):
    linear = paper(EFFECT, "Pretraining + fine-tuning scales linearly t_inf - t_1 ≈ O(D/b_0^2)")
    constant = paper(EFFECT, "Orthogonal initialization: depth-independent t_inf - t_1 ≈ O(1)")
    runs = along(data.by_depth, "depth")
    epochs = runs.epochs.sel(start="pretrained")
    beyond = power_law_exponent(np.array(p.depths[1:]) - 1, (epochs[1:] - epochs[0]).T)
    name = "pretrained: exponent of the epochs beyond one layer in the layers beyond one"
    standard = "Standard: an exponent within {}."
    yield linear.near("pretrained-depth", name, 1, beyond, 0.1, bound=standard.format("0.1"))
    epochs = along(data.by_gain, "gain").epochs.sel(start="pretrained")
    yield linear.near(
        "pretrained-exponent", f"pretrained, depth {p.deep}: exponent in b0", -2,
        power_law_exponent(p.gains, epochs.T), 0.2,
        "D/b0^2 bounds this from above. An autoencoder has two layers, whose time is log(1/b0^2): nearly no"
        " dependence on b0.", standard.format("a tenth of it"),
    )  # fmt: skip
    exponent = power_law_exponent(p.depths[1:], runs.epochs.sel(start="orthogonal")[1:].T)
    name = "orthogonal: exponent of epochs in depth"
    yield constant.near("orthogonal-depth", name, 0, exponent, 0.15, bound=standard.format("0.15 of none"))
    stuck = np.isnan(data.narrow.epochs)
    yield constant.near(
        "orthogonal-narrow", "orthogonal without spare neurons: share that never learns", 0, stuck.mean(),
        0.05, "Learning keeps the sign of the determinant, and half of all orthogonal maps have the wrong "
        "one. Hidden layers are as narrow as the input.", "Standard: at most one network in twenty.",
    )  # fmt: skip
    explained = (stuck == (data.narrow.determinant < 0)).mean()
    name = "stuck exactly where the determinant's sign is wrong, share"
    yield finding("theory", "theory: the sign is conserved").near("orthogonal-sign", name, 1, explained, 1e-9)


EXPERIMENT = Experiment(
    "chains",
    "Chains: what depth does to learning",
    "talk, part 1",
    Chains(),
    Chains(seeds=2, depths=(1, 2, 4, 8), gains=(0.4, 0.6), deep=4, square=20, curves=(2,)),
    minutes=(0.3, 1.0),
)
