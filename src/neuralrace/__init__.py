"""The theory of how networks learn: gated deep linear networks and the neural race reduction."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from neuralrace.interrupts import heard

if TYPE_CHECKING:
    from neuralrace import (
        errors,
        exact,
        init,
        landscape,
        measure,
        plot,
        relu,
        tasks,
        universality,
    )
    from neuralrace.apps.insight import watch
    from neuralrace.apps.sweep import Run, sweep, sweep_figure
    from neuralrace.dynamics import (
        Adaptive,
        LowRank,
        Rates,
        Status,
        Trajectory,
        descend,
        flow,
    )
    from neuralrace.expected import expected_learning_time
    from neuralrace.graph import Edge, Graph, Node
    from neuralrace.laboratory import lab
    from neuralrace.learned import events, learning_time
    from neuralrace.measure import (
        conserved,
        end_to_end,
        half_time,
        pathway_maps,
        tangent_kernel,
        unit_sizes,
    )
    from neuralrace.network import activity, error_rate, gradient, loss, predict
    from neuralrace.reduction import Reduction, attainable_loss, mode_strengths, reduce
    from neuralrace.relu import race
    from neuralrace.task import Task
else:
    # Imported when first used: nobody waits for what a program may never need.
    _MODULES = (
        "errors", "exact", "init", "landscape", "measure", "plot", "relu", "tasks", "universality",
    )  # fmt: skip
    _NAMES = {
        "apps.insight": ("watch",),
        "apps.sweep": ("Run", "sweep", "sweep_figure"),
        "dynamics": ("Adaptive", "LowRank", "Rates", "Status", "Trajectory", "descend", "flow"),
        "expected": ("expected_learning_time",),
        "graph": ("Edge", "Graph", "Node"),
        "laboratory": ("lab",),
        "learned": ("events", "learning_time"),
        "measure": (
            "conserved", "end_to_end", "half_time", "pathway_maps", "tangent_kernel", "unit_sizes",
        ),
        "network": ("activity", "error_rate", "gradient", "loss", "predict"),
        "reduction": ("Reduction", "attainable_loss", "mode_strengths", "reduce"),
        "relu": ("race",),
        "task": ("Task",),
    }  # fmt: skip

    def __getattr__(name: str) -> Any:
        if name in (*_MODULES, *_NAMES):
            with heard():
                return import_module(f"neuralrace.{name}")
        for module, names in _NAMES.items():
            if name in names:
                with heard():
                    globals()[name] = found = getattr(import_module(f"neuralrace.{module}"), name)
                return found
        raise AttributeError(f"module 'neuralrace' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return [*__all__, "__version__"]


__version__ = "0.1.0"

__all__ = [
    "Adaptive",
    "Edge",
    "Graph",
    "LowRank",
    "Node",
    "Rates",
    "Reduction",
    "Run",
    "Status",
    "Task",
    "Trajectory",
    "activity",
    "attainable_loss",
    "conserved",
    "descend",
    "end_to_end",
    "error_rate",
    "errors",
    "events",
    "exact",
    "expected_learning_time",
    "flow",
    "gradient",
    "half_time",
    "init",
    "lab",
    "landscape",
    "learning_time",
    "loss",
    "measure",
    "mode_strengths",
    "pathway_maps",
    "plot",
    "predict",
    "race",
    "reduce",
    "relu",
    "sweep",
    "sweep_figure",
    "tangent_kernel",
    "tasks",
    "unit_sizes",
    "universality",
    "watch",
]
