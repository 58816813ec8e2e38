"""The start of the command: stored answers, and the cache of compiled programs."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import neuralrace_command
from neuralrace_command import cache_folder, main

TOOL = Path(__file__).parents[2] / "tools" / "answers.py"


def test_stored_answers_are_what_the_library_prints():
    spec = importlib.util.spec_from_file_location("answers_tool", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    stored = json.loads(tool.FILE.read_text(encoding="utf-8"))
    assert stored == tool.answers(), "run python tools/answers.py"


def test_stored_answers_need_no_library():
    code = (
        "import sys, time; from neuralrace_command import main; status = main(['show', 'xor']); "
        "assert not {'neuralrace', 'jax', 'numpy'} & set(sys.modules); sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("xor: Exclusive or")


def test_other_commands_are_those_of_the_library(capsys):
    assert main(["show", "xro"]) == 2
    assert "there is no experiment 'xro'" in capsys.readouterr().err
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ or "jax" in sys.modules


def test_compiled_programs_are_kept_for_the_next_time(tmp_path):
    """Only by the command: an import switches nothing on."""
    code = (
        "import sys, neuralrace_command; status = neuralrace_command.main(['show', 'none']); import jax; "
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
        "import atexit, runpy, sys, jax; sys.argv = ['neuralrace', 'show', 'none']; "
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
