"""Structured worlds: closed forms against covariances, samples and networks."""

from itertools import pairwise

import numpy as np
import pytest

import neuralrace as nr

WORLDS = {
    "partition": lambda **k: nr.tasks.partition(3, 4, 0.2, **k),
    "uneven partition": lambda **k: nr.tasks.partition(4, (1, 2, 5, 2), **k),
    "one class": lambda **k: nr.tasks.partition(1, 5, **k),
    "tree": lambda **k: nr.tasks.tree((2, 2, 2, 2), 0.15, **k),
    "mixed tree": lambda **k: nr.tasks.tree((3, 2, 4), (0.05, 0.3, 0.1), **k),
    "star": lambda **k: nr.tasks.tree((6,), **k),
    "even ring": lambda **k: nr.tasks.ring(12, **k),
    "odd ring": lambda **k: nr.tasks.ring(7, 0.7, **k),
    "grid": lambda **k: nr.tasks.grid(4, 4, **k),
    "oblong grid": lambda **k: nr.tasks.grid(3, 5, 5.0, **k),
    "line": lambda **k: nr.tasks.grid(1, 6, **k),
}
by_world = pytest.mark.parametrize("name", WORLDS)


@by_world
def test_closed_forms_are_those_of_the_covariance(name):
    world = WORLDS[name]()
    n = len(world.values)
    assert np.abs(np.linalg.eigvalsh(world.covariance)[::-1] - world.values).max() < 1e-12
    assert np.abs(world.covariance @ world.vectors - world.vectors * world.values).max() < 1e-12
    assert np.abs(world.vectors.T @ world.vectors - np.eye(n)).max() < 1e-12
    assert len(set(world.values.round(9))) == world.stages[-1] + 1
    syx = world.syx(("x->h1", "h1->y"))
    assert np.allclose(np.linalg.svd(syx)[1], world.singular_values, atol=1e-12)
    x, y = world.arrays
    assert np.array_equal(x, np.eye(n))
    assert np.allclose(y @ y.T, world.covariance, atol=1e-12)


@by_world
def test_samples_have_the_covariance(name):
    """Entries within five standard errors, singular values within the bound of a normal matrix."""
    features = 100_000
    world = WORLDS[name](features=features, seed=3)
    y = world.arrays[1]
    n = len(y)
    f = y * features**0.5
    error = np.sqrt((np.square(f) @ np.square(f).T / features - world.covariance**2) / features)
    assert (np.abs(y @ y.T - world.covariance) <= 5 * error + 1e-12).all()
    off = np.linalg.svd(y, compute_uv=False) / np.sqrt(world.values) - 1
    assert np.abs(off).max() < (n**0.5 + 4) / features**0.5
    assert not np.array_equal(y, WORLDS[name](features=features, seed=4).arrays[1])


def test_features_diffuse_down_the_tree():
    """Covariances straight from the definition: a factor 1 - 2 flip for every branch between two items."""
    branching, flip = (3, 2, 2), (0.05, 0.3, 0.1)
    world = nr.tasks.tree(branching, flip)
    codes = np.stack(np.unravel_index(np.arange(12), branching), axis=1)
    for i, a in enumerate(codes):
        for j, b in enumerate(codes):
            shared = next((k for k, (u, v) in enumerate(zip(a, b, strict=True)) if u != v), 3)
            want = np.prod([(1 - 2 * p) ** 2 for p in flip[shared:]])
            assert world.covariance[i, j] == pytest.approx(want)


def test_neighbours_on_graphs_are_joined():
    for world, wanted in (
        (nr.tasks.ring(5), {(i, (i + 1) % 5) for i in range(5)}),
        (nr.tasks.grid(2, 3), {(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)}),
    ):
        precision = np.linalg.inv(world.covariance)
        joined = {tuple(sorted(e)) for e in wanted}
        for i, j in np.ndindex(precision.shape):
            want = -1.0 if tuple(sorted((i, j))) in joined else 0.0
            assert i == j or precision[i, j] == pytest.approx(want, abs=1e-9)
        assert np.allclose(precision.sum(axis=1), 1 / 4)  # sigma = 2


def test_a_level_is_always_learned_before_the_next():
    rng = np.random.default_rng(0)
    for _ in range(50):
        branching = rng.integers(2, 5, size=rng.integers(1, 5)).tolist()
        values = nr.tasks.tree(branching, rng.uniform(0.001, 0.499, len(branching)).tolist()).values
        firsts = values[np.cumprod([1, *branching]) - 1]
        assert all(a > b for a, b in pairwise(firsts))


def test_a_network_learns_the_modes_as_chains():
    world = nr.tasks.tree((2, 2), hidden=4)
    w = 0.05 * world.vectors.T  # aligned: every mode has a hidden unit
    run = nr.flow(world, {"x->h1": w, "h1->y": 0.05 * np.eye(4)}, t1=60.0, save=31)
    hidden, readout = run.weights.values()
    modes = np.diagonal(readout @ hidden @ world.vectors, axis1=1, axis2=2)
    theory = nr.exact.chain(run.t[:, None], world.singular_values, 1 / 4, 0.05**2)
    assert np.abs(modes - theory).max() < 1e-7


def test_graph_and_features():
    graph = nr.Graph.chain([6, 10, 10, 50])
    world = nr.tasks.ring(6, features=50, graph=graph)
    assert world.graph is graph
    assert world.arrays[1].shape == (6, 50)
    assert set(np.unique(nr.tasks.tree(features=4).arrays[1])) == {-0.5, 0.5}


WRONG = [
    (lambda: nr.tasks.partition(0, 2), "classes must be at least 1"),
    (lambda: nr.tasks.partition(2, 0), "per_class must be at least 1"),
    (lambda: nr.tasks.partition(3, (2, 2)), "per_class must be one number or 3"),
    (lambda: nr.tasks.partition(3, 2, flip=0.5), "flip must be above 0 and below 0.5"),
    (lambda: nr.tasks.partition(3, 2, flip=(0.1, 0.1)), "flip must be one number or 1"),
    (lambda: nr.tasks.tree(()), "branching must be a list"),
    (lambda: nr.tasks.tree(3), "branching must be a list"),  # pyright: ignore[reportArgumentType]
    (lambda: nr.tasks.tree((2, 1)), "branching must be at least 2"),
    (lambda: nr.tasks.tree((2, 2), (0.1, 0.2, 0.3)), "flip must be one number or 2"),
    (lambda: nr.tasks.tree((2, 2), 0.0), "flip must be above 0"),
    (lambda: nr.tasks.ring(2), "n must be at least 3"),
    (lambda: nr.tasks.ring(5, sigma=0), "sigma must be greater than 0"),
    (lambda: nr.tasks.grid(1, 1), "at least 2 items"),
    (lambda: nr.tasks.grid(0, 3), "rows must be at least 1"),
    (lambda: nr.tasks.grid(2, 2, features=0), "features must be at least 1"),
    (lambda: nr.tasks.grid(2, 2, seed=-1), "seed must be at least 0"),
    (lambda: nr.tasks.grid(2, 2, hidden=0), "hidden must be at least 1"),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_wrong_input_is_refused(call, message):
    with pytest.raises(nr.errors.InputError, match=message):
        call()
