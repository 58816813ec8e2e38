"""Draws `walk.svg`: the forms that one sample takes on its way from arrays to a figure.

Run as `python docs/pictures/walk.py` from the project's root.
"""

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from neuralrace import plot

STEPS = (  # what is called, the form of the data after it, what happens to one sample x, y
    ("Task(graph, X, Y, gates)", "samples\narrays (n, size) by node", "checked and kept as float64 rows"),
    ("task.moment_contexts", "contexts\nblocks: table and place",
     "joins the samples with its gates;\nthey become moments, as few rows"),
    ("network.program", "program\nplan + numbers on the device", "its rows are part of a batched product"),
    ("flow(task, weights, t1)", "flat weights\n(runs, n)", "pulls on the weights through the gradient"),
    ("", "Trajectory\nt, loss, weights by edge, history", "is seen in loss and weights over time"),
    ("learning_time · plot", "number · figure", "learned by this time"),
)  # fmt: skip


def draw() -> Figure:
    with plot.style():
        fig = Figure(figsize=(7.0, 5.2))
        ax = fig.subplots()
        ax.set(xlim=(0, 10), ylim=(-0.6, 2 * len(STEPS) - 1.2))
        ax.axis("off")
        for k, (call, form, meaning) in enumerate(STEPS):
            y = 2 * (len(STEPS) - 1 - k)
            box = FancyBboxPatch(
                (3.1, y - 0.35), 3.3, 0.9, "round,pad=0.12", fc="#EAF2F8", ec=plot.BLUE, lw=1
            )
            ax.add_patch(box)
            ax.text(4.75, y + 0.1, form, ha="center", va="center", fontsize=8)
            ax.text(6.8, y + 0.1, meaning, ha="left", va="center", fontsize=7.5, color="#444444")
            if k:
                arrow = FancyArrowPatch(
                    (4.75, y + 1.48), (4.75, y + 0.72), arrowstyle="-|>", mutation_scale=11
                )
                ax.add_patch(arrow)
            name = call or "finish"
            ax.text(
                2.8, y + 1.1 if k else y + 0.1, name, ha="right", va="center", fontsize=8, family="monospace"
            )
    return fig


if __name__ == "__main__":
    draw().savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
