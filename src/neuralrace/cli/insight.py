"""`neuralrace insight`."""

from __future__ import annotations

import importlib
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from neuralrace.apps.insight import watch
from neuralrace.apps.insight.page import write_page
from neuralrace.errors import InputError
from neuralrace.files import read_npz


def write_insight(given: Namespace) -> int:
    """Watch a network through its checkpoints, print what was found, and write the page."""
    arrays = read_npz(Path(given.data), "x", "y")
    model = _model(given.model)
    seen = watch.from_checkpoints(
        model, given.files, arrays["x"], arrays["y"], allow_pickle=given.allow_pickle
    )
    page, answers = write_page(seen, given.out)
    for answer in answers.values():
        print(f"{answer}\n")
    print(f"report: {page}")
    return 0


def _model(name: str) -> Any:
    """The model that `module:factory` makes; the module may lie in the working folder."""
    module, colon, factory = name.partition(":")
    if not colon or not module or not factory:
        raise InputError(f"--model must be module:factory, a function that makes the model; got {name!r}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(importlib.import_module(module), factory)()
    except (Exception, SystemExit) as fault:
        what = "be found" if isinstance(fault, (ImportError, AttributeError)) else "be made"
        raise InputError(f"--model {name} cannot {what}: {type(fault).__name__}: {fault}") from fault
    finally:
        sys.path.pop(0)
