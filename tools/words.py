"""Counts words of the manual: `python tools/words.py`. Ends with 1 where a limit is exceeded.

Words of user pages (all but papers, reference and developers) are limited in sum, and every sentence of every
page by itself. Code and formulas set apart are not counted.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MOST_WORDS = 15_000  # of all user pages together
LONGEST = 40  # words of a sentence
NOT_USERS = ("Papers", "API reference", "Developers")  # sections of the navigation


def pages_of(entry: Any) -> list[str]:
    """Pages of a part of the navigation, in order."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in pages_of(part)]


def navigation() -> list[dict[str, Any]]:
    """Sections of the site."""
    import yaml

    return yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]


def user_pages() -> list[str]:
    """Pages for users that are files in docs/, as paths below it."""
    listed = [
        page for section in navigation() if next(iter(section)) not in NOT_USERS for page in pages_of(section)
    ]
    return [page for page in listed if (ROOT / "docs" / page).exists()]


def plain(text: str) -> str:
    """A page without code, quotations, pictures, addresses and lines of tables that hold no words."""
    text = re.sub(r"```.*?```|<!--.*?-->|“[^”]*”", "\n\n", text, flags=re.S)
    text = re.sub(
        r"(?m)^(?: {4}|\t).*$", "", re.sub(r"(?m)^( *[-*\d.]+ .*\n)((?: {2,}\S.*\n)+)", _joined, text)
    )
    text = re.sub(
        r"!\[[^]]*\]\([^)]*\)|\]\([^)]*\)(\{[^}]*\})?|<[^>\n]+>|^:::.*$|(?m:^\|[-|: ]+\|$)", "", text
    )
    return re.sub(r"`[^`\n]*`", "code", text)


def _joined(match: re.Match[str]) -> str:
    """An item of a list, with its further lines no longer indented: these are text, not code."""
    return match[1] + re.sub(r"(?m)^ +", "", match[2])


def sentences(text: str) -> list[str]:
    """Sentences of a page; cells of tables, items of lists and headings count as such."""
    ends = r"(?<=[.!?])[\")*_]*\s+|\n\s*\n|\n\s*(?:[-*]|\d+\.)\s|\||\n#+ |\n(?=:)"
    return [s.strip() for s in re.split(ends, plain(text)) if re.search(r"\w", s)]


def words(text: str) -> list[str]:
    """Words of a text; signs alone are none."""
    return [word for word in text.split() if re.search(r"\w", word)]


def too_long(text: str) -> list[str]:
    """Sentences with too many words."""
    return [s for s in sentences(text) if len(words(s)) > LONGEST]


def main() -> int:
    docs = ROOT / "docs"
    total = 0
    for page in user_pages():
        n = len(words(plain((docs / page).read_text())))
        total += n
        print(f"{n:6d}  {page}")
    print(f"{total:6d}  in all; {MOST_WORDS} allowed")
    long = 0
    pages = [*sorted(docs.rglob("*.md")), *sorted((docs / "papers").glob("*.md"))]  # a link
    for file in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *pages]:
        for sentence in too_long(file.read_text()):
            long += 1
            print(f"{file.relative_to(ROOT)}: {len(words(sentence))} words: {' '.join(sentence.split())}")
    return int(total > MOST_WORDS or long > 0)


if __name__ == "__main__":
    sys.exit(main())
