import numpy as np
import pytest

import neuralrace as nr
from neuralrace.experiments.make_haste_slowly import context_count


def test_outputs_of_modes_start_at_nothing_and_end_with_the_targets():
    x, y = nr.tasks.contexts(4).arrays
    t = np.array([0.0, 1e4])
    common = context_count.mode_outputs(x, y, np.ones(len(x)), lambda s, d: nr.exact.chain(t, s, d, 1e-8))
    residual = nr.relu.pathway_residual(x, y)
    assert np.abs(common[0]).max() < 1e-5
    assert np.allclose(y - common[1], residual)
    course = lambda s, d: nr.exact.context_strength(t, s, d, 4, 1e-8)  # noqa: E731
    others = sum(
        context_count.mode_outputs(x[:, :8], residual, gate, course)
        for gate in np.repeat(1 - np.eye(4), 8, axis=1)
    )
    assert np.allclose(common[1] + others[1], y)


@pytest.mark.whole
def test_context_count_experiment(tmp_path):
    changes = {"hidden": 49, "std": 1e-4, "epochs": 1600}
    report = nr.experiments.run("context-count", quick=True, out=tmp_path, changes=changes)
    claims = {c.id: c for c in report.claims}
    assert claims["closed-form-settled-3"].holds
    assert claims["block-reduction-3"].holds
    assert not claims["closed-form-together-3"].holds
    with pytest.raises(ValueError, match="counts must be at least 3, got 2"):
        nr.experiments.run("context-count", out=tmp_path, changes={"counts": (2,)})
