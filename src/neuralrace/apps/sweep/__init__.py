"""Sweeps: many runs over grids of parameters, computed together and stored safely."""

from neuralrace.apps.sweep.figure import sweep_figure
from neuralrace.apps.sweep.run import Run
from neuralrace.apps.sweep.verb import sweep

__all__ = ["Run", "sweep", "sweep_figure"]
