import numpy as np
import pytest
import xarray as xr

import neuralrace as nr
import neuralrace_papers
from neuralrace.errors import InputError
from neuralrace_papers.make_haste_slowly import depth


def first_modes(m, k):
    u, s, v = np.linalg.svd(m, full_matrices=False)
    return (u[..., :k] * s[..., None, :k]) @ v[..., :k, :]


def test_plateaus_are_the_first_modes_of_all_samples_and_of_each_context():
    y = depth.Y
    by_context = [first_modes(y.reshape(3, 8, 60), k).reshape(y.shape) for k in (1, 2, 4)]
    assert np.allclose(depth.PLATEAUS, [first_modes(y, 1), *by_context])
    assert np.allclose([depth.START, *depth.LEVELS], [96, 66, 51, 30, 12])
    assert depth.DROPS == ["drop 96 to 51", "drop 51 to 30", "drop 30 to 12"]


def test_gated_network_is_a_shared_layer_and_four_pathways():
    task = depth.gated_task(20)
    w = nr.init.gaussian(task.graph, 0.3, seed=1)
    outputs = np.zeros((4, 24, 60))
    for i in range(24):
        for k in range(4):
            if k == 0 or k != i // 8 + 1:
                outputs[k, i] = w[f"p{k}->y"] @ (w[f"h1->p{k}"] @ (w["x->h1"] @ depth.X[i]))
    assert np.allclose(nr.predict(task, w)["y"], outputs.sum(axis=0))
    state = depth.gated_state(nr.State(0.0, task, lambda: w))
    size = np.linalg.norm(depth.Y)
    assert np.allclose(state["size"], np.linalg.norm(outputs, axis=(1, 2)) / size, rtol=1e-5)
    distance = np.linalg.norm(outputs.sum(axis=0) - depth.PLATEAUS[2]) / size
    assert np.allclose(state["distance"][2], distance, rtol=1e-5)


def test_a_pathway_is_aligned_where_its_map_is_the_first_mode():
    task = depth.gated_task(8)
    w = {n: np.zeros(s) for n, s in task.graph.shapes.items()}
    u, _, v = np.linalg.svd(depth.Y.T @ depth.X)
    w["x->h1"][0], w["h1->p0"][0, 0], w["p0->y"][:, 0] = v[0], 1, -2 * u[:, 0]
    w["h1->p1"][0, 0], w["p1->y"][:, 0] = 1, u[:, 1]  # a later mode, and of other data
    cosine = np.asarray(depth.gated_state(nr.State(0.0, task, lambda: w))["cosine"])
    assert np.isclose(cosine[0], 1, atol=1e-5)
    assert cosine[1] < 0.9


def test_gates_of_a_network_made_by_hand():
    w1 = np.zeros((3, 11))
    w1[0] = 1  # open for all samples
    w1[1, 8:] = [1, -1, -1]  # in the first context
    w1[2, :8] = [1] * 6 + [-1] * 2  # for six of eight items
    w2 = np.array([[1.0, 0, 0], [0, 1, 0], [1, -3, 0], [0, 0, 1]])
    w3 = np.zeros((60, 4))
    w3[0], w3[1, 3] = [1, 2, 3, 3], 4
    weights = {"x->h1": w1, "h1->h2": w2, "h2->y": w3}
    state = depth.relu_state(nr.State(0.0, depth.relu_task(3, 4), lambda: weights))
    first = np.sqrt([11 * 2, 3 * 10, 8 * 1])
    second = np.sqrt([1, 1, 10, 1]) * [1, 2, 3, 5]
    assert np.isclose(state["open"], first @ [1, 1 / 3, 3 / 4] / first.sum())
    assert np.isclose(state["always"], first[0] / first.sum())
    shares = np.array([0, second[1], second[2], second[0] + second[3]])  # open in 0, 1, 2 and 3 contexts
    assert np.allclose(state["by_contexts"], shares / second.sum())
    assert np.isclose(state["pure"], second[:3].sum() / second.sum())
    # Made linear, the second unit is -1 in two contexts, where only the third unit of layer 2 is open.
    assert np.isclose(state["nonlinear"], np.sqrt(16 * 9**2) / np.linalg.norm(depth.Y))


def test_drops_plateaus_and_typical_runs():
    epoch = np.arange(0, 1000, 10.0)
    loss = np.interp(epoch, [0, 100, 200, 500, 600], [96, 96, 51, 51, 30])
    distance = np.abs(epoch - 300)[None, :, None] + np.zeros((3, 1, 1))
    networks = xr.Dataset(
        {
            "loss": (("run", "epoch"), [loss, 96 - 0 * loss, np.maximum(loss, 51)]),
            "distance": (("run", "epoch", "plateau"), distance),
        },
        {"epoch": epoch},
    )
    drops = depth.drops(networks)
    assert np.allclose(drops[0], [125, 525, np.nan], equal_nan=True)
    assert np.isnan(drops[1]).all()
    assert np.allclose(depth.drops(networks.isel(run=0)), drops[0], equal_nan=True)
    assert np.allclose(depth.dwell(networks.isel(run=0)), [0, 310, 400, 0], atol=10)
    assert depth.typical(networks).loss.equals(networks.loss[2])
    assert depth.at_plateau(networks, 0).loss.values.tolist() == [51, 96, 51]


@pytest.mark.whole
def test_experiment(tmp_path):
    report = neuralrace_papers.run("depth", quick=True, out=tmp_path, changes={"seeds": 2})
    claims = {c.id: c for c in report.claims}
    for id in (
        "first-plateau-relu",
        "plateaus-gated",
        "plateau-outputs",
        "first-layer-open-plateau",
        "second-drop-relu",
        "second-drop-gated",
    ):
        assert claims[id].holds, claims[id]
    for id in ("first-plateau-gated", "first-layer-open-end", "contextual-appear"):
        assert claims[id].verdict == "fails", claims[id]
        assert claims[id].note
    assert claims["first-drop-spread"].verdict == "undecided"
    assert claims["table-1-section-6"].measured > 0.99
    assert all(c.bound for c in report.claims if c.kind == "paper")


def test_bad_parameters_are_refused():
    for changes in ({"seeds": 1}, {"hidden": 3}, {"dtype": "float16"}):
        with pytest.raises(InputError, match=next(iter(changes))):
            depth.Depth(**changes)
