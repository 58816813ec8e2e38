"""Items in three contexts, learned by ReLU networks with two hidden layers; beside them the gated linear
network that imitates them: a linear first layer for all, then a pathway that is always open and three that
are open in two contexts each. The gated networks are trained by the authors' schedule: frozen at first,
then the common pathway as if alone, then the others on what it leaves. Both kinds rest on the same plateaus
at the same times."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

import neuralrace as nr
from neuralrace import plot
from neuralrace.dynamics import State
from neuralrace_papers.framework import Data, Experiment, figure, part, require, rows
from neuralrace_papers.make_haste_slowly.modes import ITEMS, by_case

CONTEXTS = 3
X, Y = nr.tasks.contexts(CONTEXTS).arrays
GATES = np.repeat(1 - np.eye(CONTEXTS)[::-1], ITEMS, axis=1)  # of the pathways of two contexts
# Outputs (4, n, out): means over all samples, then over 8, 4 and 2 items of each context.
PLATEAUS = np.stack([np.repeat(Y.reshape(-1, n, Y.shape[1]).mean(axis=1), n, axis=0) for n in (24, 8, 4, 2)])
START, *LEVELS = 0.5 * np.array([(Y**2).sum(), *((Y - PLATEAUS) ** 2).sum(axis=(1, 2))])
COMMON = [START, *LEVELS[1:]]  # losses between which drops are timed
ORDER = ("first", "second", "third")
SAMPLED = {15_000: 2, 22_000: 3}  # epochs at which the authors' script shows outputs, and plateaus there
KINDS = {"relu": ("ReLU network", plot.BLUE), "gated": ("gated linear network", plot.ORANGE)}
EPOCH = "epoch (thousands)"
Layers = list[Any]  # weights of the gated network: first layer, second layer, readout


@dataclass(frozen=True)
class Depth:
    seeds: Annotated[int, "random starts of each network; the paper has 100"] = 12
    hidden: Annotated[int, "units of each hidden layer; 4/7 of the second in the common pathway"] = 420
    std: Annotated[float, "standard deviation of initial weights of the ReLU networks"] = 6e-4
    gated_std: Annotated[
        tuple[float, ...], "that of the gated networks: first layer, second, readout, readout of the others"
    ] = (5.75e-4, 5.5e-4, 5.5e-4, 4e-3)
    switches: Annotated[tuple[int, int], "epochs at which the common pathway and the others start"] = (
        500, 12_000,
    )  # fmt: skip
    lr: Annotated[float, "learning rate, on the loss summed over samples"] = 1e-3
    epochs: Annotated[int, "steps of training"] = 30_000
    save: Annotated[int, "times that are saved"] = 301
    shallow: Annotated[int, "units of the networks with one hidden layer"] = 700
    shallow_seeds: Annotated[int, "random starts of these"] = 8

    def __post_init__(self) -> None:
        require(self.seeds >= 2, f"seeds must be at least 2, got {self.seeds}")
        require(self.hidden % 7 == 0, f"hidden must be a multiple of 7, got {self.hidden}")
        require(self.epochs % (self.save - 1) == 0, f"save - 1 must divide {self.epochs}, got {self.save}")

    def descend(
        self, task: nr.Task, std: float, epochs: int, seeds: Any, record: Any = None
    ) -> nr.Trajectory:
        """ReLU networks from small random weights."""
        start, lr = nr.init.gaussian(task.graph, std, seeds), self.lr * len(X)
        more: dict[str, Any] = {"save_weights": False, "record": record, "dtype": "float32"}
        return nr.descend(task, start, lr, epochs, self.save, **more)


@part(each=lambda p: [(kind, seed) for kind in KINDS for seed in range(p.seeds)])
def networks(p: Depth, item: tuple[str, int]):
    """A ReLU network with two hidden layers, or a gated linear one by the authors' schedule."""
    kind, seed = item
    dims = {"distance": "plateau", "by_contexts": "contexts_open", "size": "pathway"}
    if kind == "relu":
        run = p.descend(relu_task(p.hidden, p.hidden), p.std, p.epochs, [seed], relu_state)
        found = {"loss": len(X) * run.loss[0], **{k: v[0] for k, v in run.recorded.items()}}
    else:
        found = by_schedule(p, gated_weights(p, seed))
    epoch = np.linspace(0, p.epochs, p.save)
    return {"epoch": ("epoch", epoch), **{k: (f"epoch {dims.get(k, '')}", v) for k, v in found.items()}}


@part
def shallow(p: Depth):
    """ReLU networks with one hidden layer, as in section 5."""
    run = p.descend(relu_task(p.shallow), 0.005 / 700, 8000, range(p.shallow_seeds))
    return {"epoch": ("epoch", run.t / (p.lr * len(X))), "loss": ("run epoch", len(X) * run.loss)}


