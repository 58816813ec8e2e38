"""Examples in the documentation run as written, links lead to files, and the site lists every page."""

import re
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import neuralrace as nr

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
START = (
    "README.md",
    "docs/index.md",
    "docs/tour.md",
    "docs/race.md",
    "docs/glossary.md",
    "docs/references.md",
)


@pytest.mark.parametrize("page", DOCS, ids=lambda p: p.name)
def test_examples_run(page):
    names = {}
    for example in page.read_text().split("```python\n")[1:]:
        code = example.split("```")[0]
        if "import neuralrace" in code:  # stands alone; a block without it goes on from the one above
            names = {}
        exec(compile(code, page.name, "exec"), names)


@pytest.mark.parametrize("page", DOCS, ids=lambda p: p.name)
def test_links_lead_to_files(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) + re.findall(r"`docs/(results/[^`]+)`", text)
    missing = [to for to in links if "://" not in to and not (page.parent / to).exists()]
    assert not missing


def test_navigation_lists_every_page_once():
    def pages(entry):
        if isinstance(entry, str):
            return [entry]
        return [
            page for part in (entry.values() if isinstance(entry, dict) else entry) for page in pages(part)
        ]

    listed = pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert sorted(listed) == sorted(str(page.relative_to(ROOT / "docs")) for page in DOCS)
    modules = {name for name in nr.__all__ if isinstance(getattr(nr, name), ModuleType)}
    assert {f"api/{name}.md" for name in modules} < set(listed)


@pytest.mark.parametrize("page", START)
def test_sentences_have_at_most_40_words(page):
    text = re.sub(r"```.*?```|\]\([^)]*\)", "", (ROOT / page).read_text(), flags=re.S)
    sentences = re.split(r"(?<=[.!?:])\s+|\n\s*\n|\n- |\|", text)
    assert not [sentence for sentence in sentences if len(sentence.split()) > 40]
