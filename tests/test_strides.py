"""Descent in strides against descent, whose losses it must meet within the error that it states."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import neuralrace as nr
from neuralrace import strides
from neuralrace.errors import InputError


def chain(sizes, activation=None, **keywords):
    hidden = [f"h{k}" for k in range(1, len(sizes) - 1)] if activation else []
    return nr.Graph.chain(sizes, activations=dict.fromkeys(hidden, activation), **keywords)


def linear():
    """Modes of different sizes, learned one after the other from small weights."""
    task = nr.Task(chain([4, 8, 5]), np.eye(4) * 2, 2 * np.eye(4, 5) * [[3], [1.5], [1], [0.7]])
    return task, [1e-3, 1e-2, 0.1, 0.3], 0.02, 3000, {}


def deep():
    task = nr.Task(chain([4, 6, 6, 4]), np.eye(4) * 2, np.diag([4.0, 2, 1, 0.5]))
    return task, [0.1, 0.2, 0.3, 0.4], 0.01, 3000, {}


def rectified():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(12, 4)), rng.normal(size=(12, 3))
    return nr.Task(chain([4, 30, 3], "relu"), x, y), [1e-3, 0.01, 0.1, 0.3], 0.02, 1500, {}


def classes():
    rng = np.random.default_rng(3)
    task = nr.Task(
        chain([5, 20, 3], "tanh", biases=True), rng.normal(size=(20, 5)), np.eye(3)[np.arange(20) % 3]
    )
    return task, [0.01, 0.1, 0.3, 0.5], 0.05, 1500, {"loss": "cross_entropy"}


def starts(graph, scales):
    """One run for every scale."""
    w = nr.init.gaussian(graph, 1.0, range(len(scales)))
    return {e: v * np.reshape(scales, (-1,) + (1,) * (v.ndim - 1)) for e, v in w.items()}


@pytest.mark.parametrize("make", [linear, deep, rectified, classes])
def test_losses_at_all_steps_are_within_the_stated_error_which_falls(make):
    task, scales, lr, steps, keywords = make()
    w = starts(task.graph, scales)
    plain = nr.descend(task, w, lr, steps, 11, **keywords).step_loss
    found = {}
    for allowed in (0.1, 0.01, 1e-4, 1e-300):
        traj = nr.descend(task, w, lr, steps, 11, stride_error=allowed, **keywords)
        assert traj.settings["stride_error"] == allowed
        true = np.abs(traj.step_loss - plain).max(axis=1) / plain[:, 0]
        stated, gradients = (np.array(traj.settings[n]) for n in ("stride_error_estimate", "gradients"))
        assert (true <= stated + 1e-12).all(), (allowed, true, stated)
        assert all(("above" in o) == (e > allowed) for o, e in zip(traj.outcomes, stated, strict=True))
        found[allowed] = true, stated, gradients
    true, stated, gradients = (
        dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)
    )
    assert gradients[0.1].sum() < 4 * steps / 2
    assert true[0.1].max() > 1e-3  # else there was nothing to state
    assert true[0.01].max() < true[0.1].max() / 2
    assert true[1e-4].max() < true[0.1].max() / 20
    assert stated[1e-4].max() < stated[0.1].max() / 5
    # Strides of one step are descent itself.
    assert (gradients[1e-300] > 0.99 * steps).all()
    assert (true[1e-300] < 1e-12).all()


def test_it_is_descent_with_its_learning_rate_and_not_the_flow():
    # A single layer: each mode decays by a factor of 1 - lr at every step, in the flow by exp(-lr).
    size, lr, steps = np.array([1.0, 0.3, 0.1]), 0.1, 200
    task = nr.Task(chain([3, 3]), np.sqrt(3) * np.diag(np.sqrt(size)), np.sqrt(3) * np.eye(3))
    w = {"x->y": np.zeros((3, 3))}
    n = np.arange(steps + 1)[:, None]
    residual = {"descent": (1 - lr * size) ** n, "flow": np.exp(-lr * size * n)}
    exact = {name: (r**2).sum(axis=1) / 2 for name, r in residual.items()}
    traj = nr.descend(task, w, lr, steps, [0.0, 0.7, 3.3, 20.0], stride_error=1e-3)
    error = {name: np.abs(traj.step_loss - v).max() / v[0] for name, v in exact.items()}
    assert error["descent"] < traj.settings["stride_error_estimate"] < 2e-3
    assert error["flow"] > 10 * traj.settings["stride_error_estimate"]
    assert traj.settings["gradients"] < 0.6 * steps
    at = np.array([0, 7, 33, 200])  # saved steps are nodes, whatever their distance
    learned = (1 - residual["descent"][at]) / np.sqrt(size)
    assert np.allclose(np.diagonal(traj.weights["x->y"], axis1=1, axis2=2), learned, atol=2e-3)
    assert np.allclose(traj.loss, nr.loss(task, traj.weights), rtol=1e-12)
    assert np.array_equal(traj.loss, traj.step_loss[at])


def test_relu_network_on_contexts_from_several_seeds():
    x, y = nr.tasks.contexts(3, ["hierarchy", "ring", "cross"]).arrays
    train = lambda seed, **k: nr.relu.train(x, y, [60], 1e-3, 1e-3, 800, 9, seed, **k)  # noqa: E731
    plain, net = train([0, 1]), train([0, 1], stride_error=0.03)
    stated = np.array(net.trajectory.settings["stride_error_estimate"])
    true = np.abs(net.step_loss - plain.step_loss).max(axis=1) / plain.step_loss[:, 0]
    assert ((true > 1e-5) & (true <= stated) & (stated < 0.03)).all()
    assert max(net.trajectory.settings["gradients"]) < 800 / 4
    outputs = np.stack(
        [[net.run(k).predict(i) - plain.run(k).predict(i) for i in range(9)] for k in range(2)]
    )
    assert np.linalg.norm(outputs, axis=(2, 3)).max() < 0.03 * np.linalg.norm(y)
    # Every seed has its own strides.
    alone = train(1, stride_error=0.03)
    assert np.allclose(alone.step_loss, net.step_loss[1], rtol=1e-9)
    assert alone.trajectory.settings["gradients"] == net.trajectory.settings["gradients"][1]
    single = train([0, 1], stride_error=0.03, save_weights=False, dtype=np.float32)
    assert (np.abs(single.step_loss - plain.step_loss).max(axis=1) < stated * plain.step_loss[:, 0]).all()
    assert all((single.gates(i)[0] == net.gates(i)[0]).mean() > 0.98 for i in range(9))


def test_frozen_edges_stay_and_divergence_is_told():
    task, _, lr, *_ = linear()
    w = nr.init.gaussian(task.graph, 0.3, seed=1)
    run = lambda lr, **k: nr.descend(task, w, lr, 300, 7, frozen=["h1->y"], **k)  # noqa: E731
    traj, plain = run(lr, stride_error=0.01), run(lr)
    assert np.array_equal(traj.weights["h1->y"][-1], w["h1->y"])
    assert (
        np.abs(traj.step_loss - plain.step_loss).max()
        < traj.settings["stride_error_estimate"] * plain.loss[0]
    )
    assert traj.settings["gradients"] < 200
    wild = run(50.0, stride_error=0.01)
    assert wild.outcome.startswith(f"diverged at step {len(wild.step_loss)}:")
    assert np.isfinite(wild.step_loss).all()
    assert np.isfinite(wild.weights["x->h1"]).all()


def test_runs_side_by_side_are_those_one_after_the_other():
    # As on a GPU: `descend` maps over runs on a CPU.
    curves = jnp.array([1.0, 0.2, 0.05])

    def one(start):
        loss = lambda s: 0.5 * (curves * s**2).sum() + (s**4).sum() / 8  # noqa: E731
        return strides.follow(loss, None, lambda s: s, 100, start, jnp.array([0, 30, 100]), 0.1, 0.01)

    many = jnp.asarray(np.random.default_rng(0).normal(size=(3, 3)) * [[0.1], [1], [3]])
    compiled = jax.jit(one)
    together, alone = jax.jit(jax.vmap(one))(many), [compiled(start) for start in many]
    for k, run in enumerate(alone):
        for a, b in zip(together, run, strict=True):
            assert np.allclose(a[k], b, rtol=1e-4)
    assert len(set(np.asarray(together[3]).tolist())) > 1  # they take different strides


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"stride_error": 0.0}, "stride_error must be greater than 0"),
        ({"stride_error": "small"}, "stride_error must be a number"),
        ({"batch_size": 2}, "batch_size must be None, got 2"),
        ({"momentum": 0.9}, "momentum must be 0, got 0.9"),
        ({"optimizer": "adam"}, "optimizer must be 'sgd', got 'adam'"),
        ({"optimizer": optax.sgd(0.1)}, "optimizer must be 'sgd'"),
        ({"stop_loss": 0.1}, "stop_loss must be None, got 0.1"),
    ],
)
def test_what_cannot_be_strided_is_refused(keywords, message):
    task = nr.tasks.xor()
    with pytest.raises(InputError, match=message):
        nr.descend(task, nr.init.gaussian(task.graph, 0.1), 0.1, 10, **{"stride_error": 0.1, **keywords})
