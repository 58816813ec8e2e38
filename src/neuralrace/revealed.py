"""Random matrices of any size, drawn only in the directions that signals reach.

Signals reach few directions of a wide layer. A large random matrix W is therefore kept as its block
`Q_t^T W Q_s` between orthonormal directions known at its two ends, and nothing is ever stored in the size of
the layers. Directions are abstract: only their number is known. There are two ways to know more of W:

- `extend` adds directions that are independent of W, such as those added by another matrix of the same layer.
  They are uniform in the unknown directions, and so are their entries in the block.
- `reveal` draws the image of known directions. Its part outside the known directions of the other end becomes
  new directions there.

Both sample from the law of W given its known block. So the block always has the law of the same block of a
full matrix, and the choice of the next directions may depend on the block. All arrays have
a leading axis of independent draws.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

TARGET, SOURCE = 0, 1  # ends of a matrix: its rows, its columns

_ROUNDING = 1e-12  # squared lengths below this fraction of the whole count as zero


class Revealed(Protocol):
    """A random matrix known in some directions."""

    @property
    def block(self) -> np.ndarray:
        """Entries between the known directions, `(draws, target, source)`."""
        ...

    def extend(self, end: int, count: int) -> None:
        """Make directions known at one end that are independent of the matrix."""
        ...

    def leaks(self, end: int) -> np.ndarray:
        """Map from signals at one end to directions unknown at the other: `(draws, known, open)`.

        `leaks^T f` has the expected length of the part of the image of f outside the known directions.
        """
        ...

    def reveal(self, end: int, turn: np.ndarray, count: int) -> int:
        """Draw the images of some directions of one end; return the number of new directions at the other.

        `turn` `(draws, open, open)` is orthogonal; its first columns are the directions, in coordinates of
        `leaks`.
        """
        ...


class FixedMatrix:
    """A constant matrix between layers of which all directions are known.

    Parameters
    ----------
    weights : ndarray, shape (target, source)
    """

    def __init__(self, weights: np.ndarray):
        self.block: np.ndarray = weights[None]

    def extend(self, end: int, count: int) -> None:
        pass

    def leaks(self, end: int) -> np.ndarray:
        return np.zeros((1, self.block.shape[2 - end], 0))

    def reveal(self, end: int, turn: np.ndarray, count: int) -> int:
        return 0


class GaussianMatrix:
    """Independent normal entries.

    Images of revealed directions lie in the known directions of the other end. On the others, called open,
    the part of the matrix outside is independent of the known block.

    Parameters
    ----------
    rng : numpy.random.Generator
    draws : int
        Independent matrices.
    shape : (int, int)
        Rows and columns, of any size.
    std : float
        Standard deviation of the entries.
    """

    def __init__(self, rng: np.random.Generator, draws: int, shape: tuple[int, int], std: float):
        self.rng: np.random.Generator = rng
        self.shape: tuple[int, int] = shape
        self.std: float = std
        self.block: np.ndarray = np.zeros((draws, 0, 0))
        self._open = [np.zeros((draws, 0, 0)), np.zeros((draws, 0, 0))]  # (draws, known, open), orthonormal

    def extend(self, end: int, count: int) -> None:
        other = self._open[1 - end]
        new = self._normal(count, other.shape[2]) @ other.swapaxes(1, 2)
        self._append(end, new)

    def leaks(self, end: int) -> np.ndarray:
        unknown = self.shape[1 - end] - self.block.shape[2 - end]
        return self.std * np.sqrt(unknown) * self._open[end]

    def reveal(self, end: int, turn: np.ndarray, count: int) -> int:
        unknown = self.shape[1 - end] - self.block.shape[2 - end]
        turned = self._open[end] @ turn
        new = min(count, unknown)
        images = self.std * _triangle(self.rng, len(turn), unknown, count)
        images = np.concatenate([images, self._normal(new, turn.shape[2] - count)], axis=2)
        self._append(1 - end, images @ turned.swapaxes(1, 2))
        self._open[end] = turned[:, :, count:]
        return new

    def _normal(self, rows: int, columns: int) -> np.ndarray:
        return self.std * self.rng.standard_normal((len(self.block), rows, columns))

    def _append(self, end: int, new: np.ndarray) -> None:
        """Entries `(draws, new, known at the other end)` of new directions, which are open."""
        self.block = np.concatenate([self.block, new if end == TARGET else new.swapaxes(1, 2)], axis=1 + end)
        known, free = self._open[end].shape[1:]
        grown = np.zeros((len(new), known + new.shape[1], free + new.shape[1]))
        grown[:, :known, :free] = self._open[end]
        grown[:, known:, free:] = np.eye(new.shape[1])
        self._open[end] = grown


class OrthogonalMatrix:
    """All singular values equal, directions uniform.

    The matrix, or its transpose, is the first columns of a uniform orthogonal matrix O. The other columns of
    O are a space of their own, whose directions become known too. If F is the known block of O, the unknown
    part of its columns has the Gram matrix `1 - F^T F`, and is uniform apart from that.

    Parameters are those of `GaussianMatrix`, with `scale`, the singular value, in place of `std`.
    """

    def __init__(self, rng: np.random.Generator, draws: int, shape: tuple[int, int], scale: float):
        self.rng: np.random.Generator = rng
        self.shape: tuple[int, int] = shape
        self.scale: float = scale
        self._large = TARGET if shape[TARGET] >= shape[SOURCE] else SOURCE
        self._n = max(shape)
        self._block = np.zeros((draws, 0, 0))  # rows: the larger end; columns: the smaller
        self._beyond = np.zeros((draws, 0, 0))  # columns: directions of the space that the matrix lacks

    @property
    def block(self) -> np.ndarray:
        return self.scale * (self._block if self._large == TARGET else self._block.swapaxes(1, 2))

    def extend(self, end: int, count: int) -> None:
        root, unknown = self._outside(end=1 - end)
        new = root @ _corner(self.rng, len(root), unknown, root.shape[2], count)
        if end == self._large:
            self._append_rows(new.swapaxes(1, 2))
        else:
            self._block = np.concatenate([self._block, new], axis=2)

    def leaks(self, end: int) -> np.ndarray:
        root, unknown = self._outside(end)
        if end != self._large:
            return self.scale * root[:, : self._block.shape[2]]
        left = min(self.shape) - self._block.shape[2]
        return self.scale * np.sqrt(left / max(unknown, 1)) * root

    def reveal(self, end: int, turn: np.ndarray, count: int) -> int:
        root, unknown = self._outside(end)
        root = root @ turn
        if end != self._large:
            self._append_rows(root[:, :, :count].swapaxes(1, 2))
            return count
        # The images lie partly in the space of the matrix, partly beyond it.
        left = min(self.shape) - self._block.shape[2]
        inside = _triangle(self.rng, len(turn), left, count)
        beyond = _triangle(self.rng, len(turn), unknown - left, count)
        new = inside.shape[1]
        both = np.linalg.qr(np.concatenate([inside, beyond], axis=1), mode="complete")[0]
        among = both[:, :, count:]
        rest = _corner(self.rng, len(turn), unknown - count, root.shape[2] - count, among.shape[2])
        shares = np.concatenate([both[:, :, :count], among @ rest.swapaxes(1, 2)], axis=2)
        columns = root @ shares.swapaxes(1, 2)
        self._block = np.concatenate([self._block, columns[:, :, :new]], axis=2)
        self._beyond = np.concatenate([self._beyond, columns[:, :, new:]], axis=2)
        return new

    def _outside(self, end: int) -> tuple[np.ndarray, int]:
        """R with `R R^T = 1 - F^T F`, F with columns by one end; how much is unknown at the other."""
        known = np.concatenate([self._block, self._beyond], axis=2)
        known = known.swapaxes(1, 2) if end == self._large else known
        unknown = self._n - known.shape[1]
        values, vectors = np.linalg.eigh(np.eye(known.shape[2]) - known.swapaxes(1, 2) @ known)
        values = np.where(values > _ROUNDING, values, 0.0)
        rank = min(unknown, known.shape[2])
        first = known.shape[2] - rank
        return (np.sqrt(values)[:, None] * vectors)[:, :, first:], unknown

    def _append_rows(self, rows: np.ndarray) -> None:
        columns = self._block.shape[2]
        self._block = np.concatenate([self._block, rows[:, :, :columns]], axis=1)
        self._beyond = np.concatenate([self._beyond, rows[:, :, columns:]], axis=1)


def _triangle(rng: np.random.Generator, draws: int, n: int, columns: int) -> np.ndarray:
    """`Q^T G` `(draws, min(n, columns), columns)` of normal G `(n, columns)`, Q a basis of its columns."""
    rows = min(n, columns)
    r = rng.standard_normal((draws, rows, columns))
    if n >= columns:
        r = np.triu(r, 1)
        k = np.arange(columns)
        r[:, k, k] = np.sqrt(rng.chisquare(n - k, (draws, columns)))
    return r


def _corner(rng: np.random.Generator, draws: int, n: int, rows: int, columns: int) -> np.ndarray:
    """The first rows and columns of a uniform orthogonal matrix of size n."""
    if not rows or not columns:
        return np.zeros((draws, rows, columns))
    top = rng.standard_normal((draws, rows, columns))
    rest = _triangle(rng, draws, n - rows, columns)
    whole = np.linalg.cholesky(top.swapaxes(1, 2) @ top + rest.swapaxes(1, 2) @ rest)
    return np.linalg.solve(whole, top.swapaxes(1, 2)).swapaxes(1, 2)
