"""Gating patterns found in trained ReLU networks."""

import json
import subprocess
import sys

import numpy as np
import pytest

import neuralrace as nr
from neuralrace import cli
from neuralrace.errors import InputError
from neuralrace.relu.discovery import discover, mixed_share
from neuralrace.tasks.structured import gated

DIFFERENT = ("hierarchy", "ring", "cross")
FOUR = ["111", "110", "101", "011"]
CONTEXT = np.repeat([1, 2, 3], 8)
QUICK = {"hidden": [100], "std": 1e-3, "lr": 0.1, "steps": 200, "every": 10}


@pytest.fixture(scope="module")
def signs():
    """Two inputs want a positive output, two a negative one: two patterns do everything."""
    return np.eye(4), np.array([[1.0], [1.0], [-1.0], [-1.0]])


@pytest.fixture(scope="module")
def contexts():
    """A smaller and faster form of the different-structure task."""
    x, y = nr.tasks.contexts(3, DIFFERENT).arrays
    return nr.relu.train(x, y, hidden=[200], std=1e-4, lr=4e-3, steps=1600, save=41, seed=0)


@pytest.fixture(scope="module")
def found(contexts):
    return discover(net=contexts, max_clusters=5)


# -- patterns --------------------------------------------------------------------------------


def test_two_patterns(signs):
    found = discover(*signs, **QUICK, max_clusters=3)
    assert found.patterns.tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]
    assert found.by_context("aabb") == ["10", "01"]
    assert found.by_context("abab") == ["??", "??"]
    assert found.k == 2
    assert found.shares.sum() == pytest.approx(1)
    assert found.warnings == ()
    assert (found.loss < 1e-3).all()
    assert found.elbow[1] > 10 * found.elbow[2]
    assert len(found.loss) == 3


def test_same_seed_same_answer(signs):
    first, second, other = (discover(*signs, **QUICK, seed=s, runs=1, k=2) for s in (1, 1, 2))
    assert np.array_equal(first.centres, second.centres)
    assert first.elbow == second.elbow
    assert not np.array_equal(first.centres, other.centres)


def test_contexts(found):
    assert found.by_context(CONTEXT) == FOUR
    assert min(found.elbow) == 1
    best = min(found.elbow.values())
    assert found.elbow[4] <= best + 0.05 * (found.elbow[1] - best) < min(found.elbow[k] for k in (1, 2, 3))
    assert np.array_equal(found.patterns, found.centres > 0.5)
    assert np.allclose(found.ambiguity, 2 * np.minimum(found.centres, 1 - found.centres).mean(axis=1))
    text = repr(found)
    assert "chosen" in text
    assert "1" * 16 + "0" * 8 in text


def test_distance_is_that_of_all_units_with_constant_gates(contexts, found):
    """Pathways in few units against every unit with the gates of its pattern; and close to `imitate`."""
    x, y = contexts.task.arrays
    own = contexts.gates(-1)[0].T
    nearest = np.abs(own[:, None] - found.patterns).sum(axis=2).argmin(axis=1)
    gates = found.patterns[nearest].T * own.any(axis=1)
    graph = contexts.task.graph
    task = nr.Task(nr.Graph(graph.nodes, graph.edges), x, y, {"h1": gates})
    settings = contexts.settings
    path = nr.descend(task, contexts.at(0), settings["lr"], settings["steps"], contexts.t)
    outputs = contexts.predict()["y"]
    apart = ((nr.predict(task, path.weights)["y"] - outputs) ** 2).sum(axis=(1, 2)) / (y**2).sum()
    assert np.sqrt(apart.mean()) == pytest.approx(found.elbow[4], rel=1e-6)
    beside = nr.relu.imitate(contexts, gated(x, y, found.patterns))
    assert np.sqrt((beside.distance**2).mean()) == pytest.approx(found.elbow[4], rel=0.05)


def test_swapped_gates(contexts, signs):
    found = discover(net=contexts, follow="swapped", max_clusters=6)
    assert found.by_context(CONTEXT) == FOUR
    # With a pattern for every unit nothing is swapped.
    net = nr.relu.train(*signs, hidden=[5], std=0.5, lr=0.1, steps=100, save=2)
    few = discover(*signs, net=net.at(-1), max_clusters=5)
    own = {tuple(g) for g in net.gates(-1)[0].T if g.any()}
    assert few.elbow[len(own)] == pytest.approx(0, abs=1e-12)


def test_progress_goes_to_stderr(signs, capfd):
    discover(*signs, **QUICK, runs=1, max_clusters=2, progress=True)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "descend: 100%" in shown.err
    assert "clusters: 100%" in shown.err


def test_given_k(contexts):
    found = discover(net=contexts, k=3)
    assert found.k == 3
    assert list(found.elbow) == [3]


