import numpy as np
import pytest

import neuralrace as nr
from neuralrace.experiments import relative_scale as scale


def test_ways_of_scaling():
    p = scale.RelativeScale()
    assert p.scaled(1.0, 1.0, 16.0, "relative") == (0.25, 4.0)
    assert p.scaled(1.0, 1.0, 16.0, "first") == (0.25, 1.0)
    assert p.scaled(1.0, 1.0, 16.0, "later") == (1.0, 4.0)


def test_roughness_of_noise_and_of_ramps():
    rng = np.random.default_rng(0)
    assert np.isclose(scale.roughness(rng.standard_normal((4000, 5, 5))), 2, rtol=0.02)
    assert scale.roughness(np.ones((3, 5, 5))) == 0
    checks = (-1.0) ** (np.arange(5)[:, None] + np.arange(5))
    assert scale.roughness(checks[None]) == 4


def test_new_is_what_does_not_lie_along_the_start():
    start = np.zeros((1, 1, 1, 2, 2))
    start[..., 0, 0] = 2.0
    moved = start.copy()
    moved[..., 1, 1] = 2.0
    assert scale.new({"filters": start, "start": start}) == 0
    assert np.isclose(scale.new({"filters": moved, "start": start}), 0.5)


def test_structured_share_of_components_and_of_noise():
    p = scale.RelativeScale(images=300, filters=400)
    noise = np.random.default_rng(0).standard_normal((1, 1, 400, 5, 5))
    assert np.isclose(scale.structured(noise, p)[0, 0], 5 / 25, atol=0.02)  # four standard deviations
    images = nr.tasks.digits(centred=True).arrays[0][:300].reshape(-1, 8, 8)
    patches = np.array([i[a : a + 5, b : b + 5].ravel() for i in images for a in range(4) for b in range(4)])
    _, _, vt = np.linalg.svd(patches, full_matrices=False)
    for k, want in ((0, 1.0), (4, 1.0), (5, 0.0), (24, 0.0)):
        filters = np.tile(vt[k].reshape(5, 5), (1, 1, 400, 1, 1))
        assert np.isclose(scale.structured(filters, p)[0, 0], want, atol=1e-8)


def test_sums_that_are_left_out_are_not_trained():
    p = scale.RelativeScale(modulus=5, share=0.6, hidden=4)
    task, known = scale.addition(p)
    x, y = task.arrays
    assert x.shape == (15, 10)
    a, b = x[:, :5].argmax(axis=1), x[:, 5:].argmax(axis=1)
    assert (y.argmax(axis=1) == (a + b) % 5).all()
    silent = {"x->h1": np.zeros((4, 10)), "h1->y": np.zeros((5, 4))}
    wrong = known(nr.State(0.0, task, lambda: silent))  # says 0 to every sum
    total = 15 * float(wrong["trained"]) + 10 * float(wrong["others"])
    assert np.isclose(total, 5)
    assert np.isclose(float(wrong["trained"]), (y.argmax(axis=1) == 0).mean())


@pytest.mark.whole
def test_experiment(tmp_path):
    report = nr.experiments.run("relative-scale", quick=True, out=tmp_path)
    found = {c.name: c for c in report.claims}
    assert found["grokking: steps to understand / to memorise, r = 1"].holds
    assert found["filters, first: roughness, r = 8 - r = 0.125"].holds
    assert found["filters, first: share that is new, r = 8 - r = 0.125"].holds
    assert len(report.figures) == 2


WRONG = [
    ({"ratios": (1.0, 4.0)}, "ratios must increase"),
    ({"ratios": (0.5, 2.0, 4.0)}, "ratios must increase, at least three with 1"),
    ({"ratios": (4.0, 1.0, 0.5)}, "ratios must increase"),
    ({"share": 0.99}, "share must be from 0.1 to 0.95"),
    ({"more": 1.0}, "more must be from 0.1 to 0.95"),
    ({"modulus": 3}, "modulus must be at least 5"),
    ({"size": 8}, "size must be at most 7"),
    ({"images": 5000}, "images must be at most 1437"),
    ({"level": 0.5}, "level must be below 0.45"),
    ({"steps": 10}, "steps must be at least 100"),
    ({"decay": -1.0}, "decay must be at least 0"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_wrong_parameters_are_refused(changes, message):
    with pytest.raises(nr.errors.InputError, match=message):
        scale.RelativeScale(**changes)
