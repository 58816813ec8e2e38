"""`watch`: one line in a training loop, four answers about the network."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from neuralrace.apps.insight.answer import Answer
from neuralrace.apps.insight.branches import as_branches, as_domains, branches_of
from neuralrace.apps.insight.models import Network, Observation, as_network
from neuralrace.apps.insight.modes import Modes, data_modes, modes_of
from neuralrace.apps.insight.pathways import pathways_of
from neuralrace.apps.insight.recordings import Recordings, from_recordings
from neuralrace.apps.insight.regime import Regime, regime_of
from neuralrace.apps.insight.representations import representations_of
from neuralrace.apps.insight.rsa import to_rdms
from neuralrace.apps.insight.snapshots import Snapshots
from neuralrace.errors import InputError, array, choice, integer, number
from neuralrace.measure import squared_distances
from neuralrace.universality.torch_module import as_array, is_module

LOSSES = ("squared", "cross_entropy")
CROSSED = (
    "with cross-entropy outputs grow without end, and Eq. 7 describes outputs that settle at their targets"
)
MOST_PROBES = 256
MOST_ONE_HOT = 100_000  # tokens times places, that are shown one-hot
KERNEL_PROBES, KERNEL_DIRECTIONS = 12, 8


class Watch:
    """Watches a network while it learns: call it with the step. Made by `watch`.

    `modes()`, `representations()`, `pathways()` and `regime()` are the answers; `report(folder)` is a page
    with all of them.
    """

    def __init__(
        self,
        network: Network,
        x: np.ndarray,
        y: np.ndarray,
        loss: str,
        left_out: int,
        tokens: int,
        branches: dict[str, tuple[str, ...]],
        domains: np.ndarray | None,
        items: np.ndarray | None,
    ):
        self.network: Network = network
        self.domains: np.ndarray | None = domains  # of each probe
        self._branches, self._items = branches, items
        self.x: np.ndarray = x
        self.y: np.ndarray = y
        self.loss: str = loss
        self.left_out: int = left_out
        self.tokens: int = tokens  # size of the vocabulary, where inputs are whole numbers
        self.snapshots: Snapshots = Snapshots()
        self.problem: str = ""
        self._last: tuple[float, tuple[Any, ...]] | None = None

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
        if seen.outputs.shape[1] != self.y.shape[1]:
            has, got = seen.outputs.shape[1], self.y.shape[1]
            raise InputError(f"y must have the {has} outputs per probe that the model has, got {got}")
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
        if out.shape[-1] == 1:
            return 1 / (1 + np.exp(-out))
        grown = np.exp(out - out.max(axis=-1, keepdims=True))
        return grown / grown.sum(axis=-1, keepdims=True)

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
        return data_modes(_Batches(data, self.x.shape[1], self.y.shape[1], self.tokens))

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
        return squared_distances(self.snapshots.kept[k].seen.activity[layer])

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
        if not self._branches and self.domains is None:
            raise InputError("neither branches nor domains were given: nr.watch(..., branches=, domains=)")
        state = self._last[1]
        without = {k: self._read(self.network.without(v, *state)) for k, v in self._branches.items()}
        items = self.y if self._items is None else self._items
        return branches_of(
            without,
            self._read(last.outputs),
            last.activity,
            self.x,
            self.y,
            self._modes(),
            self.domains,
            items,
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
        chosen = f", chosen from {len(self.x) + self.left_out}" if self.left_out else ""
        return (
            f"{len(self.x)} probes{chosen}; {layers}; {len(steps)} snapshots from "
            f"step {steps[0]:g} to {steps[-1]:g}, {self.bytes / 1e6:.0f} MB; trained by {trained}."
        )

    def answers(self) -> dict[str, Answer]:
        """All answers, by name; of a network that diverged those that need no weights of the end."""
        found = {"modes": self.modes(), "representations": self.representations()}
        if self.problem:
            return found
        found["pathways"] = self.pathways()
        if self._branches or self.domains is not None:
            found["branches"] = self.branches()
        return {**found, "regime": self.regime()}

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
        branches: Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
        domains: Any = None,
        items: Any = None,
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
        branches : list of str, or dict of str to names, optional
            Parallel parts of the network, each by the names of its weights (`"left"` stands for
            `"left.weight"` and so on); `watch.branches()` says what each carries.
        domains : array_like, shape (samples,), optional
            The domain of each sample, by number or name; `watch.branches()` says what domains share.
        items : array_like, shape (samples,), optional
            What each sample shows, such that samples of different domains correspond; by default samples with
            equal targets do.

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
        given = np.asarray(as_array(x))
        tokens = int(given.max(initial=0)) + 1 if is_module(model) and given.dtype.kind in "iu" else 0
        flat = one_hot(given, tokens) if tokens else np.asarray(given, float)
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
        n = len(chosen)
        labels, named = as_domains(domains, len(flat)), as_branches(branches)
        shown = None if items is None else _targets(np.unique(items, return_inverse=True)[1].ravel())[0]
        if shown is not None and len(shown) != len(flat):
            raise InputError(f"items must have one label per sample, {len(flat)}, got {len(shown)}")
        labels = None if labels is None else as_domains(labels[chosen], n)
        network = as_network(model, x[chosen] if hasattr(x, "shape") else np.asarray(x)[chosen], layers, pick)
        return Watch(
            network, flat[chosen].reshape(n, -1), targets[chosen], kind, len(flat) - n, tokens, named, labels,
            None if shown is None else shown[chosen],
        )  # fmt: skip

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

    def from_recordings(
        self, recorded: Any, x: Any, y: Any, *, steps: Any = None, distances: bool = False
    ) -> Recordings:
        """The same questions of recorded representations alone, such as of neurons over sessions.

        Trials with the same stimulus and target are averaged.

        Parameters
        ----------
        recorded : array_like, shape (sessions, trials, units), or a list or dict of such
            Activity; sessions may have different units. A dict has one entry per region. Objects of
            rsatoolbox are welcome: `RDMs` (one per session), a list of `Dataset`, or a `TemporalDataset`.
        x, y : array_like, shape (trials, ...)
            Stimuli as features, and targets or class labels, the same in all sessions.
        steps : array_like, shape (sessions,), optional
            When each session was; by default 0, 1, ...
        distances : bool
            Whether `recorded` holds squared distances (sessions, trials, trials) instead of activity.

        Returns
        -------
        Recordings
            With `modes()`, `representations()`, `pathways()`, `regime()` and `report(folder)`.

        Examples
        --------
        >>> import numpy as np
        >>> import neuralrace as nr
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(12, 3)), np.arange(12) % 2
        >>> sessions = [x @ rng.normal(size=(3, 40)) + k * y[:, None] for k in range(4)]
        >>> nr.watch.from_recordings(sessions, x, y)
        Recordings(12 conditions, 4 sessions, recorded)
        """
        return from_recordings(recorded, x, _targets(as_array(y))[0], steps, distances)


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


def one_hot(x: np.ndarray, tokens: int) -> np.ndarray:
    """Tokens (samples, ...) as one-hot rows."""
    if x.min(initial=0) < 0 or x.max(initial=0) >= tokens:
        raise InputError(f"x must hold tokens from 0 to {tokens - 1}, got {x.min()} to {x.max()}")
    if tokens * x[:1].size > MOST_ONE_HOT:
        raise InputError(
            f"x holds whole numbers up to {tokens - 1}, which are taken for tokens; give fewer of them, or "
            "floating-point numbers"
        )
    return np.eye(tokens, dtype=np.float32)[x.reshape(len(x), -1)].reshape(len(x), -1)


class _Batches:
    """Batches of inputs and targets as arrays of rows, as often as they are asked for."""

    def __init__(self, data: Iterable[tuple[Any, Any]], inputs: int, outputs: int, tokens: int):
        if iter(data) is data:
            raise InputError(
                "data is gone through more than once: give a list or a data loader, no generator"
            )
        self.data, self.inputs, self.outputs, self.tokens = data, inputs, outputs, tokens

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for x, y in self.data:
            given, targets = np.asarray(as_array(x)), _targets(as_array(y))[0]
            rows = one_hot(given, self.tokens) if self.tokens else np.asarray(given, float)
            rows = rows.reshape(len(rows), -1)
            targets = np.pad(targets, ((0, 0), (0, max(0, self.outputs - targets.shape[1]))))
            if (rows.shape[1], targets.shape[1]) != (self.inputs, self.outputs) or len(rows) != len(targets):
                raise InputError(
                    f"data must have {self.inputs} inputs and {self.outputs} outputs in each batch, as the "
                    f"probes have; got shapes {rows.shape} and {targets.shape}"
                )
            yield rows, targets
