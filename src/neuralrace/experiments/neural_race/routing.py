"""Seven input and seven output domains talk through shared hidden layers; gates open one of the 49 routes at
a time, and 28 of them are trained. The hidden layer lies on every route and so learns fastest. The reduction
to two strengths per mode predicts when each mode is learned from the initial weights alone; and because all
domains come to share one representation, the network also answers on routes that it has never seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import neuralrace as nr
from neuralrace import plot
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
)

TARGETS = np.array(
    [[6, 4, 0, 3, 0, 0, 0], [6, 4, 0, 0, 3, 0, 0], [6, 0, 4, 0, 0, 3, 0], [6, 0, 4, 0, 0, 0, 3]], float
)
ITEMS, FEATURES = TARGETS.shape
LEVELS = (150, 40, 9, 1)  # of the published loss, which starts at 244: as the modes are learned
LAYERS = ("input", "hidden", "output")
RACE, FIG = "neural_race", "neural_race Fig. 4"
UNTRAINED = "error on untrained routes, end / start"


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
        if max(self.trained, 2 * max(self.few)) >= self.domains:
            raise InputError(f"trained and twice few must be below domains = {self.domains}")

    @property
    def published(self) -> float:
        """Published loss over the library's: a sum over trained pairs of the mean over items and features of
        the squared error, against a mean over pairs and items of half the sum over features."""
        return 2 * self.trained * self.domains / FEATURES

    @property
    def epoch(self) -> float:
        """Flow time of a published epoch: one step with `rate` on the published loss."""
        return self.rate * self.published

    @property
    def t1(self) -> float:
        return self.epochs * self.epoch

    def pairs(self, trained: int) -> np.ndarray:
        return nr.tasks.circulant(self.domains, trained, shift=-1)

    def task(self, pairs: np.ndarray) -> nr.Task:
        items = {"inputs": np.eye(ITEMS), "targets": TARGETS}
        return nr.tasks.routing(self.domains, pairs, ITEMS, (self.hidden, self.hidden), **items)


def compute(p: Routing, parts: Parts) -> Results:
    longer = p.t1 * p.scale / p.small  # three layers: the time to learn goes with 1 / weights
    return {
        "decoupled": parts("decoupled", decoupled, p),
        "descent": parts("descent", train, p, p.trained, p.scale, p.t1, True),
        "flow": parts("flow", train, p, p.trained, p.scale, p.t1),
        "small": parts("small", train, p, p.trained, p.small, longer),
        **{f"few {k}": parts(f"few{k}", train, p, k, p.small, longer) for k in p.few},
    }


def decoupled(p: Routing) -> dict[str, Any]:
    """Decoupled networks with the strengths that the theory reads from random weights."""
    task = p.task(p.pairs(p.trained))
    r = nr.reduce(task)
    b0 = r.strengths(nr.init.orthogonal(task.graph, p.scale, seed=range(p.seeds)))
    fine = nr.Adaptive(1e-11, 1e-12)
    run = nr.flow(task, r.lift(b0), p.t1, p.epochs // 2 + 1, method=fine)
    outer, hidden, _ = layers(r.family.project(run.weights), p)
    equal, small = r.solve(p.scale, p.t1, run.t), r.solve(p.small, p.t1 * p.scale / p.small, len(run.t))
    return {
        "t": run.t,
        "loss": run.loss,
        "theory": r.solve(b0=b0, t1=p.t1, save=run.t, method=fine).loss,
        "residual": r.residual,
        "printed": as_printed(p, r),
        "kept": (outer**2).sum(axis=2) - hidden[:, :, 0] ** 2,  # M B1^2 - B2^2, with a B1 for each domain
        "equal_times": times(p, equal),
        "own": np.divide(*(equal.strengths[-1, 0, ::-1] - p.scale)),  # ratio of changes, leading mode
        "ratio": small.strengths[-1, :, 1] / small.strengths[-1, :, 0],
    }


def as_printed(p: Routing, r: nr.Reduction) -> bool:
    """Whether the equations of the reduction are neural_race Eq. 13-14."""
    b1, b2, s, d = sp.symbols("B1 B2 S D")
    printed = [b2 * b1 * (s - b2 * b1**2 * d) / p.domains, b1**2 * (s - b2 * b1**2 * d)]
    found = [e.rhs for e in r.equations()]
    return len(found) == 2 and all(sp.simplify(a - b) == 0 for a, b in zip(found, printed, strict=True))


def train(p: Routing, trained: int, scale: float, t1: float, descent: bool = False) -> dict[str, Any]:
    """Random orthogonal starts; beside the theory from the same weights, for the published pairs."""
    pairs, save = p.pairs(trained), p.epochs // 2 + 1
    task, untrained = p.task(pairs), p.task(~pairs)
    start = nr.init.orthogonal(task.graph, scale, seed=range(p.seeds))
    run = nr.descend(task, start, p.epoch, p.epochs, save) if descent else nr.flow(task, start, t1, save)
    end = {e: w[:, -1] for e, w in run.weights.items()}
    kept = nr.conserved(task, {e: w[:, :: save // 10] for e, w in run.weights.items()})
    values = [np.linalg.svd(w, compute_uv=False)[..., : ITEMS + 1] for w in layers(run.weights, p)]
    every = each_item(p.domains)
    shown = nr.activity(task, end, "h1", every)
    answers = [nr.activity(task, end, y, every) for y in task.graph.outputs]
    found = {
        "t": run.t,
        "loss": run.loss,
        "times": times(p, run),
        "values": [v[..., :ITEMS].mean(axis=2) for v in values],
        "hidden": values[1][:, -1, 0],
        "conserved": max(np.abs(v - v[:, :1]).max() / np.abs(v[:, 0]).max() for v in kept.values()),
        "untrained": nr.loss(untrained, end) / nr.loss(untrained, start),
        "gram": shown @ np.swapaxes(shown, -1, -2),
        "answers": np.concatenate(answers, axis=-1),
    }
    if trained == p.trained:
        theory = nr.reduce(task).solve(weights=start, t1=t1, save=run.t)
        found["theory"], found["theory_times"] = theory.loss, times(p, theory)
        found["theory_values"] = [-np.sort(-np.abs(b), axis=-1).mean(axis=2) for b in layers(theory.b, p)]
    return found


def each_item(domains: int) -> dict[str, np.ndarray]:
    """Inputs that show each item on each domain in turn, all outputs open."""
    return {f"x{i}": np.kron(np.eye(domains)[:, i : i + 1], np.eye(ITEMS)) for i in range(domains)}


def layers(values: Mapping[str, np.ndarray], p: Routing) -> list[np.ndarray]:
    """What the edges of each layer hold; domains are the axis after seeds and times."""
    domains = range(p.domains)
    names = [[f"x{i}->h1" for i in domains], ["h1->h2"], [f"h2->y{i}" for i in domains]]
    return [np.stack([values[n] for n in layer], axis=2) for layer in names]


def times(p: Routing, run: Any) -> np.ndarray:
    """Times to reach the levels of the published loss, `(levels, ...)`."""
    return np.stack([nr.learning_time(run, level / p.published) for level in LEVELS])


def deviation(found: Results, k: int) -> np.ndarray:
    """By how much the theory is late at level k, relative."""
    return found["theory_times"][k] / found["times"][k] - 1


def ratio(found: Results, layer: str) -> np.ndarray:
    """Change of the leading singular value in the hidden layer, relative to another layer."""
    change = found["values"][:, :, -1, 0] - found["values"][:, :, 0, 0]
    return change[1] / change[LAYERS.index(layer)]


def shared(p: Routing, found: Results) -> tuple[np.ndarray, np.ndarray]:
    """Cosine of the same item on two domains, `(seeds, items, domains, domains)`; and how far the inner
    products of items on two domains lie from their mean over all pairs of domains, relative, `(seeds,)`."""
    gram = found["gram"].reshape(p.seeds, p.domains, ITEMS, p.domains, ITEMS)
    same = np.einsum("siaja->saij", gram)
    size = np.sqrt(np.einsum("saii->sai", same))
    off = gram - gram.mean(axis=(1, 3), keepdims=True)
    norm = lambda v: np.sqrt((v**2).sum(axis=(1, 2, 3, 4)))  # noqa: E731
    return same / (size[..., :, None] * size[..., None, :]), norm(off) / norm(gram)


def figures(p: Routing, r: Results) -> dict[str, tuple[Figure, str]]:
    return {"routing-dynamics": dynamics(p, r), "routing-answers": answers(p, r)}


def dynamics(p: Routing, r: Results) -> tuple[Figure, str]:
    fig, (left, *rest) = plot.figure(1, 4, height=2.1)
    run, few = r["descent"], slice(None, None, 15)
    epochs = run["t"] / p.epoch
    plot.runs(left, epochs, p.published * run["loss"], plot.RED, "random")
    middle = np.median(p.published * r["decoupled"]["loss"], axis=0)
    plot.points(left, epochs[few], middle[few], plot.GREEN, "decoupled")
    plot.theory(left, epochs, p.published * np.median(run["theory"], axis=0), label="theory")
    left.set(xlabel="epochs", ylabel="loss", title="loss")
    left.legend(loc="upper right", borderaxespad=0)
    for k, ax in enumerate(rest):
        for mode in range(ITEMS):
            plot.points(ax, epochs[few], run["values"][k, :, few, mode], plot.RED, ms=3)
            plot.theory(ax, epochs, run["theory_values"][k, :, :, mode].mean(axis=0))
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


def answers(p: Routing, r: Results) -> tuple[Figure, str]:
    fig, (c, d, g, h) = plot.figure(1, 4, height=2.1, width_ratios=[1, 1, 1.45, 2.1])
    pairs, run = p.pairs(p.trained), r["descent"]
    plot.matrix(c, TARGETS, "targets")
    c.set(xlabel="feature", ylabel="item")
    plot.matrix(d, pairs, "trained pairs", limit=2)
    similar = plot.matrix(g, run["gram"][0], "similarity of items")
    outputs = plot.matrix(h, run["answers"][0], "outputs on all routes")
    fig.colorbar(similar, ax=g, label="inner product")
    fig.colorbar(outputs, ax=h, label="output")
    number = np.arange(p.domains)
    for ax, x, y in ((d, 1, 1), (g, ITEMS, ITEMS), (h, FEATURES, ITEMS)):
        ax.set_xticks(number * x + (x - 1) / 2, number + 1)
        ax.set_yticks(number * y + (y - 1) / 2, number + 1)
        ax.set(xlabel="input domain" if ax is g else "output domain", ylabel="input domain")
        ax.tick_params(length=0)
    for i, j in np.argwhere(pairs):
        corner = (j * FEATURES - 0.1, i * ITEMS - 0.25)
        h.add_patch(Rectangle(corner, FEATURES - 0.8, ITEMS - 0.5, fill=False, lw=0.9, ec=plot.GREEN))
    caption = (
        f"From left to right: features of the {ITEMS} items; which pairs of domains are trained; inner "
        f"products of the activity of the first hidden layer, {ITEMS} items on each input domain; outputs on "
        f"all routes, {ITEMS} items by {FEATURES} features each (trained routes are framed). One random "
        "start, at the end of training."
    )
    return fig, caption


def claims(p: Routing, r: Results) -> list[Claim]:
    return [
        *exact_claims(p, r["decoupled"], r["flow"]),
        *start_claims(p, r, "descent", (0.1, 1e-3, 0.1)),
        *start_claims(p, r, "small", (0.02, 1e-8, 0.002)),
        *(claim for k in p.few for claim in few_claims(p, r[f"few {k}"], k)),
    ]


def exact_claims(p: Routing, d: Results, flow: Results) -> list[Claim]:
    spectrum, printed, kept = np.linalg.svd(TARGETS)[1], bool(d["printed"]), d["kept"]
    data = np.abs(spectrum - np.sqrt([185, 41, 9, 9])).max()
    gap = np.abs(d["loss"] - d["theory"]).max(axis=1)
    change = np.abs(kept - kept[:, :1]).max(axis=(1, 2)) / np.abs(kept[:, 0]).max(axis=1)
    end, law = "B2 / B1 at the end, theory from small strengths", "At both hidden nodes, random starts."
    root = p.domains**0.5
    return [
        check.below(
            "target-spectrum", "singular values of the targets - roots of 185, 41, 9, 9", f"{FIG}c", 1e-12,
            data,
        ),
        check.below("residual", "residual of the reduction", f"{RACE} Eq. 10", 1e-8, d["residual"]),
        paper.relation(
            "equations", "equations of the reduction", f"{RACE} Eq. 13-14", "as printed", printed, printed
        ),
        check.below(
            "loss-decoupled", "largest difference of the loss, theory and decoupled starts", f"{FIG}e", 1e-6,
            gap,
        ),
        paper.below(
            "conserved-strengths", "M B1^2 - B2^2, relative change, decoupled starts", f"{RACE} Eq. 15", 1e-6,
            change,
        ),
        check.below(
            "conserved-weights", "W^T W - W W^T, relative change", f"{RACE} Eq. 4", 1e-6, flow["conserved"],
            law,
        ),
        paper.near("strength-ratio", end, f"{RACE} Eq. 51", root, d["ratio"], 0.01 * root),
    ]  # fmt: skip


def start_claims(p: Routing, r: Results, name: str, bounds: tuple[float, float, float]) -> list[Claim]:
    """Networks from random weights: `bounds` on relative ratios, on the error, and on cosines."""
    d, run, root, published = r["decoupled"], r[name], p.domains**0.5, name == "descent"
    start = "published start" if published else "small start"
    key, told = start.replace(" ", "-"), paper if published else finding
    limit = f"The limit of small starts; from strengths of {p.scale:g} the theory's ratio is {d['own']:.2f}."
    scale = "Does not shrink with the weights: three layers align on the time scale on which they grow."
    change, time = "change of leading singular value, hidden", "theory / random start - 1, time to loss"
    found = []
    for layer in ("input", "output"):
        near = (root, ratio(run, layer), bounds[0] * root, limit if published else "")
        name = f"{change} / {layer}, {start}"
        found.append(paper.near(f"layer-ratio-{layer}-{key}", name, f"{RACE} Eq. 51, Fig. 4f", *near))
    for k, level in enumerate(LEVELS):
        early = 1 - d["equal_times"][k] / run["times"][k].mean()
        flow = f"Against gradient flow {deviation(r['flow'], k).mean():+.1%}; strengths"
        note = f"{flow} of {p.scale:g} in all modes would be {early:.0%} early." if published else scale
        near = (0, deviation(run, k), 0.05, note)
        found.append(told.near(f"time-loss-{level}-{key}", f"{time} {level}, {start}", f"{FIG}e", *near))
    cosine, off = shared(p, run)
    same = cosine[..., *np.triu_indices(p.domains, 1)].mean(axis=(1, 2))
    mean = "inner products of items on two domains, off their mean over domains"
    return [
        *found,
        paper.below(f"untrained-{key}", f"{UNTRAINED}, {start}", f"{FIG}h", bounds[1], run["untrained"]),
        paper.near(
            f"shared-items-{key}", f"cosine of an item on two domains, {start}", f"{FIG}g", 1, same,
            bounds[2],
        ),
        paper.below(f"shared-products-{key}", f"{mean}, {start}", f"{FIG}g", bounds[2] / 2, off),
    ]  # fmt: skip


def few_claims(p: Routing, run: Results, trained: int) -> list[Claim]:
    """So few trained pairs that some domains have no output in common; from a small start."""
    pairs, size = p.pairs(trained).astype(int), run["hidden"]
    apart = shared(p, run)[0][..., pairs @ pairs.T == 0].mean(axis=(1, 2))
    more = int((size[:, ITEMS] > size[:, ITEMS - 1] / 2).sum())
    note = (
        f"In {more} of {p.seeds} networks the hidden layer ends with more than {ITEMS} modes: the domains "
        "overlap in a ring, and distant parts of it learn a mode in hidden directions of their own."
    )
    note = note if more else "With more than half of the outputs trained, any two domains have one in common."
    name = f"{trained} trained, small start"
    cosine, error = f"cosine of an item on domains without common output, {name}", f"{UNTRAINED}, {name}"
    return [
        paper.near(f"shared-without-common-output-{trained}", cosine, f"{FIG}g, 4.1", 1, apart, 0.01, note),
        paper.below(f"untrained-{trained}-trained", error, f"{RACE} 4.1", 1e-6, run["untrained"], note),
    ]


EXPERIMENT = Experiment(
    "routing",
    "Routing: a shared pathway learns fastest and serves routes never trained",
    "neural_race Fig. 4, 4.1, C",
    Routing(),
    Routing(seeds=2, hidden=16, few=(3,)),
    compute,
    figures,
    claims,
    (0.3, 2.0),
)
