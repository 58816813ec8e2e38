"""What a saved page needs of every position of its sliders: the reduced systems, each stored once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product

import numpy as np

import neuralrace as nr
from neuralrace.laboratory.closed import CLOSED
from neuralrace.laboratory.details import describe
from neuralrace.laboratory.model import Model
from neuralrace.laboratory.protocol import Rules, SavedLane, Scene, Slider, Solve, System, Systems
from neuralrace.laboratory.scenes import completed, model
from neuralrace.laboratory.systems import TooLarge, system
from neuralrace.laboratory.theory import BEYOND, LEVEL, SAME_TIME, TIMES, Structure, drawn_lane
from neuralrace.reduction import UNLEARNED

MOST_STOPS, MOST_POSITIONS = 41, 150  # of a slider, and of all tabulated ones together
RULES = Rules(times=TIMES, longer=BEYOND, learned=UNLEARNED, share=LEVEL, time=SAME_TIME)


@dataclass
class Table:
    """The systems of a scene.

    A slider is live if it changes the strengths of the start only, each by a power of its value: then all its
    positions share their systems. The other sliders are tabulated.
    """

    scene: Scene
    sliders: list[Slider]
    stops: dict[str, list[float]] = field(default_factory=dict)  # of the tabulated sliders
    lanes: list[SavedLane] = field(default_factory=list)
    positions: list[list[int]] = field(default_factory=list)  # empty where a system is too large for a page

    @classmethod
    def of(cls, scene: Scene, sliders: list[Slider]) -> Table:
        """That of a scene, with everything computed."""
        made = cls(scene, sliders)
        made.stops = made._stops([s for s in sliders if made._powers(s) is None])
        known: dict[str, int] = {}
        try:
            for values in product(*made.stops.values()):
                place = []
                for lane in made._lanes(dict(zip(made.stops, values, strict=True))):
                    place.append(known.setdefault(lane.model_dump_json(), len(known)))
                    if place[-1] == len(made.lanes):
                        made.lanes.append(lane)
                made.positions.append(place)
        except TooLarge:
            made.lanes, made.positions = [], []
        return made

    @property
    def working(self) -> list[Slider]:
        """The sliders that work in the page, at their saved values."""
        found = []
        for s in self.sliders if self.positions else []:
            stops = self.stops.get(s.name, [])
            if len(stops) != 1:
                found.append(s.model_copy(update={"value": self.scene.values[s.name], "stops": stops}))
        return found

    def systems(self, number: int, lanes: list[SavedLane]) -> Systems:
        """The networks, and what a page needs beside them."""
        here = self._at()
        return Systems(
            id=number, lanes=lanes, level=here.level, rules=RULES,
            live={s.name: self.scene.values[s.name] for s in self.sliders if s.name not in self.stops},
            pathways=any(Structure.of(here, name).racing[1] for name in here.lanes),
        )  # fmt: skip

    def _stops(self, tabulated: list[Slider]) -> dict[str, list[float]]:
        """Positions of some sliders; where they are too many, that with most has fewer."""
        counts = {s.name: MOST_STOPS for s in tabulated}
        while True:
            stops = {s.name: positions(s, self.scene.values[s.name], counts[s.name]) for s in tabulated}
            if np.prod([len(v) for v in stops.values()]) <= MOST_POSITIONS:
                return stops
            longest = max(stops, key=lambda n: len(stops[n]))
            counts[longest] = len(stops[longest]) - 1

    def _at(self, **values: float) -> Model:
        return model(self.scene.model_copy(update={"values": {**self.scene.values, **values}}))

    def _powers(self, s: Slider, **values: float) -> dict[str, float] | None:
        """To which power of a slider each strength goes, by `lane/edge`; None if the slider does more."""
        every = [self._at(**values, **at) for at in ({s.name: s.low}, {s.name: s.high}, {})]
        if s.low <= 0 or any(m.code != every[0].code for m in every):
            return None
        low, high, here = ({f"{n}/{e}": b for n in m.lanes for e, b in m.start(n).items()} for m in every)
        powers = {e: round(float(np.log(high[e] / b) / np.log(s.high / s.low)), 9) for e, b in low.items()}
        share = self.scene.values[s.name] / s.low
        right = all(np.isclose(here[e], b * share ** powers[e], rtol=1e-9) for e, b in low.items())
        return powers if right else None

    def _lanes(self, values: dict[str, float]) -> Iterator[SavedLane]:
        """The networks of a position."""
        live = [s for s in self.sliders if s.name not in self.stops]
        here = self._at(**values)
        generic = self._at(**values, **{s.name: float(np.sqrt(s.low * s.high)) for s in live})
        powers = {s.name: self._powers(s, **values) or {} for s in live}
        for name in here.lanes:
            known, start = Structure.of(generic, name), here.start(name)  # in which no two strengths meet
            mine = {s: {e: by[f"{name}/{e}"] for e in start} for s, by in powers.items()}
            r, (racing, _) = known.reduction, known.racing
            graph, still = r.task.graph, {members: np.zeros(1) for members in r.classes}
            drawn = drawn_lane(name, graph, still, [], np.zeros(1), np.nan, here.names)
            yield SavedLane(
                name=name, nodes=drawn.nodes, edges=drawn.edges, groups=[g.edges for g in drawn.groups],
                racers=[(p.name, sorted({e for path in p.members for e in path})) for p in racing],
                systems=_systems(name, known, start, mine),
            )  # fmt: skip


def _systems(
    name: str, known: Structure, start: dict[str, float], powers: dict[str, dict[str, float]]
) -> list[System]:
    """The system of the papers, and the wider one where the library draws that; how each of them ends."""
    r, (racing, _) = known.reduction, known.racing
    made = lambda family: system(family, start, powers, r, racing, describe(name, family))  # noqa: E731
    systems = [made(r)]
    found, left = known.solve(start, None)
    if left:
        systems[0].rest, systems[0].why = float(r.until_learned(start).loss[-1]), left
    if left and known.wider is not None:
        systems.append(made(known.wider))
    if found.status is not nr.Status.REACHED_LOSS and not systems[-1].why:
        systems[-1].rest, systems[-1].why = float(found.loss[-1]), found.outcome
    return systems


def systems(request: Solve) -> Systems | None:
    """The networks of a scene as the page solves them; None where they are too large, or there are none."""
    if request.scene.entry in CLOSED or request.scene.start == "random":
        return None
    table = Table(*completed(request.scene))
    table.stops = {s.name: [s.value] for s in table.sliders if table._powers(s) is None}
    with suppress(TooLarge):
        return table.systems(request.id, list(table._lanes({})))


def positions(s: Slider, value: float, most: int) -> list[float]:
    """At most so many positions of a slider from end to end, with the saved value among them."""
    low, high = (float(np.log10(v)) if s.log else v for v in (s.low, s.high))
    even = np.linspace(low, high, min(most, round((high - low) / s.step) + 1))
    even = 10**even if s.log else s.low + np.round((even - s.low) / s.step) * s.step
    even[np.abs(even - value).argmin()] = value
    return [float(f"{v:.6g}") for v in np.unique(even)]
