import numpy as np
import pytest

import neuralrace as nr


@pytest.mark.parametrize("hidden", [3, [3], [3, 4], []])
def test_inputs_are_white_and_targets_their_map(hidden):
    syx = np.random.default_rng(0).standard_normal((2, 3))
    task = nr.tasks.linear(syx, hidden)
    path = tuple(task.graph.edges)
    np.testing.assert_allclose(task.sxx(path, path), np.eye(3), atol=1e-15)
    np.testing.assert_allclose(task.syx(path), syx, atol=1e-15)
    assert len(path) == (2 if hidden == 3 else len(hidden) + 1)


def test_a_map_that_is_no_matrix_is_refused():
    with pytest.raises(nr.errors.InputError, match="syx must have shape"):
        nr.tasks.linear([1.0, 2.0])
