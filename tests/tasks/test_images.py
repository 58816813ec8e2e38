import numpy as np
import pytest

import neuralrace as nr
from neuralrace.tasks import images


@pytest.fixture
def base():
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((40, 16)), rng.integers(4, size=40)
    return nr.Task(nr.Graph.chain([16, 5, 4]), x, np.eye(4)[labels])


def image_file(path, side=4, channels=(), n=6, **replace):
    rng = np.random.default_rng(1)
    arrays = {}
    for part in ("train", "test"):
        arrays[f"x_{part}"] = rng.integers(256, size=(n, side, side, *channels)).astype(np.uint8)
        arrays[f"y_{part}"] = np.arange(n) % 10
    np.savez(path, **{**arrays, **replace})
    return arrays


# -- images ----------------------------------------------------------------------------------


def test_digits_have_two_parts_without_overlap():
    (x, y), (x_test, y_test) = nr.tasks.digits().arrays, nr.tasks.digits("test").arrays
    assert len(x) + len(x_test) == 1797
    assert x.shape[1] == 64
    assert 0 <= x.min() <= x.max() == 1
    assert (y.sum(axis=1) == 1).all()
    assert y_test.sum(axis=0).min() > 20
    centred = nr.tasks.digits(centred=True).arrays[0]
    assert np.abs(centred.mean(axis=0)).max() < 1e-14
    assert np.allclose(nr.tasks.digits("test", centred=True).arrays[0], x_test - x.mean(axis=0))


def test_images_are_read_from_file_folder_and_environment(tmp_path, monkeypatch):
    arrays = image_file(tmp_path / "mnist.npz")
    expected = arrays["x_test"].reshape(6, -1) / 255
    for path in (tmp_path, tmp_path / "mnist.npz"):
        x, y = nr.tasks.mnist(path, "test").arrays
        assert np.array_equal(x, expected)
        assert np.array_equal(y.argmax(axis=1), arrays["y_test"])
    monkeypatch.setenv("NEURALRACE_DATA", str(tmp_path))
    assert np.array_equal(nr.tasks.mnist(part="test").arrays[0], expected)
    image_file(tmp_path / "cifar10_small.npz", channels=(3,))
    assert nr.tasks.cifar10(tmp_path).arrays[0].shape == (6, 48)


def test_absent_and_malformed_images_are_refused(tmp_path, monkeypatch):
    def no_network(*args, **keywords):
        raise OSError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", no_network)
    monkeypatch.delenv("NEURALRACE_DATA", raising=False)
    with pytest.raises(ValueError, match=r"mnist is not here and could not be downloaded .*NEURALRACE_DATA"):
        nr.tasks.mnist()
    with pytest.raises(ValueError, match="path must be an npz file or a folder with cifar10"):
        nr.tasks.cifar10(tmp_path)
    (tmp_path / "mnist.npz").write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"mnist\.npz cannot be read: it must be an npz file"):
        nr.tasks.mnist(tmp_path)
    np.savez(tmp_path / "mnist.npz", x_train=np.zeros((2, 4, 4)))
    with pytest.raises(ValueError, match=r"must hold the arrays x_train, .*; it holds x_train"):
        nr.tasks.mnist(tmp_path)
    for labels in (np.full(6, 10), np.full(6, 0.5), np.full(6, np.nan), np.full(6, "a"), np.zeros((6, 1))):
        image_file(tmp_path / "mnist.npz", y_train=labels)
        with pytest.raises(ValueError, match=r"one label in 0\.\.9"):
            nr.tasks.mnist(tmp_path)
    with pytest.raises(ValueError, match="part must be one of train, test"):
        nr.tasks.digits("all")


def test_downloaded_colour_images_get_their_channels_last(monkeypatch):
    def fetch(name, **keywords):
        x = np.repeat([[255.0, 0, 51]], 50_001, axis=0).repeat(4, axis=1)  # 2 x 2 pixels, channel by channel
        return np.repeat(x, 256, axis=1), np.full(50_001, "3")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    monkeypatch.delenv("NEURALRACE_DATA", raising=False)
    x, y = nr.tasks.cifar10(part="test").arrays
    assert np.array_equal(x[0, :6], [1, 0, 0.2, 1, 0, 0.2])
    assert y.tolist() == [[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]]


# -- transformations -------------------------------------------------------------------------


def test_rotation_by_a_right_angle_is_that_of_the_pixels():
    rng = np.random.default_rng(0)
    for channels in ((), (3,)):
        x = rng.standard_normal((5, 6, 6, *channels))
        turned = images._rotated(x.reshape(5, -1), 90.0).reshape(x.shape)
        same = [np.rot90(x, k, axes=(1, 2)) for k in (1, 3)]
        assert min(np.abs(turned - s).max() for s in same) < 1e-12
    with pytest.raises(ValueError, match="square images"):
        images._rotated(np.zeros((1, 10)), 45.0)


