"""What the command `neuralrace` gains: `list`, `show`, `run` and `report`.

Nothing here imports the library before it is needed, so that `--help` and `list` answer at once.
"""

from __future__ import annotations

import argparse
import ast
import tomllib
from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from neuralrace_papers import PAPERS

PACKAGE = Path(__file__).parent


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands of experiments to the parser of `neuralrace`."""
    out = argparse.ArgumentParser(add_help=False)
    out.add_argument("--out", default="results", metavar="DIR", help="folder of results (default: results)")

    def command(name: str, function: Callable[[Namespace], int], text: str, *parents: Any) -> Any:
        added = commands.add_parser(name, help=text, parents=parents)
        added.set_defaults(command=function, goes_on=name == "run")
        return added

    command("list", list_experiments, "every experiment, what it reproduces, how long it takes")
    showing = command(
        "show", _later("show_experiment"), "parameters of an experiment, with defaults and meaning"
    )
    showing.add_argument("name", metavar="NAME", help="an experiment; see neuralrace list")
    run = command("run", _later("run_experiments"), "run experiments: figures, claims and a report", out)
    run.add_argument("names", nargs="*", metavar="NAME", help="experiments; see neuralrace list")
    run.add_argument("--json", action="store_true", help="print the results as JSON")
    run.add_argument("--all", action="store_true", help="every experiment")
    run.add_argument("--quick", action="store_true", help="the small form, for a first look")
    run.add_argument("--seeds", metavar="N", help="number of random starts")
    jobs = "processes: experiments side by side, and parts of one where more are given (default: cores)"
    run.add_argument("--jobs", type=int, metavar="N", help=jobs)
    changes = "another value of a parameter; NAME.KEY=VALUE for one of several experiments"
    run.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes", help=changes)
    command("report", _later("write_html_report"), "gather finished experiments into one HTML page", out)


def _later(function: str) -> Callable[[Namespace], int]:
    """A function of `neuralrace_papers.commands`, which is imported when it is called."""
    return lambda given: getattr(import_module("neuralrace_papers.commands"), function)(given)


def list_experiments(_: Namespace) -> int:
    """Print a line for each experiment, as its module declares it; no module is imported."""
    rows = [("name", "reproduces", "quick", "full", "")]
    for paper, names in PAPERS.items():
        for name in names:
            title, source, (quick, full) = _declared(PACKAGE / paper / f"{name.replace('-', '_')}.py")
            rows.append((name, source, minutes(quick), minutes(full), title))
    print_table(rows)
    print("".join(f"\n{paper}: {reference(paper)}" for paper in PAPERS))
    return 0


def _declared(file: Path) -> tuple[str, str, tuple[float, float]]:
    """Title, source and minutes in the line `EXPERIMENT = Experiment(...)` of a file."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body[::-1]:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            call = node.value
            given = {k.arg: k.value for k in call.keywords}
            last = given["minutes"] if "minutes" in given else call.args[5]
            return tuple(ast.literal_eval(value) for value in (*call.args[1:3], last))
    raise ValueError(f"{file} declares no experiment")


def reference(paper: str) -> str:
    """Authors, title, place and link of a document, as its ledger has them."""
    file = PACKAGE / paper / "claims.toml"
    if not file.is_file():
        return ""
    return tomllib.loads(file.read_text(encoding="utf-8"))["document"]["reference"]


def print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Columns as wide as their longest cell; the last one as it is."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    for row in rows:
        print("  ".join([*map(str.ljust, row[:-1], widths), row[-1]]).rstrip())


def minutes(number: float) -> str:
    """How long something takes, in words."""
    return f"{60 * number:.0f} s" if number < 1 else f"{number:.0f} min"
