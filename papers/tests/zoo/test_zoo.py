from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import InputError
from neuralrace.universality import fit_recorded
from neuralrace_papers.zoo import ZOO, Network, descent, train
from neuralrace_papers.zoo.network import ACTIVATIONS

SMALL = Network(depth=3, width=12, gain=0.9)
ACTIVATE = {
    "linear": lambda a: a,
    "relu": lambda a: np.maximum(a, 0),
    "leaky_relu": lambda a: np.where(a > 0, a, 0.01 * a),
    "leaky_relu_torch": lambda a: np.where(a > 0, a, 0.01 * a),
    "elu": lambda a: np.where(a > 0, a, np.expm1(np.minimum(a, 0))),
    "tanh": np.tanh,
    "swish": lambda a: a / (1 + np.exp(-a)),
}


def two_points(dx2=1.0, dy2=0.5):
    return nr.tasks.two_points(dx2, dy2).arrays


def many_points(dx2, dy2):
    return (np.stack(v) for v in zip(*map(two_points, dx2, dy2), strict=True))


def start(network, seed):
    with jax.enable_x64(True):
        key = jax.random.split(jax.random.key(seed))[0]
        return [[np.asarray(v) for v in group] for group in network.start(key, 1, 1)]


def forward(network, weights, biases, x):
    """Activity of all hidden layers and the outputs, written out in NumPy."""
    hidden, h = [], x
    for k, w in enumerate(weights[:-1]):
        if w.ndim == 3:
            wide = h.reshape(len(h), -1, w.shape[1])
            length = wide.shape[1] - network.kernel + 1
            a = sum(wide[:, j : j + length] @ w[j] for j in range(network.kernel))
            a = (a + biases[k]).reshape(len(h), -1)
        else:
            a = h @ w + biases[k]
        h = ACTIVATE[network.activation](a)
        if network.skip and k > 1:
            h = h + hidden[k - 2]
        hidden.append(h)
    return hidden, h @ weights[-1] + biases[-1]


def measures(network, weights, biases, x, y):
    hidden, out = forward(network, weights, biases, x)
    dy = out[1] - out[0]
    dh2 = [((h[1] - h[0]) ** 2).sum() for h in hidden]
    return dh2, dy @ dy, dy @ (dy - y[1] + y[0]), ((out - y) ** 2).sum() / 4


def plain(network, seed, x, y, lr, steps):
    """Descent by finite differences of the loss, one step after the other."""
    weights, biases = start(network, seed)
    params, kept = [*weights, *biases], []
    n = len(weights)
    for _ in range(steps + 1):
        kept.append(measures(network, params[:n], params[n:], x, y))
        slopes = []
        for i, p in enumerate(params):
            slope = np.zeros_like(p)
            for at in np.ndindex(p.shape):
                sides = []
                for e in (1e-6, -1e-6):
                    moved = [v.copy() if j == i else v for j, v in enumerate(params)]
                    moved[i][at] += e
                    sides.append(measures(network, moved[:n], moved[n:], x, y)[3])
                slope[at] = (sides[0] - sides[1]) / 2e-6
            slopes.append(slope)
        params = [p - lr * s for p, s in zip(params, slopes, strict=True)]
    return [np.array([k[i] for k in kept]) for i in range(4)]


@pytest.mark.parametrize(
    "network",
    [
        Network(depth=4, width=3, gain=1.2, skip=True, activation="tanh"),
        Network(depth=2, width=9, channels=2, kernel=3, activation="elu"),
        Network(depth=1, width=4, activation="swish"),
    ],
    ids=["skip", "convolution", "shallow"],
)
def test_training_is_descent_on_half_the_mean_squared_error(network):
    x, y = two_points(0.49, 0.64)
    run = train(network, x, y, 0.1, 5, 3, dtype=np.float64)
    dh2, dy2, w, loss = plain(network, 3, x, y, 0.1, 5)
    assert np.allclose(run.recorded["dh2"][0], dh2, rtol=1e-7, atol=1e-12)
    for found, expected in ((run.recorded["dy2"], dy2), (run.recorded["w"], w), (run.loss, loss)):
        assert np.allclose(found[0], expected, rtol=1e-7, atol=1e-12)
    assert np.allclose([run.runs["dx"][0], run.runs["dy"][0]], [0.7, 0.8])
    assert np.allclose(run.t, 0.1 * np.arange(6))


