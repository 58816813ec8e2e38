"""The loss of a ReLU network predicted in two stages."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace_papers.make_haste_slowly.stages import two_stage_loss

X, Y = nr.tasks.contexts(3).arrays
CONTEXT = np.repeat([0, 1, 2], 8)


def test_two_stages_are_exact_while_the_network_is_linear():
    """Units that are all open from the start: the first stage is the network itself."""
    net = nr.relu.train(X, Y, [60], 1e-4, 1e-3, 600, 31, seed=0)
    predicted = two_stage_loss(net, CONTEXT)
    assert predicted.shape == net.loss.shape
    early = net.time("steps") <= 400
    assert np.abs(predicted - net.loss)[early].max() < 0.03 * net.loss[0]
    # The order of samples does not matter.
    order = np.random.default_rng(0).permutation(24)
    mixed = nr.relu.train(X[order], Y[order], [60], 1e-4, 1e-3, 600, 31, weights=net.at(0))
    assert np.allclose(two_stage_loss(mixed, CONTEXT[order]), predicted, rtol=1e-6)
    with pytest.raises(ValueError, match="std must be smaller"):
        two_stage_loss(nr.relu.train(X, Y, [60], 1.0, 1e-4, 100, 11, seed=0), CONTEXT)
