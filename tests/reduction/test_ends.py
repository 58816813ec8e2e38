"""Where solutions end, and what they say of it: beside networks, slow tails and saddles."""

from itertools import pairwise

import numpy as np
import pytest

import neuralrace as nr
from neuralrace import Status

SIGNS = nr.Graph.pathways(1, 1, [[20], [20]])


def opposite_targets(second=-1.0, gates=None):
    """Two pathways and two samples with different targets."""
    gates = gates or {"p0h1": [1, 0], "p1h1": [0, 1]}
    return nr.Task(SIGNS, [[1.0], [1.0]], [[1.0], [second]], gates=gates)


def late_fusion(depth, correlation=-0.3, width=20):
    """Two modalities with unit variances; the target needs the second one with a small weight."""
    nodes, edges = {"audio": 1, "vision": 1, "y": 1}, []
    for m in ("audio", "vision"):
        row = [m, *(f"{m}{k}" for k in range(1, depth)), "y"]
        nodes |= dict.fromkeys(row[1:-1], width)
        edges += pairwise(row)
    x = np.sqrt(2) * np.linalg.cholesky([[1.0, correlation], [correlation, 1.0]]).T
    return nr.Task(nr.Graph(nodes, edges), {"audio": x[:, :1], "vision": x[:, 1:]}, x @ [[1.0], [0.2]])


def median_times(task, std, levels, t1, seeds=20):
    w = nr.init.gaussian(task.graph, std, seed=range(seeds))
    runs = nr.flow(task, w, t1=t1, method=nr.Adaptive(1e-6), stop_loss=min(levels))
    return [float(np.median(nr.learning_time(runs, level))) for level in levels]


def test_opposite_targets():
    task = opposite_targets()
    r = nr.reduce(task)
    sol = r.solve(strengths=0.05, t1=100.0)
    assert (sol.status, r.exact) == (Status.SADDLE, True)
    assert sol.loss[-1] == pytest.approx(0.25)
    assert sol.stats["attainable"] == pytest.approx(0.0, abs=1e-15)
    assert sol.outcome.startswith("saddle at t = 100: at loss 0.25, which networks leave: they can reach 0")
    assert "r.widened()" in sol.outcome
    wide = r.widened()
    assert (wide.directions, wide.n_classes, wide.exact) == (2, 2, True)
    start = wide.strength(0.01)
    assert start == pytest.approx(0.01 * np.sqrt(10))
    found = wide.solve(start, t1=100.0)
    assert found.status is Status.FINISHED
    networks = median_times(task, 0.01, [0.25], 100.0)
    assert nr.learning_time(found, 0.25) == pytest.approx(networks[0], rel=0.05)


@pytest.mark.parametrize("basis", ["shared", "pathwise", "block"])
def test_all_bases_agree_or_say_why_not(basis):
    sol = nr.reduce(opposite_targets(), basis).solve([0.05, 0.2], t1=400.0)
    assert set(sol.statuses) == ({Status.FINISHED} if basis == "pathwise" else {Status.SADDLE})
    assert np.allclose(sol.loss[:, -1], 0.0 if basis == "pathwise" else 0.25, atol=1e-4)


def test_a_saddle_just_above_the_least_loss():
    r = nr.reduce(opposite_targets(0.9, {"p0h1": [1, 1], "p1h1": [0, 1]}))
    sol = r.solve(0.05, t1=300.0)
    assert sol.status is Status.SADDLE
    assert sol.loss[-1] == pytest.approx(0.00125, rel=0.01)  # 0.28% of the first loss
    assert r.widened().solve(0.05, t1=3000.0).status is Status.FINISHED


@pytest.mark.parametrize(("depth", "std", "t1"), [(2, 0.01, 300.0), (4, 0.1, 3000.0)])
def test_late_fusion_of_correlated_modalities(depth, std, t1):
    task = late_fusion(depth)
    r = nr.reduce(task)
    assert r.solve(r.strength(std), t1=t1).status is Status.SADDLE
    wide = r.widened()
    found = wide.solve(wide.strength(std), t1=t1)
    assert found.status is Status.FINISHED
    levels = [0.25, 0.005]  # audio alone rests at 0.0182
    wanted = median_times(task, std, levels, t1, seeds=20)
    times = [nr.learning_time(found, level) for level in levels]
    assert times == pytest.approx(wanted, rel={2: 0.05, 4: 0.15}[depth])


