"""Networks whose truth is known, networks left as they were, and wrong use."""

import os
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.apps.insight.modes import chain_half_time
from neuralrace.apps.insight.regime import verdict_of
from neuralrace.errors import InputError

torch = pytest.importorskip("torch")
nn = torch.nn

S = np.array([4.0, 3.0, 2.0, 1.0])


def linear(params, x):
    hidden = x @ params["a"]
    return hidden @ params["b"], {"hidden": hidden}


def watched_flow(std, t1=40.0, times=200, hidden=12):
    """A deep linear network on white inputs, watched along its exact flow."""
    x, y = 2 * np.eye(4), 2 * np.diag(S)
    task = nr.Task(nr.Graph.chain([4, hidden, 4]), x, y)
    run = nr.flow(task, nr.init.gaussian(task.graph, std, seed=3), t1=t1, save=times)
    seen = nr.watch(linear, x, y)
    for k, t in enumerate(run.t):
        seen.look(t, {"a": run.weights["x->h1"][k].T, "b": run.weights["h1->y"][k].T})
    return seen, task, run


@pytest.fixture(scope="module")
def rich():
    return watched_flow(1e-2)


def test_modes_of_a_linear_network(rich):
    seen, task, run = rich
    ds = seen.modes().data
    np.testing.assert_allclose(ds.strength, S, rtol=1e-12)
    strengths = np.diagonal(nr.end_to_end(task.graph, run), axis1=-2, axis2=-1) / S
    truth = nr.half_time(run.t, strengths.T, axis=-1)
    np.testing.assert_allclose(ds.half_time, truth, rtol=0.02)
    assert ds.half_time.values.argsort().tolist() == [0, 1, 2, 3]


def test_regimes():
    assert watched_flow(1e-2)[0].regime().verdict == "rich"
    lazy = watched_flow(3.0, t1=2.0, hidden=60)[0].regime()
    assert lazy.verdict == "lazy"
    assert lazy.interval[0] <= lazy.change <= lazy.interval[1]
    assert [verdict_of(c) for c in (0.1, 0.5, 2.0)] == ["lazy", "between", "rich"]


def test_kernel_is_that_of_the_library(rich):
    seen, task, run = rich
    w = {e: v[-1] for e, v in run.weights.items()}
    own = seen.network.kernel(range(4), np.eye(4), {"a": w["x->h1"].T, "b": w["h1->y"].T})
    # The library scales outputs by the root of a sample's weight, 1/4.
    np.testing.assert_allclose(
        np.linalg.eigvalsh(own) / 4, np.linalg.eigvalsh(nr.tangent_kernel(task, w)), atol=1e-4
    )


def test_half_times_of_a_chain():
    t = np.linspace(0, 20, 4000)
    for depth in (1, 2, 3):
        a = nr.exact.chain(t, s=2.0, d=0.5, a0=1e-2, depth=depth)
        exact = np.interp(2.0, a, t)
        assert chain_half_time(1e-2, 2.0, 0.5, depth) == pytest.approx(exact, rel=1e-3)


class Gated(nn.Module):
    """Two pathways of rectified units, each open on half of the probes by the sign of the first input."""

    def __init__(self):
        super().__init__()
        self.first, self.gate, self.last = nn.Linear(2, 6, bias=False), nn.ReLU(), nn.Linear(6, 1, bias=False)
        with torch.no_grad():
            side = torch.tensor([1.0, 1, 1, -1, -1, -1])
            self.first.weight.copy_(torch.stack([side, 0.01 * torch.arange(6.0)], 1))
            self.last.weight.copy_(torch.tensor([[1.0, 2, 3, 1, 1, 1]]))

    def forward(self, x):
        return self.last(self.gate(self.first(x)))


def test_pathways_are_found_as_built():
    x = torch.tensor(
        np.random.default_rng(0).normal(size=(40, 2)) + np.sign(np.arange(40)[:, None] - 19.5) * [3, 0]
    )
    model = Gated()
    seen = nr.watch(model, x, np.ones((40, 1)))
    seen(0)
    with torch.no_grad():
        model.last.weight *= 1.5
    seen(1)
    ds = seen.pathways().data
    patterns = ds["patterns:gate"].values
    right = np.arange(40) >= 20
    assert {tuple(p) for p in patterns} == {tuple(right), tuple(~right)}
    assert ds["constant_gates_error:gate"] < 1e-6
    member = ds["membership:gate"].values
    assert len(set(member[:3])) == len(set(member[3:])) == 1
    total = float(np.hypot(*ds["carried:gate"].values))
    assert total == pytest.approx(1.0, abs=1e-5)  # open on different probes: squares add up


def small_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 2))


X, Y = np.random.default_rng(1).normal(size=(20, 3)), np.random.default_rng(2).normal(size=(20, 2))


