"""What was stored in each format, and is to load for ever: one file of each kind lies in `tests/stored`."""

import json
import shutil
from pathlib import Path

import numpy as np
import xarray as xr

import neuralrace as nr
from neuralrace.apps.sweep.axes import Grid
from neuralrace.apps.sweep.folder import Folder
from neuralrace.files import check_folder

STORED = Path(__file__).parent / "stored"
OVER = {"std": [0.1, 0.3]}


def one_run(std, seed):
    task = nr.tasks.xor(hidden=2)
    return nr.Run(task, nr.init.gaussian(task.graph, std, seed=seed), t1=1.0, save=3)


def test_a_trajectory():
    traj = nr.Trajectory.load(STORED / "trajectory-1.zarr")
    assert traj.loss.shape == (2, 3)
    assert traj.statuses == (nr.Status.FINISHED,) * 2
    assert traj.outcomes == ("finished at t = 1",) * 2
    assert traj.runs["seed"].tolist() == [0, 1]
    assert traj.weights["x->p0h1"].shape == (2, 3, 2, 2)
    again = nr.flow(nr.tasks.xor(hidden=2), {e: w[:, 0] for e, w in traj.weights.items()}, t1=1.0, save=3)
    np.testing.assert_allclose(again.loss, traj.loss, rtol=1e-7)


def test_a_sweep(tmp_path):
    """Its pieces, which are gathered anew, and its data."""
    shutil.copytree(STORED / "sweep-1", tmp_path / "a")
    check_folder("out", tmp_path / "a" / "data.zarr", "result of a sweep")
    before = xr.open_zarr(tmp_path / "a" / "data.zarr", chunks=None).load()
    definition = json.loads((tmp_path / "a" / "definition.json").read_text())
    folder = Folder(tmp_path / "a", Grid.of(OVER, seeds=2), {})
    folder.definition = definition | {"function": "\n".join(definition["function"])}
    with folder.opened():
        assert folder.missing(False) == []
        after = folder.gather().load()
    xr.testing.assert_equal(before, after)
    assert (after.status == "FINISHED").all()
