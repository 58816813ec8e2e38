"""Counts words of the manual: `python tools/words.py`. Ends with 1 where a limit is exceeded.

Words of user pages are limited in sum: the first page and all below Get started and User guide, but for the
theory. So is every sentence of every page, and on the ten pages that people read first to fewer words. Code
is not counted, and a formula in a sentence is one word.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MOST_WORDS = 20_000  # of all user pages together
NOT_COUNTED = ("theory",)
LONGEST = 40  # words of a sentence
FIRST = ("index", "learn", "tour", "race", "guide", "howto", "notebooks", "glossary", "network", "reduction")
LONGEST_FIRST = 30  # words of a sentence of these pages


def listed(page: str) -> list[str]:
    """Pages that the toctrees of a page name, as paths below docs/ without an ending."""
    file = DOCS / f"{page}.md"
    trees = re.findall(r"(?ms)^```{toctree}\n(.*?)^```", file.read_text()) if file.exists() else []
    names = [line.strip() for tree in trees for line in tree.splitlines() if line[:1] not in (":", "")]
    return [os.path.normpath(os.path.join(os.path.dirname(page), name)) for name in names]


def pages_below(page: str) -> list[str]:
    """A page and all pages that it or they list, in the order of the site."""
    return [page, *(below for name in listed(page) for below in pages_below(name))]


def user_pages() -> list[str]:
    """Pages for users that are files in docs/, as paths below it: the first page, Get started, User guide."""
    pages = ["index", *pages_below("learn"), *pages_below("guide")]
    return [f"{page}.md" for page in pages if (DOCS / f"{page}.md").exists() and page not in NOT_COUNTED]


def plain(text: str) -> str:
    """A page without code, quotations, pictures, addresses and lines of tables that hold no words."""
    text = re.sub(r"\A---\n.*?\n---\n|```.*?```|<!--.*?-->|“[^”]*”", "\n\n", text, flags=re.S)
    text = re.sub(r"\$\$.*?\$\$(?: \([\w-]+\))?", "\n\n", text, flags=re.S)
    text = re.sub(r"\{eq\}`[^`]*`|(?<![\\$])\$[^$\n]+\$", "formula", text)
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


def too_long(text: str, most: int = LONGEST) -> list[str]:
    """Sentences with too many words."""
    return [s for s in sentences(text) if len(words(s)) > most]


def long_sentences() -> list[tuple[Path, str]]:
    """Every sentence of the project's pages that is too long, with its file."""
    pages = [*sorted(DOCS.rglob("*.md")), *sorted((DOCS / "papers").glob("*.md"))]  # a link
    first = {DOCS / f"{page}.md" for page in FIRST}
    return [
        (file, sentence)
        for file in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *pages)
        for sentence in too_long(file.read_text(), LONGEST_FIRST if file in first else LONGEST)
    ]


def main() -> int:
    total = 0
    for page in user_pages():
        n = len(words(plain((DOCS / page).read_text())))
        total += n
        print(f"{n:6d}  {page}")
    print(f"{total:6d}  in all; {MOST_WORDS} allowed")
    long = long_sentences()
    for file, sentence in long:
        print(f"{file.relative_to(ROOT)}: {len(words(sentence))} words: {' '.join(sentence.split())}")
    return int(total > MOST_WORDS or bool(long))


if __name__ == "__main__":
    sys.exit(main())
