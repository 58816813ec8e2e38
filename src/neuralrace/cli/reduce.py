"""`neuralrace reduce`: the equations, certificate and curves of a described network, beside its true flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace.cli import reduce_output as show
from neuralrace.cli.description import Description, read_description
from neuralrace.cli.saving import save_figure, save_table
from neuralrace.dynamics import State
from neuralrace.errors import InputError, quick
from neuralrace.files import folder_for, write_text
from neuralrace.reduction import settled_time

LONGEST = 1e12  # in units of the fastest learning, that a network is followed to choose an end
MANY, PILOT = 1000, 20  # seeds whose time is estimated first, by that of so many
ROUGH = nr.Adaptive(1e-6, 1e-8, max_steps=2_000)  # to choose an end, of networks


@dataclass(frozen=True, eq=False)
class Explanation:
    """A reduction with its solution, and the flow of the network from the same start.

    Attributes
    ----------
    description : Description
        What the file says.
    reduction : Reduction
    theory : Trajectory
        The solved reduction, with a leading axis of seeds where the start is random.
    flow : Trajectory
        The network itself, likewise.
    converged : bool
        Whether learning is complete at the chosen time; True where the time was given.
    left : str
        What the family of the papers does, in words, where it does not learn what networks do.
    distance : float
        Distance of the start from the weights that the reduction describes, relative to its size.
    prediction : Trajectory or None
        For a random start: the reduction around it, in which no part of the start is left out.
    files : tuple of Path
        What was written.
    """

    description: Description
    reduction: nr.Reduction
    theory: nr.Trajectory
    flow: nr.Trajectory
    converged: bool
    distance: float
    left: str = ""
    prediction: nr.Trajectory | None = None
    files: tuple[Path, ...] = ()

    @property
    def equations(self) -> list[str]:
        """One line per class, and per mode where modes are coupled; none where there are too many terms."""
        return [] if self.why_no_equations else show.equations(self.reduction)

    @cached_property
    def why_no_equations(self) -> str | None:
        """The reason where there are no equations."""
        try:
            self.reduction.written()
        except InputError as error:
            return str(error)
        return None

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
            name: np.atleast_1d(nr.learning_time(run, level)) for name, run in runs.items() if run is not None
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
            "directions": r.directions,
            "n_classes": r.n_classes,
            "classes": [list(c) for c in r.classes],
            "residual": r.residual,
            "exact": r.exact,
            "broken_by": r.inexact_paths,
            "equations": self.equations,
            "no_equations": self.why_no_equations,
            "conserved": self.conserved,
            "time": float(self.theory.t[-1]),
            "time_chosen": self.description.time is None,
            "converged": self.converged,
            "distance": self.distance,
            "left": self.left,
            "attainable": r.attainable.loss,
            "status": {n: show.statuses(run) for n, run in (("theory", self.theory), ("flow", self.flow))},
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


def reduce_file(
    path: str | Path,
    out: str | Path = "results",
    progress: bool = False,
    tell: Callable[[Explanation], None] | None = None,
) -> Explanation:
    """Reduce the network that a YAML file describes.

    Parameters
    ----------
    path : path
        The description; docs/command.md says what it holds.
    out : path
        Equations, curves and figure go to the folder `out/reduce/<name of the file>`.
    progress : bool
        Show on stderr what is being done.
    tell : callable, optional
        Takes what was found before the figure is drawn, which takes about as long as all the rest.

    Returns
    -------
    Explanation
        Printed, it is the report of the command.
    """
    from tqdm import tqdm

    given = read_description(path)
    with tqdm(disable=not progress, leave=False, bar_format="{desc} ({elapsed})") as bar:
        bar.set_description("looking for the reduction")
        try:
            r = nr.reduce(given.task, given.basis)
        except InputError as error:
            raise InputError(f"{given.path}: {error}") from None
        if given.seeds > MANY:
            few = replace(given, seeds=PILOT)
            explain(few, r)  # compiles
            began = perf_counter()
            explain(few, r)
            quick("start: seeds", given.seeds, (perf_counter() - began) * given.seeds / PILOT)
        folder = folder_for(out, "reduce", given.path)
        explanation = explain(given, r, bar.set_description)
    write_text(folder / "equations.tex", show.latex(explanation))
    save_table(show.table(explanation), folder / "curves.csv")
    if tell is not None:
        tell(explanation)
    drawn = save_figure(lambda: show.figure(explanation), folder, "curves")
    return replace(explanation, files=(folder / "equations.tex", folder / "curves.csv", *drawn))


def explain(
    given: Description, r: nr.Reduction, say: Callable[[str], Any] = lambda text: None
) -> Explanation:
    """Solve a reduction, and run the true flow from the same start; `say` is told what is being done."""
    say("choosing the family and the time")
    found, left, t1, converged = None, "", given.time, True
    if given.strength is not None:
        r, found, left = _family(r, given.strength)
        weights, start = nr.init.decoupled(r, given.strength), given.strength
    else:
        assert given.std is not None
        weights = nr.init.gaussian(r.task.graph, given.std, seed=range(given.seeds))
        start = r.strengths(weights)
    if t1 is None:
        t1, converged = _long_enough(r, found, weights)
    say("solving the reduced system")
    theory = r.solve(start, t1, given.save)
    theory = replace(theory, source=replace(theory.source, reduction=r))  # edges of a class side by side
    say("running the flow of the network")
    record = _coordinates(r) if given.strength is not None and r.basis != "block" else None
    true = nr.flow(r.task, weights, t1, theory.t, save_weights=False, record=record)
    prediction = None
    if given.strength is None:
        say("predicting from the start itself")
        prediction = nr.reduce(r.task, weights=weights).solve(t1=t1, save=theory.t)
    return Explanation(given, r, theory, true, converged, r.distance(weights), left, prediction)


def _family(r: nr.Reduction, strength: float) -> tuple[nr.Reduction, nr.Trajectory, str]:
    """The family whose theory is shown, its rough solution, and why it is not the one of the papers.

    A wider one is taken where that one rests at a saddle, or never settles; else the words say that there is
    none.
    """
    found = r.until_learned(strength)
    if found.status not in (nr.Status.SADDLE, nr.Status.UNSETTLED):
        return r, found, ""
    ended = found.outcome.partition("; ")[0]
    said = f"the papers' family, with one direction per mode, does not learn all that networks do ({ended})"
    try:
        wider = r.widened()
    except InputError as error:
        return r, found, f"{said}; {error}"
    said += f"; shown is r.widened(), with {wider.directions} directions per mode"
    return wider, wider.until_learned(strength), said


def _coordinates(r: nr.Reduction) -> Callable[[State], Mapping[str, Any]]:
    """A function that gives the strengths of the first edge of each class."""
    import jax.numpy as jnp

    names, split = [c[0] for c in r.classes[: show.MAX_SHOWN]], r.family.split
    frames = {n: (r.family.left[n], r.family.right[n]) for n in names}
    every = slice(None)
    places = {n: (n, every, every) if split is None else split.place(n) for n in names}

    def record(state: State) -> dict[str, Any]:
        parts = {n: state.weights[e][rows, columns] for n, (e, rows, columns) in places.items()}
        return {n: jnp.einsum("om,oi,im->m", u, parts[n], v) for n, (u, v) in frames.items()}

    return record


def _long_enough(r: nr.Reduction, theory: nr.Trajectory | None, weights: Any) -> tuple[float, bool]:
    """A time by which learning is complete, and whether there is one.

    It is that of the network itself from random weights, without `theory`, and where the network leaves the
    family of theory. Its steps are limited; a goal that is not reached within them counts as never reached.
    """
    runs: list[nr.Trajectory] = [] if theory is None else [theory]
    if theory is None or not (r.exact or _reached(theory)):
        t1, goal = LONGEST * r.fastest_time, r.complete_loss
        runs.append(nr.flow(r.task, weights, t1, 2, method=ROUGH, stop_loss=goal, save_weights=False))
    settled, complete = max(map(settled_time, runs)), _reached(runs[-1])
    return float(f"{(1.25 if complete else 2.0) * settled or r.fastest_time:.2g}"), complete


def _reached(run: nr.Trajectory) -> bool:
    return set(run.statuses) == {nr.Status.REACHED_LOSS}
