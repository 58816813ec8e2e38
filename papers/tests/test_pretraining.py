import numpy as np
import pytest

import neuralrace as nr
from neuralrace_papers.pretraining import pretrain


def test_layers_carry_the_data_and_nothing_else():
    x = np.sqrt(2) * np.eye(2)
    found = pretrain(x, [6, 6], std=0.05 / np.sqrt(6), lr=0.05, seed=1)
    first, second = found.layers
    assert first.shape == (6, 2)
    assert second.shape == (6, 6)
    through = second @ first
    np.testing.assert_allclose(through.T @ through, np.eye(2), atol=0.06)
    assert (first**2).sum() == pytest.approx(2, abs=0.1)
    assert (second**2).sum() == pytest.approx(2, abs=0.15)  # of six directions, only the two that carry data
    one = nr.exact.chain_time(1e-4, 1.0, 0.05**2) / 0.05
    assert found.steps == pytest.approx(2 * one, rel=0.4)


def test_wrong_arguments_are_refused():
    for changes, message in (
        ({"x": [1.0]}, "x must have shape"),
        ({"widths": [0]}, "widths must be at least 1"),
        ({"share": 1.0}, "share must be less than 1"),
        ({"seed": -1}, "seed must be at least 0"),
    ):
        arguments = {"x": np.eye(2), "widths": [2], "std": 0.1, "lr": 0.1, **changes}
        with pytest.raises(nr.errors.InputError, match=message):
            pretrain(**arguments)
