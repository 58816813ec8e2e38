"""The start of the command, and the cache of compiled programs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import neuralrace as nr
from neuralrace.cli import main
from neuralrace.compiling import cache_folder


def test_commands_are_those_of_the_library(capsys):
    assert main(["reduce", "nothing.yaml"]) == 2
    assert "nothing.yaml" in capsys.readouterr().err


def test_help_waits_for_no_library():
    code = (
        "import sys; from neuralrace.cli import main\ntry: main(['run', '--help'])\n"
        "except SystemExit: print({'jax', 'scipy', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_python_m_is_the_command():
    done = subprocess.run([sys.executable, "-m", "neuralrace", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"neuralrace {nr.__version__}\n")


@pytest.mark.parametrize(
    ("given", "kept"),
    [({"NEURALRACE_CACHE": "own"}, "own"), ({"XDG_CACHE_HOME": "user"}, "user/neuralrace/compiled"),
     ({"NEURALRACE_CACHE": "off", "XDG_CACHE_HOME": "user"}, None)],
    ids=["named", "of the user", "off"],
)  # fmt: skip
def test_compiled_programs_are_kept_on_disk_and_jax_stays_as_it_was(tmp_path, given, kept):
    code = (
        "import jax; from neuralrace.compiling import Compiled; before = dict(jax.config.values); "
        "Compiled(lambda v: v + 1)(1.0).block_until_ready(); assert dict(jax.config.values) == before"
    )
    free = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    subprocess.run([sys.executable, "-c", code], env={**free, **given}, cwd=tmp_path, check=True)
    folders = {f.parents[1] for f in tmp_path.rglob("*") if f.is_file()}
    assert folders == (set() if kept is None else {tmp_path / kept})


@pytest.mark.parametrize(("value", "expected"), [("off", None), ("/some/where", Path("/some/where"))])
def test_the_folder_can_be_chosen(monkeypatch, value, expected):
    monkeypatch.setenv("NEURALRACE_CACHE", value)
    assert cache_folder() == expected
