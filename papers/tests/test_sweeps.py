"""Sweeps of experiments: `neuralrace sweep NAME`."""

import pytest
import xarray as xr

import neuralrace_papers
from neuralrace import cli


def test_sweep_of_an_experiment(tmp_path, capsys):
    out = tmp_path / "a"
    axis = ["--over", "hidden=8,12", "--seeds", "2", "--quick", "--out", str(out)]
    status = cli.main(["sweep", "linear-background", *axis, "--jobs", "1", "--measure", "no-such"])
    assert status == 2
    said = capsys.readouterr().err
    measures = said.partition("one of ")[2].partition(";")[0].split(", ")
    status = cli.main(["sweep", "linear-background", *axis, "--jobs", "1", "--measure", measures[0]])
    assert status == 0
    assert (out / f"{measures[0]}.svg").is_file()
    ds = xr.open_zarr(out / "data.zarr", chunks=None)
    report = neuralrace_papers.run("linear-background", True, tmp_path / "b", {"hidden": 12, "seeds": 2})
    for id, row in report.rows.items():
        here = float(ds[id].sel(hidden=12))
        assert here == pytest.approx(row.value, rel=1e-6, abs=1e-7, nan_ok=True)  # some are errors
    for wrong in (["--over", "nothing=1:2"], ["--over", "hidden=8", "--against", "nothing"]):
        assert cli.main(["sweep", "linear-background", *wrong, "--out", str(tmp_path / "c")]) == 2
        assert "nothing" in capsys.readouterr().err
    assert cli.main(["sweep", "linear-background", "--over", "hidden=8", "--out", ""]) == 2
    assert "out must be the name of a folder" in capsys.readouterr().err
