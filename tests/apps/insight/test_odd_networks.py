"""Networks and probes that are odd: they work, or are refused with a sentence."""

import warnings

import jax
import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import InputError

torch = pytest.importorskip("torch")
nn = torch.nn
RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4)).astype("float32")
Y = X @ RNG.normal(size=(4, 3)).astype("float32")
LABELS = Y.argmax(axis=1)
TOKENS = RNG.integers(5, size=(30, 2))


def mlp(inputs=4, outputs=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, outputs))


def words(vocabulary=5):
    return nn.Sequential(nn.Embedding(vocabulary, 4), nn.Flatten(), nn.Linear(8, 3))


def looked_at(model, x=X, y=Y, **options):
    """Watched at the start, and with all weights larger."""
    seen = nr.watch(model, x, y, **options)
    seen.look(0)
    with torch.no_grad():
        for p in model.parameters():
            p *= 1.1
    seen.look(1)
    return seen


@pytest.mark.parametrize(
    ("model", "x", "y"),
    [
        (lambda: mlp().bfloat16(), X, Y),
        (lambda: mlp().half(), X, Y),
        (lambda: mlp().double(), X, Y),
        (mlp, torch.tensor(X).bfloat16(), torch.tensor(Y).bfloat16()),
        (mlp, torch.tensor(X).to(torch.float8_e4m3fn), Y),
        (lambda: nn.Sequential(nn.Embedding(5, 4, sparse=True), nn.Flatten(), nn.Linear(8, 3)), TOKENS, Y),
        (mlp, (20 * abs(X)).astype("uint8"), LABELS.astype("uint8")),
        (mlp, X > 0, Y),
        (mlp, torch.tensor(X > 0), Y),
        (words, TOKENS.astype("uint8"), Y),
        (words, torch.tensor(TOKENS, dtype=torch.int16), LABELS),
        (mlp, torch.tensor(X, requires_grad=True), torch.tensor(Y, requires_grad=True)),
        (mlp, X[::-1], Y[::-1]),
        (mlp, X.astype(">f4"), Y),
        (lambda: torch.compile(mlp(), backend="eager"), X, Y),
    ],
)
def test_types_of_numbers(model, x, y):
    seen = looked_at(model(), x, y)
    regime = seen.regime()
    assert np.isfinite([regime.change, regime.data.distance_moved]).all()
    assert seen.modes().data.sizes["mode"]


def test_norms_beyond_half_precision():
    model = nn.Sequential(nn.Linear(4, 4000), nn.ReLU(), nn.Linear(4000, 3)).half()
    with torch.no_grad():
        model[0].bias.zero_()
        model[2].weight.fill_(2000)
    measured = looked_at(model, 1e-7 * X).regime()
    assert measured.data.distance_moved == pytest.approx(0.1, rel=0.01)
    assert measured.data.norm.max() > 65504


def jitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated
        return torch.jit.script(mlp())


class Fails(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = mlp()

    def forward(self, x):
        raise ZeroDivisionError("by the user")


class NoGradient(Fails):
    @torch.no_grad()
    def forward(self, x):
        return self.layers(x)


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)
        self.turn = nn.Parameter(torch.randn(8, 8, dtype=torch.cfloat))

    def forward(self, x):
        return self.last((self.first(x).to(torch.cfloat) @ self.turn).abs())


