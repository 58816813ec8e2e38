"""Linear networks with parallel pathways on the task of multipathway Eq. 32, and what their initial weights
predict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import spearmanr

import neuralrace as nr
from neuralrace.lowrank.bases import reduced_network
from neuralrace.subspace import shrink
from neuralrace.tasks.structured import tree_features
from neuralrace_papers.framework.experiment import Parameters, option
from neuralrace_papers.framework.store import dataset

Y = tree_features(4)
U, S, _vt = np.linalg.svd(Y.T, full_matrices=False)
V = _vt.T
PREDICTIONS = ("Eq. 17", "modes", "signals")
GROUPS = {"mode 1": [0], "mode 2": [1], "modes 3-4": [2, 3], "modes 5-8": [4, 5, 6, 7]}  # of equal strength
K = "run t pathway output_mode input_mode"
METHOD = nr.Adaptive(rtol=1e-6)
WIDE = 64  # from here on a low-rank flow saves time
AT_ONCE = 12e7  # as many weights at a time, so that they fit into memory


class Published(Parameters):
    """What all networks of section 4 have in common."""

    pathways: int = option(2, "parallel pathways", least=2)
    width: int = option(1000, "units of each hidden layer", least=8)
    std: float = option(0.01, "standard deviation of initial weights")
    lr: float = option(0.01, "published learning rate, on the squared error summed over samples")
    depths: tuple[int, ...] = option(
        (2, 3, 4, 7), "depths of the pathways", least=2, count=2, increasing=True
    )

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
    passing = [path[-1] for path in graph.paths()] if every else []
    return nr.tasks.hierarchy(4, graph=nr.Graph(graph.nodes, graph.edges, activations, diagonal=passing))


def initial_bases(task: nr.Task, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Bases (size, k) of what passes each wide node, forwards and backwards, at the initial weights.

    Nodes with no more neurons than that are left out.
    """
    net = reduced_network(task, weights, dict.fromkeys(task.graph.shapes, 1.0))
    return {v: q.T for v, q in net.basis.items() if len(q) < q.shape[1]}


def draw(task: nr.Task, std: float, seeds: int, series: int) -> nr.init.Weights:
    """Weights from seeds of their own for every series, so that series can be compared as independent."""
    drawn = nr.init.gaussian(task.graph, std, range(1000 * series, 1000 * series + seeds))
    return {e: np.ones_like(w) if e in task.graph.diagonal else w for e, w in drawn.items()}


def times(t1: float) -> np.ndarray:
    return t1 * np.linspace(0, 1, 121) ** 3  # learning is early


@cache  # equal graphs share a compilation
def contributions(graph: nr.Graph) -> Callable[[nr.State], dict[str, Any]]:
    """What to record: K of the pathways' outputs for the unit vectors."""
    return lambda state: {"outputs": nr.measure.contributions(graph, state, U, V)}


