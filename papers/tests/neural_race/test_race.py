import numpy as np
import pytest
import sympy as sp

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


@pytest.mark.parametrize("groups", [(1, 2, 4), (2, 4), (1, 4)])
def test_the_whole_network_has_the_printed_equations(groups):
    """neural_race Eq. 16-17 for every P in one network, whose pathways have one error in common."""
    p = race.Race(domains=4, groups=groups, trained=(1, 4), hidden=5)
    r = nr.reduce(p.task(np.ones((4, 4), bool), groups))
    assert r.residual < 1e-8
    symbol = {e: sp.Symbol(f"B{k + 1}") for k, members in enumerate(r.classes) for e in members}
    derived = {sp.Symbol(f"B{k + 1}"): e.rhs for k, e in enumerate(r.equations())}
    strengths = [tuple(e[0, 0] for e in race.layers(symbol, 4, g)[:2]) for g in groups]
    s, d = sp.symbols("S D")
    error = s - d * sum(b2 * b1**2 for b1, b2 in strengths)
    for group, (b1, b2) in zip(groups, strengths, strict=True):  # P = group^2
        assert sp.simplify(derived[b1] - group * b2 * b1 * error / 16) == 0
        assert sp.simplify(derived[b2] - group**2 * b1**2 * error / 16) == 0


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="groups must divide"):
        race.Race(groups=(3, 10))
    with pytest.raises(ValueError, match="trained must increase and end with domains"):
        race.Race(trained=(1, 2))