def test_experts_that_cancel_what_a_shared_one_supplies():
    nodes = {"x": 1, "shared": 16, "a": 16, "b": 16, "y": 1}
    edges = [("x", "shared"), ("shared", "y"), ("x", "a"), ("a", "y"), ("x", "b"), ("b", "y")]
    gates = {"a": [1, 0, 0], "b": [0, 1, 0]}
    task = nr.Task(nr.Graph(nodes, edges), np.ones((3, 1)), [[0.1], [1.0], [1.0]], gates=gates)
    r = nr.reduce(task)
    assert r.solve(0.05, t1=500.0).status is Status.SADDLE
    networks = nr.flow(task, nr.init.gaussian(task.graph, 0.02, seed=range(3)), t1=500.0)
    wide = r.widened().solve(0.05, t1=500.0)
    assert wide.status is Status.FINISHED
    assert np.allclose(networks.loss[:, -1], wide.loss[-1], atol=1e-6)


def test_slow_tails_and_plateaus_are_no_saddles():
    x = np.array([[1.0, 0.0], [0.0, 0.1]])
    weak = nr.Task(nr.Graph.chain([2, 10, 2]), x, x @ np.diag([1.0, 10.0]))
    deep = nr.Task(nr.Graph.chain([1, 10, 10, 10, 1]), [[1.0]], [[1.0]])
    for task, strength, times in ((weak, 0.01, (3.0, 100.0)), (deep, 0.03, (100.0, 550.0))):
        r = nr.reduce(task)
        for t1 in times:
            sol = r.solve(strength, t1=t1)
            assert sol.status is Status.UNSETTLED, (strength, t1, sol)
            assert "by its own size in a time of about" in sol.outcome
        assert r.solve(strength, t1=1e6).status is Status.FINISHED


def test_where_nothing_is_proven_nothing_is_said_to_be_reached():
    deep = nr.Task(nr.Graph.chain([1, 10, 10, 1]), [[1.0]], [[0.3]])
    rest = nr.reduce(deep, rates=nr.Rates(decay=0.3)).solve(0.1, t1=300.0)
    assert rest.status is Status.UNDECIDED
    frozen = nr.reduce(opposite_targets(), rates=nr.Rates(frozen=["x->p1h1"])).solve(0.05, t1=300.0)
    assert frozen.status in (Status.UNDECIDED, Status.UNSETTLED)
    narrow = nr.Task(nr.Graph.chain([2, 1, 2]), np.eye(2), np.diag([2.0, 1.0]))
    sol = nr.reduce(narrow).solve(0.1, t1=300.0)
    assert sol.status is Status.UNDECIDED
    edges = [("x", "h"), ("h", "y"), nr.Edge("x", "y", fixed=[[1.0]])]
    skip = nr.Task(nr.Graph({"x": 1, "h": 4, "y": 1}, edges), [[1.0], [1.0]], [[1.0], [1.0]], {"h": [1, 0]})
    assert not nr.attainable_loss(skip).tight
    for found in (rest, frozen, sol):
        assert "can reach" not in found.outcome


def test_blocks_never_leave_a_saddle_by_rounding():
    r = nr.reduce(late_fusion(3), "block")
    for t1 in (300.0, 2000.0):
        sol = r.solve(0.2, t1=t1)
        assert sol.status is Status.SADDLE
        assert sol.loss[-1] == pytest.approx(0.0182, rel=0.02)
    assert sol.t[-1] == 2000.0


@pytest.mark.parametrize("save", [2, None])
def test_blocks_stay_at_a_saddle_just_above_the_least_loss(save):
    r = nr.reduce(opposite_targets(0.9, {"p0h1": [1, 1], "p1h1": [0, 1]}), "block")
    sol = r.solve([0.05, 0.3], 3000.0, save)
    assert set(sol.statuses) == {Status.SADDLE}
    assert sol.source.held.all()
    assert sol.loss[:, -1] == pytest.approx(0.00125, rel=0.01)
    assert sol.history.loss.min() > 0.00124


