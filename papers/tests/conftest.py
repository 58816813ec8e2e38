"""A toy experiment, and the command as tests call it."""

import importlib.util
import json
import sys

import pytest

import neuralrace_papers as experiments
from neuralrace import cli
from tests.conftest import compiled_programs_are_dropped, pytest_configure  # noqa: F401

TOY = '''
"""A toy that doubles numbers; 1 < 2."""
import numpy as np
from neuralrace import plot
from neuralrace_papers.framework.claim import check, finding, paper
from neuralrace_papers.framework.declaration import claims, figure, part
from neuralrace_papers.framework.experiment import Experiment, Parameters, option

CALLS, BREAK = [], []

class Toy(Parameters):
    scale: float = option(2.0, "factor of all numbers")
    sizes: tuple[int, ...] = option((1, 2), "sizes that nothing uses")
    wrong: bool = option(False, "state wrong claims too")

@part(each=lambda p: range(p.seeds))
def numbers(p, seed):
    if seed in BREAK:
        raise KeyboardInterrupt
    CALLS.append(seed)
    return {"value": p.scale * np.random.default_rng(seed).normal(1, 0.01)}

def values(data):
    return np.array([d.value for d in data.numbers.values()])

@figure("values")
def curve(p, data):
    fig, ax = plot.figure()
    ax.plot(values(data), label="numbers")
    ax.set(xlabel="seed", ylabel="value")
    return fig, "Values of <all> seeds & more"

@claims
def all_claims(p, data):
    value = values(data)
    yield paper("toy Fig. 1", "It doubles <numbers>.").near("mean", "mean <value>", p.scale, value, 0.1)
    enough = 0.0 if p.seeds > 2 else 10.0
    yield finding("toy").above("spread", "spread over seeds", enough, np.std(value))
    if p.wrong:
        negative = paper("toy Eq. 2", "It is negative.")
        yield negative.below("never", "never", -1.0, value, "the <toy> is positive")
        yield check("toy").near("nothing", "nothing", 1.0, np.nan, 0.1)

EXPERIMENT = Experiment(
    "toy", "A toy & its title", "toy Fig. 1", Toy(seeds=4), Toy(seeds=2), (0.01, 3), needs_full=("spr*",),
)
'''


def load(file, name="toy"):
    """A file as the module of an experiment."""
    spec = importlib.util.spec_from_file_location(f"neuralrace_papers.{name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def toy(tmp_path, monkeypatch):
    file = tmp_path / "toy.py"
    file.write_text(TOY)
    monkeypatch.setitem(sys.modules, "neuralrace_papers.toy", None)
    monkeypatch.setattr(experiments, "MODULES", {"toy": "neuralrace_papers.toy"})
    return load(file)


@pytest.fixture
def other(toy, tmp_path, monkeypatch):
    """The same toy under another name."""
    both = {name: f"neuralrace_papers.{name}" for name in ("toy", "other")}
    monkeypatch.setattr(experiments, "MODULES", both)
    monkeypatch.setitem(sys.modules, "neuralrace_papers.other", None)
    file = tmp_path / "other.py"
    file.write_text(TOY.replace('Experiment(\n    "toy"', 'Experiment(\n    "other"'))
    return load(file, "other")


@pytest.fixture
def out(tmp_path):
    return tmp_path / "results"


@pytest.fixture
def command(capsys):
    """Call the command: exit status, standard output and standard error."""

    def call(*arguments):
        status = cli.main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.fixture
def strict():
    """Read JSON, and refuse what is none: nan and infinity."""

    def refuse(constant):
        raise AssertionError(constant)

    return lambda text: json.loads(text, parse_constant=refuse)
