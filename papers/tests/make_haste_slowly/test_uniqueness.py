import numpy as np

import neuralrace as nr
from neuralrace_papers.make_haste_slowly import uniqueness


def test_names_of_pathways_are_their_gates():
    task = nr.tasks.contexts(3, gating="both", hidden=4)
    assert np.array_equal(list(task.samples.gates.values()), uniqueness.GATES)
    assert uniqueness.GATES[uniqueness.PATHWAYS.index("101")].tolist() == [1] * 8 + [0] * 8 + [1] * 8
