import numpy as np
import pytest

import neuralrace as nr
from neuralrace.cli import main
from neuralrace.experiments.declaration import Data
from neuralrace.experiments.neural_race import images
from neuralrace.experiments.store import dataset


@pytest.mark.whole
def test_experiment_runs_on_digits(tmp_path):
    small = {"seeds": 2, "domains": 3, "trained": (2,), "hidden": 12, "partners": 2, "epochs": 1}
    more = {"gain_epochs": 1, "gains": (1.0,), "gain": 1.0}
    report = nr.experiments.run("images", quick=True, out=tmp_path, changes={**small, **more})
    assert len(report.claims) == 9
    assert {n for n, _ in report.figures} == {"share", "gain"}
    again = nr.experiments.run("images", quick=True, out=tmp_path, changes={**small, **more})
    assert str(again.claims) == str(report.claims)


def test_routes_are_enough_from_where_the_gap_closes_for_good():
    p = images.Images(seeds=3, domains=10, trained=(1, 2, 4, 10), partners=1)
    gap = np.array([[0.5, 0.5, 0.0], [0.25, 0.02, 0.0], [0.05, 0.5, 0.0], [np.nan] * 3])
    data = Data()
    data.share = {
        ("linear", k): dataset("share", {"trained": ("run", np.zeros(3)), "untrained": ("run", row)})
        for k, row in zip(p.trained, gap, strict=True)
    }
    assert np.allclose(images.enough(p, data, "linear"), [0.4, 0.4 + 0.6 * 0.9, 0.1])


def test_experiment_refuses_what_it_cannot_read(tmp_path, capsys):
    wrong = ["run", "images", "--quick", "--out", str(tmp_path / "out"), "--set"]
    for change, message in (
        (f"path={tmp_path}", None),
        ("data=imagenet", "data must be one of"),
        ("partners=11", "trained must be at most domains = 10"),
        ("trained=a,b", "trained must be a whole number"),
        ("unknown=1", "no parameter of this experiment"),
    ):
        if message is None:
            assert main([*wrong, change, "--set", "data=mnist"]) == 2
            assert "path must be an npz file or a folder with mnist.npz" in capsys.readouterr().err
        else:
            assert main([*wrong, change]) == 2
            assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
