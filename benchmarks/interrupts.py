"""Press Ctrl-C at random moments: `python -m benchmarks.interrupts [--times 20] [--seed 0] [--only KIND]`.

Each kind of work is done again and again in a process of its own, which compiles as a first call does, so an
interrupt that is swallowed lets the process go on. As in a terminal, the signal reaches all processes of the
group. Functions must end with KeyboardInterrupt and commands with status 130, within 2 s (`discover`: 5 s) on
a machine that has nothing else to do; on a busy one the seconds of computing tell more.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil

ROOT = Path(__file__).parents[1]
# Python aborts if it is interrupted while C++ modules of SciPy or matplotlib load, so they are loaded before.
LOADED = "import matplotlib.pyplot, scipy.optimize\n"
HEAD = f"import numpy as np, neuralrace as nr\n{LOADED}rng = np.random.default_rng(0)\n"
BEGUN = "\nprint('begun', flush=True)\n"
IMAGES = "x, y = rng.normal(size=(400, 30)), rng.normal(size=(400, 10))\n"
CODES = {
    "flow": (
        IMAGES + "task = nr.Task(nr.Graph.chain([30, 40, 10], activations={'h1': 'tanh'}), x, y)\n"
        "w = nr.init.gaussian(task.graph, 0.1, seed=0)",
        "nr.flow(task, w, t1=3000.0)",
    ),
    "descend": (
        IMAGES + "task = nr.Task(nr.Graph.chain([30, 40, 10], activations={'h1': 'relu'}), x, y)\n"
        "w = nr.init.gaussian(task.graph, 0.1, seed=0)",
        "nr.descend(task, w, lr=0.01, steps=100_000, batch_size=32)",
    ),
    "reduce": (
        "x, y = rng.normal(size=(300, 60)), rng.normal(size=(300, 40))\n"
        "task = nr.Task(nr.Graph.chain([60, 300, 300, 300, 40]), x, y)\n"
        "w = nr.init.gaussian(task.graph, 0.02, seed=0)",
        "nr.reduce(task, weights=w).solve(t1=3000.0)",
    ),
    "discover": (
        "x, y = rng.normal(size=(40, 12)), rng.normal(size=(40, 3))",
        "nr.relu.discover(x, y, [300], steps=4000)",
    ),
    "predict_pathways": (
        "x, y = rng.normal(size=(60, 12)), rng.normal(size=(60, 3))",
        "nr.relu.predict_pathways(x, y, starts=300)",
    ),
    "fixed_points": (
        "task = nr.Task(nr.Graph.chain([10, 12, 10]), rng.normal(size=(40, 10)), rng.normal(size=(40, 10)))\n"
        "w = nr.init.gaussian(task.graph, 0.5, seed=range(20))",
        "nr.landscape.fixed_points(task, w)",
    ),
    "expected_learning_time": (
        "task = nr.tasks.hierarchy()",
        "nr.expected_learning_time(task, 'gaussian', 0.01, 0.5, width=200, draws=2000)",
    ),
}
COMMANDS = {  # and the folder of results
    "neuralrace reduce": "reduce wide.yaml --out",
    "neuralrace sweep": "sweep xor --quick --over hidden=10:40 --seeds 4 --jobs 2 --out",
}
WIDE = """
nodes: {x: 30, h1: 100, h2: 100, y: 10}
edges: [[x, h1], [h1, h2], [h2, y]]
data: wide.npz
inputs: X
targets: Y
start: {std: 0.05, seeds: 5}
"""
LONGEST = {"discover": 5.0}
GIVEN_UP = 60.0  # seconds after which a signal counts as swallowed
FIRST, LAST = 0.1, 8.0  # seconds of work after which the signal is sent
SHORT = {"neuralrace reduce": 3.0}  # which ends by itself


def begun(kind: str, folder: str) -> subprocess.Popen[str]:
    """The process of a kind of work, when it has begun."""
    if kind in COMMANDS:
        rng = np.random.default_rng(0)
        np.savez(Path(folder) / "wide.npz", X=rng.normal(size=(60, 30)), Y=rng.normal(size=(60, 10)))
        (Path(folder) / "wide.yaml").write_text(WIDE)
        words = [*COMMANDS[kind].split(), str(Path(folder) / "results")]
        code = f"{LOADED}import sys\nfrom neuralrace.cli import main{BEGUN}sys.exit(main({words}))"
    else:
        setting, call = CODES[kind]
        code = f"{HEAD}{setting}{BEGUN}while True:\n    {call}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True, cwd=folder,
    )  # fmt: skip
    assert process.stdout is not None
    if process.stdout.readline() != "begun\n":
        raise RuntimeError(process.communicate()[1])
    return process


def pressed(process: subprocess.Popen[str], wait: float, longest: float) -> tuple[float, float, str]:
    """Interrupt a process after so many seconds.

    Seconds until it has ended, of which it was computing so many, and what is wrong (or nothing).
    """
    time.sleep(wait)
    if process.poll() is not None:
        return 0.0, 0.0, f"it had ended by itself: {process.communicate()[1][-300:]}"
    itself = psutil.Process(process.pid)
    others = itself.children(recursive=True)
    spent, began = sum(itself.cpu_times()[:2]) + _of_ended(), time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    try:
        said = process.communicate(timeout=GIVEN_UP)[1]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return time.monotonic() - began, _of_ended() - spent, "swallowed"
    seconds, computing, status = time.monotonic() - began, _of_ended() - spent, process.returncode
    _, there = psutil.wait_procs(others, timeout=5)
    faults = [
        "" if status in (130, -signal.SIGINT) else f"status {status}: {said[-300:]}",
        "" if "interrupt" in said.lower() else f"it said {said[-300:]!r}",
        "" if seconds <= longest else f"{seconds:.1f} s, of computing {computing:.1f} s",
        f"{len(there)} processes stayed" if there else "",
    ]
    return seconds, computing, "; ".join(filter(None, faults))


def _of_ended() -> float:
    """Seconds that processes have computed which this one began and which have ended."""
    times = psutil.Process().cpu_times()
    return times.children_user + times.children_system


def interrupts(kind: str, times: int, rng: random.Random) -> Iterator[tuple[float, float, float, str]]:
    """For each interrupt: when it came, and what `pressed` says."""
    for _ in range(times):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            wait = rng.uniform(FIRST, SHORT.get(kind, LAST))
            yield wait, *pressed(begun(kind, folder), wait, LONGEST.get(kind, 2.0))


def main() -> None:
    """Print how interrupts of each kind ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="interrupts of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[*CODES, *COMMANDS])
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
    failed = 0
    for kind in [given.only] if given.only else [*CODES, *COMMANDS]:
        slowest, longest, wrong = 0.0, 0.0, []
        for wait, seconds, computing, fault in interrupts(kind, given.times, random.Random(given.seed)):
            slowest, longest = max(slowest, seconds), max(longest, computing)
            wrong += [f"  after {wait:.2f} s: {fault}"] if fault else []
        failed += len(wrong)
        ends = f"slowest end {slowest:.2f} s, of computing {longest:.2f} s"
        print(f"{kind}: {given.times} interrupts, {ends}, {len(wrong)} wrong", *wrong, sep="\n", flush=True)
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
