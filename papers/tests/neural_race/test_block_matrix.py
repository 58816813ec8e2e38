"""Matrices drawn in blocks."""

import numpy as np

from neuralrace import plot
from neuralrace_papers.neural_race.block_matrix import block_matrix


def test_block_matrix_numbers_and_frames_blocks():
    _, ax = plot.figure()
    framed = np.array([[True, False, False], [False, True, True]])
    block_matrix(ax, np.zeros((8, 6)), (4, 2), framed=framed)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "2", "3"]
    assert ax.get_yticks().tolist() == [1.5, 5.5]
    corners = {(round(p.get_x() + 0.35), round(p.get_y() + 0.35)) for p in ax.patches}
    assert corners == {(0, 0), (2, 4), (4, 4)}
