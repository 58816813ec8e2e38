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
    """Seconds of processor time for training, and the watch."""
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    start = process_time()
    watch = nr.watch(model, x, y) if watched else None
    for step in range(STEPS):
        rows = torch.randint(len(x), (64,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
        if watch is not None:
            watch(step)
    return process_time() - start, watch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    images, labels = load_digits(return_X_y=True)
    for name, make, shape in (("MLP", mlp, (64,)), ("CNN", cnn, (1, 8, 8))):
        x, y = torch.tensor(images / 16, dtype=torch.float32).reshape(-1, *shape), torch.tensor(labels)
        trained(make, x, y, True)  # warm up
        times = np.array([[trained(make, x, y, w)[0] for w in (False, True)] for _ in range(repeats)])
        plain, watched = np.median(times, axis=0)
        watch = trained(make, x, y, True)[1]
        print(
            f"{name}: {STEPS} steps take {plain:.2f} s, watched {watched:.2f} s: {watched / plain - 1:+.1%} "
            f"(each pair {np.round(times[:, 1] / times[:, 0] - 1, 3).tolist()}); {watch}",
            flush=True,
        )


if __name__ == "__main__":
    main()
