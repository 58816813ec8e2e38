"""Experiments: each published figure and claim, computed anew."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from neuralrace import plot
from neuralrace.dynamics.trajectory import versions
from neuralrace.errors import InputError
from neuralrace.experiments.experiment import Claim, Experiment, Parameters
from neuralrace.experiments.store import Parts, key_of
from neuralrace.files import writable, write_text

NAMES = (
    "xor", "contextual", "routing", "sharing", "initialisation", "images",
    "linear-background", "separability", "contexts", "context-count", "depth", "discovery", "uniqueness",
    "chains", "phase-portraits", "pathways",
    "worlds", "balanced", "continual", "saddles", "decisions", "relative-scale",
    "two-point", "layers", "structure", "collapse",
)  # fmt: skip

__all__ = ["Claim", "Experiment", "Parameters", "Report", "experiment", "names", "run"]


def names() -> tuple[str, ...]:
    """Every experiment, in the order in which a report shows them."""
    return NAMES


def experiment(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in NAMES:
        raise InputError(f"there is no experiment {name!r}; there are {', '.join(NAMES)}")
    return import_module(f"neuralrace.experiments.{name.replace('-', '_')}").EXPERIMENT


@dataclass(frozen=True)
class Report:
    """What a run of an experiment found. `figures` are (name, caption), with files in `folder`."""

    name: str
    title: str
    source: str
    about: str
    claims: tuple[Claim, ...]
    figures: tuple[tuple[str, str], ...]
    folder: Path
    quick: bool
    parameters: dict[str, Any]
    versions: dict[str, str]
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether every claim holds."""
        return all(c.holds for c in self.claims)

    def to_dict(self) -> dict[str, Any]:
        """All that is here, as JSON can hold it."""
        found = {**dataclasses.asdict(self), "folder": str(self.folder)}
        return json.loads(json.dumps(found, default=str), parse_constant=lambda _: None)

    @classmethod
    def load(cls, folder: Path) -> Report:
        """The report that a run left in its folder; what else is written there is left out."""
        read = json.loads((folder / "result.json").read_text())
        found = {f.name: read[f.name] for f in dataclasses.fields(cls) if f.name != "folder"}
        claims = tuple(Claim(**c) for c in found.pop("claims"))
        figures = tuple((n, c) for n, c in found.pop("figures"))
        return cls(**{**found, "claims": claims, "figures": figures, "folder": folder})


def run(
    name: str,
    quick: bool = False,
    out: str | Path = "results",
    changes: dict[str, Any] | None = None,
    progress: bool = False,
    say: Callable[[str], None] | None = None,
) -> Report:
    """Run an experiment, or finish one that was interrupted, and write its figures to `out/name`.

    `changes` are parameters to set; `say` is told when they differ from those of the last run there.

    >>> names()[0]
    'xor'
    """
    chosen = experiment(name)
    p = chosen.chosen(quick, changes or {})
    folder = writable(Path(out) / name)
    settings = json.loads(json.dumps(dataclasses.asdict(p)))
    if say is not None:
        _compare(folder, name, settings, say)
    parts = Parts(folder / "parts", key_of(settings, _code(chosen)), name, progress)
    start = time.perf_counter()
    results = chosen.compute(p, parts)
    claims = tuple(chosen.claims(p, results))
    with plot.style():
        figures = chosen.figures(p, results)
    for figure_name, (figure, _) in figures.items():
        plot.save(figure, folder, figure_name)
    report = Report(
        name,
        chosen.title,
        chosen.source,
        (import_module(chosen.compute.__module__).__doc__ or "").strip(),
        claims,
        tuple((n, caption) for n, (_, caption) in figures.items()),
        folder,
        quick,
        settings,
        dict(versions()),
        parts.seconds + time.perf_counter() - start,
    )
    write_text(folder / "result.json", json.dumps(report.to_dict(), indent=1))
    return report


def _code(chosen: Experiment) -> list[Path]:
    """The files on which the numbers of an experiment depend: its own and the library's."""
    package = Path(__file__).parents[1]
    apart = ("cli.py", "plot.py", "description.py", "explain.py", "files.py", "experiments")
    core = [f for f in package.rglob("*.py") if f.relative_to(package).parts[0] not in apart]
    return [*core, Path(str(import_module(chosen.compute.__module__).__file__))]


def _compare(folder: Path, name: str, settings: dict[str, Any], say: Callable[[str], None]) -> None:
    try:
        last = Report.load(folder).parameters
    except (OSError, ValueError, TypeError, KeyError):
        return
    changed = [f"{k} {last.get(k)} -> {v}" for k, v in settings.items() if last.get(k) != v]
    if changed:
        say(f"{name}: parameters differ from the last run: {'; '.join(changed)}")
