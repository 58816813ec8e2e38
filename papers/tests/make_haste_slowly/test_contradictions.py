"""What shows that a sentence of make_haste_slowly fails: counterexamples and algebra."""

from itertools import combinations

import numpy as np

import neuralrace as nr
from neuralrace_papers.make_haste_slowly.modes import ITEMS, STRUCTURES

CONTEXT = np.repeat(np.arange(3), ITEMS)
ITEM = np.tile(np.arange(ITEMS), 3)


def test_lemma_4_1():
    # The four samples of appendix D: two items in two contexts.
    x = np.array([[1, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1]])
    gate = x @ [1, 0, 0.5, -0.5] > 0
    assert gate.tolist() == [True, True, True, False]
    assert gate[2] != gate[3]  # two items in one context: no gate by context
    assert gate[1] != gate[3]  # one item in two contexts: no gate by item
    assert gate.sum() > 1  # and not a single sample


def test_two_contexts_are_not_the_fastest_gates():
    x, y = nr.tasks.contexts(3, STRUCTURES["different"]).arrays
    always = np.ones((1, len(x)))
    two = np.array([c != CONTEXT for c in range(3)])
    halves = np.array([ITEM < 4, ITEM >= 4])
    assert all(nr.relu.implementable(gate, x) for gate in (*two, *halves))
    see_items = dict.fromkeys(range(1, 4), range(ITEMS))
    published = nr.tasks.gated(x, y, np.concatenate([always, two]), 11, see_items)
    others = nr.tasks.gated(x, y, np.concatenate([always, two, halves]), 11, see_items)
    times = nr.race({"published": published, "others": others}, level=0.3, strength=1e-3).times
    assert times["others"] < 0.95 * times["published"]
    # Why: on what the common pathway leaves, a half of the items correlates more than any two contexts.
    residual = nr.relu.pathway_residual(x, y)
    of_halves, of_two = (nr.relu.growth_rates(gates, x, residual).max() for gates in (halves, two))
    assert of_halves > 1.7 * of_two


def test_half_times_depend_on_the_variance_of_inputs():
    s, start = 0.5, 1e-6
    variances = np.array([0.25, 1.0])  # of the inputs, with the same Syx and so the same s
    half = np.log(s / (variances * start) - 1) / (2 * s)
    for d, t in zip(variances, half, strict=True):
        assert np.isclose(nr.exact.chain(t, s, d, start), s / d / 2)  # Eq. 7
    assert half[1] < 0.95 * half[0]


def test_modes_of_different_structures_are_not_shared():
    for kind, shared in {"different": False, "same": True}.items():
        x, y = nr.tasks.contexts(3, STRUCTURES[kind]).arrays
        residual = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
        items = x[:, :ITEMS]
        pathways, squares = [c != CONTEXT for c in range(3)], []
        for open_ in pathways:
            seen = items[open_]
            assert np.array_equal(seen.T @ seen, 2 * np.eye(ITEMS))  # white: any direction is a mode
            syx = residual[open_].T @ seen
            squares.append(syx.T @ syx)
        apart = [np.linalg.norm(a @ b - b @ a) / np.linalg.norm(a @ b) for a, b in combinations(squares, 2)]
        assert max(apart) < 1e-12 if shared else max(apart) > 0.2
