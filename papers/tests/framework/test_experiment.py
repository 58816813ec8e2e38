"""Parameters of experiments, and what all experiments must have."""

import re
from dataclasses import FrozenInstanceError, asdict, dataclass

import pytest

import neuralrace_papers as experiments
from neuralrace.errors import InputError
from neuralrace_papers import Parameters
from neuralrace_papers.framework.experiment import option


@dataclass(frozen=True)
class Some(Parameters):
    rate: float = option(0.1, "how fast")
    share: float = option(0.0, least=0)
    offset: float = option(-1.0, above=-2)
    depth: int = option(0, least=0)
    kind: str = option("a", "which one", choices=("a", "b"))
    name: str = "free"
    flag: bool = False
    sizes: tuple[int, ...] = (1, 2)
    rates: tuple[float, ...] = (0.5,)
    part: float = option(0.5, below=1, most=0.9)
    steps: tuple[int, ...] = option((1, 3), count=2, increasing=True, most=9)


class Plain(Some):
    """Without the decorator, made from one with it."""

    rate: float = option(0.2, "how fast it is")
    more: int = option(1, "how many more", most=5)


class Deeper(Plain):
    more: int = option(2, "how many in all")


def test_parameters_need_no_decorator():
    p = Deeper(seeds=3, rate=0.3)
    assert (p.seeds, p.rate, p.more, p.kind) == (3, 0.3, 2, "a")
    assert Plain().changed({"more": "4"}).more == 4
    assert Deeper.meanings()["more"] == "how many in all"
    assert Plain.meanings()["rate"] == "how fast it is"
    with pytest.raises(InputError, match="more must be at most 5"):
        Plain(more=6)
    with pytest.raises(FrozenInstanceError):
        p.more = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_parameters_are_read_as_their_types():
    texts = {
        "seeds": "3",
        "rate": "1e-3",
        "depth": "0",
        "kind": "b",
        "flag": "True",
        "sizes": "(4, 5,)",
        "rates": "[1, 2.5]",
    }
    p = Some().changed(texts)
    assert asdict(p) == {
        **asdict(Some()),
        "seeds": 3,
        "rate": 1e-3,
        "kind": "b",
        "flag": True,
        "sizes": (4, 5),
        "rates": (1.0, 2.5),
    }
    assert Some().changed({"sizes": [3], "rates": "2"}) == Some(sizes=(3,), rates=(2.0,))
    assert Some().changed({}) == Some()


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
        ({"offset": -2}, "offset must be greater than -2"),
        ({"depth": -1}, "depth must be at least 0"),
        ({"kind": "c"}, "kind must be one of a, b"),
        ({"kind": 1}, "kind must be text"),
        ({"flag": 1}, "flag must be true or false"),
        ({"flag": "maybe"}, "flag must be true or false, got 'maybe'"),
        ({"sizes": ()}, "sizes must be a list"),
        ({"sizes": ""}, "sizes must be a list of at least 1"),
        ({"sizes": 3}, "sizes must be a list"),
        ({"sizes": (1, 0)}, "sizes must be at least 1"),
        ({"sizes": "1,x"}, "sizes must be a whole number, got 'x'"),
        ({"part": 1}, "part must be less than 1, got 1"),
        ({"part": 0.95}, "part must be at most 0.9, got 0.95"),
        ({"part": -1}, "part must be greater than 0"),
        ({"steps": (1,)}, "steps must be a list of at least 2 values, got (1,)"),
        ({"steps": (3, 1)}, "steps must increase, got (3, 1)"),
        ({"steps": (1, 1)}, "steps must increase"),
        ({"steps": (1, 10)}, "steps must be at most 9"),
        ({"speed": 1}, "'speed', which is no parameter of this experiment; there are seeds, rate"),
    ],
)
def test_wrong_parameters_are_refused(changes, message):
    with pytest.raises(InputError, match=re.escape(message)):
        Some().changed(changes)


def test_parameters_that_do_not_fit_together():
    @dataclass(frozen=True)
    class Pair(Parameters):
        low: int = 1
        high: int = 2

        def check(self):
            if self.low > self.high:
                raise InputError(f"low must be at most high, got {self.low}")

    with pytest.raises(InputError, match="low must be at most high, got 3"):
        Pair().changed({"low": "3"})


def test_parameters_have_a_meaning():
    found = Some.meanings()
    assert list(found)[:2] == ["seeds", "rate"]
    assert found["seeds"] == "random starts of each network"
    assert found["rate"] == "how fast"
    assert found["kind"] == "which one (a, b)"
    assert found["share"] == ""


@pytest.mark.parametrize("name", experiments.names())
def test_every_experiment_is_complete(name):
    found = experiments.experiment(name)
    assert found.name == name
    assert type(found.quick) is type(found.parameters)
    assert 0 < found.minutes[0] <= found.minutes[1]
    for parameter, meaning in found.parameters.meanings().items():
        assert 5 < len(meaning) < 150, parameter
        assert not meaning.endswith("."), parameter


def test_names_are_different():
    assert len(set(experiments.names())) == len(experiments.names())
