"""The equations of motion of a network, in NumPy or compiled by JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from neuralrace.compiling import Compiled
from neuralrace.dynamics import constants, explicit
from neuralrace.dynamics.explicit import Attempt
from neuralrace.dynamics.setup import Setup
from neuralrace.network import Stack, loss_and_gradient


@dataclass(frozen=True)
class Network:
    """Velocities of flat weights (runs, n), `-scale (dL/dW + decay W)`; in NumPy or traced by JAX."""

    stack: Stack
    kind: str
    data: Any
    scale: Any
    decay: Any

    def velocity(self, y: Any) -> tuple[Any, Any]:
        loss, g = loss_and_gradient(self.stack, y, self.data, self.kind)
        v = -g if self.decay is None else -g - self.decay * y
        return v if self.scale is None else self.scale * v, loss

    def slope(self, y: Any, v: Any) -> Any:
        return explicit.slope(y, v, self.scale, self.decay)


class InNumPy:
    """Any field in NumPy."""

    shrinks: bool = True

    def __init__(self, field: explicit.Field, keep: Callable[[int, np.ndarray, np.ndarray], Any]) -> None:
        self.field, self.keep = field, keep

    def together(self, runs: int, numbers: int) -> int:
        return max(1, constants.CACHED_RUNS // numbers)

    def of(self, runs: list[int]) -> InNumPy:
        return self

    def begin(self, y: np.ndarray) -> tuple[Any, Any, Any]:
        v, loss = self.field.velocity(y)
        return v, loss, self.field.slope(y, v)

    def attempt(self, y: Any, v: Any, h: np.ndarray, rtol: float, atol: np.ndarray) -> Attempt:
        return explicit.attempt(self.field, y, v, h, rtol, atol)

    def velocity(self, y: np.ndarray) -> tuple[np.ndarray, float, float]:
        v, loss, slope = self.begin(y[None])
        return v[0], float(loss[0]), float(slope[0])


class InJax:
    """A network compiled by JAX: one run after the other on a CPU, where that is faster, else all at once."""

    shrinks: bool = False

    def __init__(self, setup: Setup) -> None:
        self.what = setup.program.stack, setup.kind
        self.numbers = setup.data, *setup.vectors
        self.dtype, self.keep = setup.dtype, setup.kept

    def together(self, runs: int, numbers: int) -> int:
        return 1 if jax.default_backend() == "cpu" else runs

    def of(self, runs: list[int]) -> InJax:
        return self

    def begin(self, y: np.ndarray) -> tuple[Any, Any, Any]:
        """By a step of no length, which spares a program of its own."""
        tried = self.attempt(y, np.zeros_like(y), np.zeros(len(y)), 1.0, np.ones(len(y)))
        return tried.v, tried.summary[4], tried.summary[5]

    def attempt(self, y: Any, v: Any, h: np.ndarray, rtol: float, atol: np.ndarray) -> Attempt:
        given = (np.asarray(a, self.dtype) for a in (h, rtol, atol))
        return _attempt(*self.what, self.numbers, y, v, *given)

    def velocity(self, y: np.ndarray) -> tuple[np.ndarray, float, float]:
        v, loss, slope = _velocity(*self.what, self.numbers, y[None].astype(self.dtype, copy=False))
        return np.asarray(v)[0], float(loss[0]), float(slope[0])


def _attempted(stack: Stack, kind: str, numbers: Any, *given: Any) -> Attempt:
    return explicit.attempt(Network(stack, kind, *numbers), *given)


def _moved(stack: Stack, kind: str, numbers: Any, y: Any) -> Any:
    field = Network(stack, kind, *numbers)
    v, loss = field.velocity(y)
    return v, loss, field.slope(y, v)


_attempt, _velocity = Compiled(_attempted, 2), Compiled(_moved, 2)


class Alike(InNumPy):
    """Networks of one structure in NumPy, a run of each, whose data may differ."""

    def __init__(self, setups: Sequence[Setup]) -> None:
        super().__init__(_in_numpy(setups[0]), lambda run, ts, y: setups[run].kept(0, ts, y))
        self.setups, one = setups, all(s.program is setups[0].program for s in setups)
        self.data = None if one else jax.tree.map(lambda *v: np.stack(v), *(s.data for s in setups))

    def of(self, runs: list[int]) -> InNumPy:
        field = _in_numpy(self.setups[runs[0]])
        if len(runs) > 1 and self.data is not None:
            field = replace(field, data=jax.tree.map(lambda v: v[runs], self.data))
        return InNumPy(field, self.keep)


def _in_numpy(setup: Setup) -> Network:
    return Network(setup.program.stack, setup.kind, setup.data, *setup.vectors)


def system_of(setups: Sequence[Setup]) -> InNumPy | InJax:
    """What computes the flow of one network; or those of several of one structure, a run each."""
    if len(setups) > 1:
        return Alike(setups)
    return InNumPy(_in_numpy(setups[0]), setups[0].kept) if setups[0].in_numpy else InJax(setups[0])
