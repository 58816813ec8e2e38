"""`import neuralrace` in a fresh process, without the start of Python itself."""

import subprocess
import sys

from benchmarks.measure import Row, fresh

CODE = "from time import perf_counter as t; s = t(); import {}; print(t() - s)"


def once(name: str) -> float:
    return float(subprocess.check_output([sys.executable, "-c", CODE.format(name)]))


def measure(names: list[str], repeats: int) -> list[float]:
    return [min(times) for times in zip(*([once(n) for n in names] for _ in range(repeats)), strict=True)]


def run(quick: bool) -> list[Row]:
    ours, base = fresh(measure, ["neuralrace", "jax"], 1 if quick else 5)
    targets, times = ("seconds < 1.5",), {"ours": {"cold": ours}, "base": {"cold": base}}
    return [
        Row("import", "import neuralrace", "import jax", targets=targets, extra={"seconds": ours}, **times)
    ]
