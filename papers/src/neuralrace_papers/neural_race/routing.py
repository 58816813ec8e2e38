"""Seven input and seven output domains talk through shared hidden layers; gates open one of the 49 routes at
a time, and 28 of them are trained. The hidden layer lies on every route and so learns fastest. The reduction
to two strengths per mode predicts when each mode is learned from the initial weights alone; and because all
domains come to share one representation, the network also answers on routes that it has never seen."""

from __future__ import annotations

from itertools import product

import numpy as np
import xarray as xr

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework.claim import check, kebab, paper
from neuralrace_papers.framework.declaration import Data, claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option, require
from neuralrace_papers.neural_race import domains_data, routing_times
from neuralrace_papers.neural_race.block_matrix import block_matrix
from neuralrace_papers.neural_race.domains_data import FEATURES, ITEMS, TARGETS, eq15, layers
from neuralrace_papers.neural_race.routing_times import FIG, START

LAYERS = ("input", "hidden", "output")
UNTRAINED = "error on untrained routes, end / start"
CHANGES = (
    "hidden layer weight singular values change by a factor of sqrt(M) more than the input or output weights"
)
LARGER = (
    "The singular values of the hidden weight matrix (blue) are larger than those in input or output "
    "matrices by a factor sqrt(M)."
)
GENERALISES = "The network generalizes perfectly to input-output routes that were never seen during training."
SHARED = (
    "Inputs from different domains are mapped to similar internal representations, revealing a shared "
    "representation even for input domains that are never trained with a common output."
)
SUBSET = "training on a subset of M^2 tasks is enough to obtain strong generalization to all M^2 tasks."


class Routing(Parameters):
    domains: int = option(7, "input domains, and as many output domains", least=6)
    trained: int = option(4, "output domains with which each input domain is trained")
    few: tuple[int, ...] = option(
        (3, 2), "smaller numbers, with which some pairs of domains have no common output"
    )
    hidden: int = option(64, "units of each hidden layer", least=ITEMS + 1)
    scale: float = option(0.2, "singular values of initial orthogonal weights, or gain of Xavier weights")
    small: float = option(0.02, "singular values of a smaller start")
    divisor: float = option(2.5, "by which the authors' code divides the scale before it enters Eq. 15")
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
def statistics(p: Routing):
    """Path statistics of samples in which all other domains show noise, against Eq. 11-12."""
    pairs = p.pairs(p.trained)
    task = domains_data.noisy_samples(pairs)
    paths = {(i, j): [f"x{i}->h1", "h1->h2", f"h2->y{j}"] for i, j in np.ndindex(pairs.shape)}
    syx, sxx = TARGETS.T / (ITEMS * pairs.sum()), np.eye(ITEMS) / (ITEMS * pairs.sum())
    off = [np.abs(task.syx(path) - pairs[route] * syx).max() for route, path in paths.items()]
    for (i, j), k in product(paths, range(p.domains)):
        expected = pairs[i, j] * (i == k) * sxx
        off.append(np.abs(task.sxx(paths[k, j], paths[i, j]) - expected).max())
    return {"off": max(off) / np.abs(syx).max()}


