"""Parallel pathways from the same inputs to the same outputs share what they learn: in the singular basis
of the task, pathway a carries K_a, and all K_a add up to the singular values. From random weights nothing but
chance tells pathways apart. The deeper they are, the more of that chance is left in the end: modes
concentrate on one pathway; the wider, the less. What each carries is predicted from the initial weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import mannwhitneyu, spearmanr

import neuralrace as nr
from neuralrace import plot
from neuralrace.errors import InputError
from neuralrace.experiments.claim import Claim, check, finding, kebab, paper
from neuralrace.experiments.experiment import Experiment, Parameters, Results, option
from neuralrace.experiments.store import Parts
from neuralrace.lowrank.bases import initial_bases
from neuralrace.subspace import shrink
from neuralrace.tasks.structured import tree_features

PAPER = "multipathway"
Y = tree_features(4)  # Eq. 32
U, S, _vt = np.linalg.svd(Y.T, full_matrices=False)
V = _vt.T
GROUPS = {"mode 1": [0], "mode 2": [1], "modes 3-4": [2, 3], "modes 5-8": [4, 5, 6, 7]}  # of equal strength
COLOURS = dict(zip(GROUPS, (plot.BLUE, plot.ORANGE, plot.GREEN, plot.PINK), strict=True))
BENT = ("relu", "tanh")
PREDICTIONS = {"Eq. 17": plot.RED, "modes": plot.ORANGE, "signals": plot.BLUE}
METHOD = nr.Adaptive(rtol=1e-6)
WIDE = 64  # from here on small spaces save time
AT_ONCE = 12e7  # as many weights at a time, so that they fit


@dataclass(frozen=True)
class Pathways(Parameters):
    seeds: int = option(20, "random starts of each linear network")
    pathways: int = option(2, "parallel pathways", least=2)
    width: int = option(1000, "units of each hidden layer", least=8)
    std: float = option(0.01, "standard deviation of initial weights")
    lr: float = option(0.01, "published learning rate, on the squared error summed over samples")
    depths: tuple[int, ...] = option((2, 3, 4, 7), "depths of the pathways", least=2)
    epochs: tuple[int, ...] = option(
        (1000, 10_000, 10_000, 20_000), "published steps of training, one number for each of depths"
    )
    mixed: tuple[int, ...] = option(
        (3, 4, 5), "depths of the pathways of one network; a single number: no such network", least=2
    )
    method: str = option(
        "flow",
        "how linear networks are trained: gradient flow, or descent as published",
        choices=("flow", "descent"),
    )
    error: float = option(0.01, "error that is allowed to the flow of wide networks")
    widths: tuple[int, ...] = option(
        (100, 300, 1000, 3000), "widths that are compared, at depth width_depth", least=8
    )
    width_depth: int = option(3, "depth of the pathways where widths are compared", least=2)
    bent_width: int = option(100, "units of each hidden layer of networks with activations", least=8)
    bent_seeds: int = option(5, "random starts of each network with activations")

    def check(self) -> None:
        if len(self.depths) < 2 or list(self.depths) != sorted(set(self.depths)):
            raise InputError(f"depths must be two or more increasing numbers, got {self.depths}")
        if len(self.epochs) != len(self.depths):
            raise InputError(
                f"epochs must have one entry for each of depths {self.depths}, got {self.epochs}"
            )
        if len(self.widths) < 2 or list(self.widths) != sorted(set(self.widths)):
            raise InputError(f"widths must be two or more increasing numbers, got {self.widths}")
        for name in ("seeds", "bent_seeds"):
            if not 2 <= getattr(self, name) <= 1000:
                raise InputError(
                    f"{name} must be between 2 and 1000 to be compared, got {getattr(self, name)}"
                )

    @property
    def epoch(self) -> float:
        """Flow time of an epoch: the published loss is summed over samples and has no factor 1/2."""
        return 2 * len(Y) * self.lr

    def scaled(self, width: int) -> float:
        """The standard deviation that keeps that of a layer's output, `std sqrt(width)`."""
        return self.std * np.sqrt(self.width / width)


