"""Results that older versions wrote can be read."""

import json
from pathlib import Path

import pytest

from neuralrace.errors import InputError
from neuralrace_papers import Report

STORED = Path(__file__).parent / "stored"


def test_a_result():
    report = Report.load(STORED / "result-2")
    assert report.name == "xor"
    assert report.rows


@pytest.mark.parametrize("version", [1, 3])
def test_a_result_of_another_format_is_refused(tmp_path, version):
    stored = json.loads((STORED / "result-2" / "result.json").read_text())
    (tmp_path / "result.json").write_text(json.dumps(stored | {"format": version}))
    with pytest.raises(InputError, match=f"format {version}"):
        Report.load(tmp_path)
