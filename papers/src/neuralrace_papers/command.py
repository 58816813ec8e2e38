"""What the command `neuralrace` gains: `list`, `show`, `run` and `report`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from multiprocessing import get_context
from threading import RLock
from typing import Any

import neuralrace_papers as experiments
from neuralrace.errors import InputError
from neuralrace.files import as_path
from neuralrace_papers.framework.claim import FAILS, HOLDS, UNDECIDED
from neuralrace_papers.framework.papers import REFERENCES
from neuralrace_papers.report import write_report
from neuralrace_papers.report.counts import paper_of, summary

MARKS = {HOLDS: "holds", FAILS: "FAILS", UNDECIDED: "undecided"}
UNFINISHED = 3  # exit status where an experiment raised an error


@dataclass(frozen=True)
class _Failure:
    """An experiment that raised an error."""

    name: str
    error: Exception
    trace: str


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands of experiments to the parser of `neuralrace`."""
    out = argparse.ArgumentParser(add_help=False)
    out.add_argument("--out", default="results", metavar="DIR", help="folder of results (default: results)")

    def command(name: str, function: Callable[[Namespace], int], text: str, *parents: Any) -> Any:
        added = commands.add_parser(name, help=text, parents=parents)
        added.set_defaults(command=function, goes_on=name == "run")
        return added

    command("list", list_experiments, "every experiment, what it reproduces, how long it takes")
    showing = command("show", show_experiment, "parameters of an experiment, with defaults and meaning")
    showing.add_argument("name", metavar="NAME", help="an experiment; see neuralrace list")
    run = command("run", run_experiments, "run experiments: figures, claims and a report", out)
    run.add_argument("names", nargs="*", metavar="NAME", help="experiments; see neuralrace list")
    run.add_argument("--json", action="store_true", help="print the results as JSON")
    run.add_argument("--all", action="store_true", help="every experiment")
    run.add_argument("--quick", action="store_true", help="the small form, for a first look")
    run.add_argument("--seeds", metavar="N", help="number of random starts")
    jobs = "processes: experiments side by side, and parts of one where more are given (default: cores)"
    run.add_argument("--jobs", type=int, metavar="N", help=jobs)
    changes = "another value of a parameter; NAME.KEY=VALUE for one of several experiments"
    run.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes", help=changes)
    command("report", write_html_report, "gather finished experiments into one HTML page", out)


def list_experiments(_: Namespace) -> int:
    """Print a line for each experiment."""
    rows = [("name", "reproduces", "quick", "full", "")]
    for name in experiments.names():
        e = experiments.experiment(name)
        quick, full = (_minutes(m) for m in e.minutes)
        rows.append((name, e.source, quick, full, e.title))
    _print_table(rows)
    papers = dict.fromkeys(map(paper_of, experiments.names()))
    print("".join(f"\n{paper}: {_reference(paper)}" for paper in papers if paper), end="\n" * any(papers))
    return 0


def _reference(paper: str) -> str:
    cited = REFERENCES[paper]
    return f"{cited.reference} {cited.link}".strip()


def show_experiment(given: Namespace) -> int:
    """Print the parameters of an experiment."""
    e = experiments.experiment(given.name)
    quick, meanings = vars(e.quick), e.parameters.meanings()
    times = "quick {}, full {}, on two cores".format(*(_minutes(m) for m in e.minutes))
    paper = paper_of(e.name)
    reference = f"{paper}: {_reference(paper)}\n" if paper else ""
    print(f"{e.name}: {e.title}\nreproduces: {e.source}\n{reference}takes: {times}\n")
    rows = [("parameter", "default", "quick", "meaning")]
    for name, value in vars(e.parameters).items():
        small = "" if quick[name] == value else value_text(quick[name])
        rows.append((name, value_text(value), small, meanings[name]))
    _print_table(rows)
    print("\nAn empty cell under quick: as the default. Change one by `--set PARAMETER=VALUE`.")
    return 0


def run_experiments(given: Namespace) -> int:
    """Run experiments, print their claims and write the report."""
    if given.jobs is not None and given.jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {given.jobs}")
    names = list(experiments.names()) if given.all else list(dict.fromkeys(given.names))
    if not names or (given.all and given.names):
        raise InputError("name the experiments to run, or give --all")
    changes = {name: _changes(given, name, names) for name in names}
    for name in names:  # everything wrong is said before anything runs
        experiments.experiment(name).chosen(given.quick, changes[name])
    say = (lambda text: None) if given.json else print
    reports, failures = [], []
    for report in _reports(given, changes):
        if isinstance(report, _Failure):
            failures.append(report)
            continue
        reports.append(report)
        say(f"{report.name}: {report.title} ({report.seconds:.1f} s)")
        for claim in report.claims:
            say(_claim_line(claim))
    if given.json:
        print(json.dumps({r.name: _json(r) for r in reports}))
    if reports:
        path = write_report(given.out)
        say("\n".join(summary(reports)))
        say(f"report: {path}")
    elif isinstance(failures[0].error, InputError):
        raise failures[0].error
    if failures:
        return _tell(failures, len(names))
    return 0 if all(r.holds for r in reports) else 1


