"""`neuralrace reduce`: the equations, certificate and curves of a described network, beside its true flow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace import init, plot
from neuralrace.description import Description, read_description
from neuralrace.dynamics import flow
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError
from neuralrace.files import writable, write_text
from neuralrace.graph import Graph
from neuralrace.measure import learning_time
from neuralrace.reduction import Reduction, reduce
from neuralrace.reduction.family import Strengths
from neuralrace.reduction.reduction import Solution

LEARNED = 1e-3  # of the loss that can be learned, what may be left at a chosen end
MOST_DOUBLINGS = 40
MOST_SHOWN = 6  # classes, or edges of one
MODES_SHOWN = 3


@dataclass(frozen=True, eq=False)
class Explanation:
    """A reduction with its solution, and the flow of the network from the same start.

    `theory` and `flow` have a leading axis of seeds where the start is random. `converged` says whether a
    time that was not given could be chosen so that the reduced system has learned; `distance` is how far
    the start lies from the family of weights that the reduction speaks of, relative to its size.
    """

    description: Description
    reduction: Reduction
    theory: Solution
    flow: Trajectory
    converged: bool
    distance: float
    files: tuple[Path, ...] = ()

    @cached_property
    def equations(self) -> list[str]:
        """One line per class; none where the modes do not decouple."""
        try:
            return [_line(k, eq.rhs) for k, eq in enumerate(self.reduction.equations())]
        except InputError:
            return []

    @cached_property
    def why_no_equations(self) -> str | None:
        try:
            self.reduction.equations()
        except InputError as error:
            return str(error)
        return None

    @cached_property
    def conserved(self) -> list[str]:
        """What stays constant in each mode; in the block basis the B are matrices, and this is left out."""
        return (
            [] if self.reduction.basis == "block" else [_plain(e, "lex") for e in self.reduction.conserved()]
        )

    @cached_property
    def reached(self) -> int:
        """How many of the times both theory and flow have reached."""
        ended = int((self.flow.t <= self.flow.end.min() * (1 + 1e-12)).sum())
        return min(len(self.theory.t), ended)

    @cached_property
    def difference(self) -> float:
        """The largest difference of the losses."""
        n = self.reached
        return float(np.abs(self.theory.loss[..., :n] - self.flow.loss[..., :n]).max())

    @cached_property
    def half_times(self) -> tuple[np.ndarray, np.ndarray]:
        """When theory and flow are half way from the first loss to the last of the flow, for each seed."""
        found = []
        for run in (self.theory, self.flow):
            losses, goals = np.atleast_2d(run.loss), np.atleast_2d(self.flow.loss)
            levels = (goals[:, 0] + goals[:, -1]) / 2
            found.append([learning_time(_Curve(run.t, v), x) for v, x in zip(losses, levels, strict=True)])
        return np.array(found[0]), np.array(found[1])

    def to_dict(self) -> dict[str, Any]:
        """All that is told, as JSON can hold it."""
        r = self.reduction
        many = self.theory.loss.ndim == 2
        theory, true = ([x if np.isfinite(x) else None for x in v.tolist()] for v in self.half_times)
        return {
            "file": str(self.description.path),
            "graph": _graph_line(r.task.graph),
            "basis": r.basis,
            "n_modes": r.n_modes,
            "n_classes": r.n_classes,
            "classes": [list(c) for c in r.classes],
            "residual": r.residual,
            "exact": r.exact,
            "broken_by": [] if r.exact else r.breaking,
            "equations": self.equations,
            "no_equations": self.why_no_equations,
            "conserved": self.conserved,
            "time": float(self.theory.t[-1]),
            "time_chosen": self.description.time is None,
            "converged": self.converged,
            "distance": self.distance,
            "outcome": {"theory": self.theory.outcome, "flow": self.flow.outcome},
            "loss": {
                "start": self.flow.loss[..., 0].tolist(),
                "theory": self.theory.loss[..., -1].tolist(),
                "flow": self.flow.loss[..., -1].tolist(),
            },
            "largest_difference": self.difference,
            "half_time": {"theory": theory if many else theory[0], "flow": true if many else true[0]},
            "files": [str(f) for f in self.files],
        }

    def __str__(self) -> str:
        return "\n".join(_lines(self))


@dataclass(frozen=True)
class _Curve:
    t: np.ndarray
    loss: np.ndarray


def reduce_file(path: str | Path, out: str | Path = "results") -> Explanation:
    """Reduce the network that a YAML file describes; equations, curves and figure go to
    `out/reduce/<its name>`."""
    given = read_description(path)
    try:
        r = reduce(given.task, given.basis)
    except InputError as error:
        raise InputError(f"{given.path}: {error}") from None
    folder = writable(Path(out) / "reduce" / given.path.stem)
    found = explain(given, r)
    write_text(folder / "equations.tex", _latex(found))
    write_text(folder / "curves.csv", _table(found))
    files = [folder / "equations.tex", folder / "curves.csv", *plot.save(_figure(found), folder, "curves")]
    return Explanation(given, r, found.theory, found.flow, found.converged, found.distance, tuple(files))


def explain(given: Description, r: Reduction) -> Explanation:
    """Solve a reduction, and run the true flow from the same start."""
    if given.strength is not None:
        weights = init.decoupled(r, given.strength)
    else:
        assert given.std is not None
        weights = init.gaussian(r.task.graph, given.std, seed=range(given.seeds))
    start = r.strengths(weights)

    def solve(t1: float, b0: Strengths) -> Solution:
        return r.solve(t1=t1, save=given.save, b0=b0)

    t1, converged = (given.time, True) if given.time is not None else _long_enough(r, start, solve)
    record = _coordinates(r) if given.strength is not None and r.basis != "block" else None
    true = flow(r.task, weights, t1, given.save, save_weights=False, record=record)
    return Explanation(given, r, solve(t1, start), true, converged, r.distance(weights))


def _coordinates(r: Reduction) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function that gives the strengths of the first edge of each class."""
    import jax.numpy as jnp

    frames = {c[0]: (r.family.left[c[0]], r.family.right[c[0]]) for c in r.classes[:MOST_SHOWN]}
    return lambda w: {e: jnp.einsum("om,oi,im->m", u, w[e], v) for e, (u, v) in frames.items()}


