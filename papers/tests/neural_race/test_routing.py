import numpy as np
import pytest

import neuralrace as nr
from neuralrace_papers.neural_race import domains_data, routing


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