@dataclass(frozen=True)
class Contributions:
    """K_a `(pathways, 8, 8)` to record: `out` is the pathway's output for the unit vectors, `map` the same as
    if its units were linear. Equal ones share a compilation."""

    graph: nr.Graph

    def __call__(self, state: nr.State) -> dict[str, Any]:
        if self.graph.is_linear:
            return {"map": self.through(state.activity)}
        linear = nr.tasks.hierarchy(4, graph=nr.Graph(self.graph.nodes, self.graph.edges))
        plain = partial(nr.activity, linear, state.weights)
        return {"map": self.through(plain), "out": self.through(state.activity)}

    def through(self, activity: Callable[..., Any]) -> Any:
        """What each pathway says to the unit vectors, the others being closed."""
        doors = [self.graph.edges[path[0]][1] for path in self.graph.paths()]
        closed = [{other: 0.0 for other in doors if other != door} for door in doors]
        said = [activity("y", np.eye(len(V)), gates) for gates in closed]
        return jnp.stack([U.T @ jnp.swapaxes(y, -1, -2) @ V for y in said], -3)


def network(depths: Any, width: int, activation: str = "linear") -> nr.Task:
    graph = nr.Graph.pathways(len(Y), Y.shape[1], [[width] * (d - 1) for d in depths])
    bent = dict.fromkeys(graph.hidden, activation)
    return nr.tasks.hierarchy(4, graph=nr.Graph(graph.nodes, graph.edges, bent))


def draw(task: nr.Task, std: float, seeds: int, series: int) -> nr.init.Weights:
    """Weights from seeds of their own for every series, so that series can be compared as independent."""
    return nr.init.gaussian(task.graph, std, range(1000 * series, 1000 * series + seeds))


def times(t1: float) -> np.ndarray:
    return t1 * np.linspace(0, 1, 121) ** 3  # learning is early


def compute(p: Pathways, parts: Parts) -> Results:
    t1 = {d: n * p.epoch for d, n in zip(p.depths, p.epochs, strict=True)}
    last = max(t1.values())
    scan = [f"{n}-{kind}" for n in p.widths for kind in ("fixed", "scaled")]
    bent = [f"{f}-{d}" for f in BENT for d in p.depths]
    size = {"fixed": lambda _: p.std, "scaled": p.scaled}

    def width(item: str) -> dict[str, Any]:
        n, kind = int(item.split("-")[0]), item.split("-")[1]
        found = linear(network([p.width_depth] * p.pathways, n), size[kind](n), p.seeds, last, n, p)
        return {"final": found["K"][:, -1], "loss": found["loss"][:, -1]}

    def deep(d: int) -> dict[str, Any]:
        return linear(network([d] * p.pathways, p.width), p.std, p.seeds, t1[d], d, p, predicted=True)

    deeper = dict(zip(p.depths, parts.each("linear", deep, p.depths), strict=True))
    d, flow = p.depths[0], p.method == "flow"
    mixed = (network(p.mixed, p.width), p.std, 2, last, 0, p, True)
    return {
        "linear": deeper,
        **({"published": parts("published", published, p, d, t1[d], deeper[d]["K"][:, -1])} if flow else {}),
        "bent": dict(zip(bent, parts.each("bent", train, bent, p, t1), strict=True)),
        "stability": {d: parts(f"stability-{d}", stability, p, d, t1[d]) for d in p.depths[1:]},
        "width": dict(zip(scan, parts.each("width", width, scan), strict=True)),
        **({"mixed": parts("mixed", linear, *mixed)} if len(p.mixed) > 1 else {}),
    }


