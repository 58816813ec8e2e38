"""Equations of reductions: right-hand sides against gradients, their symbols, LaTeX."""

import contextlib
import re
from itertools import combinations, product

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, reject
from hypothesis import strategies as st

import neuralrace as nr
from neuralrace.reduction.latex import edges, in_latex, rounded
from tests.reduction.test_rates import RATES, drawn_rates
from tests.reduction.test_reduction import cross_correlated, diagonalisable, few, grown, reduced
from tests.strategies import data, graphs, seeds, some_fixed

# -- tasks -----------------------------------------------------------------------------------


def overlapping(size=2):
    """Two pathways, one of them closed in some samples, whose modes overlap at the output."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, size)), rng.normal(size=(8, size + 1))
    return nr.tasks.gated(x, y, [[1] * 8, [1, 1, 1, 0, 0, 0, 1, 0]], hidden=size + 1)


def two_gated():
    """Two pathways on white inputs, either of which is closed in some contexts."""
    x = np.tile(np.sqrt(8) * np.eye(2), (4, 1))
    gates = {"p0h1": [1, 1, 1, 1, 1, 1, 0, 0], "p1h1": [1, 1, 0, 0, 0, 0, 1, 1]}
    return nr.Task(nr.Graph.pathways(2, 2, [[4], [4]]), x, x * [55 / 72, 0.4], gates)


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


def residual(scale=1.0):
    """A block of a residual network, whose skip is fixed."""
    rng = np.random.default_rng(0)
    skip_edge = nr.Edge("x", "h2", fixed=scale * np.eye(4))
    graph = nr.Graph({"x": 4, "h1": 6, "h2": 4, "y": 3}, [("x", "h1"), ("h1", "h2"), skip_edge, ("h2", "y")])
    x = np.linalg.qr(rng.normal(size=(12, 4)))[0]
    return nr.Task(graph, x, rng.normal(size=(12, 3)))


# -- right-hand sides ------------------------------------------------------------------------


def variable(equation):
    """The symbol whose derivative is on the left."""
    return next(f.args[0] for f in equation.lhs.args if isinstance(f, sp.Derivative))


def evaluated(expression, numbers):
    symbols = sorted(expression.free_symbols, key=str)
    return sp.lambdify(symbols, expression)(*(numbers[x] for x in symbols))


def strength(r, k):
    """The name of the strength of a class."""
    return next((r.names[e] for e in r.classes[k] if e in r.names), f"B{k + 1}")


def check_velocity(r, seed=0):
    """The equations, with their numbers put in, against the gradient of the network itself.

    In a shared basis that is not exact the small network stands for it.
    """
    rng = np.random.default_rng(seed)
    shapes = [r.family.shape[members[0]] for members in r.classes]
    value = [rng.uniform(0.3, 1, s) * rng.choice([-1, 1], s) for s in shapes]
    b = {e: v for members, v in zip(r.classes, value, strict=True) for e in members}
    if r.exact or r.basis != "shared":
        gradient = r.family.project(nr.gradient(r.task, r.lift(b)))
    else:
        gradient = nr.gradient(r.family.small, b)
    true = []
    for members, v in zip(r.classes, value, strict=True):
        scale, decay = r.rates.of(members[0])
        true.append(-scale * (np.mean([gradient[m] for m in members], axis=0) + decay * v))
    largest = max(np.abs(v).max() for v in true)
    for merge in (False, True):
        equations = r.equations(merge=merge)
        numbers = r.statistics(merge=merge) | r.parameters()
        for k, (equation, v) in enumerate(zip(equations, value, strict=True)):
            column = v if v.ndim == 2 else v[:, None]
            numbers |= {sp.Symbol(strength(r, k)): v}
            numbers |= {sp.MatrixSymbol(strength(r, k), *column.shape): column}
            assert variable(equation).name == strength(r, k)
        for equation, here in zip(equations, true, strict=True):
            found = evaluated(equation.rhs, numbers)
            found = found[:, 0] if np.ndim(found) > np.ndim(here) else found  # of a vector, a column
            np.testing.assert_allclose(found, here, atol=1e-9 * largest)
    for mode in range(r.n_modes if r.form == "numbers" else 0):
        numbers = {sp.Symbol(strength(r, k)): v[mode] for k, v in enumerate(value)}
        for equation, here in zip(r.equations(mode), true, strict=True):
            found = evaluated(equation.rhs, numbers)
            np.testing.assert_allclose(found, here[mode], atol=1e-9 * largest)


@pytest.mark.parametrize(
    ("task", "basis", "rates", "form"),
    [
        (nr.tasks.routing(3, 2, hidden=(6, 5)), "shared", RATES, "numbers"),
        (nr.tasks.sharing(4, 2, hidden=(5, 5)), "pathwise", nr.Rates(decay=0.1), "numbers"),
        (cross_correlated(), "shared", nr.Rates(scale={"b->y": 0.5}), "numbers"),
        (overlapping(), "pathwise", None, "vectors"),
        (
            overlapping(),
            "pathwise",
            nr.Rates(scale={"x->p0h1": 0.5, "p0h1->y": 0.0}, decay=0.2),
            "vectors",
        ),
        (overlapping(7), "pathwise", nr.Rates(scale={"x->p0h1": 0.5}, decay=0.2), "vectors"),
        (nr.tasks.contexts(3, gating="shared", hidden=12), "pathwise", None, "vectors"),
        (nr.tasks.contexts(3, gating="shared", hidden=12), "block", None, "matrices"),
        (nr.tasks.routing(3, 2, hidden=(6, 5)), "block", RATES, "matrices"),
        (skip(), "block", nr.Rates(decay={"h1->h2": 0.3}, scale={"h1->y": 0.0}), "matrices"),
        (skip((1, 1, 1), (1, 1, 1)), "block", None, "matrices"),
        (dense(4), "block", None, "matrices"),
        (residual(), "shared", nr.Rates(decay=0.1), "numbers"),
        (residual(), "block", None, "matrices"),
    ],
)
def test_equations_are_the_velocity(task, basis, rates, form):
    r = nr.reduce(task, basis, rates=rates)
    assert r.form == form
    assert all(isinstance(variable(eq), sp.Symbol) == (form == "numbers") for eq in r.equations())
    check_velocity(r)


def random_reductions(graph, seed, fixed):
    """Reductions of a random task in all bases, with names, decay and learning rates."""
    rng = np.random.default_rng(seed)
    graph = grown(graph, 2)
    graph = some_fixed(graph, rng) if fixed else graph
    inputs, targets, gates, weights = data(graph, rng, n=40)
    gates[next(iter(graph.edges))] = np.ones(40)
    task = nr.Task(graph, inputs, targets, gates, weights)
    for basis in ("shared", "block") if fixed else ("shared", "pathwise", "block"):
        with contextlib.suppress(nr.errors.NothingToReduceError):
            yield nr.reduce(task, basis, rates=drawn_rates(graph, rng), names={next(iter(graph.shapes)): "T"})
    if not fixed:
        yield reduced(diagonalisable(graph, rng, 2), "shared")


@few
@given(graphs(inputs=2, outputs=2, depth=4), seeds, st.booleans())
def test_equations_of_random_networks(graph, seed, fixed):
    """All bases; edges between the same nodes, real gates, fixed edges, decay and learning rates."""
    for r in random_reductions(graph, seed, fixed):
        check_velocity(r, seed)


def test_a_class_that_is_twice_on_a_path():
    """Both terms of the product rule, as matrices and as numbers."""
    task = nr.Task.from_moments(nr.Graph.chain([1, 1, 1, 1]), [{"sxx": [[1.0]], "syx": [[2.0]]}])
    for basis in ("block", "shared"):
        r = nr.reduce(task, basis)
        assert r.n_classes == 1
        check_velocity(r)


# -- which statistics have symbols of their own ----------------------------------------------


def modalities(sigma=(2.0, 1.0), rho=0.5, target=(1.0, 1.0)):
    """Two inputs with pathways of their own to one output, the weighted sum of both."""
    (a, b), (ya, yb), cross = sigma, target, rho * sigma[0] * sigma[1]
    graph = nr.Graph(
        {"a": 1, "b": 1, "h": 4, "k": 4, "y": 1}, [("a", "h"), ("h", "y"), ("b", "k"), ("k", "y")]
    )
    sxx = {("a", "a"): [[a**2]], ("b", "b"): [[b**2]], ("a", "b"): [[cross]]}
    syx = {("y", "a"): [[ya * a**2 + yb * cross]], ("y", "b"): [[yb * b**2 + ya * cross]]}
    return nr.reduce(nr.Task.from_moments(graph, [{"sxx": sxx, "syx": syx}]))


def written(r, **options):
    return [str(equation.rhs) for equation in r.equations(**options)]


def test_numbers_that_coincide_keep_their_symbols():
    r = modalities()  # the correlation of the inputs is the variance of the second, both 1
    assert written(r) == ["B1*(-B1**2*D11 - B2**2*D12 + S1)", "B2*(-B1**2*D12 - B2**2*D22 + S2)"]
    assert written(r, merge=True) == ["B1*(-B1**2*D11 - B2**2*D12 + S1)", "B2*(-D12*(B1**2 + B2**2) + S2)"]
    assert r.latex(merge=True) != r.latex() == modalities((2.0, 1.3), 0.4).latex()
    assert {*map(str, r.statistics())} - {*map(str, r.statistics(merge=True))} == {"D22"}
    np.testing.assert_allclose([r.statistics()[f"D{k}"][0] for k in (11, 12, 21, 22)], [4, 1, 1, 1])


def test_numbers_that_vanish_keep_their_symbols():
    r = modalities((2.0, 1.5), rho=0.0)  # uncorrelated inputs
    assert written(r) == written(modalities())
    assert abs(r.statistics()["D12"]) < 1e-12
    assert written(r, merge=True) == ["B1*(-B1**2*D11 + S1)", "B2*(-B2**2*D22 + S2)"]
    r = modalities(target=(1.0, -1.0))  # the second input is uncorrelated with the output
    assert written(r) == written(modalities())
    assert abs(r.statistics()["S2"]) < 1e-12
    assert written(r, merge=True)[1] == "-B2*D12*(B1**2 + B2**2)"


def test_small_inputs_with_large_targets_count():
    r = modalities((1.0, 1e-5), rho=0.0, target=(1.0, 1e3))  # the variance vanishes beside that of the first
    assert written(r) == written(modalities())
    np.testing.assert_allclose([r.statistics()[name][0] for name in ("S2", "D22")], [1e-7, 1e-10])


def test_what_vanishes_or_is_equal_whatever_the_data():
    x, y = np.random.default_rng(0).normal(size=(2, 6, 3))
    apart = nr.reduce(nr.tasks.gated(x, y, [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], hidden=3), "shared")
    assert written(apart) == ["B1*(-B1**2*D11 + S1)", "B2*(-B2**2*D22 + S2)"]  # never open together
    with pytest.raises(KeyError, match="D12: there are S1, S2, D11, D22"):
        apart.statistics()["D12"]
    inside = [[1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1]]
    r = nr.reduce(nr.tasks.gated(x, y, inside, hidden=3), "shared")  # where the second is open both are
    assert written(r)[1] == "B2*(-D12*(B1**2 + B2**2) + S2)"
    np.testing.assert_array_equal(r.statistics()["D22"], r.statistics()["D12"])
    half = nr.reduce(nr.tasks.gated(x, y, [inside[0], np.multiply(inside[1], 0.5)], hidden=3), "shared")
    assert written(half)[1] == "B2*(-B1**2*D12 - B2**2*D22 + S2)"
    assert {*map(str, nr.reduce(dense(4)).statistics())} == {"Syx", "Sxx"}  # no gates


@few
@given(graphs(inputs=2, outputs=2, depth=4), seeds)
def test_equations_depend_on_graph_and_gates_alone(graph, seed):
    """Other data, of full rank, have the same equations in blocks; merged ones have no more symbols."""
    rng = np.random.default_rng(seed)
    graph = grown(graph, 2)
    _, _, gates, weights = data(graph, rng, n=40)
    texts = []
    for _ in range(2):
        inputs = {x: rng.normal(size=(40, graph.nodes[x])) for x in graph.inputs}
        targets = {y: rng.normal(size=(40, graph.nodes[y])) for y in graph.outputs}
        task = nr.Task(graph, inputs, targets, gates, weights)
        try:
            r = nr.reduce(task, "block", ties={e: float(k) for k, e in enumerate(graph.shapes)})
        except nr.errors.NothingToReduceError:
            reject()
        texts.append(written(r))
        assert len(r.statistics(merge=True)) <= len(r.statistics())
    assert texts[0] == texts[1]


def test_statistics_are_those_of_the_paths():
    """Sums over listed paths, of the task itself in the frames of the family."""
    task = skip()
    r = nr.reduce(task, "block")
    assert all(len(members) == 1 for members in r.classes)
    long, short = ("x->h1", "h1->h2", "h2->y"), ("x->h1", "h1->y")
    q, u = r.family.right["x->h1"], r.family.left["h2->y"]
    expected = {
        "Syx1": u.T @ task.syx(long) @ q,
        "Syx2": u.T @ task.syx(short) @ q,
        "Sxx11": q.T @ task.sxx(long, long) @ q,
        "Sxx12": q.T @ task.sxx(long, short) @ q,
    }
    assert {*map(str, r.statistics())} == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(r.statistics()[name], value, atol=1e-12)
    np.testing.assert_allclose(r.statistics()["Sxx22"], q.T @ task.sxx(short, short) @ q, atol=1e-12)


def test_statistics_of_classes_are_sums_over_paths():
    task = nr.tasks.routing(3, 2, hidden=(6, 5))
    r = nr.reduce(task, "block")
    small, paths = r.family.small, task.graph.paths()
    syx = sum(small.syx(p) for p in paths)
    sxx = sum(small.sxx(j, p) for j in paths for p in paths if j[-1] == p[-1])
    assert {*map(str, r.statistics())} == {"Syx", "Sxx"}  # one class of paths
    np.testing.assert_allclose(r.statistics()["Syx"], syx, atol=1e-12)
    np.testing.assert_allclose(r.statistics()["Sxx"], sxx, atol=1e-12)


def test_symbols_are_numbered_by_classes_of_paths():
    r = nr.reduce(nr.tasks.contexts(3, gating="shared", hidden=12), "shared")
    assert [len(set(members)) for members in r.classes] == [2, 2, 2, 2]
    pairs = ("11", "12", "13", "14", "22", "23", "24", "33", "34", "44")
    assert [*map(str, r.statistics())] == [*(f"S{k}" for k in range(1, 5)), *(f"D{n}" for n in pairs)]
    b, s, d = sp.symbols("B1:5"), sp.symbols("S1:5"), {n: sp.Symbol(f"D{n}") for n in pairs}
    one, two = (eq.rhs for eq in r.equations(merge=True)[:2])
    assert one.equals(b[0] * (s[0] - sum(b[k] ** 2 * d[f"1{k + 1}"] for k in range(4))))
    rest = (b[2] ** 2 + b[3] ** 2) * d["23"]  # equal statistics share the symbol of the first
    assert two.equals(b[1] * (s[1] - b[0] ** 2 * d["12"] - b[1] ** 2 * d["22"] - rest))


def test_coupled_modes_are_vectors():
    r = nr.reduce(overlapping(), "pathwise")
    assert [variable(eq).shape for eq in r.equations()] == [(2, 1)] * 2
    assert {v.shape for v in r.statistics().values()} == {(2, 1), (2, 2)}
    own, other = r.statistics()["D11"], r.statistics()["D12"]
    assert np.abs(own - np.diag(np.diagonal(own))).max() < 1e-12  # modes of one pathway are apart
    assert np.abs(other - np.diag(np.diagonal(other))).max() > 1e-2
    np.testing.assert_array_equal(r.statistics()["D21"], other.T)
    first, second = r.equations()[0].rhs.as_explicit()  # one by one
    assert {*map(str, first.free_symbols)} == {*map(str, second.free_symbols)}
    with pytest.raises(nr.errors.InputError, match="mode must be None for vectors, got 0"):
        r.equations(mode=0)


def test_numbers_go_by_name():
    r = nr.reduce(skip(), "block", rates=nr.Rates(decay=0.1))
    for numbers in (r.statistics(), r.parameters()):
        assert all(numbers[symbol.name] is value for symbol, value in numbers.items())
    assert r.parameters()["lambda"] == 0.1
    with pytest.raises(KeyError, match="S1: there are Syx1, Syx2, Sxx11"):
        r.statistics()["S1"]


# -- names of the user's choice --------------------------------------------------------------


def test_names_stand_everywhere():
    task = nr.tasks.routing(3, 2, hidden=(6, 5))
    plain = nr.reduce(task)
    r = nr.reduce(task, names={"h1->h2": "trunk", "x1->h1": "W_in"})
    trunk, w = sp.symbols("trunk W_in")
    renamed = {sp.Symbol("B1"): w, sp.Symbol("B2"): trunk}
    assert [variable(eq) for eq in r.equations()] == [w, trunk]
    assert all(
        mine.rhs.equals(eq.rhs.subs(renamed))
        for mine, eq in zip(r.equations(), plain.equations(), strict=True)
    )
    assert [law.subs(renamed) for law in plain.conserved()] == r.conserved()
    assert r"W_{\text{in}}^{2} \operatorname{trunk} D" in r.latex()
    assert r"$\operatorname{trunk}$ is the strength of $\text{h1} \to \text{h2}$." in r.definitions()
    assert "B" not in r.latex().replace("Big", "")
    blocks = nr.reduce(skip(), "block", names={"h1->h2": "T"})
    assert {s for eq in blocks.equations() for s in map(str, eq.rhs.free_symbols)} >= {"B1", "T", "B3", "B4"}
    assert any("T*T.T" in str(law) for law in blocks.conserved())
    assert r.solve(0.1, t1=1.0, save=2).reduction.names == r.names
    wide = nr.reduce(task, "shared", directions=2, names={"h1->h2[1][1]": "T"})
    assert "T" in {variable(eq).name for eq in wide.equations()}


def test_statistics_take_names_too():
    task = two_gated()
    plain, r = nr.reduce(task), nr.reduce(task, names={"S": "Gamma", "D": "Q", "x->p0h1": "W_a"})
    assert {str(s) for s in r.statistics()} == {
        str(s).replace("S", "Gamma").replace("D", "Q") for s in plain.statistics()
    }
    assert np.array_equal(r.statistics()["Gamma1"], plain.statistics()["S1"])
    assert r"\Gamma_{1} - " in r.latex()
    assert "W_{a}" in r.latex()
    check_definitions(r)
    blocks = nr.reduce(skip(), "block", names={"Syx": "Gamma"})
    assert r"\left(\Gamma_{1} - B_{3} B_{2} B_{1} \Sigma^{xx}_{11}" in blocks.latex()
    odd = nr.Graph({"x": 2, "h": 2, "y": 2}, {"S": ("x", "h"), "D": ("h", "y")})
    named = nr.reduce(nr.tasks.linear(np.eye(2), graph=odd), names={"S": "W"})
    assert [variable(eq).name for eq in named.equations()] == ["W"]
    assert {str(s)[0] for s in named.statistics()} == {"S", "D"}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("T", "names must be a dict from edges to symbols"),
        ({"trunk": "T"}, "'trunk', which is no edge that learns, nor S or D; there are x0->h1"),
        ({"Syx": "T"}, "'Syx', which is no edge that learns, nor S or D"),
        ({"x0->h1": "T", "x1->h1": "U"}, "'x0->h1' and 'x1->h1' must not have the same class of edges"),
        ({"x0->h1": "T", "h1->h2": "T"}, "'x0->h1' and 'h1->h2' must not have the same symbol"),
        ({"x0->h1": "W_1", "h1->h2": "W1"}, "must not have the same symbol"),
        (
            {"x0->h1": "2T"},
            r"names\['x0->h1'\] must be a letter with digits or _ and a subscript.*; got '2T'",
        ),
        ({"x0->h1": "W_{a}"}, "must be a letter with"),
        ({"x0->h1": r"\alpha"}, 'must be a letter with .*"alpha"'),
        ({"x0->h1": "W__a"}, "must be a letter with"),
        ({"S": "W_a"}, r"names\['S'\] must be letters, which numbers follow.*; got 'W_a'"),
        ({"S": "Q", "D": "Q"}, r"names\['D'\] must be no symbol that equations have anyway, got 'Q'"),
        ({"x0->h1": "Q1", "S": "Q"}, r"names\['x0->h1'\] must be no symbol that equations have anyway"),
        *(({"S": taken}, "must be no symbol that") for taken in ("B", "P", "D", "tau", "L", "Sigma")),
        ({"x0->h1": ""}, "must be a letter with"),
        ({"x0->h1": 3}, "must be a letter with"),
        ({"x0->h1": "a b"}, "must be a letter with"),
        *(
            ({"x0->h1": taken}, f"must be no symbol that equations have anyway, got '{taken}'")
            for taken in (
                "S",
                "D12",
                "t",
                "tau",
                "eta",
                "lambda2",
                "Sxx",
                "B2",
                "B1_1",
                "C",
                "Sigma",
                "P1",
                "L",
            )
        ),
    ],
)
def test_names_that_are_refused(names, message):
    with pytest.raises(nr.errors.InputError, match=message):
        nr.reduce(nr.tasks.routing(3, 2, hidden=(6, 5)), names=names)


# -- definitions -----------------------------------------------------------------------------


def paths_by_product(r):
    """Paths of the family by the product of their strengths as it is written, with a factor of each mode."""
    family, matrices = r.family, r.form == "matrices"
    graph, class_of = family.graph, {e: k for k, members in enumerate(r.classes) for e in members}
    fixed = {e: family.left[e].T @ w @ family.right[e] for e, w in graph.fixed.items()}
    names = [in_latex(sp.Symbol(strength(r, k))) for k in range(r.n_classes)]
    if matrices:
        hidden = [e for e in fixed if graph.edges[e][1] not in graph.outputs]
        unit = {
            e
            for e in hidden
            if fixed[e].shape[0] == fixed[e].shape[1] and np.allclose(fixed[e], np.eye(len(fixed[e])))
        }
        constants = [e for e, w in fixed.items() if w.any() and e not in unit]
        class_of |= {e: len(names) + k for k, e in enumerate(constants)}
        names += ["C"] if len(constants) == 1 else [f"C_{{{k + 1}}}" for k in range(len(constants))]
    circle = r"\circ " if r.form == "vectors" else ""
    found = {}
    for path in graph.paths():
        word, factor = [class_of[e] for e in path if e in class_of], np.ones(r.n_modes)
        for e in () if matrices else path:
            factor = factor * family.left[e].any(axis=0) * family.right[e].any(axis=0)  # layers may be narrow
            factor = factor * (np.diagonal(fixed[e]) if e in fixed else 1.0)
            factor = factor * sign(r, e)
        powers = [(k, word.count(k)) for k in sorted({*word})]
        text = f" {circle}".join(names[k] + f"^{{{circle}{n}}}" * (n > 1) for k, n in powers)
        text = " ".join(names[k] for k in word[::-1]) if matrices else text
        if all(fixed[e].any() for e in path if e in fixed):
            found.setdefault(text or "1", []).append((path, factor))
    return found


def sign(r, edge):
    """Of a part of an edge; frames have it too."""
    split = r.family.split
    return 1 if split is None else split.sign(*split.edge_of[edge])


def sum_s(r, paths):
    """s(P), one path of the task after the other."""
    total = 0.0
    for path, factor in paths:
        u, v = sign(r, path[-1]) * r.family.left[path[-1]], r.family.right[path[0]]
        inner = u.T @ r.task.syx([r.family.edge_of(e) for e in path]) @ v
        total = total + (inner if r.form == "matrices" else np.diagonal(inner) * factor)
    return total[:, None] if r.form == "vectors" else total


def sum_d(r, paths, others):
    """d(P, Q), likewise."""
    total, graph = 0.0, r.family.graph
    for (j, f), (p, g) in product(paths, others):
        if graph.edges[j[-1]][1] == graph.edges[p[-1]][1]:
            of_j, of_p = ([r.family.edge_of(e) for e in path] for path in (j, p))
            inner = r.family.right[j[0]].T @ r.task.sxx(of_j, of_p) @ r.family.right[p[0]]
            if r.basis == "pathwise":
                inner = inner * (r.family.left[j[-1]].T @ r.family.left[p[-1]])
            inner = inner if r.form == "matrices" else inner * f[:, None] * g
            total = total + (np.diagonal(inner) if r.form == "numbers" else inner)
    return total


def check_definitions(r):
    """What each definition says, of the paths of the task themselves, against the number of its symbol."""
    lines, paths = r.definitions(), paths_by_product(r)
    sets = {}
    for line in lines:
        if " are the paths with the product " in line:
            name, text = re.findall(r"\$(.*?)\$", line)
            sets[name] = paths[text]
    statistics = {in_latex(symbol): v for symbol, v in r.statistics().items() if symbol.name[0] in "SDGQ"}
    scale = max((np.abs(v).max() for v in statistics.values()), default=1.0)
    defined = set()
    for line in lines:
        found = re.fullmatch(
            r"\$(\S+) = ([sd]\(.*\))(?: \\in \\mathbb\{R\}\^\{(.*)\})?\.", line.replace("$.", ".")
        )
        if found is None:
            continue
        name, equal, size = found.groups()
        defined.add(name)
        for text in equal.split(" = "):
            of = [sets[x] for x in text[2:-1].split(", ")]
            value = sum_s(r, *of) if text[0] == "s" else sum_d(r, *of)
            np.testing.assert_allclose(statistics[name], value, atol=1e-9 * scale)
        shape = () if size is None else tuple(map(int, size.split(r" \times ")))
        assert shape == (
            () if r.form == "numbers" else tuple(n for n in value.shape if n > 1 or shape.count(1))
        )
    assert defined == statistics.keys()
    told = [line for line in lines if " is the strength of " in line]
    assert len(told) == r.n_classes
    for members, line in zip(r.classes, told, strict=True):
        assert line.endswith(" of " + ", ".join(f"${edges([e])}$" for e in members) + ".")


@few
@given(graphs(inputs=2, outputs=2, depth=4), seeds, st.booleans())
def test_definitions_say_what_the_numbers_are(graph, seed, fixed):
    for r in random_reductions(graph, seed, fixed):
        check_definitions(r)


@pytest.mark.parametrize(
    ("task", "options"),
    [
        (nr.tasks.routing(3, 2, hidden=(2, 5)), {}),  # a layer that is too narrow for two modes
        (nr.tasks.routing(3, 2, hidden=(2, 5)), {"directions": 2}),
        (nr.tasks.hierarchy(3, graph=nr.Graph.chain([4, 3, 20, 7])), {"directions": 2}),
        (overlapping(), {"basis": "pathwise"}),
        (nr.tasks.sharing(4, 2, hidden=(5, 5)), {"basis": "pathwise"}),
        (residual(), {}),
        (residual(2.0), {"basis": "block"}),
        (skip(), {"basis": "block"}),
    ],
)
def test_definitions(task, options):
    check_definitions(nr.reduce(task, **options))


def test_definitions_in_full():
    r = nr.reduce(nr.tasks.routing(3, 2, hidden=(6, 5)), names={"h1->h2": "T"})
    assert r.definitions() == [
        r"In each mode (4 in all) the weights of an edge of strength $B$ are $B\, l r^T$, with directions "
        r"$l$ and $r$ at its ends that are orthonormal over modes.",
        r"At the output and at the input of a path $p$ these are $u_{p}$ and $v_{p}$: columns of "
        "r.family.left and r.family.right of its last and its first edge.",
        r"$x_p$ is its input, $y_p$ the target at its output, and $g_p$ the product along it of the gates.",
        r"$s(P) = \sum_{p \in P} u_{p}^T \langle g_p\, y_p x_p^T \rangle v_{p}$ and $d(P, Q) = "
        r"\sum_{j \in P,\, p \in Q} v_{j}^T \langle g_j g_p\, x_j x_p^T \rangle v_{p}$, over pairs that end "
        r"at one output; $\langle \cdot \rangle$ is the mean over samples.",
        r"$\tau$ is the time constant of gradient flow on the mean loss.",
        r"$P_{1}$ are the paths with the product $B_{1}^{2} T$.",
        r"$B_{1}$ is the strength of $\text{x0} \to \text{h1}$, $\text{x1} \to \text{h1}$, "
        r"$\text{x2} \to \text{h1}$, $\text{h2} \to \text{y0}$, $\text{h2} \to \text{y1}$, "
        r"$\text{h2} \to \text{y2}$.",
        r"$T$ is the strength of $\text{h1} \to \text{h2}$.",
        r"$S = s(P_{1})$.",
        r"$D = d(P_{1}, P_{1})$.",
    ]


@pytest.mark.parametrize(
    ("task", "options", "sums", "factors"),
    [
        (
            overlapping(), {"basis": "pathwise"},
            r"$d_{mn}(P, Q) = \sum_{j \in P,\, p \in Q} (u_{jm}^T u_{pn})\, v_{jm}^T \langle", "the gates.",
        ),
        (nr.tasks.xor(), {}, r"p \in Q} (u_{j}^T u_{p})\, v_{j}^T \langle g_j g_p\, x_j", "the gates."),
        (skip(), {"basis": "block"}, r"$s(P) = \sum_{p \in P} U_{p}^T \langle g_p\, y_p x_p^T", "the gates."),
        (residual(), {}, r"p \in Q} v_{j}^T \langle", "the gates and the fixed weights."),
        (
            nr.tasks.routing(3, 2, hidden=(2, 5)), {"directions": 2}, r"p \in Q} v_{j}^T \langle",
            "the gates and the signs of parts of layers (0 in modes that a layer on it lacks).",
        ),
    ],
)  # fmt: skip
def test_sums_over_paths_are_told_for_each_form(task, options, sums, factors):
    lines = nr.reduce(task, **options).definitions()
    assert sum(sums in line for line in lines) == 1
    assert sum(line.endswith(f"the product along it of {factors}") for line in lines) == 1


def test_definitions_of_learning_rates_and_fixed_weights():
    r = nr.reduce(residual(2.0), "block", rates=nr.Rates(decay={"x->h1": 0.25}, scale={"h2->y": 0.5}))
    assert r.definitions()[-2:] == [
        r"$\eta = 0.5$ is the learning rate of $\text{h2} \to \text{y}$.",
        r"$\lambda = 0.25$ is the weight decay of $\text{x} \to \text{h1}$.",
    ]
    assert (
        r"$C \in \mathbb{R}^{4 \times 4}$ is the fixed weights of $\text{x} \to \text{h2}$."
        in r.definitions()
    )


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


def test_numbers_of_a_mode_are_decimals_and_a_factor_of_one_is_not_written():
    r = nr.reduce(two_gated())
    for mode in range(r.n_modes):
        lines = r.latex(mode).replace(r"\frac{d}{dt}", "")
        assert not re.search(r"(?<![\d.])1 [a-zA-Z\\]", lines)
        assert "frac" not in lines
        assert "2.29" in lines or mode
    tied = nr.reduce(nr.tasks.routing(3, 2, hidden=(6, 5)))
    assert r"\frac{1}{3} B_{1} B_{2}" in tied.latex(0)  # 1/n of a class is no number of the data


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
        (-3.0000000000000004, "- 3"),
        (0.25, "0.25"),
        (1 / 3, "0.333"),
        (-55 / 24, "- 2.29"),
        (np.sqrt(2) / 4, "0.354"),
        (0.30000000000000004, "0.3"),
        (1234.5678, r"1.23 \cdot 10^{3}"),
        (1000.0, "1000"),
        (12345.0, "12345"),
        (1.2345e-7, r"1.23 \cdot 10^{-7}"),
        (-6.02214e23, r"- 6.02 \cdot 10^{23}"),
    ],
)
def test_numbers_are_rounded_as_a_person_would(value, text):
    assert rounded(value) == text


# -- what is said, and where there are no equations ------------------------------------------


def test_a_notebook_shows_whether_the_equations_are_exact():
    r = nr.reduce(skip(), "block")
    first, *definitions, _ = r._repr_latex_().split("\n\n")
    assert first == f"$\\displaystyle {r.latex()}$"
    assert definitions == r.definitions()
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
    with pytest.raises(
        nr.errors.InputError, match="more than 5,000 terms: the 1,024 paths are of more than 400"
    ):
        nr.reduce(task, "block").equations()


def test_blocks_have_no_modes():
    with pytest.raises(nr.errors.InputError, match="mode must be None for matrices, got 0"):
        nr.reduce(skip(), "block").equations(mode=0)
    with pytest.raises(nr.errors.InputError, match="mode must be between 0 and 2, got 4"):
        nr.reduce(residual()).equations(mode=4)
    with pytest.raises(nr.errors.InputError, match="merge must be True or False, got 1"):
        nr.reduce(skip(), "block").equations(merge=1)


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
    sol = r.solve(strengths=b, t1=5.0, save=4)
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