def _tell(failures: Sequence[_Failure], total: int) -> int:
    """Print what stopped which experiments; the exit status."""
    for failure in failures:
        print(f"\n{failure.name} stopped:\n{failure.trace}", file=sys.stderr)
    stopped = ", ".join(failure.name for failure in failures)
    told = f"{len(failures)} of {total} experiments could not be finished: {stopped}"
    print(f"neuralrace: {told}; the same command goes on from what was finished", file=sys.stderr)
    return UNFINISHED


def write_html_report(given: Namespace) -> int:
    """Gather finished experiments into one page."""
    if not as_path("--out", given.out).is_dir():
        raise InputError(
            f"--out must be a folder with results of `neuralrace run`; there is none at {given.out}"
        )
    print(f"report: {write_report(given.out)}")
    return 0


def value_text(value: Any) -> str:
    """A value as `--set` takes it; the first and last entries of a long list."""
    if isinstance(value, tuple):
        texts = [value_text(v) for v in value]
        return ",".join(texts if len(texts) <= 6 else [*texts[:3], "...", *texts[-2:]])
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value) or "(empty)"


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Columns as wide as their longest cell; the last one as it is."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    for row in rows:
        print("  ".join([*map(str.ljust, row[:-1], widths), row[-1]]).rstrip())


def _minutes(minutes: float) -> str:
    return f"{60 * minutes:.0f} s" if minutes < 1 else f"{minutes:.0f} min"


def _claim_line(c: experiments.Claim) -> str:
    """A claim, with its reason where it fails."""
    reason = f"\n             {c.note}" if c.verdict == FAILS else ""
    measured = f"{c.result}, required: {c.required}"
    return f"  {MARKS[c.verdict]:<9}  {c.kind:<7}  {c.id}: {c.name}: {measured}{reason}"


def _reports(given: Namespace, changes: dict[str, dict[str, str]]) -> Iterator[experiments.Report | _Failure]:
    """Reports in order. Most of a quick run is compiling, on one core: several run side by side."""
    jobs = min(len(changes), os.cpu_count() or 1) if given.jobs is None else given.jobs
    one = partial(_run_one, given.quick, given.out, jobs == 1)
    if jobs == 1:
        yield from map(one, changes.items())
        return
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # processes may share a GPU
    pool = get_context("spawn").Pool(jobs, begin_worker)
    try:
        reports = pool.imap(one, changes.items())
        for _, (name, changed) in zip(range(len(changes), jobs), cycle(changes.items()), strict=False):
            pool.apply_async(experiments.fill, (name, given.quick, given.out, changed))
        yield from reports
    finally:
        pool.terminate()
        pool.join()


def begin_worker() -> None:
    """Settings of a process that runs experiments beside others."""
    from tqdm import tqdm

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and ends the others
    tqdm.set_lock(RLock())  # its own is a semaphore of the system, which a worker that is ended leaves behind


def _run_one(
    quick: bool, out: str, progress: bool, item: tuple[str, dict[str, str]]
) -> experiments.Report | _Failure:
    try:
        return experiments.run(item[0], quick, out, item[1], progress=progress)
    except InputError as error:
        return _Failure(item[0], error, str(error))
    except Exception as error:  # the other experiments go on
        return _Failure(item[0], RuntimeError(str(error)), traceback.format_exc())


def _json(report: experiments.Report) -> dict[str, Any]:
    whole = report.to_dict()
    kept = ("claims", "seconds", "parameters", "quick", "versions", "folder")
    files = [str(report.folder / f"{name}.svg") for name, _ in report.figures]
    return {**{k: whole[k] for k in kept}, "figures": files}


def _changes(given: Namespace, name: str, names: list[str]) -> dict[str, str]:
    """Parameters of one experiment that --set and --seeds change."""
    changed = {} if given.seeds is None else {"seeds": given.seeds}
    for text in given.changes:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"--set must be KEY=VALUE, got {text!r}")
        whose, dot, own = key.rpartition(".")
        if dot and whose not in names:
            raise InputError(f"--set {text}: {whose!r} is not among the experiments to run")
        if not dot or whose == name:
            changed[own] = value
    return changed
