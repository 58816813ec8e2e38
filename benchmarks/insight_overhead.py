"""What watching costs: processor time of training with and without `nr.watch`, on digits.

    python -m benchmarks.insight_overhead [--repeats 7]

An MLP and a small convolutional network, cross-entropy, Adam, batches of 64, at the defaults of `nr.watch`.
"""

import argparse
from time import process_time

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import neuralrace as nr

STEPS = 1000


def mlp():
    return nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )  # fmt: skip


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip


def trained(make, x, y, watched):
    """Seconds of processor time for training with all it needs, of these in the watch, and the watch."""
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    start = process_time()
    watch = nr.watch(model, x, y) if watched else None
    looking = process_time() - start
    for step in range(STEPS):
        rows = torch.randint(len(x), (64,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
        if watch is not None:
            before = process_time()
            watch(step)
            looking += process_time() - before
    return process_time() - start, looking, watch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    images, labels = load_digits(return_X_y=True)
    for name, make, shape in (("MLP", mlp, (64,)), ("CNN", cnn, (1, 8, 8))):
        x, y = torch.tensor(images / 16, dtype=torch.float32).reshape(-1, *shape), torch.tensor(labels)
        watch = trained(make, x, y, True)[2]  # warms up
        runs = [[trained(make, x, y, w)[:2] for w in (False, True)] for _ in range(repeats)]
        plain, total, looking = np.array([(p[0], w[0], w[1]) for p, w in runs]).T
        share = looking / (total - looking)
        print(
            f"{name}: {STEPS} steps take {np.median(plain):.2f} s, watched {np.median(total):.2f} s; in the "
            f"watch {np.median(share):.1%} of the rest ({share.min():.1%} to {share.max():.1%}); {watch}",
            flush=True,
        )


if __name__ == "__main__":
    main()