def _long_enough(
    r: Reduction, start: Strengths, solve: Callable[[float, Strengths], Solution]
) -> tuple[float, bool]:
    """A time by which the reduced system has learned what it can, and whether there is one."""
    contexts = r.task.moment_contexts
    untrained = sum(
        c.irreducible_loss + 0.5 * sum(float(np.vdot(y, y)) for y in c.targets.values()) for c in contexts
    )
    unit = 1 / max(
        float(np.linalg.norm(y.T @ x))
        for c in contexts
        for x in c.inputs.values()
        for y in c.targets.values()
    )
    # Near a saddle the loss of a small start rests before it falls; what a large start ends with is the goal.
    large = r.project(init.decoupled(r, 1.0))
    t, goal = unit, np.inf
    for _ in range(MOST_DOUBLINGS):
        found = solve(t, large)
        done = not found.outcome.startswith("finished") or goal - found.loss[-1] < 1e-3 * LEARNED * untrained
        goal = min(goal, float(found.loss[-1]))
        if done:
            break
        t *= 2
    level = goal + LEARNED * (untrained - goal)
    t = unit
    for _ in range(MOST_DOUBLINGS):
        found = solve(t, start)
        if not found.outcome.startswith("finished"):
            return _rounded(t / 2), False
        if (found.loss[..., -1] <= level).all():
            break
        t *= 2
    else:
        return _rounded(t / 2), False
    while True:
        end = 1.25 * float(np.max(learning_time(found, level)))
        if end > t / 3 or end == 0:
            return _rounded(end or t), True
        t = end
        found = solve(t, start)


def _rounded(t: float) -> float:
    return float(f"{t:.2g}")


# -- text ------------------------------------------------------------------------------------


