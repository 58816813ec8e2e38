import numpy as np
import pytest

from neuralrace_papers.neural_race import xor


def test_the_gated_network_has_the_closed_form_and_relu_networks_follow_it():
    p = xor.Xor(seeds=2, lr=0.01)
    gated = xor.gated(p)
    assert np.abs(gated["loss"][1] - gated["theory"][1]).max() < 1e-7
    relu = xor.relu(p)
    assert np.abs(relu["theory_half"][1][0] / relu["half"][1] - 1).max() < 0.01


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="t1 must be long enough"):
        xor.Xor(t1=10.0)