@pytest.mark.parametrize(
    ("model", "x", "y", "message"),
    [
        (lambda: mlp(5), X, Y, r"does not run on x of shape \(4,\) per sample"),
        (mlp, X[:, 0], Y, "does not run on x"),
        (Fails, X, Y, "ZeroDivisionError: by the user"),
        (lambda: words(3), TOKENS, LABELS, "whole numbers up to 4, which are taken for tokens"),
        (words, np.vstack([TOKENS[:-1], [[0, 77]]]), LABELS, "up to 77, which are taken for tokens"),
        (lambda: nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.Linear(8, 3)), X, Y, "lazy module"),
        (lambda: mlp().to("meta"), X, Y, "meta device"),
        (jitted, X, Y, "module inside"),
        (lambda: nn.Sequential(jitted(), nn.Linear(3, 3)), X, Y, "torch.jit"),
        (lambda: nn.DataParallel(mlp()), X, Y, "module inside"),
        (Complex, X, Y, "real weights"),
        (lambda: nn.Linear, X, Y, "torch.nn.Module or a function"),
        (lambda: mlp().requires_grad_(False), X, Y, "requires_grad"),
        (NoGradient, X, Y, "differentiable"),
        (mlp, X, LABELS + 1, "labels below 3, the outputs of the model; got 3"),
        (lambda: mlp(outputs=10), X, np.r_[LABELS[1:], 50_256], "labels below 10"),
        (mlp, X, LABELS.astype(float), "class labels must be whole numbers"),
        (lambda: mlp(outputs=1), X, LABELS % 2, "of one output: numbers 0.0 and 1.0"),
        (mlp, X, np.ma.masked_equal(LABELS, 1), "masked"),
        (mlp, 1e100 * X.astype(float), Y, "squares are taken"),
        (mlp, np.ones((30, 4)), Y, "different samples"),
        (mlp, X, Y[0, 0], "as many as x"),
    ],
)
def test_what_cannot_be_watched_is_refused(model, x, y, message):
    with pytest.raises(InputError, match=message):
        looked_at(model(), x, y).regime()


def test_layers_that_come_later_are_refused():
    model = mlp()
    seen = nr.watch(model, X, Y)
    seen.look(0)
    model.append(nn.Linear(3, 3))
    with pytest.raises(InputError, match=r"Others now: 3.weight, 3.bias"):
        seen.look(1)

    def function(params, x):
        return jax.nn.relu(x @ params["a"]) @ params["b"]

    seen = nr.watch(function, X, Y)
    seen.look(0, {"a": np.ones((4, 8)), "b": np.ones((8, 3))})
    with pytest.raises(InputError, match="Others now: a, b"):
        seen.look(1, {"a": np.ones((4, 9)), "b": np.ones((9, 3))})


def test_a_module_may_be_held_or_get_another_type_later():
    """What it learned before stays measured."""
    measured = []
    for after in (lambda m: m, lambda m: m.requires_grad_(False), lambda m: m.double()):
        model = mlp()
        seen = nr.watch(model, X, Y)
        seen.look(0)
        with torch.no_grad():
            for p in model.parameters():
                p *= 1.1
        after(model)
        seen.look(1)
        measured.append(seen.regime().change)
    np.testing.assert_allclose(measured, measured[0], rtol=1e-5)
    with torch.inference_mode():
        assert looked_at(mlp()).regime().change == pytest.approx(measured[0])


def test_layers_that_do_not_run_or_change_their_size_are_refused():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    seen = nr.watch(model, X, Y, layers=["1"])
    seen.look(0)
    model.forward = lambda x: model[2](torch.relu(model[0](x)))
    with pytest.raises(InputError, match="layer 1 gave nothing"):
        seen.look(1)
    with pytest.raises(InputError, match="at least one"):
        nr.watch(mlp(), X, Y, layers=[])
    with pytest.raises(InputError, match="pick must be"):
        nr.watch(mlp(), X, Y, pick=3)
    widths = [8, 4]
    weights = {"a": np.ones((4, 8)), "b": np.ones((8, 3))}

    def function(params, x):
        hidden = jax.nn.relu(x @ params["a"])
        return hidden @ params["b"], {"hidden": hidden[:, : widths.pop(0)]}

    seen = nr.watch(function, X, Y)
    seen.look(0, weights)
    with pytest.raises(InputError, match="layers must keep their sizes"):
        seen.look(1, weights)


def test_faults_of_functions_are_told():
    def function(params, x):
        return x @ params["a"]

    for params, message in (({}, "KeyError"), ({"a": np.ones((5, 3))}, "matmul"), (None, "NoneType")):
        seen = nr.watch(function, X, Y)
        with pytest.raises(InputError, match=rf"does not run on x of shape \(4,\).*{message}"):
            seen.look(0, params)


def test_jax_arrays_of_bfloat16():
    x = jax.numpy.asarray(X, jax.numpy.bfloat16)
    np.testing.assert_allclose(nr.watch(mlp(), x, Y).x, nr.watch(mlp(), np.asarray(x, float), Y).x)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "at least one batch"),
        (3, "list or a data loader"),
        (iter([(X, Y)]), "list or a data loader"),
        ([X, Y], "pairs"),
        ([(X,)], "pairs"),
        ([(X[:, :2], Y)], "4 inputs and 3 outputs"),
        ([(X.astype(str), Y)], "real numbers"),
        ([(X * np.nan, Y)], "finite"),
    ],
)
def test_data_of_modes(data, message):
    with pytest.raises(InputError, match=message):
        looked_at(mlp()).modes(data)


