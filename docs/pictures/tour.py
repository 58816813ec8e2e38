"""Draws the pictures of the tour (its network, race, random start and sweep) and of the first page.

Run as `python docs/pictures/tour.py` from the project's root.
"""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.plot import BLACK, BLUE, COLUMN, ORANGE, PAGE, figure, style

X = [[1, 1], [1, -1], [1, 1], [1, -1]]
Y = [[1, 1], [1, -1], [1, 0], [1, 0]]
EDGES = [("x", "all"), ("all", "y"), ("x", "some"), ("some", "y")]
GRAPH = nr.Graph({"x": 2, "all": 50, "some": 50, "y": 2}, EDGES)
TASK = nr.Task(GRAPH, X, Y, gates={"some": [1, 1, 0, 0]})
START = nr.init.gaussian(GRAPH, std=0.02, seed=0)


def network() -> Figure:
    """The graph, beside the loss of a network that is trained."""
    fig, (graph, loss) = figure(1, 2, width=PAGE, height=2.1)
    places = {"x": (0, 0.5), "all": (1, 0.85), "some": (1, 0.15), "y": (2, 0.5)}
    for source, target in EDGES:
        (x0, y0), (x1, y1) = places[source], places[target]
        colour = BLUE if "all" in (source, target) else ORANGE
        graph.plot([x0, x1], [y0, y1], color=colour, lw=2, zorder=0)
    for name, (x, y) in places.items():
        box = {"boxstyle": "round,pad=0.4", "fc": "white", "ec": "#888888"}
        graph.text(x, y, f"{name}\n{GRAPH.nodes[name]}", ha="center", va="center", bbox=box)
    graph.set(xlim=(-0.3, 2.3), ylim=(-0.15, 1.15), title="two pathways, with numbers of neurons")
    graph.axis("off")
    traj = nr.flow(TASK, START, t1=10.0)
    loss.plot(traj.t, traj.loss, color=BLACK)
    loss.set(
        xlabel="flow time (tau = 1)", ylabel="mean loss", ylim=(0, None), title="loss from random weights"
    )
    return fig


def race() -> Figure:
    """What each pathway carries of each mode: theory and network."""
    theory = nr.reduce(TASK).solve(strengths=0.1, t1=20.0)
    start = {edge: w[0] for edge, w in theory.weights.items()}
    net = nr.flow(TASK, start, t1=20.0, save=21)
    maps = {name: net.weights[f"{name}->y"] @ net.weights[f"x->{name}"] for name in ("all", "some")}
    fig, axes = figure(1, 2, width=PAGE, height=2.2, sharey=True)
    for mode, (ax, title) in enumerate(
        zip(axes, ("same in both contexts", "in one context only"), strict=True)
    ):
        for k, (name, colour) in enumerate((("all", BLUE), ("some", ORANGE))):
            ax.plot(theory.t, theory.strengths[:, mode, k] ** 2, color=colour, label=f"{name}, theory")
            ax.plot(net.t, maps[name][:, mode, mode], "o", color=colour, label=f"{name}, network")
        ax.set(xlabel="flow time (tau = 1)", title=title)
    axes[0].set_ylabel("carried by the pathway")
    axes[1].legend()
    return fig


def start() -> Figure:
    """Loss from random weights: predicted and simulated."""
    theory = nr.reduce(TASK, weights=START).solve(t1=10.0)
    net = nr.flow(TASK, START, t1=10.0, save=30)
    fig, ax = figure(width=COLUMN, height=2.1)
    ax.plot(theory.t, theory.loss, color=BLUE, label="reduced around the start")
    ax.plot(net.t, net.loss, "o", color=BLACK, label="network")
    ax.set(xlabel="flow time (tau = 1)", ylabel="mean loss", ylim=(0, None))
    ax.legend()
    return fig


def one_run(std: float, seed: int) -> nr.Run:
    return nr.Run(TASK, nr.init.gaussian(GRAPH, std, seed=seed), t1=60.0)


def sweep() -> Figure:
    """Half time against the size of the initial weights."""
    ds = nr.sweep(one_run, over={"std": [0.003, 0.01, 0.03, 0.1]}, seeds=5)
    fig, ax = figure(width=COLUMN, height=2.1)
    ax.plot(ds["std"], ds.half_time, "o", color=BLUE, alpha=0.5)
    ax.plot(ds["std"], ds.half_time.mean("seed"), color=BLUE, label="mean of 5 starts")
    ax.set(xscale="log", ylim=(0, None))
    ax.set(xlabel="standard deviation of initial weights", ylabel="half time (tau = 1)")
    ax.legend()
    return fig


def landing() -> Figure:
    """What the code of the first page draws."""
    page = (Path(__file__).parents[1] / "index.md").read_text()
    *lines, last = page.split("```python\n")[1].split("```")[0].strip().splitlines()
    names: dict[str, Any] = {}
    exec("\n".join([*lines, f"figure = {last}"]), names)
    return names["figure"]


if __name__ == "__main__":
    landing().savefig(Path(__file__).with_name("landing.svg"), metadata={"Date": None})
    with style():
        for draw in (network, race, start, sweep):
            file = Path(__file__).with_name(f"tour-{draw.__name__}.svg")
            draw().savefig(file, metadata={"Date": None})
