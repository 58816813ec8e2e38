"""Ledgers, stored rows and tests fit together, and pages made from them are not stale."""

import importlib.util
import re
from pathlib import Path

import pytest

import neuralrace_papers
from neuralrace_papers.framework.results import kept, ledgers, stored

TOOL = Path(__file__).parents[1] / "tools" / "pages.py"


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("pages_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_ledgers_rows_and_tests_fit_together(pages):
    assert list(pages.problems()) == []


def test_pages_are_not_stale(pages):
    for name, text in pages.pages().items():
        assert (pages.DOCS / name).read_text(encoding="utf-8") == text, "run papers/tools/pages.py"


def test_every_document_has_a_ledger_and_a_page(pages):
    assert list(ledgers()) == list(neuralrace_papers.PAPERS)
    for ledger in ledgers().values():
        assert (pages.DOCS / f"{ledger.name}.md").is_file()
        assert re.search(r"<https?://", ledger.reference) or ledger.name == "talk"


def test_every_experiment_has_a_quick_form_stored_and_a_picture():
    assert set(stored("quick") or {}) == set(neuralrace_papers.names())
    made = stored("pictures") or {}
    assert {one["experiment"] for one in made.values()} == set(neuralrace_papers.names())
    assert {p.stem for p in kept("pictures").glob("*.png")} == set(made)
    assert sum(p.stat().st_size for p in kept("pictures").iterdir()) < 8e6
