"""What imports what (tools/imports.py): no circles, nothing private across rooms, no hidden modules."""

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "imports.py"


@pytest.fixture(scope="module")
def imports():
    spec = importlib.util.spec_from_file_location("imports_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_package_keeps_the_rules(imports):
    assert imports.broken_rules() == []


def test_every_rule_can_be_broken(imports, tmp_path):
    package = {
        "p/__init__.py": "from p.a import f",
        "p/a/__init__.py": "from p.a.f import f",
        "p/a/f.py": "from p.b import _secret\ndef f(): from p.a.g import h",
        "p/a/g.py": "from p.a.f import f\nh = f",
        "p/b.py": "_secret = 1\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.c import c",
        "p/c.py": "import p.b\nc = 1",
        "p/d.py": "from p.a import f\nfrom p import e",
        "p/e.py": "import p.d",
    }
    for name, text in package.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert imports.broken_rules(tmp_path) == [
        "modules import each other in a circle: p.a.f, p.a.g",
        "modules import each other in a circle: p.d, p.e",
        "rooms import each other in a circle: p.d, p.e",
        "p.a.f imports _secret from p.b",
        "p.a.f is hidden by f of p.a.f",
    ]
