"""Results that older versions wrote can be read."""

import json
from pathlib import Path

import pytest

from neuralrace.errors import InputError
from neuralrace_papers import Report

STORED = Path(__file__).parent / "stored"


def test_a_result():
    report = Report.load(STORED / "result-1")
    assert report.name == "linear-background"
    assert report.claims


def test_a_result_of_a_later_format_is_refused(tmp_path):
    stored = json.loads((STORED / "result-1" / "result.json").read_text())
    (tmp_path / "result.json").write_text(json.dumps(stored | {"format": 2}))
    with pytest.raises(InputError, match="format 2"):
        Report.load(tmp_path)
