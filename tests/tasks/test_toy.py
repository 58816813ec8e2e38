import numpy as np
import pytest

import neuralrace as nr


def test_contextual_classification_of_infinitely_many_samples():
    """Losses are those of very many samples, with the gates of two pathways and without gates."""
    plain = nr.Graph.chain([2, 3, 1])
    for graph in (None, plain):
        drawn, moments = (nr.tasks.contextual_classification(n, 0, 3, graph) for n in (200_000, None))
        w = nr.init.gaussian(moments.graph, 0.7, seed=range(3))
        np.testing.assert_allclose(nr.loss(moments, w), nr.loss(drawn, w), rtol=0.01)


def test_two_points_lie_at_the_distances_asked_for():
    task = nr.tasks.two_points(dx2=2.0, dy2=0.5, hidden=(5,))
    x, y = task.arrays
    assert nr.measure.squared_distances(x)[0, 1] == pytest.approx(2)
    assert nr.measure.squared_distances(y)[0, 1] == pytest.approx(0.5)
    run = nr.descend(task, nr.init.xavier(task.graph, seed=0), lr=0.1, steps=500)
    assert run.loss[-1] < 1e-3 * run.loss[0]
    for wrong in ({"dx2": -1}, {"dy2": None}, {"hidden": 3}, {"hidden": (0,)}):
        with pytest.raises(nr.errors.InputError, match=next(iter(wrong))):
            nr.tasks.two_points(**wrong)