def linear(
    task: nr.Task, std: float, seeds: int, t1: float, series: int, p: Pathways, predicted: bool = False
) -> dict[str, Any]:
    """Linear networks: t, loss, K `(seeds, times, pathways, 8, 8)`, and predictions of K."""
    every, wide = draw(task, std, seeds, series), max(task.graph.nodes.values()) > WIDE
    few, found, ts = max(1, int(AT_ONCE // task.graph.n_weights)), [], times(t1)
    for k in range(0, seeds, few):
        w = {n: v[k : k + few] for n, v in every.items()}
        keep: dict[str, Any] = {"save_weights": False, "record": Contributions(task.graph)}
        if p.method == "flow":
            run = nr.flow(task, w, t1, ts, method=nr.LowRank(p.error) if wide else METHOD, **keep)
        else:
            run = nr.descend(task, w, p.epoch, round(t1 / p.epoch), ts, **keep)
            ts = run.t
        kept = {"K": run.recorded["map"], "loss": run.loss}
        found.append({**kept, "error": run.stats.get("error", np.zeros(len(run.loss)))})
        if predicted:
            found[-1].update(predict(task, w, std, ts))
    return {"t": ts, **{n: np.concatenate([f[n] for f in found]) for n in found[0]}}


def predict(task: nr.Task, w: dict[str, np.ndarray], std: float, ts: np.ndarray) -> dict[str, np.ndarray]:
    """K of modes 1-2 from the initial weights `(seeds, times, pathways, 2)`: by Eq. 17, at the end; by the
    neural race, a network with one neuron per layer and mode; by the flow of the weights between the signals
    that pass through the layers at the start, forwards and backwards. `rate` is that of `initial_growth`.
    """
    g, seeds = task.graph, len(next(iter(w.values())))
    found = [initial_bases(task, {n: v[k] for n, v in w.items()}) for k in range(seeds)]
    frames = {n: np.stack([f[n] for f in found]) for n in found[0]}
    small = task.on(g.resized({n: q.shape[-1] for n, q in frames.items()})) if frames else task
    b = shrink(g, w, frames)
    record = Contributions(small.graph)
    blocks = nr.flow(small, b, ts[-1], ts, save_weights=False, record=record, method=METHOD).recorded["map"]

    reduced = nr.reduce(small, "shared")
    solved = reduced.solve(t1=ts[-1], save=ts, weights=b, method=nr.Adaptive(1e-6, 1e-11))
    right = np.abs(reduced.family.right[g.paths()[0][0]].T @ V[:, :2]).argmax(axis=0)
    modes = np.stack([np.prod([np.asarray(solved.b[e]) for e in p], axis=0) for p in g.paths()], axis=-2)

    # Eq. 17 takes hidden layers for sigma times orthogonal, and of the last one what K(0) says.
    depths, sigma = [len(p) for p in g.paths()], std * np.sqrt(g.nodes[g.hidden[0]])
    start, rate = initial_growth(small, b, sigma)
    p0 = start / sigma ** np.array(depths)[:, None]
    eq17 = [[nr.exact.pathways(ts[-1:] / len(Y), S[m], depths, k[:, m], sigma).T for m in (0, 1)] for k in p0]
    return {
        "signals": _diagonal(blocks)[..., :2],
        "modes": modes[..., right],
        "Eq. 17": np.moveaxis(np.array(eq17), 1, -1),
        "rate": rate,
    }


def initial_growth(task: nr.Task, w: dict[str, np.ndarray], sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """K of modes 1-2 and its rate of growth over that of Eq. 17 with p = 0, each `(seeds, pathways, 2)`."""
    depths = np.array([len(p) for p in task.graph.paths()])
    slope, through = nr.gradient(task, w), Contributions(task.graph).through
    with jax.enable_x64(True):
        along = jax.jit(lambda w, v: jax.jvp(lambda w: through(partial(nr.activity, task, w)), (w,), (v,)))
        start, grow = along(w, {n: -v for n, v in slope.items()})
    start, grow = (_diagonal(np.asarray(v))[..., :2] for v in (start, grow))
    return start, grow * len(Y) / (sigma ** (2 * depths[:, None] - 2) * S[:2])


def train(item: str, p: Pathways, t1: dict[int, float]) -> dict[str, Any]:
    """Networks with an activation at every hidden layer, trained as published."""
    activation, depth = item.split("-")[0], int(item.split("-")[1])
    task = network([depth] * p.pathways, p.bent_width, activation)
    w = draw(task, p.scaled(p.bent_width), p.bent_seeds, depth)
    run = nr.descend(
        task, w, p.epoch, round(t1[depth] / p.epoch), times(t1[depth]), save_weights=False,
        record=Contributions(task.graph),
    )  # fmt: skip
    return {"t": run.t, "loss": run.loss, **run.recorded}


def published(p: Pathways, depth: int, t1: float, k: np.ndarray) -> dict[str, Any]:
    """The same networks by descent with the published rate: largest difference from the flow's final K."""
    task = network([depth] * p.pathways, p.width)
    run = nr.descend(
        task, draw(task, p.std, p.seeds, depth), p.epoch, round(t1 / p.epoch), 2, save_weights=False,
        record=Contributions(task.graph),
    )  # fmt: skip
    return {"off": np.abs(run.recorded["map"][:, -1] - k).max(axis=(1, 2, 3)) / S[0]}


def stability(p: Pathways, depth: int, t1: float) -> dict[str, Any]:
    """Growth rates of off-diagonal perturbations along a diagonal solution of Eq. 11, `(times, entries)`.

    The flow is minus a gradient, so its Jacobian is symmetric; diagonal and off-diagonal entries decouple.
    """
    graph = nr.Graph.pathways(len(S), len(S), [[len(S)] * (depth - 1)] * p.pathways)
    task = nr.Task(graph, np.eye(len(S)), np.diag(S))
    sigma = p.std * np.sqrt(p.width)
    rng = np.random.default_rng(depth)
    start = {e: sigma * np.eye(len(S)) for e in graph.edges}
    for path in graph.paths():  # last layers: what a random one has along the others
        start[path[-1]] = np.diag(sigma / np.sqrt(p.width) * np.abs(rng.standard_normal(len(S))))
    run = nr.flow(task, start, t1, times(t1))
    at = np.unique(np.searchsorted(-run.loss, -run.loss[0] * np.array([1.0, 0.9, 0.5, 0.1, 1e-2, 1e-4])))
    at = np.append(at[at < len(run.t)], len(run.t) - 1)
    off = graph.flatten({e: 1 - np.eye(len(S)) for e in graph.edges}) > 0
    with jax.enable_x64(True):
        hessian = jax.jit(jax.hessian(lambda flat: nr.loss(task, graph.unflatten(flat))))
        flat = graph.flatten(run.weights)
        jacobians = [-np.asarray(hessian(jnp.asarray(flat[k]))) for k in at]
    mixing = max(np.abs(j[off][:, ~off]).max() for j in jacobians)
    rates = np.array([np.linalg.eigvalsh(j[off][:, off]) for j in jacobians])
    return {"t": run.t[at], "loss": run.loss[at], "rates": rates, "mixing": mixing}


# -- what is read off K ------------------------------------------------------------------------


def _diagonal(k: np.ndarray) -> np.ndarray:
    return np.diagonal(k, axis1=-2, axis2=-1)


def concentration(k: np.ndarray) -> np.ndarray:
    """How much each group of modes is on one pathway, `(..., groups)` for K `(..., pathways, 8, 8)`.

    0 where all M pathways carry the same, 1 where each direction is carried by one: with
    `r = sum_a |K_a|^2 / |sum_a K_a|^2` over the block of the group, `sqrt((M r - 1) / (M - 1))`, whatever the
    basis within a group. For one mode and two pathways it is `|K_1 - K_2| / |K_1 + K_2|`.
    """
    m, found = k.shape[-3], []
    for group in GROUPS.values():
        block = k[..., group, :][..., group]
        ratio = (block**2).sum(axis=(-1, -2, -3)) / (block.sum(axis=-3) ** 2).sum(axis=(-1, -2))
        found.append(np.sqrt(np.maximum(m * ratio - 1, 0) / (m - 1)))
    return np.stack(found, axis=-1)


def off_diagonal(k: np.ndarray) -> np.ndarray:
    """Share of the squared norm of each K `(..., 8, 8)` between modes of different strength."""
    inside = sum(((k[..., g, :][..., g]) ** 2).sum(axis=(-1, -2)) for g in GROUPS.values())
    return 1 - inside / (k**2).sum(axis=(-1, -2))


def group_strength(k: np.ndarray, group: str) -> np.ndarray:
    """Signed size of a group in each K: the mean of its diagonal, which no basis of the group changes."""
    return _diagonal(k)[..., GROUPS[group]].mean(axis=-1)


def trend(x: Any, values: list[np.ndarray], direction: str) -> float:
    """One-sided p value of Spearman's rank correlation of x with the values, arrays of one per network."""
    at = np.repeat(x, [len(v) for v in values])
    found: Any = spearmanr(at, np.concatenate(values), alternative=direction)
    return float(found.pvalue)


def shares(found: Results, name: str) -> np.ndarray:
    """The first pathway's part of modes 1-2 at the end, `(seeds, 2)`: of networks (`K`) or a prediction."""
    k = found[name][:, -1]
    k = _diagonal(k)[..., :2] if name == "K" else k
    return k[:, 0] / k.sum(axis=1)


def correlation(found: Results, name: str) -> np.ndarray:
    """Of a predicted share with that of networks over seeds, for modes 1 and 2."""
    pairs = zip(shares(found, name).T, shares(found, "K").T, strict=True)
    return np.array([np.corrcoef(a, b)[0, 1] for a, b in pairs])


# -- figures -----------------------------------------------------------------------------------


def figures(p: Pathways, r: Results) -> dict[str, tuple[Figure, str]]:
    return {
        "learning": _learning(p, r),
        "diagonal": _diagonal_figure(p, r),
        "seeds": _seeds(p, r),
        "concentration": _concentration(p, r),
        "prediction": _prediction(p, r),
    }


def _learned(found: Results) -> float:
    """A time by which the loss of all networks has long been below a hundredth."""
    late = (found["loss"] > 0.01 * found["loss"][:, :1]).any(axis=0)
    return float(found["t"][min(int(1.3 * np.flatnonzero(late)[-1]), len(late) - 1)])


def _learning(p: Pathways, r: Results) -> tuple[Figure, str]:
    rows = {"linear": r["linear"], **{f: {d: r["bent"][f"{f}-{d}"] for d in p.depths} for f in BENT}}
    fig, axes = plot.figure(len(rows), len(p.depths), height=1.75 * len(rows) + 0.3, squeeze=False)
    for row, (kind, found) in zip(axes, rows.items(), strict=True):
        for ax, d in zip(row, p.depths, strict=True):
            k = found[d]["K" if kind == "linear" else "out"][0]
            for group, colour in COLOURS.items():
                for a, style in zip(range(p.pathways), ("-", "--", ":", "-."), strict=False):
                    label = group if a == 0 else None
                    ax.plot(
                        found[d]["t"] / p.epoch,
                        group_strength(k[:, a], group),
                        style,
                        color=colour,
                        label=label,
                    )
            ax.set(title=f"{kind}, depth {d}", xlim=(0, _learned(found[d]) / p.epoch))
        row[0].set(ylabel="K of a pathway")
    for ax in axes[-1]:
        ax.set(xlabel="epoch")
    for style, label in (("-", "first pathway"), ("--", "second")):
        axes[0, 0].plot([], [], style, color=plot.BLACK, label=label)
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    caption = (
        "What each pathway carries of the modes of the task (Fig. 5, 7, 8; first pathway solid, second "
        "dashed), in one network per panel. Groups of modes of equal strength are shown by the mean of their "
        f"diagonal. Linear networks {p.width} wide, gradient flow; ReLU and tanh {p.bent_width} wide, "
        "descent as published, outputs of the pathways."
    )
    return fig, caption


def _diagonal_figure(p: Pathways, r: Results) -> tuple[Figure, str]:
    fig = plot.figure(1, 1, width=plot.PAGE, height=3.6)[0]
    fig.clear()
    grid = fig.add_gridspec(2, 4)
    shown = p.depths[len(p.depths) // 2 - 1]
    found = r["linear"][shown]
    k, loss = found["K"][0, :, 0], found["loss"][0] / found["loss"][0, 0]
    at = [0, *(int(np.flatnonzero(loss <= level)[0]) for level in (0.9, 0.3)), len(loss) - 1]
    for n, i in enumerate(at):
        ax = fig.add_subplot(grid[0, n])
        plot.matrix(ax, k[i], f"epoch {found['t'][i] / p.epoch:.0f}" if n < 3 else "end")
        ax.set(xlabel="input modes", ylabel=f"output modes, depth {shown}" if n == 0 else None)
    a, b = fig.add_subplot(grid[1, :2]), fig.add_subplot(grid[1, 2:])
    for d, colour in zip(p.depths, plot.COLOURS, strict=False):
        found = r["linear"][d]
        fall = found["loss"].mean(axis=0) / found["loss"][:, 0].mean()
        off = off_diagonal(found["K"]).mean(axis=2)
        a.plot(1 - fall, off.mean(axis=0), color=colour, label=f"depth {d}")
        if d in r["stability"]:
            s = r["stability"][d]
            b.plot(1 - s["loss"] / s["loss"][0], s["rates"].max(axis=1), "o-", color=colour)
    a.set(xlabel="loss learned", ylabel="share off the diagonal", ylim=(0, None))
    b.axhline(0, color=plot.BLACK, lw=0.7)
    b.set(xlabel="loss learned", ylabel="largest eigenvalue")
    a.legend()
    caption = (
        f"Above: K of the first pathway of a network of depth {shown} (Fig. 4), each in its own scale. Left: "
        "squared entries between modes of different strength, as a share of all; mean over networks and "
        "pathways. Right: fastest growth of an off-diagonal perturbation of a diagonal solution, largest "
        "eigenvalue of the Jacobian of Eq. 11: positive while there is error, zero at the end."
    )
    return fig, caption


def _seeds(p: Pathways, r: Results) -> tuple[Figure, str]:
    deep = r["linear"][p.depths[-1]]
    panels = [(f"depth {p.depths[-1]}, first seed", deep, 0), (f"depth {p.depths[-1]}, second seed", deep, 1)]
    if "mixed" in r:
        panels.append((f"depths {', '.join(map(str, p.mixed))}", r["mixed"], 0))
    fig, axes = plot.figure(1, len(panels), height=2.5)
    for ax, (title, found, seed) in zip(axes, panels, strict=True):
        m = found["K"].shape[2]
        for a, colour in zip(range(m), plot.COLOURS, strict=False):
            for mode, (style, marker) in enumerate((("-", "o"), ("--", "s"))):
                t = found["t"] / p.epoch
                plot.theory(ax, t, found["signals"][seed, :, a, mode], colour, ls=style, lw=1)
                ax.plot(t, found["K"][seed, :, a, mode, mode], marker, color=colour, ms=2.5, alpha=0.5,
                        label=f"pathway {a + 1}" if mode == 0 else None)  # fmt: skip
        ax.set(title=title, xlabel="epoch", xlim=(0, _learned(found) / p.epoch))
    for marker, label in (("o-", "mode 1"), ("s--", "mode 2")):
        axes[-1].plot([], [], marker, color=plot.BLACK, ms=2.5, lw=1, label=label)
    fig.legend(*axes[-1].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    axes[0].set(ylabel="K of a pathway")
    caption = (
        "Modes 1 and 2 in two networks of the greatest depth that differ "
        "in their seed only (Fig. 6), and (full form) in one with pathways of different depths. Dots are "
        "networks, lines the prediction from their initial weights and the signals that pass through them."
    )
    return fig, caption


def _concentration(p: Pathways, r: Results) -> tuple[Figure, str]:
    fig, (a, b, c) = plot.figure(1, 3, height=2.6, sharey=True)
    place = np.arange(len(p.depths))
    by_depth = np.stack([concentration(r["linear"][d]["K"][:, -1]) for d in p.depths], axis=1)
    for g, (group, colour) in enumerate(COLOURS.items()):
        plot.points(a, place + 0.08 * (g - 1.5), by_depth[..., g], colour, group)
    for kind, colour, label in (
        ("fixed", plot.BLUE, r"$\sigma$ fixed"),
        ("scaled", plot.ORANGE, r"$\sigma \propto 1/\sqrt{N}$"),
    ):
        values = np.stack([_leading(r["width"][f"{n}-{kind}"]["final"]) for n in p.widths], axis=1)
        shift = 1.05 if kind == "fixed" else 0.95
        plot.points(b, np.array(p.widths) * shift, values, colour, label)
    for n, (f, colour) in enumerate(zip(BENT, (plot.RED, plot.GREEN), strict=True)):
        for j, (kind, marker) in enumerate((("out", "o"), ("map", "^"))):
            values = np.stack([_leading(r["bent"][f"{f}-{d}"][kind][:, -1]) for d in p.depths], axis=1)
            label = f"{f}, {'output' if kind == 'out' else 'weights'}"
            plot.points(
                c, place + 0.08 * (2 * n + j - 1.5), values, colour, label, fmt=marker, alpha=1 - 0.5 * j
            )
    for ax in (a, c):
        ax.set(xlabel="depth", xticks=place, xticklabels=p.depths)
    a.set(ylabel="concentration", ylim=(0, 1.35), yticks=np.linspace(0, 1, 6), title="linear")
    plot.logarithmic(b.xaxis)
    b.set(xlabel="width N", title=f"linear, depth {p.width_depth}, modes 1-2", xticks=p.widths)
    b.minorticks_off()
    c.set(title="modes 1-2")
    for ax in (a, b, c):
        ax.legend(
            loc="upper right" if ax is b else "upper left", ncols=1 if ax is b else 2, columnspacing=0.8
        )
    caption = (
        "Concentration of modes on one pathway at the end: 0 shared evenly, 1 all on one; mean and standard "
        f"deviation over {p.seeds} networks ({p.bent_seeds} with activations, {p.bent_width} wide, weights "
        "scaled to the same output). Left: against depth. Middle: against width. Right: with activations, "
        "measured on the outputs of pathways and on the products of their weights."
    )
    return fig, caption


def _leading(k: np.ndarray) -> np.ndarray:
    """Mean concentration of modes 1 and 2, `(networks,)`."""
    return concentration(k)[..., :2].mean(axis=-1)


def _prediction(p: Pathways, r: Results) -> tuple[Figure, str]:
    fig, axes = plot.figure(1, len(p.depths), height=2.5, sharey=True)
    for ax, d in zip(axes, p.depths, strict=True):
        for (name, colour), marker in zip(PREDICTIONS.items(), "^so", strict=True):
            x, y = shares(r["linear"][d], name), shares(r["linear"][d], "K")
            ax.plot(x.ravel(), y.ravel(), marker, color=colour, ms=3, alpha=0.6, label=name)
        ax.plot([0, 1], [0, 1], color=plot.BLACK, lw=0.7)
        ax.set(title=f"depth {d}", xlabel="predicted share")
    axes[0].set(ylabel="share of the first pathway")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    caption = (
        "The first pathway's share of modes 1 and 2 at the end, against what initial weights predict: by "
        "Eq. 17, by the strengths of modes in one neuron per layer, and by the weights between the signals "
        f"that pass through the layers at the start. {p.seeds} networks per depth."
    )
    return fig, caption


# -- claims ------------------------------------------------------------------------------------


def claims(p: Pathways, r: Results) -> list[Claim]:
    final = {d: concentration(r["linear"][d]["K"][:, -1]) for d in p.depths}
    lead = {d: c[:, :2].mean(axis=1) for d, c in final.items()}
    found = [
        check.below("learned", "largest loss at the end / first, linear", PAPER, 1e-3,
                    [v["loss"][:, -1].max() / v["loss"][:, 0].max() for v in r["linear"].values()]),
    ]  # fmt: skip
    if "published" in r:
        off = r["published"]["off"]
        name = "K at the end, published steps - flow, over S1"
        found.append(check.near("published-steps", name, PAPER, 0, off, 0.01))
    few = f"{p.seeds} networks each." + " Few for a test of significance." * (p.seeds < 20)
    for g, group in enumerate(GROUPS):
        value = trend(p.depths, [c[:, g] for c in final.values()], "greater")
        name = f"{group} more on one pathway with depth, linear: p"
        found.append(paper.below(f"depth-{kebab(group)}", name, f"{PAPER} Fig. 5", 0.01, value, few))
    for shallow, deep in zip(p.depths, p.depths[1:], strict=False):
        value = mannwhitneyu(lead[deep], lead[shallow], alternative="greater").pvalue
        name = f"modes 1-2, depth {deep} more than {shallow}, linear: p"
        found.append(paper.below(f"depth-{deep}-over-{shallow}", name, f"{PAPER} Fig. 5", 0.01, value, few))
    deepest = p.depths[-1]
    found += [
        paper.near(
            f"concentration-{key}", f"concentration at depth {d}, modes 1-2", f"{PAPER} Fig. 5", expected,
            lead[d], 0.25, "Random starts do not reach |C'| s far above 1 at this depth." if expected else "",
        )
        for key, d, expected in (("shallowest", p.depths[0], 0), ("deepest", deepest, 1))
    ]  # fmt: skip
    first = shares(r["linear"][deepest], "K")[:, 0] > 0.5
    found.append(
        paper.relation("assignment-random", f"depth {deepest}, networks with mode 1 on the first pathway",
                       f"{PAPER} Fig. 6", "between 0 and 1", first, 0 < first.mean() < 1)
    )  # fmt: skip
    for f in BENT:
        for kind, name in (("out", "outputs"), ("map", "weights")):
            value = trend(
                p.depths, [_leading(r["bent"][f"{f}-{d}"][kind][:, -1]) for d in p.depths], "greater"
            )
            source = f"{PAPER} Fig. {7 if f == 'relu' else 8}"
            note = f"{p.bent_seeds} networks per depth, {p.bent_width} wide."
            left = max(
                float((v["loss"][:, -1] / v["loss"][:, 0]).max()) for g, v in r["bent"].items() if f in g
            )
            note += f" Largest loss at the end / first {left:.2g}."
            told = f"modes 1-2 more on one pathway with depth, {f}, {name}: p"
            found.append(paper.below(f"depth-{f}-{name}", told, source, 0.01, value, note))
    for kind, name in (("fixed", "sigma fixed"), ("scaled", "sigma / sqrt(N)")):
        value = trend(p.widths, [_leading(r["width"][f"{n}-{kind}"]["final"]) for n in p.widths], "less")
        name = f"modes 1-2 less on one pathway with width, {name}: p"
        found.append(paper.below(f"width-{kind}", name, f"{PAPER} section 3.2", 0.01, value, few))
    return [*found, *_diagonal_claims(p, r), *_prediction_claims(p, r)]


def _diagonal_claims(p: Pathways, r: Results) -> list[Claim]:
    found = []
    for d in p.depths:
        k = r["linear"][d]["K"]
        note = (
            "What is off the diagonal in one pathway is undone by the others, and stays: see the eigenvalues."
        )
        off = off_diagonal(k[:, -1]).mean(axis=1)
        name = f"depth {d}, squared K off the diagonal at the end"
        found.append(paper.below(f"diagonal-depth-{d}", name, f"{PAPER} Fig. 4", 0.05, off, note))
    total = [off_diagonal(v["K"][:, -1].sum(axis=1)).max() for v in r["linear"].values()]
    name = "squared K off the diagonal at the end, sum over pathways"
    found.append(paper.below("diagonal-sum", name, f"{PAPER} Eq. 12", 1e-3, total))
    for d, s in r["stability"].items():
        scale = np.abs(s["rates"]).max()
        source = f"{PAPER} section 3.2"
        found.append(
            paper.below(f"stable-depth-{d}",
                        f"depth {d}, largest off-diagonal eigenvalue at the end / fastest", source, 1e-3,
                        s["rates"][-1].max() / scale)
        )  # fmt: skip
        note = "Only the sum of pathways is driven to the diagonal; all else is neutral, and grows before."
        found.append(
            paper.near(f"decay-depth-{d}",
                       f"depth {d}, share of off-diagonal perturbations that decay at the end", source, 1,
                       (s["rates"][-1] < -1e-3 * scale).mean(), 1e-9, note)
        )  # fmt: skip
    return found


def _prediction_claims(p: Pathways, r: Results) -> list[Claim]:
    found = []
    orthogonal = "Gaussian layers are not orthogonal, and Eq. 17 leaves out most of the last one."
    spread = "Few directions of the initial weights are followed, which tells less the deeper the network."
    for d in p.depths:
        for name in PREDICTIONS:
            value = correlation(r["linear"][d], name)
            kind, note = (paper, orthogonal) if name == "Eq. 17" else (finding, spread)
            title = f"depth {d}, correlation of predicted and final share, {name}, modes 1 and 2"
            key = f"share-{kebab(name)}-depth-{d}"
            found.append(kind.above(key, title, f"{PAPER} Eq. 17-22", 0.9, value, note))
        note = "Where the last layer is random too, all layers learn from the start, not the last one only."
        rate = r["linear"][d]["rate"].mean(axis=(1, 2))
        name = f"depth {d}, initial growth of K / Eq. 17"
        found.append(paper.near(f"growth-depth-{d}", name, f"{PAPER} Eq. 17", 1, rate, 0.2, note))
    return found


EXPERIMENT = Experiment(
    "pathways",
    "Parallel pathways: depth breaks the symmetry between them",
    "multipathway Fig. 4-8",
    Pathways(),
    Pathways(
        seeds=10,
        width=32,
        std=0.056,
        depths=(2, 3),
        epochs=(400, 1000),
        mixed=(2,),
        widths=(12, 32),
        bent_width=24,
    ),
    compute,
    figures,
    claims,
    (0.7, 8.0),
    # Tests of significance ask for 20 networks and four depths; other claims for depth 7 or great width.
    needs_full=("depth-*", "width-*", "concentration-deepest", "diagonal-depth-*"),
)
