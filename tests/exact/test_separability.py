import numpy as np
import pytest

import neuralrace as nr
from neuralrace.measure import crossing


@pytest.mark.parametrize("gating", ["linear", "xor"])
def test_learning_time_is_where_the_closed_form_reaches_the_level(gating):
    t = np.linspace(0, 60, 20_001)
    for delta, a0 in ((0.5, 1e-3), (1.0, 1e-6), (2.0, 1e-2)):
        loss = nr.exact.separability_loss(t, delta, gating, a0)
        time = nr.exact.separability_time(0.2, delta, gating, a0)
        assert np.isclose(time, crossing(t, loss, 0.2), rtol=1e-5)
    assert nr.exact.separability_time([0.6, 0.5], 1.0, gating, 1e-3).tolist() == [0, 0]


def test_without_margin_the_linear_gating_never_learns():
    assert nr.exact.separability_time(0.2, 0.0, "linear", 1e-3) == np.inf
    with pytest.raises(ValueError, match="level"):
        nr.exact.separability_time(0.0, 1.0, "xor", 1e-3)
