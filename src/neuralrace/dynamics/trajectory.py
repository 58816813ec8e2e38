"""The result of everything that learns over time: times, losses, weights, and how each run ended."""

from __future__ import annotations

import dataclasses
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from neuralrace.dynamics.history import History
from neuralrace.dynamics.status import Ending, Status
from neuralrace.errors import InputError, choice, integer, known, number, sequence, short
from neuralrace.network import activity, predict

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from neuralrace.task import Task


GATES = "gates:"  # with a node: recorded values that say which of its units are active
_WORST_FIRST = (
    Status.DIVERGED, Status.STEP_LIMIT, Status.MISSED_ERROR, Status.SADDLE, Status.UNDECIDED,
    Status.UNSETTLED, Status.FINISHED, Status.REACHED_LOSS,
)  # fmt: skip


class LazyWeights(Mapping[str, np.ndarray]):
    """Weights by edge (save, out, in), or with a leading axis of runs, computed when they are asked for."""

    names: Mapping[str, object]

    def lift(self, edge: str) -> np.ndarray:
        """The weights of one edge."""
        raise NotImplementedError

    def picked(self, k: int | np.ndarray) -> LazyWeights:
        """Those of one run, or of several."""
        raise NotImplementedError

    def at(self, i: int) -> dict[str, np.ndarray]:
        """Those at one saved time, without computing the others."""
        raise NotImplementedError

    def __getitem__(self, edge: str) -> np.ndarray:
        if edge not in self.names:
            raise KeyError(edge)
        return self.lift(edge)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, edge: object) -> bool:
        return edge in self.names


