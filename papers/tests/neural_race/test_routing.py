from itertools import product

import numpy as np
import pytest

import neuralrace as nr
from neuralrace_papers.neural_race import domains_data, routing
from neuralrace_papers.neural_race.domains_data import FEATURES, ITEMS, TARGETS


def noisy_samples(pairs: np.ndarray) -> nr.Task:
    """All items on all trained routes, as samples; the domains that are gated off show and ask for noise."""
    routes, rng = np.repeat(np.argwhere(pairs), ITEMS, axis=0), np.random.default_rng(0)
    item = np.arange(len(routes)) % ITEMS
    samples, gates = {}, {}
    for side, (end, wanted) in enumerate((("x", np.eye(ITEMS)), ("y", TARGETS))):
        for k in range(len(pairs)):
            gates[f"{end}{k}"] = routes[:, side] == k
            noise = rng.standard_normal((len(routes), wanted.shape[1]))
            samples[f"{end}{k}"] = np.where(gates[f"{end}{k}"][:, None], wanted[item], noise)
    graph = nr.Graph.routing(len(pairs), ITEMS, (1, 1), FEATURES)
    inputs, targets = ({n: v for n, v in samples.items() if n[0] == end} for end in "xy")
    return nr.Task(graph, inputs, targets, gates)


def test_path_statistics_are_those_of_the_data_scaled():
    """Eq. 11-12 and 39-43, from samples in which all domains that are gated off show and ask for noise."""
    pairs = routing.Routing().pairs(4)
    task = noisy_samples(pairs)
    paths = {(i, j): [f"x{i}->h1", "h1->h2", f"h2->y{j}"] for i, j in np.ndindex(pairs.shape)}
    syx, sxx = TARGETS.T / (ITEMS * pairs.sum()), np.eye(ITEMS) / (ITEMS * pairs.sum())
    for (i, j), path in paths.items():
        assert np.abs(task.syx(path) - pairs[i, j] * syx).max() < 1e-12
    for (i, j), k in product(paths, range(7)):
        expected = pairs[i, j] * (i == k) * sxx
        assert np.abs(task.sxx(paths[k, j], paths[i, j]) - expected).max() < 1e-12


def test_eq_15_is_the_reduction_from_equal_strengths():
    p = routing.Routing()
    task, t = domains_data.task(7, p.pairs(4), 5), np.linspace(0, 40, 9)
    solved = nr.reduce(task).solve(0.1, save=t)
    loss, b1, b2 = domains_data.eq15(7, t, 0.1)
    assert np.abs(loss - solved.loss).max() < 1e-6
    assert np.abs(np.sort(b2) - np.sort(solved.strengths[..., 1])).max() < 1e-6
    assert np.abs(np.sort(b1) - np.sort(solved.strengths[..., 0])).max() < 1e-6


def test_the_published_loss_is_a_sum_over_trained_pairs():
    p = routing.Routing()
    assert p.published == 8
    assert p.t1(p.scale) == pytest.approx(80)
    pairs = p.pairs(4)
    w = nr.init.orthogonal(nr.Graph.routing(7, 4, (64, 64), 7), 0.2, seed=0)
    total = 0.0
    for i, j in np.argwhere(pairs):
        y = (w[f"h2->y{j}"] @ w["h1->h2"] @ w[f"x{i}->h1"]).T
        total += ((y - domains_data.TARGETS) ** 2).mean()
    assert p.published * nr.loss(domains_data.task(7, pairs, 64), w) == pytest.approx(total)


def test_a_fitted_start_finds_the_one_that_made_the_times():
    p, t = routing.Routing(hidden=6), np.linspace(0, 80, 51)
    start = nr.init.orthogonal(domains_data.task(7, p.pairs(4), 6).graph, 0.2, seed=range(2))
    made = domains_data.eq15(7, np.linspace(0, 160, 4001), 0.06)[0]
    times = nr.measure.crossing(np.linspace(0, 160, 4001), made, np.array(routing.LEVELS) / p.published)
    found = routing.by_eq15(p, start, np.stack([times, times], axis=1), t)
    assert found["fitted"] == pytest.approx(0.06, rel=0.01)
    into, hidden = routing.strengths_of_size(start, 7)
    assert (into, hidden) == pytest.approx((0.2, 0.2))


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="below domains"):
        routing.Routing(trained=7)
    with pytest.raises(ValueError, match="hidden must be above"):
        routing.Routing(hidden=4)
    with pytest.raises(ValueError, match="below domains"):
        routing.Routing(few=(4,))
