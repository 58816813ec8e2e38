"""Where reductions start: from given weights, and the strength that stands for small gaussian weights.

A weight matrix learns only along the signals that pass it: forwards from the inputs, backwards from the
errors. They span few directions of a hidden layer, whatever its width, so the change of the weights is
followed in small bases of these signals. They are enriched along the way until the estimated error of the
loss curve is below what is allowed (see `lowrank`). A network that is about as small as such bases is solved
as it is.

In a wide network with weights of standard deviation std, the signals that arrive at a hidden node with n
units through its k edges are orthogonal, each of length `std sqrt(n)`. Along their mean, which grows, each
has the length `std sqrt(n/k)`. For two layers that is the strength. In longer chains the edges between hidden
nodes start larger, by `sqrt(2)`, and both signs of the path take part (see `directions`). The equal strengths
that blow up at the same time stand for such a start.

Blocks, and families with several directions per mode, hold signals that are not parallel. How far these are
from orthogonal depends on the data. There the start of the family and that of a wide network are both
followed until they blow up, on the correlations of the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from neuralrace.dynamics.gradient_flow import flow, is_wide
from neuralrace.dynamics.methods import Adaptive, LowRank
from neuralrace.dynamics.rates import Rates
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError
from neuralrace.graph import Graph
from neuralrace.network import cast, loss_and_gradient, program
from neuralrace.reduction import constants
from neuralrace.reduction.basis import components
from neuralrace.reduction.certificate import mode_strengths
from neuralrace.reduction.family import Family, block
from neuralrace.task import Task


@dataclass(frozen=True, eq=False)
class StartReduction:
    """The small system that predicts learning from given weights; made by `reduce(task, weights=...)`.

    Attributes
    ----------
    task : Task
    weights : dict
        The start, edge -> (out, in); a leading axis of runs may be there.
    error : float
        Error allowed of the loss curve, relative to the initial loss.
    rates : Rates
        Learning rate and weight decay of each edge.
    """

    task: Task
    weights: dict[str, np.ndarray]
    error: float
    rates: Rates

    @property
    def is_wide(self) -> bool:
        """Whether the network is wide, so that small bases are used: they cannot hold weights that decay."""
        return is_wide(self.task, constants.WIDE) and not self.rates.decays(self.task.graph)

    def __repr__(self) -> str:
        hidden = sum(self.task.graph.nodes[n] for n in self.task.graph.hidden)
        how = "in bases of the signals that pass them" if self.is_wide else "as they are"
        return (
            f"StartReduction({hidden} hidden neurons, followed {how}; "
            f"error of the loss curve allowed: {self.error:g} of the initial loss)"
        )

    def solve(
        self,
        t1: float | None = None,
        save: int | Iterable[float] | None = None,
        *,
        weights: Mapping[str, Any] | None = None,
        stop_loss: float | None = None,
        runs: Mapping[str, Any] | None = None,
        max_steps: int = 20_000,
    ) -> Trajectory:
        """Predict learning from the start.

        Parameters
        ----------
        t1, save, stop_loss, runs
            As in `flow`. Flow time, tau = 1 on the mean loss.
        weights : dict, optional
            The start again, for those who like to say it; another one is refused.
        max_steps : int
            Steps after which a solution gives up.

        Returns
        -------
        Trajectory
            `stats["error"]` states its error; `dimensions` and `residual` are of its bases.
        """
        if weights is not None:
            given = self.task.graph.check_weights(weights)
            if any(not np.array_equal(given[e], w) for e, w in self.weights.items()):
                raise InputError(
                    "weights must be those around which the task was reduced; for others call "
                    "nr.reduce(task, weights=...) again"
                )
        small = Adaptive.for_error(self.error, max_steps)
        method = LowRank(self.error, max_steps, of="loss") if self.is_wide else small
        run = flow(
            self.task, self.weights, t1, save,
            method=method, stop_loss=stop_loss, rates=self.rates, runs=runs,
        )  # fmt: skip
        stated = run.stats["error"] if self.is_wide else np.full(run.loss.shape[:-1], small.stated_error)
        missed = run.stats.get("residual", np.zeros_like(stated))
        stats = {"error": stated, "residual": missed}
        stats = {**run.stats, **(stats if run.many else {k: float(v) for k, v in stats.items()})}
        settings = {**run.settings, "process": "reduction", "error": self.error}
        return replace(run, stats=stats, settings=settings, source=Followed(self))


@dataclass(frozen=True, eq=False)
class Followed:
    """A reduction around given weights, solved: the `source` of a trajectory whose loss has a stated error.

    Attributes
    ----------
    reduction : StartReduction
    """

    reduction: StartReduction

    def residual(self, traj: Trajectory) -> Any:
        """Root of the largest share of velocities that bases missed, one per run; 0 where there are none."""
        return traj.stats["residual"]

    def strengths(self, traj: Trajectory) -> np.ndarray:
        """Strength of each mode of the task in each edge, (save, modes, edges); see `mode_strengths`."""
        found = mode_strengths(traj, self.reduction.task)
        return np.stack([found[e] for e in self.reduction.task.graph.shapes], axis=-1)

    def picked(self, k: Any) -> Followed:
        """The same: the reduction is of all runs."""
        return self

    def words(self, traj: Trajectory) -> str:
        """What was followed, and how exactly."""
        worst, missed = (float(np.max(traj.stats[name])) for name in ("error", "residual"))
        neurons = sum(self.reduction.task.graph.nodes[n] for n in traj.dimensions)
        return (
            f"{sum(traj.dimensions.values())} dimensions for {neurons} hidden neurons, "
            f"residual {missed:.1g}; "
            f"estimated error of the loss: {worst:.1g} of the initial one"
        )


# -- small gaussian weights ----------------------------------------------------------------------


def gaussian_strength(family: Family, task: Task) -> dict[str, float]:
    """Strength of each edge for gaussian weights of standard deviation 1; one for all edges of a pathway."""
    graph, found = task.graph, {}
    for edges in components(graph):
        nodes = {n for e in edges for n in graph.edges[e] if n in graph.hidden}
        sizes = [graph.nodes[n] / (len(graph.incoming[n]) + len(graph.outgoing[n])) for n in sorted(nodes)]
        size = float(np.exp(0.5 * np.mean(np.log(sizes)))) if sizes else 1.0
        depths = _depths(graph, edges)
        strength = size * _equal_strength(max(depths), min(family.directions, 2))
        if (family.basis == "block" or family.directions > 1) and len(depths) == 1 and min(depths) > 2:
            strength = _followed(family, task, edges, min(depths)) or strength
        found |= dict.fromkeys(edges, strength)
    return found


def _depths(graph: Graph, edges: frozenset[str]) -> set[int]:
    """Numbers of edges of the paths."""
    depths: dict[str, set[int]] = {}
    for n in graph.order:
        before = [graph.edges[e][0] for e in graph.incoming[n] if e in edges]
        depths[n] = {d + 1 for s in before for d in depths[s]} or {0}
    return {d for n in graph.outputs for d in depths[n]} - {0}


def _followed(family: Family, task: Task, edges: frozenset[str], depth: int) -> float | None:
    """The strength of the family that blows up when a wide network does; None where one of them does not."""
    small = family.small if family.basis == "block" else block(task, np.random.default_rng(0)).small
    start = wide_start(small.graph, task.graph, edges)
    rows = sum(c.rows for c in small.moment_contexts)
    if rows * sum(v.size for v in start.values()) > constants.MOST_FOLLOWED:
        return None
    own = {e: np.asarray(v, float) for e, v in family.start.items() if family.edge_of(e) in edges}
    sizes = {
        n: w.shape[end] for e, w in start.items() for end, n in enumerate(reversed(small.graph.edges[e]))
    }
    wide_task = small.on(small.graph.resized(sizes))
    times = [
        _blow_up(*first_order(followed, w, depth), depth)
        for followed, w in ((wide_task, start), (family.small, own))
    ]
    wide, narrow = times
    return (narrow / wide) ** (1 / (depth - 2)) if np.isfinite(times).all() else None


def first_order(
    task: Task, start: Mapping[str, np.ndarray], depth: int
) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]:
    """The gradient of `<targets, outputs>` by the edges of paths of this depth, and their weights, flat.

    It is that of the loss where weights are so small that the outputs vanish beside the targets.
    """
    graph, made = task.graph, program(task, "squared")
    data, little = cast(made.data, np.float64), 10.0 ** (-30 / depth)
    none = {e: np.zeros(shape) for e, shape in graph.shapes.items()}
    own = graph.flatten(none | {e: np.ones(w.shape) for e, w in start.items()}) > 0

    def force(weights: np.ndarray) -> np.ndarray:
        flat = np.zeros(own.shape)
        flat[own] = little * weights
        return -loss_and_gradient(made.stack, flat, data)[1][own] / little ** (depth - 1)

    return force, graph.flatten(none | dict(start))[own]


def wide_start(small: Graph, network: Graph, edges: frozenset[str]) -> dict[str, np.ndarray]:
    """Weights that stand for gaussian ones of standard deviation 1 in a wide network.

    There all signals that arrive at a hidden node, forwards from the inputs and backwards from the outputs,
    are orthogonal. So each has units of its own here. An edge makes signals longer by the square root of the
    number of units at which they arrive.
    """
    down = {n: small.nodes[n] for n in small.inputs}  # dimensions of the signals from the inputs
    up = {n: small.nodes[n] for n in small.outputs}
    place_down, place_up = {}, {}
    hidden = [n for n in small.order if n in small.hidden]
    for n in hidden:
        down[n] = 0
        for e in small.incoming[n]:
            place_down[e] = slice(down[n], down[n] + down[small.edges[e][0]])
            down[n] = place_down[e].stop
    for n in reversed(hidden):
        end = down[n]
        for e in small.outgoing[n]:
            place_up[e] = slice(end, end + up[small.edges[e][1]])
            end = place_up[e].stop
        up[n] = end - down[n]
    size = {n: down[n] + up[n] if n in hidden else small.nodes[n] for n in small.nodes}
    start = {}
    for e, (source, target) in small.edges.items():
        if e not in edges:
            continue
        w = np.zeros((size[target], size[source]))
        if target in hidden:
            w[place_down[e], : down[source]] = np.eye(down[source]) * np.sqrt(network.nodes[target])
        if source in hidden:
            first = down[target] if target in hidden else 0
            w[first : first + up[target], place_up[e]] = np.eye(up[target]) * np.sqrt(network.nodes[source])
        start[e] = w
    return start


@cache
def _equal_strength(depth: int, directions: int) -> float:
    """The strength of all edges of a chain that blows up when the pair does that stands for gaussian weights.

    The outer edges of the pair start at 1, the inner ones at `sqrt(2)`.
    """
    if depth < 3:
        return 1.0
    own = 1 / (depth - 2) if directions == 1 else _chain_blow_up(depth, 1.0)
    return (own / _chain_blow_up(depth, float(np.sqrt(2)))) ** (1 / (depth - 2))


def _chain_blow_up(depth: int, inner: float) -> float:
    """When the weights of a chain of pairs with a constant correlation of 1 become infinite."""
    graph = Graph.chain([1, *[2] * (depth - 1), 1])
    weights = [np.ones((2, 1)), *[inner * np.eye(2)] * (depth - 2), np.array([[1.0, -1.0]])]
    start = dict(zip(graph.edges, weights, strict=True))
    return _blow_up(*first_order(Task(graph, [[1.0]], [[1.0]]), start, depth), depth)


def _blow_up(force: Callable[[np.ndarray], np.ndarray], start: np.ndarray, depth: int) -> float:
    """When weights become infinite whose velocity F is homogeneous of degree depth - 1; inf if never.

    Directions U move by themselves: with `W = exp(r) U`, `|U| = 1` and `ds = exp((depth - 2) r) dt`,
    `dr/ds = <U, F>` and `dU/ds = F(U) - dr/ds U`.
    """
    from scipy.integrate import solve_ivp  # slow to import

    size, power = float(np.linalg.norm(start)), depth - 2

    def velocity(_: float, state: np.ndarray) -> np.ndarray:
        u, r = state[:-2] / np.linalg.norm(state[:-2]), state[-2]
        f = force(u)
        growth = u @ f
        return np.concatenate([f - growth * u, [growth, np.exp(-power * r)]])

    def far(_: float, state: np.ndarray) -> float:
        return power * abs(state[-2]) - constants.BLOWN_UP

    far.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
    speed = float(np.linalg.norm(force(start / size)))
    if not speed:
        return np.inf
    begin = np.concatenate([start / size, [0.0, 0.0]])
    run = solve_ivp(
        velocity,
        (0.0, constants.LONGEST / speed),
        begin,
        events=far,
        rtol=constants.BLOW_UP_RTOL,
        atol=constants.BLOW_UP_ATOL,
    )
    grows = run.status == 1 and run.y[-2, -1] > 0
    return float(run.y[-1, -1]) * size**-power if grows else np.inf
