"""A page as one file that needs no server: it holds its systems, and solves them where it is opened."""

from __future__ import annotations

import base64
import zlib
from html import escape
from pathlib import Path
from typing import Any

from neuralrace import __version__
from neuralrace.errors import InputError
from neuralrace.files import as_path, replace_folder, writable, write_text
from neuralrace.laboratory.closed import CLOSED
from neuralrace.laboratory.gallery import GALLERY, initial, values_of
from neuralrace.laboratory.model import Model
from neuralrace.laboratory.own import OWN
from neuralrace.laboratory.page import page_files
from neuralrace.laboratory.positions import Table
from neuralrace.laboratory.protocol import Picture, Rules, Saved, Scene, Simulate, Solve
from neuralrace.laboratory.scenes import answered
from neuralrace.laboratory.theory import BEYOND, LEVEL, SAME_TIME, TIMES
from neuralrace.reduction import UNLEARNED

_MARK = '<meta name="generator" content="neuralrace'  # of a page that was saved here
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{mark} {version}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<div id="lab"></div>
<noscript>This figure needs JavaScript.</noscript>
<script type="text/plain" id="saved">{saved}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def save(path: Any, scene: Scene) -> Path:
    """Write the page of a scene; a file that is no such page is not replaced."""
    file = as_path("path", path)
    if file.is_dir() or (file.exists() and _MARK not in file.read_text(errors="replace")[:1000]):
        raise InputError(f"path must be new, or a page that was saved before; {file} is something else")
    writable(file.parent)
    write_text(file, page(scene))
    return file


def save_gallery(folder: Any) -> list[Path]:
    """Write the page of every entry of the gallery into a folder."""
    path = as_path("folder", folder)
    page_files()  # a clear word where the page is not built

    def fill(new: Path) -> None:
        for name in GALLERY:
            write_text(new / f"{name}.html", page(Scene(entry=name)))

    replace_folder(path, "gallery of pages", fill)
    return [path / f"{name}.html" for name in GALLERY]


def page(scene: Scene) -> str:
    """The text of the page of a scene."""
    files, made = page_files(), saved(scene)
    packer = zlib.compressobj(9, wbits=-15)
    packed = packer.compress(made.model_dump_json().encode()) + packer.flush()
    style, script = (files[f"saved.{kind}"].decode() for kind in ("css", "js"))
    return _PAGE.format(
        mark=_MARK, version=__version__, title=escape(f"{made.entry.title}: neuralrace"), style=style,
        saved=base64.b64encode(packed).decode(), script=script.replace("</script", r"<\/script"),
    )  # fmt: skip


def saved(scene: Scene) -> Saved:
    """What the page of a scene holds."""
    own = scene.entry == "own"
    entry = OWN if own else GALLERY[scene.entry].entry
    sliders = [initial(0.05, 1e-3, 0.9)] if own else entry.sliders
    values = {s.name: s.value for s in sliders} | scene.values
    scene = scene.model_copy(update={"values": values if own else values_of(scene.entry, values)})
    said: list[Any] = list(answered(Solve(id=0, scene=scene)))
    if scene.seeds:
        said += answered(Simulate(id=0, scene=scene))
    picture = said[0]
    assert isinstance(picture, Picture)
    closed = scene.entry in CLOSED or scene.start == "random"  # no reduced system is behind it
    table = Table(scene, []) if closed else Table.of(scene, sliders)
    return Saved(
        version=__version__, scene=scene, answers=said, tabulated=[*table.stops],
        entry=entry.model_copy(update={"sliders": table.working, "random": False}),
        lanes=table.lanes, positions=table.positions,
        level=Model.level, pathways=picture.racers_are == "pathways",
        rules=Rules(times=TIMES, longer=BEYOND, learned=UNLEARNED, share=LEVEL, time=SAME_TIME),
    )  # fmt: skip
