"""A toy experiment, and the command as tests call it."""

import importlib.util
import json
import sys

import pytest

import neuralrace_papers as experiments
from neuralrace import cli
from neuralrace_papers.framework import results
from neuralrace_papers.report import render
from tests.conftest import compiled_programs_are_dropped, pytest_configure  # noqa: F401

TOY = '''
"""A toy that doubles numbers; 1 < 2."""
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from neuralrace import plot
from neuralrace_papers.framework import Experiment, figure, part, rows

CALLS, BREAK = [], []

@dataclass(frozen=True)
class Toy:
    seeds: Annotated[int, "random starts of each network"] = 4
    scale: Annotated[float, "factor of all numbers"] = 2.0
    sizes: Annotated[tuple[int, ...], "sizes that nothing uses"] = (1, 2)
    wrong: Annotated[bool, "measure nothing too"] = False

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

@rows
def measured(p, data):
    yield "mean", values(data)
    yield "spread", np.std(values(data))
    if p.wrong:
        yield "nothing", np.nan

EXPERIMENT = Experiment(
    "toy", "A toy & its title", "toy Fig. 1", Toy(), quick=dict(seeds=2), minutes=(0.01, 3)
)
'''

LEDGER = """
[document]
name = "toy"
reference = "A. Toy. Toys, 2022. <https://example.org/toy>"
summary = "It doubles numbers."

[[claim]]
id = "doubles"
kind = "sentence"
place = "Fig. 1"
quote = "It doubles <numbers>."
row = "toy/mean"
reproduced = {near = 2, within = 0.1}
source = "The digits printed."

[[claim]]
id = "negative"
kind = "equation"
place = "Eq. 2"
quote = "It is negative."
row = "toy/mean"
reproduced = {below = 0}
counterexample = "papers/tests/conftest.py::load"
note = "the <toy> is positive"

[[claim]]
id = "premise"
kind = "background"
place = "1"
quote = "Take a toy."

[[row]]
id = "toy/spr*"
name = "Spread over seeds"
setting = "ours"
"""


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
def ledger(tmp_path, monkeypatch):
    """The document of the toy; returns the folder of stored results."""
    package = tmp_path / "package"
    (package / "results").mkdir(parents=True)
    (package / "toy").mkdir()
    (package / "toy" / "claims.toml").write_text(LEDGER)
    monkeypatch.setattr(results, "PACKAGE", package)
    monkeypatch.setattr(results, "DOCUMENTS", ("toy",))
    monkeypatch.setattr(render, "PAPERS", {"toy": ("toy",)})
    for cached in (results.ledgers, results.deciding, results.stored, results.stored_rows):
        cached.cache_clear()
    yield package / "results"
    for cached in (results.ledgers, results.deciding, results.stored, results.stored_rows):
        cached.cache_clear()


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
