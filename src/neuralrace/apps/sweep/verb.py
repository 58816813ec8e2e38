"""`sweep`: a function that describes a run, over a grid of its parameters."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    as_completed,
)
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from neuralrace.apps.processes import end_with
from neuralrace.apps.sweep.axes import Grid
from neuralrace.apps.sweep.folder import Folder, folder_path
from neuralrace.apps.sweep.run import Record, Run, compute, failure
from neuralrace.errors import InputError, flag, integer, need_extra, short
from neuralrace.identity import INSTALLED, identity
from neuralrace.interrupts import heard

if TYPE_CHECKING:
    import xarray

_MEMORY = 2**31  # bytes that the runs of a piece may take together
_FEW, _MOST = 32, 256  # runs in a piece: how much an interrupt can lose
_PIECES = 512  # of a large sweep, so that many cores end at about the same time
_MOST_JOBS = 1024  # processes of a sweep: more would have no core of their own
_AHEAD = 2  # pieces that each process has begun or been handed
_LINE = "{desc}: {n_fmt} of {total_fmt} runs, {rate_fmt}, {remaining} left\n"
_OFTEN = 30.0  # seconds between two such lines
_DIED = failure(ChildProcessError("the process of this run ended before the run did"))
_IDLE = 60  # seconds that processes wait for another sweep: it need not start and trace anew
_PATIENCE = 3.0  # seconds in which a scheduler must answer
_WORTH = 15.0  # seconds of work left for which other processes are started: each takes some seconds to begin


@heard()
def sweep(
    function: Callable[..., Run],
    over: Mapping[str, Iterable[Any]],
    seeds: int | Iterable[int] | None = None,
    out: str | Path | None = None,
    *,
    zipped: Iterable[Sequence[str]] = (),
    batch: int | None = None,
    jobs: int | None = None,
    cluster: Any = None,
    retry_failed: bool = False,
    progress: bool = False,
) -> xarray.Dataset:
    """Run a function over a grid of parameters; runs of equal shape are computed together.

    A sweep that was interrupted goes on where it stopped, when it is called again with the same `out`, and
    ends with the same numbers, bit for bit; with another `batch`, the last digits may differ. A run that
    fails is recorded with its message, and does not stop the others.

    Parameters
    ----------
    function : callable
        `function(**parameters, seed=...)` returns `nr.Run(...)`, the description of one run.
    over : dict
        Parameter -> values, each an axis of the grid: a list, a range, or an array such as
        `numpy.geomspace(1e-3, 1, 7)`. A grid has at most 1,000,000 runs.
    seeds : int or list of int, optional
        One more axis, `seed`.
    out : path, optional
        Folder for the result: `data.zarr` (as returned) and `runs.parquet` (a row per run: parameters,
        status, outcome, message, stated error, steps, seconds, versions). A temporary one if not given.
    zipped : list of tuples, optional
        Parameters that change together, as in ``[("depth", "width")]``: one axis, named after the first.
    batch : int, optional
        Runs in a piece of work. By default as many as fit into 2 GiB, 32 to 256.
    jobs : int, optional
        Processes on this machine. By default as many as there are cores, if the work takes more than about
        15 seconds. They stay for a minute, so that another sweep starts sooner.
    cluster : str or dask.distributed.Client, optional
        Address of a Dask scheduler, on whose workers the runs are computed.
    retry_failed : bool
        Compute runs again that failed before.
    progress : bool
        Show a progress bar with rate and time left; where there is no terminal, a line every half minute.

    Returns
    -------
    xarray.Dataset
        Measures with the axes of the grid, `seed` and their own; `status`, `seconds`, `steps` and `error` of
        each run. Measures of failed runs are nan.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.tasks.xor()
    >>> def one_run(std, seed):
    ...     return nr.Run(task, nr.init.gaussian(task.graph, std, seed=seed), t1=40.0)
    >>> ds = nr.sweep(one_run, over={"std": [0.01, 0.1]}, seeds=2)
    >>> ds.half_time.dims, dict(ds.sizes)
    (('std', 'seed'), {'std': 2, 'seed': 2})
    """
    if not callable(function):
        raise InputError(f"function must describe one run by returning nr.Run(...), got {short(function)}")
    grid = Grid.of(over, zipped, seeds)
    _check_parameters(function, grid)
    size = None if batch is None else integer("batch", batch)
    jobs = check_workers(jobs, cluster)
    folder = None if out is None else folder_path(out)
    again, shown = flag("retry_failed", retry_failed), flag("progress", progress)
    work = partial(compute, function)
    definition = {} if folder is None else {"function": source_of(function), "uses": identity(function)}
    size = size or piece_size(function, grid.points[0], len(grid))
    if folder is None:
        with tempfile.TemporaryDirectory() as made:
            return swept(work, definition, grid, Path(made), size, jobs, cluster, False, shown).load()
    return swept(work, definition, grid, folder, size, jobs, cluster, again, shown)


def check_workers(jobs: Any, cluster: Any) -> int | None:
    """`jobs` as an int or None; refused where it or `cluster` is wrong, or a package is missing."""
    need_extra("sweep", "filelock", "loky", "pyarrow", "xarray", "zarr")
    jobs = None if jobs is None else integer("jobs", jobs, most=_MOST_JOBS)
    if cluster is None:
        return jobs
    if jobs is not None:
        raise InputError("jobs must not be given with cluster: its workers do the work")
    if not (isinstance(cluster, str) and cluster) and not callable(getattr(cluster, "get_executor", None)):
        raise InputError(
            f"cluster must be the address of a Dask scheduler or a Client of one, got {short(cluster)}"
        )
    if isinstance(cluster, str):
        need_extra("sweep", "dask", "distributed")
        _reached(cluster)
    return None


def _reached(address: str) -> None:
    """Refuse an address at which no Dask scheduler answers, before anything is made."""
    from distributed.comm.core import connect
    from distributed.security import Security

    async def greeted() -> None:
        comm = await connect(address, timeout=_PATIENCE, **Security().get_connection_args("client"))
        await comm.close()

    try:
        with ThreadPoolExecutor(1) as thread:  # of its own, as in a notebook this one has a loop already
            thread.submit(asyncio.run, greeted()).result()
    except Exception as fault:  # whatever it makes of what another kind of server answers
        raise InputError(
            f"cluster must be the address of a Dask scheduler, got {short(address)}: {fault}"
        ) from None


Work = Callable[[Sequence[Mapping[str, Any]]], list[Record]]


def swept(
    work: Work, definition: Mapping[str, Any], grid: Grid, out: Path, size: int, jobs: int | None,
    cluster: Any, retry_failed: bool, progress: bool,
) -> xarray.Dataset:  # fmt: skip
    """Do what is missing in a folder, `size` points at a time, and gather the result."""
    folder = Folder(out, grid, definition)
    with folder.opened():
        missing = folder.missing(retry_failed)
        with _bar(len(grid), len(grid) - len(missing), progress) as done:
            try:
                for places, records in _results(work, grid.points, missing, size, jobs, cluster):
                    folder.add(places, records)
                    done(len(places))
            except OSError as fault:
                raise OSError(
                    f"{fault}. What is finished is in {out}; the same call goes on from there"
                ) from fault
        return folder.gather()


def _results(
    work: Work, points: Sequence[Mapping[str, Any]], missing: list[int], size: int, jobs: int | None,
    cluster: Any,
) -> Iterator[tuple[list[int], list[Record]]]:  # fmt: skip
    """Places and records, piece by piece as they are finished.

    Without a wish for processes the first pieces are computed here; others are started if much is left.
    """
    pieces = [list(piece) for _, piece in groupby(missing, lambda k: k // size)]  # alike after an interrupt
    if cluster is None and (cores() == 1 or jax.default_backend() != "cpu"):
        jobs = jobs or 1
    if cluster is None and jobs in (None, 1):
        start = time.perf_counter()
        while pieces:
            piece = pieces.pop(0)
            yield piece, work([points[k] for k in piece])
            left = sum(map(len, pieces))
            seconds = (time.perf_counter() - start) / (len(missing) - left) * left
            if jobs is None and seconds > _WORTH:
                break
    jobs = jobs or cores()
    while pieces:
        try:
            with _executor(cluster, jobs) as executor:
                waiting = {executor.submit(work, [points[k] for k in piece]): piece for piece in pieces}
                for future in as_completed(list(waiting)):
                    piece = waiting.pop(future)  # with its records, which would else be held until the end
                    records = _of_worker(future, cluster)
                    pieces.remove(piece)
                    if records is not None:
                        yield piece, records
                    elif len(piece) == 1:
                        yield piece, [_DIED]
                    else:
                        pieces += [[k] for k in piece]
        except (BrokenExecutor, CancelledError) as fault:
            if not _died(fault):
                raise ConnectionError(f"workers were lost ({type(fault).__name__}: {fault})") from fault
            begun = pieces[: _AHEAD * jobs + 1]  # one of them ended its process
            for piece in begun:
                yield from _alone(work, points, piece)
            pieces = pieces[len(begun) :]


def _died(fault: BaseException) -> bool:
    """Whether a process of this machine ended, and did not just fail to read what it was sent."""
    from loky.process_executor import TerminatedWorkerError

    return isinstance(fault, TerminatedWorkerError)


def _of_worker(future: Future[list[Record]], cluster: Any) -> list[Record] | None:
    """The records of a piece; None where it ended every worker of a cluster that tried it."""
    if cluster is None:
        return future.result()
    from dask.distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker:
        return None


def _alone(
    work: Work, points: Sequence[Mapping[str, Any]], piece: list[int]
) -> Iterator[tuple[list[int], list[Record]]]:
    """A piece in a process of its own; if that dies, its runs one by one, and a run that dies has failed."""
    try:
        with _executor(None, 1) as executor:
            records = executor.submit(work, [points[k] for k in piece]).result()
    except BrokenExecutor as fault:
        if not _died(fault):
            raise
        if len(piece) > 1:
            for k in piece:
                yield from _alone(work, points, [k])
            return
        records = [_DIED]
    yield piece, records


def piece_size(function: Callable[..., Run], point: Mapping[str, Any], n: int) -> int:
    """Runs in a piece, from the memory of one of them; the same wherever the sweep goes on."""
    try:
        each = function(**point).bytes
    except Exception:  # recorded when it is computed
        each = _MEMORY
    most = n if jax.default_backend() != "cpu" else max(_FEW, n // _PIECES)
    return max(1, min(n, most, _MOST, _MEMORY // each))


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _executor(cluster: Any, jobs: int) -> Iterator[Executor]:
    """Processes of this machine, or the workers of a Dask cluster."""
    if cluster is None:
        from loky import get_reusable_executor

        executor: Any = get_reusable_executor(
            jobs, timeout=_IDLE, env=_environment(), initializer=end_with, initargs=(os.getpid(),)
        )
        try:
            yield executor
        except BaseException:
            executor.shutdown(kill_workers=True)
            raise
        return
    from dask.distributed import Client

    client = Client(cluster, timeout="10s") if isinstance(cluster, str) else cluster
    try:
        yield client.get_executor(pure=False, retries=3)
    finally:
        if isinstance(cluster, str):
            client.close()


def _environment() -> dict[str, str]:
    """Of the processes: one thread each.

    With a changed file among the modules that are loaded it differs, so that new processes are started.
    """
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    found = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "XLA_FLAGS": flags}
    found["NEURALRACE_SWEEP"] = _own_modules()
    return found


def _own_modules() -> str:
    """Names and times of change of the user's own modules: those that are not installed."""
    files = {str(getattr(module, "__file__", None) or sys.prefix) for module in list(sys.modules.values())}
    own = sorted(file for file in files if not file.startswith(INSTALLED) and Path(file).is_file())
    text = "\n".join(f"{file} {Path(file).stat().st_mtime_ns}" for file in own)
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _bar(total: int, done: int, shown: bool) -> Iterator[Callable[[int], Any]]:
    from tqdm import tqdm

    how: dict[str, Any] = {"total": total, "initial": done, "unit": "run", "desc": "sweep"}
    if not sys.stderr.isatty():  # lines for a log
        how |= {"bar_format": _LINE, "mininterval": _OFTEN, "maxinterval": _OFTEN}
    with tqdm(**how, disable=not shown) as bar:
        yield bar.update


def source_of(function: Callable[..., Any]) -> str:
    """The text of a function, by which a resumed sweep knows it."""
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return getattr(function, "__qualname__", repr(type(function)))


def _check_parameters(function: Callable[..., Any], grid: Grid) -> None:
    names = [n for axis in grid.axes for n in axis.values]
    try:
        inspect.signature(function).bind(**dict.fromkeys(names))
    except TypeError as fault:
        raise InputError(f"over and seeds must name the parameters of the function: {fault}") from None
    except ValueError:  # a function without a signature
        return