def test_biases_and_flow(signs):
    x, y = signs
    found = discover(x, y, **QUICK, runs=1, bias=True, max_clusters=2)
    assert max(found.elbow.values()) < 0.2  # the bias of the output does much of it
    net = nr.relu.train(x, y, [30], 1e-3, 0.1, 100, save=21, method=nr.Adaptive(1e-3, 1e-2))
    assert discover(net=net, k=2).elbow[2] < 0.2


def test_deeper_layers(signs):
    found = discover(
        *signs, hidden=[20, 10], std=0.2, lr=0.05, steps=400, every=40, runs=2, layer=2, max_clusters=4
    )
    assert found.layer == 2
    assert "swapped" in found.rule
    assert found.patterns.shape == (found.k, 4)


# -- networks from elsewhere -----------------------------------------------------------------


def test_own_weights(signs):
    x, y = signs
    net = nr.relu.train(x, y, [100], 1e-3, 0.1, 200, save=11)
    want = discover(net=net, follow="swapped", max_clusters=3)
    series = list(net.weights.values())
    for own in (series, dict(net.weights), [net.at(i) for i in range(11)], [(w, None) for w in series]):
        found = discover(x, y, net=own, max_clusters=3)
        assert np.array_equal(found.centres, want.centres)
        assert found.elbow == want.elbow
    last = discover(x, y, net=[w[-1] for w in series])
    assert last.moments == 1
    assert last.by_context("aabb") == ["10", "01"]


def test_own_weights_with_biases(signs):
    x, y = signs
    net = nr.relu.train(x, y, [100], 1e-3, 0.1, 200, save=11, bias=True)
    w = net.weights
    want = discover(net=net, follow="swapped")
    assert np.array_equal(discover(x, y, net=w).centres, want.centres)
    pairs = [(w["x->h1"], w["h1"]), (w["h1->y"], w["y"])]
    assert np.array_equal(discover(x, y, net=pairs).centres, want.centres)


def test_torch(signs):
    import torch

    x, y = signs
    net = nr.relu.train(x, y, [100], 1e-3, 0.1, 200, save=2)
    module = torch.nn.Sequential(
        torch.nn.Linear(4, 100, bias=False), torch.nn.ReLU(), torch.nn.Linear(100, 1, bias=False)
    ).double()
    with torch.no_grad():
        for p, w in zip(module.parameters(), net.at(-1).values(), strict=True):
            p.copy_(torch.tensor(w))
    want = discover(x, y, net=net.at(-1), max_clusters=3)
    assert np.array_equal(discover(x, y, net=module, max_clusters=3).centres, want.centres)
    assert discover(x, y, net=[module, module], k=2).moments == 2


# -- single units ----------------------------------------------------------------------------


def test_mixed_share(contexts):
    x = np.array([[1.0, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1]])  # items, contexts
    pure, mixed = [1.0, 1, 1, -1], [1.0, -1, 0.5, 0.5]
    silent = [-1.0, -1, -1, -1]
    weights = [np.array([pure, mixed, silent]), np.array([[3.0, 1.0, 100.0]])]
    size = 3 * np.linalg.norm(pure), np.linalg.norm(mixed)
    assert mixed_share(weights, [0, 0, 1, 1], X=x) == pytest.approx(size[1] / sum(size))
    assert mixed_share(weights, [0, 1, 2, 3], X=x) == 0
    assert mixed_share(contexts, CONTEXT) > 0.5


# -- wrong input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.eye(3)}, "Y must have as many rows as X, 3; got 4"),
        ({"X": np.ones(4)}, "X must have shape"),
        ({"Y": np.zeros((4, 1))}, "zero everywhere"),
        ({"Y": None}, "X and Y, the inputs and targets, are needed"),
        ({"hidden": []}, "hidden must list the sizes of the ReLU layers"),
        ({"k": 0}, "k must be at least 1"),
        ({"k": 99}, r"k must be at most the number of distinct patterns, \d+; got 99"),
        ({"layer": 2}, "layer must be at most the number of ReLU layers, 1; got 2"),
        ({"runs": 0}, "runs must be at least 1"),
        ({"every": 999}, "every must be at most steps, 200"),
        ({"follow": "closely"}, "follow must be one of trained, swapped"),
        ({"steps": 10, "every": 5}, "run 0 has not learned: its last loss is .* try more steps"),
        ({"net": [np.full((3, 4), 1e200), np.full((1, 3), 1e200)]}, "must have finite outputs"),
        ({"lr": 10.0, "bias": True}, "run 0 diverged at step .* smaller lr than 10"),
        ({"save": 3}, "save must not be given"),
        ({"seed": 2**32}, "seed must be at most 4294967295"),
        ({"net": [np.eye(4)]}, "must have a ReLU layer"),
        ({"net": [np.ones((3, 4)), np.ones((2, 3))]}, r"Y must have shape \(4, 2\), got \(4, 1\)"),
        ({"net": [np.ones((5, 3, 4)), np.ones((4, 1, 3))]}, "at the same times"),
        ({"net": [-np.ones((3, 4)), np.ones((1, 3))]}, "no unit of layer 1 is active"),
        ({"net": [np.ones((3, 4)), np.ones((1, 3))], "follow": "trained"}, "follow='trained' needs"),
        ({"net": [np.ones((3, 4)), np.ones((1, 3))], "bias": True}, "bias is for training"),
        ({"x": np.eye(4)}, "inputs are X and targets are Y, got x"),
    ],
)
def test_refused(signs, change, message):
    x, y = signs
    with pytest.raises(InputError, match=message):
        discover(**{"X": x, "Y": y, **QUICK, "runs": 1, **change})


