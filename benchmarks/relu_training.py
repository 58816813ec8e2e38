"""Training of a ReLU network against a loop with one jitted update per epoch that records the same."""

from typing import Any

import numpy as np

import neuralrace as nr
from benchmarks.measure import Row, duel, fresh

HIDDEN, LR, STD = 700, 1e-3, 0.005 / 700


def measure(epochs: int, dtype: str, readout: str) -> dict[str, Any]:
    x, y = nr.tasks.contexts(3, ["hierarchy", "ring", "cross"]).arrays
    every = epochs // 80
    losses: dict[str, Any] = {}
    settings: dict[str, Any] = {"save_weights": False, "dtype": np.dtype(dtype), "readout": readout}

    def ours() -> Any:
        net = nr.relu.train(x, y, [HIDDEN], STD, LR, epochs, 81, **settings)
        losses["ours"] = net.step_loss
        return net

    start = nr.relu.train(x, y, [HIDDEN], STD, LR, 1, 2, readout=readout).at(0)

    def prepare() -> Any:
        import jax
        import jax.numpy as jnp

        if dtype == "float64":
            jax.config.update("jax_enable_x64", True)
        inputs, targets = jnp.asarray(x, dtype), jnp.asarray(y, dtype)

        def loss(w: Any) -> Any:
            return 0.5 * ((jax.nn.relu(inputs @ w[0].T) @ w[1].T - targets) ** 2).sum()

        @jax.jit
        def update(w: Any) -> Any:
            value, g = jax.value_and_grad(loss)(w)
            return value, [a - LR * b for a, b in zip(w, g, strict=True)]

        def loop() -> None:
            w = [jnp.asarray(start[e], dtype) for e in ("x->h1", "h1->y")]
            found, gates = [], []
            for epoch in range(epochs + 1):
                if epoch % every == 0:
                    gates.append(np.asarray(inputs @ w[0].T > 0))
                value, w = update(w)
                found.append(float(value))
            losses["loop"] = np.array(found)

        return loop

    found = duel(ours, prepare, 3)
    apart = np.abs(losses["ours"] - losses["loop"])
    found["extra"] |= {
        "difference": float((apart / losses["loop"]).max()),
        "of initial": float(apart.max() / losses["loop"][0]),
    }
    return found | {
        "note": "difference is that of the losses at all epochs, relative to loss and initial loss"
    }


def run(quick: bool) -> list[Row]:
    epochs = 160 if quick else 8000
    return [
        Row(
            "relu-training",
            f"{HIDDEN} units, {epochs} epochs, {dtype}, readout={readout!r}",
            "a jitted update per epoch", "baseline / ours", targets=("warm >= 5",),
            **fresh(measure, epochs, dtype, readout),
        )
        for dtype in ("float64", "float32")
        for readout in ("all", "targets")
    ]  # fmt: skip
