"""Weight decay and learning rates per edge in reductions."""

import numpy as np
import pytest
import sympy as sp
from hypothesis import given

import neuralrace as nr
from tests.reduction.test_reduction import TIGHT, diagonalisable, few, grown, reduced
from tests.strategies import data, graphs, seeds


def drawn_rates(graph, rng):
    """A number for all edges, or one for some of them; and learning rates of some edges."""
    some = {e: float(rng.uniform(0, 0.5)) for e in graph.shapes if rng.random() < 0.7}
    decay = float(rng.uniform(0.05, 0.5)) if rng.random() < 0.4 else some
    scale = {e: float(rng.choice([0.0, 0.5, 2.0])) for e in list(graph.shapes)[::2]}
    return nr.Rates(decay, scale, frozen=[e for e in graph.shapes if rng.random() < 0.1])


def agrees_with_flow(task, r, b, rates, t1=3.0):
    sol = r.solve(strengths=b, t1=t1, save=7, method=TIGHT)
    true = nr.flow(task, r.lift(b), t1=t1, save=7, method=TIGHT, rates=rates)
    scale = 1 + max(np.abs(v).max() for v in true.weights.values())
    assert max(np.abs(sol.weights[e] - w).max() for e, w in true.weights.items()) < 1e-6 * scale
    assert np.abs(sol.loss - true.loss).max() < 1e-6 * (1 + true.loss.max())
    # The slope in the history has the decay in it, which the loss has not.
    level = 0.7 * true.loss[0] + 0.3 * true.loss.min()
    if level > 0.99 * true.loss[0]:  # decay may let the loss rise from the start: no time to compare
        return
    np.testing.assert_allclose(nr.learning_time(sol, level), nr.learning_time(true, level), rtol=2e-3)


@pytest.mark.parametrize(
    "rates",
    [
        nr.Rates(decay=0.02),
        nr.Rates(decay={"h1->h2": 0.1, "h2->y0": 0.05}),
        nr.Rates(scale={"h1->h2": 0.3, "x1->h1": 2.0}),
        nr.Rates(decay=0.02, scale={"h1->h2": 0.3}, frozen=["h1->h2", "h2->y1"]),
        nr.Rates(decay={"h1->h2": 0.1, "x0->h1": 0.02}, scale={"h1->h2": 0.3, "x0->h1": 0.0}),
    ],
)
def test_routing_with_decay_and_rates_follows_the_flow(rates):
    task = nr.tasks.routing(3, 2, hidden=(6, 5))
    r = nr.reduce(task, rates=rates)
    assert r.exact
    b = {e: np.full(s, 0.3) for e, s in r.family.shape.items()}
    agrees_with_flow(task, r, b, rates, t1=20.0)
    for members in r.classes:  # what differs in decay or rate is in different classes
        assert len({r.rates.of(e) for e in members}) == 1


@few
@given(graphs(inputs=3, outputs=2, depth=4), seeds)
def test_diagonalisable_data_with_decay_and_rates(graph, seed):
    rng = np.random.default_rng(seed)
    task = diagonalisable(grown(graph, 2), rng, 2)
    rates = drawn_rates(task.graph, rng)
    r = reduced(task, "shared", rates=rates)
    tied = {e: np.full(s, 0.4) for e, s in r.family.shape.items()}
    agrees_with_flow(task, r, tied, rates)


@few
@given(graphs(inputs=2, outputs=2, depth=3), seeds)
def test_blocks_with_decay_and_rates(graph, seed):
    rng = np.random.default_rng(seed)
    task = nr.Task(grown(graph, 2), *data(grown(graph, 2), rng, n=40))
    rates = drawn_rates(task.graph, rng)
    r = reduced(task, "block", rates=rates)
    b = {e: 0.4 * rng.uniform(0.5, 1, s) for e, s in r.family.shape.items()}
    agrees_with_flow(task, r, b, rates)


def test_decay_moves_what_has_learned_everything():
    task = nr.tasks.routing(3, 2, hidden=(6, 5))
    learned = nr.reduce(task).solve(0.5, t1=300.0).source.at(-1)
    r = nr.reduce(task, rates=nr.Rates(decay=0.1))
    assert r.loss(learned) < 1e-9
    agrees_with_flow(task, r, learned, r.rates)


# -- equations -------------------------------------------------------------------------------

RATES = nr.Rates(decay={"h1->h2": 0.3, "x0->h1": 0.1, "h2->y1": 0.1}, scale={"h1->h2": 0.5, "x1->h1": 2.0})


def test_equations_with_decay_give_the_velocity():
    """The right-hand sides, as functions, against the gradient of the small network."""
    r = nr.reduce(nr.tasks.routing(3, 2, hidden=(6, 5)), rates=RATES)
    rng = np.random.default_rng(0)
    value = {members: rng.uniform(0.5, 1, r.n_modes) for members in r.classes}
    b = {e: v for members, v in value.items() for e in members}
    gradient = nr.gradient(r.family.small, b)
    symbols = [sp.Symbol(f"B{k + 1}") for k in range(r.n_classes)]
    for mode in range(r.n_modes):
        for members, equation in zip(r.classes, r.equations(mode), strict=True):
            found = sp.lambdify(symbols, equation.rhs)(*(v[mode] for v in value.values()))
            e = members[0]
            scale, decay = r.rates.of(e)
            true = -scale * (gradient[e][mode] + decay * b[e][mode])
            assert found == pytest.approx(true, rel=1e-9, abs=1e-12)


