"""What imports what (tools/imports.py): no circles, nothing private across rooms, apps on public names."""

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
    assert imports.broken_rules(tmp_path, tmp_path / "none") == [
        "modules import each other in a circle: p.a.f, p.a.g",
        "modules import each other in a circle: p.d, p.e",
        "rooms import each other in a circle: p.d, p.e",
        "p.a.f imports _secret from p.b",
        "p.a.f is hidden by f of p.a.f",
    ]


def test_apps_and_papers_take_public_names_alone_and_nobody_takes_an_app(imports, tmp_path):
    package = {
        "neuralrace/__init__.py": "__version__ = 1\n__all__ = ['flow', 'measure', 'sweep']\n"
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
        "    from neuralrace.apps.sweep import sweep\n    from neuralrace.lowrank.run import flow",
        "neuralrace/measure/__init__.py": "from neuralrace.measure.maps import cosine\n__all__ = ['cosine']",
        "neuralrace/measure/maps.py": "def cosine(): ...\ndef norm(): ...",
        "neuralrace/lowrank/__init__.py": "",
        "neuralrace/lowrank/run.py": "def flow(): ...",
        "neuralrace/errors.py": "import os\ndef check(): ...\ndef _secret(): ...",
        "neuralrace/apps/sweep.py": "import neuralrace as nr\nfrom neuralrace import __version__, measure\n"
        "from neuralrace.errors import check\nfrom neuralrace.apps import figure\n"
        "def sweep(): return nr.flow().any, nr.measure.cosine, measure.cosine",
        "neuralrace/apps/figure.py": "import neuralrace as nr\nfrom neuralrace.measure.maps import norm\n"
        "from neuralrace.errors import os\n"
        "def f(): return nr.measure.maps.norm, nr.lowrank, nr.measure.norm",
        "neuralrace/network.py": "import neuralrace as nr\ndef g(): return nr.sweep",
        "papers/neuralrace_papers/talk.py": "import neuralrace.errors\nfrom neuralrace import lowrank\n"
        "from neuralrace.errors import check",
    }
    for name, text in package.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "papers").rename(papers := tmp_path.parent / f"{tmp_path.name}-papers")
    private = "takes neuralrace.{}, which is not public"
    assert imports.broken_rules(tmp_path, papers) == [
        *(f"neuralrace.apps.figure {private.format(name)}" for name in (
            "measure.maps.norm", "errors.os", "measure.maps.norm", "lowrank", "measure.norm"
        )),
        *(f"neuralrace_papers.talk {private.format(name)}" for name in ("errors", "lowrank")),
        "neuralrace.network imports neuralrace.apps.sweep, which is an app",
    ]  # fmt: skip
