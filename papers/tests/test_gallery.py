"""The gallery (papers/tools/gallery.py): a figure of every experiment."""

import importlib.util
from pathlib import Path

import neuralrace_papers

TOOL = Path(__file__).parents[1] / "tools" / "gallery.py"


def test_the_gallery_shows_every_experiment_and_is_up_to_date():
    spec = importlib.util.spec_from_file_location("gallery_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    gallery = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gallery)
    text = gallery.PAGE.read_text(encoding="utf-8")
    for name in neuralrace_papers.names():
        assert f"neuralrace run {name} --quick" in text
        assert (gallery.PICTURES / f"{name}.png").exists()
    assert set(gallery.SHOWN) == set(neuralrace_papers.names())
    assert sum(file.stat().st_size for file in gallery.PICTURES.iterdir()) < 1.5e6
    assert text == gallery.page(), "run python tools/gallery.py"
