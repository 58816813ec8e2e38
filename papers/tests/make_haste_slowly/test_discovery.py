import numpy as np
import pytest

import neuralrace as nr
from neuralrace_papers.make_haste_slowly import discovery


def trained(w1):
    """A ReLU network that hardly moves from these weights, as the only one of its runs."""
    x, y = nr.tasks.contexts(3).arrays
    start = {"x->h1": np.asarray(w1, float)[None], "h1->y": np.full((1, 60, len(w1)), 1e-3)}
    return nr.relu.train(x, y, [len(w1)], lr=1e-6, steps=3, save=2, weights=start)


@pytest.mark.parametrize("right", [True, False])
def test_plain_clusters_are_compared_with_the_patterns(right):
    signs = [[1, 1, 1], [1, 1, -1], [1, -1, 1], [-1, 1, 1]] if right else [*np.eye(3) - 0.5, [1, 1, 1]]
    net = trained(np.concatenate([np.zeros((4, 8)), np.array(signs)], axis=1))
    assert discovery.has_patterns(net, 0, 1, True) is right


def test_silent_units_spoil_plain_clusters():
    signs = np.array([[1, 1, 1], [1, 1, -1], [1, -1, 1], [-1, 1, 1], *[[-1, -1, -1]] * 9])
    net = trained(np.concatenate([np.zeros((13, 8)), signs], axis=1))
    assert discovery.has_patterns(net, 0, 10, False)
    assert not discovery.has_patterns(net, 0, 10, True)


def test_plain_centres_are_means_of_gates_with_the_most_open_first():
    signs = np.array([[1, 1, 1], [1, 1, -1], [-1, 1, 1], [-1, -1, 1]])
    net = trained(np.concatenate([np.zeros((4, 8)), signs], axis=1))
    found = discovery.plain_centres(net, 0, 4)
    assert np.array_equal(found, np.repeat(signs > 0, 8, axis=1))
    assert np.allclose(discovery.plain_centres(net, 0, 1), (signs > 0).mean(axis=0).repeat(8))