@part
def table_1(p: Depth):
    """A ReLU network with two hidden layers and the settings of Table 1: 700 units, std 1e-7, 8000 epochs."""
    run = p.descend(relu_task(p.shallow, p.shallow), 1e-7 * (700 / p.shallow) ** 0.5, 8000, [0])
    return {"loss": ("epoch", len(X) * run.loss[0])}


def relu_task(*hidden: int) -> nr.Task:
    layers = {f"h{k}": "relu" for k in range(1, len(hidden) + 1)}
    return nr.Task(nr.Graph.chain([X.shape[1], *hidden, Y.shape[1]], activations=layers), X, Y)


def gated_weights(p: Depth, seed: int) -> Layers:
    """Initial weights of the gated network; units of the common pathway come first."""
    rng, common = np.random.default_rng(seed), 4 * p.hidden // 7
    first, second, readout, others = p.gated_std
    shapes = {(p.hidden, X.shape[1]): first, (p.hidden, p.hidden): second, (Y.shape[1], p.hidden): 1.0}
    weights = [std * rng.standard_normal(shape) for shape, std in shapes.items()]
    weights[2] *= np.where(np.arange(p.hidden) < common, readout, others)
    return [jnp.asarray(w, jnp.float32) for w in weights]


def pathway_outputs(weights: Layers) -> Any:
    """Outputs of the common pathway and of the others, `(4, n, out)`."""
    one, two, three = weights
    edges = np.cumsum([0, 4, 1, 1, 1]) * len(two) // 7
    whole, x = two @ one, jnp.asarray(X, one.dtype)
    outputs = jnp.stack([x @ (three[:, a:b] @ whole[a:b]).T for a, b in pairwise(edges)])
    return outputs * np.concatenate([np.ones_like(GATES[:1]), GATES])[:, :, None].astype(one.dtype)


def objective(weights: Layers, others: Any) -> Any:
    """What the authors' script descends: loss of the common pathway alone, and of the others on its rest."""
    common, *rest = pathway_outputs(weights)
    y = jnp.asarray(Y, common.dtype)
    left = y - jax.lax.stop_gradient(common) - sum(rest)
    return 0.5 * ((y - common) ** 2).sum() + 0.5 * others * (left**2).sum()


def gated_state(weights: Layers) -> dict[str, Any]:
    """Loss, distance from plateaus, size of each pathway, and cosine of the common one and its first mode."""
    outputs = pathway_outputs(weights)
    total = outputs.sum(axis=0)
    flat = jnp.asarray(PLATEAUS[0] / np.linalg.norm(PLATEAUS[0]), total.dtype)
    return {
        "loss": 0.5 * ((total - jnp.asarray(Y, total.dtype)) ** 2).sum(),
        "distance": relative_size(total - PLATEAUS.astype(total.dtype)),
        "size": relative_size(outputs),
        "cosine": (outputs[0] * flat).sum() / jnp.sqrt((outputs[0] ** 2).sum()),
    }


def by_schedule(p: Depth, weights: Layers) -> dict[str, np.ndarray]:
    """Train a gated network: frozen, then the common pathway alone, then all."""
    begin, others = p.switches

    def step(epoch: Any, w: Layers) -> Layers:
        slope = jax.grad(objective)(w, jnp.where(epoch >= others, 1.0, 0.0))
        rate = jnp.where(epoch >= begin, p.lr, 0.0).astype(jnp.float32)
        return [a - rate * b for a, b in zip(w, slope, strict=True)]

    def until_next(w: Layers, epoch: Any) -> tuple[Layers, dict[str, Any]]:
        later = jax.lax.fori_loop(epoch, epoch + every, step, w)
        return later, gated_state(later)

    every = p.epochs // (p.save - 1)
    _, path = jax.jit(lambda w: jax.lax.scan(until_next, w, jnp.arange(0, p.epochs, every)))(weights)
    return {k: np.concatenate([np.asarray(v)[None], path[k]]) for k, v in gated_state(weights).items()}


