"""Experiments as `neuralrace sweep` runs them: at every point of a grid of their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from neuralrace_papers import code_key, experiment, run


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
        values = {c.id: c.measured for c in report.claims}
        values |= {f"spread:{c.id}": c.spread for c in report.claims if c.spread is not None}
        held = sum(c.holds is True for c in report.claims)
        return values, f"{held} of {sum(c.holds is not None for c in report.claims)} claims hold"


def measured(name: str, quick: bool, out: str, fixed: Mapping[str, Any]) -> Measured:
    """The experiment of that name, with results in a folder, and parameters that stay as they are."""
    experiment(name)
    return Measured(name, quick, out, dict(fixed))
