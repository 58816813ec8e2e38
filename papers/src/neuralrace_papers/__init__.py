"""Experiments: figures and sentences of five documents, computed anew."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neuralrace_papers.framework.declaration import Experiment
    from neuralrace_papers.framework.results import Report
    from neuralrace_papers.running import run
else:

    def __getattr__(name: str) -> Any:
        """What is imported when first used: `neuralrace list` need not wait for the library."""
        homes = {"run": "running", "Report": "framework.results", "Experiment": "framework.declaration"}
        if name not in homes:
            raise AttributeError(f"module 'neuralrace_papers' has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(f"neuralrace_papers.{homes[name]}"), name)
        return found


PAPERS = {
    "neural_race": (
        "path-sums", "xor", "contextual", "routing", "sharing", "race", "initialisation", "images",
    ),
    "make_haste_slowly": (
        "linear-background", "separability", "contexts", "context-count", "context-equations", "depth",
        "discovery", "uniqueness",
    ),
    "multipathway": ("phase-portraits", "pathway-coordinates", "pathways", "pathways-nonlinear"),
    "talk": ("chains", "worlds", "balanced", "continual", "saddles", "decisions", "relative-scale"),
    "representations_align": ("two-point", "two-point-equations", "layers", "structure", "collapse"),
}  # fmt: skip
MODULES = {
    name: f"neuralrace_papers.{paper}.{name.replace('-', '_')}"
    for paper, own in PAPERS.items()
    for name in own
}

__all__ = ["Experiment", "Report", "experiment", "names", "run"]


def names() -> tuple[str, ...]:
    """Every experiment, in the order in which a report shows them."""
    return tuple(MODULES)


def experiment(name: str | Path) -> Experiment:
    """The experiment of that name, or the one in a file of your own, such as ``bottleneck.py``."""
    from neuralrace.errors import InputError, short

    if isinstance(name, (str, Path)) and str(name).endswith(".py"):
        return _from_file(Path(name))
    if not isinstance(name, str) or name not in MODULES:
        raise InputError(f"there is no experiment {short(name)}; there are {', '.join(MODULES)}")
    return import_module(MODULES[name]).EXPERIMENT


def _from_file(file: Path) -> Experiment:
    """The `EXPERIMENT` that a file of the user defines."""
    from neuralrace.errors import InputError

    name, file = f"neuralrace_papers.own.{file.stem}", file.resolve()
    spec = spec_from_file_location(name, file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise InputError(f"there is no file {file} with an experiment")
    if name not in sys.modules or sys.modules[name].__file__ != str(file):
        sys.modules[name] = module = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    try:
        return sys.modules[name].EXPERIMENT
    except AttributeError:
        raise InputError(f"{file} must define EXPERIMENT = Experiment(...)") from None
