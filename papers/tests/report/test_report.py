"""The page with figures and claims of all finished runs."""

import re
import urllib.parse
from html import unescape
from html.parser import HTMLParser

import pandas as pd
import pytest

import neuralrace_papers as experiments
from neuralrace.errors import InputError
from neuralrace.files import write_text
from neuralrace_papers import report
from neuralrace_papers.framework.claim import finding, paper
from neuralrace_papers.framework.papers import REFERENCES
from neuralrace_papers.report import counts, render

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


def test_page(toy, out):
    run = experiments.run("toy", True, out, {"wrong": True})
    text = report.write_report(out).read_text()
    page = Page(text)
    assert not re.search(r"<link|@import|url\((?!%23)|<script src", text)  # needs no other file, no network
    assert all(to.startswith("data:image/svg+xml,<") for to in page.attributes("img", "src"))
    anchors = set(
        page.attributes("section", "id") + page.attributes("tr", "id") + page.attributes("header", "id")
    )
    for to in page.attributes("a", "href"):
        assert to[1:] in anchors if to.startswith("#") else (out / to).is_file(), to
    assert "toy-quick-wrong=true/never" in anchors
    files = [to.rpartition(".")[2] for to in page.attributes("a", "href") if to.startswith("toy")]
    assert files == ["svg", "svg", "pdf", "png", "csv"]
    assert "neuralrace run toy --quick --set wrong=true" in text
    assert (
        text.index("<nav")
        < text.index("<table")
        < text.index("<figure>")
        < text.index("Sentences of the paper")
    )
    assert "1 run in quick form of experiments" in text
    rows = re.findall(r'<tr class="(\w+)" id="[^"]*">(.*)</tr>', text)
    assert [verdict for verdict, _ in rows] == ["holds", "fails", "undecided", "fails"]
    assert [re.findall(r"<code>(.*?)</code>", row)[0] for _, row in rows] == [
        "mean", "never", "spread", "nothing",
    ]  # fmt: skip
    assert ["reproduced" in rows[0][1], "refuted" in rows[1][1], "✗ fails" in rows[3][1]] == [True] * 3
    assert "needs the full form" in rows[2][1]
    assert "the &lt;toy&gt; is positive" in rows[1][1]
    for escaped in (
        "mean &lt;value&gt;",
        "every value &lt; -1",
        "A toy &amp; its title",
        "1 &lt; 2",
        "Values of &lt;all&gt;",
    ):
        assert escaped in text
    assert "<all>" not in text
    assert "<value>" not in text
    (drawn,) = page.attributes("img", "src")
    svg = urllib.parse.unquote(unescape(drawn)).removeprefix("data:image/svg+xml,")
    assert svg.count("<path") == (run.folder / "values.svg").read_text().count("<path")


def test_the_summary_counts_sentences(toy, out):
    full = experiments.run("toy", out=out, changes={"wrong": True})
    quick = experiments.run("toy", True, out)
    assert "(1 in quick form)" in render.page([full, quick])
    text = render.page([full, quick])
    cells = re.search(r'<th scope="row">.*?</tr>', text)
    assert cells is not None
    assert re.findall(r"<td>(.*?)</td>", cells[0]) == [
        "1",
        "1",
        "0",
        "1 / 0",
        "0 / 1",
    ]  # of the full run alone
    refuted = re.search(r"<h2>Refuted sentences</h2>.*?</ul>", text, re.S)
    assert refuted is not None
    assert "<q>It is negative.</q>" in refuted[0]
    assert "the &lt;toy&gt; is positive" in refuted[0]
    assert 'href="#toy-wrong=true/never">toy/never</a>' in refuted[0]
    assert "Refuted sentences" not in render.page([quick])


def test_verdicts_of_sentences():
    grows, falls = paper("a", "It grows."), paper("a", "It falls.")
    claims = [grows.above(n, n, 1, v) for n, v in (("a", 2.0), ("b", 0.0))]
    claims += [falls.below("c", "c", 1, 0.0), finding("a").above("d", "d", 1, 0.0)]

    class Run:
        name = "toy"

    Run.claims = claims  # pyright: ignore
    first, second = counts.sentences([Run()])  # pyright: ignore
    assert (first.quote, first.verdict, len(first.failing)) == ("It grows.", "fails", 1)
    assert (second.quote, second.verdict) == ("It falls.", "holds")


def test_the_reason_of_a_refuted_sentence_is_its_first_sentence_whole(toy, out):
    run = experiments.run("toy", True, out)
    note = "Only a part grows: Eq. 15 from all of it is early. By depth: 1, 2."
    claim = paper("neural_race Fig. 4", "It grows.").above("a", "a", 1, 0.0, note)
    text = render._refuted(counts.Sentence("It grows.", ((run, claim),)))
    assert "<br>Only a part grows: Eq. 15 from all of it is early. <span" in text


def test_short_names_of_papers_are_references():
    text = render._cite("neural_race Eq. 3, <talk>")
    assert text.startswith('<a href="#neural_race" title="Andrew M. Saxe, Shagun Sodhani, Sam Lewallen. The')
    assert text.endswith(">Saxe, talk</a>&gt;")
    assert set(REFERENCES) == set(experiments.PAPERS)


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
