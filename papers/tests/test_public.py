"""What experiments use of the library: public names alone. And what the library knows of them: nothing."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

import neuralrace as nr

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "papers" / "src").rglob("*.py"))
# The pages of the reference, where a class brings its methods; and what commands share that start processes.
MODULES = (
    "neuralrace",
    "neuralrace.processes",
    *(f"neuralrace.{p.stem}" for p in (ROOT / "docs" / "api").glob("*.md")),
)


def private(source: str) -> list[str]:
    """Names that a module takes from the library, and that are on no page of the reference."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.startswith("neuralrace.")]
        elif isinstance(node, ast.ImportFrom) and re.match(r"neuralrace(\.|$)", node.module or ""):
            found += [f"{node.module}.{a.name}" for a in node.names if not public(node.module, a.name)]
    return found


def public(module: str | None, name: str) -> bool:
    """Whether `from module import name` takes a name of the reference."""
    if module not in MODULES:
        return False
    names = getattr(import_module(module), "__all__", None)
    return name in names if names is not None else not name.startswith("_")


@pytest.mark.parametrize("file", SOURCES, ids=lambda f: str(f.relative_to(ROOT / "papers" / "src")))
def test_experiments_use_public_names_only(file):
    assert private(file.read_text(encoding="utf-8")) == []


def test_private_names_are_seen():
    taken = "from neuralrace.subspace import shrink\nfrom neuralrace import flow, lowrank"
    assert sorted(private(taken)) == ["neuralrace.lowrank", "neuralrace.subspace.shrink"]
    assert private("import neuralrace.files") == ["neuralrace.files"]
    assert private("import neuralrace as nr\nfrom neuralrace.measure import crossing") == []


def test_the_library_does_not_name_the_experiments():
    library = Path(str(nr.__file__)).parent
    naming = [f.name for f in library.rglob("*.py") if "neuralrace_papers" in f.read_text(encoding="utf-8")]
    assert naming == []
