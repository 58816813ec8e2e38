"""What is learned when, against outputs computed sample by sample and against closed forms."""

import re
import runpy
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import neuralrace as nr
from neuralrace import measure
from neuralrace.learned import learning_time


def fusion(cov, goal, width=12, depth=2):
    """Two inputs of one neuron, each with its own pathway; the target is linear in both."""
    spread = np.sqrt(2) * np.linalg.cholesky(cov)
    x = np.concatenate([spread.T, -spread.T])
    rows = [[n, *(f"{n}h{k}" for k in range(1, depth)), "y"] for n in "av"]
    edges = [e for row in rows for e in pairwise(row)]
    hidden = {n: width for row in rows for n in row[1:-1]}
    graph = nr.Graph({"a": 1, "v": 1, **hidden, "y": 1}, edges)
    return nr.Task(graph, {"a": x[:, :1], "v": x[:, 1:]}, x @ np.array(goal)[:, None])


def test_a_loud_modality_leads_early_and_ends_at_nothing():
    task = fusion([[4.0, 1.2], [1.2, 1.0]], [0.0, 1.0])
    run = nr.flow(task, nr.init.gaussian(task.graph, 1e-3, seed=0), t1=150.0)
    found = nr.events(run, task)
    rows = [(e.name, e.what) for e in found if e.kind == "input"]
    assert rows == [("a", "rises"), ("v", "rises"), ("a", "falls")]
    up, _, down = (e for e in found if e.kind == "input")
    assert up.to_value > 0.4
    assert down.to_value < 0.01
    assert up.from_time < up.to_time < down.from_time < down.to_time
    maps = nr.pathway_maps(task.graph, run)
    assert np.allclose(found.curves["input", "a"], 2 * np.abs(maps["ah1"][:, 0, 0]), atol=1e-12)
    assert np.allclose(found.curves["pathway", "vh1"], np.abs(maps["vh1"][:, 0, 0]), atol=1e-12)
    assert np.isnan(learning_time(run, 0.5, of="a"))
    assert learning_time(run, 0.5, of="v") > up.to_time
    assert found.to_pandas().name.tolist() == [e.name for e in found]
    assert len(found) == str(found).count("\n") - len(found.overtakings) - 1
    assert not found.ties


@pytest.mark.parametrize("depth", [2, 3])
def test_times_of_parts_do_not_depend_on_what_was_saved(depth):
    graph = nr.Graph.pathways(3, 3, [[9] * (depth - 1)] * 2)
    task = nr.tasks.linear(np.diag([3.0, 2.0, 1.0]), graph=graph)
    start = nr.init.gaussian(graph, 0.05, seed=range(2))
    few, many = (nr.flow(task, start, t1=60.0, save=n) for n in (20, 2000))
    curves = nr.events(many[1], task, least=9.0).curves
    for (kind, name), curve in curves.items():
        of = ("mode", name) if kind == "mode" else name
        found = learning_time(few, [0.1, 0.7], of=of)
        assert abs(found[1] / measure.crossing(many.t, curve, 0.7 * curve[-1], rising=True) - 1) < 1e-3
    assert found[0] == learning_time(few[0], 0.1, of=of)
    assert np.isclose(learning_time(few[0], 0.1, of="x->p0h1"), learning_time(few[0], 0.1, of="p0h1"))


def test_modes_of_a_network_are_those_of_its_map():
    task = nr.tasks.hierarchy(3, graph=nr.Graph.chain([4, 9, 7]))
    run = nr.flow(task, nr.init.gaussian(task.graph, 0.1), t1=30.0, save=20)
    found = nr.events(run, task, least=0.01)
    r = nr.reduce(task)
    x, y = task.arrays
    outputs = np.einsum("toi,ni->tno", nr.end_to_end(task.graph, run), x)
    for k in range(r.n_modes):
        along = outputs @ r.family.left["h1->y"][:, k]
        expected = np.sqrt((along**2).mean(axis=1) / (y**2).sum(axis=1).mean())
        assert np.allclose(found.curves["mode", k], expected, atol=1e-12)
    total = sum(found.curves["mode", k] ** 2 for k in range(r.n_modes))
    assert np.allclose(total[-1], found.curves["output", "y"][-1] ** 2, rtol=1e-3)