def test_a_solution_is_complete_though_the_solver_stops_at_rest():
    r = nr.reduce(nr.tasks.xor())
    sol = r.solve([0.1, 0.3], t1=1e9)
    assert sol.loss.shape == (2, 200)
    assert sol.t[-1] == 1e9
    given = r.solve(0.1, t1=1e6, save=[0.0, 5.0, 1e5, 1e6])
    assert given.t.tolist() == [0.0, 5.0, 1e5, 1e6]
    assert given.loss[1] == pytest.approx(r.solve(0.1, t1=5.0).loss[-1], rel=1e-7)


@pytest.mark.parametrize("condition", [1e3, 1e7, 1e10, 1e14])
def test_an_exact_basis_is_found_for_inputs_of_any_condition(condition):
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    x = np.diag([1.0, 0.5, 0.2, 1 / condition]) @ turn.T
    r = nr.reduce(nr.Task(nr.Graph.chain([4, 16, 3]), x, rng.standard_normal((4, 3))))
    assert (r.basis, r.exact) == ("block", True)


def test_a_race_that_ends_in_a_tie_names_nobody():
    task = opposite_targets()
    found = nr.race({"a": task, "b": task}, level=0.1)
    assert found.winner is None
    assert found.first == ("a", "b")
    assert "a and b reach loss 0.1 at the same time" in str(found)


def test_reductions_around_a_start_take_weight_decay():
    task, rates = opposite_targets(), nr.Rates(decay=0.01)
    weights = nr.init.gaussian(task.graph, 0.1)
    sol = nr.reduce(task, weights=weights, rates=rates).solve(50.0, 20)
    assert np.allclose(sol.loss, nr.flow(task, weights, 50.0, 20, rates=rates).loss, atol=1e-4)


def test_a_family_that_arrives_is_its_own_widened_one():
    wide = nr.reduce(opposite_targets()).widened()
    assert wide.widened() is wide


def mirrored(sign, hidden, size=1.0, seed=0):
    """Two pathways for two contexts, whose targets are equal or opposite; a flow cannot tell which."""
    rng = np.random.default_rng(seed)
    x, a = np.sqrt(6) * np.linalg.qr(rng.normal(size=(6, 3)))[0], rng.normal(size=(3, 2))
    y, context = size * np.concatenate([x @ a, sign * x @ a]), np.repeat([0, 1], 6)
    gates = {"p0h1": context == 0, "p1h1": context == 1}
    return nr.Task(nr.Graph.pathways(3, 2, [hidden, hidden]), np.concatenate([x, x]), y, gates=gates)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_race_gives_no_head_start_to_wider_families(layers):
    """Several directions per mode at the strength of one learn earlier, by 12% with three hidden layers."""
    hidden = [20] * layers
    result = nr.race({"opposite": mirrored(-1.0, hidden), "same": mirrored(1.0, hidden)})
    assert {name: "2 directions" in how for name, how in result.how.items()} == {
        "opposite": True, "same": False,
    }  # fmt: skip
    assert result.times["opposite"] == pytest.approx(result.times["same"], rel=1e-5)
    faster = {"opposite": mirrored(-1.0, hidden), "same": mirrored(1.0, hidden, 1.02)}
    assert nr.race(faster).winner == "same"


def test_directions_that_reach_no_output_are_no_modes():
    rng = np.random.default_rng(0)
    nodes, edges = (
        {"b": 1, "c": 2, "h": 50, "k": 50, "y": 1},
        [("b", "h"), ("h", "y"), ("c", "k"), ("k", "y")],
    )
    inputs = {"b": rng.normal(size=(40, 1)), "c": rng.normal(size=(40, 2))}
    r = nr.reduce(nr.Task(nr.Graph(nodes, edges), inputs, rng.normal(size=(40, 1))), basis="shared")
    assert r.n_modes == 1
    assert "left out" not in repr(r)
    narrow = nr.reduce(nr.tasks.routing(3, 2, hidden=(2, 5)))
    assert "2 modes left out, for which hidden layers are too narrow" in repr(narrow)
