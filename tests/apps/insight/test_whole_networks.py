"""Networks as people train them, from the first step to the page: numbers against those found by hand."""

import copy

import numpy as np
import pytest

import neuralrace as nr

torch = pytest.importorskip("torch")
nn = torch.nn
VOCABULARY, LENGTH = 12, 10


class Transformer(nn.Module):
    """A small language model with tied embeddings."""

    def __init__(self, width=16):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(LENGTH, width)
        self.block = nn.TransformerEncoderLayer(
            width, 2, 32, dropout=0.0, activation=nn.ReLU(), batch_first=True, norm_first=True
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x):
        length = x.shape[1]
        hidden = self.tokens(x) + self.places(torch.arange(length))
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        return self.head(self.norm(self.block(hidden, src_mask=mask, is_causal=True)))


def corpus(sentences=200):
    """Sentences in which the next word depends on the last, and what comes next at each place."""
    rng = np.random.default_rng(0)
    chances = np.exp(3 * rng.normal(size=(VOCABULARY, VOCABULARY)))
    found = np.zeros((sentences, LENGTH + 1), int)
    for sentence in found:
        for k in range(LENGTH):
            sentence[k + 1] = rng.choice(VOCABULARY, p=chances[sentence[k]] / chances[sentence[k]].sum())
    return found[:, :-1], found[:, 1:]


def train(seen, model, x, y, loss, optimizer, steps):
    model.train()
    for step in range(steps):
        seen(step)
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    seen.look(steps)


def kernel_by_hand(model, outputs):
    rows = []
    for value in outputs.reshape(-1):
        grads = torch.autograd.grad(value, list(model.parameters()), retain_graph=True, allow_unused=True)
        rows.append(torch.cat([g.reshape(-1) for g in grads if g is not None]).double())
    j = torch.stack(rows)
    return (j @ j.T).numpy()


def test_language_model(tmp_path):
    x, y = corpus()
    torch.manual_seed(0)
    model = Transformer()
    seen = nr.watch(model, x, y, probes=200)
    across = lambda out, goal: nn.functional.cross_entropy(out.reshape(-1, VOCABULARY), goal.ravel())  # noqa: E731
    train(
        seen, model, torch.tensor(x), torch.tensor(y), across, torch.optim.Adam(model.parameters(), 1e-2), 80
    )
    sentences, at = seen.probes.samples, seen.probes.reading.places
    words, after = x[sentences].ravel()[at], y[sentences].ravel()[at]
    np.testing.assert_array_equal(seen.x, np.eye(VOCABULARY)[words])
    np.testing.assert_array_equal(seen.y, np.eye(VOCABULARY)[after])
    model.eval()
    out = model(torch.tensor(x[sentences])).reshape(-1, VOCABULARY)[at]
    np.testing.assert_allclose(seen.snapshots.outputs[-1], out.detach(), atol=1e-5)
    pairs = np.histogram2d(after, words, VOCABULARY, [[0, VOCABULARY]] * 2)[0] / len(words)
    ds = seen.modes().data
    np.testing.assert_allclose(ds.strength, np.linalg.svd(pairs)[1][:10], rtol=1e-9)
    assert (ds.share[-1, :3] > 0.5).all()
    probes, directions = [3, 17, 150], np.eye(VOCABULARY)[:4]
    found = seen.network.kernel(probes, directions)
    np.testing.assert_allclose(found, kernel_by_hand(model, out[probes][:, :4]), rtol=1e-3, atol=1e-4)
    assert "places" in seen.network.unread
    page = seen.report(tmp_path / "page").read_text()
    assert "200 places of 40 sequences" in page
    assert "left out, as they have no row per probe: places" in page


def test_places_that_ask_for_nothing():
    x, y = corpus(20)
    asked = y.copy()
    asked[:, : LENGTH // 2] = -100
    seen = nr.watch(Transformer(), x, asked, domains=np.arange(20) % 2)
    assert len(seen.x) == 100
    assert (seen.probes.reading.places % LENGTH >= LENGTH // 2).all()
    np.testing.assert_array_equal(seen.domains, seen.probes.of % 2)
    seen.look(0)
    batches = [(x[:10], asked[:10]), (x[10:], asked[10:])]
    np.testing.assert_allclose(seen._modes(batches).strength, seen._modes().strength)
    with pytest.raises(nr.errors.InputError, match="at least two labels"):
        nr.watch(Transformer(), x, np.full_like(y, -100))


class Residual(nn.Module):
    def __init__(self, channels=6, blocks=2):
        super().__init__()
        self.first = nn.Conv2d(1, channels, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
                nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels),
            )
            for _ in range(blocks)
        )  # fmt: skip
        self.read = nn.Linear(channels, 3)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = torch.relu(x + block(x))
        return self.read(x.mean(dim=(2, 3)))


