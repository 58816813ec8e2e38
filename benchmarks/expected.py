"""Learning times predicted from depth, width and size of the weights alone, against drawn networks.

The hierarchy of 8 items, chains of depth 2 to 5, two widths, three sizes of gaussian weights, and two points
with other laws; 50 drawn networks at each. Run as `python -m benchmarks.expected` from the project's root: it
prints a table and draws `docs/pictures/expected.svg`. With `--completed 24` it compares the errors that are
stated with those of the same draws, completed to full networks, on so many random chains.
"""

import argparse
import math
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace.expected import Draws, converged_times
from neuralrace.revealed import LAWS, RevealedNetwork

DEPTHS, WIDTHS, GAINS = (2, 3, 4, 5), (50, 200), (0.3, 0.7, 1.0)
OTHERS = (("xavier", 4, 100, 0.7), ("orthogonal", 4, 100, 0.7))
DRAWN, LEVEL = 50, 0.6  # networks per point; loss, of 2 without any weights
SOLVER = nr.Adaptive(rtol=1e-4, atol=1e-6)
COLOURS = plot.BLUE, plot.RED
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "expected.svg"


@cache
def hierarchy(depth: int, width: int) -> nr.Task:
    """Made once, so that it is compiled once."""
    return nr.tasks.hierarchy(graph=nr.Graph.chain([8, *[width] * (depth - 1), 15]))


def point(k: int, init: str, depth: int, width: int, gain: float) -> dict[str, Any]:
    """The prediction and the learning times of drawn networks, with seeds of their own at each point."""
    task = hierarchy(depth, width)
    scale = gain / math.sqrt(width) if init == "gaussian" else gain
    began = time.perf_counter()
    found = nr.expected_learning_time(task, init, scale, LEVEL, seed=k)
    seconds = time.perf_counter() - began
    weights = getattr(nr.init, init)(task.graph, scale, seed=range(DRAWN * k, DRAWN * (k + 1)))
    run = nr.flow(task, weights, 1e6, 2, stop_loss=LEVEL, method=SOLVER, save_weights=False)
    drawn = nr.learning_time(run, LEVEL)
    error = found.mean / drawn.mean() - 1
    sure = math.hypot(found.standard_error, drawn.std(ddof=1) / math.sqrt(DRAWN)) / drawn.mean()
    row = {
        "init": init, "depth": depth, "width": width, "gain": gain, "mean": found.mean,
        "spread": found.spread, "truncated": found.error / found.mean, "hidden": max(found.hidden.values()),
        "drawn": drawn.mean(), "drawn_spread": drawn.std(ddof=1), "error": error, "sure": sure,
        "seconds": seconds, "drawn_seconds": time.perf_counter() - began - seconds,
    }  # fmt: skip
    print(line(row), flush=True)
    return row


HEAD = """| law | depth | width | gain | predicted | drawn | error | standard errors | left out | directions |
|---|---|---|---|---|---|---|---|---|---|"""


def line(r: dict[str, Any]) -> str:
    """A row of the table."""
    cells = (
        r["init"], r["depth"], r["width"], f"{r['gain']:g}",
        f"{r['mean']:.4g} +- {r['spread']:.2g}", f"{r['drawn']:.4g} +- {r['drawn_spread']:.2g}",
        f"{100 * r['error']:+.2f}%", f"{r['error'] / r['sure']:+.1f}",
        f"{r['truncated']:.1e}" if r["truncated"] else "0", r["hidden"],
    )  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def draw(rows: list[dict[str, Any]]) -> Any:
    """Mean learning times, their spread, and the error of the predicted mean; one column per depth."""
    fig, axes = plot.figure(3, len(DEPTHS), height=4.6, sharex=True, sharey="row")
    with plot.style():
        for (mean, spread, error), depth in zip(axes.T, DEPTHS, strict=True):
            for width, colour, marker, shift in zip(WIDTHS, COLOURS, "os", (-0.012, 0.012), strict=True):
                some = [r for r in rows if (r["init"], r["depth"], r["width"]) == ("gaussian", depth, width)]
                r = {k: np.array([row[k] for row in some]) for k in some[0]}
                marks = {"ls": "", "marker": marker, "ms": 4, "mfc": "white", "color": colour, "zorder": 4}
                label = f"width {width}, {DRAWN} drawn"
                plot.theory(mean, r["gain"], r["mean"], colour, f"width {width}, predicted")
                mean.plot(r["gain"], r["drawn"], label=label, **marks)
                plot.theory(spread, r["gain"], 100 * r["spread"] / r["mean"], colour)
                share = 100 * r["drawn_spread"] / r["drawn"]
                spread.errorbar(
                    r["gain"] + shift, share, share / math.sqrt(2 * DRAWN - 2), lw=0.9, capsize=2, **marks
                )
                error.errorbar(
                    r["gain"] + shift, 100 * r["error"], 100 * r["sure"], lw=0.9, capsize=2, **marks
                )
            mean.set_title(f"depth {depth}")
            mean.set_yscale("log")
            error.axhline(0, color=plot.BLACK, lw=0.7)
            error.set(xlabel="std √width", xticks=GAINS)
        axes[0, 0].set_ylabel("mean learning time\n(flow time, τ = 1)")
        axes[1, 0].set(ylabel="standard deviation\n(% of the mean)", ylim=(0, None))
        axes[2, 0].set_ylabel("error of the\npredicted mean (%)")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=4)
    return fig


