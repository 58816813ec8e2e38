"""The start of the command: the cache of compiled programs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import neuralrace_command
from neuralrace_command import cache_folder, main


def test_commands_are_those_of_the_library(capsys):
    assert main(["reduce", "nothing.yaml"]) == 2
    assert "nothing.yaml" in capsys.readouterr().err
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ or "jax" in sys.modules


def test_help_waits_for_no_library():
    code = (
        "import sys; from neuralrace_command import main\ntry: main(['run', '--help'])\n"
        "except SystemExit: print({'jax', 'scipy', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_compiled_programs_are_kept_for_the_next_time(tmp_path):
    """Only by the command: an import switches nothing on."""
    code = (
        "import sys, neuralrace_command; status = neuralrace_command.main(['reduce', 'none']); import jax; "
        "jax.jit(lambda v: v + 1)(1.0).block_until_ready(); print(jax.config.jax_compilation_cache_dir)"
    )
    free = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    for more, expected in (
        ({"XDG_CACHE_HOME": str(tmp_path)}, str(tmp_path / "neuralrace" / "compiled")),
        ({"NEURALRACE_CACHE": "off"}, "None"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code], env={**free, **more}, capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-1] == expected


def test_python_m_keeps_them_too(tmp_path):
    code = (
        "import atexit, runpy, sys, jax; sys.argv = ['neuralrace', 'reduce', 'none']; "
        "atexit.register(lambda: print(jax.config.jax_compilation_cache_dir)); "
        "runpy.run_module('neuralrace', run_name='__main__')"
    )
    free = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    env = {**free, "NEURALRACE_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1] == str(tmp_path)


@pytest.mark.parametrize(("value", "expected"), [("off", None), ("/some/where", Path("/some/where"))])
def test_the_folder_can_be_chosen(monkeypatch, value, expected):
    monkeypatch.setenv("NEURALRACE_CACHE", value)
    assert cache_folder() == expected
    assert neuralrace_command.__file__
