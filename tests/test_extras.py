"""What a plain `pip install` gives, and what is said where an extra is missing."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Runs where no package of an extra can be imported.
WITHOUT_EXTRAS = """
import json, sys
sys.modules |= dict.fromkeys({missing!r})
import numpy as np
import neuralrace as nr
from neuralrace import cli
from neuralrace.errors import MissingPackageError

task = nr.tasks.xor(hidden=4)
run = nr.flow(task, nr.init.gaussian(task.graph, 0.1, seed=0), t1=1.0)
s = nr.reduce(task).to_jax()

def said(call):
    try:
        return f"no error: {{call()}}"
    except MissingPackageError as error:
        return str(error)
{code}
"""


def names(requirements):
    """Distributions, and extras of this one, in a list of requirements."""
    own = [re.match(r"neuralrace\[(.*)\]", r) for r in requirements]
    extras = {extra for found in own if found for extra in found[1].split(",")}
    return {
        re.match(r"[\w-]+", r)[0].lower() for r, found in zip(requirements, own, strict=True) if not found
    }, extras


def brought(extra):
    """Distributions that an extra brings."""
    plain, extras = names(PROJECT["optional-dependencies"][extra])
    return plain.union(*map(brought, extras))


def without_extras(code):
    """What a program prints as JSON at its end, in a process that has the core alone."""
    homes = packages_distributions()
    extra = brought("all") | brought("torch")
    missing = [module for module, owners in homes.items() if extra & {o.lower() for o in owners}]
    assert {"matplotlib", "xarray", "sklearn", "torch", "fastapi", "dask"} <= set(missing)
    program = WITHOUT_EXTRAS.format(missing=missing, code=code)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_the_core_alone_does_what_the_front_page_shows(tmp_path):
    text = (ROOT / "README.md").read_text()
    example = text.split("```python\n")[1].split("```")[0]
    file = ROOT / "examples" / "networks" / "xor.yaml"
    code = f"{example}\nassert cli.main(['reduce', {str(file)!r}, '--out', {str(tmp_path)!r}]) == 0\n"
    out, err = without_extras(code + "assert '<table' in run._repr_html_()\n")
    assert out.startswith(text.split("```text\n")[1].split("```")[0])
    assert "tau dB1/dt = B1*(S - B1^2*D)/4" in out
    assert (
        err == "neuralrace: no figure: matplotlib (of the extra 'plot') is needed: pip install matplotlib\n"
    )
    written = {f.name for f in (tmp_path / "reduce" / "xor").iterdir()}
    assert written == {"equations.tex", "curves.csv", "source.txt"}


def test_what_needs_an_extra_says_so_in_a_sentence():
    calls = {
        "run.plot()": ("matplotlib", "plot"),
        "nr.plot.shades(3)": ("matplotlib", "plot"),
        "run.to_xarray()": ("xarray", "data"),
        "run.save('nowhere')": ("xarray", "data"),
        "nr.Trajectory.load('nowhere')": ("xarray, zarr", "data"),
        "nr.Trajectory.from_xarray(None)": ("xarray", "data"),
        "nr.events(run, task).to_pandas()": ("pandas", "data"),
        "nr.tasks.digits()": ("scikit-learn", "sklearn"),
        "nr.tasks.mnist()": ("scikit-learn", "sklearn"),
        "nr.relu.discover(np.eye(2), np.eye(2))": ("scikit-learn", "sklearn"),
        "nr.measure.multidimensional_scaling(np.ones((1, 2, 3)))": ("scikit-learn", "sklearn"),
        "nr.descend(task, nr.init.gaussian(task.graph, 0.1), lr=0.1, steps=5, optimizer='adam')": (
            "optax", "optax",
        ),
        "nr.landscape.roots(lambda w, _: w, [[1.0]])": ("optimistix", "diffrax"),
        "s.solve(s.strengths, s.statistics, s.gates, [1.0])": (
            "diffrax, optimistix", "diffrax",
        ),
        "nr.exact.pathways(1.0, 2.0, [3, 4], [0.1, 0.2])": ("diffrax, optimistix", "diffrax"),
        "nr.sweep(lambda a: None, {'a': [1]})": ("filelock, loky, pyarrow, xarray, zarr", "sweep"),
        "nr.watch(len, np.eye(2), np.eye(2))": ("matplotlib, scikit-learn, xarray", "insight"),
        "nr.watch.from_recordings(np.ones((2, 4, 3)), np.eye(4), np.arange(4))": (
            "matplotlib, scikit-learn, xarray", "insight",
        ),
        "nr.lab()": ("anywidget, pydantic", "lab"),
    }  # fmt: skip
    code = f"print(json.dumps([said(lambda c=c: eval(c)) for c in {list(calls)!r}]))"
    found = json.loads(without_extras(code)[0].splitlines()[-1])
    expected = [
        f"{what} (of the extra {extra!r}) {'are' if ',' in what else 'is'} needed:"
        f" pip install {what.replace(',', '')}"
        for what, extra in calls.values()
    ]
    assert dict(zip(calls, found, strict=True)) == dict(zip(calls, expected, strict=True))


def test_every_message_names_an_extra_that_brings_the_package():
    homes = packages_distributions()
    told = []
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("need_extra"):
                told.append(
                    (file.name, [ast.literal_eval(v) for v in node.args if isinstance(v, ast.Constant)])
                )
    assert len(told) > 10
    for file, (extra, *modules) in told:
        for module in modules:
            assert {owner.lower() for owner in homes[module]} & brought(extra), (file, extra, module)


@pytest.mark.parametrize("extra", sorted(PROJECT["optional-dependencies"]))
def test_no_extra_brings_what_the_core_has(extra):
    core, _ = names(PROJECT["dependencies"])
    assert not brought(extra) & core
