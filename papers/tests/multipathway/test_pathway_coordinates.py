"""Powers of sigma in multipathway Eq. 8-11, 17 and 19, and the instability of diagonal solutions."""

import numpy as np
import pytest

from neuralrace_papers.framework.store import dataset
from neuralrace_papers.multipathway import pathway_coordinates as coordinates


@pytest.fixture(scope="module")
def found():
    p = coordinates.PathwayCoordinates(width=100, std=0.05, depths=(3,))
    return {kind: dataset(kind, coordinates.orthogonal(p, (3, kind))) for kind in p.sizes}


def test_printed_relations_hold_at_sigma_one_only(found):
    assert np.allclose(found["one"].factor, 1, atol=1e-9)
    assert np.allclose(found["published"].factor, 0.5 ** np.array([4, 6, 6, 4, -2]), rtol=1e-9)
    for run in found.values():
        assert run.error.max() < 1e-9


def test_the_curve_and_the_system_need_powers_of_sigma(found):
    assert np.allclose(found["one"].curve, 1, atol=1e-5)
    assert np.allclose(found["published"].curve, 0.5**6, rtol=1e-5)
    for kind, run in found.items():
        assert np.abs(run.stated - run.k).max() < 1e-4
        assert (np.abs(run.printed - run.k).max() > 0.5) == (kind == "published")


def test_deviations_of_random_layers():
    p = coordinates.PathwayCoordinates(draws=8)
    narrow, wide = (dataset("d", coordinates.deviations(p, n)).mean() for n in (64, 256))
    assert wide["square"] > 2.5  # Marchenko and Pastur: eigenvalues of R^T R up to 4
    assert wide["first"] < 0.6
    for name in ("hidden", "last"):
        assert np.isclose(wide[name] / narrow[name], 0.5, atol=0.1)
    assert np.isclose(wide["last-printed"], 1 / np.sqrt(15), rtol=0.1)
