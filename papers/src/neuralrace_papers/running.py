"""Running an experiment: parts are computed or read, rows and figures made, and all of it written."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
import re
import shlex
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from neuralrace import plot
from neuralrace.errors import InputError
from neuralrace.files import write_text
from neuralrace_papers import experiment
from neuralrace_papers.framework.declaration import Experiment
from neuralrace_papers.framework.results import FORMAT, Report
from neuralrace_papers.framework.store import Store, digest, key_of

LONGEST = 80  # characters of changed parameters in the name of a folder
PACKAGES = ("neuralrace", "jax", "numpy", "scipy")


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
        Figures, rows and the data of all parts go to a folder in it: `name`, `name-quick` for the quick form,
        and with the parameters that were changed where there are any, as in `xor-quick-hidden=64`. So no run
        overwrites one with other parameters.
    changes : dict, optional
        Parameters to set; texts are read as the parameter's type.
    progress : bool
        Show progress bars on stderr.

    Returns
    -------
    Report
    """
    start = time.perf_counter()
    chosen, p, store = _opened(name, quick, out, changes or {})
    settings, usual = _settings(p), _settings(chosen.chosen(quick, {}))
    data = chosen.compute(p, store, progress)
    with plot.style():
        rows, figures = chosen.rows(p, data), chosen.figures(p, data)
    for figure_name, (figure, _) in figures.items():
        plot.save(figure, store.folder.parent, figure_name)
    report = Report(
        name=chosen.name,
        title=chosen.title,
        source=chosen.source,
        about=(chosen.module.__doc__ or "").strip(),
        rows=rows,
        figures=tuple((n, caption) for n, (_, caption) in figures.items()),
        folder=store.folder.parent,
        quick=quick,
        changed=settings != usual,
        parameters=settings,
        versions={"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
        digest=code_key(chosen),
        seconds=store.seconds + time.perf_counter() - start,
        command=_command(name, quick, settings, usual),
    )
    write_text(report.folder / "claims.csv", report.table().to_csv(index=False))
    write_text(report.folder / "result.json", json.dumps(report.to_dict() | {"format": FORMAT}, indent=1))
    return report


def fill(name: str, quick: bool, out: str | Path, changes: dict[str, Any]) -> None:
    """Compute parts of an experiment that no other process computes, until all are stored; see `run`."""
    chosen, p, store = _opened(name, quick, out, changes)
    chosen.compute(p, store)


def code_key(chosen: Experiment) -> str:
    """The code on which the stored parts of an experiment depend."""
    return digest(Path(str(chosen.module.__file__)))


def _opened(
    name: str, quick: bool, out: str | Path, changes: dict[str, Any]
) -> tuple[Experiment, Any, Store]:
    """An experiment with its parameters, and the store of its parts."""
    chosen = experiment(name)
    p = chosen.chosen(quick, changes)
    folder = _writable(Path(out) / _folder_name(chosen, p, quick))
    return chosen, p, Store(folder / "parts", key_of(_settings(p), code_key(chosen)))


def _writable(folder: Path) -> Path:
    """A folder for results, made where it is missing; refused where nothing can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f".{os.getpid()}").touch()
        (folder / f".{os.getpid()}").unlink()
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"out must be a folder that can be written, got {str(folder)!r}: {why}") from None
    return folder


def _settings(p: Any) -> dict[str, Any]:
    """Parameters as JSON has them."""
    return json.loads(json.dumps(dataclasses.asdict(p)))


def _command(name: str, quick: bool, settings: dict[str, Any], usual: dict[str, Any]) -> str:
    """The command that runs an experiment with these settings."""
    changed = [f"{k}={_told(v)}" for k, v in settings.items() if v != usual[k]]
    options = [word for change in changed for word in ("--set", change)]
    return shlex.join(["neuralrace", "run", name, *(["--quick"] if quick else []), *options])


def _folder_name(chosen: Experiment, p: Any, quick: bool) -> str:
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
