"""Block reductions of pathways on items in contexts."""

import numpy as np
import pytest

import neuralrace as nr


@pytest.mark.parametrize("structures", [None, ("hierarchy", "ring", "cross")])
def test_block_reduction_follows_pathways_from_random_weights(structures):
    task = nr.tasks.contexts(3, structures, gating="shared", hidden=30)
    w = nr.init.gaussian(task.graph, std=1e-5, seed=range(2))
    t = np.linspace(0, 80, 21)
    r = nr.reduce(task, "block")
    solved = r.solve(strengths=r.strengths(w), t1=80.0, save=t)
    run = nr.flow(task, w, 80.0, t)
    assert run.loss[:, -1].max() < 0.2 * run.loss[0, 0]
    assert np.abs(solved.loss - run.loss).max() < 1e-5 * run.loss[0, 0]


def test_blocks_of_weights_in_the_family_are_their_coordinates():
    task = nr.tasks.contexts(3, gating="shared", hidden=30)
    r = nr.reduce(task, "block")
    rng = np.random.default_rng(0)
    b = {e: rng.normal(size=s) for e, s in r.family.shape.items()}
    for e, coordinates in r.strengths(r.lift(b)).items():
        assert np.allclose(coordinates, b[e])
