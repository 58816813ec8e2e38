"""Writes docs/gallery.md: a figure, the claims and the command of every experiment.

python tools/gallery.py                     # the page, from docs/results/claims.csv
python tools/gallery.py --results FOLDER    # pictures too, from a folder that `neuralrace run` wrote
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from neuralrace_papers import PAPERS, experiment
from neuralrace_papers.framework.papers import REFERENCES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "gallery.md"
PICTURES = ROOT / "docs" / "pictures" / "gallery"
CLAIMS = ROOT / "docs" / "results" / "claims.csv"
WIDTH, COLOURS = 800, 48  # pixels and colours of a picture
LONGEST = 30  # words of the sentence that says what an experiment is about
KINDS = {"paper": "Sentences of the paper", "check": "Checks", "finding": "Findings"}
SHOWN = {
    "path-sums": "path-sums", "context-equations": "context-equations",
    "xor": "xor", "contextual": "contextual", "routing": "routing-dynamics", "sharing": "sharing-dynamics",
    "race": "race", "initialisation": "initialisation-error", "images": "share",
    "linear-background": "linear-background-modes", "separability": "separability", "contexts": "loss",
    "context-count": "published", "depth": "losses", "discovery": "discovery-clusters",
    "uniqueness": "uniqueness", "phase-portraits": "phase-portraits",
    "pathway-coordinates": "pathway-coordinates", "pathways": "concentration",
    "pathways-nonlinear": "nonlinear-concentration", "chains": "chains-depth", "worlds": "worlds-tree",
    "balanced": "balanced-regimes", "continual": "continual-forgetting", "saddles": "saddles",
    "decisions": "decisions", "relative-scale": "relative-scale", "two-point": "zoo", "layers": "layers",
    "structure": "matrices", "collapse": "blobs", "two-point-equations": "equations",
}  # fmt: skip
HEAD = """# Gallery

One figure of every experiment, with its claims and the command that makes it. Figures here are of the quick
forms; a click enlarges them. Leave out `--quick` for the full form. [Experiments](experiments.md) has the
numbers of the full forms, and says why claims fail.
"""


def claims() -> dict[str, list[Mapping[str, str]]]:
    """Stored claims of each experiment."""
    found: dict[str, list[Mapping[str, str]]] = {}
    with CLAIMS.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            found.setdefault(row["experiment"], []).append(row)
    return found


def page() -> str:
    """The gallery as Markdown."""
    kept, parts = claims(), [HEAD]
    for paper, names in PAPERS.items():
        parts.append(f"## {REFERENCES[paper].short}\n")
        parts += [_entry(name, kept.get(name, [])) for name in names]
    return "\n".join(parts)


def _entry(name: str, rows: Sequence[Mapping[str, str]]) -> str:
    chosen, picture = experiment(name), f"pictures/gallery/{name}.png"
    about = " ".join((chosen.module.__doc__ or "").split()).split(". ")[0].rstrip(".") + "."
    if len(about.split()) > LONGEST:
        about = re.split("[:;] ", about)[0] + "."
    lines = [
        f"### {name}\n",
        f"**{chosen.title}** ({chosen.source})\n",
        f'[![{chosen.title}]({picture}){{ width="360" }}]({picture})\n',
        f"{about}\n",
        f"    neuralrace run {name} --quick\n",
        _counts(rows),
    ]
    if rows:
        lines += [f'??? note "All {len(rows)} claims, {rows[0]["form"]} form"\n']
        lines += ["    | claim | kind | verdict | measured |", "    |---|---|---|---|"]
        lines += [f"    | `{r['id']}` | {r['kind']} | {r['verdict']} | {r['measured']} |" for r in rows]
        lines.append("")
    return "\n".join(lines)


def _counts(rows: Sequence[Mapping[str, str]]) -> str:
    """How many claims of each kind hold, fail and are undecided."""
    told = []
    for kind, name in KINDS.items():
        found = Counter(row["verdict"] for row in rows if row["kind"] == kind)
        words = [f"{found[v]} {word}" for v, word in _words(found)]
        told += [f"{name}: {', '.join(words)}."] if words else []
    return " ".join(told) + "\n"


def _words(found: Mapping[str, int]) -> list[tuple[str, str]]:
    verdicts = {"holds": ("holds", "hold"), "fails": ("fails", "fail"), "undecided": ("undecided",) * 2}
    return [(v, one if found[v] == 1 else many) for v, (one, many) in verdicts.items() if found[v]]


def draw(folder: Path) -> list[str]:
    """Make the pictures of the experiments in a folder; those that are not there."""
    from PIL import Image

    PICTURES.mkdir(parents=True, exist_ok=True)
    missing = []
    for name, figure in SHOWN.items():
        files = [folder / place / f"{figure}.png" for place in (name, f"{name}-quick")]
        file = next((f for f in files if f.exists()), None)
        if file is None:
            missing.append(name)
            continue
        with Image.open(file) as image:
            size = min(WIDTH, image.width), round(image.height * min(1.0, WIDTH / image.width))
            small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
        small.quantize(COLOURS).save(PICTURES / f"{name}.png", optimize=True)
    return missing


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser("python tools/gallery.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--results", metavar="FOLDER", type=Path, help="take pictures from these results")
    given = parser.parse_args(arguments)
    missing = draw(given.results) if given.results else []
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} written; no figure was found for: {', '.join(missing) or 'none'}")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
