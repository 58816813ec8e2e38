"""One line in a training loop, and the answers about the network that it gives."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, softmax

import neuralrace as nr
from neuralrace.apps.insight.answer import Answer
from neuralrace.apps.insight.branches import branches_of
from neuralrace.apps.insight.models import Network, Observation
from neuralrace.apps.insight.modes import Modes, data_modes, modes_of
from neuralrace.apps.insight.pathways import pathways_of
from neuralrace.apps.insight.probes import Batches, Probes
from neuralrace.apps.insight.recordings import to_rdms
from neuralrace.apps.insight.regime import Regime, regime_of
from neuralrace.apps.insight.representations import representations_of
from neuralrace.errors import InputError, number

MOST = 80  # snapshots that are kept
OFTEN, RARE = 1.04, 1.3  # growth of the steps between looks: as time allows, and at most
CREDIT, SHARE = 0.01, 0.04  # seconds of looking that are free, and share of the time that it may take beyond


class Snapshot(NamedTuple):
    """An observation and its step."""

    step: float
    seen: Observation


class Snapshots:
    """Keeps at most `MOST` snapshots: of too many, the one whose loss changes the outputs least goes."""

    def __init__(self, most: int = MOST):
        self.most, self.kept = most, list[Snapshot]()
        self._bends = list[float]()  # of each snapshot, how badly a straight line replaces it
        self.began, self.spent = perf_counter(), 0.0  # seconds

    def due(self, step: float) -> bool:
        """Whether to look at this step.

        Looks are ever further apart, and rare where they would take more than a small share of the time.
        """
        if not self.kept:
            return True
        last = self.kept[-1].step
        past, affordable = step - self.kept[0].step, CREDIT + SHARE * (perf_counter() - self.began)
        growth = OFTEN if self.spent < affordable else RARE
        return step - last >= max(1.0, (growth - 1) * past)

    def add(self, step: float, seen: Observation) -> None:
        """Keep an observation; of too many, let the one go that a straight line replaces best."""
        shapes = [
            {"outputs": s.outputs.shape[1], **{name: a.shape[1] for name, a in s.activity.items()}}
            for s in (seen, self.kept[0].seen if self.kept else seen)
        ]
        if shapes[0] != shapes[1]:
            raise InputError(f"layers must keep their sizes, {shapes[1]}; now they have {shapes[0]}")
        self.kept.append(Snapshot(step, seen))
        self._bends.append(np.inf)
        self._measure(len(self.kept) - 2)
        if len(self.kept) > self.most:
            least = int(np.argmin(self._bends))
            del self.kept[least], self._bends[least]
            self._measure(least - 1)
            self._measure(least)

    def _measure(self, k: int) -> None:
        """Distance of the outputs from those on a straight line between neighbours in logarithmic time."""
        if not 0 < k < len(self.kept) - 1:
            return
        t = [np.log1p(s.step - self.kept[0].step) for s in self.kept[k - 1 : k + 2]]
        before, now, after = (s.seen.outputs for s in self.kept[k - 1 : k + 2])
        share = (t[1] - t[0]) / (t[2] - t[0])
        self._bends[k] = float(np.linalg.norm(now - (1 - share) * before - share * after))

    @property
    def steps(self) -> np.ndarray:
        return np.array([s.step for s in self.kept])

    @property
    def outputs(self) -> np.ndarray:
        """(times, probes, outputs)"""
        return np.stack([s.seen.outputs for s in self.kept])

    def activity(self, layer: str) -> np.ndarray:
        """(times, probes, units)"""
        return np.stack([s.seen.activity[layer] for s in self.kept])

    @property
    def bytes(self) -> int:
        """Memory of all that is kept."""
        arrays = [a for s in self.kept for a in (s.seen.outputs, *s.seen.activity.values())]
        return sum(a.nbytes for a in arrays)


CROSSED = (
    "with cross-entropy outputs grow without end, and Eq. 7 describes outputs that settle at their targets"
)
KERNEL_PROBES, KERNEL_DIRECTIONS = 12, 8


@dataclass(eq=False, repr=False)
class Watch:
    """Watches a network while it learns: call it with the step. Made by `watch`.

    `modes()`, `representations()`, `pathways()` and `regime()` are the answers; `report(folder)` is a page
    with all of them.
    """

    network: Network
    x: np.ndarray
    y: np.ndarray
    loss: str
    probes: Probes
    named: dict[str, tuple[str, ...]]  # branches, and the names of their weights
    domains: np.ndarray | None  # of each probe
    items: np.ndarray  # (probes, features), equal for probes that correspond
    snapshots: Snapshots = field(default_factory=Snapshots)
    problem: str = ""
    notes: str = ""  # how it was watched, in sentences
    _last: tuple[float, tuple[Any, ...]] | None = None

    def __repr__(self) -> str:
        n = len(self.snapshots.kept)
        layers, size = len(self.network.layers), self.bytes
        return f"Watch({len(self.x)} probes, {layers} layers, {n} snapshots, {size:,} bytes)"

    @property
    def bytes(self) -> int:
        """Memory of the snapshots; at most 80 are kept. The initial weights are kept besides."""
        return self.snapshots.bytes

    def __call__(self, step: float, *state: Any) -> None:
        """Look at the network now, if it is time to.

        Parameters
        ----------
        step : float
            Step of training, or any time that increases.
        *state
            For a function: the parameters now.
        """
        self._seen(step, state, always=False)

    def look(self, step: float, *state: Any) -> None:
        """Look at the network now, in any case; arguments as in a call."""
        self._seen(step, state, always=True)

    def _seen(self, step: float, state: tuple[Any, ...], always: bool) -> None:
        step = number("step", step)
        if self._last is not None and step <= self._last[0]:
            raise InputError(f"step must increase from call to call; got {step:g} after {self._last[0]:g}")
        self._last = step, state
        if not self.problem and (always or self.snapshots.due(step)):
            self._look(step, state)

    def _look(self, step: float, state: tuple[Any, ...]) -> None:
        start = perf_counter()
        if not self.snapshots.kept:
            self.network.begin(*state)
        seen = self.network.observe(*state)
        if self.loss == "cross_entropy" and not self.snapshots.kept:  # classes that no probe has
            self.y = np.pad(self.y, ((0, 0), (0, max(0, seen.outputs.shape[1] - self.y.shape[1]))))
        if not all(np.isfinite(v).all() for v in (seen.outputs, *seen.activity.values())):
            self.problem = f"the network diverged: its activity at step {step:g} is not finite"
            warnings.warn(f"{self.problem}; what was seen before is kept", stacklevel=4)
            return
        self.snapshots.add(step, seen)
        self.snapshots.spent += perf_counter() - start

    def _kernel(self, start: bool) -> np.ndarray:
        """Tangent kernel on a few probes along a few directions of the outputs."""
        assert self._last is not None
        rng = np.random.default_rng(0)
        n, k = self.y.shape
        probes = np.sort(rng.choice(n, min(n, KERNEL_PROBES), replace=False)).tolist()
        directions = np.eye(k)
        if k > KERNEL_DIRECTIONS:
            directions = rng.standard_normal((KERNEL_DIRECTIONS, k)) / KERNEL_DIRECTIONS**0.5
        return self.network.kernel(probes, directions, *self._last[1], start=start)

    # -- answers -----------------------------------------------------------------------------

    def _ready(self, now: bool = False) -> Observation:
        """The network at the last step, looked at if it was not; `now` where its weights are needed."""
        if now and self.problem:
            raise InputError(f"{self.problem}; this answer needs the weights of the end")
        if self._last is None or not self.snapshots.kept:
            raise InputError(self.problem or "nothing was watched: call watch(step) in the training loop")
        if not self.problem and self.snapshots.kept[-1].step < self._last[0]:
            self._look(*self._last)
        if len(self.snapshots.kept) < 2:
            raise InputError("the network was seen once: call watch(step) also while and after it learns")
        first, last = self.snapshots.kept[0].seen, self.snapshots.kept[-1].seen
        if last.moved == 0 and (first.outputs == last.outputs).all():
            raise InputError(
                "the network did not change at all between the first and the last step: does the optimizer "
                "hold its parameters, and take steps?"
            )
        return last

    @property
    def depth(self) -> int:
        """Layers of weights, as theory counts them: weight matrices."""
        return len(self.snapshots.kept[0].seen.weights)

    def _read(self, out: np.ndarray) -> np.ndarray:
        """Outputs (..., probes, outputs) as modes are seen in them; probabilities for cross-entropy."""
        if self.loss == "squared":
            return out
        return expit(out) if out.shape[-1] == 1 else softmax(out, axis=-1)

    def _loss(self, out: np.ndarray) -> float:
        """Mean loss of outputs (probes, outputs): half the squared error, or cross-entropy."""
        seen = self._read(out)
        if self.loss == "squared":
            return float(((seen - self.y) ** 2).sum(axis=1).mean() / 2)
        of_target = (seen * self.y + (1 - seen) * (1 - self.y) * (seen.shape[1] == 1)).sum(axis=1)
        return float(-np.log(np.maximum(of_target, 1e-300)).mean())

    def _modes(self, data: Iterable[tuple[Any, Any]] | None = None) -> Modes:
        if data is None:
            return data_modes([(self.x, self.y)])
        of, inputs, outputs = self.probes, self.x.shape[1], self.y.shape[1]
        return data_modes(Batches(data, inputs, outputs, of.tokens, of.reading))

    def modes(self, data: Iterable[tuple[Any, Any]] | None = None) -> Answer:
        """What it learned first: strengths of the data's modes over training, their order and times.

        Parameters
        ----------
        data : iterable of (x, y), optional
            The whole data set in batches, as of a data loader, gone through more than once: modes are then of
            it instead of the probes. Their strength in the network is still measured on the probes.
        """
        self._ready()
        crossed = self.loss == "cross_entropy"
        out = self._read(self.snapshots.outputs)
        return modes_of(self.snapshots.steps, out, self.x, self.y, self.depth, crossed, self._modes(data))

    def representations(self) -> Answer:
        """What its representations became, and whether the two-point theory describes them."""
        self._ready()
        activity = {name: self.snapshots.activity(name) for name in self.network.layers}
        series = (self.snapshots.outputs, activity) if self.loss == "squared" else CROSSED
        return representations_of(
            self.snapshots.steps, self._distances, self.network.layers, self.x, self.y, series
        )

    def _distances(self, layer: str, k: int) -> np.ndarray:
        """Squared distances of the probes in a layer, in snapshot number k."""
        return nr.measure.squared_distances(self.snapshots.kept[k].seen.activity[layer])

    def to_rsatoolbox(self) -> Any:
        """Squared distances of the probes as `rsatoolbox.rdm.RDMs`, one matrix per layer and snapshot."""
        self._ready()
        kept = range(len(self.snapshots.kept))
        matrices = {name: np.stack([self._distances(name, k) for k in kept]) for name in self.network.layers}
        return to_rdms(matrices, self.snapshots.steps)

    def pathways(self) -> Answer:
        """Which patterns of gates its units have, what each carries, and how early they settle."""
        last = self._ready(now=True)
        activity = {name: self.snapshots.activity(name) for name in self.network.layers}
        return pathways_of(
            activity, self.network, self._read, self._loss, last.outputs, self.x, self.y, self._modes()
        )

    def branches(self) -> Answer:
        """What each named branch carries of each mode, what domains share, and what should generalise."""
        last = self._ready(now=True)
        assert self._last is not None
        if not self.named and self.domains is None:
            raise InputError("neither branches nor domains were given: nr.watch(..., branches=, domains=)")
        state = self._last[1]
        without = {k: self._read(self.network.without(v, *state)) for k, v in self.named.items()}
        return branches_of(
            without,
            self._read(last.outputs),
            last.activity,
            self.x,
            self.y,
            self._modes(),
            self.domains,
            self.items,
        )

    def regime(self) -> Regime:
        """Rich or lazy: `verdict` is "rich", "lazy" or "between"."""
        last = self._ready(now=True)
        kernels = np.stack([self._kernel(start=True), self._kernel(start=False)])
        ends = [self.snapshots.kept[k].seen.weights for k in (0, -1)]
        first = self.snapshots.kept[0].seen.outputs
        scale = float(np.linalg.norm(first) / max(np.linalg.norm(self.y), 1e-300))
        return regime_of(kernels, min(len(self.x), KERNEL_PROBES), last.moved, ends, scale)

    @property
    def described(self) -> str:
        """What was watched, in a sentence."""
        steps, crossed = self.snapshots.steps, self.loss == "cross_entropy"
        trained = "cross-entropy (outputs are shown as probabilities)" if crossed else "squared error"
        layers = f"{len(self.network.layers)} layer{'s' * (len(self.network.layers) != 1)}"
        p, unread = self.probes, ", ".join(self.network.unread)
        kind = (
            f"places of {len(p.samples)} sequences, each shown without its context"
            if p.reading.length
            else "probes"
        )
        chosen = f", chosen from {p.total}" if p.total > len(p.samples) else ""
        left = f"; left out, as they have no row per probe: {unread}" if unread else ""
        merged = " Classes that no probe has are taken together." if p.reading.merged else ""
        return (
            f"{len(self.x)} {kind}{chosen}; {layers}{left}; {len(steps)} snapshots from "
            f"step {steps[0]:g} to {steps[-1]:g}, {self.bytes / 1e6:.0f} MB; trained by {trained}."
            f"{merged}{self.notes}"
        )

    def answers(self) -> dict[str, Answer]:
        """All answers, by name; of a network that diverged those that need no weights of the end."""
        found = {"modes": self.modes(), "representations": self.representations()}
        if self.problem:
            return found
        found["pathways"] = self.pathways()
        if self.named or self.domains is not None:
            found["branches"] = self.branches()
        return {**found, "regime": self.regime()}

    def report(self, folder: str | Path = "insight") -> Path:
        """Write `index.html`, figures and `data.zarr` to a folder; the path of the page."""
        from neuralrace.apps.insight.page import write_page

        return write_page(self, folder)[0]


# -- trainers -------------------------------------------------------------------------------------


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
