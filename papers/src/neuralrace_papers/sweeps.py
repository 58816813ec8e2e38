"""Experiments as `neuralrace sweep` runs them: at every point of a grid of their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from neuralrace_papers import experiment
from neuralrace_papers.running import code_key, run


@dataclass(frozen=True)
class Measured:
    """An experiment as a function of its parameters; see `neuralrace.apps.sweep.experiment.Measured`."""

    name: str
    quick: bool
    out: str
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def code(self) -> str:
        """A text that changes with the code of the experiment."""
        return code_key(experiment(self.name))

    def check(self, changes: Mapping[str, Any]) -> None:
        """Refuse parameters that the experiment refuses."""
        experiment(self.name).chosen(self.quick, {**self.fixed, **changes})

    def __call__(self, changes: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """What was measured, by name, and in words how it ended."""
        report = run(self.name, self.quick, self.out, {**self.fixed, **changes})
        values = {id: row.value for id, row in report.rows.items()}
        several = {id: row for id, row in report.rows.items() if row.error is not None}
        values |= {f"spread:{id}": (row.error or 0.0) * row.runs**0.5 for id, row in several.items()}
        return values, f"{len(report.rows)} rows"


def measured(name: str, quick: bool, out: str, fixed: Mapping[str, Any]) -> Measured:
    """The experiment of that name, with results in a folder, and parameters that stay as they are."""
    experiment(name)
    return Measured(name, quick, out, dict(fixed))
