import numpy as np
import pytest

import neuralrace as nr
import neuralrace_papers
from neuralrace_papers.talk import worlds


def test_parting_is_the_mean_distance_of_items_that_are_equally_alike():
    made = worlds.MAKE["partition"](worlds.Worlds())
    items = np.random.default_rng(0).standard_normal((2, 3, worlds.ITEMS, 5))
    apart = worlds.parting(made, items)
    group = np.arange(worlds.ITEMS) // 4
    pairs = [(i, j) for i in range(worlds.ITEMS) for j in range(i)]
    for k, same in enumerate((False, True)):  # covariances increase
        chosen = [((items[:, :, i] - items[:, :, j]) ** 2).sum(axis=-1) for i, j in pairs
                  if (group[i] == group[j]) == same]  # fmt: skip
        assert np.allclose(apart[..., k], np.mean(chosen, axis=0))


def test_distinctions_are_made_from_the_tree_alone():
    across = worlds.distinctions([2, 3])
    wanted = [
        np.full(6, 6**-0.5),
        np.repeat([1.0, -1.0], 3) * 6**-0.5,
        np.array([1, -1, 0, 0, 0, 0]) * 2**-0.5,
    ]
    assert np.allclose(across, wanted)
    tree = nr.tasks.tree([2, 3], 0.2)
    variance = np.einsum("ki,ij,kj->k", across, tree.covariance, across)
    assert np.allclose(variance, tree.values[[0, 1, 2]])  # levels of one, one and four modes


@pytest.mark.whole
def test_experiment(tmp_path):
    changes = {"seeds": 1, "trees": 10, "beliefs": 200, "looks": 8, "rounds": 20}
    report = neuralrace_papers.run("worlds", quick=True, out=tmp_path, changes=changes)
    value = {id: row.value for id, row in report.rows.items()}
    assert value["half-times"] < 1e-3
    assert min(value["order-tree"], value["tree-parting"], value["random-trees-order"]) > 0
    assert value["vectors-tree"] > 0.99
    assert [name for name, _ in report.figures] == [
        *(f"worlds-{n}" for n in ("partition", "tree", "ring", "grid")), "worlds-beliefs",
    ]  # fmt: skip
