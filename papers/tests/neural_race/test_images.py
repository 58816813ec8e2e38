import numpy as np
import pytest

import neuralrace_papers
from neuralrace.cli import main
from neuralrace_papers.framework.declaration import Data
from neuralrace_papers.framework.store import dataset
from neuralrace_papers.neural_race import images


@pytest.mark.whole
def test_experiment_runs_on_digits(tmp_path):
    small = {"seeds": 2, "domains": 3, "trained": (2,), "hidden": 12, "partners": 2, "epochs": 1}
    more = {"gain_epochs": 1, "gains": (1.0,), "gain": 1.0, "descent_gains": (1.0,)}
    more["panels"] = ("rotation-3",)
    report = neuralrace_papers.run("images", quick=True, out=tmp_path, changes={**small, **more})
    assert {"trained-error-gain-1", "trained-error-gain-1-rotation-3"} < {c.id for c in report.claims}
    assert all("digits" in c.name for c in report.claims if c.kind == "paper")
    assert {n for n, _ in report.figures} == {"share", "gain"}
    again = neuralrace_papers.run("images", quick=True, out=tmp_path, changes={**small, **more})
    assert str(again.claims) == str(report.claims)


def test_routes_are_enough_from_where_the_gap_closes_for_good():
    p = images.Images(seeds=3, domains=10, trained=(1, 2, 4, 10), partners=1, panels=("rotation-10",))
    gap = np.array([[0.5, 0.5, 0.0], [0.25, 0.02, 0.0], [0.05, 0.5, 0.0], [np.nan] * 3])
    data = Data()
    data.share = {
        ("linear", k): dataset("share", {"trained": ("run", np.zeros(3)), "untrained": ("run", row)})
        for k, row in zip(p.trained, gap, strict=True)
    }
    assert np.allclose(images.enough(p, data, "linear"), [0.4, 0.4 + 0.6 * 0.9, 0.1])


def test_gains_by_descent_may_be_left_out():
    p = images.Images().changed({"descent_gains": "", "networks": "squared"})
    data = Data()
    data.gain = {}
    data.gain_flow = {
        (panel, g): dataset("flow", {"trained": ("run", [g]), "untrained": ("run", [2 * g])})
        for panel in p.panels
        for g in p.gains
    }
    assert (p.networks, p.descent_gains) == (("squared",), ())
    assert set(images.by_gain(p, data)) == set(p.panels)


def test_features_of_a_file_stand_in_for_the_encoder(tmp_path):
    rng, file = np.random.default_rng(0), str(tmp_path / "features.npz")
    x, y = rng.normal(size=(3, 8, 5)), np.arange(8)
    np.savez(file, x_train=x, y_train=y, x_test=2 * x, y_test=y)
    small = {"domains": 2, "trained": (1,), "partners": 1, "panels": ("rotation-2",), "inputs": "rotation"}
    p = images.Images(data="cifar10-features", path=file, **small)
    assert p.width == 1024
    task = images.routes(p, "test", np.eye(2), "linear")
    assert np.array_equal(task.sample_contexts[1].inputs["x1"], 2 * x[1])
    assert task.graph.nodes["h1"] == 1024
    with pytest.raises(ValueError, match="at most the 3"):
        images.transformed("cifar10-features", file, "train", "rotation", 4)


def test_experiment_refuses_what_it_cannot_read(tmp_path, capsys):
    wrong = ["run", "images", "--quick", "--out", str(tmp_path / "out"), "--set"]
    for change, message in (
        (f"path={tmp_path}", None),
        ("data=imagenet", "data must be one of"),
        ("partners=11", "trained must be at most domains = 6"),
        ("trained=a,b", "trained must be a whole number"),
        ("panels=rotation", "panels must be permutation-M or rotation-M"),
        ("hidden=5", "hidden must be 0 or at least 10"),
        ("unknown=1", "no parameter of this experiment"),
    ):
        if message is None:
            assert main([*wrong, change, "--set", "data=mnist"]) == 2
            assert "path must be an npz file or a folder with mnist.npz" in capsys.readouterr().err
        else:
            assert main([*wrong, change]) == 2
            assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
