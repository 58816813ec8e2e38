import jax
import numpy as np
import pytest

import neuralrace as nr
from neuralrace.experiments import initialisation, sharing
from neuralrace.measure import crossing, plateau_share


@pytest.mark.whole
def test_sharing_experiment(tmp_path):
    small = {"domains": 4, "groups": (1, 2), "hidden": 8, "trained": (2,), "depths": (1, 2)}
    small = {**small, "t1": 240.0, "long": 20.0, "starts": (1e-6, 1e-2), "values": (1.0, 4.0)}
    report = nr.experiments.run("sharing", quick=True, out=tmp_path, changes=small)
    assert {name for name, _ in report.figures} == {"sharing-dynamics", "sharing-routes", "sharing-factors"}
    claims = {c.name: c for c in report.claims}
    assert claims["singular values, theory - decoupled start, all P"].holds
    for start in ("decoupled", "random"):
        assert claims[f"learning time, next P / this P, {start} start"].holds
    for name in ("chains", "shared edges"):
        assert next(c for n, c in claims.items() if f"{name}, |theory" in n).holds
    assert claims["learning time x 2s / log(s/a0 - 1), two layers"].holds
    assert claims["learning time, imbalanced / balanced"].holds
    assert (report.folder / "sharing-factors.svg").stat().st_size > 1000


def test_one_pathway_stands_for_all():
    """Groups share no weights, so each is a routing network whose clock runs (M / group)^2 slower."""
    keywords = {"hidden": (5, 5), "targets": sharing.TARGETS}
    whole, alone = nr.tasks.sharing(4, 2, **keywords), nr.tasks.routing(2, 2, **keywords)
    start = nr.init.orthogonal(alone.graph, 0.5, seed=0)
    names = {"x0": "x0", "x1": "x1", "g0.0h1": "h1", "g0.0h2": "h2", "y0": "y0", "y1": "y1"}
    part = {e: f"{names[s]}->{names[t]}" for e, (s, t) in whole.graph.edges.items() if {s, t} <= set(names)}
    weights = {**nr.init.orthogonal(whole.graph, 0.5, seed=1), **{e: start[k] for e, k in part.items()}}
    long, short = nr.flow(whole, weights, 20.0, 5), nr.flow(alone, start, 5.0, 5)
    for e, k in part.items():
        assert np.abs(long.weights[e] - short.weights[k]).max() < 1e-6


def test_threshold_is_where_the_error_stays_low():
    p = sharing.Sharing(trained=(1, 2, 3, 4, 10))
    error = np.array([2.0, 0.05, 0.3, 0.1, np.nan])
    assert sharing.threshold(p, error, 0.2) == 0.4
    assert sharing.threshold(p, error, 0.2, between=True) == pytest.approx(0.35)
    assert sharing.threshold(p, np.zeros(5), 0.1) == sharing.threshold(p, np.zeros(5), 0.1, True) == 0.1
    assert np.isnan(sharing.threshold(p, np.ones(5), 0.1))


@pytest.mark.whole
def test_initialisation_experiment(tmp_path):
    small = {"domains": 3, "trained": 2, "hidden": 24, "looks": (0.5,), "scales": (0.1, 2.0, 8.0)}
    small = {**small, "shown": small["scales"], "t1": 300.0}
    report = nr.experiments.run("initialisation", quick=True, out=tmp_path, changes=small)
    assert len(report.figures) == 3
    claims = {c.name: c.measured for c in report.claims}
    for name in (
        "share of time on plateaus",
        "cosine of an item on two domains",
        "turn of the tangent kernel",
    ):
        assert claims[f"{name}, sigma0 = 0.1"] > claims[f"{name}, sigma0 = 8"] + 0.2
    assert claims["learned outside the modes, sigma0 = 0.1"] < claims["learned outside the modes, sigma0 = 8"]
    assert claims["error on trained routes / silent network, all sigma0"] < 1e-5


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="groups must divide"):
        sharing.Sharing(groups=(3,))
    with pytest.raises(ValueError, match="shown must be three"):
        initialisation.Initialisation(shown=(0.05, 2.0, 7.0))


def test_crossing():
    assert crossing([0, 1, 2], [4, 2, 1], 3) == 0.5
    assert crossing([0, 1, 2], [4, 2, 1], 5) == 0
    assert np.isnan(crossing([0, 1, 2], [4, 2, 1], 0.5))


def test_plateau_share():
    t = np.linspace(0, 10, 1001)
    assert plateau_share(t, np.exp(-t) + 3 * np.exp(-4 * t)) == 0
    late = 1 / (1 + np.exp(10 * (t - 8)))  # one drop at t = 8
    assert plateau_share(t, late) == pytest.approx(0.8, abs=0.01)


# -- tangent kernel ----------------------------------------------------------------------------


def relu_task():
    rng = np.random.default_rng(0)
    graph = nr.Graph(
        {"x": 3, "h": 6, "y": 2}, [("x", "h"), ("h", "y")], activations={"h": "relu"}, biases=True
    )
    task = nr.Task(
        graph, rng.normal(size=(5, 3)), rng.normal(size=(5, 2)), sample_weight=rng.uniform(1, 2, 5)
    )
    return task, nr.init.gaussian(graph, 1.0, seed=1)


