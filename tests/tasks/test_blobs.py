"""Images of blobs in two contexts."""

import numpy as np
import pytest

import neuralrace as nr


def test_blobs_are_images_of_a_position_with_a_context():
    x, y = nr.tasks.blobs(side=4, pixels=3).arrays
    assert x.shape == (32, 11)
    assert np.allclose(x[:, :9].sum(axis=1), 1)
    image = x[:16, :9].reshape(4, 4, 3, 3)  # blob at (x, y), pixels (row, column)
    assert image[0, 3].argmax() == 6  # left, and at the last row
    assert np.array_equal(y[:16].reshape(4, 4)[:, 0], np.linspace(-1, 1, 4))  # the x position
    assert np.array_equal(y[16:].reshape(4, 4)[0], np.linspace(-1, 1, 4))
    assert np.array_equal(x[::16, 9:], np.eye(2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"side": 1}, "side must be at least 2"),
        ({"pixels": 1}, "pixels must be at least 2"),
        ({"width": 0}, "width must be at least 0.001"),
        ({"side": 10**6}, "side = 1000000 is too large"),
    ],
)
def test_wrong_blobs(change, message):
    with pytest.raises(ValueError, match=message):
        nr.tasks.blobs(**change)
