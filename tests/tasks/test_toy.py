import numpy as np

import neuralrace as nr


def test_contextual_classification_of_infinitely_many_samples():
    """Losses are those of very many samples, with the gates of two pathways and without gates."""
    plain = nr.Graph.chain([2, 3, 1])
    for graph in (None, plain):
        drawn, moments = (nr.tasks.contextual_classification(n, 0, 3, graph) for n in (200_000, None))
        w = nr.init.gaussian(moments.graph, 0.7, seed=range(3))
        np.testing.assert_allclose(nr.loss(moments, w), nr.loss(drawn, w), rtol=0.01)
