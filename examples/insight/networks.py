"""Real networks, watched while they learn; each writes a page.

    python examples/insight/networks.py mlp        # digits, cross-entropy, Adam
    python examples/insight/networks.py cnn        # the same, convolutional
    python examples/insight/networks.py residual   # digits, squared error, descent; blocks as branches
    python examples/insight/networks.py grokking   # a two-layer transformer on modular addition
    python examples/insight/networks.py gru        # which of two streams is asked for? its sign

With `--check` the numbers of the page are computed again, by other means.
"""

import argparse
import copy

import torch
from by_hand import check
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

import neuralrace as nr


def digits(shape):
    images, labels = load_digits(return_X_y=True)
    return torch.tensor(images / 16, dtype=torch.float32).reshape(-1, *shape), torch.tensor(labels)


def train(model, watches, x, y, optimizer, loss, steps, batch):
    draw = torch.Generator().manual_seed(0)
    for step in range(steps + 1):
        for watch in watches:
            watch(step)
        if step == steps:
            return
        rows = torch.randint(len(x), (batch,), generator=draw) if batch else slice(None)
        optimizer.zero_grad()
        loss(model(x[rows]), y[rows]).backward()
        optimizer.step()


def mlp():
    x, y = digits((64,))
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )  # fmt: skip
    yield model, nr.watch(model, x, y)
    yield x, y, torch.optim.Adam(model.parameters(), 1e-3), functional.cross_entropy, 1000, 64


def cnn():
    x, y = digits((1, 8, 8))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    yield model, nr.watch(model, x, y)
    yield x, y, torch.optim.Adam(model.parameters(), 1e-3), functional.cross_entropy, 1000, 64


class Residual(nn.Module):
    def __init__(self, width=64, blocks=3):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)) for _ in range(blocks)
        )
        self.read = nn.Linear(width, 10)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return self.read(x)


def residual():
    x, labels = digits((64,))
    y = functional.one_hot(labels, 10).float()
    model = Residual()
    yield model, nr.watch(model, x, y, branches=["blocks.0", "blocks.1", "blocks.2"])
    half = lambda out, goal: ((out - goal) ** 2).sum(1).mean() / 2  # noqa: E731
    yield x, y, torch.optim.SGD(model.parameters(), 0.02), half, 3000, 64


class Transformer(nn.Module):
    """Tokens a, b and =; the answer is read at the last."""

    def __init__(self, p, width=64):
        super().__init__()
        self.embed, self.place = nn.Embedding(p + 1, width), nn.Parameter(0.1 * torch.randn(3, width))
        block = lambda: nn.TransformerEncoderLayer(  # noqa: E731
            width, 4, 4 * width, dropout=0.0, activation=nn.ReLU(), batch_first=True, norm_first=True
        )
        self.blocks, self.read = nn.Sequential(block(), block()), nn.Linear(width, p)

    def forward(self, x):
        return self.read(self.blocks(self.embed(x) + self.place)[:, -1])


def grokking(p=23, part=0.6):
    a, b = torch.meshgrid(torch.arange(p), torch.arange(p), indexing="ij")
    x = torch.stack([a.ravel(), b.ravel(), torch.full((p * p,), p)], 1)
    y = (a + b).ravel() % p
    order = torch.randperm(p * p, generator=torch.Generator().manual_seed(1))
    shown, held_out = order[: int(part * p * p)], order[int(part * p * p) :]
    model = Transformer(p)
    layers = ["embed", "blocks.0", "blocks.1.activation", "blocks.1"]
    yield model, *(nr.watch(model, x[rows], y[rows], layers=layers) for rows in (held_out, shown))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=1.0, betas=(0.9, 0.98))
    yield x[shown], y[shown], optimizer, functional.cross_entropy, 3000, 0


class Decider(nn.Module):
    def __init__(self, size=4, hidden=48):
        super().__init__()
        self.gru, self.read = nn.GRU(size, hidden, batch_first=True), nn.Linear(hidden, 2)

    def forward(self, x):
        return self.read(self.gru(x)[0][:, -1])


def gru(n=2000, times=15):
    """Two noisy streams and a context that says whose sign is asked for."""
    draw = torch.Generator().manual_seed(0)
    means = 0.5 * torch.randn(n, 1, 2, generator=draw)
    context = torch.randint(2, (n,), generator=draw)
    streams = means + 0.5 * torch.randn(n, times, 2, generator=draw)
    x = torch.cat([streams, functional.one_hot(context, 2)[:, None].expand(-1, times, -1).float()], 2)
    y = (means[torch.arange(n), 0, context] > 0).long()
    model = Decider()
    last = lambda layer, value: value[0][:, -1]  # noqa: E731
    yield model, nr.watch(model, x, y, layers=["gru"], pick=last, domains=context.numpy())
    yield x, y, torch.optim.Adam(model.parameters(), 3e-3), functional.cross_entropy, 1000, 64


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    networks = {"mlp": mlp, "cnn": cnn, "residual": residual, "grokking": grokking, "gru": gru}
    parser.add_argument("network", choices=networks)
    parser.add_argument("--out", default=None, help="folder of the page (default: insight-NETWORK)")
    parser.add_argument("--check", action="store_true", help="compute the numbers again by other means")
    given = parser.parse_args()
    torch.manual_seed(0)
    (model, *watches), setting = networks[given.network]()
    start, watch = copy.deepcopy(model), watches[0]
    train(model, watches, *setting)
    for answer in watch.answers().values():
        print(f"{answer}\n")
    for seen in watches:
        seen.regime()  # looks at the last step
        right = (seen.snapshots.outputs.argmax(2) == seen.y.argmax(1)).mean(1)
        reached = seen.snapshots.steps[(right > 0.9).argmax()] if right.max() > 0.9 else "never"
        print(f"{len(seen.x)} probes: accuracy {right[-1]:.3f}, above .9 from step {reached}")
    if given.check:
        check(watch, model, start)
    print(f"report: {watch.report(given.out or f'insight-{given.network}')}; {watch}")


if __name__ == "__main__":
    main()