@pytest.mark.parametrize("activation", ACTIVATE)
def test_activations(activation):
    network = replace(SMALL, activation=activation)
    x, _ = two_points()
    weights, biases = start(network, 0)
    with jax.enable_x64(True):
        *found, out = network.layers(jnp.asarray(x), network.affine(weights, biases))[1:]
    hidden, expected = forward(network, weights, biases, x)
    assert np.allclose(found, hidden, rtol=1e-12, atol=1e-15)
    assert np.allclose(out, expected, rtol=1e-12)


def test_factors_of_updates_equal_updates():
    # More steps than a block, and not a multiple of it; layers so wide that products are taken row by row.
    network = Network(3, descent.LARGE, skip=True, dropout=0.2)
    x, y = two_points()
    steps = 2 * descent.BLOCK + 5
    run = train(network, x, y, 0.2, steps, [0, 7], dtype=np.float64)
    with jax.enable_x64(True):
        given = jnp.asarray(x), jnp.asarray(y)
        one = lambda seed: descent._plain(network, "sgd", steps, 1.0, 0.2, seed, *given)  # noqa: E731
        dh2, dy2, w, loss = jax.vmap(one)(jnp.array([0, 7], jnp.uint32))
    assert np.allclose(run.recorded["dh2"], dh2, rtol=1e-10, atol=1e-14)
    for found, expected in ((run.recorded["dy2"], dy2), (run.recorded["w"], w), (run.loss, loss)):
        assert np.allclose(found, expected, rtol=1e-9, atol=1e-13)
    assert not np.allclose(run.loss[0], run.loss[1])


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_steps_at_rest_change_nothing(dropout):
    network, (x, y), steps = Network(2, 30, "tanh", dropout=dropout), two_points(), 800
    run = train(network, x, y, 0.1, steps)
    rests = run.loss[0] == run.loss[0, -1]
    assert (rests[-200:].all() and not rests[:100].any()) == (dropout == 0)  # dropout does not rest
    with jax.enable_x64(False):
        given = jnp.uint32(0), jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
        dh2, dy2, w, loss = jax.jit(partial(descent._plain, network, "sgd", steps, 1.0, 0.1))(*given)
    for found, expected in (
        (run.recorded["dh2"][0], dh2),
        (run.recorded["dy2"][0], dy2),
        (run.recorded["w"][0], w),
        (run.loss[0], loss),
    ):
        assert np.allclose(found, expected, rtol=1e-4, atol=2e-5)


def test_a_small_difference_of_large_targets_is_learned_to_the_end():
    x, _ = two_points()
    run = train(Network(2, 60, "tanh"), x, np.array([[10.0], [10.01]]), 0.03, 6000)
    assert np.isclose(run.recorded["dy2"][0, -1], 1e-4, rtol=2e-3)  # rounding of 10, twice, over .01


@pytest.mark.parametrize("activation", ACTIVATE)
def test_sums_in_any_order_are_as_exact(activation):
    # What lets the compiler order sums must take no digits from activations.
    network = Network(2, descent.LARGE, activation)
    x, y = two_points()
    run = train(network, x, y, 0.05, 20, 3, dtype=np.float64)
    with jax.enable_x64(True):
        given = jnp.uint32(3), jnp.asarray(x), jnp.asarray(y)
        dh2, _, _, loss = jax.jit(partial(descent._plain, network, "sgd", 20, 1.0, 0.05))(*given)
    assert np.allclose(run.recorded["dh2"][0], dh2, rtol=1e-11)
    assert np.allclose(run.loss[0], loss, rtol=1e-11)


def test_an_option_that_the_compiler_does_not_know_changes_no_result(monkeypatch):
    network, (x, y) = Network(2, descent.LARGE, "tanh"), two_points()
    known = train(network, x, y, 0.05, 20, dtype=np.float64)
    monkeypatch.setattr(descent, "COMPILER", descent.COMPILER | {"xla_cpu_of_a_later_version": True})
    without = train(network, x, y, 0.05, 20, dtype=np.float64)
    for name in ("dh2", "dy2", "w"):
        assert np.allclose(known.recorded[name], without.recorded[name], rtol=1e-11, atol=1e-15)
    assert np.allclose(known.loss, without.loss, rtol=1e-12)


