"""Half times that the page and Python find for modes and pathways, against the curves around them."""

import numpy as np
import pytest
from scipy.integrate import quad

import neuralrace as nr
from neuralrace.errors import NothingToReduceError
from neuralrace.laboratory import theory
from neuralrace.laboratory.gallery import GALLERY, values_of
from neuralrace.laboratory.model import Model
from neuralrace.laboratory.positions import RULES
from neuralrace.laboratory.protocol import Lane, SavedLane, Systems
from neuralrace.laboratory.systems import system
from neuralrace.laboratory.theory import Structure
from tests.lab.drawn_systems import SAID, corners, network
from tests.lab.test_saved import in_node

OFF = 1e-5  # relative; three digits are printed


def systems(model: Model) -> Systems:
    """What a page needs to draw a model."""
    lanes = []
    for name in model.lanes:
        known, start = Structure.of(model, name), model.start(name)
        r, (racing, _) = known.reduction, known.racing
        lanes.append(
            SavedLane(
                name=name, nodes=[], edges=[], groups=[[*members] for members in r.classes],
                racers=[(p.name, []) for p in racing], systems=[system(r, start, {}, r, racing, SAID)],
            )
        )  # fmt: skip
    return Systems(id=0, live={}, lanes=lanes, level=model.level, pathways=False, rules=RULES)


def checked(model: Model, lane: Lane, end: float) -> int:
    """How many half times a lane has; each curve passes its middle right there, and not before."""
    known = Structure.of(model, lane.name)
    r, count = known.reduction, 0
    for p, racer in zip(known.racing[0], lane.racers, strict=True):
        if (half := racer.half_time) is None:
            continue
        times = np.unique([*np.linspace(0, 0.999 * half, 40), half * (1 - OFF), half * (1 + OFF), end])
        solution = r.solve(model.start(lane.name), end, times)
        curve = p.carries(r, solution.source.b)
        way = (curve - curve[0]) / (curve[-1] - curve[0])
        assert (way[: np.searchsorted(times, half)] < 0.5).all(), (model.code, racer.name, half)
        assert way[np.searchsorted(times, half)] > 0.5, (model.code, racer.name, half)
        count += 1
    return count


def models(seed: int) -> list[Model]:
    """Corners of the gallery, and networks that nobody chose."""
    rng, found = np.random.default_rng(seed), list(corners())
    chosen = [found[k] for k in rng.permutation(len(found))[:12]]
    while len(chosen) < 24:
        model = network(rng)
        try:
            r = Structure.of(model, "network").reduction
        except NothingToReduceError:
            continue
        if r.until_learned(model.start("network")).status is nr.Status.REACHED_LOSS:
            chosen.append(model)
    return chosen


def test_half_times_of_the_page_are_exact():
    chosen = models(0)
    pictures = in_node([systems(model).model_dump() for model in chosen])
    assert sum(
        checked(model, Lane.model_validate(lane), picture["t"][-1])
        for model, picture in zip(chosen, pictures, strict=True)
        for lane in picture["lanes"]
    ) > 30  # fmt: skip


def test_half_times_of_the_lab_are_exact():
    count = 0
    for model in models(1)[::2]:
        solved = theory.solve(model, False, 0)
        picture = theory.picture(solved, 0, 0.0)
        count += sum(checked(model, lane, solved.t[-1]) for lane in picture.lanes)
    assert count > 15


def test_half_times_are_those_of_a_quadrature_and_of_the_library():
    """Of a mode from a small start; `nr.learning_time` asks for half of the end, which is then the same."""
    depth, strength = 6, 0.1
    model = GALLERY["chain"].make(values_of("chain", {"depth": depth, "strength": strength}))  # type: ignore[misc]
    r = Structure.of(model, "chain").reduction
    (picture,) = in_node([systems(model).model_dump()])
    solution = r.solve(strength, picture["t"][-1])
    for k, racer in enumerate(picture["lanes"][0]["racers"][:2]):
        s, d = r.tied.s[0][k], r.tied.d[0, 0][k]
        middle = ((strength**depth + s / d) / 2) ** (1 / depth)
        right = quad(
            lambda b, s=s, d=d: 1 / (b ** (depth - 1) * (s - d * b**depth)), strength, middle, epsrel=1e-9
        )[0]
        assert racer["half_time"] == pytest.approx(right, rel=1e-6)
        assert racer["half_time"] == pytest.approx(nr.learning_time(solution, 0.5, of=("mode", k)), rel=OFF)
