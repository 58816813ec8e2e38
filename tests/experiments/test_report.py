"""The page with claims and figures of all finished runs."""

import base64
import re

import pandas as pd
import pytest

from neuralrace import experiments
from neuralrace.errors import InputError
from neuralrace.experiments import report
from neuralrace.files import write_text


def test_page(toy, out):
    run = experiments.run("toy", True, out, {"wrong": True})
    text = report.write_report(out).read_text()
    assert not re.search(r"https?://|<script|<link|@import|url\(", text)
    assert all(s.startswith("data:image/svg+xml;base64,") for s in re.findall(r'src="([^"]*)"', text))
    assert re.findall(r'href="([^"]*)"', text) == ["#toy-quick-wrong=true"] * 4
    assert 'id="toy-quick-wrong=true"' in text
    assert text.index("<table>") < text.index("never") < text.index("<figure>")
    assert "1 experiments, in their quick form" in text
    assert "statements of papers: 1 hold, 1 fail; checks: 0 hold, 1 fail" in text
    assert "findings: 0 hold, 0 fail, 1 need the full form." in text
    rows = re.findall(r'<tr class="(\w+)-row">(.*)</tr>', text)
    assert [verdict for verdict, _ in rows] == ["holds", "undecided", "fails", "fails"]
    assert "needs the full form" in rows[1][1]
    assert "✗ fails" in rows[2][1]
    assert "the &lt;toy&gt; is positive" in rows[2][1]
    assert [re.findall(r"<td>(\w+)</td>", row)[0] for _, row in rows] == [
        "paper",
        "finding",
        "paper",
        "check",
    ]
    assert [re.findall(r"<code>(.*)</code>", row)[0] for _, row in rows] == [
        "mean", "spread", "never", "nothing",
    ]  # fmt: skip
    for escaped in (
        "mean &lt;value&gt;",
        "&lt; -1",
        "A toy &amp; its title",
        "1 &lt; 2",
        "Values of &lt;all&gt;",
    ):
        assert escaped in text
    assert "<all>" not in text
    assert "<value>" not in text
    image = re.search(r'base64,([^"]*)"', text)
    assert image is not None
    assert base64.b64decode(image[1]) == (run.folder / "values.svg").read_bytes()


def test_page_tells_quick_from_full(toy, out):
    full, quick = experiments.run("toy", out=out), experiments.run("toy", True, out)
    assert "(1 in quick form)" in report.page([full, quick])
    assert "quick" not in report.page([full]).split("<table>")[0].split("</style>")[1]


def test_runs_with_other_parameters_are_shown_apart(toy, other, out):
    for name, changes in (("other", {}), ("toy", {"scale": 3}), ("toy", {})):
        experiments.run(name, True, out, changes)
    experiments.run("toy", out=out)
    text = report.write_report(out).read_text()
    assert re.findall(r'<h2 id="([^"]*)"', text) == ["toy", "toy-quick", "toy-quick-scale=3", "other-quick"]
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
