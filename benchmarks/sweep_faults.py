"""A sweep on a real Dask cluster that loses a worker, its client and its scheduler.

    python -m benchmarks.sweep_faults

A scheduler and three workers on this machine; each fault is followed by a resumed sweep, whose runs must be
there exactly once, with the values of an undisturbed one; those that were finished before the fault are not
computed again. The exit status is 1 where one of these is not so.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import neuralrace as nr

OVER = {"std": [0.05, 0.1, 0.2], "pause": [0.4]}
SEEDS = 12


def described(std: float, pause: float, seed: int) -> nr.Run:
    time.sleep(pause)
    task = nr.tasks.xor()
    return nr.Run(task, nr.init.gaussian(task.graph, std, seed=seed), t1=10.0, save=5)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Cluster:
    """A scheduler and three workers, as processes."""

    def __init__(self) -> None:
        port = free_port()
        self.address = f"tcp://127.0.0.1:{port}"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        dask = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
        self.scheduler = subprocess.Popen(
            [*dask, "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"], **quiet
        )
        dask = [sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--nthreads", "1"]
        self.workers = [subprocess.Popen([*dask, "--no-nanny", "--no-dashboard"], **quiet) for _ in range(3)]

    def stop(self) -> None:
        for process in (*self.workers, self.scheduler):
            if process.poll() is None:
                process.kill()
            process.wait()


def client(address: str, out: Path) -> subprocess.Popen[Any]:
    call = f"from benchmarks import sweep_faults as f; f.sweep({address!r}, {str(out)!r})"
    return subprocess.Popen([sys.executable, "-c", call], env=os.environ, stderr=subprocess.PIPE, text=True)


def sweep(address: str | None, out: str) -> Any:
    return nr.sweep(
        described, OVER, seeds=SEEDS, out=out, batch=1, cluster=address, jobs=None if address else 1
    )


def pieces(out: Path) -> dict[str, int]:
    """Finished pieces, and when each was written."""
    return {f.name: f.stat().st_mtime_ns for f in (out / "pieces").glob("*.npz")}


def wait_for(out: Path, n: int) -> None:
    deadline = time.monotonic() + 120
    while len(pieces(out)) < n:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(pieces(out))} pieces after two minutes")
        time.sleep(0.1)


def check(name: str, out: Path, truth: Any, finished: dict[str, int]) -> bool:
    """Whether all is well after a fault, before which these pieces were finished."""
    table = pd.read_parquet(out / "runs.parquet")
    once = len(table) == SEEDS * 3 and not table.duplicated(["std", "seed"]).any()
    places = np.concatenate([np.load(f)["places"] for f in (out / "pieces").glob("*.npz")])
    once &= sorted(places.tolist()) == list(range(SEEDS * 3))
    import xarray as xr

    gap = float(np.abs(xr.open_zarr(out / "data.zarr", chunks=None).final_loss.values - truth).max())
    now = pieces(out)
    again = sum(now.get(piece) != written for piece, written in finished.items())
    print(
        f"{name:20} every run once: {once}; largest difference {gap:.1e}; computed again: {again} of "
        f"{len(finished)} finished pieces",
        flush=True,
    )
    return once and gap < 1e-9 and not again


def main() -> int:
    well = []
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        truth = sweep(None, str(base / "alone")).final_loss.values
        cluster = Cluster()
        out = base / "worker"
        running = client(cluster.address, out)
        wait_for(out, 5)
        finished = pieces(out)
        cluster.workers[0].send_signal(signal.SIGKILL)
        print("client ends with", running.wait())
        well.append(check("killed worker", out, truth, finished))
        out = base / "client"
        running = client(cluster.address, out)
        wait_for(out, 5)
        running.kill()
        running.wait()
        finished = pieces(out)
        print("client killed with", len(finished), "of", SEEDS * 3, "finished;", end=" ")
        sweep(cluster.address, str(out))
        well.append(check("killed client", out, truth, finished))
        out = base / "scheduler"
        running = client(cluster.address, out)
        wait_for(out, 5)
        cluster.scheduler.kill()
        _, said = running.communicate(timeout=120)
        print("client says:", said.strip().splitlines()[-1] if said.strip() else "nothing")
        finished = pieces(out)
        cluster.stop()
        cluster = Cluster()
        sweep(cluster.address, str(out))
        well.append(check("killed scheduler", out, truth, finished))
        cluster.stop()
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
