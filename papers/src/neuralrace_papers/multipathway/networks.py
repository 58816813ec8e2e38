"""Networks with parallel pathways on the task of Eq. 32, and what their initial weights predict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import numpy as np
import xarray as xr

import neuralrace as nr
from neuralrace.dynamics import State

Y = nr.tasks.hierarchy(4).arrays[1]
U, S, _vt = np.linalg.svd(Y.T, full_matrices=False)
V = _vt.T
GROUPS = {"mode 1": [0], "mode 2": [1], "modes 3-4": [2, 3], "modes 5-8": [4, 5, 6, 7]}  # of equal strength
K = "run t pathway output_mode input_mode"
METHOD = nr.Adaptive(rtol=1e-6)
WIDE = 64  # from here on a low-rank flow saves time
AT_ONCE = 12e7  # as many weights at a time, so that they fit into memory


@dataclass(frozen=True)
class Published:
    """What all networks of section 4 have in common."""

    seeds: Annotated[int, "random starts of each network"] = 20
    width: Annotated[int, "units of each hidden layer"] = 1000
    std: Annotated[float, "standard deviation of initial weights"] = 0.01
    lr: Annotated[float, "published learning rate, on the squared error summed over samples"] = 0.01
    depths: Annotated[tuple[int, ...], "depths of the two pathways"] = (2, 3, 4, 7)

    @property
    def epoch(self) -> float:
        """Flow time of an epoch: the published loss is summed over samples and has no factor 1/2."""
        return 2 * len(Y) * self.lr


def task(depths: Sequence[int], width: int, activation: str = "linear", every: bool = False) -> nr.Task:
    """The task of Eq. 32 for pathways of these depths. With `every`, the activation follows the last layer of
    each pathway too: its 15 outputs are a node of their own, which passes them on as they are."""
    hidden = [[width] * (d - 1) + [Y.shape[1]] * every for d in depths]
    graph = nr.Graph.pathways(len(Y), Y.shape[1], hidden)
    activations = dict.fromkeys(graph.hidden, activation)
    passing = {path[-1] for path in graph.paths()} if every else set()
    edges = {e: nr.Edge(*ends, diagonal=e in passing) for e, ends in graph.edges.items()}
    return nr.tasks.hierarchy(4, graph=nr.Graph(graph.nodes, edges, activations))


def draw(task: nr.Task, std: float, seeds: int, series: int) -> nr.init.Weights:
    """Weights from seeds of their own for every series, so that series can be compared as independent."""
    drawn = nr.init.gaussian(task.graph, std, range(1000 * series, 1000 * series + seeds))
    return {e: np.ones_like(w) if e in task.graph.diagonal else w for e, w in drawn.items()}


def times(t1: float) -> np.ndarray:
    return t1 * np.linspace(0, 1, 121) ** 3  # learning is early


@cache  # equal graphs share a compilation
def contributions(graph: nr.Graph) -> Callable[[State], dict[str, Any]]:
    """What to record: K of the pathways' outputs for the unit vectors."""
    return lambda state: {"outputs": nr.measure.contributions(graph, state, U, V)}


