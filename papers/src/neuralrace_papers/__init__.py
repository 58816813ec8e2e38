"""Experiments: each published figure and claim, computed anew."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shlex
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuralrace import plot
from neuralrace.compiling import counted_anew
from neuralrace.dynamics.trajectory import versions
from neuralrace.errors import InputError, short
from neuralrace.files import FORMAT, check_format, writable, write_text
from neuralrace_papers.framework.claim import Claim
from neuralrace_papers.framework.experiment import Experiment, Parameters
from neuralrace_papers.framework.store import Store, digest, key_of

if TYPE_CHECKING:
    import pandas as pd

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
LONGEST = 80  # characters of changed parameters in the name of a folder

__all__ = ["Claim", "Experiment", "Parameters", "Report", "experiment", "names", "run"]


def names() -> tuple[str, ...]:
    """Every experiment, in the order in which a report shows them."""
    return tuple(MODULES)


def experiment(name: str) -> Experiment:
    """The experiment of that name, or the one in a file of your own, such as ``bottleneck.py``."""
    if isinstance(name, (str, Path)) and str(name).endswith(".py"):
        return _from_file(Path(name))
    if not isinstance(name, str) or name not in MODULES:
        raise InputError(f"there is no experiment {short(name)}; there are {', '.join(MODULES)}")
    return import_module(MODULES[name]).EXPERIMENT


def _from_file(file: Path) -> Experiment:
    """The `EXPERIMENT` that a file of the user defines."""
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


@dataclass(frozen=True)
class Report:
    """What a run of an experiment found.

    `figures` are (name, caption), with files in `folder`: the figure itself and its data, `name.csv` or
    `name.csv.gz`. `command` makes all of it again.
    """

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
    command: str = ""

    @property
    def holds(self) -> bool:
        """Whether no claim fails; undecided ones do not count."""
        return not any(c.holds is False for c in self.claims)

    def table(self) -> pd.DataFrame:
        """All claims, a row each, with the experiment, its form (quick or full) and its folder."""
        import pandas as pd

        head = {"experiment": self.name, "form": "quick" if self.quick else "full", "run": self.folder.name}
        return pd.DataFrame([{**head, **c.to_dict()} for c in self.claims])

    def to_dict(self) -> dict[str, Any]:
        """All that is here, as JSON can hold it."""
        found = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        found |= {"claims": [c.to_dict() for c in self.claims], "folder": str(self.folder)}
        return json.loads(json.dumps(found, default=str), parse_constant=lambda _: None)

    @classmethod
    def load(cls, folder: Path) -> Report:
        """The report that a run left in its folder; what else is written there is left out."""
        read = json.loads((folder / "result.json").read_text())
        check_format(str(folder), read.get("format", FORMAT))
        read.setdefault("command", "")  # results of older versions have none
        found = {f.name: read[f.name] for f in dataclasses.fields(cls) if f.name != "folder"}
        claims = tuple(Claim.from_dict(c) for c in found.pop("claims"))
        figures = tuple((n, c) for n, c in found.pop("figures"))
        return cls(**{**found, "claims": claims, "figures": figures, "folder": folder})


def run(
    name: str,
    quick: bool = False,
    out: str | Path = "results",
    changes: dict[str, Any] | None = None,
    progress: bool = False,
) -> Report:
    """Run an experiment, or finish one that was interrupted, and write what it found.

    Parameters
    ----------
    name : str
        One of `names()`, or a file with an experiment of your own.
    quick : bool
        The small form, for a first look.
    out : path
        Figures, their data and claims go to a folder in it: `name`, `name-quick` for the quick form, and
        with the parameters that were changed where there are any, as in `xor-quick-hidden=64`. So no run
        overwrites one with other parameters.
    changes : dict, optional
        Parameters to set; texts are read as the parameter's type.
    progress : bool
        Show progress bars on stderr.

    Returns
    -------
    Report

    Examples
    --------
    >>> "xor" in names()
    True
    """
    start = time.perf_counter()
    chosen, p, store = _opened(name, quick, out, changes or {})
    settings, folder = _settings(p), store.folder.parent
    data = chosen.compute(p, store, progress)
    with counted_anew(), plot.style():
        claims = chosen.judged(p, data, quick)
        figures = chosen.figures(p, data)
    report = Report(
        chosen.name,
        chosen.title,
        chosen.source,
        (chosen.module.__doc__ or "").strip(),
        claims,
        tuple((n, caption) for n, (_, caption) in figures.items()),
        folder,
        quick,
        settings,
        dict(versions()),
        store.seconds + time.perf_counter() - start,
        _command(name, quick, settings, _settings(chosen.chosen(quick, {}))),
    )
    _write(report, figures)
    return report


def fill(name: str, quick: bool, out: str | Path, changes: dict[str, Any]) -> None:
    """Compute parts of an experiment that no other process computes, until all are stored; see `run`."""
    chosen, p, store = _opened(name, quick, out, changes)
    chosen.compute(p, store)


def _opened(
    name: str, quick: bool, out: str | Path, changes: dict[str, Any]
) -> tuple[Experiment, Parameters, Store]:
    """An experiment with its parameters, and the store of its parts."""
    chosen = experiment(name)
    p = chosen.chosen(quick, changes)
    folder = writable(Path(out) / _folder_name(chosen, p, quick))
    return chosen, p, Store(folder / "parts", key_of(_settings(p), code_key(chosen)))


def _write(report: Report, figures: dict[str, tuple[Any, str]]) -> None:
    from neuralrace_papers.framework.figure_data import write_figure_data

    for name, (figure, _) in figures.items():
        plot.save(figure, report.folder, name)
        write_figure_data(figure, report.folder, name)
    write_text(report.folder / "claims.csv", report.table().to_csv(index=False))
    write_text(report.folder / "result.json", json.dumps(report.to_dict() | {"format": FORMAT}, indent=1))


def _settings(p: Parameters) -> dict[str, Any]:
    """Parameters as JSON has them."""
    return json.loads(json.dumps(dataclasses.asdict(p)))


def _command(name: str, quick: bool, settings: dict[str, Any], usual: dict[str, Any]) -> str:
    """The command that runs an experiment with these settings."""
    changed = [f"{k}={_told(v)}" for k, v in settings.items() if v != usual[k]]
    options = [word for change in changed for word in ("--set", change)]
    return shlex.join(["neuralrace", "run", name, *(["--quick"] if quick else []), *options])


def _folder_name(chosen: Experiment, p: Parameters, quick: bool) -> str:
    """Name, form and changed parameters; a short key stands for these where they are long or odd."""
    settings, usual = _settings(p), _settings(chosen.chosen(quick, {}))
    words = [chosen.name, *(["quick"] if quick else [])]
    changed = {k: v for k, v in settings.items() if v != usual[k]}
    if changed:
        told = "-".join(f"{k}={_told(v)}" for k, v in changed.items())
        plain = re.fullmatch(r"[\w.,=+-]+", told, re.ASCII) and len(told) <= LONGEST
        text = json.dumps(changed, sort_keys=True).encode()
        words.append(told if plain else hashlib.sha256(text).hexdigest()[:8])
    return "-".join(words)


def _told(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(_told(v) for v in value)
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def code_key(chosen: Experiment) -> str:
    """The code on which the stored parts of an experiment depend."""
    return digest(Path(str(chosen.module.__file__)))
