import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import neuralrace as nr

ROOT = Path(__file__).parents[1]


HEAVY = {"dask", "diffrax", "optax", "optimistix", "pandas", "sklearn", "torch", "xarray", "zarr"}


def imported_by(code):
    """Modules that are loaded after running a program."""
    shown = f"{code}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_import_is_light_and_leaves_jax_alone():
    found = imported_by(
        "import jax; before = dict(jax.config.values); import neuralrace; "
        "assert dict(jax.config.values) == before"
    )
    assert not found & (HEAVY | {"matplotlib", "sympy", "scipy.interpolate"})
    rooms = ("apps", "exact", "laboratory", "lowrank", "plot", "reduction", "relu", "tasks")
    assert not found & {f"neuralrace.{room}" for room in rooms}


def test_a_flow_waits_for_nothing_of_scipy():
    code = "import neuralrace as nr; t = nr.tasks.xor(); nr.flow(t, nr.init.gaussian(t.graph, 0.1), t1=1.0)"
    assert not [name for name in imported_by(code) if name.startswith("scipy.")]


def test_the_command_reduce_imports_what_it_needs(tmp_path):
    given = ["reduce", str(ROOT / "examples/networks/contexts.yaml"), "--out", str(tmp_path)]
    found = imported_by(f"from neuralrace.cli import main; assert main({given}) == 0")
    assert not found & (HEAVY | {"neuralrace_papers.framework", "neuralrace.exact", "neuralrace.relu"})


def test_names_that_are_imported_when_first_used():
    code = "; ".join(
        ["import neuralrace as nr; nr.reduction.Solution", *(f"nr.{name}" for name in nr.__all__)]
    )
    assert "neuralrace.apps.sweep" in imported_by(code)
    assert set(nr.__all__) <= set(dir(nr))
    with pytest.raises(AttributeError, match="has no attribute 'flwo'"):
        nr.flwo  # noqa: B018


def test_the_surface_is_the_one_that_is_stored():
    """Every public name and its arguments: what changes here is said in CHANGELOG, and stored anew."""
    shown = subprocess.run(
        [sys.executable, ROOT / "tools" / "surface.py"], capture_output=True, text=True, check=True
    )
    assert shown.stdout == (ROOT / "tests" / "stored" / "surface.txt").read_text()
    for module in ("", *(name for name in nr.__all__ if isinstance(getattr(nr, name), type(nr)))):
        shown = getattr(nr, module) if module else nr
        assert set(dir(shown)) - {"__version__"} == set(shown.__all__)  # what completion offers


def test_readme_example_prints_what_is_shown(capsys):
    text = (ROOT / "README.md").read_text()
    example = text.split("```python\n")[1].split("```")[0]
    shown = text.split("```text\n")[1].split("```")[0]
    assert len([line for line in example.splitlines() if line.strip()]) <= 8
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out == shown


def test_tasks():
    assert nr.tasks.xor().n_contexts == 4
    x, y = nr.tasks.xor(graph=nr.Graph.chain([2, 8, 1], activations={"h1": "relu"})).arrays
    assert np.array_equal(y[:, 0], np.where(x[:, 0] != x[:, 1], 1, -1))
    x, y = nr.tasks.hierarchy(4).arrays
    assert y.shape == (8, 15)
    assert y.sum() == 8 * 4
    task = nr.tasks.routing(7, 4)
    assert task.n_contexts == 28
    assert np.allclose(
        np.linalg.svd(28 * task.syx(("x0->h1", "h1->h2", "h2->y3")))[1] ** 2 * 16, [7, 3, 1, 1]
    )
    assert np.abs(task.syx(("x0->h1", "h1->h2", "h2->y4"))).max() == 0
    for wrong, message in (
        (lambda: nr.tasks.routing(3, 4), "trained must be at most"),
        (lambda: nr.tasks.routing(3, 2, items=3), "power of two"),
        (lambda: nr.tasks.routing(0, 1), "domains"),
        (lambda: nr.tasks.hierarchy(0), "levels"),
        (lambda: nr.tasks.hierarchy(3, branching=1), "branching"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
