"""How the theory's ends, times and races compare with those of random networks.

Run as `python -m benchmarks.ends.judge FOLDER --out NAME` from the project's root, after `networks` and
`races` have filled FOLDER. FOLDER/NAME.jsonl gets a line per task, race or graph; the run goes on where an
earlier one with the same name stopped, and prints tables of all lines at the end. `--part` takes some parts:

- ends: every basis of `nr.reduce`, solved for ten times as long as the slowest network takes; then for ten
  times longer where it did not arrive, to see whether it rests there. Blocks, which are slow and leave later
  by rounding, for three and four times as long as that network.
- widened: the ends and times of `Reduction.widened` where a solution does not arrive.
- races: `nr.race` against networks.
- widths: `nr.attainable_loss`, its value against the slow oracle and `tight` against networks.

What a library does not have yet counts as absent.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import neuralrace as nr
from benchmarks.ends import networks, races, tasks
from benchmarks.ends.attainable import attainable_loss

BASES = ("shared", "pathwise", "block", "auto")
RIGHT = 1e-4  # of what can be learned: so near to where networks end is right
APART = 1e-3  # bases further apart than this disagree
LONGER = {"shared": 10.0, "pathwise": 10.0, "block": 3.0}  # times the slowest network
LATER = {"shared": 100.0, "pathwise": 100.0, "block": 4.0}
COARSE = nr.Adaptive(rtol=1e-7, atol=1e-9, max_steps=10_000)  # of that later part
RESTS = 0.01  # share of what is left that may still fall where a family rests
OFF = 1.5  # a ratio of half times beyond which they count as off
SETS = {"at": True, "below": False, "narrow": None, "networks": True}  # whether they are wide enough
Record = dict[str, Any]


def strength(r: Any, task: nr.Task, std: float) -> Any:
    """The strength that stands for gaussian weights; before there was one, that of two layers."""
    if hasattr(r, "strength"):
        return r.strength(std)
    return std * np.sqrt(max(task.graph.nodes[h] for h in task.graph.hidden) / 2)


def largest(strength: Any) -> float:
    """The largest strength, where edges have their own."""
    return float(max(strength.values()) if isinstance(strength, dict) else strength)


def solved(r: Any, task: nr.Task, net: Record) -> Record:
    """Where a reduction ends, what it says of it, and its learning times."""
    least, learn, slowest = net["attainable"], net["learnable"], float(np.nanmax(net["end"]))
    start = strength(r, task, net["std"])
    began = time.perf_counter()
    sol = r.solve(strengths=start, t1=LONGER.get(r.basis, 10.0) * slowest)
    left = float((sol.loss[..., -1] - least) / learn)
    levels = {f"{s:g}": float(nr.learning_time(sol, least + s * learn)) for s in networks.SHARES}
    found = {
        "basis": r.basis, "exact": bool(r.exact), "residual": float(r.residual),
        "strength": largest(start), "left": left,
        "status": sol.status.name, "outcome": sol.outcome, "times": levels,
        "seconds": time.perf_counter() - began,
    }  # fmt: skip
    if left > RIGHT:
        later = r.solve(strengths=start, t1=LATER.get(r.basis, 100.0) * slowest, method=COARSE)
        found["left_later"] = float((later.loss[..., -1] - least) / learn)
        found["status_later"], found["outcome_later"] = later.status.name, later.outcome
    return found


def attempt(compute: Callable[[], Record]) -> Record:
    """What was computed, or the error that came instead."""
    try:
        return compute()
    except Exception as fault:
        return {"failed": f"{type(fault).__name__}: {fault}"}


def judge_ends(seed: int, net: Record) -> Record:
    """All bases on one task; "auto" is one of the others."""
    task = tasks.draw(seed)
    found = {b: attempt(lambda: solved(nr.reduce(task, b), task, net)) for b in BASES[:3]}
    auto = attempt(lambda: found[nr.reduce(task).basis])
    return found | {"auto": auto}


def judge_widened(seed: int, net: Record) -> Record:
    """The default reduction, and its widened one where it does not arrive."""
    task = tasks.draw(seed)

    def widened() -> Record:
        began = time.perf_counter()
        wide = r.widened()
        making = time.perf_counter() - began
        directions = getattr(wide, "directions", None)
        return solved(wide, task, net) | {"directions": directions, "making": making}

    try:
        r = nr.reduce(task)
    except Exception as fault:
        return {"failed": str(fault)}
    first = attempt(lambda: solved(r, task, net))
    if "failed" not in first and first["left"] <= RIGHT:
        return {"first": first}
    return {"first": first, "widened": attempt(widened)}


def judge_race(seed: int, record: Record) -> Record:
    """The winner and times that the theory names."""
    race = races.draw(seed)
    assert race is not None
    task = race.candidates["given"]
    networks_times = {n: float(np.median(t)) for n, t in record["times"].items()}
    finite = [t for t in networks_times.values() if np.isfinite(t)]

    def theory() -> Record:
        size = largest(strength(nr.reduce(task), task, tasks.std(task)))
        found = nr.race(race.candidates, level=race.level, strength=size, t1=100 * max(finite))
        times = (
            found.times if isinstance(found.times, dict) else dict(zip(found.names, found.times, strict=True))
        )
        why = str(getattr(found, "why", ""))
        return {"named": found.winner, "theory": {k: float(v) for k, v in times.items()}, "why": why}

    return {"winner": record["winner"], "networks": networks_times} | attempt(theory)


def judge_width(name: str, seed: int, net: Record) -> Record:
    """The attainable loss and `tight`, the slow oracle, and what the best and worst networks reached."""
    task = networks.SETS[name].draw(seed)

    def found() -> Record:
        began = time.perf_counter()
        a = nr.attainable_loss(task)
        return {"loss": float(a.loss), "tight": a.tight, "seconds": time.perf_counter() - began}

    oracle = attainable_loss(task)
    return {
        "oracle": oracle,
        "initial": net["initial"],
        "best": min(net["left"]),
        "worst": max(net["left"]),
    } | (attempt(found))


def jobs(folder: Path, parts: Iterable[str], count: int) -> Iterable[tuple[str, Callable[[], Record]]]:
    """Names of what is to be judged, and what computes it."""
    nets = {s: r for s, r in networks.read(folder).items() if r["learnable"]}
    seeds = sorted(nets)[:count]
    if "ends" in parts:
        yield from ((f"ends {s}", lambda s=s: judge_ends(s, nets[s])) for s in seeds)
    if "widened" in parts:
        yield from ((f"widened {s}", lambda s=s: judge_widened(s, nets[s])) for s in seeds)
    if "races" in parts:
        decided = [r for _, r in sorted(races.read(folder).items()) if r["winner"] is not None]
        yield from ((f"race {r['seed']}", lambda r=r: judge_race(r["seed"], r)) for r in decided[:count])
    if "widths" in parts:
        for name in SETS:
            table = {s: r for s, r in networks.read(folder, name).items() if r["learnable"]}
            yield from (
                (f"width {name} {s}", lambda n=name, s=s, r=table[s]: judge_width(n, s, r))
                for s in sorted(table)[:count]
            )


# -- tables ----------------------------------------------------------------------------------


def plain(outcome: str) -> bool:
    """Whether an outcome says no more than that it finished."""
    return re.fullmatch(r"finished( at t = [^ ;:,]+)?(, at rest since t = [^ ;:,]+)?\.?", outcome) is not None


def half_ratio(found: Record, net: Record) -> float:
    """Half time over that of the median network."""
    return found["times"]["0.5"] / float(np.median(net["times"]["0.5"]))


def ends_table(rows: dict[int, Record], nets: dict[int, Record]) -> str:
    """Per basis: what says exact, and how it ends."""
    head = (
        "basis", "solved", "exact", "right end", "silent wrong", "said", "saddle right", "wrong", "missed",
        "half off", "worst", "left late",
    )  # fmt: skip
    lines: list[tuple[Any, ...]] = [head]
    listed: dict[str, list[Any]] = defaultdict(list)
    for basis in BASES:
        c, worst = Counter(), 1.0
        for seed, row in rows.items():
            f = row[basis]
            if "failed" in f:
                c["failed"] += 1
                listed[f"{basis}: failed"].append(f"{seed} {f['failed'][:70]}")
                continue
            c["solved"] += 1
            saddle, right = f["status"] == "SADDLE", f["left"] <= RIGHT
            rests = not right and f["left"] - f["left_later"] < max(RIGHT, RESTS * f["left"])
            if saddle:
                good = rests
                c["saddle right" if good else "saddle wrong"] += 1
                if not good:
                    listed[f"{basis}: SADDLE wrong"].append(seed)
            elif rests and f["exact"]:
                c["missed"] += 1
                listed[f"{basis}: SADDLE missed"].append(seed)
            if not f["exact"]:
                continue
            c["exact"] += 1
            c["right"] += right
            if not right and not saddle:
                kind = "silent" if plain(f["outcome"]) else "said"
                c[kind] += 1
                listed[f"{basis}: {kind}"].append(seed)
            if right:
                slowest, ratio = max(nets[seed]["times"]["0.1"]), half_ratio(f, nets[seed])
                c["late"] += f["times"]["0.1"] > 2 * slowest
                if not 1 / OFF <= ratio <= OFF:
                    c["off"] += 1
                    worst = max(worst, ratio, 1 / ratio if ratio else np.inf)
        lines.append((
            basis, c["solved"], c["exact"], c["right"], c["silent"], c["said"], c["saddle right"],
            c["saddle wrong"], c["missed"], c["off"], f"{worst:.1f}", c["late"],
        ))  # fmt: skip
    differ = [s for s, row in rows.items() if disagree(row)]
    several = sum(len(speaking(row)) > 1 for row in rows.values())
    text = [
        aligned(lines),
        "",
        f"bases that say exact disagree about the end: {len(differ)} of {several}: {differ}",
    ]
    text += [f"{k} ({len(v)}): {v[:40]}" for k, v in sorted(listed.items())]
    said = Counter(
        re.sub(r"[-\d.]+(e[-+]?\d+)?", "#", row[b]["outcome"]) for row in rows.values() for b in BASES
        if "failed" not in row[b]
    )  # fmt: skip
    return "\n".join([*text, "outcomes:", *(f"  {n:5d}  {words}" for words, n in said.most_common(12))])


def speaking(row: Record) -> list[float]:
    """Ends of the bases that say exact and finished."""
    good = [row[b] for b in BASES[:3] if "failed" not in row[b]]
    return [f["left"] for f in good if f["exact"] and f["status"] == "FINISHED" and plain(f["outcome"])]


def disagree(row: Record) -> bool:
    """Whether two bases that say exact end apart."""
    ends = speaking(row)
    return len(ends) > 1 and max(ends) - min(ends) > APART


def times_table(pairs: list[tuple[Record, Record]], title: str) -> str:
    """Learning times against the median network: the median and nine in ten of the errors, by depth."""
    lines: list[tuple[Any, ...]] = [
        ("layers", "tasks", *(f"{s:.0%} left" for s in networks.SHARES), "all", "asked", "networks scatter")
    ]
    asked = {2: "5%, 15%", 3: "10%, 25%", 4: "15%, 40%"}
    for depth in (2, 3, 4):
        some = [(f, net) for f, net in pairs if net["depth"] == depth]
        errors, scatter = defaultdict(list), []
        for f, net in some:
            for s in networks.SHARES:
                drawn = np.array(net["times"][f"{s:g}"])
                errors[s].append(abs(f["times"][f"{s:g}"] / np.median(drawn) - 1))
                scatter.append(np.median(np.abs(drawn / np.median(drawn) - 1)))
        shown = [share_of(errors[s]) for s in networks.SHARES]
        total = share_of([e for v in errors.values() for e in v])
        lines.append((depth, len(some), *shown, total, asked[depth], share_of(scatter)))
    return f"{title}: median and nine in ten of |t / median network - 1|\n{aligned(lines)}"


def share_of(values: list[float]) -> str:
    """Median and 90th percentile of errors; those that are nan are the largest."""
    if not values:
        return "-"
    v = np.sort(np.nan_to_num(values, nan=np.inf))
    at = [v[min(len(v) - 1, int(q * len(v)))] for q in (0.5, 0.9)]
    return ", ".join(f"{100 * x:.1f}%" if np.isfinite(x) else "never" for x in at)


def widened_table(rows: dict[int, Record], nets: dict[int, Record]) -> str:
    """Ends of widened families."""
    tried = {s: r["widened"] for s, r in rows.items() if "widened" in r}
    failed = {s: w["failed"] for s, w in tried.items() if "failed" in w}
    good = {s: w for s, w in tried.items() if "failed" not in w}
    wrong = {s: round(w["left"], 5) for s, w in good.items() if w["left"] > RIGHT}
    text = [
        f"not arrived in the papers' family: {len(tried)} of {len(rows)}; widened: {len(good)}, "
        f"right ends {len(good) - len(wrong)}, wrong {wrong}",
        f"no widened family: {len(failed)}: {Counter(v[:80] for v in failed.values()).most_common(5)}",
        f"directions: {Counter(str(w['directions']) for w in good.values())}; "
        f"exact {sum(w['exact'] for w in good.values())}",
    ]
    ratios = {s: half_ratio(w, nets[s]) for s, w in good.items() if w["left"] <= RIGHT}
    off = {s: round(v, 2) for s, v in ratios.items() if not 1 / OFF <= v <= OFF}
    text.append(f"half times off by more than {OFF}: {off}")
    return "\n".join(text)


def races_table(rows: dict[int, Record]) -> str:
    """Winners and missing times."""
    c, listed = Counter(), defaultdict(list)
    for seed, row in rows.items():
        if "failed" in row:
            c["failed"] += 1
            listed["failed"].append(f"{seed}: {row['failed'][:80]}")
            continue
        kind = "right" if row["named"] == row["winner"] else "none" if row["named"] is None else "wrong"
        c[kind] += 1
        arrive = [n for n, t in row["networks"].items() if np.isfinite(t)]
        lost = [n for n in arrive if not np.isfinite(row["theory"].get(n, np.nan))]
        c["all arrive"] += len(arrive) == len(row["networks"])
        c["nan where all arrive"] += bool(lost) and len(arrive) == len(row["networks"])
        early = [n for n in row["networks"] if n not in arrive and np.isfinite(row["theory"].get(n, np.nan))]
        c["arrives where none can"] += bool(early)
        if kind != "right":
            listed[kind].append(seed)
    names = (
        "right",
        "wrong",
        "none",
        "failed",
        "all arrive",
        "nan where all arrive",
        "arrives where none can",
    )
    return "\n".join([f"{len(rows)} races: " + ", ".join(f"{n} {c[n]}" for n in names), *(
        f"{k}: {v}" for k, v in listed.items())])  # fmt: skip


def widths_table(rows: dict[str, dict[int, Record]]) -> str:
    """`tight` against what networks reach."""
    lines: list[tuple[Any, ...]] = [
        (
            "set",
            "graphs",
            "loss wrong",
            "tight: reached",
            "not",
            "False: reached",
            "not",
            "None: reached",
            "not",
        )
    ]
    listed = []
    for name, some in rows.items():
        good = {s: r for s, r in some.items() if "failed" not in r}
        bad = [s for s, r in good.items() if abs(r["loss"] - r["oracle"]) > 1e-7 * r["initial"]]
        c = Counter((str(r["tight"]), r["best"] <= 2e-4) for r in good.values())
        lines.append(
            (name, len(some), len(bad), *(c[t, b] for t in ("True", "False", "None") for b in (True, False)))
        )
        above = [s for s, r in good.items() if str(r["tight"]) == "True" and r["worst"] > 2e-4]
        failed = [f"{s}: {r['failed'][:60]}" for s, r in some.items() if "failed" in r]
        listed += [f"{name}: tight but some network stays above: {above}"] * bool(above)
        listed += [f"{name}: loss differs from the oracle: {bad}"] * bool(bad)
        listed += [f"{name}: failed {len(failed)}: {failed[:3]}"] * bool(failed)
        if failed:
            reached = sum(r["best"] <= 2e-4 for r in some.values())
            listed.append(f"{name}: networks reach the oracle's loss in {reached} of {len(some)}")
    return "\n".join([aligned(lines), *listed])


def aligned(lines: list[tuple[Any, ...]]) -> str:
    """A table in columns."""
    text = [tuple(map(str, line)) for line in lines]
    widths = [max(map(len, column)) for column in zip(*text, strict=True)]
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in text)


def report(folder: Path, records: dict[str, Record]) -> str:
    """All tables of what was judged."""
    nets = networks.read(folder)
    by: dict[str, dict[Any, Record]] = defaultdict(dict)
    for name, record in records.items():
        part, *rest = name.split()
        by[" ".join([part, *rest[:-1]])][int(rest[-1])] = record
    text = []
    if ends := by.get("ends"):
        text += [f"ENDS of {len(ends)} tasks", ends_table(ends, nets), ""]
        good = [(r["auto"], nets[s]) for s, r in ends.items() if "failed" not in r["auto"]]
        arrived = [(f, net) for f, net in good if f["exact"] and f["left"] <= RIGHT]
        text += [times_table(arrived, "TIMES of basis auto where it is exact and arrives"), ""]
    if wide := by.get("widened"):
        text += ["WIDENED", widened_table(wide, nets)]
        best = [(r.get("widened", r["first"]), nets[s]) for s, r in wide.items() if "failed" not in r]
        best = [(f, net) for f, net in best if "failed" not in f and f["exact"]]
        text += [
            times_table(best, "TIMES of the default family, or the widened one where that does not arrive"),
            "",
        ]
    if found := by.get("race"):
        text += ["RACES", races_table(found), ""]
    widths = {k.split()[1]: v for k, v in by.items() if k.startswith("width ")}
    text += ["WIDTHS", widths_table(widths)] if widths else []
    seconds = [f["seconds"] for r in by.get("ends", {}).values() for f in r.values() if "seconds" in f]
    if seconds:
        text += [f"\nseconds of a solution: median {np.median(seconds):.3f}, largest {max(seconds):.1f}"]
    return "\n".join(text)


def main() -> None:
    """Judge what is missing, and print tables of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", required=True, help="name of the results, such as before")
    parser.add_argument("--part", action="append", choices=("ends", "widened", "races", "widths"))
    parser.add_argument(
        "--count", type=int, default=10**6, help="tasks, races or graphs of each set, at most"
    )
    parser.add_argument(
        "--report", action="store_true", help="print tables of what is there; compute nothing"
    )
    options = parser.parse_args()
    path = options.folder / f"{options.out}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    records = {line["name"]: line for line in lines}
    parts = options.part or ("ends", "widened", "races", "widths")
    for name, compute in [] if options.report else jobs(options.folder, parts, options.count):
        if name not in records:
            records[name] = json.loads(json.dumps({"name": name} | compute()))
            with path.open("a") as file:
                file.write(json.dumps(records[name]) + "\n")
    print(report(options.folder, records))


if __name__ == "__main__":
    main()