def test_equations_show_lambda_and_eta():
    task = nr.tasks.routing(7, 4, hidden=(6, 6))
    b1, b2, s, d, lam, eta = sp.symbols("B1 B2 S D lambda eta")
    error = s - b2 * b1**2 * d
    r = nr.reduce(task, rates=nr.Rates(decay=0.1))
    first, second = r.equations()
    assert sp.simplify(first.rhs - (b2 * b1 * error / 7 - lam * b1)) == 0
    assert sp.simplify(second.rhs - (b1**2 * error - lam * b2)) == 0
    assert r.parameters() == {lam: 0.1}
    assert r"\lambda" in r.latex()
    r = nr.reduce(task, rates=nr.Rates(scale={"h1->h2": 0.5}))
    assert sp.simplify(r.equations()[1].rhs - eta * b1**2 * error) == 0
    several = nr.reduce(task, rates=RATES)
    assert {str(k): v for k, v in several.parameters().items()} == {
        "lambda1": 0.1, "lambda2": 0.3, "eta1": 2.0, "eta2": 0.5,
    }  # fmt: skip
    plain = nr.reduce(task)
    assert not plain.parameters()
    assert plain.equations() == nr.reduce(task, rates=nr.Rates(decay=0.0, scale={"h1->h2": 1.0})).equations()


# -- what is conserved -----------------------------------------------------------------------


def drift(r, strengths):
    """The largest change of each law along a solution, relative to its size."""
    sol = r.solve(strengths, t1=20.0, save=40)
    known = r.parameters() | {sp.Symbol("tau"): 1.0}
    symbols = [sp.Symbol(f"B{k + 1}") for k in range(r.n_classes)]
    found = []
    for law in r.conserved():
        along = sp.lambdify([*symbols, sp.Symbol("t")], law.subs(known))
        values = along(*(sol.strengths[:, 0, k] for k in range(r.n_classes)), sol.t)
        found.append(np.abs(values - values[0]).max() / np.abs(values[0]))
    return found


@pytest.mark.parametrize(
    ("rates", "number"),
    [
        (None, 1),
        (nr.Rates(decay=0.05), 1),
        (nr.Rates(scale={"h1->h2": 0.5}), 1),
        (nr.Rates(scale={"h1->h2": 0.5}, decay=0.05), 0),  # rate times decay differs at both nodes
        (nr.Rates(decay={"h1->h2": 0.05}), 0),
        (nr.Rates(scale={"h1->h2": 0.0}), 0),
        (nr.Rates(frozen="h1->h2"), 0),
    ],
)
def test_laws_with_decay_and_rates(rates, number):
    r = nr.reduce(nr.tasks.routing(3, 2, hidden=(6, 5)), rates=rates)
    assert len(r.conserved()) == number
    assert all(d < 1e-6 for d in drift(r, 0.3))


def test_a_law_where_rate_times_decay_is_the_same():
    edges = nr.tasks.routing(3, 2, hidden=(6, 5)).graph.edges
    rates = nr.Rates(scale={"h1->h2": 0.5}, decay=dict.fromkeys(edges, 0.05) | {"h1->h2": 0.1})
    r = nr.reduce(nr.tasks.routing(3, 2, hidden=(6, 5)), rates=rates)
    assert len(r.conserved()) == 1
    assert all(d < 1e-6 for d in drift(r, 0.3))


def test_conserved_of_weights_with_rates():
    task = nr.tasks.routing(2, 2, hidden=(4, 3))
    w = nr.init.gaussian(task.graph, 0.3, seed=0)
    rates = {"h1->h2": 0.5, "x0->h1": 2.0}
    along = nr.flow(task, w, 10.0, 5, rates=nr.Rates(scale=rates)).weights
    for law in nr.conserved(task, along, rates=nr.Rates(scale=rates)).values():
        assert np.abs(law - law[0]).max() < 1e-6
    assert any(np.abs(law - law[0]).max() > 1e-2 for law in nr.conserved(task, along).values())
    decays = nr.flow(task, w, 10.0, 5, rates=nr.Rates(decay=0.05))
    for law in nr.conserved(task, decays.weights).values():
        assert np.abs(law * np.exp(0.1 * decays.t)[:, None, None] - law[0]).max() < 1e-6
    assert "h1" not in nr.conserved(task, along, rates=nr.Rates(scale={"h1->h2": 0.0}))
    with pytest.raises(nr.errors.InputError, match="scale names"):
        nr.conserved(task, along, rates=nr.Rates(scale={"q": 1.0}))