@pytest.mark.parametrize("gated", [False, True])
def test_data_without_common_modes_have_those_of_mode_strengths(gated):
    rng = np.random.default_rng(1)
    gates = {"p0h1": [1, 0] * 10, "p1h1": [0.5, 2.0] * 10} if gated else {}
    task = nr.Task(
        nr.Graph.pathways(4, 2, [[9], [9]]), rng.normal(size=(20, 4)), rng.normal(size=(20, 2)), gates
    )
    assert nr.reduce(task).basis == "block"
    run = nr.flow(task, nr.init.gaussian(task.graph, 0.1), t1=30.0, save=20)
    found = nr.events(run, task)
    modes = [name for kind, name in found.curves if kind == "mode"]
    assert len(modes) == nr.mode_strengths(run, task)["x->p0h1"].shape[-1] > 0
    assert found.ties == (() if gated else (("p0h1", "p1h1"),))
    assert learning_time(run, 0.5, of=("mode", 0)) > 0


def test_gates_and_activations_are_as_in_the_network():
    rng = np.random.default_rng(0)
    graph = nr.Graph({"x": 3, "h": 8, "s": 4, "y": 2}, [("x", "h"), ("h", "s"), ("x", "s"), ("s", "y")],
                     activations={"h": "tanh"}, biases=["s"])  # fmt: skip
    task = nr.Task(graph, rng.normal(size=(10, 3)), rng.normal(size=(10, 2)), gates={"h": [1, 0] * 5})
    run = nr.flow(task, nr.init.xavier(graph, 0.5), t1=20.0, save=5)
    found = nr.events(run, task, least=9.0)
    assert {kind for kind, _ in found.curves} == {"pathway", "input", "output"}
    assert not found.ties
    y = np.stack(list(task.samples.targets.values()))[0]
    for name, cut in (("h", ["x->h"]), ("s", ["x->s", "h->s", "s"])):
        without = {n: np.zeros_like(w) if n in cut else w for n, w in run.weights.items()}
        change = nr.predict(task, run.weights)["y"] - nr.predict(task, without)["y"]
        expected = np.sqrt((change**2).mean(axis=(1, 2)) / (y**2).mean())
        assert np.allclose(found.curves["pathway", name], expected)


def test_samples_and_their_moments_have_the_same_events():
    task = nr.tasks.routing(3, 2, hidden=(9,))
    run = nr.flow(task, nr.init.gaussian(task.graph, 0.05), t1=60.0, save=30)
    moments = nr.Task.from_contexts(task.graph, task.moment_contexts)
    a, b = (nr.events(run, each).curves for each in (task, moments))
    assert all(np.allclose(a[key], b[key], atol=1e-9) for key in a)


def test_chance_decides_between_pathways_that_are_equal_by_symmetry():
    text = "p0h1, p1h1 are equal by symmetry: chance decides"
    for widths, tied in (([[9, 9], [9, 9]], True), ([[9, 9], [9]], False)):
        task = nr.tasks.linear(np.diag([2.0, 1.0]), graph=nr.Graph.pathways(2, 2, widths))
        found = nr.events(nr.flow(task, nr.init.gaussian(task.graph, 0.1), t1=60.0), task)
        assert found.ties == ((("p0h1", "p1h1"),) if tied else ())
        assert (text in str(found)) == tied
        assert ("nr.reduce(task, weights=...)" in str(found)) == tied
    task = fusion([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.5])
    assert not nr.events(nr.flow(task, nr.init.gaussian(task.graph, 0.1), t1=60.0), task).ties


