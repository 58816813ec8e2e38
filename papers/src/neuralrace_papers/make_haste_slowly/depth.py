"""Items in three contexts, learned by ReLU networks with two hidden layers; beside them the gated linear
network that is said to imitate them: a linear first layer for all, then a pathway that is always open and
three that are open in two contexts each. The published imitation freezes updates and switches gradients on at
chosen epochs; here both kinds of network learn from small random weights by the gradient of the whole loss,
and the pathways have equal shares of the second layer's units."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr

import neuralrace as nr
from neuralrace import plot
from neuralrace.measure import crossing
from neuralrace.relu.training import relu_chain
from neuralrace_papers.framework.claim import finding, paper
from neuralrace_papers.framework.declaration import claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option
from neuralrace_papers.framework.quotes import quoted
from neuralrace_papers.make_haste_slowly.modes import ITEMS

CONTEXTS, PATHWAYS = 3, 4
X, Y = nr.tasks.contexts(CONTEXTS).arrays
GATES = np.repeat(np.concatenate([np.ones((1, CONTEXTS)), 1 - np.eye(CONTEXTS)]), ITEMS, axis=1)


# Outputs (4, n, out): the first mode of all samples, then the first 1, 2 and 4 modes of each context; these
# are means over so many samples.
PLATEAUS = np.stack([np.repeat(Y.reshape(-1, n, Y.shape[1]).mean(axis=1), n, axis=0) for n in (24, 8, 4, 2)])
START, *LEVELS = 0.5 * np.array([(Y**2).sum(), *((Y - PLATEAUS) ** 2).sum(axis=(1, 2))])
COMMON = [START, *LEVELS[1:]]  # losses that both kinds of network are said to share
DROPS = [f"drop {high:g} to {low:g}" for high, low in pairwise(COMMON)]
ORDER = ("first", "second", "third")
PUBLISHED = (500, 12_000)  # epochs at which the common pathway aligns and the others appear
NETWORKS = {"relu": ("ReLU network", plot.BLUE), "gated": ("gated linear network", plot.ORANGE)}
EPOCH = "epoch (thousands)"
DIMS = {"distance": "plateau", "by_contexts": "contexts_open", "size": "pathway", "cosine": "pathway"}


class Depth(Parameters):
    seeds: int = option(100, "random starts of each network", least=2)
    hidden: int = option(
        420, "units of each hidden layer; a quarter of them in each pathway of the gated networks", least=4
    )
    std: float = option(6e-4, "standard deviation of initial weights")
    lr: float = option(1e-3, "learning rate, on the loss summed over samples")
    epochs: int = option(30_000, "steps of training")
    shallow: int = option(
        700, "units of the networks with one hidden layer, to compare the spread over starts"
    )
    save: int = option(301, "times that are saved", least=20)
    dtype: str = option("float32", "precision of training", choices=("float32", "float64"))

    def descend(
        self, task: nr.Task, std: float, epochs: int, record: Any = None, seeds: int | None = None
    ) -> dict[str, Any]:
        """Networks from small random weights, on the loss summed over samples."""
        start = nr.init.gaussian(task.graph, std, range(seeds or self.seeds))
        n = len(X)
        keep: dict[str, Any] = {"save_weights": False, "record": record, "dtype": self.dtype}
        run = nr.descend(task, start, self.lr * n, epochs, self.save, **keep)
        recorded = {k: (f"run epoch {DIMS.get(k, '')}", v) for k, v in run.recorded.items()}
        return {"epoch": ("epoch", run.t / (self.lr * n)), "loss": ("run epoch", n * run.loss), **recorded}


@part(each=tuple(NETWORKS))
def networks(p: Depth, kind: str):
    """ReLU networks with two hidden layers, or the gated linear ones."""
    if kind == "gated":
        return p.descend(gated_task(p.hidden), p.std, p.epochs, gated_state)
    return p.descend(relu_task(p.hidden, p.hidden), p.std, p.epochs, relu_state)


@part
def table_1(p: Depth):
    """ReLU networks with two hidden layers and the settings of Table 1: 700 units, std 1e-7, 8000 epochs."""
    task = relu_task(p.shallow, p.shallow)
    return p.descend(task, 1e-7 * (700 / p.shallow) ** 0.5, 8000, seeds=1)


@part
def shallow(p: Depth):
    """ReLU networks with one hidden layer, as published in section 5."""
    return p.descend(relu_task(p.shallow), 0.005 / 700, 8000)


def relu_task(*hidden: int) -> nr.Task:
    return nr.Task(relu_chain([X.shape[1], *hidden, Y.shape[1]]), X, Y)


def gated_task(hidden: int) -> nr.Task:
    """A linear layer for all, then four pathways p0 (always open), p1, p2, p3 with a quarter of the units."""
    names = [f"p{k}" for k in range(PATHWAYS)]
    nodes = {"x": X.shape[1], "h1": hidden, **dict.fromkeys(names, hidden // PATHWAYS), "y": Y.shape[1]}
    edges = [("x", "h1"), *((a, b) for n in names for a, b in (("h1", n), (n, "y")))]
    return nr.Task(nr.Graph(nodes, edges), X, Y, dict(zip(names, GATES, strict=True)))


def relu_state(state: nr.State) -> dict[str, Any]:
    """Gates of both layers, each unit counted by its size (`nr.unit_sizes`).

    open, always: mean gate of the first layer, and share of its units that are open on all samples.
    nonlinear: change of the outputs, relative to the targets, if the first layer did not rectify.
    by_contexts: shares of the second layer open for most items in 0, 1, 2 and 3 contexts.
    pure: share of the second layer that is open for all or for no items of each context.
    """
    w1, w2, w3 = (state.weights[e] for e in ("x->h1", "h1->h2", "h2->y"))
    first, second = nr.unit_sizes(w1, w2, normalise=True), nr.unit_sizes(w2, w3, normalise=True)
    h1, g2 = state.activity("h1"), state.activity("h2") > 0
    rectified = X.astype(w1.dtype) @ w1.T - h1
    mean_gate = g2.reshape(CONTEXTS, ITEMS, -1).mean(axis=1)
    n_open = (mean_gate > 0.5).sum(axis=0)
    return {
        "distance": relative_size(state.activity("y") - PLATEAUS.astype(w1.dtype)),
        "open": (h1 > 0).mean(axis=0) @ first,
        "always": (h1 > 0).all(axis=0) @ first,
        "nonlinear": relative_size(((rectified @ w2.T) * g2) @ w3.T),  # with the gates of the second layer
        "by_contexts": second @ (n_open[:, None] == np.arange(CONTEXTS + 1)),
        "pure": second @ ((mean_gate == 0) | (mean_gate == 1)).all(axis=0),
    }


def gated_state(state: nr.State) -> dict[str, Any]:
    """Size of the outputs of each pathway, and cosine of its map and the first mode of its own data."""
    maps = jnp.stack(list(nr.pathway_maps(gated_task(PATHWAYS).graph, state).values()))
    outputs = GATES[:, :, None].astype(maps.dtype) * (X.astype(maps.dtype) @ maps.swapaxes(1, 2))
    u, _, v = np.linalg.svd(Y.T @ (GATES[:, :, None] * X))
    mode = (u[:, :, :1] * v[:, :1]).astype(maps.dtype)
    return {
        "distance": relative_size(outputs.sum(axis=0) - PLATEAUS.astype(maps.dtype)),
        "size": relative_size(outputs),
        "cosine": jnp.abs((maps * mode).sum(axis=(1, 2))) / jnp.sqrt((maps**2).sum(axis=(1, 2))),
    }


def relative_size(outputs: Any) -> Any:
    """Norm of outputs `(..., n, out)`, relative to the targets."""
    return jnp.sqrt((outputs**2).sum(axis=(-2, -1))) / np.linalg.norm(Y)


def typical(networks: xr.Dataset) -> xr.Dataset:
    """The run whose loss is closest to the mean: sum of distances over times."""
    return networks.isel(
        run=int(np.abs(networks.loss - networks.loss.mean("run")).sum("epoch").argmin("run"))
    )


def drops(networks: xr.Dataset) -> np.ndarray:
    """Epochs at which a quarter of the way to the next common plateau is done, `(..., 3)`; nan if never."""
    marks = COMMON[:-1] + np.diff(COMMON) / 4
    return crossing(networks.epoch, networks.loss.values[..., None, :], marks)


def dwell(network: xr.Dataset) -> np.ndarray:
    """Epochs that a run spends within 1% of the initial loss of each plateau, `(4,)`."""
    near = np.abs(network.loss.values - np.array(LEVELS)[:, None]) < 0.01 * START
    return near.sum(axis=1) * float(network.epoch[1])


def at_plateau(networks: xr.Dataset, plateau: int) -> xr.Dataset:
    """Each run when its outputs are nearest to those of a plateau."""
    return networks.isel(epoch=networks.distance.isel(plateau=plateau).argmin("epoch"))


@figure("losses")
def losses(p: Depth, data):
    fig, (a, b, c) = plot.figure(1, 3, height=3.1, width_ratios=[1.5, 1.1, 1.2])
    for side, (kind, (name, colour)) in zip((-0.15, 0.15), NETWORKS.items(), strict=True):
        runs = data.networks[kind]
        epoch = runs.epoch / 1000
        a.plot(epoch, runs.loss.T, color=colour, lw=0.5, alpha=min(0.5, 4 / p.seeds + 0.05))
        plot.theory(a, epoch, typical(runs).loss, colour, name)
        x = np.arange(3) + side + np.linspace(-0.1, 0.1, p.seeds)[:, None]
        b.plot(x, drops(runs) / 1000, "o", color=colour, ms=2, alpha=0.6)
        plot.key(b, {name: "o"}, colour)
    for level in LEVELS:
        a.axhline(level, color=plot.BLACK, lw=0.6, ls=":", zorder=0, label="plateaus of the data")
    at = {"ylim": (0, None), "yticks": np.round([START, *LEVELS, 0], 6)}
    title = f"{p.seeds} networks of each kind"
    plot.label(a, EPOCH, "loss (sum over samples)", title, legend="best", **at)
    names = [drop.removeprefix("drop ").replace("to ", "to\n") for drop in DROPS]
    b.set(xticks=range(3), xticklabels=names, ylim=(0, None))
    lower = {**plot.BELOW, "bbox_to_anchor": (0.5, -0.33)}
    plot.label(b, "drop of the loss", EPOCH, "when the loss drops", legend=lower)
    one = typical(data.networks["gated"])
    for k, label in enumerate(("always open", *["two contexts"] * 3)):
        plot.theory(c, one.epoch / 1000, one["size"][:, k], plot.GREEN if k else plot.BLACK, label)
    labels = ("published: common aligns", "published: others appear")
    for epoch, colour, label in zip(PUBLISHED, (plot.BLACK, plot.GREEN), labels, strict=True):
        c.axvline(epoch / 1000, color=colour, lw=0.8, ls="--", label=label)
    title = "gated network: pathways"
    plot.label(c, EPOCH, "size of output / targets", title, legend=plot.BELOW, ylim=(0, None))
    return fig, (
        f"Left: loss of {p.seeds} networks of each kind, in bold the run nearest to the mean; dotted: "
        "plateaus. Middle: when a quarter of each drop is done, a dot per run. Right: outputs of the "
        "pathways of the gated network nearest to the mean, relative to the targets; dashed: the published "
        "epochs at which the common pathway aligns and the others appear. Not as published: all weights "
        f"start with standard deviation {p.std:g} and learn at once, in pathways of equal width. The "
        "authors' gated network has 240 units in the common pathway and 60 in each other, whose readouts "
        "start eight times as large; it is frozen until epoch 500, and its contextual pathways until "
        "12,000."
    )


@figure("gates")
def gates(p: Depth, data):
    fig, (first, second) = plot.figure(1, 2, height=3.0)
    d, whole = data.networks["relu"], {"ylim": (0, 1.02)}
    epoch = d.epoch / 1000
    plot.runs(first, epoch, d.open, plot.BLUE, "gates open")
    plot.runs(first, epoch, d.always, plot.RED, "units open for all samples")
    plot.runs(first, epoch, d.nonlinear, plot.BLACK, "outputs change if linear")
    share = "share of the weight"
    plot.label(first, EPOCH, f"{share}\nor of the targets", "first layer", legend=plot.BELOW, **whole)
    kinds = {"all three": plot.BLACK, "two": plot.GREEN, "one": plot.SKY, "none": "#dddddd"}
    shares = d.by_contexts.mean("run").T[::-1]
    second.stackplot(epoch, shares, labels=list(kinds), colors=list(kinds.values()), alpha=0.8, lw=0)
    same = "same gate\nfor all items\nof a context"
    second.plot(epoch, d.pure.mean("run"), color=plot.RED, ls="--", label=same)
    key = {**plot.BESIDE, "title": "open in contexts"}
    plot.label(second, EPOCH, share, "second layer", legend=key, xlim=(0, epoch[-1]), **whole)
    return fig, (
        f"Gates of {p.seeds} ReLU networks, units counted by the size of their weights. Left: first "
        "layer (median, least to most); black: how far outputs would move, relative to the targets, if "
        "it did not rectify. Right: contexts in which a unit of the second layer is open for more than "
        "half of the items, mean over networks; dashed: units whose gate is the same for all items of "
        "every context."
    )


SECTION, FIG = "make_haste_slowly section 6", "make_haste_slowly Fig. 6"
AGREE = quoted(SECTION, "close-agreement")
TIMING = quoted(SECTION, "relative-timing")
VARIANCE = quoted(FIG, "same-variance")
TENTH = "a tenth of the epoch, chosen here for 'close agreement'"
LATER = "The later the drop, the later are gated networks, at both widths of pathways that were tried."


@claims
def drops_of_the_loss(p: Depth, data):
    relu, gated = (typical(data.networks[kind]) for kind in NETWORKS)
    late = drops(gated) / drops(relu)
    width = (
        "Gated networks are early in the first drop and late in the last. At equal total width; wider "
        "pathways start stronger and are earlier in all drops alike."
    )
    for order, drop, ratio in zip(ORDER, DROPS, late, strict=True):
        name = f"{drop}, epoch, typical gated / ReLU network - 1"
        yield AGREE.near(f"{order}-drop-epoch", name, 0, ratio - 1, 0.1, width, TENTH)
    for k in (1, 2):
        name = f"{DROPS[k]}, epoch / that of the {DROPS[k - 1]}, typical gated / ReLU network - 1"
        yield TIMING.near(f"{ORDER[k]}-drop-delay", name, 0, late[k] / late[k - 1] - 1, 0.1, LATER, TENTH)
    apart = np.abs(relu.loss - gated.loss).mean() / START
    name = "typical losses apart, mean over epochs / initial loss"
    note = f"Mostly the plateau at {LEVELS[0]:g}, which gated networks do not have, and the end."
    bound = "a twentieth of the initial loss, chosen here for 'close agreement'"
    yield AGREE.below("typical-losses", name, 0.05, apart, note, bound)


@claims
def variance(p: Depth, data):
    few = f"From {p.seeds} runs." if p.seeds < 30 else ""
    relu, gated = (data.networks[kind] for kind in NETWORKS)
    spread, gated_spread = (np.log(drops(runs)).std(axis=0, ddof=1) for runs in (relu, gated))
    for order, drop, ratio in zip(ORDER, DROPS, gated_spread / spread, strict=True):
        name = f"{drop}, spread of the log epoch, gated / ReLU"
        half = "half as much again, chosen here for 'the same characteristics'"
        yield VARIANCE.near(f"{order}-drop-spread", name, 1, ratio, 0.5, few, half)
    deep, one = (np.log(crossing(d.epoch, d.loss, START / 2)).std(ddof=1) for d in (relu, data.shallow))
    name = "spread of the log epoch of half loss, two hidden layers / one"
    bound = "twice the spread, chosen here for 'which was not the case'"
    grows = quoted(SECTION, "variance-with-depth")
    yield grows.above("spread-with-depth", name, 2, deep / one, few, bound)
    left = [(runs.loss[:, -1] < 0.75 * LEVELS[3]).mean().item() for runs in (relu, gated)]
    name = f"networks that leave loss {LEVELS[3]:g} by the end, share, gated less ReLU"
    bound = "a tenth of the runs, chosen here for 'the same characteristics'"
    yield VARIANCE.near("leave-last-plateau", name, 0, left[1] - left[0], 0.1, LATER, bound)
    # No gated network has had the time to learn by the last epoch.
    learned = (relu.loss[:, -1] < 0.01 * START).mean()
    fails = quoted(SECTION, "not-all-runs")
    name = "ReLU networks that end below 1% of the initial loss, share"
    some = 0 < learned < 1
    bound = "the paper: some do and some do not"
    yield fails.relation("not-all-learn-relu", name, "some, not all", learned, some, bound=bound)
    settings = "Hyper-parameters used for the contextual tasks in Sections 4, 5 and 6."
    table = paper("make_haste_slowly Table 1", settings)
    name = "two hidden layers with the settings of Table 1: loss at epoch 8000 / initial"
    note = (
        "Nothing is learned from weights so small; the text itself speaks of epoch 12000. The authors' "
        f"script has {p.hidden} units, std {p.std:g} and 30,000 epochs."
    )
    bound = "half the loss, chosen here as the least that Fig. 6 would show"
    yield table.below("table-1-section-6", name, 0.5, data.table_1.loss[:, -1] / START, note, bound)


@claims
def stages(p: Depth, data):
    """Plateaus, and the epochs at which pathways appear."""
    in_stages = quoted(SECTION, "stages")
    gated = data.networks["gated"]
    shown = crossing(gated.epoch, gated["size"], 0.1, rising=True, axis=1)
    together = (
        "The first layer that the common pathway has grown serves the others too, which follow it within "
        f"{(shown[:, 1:] - shown[:, :1]).mean():.0f} epochs: there is no plateau of the common pathway alone."
    )
    rests = "500 epochs within 1% of the initial loss, chosen here for a plateau"
    lowest = f"{LEVELS[1]:g}, {LEVELS[2]:g} and {LEVELS[3]:g}"
    for kind, (title, _) in NETWORKS.items():
        first, *others = dwell(typical(data.networks[kind]))
        name = f"typical {title}, epochs at losses {lowest}"
        yield TIMING.above(f"plateaus-{kind}", name, 500, others, bound=rests)
        name, note = f"typical {title}, epochs at loss {LEVELS[0]:g}", together if kind == "gated" else ""
        yield TIMING.above(f"first-plateau-{kind}", name, 500, first, note, rests)
        name, second = f"{DROPS[1]}, {title}, epoch", drops(data.networks[kind])[:, 1]
        appear = finding(SECTION, "the paper, of contextual pathways; a twelfth of its epoch")
        yield appear.near(f"second-drop-{kind}", name, PUBLISHED[1], second, 1000)
    aligned = crossing(gated.epoch, gated.cosine[..., 0], 0.9, rising=True)
    name, bound = "common pathway aligned (cosine .9), epoch", "the paper; half of its epoch"
    yield in_stages.near("common-aligned", name, PUBLISHED[0], aligned, 250, together, bound)
    name, appear = "contextual pathways at .1 of the targets, epoch", shown[:, 1:].mean(axis=1)
    bound = "the paper; a twelfth of its epoch"
    yield in_stages.near("contextual-appear", name, PUBLISHED[1], appear, 1000, together, bound)
    outputs = quoted(SECTION, "plateau-outputs")
    name = f"outputs of typical networks less those of the plateaus at losses {lowest} / targets"
    nearest = [typical(data.networks[kind]).distance[:, 1:].min("epoch") for kind in NETWORKS]
    bound = "5% of the targets, chosen here for 'exact'"
    yield outputs.below("plateau-outputs", name, 0.05, nearest, bound=bound)


@claims
def gates_of_layers(p: Depth, data):
    open_, linear = quoted(SECTION, "first-layer-open"), quoted(FIG, "first-layer-linear")
    second = quoted(FIG, "second-layer")
    relu = data.networks["relu"]
    first, low, *_ = LEVELS
    end, common, by_context = relu.isel(epoch=-1), *(at_plateau(relu, k) for k in (0, 1))
    closes = f"All is open while the first pathway is alone, at {first:g}; then units turn and gates close."
    most = "nine tenths of the weight, chosen here for 'all'"
    name = "first layer open for all samples, share of the weight at {}".format
    what = name(f"loss {first:g}")
    yield open_.above("first-layer-open-plateau", what, 0.9, common.always, bound=most)
    yield open_.above("first-layer-open-end", name("the end"), 0.9, end.always, closes, most)
    little = "5% of the targets, chosen here for 'not use'"
    name = "outputs move if the first layer is linear, at {}".format
    what = name(f"loss {low:g}")
    yield linear.below("first-layer-linear-plateau", what, 0.05, by_context.nonlinear, bound=little)
    yield linear.below("first-layer-linear-end", name("the end"), 0.05, end.nonlinear, closes, little)
    name = f"second layer always open, share of the weight at loss {first:g}"
    yield second.above("second-layer-open-plateau", name, 0.9, common.by_contexts[:, 3], bound=most)
    name = "second layer open in two or three contexts, share of the weight at the end"
    _, in_one, in_two, _ = end.by_contexts.mean("run").values
    note, shared = (
        f"Others are open in one: {in_one:.2f}; two: {in_two:.2f}.",
        end.by_contexts[:, 2:].sum("contexts_open"),
    )
    yield second.above("second-layer-contexts", name, 0.9, shared, note, most)


EXPERIMENT = Experiment(
    "depth",
    "Two hidden layers: does the first one gate, and do pathways come in stages?",
    "make_haste_slowly section 6, Fig. 6, Table 1",
    Depth(),
    # As long as the full form, from the same sqrt(hidden) std, which sets how long plateaus are.
    Depth(seeds=4, hidden=64, std=6e-4 * (420 / 64) ** 0.5, shallow=100),
    minutes=(0.4, 150),
    needs_full=("*-drop-spread", "spread-with-depth", "third-drop-delay"),  # spreads over 100 runs
)