class Source(Protocol):
    """The reduction that a trajectory solves, where it is not of a network's own weights."""

    @property
    def reduction(self) -> Any: ...
    def strengths(self, traj: Trajectory) -> np.ndarray: ...
    def residual(self, traj: Trajectory) -> Any: ...
    def picked(self, k: Any) -> Source: ...
    def words(self, traj: Trajectory) -> str: ...


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory:
    """A learning trajectory, or several from different initial weights (`traj[k]` is one of them).

    Several runs share the times `t`; all else then has a leading axis of runs, and a run that ended early
    keeps its last state.

    Attributes
    ----------
    t : ndarray, shape (save,)
        Flow time, tau = 1 on the mean loss.
    loss : ndarray, shape (save,) or (runs, save)
        Mean over samples, times `loss_scale`.
    weights : mapping
        Edge name -> (save, out, in); empty if weights were not saved.
    endings : tuple of Ending
        How each run ended, in numbers: status, time and what else there is.
    recorded : dict
        Values of the `record` function at the saved times.
    step_loss : ndarray, shape (steps + 1,) or (runs, steps + 1), optional
        Descent: the loss before every step, of the batch if there are batches.
    history : History, optional
        Loss and slope at the solver's own steps, from which learning times are read.
    stats : dict
        Statistics of the method: "steps", and the estimated "error" (one per run).
    settings, versions : dict
        How it was made, and by which versions.
    runs : dict
        Coordinates of the runs, name -> (runs,).
    dims : dict
        Names of the axes of weights and recorded values, run and time aside.
    loss_scale : float
        1 for the mean loss, the number of samples for the summed loss.
    task : Task, optional
        What was learned; it is not saved with `save`.
    source : Source, optional
        The reduction that was solved; None for a network's own weights.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.tasks.xor()
    >>> traj = nr.flow(task, nr.init.gaussian(task.graph, 0.1), t1=20.0, save=5)
    >>> traj.t.shape, traj.loss.shape, traj.weights["x->p0h1"].shape, traj.status
    ((5,), (5,), (5, 32, 2), <Status.FINISHED: 'finished'>)
    """

    t: np.ndarray
    loss: np.ndarray
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    endings: tuple[Ending, ...] = (Ending(Status.FINISHED, np.nan),)
    recorded: dict[str, np.ndarray] = field(default_factory=dict)
    step_loss: np.ndarray | None = None
    history: History | None = None
    stats: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=lambda: dict(versions()))
    runs: dict[str, np.ndarray] = field(default_factory=dict)
    dims: dict[str, tuple[str, ...]] = field(default_factory=dict)
    loss_scale: float = 1.0
    task: Task = None  # pyright: ignore[reportAssignmentType] (None where it was loaded)

    source: Any = None

    @property
    def many(self) -> bool:
        """Whether there is a leading axis of runs."""
        return self.loss.ndim == 2

    @property
    def end(self) -> Any:
        """Time at which the run ended; one per run where there are several."""
        found = np.array([ending.t for ending in self.endings])
        return found if self.many else float(found[0])

    @property
    def statuses(self) -> tuple[Status, ...]:
        """How each run ended."""
        return tuple(ending.status for ending in self.endings)

    @property
    def status(self) -> Status | tuple[Status, ...]:
        """How the run ended; one per run where there are several."""
        return self.statuses if self.many else self.statuses[0]

    @property
    def outcomes(self) -> tuple[str, ...]:
        """How each run ended, in words."""
        return tuple(map(str, self.endings))

    @property
    def outcome(self) -> str:
        """How the run ended, or the worst of several: text that starts with the words of its `Status`."""
        if not self.many:
            return str(self.endings[0])
        worst = next(s for s in _WORST_FIRST if s in self.statuses)
        same, n = [k for k, s in enumerate(self.statuses) if s is worst], len(self.endings)
        missed = [e for e in self.endings if e.error is not None]
        end = f"; {missed[0].missed} ({len(missed)} of {n} runs)" if missed else ""
        if len(same) == n:
            return f"{worst.value} in all {n} runs{end}"
        return f"{worst.value} in {len(same)} of {n} runs ({', '.join(map(str, same[:8]))}){end}"

    @property
    def reduction(self) -> Any:
        """The reduction that was solved."""
        if self.source is None:
            raise InputError("this trajectory is of a network's own weights: it has no reduction")
        return self.source.reduction

    @cached_property
    def strengths(self) -> np.ndarray:
        """Strength of each mode, (save, modes, classes) of a solved reduction; singular values for blocks.

        Of a reduction around given weights, (save, modes, edges). `nr.mode_strengths` has those of a network.
        """
        if self.source is None:
            raise InputError(
                "strengths are of a solved reduction; nr.mode_strengths(traj, task) has those of a network"
            )
        return self.source.strengths(self)

    @cached_property
    def residual(self) -> Any:
        """The certificate of a solved reduction along its solution; one per run around given weights."""
        if self.source is None:
            raise InputError("residual is of a solved reduction; a network's own weights have none")
        return self.source.residual(self)

    @property
    def dimensions(self) -> dict[str, int]:
        """Dimensions in which each hidden node was followed; its neurons where it was followed as it is."""
        g, few = self._task("dimensions").graph, self.settings.get("dimensions", {})
        return {n: few.get(n, g.nodes[n]) for n in g.hidden}

    def __repr__(self) -> str:
        runs = f"{len(self.loss)} runs, " if self.many else ""
        more = "" if self.source is None else f"; {self.source.words(self)}"
        return f"Trajectory({runs}{len(self.t)} times to t = {self.t[-1]:g}, {self.outcome}{more})"

    def __len__(self) -> int:
        if not self.many:
            raise TypeError("a single run has no length; len counts the runs of a trajectory with several")
        return len(self.loss)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Self]:
        if not self.many:
            raise InputError("a single run is no list of runs; give several, or its curves")
        return (self[k] for k in range(len(self)))

    def __getitem__(self, k: Any) -> Self:
        """One run of several, by its place; or some of them, by a slice or a list of places.

        Examples
        --------
        >>> import neuralrace as nr
        >>> task = nr.tasks.xor()
        >>> many = nr.flow(task, nr.init.gaussian(task.graph, 0.1, seed=range(3)), t1=5.0)
        >>> many[1].loss.shape, many[:2].loss.shape
        ((200,), (2, 200))
        """
        if not self.many:
            raise InputError(
                "this trajectory is a single run, and only one with several can be indexed: use it as it is"
            )
        n = len(self.loss)
        if isinstance(k, (int, np.integer)) and not isinstance(k, bool):
            if not -n <= k < n:
                raise InputError(f"run must be between {-n} and {n - 1}, got {k}")
            k, places = int(k), [int(k)]
        else:
            try:
                places = np.arange(n)[k if isinstance(k, slice) else np.asarray(sequence("run", k, "places"))]
                places = places.tolist()
            except (IndexError, TypeError, ValueError) as fault:
                raise InputError(
                    f"run must be a place among {n}, a slice or a list; got {short(k)}"
                ) from fault
            if not isinstance(places, list) or not places or np.ndim(places) != 1:
                raise InputError(f"run must name at least one of the {n} runs, got {short(k)}")
            k = np.asarray(places)
        return self._picked(k, places)

    def _picked(self, k: Any, places: list[int]) -> Self:
        pick = lambda table: {n: np.asarray(v)[k] for n, v in table.items()}  # noqa: E731
        return dataclasses.replace(
            self,
            loss=self.loss[k],
            weights=self.weights.picked(k) if isinstance(self.weights, LazyWeights) else pick(self.weights),
            endings=tuple(self.endings[i] for i in places),
            recorded=pick(self.recorded),
            step_loss=None if self.step_loss is None else self.step_loss[k],
            history=None if self.history is None else self.history.run(k),
            stats={n: _of_run(v, k, len(self.loss)) for n, v in self.stats.items()},
            runs=pick(self.runs),
            source=None if self.source is None else self.source.picked(k),
        )

    def rescaled(self, loss_scale: float) -> Self:
        """The same with the loss on another scale: 1 for the mean over samples, their number for the sum.

        Times do not change: they are those of the mean loss (see `time`).

        Parameters
        ----------
        loss_scale : float
            Number that multiplies the mean loss.

        Examples
        --------
        >>> import neuralrace as nr
        >>> task = nr.tasks.xor()
        >>> traj = nr.flow(task, nr.init.gaussian(task.graph, 1e-6), t1=1.0, save=2)
        >>> traj.rescaled(4).loss.round(3)
        array([2., 2.])
        """
        factor = number("loss_scale", loss_scale, above=0) / self.loss_scale
        return dataclasses.replace(
            self,
            loss=factor * self.loss,
            step_loss=None if self.step_loss is None else factor * self.step_loss,
            history=None if self.history is None else self.history.scaled(factor),
            endings=tuple(ending.scaled(factor) for ending in self.endings),
            loss_scale=float(loss_scale),
        )

    # -- the network along the way ---------------------------------------------------------------

    def at(self, i: int) -> dict[str, np.ndarray]:
        """Weights at one saved time.

        Parameters
        ----------
        i : int
            Index of the saved time; -1 is the last.

        Returns
        -------
        dict of str to ndarray
            Edge name -> (out, in), with a leading axis of runs where there are several.
        """
        if not self.weights:
            raise InputError("weights were not saved: solve or train with save_weights=True")
        if not isinstance(i, (int, np.integer)) or not -len(self.t) <= i < len(self.t):
            raise InputError(f"i must be the index of one of {len(self.t)} saved times, got {short(i)}")
        if isinstance(self.weights, LazyWeights):
            return self.weights.at(int(i))
        return {n: np.asarray(w)[:, i] if self.many else np.asarray(w)[i] for n, w in self.weights.items()}

    def predict(self, i: int | None = None) -> dict[str, np.ndarray]:
        """Outputs for every sample along the way.

        Parameters
        ----------
        i : int, optional
            Index of one saved time; all of them if not given.

        Returns
        -------
        dict of str to ndarray, shape (save, n, size), or (n, size) at one time
            With a leading axis of runs where there are several.

        Examples
        --------
        >>> import neuralrace as nr
        >>> sol = nr.reduce(nr.tasks.xor()).solve(strengths=0.1, t1=40.0, save=5)
        >>> sol.predict(-1)["y"][:, 0].round(2)  # at the end, of the four samples
        array([-1.,  1.,  1., -1.])
        """
        task = self._task("predict")
        if i is not None:
            return predict(task, self.at(i))
        each = [predict(task, self.at(k)) for k in range(len(self.t))]
        return {o: np.stack([y[o] for y in each], axis=int(self.many)) for o in task.graph.outputs}

    def gates(self, i: int) -> list[np.ndarray]:
        """Which units are active at one saved time, of the nodes with activations.

        Parameters
        ----------
        i : int
            Index of the saved time; -1 is the last.

        Returns
        -------
        list of ndarray, each of shape (n, size)
            1 where a unit is active and 0 elsewhere, in the order of the layers; runs are a leading axis.
        """
        task = self._task("gates")
        nodes = [n for n in task.graph.order if n in task.graph.activations]
        if self.weights:
            weights = self.at(i)
            return [np.asarray(activity(task, weights, n) > 0, float) for n in nodes]
        kept = [self.recorded[GATES + n] for n in nodes if GATES + n in self.recorded]
        if len(kept) < len(nodes):
            raise InputError("gates need weights that were saved: train with save_weights=True")
        return [np.asarray(gates[:, i] if self.many else gates[i], float) for gates in kept]

    def _task(self, what: str) -> Task:
        if self.task is None:
            raise InputError(f"{what} needs the task of the trajectory, which is not saved with it")
        return self.task

    def singular_values(self, edge: str) -> np.ndarray:
        """Singular values of a weight matrix over time, largest first.

        This is faster than to record them: compiled loops take singular values one matrix at a time.

        Parameters
        ----------
        edge : str
            Name of an edge whose weights were saved.

        Returns
        -------
        ndarray, shape (save, min(out, in)) or (runs, save, min(out, in))

        Examples
        --------
        >>> import neuralrace as nr
        >>> task = nr.tasks.xor()
        >>> traj = nr.flow(task, nr.init.gaussian(task.graph, 0.1), t1=1.0, save=5)
        >>> traj.singular_values("x->p0h1").shape
        (5, 2)
        """
        known("edge", [edge], self.weights, "saved edge")
        if np.ndim(self.weights[edge]) - self.many != 3:
            raise InputError(f"edge must name a weight matrix; the weights of {edge!r} are a vector")
        return _singular_values(self.weights[edge])

    def time(
        self,
        unit: str = "flow",
        *,
        lr: float | None = None,
        tau: float = 1.0,
        loss: str = "mean",
        n: int | None = None,
    ) -> np.ndarray:
        r"""The time axis in other units.

        Parameters
        ----------
        unit : {"flow", "steps"}
            Time of $\tau \dot W = -\partial L/\partial W$, or the number of steps of descent with learning
            rate `lr`.
        lr : float
            Learning rate, for steps; by default that of the descent.
        tau : float
            Time constant, for flow time.
        loss : {"mean", "sum"}
            The loss that the flow or the descent runs on; the sum needs `n`.
        n : int
            Number of samples.

        Returns
        -------
        ndarray, shape (save,)

        Examples
        --------
        >>> import neuralrace as nr
        >>> task = nr.tasks.xor()
        >>> traj = nr.flow(task, nr.init.gaussian(task.graph, 0.1), t1=1.0, save=3)
        >>> traj.time("steps", lr=0.01)
        array([  0.,  50., 100.])
        """
        choice("unit", unit, ("flow", "steps"))
        choice("loss", loss, ("mean", "sum"))
        if loss == "sum" and n is None:
            raise InputError("n, the number of samples, is needed for loss='sum'")
        tau, n = number("tau", tau, above=0), 1 if n is None else integer("n", n)
        speed = n if loss == "sum" else 1
        if unit == "steps":
            lr = self.settings.get("lr") if lr is None else lr
            if lr is None:
                raise InputError("lr, the learning rate, is needed for unit='steps'")
            return self.t / (number("lr", lr, above=0) * speed)
        return self.t * tau / speed

    def plot(self, over: Trajectory | None = None, edges: Sequence[str] | None = None) -> Figure:
        """A matplotlib figure: the loss, and the singular values of saved weight matrices, over time.

        Several runs are a band from the least to the greatest around their median.

        Parameters
        ----------
        over : Trajectory, optional
            Another trajectory, drawn pale below this one: networks under theory. Of several runs this one
            then shows the median as a line and the range as dotted lines.
        edges : sequence of str, optional
            Whose matrices are drawn, in this order. Otherwise all are, or of many those eight whose singular
            values move most; a title then names the others.

        Returns
        -------
        matplotlib.figure.Figure

        Examples
        --------
        >>> import neuralrace as nr
        >>> task = nr.tasks.hierarchy(3)
        >>> networks = nr.flow(task, nr.init.gaussian(task.graph, 0.01, seed=range(3)), t1=20.0)
        >>> r = nr.reduce(task)
        >>> figure = r.solve(r.strength(0.01), t1=20.0).plot(over=networks)
        >>> [text.get_text() for text in figure.legends[0].get_texts()]
        ['3 networks: median and range', 'theory']
        """
        from neuralrace.dynamics.show import trajectory_figure

        return trajectory_figure(self, over, edges)

    def animate(
        self,
        path: str | Path,
        over: Trajectory | None = None,
        edges: Sequence[str] | None = None,
        seconds: float = 4.0,
    ) -> Path:
        """Write the figure of `plot` as a GIF in which time goes on.

        Parameters
        ----------
        path : str or Path
            Of the file, which must end in ".gif".
        over, edges
            As in `plot`.
        seconds : float
            How long it plays, at most 60; it then starts again.

        Returns
        -------
        Path
            The file.

        Examples
        --------
        >>> import tempfile, neuralrace as nr
        >>> sol = nr.reduce(nr.tasks.xor()).solve(strengths=0.1, t1=20.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sol.animate(f"{folder}/race.gif", seconds=0.2).suffix
        '.gif'
        """
        from neuralrace.dynamics.show import animate

        return animate(self, path, over, edges, seconds)

    def _repr_html_(self) -> str:
        from neuralrace.dynamics.show import trajectory_html

        return trajectory_html(self)

    def to_xarray(self) -> xarray.Dataset:
        """All that is here as an `xarray.Dataset`.

        Axes have shared names: `run`, `t`, nodes of the graph (`weights:x->h1` has axes `h1` and `x`),
        `step`. The coordinates of runs are coordinates; settings, outcomes, stats and versions are
        attributes.

        Examples
        --------
        >>> import neuralrace as nr
        >>> task = nr.tasks.xor()
        >>> traj = nr.flow(task, nr.init.gaussian(task.graph, 0.1), t1=1.0, save=3)
        >>> traj.to_xarray()["weights:x->p0h1"].dims
        ('t', 'p0h1', 'x')
        """
        from neuralrace.dynamics.storage import to_xarray

        return to_xarray(self)

    @classmethod
    def from_xarray(cls, ds: xarray.Dataset) -> Trajectory:
        """The inverse of `to_xarray`.

        Parameters
        ----------
        ds : xarray.Dataset
            As `to_xarray` returned it.
        """
        from neuralrace.dynamics.storage import from_xarray

        return Trajectory(**from_xarray(ds))

    def save(self, path: str | Path) -> None:
        """Write to a zarr folder at `path`, which `xarray.open_zarr` opens too.

        Replaces a trajectory that is there; a folder that holds anything else is refused.

        Parameters
        ----------
        path : str or Path

        Examples
        --------
        >>> import tempfile, neuralrace as nr
        >>> task = nr.tasks.xor()
        >>> traj = nr.flow(task, nr.init.gaussian(task.graph, 0.1), t1=1.0, save=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     traj.save(f"{folder}/run.zarr")
        ...     again = nr.Trajectory.load(f"{folder}/run.zarr")
        >>> bool((again.loss == traj.loss).all())
        True
        """
        from neuralrace.dynamics.storage import save

        save(self.to_xarray(), path)

    @classmethod
    def load(cls, path: str | Path) -> Trajectory:
        """Read a trajectory from a folder that `save` wrote.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        Trajectory

        Examples
        --------
        >>> import tempfile, neuralrace as nr
        >>> task = nr.tasks.xor()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     nr.flow(task, nr.init.gaussian(task.graph, 0.1), t1=1.0).save(f"{folder}/run.zarr")
        ...     print(nr.Trajectory.load(f"{folder}/run.zarr"))
        Trajectory(200 times to t = 1, finished at t = 1)
        """
        from neuralrace.dynamics.storage import load

        return Trajectory(**load(path))


