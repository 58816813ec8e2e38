"""How fast the library is, as ratios to plain code on the same machine in the same run."""

import argparse
import json
import os
import platform
import sys
from datetime import UTC, datetime
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from benchmarks.measure import Row

CASES = {
    "routing-descent": "routing_descent",
    "routing-gradient": "routing_gradient",
    "descent-steps": "descent_steps",
    "compile": "compiling",
    "samples": "samples",
    "moments": "moments",
    "flow": "flow",
    "ladder": "ladder",
    "wide": "wide",
    "relu-training": "relu_training",
    "zoo": "zoo",
    "wide-deep": "wide_deep",
    "starts": "starts",
    "reduction": "reduction",
    "sweep": "sweep_throughput",
    "sweep-memory": "sweep_memory",
    "import": "importing",
    "cost-curves": "cost_curves",
    "peers": "peers",
}
PACKAGES = ("neuralrace", "jax", "jaxlib", "numpy", "scipy", "optimistix", "optax", "torch")
HEAD = (
    "case",
    "what",
    "baseline",
    "base cold",
    "warm",
    "ours cold",
    "warm",
    "ratio",
    "cold",
    "warm",
    "target",
    "met",
)


def environment() -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), None)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": model or platform.processor(),
        "cpus": os.cpu_count(),
        "threads": 1,
        "packages": {p: version(p) for p in PACKAGES},
    }


def version(package: str) -> str | None:
    """None where the package is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def run(case: str, quick: bool) -> list[Row]:
    try:
        return import_module(f"benchmarks.{CASES[case]}").run(quick)
    except (RuntimeError, ImportError) as error:
        return [Row(case, "failed", "", note=str(error).strip())]


def cells(row: Row) -> list[str]:
    def show(values: dict[str, float]) -> list[str]:
        return [f"{values[k]:.3g}" if k in values else "" for k in ("cold", "warm")]

    met = {True: "yes", False: "no", None: "-"}[row.met]
    times = [*show(row.base), *show(row.ours), row.ratio, *show(row.values)]
    return [row.case, row.what, row.baseline, *times, ", ".join(row.targets), met]


def table(rows: list[Row]) -> str:
    lines = [list(HEAD), *map(cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines]
    text[1:1] = ["-" * len(text[0])]
    for row in rows:
        more = [*(f"{k} {v:.3g}" for k, v in row.extra.items()), *([row.note] if row.note else [])]
        text += [f"{row.case} ({row.what}): {', '.join(more)}"] if more else []
    return "\n".join(text)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--out", type=Path, help="file to store; by default benchmarks/results.json for a full run"
    )
    parser.add_argument("--only", action="append", choices=CASES, metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that all of it runs")
    options = parser.parse_args()
    rows: list[Row] = []
    for case in options.only or CASES:
        print(f"{case} ...", file=sys.stderr, flush=True)
        rows += run(case, options.quick)
    print(table(rows))
    full = Path(__file__).with_name("results.json") if not options.quick and not options.only else None
    if out := options.out or full:
        found = {"environment": environment(), "quick": options.quick, "rows": [r.record() for r in rows]}
        out.write_text(json.dumps(found, indent=1) + "\n")
    return int(any(row.what == "failed" or (row.met is False and not options.quick) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
