"""Parameters of experiments, and what all experiments must have."""

import re
from dataclasses import FrozenInstanceError, dataclass
from typing import Annotated, Literal

import pytest

import neuralrace_papers
from neuralrace.errors import InputError
from neuralrace_papers.framework.parameters import changed, meanings, require


@dataclass(frozen=True)
class Some:
    seeds: Annotated[int, "random starts"] = 10
    rate: Annotated[float, "how fast"] = 0.1
    share: float = 0.0
    offset: float = -1.0
    depth: int = 0
    kind: Annotated[Literal["a", "b"], "which one"] = "a"
    name: str = "free"
    flag: bool = False
    sizes: tuple[int, ...] = (1, 2)
    rates: tuple[float, ...] = (0.0, 0.5)

    def __post_init__(self):
        require(self.depth <= self.seeds, f"depth must be at most seeds, got {self.depth}")


def test_texts_are_read_as_the_type_of_the_parameter():
    texts = {
        "seeds": "3", "rate": "1e-3", "depth": "0", "kind": "b", "flag": "True", "sizes": "(4, 5,)",
        "rates": "[1, 2.5]", "offset": "3",
    }  # fmt: skip
    found = changed(Some(), texts)
    expected = Some(3, 1e-3, 0.0, 3.0, 0, "b", "free", True, (4, 5), (1.0, 2.5))
    assert found == expected
    assert changed(Some(), {"sizes": [3], "rates": "2"}) == Some(sizes=(3,), rates=(2.0,))
    assert changed(Some(), {}) == Some()
    with pytest.raises(FrozenInstanceError):
        found.seeds = 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"seeds": True}, "seeds must be a whole number"),
        ({"seeds": 1.5}, "seeds must be a whole number"),
        ({"seeds": "1e3"}, "seeds must be a whole number, got '1e3'"),
        ({"rate": 0}, "rate must be greater than 0"),
        ({"rate": "fast"}, "rate must be a number, got 'fast'"),
        ({"rate": "nan"}, "rate must be finite"),
        ({"rate": None}, "rate must be a number"),
        ({"share": -1e-9}, "share must be at least 0"),
        ({"depth": -1}, "depth must be at least 0"),
        ({"depth": 11}, "depth must be at most seeds, got 11"),
        ({"kind": "c"}, "kind must be one of a, b"),
        ({"name": 1}, "name must be text"),
        ({"flag": 1}, "flag must be true or false"),
        ({"flag": "maybe"}, "flag must be true or false, got 'maybe'"),
        ({"sizes": ()}, "sizes must be a list"),
        ({"sizes": ""}, "sizes must be a list of at least one"),
        ({"sizes": 3}, "sizes must be a list"),
        ({"sizes": (1, 0)}, "sizes must be at least 1"),
        ({"sizes": "1,x"}, "sizes must be a whole number, got 'x'"),
        ({"rates": (0.0, -1.0)}, "rates must be at least 0"),
        ({"speed": 1}, "'speed', which is no parameter of this experiment; there are seeds, rate"),
    ],
)
def test_wrong_parameters_are_refused(changes, message):
    with pytest.raises(InputError, match=re.escape(message)):
        changed(Some(), changes)


def test_parameters_have_a_meaning():
    found = meanings(Some)
    assert list(found)[:2] == ["seeds", "rate"]
    assert (found["rate"], found["kind"], found["share"]) == ("how fast", "which one", "")


@pytest.mark.parametrize("name", neuralrace_papers.names())
def test_every_experiment_is_complete(name):
    found = neuralrace_papers.experiment(name)
    assert found.name == name
    assert 0 < found.minutes[0] <= found.minutes[1]
    assert found.chosen(False, {}) == found.parameters
    assert type(found.chosen(True, {})) is type(found.parameters)
    for parameter, meaning in meanings(type(found.parameters)).items():
        assert 5 < len(meaning) < 150, parameter
        assert not meaning.endswith("."), parameter


def test_names_are_different():
    assert len(set(neuralrace_papers.names())) == len(neuralrace_papers.names())
