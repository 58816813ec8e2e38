"""`watch`: makes a `Watch` of a network, of checkpoints of it, or of recordings."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.apps.insight.branches import as_branches, as_domains
from neuralrace.apps.insight.models import as_network
from neuralrace.apps.insight.probes import as_labels, as_numbers, choose_probes, targets_of
from neuralrace.apps.insight.recordings import Recordings, from_recordings
from neuralrace.apps.insight.watching import Watch
from neuralrace.errors import InputError, choice, integer, listed, need_extra, number, sequence, short
from neuralrace.torch_modules import as_inputs, is_module

LOSSES = ("squared", "cross_entropy")
MOST_PROBES = 256
STEPS = "global_step", "step", "iteration", "iter", "epoch"  # keys under which trainers store them
NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)")  # in a name


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
        output: int | str | None = None,
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
            Probes: inputs, and targets or class labels (whole numbers). Labels of sequences of tokens may
            have the shape of `x`: each place is then a probe, but those with label -100.
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
        output : int or str, optional
            Which of several things that the model returns is its output, by index or key; by default
            `"logits"`, or the only one that has the size of the targets.

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
        need_extra("insight", "matplotlib", "sklearn", "xarray")
        given, wanted = as_numbers("x", x), as_numbers("y", y)
        if given.ndim < 1 or len(given) < 2:
            raise InputError(f"x must hold at least two samples, got shape {given.shape}")
        if wanted.ndim < 1 or len(wanted) != len(given):
            raise InputError(f"y must have {len(given)} rows, as many as x, got shape {wanted.shape}")
        if isinstance(model, type) or not (is_module(model) or callable(model)):
            raise InputError(
                "model must be a torch.nn.Module or a function (params, x) -> outputs, got "
                f"{type(model).__name__}"
            )
        model = getattr(model, "_orig_mod", model) if is_module(model) else model  # of torch.compile
        most, named = integer("probes", probes, least=2), as_branches(branches)
        kind = None if loss is None else choice("loss", loss, LOSSES)
        if pick is not None and not callable(pick):
            raise InputError(f"pick must be a function of a layer's name and value, got {short(pick)}")
        layers = None if layers is None else sequence("layers", layers, "names")
        if layers is not None and not len(layers):
            raise InputError("layers must name at least one, got none")
        if output is not None and not isinstance(output, str):
            output = integer("output", output, -(2**31))
        domain = as_domains(domains, len(given))
        item = None if items is None else np.unique(as_labels("items", items), return_inverse=True)[1].ravel()
        if item is not None and len(item) != len(given):
            raise InputError(f"items must have one label per sample, {len(given)}, got {len(item)}")
        inputs: Any = as_inputs(model, x) if is_module(model) else given
        tokens = is_module(model) and not inputs.is_floating_point()
        rows, targets, kind, chosen = choose_probes(given, wanted, tokens, kind, most)
        chosen.reading.output = output
        network = as_network(model, inputs[chosen.samples], layers, pick, chosen.reading)
        return Watch(
            network, rows, targets, kind, chosen, named,
            None if domain is None else as_domains(domain[chosen.of], len(rows)),
            targets if item is None else targets_of(item[chosen.of])[0],
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
            A module of the same architecture; a copy of it is used.
        files : paths
            Checkpoints in the order of training, each a state dict. Steps that are stored in the files beside
            the weights give the order and the steps; without, a number by which alone the names differ is
            the step.
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
        try:
            own = deepcopy(model)
        except Exception as fault:
            raise InputError(f"model must be one that copy.deepcopy copies; {fault}") from fault
        seen = self(own, x, y, **options)
        found, told = in_order(own, files, allow_pickle)
        seen.notes = f" {told}"
        for step, path in found:
            own.load_state_dict(weights_in(path, allow_pickle, own)[0])
            seen.look(step)
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
        need_extra("insight", "matplotlib", "sklearn", "xarray")
        return from_recordings(recorded, x, targets_of(y)[0], steps, distances)


watch = _Watching()


# -- checkpoints -------------------------------------------------------------------------------------


def in_order(model: Any, files: Any, allow_pickle: bool = False) -> tuple[list[tuple[float, Path]], str]:
    """Files with their steps, and in words where the order and the steps are from.

    Steps stored in the files give the order; without them it is that in which the files are given.
    """
    if not is_module(model):
        raise InputError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    files = sequence("files", files, "paths")
    if len(files) < 2 or not all(isinstance(f, (str, Path)) for f in files):
        raise InputError(f"files must list at least two checkpoints, got {short(files)}")
    paths = [Path(f) for f in files]
    stored = [weights_in(path, allow_pickle, model)[1] for path in paths]
    for key in STEPS:
        steps = [of_file[key] for of_file in stored if key in of_file]
        if len(set(steps)) == len(paths):
            return sorted(
                zip(steps, paths, strict=True)
            ), f"Steps are those stored in the checkpoints ({key!r})."
    steps, told = [float(k) for k in range(len(paths))], "counted from 0"
    parts = [NUMBER.split(path.name.removesuffix(path.suffix)) for path in paths]
    if len({len(p) for p in parts}) == 1:
        differ = [k for k in range(len(parts[0])) if len({p[k] for p in parts}) > 1]
        if len(differ) == 1 and differ[0] % 2:  # names that differ in one number
            steps, told = [float(p[differ[0]]) for p in parts], "those in the names"
    if steps != sorted(set(steps)):
        raise InputError(
            "files must be in the order of training, as no step is stored in them; the numbers in the names "
            f"do not increase: {listed(path.name for path in paths)}"
        )
    return list(zip(steps, paths, strict=True)), f"Checkpoints are in the order given; steps are {told}."


def weights_in(path: Path, allow_pickle: bool, model: Any) -> tuple[dict[str, Any], dict[str, float]]:
    """Weights of the model in a file, and the steps stored beside them."""
    import torch  # pyright: ignore[reportMissingImports]

    try:
        found = torch.load(path, map_location="cpu", weights_only=not allow_pickle)
    except OSError as fault:
        raise InputError(f"{path} cannot be read: {fault.strerror or fault}") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as fault:
        raise InputError(
            f"{path} does not hold weights alone; nothing of it was executed. Save model.state_dict(), or "
            "give allow_pickle=True (--allow-pickle) for a file you trust"
        ) from fault
    if isinstance(found, torch.nn.Module):
        found = found.state_dict()
    steps = dict[str, float]()
    for key in STEPS if isinstance(found, dict) else ():
        with suppress(InputError):
            steps[key] = number(key, found.get(key))
    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            found = found[key]
    own = model.state_dict()
    fits = isinstance(found, dict) and found.keys() == own.keys()
    if not fits or any(getattr(found[k], "shape", None) != own[k].shape for k in own):
        raise InputError(f"{path} is a checkpoint of another model: its weights have other names or shapes")
    return found, steps
