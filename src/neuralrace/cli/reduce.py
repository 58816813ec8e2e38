"""`neuralrace reduce`: the equations, certificate and curves of a described network, beside its true flow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace import init, plot
from neuralrace.cli import reduce_output as show
from neuralrace.cli.description import Description, read_description
from neuralrace.dynamics import Adaptive, State, Status, Trajectory, flow
from neuralrace.dynamics.record import Record
from neuralrace.errors import InputError
from neuralrace.files import folder_for, write_text
from neuralrace.measure import learning_time
from neuralrace.reduction import Reduction, Solution, StartSolution, reduce
from neuralrace.reduction.completion import complete_loss, settled_time, strongest_correlation

LONGEST = 1e12  # times the time in which the strongest correlation of inputs and targets is learned
MAX_STEPS = {True: 100_000, False: 2_000}  # to choose an end: of equations, and of small networks


@dataclass(frozen=True, eq=False)
class Explanation:
    """A reduction with its solution, and the flow of the network from the same start.

    Attributes
    ----------
    description : Description
        What the file says.
    reduction : Reduction
    theory : Solution
        The solved reduction, with a leading axis of seeds where the start is random.
    flow : Trajectory
        The network itself, likewise.
    converged : bool
        Whether learning is complete at the chosen time; True where the time was given.
    distance : float
        Distance of the start from the weights that the reduction describes, relative to its size.
    prediction : StartSolution or None
        For a random start: the reduction around it, in which no part of the start is left out.
    files : tuple of Path
        What was written.
    """

    description: Description
    reduction: Reduction
    theory: Solution
    flow: Trajectory
    converged: bool
    distance: float
    prediction: StartSolution | None = None
    files: tuple[Path, ...] = ()

    @cached_property
    def _equations(self) -> tuple[list[str], str | None]:
        try:
            return [show.line(eq) for eq in self.reduction.equations()], None
        except InputError as error:
            return [], str(error)

    @property
    def equations(self) -> list[str]:
        """One line per class, and per mode where modes are coupled; none where there are too many terms."""
        return self._equations[0]

    @property
    def why_no_equations(self) -> str | None:
        """The reason where there are no equations."""
        return self._equations[1]

    @cached_property
    def conserved(self) -> list[str]:
        """What stays constant in each mode; left out in the block basis, where the B are matrices."""
        laws = [] if self.reduction.basis == "block" else self.reduction.conserved()
        return [show.plain(e, "lex") for e in laws]

    @cached_property
    def reached(self) -> int:
        """How many of the times both theory and flow have reached."""
        end = min(np.min(self.theory.end), np.min(self.flow.end))
        return int((self.theory.t <= end * (1 + 1e-12)).sum())

    @cached_property
    def strengths(self) -> np.ndarray:
        """Strengths in theory of the first edge of each class, (seeds, times, modes, classes)."""
        own = self.theory.reduction.classes  # smaller ones where the start is not the same for all edges
        first = [next(k for k, c in enumerate(own) if members[0] in c) for members in self.reduction.classes]
        found = self.theory.strengths[..., first]
        return found if self.theory.many else found[None]

    @cached_property
    def difference(self) -> float:
        """The largest difference of the losses."""
        n = self.reached
        return float(np.abs(self.theory.loss[..., :n] - self.flow.loss[..., :n]).max())

    @cached_property
    def half_times(self) -> dict[str, np.ndarray]:
        """Time at which each has half of the fall of the loss in the flow, for each seed."""
        level = (self.flow.loss[..., 0] + self.flow.loss[..., -1]) / 2
        runs = {"theory": self.theory, "prediction": self.prediction, "flow": self.flow}
        return {
            name: np.atleast_1d(learning_time(run, level)) for name, run in runs.items() if run is not None
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, for JSON."""
        r = self.reduction
        half = {n: [x if np.isfinite(x) else None for x in v.tolist()] for n, v in self.half_times.items()}
        return {
            "file": str(self.description.path),
            "graph": show.graph_line(r.task.graph),
            "basis": r.basis,
            "n_modes": r.n_modes,
            "n_classes": r.n_classes,
            "classes": [list(c) for c in r.classes],
            "residual": r.residual,
            "exact": r.exact,
            "broken_by": [] if r.exact else r.inexact_paths,
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
            "half_time": half if self.theory.many else {n: v[0] for n, v in half.items()},
            "prediction_error": None if self.prediction is None else self.prediction.stats["error"].tolist(),
            "files": [str(f) for f in self.files],
        }

    def __str__(self) -> str:
        return "\n".join(show.lines(self))


