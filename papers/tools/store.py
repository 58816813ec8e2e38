#!/usr/bin/env python3
"""Keep what `neuralrace run` found: rows of full forms, verdicts of quick ones, and pictures.

    python papers/tools/store.py FOLDER [NAME ...] [--pictures]

FOLDER holds results of `neuralrace run`. Only runs with the parameters of the full or the quick form are
kept, and of these the experiments NAME alone where some are given. A picture of a quick form never replaces
that of a full one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neuralrace_papers import Report, names
from neuralrace_papers.framework.results import picture_name

PAPERS = Path(__file__).resolve().parents[1]
RESULTS, PICTURES = PAPERS / "results", PAPERS / "docs" / "pictures"
WIDTH, COLOURS = 1200, 160  # pixels and colours of a picture


def keep(report: Report, pictures_alone: bool = False) -> None:
    """Store a run."""
    if pictures_alone:
        pass
    elif report.quick:
        found = {c.path: c.verdict for c in report.claims if c.verdict}
        _update("quick", {report.name: found})
    else:
        told = report.to_dict()
        kept = {k: told[k] for k in ("digest", "parameters", "versions", "seconds", "rows")}
        _write(report.name, {**kept, "figures": dict(report.figures)})
    pictures = _read("pictures")
    for figure, caption in report.figures:
        name = picture_name(report.name, figure)
        if report.quick and pictures.get(name, {}).get("form") == "full":
            continue
        _shrink(report.folder / f"{figure}.png", PICTURES / f"{name}.png")
        made = {"form": "quick" if report.quick else "full", "digest": report.digest, "caption": caption}
        _update("pictures", {name: {"experiment": report.name, **made}})


def _shrink(source: Path, target: Path) -> None:
    """A picture as wide as a page needs it, with few colours."""
    from PIL import Image

    target.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(source) as image:
        size = min(WIDTH, image.width), round(image.height * min(1.0, WIDTH / image.width))
        small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    small.quantize(COLOURS).save(target, optimize=True)


def _read(name: str) -> dict[str, Any]:
    file = RESULTS / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def _update(name: str, more: dict[str, Any]) -> None:
    _write(name, dict(sorted({**_read(name), **more}.items())))


def _write(name: str, found: dict[str, Any]) -> None:
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--pictures", action="store_true", help="keep the pictures alone")
    given = parser.parse_args(arguments)
    for file in sorted(given.folder.glob("*/result.json")):
        report = Report.load(file.parent)
        if report.name in (given.names or names()) and not report.changed:
            keep(report, given.pictures)
            print(f"{report.folder.name} is kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
