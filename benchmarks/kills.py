"""Kill saves, sweeps, experiments and reports at random moments, go on, and compare with no kill.

    python -m benchmarks.kills [--kills 50] [--seed 0] [--only KIND]

Nothing may be lost: what is there after a kill loads, and what is gone on with equals, bit for bit, what one
process made without a kill. No leftover may stay, and no process for more than five seconds.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import xarray as xr

import neuralrace as nr

SWEEP = (
    "from benchmarks.kills import one_run; print('begun', flush=True)\n"
    "over = {'std': [.01, .02, .04, .08]}\n"
    "nr.sweep(one_run, over, seeds=24, out=sys.argv[1] + '/sweep', batch=4, jobs=%d)"
)
CODES = {
    "save": (
        "t = nr.Trajectory.load(sys.argv[2]); print('begun', flush=True)\n"
        "while True: t.save(sys.argv[1] + '/run'); print('saved', flush=True)"
    ),
    "sweep": SWEEP % 1,
    "sweep by two processes": SWEEP % 2,
    "experiment": (
        "print('begun', flush=True)\n"
        "neuralrace_papers.run('linear-background', True, sys.argv[1], {'hidden': 8})"
    ),
    "report": (
        "from benchmarks.kills import watched; w = watched(); print('begun', flush=True)\n"
        "while True: w.report(sys.argv[1] + '/report'); print('written', flush=True)"
    ),
}


def one_run(std, seed):
    """A run that takes some milliseconds."""
    task = nr.tasks.xor(hidden=3)
    return nr.Run(task, nr.init.gaussian(task.graph, std, seed=seed), t1=60.0, save=50)


def watched():
    """A small network that was watched while it learned."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 3))
    start = {"a": rng.normal(size=(3, 4)), "b": rng.normal(size=(4, 1))}
    watch = nr.watch(lambda w, x: (x @ w["a"] @ w["b"], {"hidden": x @ w["a"]}), x, x[:, :1])
    for k in range(5):
        watch(k, {name: w * (1 + k / 10) for name, w in start.items()})
    return watch


def main() -> None:
    """Print how many kills of each kind lost nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=CODES)
    given = parser.parse_args()
    kinds = list(CODES) if given.only is None else [given.only]
    rng, failed = random.Random(given.seed), 0
    with tempfile.TemporaryDirectory() as top:
        base = Path(top) / "base"
        base.mkdir()
        task = nr.tasks.xor()
        start = nr.init.gaussian(task.graph, 0.1, seed=range(20))
        nr.flow(task, start, t1=20.0, save=50).save(base / "first")
        longest = {kind: _finished(kind, base, base / "first") for kind in ("sweep", "experiment")}
        longest["sweep by two processes"] = longest["sweep"]
        for k in range(given.kills):
            kind = kinds[k % len(kinds)]
            folder = Path(top) / str(k)
            folder.mkdir()
            wait = rng.uniform(0, longest.get(kind, 1.0))
            killer = rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
            process = _begun(kind, folder, base / "first")
            time.sleep(wait)
            begun = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(killer)
            fault = _ended(process) or _stayed(begun) or _compared(kind, folder, base)
            failed += bool(fault)
            print(f"{kind}, {killer.name} after {wait:.2f} s: {fault or 'nothing lost'}", flush=True)
    print(f"{given.kills} kills, {failed} lost something")
    raise SystemExit(bool(failed))


def _begun(kind: str, folder: Path, first: Path) -> subprocess.Popen:
    code = f"import sys, neuralrace as nr, neuralrace_papers\n{CODES[kind]}"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder), str(first)], env=env, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    return process


def _ended(process: subprocess.Popen) -> str:
    """Whether a process goes on for a minute after the signal; it is ended for good."""
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return "it did not end"
    return ""


def _stayed(begun: list[psutil.Process]) -> str:
    """Processes that are still there five seconds after the one that began them."""
    _, there = psutil.wait_procs(begun, timeout=5)
    alive = [p for p in there if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    return f"{len(alive)} processes stay" if alive else ""


def _finished(kind: str, folder: Path, first: Path) -> float:
    """Seconds until a process ends of itself."""
    process, start = _begun(kind, folder, first), time.perf_counter()
    process.communicate()
    assert process.returncode == 0
    return time.perf_counter() - start


def _compared(kind: str, folder: Path, base: Path) -> str:
    """What was lost; nothing where all is as it would be without the kill."""
    first = base / "first"
    if kind == "save":
        old = nr.Trajectory.load(first)
        path = folder / "run"
        if (found := path.exists() or any(folder.iterdir())) and path.exists():
            same = np.array_equal(nr.Trajectory.load(path).loss, old.loss)
            if not same:
                return "what was saved is another"
        old.save(path)
        left = [p.name for p in folder.iterdir() if p.name != "run"]
        return f"left over: {left}" if left and found else ""
    if kind == "report":
        watched().report(folder / "report")
        left = [p.name for p in folder.iterdir() if p.name != "report"]
        return f"left over: {left}" if left else ""
    _finished(kind, folder, first)
    if kind.startswith("sweep"):
        pair = [xr.open_zarr(f / "sweep" / "data.zarr", chunks=None).load() for f in (folder, base)]
        unlike = [n for n in pair[1].variables if n != "seconds" and not pair[0][n].identical(pair[1][n])]
        if unlike:
            return f"the result differs in {unlike}"
        left = [p.name for p in (folder / "sweep").rglob(".*") if p.name.startswith((".gathering", ".runs"))]
    else:
        mine, whole = (sorted(f.glob("linear-background*/claims.csv")) for f in (folder, base))
        if mine[0].read_bytes() != whole[0].read_bytes():
            return "the claims differ"
        left = [p.name for p in folder.glob("linear-background*/parts/.*")]
    return f"left over: {left}" if left else ""


if __name__ == "__main__":
    main()
