"""Items in three contexts, learned by ReLU networks with two hidden layers; beside them the gated linear
network that is said to imitate them: a linear first layer for all, then a pathway that is always open and
three that are open in two contexts each. The published imitation freezes updates and switches gradients on at
chosen epochs; here both kinds of network learn from small random weights by the gradient of the whole loss,
and the pathways have equal shares of the second layer's units."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import plot
from neuralrace.experiments.old import Claim, Experiment, Parameters, Parts, Results, option, paper
from neuralrace.measure import crossing

SOURCE, FIG = "make_haste_slowly section 6", "make_haste_slowly Fig. 6"
CONTEXTS, PATHWAYS = 3, 4
KINDS = {"relu": ("ReLU network", plot.BLUE), "gated": ("gated linear network", plot.ORANGE)}
PUBLISHED = (500, 12_000)  # epochs at which the common pathway aligns and the others appear
EPOCH, ORDER = "epoch (thousands)", ("first", "second", "third")
GATES = np.repeat(np.concatenate([np.ones((1, CONTEXTS)), 1 - np.eye(CONTEXTS)]), 8, axis=1)  # of pathways
N_OPEN = np.array([bin(k).count("1") for k in range(2**CONTEXTS)])  # contexts, of each pattern


@dataclass(frozen=True)
class Depth(Parameters):
    seeds: int = option(100, "random starts of each network", least=2)
    hidden: int = option(
        420,
        "units of each hidden layer; a quarter of them in each pathway of the gated networks",
        least=PATHWAYS,
    )
    std: float = option(6e-4, "standard deviation of initial weights")
    lr: float = option(1e-3, "learning rate, on the loss summed over samples")
    epochs: int = option(30_000, "steps of training")
    shallow: int = option(
        700, "units of the networks with one hidden layer, to compare the spread over starts"
    )
    save: int = option(301, "times that are saved", least=20)
    dtype: str = option("float32", "precision of training", choices=("float32", "float64"))


@lru_cache(maxsize=1)
def data() -> tuple[np.ndarray, np.ndarray]:
    return nr.tasks.contexts(CONTEXTS).arrays


@lru_cache(maxsize=1)
def plateaus() -> np.ndarray:
    """Outputs on four plateaus `(4, n, out)`: the first mode of all samples, the same in every context; then
    the first 1, 2 and 4 modes of each context."""
    y = data()[1]

    def first(m: np.ndarray, k: int) -> np.ndarray:
        u, s, v = np.linalg.svd(m, full_matrices=False)
        return (u[..., :k] * s[..., None, :k]) @ v[..., :k, :]

    blocks = y.reshape(CONTEXTS, -1, y.shape[1])
    return np.stack([first(y, 1), *(first(blocks, k).reshape(y.shape) for k in (1, 2, 4))])


def levels() -> np.ndarray:
    """Loss of silence and of each plateau, `(5,)`."""
    y = data()[1]
    return 0.5 * np.array([(y**2).sum(), *((y - plateaus()) ** 2).sum(axis=(1, 2))])


def falls() -> list[tuple[float, float]]:
    """Losses between which both kinds of network are said to fall: silence and the plateaus by context."""
    return list(pairwise(np.delete(levels(), 1).tolist()))


def compute(p: Depth, parts: Parts) -> Results:
    # GPUs would multiply single-precision matrices with ten bits.
    with jax.default_matmul_precision("highest"):
        return {kind: parts(kind, train, p) for kind, train in TRAIN.items()}


def train_relu(p: Depth) -> dict[str, Any]:
    """Networks with two hidden layers."""
    return _relu(p, [p.hidden, p.hidden], p.std, p.epochs, relu_state)


def train_shallow(p: Depth) -> dict[str, Any]:
    """Networks with one hidden layer, as published in section 5."""
    return _relu(p, [p.shallow], 7e-6, 8000, None)


def _relu(p: Depth, hidden: list[int], std: float, epochs: int, record: Any) -> dict[str, Any]:
    x, y = data()
    names = [f"h{k + 1}" for k in range(len(hidden))]
    graph = nr.Graph.chain([x.shape[1], *hidden, y.shape[1]], activations=dict.fromkeys(names, "relu"))
    return _descended(p, nr.Task(graph, x, y), std, epochs, record)


def _descended(p: Depth, task: nr.Task, std: float, epochs: int, record: Any) -> dict[str, Any]:
    """Networks from small random weights, on the loss summed over samples."""
    weights, n = nr.init.gaussian(task.graph, std, range(p.seeds)), len(data()[0])
    run = nr.descend(
        task, weights, p.lr * n, epochs, p.save, save_weights=False, record=record, dtype=np.dtype(p.dtype)
    )
    return {"epoch": run.t / (p.lr * n), "loss": n * run.loss, **run.recorded}


def relu_state(state: nr.State) -> dict[str, Any]:
    """Gates of both layers, each unit counted by its size: norm of its weights in times norm out."""
    w1, w2, w3 = (state.weights[e] for e in ("x->h1", "h1->h2", "h2->y"))
    h1, y = state.activity("h1"), state.activity("y")
    g1, g2 = h1 > 0, state.activity("h2") > 0
    cut = data()[0].astype(w1.dtype) @ w1.T - h1  # what the first layer rectifies away
    first, second = _share(w1, w2), _share(w2, w3)
    by_context = g2.reshape(CONTEXTS, -1, len(w2)).mean(axis=1)
    pattern = (2 ** np.arange(CONTEXTS)) @ (by_context > 0.5)
    pure = ((by_context == 0) | (by_context == 1)).all(axis=0)
    kinds = pattern[:, None] == np.arange(2**CONTEXTS)
    return {
        "far": _far(y),
        "open": g1.mean(axis=0) @ first,
        "always": g1.all(axis=0) @ first,
        "nonlinear": _size(((cut @ w2.T) * g2) @ w3.T),  # with the gates that layer 2 has
        "majority": second @ kinds,
        "pure": second @ (kinds & pure[:, None]),
    }


def train_gated(p: Depth) -> dict[str, Any]:
    """The gated linear network."""
    return _descended(p, gated(p.hidden), p.std, p.epochs, gated_state)


def gated(hidden: int) -> nr.Task:
    """A linear layer for all, then four pathways p0 (always open), p1, p2, p3 with a quarter of the units."""
    x, y = data()
    nodes = {"x": x.shape[1], "h1": hidden, **dict.fromkeys(_names(), hidden // PATHWAYS), "y": y.shape[1]}
    edges = [("x", "h1"), *((a, b) for n in _names() for a, b in (("h1", n), (n, "y")))]
    return nr.Task(nr.Graph(nodes, edges), x, y, dict(zip(_names(), GATES, strict=True)))


def gated_state(state: nr.State) -> dict[str, Any]:
    """Size of what each pathway says, and how far its map is along the first mode of its own data."""
    x, y = data()
    alone = [{other: 0.0 for other in _names() if other != n} for n in _names()]
    shown = np.eye(x.shape[1])
    maps = jnp.stack([state.activity("y", shown, off).T for off in alone])
    said = jnp.stack(
        [state.activity("y", x, off | {n: g}) for n, off, g in zip(_names(), alone, GATES, strict=True)]
    )
    u, _, v = np.linalg.svd(y.T @ (GATES[:, :, None] * x), full_matrices=False)
    along = jnp.einsum("poi,po,pi->p", maps, *(m.astype(maps.dtype) for m in (u[:, :, 0], v[:, 0])))
    return {
        "far": _far(said.sum(axis=0)),
        "size": _size(said),
        "cosine": jnp.abs(along) / jnp.sqrt((maps**2).sum(axis=(1, 2))),
    }


TRAIN = {"relu": train_relu, "gated": train_gated, "shallow": train_shallow}


def _names() -> list[str]:
    return [f"p{k}" for k in range(PATHWAYS)]


def _share(into: Any, out: Any) -> Any:
    size = jnp.linalg.norm(into, axis=1) * jnp.linalg.norm(out, axis=0)
    return size / size.sum()


def _size(y: Any) -> Any:
    """Norm of outputs `(..., n, out)`, relative to the targets."""
    return jnp.sqrt((y**2).sum(axis=(-2, -1)) / (data()[1] ** 2).sum())


def _far(y: Any) -> Any:
    return _size(y - plateaus().astype(y.dtype))


def stereotype(loss: np.ndarray) -> int:
    """The run closest to the mean trajectory: sum of distances over times."""
    return int(np.abs(loss - loss.mean(axis=0)).sum(axis=1).argmin())


def drops(found: Results) -> np.ndarray:
    """Epochs at which a quarter of the way to the next common plateau is done, `(runs, 3)`; nan if never."""
    marks = [high - (high - low) / 4 for high, low in falls()]
    return np.array([[crossing(found["epoch"], v, mark) for mark in marks] for v in found["loss"]])


def nearest(found: Results, name: str, plateau: int) -> np.ndarray:
    """A recorded quantity when the outputs are nearest to those of a plateau, `(runs, ...)`."""
    when = found["far"][:, :, plateau].argmin(axis=1)
    return found[name][np.arange(len(when)), when]


def first_above(found: Results, name: str, level: float) -> np.ndarray:
    """Epochs from which on a quantity of each pathway `(runs, save, pathways)` is above a level, once."""
    return np.array(
        [[crossing(found["epoch"], -v, -level) for v in run.T] for run in found[name]]
    )  # (runs, pathways)


def counted(shares: np.ndarray) -> np.ndarray:
    """Shares by the number of contexts in which a unit is open, `(..., 4)`, from those of patterns."""
    return shares @ (N_OPEN[:, None] == np.arange(CONTEXTS + 1))


def dwell(found: Results) -> np.ndarray:
    """Epochs spent within 1% of the initial loss of each plateau, `(runs, 4)`."""
    step = found["epoch"][1] - found["epoch"][0]
    near = np.abs(found["loss"][:, :, None] - levels()[1:]) < 0.01 * levels()[0]
    return step * near.sum(axis=1)


def half_spread(found: Results) -> float:
    """Standard deviation over runs of the log of the epoch of half loss."""
    return float(
        np.std(np.log([crossing(found["epoch"], v, levels()[0] / 2) for v in found["loss"]]), ddof=1)
    )


def figures(p: Depth, r: Results) -> dict[str, tuple[Figure, str]]:
    losses, (a, b, c) = plot.figure(1, 3, height=2.5, width_ratios=[1.7, 1, 1.2])
    for at, (kind, (name, colour)) in enumerate(KINDS.items()):
        epoch, loss = r[kind]["epoch"] / 1000, r[kind]["loss"]
        a.plot(epoch, loss.T, color=colour, lw=0.5, alpha=min(0.5, 4 / p.seeds + 0.05))
        plot.theory(a, epoch, loss[stereotype(loss)], colour, name)
        side = 0.3 * (at - 0.5) + np.linspace(-0.1, 0.1, p.seeds)[:, None]
        b.plot(np.arange(3) + side, drops(r[kind]) / 1000, "o", color=colour, ms=2, alpha=0.6)
    for level in levels()[1:]:
        a.axhline(level, color=plot.BLACK, lw=0.6, ls=":", zorder=0)
    a.set(
        xlabel=EPOCH,
        ylabel="loss (sum over samples)",
        title=f"{p.seeds} networks of each kind",
        ylim=(0, None),
        yticks=[*levels().round(6), 0],
    )
    a.legend()
    marks = [f"{high:g} to\n{low:g}" for high, low in falls()]
    b.set(xticks=range(3), xticklabels=marks, ylabel=EPOCH, ylim=(0, None), title="drops of the loss")
    gated = r["gated"]
    sizes = gated["size"][stereotype(gated["loss"])].T
    for k, (label, colour) in enumerate((("always open", plot.BLACK), ("two contexts", plot.GREEN))):
        plot.theory(c, gated["epoch"] / 1000, sizes[k], colour, label)
        c.axvline(PUBLISHED[k] / 1000, color=colour, lw=0.8, ls="--", label="published" if k else None)
    c.plot(gated["epoch"] / 1000, sizes[2:].T, color=plot.GREEN)
    c.set(xlabel=EPOCH, ylabel="output / targets", ylim=(0, None), title="pathways")
    c.legend(loc="lower right")

    gates, (first, second) = plot.figure(1, 2, height=2.4)
    relu = r["relu"]
    epoch = relu["epoch"] / 1000
    for name, colour, label in (
        ("open", plot.BLUE, "gates open"),
        ("always", plot.RED, "units open for all"),
        ("nonlinear", plot.BLACK, "outputs move if linear"),
    ):
        plot.runs(first, epoch, relu[name], colour, label)
    first.set(xlabel=EPOCH, ylabel="share", ylim=(0, 1.02), title="first layer")
    first.legend(loc="upper right", bbox_to_anchor=(1, 0.75))
    shares = counted(relu["majority"]).mean(axis=0).T[::-1]
    kinds = {"all three": plot.BLACK, "two": plot.GREEN, "one": plot.SKY, "none": "#dddddd"}
    second.stackplot(epoch, shares, labels=list(kinds), colors=list(kinds.values()), alpha=0.8, lw=0)
    same = relu["pure"].sum(axis=-1).mean(axis=0)
    second.plot(epoch, same, color=plot.RED, ls="--", label="same gate\nfor all items")
    second.set(xlabel=EPOCH, ylim=(0, 1.02), xlim=(0, epoch[-1]), title="second layer, contexts open")
    second.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return {
        "losses": (
            losses,
            f"Left: loss of {p.seeds} networks of each kind, in bold the run nearest to the mean; dotted: "
            "plateaus. Middle: when a quarter of each drop is done, a dot per run. Right: outputs of the "
            "pathways of the gated network nearest to the mean, relative to the targets; dashed: the "
            "published epochs at which the common pathway aligns and the others appear.",
        ),
        "gates": (
            gates,
            f"Gates of {p.seeds} ReLU networks, units counted by the size of their weights. Left: first "
            "layer (median, least to most); black: how far outputs would move, relative to the targets, if "
            "it did not rectify. Right: contexts in which a unit of the second layer is open for more than "
            "half of the items, mean over networks; dashed: units whose gate is the same for all items of "
            "every context.",
        ),
    }


def claims(p: Depth, r: Results) -> list[Claim]:
    relu, gated = r["relu"], r["gated"]
    rest = levels()[1:]
    one = {kind: stereotype(r[kind]["loss"]) for kind in KINDS}
    epochs = {kind: drops(r[kind]) for kind in KINDS}
    spread = {kind: np.log(epochs[kind]).std(axis=0, ddof=1) for kind in KINDS}
    late = epochs["gated"][one["gated"]] / epochs["relu"][one["relu"]]
    stays = {kind: dwell(r[kind])[one[kind]] for kind in KINDS}
    apart = np.abs(relu["loss"][one["relu"]] - gated["loss"][one["gated"]]).mean() / levels()[0]
    aligned, shown = first_above(gated, "cosine", 0.9)[:, 0], first_above(gated, "size", 0.1)
    left = {kind: (r[kind]["loss"][:, -1] < 0.75 * rest[3]).mean() for kind in KINDS}
    ends = counted(relu["majority"][:, -1])
    names = [f"drop {high:g} to {low:g}" for high, low in falls()]
    lowest = f"{rest[1]:g}, {rest[2]:g} and {rest[3]:g}"
    open1, weight = "first layer open for all samples", "share of the weight"
    moved, few = "outputs move if the first layer is linear", f"From {p.seeds} runs." if p.seeds < 30 else ""
    follow = (shown[:, 1:] - shown[:, :1]).mean()
    together = (
        "The first layer that the common pathway has grown serves the others too, which follow it within "
        f"{follow:.0f} epochs: there is no plateau of the common pathway alone."
    )
    width = "At equal total width. Wider pathways start stronger and are earlier in all drops alike."
    later = "The later the drop, the later are gated networks, at both widths of pathways that were tried."
    closes = f"All is open while the first pathway is alone, at {rest[0]:g}; then units turn and gates close."
    return [
        *(
            paper.near(
                f"{k}-drop-epoch", f"{n}, epoch, typical gated / ReLU network - 1", FIG, 0, v, 0.1, width
            )
            for k, n, v in zip(ORDER, names, late - 1, strict=True)
        ),
        *(
            paper.near(
                f"{ORDER[k + 1]}-drop-delay",
                f"{names[k + 1]}, epoch / that of the {names[k]}, typical gated / ReLU network - 1", SOURCE,
                0, late[k + 1] / late[k] - 1, 0.1, later,
            )
            for k in range(2)
        ),
        paper.below(
            "typical-losses", "typical losses apart, mean over epochs / initial loss", FIG, 0.05, apart,
            f"Mostly the plateau at {rest[0]:g}, which gated networks do not have, and the end.",
        ),
        *(
            paper.above(
                f"plateaus-{kind}", f"typical {title}, epochs at losses {lowest}", SOURCE, 500,
                stays[kind][1:],
            )
            for kind, (title, _) in KINDS.items()
        ),
        *(
            paper.above(
                f"first-plateau-{kind}", f"typical {title}, epochs at loss {rest[0]:g}", SOURCE, 500,
                stays[kind][0], note,
            )
            for (kind, (title, _)), note in zip(KINDS.items(), ("", together), strict=True)
        ),
        paper.below(
            "plateau-outputs",
            f"outputs of typical networks less those of the plateaus at losses {lowest} / targets", SOURCE,
            0.05, [r[kind]["far"][one[kind], :, 1:].min(axis=0) for kind in KINDS],
        ),
        *(
            paper.near(
                f"{k}-drop-spread", f"{n}, spread of the log epoch, gated / ReLU", FIG, 1, ratio, 0.5, few
            )
            for k, n, ratio in zip(ORDER, names, spread["gated"] / spread["relu"], strict=True)
        ),
        paper.above(
            "spread-with-depth", "spread of the log epoch of half loss, two hidden layers / one", SOURCE, 2,
            half_spread(relu) / half_spread(r["shallow"]), few,
        ),
        paper.near(
            "common-aligned", "common pathway aligned (cosine .9), epoch", SOURCE, PUBLISHED[0], aligned, 250,
            together,
        ),
        paper.near(
            "contextual-appear", "contextual pathways at .1 of the targets, epoch", SOURCE, PUBLISHED[1],
            shown[:, 1:].mean(axis=1), 1000, together,
        ),
        *(
            paper.near(
                f"second-drop-{kind}", f"{names[1]}, {title}, epoch", SOURCE, PUBLISHED[1],
                epochs[kind][:, 1], 1000,
            )
            for kind, (title, _) in KINDS.items()
        ),
        paper.above(
            "first-layer-open-plateau", f"{open1}, {weight} at loss {rest[0]:g}", SOURCE, 0.9,
            nearest(relu, "always", 0),
        ),
        paper.above(
            "first-layer-open-end", f"{open1}, {weight} at the end", SOURCE, 0.9, relu["always"][:, -1],
            closes,
        ),
        paper.below(
            "first-layer-linear-plateau", f"{moved}, at loss {rest[1]:g}", FIG, 0.05,
            nearest(relu, "nonlinear", 1),
        ),
        paper.below(
            "first-layer-linear-end", f"{moved}, at the end", FIG, 0.05, relu["nonlinear"][:, -1], closes
        ),
        paper.above(
            "second-layer-open-plateau", f"second layer always open, {weight} at loss {rest[0]:g}", SOURCE,
            0.9, nearest(relu, "majority", 0)[:, -1],
        ),
        paper.above(
            "second-layer-contexts", f"second layer open in two or three contexts, {weight} at the end", FIG,
            0.9, ends[:, 2:].sum(axis=1), f"In two {ends[:, 2].mean():.2f}, in one {ends[:, 1].mean():.2f}.",
        ),
        paper.near(
            "leave-last-plateau", f"networks that leave loss {rest[3]:g} by the end, share, gated less ReLU",
            FIG, 0, left["gated"] - left["relu"], 0.1, later,
        ),
        *(
            paper.below(
                f"not-all-learn-{kind}", f"{title}s that end below 1% of the initial loss, share", SOURCE, 1,
                (r[kind]["loss"][:, -1] < 0.01 * levels()[0]).mean(),
            )
            for kind, (title, _) in KINDS.items()
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "depth",
    "Two hidden layers: does the first one gate, and do pathways come in stages?",
    "make_haste_slowly section 6, Fig. 6",
    Depth(),
    # As long as the full form, from the same sqrt(hidden) std, which sets how long plateaus are.
    Depth(seeds=4, hidden=64, std=6e-4 * (420 / 64) ** 0.5, shallow=100),
    compute,
    figures,
    claims,
    (0.4, 150),
    needs_full=("*-drop-spread", "spread-with-depth", "third-drop-delay"),  # spreads over 100 runs
)