@pytest.mark.parametrize("inputs", ["permutation", "rotation"])
def test_moments_and_samples_say_the_same(base, inputs):
    pairs = nr.tasks.circulant(3, 2, seed=1)
    graph = nr.Graph.routing(3, 16, (5, 6), 4)
    moments, samples = (
        nr.tasks.transformed(base, 3, pairs, inputs, samples=s, graph=graph, seed=2) for s in (False, True)
    )
    assert moments.n_contexts == samples.n_contexts == 6
    assert samples.sampled
    assert not moments.sampled
    w = nr.init.xavier(graph, seed=range(2))
    assert np.allclose(nr.loss(moments, w), nr.loss(samples, w), rtol=1e-12)
    for e, g in nr.gradient(moments, w).items():
        assert np.allclose(g, nr.gradient(samples, w)[e], atol=1e-12)
    # and what a sample by sample computation gives
    xs, orders = nr.tasks.input_domains(base, 3, inputs), images._label_orders(3, 4, 2)
    y, total = base.arrays[1], 0.0
    for i, j in np.argwhere(pairs):
        h = xs[i] @ (w[f"h2->y{j}"][0] @ w["h1->h2"][0] @ w[f"x{i}->h1"][0]).T
        total += 0.5 * ((y[:, orders[j]] - h) ** 2).sum() / len(y)
    assert np.isclose(nr.loss(samples, w)[0], total / 6, rtol=1e-12)


def test_targets_need_not_be_one_hot(base):
    x, y = base.arrays
    base = nr.Task(base.graph, x, 1.5 * y - 0.2)
    moments, samples = (nr.tasks.transformed(base, 3, 2, samples=s) for s in (False, True))
    w = nr.init.xavier(moments.graph, seed=1)
    assert nr.loss(moments, w) == pytest.approx(nr.loss(samples, w), rel=1e-12)


def test_permuted_pixels_only_renumber_the_input_neurons(base):
    rng = np.random.default_rng(3)
    orders = [rng.permutation(16) for _ in range(3)]
    explicit = [base.arrays[0][:, order] for order in orders]
    shared = nr.tasks.transformed(base, 3, 2)
    permuted = nr.tasks.transformed(base, 3, 2, explicit)
    w = nr.init.xavier(shared.graph, 0.5, seed=0)
    moved = {e: v[:, orders[int(e[1])]] if e.startswith("x") else v for e, v in w.items()}
    a, b = nr.flow(shared, w, 5.0, save=3), nr.flow(permuted, moved, 5.0, save=3)
    assert np.allclose(a.loss, b.loss, rtol=1e-7)
    assert np.allclose(a.weights["x1->h1"][..., orders[1]], b.weights["x1->h1"], atol=1e-7)
    assert np.allclose(a.weights["h2->y0"], b.weights["h2->y0"], atol=1e-7)


def test_labels_are_permuted_at_random(base):
    orders = images._label_orders(20, 10, 0)
    assert len({tuple(o) for o in orders}) == 20
    assert len(set(orders[:, 0])) > 5  # the first permutations in lexicographic order all start alike
    with pytest.raises(ValueError, match="inputs must hold 3 arrays of 40 rows"):
        nr.tasks.transformed(base, 3, 2, [base.arrays[0]] * 2)
    with pytest.raises(ValueError, match="inputs must be one of permutation, rotation"):
        nr.tasks.transformed(base, 3, 2, "mirror")


def test_permuted_domains_take_no_memory_and_rotated_ones_are_counted(base):
    many = nr.tasks.input_domains(base, 10**7)
    assert len(many) == 10**7
    assert many[0] is many[-1]
    with pytest.raises(ValueError, match=r"domains = 1000000000 is too large.*half of this machine's memory"):
        nr.tasks.input_domains(base, 10**9, "rotation")


def test_circulant_trains_all_domains_equally():
    for shift, seed in ((0, None), (-1, None), (0, 3)):
        pairs = nr.tasks.circulant(7, 4, shift, seed)
        assert (pairs.sum(axis=0) == 4).all()
        assert (pairs.sum(axis=1) == 4).all()
    assert np.flatnonzero(nr.tasks.circulant(7, 4, -1)[0]).tolist() == [0, 1, 2, 6]
    with pytest.raises(ValueError, match="trained must mark at least one pair"):
        nr.tasks.routing(3, np.zeros((3, 3)))
    with pytest.raises(ValueError, match=r"trained must have shape \(3, 3\)"):
        nr.tasks.routing(3, np.ones((2, 3)))


def test_encoder_gives_centred_features_of_unit_variance():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(30, 300))
    colour = nr.Task(nr.Graph.chain([300, 2, 2]), x, np.eye(2)[rng.integers(2, size=30)])
    encode = nr.tasks.patch_encoder(colour, filters=3, size=4)
    found = encode(x)
    assert found.shape == (30, 24)
    assert np.abs(found.mean(axis=0)).max() < 1e-5
    assert np.isclose(found.var(axis=0).mean(), 1)
    assert np.array_equal(encode(x[:4]), found[:4])


# -- errors and mini-batches by context ------------------------------------------------------