@part
def decoupled(p: Routing):
    """Decoupled networks: with the strengths that the theory reads from random weights, and all equal."""
    task, t1 = domains_data.task(p.domains, p.pairs(p.trained), p.hidden), p.t1(p.scale)
    r, fine = nr.reduce(task), nr.Adaptive(1e-11, 1e-12)
    b0 = r.strengths(nr.init.orthogonal(task.graph, p.scale, seed=range(p.seeds)))
    run = nr.flow(task, r.lift(b0), t1, p.save, method=fine)
    outer, hidden, _ = layers(r.family.project(run.weights), p.domains)
    invariant = (outer**2).sum(axis=2) - hidden[:, :, 0] ** 2
    equal = nr.flow(task, nr.init.decoupled(r, p.scale / p.divisor), t1, p.save, method=fine)
    b1, b2 = (equal.singular_values(e)[:, :ITEMS] for e in ("x0->h1", "h1->h2"))
    small = r.solve(p.small, p.t1(p.small), p.save)
    return {
        "t": ("t", run.t),
        "loss": ("run t", run.loss),
        "theory": ("run t", r.solve(b0=b0, t1=t1, save=run.t, method=fine).loss),
        "equal": ("t", equal.loss),
        "eq15": ("t", eq15(p.domains, run.t, p.scale / p.divisor)[0]),
        "residual": r.residual,
        "as_printed": routing_times.as_printed(p, r),
        "invariant": ("run t mode", invariant),
        "equal_invariant": ("t mode", p.domains * b1**2 - b2**2),
        "ratio": ("mode", small.strengths[-1, :, 1] / small.strengths[-1, :, 0]),
    }