def test_slope_of_leaky_relu_at_zero_can_be_that_of_torch():
    import torch

    at = torch.zeros(1, requires_grad=True)
    torch.nn.functional.leaky_relu(at).backward()
    # The first sample is zero and biases start at zero, so all its units are exactly at the kink.
    x, y, runs = np.array([[0.0], [1.0]]), np.array([[1.0], [2.0]]), {}
    for activation in ("leaky_relu", "leaky_relu_torch"):
        network = Network(2, 10, activation)
        runs[activation] = train(network, x, y, 0.1, 3, dtype=np.float64).loss[0]
        slope = jax.grad(ACTIVATIONS[activation])(0.0)
        assert np.isclose(slope, at.grad.item()) == (activation == "leaky_relu_torch")
    weights, biases = start(Network(2, 10), 0)
    params = [torch.tensor(v, requires_grad=True) for v in (*weights, *biases)]
    for wanted in runs["leaky_relu_torch"]:
        h = torch.tensor(x)
        for k in range(2):
            h = torch.nn.functional.leaky_relu(h @ params[k] + params[3 + k])
        loss = ((h @ params[2] + params[5] - torch.tensor(y)) ** 2).sum() / 4
        assert np.isclose(loss.item(), wanted, rtol=1e-12)
        slopes = torch.autograd.grad(loss, params)
        params = [(p - 0.1 * s).detach().requires_grad_() for p, s in zip(params, slopes, strict=True)]
    assert not np.allclose(runs["leaky_relu"], runs["leaky_relu_torch"], rtol=1e-6)


def test_initial_weights_are_those_of_the_network():
    network, (x, y) = Network(10, descent.LARGE), two_points()
    run = train(network, x, y, 0.01, 1)
    with jax.enable_x64(False):
        weights, biases = network.start(jax.random.split(jax.random.key(0))[0], 1, 1)
    groups = ([np.asarray(v, float) for v in group] for group in (weights, biases))
    assert np.allclose(run.recorded["dh2"][0, 0], measures(network, *groups, x, y)[0], rtol=3e-6)


@pytest.mark.parametrize("rows", [3, descent.LARGE])
def test_rows_times_a_transpose(rows):
    draw = np.random.default_rng(0)
    g, w = (draw.normal(size=(n, 70)).astype(np.float32) for n in (2, rows))
    back = jax.jit(descent._back, compiler_options=descent.COMPILER)
    assert np.allclose(back(g, w), g @ w.T, rtol=1e-5, atol=1e-5)
    for wrong in (np.nan, np.inf):
        g[1, 5] = wrong
        assert not np.isfinite(back(g, w)[1]).any()
        assert np.isfinite(back(g, w)[0]).all()


def test_wide_networks_that_diverge_are_not_finite():
    run = train(Network(3, descent.LARGE, gain=3.0), *two_points(), 10.0, 40)
    assert np.isfinite(run.loss[0, 0])
    assert not np.isfinite(run.loss[0, -1])
    assert not np.isfinite(run.recorded["dh2"][0, -1]).any()


def test_runs_side_by_side_as_on_a_gpu():
    x, y = many_points([0.25, 1.0, 2.25], [1.0, 0.25, 0.0])
    run = train(SMALL, x, y, 0.1, 20, range(3), dtype=np.float64)
    with jax.enable_x64(True):
        one = lambda *given: descent._low_rank(SMALL, "sgd", 20, 1.0, 0.1, *given)  # noqa: E731
        many = jax.vmap(one)(jnp.arange(3, dtype=jnp.uint32), jnp.asarray(x), jnp.asarray(y))
    assert np.allclose(run.recorded["dh2"], many[0], rtol=1e-10)
    assert np.allclose(run.loss, many[3], rtol=1e-10)
    assert np.allclose(run.runs["dx"], [0.5, 1.0, 1.5])
    assert np.allclose(run.runs["dy"], [1.0, 0.5, 0.0])


def test_adam_is_that_of_optax():
    import optax

    x, y = two_points()
    run = train(SMALL, x, y, 0.01, 4, optimizer="adam", dtype=np.float64)
    with jax.enable_x64(True):
        params = [jnp.asarray(v) for group in start(SMALL, 0) for v in group]
        n = len(params) // 2

        def loss(params):
            h = jnp.asarray(x)
            for w, b in zip(params[: n - 1], params[n:-1], strict=True):
                h = ACTIVATIONS[SMALL.activation](h @ w + b)
            return ((h @ params[n - 1] + params[-1] - y) ** 2).sum() / 4

        rule, found = optax.adam(0.01), []
        state = rule.init(params)
        for _ in range(5):
            value, slopes = jax.value_and_grad(loss)(params)
            found.append(float(value))
            updates, state = rule.update(slopes, state)
            params = optax.apply_updates(params, updates)
    assert np.allclose(run.loss[0], found, rtol=1e-9)


