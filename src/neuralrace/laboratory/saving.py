"""A page as one file that needs no server: it holds its systems, and solves them where it is opened."""

from __future__ import annotations

import base64
import json
import zlib
from html import escape
from pathlib import Path
from typing import Any

from neuralrace import __version__
from neuralrace.errors import InputError
from neuralrace.files import as_path, replace_folder, writable, write_text
from neuralrace.laboratory.closed import CLOSED
from neuralrace.laboratory.gallery import GALLERY
from neuralrace.laboratory.own import OWN
from neuralrace.laboratory.page import page_files
from neuralrace.laboratory.positions import Table, positions
from neuralrace.laboratory.protocol import Saved, Scene, Simulate, Slider, Solve
from neuralrace.laboratory.scenes import answered, completed

MOST_REPLAYS, MOST_REPLAYED = 7, 109_000  # positions of a slider, and compressed bytes of all answers
_CLOSED = "Other sliders need the lab: theory is a closed form here, which Python evaluates."
_RANDOM = "Other sliders need the lab: Python follows each random start from its own weights."
_LARGE = "Other sliders need the lab: the reduced system is too large to be solved on this page."
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
    entry = OWN if scene.entry == "own" else GALLERY[scene.entry].entry
    scene, sliders = completed(scene)
    said: list[Any] = list(answered(Solve(id=0, scene=scene)))
    if scene.seeds:
        said += answered(Simulate(id=0, scene=scene))
    closed, random = scene.entry in CLOSED, scene.start == "random"
    table = None if closed or random else Table.of(scene, sliders)
    if table is not None and table.positions:
        working, replays, why = table.working, [], ""
    else:
        working, replays = _replays(scene, next(s for s in sliders if s.log), said)
        why = _CLOSED if closed else _RANDOM if random else _LARGE
    own = {"sentence": "A network of one's own.", "figure": ""} if entry is OWN else {}
    return Saved(
        version=__version__, scene=scene, answers=said, replays=replays, why=why,
        entry=entry.model_copy(
            update={"sliders": working, "random": False, "timed": entry.timed and not replays} | own
        ),
        systems=table.systems(0, table.lanes) if table and table.positions else None,
        positions=table.positions if table else [],
    )  # fmt: skip


def _replays(scene: Scene, slider: Slider, here: list[Any]) -> tuple[list[Slider], list[list[Any]]]:
    """The slider of a scene without a system, and what is answered at each of its positions."""
    value, shown = scene.values[slider.name], "".join(a.model_dump_json() for a in here)
    stops, said = positions(slider, value, MOST_REPLAYS), []
    for stop in stops:
        there = scene.model_copy(update={"values": {**scene.values, slider.name: stop}})
        said.append([_short(a.model_dump()) for a in answered(Solve(id=0, scene=there))])
    while len(zlib.compress((shown + json.dumps(said)).encode(), 9)) > MOST_REPLAYED and len(stops) > 2:
        first = min(range(len(stops)), key=lambda k: abs(stops[k] - value)) % 2
        stops, said = stops[first::2], said[first::2]
    return [slider.model_copy(update={"value": value, "stops": stops})], said


def _short(value: Any) -> Any:
    """What is replayed, in as few characters as a page needs."""
    if isinstance(value, dict):
        return {k: [] if k.startswith("similarity") else _short(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_short(v) for v in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
