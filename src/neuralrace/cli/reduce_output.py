"""What `neuralrace reduce` prints, writes and draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace.cli.description import Description
from neuralrace.reduction import UNLEARNED

if TYPE_CHECKING:
    from neuralrace.cli.reduce import Explanation

MAX_SHOWN = 6  # classes, or edges of one
MODES_SHOWN = 3
LONGEST = 400  # letters of an equation

# -- text ------------------------------------------------------------------------------------


def lines(x: Explanation) -> list[str]:
    """The report, line by line."""
    r, given = x.reduction, x.description
    lines = [f"graph: {graph_line(r.task.graph)}"]
    n = r.task.n_samples
    lines.append(
        f"data: {n} samples in {r.task.n_contexts} context{'s' * (r.task.n_contexts > 1)} of equal gates"
    )
    if x.left:
        lines.append(x.left)
    modes = _count(r.n_modes, "mode") + (f" of {r.directions} directions" if r.directions > 1 else "")
    lines.append(f"basis: {r.basis}, {modes}, {_count(r.n_classes, 'class', 'es')} of equal edges")
    for k, members in enumerate(r.classes[: 2 * MAX_SHOWN]):
        lines.append(f"  B{k + 1}: {_some(members)}")
    if r.n_classes > 2 * MAX_SHOWN:
        lines.append(f"  ... and {r.n_classes - 2 * MAX_SHOWN} more")
    exact = "exact" if r.exact else "NOT exact"
    lines.append(f"equations {exact} for weights in the family of the reduction: residual {r.residual:.1e}")
    if not r.exact:
        lines.append(f"  broken by {'; '.join(r.inexact_paths)}")
    if r.omitted_modes:
        lines.append(f"  {_count(r.omitted_modes, 'mode')} left out: hidden layers are too narrow")
    if x.why_no_equations:
        lines.append(f"equations: none. {x.why_no_equations}")
    else:
        kind = "equations" if r.exact else "approximate equations"
        form = {"matrices": "of matrices", "numbers": "in every mode", "vectors": "of coupled modes"}[r.form]
        lines += [f"{kind}, {form}:", *(f"  {_cut(e)}" for e in x.equations)]
        modes = r.n_modes if r.form == "numbers" else 0
        shown = min(modes, MODES_SHOWN)
        for mode in range(shown):
            lines.append(f"in mode {mode + 1}:")
            lines += [f"  {_cut(e)}" for e in equations(r, mode)]
        if shown < modes:
            lines.append(f"({_count(modes - shown, 'more mode')} in equations.tex)")
    if x.conserved:
        lines += ["conserved in every mode:", *(f"  {_cut(e)}" for e in x.conserved)]
    lines.append(f"start: {_start(given)}")
    if x.distance > 1e-6:
        kept = "its part inside" if r.basis == "block" else "only the component of it that grows in each mode"
        lines.append(f"  it lies outside the family of the reduction ({x.distance:.0%}); theory keeps {kept}")
    lines.append(f"time: {_time(x)}")
    first, last, theory = x.flow.loss[..., 0], x.flow.loss[..., -1], x.theory.loss[..., -1]
    lines.append(
        f"loss: {_mean(first)} at the start; at the end {_mean(theory)} in theory, {_mean(last)} in the flow"
    )
    lines += _half_times(x)
    part = x.difference / max(float(np.max(first)), 1e-300)
    lines.append(
        f"largest difference of the losses: {x.difference:.2g} ({part:.2g} of the loss at the start)"
    )
    lines += [
        f"{name}: {run.outcome}"
        for name, run in (("theory", x.theory), ("flow", x.flow))
        if set(run.statuses) != {nr.Status.FINISHED}
    ]
    return [*lines, *written(x)]


def written(x: Explanation) -> list[str]:
    """The files, line by line."""
    return [f"written: {f}" for f in x.files]


def _half_times(x: Explanation) -> list[str]:
    half = x.half_times
    if not np.isfinite(half["flow"]).all():
        return []
    learned = half["theory"][np.isfinite(half["theory"])]
    missed = "" if len(learned) == len(half["theory"]) else " (never, for some)"
    theory = f"at t = {_mean(learned)} in theory{missed}" if len(learned) else "never in theory"
    lines = [f"half learned: {theory}, at t = {_mean(half['flow'])} in the flow"]
    if x.prediction is not None:
        error = float(np.max(x.prediction.stats["error"]))
        lines.append(
            f"  at t = {_mean(half['prediction'])} predicted from the start itself, nothing of it left out; "
            f"stated error of its loss curve: {error:.1g} of the loss at the start"
        )
    return lines


def graph_line(g: nr.Graph) -> str:
    """Nodes, edges and paths of a graph."""
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
        return f"{t}, chosen: all but {UNLEARNED:.2%} of what can be learned has then been learned"
    if {*x.theory.statuses} <= {nr.Status.SADDLE, nr.Status.UNDECIDED}:
        return f"{t}, chosen: theory is at rest then"
    return f"{t}, chosen; more may be learned later (set time for a longer run)"


def statuses(run: nr.Trajectory) -> str | list[str]:
    """The status of a run, or those of several."""
    found = [s.value for s in run.statuses]
    return found if run.many else found[0]


def _count(n: int, what: str, plural: str = "s") -> str:
    return f"{n} {what}{plural * (n != 1)}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - MAX_SHOWN
    return ", ".join(names[:MAX_SHOWN]) + (f", ... ({len(names)} in all)" if more > 0 else "")


def _mean(values: Any) -> str:
    values = np.ravel(values)
    text = f"{np.mean(values):.4g}"
    return text if len(values) == 1 else f"{text} ± {np.std(values, ddof=1):.2g}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ... (in full in equations.tex)"


def equations(r: nr.Reduction, mode: int | None = None) -> list[str]:
    """The equations of a reduction as text; numbers have five digits."""
    import sympy as sp

    def short(expression: Any) -> Any:
        return expression.xreplace({f: sp.Float(f"{float(f):.5g}", 5) for f in expression.atoms(sp.Float)})

    return [f"tau d{eq.strength}/dt = {plain(short(eq.rhs))}" for eq in r.written(mode).equations]


def plain(expression: Any, order: str = "rev-lex") -> str:
    """A SymPy expression as text, with ^ for powers."""
    import sympy as sp

    return sp.sstr(expression, order="none" if expression.is_Matrix else order).replace("**", "^")


# -- files -----------------------------------------------------------------------------------


def latex(x: Explanation) -> str:
    """The equations as LaTeX, with symbols, what these stand for, and with the numbers of each mode."""
    r = x.reduction
    lines = [f"% {r!r}"]
    if x.why_no_equations:
        return "\n".join([*lines, f"% {x.why_no_equations}"]) + "\n"
    lines += [r"\begin{equation}", r.latex(), r"\end{equation}", *r.definitions()]
    for mode in range(r.n_modes if r.form == "numbers" else 0):
        lines += [f"% mode {mode + 1}", r"\begin{equation}", r.latex(mode), r"\end{equation}"]
    return "\n".join(lines) + "\n"


def table(x: Explanation) -> dict[str, np.ndarray]:
    """Columns t, losses of theory and flow, and strengths of each class and mode; of each seed."""
    n, many = x.reached, x.theory.many
    columns: dict[str, np.ndarray] = {"t": x.theory.t}
    losses = {"theory": x.theory.loss, "flow": x.flow.loss}
    if x.prediction is not None:
        losses["prediction"] = x.prediction.loss
    for name, rows in losses.items():
        for k, values in enumerate(np.atleast_2d(rows)):
            columns[f"loss {name}{f' seed {k}' if many else ''}"] = values
    for k, run in enumerate(x.strengths):
        for c in range(run.shape[-1]):
            for m in range(run.shape[-2]):
                columns[f"B{c + 1} mode {m + 1}{f' seed {k}' if many else ''}"] = run[:, m, c]
    return {name: values[:n] for name, values in columns.items()}


def figure(x: Explanation) -> Any:
    """Left the loss, right the strengths of the classes: theory as lines, networks as points."""
    fig, (left, right) = plot.figure(1, 2)
    seeds, t, end = len(np.atleast_2d(x.flow.loss)), x.theory.t, float(x.theory.t[-1])
    at = np.unique(np.linspace(0, x.reached - 1, 30).round().astype(int))
    network = "network" if seeds == 1 else f"networks, {seeds} seeds"
    wide = 1.3 if seeds == 1 else 0.7
    if seeds > MAX_SHOWN:
        plot.runs(left, x.flow.t, x.flow.loss, plot.BLUE, network)
    for k, (theory, true) in enumerate(zip(*map(np.atleast_2d, (x.theory.loss, x.flow.loss)), strict=True)):
        if seeds <= MAX_SHOWN:
            plot.points(left, x.flow.t[at], true[at], plot.BLUE, None if k else network, ms=3)
        if x.prediction is None:
            plot.theory(left, t, theory, label=None if k else "theory", lw=wide)
        else:
            plot.theory(
                left, t, x.prediction.loss[k], label=None if k else "predicted from the start", lw=wide
            )
            label = None if k else "equations, part of the start"
            plot.theory(left, t, theory, plot.ORANGE, label, lw=wide, ls=":")
    left.set(xlabel="time (τ = 1)", ylabel="loss", xlim=(0, end))
    if x.flow.loss[..., -1].max() < x.flow.loss[..., 0].min() / 2:  # else little could be seen
        left.set_ylim(bottom=0)

    r = x.reduction
    equal = x.theory.reduction.classes == r.classes
    for c, members in enumerate(r.classes[:MAX_SHOWN]):
        # Classes often move together: later ones are thinner, so that those below can be seen.
        colour, style, width = plot.COLOURS[c], ("-", "--", ":", "-.")[c % 4], wide * (1.8 - 0.2 * c)
        for k, mode in np.ndindex(seeds, r.n_modes):
            label = None if k or mode else _label(c, members if equal else members[:1])
            plot.theory(right, t, x.strengths[k, :, mode, c], colour, label, ls=style, lw=width)
            if x.flow.recorded:
                plot.points(right, x.flow.t[at], x.flow.recorded[members[0]][at, mode], colour, ms=2.5)
    what = "singular values" if r.basis == "block" else "strengths"
    right.set(xlabel="time (τ = 1)", ylabel=f"{what} ({_count(r.n_modes, 'mode')})", xlim=(0, end))
    title = "" if r.n_classes <= MAX_SHOWN else f"{MAX_SHOWN} of {r.n_classes} classes"
    with plot.style():
        left.legend()
        fig.legend(*right.get_legend_handles_labels(), loc="outside right upper", title=title)
    return fig


def _label(c: int, members: Sequence[str]) -> str:
    text = ", ".join(members) if len(members) <= 2 else f"{members[0]} and {len(members) - 1} more"
    text = text if len(text) <= 30 else f"{text[:29]}…"
    return f"$B_{{{c + 1}}}$: {text.replace('->', '→').replace('$', chr(92) + '$')}"
