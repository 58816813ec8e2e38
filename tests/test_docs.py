"""Every Python example in the documentation runs as written."""

from importlib.util import find_spec
from pathlib import Path

import pytest

DOCS = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))


@pytest.mark.parametrize("page", DOCS, ids=lambda p: p.name)
def test_examples_run(page):
    for example in page.read_text().split("```python\n")[1:]:
        if "import torch" in example and find_spec("torch") is None:
            continue
        exec(compile(example.split("```")[0], page.name, "exec"), {})
