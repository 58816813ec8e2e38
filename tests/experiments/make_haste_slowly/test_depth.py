import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import InputError
from neuralrace.experiments import depth


def test_plateaus_are_means_over_branches_of_the_tree():
    _, y = depth.data()
    found = depth.plateaus()
    assert np.allclose(found[0], y.mean(axis=0))
    for plateau, items in zip(found[1:], (8, 4, 2), strict=True):
        groups = y.reshape(-1, items, 60).mean(axis=1, keepdims=True)
        assert np.allclose(plateau, np.broadcast_to(groups, (24 // items, items, 60)).reshape(y.shape))
    assert np.allclose(depth.levels(), [96, 66, 51, 30, 12])
    assert np.allclose(depth.falls(), [(96, 51), (51, 30), (30, 12)])


def test_gated_network_is_a_shared_layer_and_four_pathways():
    task = depth.gated(20)
    w = nr.init.gaussian(task.graph, 0.3, seed=1)
    x, y = depth.data()
    said = np.zeros((4, 24, 60))
    for i in range(24):
        context = i // 8
        for k in range(4):
            if k == 0 or k != context + 1:
                said[k, i] = w[f"p{k}->y"] @ (w[f"h1->p{k}"] @ (w["x->h1"] @ x[i]))
    assert np.allclose(nr.predict(task, w)["y"], said.sum(axis=0))
    state = depth.gated_state(nr.State(0.0, task, lambda: w))
    size = np.linalg.norm(y)
    assert np.allclose(state["size"], np.linalg.norm(said, axis=(1, 2)) / size, rtol=1e-5)
    assert np.allclose(
        state["far"][2], np.linalg.norm(said.sum(axis=0) - depth.plateaus()[2]) / size, rtol=1e-5
    )


def test_a_pathway_is_aligned_where_its_map_is_the_first_mode():
    task = depth.gated(8)
    x, y = depth.data()
    w = {n: np.zeros(s) for n, s in task.graph.shapes.items()}
    u, _, v = np.linalg.svd(y.T @ x)
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
    graph = nr.Graph.chain([11, 3, 4, 60], activations={"h1": "relu", "h2": "relu"})
    weights = {"x->h1": w1, "h1->h2": w2, "h2->y": w3}
    state = depth.relu_state(nr.State(0.0, nr.Task(graph, *depth.data()), lambda: weights))
    first = np.sqrt([11 * 2, 3 * 10, 8 * 1])
    second = np.sqrt([1, 1, 10, 1]) * [1, 2, 3, 5]
    assert np.isclose(state["open"], first @ [1, 1 / 3, 3 / 4] / first.sum())
    assert np.isclose(state["always"], first[0] / first.sum())
    shares = np.zeros(8)  # patterns by bits of contexts: 1 is the first alone, 6 the others, 7 all
    shares[[1, 6]] = second[[1, 2]]
    shares[7] = second[0] + second[3]
    assert np.allclose(state["majority"], shares / second.sum())
    assert np.allclose(
        depth.counted(np.asarray(state["majority"])), shares @ np.eye(4)[depth.N_OPEN] / second.sum()
    )
    shares[7] = second[0]
    assert np.allclose(state["pure"], shares / second.sum())
    # Made linear, the second unit says -1 in two contexts, where only the third unit of layer 2 is open.
    assert np.isclose(state["nonlinear"], np.sqrt(16 * 9**2) / np.linalg.norm(depth.data()[1]))


def test_what_is_read_off_losses():
    epoch = np.arange(0, 1000, 10.0)
    loss = np.interp(epoch, [0, 100, 200, 500, 600], [96, 96, 51, 51, 30])
    found = {"epoch": epoch, "loss": np.stack([loss, 96 - 0 * loss, np.maximum(loss, 51)])}
    drops = depth.drops(found)
    assert np.allclose(drops[0], [125, 525, np.nan], equal_nan=True)
    assert np.isnan(drops[1]).all()
    assert np.allclose(depth.dwell(found)[0], [0, 310, 400, 0], atol=10)
    assert depth.stereotype(found["loss"]) == 2
    rising = {"epoch": epoch, "size": np.stack([epoch / 1000, 0 * epoch], axis=-1)[None]}
    assert np.allclose(depth.first_above(rising, "size", 0.1), [[100, np.nan]], equal_nan=True)
    far = np.abs(epoch - 300)[None, :, None]
    assert depth.nearest({"far": far, "loss": loss[None]}, "loss", 0)[0] == 51


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return nr.experiments.run("depth", quick=True, out=tmp_path_factory.mktemp("out"), changes={"seeds": 2})


@pytest.mark.whole
def test_experiment(report):
    found = {c.id: c for c in report.claims}
    assert found["plateaus-gated"].name == "typical gated linear network, epochs at losses 51, 30 and 12"
    for key in (
        "first-plateau-relu",
        "plateaus-gated",
        "plateau-outputs",
        "first-layer-open-plateau",
        "second-drop-relu",
        "second-drop-gated",
    ):
        assert found[key].holds, found[key]
    for key in ("first-plateau-gated", "first-layer-open-end", "contextual-appear"):
        assert found[key].verdict == "fails", found[key]
        assert found[key].note
    assert found["first-drop-spread"].verdict == "undecided"


def test_bad_parameters_are_refused():
    for changes in ({"seeds": 1}, {"hidden": 3}, {"dtype": "float16"}):
        with pytest.raises(InputError, match=next(iter(changes))):
            depth.Depth(**changes)
