import pytest

import neuralrace_papers


def test_xor(tmp_path):
    report = neuralrace_papers.run("xor", quick=True, out=tmp_path, changes={"seeds": 2, "lr": 0.01})
    assert report.holds, [c for c in report.claims if not c.holds]
    assert all((report.folder / f"{n}.png").is_file() for n, _ in report.figures)
    with pytest.raises(ValueError, match="t1 must be long enough"):
        neuralrace_papers.run("xor", out=tmp_path, changes={"t1": 10.0})