def _singular_values(matrices: np.ndarray) -> np.ndarray:
    """Singular values `(..., k)` of matrices `(..., m, n)`, largest first, each right to 1e-9 of itself.

    Roots of the eigenvalues of the smaller Gram matrix, two to four times faster than an SVD. Their errors
    grow with the square of the condition number: a matrix with one above 1000 gets an SVD.
    """
    size = np.abs(matrices).max(axis=(-1, -2), initial=0.0)
    m = matrices / np.where(size > 0, size, 1.0)[..., None, None]  # squares neither vanish nor overflow
    if m.shape[-1] > m.shape[-2]:
        m = m.swapaxes(-1, -2)
    squares = np.linalg.eigvalsh(m.swapaxes(-1, -2) @ m)[..., ::-1]
    found = np.sqrt(np.maximum(squares, 0.0))
    far = ~(found[..., -1] > 1e-3 * found[..., 0])
    found[far] = np.linalg.svd(m[far], compute_uv=False)
    return found * size[..., None]


def _of_run(value: Any, k: Any, n: int) -> Any:
    """The entry of run k in a statistic that has one value per run."""
    array = np.asarray(value)
    return array[k] if array.ndim and len(array) == n else value


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute results.

    Examples
    --------
    >>> {"python", "neuralrace", "jax"} <= set(versions())
    True
    """
    found = {"python": platform.python_version()}
    for package in ("neuralrace", "jax", "optax", "numpy", "scipy"):
        try:  # a search for files takes a millisecond
            found[package] = getattr(sys.modules.get(package), "__version__", None) or version(package)
        except PackageNotFoundError:
            continue
    return found
