"""Flow of a wide hidden layer between input and output costs what a narrow one does.

Such a layer learns in the span of its initial weights, and the flow is computed there. Saved weights are
full, so many saves of a wide layer take the time it takes to write them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import neuralrace as nr
from benchmarks.measure import Row, fresh, race, seconds


def flow_of(width: int, save: int) -> Callable[[], Any]:
    task = nr.tasks.hierarchy(4, hidden=width)  # 8 inputs, 15 outputs
    weights = nr.init.gaussian(task.graph, std=1e-2 / np.sqrt(width))
    return lambda: nr.flow(task, weights, t1=100.0, save=save)


def cold(width: int, save: int) -> float:
    return seconds(flow_of(width, save))


def warm(widths: list[int], save: int) -> list[float]:
    flows = {str(width): flow_of(width, save) for width in widths}
    return list(race(flows, 10).values())


def run(quick: bool) -> list[Row]:
    widths, rows = [30, 300 if quick else 3000], []
    for save in (2, 200):
        again = fresh(warm, widths, save)
        base, ours = ({"cold": fresh(cold, w, save), "warm": t} for w, t in zip(widths, again, strict=True))
        what, baseline = f"flow, width {widths[1]}, {save} saves", f"width {widths[0]}"
        rows.append(Row("wide", what, baseline, ours=ours, base=base))
    return rows
