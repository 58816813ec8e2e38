import numpy as np
import pytest

import neuralrace as nr
from neuralrace_papers.make_haste_slowly import context_count, modes


def test_outputs_of_modes_start_at_nothing_and_end_with_the_targets():
    x, y = nr.tasks.contexts(4).arrays
    t = np.array([0.0, 1e4])
    common, b = modes.mode_outputs(x, y, np.ones(len(x)), lambda s, d: nr.exact.chain(t, s, d, 1e-8))
    residual = nr.relu.pathway_residual(x, y)
    assert np.abs(common[0]).max() < 1e-5
    assert np.allclose(y - common[1], residual)
    assert np.allclose(b[0], 1e-8)
    course = lambda s, d: nr.exact.context_strength(t, s, d, 4, 1e-8)  # noqa: E731
    others = sum(
        modes.mode_outputs(x[:, :8], residual, gate, course)[0]
        for gate in np.repeat(1 - np.eye(4), 8, axis=1)
    )
    assert np.allclose(common[1] + others[1], y)


def test_closed_form_of_the_loss_is_that_of_its_strengths():
    x, y = nr.tasks.contexts(3).arrays
    closed = context_count.closed_form(x, y, 3, np.array([0.0, 20.0, 1e4]), 1e-4, 1e-4)
    assert np.allclose(closed["loss"][[0, -1]], [96, 0], rtol=1e-2, atol=1e-9)
    # The common pathway ends with the least squares map, which its modes make up.
    settled = np.linalg.lstsq(x, y, rcond=None)[0]
    assert np.allclose(closed["common"][-1], np.linalg.svd(settled, compute_uv=False)[:7])
    assert np.allclose(closed["contexts"][0], 1e-4)


def test_strengths_of_the_weights_are_their_mean_over_networks():
    p = context_count.ContextCount(counts=(3, 4), hidden=(70, 50), scale=0.7, pathway=400)
    w = nr.init.gaussian(nr.Graph.chain([1, p.pathway, 1]), p.std(3), seed=range(20))
    grown = ((w["x->h1"][..., 0] + w["h1->y"][:, 0]) ** 2 / 4).sum(axis=1)
    common, others = p.strengths(3)
    assert np.isclose(grown.mean(), common, rtol=0.1)
    assert others == 4 * common
    with pytest.raises(ValueError, match="hidden must have a width for each"):
        context_count.ContextCount(hidden=(70,))
