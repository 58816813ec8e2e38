"""Progress bars that compiled code can move."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


class Bar:
    """A progress bar; all bars look alike to the compiler, so that showing one does not compile anew."""

    current: Any = None

    def __init__(self, total: int, label: str):
        from tqdm import tqdm

        Bar.current = tqdm(total=total, desc=label)

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bar)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *fault: object) -> None:
        jax.effects_barrier()
        Bar.current.close()
        Bar.current = None

    @staticmethod
    def step(count: Any = 1) -> None:
        """Move on; called from compiled code."""
        if Bar.current is not None and count:
            Bar.current.update(int(count))

    def percent(self, t1: Any) -> Any:
        """A function of the times before and after a step that moves the bar by whole percents of t1."""

        def move(before: Any, after: Any) -> None:
            count = jnp.floor(100 * after / t1) - jnp.floor(100 * before / t1)
            jax.lax.cond(count > 0, lambda: jax.debug.callback(Bar.step, count), lambda: None)

        return move
