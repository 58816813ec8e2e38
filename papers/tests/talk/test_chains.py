import numpy as np
import pytest

import neuralrace as nr
import neuralrace_papers
from neuralrace_papers.talk import chains, epochs


def test_epochs_are_steps_of_descent():
    p = chains.Chains(seeds=1, width=2, strengths=(1.5, 1.0), level=0.0125, epochs=300)
    task, b, steps = p.task(2, 2), np.array([0.5, 0.5]), 0
    while ((p.s - b**2) ** 2).sum() / 2 > p.learned_loss:
        b, steps = b + p.rate / 2 * b * (p.s - b**2), steps + 1
    start = {e: np.stack([0.5 * np.eye(2), -np.eye(2) * (k or -1)]) for k, e in enumerate(task.graph.edges)}
    took = epochs.epochs_to_learn(p, task, start, p.epochs)
    assert took[0] == steps
    assert np.isnan(took[1])  # the wrong sign is never learned


def test_theory_of_pretraining_is_that_of_its_parts():
    """Two autoencoders along a logistic curve, then one pathway from a silent readout."""
    p = chains.Chains(seeds=1, width=2, strengths=(2.0,), epochs=10)
    one = np.log((1 / np.sqrt(p.reconstructed) - 1) * (1 / 0.2**2 - 1)) / 2
    found = epochs.train(p, 3, 0.9, 0.2)
    tuning = found["theory"][1][1] * p.rate - 2 * 2 * one
    assert nr.exact.pathways(tuning / 3, 2.0, [3], [0.0])[0] == pytest.approx(2 * (1 - 0.1), rel=1e-5)


def test_aligned_networks_take_the_time_of_chains():
    p = chains.Chains(seeds=1, width=2, strengths=(2.0, 1.0), deep=3)
    wanted = [nr.exact.chain_time(1 / 4, s, p.aligned**3, 3) for s in p.s]  # of the error, at half
    assert epochs.aligned_half_times(p) == pytest.approx(wanted, rel=1e-3)


CHAINS = {"seeds": 2, "depths": (1, 2, 4, 6), "gains": (0.5, 0.7), "gain": 0.7, "deep": 4, "curves": (1, 2),
          "strengths": (2.0, 1.0), "width": 4, "rate": 0.1, "square": 8, "patience": 3000}  # fmt: skip


@pytest.mark.whole
def test_experiment(tmp_path):
    report = neuralrace_papers.run("chains", quick=True, out=tmp_path, changes=CHAINS)
    value = {id: row.value for id, row in report.rows.items()}
    for formula in ("eq-shallow-corrected", "eq-deep", "eq-very-deep-corrected"):
        assert value[formula] < 1e-8, formula
    assert min(value["eq-shallow-printed"], value["eq-very-deep-printed"]) > 0.5
    assert value["saddle-falls"] == pytest.approx(-1)
    assert value["orthogonal-sign"] == 1
    assert value["small-random-exponent"] == pytest.approx(-2, abs=0.7)
    assert abs(value["pretrained-exponent"]) < 0.3
    assert value["stages-deep"] < value["stages-shallow"]
    assert {n for n, _ in report.figures} == {"chains-trajectories", "chains-surface", "chains-depth"}


WRONG = [
    ({"depths": (2, 3, 4, 5)}, "depths must start with 1"),
    ({"depths": (1, 2, 3, 4)}, "two must be at least 4"),
    ({"width": 3}, "width must be at least 4"),
    ({"rate": 0.5}, "rate must be below"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_wrong_parameters_are_refused(changes, message):
    with pytest.raises(nr.errors.InputError, match=message):
        chains.Chains(**changes)