def test_initial_weights():
    network = Network(depth=3, width=400, gain=0.7)
    weights, biases = start(network, 0)
    assert [w.shape for w in weights] == [(1, 400), (400, 400), (400, 400), (400, 1)]
    assert np.isclose(weights[1].std(), 0.7 * np.sqrt(2 / 800), rtol=0.01)
    assert np.isclose(weights[0].std(), 0.7 * np.sqrt(2 / 401), rtol=0.1)
    assert not any(b.any() for b in biases)
    first, kernel, *_, last, out = start(replace(network, channels=20), 0)[0]
    assert (first.shape, kernel.shape, last.shape, out.shape) == (
        (1, 400),
        (11, 1, 20),
        (11, 20, 1),
        (360, 1),
    )
    assert np.isclose(kernel.std(), 0.7 * np.sqrt(2 / (11 * 21)), rtol=0.1)
    assert not np.allclose(weights[1], weights[2])


def test_dropout_keeps_the_mean_and_is_not_measured():
    network = replace(SMALL, dropout=0.3)
    x, y = two_points()
    affine = network.affine(*start(network, 0))
    draw = lambda key: network.layers(x, affine, key)[:2]  # noqa: E731
    inputs, drawn = map(np.asarray, jax.vmap(draw)(jax.random.split(jax.random.key(0), 20_000)))
    assert np.isclose((inputs[:, 0] == 0).mean(), 0.3, atol=0.01)  # inputs drop out too
    assert np.allclose(inputs.mean(axis=0), x, atol=0.03)
    drawn = drawn[inputs[:, 0, 0] != 0, 0]
    assert np.isclose((drawn == 0).mean(), 0.3, atol=0.01)
    assert np.allclose(drawn.mean(axis=0), network.layers(x / 0.7, affine)[1][0], rtol=0.03)
    run = train(network, x, y, 0.1, 1, dtype=np.float64)
    assert np.isclose(run.loss[0, 0], measures(SMALL, *start(network, 0), x, y)[3], rtol=1e-12)


def test_precision_stays_the_users():
    x, y = many_points([0.25, 1.0, 2.25], [0.5] * 3)
    before = jax.config.jax_enable_x64
    single, double = (train(SMALL, x, y, 0.1, 20, range(3), dtype=d) for d in (np.float32, np.float64))
    assert jax.config.jax_enable_x64 == before
    assert single.loss.dtype == np.float64
    assert not np.array_equal(single.loss, double.loss)


def test_published_table():
    assert len(ZOO) == 15
    assert ZOO["default"] == (Network(20, 500, "leaky_relu_torch", 1.0), 0.005)
    halves = {name: network.half for name, (network, _) in ZOO.items()}
    assert [halves[n] for n in ("default", "convolution", "shallow")] == [11, 6, 2]
    assert ZOO["convolution"][0].shapes(1, 1)[-1] == (390, 1)
    assert ZOO["elu"][0].activation == "elu"
    assert ZOO["convolution"][0].channels == 20
    assert ZOO["dropout"][0].dropout == 0.1
    assert [ZOO[n][0].gain for n in ("low", "default", "intermediate", "high", "very-high")] == [
        0.9,
        1.0,
        1.1,
        1.3,
        1.4,
    ]


def test_printed_distances_are_not_learned_at_the_printed_learning_rate():
    # dx = .5, dy = 1 in the text; dx^2 = 1, dy^2 = .5 is what the rates of Table 1 are for.
    network, lr = ZOO["narrow"]
    x, y = many_points([0.25, 1.0], [1.0, 0.5])
    run = train(network, x, y, lr, 4500, [0, 0])
    assert run.loss[0, -1] > 0.98 / 8  # of the mean alone
    assert run.loss[1, -1] < 0.01 * run.loss[1, 0]