def test_the_model_is_left_as_it_was():
    model = small_model().train()
    model[0].weight.grad = torch.ones_like(model[0].weight)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state, hooks = torch.random.get_rng_state(), len(model[0]._forward_hooks)
    seen = nr.watch(model, X, Y)
    seen(0)
    seen.network.kernel([0, 1], np.eye(2))
    assert all(m.training for m in model.modules())
    assert (model[0].weight.grad == 1).all()
    assert (torch.random.get_rng_state() == state).all()
    assert len(model[0]._forward_hooks) == hooks
    assert all((model.state_dict()[k] == v).all() for k, v in before.items())
    assert all(p.requires_grad for p in model.parameters())


def trained(model, x, labels, watched=True, steps=60):
    seen = nr.watch(model, x, labels)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    inputs, goal = torch.tensor(x, dtype=torch.float32), torch.as_tensor(labels)
    for step in range(steps):
        if watched:
            seen.look(step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), goal).backward()
        optimizer.step()
    seen(steps)
    return seen


class Noise(nn.Module):
    """Draws random numbers in evaluation, too."""

    def forward(self, x):
        return x + 0.1 * torch.randn_like(x)


def test_training_is_the_same_when_watched():
    """Bit for bit, with noise, dropout and running means; also after all answers."""

    def end(watched):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.5), Noise(), nn.Linear(5, 2)
        ).train()
        seen = trained(model, X, (X[:, 0] > 0).astype(int), watched, steps=12)
        before = {k: v.clone() for k, v in model.state_dict().items()}
        if watched:
            seen.answers()
        assert all((model.state_dict()[k] == v).all() for k, v in before.items())
        assert all(m.training for m in model.modules())
        return {**before, "random": torch.random.get_rng_state()}

    one, two = end(True), end(False)
    assert one["1.running_mean"].abs().sum() > 0
    assert all((one[k] == two[k]).all() for k in one)


def test_report_of_a_classifier(tmp_path):
    import xarray as xr

    labels = (X[:, 0] > 0).astype(int)
    seen = trained(small_model(), X, labels)
    assert seen.loss == "cross_entropy"
    page = seen.report(tmp_path / "insight").read_text()
    for words in ("What did it learn first?", "When not to trust it", "not fitted", "probabilities"):
        assert words in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert (
        xr.open_zarr(
            tmp_path / "insight" / "data.zarr", group="regime", chunks=None, consolidated=False
        ).kernel_change
        > 0
    )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(InputError, match="other files"):
        seen.report(tmp_path / "other")


def test_rates_are_fitted_for_squared_error(monkeypatch):
    """Those of one pair of samples, as `universality.fit` finds them."""
    monkeypatch.setattr("neuralrace.apps.insight.representations.PAIRS", 1)
    seen, _, _ = watched_flow(0.1, t1=10.0, times=40)
    answer = seen.representations()
    h, out = seen.snapshots.activity("hidden").astype(float), seen.snapshots.outputs
    i, j = sorted(np.random.default_rng(0).choice(4, 2, replace=False))
    dh, dy, goal = h[:, j] - h[:, i], out[:, j] - out[:, i], seen.y[j] - seen.y[i]
    series = (dh**2).sum(1), (dy**2).sum(1), (dy * (dy - goal)).sum(1)
    distances = np.linalg.norm(seen.x[j] - seen.x[i]), np.linalg.norm(goal)
    found = nr.universality.fit(seen.snapshots.steps, *series, *distances, strict=False)
    assert answer.data.fit_error.item() == pytest.approx(found.error)
    assert answer.data.rate_h.item() == pytest.approx(found.rate_h)
    assert "Eq. 7" in answer.theory


def test_snapshots_are_bounded():
    seen, *_ = watched_flow(0.1, times=300)
    assert len(seen.snapshots.kept) <= 80
    assert seen.snapshots.kept[0].step == 0
    assert seen.snapshots.kept[-1].step == 40.0


def test_checkpoints(tmp_path):
    model = small_model()
    for k in range(3):
        with torch.no_grad():
            model[0].weight += 0.1
        torch.save(model.state_dict(), tmp_path / f"step{10 * k}.pt")
    files = sorted(tmp_path.glob("*.pt"))
    seen = nr.watch.from_checkpoints(small_model(), files, X, Y)
    assert seen.snapshots.steps.tolist() == [0, 10, 20]
    with pytest.raises(InputError, match="another model"):
        nr.watch.from_checkpoints(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)), files, X, Y)
    with pytest.raises(InputError, match="at least two"):
        nr.watch.from_checkpoints(model, files[:1], X, Y)


class Hostile:
    def __reduce__(self):
        return os.mkdir, ("owned",)


def test_hostile_checkpoint_is_not_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for k in range(2):
        torch.save(Hostile(), tmp_path / f"{k}.pt")
    with pytest.raises(InputError, match="nothing of it was executed"):
        nr.watch.from_checkpoints(small_model(), sorted(tmp_path.glob("*.pt")), X, Y)
    assert not (tmp_path / "owned").exists()


