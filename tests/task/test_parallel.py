"""Moments from dask arrays and Parquet files equal those of all samples at once."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest

import neuralrace as nr
from neuralrace.errors import InputError

GRAPH = nr.Graph({"x": 3, "a": 4, "b": 4, "y": 2}, [("x", "a"), ("x", "b"), ("a", "y"), ("b", "y")])


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    x, y, gate = rng.normal(size=(103, 3)), rng.normal(size=(103, 2)), rng.integers(0, 2, 103).astype(float)
    return x, y, gate


@pytest.fixture(scope="module")
def whole(samples):
    x, y, gate = samples
    return nr.Task(GRAPH, x, y, gates={"a": gate, "b": 1 - gate})


def same(task, whole):
    w = nr.init.gaussian(GRAPH, 0.5)
    assert task.n_contexts == whole.n_contexts
    assert nr.loss(task, w) == pytest.approx(nr.loss(whole, w), rel=1e-12)
    for path in GRAPH.paths():
        np.testing.assert_allclose(task.syx(path), whole.syx(path), atol=1e-12)


def test_dask_arrays(samples, whole):
    x, y, gate = samples
    gates = {"a": da.from_array(gate, chunks=20), "b": da.from_array(1 - gate, chunks=50)}
    same(
        nr.Task.from_batches(GRAPH, (da.from_array(x, chunks=(7, 2)), da.from_array(y, chunks=30), gates)),
        whole,
    )


def test_parquet_folder(samples, whole, tmp_path):
    x, y, gate = samples
    table = pd.DataFrame(np.hstack([x, y]), columns=["x_0", "x_1", "x_2", "y_0", "y_1"])
    table = table.assign(gate_a=gate, gate_b=1 - gate)
    for k in range(3):
        table[k::3].to_parquet(tmp_path / f"{k}.parquet", row_group_size=10)
    same(nr.Task.from_batches(GRAPH, tmp_path), whole)
    table.drop(columns="x_1").to_parquet(tmp_path / "0.parquet")
    with pytest.raises(InputError, match="x_1"):
        nr.Task.from_batches(GRAPH, tmp_path)


def test_parquet_columns(samples, tmp_path):
    """Samples may have weights. Columns that nothing reads are refused, and so are text and broken files."""
    x, y, _ = samples
    table = pd.DataFrame({f"x_{k}": v for k, v in enumerate(x.T)} | {f"y_{k}": v for k, v in enumerate(y.T)})
    weight = np.linspace(1, 2, len(x))
    table.assign(sample_weight=weight).to_parquet(tmp_path / "a.parquet")
    same(nr.Task.from_batches(GRAPH, tmp_path), nr.Task(GRAPH, x, y, sample_weight=weight))
    for more, said in (({"x_99": 1.0}, "x_99"), ({"gate_a": "open"}, "gate_a")):
        table.assign(**more).to_parquet(tmp_path / "b.parquet")
        with pytest.raises(InputError, match=f"(?s)b.parquet.*{said}|{said}.*b.parquet"):
            nr.Task.from_batches(GRAPH, tmp_path)
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:100])
    with pytest.raises(InputError, match=r"b\.parquet cannot be read"):
        nr.Task.from_batches(GRAPH, tmp_path)
    rectified = nr.Graph({"x": 2, "h": 3, "y": 1}, [("x", "h"), ("h", "y")], activations={"h": "relu"})
    with pytest.raises(InputError, match="must be linear"):
        nr.Task.from_batches(rectified, [])


def test_wrong_input(samples, tmp_path):
    x, y, _ = samples
    with pytest.raises(InputError, match="throughout"):
        nr.Task.from_batches(GRAPH, (da.from_array(x), y))
    with pytest.raises(InputError, match="equally many rows"):
        nr.Task.from_batches(GRAPH, (da.from_array(x), da.from_array(y[:-1])))
    with pytest.raises(InputError, match="Parquet"):
        nr.Task.from_batches(GRAPH, tmp_path)