def rms(x: np.ndarray) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(x**2)))


def main() -> None:
    """Compute, print, draw."""
    print(HEAD)
    points = [("gaussian", d, w, g) for d in DEPTHS for w in WIDTHS for g in GAINS]
    rows = [point(k, *p) for k, p in enumerate((*points, *OTHERS))]
    error, sure = (np.array([r[k] for r in rows]) for k in ("error", "sure"))
    largest, usual, in_errors = np.abs(error).max(), rms(error), rms(error / sure)
    print(f"\nerror of the mean: largest {largest:.2%}, root mean square {usual:.2%}", end=", ")
    print(f"in standard errors {in_errors:.2f} (largest {np.abs(error / sure).max():.1f})")
    print(f"seconds: predicted {sum(r['seconds'] for r in rows):.0f}", end=", ")
    print(f"drawn {sum(r['drawn_seconds'] for r in rows):.0f}")
    draw(rows).savefig(PICTURE, metadata={"Date": None})


def completed(seed: int) -> tuple[float, float] | None:
    """A random chain: the stated error of its mean learning time, and the true one; None if drawn whole."""
    rng = np.random.default_rng(seed)
    init = str(rng.choice(("gaussian", "xavier", "orthogonal")))
    inputs, outputs = rng.integers(1, 6, 2)
    hidden = rng.integers(60, 120, rng.integers(2, 6))
    hidden = hidden if rng.random() < 0.5 else np.full_like(hidden, hidden[0])
    scale = 10 ** rng.uniform(-0.8, 0.15) / (math.sqrt(hidden[0]) if init == "gaussian" else 1)
    x = rng.standard_normal((12, inputs)) * rng.uniform(0.3, 2, inputs)
    task = nr.Task(nr.Graph.chain([inputs, *hidden, outputs]), x, x @ rng.standard_normal((inputs, outputs)))
    network = RevealedNetwork(task, task.graph.nodes, lambda shape: LAWS[init](rng, 8, shape, scale))
    network.follow_start(128)
    level = rng.choice([0.9, 0.5, 0.1, 0.02]) * float(network.start()[0].mean())
    draws = Draws(network, level, None)
    times, stated, rounds = converged_times(draws, 2e-3)
    most = max(network.known[n] for n in task.graph.hidden)
    if network.known == network.sizes:
        return None
    for node in task.graph.hidden:
        network.extend(node, network.sizes[node] - network.known[node])
    true, _ = draws.solve()
    error = abs(times.mean() / true.mean() - 1)
    print(f"{seed}: {init}, hidden {hidden}, scale {scale:.2g}, level {level:.2g}, {rounds} rounds", end=", ")
    print(f"at most {most} directions: stated {stated:.1e}, true {error:.1e}", flush=True)
    return stated, float(error)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--completed", type=int, default=0)
    count = parser.parse_args().completed
    if count:
        pairs = np.array([p for p in map(completed, range(count)) if p])
        print(
            f"{len(pairs)} chains: true error at most {pairs[:, 1].max():.1e}, beyond the stated one", end=" "
        )
        print(f"by at most {(pairs[:, 1] - pairs[:, 0]).max():.1e}")
    else:
        main()
