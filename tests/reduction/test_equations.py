"""Equations of reductions: right-hand sides against gradients, their symbols, LaTeX."""

import re
from itertools import combinations

import numpy as np
import pytest
import sympy as sp
from hypothesis import given

import neuralrace as nr
from neuralrace.reduction.latex import edges, rounded
from tests.reduction.test_rates import RATES, drawn_rates
from tests.reduction.test_reduction import cross_correlated, diagonalisable, few, grown, reduced
from tests.strategies import data, graphs, seeds

# -- tasks -----------------------------------------------------------------------------------


def overlapping(size=2):
    """Two pathways, one of them closed in some samples, whose modes overlap at the output."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, size)), rng.normal(size=(8, size + 1))
    return nr.tasks.gated(x, y, [[1] * 8, [1, 1, 1, 0, 0, 0, 1, 0]], hidden=size + 1)


def skip(first=(1, 1, 0), last=(0, 1, 1)):
    """Three contexts and a skip connection."""
    rng = np.random.default_rng(1)
    graph = nr.Graph(
        {"x": 4, "h1": 6, "h2": 6, "y": 3}, [("x", "h1"), ("h1", "h2"), ("h2", "y"), ("h1", "y")]
    )
    gates = {"h1": np.repeat(first, 4), "h1->y": np.repeat(last, 4)}
    return nr.Task(graph, rng.normal(size=(12, 4)), rng.normal(size=(12, 3)), gates)


def dense(hidden):
    """Every node is connected to all later ones, in layers of different widths."""
    rng = np.random.default_rng(0)
    nodes = {"x": 2} | {f"h{k}": 2 + k for k in range(hidden)} | {"y": 2}
    return nr.Task(
        nr.Graph(nodes, list(combinations(nodes, 2))), rng.normal(size=(5, 2)), rng.normal(size=(5, 2))
    )


# -- right-hand sides ------------------------------------------------------------------------


def variable(equation):
    """The symbol whose derivative is on the left."""
    return next(f.args[0] for f in equation.lhs.args if isinstance(f, sp.Derivative))


def evaluated(expression, numbers):
    symbols = sorted(expression.free_symbols, key=str)
    return sp.lambdify(symbols, expression)(*(numbers[x] for x in symbols))


def check_velocity(r, seed=0):
    """The equations, with their numbers put in, against the gradient of the small network."""
    rng = np.random.default_rng(seed)
    shapes = [r.family.shape[members[0]] for members in r.classes]
    value = [rng.uniform(0.3, 1, s) * rng.choice([-1, 1], s) for s in shapes]
    b = {e: v for members, v in zip(r.classes, value, strict=True) for e in members}
    gradient = nr.gradient(r.family.small, b)
    true = []
    for members, v in zip(r.classes, value, strict=True):
        scale, decay = r.rates.of(members[0])
        true.append(-scale * (np.mean([gradient[m] for m in members], axis=0) + decay * v))
    largest = max(np.abs(v).max() for v in true)

    numbers = r.statistics() | r.parameters()
    for k, v in enumerate(value):
        numbers |= {sp.Symbol(f"B{k + 1}"): v}
        column = v if v.ndim == 2 else v[:, None]
        numbers |= {sp.MatrixSymbol(f"B{k + 1}", *column.shape): column}
        numbers |= {sp.Symbol(f"B{k + 1}_{m + 1}"): v[m] for m in range(len(v))}
    told = set()
    for equation in r.equations():
        k, *mode = (int(n) - 1 for n in re.findall(r"\d+", variable(equation).name))
        here = true[k][mode[0]] if mode else true[k]
        found = evaluated(equation.rhs, numbers)
        found = found[:, 0] if np.ndim(found) > np.ndim(here) else found  # of a vector, a column
        np.testing.assert_allclose(found, here, atol=1e-9 * largest)
        told |= {(k, m) for m in (mode or range(r.n_modes))}
    assert told == {(k, m) for k in range(r.n_classes) for m in range(r.n_modes)}


@pytest.mark.parametrize(
    ("task", "basis", "rates", "form"),
    [
        (nr.tasks.routing(3, 2, hidden=(6, 5)), "shared", RATES, sp.Symbol),
        (nr.tasks.sharing(4, 2, hidden=(5, 5)), "pathwise", nr.Rates(decay=0.1), sp.Symbol),
        (cross_correlated(), "shared", nr.Rates(scale={"b->y": 0.5}), sp.Symbol),
        (overlapping(), "pathwise", None, sp.Symbol),
        (
            overlapping(),
            "pathwise",
            nr.Rates(scale={"x->p0h1": 0.5, "p0h1->y": 0.0}, decay=0.2),
            sp.Symbol,
        ),
        (overlapping(7), "pathwise", nr.Rates(scale={"x->p0h1": 0.5}, decay=0.2), sp.MatrixSymbol),
        (nr.tasks.contexts(3, gating="shared", hidden=12), "pathwise", None, sp.MatrixSymbol),
        (nr.tasks.contexts(3, gating="shared", hidden=12), "block", None, sp.MatrixSymbol),
        (nr.tasks.routing(3, 2, hidden=(6, 5)), "block", RATES, sp.MatrixSymbol),
        (skip(), "block", nr.Rates(decay={"h1->h2": 0.3}, scale={"h1->y": 0.0}), sp.MatrixSymbol),
        (skip((1, 1, 1), (1, 1, 1)), "block", None, sp.MatrixSymbol),
        (dense(4), "block", None, sp.MatrixSymbol),
    ],
)
def test_equations_are_the_velocity(task, basis, rates, form):
    r = nr.reduce(task, basis, rates=rates)
    assert all(isinstance(variable(eq), form) for eq in r.equations())
    check_velocity(r)


@few
@given(graphs(inputs=2, outputs=2, depth=4), seeds)
def test_equations_of_random_networks(graph, seed):
    """All bases; edges between the same nodes, real gates, decay and learning rates."""
    rng = np.random.default_rng(seed)
    graph = grown(graph, 2)
    inputs, targets, gates, weights = data(graph, rng, n=40)
    gates[next(iter(graph.edges))] = np.ones(40)
    task = nr.Task(graph, inputs, targets, gates, weights)
    for basis in ("shared", "pathwise", "block"):
        try:
            r = nr.reduce(task, basis, rates=drawn_rates(graph, rng))
        except nr.errors.NothingToReduceError:
            continue
        check_velocity(r, seed)
    check_velocity(reduced(diagonalisable(graph, rng, 2), "shared"), seed)


def test_a_class_that_is_twice_on_a_path():
    """Both terms of the product rule, as matrices and as numbers."""
    task = nr.Task.from_moments(nr.Graph.chain([1, 1, 1, 1]), [{"sxx": [[1.0]], "syx": [[2.0]]}])
    for basis in ("block", "shared"):
        r = nr.reduce(task, basis)
        assert r.n_classes == 1
        check_velocity(r)


def test_numbers_of_a_mode_are_the_velocity():
    for task, basis in ((nr.tasks.routing(3, 2, hidden=(6, 5)), "shared"), (overlapping(7), "pathwise")):
        rates = nr.Rates(decay=0.1, scale={next(iter(task.graph.edges)): 0.5})
        r = nr.reduce(task, basis, rates=rates)
        rng = np.random.default_rng(0)
        value = [rng.uniform(0.5, 1, r.n_modes) for _ in r.classes]
        b = {e: v for members, v in zip(r.classes, value, strict=True) for e in members}
        gradient = nr.gradient(r.family.small, b)
        for mode in range(r.n_modes):
            numbers = {sp.Symbol(f"B{k + 1}"): v[mode] for k, v in enumerate(value)}
            numbers |= {
                sp.Symbol(f"B{k + 1}_{m + 1}"): x for k, v in enumerate(value) for m, x in enumerate(v)
            }
            for members, equation in zip(r.classes, r.equations(mode), strict=True):
                e = members[0]
                scale, decay = r.rates.of(e)
                true = -scale * (gradient[e][mode] + decay * b[e][mode])
                assert evaluated(equation.rhs, numbers) == pytest.approx(true, rel=1e-9, abs=1e-12)


# -- statistics and numbers of symbols -------------------------------------------------------


def test_statistics_are_those_of_the_paths():
    """Sums over listed paths, of the task itself in the frames of the family."""
    task = skip()
    r = nr.reduce(task, "block")
    assert all(len(members) == 1 for members in r.classes)
    long, short = ("x->h1", "h1->h2", "h2->y"), ("x->h1", "h1->y")
    q, u = r.family.right["x->h1"], r.family.left["h2->y"]
    found = {str(symbol): v for symbol, v in r.statistics().items()}
    expected = {
        "Syx1": u.T @ task.syx(long) @ q,
        "Syx2": u.T @ task.syx(short) @ q,
        "Sxx11": q.T @ task.sxx(long, long) @ q,
        "Sxx12": q.T @ task.sxx(long, short) @ q,
        "Sxx22": q.T @ task.sxx(short, short) @ q,
    }
    np.testing.assert_allclose(expected["Sxx12"], expected["Sxx22"], atol=1e-12)  # and so share a symbol
    del expected["Sxx22"]
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-12)


def test_statistics_of_classes_are_sums_over_paths():
    task = nr.tasks.routing(3, 2, hidden=(6, 5))
    r = nr.reduce(task, "block")
    small, paths = r.family.small, task.graph.paths()
    syx = sum(small.syx(p) for p in paths)
    sxx = sum(small.sxx(j, p) for j in paths for p in paths if j[-1] == p[-1])
    found = {str(symbol): v for symbol, v in r.statistics().items()}
    assert found.keys() == {"Syx", "Sxx"}  # one class of paths
    np.testing.assert_allclose(found["Syx"], syx, atol=1e-12)
    np.testing.assert_allclose(found["Sxx"], sxx, atol=1e-12)


def test_symbols_are_numbered_by_classes_of_paths():
    r = nr.reduce(nr.tasks.contexts(3, gating="shared", hidden=12), "shared")
    assert [len(set(members)) for members in r.classes] == [2, 2, 2, 2]
    b, d = sp.symbols("B1:5"), {n: sp.Symbol(f"D{n}") for n in (11, 12, 13, 14, 22, 23)}
    s = sp.symbols("S1:5")
    assert {str(x) for x in r.statistics()} == {*map(str, s), *map(str, d.values())}
    one, two = (eq.rhs for eq in r.equations()[:2])
    assert one.equals(b[0] * (s[0] - sum(b[k] ** 2 * d[11 + k] for k in range(4))))
    rest = (b[2] ** 2 + b[3] ** 2) * d[23]  # equal statistics share the symbol of the first
    assert two.equals(b[1] * (s[1] - b[0] ** 2 * d[12] - b[1] ** 2 * d[22] - rest))


def test_coupled_modes_are_written_one_by_one_where_they_are_few():
    r = nr.reduce(overlapping(), "pathwise")
    assert [variable(eq).name for eq in r.equations()] == ["B1_1", "B1_2", "B2_1", "B2_2"]
    own, other = sp.Symbol("D11_12"), sp.Symbol("D12_12")
    assert own not in r.statistics()  # modes of one pathway are apart
    assert other in r.statistics()
    assert r"- B_{2,2}^{2} D_{12,12}" in r.latex()
    many = nr.reduce(overlapping(7), "pathwise")
    assert many.n_modes * many.n_classes == 14 > 12
    assert [variable(eq).shape for eq in many.equations()] == [(7, 1)] * 2
    assert {v.shape for v in many.statistics().values()} == {(7, 1), (7, 7)}
    (first, *_) = many.equations(mode=1)
    assert variable(first).name == "B1_2"


# -- LaTeX -----------------------------------------------------------------------------------


def test_latex_of_decoupled_modes():
    """As in neural_race Eq. 13-14."""
    r = nr.reduce(nr.tasks.routing(7, 4, hidden=(6, 6)))
    assert r.latex().splitlines() == [
        r"\begin{aligned}",
        r"\tau \frac{d}{dt} B_{1} &= \frac{1}{7} B_{1} B_{2} \left(S - B_{1}^{2} B_{2} D\right) && "
        r"\text{x0} \to \text{h1},\ \text{x1} \to \text{h1},\ \ldots \text{ (14 edges)} \\",
        r"\tau \frac{d}{dt} B_{2} &= B_{1}^{2} \left(S - B_{1}^{2} B_{2} D\right) && \text{h1} \to \text{h2}",
        r"\end{aligned}",
    ]
    s, d = (float(r.statistics()[sp.Symbol(x)][0]) for x in "SD")
    assert d == pytest.approx(0.25)
    assert rf"\left({s:.3g} - 0.25 B_{{1}}^{{2}} B_{{2}}\right)" in r.latex(mode=0)


def test_latex_of_blocks():
    right = [line.split("&")[1] for line in nr.reduce(skip(), "block").latex().splitlines()[1:-1]]
    error = (
        r"\left(\Sigma^{yx}_{1} - B_{3} B_{2} B_{1} \Sigma^{xx}_{11} - B_{4} B_{1} \Sigma^{xx}_{12}\right)"
    )
    other = r"\left(\Sigma^{yx}_{2} - \left(B_{3} B_{2} B_{1} + B_{4} B_{1}\right) \Sigma^{xx}_{12}\right)"
    assert [text.removeprefix("= ").strip() for text in right] == [
        f"B_{{2}}^{{T}} B_{{3}}^{{T}} {error} + B_{{4}}^{{T}} {other}",
        f"B_{{3}}^{{T}} {error} B_{{1}}^{{T}}",
        f"{error} B_{{1}}^{{T}} B_{{2}}^{{T}}",
        f"{other} B_{{1}}^{{T}}",
    ]
    open_skip = nr.reduce(skip((1, 1, 1), (1, 1, 1)), "block").latex()  # all paths have the same statistics
    assert r"\left(B_{3} B_{2} + B_{4}\right)^{T} \left(\Sigma^{yx} - " in open_skip
    decaying = nr.reduce(skip(), "block", rates=nr.Rates(decay=0.1, scale={"x->h1": 0.5})).latex()
    assert r"&= \eta \left(" in decaying
    assert r"- \lambda B_{1}\right) &&" in decaying


def test_latex_of_coupled_modes():
    text = nr.reduce(overlapping(7), "pathwise").latex()
    line = r"B_{1} \circ \left(S_{1} - D_{11} B_{1}^{\circ 2} - D_{12} B_{2}^{\circ 2}\right)"
    assert rf"\tau \frac{{d}}{{dt}} B_{{1}} &= {line} && \text{{x}} \to" in text


@pytest.mark.parametrize(
    ("members", "text"),
    [
        (["x->h_1"], r"\text{x} \to \text{h\_1}"),
        (["in", "50%"], r"\text{in},\ \text{50\%}"),
        (["a", "b", "c"], r"\text{a},\ \text{b},\ \text{c}"),
        (["a", "b", "c", "d"], r"\text{a},\ \text{b},\ \ldots \text{ (4 edges)}"),
        ([r"a\b^2"], r"\text{a\textbackslash{}b\textasciicircum{}2}"),
    ],
)
def test_names_of_edges(members, text):
    assert edges(members) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0, "2"),
        (-3.0000000000000004, "-3"),
        (0.25, "0.25"),
        (1 / 3, "1/3"),
        (-5 / 24, "-5/24"),
        (np.sqrt(2) / 4, "0.354"),
        (0.30000000000000004, "0.3"),
        (1234.5678, "1230"),
        (12345.0, "12345"),
        (1.2345e-7, "1.23e-7"),
        (6.02214e23, "6.02e+23"),
    ],
)
def test_numbers_are_rounded_as_a_person_would(value, text):
    assert re.sub(r"(\.\d*?)0+($|e)", r"\1\2", str(rounded(sp.Float(value)))) == text


# -- what is said, and where there are no equations ------------------------------------------


def test_a_notebook_shows_whether_the_equations_are_exact():
    r = nr.reduce(skip(), "block")
    assert r._repr_latex_().startswith(f"$\\displaystyle {r.latex()}$")
    assert r._repr_latex_().splitlines()[-1].startswith("exact on its family of weights (residual ")
    rough = nr.reduce(skip(), "shared")
    assert rough._repr_latex_().splitlines()[-1].startswith("NOT exact on its family of weights (residual ")
    assert nr.reduce(dense(10), "block")._repr_latex_() is None


def test_too_many_terms_are_counted():
    task = dense(7)  # 128 paths, each with a class of its own
    with pytest.raises(nr.errors.InputError, match=r"would have (\S+) terms.*solve\(\) works") as error:
        nr.reduce(task, "block").equations()
    paths = task.graph.paths()
    terms = sum(map(len, paths)) * (1 + len(paths))
    assert f"would have {terms:,} terms" in str(error.value)
    task = dense(10)
    paths = task.graph.paths()
    with pytest.raises(nr.errors.InputError, match="1,024 paths are of more than 400 classes") as error:
        nr.reduce(task, "block").equations()
    assert f"up to {sum(map(len, paths)) * (1 + len(paths)):,} terms" in str(error.value)


def test_blocks_have_no_modes():
    with pytest.raises(nr.errors.InputError, match="mode must be None for blocks, got 0"):
        nr.reduce(skip(), "block").equations(mode=0)
    with pytest.raises(nr.errors.InputError, match="mode must be between 0 and 1, got 2"):
        nr.reduce(overlapping(), "pathwise").equations(mode=2)


# -- what blocks conserve --------------------------------------------------------------------


@pytest.mark.parametrize(
    "rates",
    [
        None,
        nr.Rates(decay=0.1),
        nr.Rates(scale={"h1->h2": 0.5, "x->h1": 2.0}),
    ],
)
def test_blocks_conserve_matrices(rates):
    r = nr.reduce(skip(), "block", rates=rates)
    rng = np.random.default_rng(0)
    b = {e: 0.5 * rng.normal(size=s) for e, s in r.family.shape.items()}
    sol = r.solve(b0=b, t1=5.0, save=4)
    assert len(r.conserved()) == 2
    for law in r.conserved():
        along = []
        for i, t in enumerate(sol.t):
            numbers = r.parameters() | {sp.Symbol("t"): t, sp.Symbol("tau"): 1.0}
            for k, members in enumerate(r.classes):
                numbers[sp.MatrixSymbol(f"B{k + 1}", *r.family.shape[members[0]])] = sol.source.b[members[0]][
                    i
                ]
            along.append(evaluated(law, numbers))
        np.testing.assert_allclose(along[-1], along[0], atol=1e-6)
