"""Where sentences of neural_race hold: counterexamples outside of the limit that the ledger names."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace_papers.neural_race import domains_data
from neuralrace_papers.neural_race.domains_data import ITEMS, SILENT_LOSS, TARGETS


def test_one_partner_for_each_domain_is_not_enough():
    """4.1, "trained ... in conjunction with any output domain": domains that share no hidden direction learn
    the trained routes to the end, and untrained ones get no answer."""
    pairs = np.eye(3, dtype=bool)
    trained, untrained = (domains_data.task(3, chosen, 3 * ITEMS) for chosen in (pairs, ~pairs))
    into, out = np.eye(3 * ITEMS).reshape(3, ITEMS, -1), TARGETS.T
    w = {"h1->h2": np.eye(3 * ITEMS)}
    for k in range(3):
        w[f"x{k}->h1"], w[f"h2->y{k}"] = into[k].T, out @ into[k]
    assert nr.loss(trained, w) == pytest.approx(0, abs=1e-12)
    assert nr.loss(untrained, w) == pytest.approx(SILENT_LOSS)
    assert max(np.abs(slope).max() for slope in nr.gradient(trained, w).values()) < 1e-12


@pytest.mark.parametrize("domains", [2, 7])
def test_changes_of_layers_differ_by_more_than_root_m_from_large_starts(domains):
    """4, after Eq. 15: with M B1^2 - B2^2 conserved, the ratio of the changes is sqrt(M) only for starts that
    are small against the mode."""
    ratios = []
    for b0 in (0.2, 0.02, 0.002):
        b1, b2 = nr.exact.routing(1e9, 10.0, 1.0, domains, b0)
        assert domains * b1**2 - b2**2 == pytest.approx((domains - 1) * b0**2, rel=1e-6)
        ratios.append((b2 - b0) / (b1 - b0))
    off = np.array(ratios) - domains**0.5
    assert np.all(off > 0)
    assert np.all(np.diff(off) < 0)
    assert off[-1] < 0.01
