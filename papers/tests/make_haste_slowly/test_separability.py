import numpy as np

import neuralrace as nr
from neuralrace_papers.make_haste_slowly import separability as sep


def test_equal_times_cross_where_growth_rates_do_if_both_have_as_many_units():
    assert np.allclose([sep.equal_times(10.0**-k, 2) for k in (2, 3, 8, 30)], np.sqrt(2 / 3), atol=1e-9)


def test_equal_times_of_equal_strengths_are_later_and_tend_to_the_crossing():
    margins = [sep.equal_times(10.0**-k, 1) for k in (3, 8, 30, 300)]
    assert np.allclose(margins[:2], [0.934, 0.858], atol=1e-3)
    assert (np.diff(margins) < 0).all()
    assert 0 < margins[-1] - np.sqrt(2 / 3) < 2e-3


def test_random_weights_give_linear_pathways_twice_the_strength():
    found = sep.starts(sep.Separability(seeds=4, hidden=2000, margins=(0.0, 0.5, 1.5), shown=(0.5,)))
    assert np.allclose(found["equal"][1], np.sqrt(2 / 3), atol=5e-3)
    linear, xor = np.moveaxis(found["time"][1], -1, 0)
    assert (linear > xor).tolist() == [[True, True, False]] * 4


def test_expected_strength_is_the_mean_over_networks():
    p = sep.Separability(hidden=4000, variance=0.01)
    w = nr.init.gaussian(nr.Graph.chain([1, p.hidden, 1]), 0.1, seed=range(20))
    grown = (w["x->h1"][..., 0] + w["h1->y"][:, 0]) ** 2 / 4  # along any input direction
    assert np.isclose(grown.sum(axis=1).mean() / 4, p.a0("xor"), rtol=0.02)
    assert p.a0("linear") == 2 * p.a0("xor")