@part(each=lambda p: ("descent", "xavier", "flow", "small", *p.few))
def random(p: Routing, case: str | int):
    """Random starts: descent as published, from orthogonal weights (the authors' code) and from Xavier
    weights (the text); flow, flow from a small start, and so with few pairs, from orthogonal ones.

    For the published pairs with the theory from the same weights, and Eq. 15 from their size.
    """
    trained = p.trained if isinstance(case, str) else case
    scale = p.small if case == "small" or trained != p.trained else p.scale
    pairs, t1 = p.pairs(trained), p.t1(scale)
    task, untrained = (domains_data.task(p.domains, chosen, p.hidden) for chosen in (pairs, ~pairs))
    draw = nr.init.xavier if case == "xavier" else nr.init.orthogonal
    start = draw(task.graph, scale, seed=range(p.seeds))
    if case in ("descent", "xavier"):
        run = nr.descend(task, start, p.epoch, p.epochs, p.save)
    else:
        run = nr.flow(task, start, t1, p.save)
    end = {e: w[:, -1] for e, w in run.weights.items()}
    invariants = nr.conserved(task, {e: w[:, :: p.save // 10] for e, w in run.weights.items()}).values()
    values = [np.linalg.svd(w, compute_uv=False)[..., : ITEMS + 1] for w in layers(run.weights, p.domains)]
    hidden, outputs = domains_data.answers(task, end)
    networks = {
        "t": ("t", run.t),
        "loss": ("run t", run.loss),
        "times": ("level run", routing_times.times(p, run)),
        "singular_values": ("layer run t mode", [v[..., :ITEMS].mean(axis=2) for v in values]),
        "final_hidden": ("run value", values[1][:, -1, 0]),
        "drift": max(np.abs(v - v[:, :1]).max() / np.abs(v[:, 0]).max() for v in invariants),
        "untrained": ("run", nr.loss(untrained, end) / nr.loss(untrained, start)),
        "gram": ("run sample other", nr.measure.gram(hidden)),
        "outputs": ("run sample feature", outputs),
    }
    if trained != p.trained:
        return networks
    r = nr.reduce(task)
    theory = r.solve(b0=r.strengths(start), t1=t1, save=run.t, method=nr.Adaptive(1e-7, 1e-9))
    strengths = [-np.sort(-np.abs(b), axis=-1).mean(axis=2) for b in layers(theory.b, p.domains)]
    return {
        **networks,
        **(routing_times.by_eq15(p, start, scale, run.t) if case in ("descent", "xavier") else {}),
        "theory": ("run t", theory.loss),
        "theory_times": ("level run", routing_times.times(p, theory)),
        "strengths": ("layer run t mode", strengths),
    }


@figure("routing-loss")
def losses(p: Routing, data: Data):
    fig, axes = plot.figure(1, 2, height=3.0, sharey=True)
    titles = {"descent": f"orthogonal weights x {p.scale:g}", "xavier": f"Xavier weights x {p.scale:g}"}
    for ax, (case, title) in zip(axes, titles.items(), strict=True):
        run = data.random[case]
        epochs = run.t / p.epoch
        plot.runs(ax, epochs, p.published * run.loss, plot.RED, "networks")
        own = p.published * run.theory.median("run")
        plot.theory(ax, epochs, own, label="reduction, own weights")
        by_size, by_code = p.published * run.eq15
        plot.theory(ax, epochs, by_size, plot.BLUE, "Eq. 15, size of the weights", ls="--")
        plot.theory(ax, epochs, by_code, plot.BLUE, f"Eq. 15, {p.scale:g} / {p.divisor:g}")
        if case == "descent":
            some, middle = slice(None, None, 15), p.published * data.decoupled.loss.median("run")
            equal = p.published * data.decoupled.equal
            ax.plot(epochs[some], middle[some], "o", color=plot.GREEN, label="decoupled, as the reduction")
            ax.plot(epochs[some], equal[some], "s", color=plot.ORANGE, label="decoupled, as Eq. 15")
        plot.label(ax, "epochs", title=title, legend="upper right", ylim=(0, 270))
    axes[0].set_ylabel("loss, published scale")
    return fig, (
        f"Loss of {p.seeds} networks (median and range) trained as published, M = {p.domains}, "
        f"K = {p.trained}, and what predicts it: the reduction from their own weights (median); Eq. 15 from "
        f"the size of the weights in all modes, and from {p.scale:g} / {p.divisor:g}, as the authors' code "
        "has it. Left: orthogonal weights, as in that code, and networks that start decoupled. Right: Xavier "
        "weights, as in the text."
    )


@figure("routing-dynamics")
def dynamics(p: Routing, data: Data):
    fig, axes = plot.figure(1, 3, height=2.7)
    run, some = data.random["descent"], slice(None, None, 15)
    epochs = run.t / p.epoch
    for k, ax in enumerate(axes):
        for mode in range(ITEMS):
            eq15 = f"Eq. 15, {p.scale:g} / {p.divisor:g}"
            plot.points(ax, epochs[some], run.singular_values[k, :, some, mode], plot.RED, "networks", ms=3)
            plot.theory(ax, epochs, run.strengths[k, ..., mode].mean("run"), label="reduction, own weights")
            plot.theory(ax, epochs, run.eq15_strengths[1, k, :, mode], plot.BLUE, eq15, ls="--")
        ax.set(xlabel="epochs", title=f"{LAYERS[k]} layer", ylim=(0, None))
    axes[0].set_ylabel("singular values")
    plot.legend_below(fig, axes[0], 3)
    return fig, (
        f"Singular values of each layer, one line for each of the {ITEMS} modes (the two weakest are equal "
        f"in Eq. 15), orthogonal weights. Points: mean and standard deviation over {p.seeds} starts. Before "
        "a mode is learned the theory follows only the part of the weights that grows, while all singular "
        f"values of a random start are {p.scale:g}."
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
        f"products of the activity of the first hidden layer, {ITEMS} items on each input domain; outputs on "
        f"all routes, {ITEMS} items by {FEATURES} features each (trained routes are framed). One random "
        "start, at the end of training."
    )


@claims
def exact(p: Routing, data: Data):
    d, root = data.decoupled, p.domains**0.5
    written = "Sigma^yx(p) = USV^T / KM; Sigma^x(j, p) = VDV^T / KM if j = p, 0 otherwise"
    name = "path statistics of samples with noise on all other domains, largest difference, relative"
    samples = paper("neural_race Eq. 11-12, 39-43", written)
    yield samples.below("path-statistics", name, 1e-12, data.statistics.off, bound="exact: rounding")
    yield check("neural_race Eq. 10").below("residual", "residual of the reduction", 1e-8, d.residual)
    written = "tau dB1/dt = 1/M B2 B1 [S - B2 B1^2 D], tau dB2/dt = B1^2 [S - B2 B1^2 D]"
    yield paper("neural_race Eq. 13-14", written).relation(
        "equations", "equations of the reduction", "as printed", d.as_printed, d.as_printed,
        bound="exact: symbolic comparison",
    )  # fmt: skip
    solver = "exact: tolerance of the solver"
    name = "largest difference of the loss, reduction and decoupled starts with strengths of random weights"
    yield check(f"{FIG}e").below("loss-decoupled", name, 1e-6, np.abs(d.loss - d.theory).max("t"))
    quote = "The theory matches the decoupled simulations exactly"
    name = "largest difference of the loss, Eq. 15 and a decoupled start with equal strengths"
    gap = np.abs(d.equal - d.eq15).max("t")
    yield paper(f"{FIG}e, Eq. 15", quote).below("loss-decoupled-eq-15", name, 1e-6, gap, bound=solver)
    conserved = paper("neural_race Eq. 15", "the quantity M B1^2 - B2^2 is conserved under the dynamics")
    for key, name, values in (
        ("conserved-strengths", "sum over inputs of B1^2, less B2^2, unequal strengths", "invariant"),
        ("conserved-strengths-equal", "M B1^2 - B2^2, equal strengths", "equal_invariant"),
    ):
        first = d[values].isel(t=0, drop=True)
        drift = np.abs(d[values] - first).max(["t", "mode"]) / np.abs(first).max("mode")
        yield conserved.below(key, f"relative change of {name}", 1e-6, drift, bound=solver)
    name = "sum_out W^T W - sum_in W W^T at both hidden nodes: relative change, random starts"
    whole = check("neural_race Eq. 15, for whole matrices")
    yield whole.below("conserved-weights", name, 1e-6, data.random["flow"].drift)
    name = "B2 / B1 at the end, theory from small strengths"
    quote = "the shared portion of the pathway changes more by a factor sqrt(M)"
    changes = paper("neural_race Eq. 51", quote)
    yield changes.near("strength-ratio", name, root, d.ratio, 0.01 * root, bound="stated standard: 1%")


def change_ratio(run: xr.Dataset, mode: int, outer: list[int]) -> np.ndarray:
    """Change of a singular value in the hidden layer over that in outer ones, their mean, `(run,)`."""
    values = run.singular_values[..., mode].values  # (layer, run, t)
    change = values[..., -1] - values[..., 0]
    return change[1] / change[outer].mean(axis=0)


@claims
def layer_ratios(p: Routing, data: Data):
    """Changes of singular values, hidden over outer layers; for weaker modes the mean of both outer ones."""
    stated, root = paper("neural_race Eq. 51, Fig. 4f", CHANGES), p.domains**0.5
    solved = data.random["descent"].eq15_strengths[0]  # (layer, t, mode), from the size of the weights
    theory = (solved[1, -1] - solved[1, 0]) / (solved[0, -1] - solved[0, 0])
    outer = [("input", "input", 0, [0]), ("output", "output", 0, [2])]
    outer += [(f"mode-{k + 1}", "mean of input and output", k, [0, 2]) for k in range(1, ITEMS)]
    for (case, share), (key, words, mode, chosen) in product((("descent", 0.1), ("small", 0.02)), outer):
        limit = f"sqrt(M) is the limit of small starts; Eq. 15 has {float(theory[mode]):.2f} here."
        name = f"change of singular value {mode + 1}, hidden / {words}, {START[case]}"
        key = f"layer-ratio-{key}-{kebab(START[case])}"
        note = limit if case == "descent" else ""
        ratio = change_ratio(data.random[case], mode, chosen)
        yield stated.near(key, name, root, ratio, share * root, note, f"stated standard: {share:.0%}")


@claims
def value_ratios(p: Routing, data: Data):
    """Singular values at the end, published start."""
    end, root = data.random["descent"].singular_values[:, :, -1].values, p.domains**0.5  # (layer, run, mode)
    for mode in range(ITEMS):
        name = f"singular value {mode + 1} at the end, hidden / mean of input and output"
        ratio = end[1, :, mode] / end[[0, 2], :, mode].mean(axis=0)
        key, bound = f"value-ratio-mode-{mode + 1}", "stated standard: 10%"
        yield paper(f"{FIG}f", LARGER).near(key, name, root, ratio, 0.1 * root, bound=bound)


@claims
def eq_15(p: Routing, data: Data):
    """When networks learn, by Eq. 15 and by the reduction."""
    yield from routing_times.learning_times(p, data)
    yield from routing_times.singular_values(p, data)


@claims
def generalisation(p: Routing, data: Data):
    shared, perfect = paper(f"{FIG}g", SHARED), paper(f"{FIG}h", GENERALISES)
    for case, error, tolerance in (("descent", 1e-3, 0.1), ("xavier", 1e-3, 0.1), ("small", 1e-8, 0.002)):
        run, start, key = data.random[case], START[case], kebab(START[case])
        name, bound = f"{UNTRAINED}, {start}", f"stated standard: {error:g} of the first loss"
        yield perfect.below(f"untrained-{key}", name, error, run.untrained, bound=bound)
        name, near = f"cosine of an item on two domains, {start}", f"stated standard: {tolerance:g} below 1"
        same = domains_data.same_item(run.gram, p.domains)
        yield shared.near(f"shared-items-{key}", name, 1, same, tolerance, bound=near)
        name = f"inner products of items on two domains, off their mean over domains, {start}"
        share = domains_data.unshared(run.gram, p.domains)
        bound = f"stated standard: {tolerance / 2:g} of all inner products"
        yield shared.below(f"shared-products-{key}", name, tolerance / 2, share, bound=bound)


@claims
def few_pairs(p: Routing, data: Data):
    """So few trained pairs that some domains have no output in common; from a small start."""
    quote = "the shared portion of the pathway changes more by a factor sqrt(M) (and this ratio does not"
    factor, root = paper("neural_race C", f"{quote} depend on K)."), p.domains**0.5
    for trained in p.few:
        run, pairs = data.random[trained], p.pairs(trained).astype(int)
        more = int((run.final_hidden[:, ITEMS] > run.final_hidden[:, ITEMS - 1] / 2).sum())
        ring = (
            f"In {more} of {p.seeds} networks the hidden layer ends with more than {ITEMS} modes: domains "
            "overlap in a ring, and distant parts of it learn a mode in hidden directions of their own."
        )
        note = ring if more else ""
        start = f"{trained} trained, small start"
        name = f"change of singular value 1, hidden / mean of input and output, {start}"
        ratio, bound = change_ratio(run, 0, [0, 2]), "stated standard: 2%"
        yield factor.near(f"layer-ratio-{trained}-trained", name, root, ratio, 0.02 * root, note, bound)
        name = f"cosine of an item on domains without common output, {start}"
        key, bound = f"shared-without-common-output-{trained}", "stated standard: 1% below 1"
        apart = domains_data.same_item(run.gram, p.domains, pairs @ pairs.T == 0)
        yield paper(f"{FIG}g, 4.1", SHARED).near(key, name, 1, apart, 0.01, note, bound)
        name = f"{UNTRAINED}, {start}"
        key, bound = f"untrained-{trained}-trained", "stated standard: 1e-6 of the first loss"
        yield paper("neural_race 4.1", SUBSET).below(key, name, 1e-6, run.untrained, note, bound)


EXPERIMENT = Experiment(
    "routing",
    "Routing: a shared pathway learns fastest and serves routes never trained",
    "neural_race Fig. 4, 4.1, C",
    Routing(),
    Routing(seeds=2, hidden=16, few=(3,)),
    minutes=(0.3, 3.0),
)
