"""`reduce`: from a task to its reduction."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, overload

from numpy.typing import ArrayLike

from neuralrace.dynamics.rates import Rates
from neuralrace.errors import InputError, choice, integer, known, number, short
from neuralrace.reduction.certificate import choose
from neuralrace.reduction.equations import check_names
from neuralrace.reduction.family import FAMILIES
from neuralrace.reduction.reduction import Reduction
from neuralrace.reduction.start import StartReduction
from neuralrace.task import Task

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
    basis: str = ...,
    ties: Mapping[str, float] | None = ...,
    seed: int = ...,
    *,
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
    """The reduction of a linear network with scalar gates: the small system that governs its learning.

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
        As in `flow`: `dW/dt = -scale (dL/dW + decay W)`. Edges with another decay or rate are in other
        classes. A frozen edge keeps the strength that it starts with: the right-hand side of its equation is
        0.
    names : dict, optional
        Symbols of strengths, in place of B1, B2, ...: edge -> the symbol of its class of edges. Other classes
        keep theirs. With several directions the edges are those in `Reduction.classes`.

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
        return StartReduction.of(task, weights, error, rates)
    widest = max(2, *g.nodes.values())  # more directions than neurons change nothing
    directions = min(integer("directions", directions), widest)
    if directions > 1 and basis == "block":
        raise InputError(f"directions must be 1 for blocks, got {directions}: only modes can have several")
    if directions > 1 and g.fixed:
        raise InputError(f"directions must be 1 where edges are fixed, got {directions}")
    every = [name for name in FAMILIES if name != "pathwise" or not g.fixed]
    bases = every if basis == "auto" else [basis]
    r = Reduction(task, *choose(task, bases, _check_ties(task, ties), rates, directions, seed))
    return r if names is None else replace(r, names=check_names(names, r.classes))


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
