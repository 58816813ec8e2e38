"""`watch`: makes a `Watch` of a network, of checkpoints of it, or of recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.apps.insight.branches import as_branches, as_domains
from neuralrace.apps.insight.models import as_network
from neuralrace.apps.insight.probes import as_labels, as_numbers, one_hot, targets_of
from neuralrace.apps.insight.recordings import Recordings, from_recordings
from neuralrace.apps.insight.watching import Watch
from neuralrace.errors import InputError, array, choice, integer, sequence
from neuralrace.universality.torch_module import is_module

LOSSES = ("squared", "cross_entropy")
MOST_PROBES = 256


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
        targets, inferred = targets_of(y)
        kind = inferred if loss is None else choice("loss", loss, LOSSES)
        given = as_numbers("x", x)
        tokens = int(given.max(initial=0)) + 1 if is_module(model) and given.dtype.kind in "iu" else 0
        flat = one_hot(given, tokens) if tokens else array("x", given)
        if flat.ndim < 1 or len(flat) < 2:
            raise InputError(f"x must hold at least two samples, got shape {flat.shape}")
        if len(flat) != len(targets):
            raise InputError(f"y must have {len(flat)} rows, as many as x, got {len(targets)}")
        most = integer("probes", probes, least=2)
        chosen = np.arange(len(flat))
        if len(flat) > most:
            chosen = np.sort(np.random.default_rng(0).choice(len(flat), most, replace=False))
        chosen = chosen[np.lexsort(targets[chosen].T)]  # probes with equal targets side by side
        n = len(chosen)
        if layers is not None:
            layers = sequence("layers", layers, "names")
        labels, named = as_domains(domains, len(flat)), as_branches(branches)
        shown = (
            targets
            if items is None
            else targets_of(np.unique(as_labels("items", items), return_inverse=True)[1].ravel())[0]
        )
        if len(shown) != len(flat):
            raise InputError(f"items must have one label per sample, {len(flat)}, got {len(shown)}")
        labels = None if labels is None else as_domains(labels[chosen], n)
        network = as_network(model, x[chosen] if hasattr(x, "shape") else np.asarray(x)[chosen], layers, pick)
        return Watch(
            network, flat[chosen].reshape(n, -1), targets[chosen], kind, len(flat) - n, tokens, named, labels,
            shown[chosen],
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
        return from_recordings(recorded, x, targets_of(y)[0], steps, distances)


watch = _Watching()