def _lines(x: Explanation) -> list[str]:
    r, given = x.reduction, x.description
    lines = [f"graph: {_graph_line(r.task.graph)}"]
    n = r.task.n_samples
    lines.append(
        f"data: {n} samples in {r.task.n_contexts} context{'s' * (r.task.n_contexts > 1)} of equal gates"
    )
    lines.append(
        f"basis: {r.basis}, {_count(r.n_modes, 'mode')}, {_count(r.n_classes, 'class', 'es')} of equal edges"
    )
    for k, members in enumerate(r.classes[: 2 * MOST_SHOWN]):
        lines.append(f"  B{k + 1}: {_some(members)}")
    if r.n_classes > 2 * MOST_SHOWN:
        lines.append(f"  ... and {r.n_classes - 2 * MOST_SHOWN} more")
    lines.append(f"residual: {r.residual:.1e}, {'exact' if r.exact else 'NOT exact'}")
    if not r.exact:
        lines.append(f"  broken by {'; '.join(r.breaking)}")
    if r.left_modes:
        lines.append(f"  {_count(r.left_modes, 'mode')} left out: hidden layers are too narrow")
    if x.why_no_equations:
        lines.append(f"equations: none. {x.why_no_equations}")
    else:
        kind = "equations" if r.exact else "approximate equations"
        lines += [f"{kind}, in every mode:", *(f"  {_cut(e)}" for e in x.equations)]
        shown = min(r.n_modes, MODES_SHOWN)
        for mode in range(shown):
            lines.append(f"in mode {mode + 1}:")
            lines += [f"  {_cut(_line(k, _short(eq.rhs)))}" for k, eq in enumerate(r.equations(mode))]
        if shown < r.n_modes:
            lines.append(f"({_count(r.n_modes - shown, 'more mode')} in equations.tex)")
    if x.conserved:
        lines += ["conserved in every mode:", *(f"  {_cut(e)}" for e in x.conserved)]
    lines.append(f"start: {_start(given)}")
    if x.distance > 1e-6:
        kept = "what lies inside" if r.basis == "block" else "what of it grows in each mode"
        lines.append(
            f"  it lies outside the family of the reduction ({x.distance:.0%}); theory follows {kept}"
        )
    lines.append(f"time: {_time(x)}")
    first, last, theory = x.flow.loss[..., 0], x.flow.loss[..., -1], x.theory.loss[..., -1]
    lines.append(
        f"loss: {_mean(first)} at the start; at the end {_mean(theory)} in theory, {_mean(last)} in the flow"
    )
    half, true = x.half_times
    if np.isfinite(true).all():
        missed = "" if np.isfinite(half).all() else " (never, for some)"
        lines.append(
            f"half learned: at t = {_mean(half)} in theory{missed}, at t = {_mean(true)} in the flow"
        )
    part = x.difference / max(float(np.max(first)), 1e-300)
    lines.append(
        f"largest difference of the losses: {x.difference:.2g} ({part:.2g} of the loss at the start)"
    )
    lines += [
        f"{name}: {run.outcome}"
        for name, run in (("theory", x.theory), ("flow", x.flow))
        if not run.outcome.startswith("finished")
    ]
    return [*lines, *(f"written: {f}" for f in x.files)]


def _graph_line(g: Graph) -> str:
    nodes = [f"{n} {size}" for n, size in g.nodes.items()]
    edges = _some([f"{s}->{t}" if e == f"{s}->{t}" else f"{e}: {s}->{t}" for e, (s, t) in g.edges.items()])
    return f"{_some(nodes)}; {edges}; {_count(g.n_paths, 'path')}"


def _start(given: Description) -> str:
    if given.strength is not None:
        return f"strength {given.strength:g} in every mode of every edge"
    return f"gaussian weights of standard deviation {given.std:g}, {_count(given.seeds, 'seed')}"


def _time(x: Explanation) -> str:
    t = f"{x.theory.t[-1]:g}"
    if x.description.time is not None:
        return t
    if x.converged:
        return f"{t}, chosen: the reduced system has then learned all but {LEARNED:.1%} of what it can"
    return f"{t}, chosen; the reduced system has NOT learned all it can by then (set time for a longer run)"


def _count(n: int, what: str, plural: str = "s") -> str:
    return f"{n} {what}{plural * (n != 1)}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_SHOWN
    return ", ".join(names[:MOST_SHOWN]) + (f", ... ({len(names)} in all)" if more > 0 else "")


def _mean(values: Any) -> str:
    values = np.ravel(values)
    text = f"{np.mean(values):.4g}"
    return text if len(values) == 1 else f"{text} ± {np.std(values, ddof=1):.2g}"


def _cut(text: str, most: int = 400) -> str:
    return text if len(text) <= most else f"{text[:most]} ... (in full in equations.tex)"


def _line(k: int, rhs: Any) -> str:
    return f"tau dB{k + 1}/dt = {_plain(rhs)}"


def _plain(expression: Any, order: str = "rev-lex") -> str:
    import sympy as sp

    return sp.sstr(expression, order=order).replace("**", "^")


def _short(expression: Any) -> Any:
    """The same with numbers of five digits."""
    import sympy as sp

    return expression.xreplace({f: sp.Float(f"{float(f):.5g}", 5) for f in expression.atoms(sp.Float)})


# -- files -----------------------------------------------------------------------------------


