"""The page with figures and verdicts of all finished runs."""

import json
import re
import urllib.parse
from html import unescape
from html.parser import HTMLParser

import pandas as pd
import pytest

import neuralrace_papers as experiments
from neuralrace.errors import InputError
from neuralrace.files import write, write_text
from neuralrace_papers import report
from neuralrace_papers.framework import results
from neuralrace_papers.report.render import embedded
from neuralrace_papers.report.tests import source_of

VOID = {"meta", "img", "br", "input"}


class Page(HTMLParser):
    """The elements of a page; refuses tags that are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def attributes(self, tag, name):
        return [attrs[name] for found, attrs in self.found if found == tag and name in attrs]


def test_page(toy, ledger, out):
    run = experiments.run("toy", True, out, {"wrong": True})
    kept = {"value": 2.02, "error": 0.01, "runs": 4}
    write_text(ledger / "toy.json", json.dumps({"rows": {"mean": kept}, "figures": {}}))
    results.stored.cache_clear()
    results.stored_rows.cache_clear()
    text = report.write_report(out).read_text()
    page = Page(text)
    assert not re.search(r"<link|@import|url\((?!%23)|<script src", text)  # needs no other file, no network
    assert all(to.startswith("data:image/svg+xml,<") for to in page.attributes("img", "src"))
    anchors = {attrs["id"] for tag, attrs in page.found if "id" in attrs} | {""}
    for to in page.attributes("a", "href"):
        if not to.startswith("https:"):
            assert to[1:] in anchors if to.startswith("#") else (out / to).is_file(), to
    assert "toy-quick-wrong=true/doubles" in anchors
    assert "neuralrace run toy --quick --set wrong=true" in text
    assert text.index("<nav") < text.index("<table") < text.index("<figure") < text.index("<blockquote")
    assert text.index("<blockquote") < text.index("<h2>Contradictions")
    told = "It doubles &lt;numbers&gt;.", "A toy &amp; its title", "1 &lt; 2", "Values of &lt;all&gt;"
    assert all(escaped in text for escaped in (*told, "the &lt;toy&gt; is positive"))
    assert not re.search("<all>|<numbers>|<toy>", text)
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r'<tr id="[^"]*">(.*)</tr>', text)]
    assert [re.findall(r'<b class="(.*?)">', row[0]) for row in rows] == [["reproduced"], ["contradicted"]]
    assert rows[0][2] == "2.020 ± 0.010 (4 runs)"
    assert rows[0][3].endswith("(2 runs)")
    assert "Spread over seeds" in text
    (drawn,) = page.attributes("img", "src")
    svg = urllib.parse.unquote(unescape(drawn)).removeprefix("data:image/svg+xml,")
    assert svg.count("<path") == (run.folder / "values.svg").read_text().count("<path")


def test_the_summary_counts_stored_verdicts(toy, ledger, out):
    experiments.run("toy", True, out)
    text = report.write_report(out).read_text()
    assert re.findall(r"<th>(.*?)</th>", text)[:2] == ["document", "not decided"]
    write_text(ledger / "toy.json", '{"rows": {"mean": {"value": 2.0, "error": 0.01, "runs": 4}}}')
    results.stored.cache_clear()
    results.stored_rows.cache_clear()
    text = report.write_report(out).read_text()
    cells = re.search(r'<th scope="row">.*?</tr>', text)
    assert re.findall(r"<th>(.*?)</th>", text)[:3] == ["document", "reproduced", "contradicted"]
    assert cells is not None
    assert re.findall(r"<td>(.*?)</td>", cells[0]) == ["1", "1"]
    last = text[text.index("<h2>Contradictions") :]
    assert "<q>It is negative.</q>" in last
    assert "pytest papers/tests/conftest.py::load" in last
    assert "def load(file" in last  # the code of the counterexample


def test_the_stored_figure_stands_large_beside_a_quick_one(toy, ledger, out):
    experiments.run("toy", True, out)
    picture = experiments.run("toy", out=out.with_name("full")).folder / "values.png"
    pictures = ledger.with_name("pictures")
    write(pictures / "toy-values.png", lambda file: file.write(picture.read_bytes()))
    made = {"toy-values": {"experiment": "toy", "form": "full", "digest": "abc123", "caption": "all"}}
    write_text(ledger / "pictures.json", json.dumps(made))
    text = report.write_report(out).read_text()
    page = Page(text)
    first, second = page.attributes("img", "src")
    assert first.startswith("data:image/png;base64,")
    assert second.startswith("data:image/svg+xml,")
    assert page.attributes("figure", "class") == ["wide", "beside"]
    assert "Full form, code abc123" in text


def test_code_of_tests_that_ledgers_name():
    here = "papers/tests/report/test_report.py"
    assert source_of(f"{here}::Page::attributes").startswith("def attributes(self")
    assert source_of(f"{here}::test_page[1]").startswith("def test_page(")
    assert [source_of(f"{here}::none"), source_of("none.py::a"), source_of(here)] == [""] * 3


def test_pictures_are_part_of_the_page():
    assert embedded("<a b='1%'>") == "data:image/svg+xml,<a b='1%25'>"


def test_runs_with_other_parameters_are_shown_apart(toy, other, out):
    for name, changes in (("other", {}), ("toy", {"scale": 3}), ("toy", {})):
        experiments.run(name, True, out, changes)
    experiments.run("toy", out=out)
    text = report.write_report(out).read_text()
    assert re.findall(r'<section class="experiment[^"]*" id="([^"]*)"', text) == [
        "toy",
        "toy-quick",
        "toy-quick-scale=3",
        "other-quick",
    ]
    table = pd.read_csv(out / "claims.csv")
    assert table["run"].unique().tolist() == ["toy", "toy-quick", "toy-quick-scale=3", "other-quick"]
    assert len(table) == 8


def test_unreadable_results_are_left_out(toy, out):
    run = experiments.run("toy", True, out)
    write_text(out / "old" / "result.json", '{"name": "old", "claims": []}')
    text = (run.folder / "result.json").read_text()
    write_text(out / "gone" / "result.json", text)
    assert "Left out, as their results cannot be read: gone, old." in report.write_report(out).read_text()
    (run.folder / "result.json").write_text("{")
    with pytest.raises(InputError, match="out must hold results"):
        report.write_report(out)