def test_residual_network_with_batch_normalisation(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(48) % 3
    x = (rng.normal(size=(3, 1, 5, 5))[labels] + 0.5 * rng.normal(size=(48, 1, 5, 5))).astype("float32")
    torch.manual_seed(0)
    model = Residual()
    start = copy.deepcopy(model)
    seen = nr.watch(model, x, labels, branches=["blocks.0", "blocks.1"])
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    train(seen, model, torch.tensor(x), torch.tensor(labels), nn.functional.cross_entropy, optimizer, 30)
    changed = {k: v.clone() for k, v in model.state_dict().items()}
    regime = seen.regime()
    assert regime.verdict != "not decided" or "either side" in regime.why
    for network, when in ((start, True), (model, False)):
        own = copy.deepcopy(network)
        for m in own.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.momentum = 1.0
        own.train()(seen.network.inputs)  # running means are those of the probes
        hand = kernel_by_hand(own.eval(), own(seen.network.inputs[[1, 20]]))
        np.testing.assert_allclose(
            seen.network.kernel([1, 20], np.eye(3), start=when), hand, rtol=1e-3, atol=1e-3
        )
    assert seen.report(tmp_path / "page").exists()
    assert all((model.state_dict()[k] == v).all() for k, v in changed.items())
    assert all(m.training and getattr(m, "momentum", 0.1) == 0.1 for m in model.modules())


def test_auto_encoder(tmp_path):
    """Modes of data in themselves are principal components, learned from the largest."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(100, 6)) * np.sqrt([6.0, 4.0, 2.5, 1.5, 0.1, 0.1])).astype("float32")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 4, bias=False), nn.Linear(4, 6, bias=False))
    with torch.no_grad():
        for p in model.parameters():
            p *= 0.02
    seen = nr.watch(model, x, x)
    half = lambda out, goal: ((out - goal) ** 2).sum(1).mean() / 2  # noqa: E731
    inputs = torch.tensor(x)
    train(seen, model, inputs, inputs, half, torch.optim.SGD(model.parameters(), 0.02), 500)
    ds = seen.modes().data
    np.testing.assert_allclose(ds.strength, np.linalg.eigvalsh(x.T @ x / 100)[::-1], rtol=1e-5)
    times = ds.half_time.values[:4]
    assert (np.diff(times) > 0).all()
    assert np.isnan(ds.half_time[4:]).all()
    predicted = ds.predicted_half_time.values[:4]
    assert np.abs(predicted / times - 1).max() < 0.2
    assert ds.predicted_error < ds.constant_error
    assert seen.regime().verdict == "rich"
    assert "held out" in seen.report(tmp_path / "page").read_text()


def test_two_outputs(tmp_path):
    """A classifier that also rebuilds its inputs: each output is watched, on request."""

    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.labels, self.inputs = nn.Linear(6, 16), nn.Linear(16, 3), nn.Linear(16, 6)

        def forward(self, x):
            hidden = torch.tanh(self.body(x))
            return {"rebuilt": self.inputs(hidden), "classes": self.labels(hidden)}

    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    x = (2 * np.eye(6)[labels] + 0.3 * rng.normal(size=(60, 6))).astype("float32")
    torch.manual_seed(0)
    model = Heads()
    classes, rebuilt = nr.watch(model, x, labels), nr.watch(model, x, x)
    named = nr.watch(model, x, x, output="rebuilt")
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    inputs, goal = torch.tensor(x), torch.tensor(labels)
    for step in range(60):
        for seen in (classes, rebuilt, named):
            seen.look(step)
        out = model(inputs)
        loss = nn.functional.cross_entropy(out["classes"], goal) + ((out["rebuilt"] - inputs) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for seen, key in ((classes, "classes"), (rebuilt, "rebuilt"), (named, "rebuilt")):
        seen.look(60)
        with torch.no_grad():
            goal = model(seen.network.inputs)[key]
        np.testing.assert_allclose(seen.snapshots.outputs[-1], goal)
    assert (classes.modes().data.share[-1, :2] > 0.9).all()
    assert rebuilt.report(tmp_path / "page").exists()
