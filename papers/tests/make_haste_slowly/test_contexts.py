import numpy as np

from neuralrace_papers.make_haste_slowly import contexts


def test_outputs_by_block_are_root_mean_squares_over_items_and_labels():
    outputs = np.zeros((24, 60))
    outputs[8:16, 15:30] = 2.0  # context 2, labels of context 1
    outputs[16:, :15] = 5.0  # labels of every context count nowhere
    found = contexts.by_block(outputs)
    assert np.allclose(found, [[0, 0, 0], [2, 0, 0], [0, 0, 0]])


def test_size_is_the_norm_over_samples_and_outputs():
    assert np.allclose(contexts.size(np.ones((3, 4, 9))), [6, 6, 6])
