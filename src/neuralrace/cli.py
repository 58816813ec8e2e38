"""The command `neuralrace`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from neuralrace import __version__, experiments
from neuralrace.errors import InputError
from neuralrace.experiments.claim import FAILS, HOLDS, UNDECIDED
from neuralrace.experiments.report import shown, summary, write_report


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0 when no claim fails (undecided ones do not count), 1 when one does, 2 for wrong usage."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        status = given.command(given)
        sys.stdout.flush()
        return status
    except InputError as error:
        print(f"neuralrace: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader has seen enough; Python's last flush must not fail either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("neuralrace: interrupted; the same command goes on from what was finished", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="neuralrace", description="The theory of how networks learn.")
    parser.add_argument("--version", action="version", version=f"neuralrace {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    listing = commands.add_parser("list", help="every experiment, what it reproduces, how long it takes")
    listing.set_defaults(command=_list)

    showing = commands.add_parser("show", help="parameters of an experiment, with defaults and meaning")
    showing.add_argument("name", metavar="NAME", help="an experiment; see neuralrace list")
    showing.set_defaults(command=_show)

    run = commands.add_parser("run", help="run experiments: figures, claims and a report")
    run.add_argument("names", nargs="*", metavar="NAME", help="experiments; see neuralrace list")
    run.add_argument("--all", action="store_true", help="every experiment")
    run.add_argument("--quick", action="store_true", help="the small form, for a first look")
    run.add_argument("--seeds", metavar="N", help="number of random starts")
    run.add_argument("--out", default="results", metavar="DIR", help="where results go (default: results)")
    run.add_argument("--json", action="store_true", help="print claims and figures as JSON")
    run.add_argument("--jobs", type=int, metavar="N", help="experiments side by side (default: cores)")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="changes",
        help="another value of a parameter; NAME.KEY=VALUE for one of several experiments",
    )
    run.set_defaults(command=_run)

    own = commands.add_parser("reduce", help="equations, certificate and curves of a network of your own")
    own.add_argument("file", metavar="FILE", help="YAML file with graph, gates and data; see docs/command.md")
    own.add_argument("--out", default="results", metavar="DIR", help="where files go (default: results)")
    own.add_argument("--json", action="store_true", help="print what is found as JSON")
    own.set_defaults(command=_reduce)

    found = commands.add_parser("discover", help="which gated network is a ReLU network on data of your own?")
    found.add_argument("file", metavar="FILE", help="npz file with inputs X (n, in) and targets Y (n, out)")
    found.add_argument("--k", type=int, metavar="K", help="number of patterns (default: chosen)")
    found.add_argument("--runs", type=int, default=3, metavar="N", help="networks to train (default: 3)")
    found.add_argument("--hidden", default="700", metavar="N,N", help="sizes of ReLU layers (default: 700)")
    found.add_argument("--std", type=float, default=7e-6, help="of initial weights (default: 7e-6)")
    found.add_argument("--lr", type=float, default=1e-3, help="learning rate, summed loss (default: 1e-3)")
    found.add_argument("--steps", type=int, default=8000, help="steps of training (default: 8000)")
    found.add_argument("--seed", type=int, default=0, help="of initial weights and clustering (default: 0)")
    found.add_argument("--out", default="results", metavar="DIR", help="where files go (default: results)")
    found.add_argument("--json", action="store_true", help="print what is found as JSON")
    found.set_defaults(command=_discover)

    report = commands.add_parser("report", help="gather finished experiments into one HTML page")
    report.add_argument(
        "--out", default="results", metavar="DIR", help="where results are (default: results)"
    )
    report.set_defaults(command=_report)
    return parser


def _list(given: Any) -> int:
    rows: list[tuple[str, ...]] = [("name", "reproduces", "quick", "full", "")]
    for name in experiments.names():
        e = experiments.experiment(name)
        rows.append((name, e.source, *(_minutes(m) for m in e.minutes), e.title))
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    for row in rows:
        print("  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[4]]).rstrip())
    return 0


def _show(given: Any) -> int:
    e = experiments.experiment(given.name)
    full, quick, meanings = vars(e.parameters), vars(e.quick), e.parameters.meanings()
    times = "quick {}, full {}, on two cores".format(*(_minutes(m) for m in e.minutes))
    print(f"{e.name}: {e.title}\nreproduces: {e.source}\ntakes: {times}\n")
    rows = [("parameter", "default", "quick", "meaning")]
    for name, value in full.items():
        small = "" if quick[name] == value else _value(quick[name])
        rows.append((name, _value(value), small, meanings[name]))
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    for row in rows:
        print("  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[3]]).rstrip())
    print("\nAn empty cell under quick: as the default. Change one by `--set PARAMETER=VALUE`.")
    return 0


def _value(value: Any) -> str:
    """A value as `--set` takes it; of a long list its two ends."""
    if isinstance(value, tuple):
        texts = [_value(v) for v in value]
        return ",".join(texts if len(texts) <= 6 else [*texts[:3], "...", *texts[-2:]])
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value) or "(empty)"


def _minutes(minutes: float) -> str:
    return f"{60 * minutes:.0f} s" if minutes < 1 else f"{minutes:.0f} min"


def _run(given: Any) -> int:
    if given.jobs is not None and given.jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {given.jobs}")
    names = list(experiments.names()) if given.all else list(dict.fromkeys(given.names))
    if not names or (given.all and given.names):
        raise InputError("name the experiments to run, or give --all")
    changes = {name: _changes(given, name, names) for name in names}
    for name in names:  # everything wrong is said before anything runs
        experiments.experiment(name).chosen(given.quick, changes[name])
    talk = (lambda text: None) if given.json else print
    reports = []
    for report in _reports(given, changes):
        reports.append(report)
        talk(f"{report.name}: {report.title} ({report.seconds:.1f} s)")
        for claim in report.claims:
            talk(_line(claim))
    path = write_report(given.out)
    if given.json:
        print(json.dumps({r.name: _json(r) for r in reports}))
    talk("\n".join(summary(reports)))
    talk(f"report: {path}")
    return 0 if all(r.holds for r in reports) else 1


def _line(c: experiments.Claim) -> str:
    """A claim; with its reason where it fails."""
    spread = "" if c.spread is None else f" ± {shown(c.spread)}"
    tolerance = "" if c.tolerance is None else f" ± {shown(c.tolerance)}"
    mark = {HOLDS: "holds", FAILS: "FAILS", UNDECIDED: "undecided"}[c.verdict]
    measured = f"{shown(c.measured)}{spread}, expected {shown(c.expected)}{tolerance}"
    reason = f"\n             {c.note}" if c.verdict == FAILS else ""
    return f"  {mark:<9}  {c.kind:<7}  {c.id}: {c.name}: {measured}{reason}"


def _reports(given: Any, changes: dict[str, dict[str, str]]) -> Iterator[experiments.Report]:
    """Reports in order. Most of a quick run is compiling, on one core: several run side by side."""
    jobs = min(len(changes), (os.cpu_count() or 1) if given.jobs is None else given.jobs)
    one = partial(_one, given.quick, given.out, jobs == 1)
    if jobs == 1:
        yield from map(one, changes.items())
        return
    quiet = (signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and ends the others
    pool = get_context("spawn").Pool(jobs, signal.signal, quiet)
    try:
        yield from pool.imap(one, changes.items())
    finally:
        pool.terminate()
        pool.join()


def _one(quick: bool, out: str, progress: bool, item: tuple[str, dict[str, str]]) -> experiments.Report:
    return experiments.run(item[0], quick, out, item[1], progress=progress)


def _json(report: experiments.Report) -> dict[str, Any]:
    found = report.to_dict()
    files = [str(report.folder / f"{name}.svg") for name, _ in report.figures]
    return {
        **{k: found[k] for k in ("claims", "seconds", "parameters", "quick", "versions", "folder")},
        "figures": files,
    }


def _changes(given: Any, name: str, names: list[str]) -> dict[str, str]:
    """What --set and --seeds say about one experiment."""
    found = {} if given.seeds is None else {"seeds": given.seeds}
    for text in given.changes:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"--set must be KEY=VALUE, got {text!r}")
        whose, dot, own = key.rpartition(".")
        if dot and whose not in names:
            raise InputError(f"--set {text}: {whose!r} is not among the experiments to run")
        if not dot or whose == name:
            found[own] = value
    return found


def _reduce(given: Any) -> int:
    from neuralrace.explain import reduce_file

    found = reduce_file(given.file, given.out, progress=sys.stderr.isatty())
    print(json.dumps(found.to_dict()) if given.json else found)
    return 0


def _discover(given: Any) -> int:
    from neuralrace.relu.discovery_files import discover_file

    try:
        hidden = [int(size) for size in given.hidden.split(",")]
    except ValueError:
        raise InputError(f"--hidden must be sizes such as 700 or 420,420; got {given.hidden!r}") from None
    chosen = {name: getattr(given, name) for name in ("k", "runs", "std", "lr", "steps", "seed")}
    progress = sys.stderr.isatty()
    found, files = discover_file(given.file, given.out, hidden=hidden, progress=progress, **chosen)
    if given.json:
        print(json.dumps({**found.to_dict(), "files": [str(f) for f in files]}))
    else:
        print("\n".join([found.table(), *(f"  {f}" for f in files)]))
    return 0


def _report(given: Any) -> int:
    if not Path(given.out).is_dir():
        raise InputError(
            f"--out must be a folder with results of `neuralrace run`; there is none at {given.out}"
        )
    print(f"report: {write_report(given.out)}")
    return 0
