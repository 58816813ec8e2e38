"""How long a fused network knows only one of two modalities, over their correlation and ratio of size.

The target is the sum of both, each has a pathway of its own, and the larger one is learned first. From small
weights the times are as 1 to 1 + (ratio^2 - 1) / (1 - correlation^2): Zhang, Latham and Saxe (2024).
"""

import sys

import numpy as np

import neuralrace as nr

GRAPH = nr.Graph(
    {"a": 1, "v": 1, "ha": 100, "hv": 100, "y": 1}, [("a", "ha"), ("ha", "y"), ("v", "hv"), ("hv", "y")]
)


def delay(ratio: float, correlation: float, std: float = 1e-6) -> float:
    """Learning time of the smaller modality v over that of the larger one a."""
    v = np.array([[1.0], [-1.0], [1.0], [-1.0]])
    other = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    a = ratio * (correlation * v + np.sqrt(1 - correlation**2) * other)
    task = nr.Task(GRAPH, {"a": a, "v": v}, a + v)
    run = nr.flow(task, nr.init.gaussian(GRAPH, std), t1=500.0)
    first = (1 + correlation / ratio) / 2  # half of what a learns alone
    return nr.learning_time(run, 0.5, of="v") / nr.learning_time(run, first, of="a")


def figure():
    fig, ax = nr.plot.figure()
    rho = np.linspace(-0.8, 0.8, 101)
    for ratio, colour in zip((1.2, 1.5, 2.0), nr.plot.COLOURS, strict=False):
        nr.plot.theory(ax, rho, 1 + (ratio**2 - 1) / (1 - rho**2), colour, f"a {ratio} times as large as v")
        ax.plot(rho[::10], [delay(ratio, r) for r in rho[::10]], "o", color=colour, markersize=3)
    nr.plot.label(ax, "correlation of a and v", "learning time of v / of a", legend="best")
    return fig


if __name__ == "__main__":
    figure().savefig(sys.argv[1] if len(sys.argv) > 1 else "unimodal_phase.svg")
