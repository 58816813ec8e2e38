"""Seconds of two checkouts of this project, in turns: is this one slower?

    python -m benchmarks.compare OTHER [--rounds 5] [--only NAME ...] [--full]

OTHER is a folder with the other checkout. Each case runs in both, by turns; medians over the rounds are
compared for rows of the same name. Cases run side by side, one on each core.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from statistics import median

from benchmarks.__main__ import CASES

Times = dict[tuple[str, str], list[float]]  # row, cold or warm -> seconds


def once(root: Path, case: str, core: int, full: bool) -> dict[tuple[str, str], float]:
    """Seconds of each row of a case, in a checkout."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-m", "benchmarks", "--only", case, "--out", file.name]
        done = subprocess.run(
            command if full else [*command, "--quick"],
            cwd=root,
            env=os.environ | {"PYTHONPATH": str(root / "src")},
            capture_output=True,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )
        text = Path(file.name).read_text()
    if not text:
        print(f"{case} in {root}: {done.stderr.strip()[-500:]}", file=sys.stderr)
    rows = json.loads(text)["rows"] if text else []
    return {(row["what"], kind): t for row in rows for kind, t in row["ours"].items()}


def compared(case: str, roots: list[Path], rounds: int, core: int, full: bool) -> list[str]:
    """A line for each row of a case."""
    times: list[Times] = [{} for _ in roots]
    for _ in range(rounds):
        for root, found in zip(roots, times, strict=True):
            for key, seconds in once(root, case, core, full).items():
                found.setdefault(key, []).append(seconds)
    other, here = ({k: median(v) for k, v in t.items()} for t in times)
    lines = []
    for key in sorted(other.keys() | here.keys()):
        a, b = other.get(key), here.get(key)
        ratio = f"{b / a:.2f}" if a and b else "-"
        shown = ["-" if v is None else f"{v:.4g} s" for v in (a, b)]
        lines.append(f"{case:18}{key[0][:52]:54}{key[1]:6}{shown[0]:>12}{shown[1]:>12}{ratio:>8}")
    return lines or [f"{case:18}no rows"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", choices=CASES)
    parser.add_argument("--full", action="store_true")
    asked = parser.parse_args()
    roots = [asked.other.resolve(), Path(__file__).parents[1].resolve()]
    cores = sorted(os.sched_getaffinity(0))
    with ThreadPoolExecutor(len(cores)) as pool:
        jobs = [
            pool.submit(compared, case, roots, asked.rounds, cores[k % len(cores)], asked.full)
            for k, case in enumerate(asked.only or CASES)
        ]
        print(f"{'case':18}{'row':60}{'other':>12}{'here':>12}{'ratio':>8}")
        for job in as_completed(jobs):
            print("\n".join(job.result()), flush=True)
