import numpy as np
import pytest

from neuralrace_papers.neural_race import sharing

SMALL = {"seeds": 2, "domains": 4, "groups": (1, 2), "hidden": 8, "trained": (2,), "depths": (1, 2)}


@pytest.mark.whole
def test_chains_and_shared_edges_take_the_time_of_theory():
    p = sharing.Sharing(**SMALL, t1=240.0, starts=(1e-6, 1e-2), values=(1.0, 4.0))
    for name in p.factors:
        chains = sharing.factor(p, name)
        assert np.allclose(chains["network"][1], chains["theory"][1], rtol=1e-5), name
    shared = sharing.shared(p, 2)
    assert shared["decoupled_time"] == pytest.approx(shared["theory_time"], rel=1e-5)
    assert np.abs(np.sort(shared["theory"][1]) - np.sort(shared["decoupled"][1])).max() < 1e-5


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="groups must divide"):
        sharing.Sharing(groups=(3,))
    with pytest.raises(ValueError, match="trained must increase"):
        sharing.Sharing(trained=(2, 1))
