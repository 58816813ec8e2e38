"""What the theory of two points says of the blobs (4.5, C.2)."""

import numpy as np

import neuralrace as nr


def test_equal_outputs_are_predicted_to_end_together():
    """By Eq. 10 from small weights, along the position that does not matter and across contexts."""
    side = 6
    x, y = nr.tasks.blobs(side).arrays
    square = nr.universality.structure(x, y).reshape(2, side, side, 2, side, side)
    place = np.arange(side)
    assert (np.diff(y.reshape(2, side, side)[0], axis=1) == 0).all()  # the second position does not matter
    assert np.abs(square[0, 2, :, 0, 2, :]).max() == 0  # so that it collapses
    apart = square[0, :, 2, 0, :, 2][place[:, None] != place]
    assert apart.min() > 0  # and the first does not
    assert np.abs(square[0, place, 1, 1, 4, place]).max() == 0  # and each has a partner in the other context
    inputs = nr.measure.squared_distances(x).reshape(square.shape)
    assert inputs[0, place, 1, 1, 4, place].min() > inputs[0, 2, :, 0, 2, :].max()  # whose input is far away