def _latex(x: Explanation) -> str:
    r = x.reduction
    lines = [f"% {r!r}"]
    lines += [f"% B_{k + 1}: {_some(members)}" for k, members in enumerate(r.classes)]
    if x.why_no_equations:
        return "\n".join([*lines, f"% {x.why_no_equations}"]) + "\n"
    lines += [r"\begin{equation}", r.latex(), r"\end{equation}"]
    for mode in range(r.n_modes):
        lines += [f"% mode {mode + 1}", r"\begin{equation}", r.latex(mode), r"\end{equation}"]
    return "\n".join(lines) + "\n"


def _table(x: Explanation) -> str:
    """Columns t, losses of theory and flow, and strengths of each class and mode; of each seed."""
    import pandas  # takes a quarter of a second

    n, many = x.reached, x.theory.loss.ndim == 2
    columns: dict[str, np.ndarray] = {"t": x.theory.t}
    for name, losses in (("theory", x.theory.loss), ("flow", x.flow.loss)):
        for k, values in enumerate(np.atleast_2d(losses)):
            columns[f"loss {name}{f' seed {k}' if many else ''}"] = values
    runs = x.theory.strengths if many else x.theory.strengths[None]
    for k, run in enumerate(runs):
        for c in range(run.shape[-1]):
            for m in range(run.shape[-2]):
                columns[f"B{c + 1} mode {m + 1}{f' seed {k}' if many else ''}"] = run[:, m, c]
    table = pandas.DataFrame({name: values[:n] for name, values in columns.items()})
    return table.to_csv(index=False, na_rep="nan", lineterminator="\n")


def _figure(x: Explanation) -> Any:
    """Left the loss, right the strengths of the classes: theory as lines, networks as points."""
    fig, (left, right) = plot.figure(1, 2)
    seeds, t, end = len(np.atleast_2d(x.flow.loss)), x.theory.t, float(x.theory.t[-1])
    at = np.unique(np.linspace(0, x.reached - 1, 30).round().astype(int))
    network = "network" if seeds == 1 else f"networks, {seeds} seeds"
    wide = 1.3 if seeds == 1 else 0.7
    if seeds > MOST_SHOWN:
        plot.runs(left, x.flow.t, x.flow.loss, plot.BLUE, network)
    for k, (theory, true) in enumerate(zip(*map(np.atleast_2d, (x.theory.loss, x.flow.loss)), strict=True)):
        if seeds <= MOST_SHOWN:
            plot.points(left, x.flow.t[at], true[at], plot.BLUE, None if k else network, ms=3)
        plot.theory(left, t, theory, label=None if k else "theory", lw=wide)
    left.set(xlabel="time (τ = 1)", ylabel="loss", xlim=(0, end))
    if x.flow.loss[..., -1].max() < x.flow.loss[..., 0].min() / 2:  # else little could be seen
        left.set_ylim(bottom=0)

    r = x.reduction
    runs = x.theory.strengths.reshape(seeds, len(t), r.n_modes, r.n_classes)
    for c, members in enumerate(r.classes[:MOST_SHOWN]):
        # Classes often move together: later ones are thinner, so that those below can be seen.
        colour, style, width = plot.COLOURS[c], ("-", "--", ":", "-.")[c % 4], wide * (1.8 - 0.2 * c)
        for k, mode in np.ndindex(seeds, r.n_modes):
            label = None if k or mode else _label(c, members)
            plot.theory(right, t, runs[k, :, mode, c], colour, label, ls=style, lw=width)
            if x.flow.recorded:
                plot.points(right, x.flow.t[at], x.flow.recorded[members[0]][at, mode], colour, ms=2.5)
    what = "singular values" if r.basis == "block" else "strengths"
    right.set(xlabel="time (τ = 1)", ylabel=f"{what} ({_count(r.n_modes, 'mode')})", xlim=(0, end))
    title = "" if r.n_classes <= MOST_SHOWN else f"{MOST_SHOWN} of {r.n_classes} classes"
    with plot.style():
        left.legend()
        fig.legend(*right.get_legend_handles_labels(), loc="outside right upper", title=title)
    return fig


def _label(c: int, members: Sequence[str]) -> str:
    text = ", ".join(members) if len(members) <= 2 else f"{members[0]} and {len(members) - 1} more"
    text = text if len(text) <= 30 else f"{text[:29]}…"
    return f"$B_{{{c + 1}}}$: {text.replace('->', '→').replace('$', chr(92) + '$')}"
