"""Random starts drawn only where signals pass, against drawn networks."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.expected import Draws, converged_times
from neuralrace.interrupts import Progress
from neuralrace.revealed import LAWS, SOURCE, TARGET, GaussianMatrix, OrthogonalMatrix, RevealedNetwork

SAMPLES = 20_000
BOUND = 4.0  # standard errors: one of some hundred numbers may lie this far off by chance


def standard_errors(a, b):
    """How far means and variances of two samples lie apart."""
    apart = []
    for x, y in ((a, b), ((a - a.mean()) ** 2, (b - b.mean()) ** 2)):
        size = np.sqrt(x.var() / len(x) + y.var() / len(y))
        apart.append(abs(x.mean() - y.mean()) / size if size > 1e-9 else abs(x.mean() - y.mean()) / 1e-6)
    return max(apart)


# -- matrices --------------------------------------------------------------------------------


def drawn_matrices(rng, law, shape, samples=SAMPLES):
    """Full matrices, as `nr.init` draws them."""
    out, size = shape
    if law is GaussianMatrix:
        return rng.standard_normal((samples, out, size))
    q, r = np.linalg.qr(rng.standard_normal((samples, max(shape), min(shape))))
    q = q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None]
    return q if out >= size else q.swapaxes(1, 2)


def passed(w, signal, end):
    """The image of signals at one end of matrices."""
    return np.einsum("dij,dj->di" if end == SOURCE else "dij,di->dj", w, signal)


def unit(w, end, k):
    return np.broadcast_to(np.eye(w.shape[1 + end])[k], (len(w), w.shape[1 + end]))


def look_at(matrix, end, signal):
    """Reveal the image of one signal, whatever is open besides."""
    leaks = matrix.leaks(end)
    first = np.einsum("dko,dk->do", leaks, signal)
    if first.shape[1] and np.abs(first).max() > 1e-7:
        others = np.random.default_rng(0).standard_normal((*first.shape, first.shape[1] - 1))
        matrix.reveal(end, np.linalg.qr(np.concatenate([first[:, :, None], others], axis=2))[0], 1)


def followed(rng, law, shape, ways):
    """Matrices revealed along back and forth ways of unit vectors."""
    matrix = law(rng, SAMPLES, shape, 1.0)
    matrix.extend(SOURCE, 2)
    matrix.extend(TARGET, 2)
    for end, k, length in ways:
        for done in range(length):
            signal, at = unit(matrix.block, end, k), end
            for _ in range(done):
                signal, at = passed(matrix.block, signal, at), 1 - at
            look_at(matrix, at, signal)
    return matrix


def moments(w, ways):
    """Numbers that the ways of `followed` determine."""
    found, ends = {}, {}
    for end, k, length in ways:
        signal, at = unit(w, end, k), end
        for done in range(length):
            signal, at = passed(w, signal, at), 1 - at
            found[end, k, done, "length"] = (signal**2).sum(axis=1)
            found[end, k, done, "entry"] = signal[:, 0] * signal[:, 1]
            ends.setdefault(at, []).append(signal)
    for at, signals in ends.items():
        for i in range(len(signals)):
            for j in range(i):
                found[at, i, j, "product"] = (signals[i] * signals[j]).sum(axis=1)
    return found


WAYS = ((TARGET, 0, 3), (SOURCE, 0, 2), (TARGET, 1, 1))
LONG_WAYS = ((TARGET, 0, 3), (SOURCE, 0, 3), (TARGET, 1, 2), (SOURCE, 1, 3))


@pytest.mark.parametrize("shape", [(8, 8), (11, 7), (7, 11), (12, 6)])
@pytest.mark.parametrize("law", [GaussianMatrix, OrthogonalMatrix])
def test_revealed_blocks_have_the_law_of_full_matrices(law, shape):
    rng = np.random.default_rng([*shape, law is GaussianMatrix])
    full = drawn_matrices(rng, law, shape)
    matrix = followed(rng, law, shape, WAYS)
    known = matrix.block.shape[1:]
    assert min(np.subtract(shape, known)) >= 0
    assert sum(known) < sum(shape)  # something is left undrawn
    assert_same_law(moments(full, WAYS), moments(matrix.block, WAYS))
    # What was not looked at has the law of the rest.
    matrix.extend(SOURCE, shape[1] - known[1])
    matrix.extend(TARGET, shape[0] - known[0])
    assert_same_law(moments(full, LONG_WAYS), moments(matrix.block, LONG_WAYS))
    values, expected = (np.linalg.svd(w, compute_uv=False) for w in (matrix.block, full))
    for k in (0, -1):
        assert standard_errors(values[:, k], expected[:, k]) < BOUND


def assert_same_law(expected, found):
    apart = {name: standard_errors(expected[name], found[name]) for name in expected}
    assert max(apart.values()) < BOUND, apart


def test_a_wrong_law_would_be_seen():
    rng = np.random.default_rng(0)
    full = drawn_matrices(rng, GaussianMatrix, (8, 8))
    narrow = followed(rng, GaussianMatrix, (7, 8), WAYS).block
    expected, found = moments(full, WAYS), moments(narrow, WAYS)
    assert max(standard_errors(expected[name], found[name]) for name in expected) > 3 * BOUND


@pytest.mark.parametrize("law", [GaussianMatrix, OrthogonalMatrix])
def test_more_images_may_be_revealed_than_there_are_directions(law):
    matrix = law(np.random.default_rng(0), 3, (3, 6), 1.0)
    matrix.extend(SOURCE, 5)
    assert matrix.reveal(SOURCE, np.broadcast_to(np.eye(5), (3, 5, 5)), 5) == 3
    assert matrix.block.shape == (3, 3, 5)
    assert np.allclose(matrix.leaks(SOURCE), 0)


# -- networks --------------------------------------------------------------------------------


def chain(depth, width):
    rng = np.random.default_rng(7)
    x = rng.standard_normal((6, 3)) * [2.0, 1.0, 0.5]
    y = x @ rng.standard_normal((3, 2)) + 0.1 * rng.standard_normal((6, 2))
    return nr.Task(nr.Graph.chain([3, *[width] * (depth - 1), 2]), x, y)


def gated(width):
    """Two inputs, two pathways that share a node, a skip to the output; gates by context."""
    rng = np.random.default_rng(3)
    nodes = {"a": 2, "b": 2, "p": width, "q": width, "r": width + 4, "y": 2}
    edges = [("a", "p"), ("b", "q"), ("p", "r"), ("q", "r"), ("r", "y"), ("p", "y"), ("a", "y")]
    x = {n: rng.standard_normal((8, 2)) for n in "ab"}
    y = np.concatenate([x["a"][:, :1] - x["b"][:, 1:], 2 * x["a"][:, 1:] + x["b"][:, :1]], axis=1)
    on = np.arange(8) < 4
    return nr.Task(nr.Graph(nodes, edges), x, y, gates={"p": np.where(on, 1.0, 0.5), "q->r": 1.0 - on})


def residual(width):
    """Two layers beside an identity skip, two more, and a constant readout."""
    rng = np.random.default_rng(5)
    nodes = {"x": 3, "p": width, "q": width + 3, "h": 3, "r": width, "s": 2, "y": 2}
    skip, readout = nr.Edge("x", "h", fixed=np.eye(3)), nr.Edge("s", "y", fixed=rng.standard_normal((2, 2)))
    pairs = [("x", "p"), ("p", "q"), ("q", "h"), ("h", "r"), ("r", "s")]
    x = rng.standard_normal((6, 3))
    y = x @ rng.standard_normal((3, 2))
    return nr.Task(nr.Graph(nodes, [*pairs, skip, readout]), x, y)


TASKS = {"chain": lambda: chain(4, 9), "gated": lambda: gated(8), "residual": lambda: residual(9)}


def revealed(task, init, scale, draws, seed=0):
    rng = np.random.default_rng(seed)
    network = RevealedNetwork(
        task, dict(task.graph.nodes), lambda shape: LAWS[init](rng, draws, shape, scale)
    )
    network.follow_start(1000)
    return network


@pytest.mark.parametrize("init", LAWS)
@pytest.mark.parametrize("name", TASKS)
def test_first_loss_and_its_slope_have_the_law_of_drawn_networks(name, init):
    task, scale, draws = TASKS[name](), {"xavier": 1.0, "orthogonal": 0.8}.get(init, 0.4), 4000
    network = revealed(task, init, scale, draws)
    assert any(network.known[n] < task.graph.nodes[n] for n in task.graph.hidden)
    loss, slope = network.start()
    weights = getattr(nr.init, init)(task.graph, scale, seed=range(draws))
    gradient = nr.gradient(task, weights)
    true_slope = sum((g**2).sum(axis=(1, 2)) for g in gradient.values())
    assert standard_errors(loss, nr.loss(task, weights)) < BOUND
    assert standard_errors(slope, true_slope) < BOUND
    # And they are those of the small networks.
    small = task.on(task.graph.resized(network.known))
    w = network.weights(network.known)
    assert np.allclose(nr.loss(small, w), loss)
    assert np.allclose(sum((g**2).sum(axis=(1, 2)) for g in nr.gradient(small, w).values()), slope)


@pytest.mark.parametrize(
    ("make", "init", "scale"),
    [
        (lambda: chain(2, 30), "gaussian", 0.1),
        (lambda: chain(3, 30), "gaussian", 0.15),
        (lambda: chain(4, 30), "xavier", 0.7),
        (lambda: chain(4, 30), "orthogonal", 0.6),
        (lambda: gated(24), "gaussian", 0.15),
        (lambda: gated(24), "orthogonal", 0.5),
        (lambda: residual(24), "gaussian", 0.15),
    ],
)
def test_mean_and_spread_are_those_of_drawn_networks(make, init, scale):
    task, draws = make(), 150
    level = 0.3 * nr.loss(task, {e: np.zeros(s) for e, s in task.graph.shapes.items()})
    found = nr.expected_learning_time(task, init, scale, level, draws=draws, seed=1)
    assert found.reached == 1
    assert any(found.hidden[n] < task.graph.nodes[n] for n in task.graph.hidden)
    weights = getattr(nr.init, init)(task.graph, scale, seed=range(draws))
    run = nr.flow(task, weights, t1=100 * found.mean, save=2, stop_loss=level, method=nr.Adaptive(1e-5, 1e-7))
    times = nr.learning_time(run, level)
    apart = np.hypot(found.standard_error, times.std() / np.sqrt(draws))
    assert abs(found.mean - times.mean()) < 3 * apart + found.error
    assert standard_errors(found.times, times) < BOUND


@pytest.mark.parametrize("scale", [0.02, 0.08, 0.14])
def test_the_stated_error_holds_for_the_same_draws_completed(scale):
    task = chain(4, 60)
    level = 0.3 * nr.loss(task, {e: np.zeros(s) for e, s in task.graph.shapes.items()})
    network = revealed(task, "gaussian", scale, 10)
    draws = Draws(network, level, None)
    first, _ = draws.solve()
    times, error, rounds = converged_times(draws, 2e-3)
    assert rounds >= 1
    assert 0 < error < 2e-3
    for node in task.graph.hidden:
        assert network.known[node] < 40
        network.extend(node, 60 - network.known[node])
    true, _ = draws.solve()
    assert abs(times.mean() / true.mean() - 1) <= error
    assert abs(first.mean() / true.mean() - 1) > error  # the rounds were needed


def test_width_is_only_a_number():
    task = chain(3, 7)
    few = nr.expected_learning_time(task, "xavier", 0.5, 0.4, width=100, draws=20)
    many = nr.expected_learning_time(task, "xavier", 0.5, 0.4, width={"h1": 10**9, "h2": 10**9}, draws=20)
    assert max(many.hidden.values()) < 20
    assert many.spread < 0.1 * few.spread  # of a wide network all starts are alike in law
    assert nr.expected_learning_time(chain(3, 100), "xavier", 0.5, 0.4, draws=20).mean == few.mean
    assert float(few) == few.mean
    assert "all 20 draws reached the level" in repr(few)


def test_narrow_layers_are_drawn_completely():
    found = nr.expected_learning_time(chain(3, 7), "orthogonal", 0.5, 0.4, draws=5)
    assert found.hidden == {"h1": 7, "h2": 7}
    assert (found.error, found.rounds) == (0.0, 0)


def test_orthogonal_layers_of_one_width_close_at_once():
    found = nr.expected_learning_time(chain(5, 500), "orthogonal", 0.5, 0.4, draws=5)
    assert set(found.hidden.values()) == {5}
    assert (found.error, found.rounds) == (0.0, 0)


def test_an_edge_that_is_closed_everywhere_changes_nothing():
    x = np.random.default_rng(0).standard_normal((30, 4))
    edges = [("x", "h"), ("h", "y"), ("x", "y")]
    both = nr.Task(nr.Graph({"x": 4, "h": 20, "y": 3}, edges), x, x[:, :3], gates={"x->y": np.zeros(30)})
    chain = nr.Task(nr.Graph({"x": 4, "h": 20, "y": 3}, edges[:2]), x, x[:, :3])
    closed, without = (
        nr.expected_learning_time(t, "gaussian", 0.05, level=0.5, draws=100) for t in (both, chain)
    )
    assert abs(closed.mean - without.mean) < 3 * np.hypot(closed.standard_error, without.standard_error)


def test_nodes_that_no_signal_passes():
    g = nr.Graph({"x": 2, "h": 50, "off": 50, "y": 1}, [("x", "h"), ("h", "y"), ("x", "off"), ("off", "y")])
    x, y = [[1.0, 0.0], [0.0, 1.0]], [1.0, -1.0]
    both = nr.expected_learning_time(nr.Task(g, x, y, gates={"off": 0.0}), "gaussian", 0.1, 0.1, draws=400)
    one = nr.expected_learning_time(
        nr.Task(nr.Graph.chain([2, 50, 1]), x, y), "gaussian", 0.1, 0.1, draws=400, seed=1
    )
    assert both.hidden == {"h": 3, "off": 1}
    assert standard_errors(both.times, one.times) < BOUND


def test_long_calls_show_how_far_they_are_where_there_is_a_terminal(monkeypatch, capsys):
    task, given = chain(3, 200), ("gaussian", 0.3, 1.0)
    nr.expected_learning_time(task, *given, draws=4)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("neuralrace.interrupts._LONG", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    shares = []
    told = Progress.__call__
    monkeypatch.setattr(
        Progress, "__call__", lambda bar, share: (shares.append((bar.label, share)), told(bar, share))
    )
    rounds = nr.expected_learning_time(task, *given, draws=4, tolerance=1e-5).rounds
    assert "expected time: 100%" in capsys.readouterr().err
    own = [share for label, share in shares if label == "expected time"]
    assert len(own) > rounds > 1
    assert own[-1] == 1
    assert all(0 <= share <= 1 for share in own)
    assert len(set(own)) > 2  # it moves


def test_draws_that_do_not_reach_the_level_are_counted():
    task = chain(3, 200)
    every = nr.expected_learning_time(task, "gaussian", 0.05, 0.4, draws=10)
    middle = float(np.median(every.times))
    some = nr.expected_learning_time(task, "gaussian", 0.05, 0.4, draws=10, t1=middle)
    assert some.reached == 0.5
    assert np.isnan(some.times).sum() == 5
    assert some.mean == pytest.approx(every.times[every.times < middle].mean(), rel=3e-3)
    none = nr.expected_learning_time(task, "gaussian", 0.05, 0.4, draws=10, t1=middle / 10)
    assert none.reached == 0
    assert np.isnan([none.mean, none.spread, none.error]).all()
    assert "0 of 10 draws" in repr(none)


def test_levels_below_the_best_map_of_all_contexts_are_refused():
    """One map serves all contexts: the best ones of each context alone leave less."""
    x = [[1.0], [1.0]]
    task = nr.Task(nr.Graph.chain([1, 4, 2]), x, [[1.0, 0.0], [0.0, 1.0]], {"y": [[1.0, 1.0], [1.0, 0.0]]})
    best = nr.loss(task, {"x->h1": np.eye(4, 1), "h1->y": np.array([[0.5], [0.0]]) @ np.eye(1, 4)})
    given = {"init": "gaussian", "scale": 0.1, "draws": 2}
    with pytest.raises(ValueError, match=f"level must be above {best:g}, which no weights can reach"):
        nr.expected_learning_time(task, level=0.99 * best, **given)
    assert nr.expected_learning_time(task, level=1.05 * best, **given).reached == 1


def test_more_inputs_than_there_is_room_for_are_told(monkeypatch):
    monkeypatch.setattr("neuralrace.expected._LARGEST", 12)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 20))
    task = nr.Task(nr.Graph.chain([20, 300, 300, 2]), x, x[:, :2])
    found = nr.expected_learning_time(task, "gaussian", 0.05, 0.5, draws=100)
    assert max(found.hidden.values()) <= 12
    monkeypatch.undo()
    full = nr.expected_learning_time(task, "gaussian", 0.05, 0.5, draws=100)
    assert full.error < 0.1 * found.error  # what has no room is part of the stated error
    by_chance = 4 * np.hypot(found.standard_error, full.standard_error)  # the draws are others
    assert abs(found.mean - full.mean) < by_chance + found.error


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": 3}, "task must be a Task"),
        ({"init": "uniform"}, "init must be one of gaussian, xavier, orthogonal"),
        ({"scale": 0.0}, "scale must be at least 1e-150"),
        ({"scale": 1e-300}, "scale must be at least 1e-150"),  # ran for a minute, to an end that was none
        ({"scale": [0.1, 0.2]}, "scale must be a number"),
        ({"level": 100.0}, "level must be below the initial loss"),
        ({"level": 1e-9}, "level must be above"),
        ({"width": 0}, "width must be at least 1"),
        ({"width": {"h9": 3}}, "width names 'h9'"),
        ({"task": residual(4), "width": {"h": 5}}, "width names 'h', which is no hidden node without fixed"),
        ({"draws": 1}, "draws must be at least 2"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"t1": 0.0}, "t1 must be greater than 0"),
        ({"tolerance": 0.0}, "tolerance must be at least 1e-05"),
    ],
)
def test_wrong_arguments(change, message):
    given = {"task": chain(3, 8), "init": "gaussian", "scale": 0.1, "level": 0.4} | change
    with pytest.raises(ValueError, match=message):
        nr.expected_learning_time(**given)


def test_other_networks_are_refused():
    x, y = np.eye(2), np.ones((2, 1))
    for graph in (
        nr.Graph.chain([2, 4, 1], activations={"h1": "relu"}),
        nr.Graph.chain([2, 4, 1], biases=True),
        nr.Graph({"x": 2, "h": 2, "y": 1}, [nr.Edge("x", "h", diagonal=True), ("h", "y")]),
    ):
        with pytest.raises(ValueError, match="must have a linear graph"):
            nr.expected_learning_time(nr.Task(graph, x, y), "gaussian", 0.1, 0.1)
    single = nr.Task(nr.Graph.chain([2, 2, 1]), x, y, gates={"h1": np.eye(2)})
    with pytest.raises(ValueError, match=r"those of \['h1'\] differ"):
        nr.expected_learning_time(single, "gaussian", 0.1, 0.1)
