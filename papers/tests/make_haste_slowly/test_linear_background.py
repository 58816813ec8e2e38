import numpy as np

from neuralrace_papers.make_haste_slowly import linear_background as linear


def test_decomposition_is_orthonormal_and_that_of_the_data():
    assert np.allclose(linear.U.T @ linear.U, np.eye(4))
    assert np.allclose(linear.V.T @ linear.V, np.eye(4))
    assert np.allclose(linear.U * linear.S @ linear.V.T, linear.SYX)
    assert np.allclose(4 * linear.S, [7**0.5, 3**0.5, 1, 1])
    swims = [linear.PROPERTIES.index(name) for name in ("move", "swim")]
    assert linear.Y[linear.ITEMS.index("salmon")][swims].all()