def test_refused_networks(signs):
    net = nr.relu.train(*signs, hidden=[5], std=0.1, lr=0.1, steps=100, save=2, save_weights=False)
    with pytest.raises(InputError, match="save_weights=True"):
        discover(net=net)
    with pytest.raises(InputError, match="one label per sample"):
        mixed_share([np.eye(4), np.ones((1, 4))], [0, 1], X=np.eye(4))
    with pytest.raises(InputError, match="no unit that is active"):
        mixed_share([-np.eye(4), np.ones((1, 4))], [0, 0, 1, 1], X=np.eye(4))
    with pytest.raises(InputError, match="X, the inputs, is needed"):
        mixed_share([np.eye(4), np.ones((1, 4))], [0, 0, 1, 1])


def test_not_converged_is_a_warning(signs):
    found = discover(*signs, **{**QUICK, "steps": 45, "every": 5}, runs=1, max_clusters=2)
    assert 0.01 < found.loss[0] < 0.9
    assert len(found.warnings) == 1
    assert "not converged: last loss" in found.warnings[0]
    assert "more steps" in found.warnings[0]
    assert "beware: not converged" in repr(found)


def test_many_patterns_are_cut(signs, monkeypatch):
    monkeypatch.setattr("neuralrace.relu.discovery.MAX_NUMBERS", 12)
    found = discover(*signs, **QUICK, runs=1)
    assert "left out for their number" in found.warnings[0]
    assert max(found.elbow) <= 3


# -- the command -----------------------------------------------------------------------------


def command(capsys, *arguments):
    status = cli.main(["discover", *(str(a) for a in arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


SMALL = ("--hidden", 100, "--std", 1e-3, "--lr", 0.1, "--steps", 200, "--runs", 1)


def test_command(signs, tmp_path, capsys):
    file, out = tmp_path / "signs.npz", tmp_path / "out"
    np.savez(file, X=signs[0], Y=signs[1])
    status, text, err = command(capsys, file, *SMALL, "--out", out, "--k", 2)
    assert (status, err) == (0, "")
    assert "1100" in text
    assert "chosen" in text
    folder = out / "discover" / "signs"
    figures = (f"discover.{s}" for s in nr.plot.FORMATS)
    assert {f.name for f in folder.iterdir()} == {"patterns.csv", "source.txt", *figures}
    rows = (folder / "patterns.csv").read_text().splitlines()
    assert rows[0].startswith("share,ambiguity,gate0,gate1,gate2,gate3,mean0")
    assert rows[1].split(",")[2:6] == ["1", "1", "0", "0"]
    status, text, err = command(capsys, file, *SMALL, "--out", out, "--k", 3, "--json")
    told = json.loads(text)
    assert (status, err, told["k"], list(told["elbow"])) == (0, "", 3, ["3"])
    assert len(told["files"]) == 4


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"X": np.eye(4)}, (), "must hold the arrays X and Y; it holds X"),
        ({"X": np.eye(4), "Y": np.ones((3, 1))}, (), "Y must have as many rows as X"),
        ({"X": np.eye(4), "Y": np.ones((4, 1))}, ("--hidden", "many"), "--hidden must be sizes such as"),
        (None, (), "cannot be read"),
    ],
)
def test_command_refuses(tmp_path, capsys, arrays, options, message):
    file, out = tmp_path / "data.npz", tmp_path / "out"
    if arrays:
        np.savez(file, **arrays)
    status, text, err = command(capsys, file, "--out", out, *options)
    assert (status, text) == (2, "")
    assert err.startswith("neuralrace: ")
    assert message in err
    assert not out.exists()


def test_import_stays_light():
    code = (
        "import sys, neuralrace; print([m for m in ('sklearn', 'torch', 'matplotlib') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