def test_fit_of_a_run():
    x, y = two_points()
    run = train(Network(depth=4, width=60, gain=0.8), x, y, 0.05, 1500, range(2))
    assert (run.loss[:, -1] < 0.01 * run.loss[:, 0]).all()
    found = fit_recorded(run, 1, with_loss=True)
    keep = np.unique(np.linspace(0, 1500, 300).round().astype(int))
    series = (v[keep] for v in (run.recorded["dh2"][1, :, 2], run.recorded["dy2"][1], run.recorded["w"][1]))
    dx, dy = run.runs["dx"][1], run.runs["dy"][1]
    again = nr.universality.fit(run.t[keep], *series, dx, dy, loss=run.loss[1, keep])
    assert found.rate_h == again.rate_h
    assert np.isclose(found.final, run.recorded["dh2"][1, -1, 2], rtol=0.05)


def test_training_is_a_trajectory(tmp_path):
    x, y = many_points([0.25, 1.0], [0.5] * 2)
    run = train(replace(SMALL, gain=3.0), x, y, 0.5, 40, range(2))
    assert isinstance(run, nr.Trajectory)
    assert run.loss.shape == run.recorded["dy2"].shape == (2, 41)
    assert run.weights == {}
    assert set(run.status) <= {nr.Status.FINISHED, nr.Status.DIVERGED}
    for k, ok in enumerate(np.isfinite(run.loss).all(axis=1)):
        assert (run.status[k] is nr.Status.FINISHED) == ok
        assert run.outcomes[k].startswith(run.status[k].value)
    one = run[1]
    assert one.recorded["dh2"].shape == (41, 3)
    assert (one.runs["seed"], one.runs["dx"]) == (1, 1.0)
    assert Network(**one.settings["network"]) == replace(SMALL, gain=3.0)
    run.save(tmp_path / "run")
    again = nr.Trajectory.load(tmp_path / "run")
    assert again.settings == run.settings
    assert np.array_equal(again.recorded["dh2"], run.recorded["dh2"], equal_nan=True)
    assert run.to_xarray()["recorded:dh2"].dims == ("run", "t", "layer")
    with pytest.raises(InputError, match=r"must be one of universality\.record"):
        fit_recorded(nr.Trajectory(run.t, run.loss))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depth": 0}, "depth must be at least 1, got 0"),
        ({"activation": "gelu"}, "activation must be one of"),
        ({"gain": -1}, "gain must be greater than 0"),
        ({"dropout": 1.0}, "dropout must be less than 1"),
        ({"channels": 7, "width": 210}, "width must be above 210, which 21 convolutions take; got 210"),
        ({"kernel": 0}, "kernel must be at least 1, got 0"),
        ({"skip": 1}, "skip must be True or False"),
    ],
)
def test_wrong_networks(change, message):
    with pytest.raises(InputError, match=message):
        Network(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": "default"}, "network must be a zoo.Network"),
        (
            {"x": [[1.0], [2.0], [3.0]]},
            r"x must be two samples, \(2, size\) or \(runs, 2, size\); got \(3, 1\)",
        ),
        ({"x": [[1.0], [1.0]]}, "identical inputs"),
        ({"y": [[1.0], [np.nan]]}, "y must be finite"),
        ({"lr": 0}, "lr must be greater than 0"),
        ({"steps": 2.5}, "steps must be a whole number"),
        ({"seeds": 2**40}, "seeds must be at most 4294967295"),
        ({"seeds": []}, "seeds must name at least one seed"),
        ({"seeds": range(3), "x": np.arange(4.0).reshape(2, 2, 1)}, "x has 2 runs where others have 3"),
        ({"optimizer": "lion"}, "optimizer must be one of sgd, adam"),
        ({"dtype": np.int32}, "dtype must be one of float32, float64"),
    ],
)
def test_wrong_training(change, message):
    given = {"network": SMALL, "x": [[-1.0], [-0.5]], "y": [[0.0], [1.0]], "lr": 0.1, "steps": 5} | change
    with pytest.raises(InputError, match=message):
        train(**given)


def test_wrong_fits():
    x, y = two_points()
    run = train(replace(SMALL, gain=3.0), x, y, 50.0, 40)
    with pytest.raises(InputError, match="run 0 diverged at step"):
        fit_recorded(run)
    with pytest.raises(InputError, match="run must be below 1"):
        fit_recorded(run, 1)
    with pytest.raises(InputError, match="layer must be at most 3"):
        fit_recorded(run, layer=4)