class Both(nn.Module):
    """Returns its hidden layer, too."""

    def __init__(self, hidden=8, outputs=3):
        super().__init__()
        self.first, self.last = nn.Linear(4, hidden), nn.Linear(hidden, outputs)

    def forward(self, x):
        hidden = torch.relu(self.first(x))
        return hidden, self.last(hidden)


class Named(Both):
    def forward(self, x):
        hidden, out = super().forward(x)
        return {"loss": torch.tensor(0.0), "hidden": hidden, "logits": out}


@pytest.mark.parametrize("y", [Y, LABELS])
@pytest.mark.parametrize("model", [Both, Named])
def test_the_output_is_told_from_the_hidden_layer(model, y):
    torch.manual_seed(0)
    network = model()
    seen = looked_at(network, X, y)
    torch.manual_seed(0)

    class Plain(Both):
        def forward(self, x):
            return super().forward(x)[1]

    alone = looked_at(Plain(), X, y)
    np.testing.assert_allclose(seen.snapshots.outputs, alone.snapshots.outputs)
    np.testing.assert_allclose(seen.regime().data.kernel, alone.regime().data.kernel)
    assert np.isfinite(seen.modes().data.share).all()


def test_outputs_that_could_be_either():
    with pytest.raises(InputError, match=r"which is its output \(3 numbers per probe\)"):
        nr.watch(Both(3), X, LABELS)
    with pytest.raises(InputError, match="which is its output"):  # classes without a sample
        nr.watch(Both(8, 5), X, LABELS)
    model = Both(3)
    for output in (1, -1):
        seen = nr.watch(model, X, LABELS, output=output)
        seen.look(0)
        with torch.no_grad():
            goal = model(seen.network.inputs)[1]
        np.testing.assert_allclose(seen.snapshots.outputs[0], goal)
    for wrong in (2, "logits"):
        with pytest.raises(InputError, match="output must be an index or key"):
            nr.watch(model, X, LABELS, output=wrong)

    def function(params, x):
        hidden = jax.nn.relu(x @ params["a"])
        return hidden, hidden @ params["b"]

    seen = nr.watch(function, X, LABELS)
    params = {"a": RNG.normal(size=(4, 8)), "b": RNG.normal(size=(8, 3))}
    seen.look(0, params)
    np.testing.assert_allclose(seen.snapshots.outputs[0], function(params, seen.x)[1], rtol=1e-5, atol=1e-6)


def test_labels_far_apart_take_little_memory():
    labels = np.r_[LABELS[:-1], 10**9]
    with pytest.raises(InputError, match="below 100,000 for a squared error"):
        nr.watch(mlp(), X, labels, loss="squared")
    activity = RNG.normal(size=(3, 30, 5))
    found = [nr.watch.from_recordings(activity, X, y) for y in (labels, np.r_[LABELS[:-1], 7])]
    np.testing.assert_array_equal(*(seen.y for seen in found))


def test_many_classes_take_little_memory():
    """Classes that no probe has are one; probabilities and loss are those of all."""
    labels = np.r_[LABELS[:-1], 50_256]
    model = mlp(outputs=50_257)
    seen = looked_at(model, X, labels)
    assert seen.y.shape == (30, 5)
    assert seen.bytes < 100_000
    order = seen.probes.samples
    with torch.no_grad():
        out = model(torch.tensor(X[order]))
        loss = nn.functional.cross_entropy(out, torch.tensor(labels[order]))
    assert seen._loss(seen.snapshots.outputs[-1]) == pytest.approx(float(loss), rel=1e-5)
    chances = seen._read(seen.snapshots.outputs[-1])
    np.testing.assert_allclose(chances[:, 0], torch.softmax(out, 1)[:, 0], rtol=1e-4)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    whole = seen.modes([(X, labels)]).data
    np.testing.assert_allclose(whole.strength, seen.modes().data.strength)
    assert np.isfinite(seen.regime().change)
