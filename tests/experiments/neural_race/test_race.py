import numpy as np
import pytest

import neuralrace as nr
from neuralrace.experiments.neural_race import race


def test_route_maps_and_strengths_follow_the_edges_of_each_route():
    """Against a walk along the edges, one route after the other."""
    p = race.Race(domains=4, groups=(2, 4), trained=(1, 4), hidden=5)
    task = p.task(np.ones((4, 4), bool), p.groups)
    w, b = (
        nr.init.gaussian(task.graph, 1.0, seed=0),
        {e: np.random.default_rng(k).normal(size=(2, 3, 4)) for k, e in enumerate(task.graph.edges)},
    )
    for size in p.groups:
        maps, modes = race.route_maps(w, 4, size), race.theory_modes(b, 4, size)
        for i, j in np.ndindex(4, 4):
            node = f"s{size}g{i // size}.{j // size}h"
            path = [f"x{i}->{node}1", f"{node}1->{node}2", f"{node}2->y{j}"]
            assert np.allclose(maps[i, j], w[path[2]] @ w[path[1]] @ w[path[0]], atol=1e-5)
            assert np.allclose(modes[:, :, i, j], b[path[0]] * b[path[1]] * b[path[2]])


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="groups must divide"):
        race.Race(groups=(3, 10))
    with pytest.raises(ValueError, match="trained must end with domains"):
        race.Race(trained=(1, 2))