def train(
    p: Any, depths: Sequence[int], series: int, t1: float, seeds: int, size: tuple[int, float] | None = None
) -> xr.Dataset:
    """Linear networks, as many at a time as fit into memory, and predictions of their K.

    Parameters
    ----------
    p : Pathways
    depths : sequence of int
        Of the pathways.
    series, seeds : int
        Random starts, as in `draw`.
    t1 : float
        End of training.
    size : tuple of int and float, optional
        Width and standard deviation, where they are not those of p; then nothing is predicted.
    """
    width, std = size or (p.width, p.std)
    made = task(depths, width)
    start, ts, wide = draw(made, std, seeds, series), times(t1), max(made.graph.nodes.values()) > WIDE
    method: nr.LowRank | nr.Adaptive = nr.LowRank(p.error) if wide else METHOD
    keep: dict[str, Any] = {"save_weights": False, "record": contributions(made.graph)} if wide else {}
    at_once = max(1, int(AT_ONCE // made.graph.n_weights // (1 if wide else len(ts))))
    batches: list[xr.Dataset] = []
    for first in range(0, seeds, at_once):
        w = {n: v[first : first + at_once] for n, v in start.items()}
        if p.method == "flow":
            run = nr.flow(made, w, t1, ts, method=method, **keep)
        else:
            run = nr.descend(made, w, p.epoch, round(t1 / p.epoch), ts, **keep)
        k = run.recorded["outputs"] if wide else nr.measure.contributions(made.graph, run, U, V)
        found = predict(made, w, std, run.t) if size is None else {}
        found |= {"t": ("t", run.t), "loss": ("run t", run.loss), "outputs": (K, k)}
        batches.append(dataset("linear", found))
    return xr.concat(batches, "run", data_vars="minimal", coords="minimal", compat="equals", join="exact")


def descent(
    p: Any, task: nr.Task, series: int, steps: int, save: np.ndarray, dtype: str = "float64"
) -> dict[str, Any]:
    """Loss and K of networks by steps of the published rate."""
    graph = task.graph
    start, record = draw(task, p.std, p.seeds, series), contributions(graph)
    keep: dict[str, Any] = {"save_weights": False, "record": record, "dtype": dtype}
    run = nr.descend(task, start, p.epoch, steps, save, rates=nr.Rates(frozen=graph.diagonal), **keep)
    return {"t": ("t", run.t), "loss": ("run t", run.loss), "outputs": (K, run.recorded["outputs"])}


def predict(task: nr.Task, w: dict[str, np.ndarray], std: float, ts: np.ndarray) -> dict[str, Any]:
    """K of modes 1-2 from the initial weights, at the end: by Eq. 17; by the neural race, a network with one
    neuron per layer and mode; and by the flow of the weights between the signals that pass through the layers
    at the start, forwards and backwards, which is there for all times too.
    """
    g, seeds = task.graph, len(next(iter(w.values())))
    each = [initial_bases(task, {n: v[k] for n, v in w.items()}) for k in range(seeds)]
    frames = {n: np.stack([f[n] for f in each]) for n in each[0]}
    small = task.on(g.resized({n: q.shape[-1] for n, q in frames.items()})) if frames else task
    b = shrink(g, w, frames)
    signals = leading(nr.measure.contributions(small.graph, nr.flow(small, b, save=ts, method=METHOD), U, V))

    reduced = nr.reduce(small, "shared")
    solved = reduced.solve(t1=ts[-1], save=ts, b0=reduced.strengths(b), method=nr.Adaptive(1e-6, 1e-11))
    right = np.abs(reduced.family.right[g.paths()[0][0]].T @ V[:, :2]).argmax(axis=0)
    ends = [np.prod([np.asarray(solved.b[e])[:, -1] for e in path], axis=0) for path in g.paths()]
    modes = np.stack(ends, axis=-2)[..., right]

    # Eq. 17 takes hidden layers for sigma times orthogonal, and of the last one what K(0) says.
    depths, sigma = [len(path) for path in g.paths()], std * np.sqrt(g.nodes[g.hidden[0]])
    start, rate = initial_growth(small, b, sigma)
    p0 = start / sigma ** np.array(depths)[:, None]
    eq17 = [[nr.exact.pathways(ts[-1] / len(Y), S[m], depths, k[:, m], sigma) for m in (0, 1)] for k in p0]
    predicted = np.stack([np.swapaxes(eq17, 1, 2), modes, signals[:, -1]], axis=1)
    return {
        "prediction": ("prediction", list(PREDICTIONS)),
        "predicted": ("run prediction pathway mode", predicted),
        "signals": ("run t pathway mode", signals),
        "rate": ("run pathway mode", rate),
    }


def leading(k: Any) -> np.ndarray:
    """Strengths of modes 1 and 2 in contributions, `(..., 2)`."""
    return np.diagonal(np.asarray(k), axis1=-2, axis2=-1)[..., :2]


def initial_growth(task: nr.Task, w: dict[str, np.ndarray], sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """K of modes 1-2, and its rate of growth over that of Eq. 17 with p = 0, each `(run, pathway, mode)`.

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


def from_open_outputs(task: nr.Task, start: Mapping[str, np.ndarray]) -> np.ndarray:
    """K if each answer were shared evenly by the pathways whose output for it starts above zero; the others
    are silent and never learn it, with ReLU after every layer. `(run, pathway, mode, mode)`."""
    nodes = [task.graph.edges[path[-1]][0] for path in task.graph.paths()]
    shown = [nr.activity(task, start, node, {"x": np.eye(len(Y))}) > 0 for node in nodes]
    above = np.stack(shown, axis=1)  # (run, pathway, item, feature)
    share = above / np.maximum(above.sum(axis=1, keepdims=True), 1) * Y
    return np.einsum("om,raio,in->ramn", U, share, V)


def off_diagonal_rates(depth: int, pathways: int, width: int, std: float, t1: float) -> dict[str, Any]:
    """Growth rates of off-diagonal perturbations along a diagonal solution of Eq. 11.

    The flow is minus a gradient, so its Jacobian is symmetric; diagonal and off-diagonal entries decouple.
    """
    one, rng = np.eye(len(S)), np.random.default_rng(depth)
    graph = nr.Graph.pathways(len(S), len(S), [[len(S)] * (depth - 1)] * pathways)
    task = nr.Task(graph, one, np.diag(S))
    start = {e: std * np.sqrt(width) * one for e in graph.edges}
    for path in graph.paths():  # last layers: what a random one has along the others
        start[path[-1]] = np.diag(std * np.abs(rng.standard_normal(len(S))))
    run = nr.flow(task, start, t1, times(t1))
    levels, last = run.loss[0] * np.array([1.0, 0.9, 0.5, 0.1, 1e-2, 1e-4]), len(run.t) - 1
    at = np.unique(np.append(np.searchsorted(-run.loss, -levels), last).clip(max=last))
    jacobian = -nr.landscape.hessian(task, {e: w[at] for e, w in run.weights.items()})
    off = graph.flatten(dict.fromkeys(graph.edges, 1 - one)) > 0
    return {
        "loss": ("t", run.loss[at]),
        "rates": ("t entry", np.linalg.eigvalsh(jacobian[:, off][..., off])),
        "mixing": np.abs(jacobian[:, off][..., ~off]).max(),
    }


def concentration(k: xr.DataArray) -> np.ndarray:
    """How much each group of modes is on one pathway at the end, `(run, group)`."""
    return nr.measure.concentration(k[:, -1], list(GROUPS.values()))


def off_diagonal(run: xr.Dataset) -> np.ndarray:
    """Share of squared K between modes of different strength, mean over pathways, `(run, t)`."""
    return nr.measure.off_diagonal_share(run.outputs, list(GROUPS.values())).mean(axis=-1)


def aligned_modes(k: np.ndarray) -> np.ndarray:
    """Contributions `(pathway, mode, mode)` in those modes of each group in which the first pathway's block
    (its symmetric part) is diagonal: any other basis of a group would be as good."""
    turn = np.zeros((len(S), len(S)))
    for group in GROUPS.values():
        block = k[0][np.ix_(group, group)]
        turn[np.ix_(group, group)] = np.linalg.eigh(block + block.T)[1][:, ::-1]
    return turn.T @ k @ turn


def first_share(k: np.ndarray) -> np.ndarray:
    """The first pathway's part of modes 1-2, `(run, mode)`, of contributions `(run, pathway, mode)`."""
    return k[:, 0] / k.sum(axis=1)


def two_modes(networks: Iterable[xr.DataArray]) -> list[np.ndarray]:
    """Mean concentration of modes 1 and 2 in each network, for each depth or width."""
    return [concentration(k)[:, :2].mean(axis=1) for k in networks]


def trend(x: Sequence[int], values: list[np.ndarray], direction: str) -> float:
    """One-sided p value of Spearman's rank correlation of x with the values, arrays of one per network."""
    at = np.repeat(x, [len(v) for v in values])
    result: Any = spearmanr(at, np.concatenate(values), alternative=direction)
    return float(result.pvalue)