@pytest.fixture
def routed():
    rng = np.random.default_rng(5)  # more rows than a block holds
    base = nr.Task(
        nr.Graph.chain([9, 5, 4]), rng.standard_normal((700, 9)), np.eye(4)[rng.integers(4, size=700)]
    )
    graph = nr.Graph.routing(3, 9, (6, 5), 4, biases=True, activations={"h1": "leaky_relu"})
    return base, nr.tasks.transformed(base, 3, 2, samples=True, graph=graph)


def test_error_rate_is_the_share_of_wrong_answers(routed):
    base, task = routed
    rng = np.random.default_rng(0)
    w = nr.init.xavier(task.graph, seed=range(2))
    w.update({n: rng.standard_normal(w[n].shape) for n in task.graph.biases})
    found, orders = nr.error_rate(task, w), images._label_orders(3, 4, 0)
    assert found.shape == (2, 6)
    x, y = base.arrays
    for k, (i, j) in enumerate(np.argwhere(nr.tasks.circulant(3, 2))):
        h = x @ w[f"x{i}->h1"][1].T + w["h1"][1]
        h = np.where(h > 0, h, 0.01 * h) @ w["h1->h2"][1].T + w["h2"][1]
        answer = (h @ w[f"h2->y{j}"][1].T + w[f"y{j}"][1]).argmax(axis=1)
        assert np.isclose(found[1, k], (answer != y[:, orders[j]].argmax(axis=1)).mean(), atol=1e-12)
    with pytest.raises(ValueError, match="must hold samples"):
        nr.error_rate(nr.tasks.routing(3, 2), {})


def test_batches_take_the_same_rows_from_every_context(routed):
    _, task = routed
    w = nr.init.xavier(task.graph, seed=0)
    settings = {"lr": 0.3, "steps": 4, "save": 2, "loss": "cross_entropy"}
    whole, batch = nr.descend(task, w, **settings), nr.descend(task, w, batch_size=700, **settings)
    assert np.allclose(whole.loss, batch.loss, rtol=1e-10)
    small = nr.descend(task, w, batch_size=50, **settings)
    assert np.isclose(
        small.loss[-1], nr.loss(task, {n: v[-1] for n, v in small.weights.items()}, "cross_entropy")
    )
    assert not np.isclose(small.loss[-1], whole.loss[-1], rtol=1e-4)
    rows = task.sample_contexts[0]
    uneven = [rows, *task.sample_contexts[1:5]]
    short = nr.tasks.transformed(
        nr.Task(nr.Graph.chain([9, 5, 4]), np.ones((3, 9)), np.eye(4)[:3]),
        3,
        2,
        samples=True,
        graph=task.graph,
    )
    both = nr.Task.from_contexts(task.graph, [*uneven, short.sample_contexts[0]])
    with pytest.raises(ValueError, match="contexts with equally many samples"):
        nr.descend(both, w, batch_size=2, **settings)


def test_gradient_of_a_batch_is_that_of_its_rows(routed):
    base, task = routed
    w = nr.init.xavier(task.graph, seed=0)
    run = nr.descend(task, w, lr=1.0, steps=1, save=2, batch_size=20, loss="cross_entropy", seed=3)
    step = {n: v[0] - v[1] for n, v in run.weights.items()}
    import jax

    chosen = np.asarray(jax.random.permutation(jax.random.fold_in(jax.random.key(3), 0), 700))[:20]
    x, y = base.arrays
    part = nr.Task(nr.Graph.chain([9, 5, 4]), x[chosen], y[chosen])
    alone = nr.tasks.transformed(part, 3, 2, samples=True, graph=task.graph)
    for n, g in nr.gradient(alone, w, "cross_entropy").items():
        assert np.allclose(step[n], g, atol=1e-10)


def test_features_of_each_domain_are_read_from_a_file(tmp_path):
    rng, file = np.random.default_rng(2), tmp_path / "features.npz"
    arrays = {"x_train": rng.normal(size=(3, 6, 5)), "y_train": np.arange(6)}
    arrays |= {"x_test": rng.normal(size=(3, 4, 5)).astype(np.float32), "y_test": np.arange(4) + 6}
    np.savez(file, **arrays)
    features, labels = nr.tasks.domain_features(file, "test")
    assert np.array_equal(features, arrays["x_test"])
    assert labels.argmax(axis=1).tolist() == [6, 7, 8, 9]
    for change, message in (
        ({"x_test": None}, "x_train, y_train, x_test and y_test"),
        ({"x_train": arrays["x_train"][0]}, "x_train must be numbers of shape"),
        ({"y_train": np.arange(5)}, "y_train must hold one label"),
        ({"y_test": np.arange(4) + 7}, "y_test must hold one label"),
        ({"y_test": np.arange(4) + 0.5}, "y_test must hold one label"),
        ({"x_test": arrays["x_test"][:2]}, "equally many domains"),
    ):
        np.savez(file, **{k: v for k, v in {**arrays, **change}.items() if v is not None})
        with pytest.raises(ValueError, match=message):
            nr.tasks.domain_features(file)
    with pytest.raises(ValueError, match="path must be the name of a file"):
        nr.tasks.domain_features(None)
