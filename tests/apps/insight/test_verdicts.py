"""One verdict with its interval and its reason; nothing is said that was not measured."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.apps.insight.models import inner_products
from neuralrace.apps.insight.modes import Modes, chain_half_time, predicted
from neuralrace.apps.insight.pathways import find_patterns
from neuralrace.apps.insight.regime import judged, verdict_of

torch = pytest.importorskip("torch")
nn = torch.nn
RNG = np.random.default_rng(0)
X = 5 * RNG.normal(size=(30, 4)) + 3
Y = RNG.normal(size=(30, 3))


@pytest.mark.parametrize(
    ("interval", "verdict", "words"),
    [
        ((0.043, 0.26), "not decided", "either side of 0.2:"),
        ((0.1, 1.5), "not decided", "either side of 0.2 and 1:"),
        ((0.9, 1.1), "not decided", "either side of 1:"),
        ((0.05, 0.1), "lazy", "below 0.2"),
        ((0.3, 0.6), "between", "between the bounds"),
        ((1.2, 3.0), "rich", "above 1"),
        ((np.nan, np.nan), "not decided", "too few probes"),
    ],
)
def test_the_whole_interval_decides(interval, verdict, words):
    found, why = judged(0.15, interval, "kernel")
    assert found == verdict == verdict_of(*interval)
    assert words in why


def batch_norm(lr, steps=20):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr)
    x, y = (torch.tensor(v, dtype=torch.float32) for v in (X, Y))
    seen = nr.watch(model, X, Y)
    for step in range(steps):
        seen.look(step)
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()
    seen.look(steps)
    return model, seen


def test_running_means_are_no_learning(tmp_path):
    model, seen = batch_norm(0.0)
    assert model[1].running_mean.abs().max() > 1
    regime = seen.regime()
    assert regime.change == 0
    assert regime.verdict == "not decided"
    assert "nothing was learned" in seen.report(tmp_path / "page").read_text()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    assert batch_norm(1e-5)[1].regime().verdict == "lazy"
    seen.regime()
    assert all((model.state_dict()[k] == v).all() for k, v in before.items())
    assert model.training
    assert model[1].momentum == 0.1


def test_recordings_without_variation_have_no_verdict(tmp_path):
    for value in (0.0, 1.0):
        seen = nr.watch.from_recordings(np.full((3, 8, 5), value), RNG.normal(size=(8, 3)), np.arange(8) % 2)
        regime = seen.regime()
        assert regime.verdict == "not decided"
        assert "not known" in regime.why
        assert "was zero at the start" in regime.measured
        assert "nan" not in regime.measured
        assert "not decided" in seen.report(tmp_path / f"{value:g}").read_text()
    with pytest.raises(nr.errors.InputError, match="squares are taken"):
        nr.watch.from_recordings(1e200 * RNG.normal(size=(3, 8, 5)), RNG.normal(size=(8, 3)), np.arange(8))


def test_a_report_of_few_probes_does_not_contradict_itself(tmp_path):
    """The example of the tour."""
    x = torch.tensor([[1.0, 1], [1, -1], [1, 1], [1, -1]])
    y = torch.tensor([[1.0, 1], [1, -1], [1, 0], [1, 0]])
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 20), nn.ReLU(), nn.Linear(20, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = nr.watch(model, x, y)
    for step in range(30):
        seen.look(step)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    seen.look(30)
    regime = seen.regime()
    assert regime.interval[0] < 0.2 < regime.interval[1]
    assert regime.verdict == "not decided"
    page = seen.report(tmp_path / "page").read_text()
    assert "<strong>not decided</strong>" in page
    assert "<strong>lazy" not in page
    assert "Too few different probes" in page
    assert "fails" not in page.split("Which pathways")[0].split("When not to trust")[-2].split("Theory")[-1]
    assert not (tmp_path / "page" / "representations.svg").exists()


def modes(s):
    nothing = np.zeros((len(s), 1))
    return Modes(nothing, nothing, s, np.ones(len(s)), 1.0)


def test_half_times_are_predicted_where_a_left_out_one_is():
    s = np.array([4.0, 3.0, 2.0, 1.0])
    chain = 7.0 * np.array([chain_half_time(1e-4, a, 1.0, 3) for a in s])
    found = predicted(chain, modes(s), 3)
    assert found.error < 0.02 < 0.3 < found.constant
    np.testing.assert_allclose(found.times, chain, rtol=1e-3)
    together = predicted(np.array([10.0, 11.0, 10.0, 11.0]), modes(s), 3)  # as Adam learns them
    assert np.isnan(together.times).all()
    assert together.error > together.constant
    assert together.constant == pytest.approx(np.exp(np.mean(np.log([11, 10, 11]))) / 10 - 1, abs=0.02)
    few = predicted(np.array([1.0, 2.0, np.nan, np.nan]), modes(s), 3)
    assert np.isnan(few.times).all()
    assert np.isnan(few.error)


def test_the_mean_of_the_others_by_hand():
    times = np.array([2.0, 3.0, 8.0])
    off = [abs(np.sqrt(np.prod(np.delete(times, k))) / times[k] - 1) for k in range(3)]
    assert predicted(times, modes(np.array([3.0, 2.0, 1.0])), 2).constant == pytest.approx(np.median(off))


def test_one_pattern_is_possible():
    """Units of one pattern whose gates differ by chance are one pathway; those of two are two."""
    rng = np.random.default_rng(2)
    for count in (1, 2):
        built = rng.random((count, 100)) < 0.5
        gates = built[rng.integers(count, size=200)] ^ (rng.random((200, 100)) < 0.1)
        assert len(find_patterns(gates.T.astype(float))[0]) == count


def test_kernels_of_many_weights_in_parts(monkeypatch):
    rows = RNG.normal(size=(7, 50))
    monkeypatch.setattr("neuralrace.apps.insight.models.MOST_SLOPES", 150)
    seen = []

    def row(k):
        seen.append(k)
        return rows[k]

    np.testing.assert_allclose(inner_products(row, 7, 50), rows @ rows.T, rtol=1e-5, atol=1e-6)
    assert len(seen) > 7  # computed again rather than kept
