#!/usr/bin/env python3
"""Store what `neuralrace --help`, `COMMAND --help`, `list` and `show NAME` print, to answer at once.

python tools/answers.py            # after an experiment or the command line has changed
"""

from __future__ import annotations

import io
import json
import os
from contextlib import redirect_stdout, suppress
from pathlib import Path

from neuralrace import experiments
from neuralrace.cli import main

COMMANDS = ("list", "show", "run", "sweep", "reduce", "discover", "insight", "lab", "report")
FILE = Path(__file__).parents[1] / "src" / "neuralrace_command" / "answers.json"


def answer(arguments: list[str]) -> str:
    """What the command prints, on a screen of 80 columns."""
    os.environ["COLUMNS"] = "80"
    printed = io.StringIO()
    with redirect_stdout(printed), suppress(SystemExit):  # --help ends the program
        main(arguments)
    return printed.getvalue()


def answers() -> dict[str, str]:
    """Arguments of the command, and what it prints."""
    asked = [["--help"], ["-h"], ["--version"], ["list"], *(["show", name] for name in experiments.names())]
    asked += [[command, "--help"] for command in COMMANDS]
    return {" ".join(arguments): answer(arguments) for arguments in asked}


if __name__ == "__main__":
    FILE.write_text(json.dumps(answers(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
