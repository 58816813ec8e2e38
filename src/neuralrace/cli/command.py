"""The parser of the command `neuralrace`, and what ends it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from neuralrace import __version__
from neuralrace.errors import TO_INSTALL, InputError, integer
from neuralrace.interrupts import heard

OF_EXPERIMENTS = ("list", "show", "run", "report")  # commands that another distribution brings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those that Python was started with.

    Returns
    -------
    int
        0 when no claim fails (undecided ones do not count), 1 when one does, 2 for wrong usage,
        3 when an experiment raised an error (the others are finished) or a file could not be written, 130
        when interrupted.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if words and words[0] in OF_EXPERIMENTS and not entry_points(group="neuralrace.commands"):
        print(
            f"neuralrace: `neuralrace {words[0]}` comes with the experiments: {TO_INSTALL}", file=sys.stderr
        )
        return 2
    given = _parser().parse_args(words)
    try:
        with heard():
            status = given.command(given)
        sys.stdout.flush()
        return status
    except InputError as error:
        print(f"neuralrace: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        goes_on = "; the same command goes on from what was finished" if given.goes_on else ""
        print(f"neuralrace: interrupted{goes_on}", file=sys.stderr)
        return 130
    except MemoryError as error:
        print(f"neuralrace: this needs more memory than there is: {error}", file=sys.stderr)
        return 3
    except BrokenPipeError:  # the reader has seen enough; Python's last flush must not fail either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a full disk, say
        print(f"neuralrace: {error}", file=sys.stderr)
        return 3


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="neuralrace", description="The theory of how networks learn.")
    parser.add_argument("--version", action="version", version=f"neuralrace {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    out, as_json = (argparse.ArgumentParser(add_help=False) for _ in range(2))
    out.add_argument("--out", default="results", metavar="DIR", help="folder of results (default: results)")
    as_json.add_argument("--json", action="store_true", help="print the results as JSON")

    def command(name: str, function: Callable[..., int], text: str, *parents: Any) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, parents=parents)
        added.set_defaults(command=function, goes_on=name in ("run", "sweep"))
        return added

    for added in entry_points(group="neuralrace.commands"):
        added.load()(commands)

    text = "run an experiment over a grid of its parameters"
    _sweep_options(command("sweep", _in("sweep", "run_sweep"), text))

    own = command(
        "reduce", _reduce, "equations, certificate and curves of a network of your own", out, as_json
    )
    own.add_argument("file", metavar="FILE", help="YAML file with graph, gates and data; see docs/command.md")

    data = command(
        "discover", _discover, "which gated network is a ReLU network on data of your own?", out, as_json
    )
    data.add_argument("file", metavar="FILE", help="npz file with inputs X (n, in) and targets Y (n, out)")
    data.add_argument("--k", type=int, metavar="K", help="number of patterns (default: chosen)")
    data.add_argument("--runs", type=int, default=3, metavar="N", help="networks to train (default: 3)")
    data.add_argument("--hidden", default="700", metavar="N,N", help="sizes of ReLU layers (default: 700)")
    data.add_argument("--std", type=float, help="of initial weights (default: from the data)")
    data.add_argument("--lr", type=float, help="learning rate, summed loss (default: from the data)")
    data.add_argument("--steps", type=int, default=8000, help="steps of training (default: 8000)")
    data.add_argument("--seed", type=int, default=0, help="of initial weights and clustering (default: 0)")

    text = "what did a network of your own learn? from checkpoints"
    _insight_options(command("insight", _in("insight", "write_insight"), text))

    page = command("lab", _lab, "a web page: draw a network, move a slider, watch the race")
    page.add_argument(
        "link", nargs="?", metavar="LINK", help="a state to begin with: what 'Copy link' copied"
    )
    page.add_argument("--port", type=int, default=0, metavar="N", help="port (default: a free one)")
    page.add_argument("--no-browser", action="store_true", help="only print the address")
    page.add_argument(
        "--save", metavar="FOLDER", help="write the pages of the gallery, each a file that needs no server"
    )
    return parser


def _sweep_options(sweep: argparse.ArgumentParser) -> None:
    sweep.add_argument("name", metavar="NAME", help="an experiment; see neuralrace list")
    values = "values of a parameter: NAME=a,b, NAME=first:last or NAME=log:first:last:n; once for each axis"
    sweep.add_argument("--over", action="append", default=[], metavar="NAME=VALUES", help=values)
    together = "parameters that change together, as one axis"
    sweep.add_argument("--zip", action="append", default=[], metavar="NAME,NAME", help=together)
    sweep.add_argument("--seeds", type=int, metavar="N", help="random starts of each point")
    sweep.add_argument("--quick", action="store_true", help="the small form of the experiment")
    sweep.add_argument("--out", metavar="DIR", help="folder of results (default: sweep-NAME)")
    sweep.add_argument("--jobs", type=int, metavar="N", help="processes (default: cores, if it is worth it)")
    sweep.add_argument("--cluster", metavar="ADDRESS", help="a Dask scheduler, as in tcp://127.0.0.1:8786")
    sweep.add_argument("--retry-failed", action="store_true", help="compute points again that failed")
    drawn = "draw this claim; may be given several times"
    sweep.add_argument("--measure", action="append", default=[], metavar="ID", help=drawn)
    sweep.add_argument("--against", metavar="AXIS[,AXIS]", help="axes of the figure (default: the first two)")


def _insight_options(seen: argparse.ArgumentParser) -> None:
    seen.add_argument("files", nargs="+", metavar="FILE", help="checkpoints in the order of training")
    made = "function that makes the torch module, as in mymodels:make"
    seen.add_argument("--model", required=True, metavar="MODULE:FACTORY", help=made)
    seen.add_argument(
        "--data", required=True, metavar="FILE", help="npz file with probes: x, and targets or labels y"
    )
    seen.add_argument("--out", default="insight", metavar="DIR", help="folder of the page (default: insight)")
    unsafe = "load checkpoints that hold code, which is executed; only for files you trust"
    seen.add_argument("--allow-pickle", action="store_true", help=unsafe)


def _in(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    """A function of a module of `neuralrace.cli`, which is imported when it is called."""
    return lambda given: getattr(import_module(f"neuralrace.cli.{module}"), function)(given)


def _reduce(given: argparse.Namespace) -> int:
    from neuralrace.cli.reduce import reduce_file
    from neuralrace.cli.reduce_output import written

    tell = None if given.json else partial(print, flush=True)
    explanation = reduce_file(given.file, given.out, sys.stderr.isatty(), tell)
    print(json.dumps(explanation.to_dict()) if given.json else "\n".join(written(explanation)))
    return 0


def _lab(given: argparse.Namespace) -> int:
    from neuralrace.laboratory import save_pages, start

    if given.save is not None:
        print("\n".join(str(file) for file in save_pages(given.save)))
        return 0
    port = integer("--port", given.port, least=0, most=65535)
    return start(port, browser=not given.no_browser, link=given.link)


def _discover(given: argparse.Namespace) -> int:
    from neuralrace.cli.discover import discover_file

    try:
        hidden = [int(size) for size in given.hidden.split(",")]
    except ValueError:
        raise InputError(f"--hidden must be sizes such as 700 or 420,420; got {given.hidden!r}") from None
    chosen = {name: getattr(given, name) for name in ("k", "runs", "std", "lr", "steps", "seed")}
    chosen |= {"hidden": hidden, "progress": sys.stderr.isatty()}
    discovery, files = discover_file(given.file, given.out, **chosen)
    if given.json:
        print(json.dumps({**discovery.to_dict(), "files": [str(f) for f in files]}))
    else:
        print("\n".join([discovery.table(), *(f"  {f}" for f in files)]))
    return 0
