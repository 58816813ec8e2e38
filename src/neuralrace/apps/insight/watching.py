"""`watch`: one line in a training loop, four answers about the network."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from neuralrace.apps.insight.answer import Answer
from neuralrace.apps.insight.models import Network, Observation, TorchNetwork, as_network
from neuralrace.apps.insight.modes import modes_of
from neuralrace.apps.insight.pathways import pathways_of
from neuralrace.apps.insight.regime import Regime, regime_of
from neuralrace.apps.insight.representations import representations_of
from neuralrace.apps.insight.snapshots import Snapshots
from neuralrace.errors import InputError, array, choice, integer, number
from neuralrace.universality.torch_module import as_array

LOSSES = ("squared", "cross_entropy")
MOST_PROBES = 256
KERNEL_PROBES, KERNEL_DIRECTIONS = 12, 8


class Watch:
    """Watches a network while it learns: call it with the step. Made by `watch`.

    `modes()`, `representations()`, `pathways()` and `regime()` are the answers; `report(folder)` is a page
    with all of them.
    """

    def __init__(self, network: Network, x: np.ndarray, y: np.ndarray, loss: str, left_out: int):
        self.network: Network = network
        self.x: np.ndarray = x
        self.y: np.ndarray = y
        self.loss: str = loss
        self.left_out: int = left_out
        self.snapshots: Snapshots = Snapshots()
        self.problem: str = ""
        self._last: tuple[float, tuple[Any, ...]] | None = None
        self._first_kernel: np.ndarray | None = None

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
        seen = self.network.observe(*state)
        if seen.outputs.shape[1] != self.y.shape[1]:
            has, got = seen.outputs.shape[1], self.y.shape[1]
            raise InputError(f"y must have the {has} outputs per probe that the model has, got {got}")
        if not all(np.isfinite(v).all() for v in (seen.outputs, *seen.activity.values())):
            self.problem = f"the network diverged: its activity at step {step:g} is not finite"
            warnings.warn(f"{self.problem}; what was seen before is kept", stacklevel=4)
            return
        if self._first_kernel is None:
            self._first_kernel = self._kernel(state)
        self.snapshots.add(step, seen, perf_counter() - start)

    def _kernel(self, state: tuple[Any, ...]) -> np.ndarray:
        rng = np.random.default_rng(0)
        n, k = self.y.shape
        probes = np.sort(rng.choice(n, min(n, KERNEL_PROBES), replace=False)).tolist()
        directions = np.eye(k)
        if k > KERNEL_DIRECTIONS:
            directions = rng.standard_normal((KERNEL_DIRECTIONS, k)) / KERNEL_DIRECTIONS**0.5
        return self.network.kernel(probes, directions, *state)

    # -- answers -----------------------------------------------------------------------------

    def _ready(self) -> Observation:
        """The network at the last step, looked at if it was not."""
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

    @cached_property
    def depth(self) -> int:
        """Layers of weights: weight matrices of different sizes in a row, as theory counts them."""
        if isinstance(self.network, TorchNetwork):
            return max(1, sum(p.ndim >= 2 for p in self.network.model.parameters()))
        return max(1, len(self.network.layers) + 1)

    @property
    def answers(self) -> np.ndarray:
        """Outputs over time; probabilities where the loss is cross-entropy."""
        out = self.snapshots.outputs
        if self.loss == "squared":
            return out
        if out.shape[-1] == 1:
            return 1 / (1 + np.exp(-out))
        grown = np.exp(out - out.max(axis=-1, keepdims=True))
        return grown / grown.sum(axis=-1, keepdims=True)

    def modes(self) -> Answer:
        """What it learned first: strengths of the data's modes over training, their order and times."""
        self._ready()
        crossed = self.loss == "cross_entropy"
        return modes_of(self.snapshots.steps, self.answers, self.x, self.y, self.depth, crossed)

    def representations(self) -> Answer:
        """What its representations became, and whether the two-point theory describes them."""
        self._ready()
        activity = {name: self.snapshots.activity(name) for name in self.network.layers}
        squared = self.loss == "squared"
        return representations_of(
            self.snapshots.steps, self.snapshots.outputs, activity, self.x, self.y, squared
        )

    def pathways(self) -> Answer:
        """Which patterns of gates its rectified units have, and what each carries."""
        last = self._ready()
        return pathways_of(last.activity, self.network, last.outputs, self.y)

    def regime(self) -> Regime:
        """Rich or lazy: `verdict` is "rich", "lazy" or "between"."""
        last = self._ready()
        assert self._last is not None
        assert self._first_kernel is not None
        kernels = np.stack([self._first_kernel, self._kernel(self._last[1])])
        ends = [self.snapshots.kept[k].seen.weights for k in (0, -1)]
        return regime_of(kernels, min(len(self.x), KERNEL_PROBES), last.moved, ends)

    def report(self, folder: str | Path = "insight") -> Path:
        """Write `index.html`, figures and `data.zarr` to a folder; the path of the page."""
        from neuralrace.apps.insight.page import write_page

        return write_page(self, Path(folder))


