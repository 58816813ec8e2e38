"""A page as one file that needs no server: it holds its systems, and solves them where it is opened."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace import __version__
from neuralrace.errors import InputError
from neuralrace.files import as_path, replace_folder, writable, write_text
from neuralrace.laboratory.closed import CLOSED
from neuralrace.laboratory.details import describe
from neuralrace.laboratory.gallery import GALLERY, initial, values_of
from neuralrace.laboratory.jobs import answers
from neuralrace.laboratory.jobs import model as model_of_scene
from neuralrace.laboratory.model import Model
from neuralrace.laboratory.own import OWN
from neuralrace.laboratory.page import page_files
from neuralrace.laboratory.protocol import (
    Entry, Problem, Rules, Saved, SavedLane, Scene, Simulate, Slider, Solve, System,
)  # fmt: skip
from neuralrace.laboratory.systems import system
from neuralrace.laboratory.theory import BEYOND, LEVEL, SAME_TIME, TIMES, Structure, drawn_lane
from neuralrace.reduction import UNLEARNED

MOST_STOPS, MOST_POSITIONS = 41, 150  # of a slider, and of all tabulated ones together
MADE_HERE = f'<meta name="generator" content="neuralrace {__version__}">'
_MARK = '<meta name="generator" content="neuralrace '
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{mark}
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
        mark=MADE_HERE, title=escape(f"{made.entry.title}: neuralrace"), style=style,
        saved=base64.b64encode(packed).decode(), script=script.replace("</script", r"<\/script"),
    )  # fmt: skip


def saved(scene: Scene) -> Saved:
    """What the page of a scene holds."""
    own = scene.entry == "own"
    entry = OWN if own else GALLERY[scene.entry].entry
    sliders = [initial(0.05, 1e-3, 0.9)] if own else entry.sliders
    values = {s.name: s.value for s in sliders} | scene.values
    scene = scene.model_copy(update={"values": values if own else values_of(scene.entry, values)})
    said = [*answers(Solve(id=0, scene=scene)), *(answers(Simulate(id=0, scene=scene)) if scene.seeds else ())]
    for answer in said:
        if isinstance(answer, Problem):
            raise InputError(answer.text)
    picture = said[0]
    table = None if scene.entry in CLOSED or scene.start == "random" else Table.of(scene, sliders)
    return Saved(
        version=__version__, scene=scene, answers=said, level=0.4 if table is None else table.model.level,
        entry=_entry(entry, sliders, scene, table), tabulated=[] if table is None else [*table.stops],
        lanes=[] if table is None else table.lanes, positions=[] if table is None else table.positions,
        pathways=picture.racers_are == "pathways",
        rules=Rules(times=TIMES, longer=BEYOND, learned=UNLEARNED, share=LEVEL, time=SAME_TIME),
    )  # fmt: skip


def _entry(entry: Entry, sliders: list[Slider], scene: Scene, table: Table | None) -> Entry:
    """The entry with the sliders that work in the page, at their saved values."""
    left = []
    for s in sliders if table is not None and table.positions else []:
        if s.name in table.live or len(table.stops[s.name]) > 1:
            stops = [] if s.name in table.live else table.stops[s.name]
            left.append(s.model_copy(update={"value": scene.values[s.name], "stops": stops}))
    return entry.model_copy(update={"sliders": left, "random": False})


@dataclass
class Table:
    """The systems of a scene.

    A slider is live if it changes the strengths of the start only, each by a power of its value: then all its
    positions share their systems. The other sliders are tabulated.
    """

    scene: Scene
    model: Model
    live: dict[str, Slider]
    stops: dict[str, list[float]]
    lanes: list[SavedLane] = field(default_factory=list)
    positions: list[list[int]] = field(default_factory=list)  # empty where a system is too large

    @classmethod
    def of(cls, scene: Scene, sliders: list[Slider]) -> Table:
        """That of a scene, with everything computed."""
        made = cls(scene, model_of_scene(scene), {}, {})
        for s in sliders:
            if made._powers(s) is None:
                made.stops[s.name] = _positions(s, scene.values[s.name], MOST_STOPS)
            else:
                made.live[s.name] = s
        while np.prod([len(v) for v in made.stops.values()]) > MOST_POSITIONS:
            longest = max(made.stops, key=lambda n: len(made.stops[n]))
            given = next(s for s in sliders if s.name == longest)
            made.stops[longest] = _positions(given, scene.values[longest], len(made.stops[longest]) - 1)
        known: dict[str, int] = {}
        for values in product(*made.stops.values()):
            lanes = list(made._lanes(dict(zip(made.stops, values, strict=True))))
            if None in lanes:
                made.lanes, made.positions = [], []
                return made
            place = []
            for lane in lanes:
                place.append(known.setdefault(lane.model_dump_json(), len(known)))
                if place[-1] == len(made.lanes):
                    made.lanes.append(lane)
            made.positions.append(place)
        return made

    def _at(self, **values: float) -> Model:
        return model_of_scene(self.scene.model_copy(update={"values": {**self.scene.values, **values}}))

    def _powers(self, s: Slider, **values: float) -> dict[str, float] | None:
        """To which power of a slider each strength goes, by `lane/edge`; None if the slider does more."""
        low, high, now = (self._at(**values, **v) for v in ({s.name: s.low}, {s.name: s.high}, {}))
        if s.low <= 0 or now.time is not None or not low.code == now.code == high.code:
            return None
        a, b, here = ({f"{n}/{e}": v for n in m.lanes for e, v in m.start(n).items()} for m in (low, high, now))
        powers = {e: round(float(np.log(b[e] / a[e]) / np.log(s.high / s.low)), 9) for e in a}
        share = self.scene.values[s.name] / s.low
        return powers if all(np.isclose(here[e], a[e] * share ** powers[e], rtol=1e-9) for e in a) else None

    def _lanes(self, values: dict[str, float]) -> Iterator[SavedLane | None]:
        """The networks of a position."""
        between = {name: float(np.sqrt(s.low * s.high)) for name, s in self.live.items()}  # no strengths meet
        model, generic = self._at(**values), self._at(**values, **between)
        powers = {name: self._powers(s, **values) or {} for name, s in self.live.items()}
        for name in model.lanes:
            known, start = Structure.of(generic, name), model.start(name)
            r, (racing, _) = known.reduction, known.racing
            mine = {s: {e: p[f"{name}/{e}"] for e in start} for s, p in powers.items()}
            found, left = known.solve(start, None)
            systems: list[System | None] = []
            for family in [r, *([known.wider] if left and known.wider is not None else [])]:
                made = system(family, start, mine, r, racing, describe(name, family))
                ended = found if family is found.reduction else None
                if made is not None and family is r and left:
                    made.rest, made.why = float(r.until_learned(start).loss[-1]), left
                elif made is not None and ended is not None and ended.status is not nr.Status.REACHED_LOSS:
                    made.rest, made.why = float(ended.loss[-1]), ended.outcome
                systems.append(made)
            if None in systems:
                yield None
                return
            drawn = drawn_lane(name, r.task.graph, {c: np.zeros(1) for c in r.classes}, [], np.zeros(1), np.nan)
            yield SavedLane(
                name=name, nodes=drawn.nodes, edges=drawn.edges, groups=[g.edges for g in drawn.groups],
                racers=[(p.name, sorted({e for path in p.members for e in path})) for p in racing],
                systems=systems,
            )  # fmt: skip


def _positions(s: Slider, value: float, most: int) -> list[float]:
    """At most so many positions of a slider from end to end, with the saved value among them."""
    ends = np.log10([s.low, s.high]) if s.log else np.array([s.low, s.high])
    count = min(most, int(round((ends[1] - ends[0]) / s.step)) + 1)
    even = np.linspace(*ends, count)
    even = 10**even if s.log else s.low + np.round((even - s.low) / s.step) * s.step
    even[np.abs(even - value).argmin()] = value
    return [float(f"{v:.6g}") for v in np.unique(even)]
