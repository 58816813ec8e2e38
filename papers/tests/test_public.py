"""The library knows nothing of experiments. What they take of it is checked in tests/test_imports.py."""

from pathlib import Path

import neuralrace as nr


def test_the_library_does_not_name_the_experiments():
    library = Path(str(nr.__file__)).parent
    naming = [f.name for f in library.rglob("*.py") if "neuralrace_papers" in f.read_text(encoding="utf-8")]
    assert naming == []
