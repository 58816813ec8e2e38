"""Two distributions of one version: the library, and the experiments, which need that version of it."""

import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import neuralrace as nr
from neuralrace import cli
from neuralrace.cli import command as module

ROOT = Path(__file__).parents[2]


def read(folder):
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))


def test_both_have_one_version():
    papers = read("papers")["project"]
    assert papers["version"] == nr.__version__
    assert papers["dependencies"] == [f"neuralrace[plot,data,sklearn,optax,diffrax]=={nr.__version__}"]
    assert papers["requires-python"] == read(".")["project"]["requires-python"]


def test_the_library_brings_no_experiment():
    packages = read(".")["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert packages == ["src/neuralrace"]
    files = [file for package in packages for file in (ROOT / package).rglob("*")]
    assert [f for f in files if f.suffix == ".toml"] == []  # no ledger
    assert [f for f in files if f.suffix == ".py" and "EXPERIMENT = " in f.read_text()] == []


def test_entry_points_are_installed():
    groups = read("papers")["project"]["entry-points"]
    assert set(groups) == {"neuralrace.commands", "neuralrace.experiments"}
    for group, entries in groups.items():
        assert {e.name: e.value for e in entry_points(group=group)} == entries
        assert all(callable(e.load()) for e in entry_points(group=group))


def test_where_experiments_are_not_installed_the_command_says_how(monkeypatch, capsys):
    monkeypatch.setattr(module, "entry_points", lambda group: ())
    for name in module.OF_EXPERIMENTS:
        assert cli.main([name]) == 2
        assert "`pip install . ./papers` installs both" in capsys.readouterr().err
    monkeypatch.setattr("neuralrace.apps.sweep.experiment.entry_points", lambda group: ())
    assert cli.main(["sweep", "xor", "--over", "seeds=1:2"]) == 2
    assert "experiments are a distribution of their own" in capsys.readouterr().err
