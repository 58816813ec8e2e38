"""Finished parts on disk."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import InputError
from neuralrace.files import writable, write, write_text
from neuralrace_papers.framework.store import Store, Taken, along, dataset, key_of


def test_results_are_stored_and_reused(tmp_path):
    calls = []

    def square(x):
        calls.append(x)
        return {"y": x**2, "numbers": ("item", np.arange(x)), "item": ("item", list("abcdef"[:x]))}

    first, again = Store(tmp_path, "key"), Store(tmp_path, "key")
    one, two = first("one", lambda: square(3)), again("one", lambda: square(3))
    assert calls == [3]
    assert (first.reused, again.reused) == (0, 1)
    assert one.identical(two)
    assert two.numbers.sel(item="c") == 2
    assert again.seconds > first.seconds == 0  # of parts that were computed before
    Store(tmp_path, "other")("one", lambda: square(3))
    assert calls == [3, 3]
    assert [p.name for p in tmp_path.glob(".*")] == []


def test_a_part_is_computed_by_one_at_a_time(tmp_path):
    started, calls = Event(), []

    def compute():
        calls.append(1)
        started.set()
        other = Store(tmp_path, "key")
        with pytest.raises(Taken):
            other("one", lambda: pytest.fail("computed twice"), wait=False)
        assert other("two", lambda: {"y": 2.0}, wait=False).y == 2
        time.sleep(0.2)
        return {"y": 1.0}

    with ThreadPoolExecutor() as pool:
        first = pool.submit(Store(tmp_path, "key"), "one", compute)
        started.wait()
        assert Store(tmp_path, "key")("one", compute).y == first.result().y == 1  # the second has waited
    assert calls == [1]
    assert [p.name for p in tmp_path.glob(".*")] == []


def test_a_trajectory_is_stored_as_it_is(tmp_path):
    task = nr.tasks.xor(1)
    run = nr.flow(task, nr.init.gaussian(task.graph, 0.1, seed=range(2)), 1.0, 5)
    Store(tmp_path, "key")("run", run.to_xarray)
    stored = Store(tmp_path, "key")("run", lambda: pytest.fail("computed again"))
    assert stored.identical(run.to_xarray())
    assert np.array_equal(nr.Trajectory.from_xarray(stored).loss, run.loss)


def test_results_have_named_dimensions():
    with pytest.raises(InputError, match="part nets must name the dimensions of 'loss'"):
        dataset("nets", {"loss": [1.0, 2.0]})
    with pytest.raises(InputError, match="part nets must return a Dataset or a dict, got list"):
        dataset("nets", [1.0])


def test_results_of_several_items_have_a_dimension_for_them():
    results = {d: dataset("x", {"t": ("t", [0.0, 1.0]), "y": ("t", [0, d]), "n": d}) for d in (2, 4)}
    both = along(results, "depth")
    assert both.y.dims == ("depth", "t")
    assert both.t.dims == ("t",)
    assert both.n.sel(depth=4) == 4
    results[4]["t"] = "t", [0.0, 2.0]
    with pytest.raises(ValueError, match="t"):
        along(results, "depth")


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut short"])
def test_a_corrupt_part_is_computed_again(tmp_path, content):
    store = Store(tmp_path, "key")
    store("one", lambda: {"y": 1.0})
    (tmp_path / "one-key.npz").write_bytes(content)
    assert store("one", lambda: {"y": 2.0}).y == 2.0
    assert store("one", lambda: {"y": 3.0}).y == 2.0


def test_a_part_cut_short_is_computed_again(tmp_path):
    store = Store(tmp_path, "key")
    store("one", lambda: {"y": ("n", np.arange(100.0))})
    file = tmp_path / "one-key.npz"
    file.write_bytes(file.read_bytes()[:-60])
    assert store("one", lambda: {"y": 2.0}).y == 2.0


def test_key_depends_on_settings_and_code():
    key = key_of({"x": 1, "y": 2}, "code")
    assert key_of({"y": 2, "x": 1}, "code") == key
    assert key_of({"x": 1, "y": 3}, "code") != key
    assert key_of({"x": 1, "y": 2}, "other") != key


def test_a_failed_write_leaves_nothing(tmp_path):
    write_text(tmp_path / "a.txt", "old")

    def fill(file):
        file.write(b"half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write(tmp_path / "a.txt", fill)
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_a_folder_is_tried_without_leaving_one(tmp_path):
    assert writable(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert not (tmp_path / "a").exists()
    (tmp_path / "kept").mkdir()
    writable(tmp_path / "kept")
    assert (tmp_path / "kept").is_dir()
