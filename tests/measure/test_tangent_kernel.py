import jax
import numpy as np
import pytest
from scipy.linalg import expm

import neuralrace as nr


def relu_task():
    rng = np.random.default_rng(0)
    graph = nr.Graph(
        {"x": 3, "h": 6, "y": 2}, [("x", "h"), ("h", "y")], activations={"h": "relu"}, biases=True
    )
    task = nr.Task(
        graph, rng.normal(size=(5, 3)), rng.normal(size=(5, 2)), sample_weight=rng.uniform(1, 2, 5)
    )
    return task, nr.init.gaussian(graph, 1.0, seed=1)


def test_kernel_of_samples_against_differences():
    task, w = relu_task()
    scale = np.sqrt(task.samples.share)[:, None]

    def outputs(flat):
        return (nr.predict(task, task.graph.unflatten(flat))["y"] * scale).ravel()

    flat = task.graph.flatten(w)
    steps = 1e-6 * np.eye(len(flat))
    slope = np.stack([(outputs(flat + e) - outputs(flat - e)) / 2e-6 for e in steps], axis=1)
    kernel = nr.tangent_kernel(task, w)
    assert np.abs(kernel - slope @ slope.T).max() < 1e-6
    r = (nr.predict(task, w)["y"] - task.arrays[1]) * scale
    descent = sum((g**2).sum() for g in nr.gradient(task, w).values())
    assert r.ravel() @ kernel @ r.ravel() == pytest.approx(descent, rel=1e-10)  # dL/dt


@pytest.mark.parametrize("samples", [True, False])
def test_kernel_of_linear_networks(samples):
    """Where the loss is least its Hessian is J^T J, which has the eigenvalues of the kernel J J^T."""
    rng = np.random.default_rng(0)
    graph = nr.Graph.routing(2, 3, (4, 4), 2)
    w = nr.init.gaussian(graph, 0.7, seed=3)
    if samples:
        x = {"x0": rng.normal(size=(9, 3)), "x1": rng.normal(size=(9, 3))}
        gates = {"x0": rng.integers(0, 2, 9), "x1": rng.integers(0, 2, 9)}
        blank = {o: np.zeros((9, 2)) for o in graph.outputs}
        targets = nr.predict(nr.Task(graph, x, blank, gates), w)
        task = nr.Task(graph, x, targets, gates)
    else:
        whole = [w[f"h2->y{j}"] @ w["h1->h2"] @ w["x0->h1"] for j in range(2)]
        moments = [{"sxx": {"x0": np.eye(3)}, "syx": {(f"y{j}", "x0"): whole[j]}} for j in range(2)]
        task = nr.Task.from_moments(graph, moments)
    assert nr.loss(task, w) < 1e-20
    with jax.enable_x64(True):
        flat = jax.numpy.asarray(graph.flatten(w))
        hessian = np.asarray(jax.jit(jax.hessian(lambda f: nr.loss(task, graph.unflatten(f))))(flat))
    expected = np.linalg.eigvalsh(hessian)[::-1]
    found = np.linalg.eigvalsh(nr.tangent_kernel(task, w))[::-1]
    n = min(len(expected), len(found))
    assert np.abs(found[:n] - expected[:n]).max() < 1e-9
    assert found[0] > 0.1
    many = nr.tangent_kernel(task, {e: np.stack([v, 2 * v]) for e, v in w.items()})
    assert np.abs(many[0] - nr.tangent_kernel(task, w)).max() < 1e-12


def test_linearised_loss_is_that_of_a_network_whose_slopes_do_not_change():
    """Against the exponential of the kernel made of slopes by hand; samples have weights."""
    rng, t = np.random.default_rng(3), np.linspace(0, 3, 7)
    graph, weight = nr.Graph.chain([2, 3, 1]), np.array([1.0, 2.0, 3.0, 4.0])
    x, y, w = rng.normal(size=(4, 2)), rng.normal(size=(4, 1)), nr.init.gaussian(graph, 1.0, seed=1)
    w1, w2 = w["x->h1"], w["h1->y"]
    root = np.sqrt(weight / weight.sum())
    slope = np.stack([np.concatenate([np.outer(w2[0], v).ravel(), w1 @ v]) for v in x]) * root[:, None]
    wrong = (x @ w1.T @ w2.T - y)[:, 0] * root
    expected = [0.5 * ((expm(-slope @ slope.T * s) @ wrong) ** 2).sum() for s in t]
    both = {e: np.stack([v, v]) for e, v in w.items()}
    found = nr.measure.linearised_loss(nr.Task(graph, x, y, sample_weight=weight), both, t)
    assert np.abs(found - expected).max() < 1e-10
