"""Builds the site of the manual: `python tools/site/make.py [FOLDER]`, into site/ by default. Warnings are errors.

The pages lie in docs/, papers/docs and notebooks/. They are gathered in one folder, build/site, where the pages of the
gallery are made as well, so that nothing is written into docs/. `--no-gallery` shows its scripts without running them.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def gather(pages: Path) -> None:
    """Copies the sources of all pages; pages of the gallery stay, which are made anew where a script changed."""
    for old in pages.iterdir() if pages.exists() else ():
        if old.is_dir() and old.name != "gallery":
            shutil.rmtree(old)
        elif old.is_file():
            old.unlink()
    shutil.copytree(ROOT / "docs", pages, dirs_exist_ok=True, ignore=shutil.ignore_patterns("_static", "*.py"))
    shutil.copytree(ROOT / "notebooks", pages / "notebooks", ignore=shutil.ignore_patterns(".*"))


def build(to: Path, work: Path, gallery: bool = True) -> int:
    """The exit status of Sphinx."""
    from sphinx.cmd.build import main

    gather(work / "pages")
    os.environ["NEURALRACE_GALLERY"] = str(int(gallery))
    folders = ["-c", str(ROOT / "docs"), "-d", str(work / "doctrees"), str(work / "pages"), str(to)]
    return main(["-q", "-W", "--keep-going", *folders])


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if argument != "--no-gallery"]
    status = build(Path(given[0]) if given else ROOT / "site", ROOT / "build/site", len(given) + 1 == len(sys.argv))
    sys.exit(status)
