"""The lab in a notebook: the same front-end through anywidget, answered by a thread of the kernel."""

from __future__ import annotations

import base64
import json
import threading
from pathlib import Path
from typing import Any

import anywidget
import traitlets

import neuralrace as nr
from neuralrace.errors import InputError
from neuralrace.laboratory.page import FOLDER, page_files
from neuralrace.laboratory.protocol import MAX_MESSAGE, MAX_UPLOAD, REQUEST, Problem, Scene, Simulate, Stop


class LabWidget(anywidget.AnyWidget):
    """The lab as a widget; made by `nr.lab`."""

    _esm: Any = ""
    _css: Any = ""
    scene: Any = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)

    def __init__(self, **keywords: Any) -> None:
        page_files()  # a clear word where the page is not built
        self._esm = (FOLDER / "widget.js").read_text()
        self._css = (FOLDER / "widget.css").read_text()
        super().__init__(**keywords)
        self._latest: dict[str, Any] = {}
        self._changed: threading.Event = threading.Event()
        self._thread: threading.Thread | None = None
        self.on_msg(self._heard)

    def save(self, path: str | Path, link: str | None = None) -> Path:
        """Write the page as one file that needs no server and asks nothing of other sites.

        Its sliders work: the page holds the reduced systems and solves them. Dots of trained networks belong
        to the state that was saved.

        Parameters
        ----------
        path : str or Path
            The file, as in `race.html`. An older page is replaced, any other file is not.
        link : str, optional
            The state to begin with: what 'Copy link' of the page copied. By default the task's.

        Returns
        -------
        Path

        Examples
        --------
        >>> import neuralrace as nr
        >>> nr.lab(nr.tasks.xor(hidden=8)).save("race.html")  # doctest: +SKIP
        """
        from neuralrace.laboratory.opening import scene_in
        from neuralrace.laboratory.saving import save

        return save(path, scene_in(link) if link is not None else Scene.model_validate(self.scene or {}))

    def _heard(self, _: Any, content: Any, buffers: Any) -> None:
        """A message of the page: the latest of each kind is worked on by the thread."""
        if content.get("kind") == "hello":
            from neuralrace.laboratory.welcome import welcome_text

            self.send(json.loads(welcome_text()))
            return
        if content.get("kind") == "upload":
            self.send({**self._table(content), "upload": True})
            return
        text = json.dumps(content)
        try:
            if len(text) > MAX_MESSAGE:
                raise ValueError("too large")
            request = REQUEST.validate_json(text)
        except ValueError as error:  # pydantic's errors are of this kind
            self.send(Problem(id=-1, text=f"message refused: {error}"[:400]).model_dump())
            return
        slot = "simulate" if isinstance(request, Simulate | Stop) else request.kind
        self._latest[slot] = request
        self._changed.set()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()

    def _table(self, content: Any) -> dict[str, Any]:
        from neuralrace.laboratory.uploads import read_table

        try:
            data = base64.b64decode(content.get("content", ""), validate=True)
            if len(data) > MAX_UPLOAD:
                raise InputError(f"the file is larger than {MAX_UPLOAD:,} bytes")
            return read_table(data).model_dump()
        except ValueError as error:
            return Problem(id=-1, text=str(error)).model_dump()

    def _work(self) -> None:
        """Answer the latest request of each kind, theory first; a newer one ends an older one."""
        from neuralrace.laboratory.jobs import answers

        while self._changed.wait(timeout=60):
            for slot in ("solve", "export", "simulate"):
                request = self._latest.pop(slot, None)
                if request is None or isinstance(request, Stop):
                    continue
                for answer in answers(request):
                    self.send(json.loads(answer.model_dump_json()))
                    if slot in self._latest or (slot == "simulate" and self._latest):
                        break
            if not self._latest:
                self._changed.clear()


def show(task: nr.Task | None) -> LabWidget:
    """The widget for a task, or for the gallery."""
    if task is None:
        return LabWidget()
    if not isinstance(task, nr.Task):
        raise InputError(f"task must be a Task, got {type(task)}")
    from neuralrace.laboratory.own import scene_of

    return LabWidget(scene=scene_of(task).model_dump())
