"""Time functions in fresh single-threaded processes, and compare the times."""

import json
import operator
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
    "JAX_ENABLE_COMPILATION_CACHE": "false",  # or cold would not be cold
}
LAZY = ("optimistix", "optax", "sympy")  # packages that the library imports when it needs them
TESTS = {"<": operator.lt, "<=": operator.le, ">=": operator.ge}


@dataclass
class Row:
    """One comparison, in seconds; `ratio` says what is divided by what."""

    case: str
    what: str
    baseline: str
    ratio: str = "ours / baseline"
    ours: dict[str, float] = field(default_factory=dict)  # cold, warm
    base: dict[str, float] = field(default_factory=dict)
    extra: dict[str, float] = field(default_factory=dict)  # what else was measured
    targets: tuple[str, ...] = ()  # "cold < 2": of ratios cold and warm, or of something in extra
    note: str = ""

    @property
    def values(self) -> dict[str, float]:
        ratios = {k: self.ours[k] / self.base[k] for k in self.ours if k in self.base}
        return {k: v if self.ratio.startswith("ours") else 1 / v for k, v in ratios.items()} | self.extra

    @property
    def met(self) -> bool | None:
        """Whether all targets are met; None where there are none or one could not be measured."""
        found, targets = self.values, [t.rsplit(maxsplit=2) for t in self.targets]
        if not targets or any(name not in found for name, *_ in targets):
            return None
        return all(TESTS[test](found[name], float(bound)) for name, test, bound in targets)

    def record(self) -> dict[str, Any]:
        return asdict(self) | {"values": self.values, "met": self.met}


def seconds(run: Callable[[], Any], clock: Callable[[], float] = perf_counter) -> float:
    start = clock()
    run()
    return clock() - start


def race(runs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Best time of each, taken in turns so that a busy moment of the machine meets them all."""
    rounds = [{name: seconds(run) for name, run in runs.items()} for _ in range(repeats)]
    return {name: min(r[name] for r in rounds) for name in runs}


def duel(ours: Callable[[], Any], prepare: Callable[[], Callable[[], Any]], repeats: int) -> dict[str, Any]:
    """Cold and warm times of ours, its peak memory, and then the times of what `prepare` gives."""
    first = seconds(ours)
    kept: list[Any] = [None]
    for _ in range(2):  # as in a loop, where the last result lives until the next one is there
        kept[0] = ours()
    peak = peak_gib()
    kept.clear()
    baseline = prepare()
    cold = {"ours": first, "base": seconds(baseline)}
    warm = race({"ours": ours, "base": baseline}, repeats)
    return {k: {"cold": cold[k], "warm": warm[k]} for k in cold} | {"extra": {"GiB": peak}}


def peak_gib() -> float:
    """Peak memory of this process; ru_maxrss alone would count the parent's up to the fork."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**30 if sys.platform == "darwin" else 2**20)


def fresh(
    function: Callable[..., Any],
    *args: Any,
    packages: tuple[str, ...] = LAZY,
    environment: dict[str, str] | None = None,
) -> Any:
    """`function(*args)` in a new process with one thread on one core; all of it must pass through JSON.

    `packages` are imported before: else the first run that needs them imports them.
    """
    module = function.__module__
    if module == "__main__":  # of `python -m`
        module = sys.modules[module].__spec__.name
    call = json.dumps([module, function.__name__, args, packages])
    command = [sys.executable, "-c", "from benchmarks.measure import child; child()", call]
    variables = os.environ | ONE_THREAD | (environment or {})
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        raise RuntimeError((done.stderr.splitlines() or [f"exit status {done.returncode}"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def child() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    module, name, args, packages = json.loads(sys.argv[1])
    for package in packages:
        import_module(package)
    print(json.dumps(getattr(import_module(module), name)(*args)))