def reduce_file(path: str | Path, out: str | Path = "results", progress: bool = False) -> Explanation:
    """Reduce the network that a YAML file describes.

    Parameters
    ----------
    path : path
        The description; docs/command.md says what it holds.
    out : path
        Equations, curves and figure go to the folder `out/reduce/<name of the file>`.
    progress : bool
        Show on stderr what is being done.

    Returns
    -------
    Explanation
        Printed, it is the report of the command.
    """
    from tqdm import tqdm

    given = read_description(path)
    with tqdm(
        total=5, disable=not progress, leave=False, bar_format="{desc} ({n}/{total}, {elapsed})"
    ) as bar:
        bar.set_description("looking for the reduction")
        try:
            r = reduce(given.task, given.basis)
        except InputError as error:
            raise InputError(f"{given.path}: {error}") from None
        folder = folder_for(out, "reduce", given.path)
        bar.update()
        explanation = explain(given, r, bar)
        bar.set_description("drawing")
        write_text(folder / "equations.tex", show.latex(explanation))
        write_text(folder / "curves.csv", show.table(explanation))
        drawn = plot.save(show.figure(explanation), folder, "curves")
    return replace(explanation, files=(folder / "equations.tex", folder / "curves.csv", *drawn))


def explain(given: Description, r: Reduction, bar: Any = None) -> Explanation:
    """Solve a reduction, and run the true flow from the same start; a `tqdm` bar says what is being done."""

    def say(text: str) -> None:
        if bar is not None:
            bar.set_description(text)
            bar.update(bar.n > 1 or text != "choosing the time")

    if given.strength is not None:
        weights = init.decoupled(r, given.strength)
    else:
        assert given.std is not None
        weights = init.gaussian(r.task.graph, given.std, seed=range(given.seeds))
    start = {"b0": r.strengths(weights)} if given.strength is None else {"strength": given.strength}
    t1, converged = given.time, True
    if t1 is None:
        say("choosing the time")
        t1, converged = _long_enough(r, start, weights)
    say("solving the reduced system")
    theory = r.solve(t1=t1, save=given.save, **start)
    say("running the flow of the network")
    record = _coordinates(r) if given.strength is not None and r.basis != "block" else None
    true = flow(r.task, weights, t1, theory.t, save_weights=False, record=record)
    prediction = None
    if given.strength is None:
        say("predicting from the start itself")
        prediction = reduce(r.task, weights=weights).solve(t1=t1, save=theory.t)
    r = theory.reduction  # with the classes of this start: random strengths are not tied
    return Explanation(given, r, theory, true, converged, r.distance(weights), prediction)


def _coordinates(r: Reduction) -> Record:
    """A function that gives the strengths of the first edge of each class."""
    import jax.numpy as jnp

    frames = {c[0]: (r.family.left[c[0]], r.family.right[c[0]]) for c in r.classes[: show.MAX_SHOWN]}

    def record(state: State) -> dict[str, Any]:
        return {e: jnp.einsum("om,oi,im->m", u, state.weights[e], v) for e, (u, v) in frames.items()}

    return record


def _long_enough(r: Reduction, start: dict[str, Any], weights: Any) -> tuple[float, bool]:
    """A time by which learning is complete, and whether there is one.

    From a small start the loss rests near saddles before it falls: a small slope does not mean the end. The
    goal is a loss near the least that any weights reach. Where the reduced system does not come to it, as it
    rests at a saddle that networks leave, the time is that of the network itself.
    Steps are limited; a goal that is not reached within them counts as never reached.
    """
    strongest = strongest_correlation(r.task)
    forever = LONGEST / strongest
    method = Adaptive(1e-6, 1e-8, max_steps=MAX_STEPS[r.tied is not None])
    level = complete_loss(r)
    theory = r.solve(t1=forever, save=2, method=method, stop_loss=level, **start)
    if _reached(theory):
        return _rounded(1.25 * settled_time(theory) or 1 / strongest), True
    true = flow(r.task, weights, forever, 2, method=method, stop_loss=level, save_weights=False)
    settled = max(settled_time(theory), settled_time(true))
    return _rounded(1.25 * settled or 1 / strongest), _reached(true)


def _reached(run: Trajectory) -> bool:
    return set(run.statuses) == {Status.REACHED_LOSS}


def _rounded(t: float) -> float:
    return float(f"{t:.2g}")
