import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from neuralrace.dynamics import State
from neuralrace.errors import InputError
from neuralrace_papers.make_haste_slowly import depth

P = depth.Depth(seeds=2, hidden=14, gated_std=(0.3, 0.3, 0.3, 0.9), switches=(3, 6), epochs=10, save=11)


def first_modes(m, k):
    u, s, v = np.linalg.svd(m, full_matrices=False)
    return (u[..., :k] * s[..., None, :k]) @ v[..., :k, :]


def test_plateaus_are_the_first_modes_of_all_samples_and_of_each_context():
    y = depth.Y
    by_context = [first_modes(y.reshape(3, 8, 60), k).reshape(y.shape) for k in (1, 2, 4)]
    assert np.allclose(depth.PLATEAUS, [first_modes(y, 1), *by_context])
    assert np.allclose([depth.START, *depth.LEVELS], [96, 66, 51, 30, 12])
    assert np.allclose(depth.COMMON, [96, 51, 30, 12])


def test_gated_network_is_a_shared_layer_and_four_pathways():
    one, two, three = (np.asarray(w) for w in depth.gated_weights(P, 0))
    outputs = np.zeros((4, 24, 60))
    units = [range(8), range(8, 10), range(10, 12), range(12, 14)]
    for i in range(24):
        for k in range(4):
            if k == 0 or i // 8 != 3 - k:  # pathway 1 is closed in the last context
                outputs[k, i] = sum(three[:, u] * (two[u] @ (one @ depth.X[i])) for u in units[k])
    assert np.allclose(depth.pathway_outputs([one, two, three]), outputs, atol=1e-5)
    state = depth.gated_state([one, two, three])
    size = np.linalg.norm(depth.Y)
    assert np.allclose(state["size"], np.linalg.norm(outputs, axis=(1, 2)) / size, rtol=1e-4)
    distance = np.linalg.norm(outputs.sum(axis=0) - depth.PLATEAUS[2]) / size
    assert np.allclose(state["distance"][2], distance, rtol=1e-4)
    assert np.allclose(state["loss"], 0.5 * ((outputs.sum(axis=0) - depth.Y) ** 2).sum(), rtol=1e-4)


def test_common_pathway_learns_as_if_alone_and_the_others_on_the_rest():
    weights = depth.gated_weights(P, 1)
    slope = jax.grad(depth.objective)(weights, 1.0)
    outputs = np.asarray(depth.pathway_outputs(weights))
    common, rest = outputs[0] - depth.Y, outputs.sum(axis=0) - depth.Y
    hidden = np.asarray(weights[1]) @ (np.asarray(weights[0]) @ depth.X.T)
    open_ = np.repeat(depth.GATES[0] > 0, 1)
    assert np.allclose(slope[2][:, :8], (hidden[:8] @ common).T, rtol=1e-3, atol=1e-3)
    assert np.allclose(slope[2][:, 8:10], ((hidden[8:10] * open_) @ rest).T, rtol=1e-3, atol=1e-3)


def test_gated_networks_follow_the_schedule():
    weights = depth.gated_weights(P, 0)
    found = depth.by_schedule(P, weights)
    never = depth.by_schedule(dataclasses.replace(P, switches=(3, 100)), weights)
    loss = found["loss"]
    assert np.allclose(loss[:4], loss[0], rtol=1e-6)  # frozen for three steps
    assert abs(loss[4] / loss[0] - 1) > 1e-4
    assert np.allclose(loss[:7], never["loss"][:7], rtol=1e-6)  # the others are off until step 6
    assert abs(loss[7] / never["loss"][7] - 1) > 1e-4


def test_a_pathway_is_aligned_where_its_outputs_are_the_first_mode():
    flat = depth.PLATEAUS[0]
    one, two, three = (jnp.zeros_like(w) for w in depth.gated_weights(P, 0))
    one, two = one.at[0, 8:].set(1.0), two.at[0, 0].set(1.0)  # one unit that is 1 for every sample
    weights = [one, two, three.at[:, 0].set(2 * flat[0])]
    assert np.isclose(depth.gated_state(weights)["cosine"], 1, atol=1e-5)
    weights[2] = three.at[0, 0].set(1.0)
    assert depth.gated_state(weights)["cosine"] < 0.9


def test_gates_of_a_network_made_by_hand():
    w1 = np.zeros((3, 11))
    w1[0] = 1  # open for all samples
    w1[1, 8:] = [1, -1, -1]  # in the first context
    w1[2, :8] = [1] * 6 + [-1] * 2  # for six of eight items
    w2 = np.array([[1.0, 0, 0], [0, 1, 0], [1, -3, 0], [0, 0, 1]])
    w3 = np.zeros((60, 4))
    w3[0], w3[1, 3] = [1, 2, 3, 3], 4
    weights = {"x->h1": w1, "h1->h2": w2, "h2->y": w3}
    state = depth.relu_state(State(0.0, depth.relu_task(3, 4), lambda: weights))
    first = np.sqrt([11 * 2, 3 * 10, 8 * 1])
    second = np.sqrt([1, 1, 10, 1]) * [1, 2, 3, 5]
    assert np.isclose(state["open"], first @ [1, 1 / 3, 3 / 4] / first.sum())
    assert np.isclose(state["always"], first[0] / first.sum())
    shares = np.array([0, second[1], second[2], second[0] + second[3]])  # open in 0, 1, 2 and 3 contexts
    assert np.allclose(state["by_contexts"], shares / second.sum())
    # Made linear, the second unit is -1 in two contexts, where only the third unit of layer 2 is open.
    assert np.isclose(state["nonlinear"], np.sqrt(16 * 9**2) / np.linalg.norm(depth.Y))


def test_drops_and_typical_runs():
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
    assert depth.typical(networks).loss.equals(networks.loss[2])
    assert depth.at_plateau(networks, 0).loss.values.tolist() == [51, 96, 51]


def test_bad_parameters_are_refused():
    for changes in ({"seeds": 1}, {"hidden": 20}, {"save": 8}):
        with pytest.raises(InputError, match=next(iter(changes))):
            depth.Depth(**changes)
