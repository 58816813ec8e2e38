import numpy as np

import neuralrace as nr


def test_hessian_is_the_slope_of_the_gradient():
    rng = np.random.default_rng(0)
    graph = nr.Graph.chain([2, 3, 2])
    task = nr.Task(graph, rng.normal(size=(5, 2)), rng.normal(size=(5, 2)))
    flat = graph.flatten(nr.init.gaussian(graph, 1.0, seed=1))
    slope = lambda w: graph.flatten(nr.gradient(task, graph.unflatten(w)))  # noqa: E731
    steps = 1e-6 * np.eye(len(flat))
    differences = [(slope(flat + e) - slope(flat - e)) / 2e-6 for e in steps]
    hessian = nr.landscape.hessian(task, graph.unflatten(np.stack([flat, 2 * flat])))
    np.testing.assert_allclose(hessian[0], differences, atol=1e-7)
    np.testing.assert_allclose(nr.landscape.hessian(task, graph.unflatten(2 * flat)), hessian[1])