def relu_state(state: State) -> dict[str, Any]:
    """Gates of both layers, each unit counted by its size (`nr.unit_sizes`).

    open, always: mean gate of the first layer, and share of its units that are open on all samples.
    nonlinear: change of the outputs, relative to the targets, if the first layer did not rectify.
    by_contexts: shares of the second layer open for most items in 0, 1, 2 and 3 contexts.
    """
    w1, w2, w3 = (state.weights[e] for e in ("x->h1", "h1->h2", "h2->y"))
    first, second = nr.unit_sizes(w1, w2, normalise=True), nr.unit_sizes(w2, w3, normalise=True)
    h1, g2 = state.activity("h1"), state.activity("h2") > 0
    rectified = X.astype(w1.dtype) @ w1.T - h1
    n_open = (g2.reshape(CONTEXTS, ITEMS, -1).mean(axis=1) > 0.5).sum(axis=0)
    return {
        "distance": relative_size(state.activity("y") - PLATEAUS.astype(w1.dtype)),
        "open": (h1 > 0).mean(axis=0) @ first,
        "always": (h1 > 0).all(axis=0) @ first,
        "nonlinear": relative_size(((rectified @ w2.T) * g2) @ w3.T),  # with the gates of the second layer
        "by_contexts": second @ (n_open[:, None] == np.arange(CONTEXTS + 1)),
    }


def relative_size(outputs: Any) -> Any:
    """Norm of outputs `(..., n, out)`, relative to the targets."""
    return jnp.sqrt((outputs**2).sum(axis=(-2, -1))) / np.linalg.norm(Y)


def typical(runs: xr.Dataset) -> xr.Dataset:
    """The run whose loss is closest to the mean: sum of squares over times, as in the authors' script."""
    return runs.isel(run=int(((runs.loss - runs.loss.mean("run")) ** 2).sum("epoch").argmin("run")))


def drops(runs: xr.Dataset) -> np.ndarray:
    """Epochs at which a quarter of the way to the next plateau is done, `(..., 3)`; nan if never."""
    marks = COMMON[:-1] + np.diff(COMMON) / 4
    return nr.measure.crossing(runs.epoch, runs.loss.values[..., None, :], marks)


def at_plateau(runs: xr.Dataset, plateau: int) -> xr.Dataset:
    """Each run when its outputs are nearest to those of a plateau."""
    return runs.isel(epoch=runs.distance.isel(plateau=plateau).argmin("epoch"))


@figure("losses")
def losses(p: Depth, data: Data):
    fig, (a, b, c) = plot.figure(1, 3, height=3.1, width_ratios=[1.5, 1.1, 1.2])
    every = by_case(data.networks, "run")
    for side, (kind, (name, colour)) in zip((-0.15, 0.15), KINDS.items(), strict=True):
        runs = every[kind]
        epoch = runs.epoch / 1000
        a.plot(epoch, runs.loss.T, color=colour, lw=0.5, alpha=min(0.5, 4 / p.seeds + 0.05))
        plot.theory(a, epoch, typical(runs).loss, colour, name)
        x = np.arange(3) + side + np.linspace(-0.1, 0.1, p.seeds)[:, None]
        b.plot(x, drops(runs) / 1000, "o", color=colour, ms=2, alpha=0.6)
        plot.key(b, {name: "o"}, colour)
    for level in LEVELS:
        a.axhline(level, color=plot.BLACK, lw=0.6, ls=":", zorder=0, label="plateaus of the data")
    at = {"ylim": (0, None), "yticks": np.round([START, *LEVELS, 0], 6)}
    plot.label(a, EPOCH, "loss, summed over samples", f"{p.seeds} networks of each kind", legend="best", **at)
    b.set(xticks=range(3), xticklabels=[f"{x:g} to\n{y:g}" for x, y in pairwise(COMMON)], ylim=(0, None))
    lower = {**plot.BELOW, "bbox_to_anchor": (0.5, -0.33)}
    plot.label(b, "drop of the loss", EPOCH, "when the loss drops", legend=lower)
    one = typical(every["gated"])
    for k, label in enumerate(("always open", *["open in two contexts"] * 3)):
        plot.theory(c, one.epoch / 1000, one["size"][:, k], plot.GREEN if k else plot.BLACK, label)
    for epoch, colour, name in zip(p.switches, (plot.BLACK, plot.GREEN), ("common", "others"), strict=True):
        c.axvline(epoch / 1000, color=colour, lw=0.8, ls="--", label=f"{name} switched on")
    plot.label(c, EPOCH, "size of output / targets", "pathways", legend=plot.BELOW, ylim=(0, None))
    return fig, (
        f"Left: loss of {p.seeds} networks of each kind, in bold the run nearest to the mean; dotted lines "
        "are the plateaus that the data have. Middle: epochs at which a quarter of each drop is done, one "
        "dot for each run. Right: outputs of the pathways of the gated network nearest to the mean. The "
        f"gated networks follow the authors' schedule: frozen until epoch {p.switches[0]}, the pathways of "
        f"two contexts until epoch {p.switches[1]}, with readouts about eight times as large as those of "
        "the common pathway."
    )


