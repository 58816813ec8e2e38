"""Thin adapters that call a `Watch` from training loops of other libraries."""

from __future__ import annotations

from typing import Any

from neuralrace.apps.insight.watching import Watch


def lightning_callback(watch: Watch) -> Any:
    """A callback for `lightning.Trainer(callbacks=[...])` that watches after every training batch."""
    from lightning.pytorch.callbacks import Callback  # pyright: ignore[reportMissingImports]

    class WatchCallback(Callback):
        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            if trainer.global_step == 0:
                watch(0)

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            watch(trainer.global_step)

    return WatchCallback()


def huggingface_callback(watch: Watch) -> Any:
    """A callback for `transformers.Trainer(callbacks=[...])` that watches after every step."""
    from transformers import TrainerCallback  # pyright: ignore[reportMissingImports]

    class WatchCallback(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            watch(state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            watch(state.global_step)

    return WatchCallback()
