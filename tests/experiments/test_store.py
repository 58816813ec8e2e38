"""Finished parts on disk."""

import numpy as np
import pytest

from neuralrace.experiments.store import Parts, key_of, stacked
from neuralrace.files import writable, write, write_text


def test_parts_are_stored_and_reused(tmp_path):
    calls = []

    def square(x, power=2):
        calls.append(x)
        return {"y": x**power, "all": np.arange(x)}

    parts = Parts(tmp_path, "key")
    first = parts("one", square, 3)
    again = Parts(tmp_path, "key")
    second = again("one", square, 3)
    assert calls == [3]
    assert (parts.reused, again.reused) == (0, 1)
    assert first.keys() == second.keys() == {"y", "all"}
    assert second["y"] == 9
    assert np.array_equal(first["all"], second["all"])
    assert again.seconds > parts.seconds == 0  # of parts that were computed before
    Parts(tmp_path, "other")("one", square, 3)
    assert calls == [3, 3]
    cubes = parts.each("cube", lambda x, power: {"y": x**power}, (1, 2), 3)
    assert stacked(cubes)["y"].tolist() == [1, 8]
    assert [p.name for p in tmp_path.glob(".*")] == []


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut short"])
def test_a_corrupt_part_is_computed_again(tmp_path, content):
    parts = Parts(tmp_path, "key")
    parts("one", lambda: {"y": 1.0})
    (tmp_path / "one-key.npz").write_bytes(content)
    assert parts("one", lambda: {"y": 2.0})["y"] == 2.0
    assert parts("one", lambda: {"y": 3.0})["y"] == 2.0


def test_a_part_cut_short_is_computed_again(tmp_path):
    parts = Parts(tmp_path, "key")
    parts("one", lambda: {"y": np.arange(100.0)})
    file = tmp_path / "one-key.npz"
    file.write_bytes(file.read_bytes()[:-60])
    assert parts("one", lambda: {"y": 2.0})["y"] == 2.0


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
