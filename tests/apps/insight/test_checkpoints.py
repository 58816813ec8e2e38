"""Checkpoints: in which order they are taken, and a model that is left alone."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import InputError

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(20, 3)), RNG.normal(size=(20, 2))


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))


def saved(folder, names, wrap=lambda k, state: state):
    """Checkpoints whose last bias grows by one from each to the next."""
    network = model()
    for k, name in enumerate(names):
        with torch.no_grad():
            network[2].bias.fill_(k)
        torch.save(wrap(k, network.state_dict()), folder / name)
    return [folder / name for name in names]


def order(seen):
    """The number of each snapshot's checkpoint, from the outputs that its bias moves."""
    out = seen.snapshots.outputs.mean(axis=(1, 2))
    return (out - out.min()).round().astype(int).tolist()


@pytest.mark.parametrize(
    "names",
    [
        ["epoch=0-val_loss=2.31.ckpt", "epoch=1-val_loss=1.20.ckpt", "epoch=2-val_loss=0.95.ckpt"],
        ["init.pt", "step100.pt", "final.pt"],
        ["b.pt", "c.pt", "a.pt"],
    ],
)
def test_the_order_given_is_taken(tmp_path, names):
    seen = nr.watch.from_checkpoints(model(), saved(tmp_path, names), X, Y)
    assert order(seen) == seen.snapshots.steps.tolist() == [0, 1, 2]
    assert "in the order given; steps are counted from 0" in seen.described


@pytest.mark.parametrize("kind", [int, float, torch.tensor])
def test_stored_steps_are_taken(tmp_path, kind):
    def wrap(k, state):
        return {"state_dict": state, "epoch": 0, "global_step": kind(10 * k)}

    files = saved(tmp_path, ["last.ckpt", "a.ckpt", "b.ckpt"], wrap)
    seen = nr.watch.from_checkpoints(model(), [files[2], files[0], files[1]], X, Y)
    assert seen.snapshots.steps.tolist() == [0, 10, 20]
    assert order(seen) == [0, 1, 2]
    assert "'global_step'" in seen.described


def test_an_alphabetical_order_is_refused(tmp_path):
    files = saved(tmp_path, ["step0.pt", "step20.pt", "step100.pt"])
    assert nr.watch.from_checkpoints(model(), files, X, Y).snapshots.steps.tolist() == [0, 20, 100]
    with pytest.raises(InputError, match="order of training"):
        nr.watch.from_checkpoints(model(), sorted(files), X, Y)
    for wrong in ("step0.pt", [1, 2], files[:1]):
        with pytest.raises(InputError, match="files must"):
            nr.watch.from_checkpoints(model(), wrong, X, Y)


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        (["x0.5.pt", "x0.75.pt", "x10.pt"], [0.5, 0.75, 10]),
        (["at1e3.pt", "at2.5e3.pt", "at1e4.pt"], [1000, 2500, 10_000]),
        (["v2-9.pt", "v2-10.pt", "v2-11.pt"], [9, 10, 11]),
        (["epoch1-step900.pt", "epoch2-step100.pt", "epoch3-step5.pt"], [0, 1, 2]),
    ],
)
def test_numbers_in_names(tmp_path, names, steps):
    seen = nr.watch.from_checkpoints(model(), saved(tmp_path, names), X, Y)
    assert order(seen) == [0, 1, 2]
    assert seen.snapshots.steps.tolist() == steps


def test_models_that_cannot_be_loaded_into(tmp_path):
    files = saved(tmp_path, ["a.pt", "b.pt"])
    lazy, held = model(), model()
    lazy[0] = torch.nn.LazyLinear(5)
    held.words = (word for word in "ab")
    for wrong, message in ((lazy, "lazy module"), (held, "copy.deepcopy")):
        with pytest.raises(InputError, match=message):
            nr.watch.from_checkpoints(wrong, files, X, Y)


def test_the_model_keeps_its_weights(tmp_path):
    own = model()
    before = {k: v.clone() for k, v in own.state_dict().items()}
    seen = nr.watch.from_checkpoints(own, saved(tmp_path, ["a.pt", "b.pt"]), X, Y)
    seen.answers()
    assert all((own.state_dict()[k] == v).all() for k, v in before.items())
