"""Builds the site of the manual in build/site/html: `python tools/site/make.py`. Warnings are errors.

The pages lie in docs/, papers/docs and notebooks/. They are gathered in build/site/pages, where pages of
the gallery are made as well, so nothing is written into docs/. `--no-gallery` shows its scripts without
running them, and has no live figures; `--into FOLDER` takes another folder than build/site.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "papers/src")]  # the site is that of this copy of the project


def gather(pages: Path) -> None:
    """Copies the sources of all pages; those of the gallery stay, and change with their scripts."""
    for old in pages.iterdir() if pages.exists() else ():
        if old.is_dir() and old.name != "gallery":
            shutil.rmtree(old)
        elif old.is_file():
            old.unlink()
    no_pages = shutil.ignore_patterns("_static", "*.py", "*.toml")
    shutil.copytree(ROOT / "docs", pages, dirs_exist_ok=True, ignore=no_pages)
    shutil.copytree(ROOT / "notebooks", pages / "notebooks", ignore=shutil.ignore_patterns(".*", "*.toml"))


def save_live_pages(folder: Path, wanted: bool) -> None:
    """Saves the gallery of the lab as pages that need no server."""
    from neuralrace.laboratory import save_pages

    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    if wanted:
        save_pages(str(folder))


def build(work: Path, gallery: bool = True) -> int:
    """Builds the site in `work`/html; the exit status of Sphinx."""
    from sphinx.cmd.build import main

    gather(work / "pages")
    save_live_pages(work / "extra/live", gallery)
    os.environ["NEURALRACE_GALLERY"] = str(int(gallery))
    os.environ["NEURALRACE_EXTRA"] = str(work / "extra")
    settings, doctrees = str(ROOT / "docs"), str(work / "doctrees")
    options = ["-q", "-W", "--keep-going", "-c", settings, "-d", doctrees]
    return main([*options, str(work / "pages"), str(work / "html")])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--no-gallery", action="store_true")
    parser.add_argument("--into", type=Path, default=ROOT / "build/site")
    given = parser.parse_args()
    sys.exit(build(given.into, gallery=not given.no_gallery))
