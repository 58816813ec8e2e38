import numpy as np

import neuralrace_papers
from neuralrace_papers.make_haste_slowly import linear_background as linear


def test_decomposition_is_orthonormal_and_that_of_the_data():
    assert np.allclose(linear.U.T @ linear.U, np.eye(4))
    assert np.allclose(linear.V.T @ linear.V, np.eye(4))
    assert np.allclose(linear.U * linear.S @ linear.V.T, linear.SYX)
    assert np.allclose(4 * linear.S, [7**0.5, 3**0.5, 1, 1])
    swims = [linear.PROPERTIES.index(name) for name in ("move", "swim")]
    assert linear.Y[linear.ITEMS.index("salmon")][swims].all()


def test_linear_background_experiment(tmp_path):
    changes = {"hidden": 16, "save": 151, "narrow": (2,)}
    report = neuralrace_papers.run("linear-background", quick=True, out=tmp_path, changes=changes)
    claims = {c.id: c for c in report.claims}
    failing = {id for id, c in claims.items() if not c.holds and not id.startswith("half-time-")}
    assert failing == {"input-variance"}
    assert all(c.bound for c in claims.values() if c.kind == "paper")
    # log 4 / (2 s) earlier than log(s/(d a0)) / (2 s), for a0 = 1e-6
    expected = np.mean(-np.log(4) / np.log(4e6 * linear.S))
    assert np.isclose(claims["input-variance"].measured, expected, atol=1e-3)
