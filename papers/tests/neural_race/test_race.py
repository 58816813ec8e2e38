import numpy as np
import pytest

import neuralrace as nr
from neuralrace_papers.neural_race import race


def test_layers_have_the_edges_of_each_route():
    p = race.Race(domains=4, groups=(2, 4), trained=(1, 4), hidden=5)
    task = p.task(np.ones((4, 4), bool), p.groups)
    w = nr.init.gaussian(task.graph, 1.0, seed=0)
    for size in p.groups:
        layers = race.layers(w, 4, size)
        for i, j in np.ndindex(4, 4):
            node = f"s{size}g{i // size}.{j // size}h"
            path = [f"x{i}->{node}1", f"{node}1->{node}2", f"{node}2->y{j}"]
            assert all((layer[i, j] == w[edge]).all() for layer, edge in zip(layers, path, strict=True))


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="groups must divide"):
        race.Race(groups=(3, 10))
    with pytest.raises(ValueError, match="trained must end with domains"):
        race.Race(trained=(1, 2))
