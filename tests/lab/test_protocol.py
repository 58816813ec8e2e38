"""One schema for both sides, and what a scene may hold."""

from pathlib import Path

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import InputError
from neuralrace.laboratory.gallery import GALLERY, values_of
from neuralrace.laboratory.own import scene_of, task_of
from neuralrace.laboratory.protocol import Scene
from neuralrace.laboratory.typescript import typescript

SKIP = nr.Graph(
    {"x": 3, "a": 4, "h": 3, "y": 2}, [("x", "a"), ("a", "h"), nr.Edge("x", "h", fixed=np.eye(3)), ("h", "y")]
)
FRONT = Path(__file__).parents[2] / "frontend"


def test_the_types_of_the_page_are_those_of_the_server():
    assert (FRONT / "src/protocol.ts").read_text() == typescript()


def test_third_party_code_is_pinned_and_no_registry_is_named():
    lock = (FRONT / "package-lock.json").read_text()
    assert lock.count('"integrity": "sha512-') >= 5
    assert (
        "http" not in lock.replace("https://opencollective", "").split('"packages"')[1].split('"funding"')[0]
    )
    assert '"resolved"' not in lock


@pytest.mark.parametrize("entry", GALLERY)
def test_an_entry_says_what_it_shows_and_its_sliders_reach_their_ends(entry: str):
    said = GALLERY[entry].entry
    assert said.sentence.endswith(".")
    assert said.figure
    assert said.sliders
    for s in said.sliders:
        assert s.low <= s.value <= s.high
        assert values_of(entry, {s.name: s.low})[s.name] == s.low
        assert values_of(entry, {s.name: s.high})[s.name] == s.high


def test_values_out_of_range_are_refused():
    assert values_of("chain", {"depth": 4})["depth"] == 4
    for bad in ({"depth": 99}, {"nothing": 1}):
        with pytest.raises(InputError):
            values_of("chain", bad)


@pytest.mark.parametrize(
    "task",
    [
        nr.tasks.xor(4), nr.tasks.routing(3, 2, hidden=(4,)),
        nr.tasks.contextual_classification(8, hidden=4), nr.Task(SKIP, np.eye(3), np.ones((3, 2))),
    ],
    ids=["samples", "moments", "contexts", "fixed edge"],
)  # fmt: skip
def test_a_task_is_drawn_and_read_back(task: nr.Task):
    """The scene of a task makes a task with the same loss and gradient."""
    again = task_of(Scene.model_validate_json(scene_of(task).model_dump_json()).drawn)  # type: ignore[arg-type]
    w = nr.init.gaussian(task.graph, 0.5, seed=1)
    assert nr.loss(again, w) == pytest.approx(nr.loss(task, w), rel=1e-12)
    for edge, g in nr.gradient(task, w).items():
        np.testing.assert_allclose(nr.gradient(again, w)[edge], g, atol=1e-12)


def test_tasks_that_the_page_cannot_show_are_refused():
    for task in (nr.tasks.two_points(), nr.tasks.xor(hidden=2000), nr.tasks.contextual_classification(5000)):
        with pytest.raises(InputError):
            scene_of(task)
