"""What `neuralrace show`, `run` and `report` do."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from multiprocessing import get_context
from threading import RLock
from typing import Any

import neuralrace_papers as papers
from neuralrace.apps.processes import end_with
from neuralrace.errors import InputError
from neuralrace_papers import Report, running
from neuralrace_papers.command import minutes, print_table, reference
from neuralrace_papers.framework.numbers import shown
from neuralrace_papers.framework.parameters import meanings
from neuralrace_papers.framework.results import Judged, counts, ledgers, unexpected, verdicts
from neuralrace_papers.report import write_report

TOLD = 3  # experiments of which every claim is printed; of more, a summary


@dataclass(frozen=True)
class _Failure:
    """An experiment that raised an error."""

    name: str
    error: Exception
    trace: str


def show_experiment(given: Namespace) -> int:
    """Print the parameters of an experiment."""
    e = papers.experiment(given.name)
    usual, quick = vars(e.parameters), vars(e.chosen(True, {}))
    times = "quick {}, full {}, on two cores".format(*(minutes(m) for m in e.minutes))
    paper = next((paper for paper, own in papers.PAPERS.items() if e.name in own), "")
    cited = f"{paper}: {reference(paper)}\n" if paper else ""
    print(f"{e.name}: {e.title}\nreproduces: {e.source}\n{cited}takes: {times}\n")
    rows = [("parameter", "default", "quick", "meaning")]
    for name, meaning in meanings(type(e.parameters)).items():
        small = "" if quick[name] == usual[name] else value_text(quick[name])
        rows.append((name, value_text(usual[name]), small, meaning))
    print_table(rows)
    print("\nAn empty cell under quick: as the default. Change one by `--set PARAMETER=VALUE`.")
    return 0


def run_experiments(given: Namespace) -> int:
    """Run experiments, print what they found, and write the report."""
    if given.jobs is not None and given.jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {given.jobs}")
    names = list(papers.names()) if given.all else list(dict.fromkeys(given.names))
    if not names or (given.all and given.names):
        raise InputError("name the experiments to run, or give --all")
    changes = {name: _changes(given, name, names) for name in names}
    for name in names:  # everything wrong is said before anything runs
        papers.experiment(name).chosen(given.quick, changes[name])
    done = list(_reports(given, changes))
    reports = [one for one in done if isinstance(one, Report)]
    failures = [one for one in done if isinstance(one, _Failure)]
    if given.json:
        print(json.dumps({r.name: _json(r) for r in reports}))
    if not reports and isinstance(failures[0].error, InputError):
        raise failures[0].error
    different = {r.name: unexpected(r) for r in reports}
    if reports:
        path = write_report(given.out)
        if not given.json:
            print("\n".join([*_summary(reports, different), f"report: {path}"]))
    if failures:
        _tell(failures, len(names))
    return int(bool(failures) or any(different.values()))


def _summary(reports: Sequence[Report], different: dict[str, list[tuple[Judged, str]]]) -> list[str]:
    """What was found: every claim of a few experiments, or what many amount to, in about ten lines."""
    lines = []
    if len(reports) <= TOLD:
        for report in reports:
            lines.append(f"{report.name}: {report.title} ({report.seconds:.1f} s)")
            lines += [_line(claim) for claim in report.claims]
    else:
        seconds = sum(r.seconds for r in reports)
        lines.append(f"{len(reports)} experiments, {minutes(seconds / 60)} of computing in all.")
        lines.append("Verdicts on the documents, by the stored results of the full forms:")
        for name, found in verdicts().items():
            told = ", ".join(f"{n} {word}" for word, n in counts(found.values()).items())
            lines.append(f"  {ledgers()[name].short}: {told}")
    for name, changed in different.items():
        for claim, before in changed:
            lines.append(
                f"{name}: {claim.path} was {before!r} when this form was stored, and is {claim.verdict!r}"
            )
    return lines


def _line(claim: Judged) -> str:
    c, row = claim.claim, claim.row
    number = "" if row is None else f": {shown(row.value, row.error, row.runs)}"
    required = f" ({c.required})" if c.required else ""
    return f"  {claim.verdict or 'finding':<13}  {c.id}{number}{required}"


def _tell(failures: Sequence[_Failure], total: int) -> None:
    """Print what stopped which experiments."""
    for failure in failures:
        print(f"\n{failure.name} stopped:\n{failure.trace}", file=sys.stderr)
    stopped = ", ".join(failure.name for failure in failures)
    told = f"{len(failures)} of {total} experiments could not be finished: {stopped}"
    print(f"neuralrace: {told}; the same command goes on from what was finished", file=sys.stderr)


def write_html_report(given: Namespace) -> int:
    """Gather finished experiments into one page."""
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


def _reports(given: Namespace, changes: dict[str, dict[str, str]]) -> Iterator[Report | _Failure]:
    """Reports in order. Most of a quick run is compiling, on one core: several run side by side."""
    jobs = min(len(changes), os.cpu_count() or 1) if given.jobs is None else given.jobs
    one = partial(_run_one, given.quick, given.out, jobs == 1)
    if jobs == 1:
        yield from map(one, changes.items())
        return
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # processes may share a GPU
    pool = get_context("spawn").Pool(jobs, begin_worker, (os.getpid(),))
    try:
        reports = pool.imap(one, changes.items())
        for _, (name, changed) in zip(range(len(changes), jobs), cycle(changes.items()), strict=False):
            pool.apply_async(running.fill, (name, given.quick, given.out, changed))
        yield from reports
    finally:
        pool.terminate()
        pool.join()


def begin_worker(parent: int) -> None:
    """Settings of a process that runs experiments beside others."""
    from tqdm import tqdm

    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and ends the others
    tqdm.set_lock(RLock())  # its own is a semaphore of the system, which a worker that is ended leaves behind


def _run_one(quick: bool, out: str, progress: bool, item: tuple[str, dict[str, str]]) -> Report | _Failure:
    try:
        return running.run(item[0], quick, out, item[1], progress=progress)
    except InputError as error:
        return _Failure(item[0], error, str(error))
    except Exception as error:  # the other experiments go on
        return _Failure(item[0], RuntimeError(str(error)), traceback.format_exc())


def _json(report: Report) -> dict[str, Any]:
    whole = report.to_dict()
    kept = ("seconds", "parameters", "quick", "versions", "digest", "folder")
    files = [str(report.folder / f"{name}.svg") for name, _ in report.figures]
    return {"claims": [c.to_dict() for c in report.claims], **{k: whole[k] for k in kept}, "figures": files}


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
