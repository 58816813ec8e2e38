"""Builds the site of the manual in site/: `python tools/site/make.py [FOLDER]`. Warnings are errors.

The pages lie in docs/, papers/docs and notebooks/. They are gathered in the folder build/site, where pages
of the gallery are made as well, so nothing is written into docs/. `--no-gallery` shows its scripts without
running them.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def gather(pages: Path) -> None:
    """Copies the sources of all pages; those of the gallery stay, and change with their scripts."""
    for old in pages.iterdir() if pages.exists() else ():
        if old.is_dir() and old.name != "gallery":
            shutil.rmtree(old)
        elif old.is_file():
            old.unlink()
    no_pages = shutil.ignore_patterns("_static", "*.py")
    shutil.copytree(ROOT / "docs", pages, dirs_exist_ok=True, ignore=no_pages)
    shutil.copytree(ROOT / "notebooks", pages / "notebooks", ignore=shutil.ignore_patterns(".*"))


def build(to: Path, work: Path, gallery: bool = True) -> int:
    """The exit status of Sphinx."""
    from sphinx.cmd.build import main

    gather(work / "pages")
    os.environ["NEURALRACE_GALLERY"] = str(int(gallery))
    folders = ["-c", str(ROOT / "docs"), "-d", str(work / "doctrees"), str(work / "pages"), str(to)]
    return main(["-q", "-W", "--keep-going", "-D", f"nb_output_folder={work / 'outputs'}", *folders])


if __name__ == "__main__":
    folders = [argument for argument in sys.argv[1:] if argument != "--no-gallery"]
    to = Path(folders[0]) if folders else ROOT / "site"
    sys.exit(build(to, ROOT / "build/site", gallery="--no-gallery" not in sys.argv))
