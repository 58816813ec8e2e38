"""Networks and trainers of other libraries, as in the manual; skipped where they are not installed."""

import logging
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import neuralrace as nr

MANUAL = Path(__file__).parents[3] / "docs" / "insight.md"
X = np.random.default_rng(0).normal(size=(20, 3))
Y = X @ np.random.default_rng(1).normal(size=(3, 2))


def example(word):
    """The block of the manual that has a word; those marked `py` need more than the project does."""
    blocks = [b.split("```")[0] for b in MANUAL.read_text().split("```py\n")[1:]]
    (found,) = [b for b in blocks if word in b]
    return compile(found, MANUAL.name, "exec")


def run_example(word, capsys):
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the other library
        logging.disable(logging.WARNING)
        try:
            exec(example(word), names)
        finally:
            logging.disable(logging.NOTSET)
    assert "Rich or lazy?" in capsys.readouterr().out
    assert len(names["watch"].snapshots.kept) > 5
    return names


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # raised while other libraries are imported
        yield


def test_lightning(capsys, monkeypatch, tmp_path, quiet):
    pytest.importorskip("lightning")
    monkeypatch.chdir(tmp_path)
    names = run_example("lightning_callback(watch)", capsys)
    assert names["watch"].snapshots.steps[[0, -1]].tolist() == [0, names["trainer"].global_step]


def test_hugging_face(capsys, monkeypatch, tmp_path, quiet):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    monkeypatch.chdir(tmp_path)
    names = run_example("huggingface_callback(watch)", capsys)
    assert names["watch"].snapshots.steps[[0, -1]].tolist() == [0, names["trainer"].state.global_step]


def trained(model, params, outputs):
    """A few steps of descent; what was watched, and the parameters at the end."""
    seen = nr.watch(model, X, Y)
    slope = jax.grad(lambda p: ((outputs(p) - Y) ** 2).mean())
    for step in range(6):
        seen(step, params)
        params = jax.tree.map(lambda w, g: w if g is None else w - 0.1 * g, params, slope(params))
    seen(6, params)
    return seen, params


def test_flax(quiet):
    linen = pytest.importorskip("flax.linen")

    class Model(linen.Module):
        @linen.compact
        def __call__(self, x):
            x = linen.relu(linen.Dense(8, name="first")(x))
            return linen.Dense(2, name="last")(x)

    model = Model()
    variables = model.init(jax.random.key(0), X)
    seen, end = trained(model, variables, lambda p: model.apply(p, X))
    assert seen.network.layers == ("first",)
    assert seen.regime().change > 0
    last = seen.snapshots.kept[-1].seen
    order = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in seen.x]
    np.testing.assert_allclose(last.outputs, model.apply(end, X)[np.array(order)], rtol=1e-5, atol=1e-6)
    by_hand = X[order] @ end["params"]["first"]["kernel"] + end["params"]["first"]["bias"]
    np.testing.assert_allclose(last.activity["first"], by_hand, rtol=1e-4, atol=1e-5)
    assert "params.first.kernel" in last.weights


def test_flax_nnx(quiet):
    nnx = pytest.importorskip("flax.nnx")
    model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    seen = nr.watch(model, X, Y)
    seen(0, model)
    model.kernel[...] = 2 * model.kernel[...]
    seen.look(1, model)
    assert seen.snapshots.kept[-1].seen.moved == pytest.approx(1.0, rel=1e-5)
    assert seen.regime().change == pytest.approx(0.0, abs=1e-6)  # one layer: its kernel cannot change


def test_equinox():
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.MLP(3, 2, 8, 1, key=jax.random.key(0))
    seen = nr.watch(model, X, Y)
    seen(0, model)
    longer = eqx.tree_at(lambda m: m.layers[0].weight, model, 1.5 * model.layers[0].weight)
    seen.look(1, longer)
    order = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in seen.x]
    expected = jax.vmap(longer)(jnp.asarray(X[order]))
    np.testing.assert_allclose(seen.snapshots.kept[-1].seen.outputs, expected, rtol=1e-5, atol=1e-6)
    assert seen.regime().change > 0
    assert "layers.0.weight" in seen.regime().data.weight
    assert seen.representations().data.layer.values.tolist() == ["outputs"]
