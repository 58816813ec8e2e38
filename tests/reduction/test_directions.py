"""Families with several hidden directions per mode: certificates, ties, laws, and the flow itself."""

import numpy as np
import pytest

import neuralrace as nr

DIAGONAL = np.diag([1.0, -2.0]) * np.sqrt(2)


def chain(layers, width=20):
    graph = nr.Graph.chain([2, *[width] * (layers - 1), 2])
    return nr.Task(graph, np.eye(2) * np.sqrt(2), DIAGONAL)


def signed_routing(rank, hidden, domains=4):
    """Routing in which some pairs of domains want the opposite sign; the matrix of signs has this rank."""
    rng = np.random.default_rng(0)
    signs = np.zeros((domains, domains))
    while np.linalg.matrix_rank(signs) != rank:
        signs = rng.choice([-1.0, 1.0], (domains, domains))
    graph, pairs = nr.Graph.routing(domains, 1, hidden, 1), list(np.ndindex(domains, domains))
    on = {f"x{k}": [float(i == k) for i, _ in pairs] for k in range(domains)}
    on |= {f"y{k}": [float(j == k) for _, j in pairs] for k in range(domains)}
    targets = {f"y{k}": [[signs[j, i] * (j == k)] for i, j in pairs] for k in range(domains)}
    return nr.Task(graph, {x: np.ones((len(pairs), 1)) for x in graph.inputs}, targets, gates=on)


@pytest.mark.parametrize(("layers", "classes"), [(2, 2), (3, 5), (4, 6)])
def test_the_family_is_closed_and_tied_up_to_signs(layers, classes):
    r = nr.reduce(chain(layers), directions=2)
    assert (r.residual, r.n_classes, r.directions) == (pytest.approx(0, abs=1e-12), classes, 2)
    if layers == 3:  # in and out, up to Sigma; two diagonal numbers between, and one off it
        assert ("h1->h2[2][1]", "h1->h2[1][2]") in r.classes
    sol = r.solve(0.15, t1=30.0, save=20)
    assert sol.residual < 1e-12
    w = nr.init.decoupled(r, 0.15)
    assert r.distance(w) < 1e-12
    run = nr.flow(r.task, w, t1=30.0, save=20)
    assert np.abs(run.loss - sol.loss).max() < 1e-6
    assert all(np.abs(run.weights[e] - sol.weights[e]).max() < 1e-5 for e in r.task.graph.edges)


@pytest.mark.parametrize("layers", [2, 3, 4])
def test_conserved_quantities(layers):
    r = nr.reduce(chain(layers), directions=2)
    b0 = {e: 0.2 * v for e, v in r.family.start.items()}
    b0 = {e: v * (1 + 0.1 * k) for k, (e, v) in enumerate(b0.items())}
    sol = r.solve(strengths=b0, t1=20.0, save=30)
    laws = sol.reduction.conserved()
    assert laws
    for law in laws:
        names = sorted(law.free_symbols, key=str)
        values = [sol.source.b[sol.reduction.classes[int(str(n)[1:]) - 1][0]] for n in names]
        kept = np.array([[float(law.subs(dict(zip(names, v, strict=True)))) for v in zip(*row, strict=True)]
                         for row in zip(*values, strict=True)])  # fmt: skip
        assert np.ptp(kept, axis=0).max() < 1e-7


def test_equations_hold_along_the_solution():
    r = nr.reduce(chain(3), directions=2)
    rng = np.random.default_rng(0)
    of_class = [rng.uniform(-1, 1, 2) for _ in r.classes]
    b = {e: v for members, v in zip(r.classes, of_class, strict=True) for e in members}
    velocity, numbers = r.velocity(b), r.statistics()
    for equation, members in zip(r.equations(), r.classes, strict=True):
        for mode in (0, 1):
            known = {s: v[mode] for s, v in numbers.items()}
            known |= {f"B{k + 1}": v[mode] for k, v in enumerate(of_class)}
            assert float(equation.rhs.subs(known)) == pytest.approx(velocity[members[0]][mode])


@pytest.mark.parametrize("rank", [2, 3, 4])
@pytest.mark.parametrize("hidden", [(32,), (32, 32)], ids=["two layers", "three layers"])
def test_routing_with_random_signs(rank, hidden):
    r = nr.reduce(signed_routing(rank, hidden))
    assert r.solve(0.1, t1=3000.0).status is nr.Status.SADDLE
    wide = r.widened()
    assert wide.directions == (2 if rank == 2 else 4)
    assert wide.residual < 1e-8
    assert wide.solve(0.1, t1=3000.0, save=5).status is nr.Status.FINISHED


def test_the_reduced_system_for_jax_is_that_family():
    r = nr.reduce(chain(2), directions=2)
    system = r.to_jax(strength=0.1)
    losses, _ = system.solve(system.strengths, system.statistics, system.gates, [0.0, 5.0])
    assert losses == pytest.approx(r.solve(0.1, t1=5.0, save=2).loss, rel=1e-6)


def test_rates_of_the_network_are_those_of_its_parts():
    rates = nr.Rates(decay={"x->h1": 0.1}, scale={"h1->y": 2.0})
    r = nr.reduce(chain(2), rates=rates, directions=2)
    sol = r.solve(0.1, t1=5.0, save=4)
    run = nr.flow(r.task, nr.init.decoupled(r, 0.1), t1=5.0, save=4, rates=rates)
    assert np.abs(sol.loss - run.loss).max() < 1e-7


def test_strength_of_gaussian_weights():
    """One number for all edges of a pathway; networks of two layers, and the blow-up of deeper chains."""
    r = nr.reduce(nr.tasks.hierarchy(3, graph=nr.Graph.chain([4, 50, 7])))
    assert r.strength([0.01, 0.1]) == pytest.approx([0.05, 0.5])
    graph = nr.Graph.pathways(1, 1, [[8], [32]])
    task = nr.Task(graph, [[1.0], [1.0]], [[1.0], [0.5]], gates={"p0h1": [1, 0], "p1h1": [0, 1]})
    each = nr.reduce(task).strength(1.0)
    assert each == pytest.approx({"x->p0h1": 2.0, "p0h1->y": 2.0, "x->p1h1": 4.0, "p1h1->y": 4.0})
    for layers, std, t1 in ((3, 0.02, 60.0), (4, 0.05, 80.0)):
        task = nr.Task(nr.Graph.chain([1, *[40] * (layers - 1), 1]), [[1.0]], [[1.0]])
        w = nr.init.gaussian(task.graph, std, seed=range(20))
        networks = np.median(nr.learning_time(nr.flow(task, w, t1=t1), 0.25))
        for directions in (1, 2):
            r = nr.reduce(task, directions=directions)
            time = nr.learning_time(r.solve(r.strength(std), t1=t1), 0.25)
            assert time == pytest.approx(networks, rel=0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nr.reduce(chain(2), directions=0), "directions must be"),
        (lambda: nr.reduce(chain(2), "block", directions=2), "directions must be 1 for blocks"),
        (lambda: nr.reduce(chain(2), "block").widened(), "no wider family"),
        (lambda: nr.reduce(chain(2)).strength(-1.0), "std must be"),
        (lambda: nr.reduce(chain(2)).solve({"x->h1": 0.1}, t1=1.0), "strengths must name every edge"),
        (lambda: nr.reduce(chain(2)).solve({"a": 0.1}, t1=1.0), "strength"),
        (
            lambda: nr.reduce(chain(2), directions=2, weights=nr.init.gaussian(chain(2).graph, 0.1)),
            "directions",
        ),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(nr.errors.InputError, match=message):
        call()