def test_reductions_descent_and_saved_runs_have_parts_too(tmp_path):
    task = nr.tasks.hierarchy(3, graph=nr.Graph.chain([4, 9, 7]))
    start = nr.init.decoupled(nr.reduce(task), 0.1)
    run = nr.flow(task, start, t1=30.0)
    expected = learning_time(run, 0.5, of=("mode", 1))
    for other in (
        nr.reduce(task).solve(0.1, 30.0),
        nr.reduce(task, weights=start).solve(30.0),
        nr.descend(task, start, lr=0.001, steps=30_000, save=300),
    ):
        assert other.task is task
        assert abs(learning_time(other, 0.5, of=("mode", 1)) / expected - 1) < 1e-3
    run.save(tmp_path / "run.zarr")
    loaded = nr.Trajectory.load(tmp_path / "run.zarr")
    with pytest.raises(ValueError, match="task must be the Task"):
        learning_time(loaded, 0.5, of="h1")
    assert np.isclose(learning_time(loaded, 0.5, of=("mode", 1), task=task), expected)


# -- why: growth at the start, and who overtakes whom ------------------------------------------


def branches(width=8, **keywords):
    """Routes of one, two and three layers; two of three share the last, one of which is closed at times."""
    rng = np.random.default_rng(3)
    x = {n: rng.normal(size=(30, 2)) @ rng.normal(size=(2, 2)) for n in "abcd"}
    y = x["a"] + 2.0 * x["b"] - x["c"] + 1.5 * x["d"] @ rng.normal(size=(2, 2))
    nodes = {**dict.fromkeys("abcd", 2), **dict.fromkeys(("ha", "hb", "f", "hd"), width), "y": 2}
    routes = [("a", "ha", "f"), ("b", "hb", "f"), ("f", "y"), ("c", "y"), ("d", "hd", "y")]
    edges = [e for row in routes for e in pairwise(row)]
    return nr.Task(nr.Graph(nodes, edges, **keywords), x, y, gates={"hb->f": np.arange(30) % 3 > 0})


def test_growth_at_the_start_is_the_slope_of_a_flow_from_small_weights():
    task = branches()
    samples, y = task.samples, task.samples.targets["y"]
    zero = {e: np.zeros(shape) for e, shape in task.graph.shapes.items()}
    found = nr.events(nr.flow(task, nr.init.gaussian(task.graph, 0.1), t1=5.0), task).growth
    assert {n: k for n, (_, k) in found.items()} == {"ha": 3, "hb": 3, "c->y": 1, "hd": 2}
    rows = {
        "ha": ("a", "ha", "f", "y"),
        "hb": ("b", "hb", "f", "y"),
        "c->y": ("c", "y"),
        "hd": ("d", "hd", "y"),
    }
    small, rng = 1e-4, np.random.default_rng(0)
    grown = {1: lambda b: b - small, 2: lambda b: np.log(b / small), 3: lambda b: 1 / small - 1 / b}
    for name, row in rows.items():
        gate = (np.arange(30) % 3 > 0)[:, None] if name == "hb" else 1.0
        u, _, vt = np.linalg.svd((gate * y).T @ samples.inputs[row[0]] / 30)
        ends = [vt[0], *(np.linalg.qr(rng.normal(size=(8, 1)))[0][:, 0] for _ in row[1:-1]), u[:, 0]]
        edges = [f"{s}->{t}" for s, t in pairwise(row)]
        alone = nr.Rates(frozen=[e for e in zero if e not in edges])
        start = {e: small * np.outer(ends[k + 1], ends[k]) for k, e in enumerate(edges)}
        s, k = found[name]
        run = nr.flow(task, zero | start, t1=0.5 * small ** (2 - k) / s, save=2, rates=alone)
        b = np.linalg.norm(run.weights[edges[-1]][-1], 2)
        assert grown[k](b) / run.t[-1] == pytest.approx(s, rel=3e-4)


def test_growth_is_not_told_where_it_is_not_known():
    start = nr.init.gaussian(branches().graph, 0.1)
    task = branches()
    for rates in (nr.Rates(decay=0.1), nr.Rates(scale={"a->ha": 2.0})):
        found = nr.events(nr.flow(task, start, t1=5.0, rates=rates), task)
        assert not found.growth
        assert "Growth" not in str(found)
    curved = branches(activations={"hd": "tanh"})
    assert not nr.events(nr.flow(curved, start, t1=5.0), curved).growth
    found = str(nr.events(nr.flow(task, start, t1=5.0), task))
    assert re.search(r"by itself: ha \S+ b\^2; hb \S+ b\^2; hd \S+ b; c->y [\d.]+; not known for f\.", found)


