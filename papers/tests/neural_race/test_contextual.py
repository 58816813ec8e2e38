"""The moments that the paper prints for its contextual classification."""

from itertools import product

import numpy as np

import neuralrace as nr


def test_printed_moments_are_those_of_the_uniform_square():
    """Four points at ±1/√3 have the second moments of the square exactly (Gauss' rule), in either context."""
    corners = np.array(list(product((-1, 1), repeat=2))) / np.sqrt(3)
    x, y = np.tile(corners, (2, 1)), corners.T.ravel()
    gates = np.repeat(np.eye(2), 4, axis=1)
    sixth = np.eye(2) / 6
    np.testing.assert_allclose(y @ x / 8, [1 / 6, 1 / 6], atol=1e-15)
    np.testing.assert_allclose(x.T @ x / 8, np.eye(2) / 3, atol=1e-15)
    np.testing.assert_allclose((gates * y) @ x / 8, sixth, atol=1e-15)
    seen = np.einsum("an,bn,ni,nj->abij", gates, gates, x, x) / 8
    np.testing.assert_allclose(seen, np.einsum("ab,ij->abij", np.eye(2), sixth), atol=1e-15)
    plain = nr.tasks.contextual_classification(None, graph=nr.Graph.pathways(2, 1, [[1]]))
    gated = nr.tasks.contextual_classification(None, hidden=1)
    (path,), paths = plain.graph.paths(), gated.graph.paths()
    np.testing.assert_allclose(plain.syx(path)[0], y @ x / 8, atol=1e-15)
    np.testing.assert_allclose(plain.sxx(path, path), x.T @ x / 8, atol=1e-15)
    np.testing.assert_allclose([gated.syx(a)[0] for a in paths], (gates * y) @ x / 8, atol=1e-15)
    np.testing.assert_allclose([[gated.sxx(a, b) for b in paths] for a in paths], seen, atol=1e-15)