@figure("gates")
def gates(p: Depth, data: Data):
    fig, (first, second) = plot.figure(1, 2, height=3.0)
    d, whole = by_case(data.networks, "run")["relu"], {"ylim": (0, 1.02)}
    epoch = d.epoch / 1000
    plot.runs(first, epoch, d.open, plot.BLUE, "gates open")
    plot.runs(first, epoch, d.always, plot.RED, "units open for all samples")
    plot.runs(first, epoch, d.nonlinear, plot.BLACK, "outputs change if linear")
    share = "share of the weight"
    plot.label(first, EPOCH, f"{share}\nor of the targets", "first layer", legend=plot.BELOW, **whole)
    kinds = {"all three": plot.BLACK, "two": plot.GREEN, "one": plot.SKY, "none": "#dddddd"}
    shares = d.by_contexts.mean("run").T[::-1]
    second.stackplot(epoch, shares, labels=list(kinds), colors=list(kinds.values()), alpha=0.8, lw=0)
    key = {**plot.BESIDE, "title": "open in contexts"}
    plot.label(second, EPOCH, share, "second layer", legend=key, xlim=(0, epoch[-1]), **whole)
    return fig, (
        f"Gates of {p.seeds} ReLU networks; units count by the size of their weights. Left: first layer "
        "(median and range). The black curve tells how far outputs would move, relative to the targets, if "
        "this layer did not rectify. Right: number of contexts in which a unit of the second layer is open "
        "for more than half of the items, mean over networks."
    )


@rows
def agreement(p: Depth, data: Data):
    every = by_case(data.networks, "run")
    relu, gated = every["relu"], every["gated"]
    one, two = typical(relu), typical(gated)
    late = drops(two) / drops(one)
    for order, ratio in zip(ORDER, late, strict=True):
        yield f"{order}-drop-epoch", ratio - 1
    for k in (1, 2):
        yield f"{ORDER[k]}-drop-delay", late[k] / late[k - 1] - 1
    yield "drops-largest", np.abs(late - 1).max()
    yield "typical-losses", np.abs(one.loss - two.loss).mean() / START
    spread = [np.log(drops(runs)).std(axis=0, ddof=1) for runs in (relu, gated)]
    for order, ratio in zip(ORDER, spread[1] / spread[0], strict=True):
        yield f"{order}-drop-spread", ratio
    crossing = nr.measure.crossing
    deep, flat = (np.log(crossing(d.epoch, d.loss, START / 2)).std(ddof=1) for d in (relu, data.shallow))
    yield "spread-with-depth", deep / flat
    learned = [(runs.loss[:, -1] < 0.01 * START).mean() for runs in (relu, gated)]
    yield from zip(("not-all-learn-relu", "not-all-learn-gated"), learned, strict=True)
    near = {"epoch": list(SAMPLED), "method": "nearest"}
    off = [d.distance.sel(**near).values[range(2), [*SAMPLED.values()]] for d in (one, two)]
    yield "plateau-outputs", off
    yield "table-1-section-6", data.table_1.loss[-1] / START
    rises = lambda values, level: crossing(gated.epoch, values, level, rising=True, axis=1)  # noqa: E731
    yield "common-aligned", rises(gated.cosine, 0.9)
    yield "contextual-appear", rises(gated["size"], 0.1)[:, 1:].min(axis=1)


@rows
def gates_of_layers(p: Depth, data: Data):
    relu = by_case(data.networks, "run")["relu"]
    end, common, by_context = relu.isel(epoch=-1), *(at_plateau(relu, k) for k in (0, 1))
    yield "first-layer-open-plateau", common.always
    yield "first-layer-open-end", end.always
    yield "first-layer-linear-plateau", by_context.nonlinear
    yield "first-layer-linear-end", end.nonlinear
    yield "second-layer-open-plateau", common.by_contexts[:, 3]
    yield "second-layer-contexts", end.by_contexts[:, 2:].sum("contexts_open")
    yield "contexts-open", end.by_contexts.values @ np.arange(CONTEXTS + 1)


EXPERIMENT = Experiment(
    "depth",
    "Two hidden layers: the first one is shared, and pathways come in stages",
    "make_haste_slowly section 6, Fig. 6, Table 1",
    Depth(),
    # As long as the full form, from the same sqrt(hidden) std, which sets how long plateaus are.
    quick={
        "seeds": 2, "hidden": 63, "std": 6e-4 * (420 / 63) ** 0.5, "shallow": 100, "shallow_seeds": 2,
        "gated_std": (1.48e-3, 1.42e-3, 1.42e-3, 1.03e-2),
    },
    minutes=(0.4, 20),
)  # fmt: skip
