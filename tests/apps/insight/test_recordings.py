"""Recorded representations: what is known of a network is found from its activity alone."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.apps.insight.page import FIGURES
from neuralrace.errors import InputError
from neuralrace.measure import gram, squared_distances

S = np.array([4.0, 3.0, 2.0, 1.0])
X = np.vstack([np.eye(4), -np.eye(4)])
Y = X * S


@pytest.fixture(scope="module")
def sessions():
    """Hidden layer of a deep linear network along its flow."""
    task = nr.Task(nr.Graph.chain([4, 12, 4]), X, Y)
    run = nr.flow(task, nr.init.gaussian(task.graph, 1e-2, seed=3), t1=60.0, save=300)
    return run.t, np.einsum("tho,no->tnh", run.weights["x->h1"], X), nr.end_to_end(task.graph, run)


def test_modes_are_represented_in_order(sessions):
    t, activity, maps = sessions
    seen = nr.watch.from_recordings(activity, X, Y, steps=t)
    ds = seen.modes().data
    # In a balanced network the squared activity along a mode grows as the map does.
    truth = nr.half_time(t, np.diagonal(maps, axis1=1, axis2=2).T, axis=-1)
    np.testing.assert_allclose(ds.half_time, truth, rtol=0.03)
    regime = seen.regime()
    assert regime.verdict == "rich"
    ends = [gram(a, centre=True) for a in seen.activity["recorded"]]
    np.testing.assert_allclose(regime.data.kernel, [ends[0], ends[-1]], atol=1e-9)
    found = nr.watch.from_recordings({"V1": activity, "V4": activity[:, ::-1]}, X, Y, steps=t)
    assert found.layers == ("V1", "V4")


def test_distances_tell_the_same(sessions):
    t, activity, _ = sessions
    some = slice(None, None, 30)
    one = nr.watch.from_recordings(activity[some], X, Y, steps=t[some])
    two = nr.watch.from_recordings(squared_distances(activity[some]), X, Y, steps=t[some], distances=True)
    for name in ("modes", "representations", "regime"):
        a, b = (getattr(seen, name)().data for seen in (one, two))
        for key in a:
            np.testing.assert_allclose(a[key], b[key], rtol=1e-6, atol=1e-9)
    with pytest.raises(InputError, match="do not tell units"):
        two.pathways()


def test_trials_of_a_condition_are_averaged():
    rng = np.random.default_rng(0)
    activity, again = rng.normal(size=(2, 8, 5)), rng.normal(size=(2, 8, 5))
    both = np.concatenate([activity, again], axis=1)
    x, y = np.vstack([X, X]), np.vstack([Y, Y])
    one = nr.watch.from_recordings(both, x, y)
    two = nr.watch.from_recordings((activity + again) / 2, X, Y)
    np.testing.assert_allclose(one.distances["recorded"], two.distances["recorded"])
    three = nr.watch.from_recordings(squared_distances(both), x, y, distances=True)
    np.testing.assert_allclose(three.distances["recorded"], two.distances["recorded"], atol=1e-9)


def test_sessions_with_other_units_and_a_page(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 4)
    sessions = [X @ rng.normal(size=(4, 20 + k)) + k * labels[:, None] for k in range(4)]
    seen = nr.watch.from_recordings(sessions, X, labels)
    with pytest.raises(InputError, match="their numbers differ"):
        seen.pathways()
    unrelated = nr.watch.from_recordings(sessions, X, np.arange(8) % 2)
    assert "no modes" in unrelated.modes().measured
    assert FIGURES["modes"](unrelated.modes()) is None
    course = seen.representations().data.correlation_over_steps
    assert course.shape == (1, 4)
    page = seen.report(tmp_path / "page").read_text()
    assert "8 conditions; 4 sessions" in page
    assert "What was represented first?" in page


def test_silent_units_are_gates():
    active = np.maximum(np.kron(np.eye(2), np.ones((4, 3))), 0)
    seen = nr.watch.from_recordings([active, 2 * active], X, np.repeat([0, 1], 4))
    patterns = seen.pathways().data["patterns:recorded"].values
    assert sorted(patterns.tolist()) == [4 * [False] + 4 * [True], 4 * [True] + 4 * [False]]


def test_from_and_to_rsatoolbox(sessions):
    pytest.importorskip("rsatoolbox")
    from rsatoolbox.data import Dataset, TemporalDataset
    from rsatoolbox.rdm import RDMs

    activity = sessions[1][::60]
    plain = nr.watch.from_recordings(activity, X, Y)
    for given in (
        [Dataset(a) for a in activity],
        TemporalDataset(np.moveaxis(activity, 0, 2)),
        RDMs(squared_distances(activity), "squared euclidean"),
    ):
        seen = nr.watch.from_recordings(given, X, Y)
        np.testing.assert_allclose(seen.distances["recorded"], plain.distances["recorded"], atol=1e-12)
    back = plain.to_rsatoolbox()
    np.testing.assert_allclose(back.get_matrices(), plain.distances["recorded"], atol=1e-12)
    assert list(back.rdm_descriptors["layer"]) == len(activity) * ["recorded"]
    again = nr.watch.from_recordings(back, plain.x, plain.y)
    np.testing.assert_allclose(again.distances["recorded"], plain.distances["recorded"], atol=1e-12)
    with pytest.raises(InputError, match="one Dataset is one session"):
        nr.watch.from_recordings(Dataset(activity[0]), X, Y)


def test_a_watched_network_as_rdms():
    pytest.importorskip("rsatoolbox")

    def model(params, x):
        return x @ params, {"h": x @ params}

    seen = nr.watch(model, X, Y)
    for k in (1.0, 2.0):
        seen.look(k, k * np.eye(4))
    rdms = seen.to_rsatoolbox()
    assert rdms.n_rdm == 2
    assert rdms.rdm_descriptors["step"] == [1.0, 2.0]
    np.testing.assert_allclose(rdms.get_matrices()[1], squared_distances(2 * seen.x), rtol=1e-6)


@pytest.mark.parametrize(
    ("recorded", "options", "message"),
    [
        (np.zeros((1, 8, 3)), {}, "at least two"),
        (np.zeros((2, 7, 3)), {}, "must be trials x units for 8 trials"),
        (np.zeros((2, 8, 3)), {"distances": True}, "must be trials x trials"),
        (np.zeros((2, 8, 3)), {"steps": [1, 1]}, "steps must increase"),
        (np.full((2, 8, 3), np.nan), {}, "finite"),
        (3, {}, "sessions x trials x units"),
        ("abc", {}, "sessions x trials x units"),
        (np.zeros((2, 8, 0)), {}, "at least one unit"),
        (np.full((2, 8, 8), 1e300), {"distances": True}, "squares are taken"),
        (np.triu(np.ones((2, 8, 8))), {"distances": True}, "symmetric"),
    ],
)
def test_wrong_recordings(recorded, options, message):
    with pytest.raises(InputError, match=message):
        nr.watch.from_recordings(recorded, X, Y, **options)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (3.0, "two samples"),
        ([], "two samples"),
        (1e200 * X, "squares are taken"),
        (np.ones((7, 4)), "7 rows"),
    ],
)
def test_wrong_stimuli(x, message):
    with pytest.raises(InputError, match=message):
        nr.watch.from_recordings(np.ones((2, 8, 3)), x, Y)
