"""`neuralrace insight` on checkpoints: the page, wrong use, and files that hold code."""

import re
import sys

import numpy as np
import pytest

from neuralrace import cli

torch = pytest.importorskip("torch")

MODEL = """
import torch


def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Checkpoints of a model in the working folder, and probes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "small_model", raising=False)
    (tmp_path / "small_model.py").write_text(MODEL)
    names = {}
    exec(MODEL, names)
    model = names["make"]()
    for step in (0, 10, 20):
        torch.save(model.state_dict(), tmp_path / f"step{step}.pt")
        with torch.no_grad():
            model[2].weight *= 1.5
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "probes.npz", x=rng.normal(size=(20, 3)).astype("float32"), y=np.arange(20) % 2)
    return tmp_path


def insight(files, *options):
    model = () if "--model" in options else ("--model", "small_model:make")
    return cli.main(["insight", *map(str, files), "--data", "probes.npz", *model, *options])


def test_page_of_checkpoints(folder, capsys):
    assert insight(sorted(folder.glob("*.pt")), "--out", "page") == 0
    assert "Rich or lazy?" in capsys.readouterr().out
    page = (folder / "page" / "index.html").read_text()
    assert "3 snapshots from step 0 to 20," in page
    links = re.findall(r'href="(manual/\w+\.html)"', page)
    assert len(links) == 4
    assert all("# " in (folder / "page" / link).read_text() for link in links)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "small_model"), "module:factory"),
        (("--model", "small_model:other"), "cannot be found"),
        (("--model", "no_such_module:make"), "No module named"),
    ],
)
def test_wrong_model(folder, capsys, options, message):
    assert insight(sorted(folder.glob("*.pt")), *options) == 2
    assert message in capsys.readouterr().err


class Hostile:
    def __reduce__(self):
        import os

        return os.mkdir, ("owned",)


def test_code_is_executed_on_demand_only(folder, capsys):
    torch.save(Hostile(), folder / "step5.pt")
    files = sorted(folder.glob("*.pt"))
    assert insight(files) == 2
    assert "nothing of it was executed" in capsys.readouterr().err
    assert not (folder / "owned").exists()
    assert insight(files, "--allow-pickle") == 2  # executed, and still no weights
    assert "another model" in capsys.readouterr().err
    assert (folder / "owned").exists()
