"""Sentences of papers that claims test: each stands once, in the `items.toml` of its paper."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from neuralrace.errors import known
from neuralrace_papers.framework.claim import Statement, paper


def quoted(source: str, item: str) -> Statement:
    """A statement of a paper, with the sentence that stands among the items of that paper.

    Parameters
    ----------
    source : str
        Where it stands: the folder of the paper, and the place in it.
    item : str
        The id in `items.toml`.

    Examples
    --------
    >>> quoted("make_haste_slowly Fig. 7", "a1-last-rows").quote
    'The last two rows identify types of animals and types of plants.'
    """
    texts = _texts(source.split()[0])
    known("item", [item], texts, "item of this paper")
    return paper(source, texts[item])


@cache
def _texts(folder: str) -> dict[str, str]:
    """The text of each item of a paper."""
    file = Path(__file__).parents[1] / folder / "items.toml"
    return {item["id"]: item["text"] for item in tomllib.loads(file.read_text(encoding="utf-8"))["item"]}
