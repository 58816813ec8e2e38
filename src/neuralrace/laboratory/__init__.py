"""The lab: a web page, or a widget in a notebook, that shows networks race. Imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuralrace.errors import need_extra

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from neuralrace import Task
    from neuralrace.laboratory.notebook import LabWidget


def lab(task: Task | None = None, strengths: float | Mapping[str, float] = 0.05) -> LabWidget:
    """Show a task in a notebook: its network, its race, what theory says, and networks trained beside it.

    Needs the extra `neuralrace[lab]`. The same page runs outside notebooks: `neuralrace lab`.

    Parameters
    ----------
    task : Task, optional
        On a linear graph without biases, with at most 256 neurons in a layer and 2000 samples; by default the
        gallery is shown.
    strengths : float or dict
        Where theory and networks start: with this strength in every mode of every edge, or a number for each
        edge that learns, as in `Reduction.solve`. The page's slider multiplies all of them.

    Returns
    -------
    LabWidget
        Displayed by the notebook.

    Examples
    --------
    >>> import neuralrace as nr
    >>> widget = nr.lab(nr.tasks.xor(hidden=8))  # doctest: +SKIP
    >>> widget.save("race.html", title="Exclusive or")  # doctest: +SKIP
    """
    need_extra("lab", "anywidget", "pydantic")
    from neuralrace.laboratory.notebook import show

    return show(task, strengths)


def save_pages(folder: str) -> list[Path]:
    """Write the page of every entry of the gallery: the command `neuralrace lab --save FOLDER`."""
    need_extra("lab", "pydantic")
    from neuralrace.laboratory.saving import save_gallery

    return save_gallery(folder)


def start(port: int, browser: bool, link: str | None = None) -> int:
    """Serve the page until interrupted: the command `neuralrace lab [LINK]`."""
    need_extra("lab", "fastapi", "uvicorn", "websockets")
    from neuralrace.laboratory.server import serve

    return serve(port, browser, link)
