"""Seven input and seven output domains talk through shared hidden layers; gates open one of the 49 routes at
a time, and 28 of them are trained. The hidden layer lies on every route and so learns fastest. The reduction
to two strengths per mode predicts when each mode is learned from the initial weights alone; and because all
domains come to share one representation, the network also answers on routes that it has never seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import plot
from neuralrace.experiments.claim import Claim, check, finding, kebab, paper
from neuralrace.experiments.declaration import Data, claims, figure, part
from neuralrace.experiments.experiment import Experiment, Parameters, option, require
from neuralrace.experiments.neural_race import items
from neuralrace.experiments.neural_race.items import FEATURES, ITEMS, TARGETS

LEVELS = (150, 40, 9, 1)  # of the published loss, which starts at 244: as the modes are learned
LAYERS = ("input", "hidden", "output")
FIG, UNTRAINED = "neural_race Fig. 4", "error on untrained routes, end / start"
START = {"descent": "published start", "small": "small start"}
CHANGES = (
    "hidden layer weight singular values change by a factor of sqrt(M) more than the input or output weights"
)
GENERALISES = "The network generalizes perfectly to input-output routes that were never seen during training."
SHARED = (
    "Inputs from different domains are mapped to similar internal representations, revealing a shared "
    "representation even for input domains that are never trained with a common output."
)
SUBSET = "training on a subset of M^2 tasks is enough to obtain strong generalization to all M^2 tasks."


@dataclass(frozen=True)
class Routing(Parameters):
    domains: int = option(7, "input domains, and as many output domains", least=6)
    trained: int = option(4, "output domains with which each input domain is trained")
    few: tuple[int, ...] = option(
        (3, 2), "smaller numbers, with which some pairs of domains have no common output"
    )
    hidden: int = option(64, "units of each hidden layer", least=ITEMS + 1)
    scale: float = option(0.2, "singular values of the initial orthogonal weights, as published")
    small: float = option(0.02, "singular values of a smaller start")
    rate: float = option(0.02, "published learning rate, on the sum over trained pairs")
    epochs: int = option(500, "steps of training", least=20)

    def check(self) -> None:
        most = max(self.trained, 2 * max(self.few))
        require(most < self.domains, f"trained and twice few must be below domains = {self.domains}")

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
def decoupled(p: Routing) -> dict[str, Any]:
    """Decoupled networks with the strengths that the theory reads from random weights."""
    task, t1 = items.task(p.domains, p.pairs(p.trained), p.hidden), p.t1(p.scale)
    r, fine = nr.reduce(task), nr.Adaptive(1e-11, 1e-12)
    b0 = r.strengths(nr.init.orthogonal(task.graph, p.scale, seed=range(p.seeds)))
    run = nr.flow(task, r.lift(b0), t1, p.save, method=fine)
    outer, hidden, _ = layers(r.family.project(run.weights), p)
    invariant = (outer**2).sum(axis=2) - hidden[:, :, 0] ** 2  # M B1^2 - B2^2, with a B1 for each domain
    equal, small = r.solve(p.scale, t1, run.t), r.solve(p.small, p.t1(p.small), p.save)
    return {
        "t": ("t", run.t),
        "loss": ("run t", run.loss),
        "theory": ("run t", r.solve(b0=b0, t1=t1, save=run.t, method=fine).loss),
        "residual": r.residual,
        "as_printed": as_printed(p, r),
        "invariant": ("run t mode", invariant),
        "equal_times": ("level", times(p, equal)),
        "change_ratio": np.divide(*(equal.strengths[-1, 0, ::-1] - p.scale)),  # leading mode, B2 over B1
        "ratio": ("mode", small.strengths[-1, :, 1] / small.strengths[-1, :, 0]),
    }


def as_printed(p: Routing, r: nr.Reduction) -> bool:
    """Whether the equations of the reduction are neural_race Eq. 13-14."""
    b1, b2, s, d = sp.symbols("B1 B2 S D")
    printed = [b2 * b1 * (s - b2 * b1**2 * d) / p.domains, b1**2 * (s - b2 * b1**2 * d)]
    derived = [e.rhs for e in r.equations()]
    return len(derived) == 2 and all(sp.simplify(a - b) == 0 for a, b in zip(derived, printed, strict=True))


@part(each=lambda p: ("descent", "flow", "small", *p.few))
def random(p: Routing, case: str | int) -> dict[str, Any]:
    """Random orthogonal starts: descent as published, flow, flow from a small start, and so with few pairs.

    For the published pairs with the theory from the same weights.
    """
    trained = p.trained if isinstance(case, str) else case
    scale = p.scale if case in ("descent", "flow") else p.small
    pairs, t1 = p.pairs(trained), p.t1(scale)
    task, untrained = (items.task(p.domains, chosen, p.hidden) for chosen in (pairs, ~pairs))
    start = nr.init.orthogonal(task.graph, scale, seed=range(p.seeds))
    if case == "descent":
        run = nr.descend(task, start, p.epoch, p.epochs, p.save)
    else:
        run = nr.flow(task, start, t1, p.save)
    end = {e: w[:, -1] for e, w in run.weights.items()}
    invariants = nr.conserved(task, {e: w[:, :: p.save // 10] for e, w in run.weights.items()}).values()
    values = [np.linalg.svd(w, compute_uv=False)[..., : ITEMS + 1] for w in layers(run.weights, p)]
    hidden, outputs = items.answers(task, end)
    networks = {
        "t": ("t", run.t),
        "loss": ("run t", run.loss),
        "times": ("level run", times(p, run)),
        "singular_values": ("layer run t mode", [v[..., :ITEMS].mean(axis=2) for v in values]),
        "final_hidden": ("run value", values[1][:, -1, 0]),
        "drift": max(np.abs(v - v[:, :1]).max() / np.abs(v[:, 0]).max() for v in invariants),
        "untrained": ("run", nr.loss(untrained, end) / nr.loss(untrained, start)),
        "gram": ("run sample other", nr.measure.gram(hidden)),
        "outputs": ("run sample feature", outputs),
    }
    if trained != p.trained:
        return networks
    theory = nr.reduce(task).solve(weights=start, t1=t1, save=run.t)
    strengths = [-np.sort(-np.abs(b), axis=-1).mean(axis=2) for b in layers(theory.b, p)]
    return {
        **networks,
        "theory": ("run t", theory.loss),
        "theory_times": ("level run", times(p, theory)),
        "strengths": ("layer run t mode", strengths),
    }


def layers(values: Mapping[str, np.ndarray], p: Routing) -> list[np.ndarray]:
    """Values of the edges of each layer, `(run, t, domain, ...)`."""
    domains = range(p.domains)
    edges = [[f"x{i}->h1" for i in domains], ["h1->h2"], [f"h2->y{i}" for i in domains]]
    return [np.stack([values[e] for e in layer], axis=2) for layer in edges]


def times(p: Routing, run: nr.Trajectory) -> np.ndarray:
    """Times to reach the levels of the published loss, `(level, ...)`."""
    return np.stack([nr.learning_time(run, level / p.published) for level in LEVELS])


@figure("routing-dynamics")
def dynamics(p: Routing, data: Data) -> tuple[Figure, str]:
    fig, (left, *rest) = plot.figure(1, 4, height=2.1)
    run, some = data.random["descent"], slice(None, None, 15)
    epochs = run.t / p.epoch
    plot.runs(left, epochs, p.published * run.loss, plot.RED, "random")
    middle = p.published * data.decoupled.loss.median("run")
    plot.points(left, epochs[some], middle[some], plot.GREEN, "decoupled")
    plot.theory(left, epochs, p.published * run.theory.median("run"), label="theory")
    left.set(xlabel="epochs", ylabel="loss", title="loss")
    left.legend(loc="upper right", borderaxespad=0)
    for k, ax in enumerate(rest):
        for mode in range(ITEMS):
            plot.points(ax, epochs[some], run.singular_values[k, :, some, mode], plot.RED, ms=3)
        plot.theory(ax, epochs, run.strengths[k].mean("run"))
        ax.set(xlabel="epochs", title=f"{LAYERS[k]} layer", ylim=(0, None))
    rest[0].set_ylabel("singular values")
    caption = (
        f"Left: loss on the published scale of {p.seeds} random starts (band from least to most, median), "
        "of decoupled starts with the strengths that the theory reads from the random weights (median), and "
        "of the theory (median). Others: singular values of each layer (points: mean and standard deviation "
        "over random starts; lines: theory, mean). Before a mode is learned the theory follows only the part "
        f"of the weights that grows, while all singular values of a random start are {p.scale:g}."
    )
    return fig, caption


@figure("routing-answers")
def answers(p: Routing, data: Data) -> tuple[Figure, str]:
    fig, (c, d, g, h) = plot.figure(1, 4, height=2.1, width_ratios=[1, 1, 1.45, 2.1])
    pairs, run = p.pairs(p.trained), data.random["descent"].isel(run=0)
    plot.matrix(c, TARGETS, "targets")
    c.set(xlabel="feature", ylabel="item")
    plot.block_matrix(d, pairs, (1, 1), "trained pairs", limit=2)
    similar = plot.block_matrix(g, run.gram, (ITEMS, ITEMS), "similarity of items")
    outputs = plot.block_matrix(h, run.outputs, (ITEMS, FEATURES), "outputs on all routes", framed=pairs)
    fig.colorbar(similar, ax=g, label="inner product")
    fig.colorbar(outputs, ax=h, label="output")
    for ax in (d, g, h):
        ax.set(xlabel="input domain" if ax is g else "output domain", ylabel="input domain")
    caption = (
        f"From left to right: features of the {ITEMS} items; which pairs of domains are trained; inner "
        f"products of the activity of the first hidden layer, {ITEMS} items on each input domain; outputs on "
        f"all routes, {ITEMS} items by {FEATURES} features each (trained routes are framed). One random "
        "start, at the end of training."
    )
    return fig, caption


@claims
def exact(p: Routing, data: Data) -> Iterator[Claim]:
    d, root = data.decoupled, p.domains**0.5
    gap = np.abs(np.linalg.svd(TARGETS)[1] - np.sqrt([185, 41, 9, 9])).max()
    name = "singular values of the targets - roots of 185, 41, 9, 9"
    yield check(f"{FIG}c").below("target-spectrum", name, 1e-12, gap)
    yield check("neural_race Eq. 10").below("residual", "residual of the reduction", 1e-8, d.residual)
    written = "tau dB1/dt = 1/M B2 B1 [S - B2 B1^2 D], tau dB2/dt = B1^2 [S - B2 B1^2 D]"
    yield paper("neural_race Eq. 13-14", written).relation(
        "equations", "equations of the reduction", "as printed", d.as_printed, d.as_printed
    )
    name = "largest difference of the loss, theory and decoupled starts"
    yield check(f"{FIG}e").below("loss-decoupled", name, 1e-6, np.abs(d.loss - d.theory).max("t"))
    first = d.invariant.isel(t=0, drop=True)
    drift = np.abs(d.invariant - first).max(["t", "mode"]) / np.abs(first).max("mode")
    yield paper("neural_race Eq. 15", "the quantity M B1^2 - B2^2 is conserved under the dynamics").below(
        "conserved-strengths", "M B1^2 - B2^2, relative change, decoupled starts", 1e-6, drift
    )
    name, both = "W^T W - W W^T, relative change", "At both hidden nodes, random starts."
    yield check("neural_race Eq. 4").below("conserved-weights", name, 1e-6, data.random["flow"].drift, both)
    name = "B2 / B1 at the end, theory from small strengths"
    quote = "the shared portion of the pathway changes more by a factor sqrt(M)"
    yield paper("neural_race Eq. 51", quote).near("strength-ratio", name, root, d.ratio, 0.01 * root)


@claims
def layer_ratios(p: Routing, data: Data) -> Iterator[Claim]:
    stated, root = paper("neural_race Eq. 51, Fig. 4f", CHANGES), p.domains**0.5
    own = f"from strengths of {p.scale:g} the theory's ratio is {float(data.decoupled.change_ratio):.2f}."
    for case, tolerance, note in (
        ("descent", 0.1, f"The limit of small starts; {own}"),
        ("small", 0.02, ""),
    ):
        leading = data.random[case].singular_values[..., 0].values  # (layer, run, t)
        change = leading[..., -1] - leading[..., 0]
        for k in (0, 2):
            key = f"layer-ratio-{LAYERS[k]}-{kebab(START[case])}"
            name = f"change of leading singular value, hidden / {LAYERS[k]}, {START[case]}"
            yield stated.near(key, name, root, change[1] / change[k], tolerance * root, note)


@claims
def learning_times(p: Routing, data: Data) -> Iterator[Claim]:
    good = paper(f"{FIG}e", "The theory [...] is a good approximation for small random weights.")
    late = {c: data.random[c].theory_times / data.random[c].times - 1 for c in ("descent", "flow", "small")}
    same = "Does not shrink with the weights: three layers align on the time scale on which they grow."
    for k, level in enumerate(LEVELS):
        early = 1 - float(data.decoupled.equal_times[k] / data.random["descent"].times[k].mean())
        other = f"strengths of {p.scale:g} in all modes would be {early:.0%} early."
        note = f"Against gradient flow {float(late['flow'][k].mean()):+.1%}; {other}"
        for case, stated, text in (("descent", good, note), ("small", finding(f"{FIG}e"), same)):
            key = f"time-loss-{level}-{kebab(START[case])}"
            name = f"theory / random start - 1, time to loss {level}, {START[case]}"
            yield stated.near(key, name, 0, late[case][k], 0.05, text)


@claims
def generalisation(p: Routing, data: Data) -> Iterator[Claim]:
    for case, error, tolerance in (("descent", 1e-3, 0.1), ("small", 1e-8, 0.002)):
        run, start, key = data.random[case], START[case], kebab(START[case])
        name = f"{UNTRAINED}, {start}"
        yield paper(f"{FIG}h", GENERALISES).below(f"untrained-{key}", name, error, run.untrained)
        cosine = nr.measure.domain_similarity(run.gram, p.domains)
        same = cosine[..., *np.triu_indices(p.domains, 1)].mean(axis=(1, 2))
        name = f"cosine of an item on two domains, {start}"
        yield paper(f"{FIG}g", SHARED).near(f"shared-items-{key}", name, 1, same, tolerance)
        gram = run.gram.values.reshape(p.seeds, p.domains, ITEMS, p.domains, ITEMS)
        off = gram - gram.mean(axis=(1, 3), keepdims=True)
        share = [np.linalg.norm(o) / np.linalg.norm(g) for o, g in zip(off, gram, strict=True)]
        name = f"inner products of items on two domains, off their mean over domains, {start}"
        yield paper(f"{FIG}g", SHARED).below(f"shared-products-{key}", name, tolerance / 2, share)


@claims
def few_pairs(p: Routing, data: Data) -> Iterator[Claim]:
    """So few trained pairs that some domains have no output in common; from a small start."""
    for trained in p.few:
        run, pairs = data.random[trained], p.pairs(trained).astype(int)
        more = int((run.final_hidden[:, ITEMS] > run.final_hidden[:, ITEMS - 1] / 2).sum())
        note = (
            f"In {more} of {p.seeds} networks the hidden layer ends with more than {ITEMS} modes: the "
            "domains overlap in a ring, and distant parts of it learn a mode in hidden directions of their "
            "own."
            if more
            else ""
        )
        cosine = nr.measure.domain_similarity(run.gram, p.domains)
        apart = cosine[..., pairs @ pairs.T == 0].mean(axis=(1, 2))
        name = f"cosine of an item on domains without common output, {trained} trained, small start"
        key = f"shared-without-common-output-{trained}"
        yield paper(f"{FIG}g, 4.1", SHARED).near(key, name, 1, apart, 0.01, note)
        name = f"{UNTRAINED}, {trained} trained, small start"
        key = f"untrained-{trained}-trained"
        yield paper("neural_race 4.1", SUBSET).below(key, name, 1e-6, run.untrained, note)


EXPERIMENT = Experiment(
    "routing",
    "Routing: a shared pathway learns fastest and serves routes never trained",
    "neural_race Fig. 4, 4.1, C",
    Routing(),
    Routing(seeds=2, hidden=16, few=(3,)),
    minutes=(0.3, 2.0),
)
