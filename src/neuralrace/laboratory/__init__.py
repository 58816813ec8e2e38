"""The lab: a web page, or a widget in a notebook, that shows networks race. Imports nothing heavy."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from neuralrace.errors import InputError

if TYPE_CHECKING:
    from neuralrace.laboratory.notebook import LabWidget
    from neuralrace.task import Task

NEEDS = {"server": ("fastapi", "uvicorn", "websockets"), "notebook": ("anywidget", "pydantic")}


def lab(task: Task | None = None) -> LabWidget:
    """Show a task in a notebook: its network, its race, what theory says, and networks trained beside it.

    Needs the extra `neuralrace[lab]`. The same page runs outside notebooks: `neuralrace lab`.

    Parameters
    ----------
    task : Task, optional
        On a linear graph without biases, with at most 256 neurons in a layer and 2000 samples; by default the
        gallery is shown.

    Returns
    -------
    LabWidget
        Displayed by the notebook.

    Examples
    --------
    >>> import neuralrace as nr
    >>> widget = nr.lab(nr.tasks.xor(hidden=8))  # doctest: +SKIP
    """
    require("notebook")
    from neuralrace.laboratory.notebook import show

    return show(task)


def require(what: str) -> None:
    """Say how to install what is missing for the server or the notebook."""
    missing = [name for name in NEEDS[what] if find_spec(name) is None]
    if missing:
        raise InputError(f"the lab needs {', '.join(missing)}: pip install neuralrace[lab]")


def start(port: int, browser: bool) -> int:
    """Serve the page until interrupted: the command `neuralrace lab`."""
    require("server")
    from neuralrace.laboratory.server import serve

    return serve(port, browser)
