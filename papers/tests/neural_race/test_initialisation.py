import pytest

from neuralrace_papers.neural_race import initialisation

SMALL = {"seeds": 2, "domains": 3, "trained": 2, "hidden": 24, "looks": (0.5,), "kernels": 1, "t1": 300.0}


@pytest.mark.whole
def test_small_weights_learn_in_drops_and_large_ones_as_their_kernel():
    scales = (0.1, 8.0)
    p = initialisation.Initialisation(**SMALL, scales=(*scales, 9.0), published=scales, shown=(*scales, 9.0))
    small, large = (initialisation.networks(p, scale) for scale in scales)
    assert min(small["plateau"][1]) > max(large["plateau"][1]) + 0.2
    assert small["turn"][1][0, -1] > large["turn"][1][0, -1] + 0.2
    assert small["outside"][1][0, -1] < large["outside"][1][0, -1]
    assert max(*small["trained"][1], *large["trained"][1]) < 1e-5


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="shown must be three"):
        initialisation.Initialisation(shown=(0.05, 2.0, 7.0))
    with pytest.raises(ValueError, match="published must be two"):
        initialisation.Initialisation(published=(0.2, 2.4))
    with pytest.raises(ValueError, match="trained must be below"):
        initialisation.Initialisation(trained=7)
