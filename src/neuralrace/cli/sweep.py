"""`neuralrace sweep`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from neuralrace.apps.sweep.axes import read_axis
from neuralrace.apps.sweep.experiment import sweep_experiment
from neuralrace.apps.sweep.figure import sweep_figure
from neuralrace.errors import InputError, known
from neuralrace.files import write


def run_sweep(given: Namespace) -> int:
    """Sweep an experiment, print where the result is, and draw the measures that were asked for."""
    over = dict(read_axis(text) for text in given.over)
    if len(over) < len(given.over):
        raise InputError("--over must name every parameter once")
    if not over:
        raise InputError("--over must be given at least once, as in --over trained=1:6")
    out = f"sweep-{given.name}" if given.out is None else given.out
    zipped = [tuple(names.split(",")) for names in given.zip]
    against = given.against.split(",") if given.against else None
    if against is not None:
        known("--against", against, over, "axis")
    names = ("quick", "seeds", "jobs", "cluster", "retry_failed")
    same = {name: getattr(given, name) for name in names}
    ds = sweep_experiment(given.name, over, out, zipped=zipped, progress=True, **same)
    out, failed = Path(out), int((ds.status == "FAILED").sum())
    print(f"{ds.status.size} points, {failed} failed" if failed else f"{ds.status.size} points")
    measures = [str(n) for n in ds.data_vars if n not in ("status", "seconds", "steps", "error")]
    shown = ", ".join(m for m in measures if not m.startswith("spread:"))
    for measure in given.measure:
        if measure not in measures:
            raise InputError(f"--measure must be one of {shown}; or spread:ID of one; got {measure!r}")
        figure = sweep_figure(ds, measure, against)
        path = out / f"{measure.replace(':', '-')}.svg"
        write(path, lambda file, figure=figure: figure.savefig(file, format="svg"))
        print(f"  {path}")
    print(f"  {out / 'data.zarr'}\n  {out / 'runs.parquet'}")
    if not given.measure:
        print(f"draw one with --measure ID: {shown}")
    return 1 if failed else 0
