"""Seven input and seven output domains talk through shared hidden layers; gates open one of the 49 routes at
a time, and 28 of them are trained. The hidden layer lies on every route and so learns fastest. The reduction
to two strengths per mode predicts when each mode is learned; and because all domains come to share one
representation, the network also answers on routes that it has never seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any

import numpy as np
from scipy.optimize import minimize_scalar

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework import Data, Experiment, figure, part, require, rows
from neuralrace_papers.neural_race import domains_data
from neuralrace_papers.neural_race.block_matrix import block_matrix
from neuralrace_papers.neural_race.domains_data import FEATURES, ITEMS, TARGETS, eq15, layers

LEVELS = (150, 40, 9, 1)  # of the published loss, which starts at 244: as the modes are learned
LAYERS = ("input", "hidden", "output")
START = {"descent": "published-start", "xavier": "xavier-start", "small": "small-start"}


@dataclass(frozen=True)
class Routing:
    seeds: Annotated[int, "random starts of each network"] = 10
    domains: Annotated[int, "input domains, and as many output domains"] = 7
    trained: Annotated[int, "output domains with which each input domain is trained"] = 4
    few: Annotated[tuple[int, ...], "smaller numbers, with which some domains have no common output"] = (3, 2)
    hidden: Annotated[int, "units of each hidden layer"] = 64
    scale: Annotated[float, "singular values of orthogonal weights, or gain of Xavier weights"] = 0.2
    small: Annotated[float, "singular values of a smaller start"] = 0.02
    strength: Annotated[float, "start of Eq. 15 in the authors' code"] = 0.08
    rate: Annotated[float, "published learning rate, on the sum over trained pairs"] = 0.02
    epochs: Annotated[int, "steps of training"] = 500

    def __post_init__(self) -> None:
        most = max(self.trained, 2 * max(self.few))
        require(most < self.domains, f"trained and twice few must be below domains = {self.domains}")
        require(self.hidden > ITEMS, f"hidden must be above {ITEMS}, got {self.hidden}")

    @property
    def published(self) -> float:
        """Published loss over the library's: a sum over trained pairs of the mean over items and features of
        the squared error, against a mean over pairs and items of half the sum over features."""
        return 2 * self.trained * self.domains / FEATURES

    @property
    def epoch(self) -> float:
        """Flow time of a published epoch: one step with `rate` on the published loss."""
        return self.rate * self.published

    def t1(self, scale: float) -> float:
        """End of training: with three layers the time to learn is inversely proportional to the weights."""
        return self.epochs * self.epoch * self.scale / scale

    def pairs(self, trained: int) -> np.ndarray:
        return nr.tasks.circulant(self.domains, trained, shift=-1)

    @property
    def save(self) -> int:
        return self.epochs // 2 + 1


@part
def linear(p: Routing):
    """Error of the best linear map to one output domain over that of no answer: every input domain shows an
    item, and that of one of the trained ones is asked for."""
    rng = np.random.default_rng(0)
    item = rng.integers(ITEMS, size=(20_000, p.domains))
    wanted = TARGETS[item[np.arange(len(item)), rng.integers(p.trained, size=len(item))]]
    inputs = np.eye(ITEMS)[item].reshape(len(item), -1)
    wrong = wanted - inputs @ np.linalg.lstsq(inputs, wanted)[0]
    return {"error": (wrong**2).sum() / (wanted**2).sum()}


@part
def decoupled(p: Routing):
    """Decoupled networks: with the strengths that the theory reads from random weights, and all equal."""
    task, t1 = domains_data.task(p.domains, p.pairs(p.trained), p.hidden), p.t1(p.scale)
    r, fine = nr.reduce(task), nr.Adaptive(1e-11, 1e-12)
    b0 = r.strengths(nr.init.orthogonal(task.graph, p.scale, seed=range(p.seeds)))
    outer = np.stack([b for e, b in b0.items() if e != "h1->h2"])  # (domain, run, mode)
    even = {e: b if e == "h1->h2" else outer.mean(axis=0) for e, b in b0.items()}
    run = nr.flow(task, r.lift(b0), t1, p.save, method=fine)
    theory, balanced = (r.solve(strengths=b, t1=t1, save=run.t, method=fine) for b in (b0, even))
    equal = nr.flow(task, nr.init.decoupled(r, p.strength), t1, p.save, method=fine)
    b1, b2 = (equal.singular_values(e)[:, :ITEMS] for e in ("x0->h1", "h1->h2"))
    small = r.solve(p.small, p.t1(p.small), p.save)
    return {
        "t": ("t", run.t),
        "loss": ("run t", run.loss),
        "theory": ("run t", theory.loss),
        "spread": ("run", (outer.std(axis=0) / outer.mean(axis=0)).mean(axis=-1)),
        "balanced": ("level run", times(p, balanced) / times(p, theory)),
        "equal": ("t", equal.loss),
        "eq15": ("t", eq15(p.domains, run.t, p.strength)[0]),
        "invariant": ("t mode", p.domains * b1**2 - b2**2),
        "ratio": ("mode", small.strengths[-1, :, 1] / small.strengths[-1, :, 0]),
    }


@part(each=lambda p: ("descent", "xavier", "small", *p.few))
def random(p: Routing, case: str | int):
    """Random starts: descent as published, from orthogonal weights (the authors' code) and from Xavier
    weights (the text); flow from a small start, and so with few pairs, from orthogonal ones.

    For the published pairs with the theory from the same weights, and Eq. 15.
    """
    trained = p.trained if isinstance(case, str) else case
    scale = p.small if case == "small" or trained != p.trained else p.scale
    pairs, t1 = p.pairs(trained), p.t1(scale)
    task, untrained = (domains_data.task(p.domains, chosen, p.hidden) for chosen in (pairs, ~pairs))
    draw = nr.init.xavier if case == "xavier" else nr.init.orthogonal
    start = draw(task.graph, scale, seed=range(p.seeds))
    descends = case in ("descent", "xavier")
    run = nr.descend(task, start, p.epoch, p.epochs, p.save) if descends else nr.flow(task, start, t1, p.save)
    end = {e: w[:, -1] for e, w in run.weights.items()}
    values = [np.linalg.svd(w, compute_uv=False)[..., : ITEMS + 1] for w in layers(run.weights, p.domains)]
    hidden, outputs = domains_data.answers(task, end)
    networks = {
        "t": ("t", run.t),
        "loss": ("run t", run.loss),
        "times": ("level run", times(p, run)),
        "singular_values": ("layer run t mode", [v[..., :ITEMS].mean(axis=2) for v in values]),
        "final_hidden": ("run value", values[1][:, -1, 0]),
        "untrained": ("run", nr.loss(untrained, end) / nr.loss(untrained, start)),
        "gram": ("run sample other", nr.measure.gram(hidden)),
        "outputs": ("run sample feature", outputs),
    }
    if trained != p.trained:
        return networks
    r = nr.reduce(task)
    theory = r.solve(strengths=r.strengths(start), t1=t1, save=run.t, method=nr.Adaptive(1e-7, 1e-9))
    strengths = [-np.sort(-np.abs(b), axis=-1).mean(axis=2) for b in layers(theory.source.b, p.domains)]
    return {
        **networks,
        **(by_eq15(p, start, networks["times"][1], run.t) if descends else {}),
        "theory": ("run t", theory.loss),
        "theory_times": ("level run", times(p, theory)),
        "strengths": ("layer run t mode", strengths),
    }


def times(p: Routing, run: Any) -> np.ndarray:
    """Times to reach the levels of the published loss, `(level, ...)`."""
    return np.stack([nr.learning_time(run, level / p.published) for level in LEVELS])


def by_eq15(p: Routing, start: Mapping[str, np.ndarray], found: np.ndarray, t: np.ndarray) -> dict[str, Any]:
    """Eq. 15 from the size of the weights, from the start in the authors' code, and from one that is fitted:
    equal strengths whose largest deviation from the times of the networks is least, mean over starts."""
    fine, saved = np.linspace(0, 2 * t[-1], 8 * len(t) - 7), slice(0, 4 * len(t) - 3, 4)  # it may be late

    def curve(b0: Any) -> tuple[np.ndarray, ...]:
        loss, b1, b2 = eq15(p.domains, fine, b0)
        levels = nr.measure.crossing(fine, loss, np.array(LEVELS) / p.published)
        return loss[saved], np.stack([b[saved] for b in (b1, b2, b1)]), levels

    def off(log_b0: float) -> float:
        return np.abs(curve(np.exp(log_b0))[2][:, None] / found - 1).max(axis=0).mean()

    near = np.log([p.strength / 3, p.strength * 2])
    least: Any = minimize_scalar(off, bounds=near, method="bounded", options={"xatol": 0.01})
    fitted = float(np.exp(least.x))
    curves = [curve(b0) for b0 in (strengths_of_size(start, p.domains), p.strength, fitted)]
    loss, strengths, levels = (list(values) for values in zip(*curves, strict=True))
    return {
        "start": ("start", ["size", "code", "fitted"]),
        "fitted": fitted,
        "eq15": ("start t", loss),
        "eq15_times": ("start level", levels),
        "eq15_strengths": ("start layer t mode", strengths),
        "eq15_end": ("mode", eq15(p.domains, np.array([1e6]), p.strength)[2][0]),
    }


def strengths_of_size(weights: Mapping[str, np.ndarray], domains: int) -> tuple[float, float]:
    """Strengths B1 and B2 of Eq. 15 that the size of initial weights gives: the root mean square of the
    singular values of outer layers and of the hidden one, mean over domains and starts."""
    first = layers({e: w[:, None] for e, w in weights.items()}, domains)
    into, hidden, out = (np.sqrt((w**2).sum(axis=(-1, -2)) / min(w.shape[-2:])).mean() for w in first)
    return (into + out) / 2, hidden


@figure("routing-loss")
def losses(p: Routing, data: Data):
    fig, axes = plot.figure(1, 2, height=3.0, sharey=True)
    titles = {"descent": "orthogonal weights (authors' code)", "xavier": "Xavier weights (text)"}
    for ax, (case, title) in zip(axes, titles.items(), strict=True):
        run = data.random[case]
        epochs, own = run.t / p.epoch, p.published * run.theory.median("run")
        plot.runs(ax, epochs, p.published * run.loss, plot.RED, "networks")
        plot.theory(ax, epochs, own, label="reduction from each network's weights")
        by_size, by_code, _ = p.published * run.eq15
        label = f"Eq. 15, start {p.strength:g} as in the authors' code"
        plot.theory(ax, epochs, by_code, plot.BLUE, label)
        plot.theory(ax, epochs, by_size, plot.BLUE, f"Eq. 15, start {p.scale:g} as in the caption", ls="--")
        if case == "descent":
            equal = p.published * data.decoupled.equal[::15]
            ax.plot(epochs[::15], equal, "o", color=plot.GREEN, label="decoupled network, same start")
        plot.label(ax, "epochs", title=title, ylim=(0, 270))
    axes[0].set_ylabel("loss, as published")
    plot.legend_below(fig, axes[0], 2)
    return fig, (
        f"Loss of {p.seeds} networks (median and range) trained as published, with M = {p.domains} and "
        f"K = {p.trained}, and what predicts it. Eq. 15 matches a decoupled network exactly. From the start "
        f"{p.strength:g}, which the authors' code has, it is a good approximation for random weights; from "
        f"{p.scale:g}, which the caption gives, it is early. The reduction needs no such constant."
    )


@figure("routing-dynamics")
def dynamics(p: Routing, data: Data):
    fig, axes = plot.figure(1, 3, height=2.7)
    run, some = data.random["descent"], slice(None, None, 15)
    epochs, label = run.t / p.epoch, f"Eq. 15, start {p.strength:g} as in the authors' code"
    for (k, ax), mode in product(enumerate(axes), range(ITEMS)):
        plot.points(ax, epochs[some], run.singular_values[k, :, some, mode], plot.RED, "networks", ms=3)
        own = run.strengths[k, ..., mode].mean("run")
        plot.theory(ax, epochs, own, label="reduction from each network's weights")
        plot.theory(ax, epochs, run.eq15_strengths[1, k, :, mode], plot.BLUE, label)
        ax.set(xlabel="epochs", title=f"{LAYERS[k]} layer", ylim=(0, None))
    axes[0].set_ylabel("singular values")
    plot.legend_below(fig, axes[0], 3)
    return fig, (
        f"Singular values of each layer, one line for each of the {ITEMS} modes; the two weakest are equal "
        f"in Eq. 15. Points: mean and standard deviation over {p.seeds} networks. Before a mode is learned "
        "the theory follows only that part of the weights which grows, whereas all singular values of a "
        f"random start are {p.scale:g}."
    )


@figure("routing-answers")
def answers(p: Routing, data: Data):
    fig, (c, d, g, h) = plot.figure(1, 4, height=2.1, width_ratios=[1, 1, 1.45, 2.1])
    pairs, run = p.pairs(p.trained), data.random["descent"].isel(run=0)
    plot.matrix(c, TARGETS, "targets", float(np.abs(run.outputs).max()))  # the colours of the outputs
    c.set(xlabel="feature", ylabel="item")
    block_matrix(d, pairs, (1, 1), "trained pairs (red)", limit=2)
    similar = block_matrix(g, run.gram, (ITEMS, ITEMS), "similarity of items")
    outputs = block_matrix(h, run.outputs, (ITEMS, FEATURES), "outputs (framed: trained)", framed=pairs)
    fig.colorbar(similar, ax=g, label="inner product")
    fig.colorbar(outputs, ax=h, label="output, target")
    for ax in (d, g, h):
        ax.set(xlabel="input domain" if ax is g else "output domain", ylabel="input domain")
    return fig, (
        f"From left to right: features of the {ITEMS} items; which pairs of domains are trained; inner "
        f"products of the activity of the first hidden layer, {ITEMS} items on each input domain. Last: "
        f"outputs on all routes, {ITEMS} items by {FEATURES} features each, with trained routes framed. One "
        "random start, at the end of training."
    )


@rows
def exact(p: Routing, data: Data):
    d = data.decoupled
    yield "linear-error", data.linear.error
    yield "loss-decoupled", np.abs(d.loss - d.theory).max("t")
    yield "loss-decoupled-eq-15", np.abs(d.equal - d.eq15).max("t")
    drift = np.abs(d.invariant - d.invariant[0]).max() / np.abs(d.invariant[0]).max()
    yield "conserved-strengths-equal", drift
    yield "strength-ratio", d.ratio.mean()
    yield "spread-of-domains", d.spread
    yield "balanced-times", np.abs(d.balanced - 1).max("level")


@rows
def ratios_of_layers(p: Routing, data: Data):
    """Changes of singular values, hidden over outer layers; and values at the end."""
    outer = [("input", 0, [0]), ("output", 0, [2])]
    outer += [(f"mode-{k + 1}", k, [0, 2]) for k in range(1, ITEMS)]
    for case, (key, mode, chosen) in product(("descent", "small"), outer):
        yield f"layer-ratio-{key}-{START[case]}", change_ratio(data.random[case], mode, chosen)
    end = data.random["descent"].singular_values[:, :, -1].values  # (layer, run, mode)
    for mode in range(ITEMS):
        yield f"value-ratio-mode-{mode + 1}", end[1, :, mode] / end[[0, 2], :, mode].mean(axis=0)


def change_ratio(run: Any, mode: int, outer: list[int]) -> np.ndarray:
    """Change of a singular value in the hidden layer over that in outer ones, their mean, `(run,)`."""
    values = run.singular_values[..., mode].values  # (layer, run, t)
    change = values[..., -1] - values[..., 0]
    return change[1] / change[outer].mean(axis=0)


@rows
def learning_times(p: Routing, data: Data):
    """When networks learn, by Eq. 15 and by the reduction."""
    for case, start in product(("descent", "xavier"), ("size", "code", "fitted")):
        run = data.random[case]
        off = np.abs(run.eq15_times.sel(start=start) / run.times - 1).max("level")
        yield f"eq-15-{start}-{START[case]}", off
    yield "fitted-start", data.random["descent"].fitted
    for case, key in START.items():
        late = data.random[case].theory_times / data.random[case].times - 1
        for k, level in enumerate(LEVELS):
            yield f"time-loss-{level}-{key}", late[k]
    run = data.random["descent"]
    curves = run.eq15_strengths[1, 1], run.singular_values[1]  # (t, mode), (run, t, mode)
    theory, half = (
        nr.measure.half_time(run.t, c.values, first=0.0, last=run.eq15_end.values, axis=-2) for c in curves
    )
    for mode in range(ITEMS):
        yield f"half-time-mode-{mode + 1}", np.abs(theory / half - 1)[:, mode]
    drawn = np.abs(theory - half) / p.epoch  # epochs between the drawn curves, (run, mode)
    yield "larger-values-match-better", drawn[:, -1] - drawn[:, 0]


@rows
def generalisation(p: Routing, data: Data):
    for case, key in START.items():
        run = data.random[case]
        yield f"untrained-{key}", run.untrained
        yield f"shared-items-{key}", domains_data.same_item(run.gram, p.domains)
        yield f"shared-products-{key}", domains_data.unshared(run.gram, p.domains)


@rows
def few_pairs(p: Routing, data: Data):
    """So few trained pairs that some domains have no output in common; from a small start."""
    for trained in p.few:
        run, pairs = data.random[trained], p.pairs(trained).astype(int)
        yield f"layer-ratio-{trained}-trained", change_ratio(run, 0, [0, 2])
        apart = domains_data.same_item(run.gram, p.domains, pairs @ pairs.T == 0)
        yield f"shared-without-common-output-{trained}", apart
        yield f"untrained-{trained}-trained", run.untrained
        yield f"more-modes-{trained}-trained", run.final_hidden[:, ITEMS] > run.final_hidden[:, ITEMS - 1] / 2


EXPERIMENT = Experiment(
    "routing",
    "Routing: a shared pathway learns fastest and serves routes never trained",
    "neural_race Fig. 4, 4.1, C",
    Routing(),
    quick={"seeds": 2, "hidden": 16, "few": (3,)},
    minutes=(0.3, 3.0),
)
