"""Training of the default network on two samples against an ordinary PyTorch loop that records the same."""

from typing import Any

import numpy as np

import neuralrace as nr
from benchmarks.measure import Row, duel, fresh
from benchmarks.published import two_point_model
from neuralrace_papers.zoo import ZOO, train


def measure(steps: int) -> dict[str, Any]:
    network, lr = ZOO["default"]
    x, y = nr.tasks.two_points().arrays
    found: dict[str, Any] = {}

    def ours() -> Any:
        found["ours"] = train(network, x, y, lr, steps)
        return found["ours"]

    def prepare() -> Any:
        import torch

        torch.set_num_threads(1)
        inputs, targets = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)

        def loop() -> None:
            model = two_point_model(network)
            encoder, decoder = model[: network.half], model[network.half :]
            optimizer = torch.optim.SGD(model.parameters(), lr=lr)
            rows = []
            for _ in range(steps + 1):
                hidden = encoder(inputs)
                output = decoder(hidden)
                loss = ((output - targets) ** 2).sum(1).mean() / 2
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                with torch.no_grad():
                    dh, dy = hidden[1] - hidden[0], output[1] - output[0]
                    w = dy @ (dy - targets[1] + targets[0])
                    rows.append((float(dh @ dh), float(dy @ dy), float(w), float(loss)))
            found["torch"] = np.array(rows)

        return loop

    out = duel(ours, prepare, 2)
    # From other initial weights: the loss while the mean is learned is the same.
    out["extra"]["difference"] = float(abs(found["ours"].loss[0, 100] / found["torch"][100, 3] - 1))
    loss = found["ours"].loss[0]
    out["extra"]["steps before rest"] = float(np.argmax(loss == loss[-1]))
    return out | {"note": "difference is that of the losses at step 100, from other initial weights"}


def run(quick: bool) -> list[Row]:
    steps = 200 if quick else 6000
    return [
        Row(
            "zoo", f"default network, {steps} steps", "a PyTorch loop", "baseline / ours",
            targets=("warm >= 3",), **fresh(measure, steps),
        )
    ]  # fmt: skip