def train(made: nr.Task, start: nr.init.Weights, t1: float, error: float = 0.01) -> xr.Dataset:
    """Loss and K of linear networks by gradient flow, as many at a time as fit into memory."""
    save, wide = times(t1), max(made.graph.nodes.values()) > WIDE
    method = nr.LowRank(error) if wide else METHOD
    keep: dict[str, Any] = {"save_weights": False, "record": contributions(made.graph)} if wide else {}
    at_once = max(1, int(AT_ONCE // made.graph.n_weights // (1 if wide else len(save))))
    batches, runs = [], len(next(iter(start.values())))
    for first in range(0, runs, at_once):
        w = {e: v[first : first + at_once] for e, v in start.items()}
        run = nr.flow(made, w, t1, save, method=method, **keep)
        k = run.recorded["outputs"] if wide else nr.measure.contributions(made.graph, run, U, V)
        batches.append(
            xr.Dataset({"t": ("t", run.t), "loss": (("run", "t"), run.loss), "outputs": (K.split(), k)})
        )
    found: Any = xr.concat(batches, "run", data_vars="minimal")
    return found


def descent(
    p: Published, task: nr.Task, series: int, steps: int, save: np.ndarray, dtype: str = "float64"
) -> dict[str, Any]:
    """Loss and K of networks by steps of the published rate."""
    graph = task.graph
    start, record = draw(task, p.std, p.seeds, series), contributions(graph)
    keep: dict[str, Any] = {"save_weights": False, "record": record, "dtype": dtype}
    run = nr.descend(task, start, p.epoch, steps, save, rates=nr.Rates(frozen=graph.diagonal), **keep)
    return {"t": ("t", run.t), "loss": ("run t", run.loss), "outputs": (K, run.recorded["outputs"])}


def signals(task: nr.Task, w: nr.init.Weights) -> tuple[nr.Task, dict[str, np.ndarray]]:
    """The small network between the signals that pass through each hidden layer at the start, the modes
    forwards and backwards, and its weights: 16 neurons in each layer."""
    frames = {}
    for path in task.graph.paths():
        nodes, forward, backward = [task.graph.edges[e][1] for e in path[:-1]], [V], [U]
        for edge, back in zip(path[:-1], path[:0:-1], strict=True):
            forward.append(w[edge] @ forward[-1])
            backward.append(np.swapaxes(w[back], -1, -2) @ backward[-1])
        for node, f, b in zip(nodes, forward[1:], backward[:0:-1], strict=True):
            frames[node] = np.linalg.qr(np.concatenate([f, b], axis=-1))[0]
    small = {}
    for edge, (source, target) in task.graph.edges.items():
        left = np.swapaxes(frames[target], -1, -2) @ w[edge] if target in frames else w[edge]
        small[edge] = left @ frames[source] if source in frames else left
    return task.on(task.graph.resized({node: q.shape[-1] for node, q in frames.items()})), small


def predict(task: nr.Task, w: nr.init.Weights, std: float, ts: np.ndarray) -> dict[str, Any]:
    """K of modes 1 and 2 as the initial weights predict it: by Eq. 17, at the end; and by the flow of the
    weights between the initial signals, over time. And the initial growth of K over that of Eq. 17."""
    g = task.graph
    small, b = signals(task, w)
    k = leading(nr.measure.contributions(small.graph, nr.flow(small, b, save=ts, method=METHOD), U, V))
    # Eq. 17 takes hidden layers for sigma times orthogonal, and of the last one what K(0) says.
    depths, sigma = [len(path) for path in g.paths()], std * np.sqrt(g.nodes[g.hidden[0]])
    start, rate = initial_growth(small, b, sigma)
    p0 = start / sigma ** np.array(depths)[:, None]
    eq17 = [
        [nr.exact.pathways(ts[-1] / len(Y), S[m], depths, own[:, m], sigma) for m in (0, 1)] for own in p0
    ]
    return {
        "eq17": ("run pathway mode", np.swapaxes(eq17, 1, 2)),
        "signals": ("run t pathway mode", k),
        "rate": ("run pathway mode", rate),
    }


def initial_growth(task: nr.Task, w: Mapping[str, np.ndarray], sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """K of modes 1 and 2, and its rate of growth over that of Eq. 17 with p = 0, each `(run, pathway, mode)`.

    K is a product of layers: its rate is a sum in which each of them in turn stands for its own rate.
    """
    slope, paths = nr.gradient(task, w), task.graph.paths()
    depths, growth = np.array([len(path) for path in paths]), 0.0
    for k in range(depths.max()):
        rates = {path[k]: -slope[path[k]] for path in paths if k < len(path)}
        changed = leading(nr.measure.contributions(task.graph, {**w, **rates}, U, V))
        growth = growth + changed * (k < depths)[:, None]
    start = leading(nr.measure.contributions(task.graph, w, U, V))
    return start, growth * len(Y) / (sigma ** (2 * depths[:, None] - 2) * S[:2])


def leading(k: Any) -> np.ndarray:
    """Strengths of modes 1 and 2 in contributions, `(..., 2)`."""
    return np.diagonal(np.asarray(k), axis1=-2, axis2=-1)[..., :2]


def concentration(k: xr.DataArray) -> np.ndarray:
    """How much each group of modes is on one pathway at the end, `(run, group)`."""
    return nr.measure.concentration(k[:, -1], list(GROUPS.values()))


def two_modes(run: xr.Dataset) -> np.ndarray:
    """Mean concentration of modes 1 and 2 at the end, `(run,)`."""
    return concentration(run.outputs)[:, :2].mean(axis=1)


def off_diagonal(run: xr.Dataset) -> np.ndarray:
    """Share of squared K between modes of different strength, mean over pathways, `(run, t)`."""
    return nr.measure.off_diagonal_share(run.outputs, list(GROUPS.values())).mean(axis=-1)


def first_share(k: np.ndarray) -> np.ndarray:
    """The first pathway's part of modes 1 and 2, `(run, mode)`, of contributions `(run, pathway, mode)`."""
    return k[:, 0] / k.sum(axis=1)


def trend(x: Sequence[int], values: Sequence[np.ndarray], direction: str) -> float:
    """One-sided p value of Spearman's rank correlation of x with the values, arrays of one per network."""
    from scipy.stats import spearmanr

    at = np.repeat(x, [len(v) for v in values])
    result: Any = spearmanr(at, np.concatenate(values), alternative=direction)
    return float(result.pvalue)
