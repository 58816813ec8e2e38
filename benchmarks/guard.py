"""The guard: claims of all experiments at one commit, and whether they are the same now.

`guard.json` holds for each form (quick, full) the commit, and of each claim its id and name, what was
measured, its spread over seeds, what was expected and whether it held (null where undecided). Claims are
found again by their id, or by their name where one of both has no id.

    python -m benchmarks.guard store FOLDER --form quick --commit 35581ac
    python -m benchmarks.guard compare FOLDER --form quick

FOLDER is what `neuralrace run --out FOLDER` wrote, of which runs of that form without changed parameters
count; `compare` looks at those experiments that are in both. It prints one row for each experiment and ends
with status 1 where a verdict changed or a claim is missing.

The difference of two measured values is relative to the larger of them, and given in units of the spread over
seeds too. A claim such as "largest difference from theory < 1e-07" measures an error, which near rounding is
noise: where both values are below 1e-6, and the claim has a bound (or asks for 0 within a tolerance), their
difference is relative to that bound instead, in a column of its own ("of bound").
"""

import argparse
import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STORE = Path(__file__).with_name("guard.json")
FORMS = ("quick", "full")
KEPT = ("id", "name", "measured", "spread", "holds", "expected", "tolerance")
ROUNDING = 1e-6  # errors below this are noise
BOUND = re.compile(r"[<>]=? ?([-+.\de]+)")

Claim = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """How the claims of an experiment differ from the stored ones."""

    name: str
    claims: int
    difference: float  # largest relative one
    spreads: float  # that difference in units of the spread over seeds, nan where there is none
    claim: str  # to which it belongs
    errors: float  # largest difference of errors near rounding, as a share of their bound
    changed: tuple[str, ...]  # claims with another verdict, or missing


def read(folder: Path, form: str) -> dict[str, list[dict[str, Any]]]:
    """Claims of the experiments in a folder of results, by the name of the experiment."""
    found = {}
    for file in sorted(folder.glob("*/result.json")):
        result = json.loads(file.read_text(encoding="utf-8"))
        name, quick = result.get("name", file.parent.name), result.get("quick", form == "quick")
        unchanged = file.parent.name in (name, f"{name}-quick")  # folders name changed parameters
        if unchanged and quick == (form == "quick"):
            found[name] = [{k: c[k] for k in KEPT if k in c} for c in result["claims"]]
    if not found:
        sys.exit(f"FOLDER must hold results of experiments in their {form} form; there are none in {folder}")
    return found


def bound(claim: Claim) -> float | None:
    """The bound of a claim, or the tolerance of one that asks for 0."""
    expected = claim["expected"]
    if isinstance(expected, str):
        found = BOUND.fullmatch(expected)
        return abs(float(found[1])) if found else None
    return claim["tolerance"] if expected == 0 else None


def difference(old: Claim, new: Claim) -> tuple[float, bool]:
    """Of what two claims measured, relative; and whether they are errors near rounding, as above.

    >>> one = {"measured": 2.0, "expected": "> 1", "tolerance": None}
    >>> difference(one, one | {"measured": 2.5})
    (0.2, False)
    >>> error = {"measured": 1e-8, "expected": "< 1e-07", "tolerance": None}
    >>> difference(error, error | {"measured": 5e-8})
    (0.4, True)
    """
    a, b = (math.nan if c["measured"] is None else float(c["measured"]) for c in (old, new))
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0, False
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf, False
    scale, limit = max(abs(a), abs(b)), bound(new)
    return (abs(a - b) / limit, True) if limit and scale < ROUNDING else (abs(a - b) / scale, False)


def pairs(old: Sequence[Claim], new: Sequence[Claim]) -> list[tuple[Claim, Claim | None]]:
    """Each old claim with its new one: of that id, else, where one of both has no id, of that name."""
    by_id = {c["id"]: c for c in new if c.get("id")}
    by_name = {c["name"]: c for c in new}
    found = []
    for claim in old:
        other = by_id.get(claim.get("id"))
        if other is None:
            named = by_name.get(claim["name"])
            other = named if named is not None and not (claim.get("id") and named.get("id")) else None
        found.append((claim, other))
    return found


def compare(name: str, old: Sequence[Claim], new: Sequence[Claim]) -> Row:
    """The row of an experiment."""
    worst, errors, claim, spreads, changed = 0.0, 0.0, "", math.nan, []
    for a, b in pairs(old, new):
        title = a.get("id") or a["name"]
        if b is None or b["holds"] != a["holds"]:
            changed.append(title)
        if b is None:
            continue
        found, error = difference(a, b)
        if error:
            errors = max(errors, found)
        elif found > worst:
            worst, claim = found, title
            known = a["spread"] and math.isfinite(found)
            spreads = abs(a["measured"] - b["measured"]) / a["spread"] if known else math.nan
    return Row(name, len(old), worst, spreads, claim, errors, tuple(changed))


def table(rows: Iterable[Row]) -> str:
    """Rows as text."""
    line = "{:<18} {:>6} {:>10} {:>8} {:>8} {:>7}  {}".format
    lines = [line("experiment", "claims", "difference", "spreads", "of bound", "changed", "largest in")]
    for r in rows:
        numbers = ("" if math.isnan(v) or not v else f"{v:.1e}" for v in (r.difference, r.spreads, r.errors))
        lines.append(line(r.name, r.claims, *numbers, len(r.changed), r.claim))
        lines += [f"    verdict changed: {claim}" for claim in r.changed]
    return "\n".join(lines)


def write(stored: Mapping[str, Any], path: Path) -> None:
    """One line for each claim, so that changes can be read."""
    text = json.dumps(stored, ensure_ascii=False, separators=(",", ":"))
    path.write_text(re.sub(r'(?<=[\[,])(?=\{"(?:id|name)":)', "\n", text) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None, path: Path = STORE) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.guard", description="Compare claims with stored ones."
    )
    parser.add_argument("action", choices=("store", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--form", choices=FORMS, required=True)
    parser.add_argument("--commit", help="the commit of the results; needed to store")
    given = parser.parse_args(arguments)
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    found = read(given.folder, given.form)
    if given.action == "store":
        if not given.commit:
            parser.error("--commit is needed to store")
        write({**stored, given.form: {"commit": given.commit, "experiments": found}}, path)
        return 0
    if given.form not in stored:
        parser.error(f"no claims of the {given.form} form are stored")
    before = stored[given.form]["experiments"]
    rows = [compare(name, before[name], found[name]) for name in before if name in found]
    print(f"{len(rows)} experiments, {given.form} form, against commit {stored[given.form]['commit']}")
    print(table(rows))
    return int(any(r.changed for r in rows))


if __name__ == "__main__":
    sys.exit(main())