class _Watching:
    """Makes a `Watch`; see `watch`."""

    def __call__(
        self,
        model: Any,
        x: Any,
        y: Any,
        *,
        layers: Sequence[str] | None = None,
        loss: str | None = None,
        probes: int = MOST_PROBES,
        pick: Callable[[str, Any], Any] | None = None,
    ) -> Watch:
        """Watch a network of your own while it learns.

        Call the result in the training loop: `watch(step)`, or `watch(step, params)` for a function. It looks
        at ever larger distances and keeps few snapshots, so it costs little. A torch module is left as it
        was.

        Parameters
        ----------
        model : torch.nn.Module or callable
            The network; or a function `(params, x) -> outputs`, or `-> (outputs, {layer: activity})`, as of
            JAX, flax or equinox.
        x, y : array_like or torch.Tensor, shape (samples, ...)
            Probes: inputs, and targets or class labels (whole numbers).
        layers : list of str, optional
            Submodules of a torch module, or names of the activities; by default all that run, but the last.
        loss : {"squared", "cross_entropy"}, optional
            What is trained; by default cross-entropy for labels and squared error for targets.
        probes : int
            How many samples to use at most; a random choice of more.
        pick : callable, optional
            `pick(layer, value)` takes the activity, samples first, from what a module returns; by default its
            first tensor.

        Returns
        -------
        Watch

        Examples
        --------
        >>> import numpy as np
        >>> import neuralrace as nr
        >>> x, y = np.eye(4), np.diag([4.0, 3.0, 2.0, 1.0])
        >>> def model(params, x):
        ...     hidden = x @ params["a"]
        ...     return hidden @ params["b"], {"hidden": hidden}
        >>> task = nr.Task(nr.Graph.chain([4, 8, 4]), x, y)
        >>> run = nr.flow(task, nr.init.gaussian(task.graph, 1e-3), t1=60.0, save=61)
        >>> see = nr.watch(model, x, y)
        >>> for k in range(61):
        ...     see(k, {"a": run.weights["x->h1"][k].T, "b": run.weights["h1->y"][k].T})
        >>> see.regime().verdict, see.modes().data.half_time.values.argsort().tolist()
        ('rich', [0, 1, 2, 3])
        """
        targets, inferred = _targets(as_array(y))
        kind = inferred if loss is None else choice("loss", loss, LOSSES)
        flat = np.asarray(as_array(x), float)
        if flat.ndim < 1 or len(flat) < 2:
            raise InputError(f"x must hold at least two samples, got shape {flat.shape}")
        if len(flat) != len(targets):
            raise InputError(f"y must have {len(flat)} rows, as many as x, got {len(targets)}")
        array("x", flat)
        most = integer("probes", probes, least=2)
        chosen = np.arange(len(flat))
        if len(flat) > most:
            chosen = np.sort(np.random.default_rng(0).choice(len(flat), most, replace=False))
        chosen = chosen[np.lexsort(targets[chosen].T)]  # probes with equal targets side by side
        network = as_network(model, x[chosen] if hasattr(x, "shape") else np.asarray(x)[chosen], layers, pick)
        n = len(chosen)
        return Watch(network, flat[chosen].reshape(n, -1), targets[chosen], kind, len(flat) - n)

    def from_checkpoints(
        self,
        model: Any,
        files: Iterable[str | Path],
        x: Any,
        y: Any,
        *,
        allow_pickle: bool = False,
        **options: Any,
    ) -> Watch:
        """Watch a network after the fact, from checkpoints of its weights.

        Parameters
        ----------
        model : torch.nn.Module
            A module of the same architecture.
        files : paths
            Checkpoints in the order of training, each a state dict; a number in the name is the step.
        x, y
            As in `watch`.
        allow_pickle : bool
            Also load files that hold code, which is then executed. Only for files you trust.
        **options
            As in `watch`.

        Returns
        -------
        Watch
        """
        from neuralrace.apps.insight.checkpoints import load_in_turn

        seen: Watch | None = None
        for step in load_in_turn(model, list(files), allow_pickle):
            seen = self(model, x, y, **options) if seen is None else seen
            seen.look(step)
        assert seen is not None
        return seen


watch = _Watching()


def _targets(y: Any) -> tuple[np.ndarray, str]:
    """Targets, one row per sample, and the loss that they suggest; labels as one-hot rows."""
    values = np.asarray(y)
    if values.dtype.kind in "iub" and values.ndim == 1:
        if values.min(initial=0) < 0:
            raise InputError("y must hold class labels from 0 on, or targets as floating-point numbers")
        return np.eye(int(values.max(initial=0)) + 1)[values.astype(int)], "cross_entropy"
    found = array("y", values)
    return found.reshape(len(found), -1) if found.ndim else found.reshape(1, 1), "squared"