def test_kernel_of_samples_against_differences():
    task, w = relu_task()
    scale = np.sqrt(task.samples.share)[:, None]

    def outputs(flat):
        return (nr.predict(task, task.graph.unflatten(flat))["y"] * scale).ravel()

    flat = task.graph.flatten(w)
    steps = 1e-6 * np.eye(len(flat))
    slope = np.stack([(outputs(flat + e) - outputs(flat - e)) / 2e-6 for e in steps], axis=1)
    kernel = nr.tangent_kernel(task, w)
    assert np.abs(kernel - slope @ slope.T).max() < 1e-6
    r = (nr.predict(task, w)["y"] - task.arrays[1]) * scale
    descent = sum((g**2).sum() for g in nr.gradient(task, w).values())
    assert r.ravel() @ kernel @ r.ravel() == pytest.approx(descent, rel=1e-10)  # dL/dt


@pytest.mark.parametrize("samples", [True, False])
def test_kernel_of_linear_networks(samples):
    """Where the loss is least its Hessian is J^T J, which has the eigenvalues of the kernel J J^T."""
    rng = np.random.default_rng(0)
    graph = nr.Graph.routing(2, 3, (4, 4), 2)
    w = nr.init.gaussian(graph, 0.7, seed=3)
    if samples:
        x = {"x0": rng.normal(size=(9, 3)), "x1": rng.normal(size=(9, 3))}
        gates = {"x0": rng.integers(0, 2, 9), "x1": rng.integers(0, 2, 9)}
        blank = {o: np.zeros((9, 2)) for o in graph.outputs}
        targets = nr.predict(nr.Task(graph, x, blank, gates), w)
        task = nr.Task(graph, x, targets, gates)
    else:
        whole = [w[f"h2->y{j}"] @ w["h1->h2"] @ w["x0->h1"] for j in range(2)]
        moments = [{"sxx": {"x0": np.eye(3)}, "syx": {(f"y{j}", "x0"): whole[j]}} for j in range(2)]
        task = nr.Task.from_moments(graph, moments)
    assert nr.loss(task, w) < 1e-20
    with jax.enable_x64(True):
        flat = jax.numpy.asarray(graph.flatten(w))
        hessian = np.asarray(jax.jit(jax.hessian(lambda f: nr.loss(task, graph.unflatten(f))))(flat))
    expected = np.linalg.eigvalsh(hessian)[::-1]
    found = np.linalg.eigvalsh(nr.tangent_kernel(task, w))[::-1]
    n = min(len(expected), len(found))
    assert np.abs(found[:n] - expected[:n]).max() < 1e-9
    assert found[0] > 0.1
    many = nr.tangent_kernel(task, {e: np.stack([v, 2 * v]) for e, v in w.items()})
    assert np.abs(many[0] - nr.tangent_kernel(task, w)).max() < 1e-12


# -- off_manifold_fraction ----------------------------------------------------------------------


def test_off_manifold_fraction():
    task = nr.tasks.routing(3, 2, hidden=(20, 20))
    r, rng = nr.reduce(task), np.random.default_rng(0)
    inside = r.lift({e: rng.uniform(0.5, 1.5, 4) for e in task.graph.edges})
    turn = {n: nr.init.random_frame(rng, 20, 20) for n in ("h1", "h2")}
    turned = {
        e: turn.get(t, np.eye(len(inside[e]))) @ inside[e] @ turn.get(s, np.eye(inside[e].shape[1])).T
        for e, (s, t) in task.graph.edges.items()
    }
    assert r.distance(turned) > 0.5
    assert r.off_manifold_fraction(turned) < 1e-10
    noise = nr.init.gaussian(task.graph, 1.0, seed=0)
    assert r.off_manifold_fraction(noise) > 0.7
    half = {e: np.stack([w, w + 0.2 * noise[e], noise[e]]) for e, w in turned.items()}
    shares = r.off_manifold_fraction(half)
    assert shares.shape == (3,)
    assert shares[0] < 1e-10
    assert shares[0] < shares[1] < shares[2] == pytest.approx(r.off_manifold_fraction(noise))


def test_off_manifold_fraction_of_what_small_weights_learn():
    task = nr.tasks.routing(3, 3, hidden=(10, 10))
    w = nr.init.orthogonal(task.graph, 0.01, seed=0)
    end = nr.flow(task, w, 2000.0, 2).weights
    change = {e: v[1] - v[0] for e, v in end.items()}
    r = nr.reduce(task)
    assert r.off_manifold_fraction(change) < 0.01 < 0.5 < r.off_manifold_fraction(w)


def test_off_manifold_fraction_needs_modes():
    task = nr.tasks.routing(2, 2, hidden=(4, 4))
    r = nr.reduce(task, basis="block")
    with pytest.raises(ValueError, match="modes"):
        r.off_manifold_fraction(nr.init.gaussian(task.graph, 1.0))


def test_the_time_of_a_theory_does_not_depend_on_the_times_that_bracket_it():
    loss = lambda t: np.exp(-np.asarray(t))  # noqa: E731
    for t in (np.linspace(0, 5, 4), np.geomspace(0.01, 9, 50)):
        assert sharing.first_time(loss, t, 0.2) == pytest.approx(np.log(5), rel=1e-9)
    assert np.isnan(sharing.first_time(loss, np.linspace(0, 1, 5), 0.2))
    assert sharing.first_time(loss, np.linspace(2, 3, 5), 0.2) == 2
