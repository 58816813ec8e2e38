"""A reduction of a task: to and from weights, and its solution."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.dynamics.history import save_times
from neuralrace.dynamics.methods import Adaptive, LowRank, Method, check_method
from neuralrace.dynamics.rates import Rates
from neuralrace.dynamics.setup import coordinates
from neuralrace.dynamics.status import Status
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError, array, choice, integer, known, number, sequence, short
from neuralrace.reduction import constants
from neuralrace.reduction.certificate import (
    choose,
    growing_blocks,
    growing_strengths,
    off_manifold_fraction,
    share_outside,
)
from neuralrace.reduction.equations import check_names
from neuralrace.reduction.family import FAMILIES, refine
from neuralrace.reduction.reduced_equations import ReducedEquations
from neuralrace.reduction.solve import judged, solve_small, solve_tied, strongest_correlation
from neuralrace.reduction.start import StartReduction, gaussian_strength
from neuralrace.reduction.system import System, make_system
from neuralrace.task import Task


@dataclass(frozen=True, eq=False, repr=False)
class Reduction(ReducedEquations):
    """The small system of a task; made by `reduce`.

    Attributes
    ----------
    task : Task
    family : Family
        The frames in which weights are written: orthonormal columns, `family.left[e]` at the output of edge e
        and `family.right[e]` at its input.
    classes : tuple of tuples of str
        Edges that stay equal in all modes.
    gradient_residual : dict
        Edge -> largest part of the gradient outside the family of weights, relative to the largest
        gradient, at random points of the family.
    rates : Rates
        Learning rate and weight decay of each edge.
    names : dict
        Edge -> symbol of the strength of its class in the equations, where it has a name of its own; also
        "S", "D" (of blocks "Syx", "Sxx") -> theirs.

    Examples
    --------
    >>> import neuralrace as nr
    >>> r = nr.reduce(nr.tasks.routing(domains=3, trained=2))
    >>> r.exact, r.basis, r.n_modes, r.n_classes
    (True, 'shared', 4, 2)
    """

    # -- to and from weights -----------------------------------------------------------------

    def project(self, weights: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
        """Coordinates of the nearest weights in the family.

        Parameters
        ----------
        weights : dict
            Edge name -> (out, in), or with leading axes.

        Returns
        -------
        dict of str to ndarray
            Edge name -> (modes,), or (rows, columns) for blocks, with the leading axes of the weights.

        Examples
        --------
        >>> import neuralrace as nr
        >>> r = nr.reduce(nr.tasks.routing(domains=3, trained=2))
        >>> r.project(nr.init.decoupled(r, 0.1))["x0->h1"].round(6)
        array([0.1, 0.1, 0.1, 0.1])
        """
        return self.family.project(self.task.graph.check_weights(weights))

    def lift(self, b: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
        """Weights with coordinates b: the inverse of `project` on the family.

        Parameters
        ----------
        b : dict
            Edge name -> (modes,), or (rows, columns) for blocks; leading axes may be given.

        Returns
        -------
        dict of str to ndarray
            Edge name -> (out, in), with the leading axes of `b`.

        Examples
        --------
        >>> import numpy as np, neuralrace as nr
        >>> r = nr.reduce(nr.tasks.routing(domains=3, trained=2))
        >>> r.lift({e: np.full(4, 0.1) for e in r.task.graph.edges})["x0->h1"].shape
        (64, 4)
        """
        return self.family.lift(self._check(b))

    def distance(self, weights: Mapping[str, ArrayLike]) -> float:
        """Distance of weights from the family, relative to their norm.

        Parameters
        ----------
        weights : dict
            Edge name -> (out, in). Several runs (a leading axis) are one long vector.

        Returns
        -------
        float
            Between 0, in the family, and 1.

        Examples
        --------
        >>> import neuralrace as nr
        >>> r = nr.reduce(nr.tasks.routing(domains=3, trained=2))
        >>> r.distance(nr.init.decoupled(r, 0.1)) < 1e-12, r.distance(nr.init.xavier(r.task.graph)) > 0.9
        (True, True)
        """
        return float(
            np.sqrt(share_outside(self.family, self.task.graph.check_weights(weights), together=True))
        )

    def off_manifold_fraction(self, weights: Mapping[str, ArrayLike]) -> float | np.ndarray:
        """Fraction of the squared norm of weights outside the family, with hidden frames fitted to them.

        0 for decoupled weights with positive strengths in any hidden directions, near 1 for random ones. For
        the change since the start, `W(t) - W(0)`, it is the part of learning that the reduction does not
        describe; random weights that do not change do not count then.

        Parameters
        ----------
        weights : dict
            Edge name -> (out, in), or with leading axes.

        Returns
        -------
        float or ndarray
            With the leading axes of the weights.

        Examples
        --------
        >>> import neuralrace as nr
        >>> r = nr.reduce(nr.tasks.routing(domains=3, trained=2))
        >>> abs(r.off_manifold_fraction(nr.init.decoupled(r, 0.1))) < 1e-9
        True
        """
        if self.basis == "block":
            raise InputError(
                "off_manifold_fraction needs modes: reduce the task in the shared or the pathwise basis"
            )
        found = off_manifold_fraction(self.family, self.task.graph.check_weights(weights))
        return float(found) if found.ndim == 0 else found

    def strengths(self, weights: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
        """Initial strengths of the reduced system for a network that starts at these weights.

        For weights in the family: their coordinates. For other weights, only the component that grows under
        learning is kept (one strength per mode, or one small matrix per block).

        Parameters
        ----------
        weights : dict
            Edge name -> (out, in), or with leading axes.

        Returns
        -------
        dict of str to ndarray
            Edge name -> (modes,), or (rows, columns) for blocks, with the leading axes of the weights.

        Examples
        --------
        >>> import neuralrace as nr
        >>> r = nr.reduce(nr.tasks.xor())
        >>> r.strengths(nr.init.gaussian(r.task.graph, 0.01))["x->p0h1"].shape
        (1,)
        """
        w = self.task.graph.check_weights(weights)
        if np.sqrt(share_outside(self.family, w, together=True)) < 1e-6:
            return self.family.project(w)
        if self.basis == "block":
            modes = FAMILIES["shared" if self.task.graph.fixed else "pathwise"]
            return growing_blocks(self.family, modes(self.task, np.random.default_rng(0)), w)
        return growing_strengths(self.family, w)

    def _check(self, b: Any) -> dict[str, np.ndarray]:
        if not isinstance(b, Mapping):
            raise InputError(f"b must be a dict from edge names to strengths, got {type(b)}")
        known("b", b, self.family.shape, "edge that learns")
        found = {}
        for e, shape in self.family.shape.items():
            if e not in b:
                raise InputError(f"b lacks edge {e!r}")
            value = array(f"b[{e!r}]", b[e])
            if value.shape[value.ndim - len(shape) :] != shape:
                raise InputError(
                    f"b[{e!r}] must have shape {shape}, with leading axes at most; got {value.shape}"
                )
            found[e] = value
        return found

    # -- solving -----------------------------------------------------------------------------

    def solve(
        self,
        strengths: ArrayLike | Mapping[str, ArrayLike],
        t1: float | None = None,
        save: int | Iterable[float] | None = None,
        *,
        method: Method = Adaptive(rtol=1e-9, atol=1e-11),  # noqa: B008 (a frozen value)
        stop_loss: float | None = None,
        runs: Mapping[str, ArrayLike] | None = None,
    ) -> Trajectory:
        """Solve the reduced system.

        Parameters
        ----------
        strengths : float, array of shape (runs,), or dict
            Where the solution starts: with this strength in every mode of every edge. A dict has for each
            edge a number, or what `project` and `strengths` give: (modes,), or blocks, with a leading axis
            where there are runs. Axes of length 1 broadcast, as in NumPy.
        t1, save, stop_loss, runs
            As in `flow`. Flow time, tau = 1 on the mean loss.
        method : Adaptive or your own

        Returns
        -------
        Trajectory
            With `strengths`. Its status is `FINISHED` only near the attainable
            loss, which is `stats["attainable"]`; it is `SADDLE` where the family rests and networks do not,
            `UNSETTLED` where it still moves. `outcome` says this in words.

        Examples
        --------
        >>> import neuralrace as nr
        >>> sol = nr.reduce(nr.tasks.xor()).solve([0.01, 0.1], t1=40.0)
        >>> sol.loss.shape, sol[1].status.value
        ((2, 200), 'finished')
        """
        if check_method(method) is None or isinstance(method, LowRank):
            raise InputError(f"method must be nr.Adaptive(...) or your own, got {short(method)}")
        if isinstance(save, Iterator):
            save = sequence("save", save, "times")  # a generator is read twice
        end, ts = save_times(t1, save)
        stop = None if stop_loss is None else number("stop_loss", stop_loss, above=0)
        b = self._start(strengths)
        edge, shape = next(iter(self.family.shape.items()))
        lead = b[edge].shape[: b[edge].ndim - len(shape)]
        r = self if self.is_tied(b) or self.tied is None else self.retied(b)
        # Nothing changes any more at the attainable loss, unless weights decay.
        rest = r.attainable.loss + constants.UNSOLVED * max(r.untrained_loss - r.attainable.loss, 0.0)
        rest = -np.inf if r.rates.decays(r.family.graph) else rest
        coords = coordinates(runs, lead[0] if lead else 1, bool(lead))
        given = (b, end, ts, save is None, method, stop, rest, coords)
        tied = r.tied is not None and r.tied.load <= constants.MOST_LOAD
        return judged((solve_tied if tied else solve_small)(r, *given))

    @cached_property
    def complete_loss(self) -> float:
        """The loss at which all but 1e-4 of what any weights can learn is learned."""
        least = self.attainable.loss
        return least + constants.UNLEARNED * (self.untrained_loss - least)

    @cached_property
    def fastest_time(self) -> float:
        """Flow time in which the strongest correlation of inputs with targets can be learned, about."""
        return 1 / strongest_correlation(self.task)

    def until_learned(
        self, strengths: ArrayLike | Mapping[str, ArrayLike], *, method: Method | None = None
    ) -> Trajectory:
        """Solve until what can be learned is learned, however long that takes.

        From a small start the loss rests near saddles before it falls: a small slope does not mean the end.

        Parameters
        ----------
        strengths, method
            As in `solve`. By default steps are coarse, as the result tells when learning is complete.

        Returns
        -------
        Trajectory
            Its start and its end. The status is `REACHED_LOSS` at `complete_loss`; else it says why the
            family does not come there.

        Examples
        --------
        >>> import neuralrace as nr
        >>> sol = nr.reduce(nr.tasks.xor()).until_learned(0.05)
        >>> sol.status.value, round(sol.end)
        ('reached loss', 14)
        """
        most = constants.MOST_STEPS["equations" if self.tied is not None else "network"]
        method = replace(constants.COARSE, max_steps=most) if method is None else method
        return self.solve(
            strengths, constants.FOREVER * self.fastest_time, 2, method=method, stop_loss=self.complete_loss
        )

    def retied(self, b: Mapping[str, np.ndarray]) -> Reduction:
        """The same with the classes of edges that start equal in strengths b, by edge."""
        start = {e: (self.rates.of(e), v.tobytes()) for e, v in b.items()}
        return replace(self, classes=refine(self.family, start, np.random.default_rng(0)))

    def _start(self, strengths: Any) -> dict[str, np.ndarray]:
        """Where a solution starts: strengths of every edge, with a leading axis where there are runs."""
        family, edges = self.family, self.task.graph.shapes
        if not isinstance(strengths, Mapping):
            size = array("strengths", strengths)
            if size.ndim > 1 or not size.size or (size < 0).any():
                raise InputError(
                    "strengths must be at least 0, a number or one for each run, or a dict by edge; "
                    f"got {short(strengths)}"
                )
            each = {n: _by_run(size, n) for n in (1, 2)}
            strengths = {family.edge_of(e): each[unit.ndim] for e, unit in family.start.items()}
        known("strengths", strengths, {**edges, **family.shape}, "edge that learns")
        made, found = {}, {}
        for e, unit in family.start.items():
            name = e if e in strengths else family.edge_of(e)
            if name not in strengths:
                raise InputError(f"strengths must name every edge that learns; {name!r} is missing")
            key = (id(strengths[name]), id(unit))  # many edges start alike
            if key not in made:
                made[key] = _begun(name, strengths[name], unit, name == e)
            found[e] = made[key]
        leads = {v.shape[: v.ndim - len(family.shape[e])] for e, v in found.items()}
        if len(leads) == 1:
            return found
        try:
            lead = np.broadcast_shapes(*leads)
        except ValueError:
            raise InputError(f"strengths must have equally many runs for all edges, got {leads}") from None
        return {e: np.broadcast_to(v, (*lead, *family.shape[e])) for e, v in found.items()}

    # -- other families ----------------------------------------------------------------------

    def strength(self, std: ArrayLike) -> Any:
        r"""The strength that stands for gaussian weights of a standard deviation at the network's widths.

        In a wide network the signals that arrive at a hidden node with $n$ units through its $k$ edges are
        orthogonal, and their mean grows: along it each edge has the strength $\sigma \sqrt{n/k}$ with
        $\sigma$ the standard deviation. For a chain of two layers this is $\sigma \sqrt{n/2}$. For longer
        ones it is the strength of all edges with which the network learns at the same time from small weights
        (see `gaussian_start`).

        Learning times from this strength are within 15%, 20% and 30% of those of the median network for nine
        in ten random tasks of two, three and four layers. Blocks of two and four layers are worse: 41% and
        78%. Networks of three layers and more scatter about their median by as much as the typical error;
        `nr.expected_learning_time` has their spread.

        Parameters
        ----------
        std : float or array
            As in `nr.init.gaussian`.

        Returns
        -------
        float, or dict of str to float
            For `solve`; a number for each edge where pathways differ. With an array, one run for each of its
        entries.

        Examples
        --------
        >>> import neuralrace as nr
        >>> r = nr.reduce(nr.tasks.hierarchy(3, graph=nr.Graph.chain([4, 50, 7])))
        >>> round(r.strength(0.01), 12)
        0.05
        """
        if self.task.graph.fixed:
            raise InputError(
                "strength needs a task without fixed edges: where these end, weights start with both signs "
                "along given directions; nr.reduce(task, weights=...) follows a network"
            )
        size = array("std", std)
        if (size < 0).any():
            raise InputError(f"std must be at least 0, got {short(std)}")
        each = gaussian_strength(self.family, self.task)
        if np.ptp(list(each.values())) < 1e-12:
            return (size if size.ndim else float(size)) * next(iter(each.values()))
        dims = {self.family.edge_of(e): unit.ndim for e, unit in self.family.start.items()}
        return {e: v * (_by_run(size, dims[e]) if size.ndim else float(size)) for e, v in each.items()}

    @property
    def way_on(self) -> str:
        """What to do where the family stays at a saddle, in words."""
        follow = "nr.reduce(task, weights=...) follows a network"
        if self.basis == "block" or self.task.graph.fixed:
            return follow
        return f"r.widened() is a family that leaves it, {follow}"

    def widened(self) -> Reduction:
        """The smallest family, with 2, 4, ... hidden directions per mode, that reaches the attainable loss.

        Networks leave saddles at which the family with one direction per mode rests: a product of equal
        strengths is never negative. With more directions the paths of a mode start with both signs.

        Returns
        -------
        Reduction

        Examples
        --------
        >>> import neuralrace as nr
        >>> gates = {"p0h1": [1, 0], "p1h1": [0, 1]}
        >>> r = nr.reduce(nr.Task(nr.Graph.pathways(1, 1, [[9], [9]]), [[1], [1]], [[1], [-1]], gates))
        >>> r.solve(0.05, t1=100.0).status, r.widened().solve(0.05, t1=100.0).status
        (<Status.SADDLE: 'saddle'>, <Status.FINISHED: 'finished'>)
        """
        split, most = self.family.split, 2 * max(self.attainable.needed.values(), default=1)
        rates = self.rates if split is None else split.rates_of_whole(self.rates)
        directions = 2 * self.family.directions
        if self.task.graph.fixed:
            raise InputError("widened needs a task without fixed edges: take nr.reduce(task, weights=...)")
        if split is not None and self.reaches_attainable:
            return self
        while self.basis != "block" and directions <= max(most, 2):
            start = dict.fromkeys(self.task.graph.shapes, 1.0)
            wider = Reduction(self.task, *choose(self.task, [self.basis], start, rates, directions))
            if not wider.omitted_modes and wider.reaches_attainable:
                return wider
            directions *= 2
        raise InputError(
            f"no wider family of this task reaches the attainable loss {self.attainable.loss:.4g}: "
            "nr.reduce(task, weights=...) follows a network"
        )

    @cached_property
    def reaches_attainable(self) -> bool:
        """Whether the family comes to the attainable loss from a small start."""
        sol = self.solve(
            constants.TRIED_FROM, constants.TRIED_FOR * self.fastest_time, 2, method=constants.COARSE
        )
        return sol.status is Status.FINISHED

    def to_jax(
        self, strength: float | None = None, *, weights: Mapping[str, ArrayLike] | None = None
    ) -> System:
        """The reduced system in a block basis, as pure functions of strengths, data and gates for JAX.

        Parameters
        ----------
        strength : float, optional
            Size of the initial blocks, which are diagonal; 1 if not given.
        weights : dict, optional
            Start from these weights instead, in bases that they never leave.

        Returns
        -------
        System

        Examples
        --------
        >>> import neuralrace as nr
        >>> s = nr.reduce(nr.tasks.xor()).to_jax(strength=0.1)
        >>> round(s.loss(s.strengths, s.statistics, s.gates), 3)
        0.5
        """
        return make_system(self, strength, weights)


def _by_run(size: np.ndarray, dims: int) -> np.ndarray:
    """A size for each run, to multiply strengths of so many dimensions."""
    return size.reshape(size.shape + (1,) * dims) if size.ndim else size


def _begun(edge: str, given: Any, unit: np.ndarray, own: bool) -> np.ndarray:
    """The strengths of an edge: those given, or a size of those with which its family starts."""
    value = array(f"strengths[{edge!r}]", given)
    last = value.shape[-unit.ndim :]
    if own and last == unit.shape and value.size and value.ndim <= unit.ndim + 1:
        return value
    sized = value.ndim in (unit.ndim, unit.ndim + 1) and last in ((1,) * unit.ndim, unit.shape[-1:])
    if (value.ndim and not sized) or not value.size or (value < 0).any():
        raise InputError(
            f"strengths[{edge!r}] must be a number of at least 0, or have shape {unit.shape}, with a leading "
            f"axis of runs at most; got {short(given)}"
        )
    return value * unit


BASES = ("auto", *FAMILIES)  # that `reduce` takes


@overload
def reduce(
    task: Task,
    basis: str = ...,
    ties: Mapping[str, float] | None = ...,
    seed: int = ...,
    *,
    directions: int = ...,
    weights: None = ...,
    error: float = ...,
    rates: Rates | None = ...,
    names: Mapping[str, str] | None = ...,
) -> Reduction: ...


@overload
def reduce(
    task: Task,
    *,
    seed: int = ...,
    weights: Mapping[str, ArrayLike],
    error: float = ...,
    rates: Rates | None = ...,
) -> StartReduction: ...


def reduce(
    task: Task,
    basis: str = "auto",
    ties: Mapping[str, float] | None = None,
    seed: int = 0,
    *,
    directions: int = 1,
    weights: Mapping[str, ArrayLike] | None = None,
    error: float = 1e-3,
    rates: Rates | None = None,
    names: Mapping[str, str] | None = None,
) -> Reduction | StartReduction:
    r"""The reduction of a linear network with scalar gates: the small system that governs its learning.

    Parameters
    ----------
    task : Task
        On a linear graph without biases.
    basis : {"auto", "shared", "pathwise", "block"}
        One frame per node for all paths; frames per pathway; or small full blocks, which are always exact.
        "auto" takes the first of these whose residual is below 1e-8.
    ties : dict, optional
        A number for every edge: edges with the same number start equal. All edges, if not given.
    seed : int
        Of the random points at which the reduction is tested.
    directions : int
        Hidden directions of each mode: 1 is the family of the papers. With an even number the paths of each
        mode start with both signs, as in random networks. See `Reduction.widened`.
    weights : dict, optional
        Reduce around these initial weights, of any size, instead of for weights in a family.
    error : float
        Around a start: error allowed of the loss curve, relative to the initial loss.
    rates : Rates, optional
        As in `flow`: $\dot W = -\text{scale}\, (\partial L/\partial W + \text{decay}\; W)$. Edges with
        another decay or rate are in other classes. A frozen edge keeps the strength that it starts with: the
        right-hand side of its equation is 0.
    names : dict, optional
        Symbols of strengths, in place of B1, B2, ...: edge -> the symbol of its class of edges. Other classes
        keep theirs. With several directions the edges are those in `Reduction.classes`. A symbol is a letter,
        or a Greek one spelt out, then digits or _ and a subscript: "W", "alpha", "W_a", "W_in". S and D (Syx
        and Sxx of blocks) can have names too, of letters that numbers follow: {"S": "Gamma"}.

    Returns
    -------
    Reduction, or StartReduction where `weights` are given

    Examples
    --------
    >>> import neuralrace as nr
    >>> r = nr.reduce(nr.tasks.routing(domains=7, trained=7))
    >>> r.exact, r.n_modes, r.n_classes
    (True, 4, 2)

    A network of three layers from random weights of ordinary size:

    >>> task = nr.tasks.hierarchy(3, graph=nr.Graph.chain([4, 100, 100, 7]))
    >>> w = nr.init.xavier(task.graph, gain=0.7)
    >>> sol = nr.reduce(task, weights=w).solve(t1=20.0)
    >>> bool(sol.stats["error"] < 1e-3)
    True
    """
    if not isinstance(task, Task):
        raise InputError(f"task must be a Task, got {type(task)}")
    choice("basis", basis, BASES)
    g = task.graph
    if not g.is_linear or g.biases or g.diagonal:
        raise InputError(
            "task must be on a linear graph, without biases and diagonal edges, to be reduced; nr.flow "
            "simulates any graph, and nr.relu finds the gates of ReLU networks"
        )
    seed, error = integer("seed", seed, least=0), number("error", error, least=1e-10, most=1)
    rates = Rates.check(rates, g)
    if weights is not None:
        if basis != "auto" or ties is not None or directions != 1 or names is not None:
            raise InputError(
                "basis, ties, directions and names must not be given with weights, for which one is chosen"
            )
        return StartReduction(task, g.check_weights(weights), error, rates)
    widest = max(2, *g.nodes.values())  # more directions than neurons change nothing
    directions = min(integer("directions", directions), widest)
    if directions > 1 and basis == "block":
        raise InputError(f"directions must be 1 for blocks, got {directions}: only modes can have several")
    if directions > 1 and g.fixed:
        raise InputError(f"directions must be 1 where edges are fixed, got {directions}")
    every = [name for name in FAMILIES if name != "pathwise" or not g.fixed]
    bases = every if basis == "auto" else [basis]
    r = Reduction(task, *choose(task, bases, _check_ties(task, ties), rates, directions, seed))
    return r if names is None else replace(r, names=check_names(names, r.classes, r.basis))


def _check_ties(task: Task, ties: Any) -> dict[str, Hashable]:
    g = task.graph
    if ties is None:
        return dict.fromkeys(g.shapes, 1.0)
    if not isinstance(ties, Mapping):
        raise InputError(f"ties must be a dict from edges to numbers, got {short(ties)}")
    known("ties", ties, g.shapes, "edge that learns")
    missing = [e for e in g.shapes if e not in ties]
    if missing:
        raise InputError(f"ties must name every edge; {missing[0]!r} is missing")
    return {e: number(f"ties[{e!r}]", v) for e, v in ties.items()}
