"""Every Python example in the documentation runs as written, and every link leads to a file."""

import re
from pathlib import Path

import pytest

DOCS = sorted((Path(__file__).parents[1] / "docs").rglob("*.md"))


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