def test_divergence_warns_and_keeps_what_was_seen(tmp_path, monkeypatch):
    monkeypatch.setattr("neuralrace.apps.insight.representations.PAIRS", 1)
    model = small_model()
    seen = nr.watch(model, X, Y)
    seen(0)
    with torch.no_grad():
        model[3].bias += 1
    seen(1)
    with torch.no_grad():
        model[0].weight *= np.nan
    with pytest.warns(UserWarning, match="diverged"):
        seen(2)
    seen(3)  # training goes on
    assert len(seen.snapshots.kept) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "diverged" in seen.problem
        with pytest.raises(InputError, match="weights of the end"):
            seen.regime()
        found = set(seen.answers())
        assert {"modes", "representations"} <= found
        assert not {"pathways", "branches", "regime"} & found
        assert "diverged" in seen.report(tmp_path).read_text()


def test_torch_is_missing(monkeypatch):
    class Module:
        """A module of an installation without torch, as far as anyone can tell."""

    Module.__module__ = "torch.nn.modules.module"
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="pip install torch"):
        nr.watch(Module(), X, Y)


def test_a_file_that_is_no_checkpoint(tmp_path):
    for k in range(2):
        (tmp_path / f"{k}.pt").write_text("weights?")
    with pytest.raises(InputError, match="does not hold weights alone"):
        nr.watch.from_checkpoints(small_model(), sorted(tmp_path.glob("*.pt")), X, Y)
    with pytest.raises(InputError, match="cannot be read"):
        nr.watch.from_checkpoints(small_model(), [tmp_path / "3.pt", tmp_path / "4.pt"], X, Y)


def test_tokens_are_shown_one_hot():
    tokens = np.random.default_rng(0).integers(5, size=(30, 2))
    model = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(8, 2))
    seen = nr.watch(model, tokens, tokens[:, 0] % 2)
    assert seen.x.shape == (30, 10)
    assert (seen.x.sum(axis=1) == 2).all()
    with pytest.raises(InputError, match="taken for tokens"):
        nr.watch(model, tokens * 100_000, tokens[:, 0] % 2)


def test_classes_without_a_probe_count():
    seen = nr.watch(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5)), X, np.arange(20) % 2)
    seen(0)
    assert seen.y.shape == (20, 5)


def seen_twice(hidden: int, seed: int) -> tuple[nn.Module, Any]:
    """A ReLU network whose last weights change between two looks."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, hidden), nn.ReLU(), nn.Linear(hidden, 2))
    seen = nr.watch(model, X, Y)
    seen(0)
    with torch.no_grad():
        model[2].weight *= 1.5
    seen.look(1)
    return model, seen


def test_large_layers_are_gated_whole():
    """More units than are kept of a layer: patterns and what they carry are of all."""
    model, seen = seen_twice(700, seed=0)
    ds = seen.pathways().data
    assert ds["membership:1"].shape == (700,)
    assert np.isfinite(ds["carried:1"]).all()
    only = ds["membership:1"].values == 0
    with torch.no_grad():
        h = torch.relu(model[0](seen.network.inputs))
        lost = (h * torch.tensor(only)) @ model[2].weight.T
        share = float(lost.norm() / model(seen.network.inputs).norm())
    assert float(ds["carried:1"][0]) == pytest.approx(share, rel=1e-4)
    assert float(ds["settled:1"][0]) == 1.0  # only the last weights changed


def test_pathways_of_two_seeds():
    from neuralrace.apps.insight import pattern_agreement

    answers = [seen_twice(6, seed)[1].pathways() for seed in (0, 1)]
    assert pattern_agreement(answers[0], answers[0]) == {"1": 1.0}
    assert 0.5 < pattern_agreement(*answers)["1"] < 1
    with pytest.raises(InputError, match="same gated layers"):
        pattern_agreement(answers[0], seen_twice(6, 0)[1].modes())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": 3}, "model must be"),
        ({"x": X[:1], "y": Y[:1]}, "at least two samples"),
        ({"y": Y[:5]}, "as many as x"),
        ({"layers": ["nothing"]}, "layers must name"),
        ({"loss": "other"}, "loss"),
        ({"y": -np.ones(20, int)}, "labels from 0"),
        ({"x": X * np.nan}, "finite"),
    ],
)
def test_wrong_use(given, message):
    arguments = {"model": small_model(), "x": X, "y": Y} | given
    with pytest.raises(InputError, match=message):
        nr.watch(arguments.pop("model"), arguments.pop("x"), arguments.pop("y"), **arguments)


def test_answers_need_something_to_say():
    seen = nr.watch(small_model(), X, Y)
    with pytest.raises(InputError, match="nothing was watched"):
        seen.modes()
    seen(0)
    with pytest.raises(InputError, match="seen once"):
        seen.modes()
    seen.look(1)
    with pytest.raises(InputError, match="did not change"):
        seen.regime()
    with pytest.raises(InputError, match="increase"):
        seen(1)
    with pytest.raises(InputError, match=r"watch\(step, params\)"):
        nr.watch(linear, X, Y)(0)
    with pytest.raises(InputError, match="2 outputs"):
        nr.watch(small_model(), X, Y[:, :1])(0)