def test_pathways_overtake_where_a_bisection_of_the_flow_finds_it():
    task = branches()
    start = nr.init.gaussian(task.graph, 0.02)
    found = nr.events(nr.flow(task, start, t1=20.0, save=60), task)
    names = {"ha": "ha->f", "hb": "hb->f", "f": "f->y", "hd": "hd->y", "c->y": "c->y"}

    def lead(t, a, b):
        w = {e: v[-1] for e, v in nr.flow(task, start, t1=t, save=2).weights.items()}
        whole = nr.predict(task, w)["y"]
        a, b = (whole - nr.predict(task, w | {names[n]: 0 * w[names[n]]})["y"] for n in (a, b))
        return (a**2).mean() - (b**2).mean()

    assert len(found.overtakings) > 1
    assert all({a, b} not in ({"ha", "f"}, {"hb", "f"}) for _, a, b in found.overtakings)
    for t, a, b in found.overtakings:
        low, high = 0.9 * t, 1.1 * t
        assert lead(low, a, b) < 0 < lead(high, a, b)
        while high - low > 1e-5 * t:
            middle = (low + high) / 2
            low, high = (middle, high) if lead(middle, a, b) < 0 else (low, middle)
        assert t == pytest.approx(low, rel=1e-4)
        assert f"{a} overtakes {b} at {t:.4g}." in str(found)
    curves = found.curves  # who overtook at last is ahead at the end
    last = {frozenset(pair): pair for _, *pair in found.overtakings}
    assert all(curves["pathway", a][-1] > curves["pathway", b][-1] - 0.05 for a, b in last.values())


def test_turning_points_are_found_above_the_least_change():
    from neuralrace.learned import _turns

    assert _turns(np.array([0.0, 0.01, 0.5, 0.49, 1.0, 0.2, 0.22, 0.6]), 0.05) == [0, 4, 5, 7]
    assert _turns(np.array([1.0, 0.99, 0.0, 0.01]), 0.05) == [0, 2]
    assert _turns(np.array([0.1, 0.0, 0.04, 0.01]), 0.2) == []
    assert _turns(np.array([0.1, 0.0, 0.3]), 0.15) == [1, 2]


TASK = nr.tasks.hierarchy(2, graph=nr.Graph.chain([2, 3, 3]))
RUNS = nr.flow(TASK, nr.init.gaussian(TASK.graph, 0.1, seed=range(2)), t1=2.0, save=3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nr.events(RUNS, TASK), "trajectory must be a single run"),
        (lambda: nr.events(RUNS[0], "task"), "task must be the Task that the trajectory learned, got 'task'"),
        (lambda: nr.events(3, TASK), "trajectory must be a Trajectory, got 3"),
        (lambda: nr.events(RUNS[0], TASK, least=0), "least must be greater than 0"),
        (lambda: nr.events(RUNS[0], nr.tasks.xor()), "trajectory must have the weights"),
        (lambda: learning_time(RUNS, 0.5, of="z"), "of names 'z', which is no node, edge or mode"),
        (lambda: learning_time(RUNS, 0.5, of=("mode", 9)), r"of must be \('mode', k\) with k below 2"),
        (lambda: learning_time(RUNS, 1.5, of="y"), "level must be a share above 0 and at most 1"),
        (lambda: learning_time(RUNS, [0.1] * 3, of="y"), "level must be a number or have shape"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_unimodal_phase_of_late_fusion_lasts_as_its_closed_form_says():
    path = Path(__file__).parents[1] / "examples" / "unimodal_phase.py"
    delay = runpy.run_path(str(path))["delay"]
    for ratio, correlation in ((1.5, -0.5), (2.0, 0.0), (1.5, 0.5)):
        expected = 1 + (ratio**2 - 1) / (1 - correlation**2)
        coarse, fine = (abs(delay(ratio, correlation, std) / expected - 1) for std in (1e-3, 1e-6))
        assert fine < 0.03
        assert fine < coarse
