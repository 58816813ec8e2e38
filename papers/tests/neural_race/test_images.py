import numpy as np
import pytest
import xarray as xr

from neuralrace_papers.framework import Data
from neuralrace_papers.framework.parameters import changed
from neuralrace_papers.neural_race import images


def found(**parts):
    data = Data()
    vars(data).update(parts)
    return data


def errors(trained, untrained):
    return xr.Dataset({"trained": ("run", trained), "untrained": ("run", untrained)})


@pytest.mark.whole
@pytest.mark.parametrize("kind", ["squared", "linear"])
def test_networks_of_digits_learn_the_trained_routes(kind):
    p = images.Images(
        seeds=2, domains=3, trained=(2,), hidden=16, partners=2, panels=("rotation-3",), lr=0.05
    )
    ends = images.train(p, kind, 2, 1.0, 6)
    assert ends["trained"][1].max() < 0.4
    assert (ends["trained"][1] < ends["untrained"][1]).all()
    assert not any(ends["failed"][1])


def test_routes_are_enough_from_where_the_gap_closes_for_good():
    p = images.Images(seeds=3, domains=10, trained=(1, 2, 4, 10), partners=1, panels=("rotation-10",))
    worse = np.array([[0.5, 0.5, 0.0], [0.25, 0.02, 0.0], [0.05, 0.5, 0.0], [np.nan] * 3])
    share = {("linear", k): errors(np.zeros(3), row) for k, row in zip(p.trained, worse, strict=True)}
    data = found(share=share)
    assert np.allclose(images.enough(p, data, "linear"), [0.4, 0.4 + 0.6 * 0.9, 0.1])
    assert np.allclose(images.gap(p, data, "linear"), worse[2])


def test_gains_by_descent_may_be_left_out():
    p = images.Images(descent_gains=(), networks=("squared",))
    flows = {(panel, g): errors([g], [2 * g]) for panel in p.panels for g in p.gains}
    assert set(images.by_gain(p, found(gain={}, gain_flow=flows))) == set(p.panels)


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": "imagenet"}, "data must be one of"),
        ({"inputs": "mirror"}, "inputs must be one of"),
        ({"networks": "deep"}, "networks must be one of"),
        ({"partners": 41}, "trained must be at most domains = 40"),
        ({"panels": ("rotation",)}, "panels must be permutation-M or rotation-M"),
        ({"hidden": 5}, "hidden must be 0 or at least 10"),
        ({"data": "mnist", "path": "nowhere"}, "path must be an npz file or a folder with mnist.npz"),
    ],
)
def test_parameters_are_checked(change, message):
    with pytest.raises(ValueError, match=message):
        changed(images.Images(), change)
