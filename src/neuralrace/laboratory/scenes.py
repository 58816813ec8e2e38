"""What theory and training say of a scene, answer by answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from neuralrace.errors import InputError
from neuralrace.laboratory import details as say
from neuralrace.laboratory import simulate, theory
from neuralrace.laboratory.closed import CLOSED
from neuralrace.laboratory.gallery import GALLERY, initial, values_of
from neuralrace.laboratory.model import Model
from neuralrace.laboratory.own import model_of
from neuralrace.laboratory.protocol import (
    Details,
    Export,
    Exported,
    Finished,
    Picture,
    Predicted,
    Scene,
    Simulate,
    Simulated,
    Slider,
    Solve,
)
from neuralrace.laboratory.takeaway import closed_python, python, yaml_text

LATEST = 1e15  # end of a time axis
Said = Picture | Details | Simulated | Predicted | Finished | Exported


def completed(scene: Scene) -> tuple[Scene, list[Slider]]:
    """A scene with the values of all of its sliders, and these."""
    own = scene.entry == "own"
    sliders = [initial(0.05, 1e-3, 0.9)] if own else GALLERY[scene.entry].entry.sliders
    values = {s.name: s.value for s in sliders} | scene.values
    values = values if own else values_of(scene.entry, values)
    return scene.model_copy(update={"values": values}), sliders


def model(scene: Scene) -> Model:
    """The model of a scene whose theory is a reduction."""
    if scene.entry == "own":
        if scene.drawn is None:
            raise InputError("drawn must describe the network of entry 'own'")
        made = model_of(scene.drawn, scene.values)
    else:
        make = GALLERY[scene.entry].make
        assert make is not None
        made = make(values_of(scene.entry, scene.values))
    return replace(made, time=scene.values["time"]) if "time" in scene.values else made


@lru_cache(maxsize=1)  # for an export or training of what is shown
def _solve(text: str) -> theory.Solved:
    """The solved scene that a JSON text holds."""
    scene = Scene.model_validate_json(text)
    return theory.solve(model(scene), scene.start == "random", scene.seeds)


def answered(request: Solve | Simulate | Export) -> Iterator[Said]:
    """What is answered to a request, step by step."""
    scene, number, began = request.scene, request.id, time.perf_counter()
    if not 0 < scene.values.get("time", 1.0) <= LATEST:
        raise InputError(f"values: time must be above 0, and at most {LATEST:g}")
    if scene.entry in CLOSED:
        closed = CLOSED[scene.entry](values_of(scene.entry, scene.values))
        if isinstance(request, Solve):
            yield closed.picture(number, began)
            yield closed.details(number)
        elif isinstance(request, Simulate):
            yield from closed.simulate(number)
        else:
            if request.format == "yaml":
                raise InputError(
                    f"{scene.entry} is a closed form, not a reduction: take the Python code instead"
                )
            yield Exported(id=number, format=request.format, text=closed_python(closed))
        return
    solved = _solve(scene.model_dump_json())
    if isinstance(request, Solve):
        picture = theory.picture(solved, number, began)
        yield picture
        winners = [picture.winner]
        for run, lanes in enumerate(theory.others(solved), 1):
            winners.append(theory.winner(lanes))
            for k, lane in enumerate(lanes):
                carries = [racer.carries for racer in lane.racers]
                yield Predicted(id=number, lane=k, run=run, loss=lane.loss, carries=carries)
        yield say.details(solved, number, winners)
    elif isinstance(request, Simulate):
        if request.details:
            yield say.details(solved, number, [])
        yield from simulate.simulate(solved, number, scene.seeds)
    else:
        text = (python if request.format == "python" else yaml_text)(solved, scene)
        yield Exported(id=number, format=request.format, text=text)
