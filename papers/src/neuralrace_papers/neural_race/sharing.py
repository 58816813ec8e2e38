"""What makes a pathway win the race. When groups of domains share hidden pathways, the more routes run
through one, the faster it learns, and the more its hidden layer changes. So with enough routes trained, the
solution that all routes share outruns the others and serves routes never trained. The other things that set
a pathway's speed are its data, its depth and its initial weights. Learning is gradient flow on the mean
loss, to convergence; the published rate, .05/K on the sum over trained pairs, is this flow on one clock for
all K."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.framework import Data, Experiment, along, figure, part, require, rows
from neuralrace_papers.neural_race import domains_data
from neuralrace_papers.neural_race.domains_data import ITEMS, SILENT_LOSS, D, S

LEFT = 0.1  # of the loss of a silent network, where learning times are read
LEVEL = LEFT * SILENT_LOSS
COLOURS = (plot.BLUE, plot.GREEN, plot.ORANGE, plot.RED)


@dataclass(frozen=True)
class Sharing:
    seeds: Annotated[int, "random starts of each network"] = 10
    domains: Annotated[int, "input domains, and as many output domains"] = 10
    hidden: Annotated[int, "units of each hidden layer"] = 64
    scale: Annotated[float, "singular values of the initial orthogonal weights"] = 0.2
    groups: Annotated[tuple[int, ...], "domains of a pathway, which group^2 = P routes share"] = (1, 2, 5, 10)
    t1: Annotated[float, "end of training for one domain per group; it falls as 1 / group"] = 1500.0
    trained: Annotated[tuple[int, ...], "outputs trained with each input, K"] = tuple(range(1, 11))
    pairs: Annotated[Literal["band", "spread"], "trained pairs: neighbours, or any distances"] = "band"
    long: Annotated[float, "end of training of the routing networks, flow time"] = 400.0
    stop: Annotated[float, "loss at which training stops, as a share of a silent network's"] = 1e-6
    values: Annotated[tuple[float, ...], "strengths s of the data, for chains"] = (0.5, 1.0, 2.0, 4.0, 8.0)
    depths: Annotated[tuple[int, ...], "depths of chains"] = (1, 2, 3, 4, 5, 6, 8)
    starts: Annotated[tuple[float, ...], "initial products of the weights of chains"] = (
        1e-8,
        1e-6,
        1e-4,
        1e-2,
    )
    product: Annotated[float, "initial product of weights where data or depth vary"] = 1e-3
    weight: Annotated[float, "initial weight of each layer where depth varies"] = 0.3
    imbalance: Annotated[float, "first initial layer over the second, for chains of two layers"] = 100.0

    def __post_init__(self) -> None:
        divide = not any(self.domains % g for g in self.groups)
        require(divide, f"groups must divide domains = {self.domains}, got {self.groups}")
        rising = list(self.trained) == sorted(set(self.trained)) and self.trained[-1] <= self.domains
        require(rising, f"trained must increase, to at most {self.domains}, got {self.trained}")

    @property
    def factors(self) -> dict[str, list[tuple[float, float, list[float]]]]:
        """Chains in which one factor varies: its value, the strength of the data, initial weights."""
        ratio = self.imbalance
        return {
            "data": [(s, s, [self.product**0.5] * 2) for s in self.values],
            "depth": [(n, 1.0, [self.product ** (1 / n)] * n) for n in self.depths],
            "weights": [(n, 1.0, [self.weight] * n) for n in self.depths],
            "start": [(a, 1.0, [a**0.5] * 2) for a in self.starts],
            "imbalance": [(a, 1.0, [(a * ratio) ** 0.5, (a / ratio) ** 0.5]) for a in self.starts],
        }


@part(each="groups", threads=2)
def shared(p: Sharing, group: int):
    """Groups of domains with a pathway of their own, on the clock of all M^2 routes.

    Pathways of different groups are never open together and share no weights: each is a routing network of
    its own, which sees (group / M)^2 of the samples and so runs that much slower. One stands for all.
    """
    clock, task = (p.domains / group) ** 2, domains_data.task(group, group, p.hidden)
    t = np.append(0, np.geomspace(1e-3, 1, 200) * p.t1 / group)

    def theory(t: np.ndarray, b0: Any) -> np.ndarray:
        both = [np.broadcast_to(b, ITEMS) for b in b0]  # equal shapes share a compilation
        return np.stack(nr.exact.sharing(t[:, None], S, D, p.domains, group**2, both))

    def time(b0: Any) -> Any:
        return nr.measure.crossing(t, lambda t: domains_data.loss(*theory(t, b0)), LEVEL)

    r, method, equal = nr.reduce(task), nr.Adaptive(1e-10, 1e-12), (p.scale, p.scale)
    aligned = nr.init.decoupled(r, p.scale)
    random = nr.init.orthogonal(task.graph, p.scale, seed=range(p.seeds))
    grown = r.strengths(random)
    outer = np.mean([b for e, b in grown.items() if e != "h1->h2"], axis=0)
    both = {e: np.concatenate([w[None], random[e]]) for e, w in aligned.items()}
    run = nr.flow(task, both, save=t / clock, method=method)
    until = nr.flow(task, aligned, t[-1] / clock, 2, method=method, stop_loss=LEVEL)
    values = np.stack([run.singular_values(e)[..., :ITEMS] for e in ("x0->h1", "h1->h2")])
    return {
        "t": ("time", t),
        "theory": ("layer time mode", theory(t, equal)),
        "theory_time": time(equal),
        "decoupled": ("layer time mode", values[:, 0]),
        "decoupled_time": clock * nr.measure.stopping_time(until),
        "random": ("layer run time mode", values[:, 1:]),
        "end": ("run", run.loss[1:, -1] / SILENT_LOSS),
        "random_time": ("run", clock * nr.learning_time(run[1:], LEVEL)),
        "grown_time": ("run", [time(b) for b in zip(outer, grown["h1->h2"], strict=True)]),
    }


@part(each="trained", threads=2)
def routes(p: Sharing, count: int):
    """Errors at the end with so many outputs trained per input, relative to a silent network."""
    pairs = nr.tasks.circulant(p.domains, count)
    if p.pairs == "spread":  # any set of distances between input and output, not the nearest ones
        shifts = np.random.default_rng(count).permutation(p.domains)[:count]
        i, j = np.indices(pairs.shape)
        pairs = np.isin((j - i) % p.domains, shifts)
    task, untrained = domains_data.task(p.domains, pairs, p.hidden), np.full(p.seeds, np.nan)
    start = nr.init.orthogonal(task.graph, p.scale, seed=range(p.seeds))
    method, stop = nr.Adaptive(1e-5, 1e-7), p.stop * SILENT_LOSS
    run = nr.flow(task, start, p.long, [0.0, p.long], method=method, stop_loss=stop)
    end = {e: w[:, -1] for e, w in run.weights.items()}
    if not pairs.all():
        untrained = nr.loss(domains_data.task(p.domains, ~pairs, p.hidden), end) / SILENT_LOSS
    return {"trained": ("run", run.loss[:, -1] / SILENT_LOSS), "untrained": ("run", untrained)}


@part(each=("data", "depth", "weights", "start", "imbalance"))
def factor(p: Sharing, name: str):
    """Time until half of a mode is learned by a chain with one input and one output: theory and networks."""
    chains = [{"x": x, **half_times(p, s, b, random=name == "start")} for x, s, b in p.factors[name]]
    return {key: ("x run" if key == "random" else "x", [c[key] for c in chains]) for key in chains[0]}


def half_times(p: Sharing, s: float, b: list[float], random: bool) -> dict[str, Any]:
    """Of the theory, of a network with strengths b in one hidden direction, and of networks with normal
    weights whose growing part `|W1 + W2^T|^2 / 4` (two layers) is the same product on average."""
    task = nr.Task(nr.Graph.chain([1, *[p.hidden] * (len(b) - 1), 1]), [[1.0]], [[s]])
    b0, level = {e: [v] for e, v in zip(task.graph.edges, b, strict=True)}, s**2 / 8
    r = nr.reduce(task, ties={e: v for e, (v,) in b0.items()})
    theory = nr.exact.chain_time(0.25, s, float(np.prod(b)), len(b))
    until = {"t1": 1.5 * theory, "save": 2, "stop_loss": level}
    network = nr.flow(task, r.lift(b0), method=nr.Adaptive(1e-10, 1e-12), **until)
    if len(set(b)) > 1:
        theory = nr.measure.stopping_time(r.solve(strengths=b0, **until))
    times = {"theory": theory, "network": nr.measure.stopping_time(network)}
    if random:
        std = float(2 * np.prod(b) / p.hidden) ** 0.5
        runs = nr.flow(task, nr.init.gaussian(task.graph, std, seed=range(p.seeds)), **until)
        times["random"] = nr.measure.stopping_time(runs)
    return times


@figure("sharing-dynamics")
def dynamics(p: Sharing, data: Data):
    fig, axes = plot.figure(1, 3, height=2.9)
    groups, counts, some = along(data.shared, "group"), np.array(p.groups) ** 2, slice(2, None, 9)
    for (group, run), colour in zip(data.shared.items(), COLOURS, strict=False):
        for ax, layer in zip(axes, (1, 0), strict=False):
            plot.runs(ax, run.t[1:], run.random[layer, :, 1:, 0], colour)
            plot.theory(ax, run.t[1:], run.theory[layer, 1:, 0], colour, f"P = {group**2}")
            ax.plot(run.t[some], run.decoupled[layer, some, 0], "o", color=colour, ms=2.5)
    plot.key(axes[0], {"Eq. 16-17": "theory", "decoupled start": "points", "random starts": "runs"})
    for ax, title in zip(axes, ("hidden layer B2", "outer layers B1"), strict=False):
        plot.label(ax, "time (τ = 1)", "singular value", title, xscale="log", ylim=(0, None))
    fine, ends = np.geomspace(1, counts[-1], 50), groups.random.isel(time=-1)
    plot.theory(axes[2], fine, fine**0.25, label="Eq. 56: P^(1/4)")
    plot.points(axes[2], counts, (ends[:, 1] / ends[:, 0]).mean("mode").T, plot.PINK, "random starts")
    plot.label(axes[2], "routes through a pathway, P", "B2 / B1", "ratio at the end", legend="best")
    plot.logarithmic(axes[2].xaxis)
    plot.legend_below(fig, axes[0], len(data.shared) + 3)
    return fig, (
        f"Left and middle: the singular value of the strongest mode, M = {p.domains} domains, for hidden "
        "pathways that P routes share. Random networks learn later than Eq. 16-17, because little of their "
        f"initial singular values of {p.scale:g} lies in directions that grow. Right: the ratio of layers "
        "after learning, mean over modes, with standard deviation over starts."
    )


@figure("sharing-routes")
def route_errors(p: Sharing, data: Data):
    fig, (left, right) = plot.figure(1, 2, height=2.9)
    share, errors = np.array(p.trained) / p.domains, along(data.routes, "count")
    for kind, colour, marker in (("trained", plot.BLUE, "o"), ("untrained", plot.RED, "s")):
        plot.points(left, share, errors[kind].T, colour, f"{kind} routes", fmt=f"{marker}-")
        right.plot(share, errors[kind].median("run"), color=colour, alpha=0.5, label=f"{kind}, median")
        right.plot(share, errors[kind], marker, color=colour, ms=2.5, label=f"{kind}, each start")
    for ax in (left, right):
        ax.axvline(0.4, color=plot.BLACK, lw=0.8, ls=":", label="published: about 40%")
    plot.label((left, right), "share of outputs trained per input, K/M", "loss / silent network")
    plot.label(left, legend="upper right")
    right.set(yscale="log")
    plot.legend_below(fig, right, 5)
    return fig, (
        f"Error at the end on trained and untrained routes, M = {p.domains}, initial singular values "
        f"{p.scale:g}. Left: mean and standard deviation over {p.seeds} starts, as in the published figure. "
        "Right: every start, and the median, on a logarithmic scale. A silent network has no output."
    )


@figure("sharing-factors")
def factors(p: Sharing, data: Data):
    fig, ((a, b), (c, d)) = plot.figure(2, 2, height=4.8)
    for ax, name, colour, marker, label in (
        (a, "data", plot.BLUE, "o", f"two layers, initial product {p.product:g}"),
        (b, "weights", plot.BLUE, "o", f"each initial weight {p.weight:g}"),
        (b, "depth", plot.RED, "s", f"initial product {p.product:g}"),
        (c, "start", plot.BLUE, "o", "two equal layers"),
        (c, "imbalance", plot.RED, "s", f"first layer {p.imbalance:g} x second"),
    ):
        chain = data.factor[name]
        plot.theory(ax, chain.x, chain.theory, colour)
        ax.plot(chain.x, chain.network, marker, color=colour, ms=4, label=label)
    start, groups, counts = data.factor["start"], along(data.shared, "group"), np.array(p.groups) ** 2
    plot.points(c, start.x, start.random.T, plot.GREEN, "random starts", fmt="d", mfc="white")
    plot.theory(d, counts, groups.theory_time, plot.BLUE)
    d.plot(counts, groups.decoupled_time, "o", color=plot.BLUE, ms=4, label="decoupled start")
    plot.theory(d, counts, groups.grown_time.mean("run"), plot.GREEN)
    plot.points(d, counts, groups.random_time.T, plot.GREEN, "random starts", fmt="d", mfc="white")
    a.set(xlabel="strength of the data, s", title="effective data")
    b.set(xlabel="depth (layers)", title="depth", xticks=p.depths)
    c.set(xscale="log", xlabel="initial product of weights, a0", title="initial weights", ylim=(0, None))
    d.set(xlabel="routes through a pathway, P", title="edge sharing")
    for axis in (a.xaxis, a.yaxis, b.yaxis, d.xaxis, d.yaxis):
        plot.logarithmic(axis)
    for ax in (a, b, c, d):
        plot.key(ax, {"theory (in each colour)": "theory"})
        plot.label(ax, y="learning time (τ = 1)", legend="best")
    return fig, (
        "What sets a pathway's learning speed: theory (lines) and networks (points). Data, depth and "
        f"initial weights: chains with {p.hidden} neurons per hidden layer, time until half of a mode is "
        f"learned (s = 1 except in the first panel). Edge sharing: time until {LEFT:.0%} of the loss is "
        "left; for random starts the theory begins with the part of the weights that grows. Random starts: "
        f"mean and standard deviation of {p.seeds}."
    )


@rows
def shared_pathways(p: Sharing, data: Data):
    groups = along(data.shared, "group")
    yield "strengths-decoupled", np.abs(np.sort(groups.theory) - np.sort(groups.decoupled)).max()
    yield "zero-training-error", groups.end.max("group")
    for start in ("decoupled", "random"):
        times = groups[f"{start}_time"].values
        yield f"more-sharing-faster-{start}", (times[1:] / times[:-1]).max()  # the slowest of all
    ratios = []
    for group, run in data.shared.items():
        yield f"time-random-p-{group**2}", run.grown_time / run.random_time - 1
        end = run.random.isel(time=-1)
        ratios.append((end[1] / end[0]).mean("mode"))
        yield f"layer-ratio-p-{group**2}", ratios[-1]
    counts = np.array(p.groups) ** 2
    yield "layer-ratio-exponent", np.polyfit(np.log(counts), np.log(ratios), 1)[0]  # for each start


@rows
def untrained_routes(p: Sharing, data: Data):
    errors = along(data.routes, "count")
    yield "trained-error", errors.trained.max()
    yield "untrained-few-routes", errors.untrained[0]
    for count in p.trained[1:3]:
        yield f"untrained-k-{count}", data.routes[count].untrained
    for level in (0.5, 0.1, 0.01):  # of a silent network's error
        key = f"routes-needed-{100 * level:.0f}-percent"
        each = nr.measure.last_crossing(p.trained, errors.untrained.T, level)
        yield f"{key}-each-start", each / p.domains
        yield f"{key}-all-starts", min((k for k in p.trained if k >= each.max()), default=np.nan) / p.domains


@rows
def learning_speed(p: Sharing, data: Data):
    strength, start = data.factor["data"], data.factor["start"]
    yield "stronger-data-faster", nr.measure.power_law_exponent(strength.x, strength.network)
    for key, name in (("weights", "equal-weights"), ("depth", "equal-product")):
        times = data.factor[key].network.values
        yield f"deeper-slower-{name}", (times[1:] / times[:-1]).min()  # the least of all steps
    yield "time-random-start", (start.random / start.theory).mean("x")
    yield "imbalanced-faster", (data.factor["imbalance"].network / start.network).max()


EXPERIMENT = Experiment(
    "sharing",
    "Sharing: pathways that more routes share win the race",
    "neural_race Fig. 5, 4.2, C",
    Sharing(),
    quick={
        "seeds": 2,
        "groups": (1, 10),
        "hidden": 32,
        "trained": (1, 2, 3, 4),
        "long": 100.0,
        "depths": (1, 2),
    },
    minutes=(0.2, 3.0),
)
