"""Four items and their properties form a hierarchy. The singular value decomposition of their correlations
finds it: one mode for what all share, one for animals against plants, one each for the two animals and the
two plants. A linear network with one hidden layer learns these modes one after the other, each along a
logistic curve that starts from the share that the random initial weights have of it. One with fewer hidden
units than modes learns as many modes as it has units, the strongest ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace.dynamics import State
from neuralrace_papers.framework import Data, Experiment, figure, part, rows

ITEMS = ("canary", "salmon", "oak", "rose")
PROPERTIES = ("grow", "move", "roots", "fly", "swim", "leaves", "petals")
MODES = {
    "all": plot.BLACK,
    "animal or plant": plot.BLUE,
    "canary or salmon": plot.ORANGE,
    "oak or rose": plot.GREEN,
}
X, Y = nr.tasks.hierarchy(3).arrays
SYX, VARIANCE = Y.T @ X / len(X), 1 / len(ITEMS)  # one-hot items have this variance in any direction
# Syx = U diag(S) V^T. Two strengths are equal and their modes not unique; V has the contrasts of the tree.
V = np.array([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]]).T
V = V / np.linalg.norm(V, axis=0)
S = np.linalg.norm(SYX @ V, axis=0)
U = SYX @ V / S


@dataclass(frozen=True)
class LinearBackground:
    seeds: Annotated[int, "random starts of each network"] = 10
    hidden: Annotated[int, "hidden units"] = 64
    std: Annotated[float, "standard deviation of initial weights"] = 1e-3
    t1: Annotated[float, "end of training, flow time"] = 45.0
    save: Annotated[int, "times that are saved"] = 451
    strength: Annotated[float, "initial strength of each mode and layer, for aligned weights"] = 1e-3
    rates: Annotated[tuple[float, ...], "learning rates of descent by one sample a step"] = (0.1, 0.01)
    narrow: Annotated[tuple[int, ...], "hidden units of networks with fewer units than modes"] = (1, 2, 3)
    long: Annotated[float, "end of their training, flow time"] = 400.0


def in_modes(state: State) -> dict[str, Any]:
    """The map of the network in the modes of the data, `U^T W V`."""
    return {"map": (state.activity("y", V.T) @ U).T}


@part
def random(p: LinearBackground):
    """Networks from small random weights; Eq. 7 for each mode, and all modes together, from these weights."""
    task = nr.tasks.hierarchy(3, hidden=p.hidden)
    start = nr.init.gaussian(task.graph, p.std, seed=range(p.seeds))
    accurate = nr.Adaptive(1e-9, 1e-12)
    run = nr.flow(task, start, p.t1, p.save, method=accurate, record=in_modes, save_weights=False)
    grows = nr.measure.growing_part(start["x->h1"], start["h1->y"], V, U)
    root = VARIANCE**0.5  # turns inputs white
    layers = [nr.exact.balanced(run.t, root * z, root * z.T, np.diag(S)) for z in grows]
    return {
        "t": ("t", run.t),
        "map": ("run t out in", run.recorded["map"]),
        "strength": ("run t mode", np.einsum("rtii->rti", run.recorded["map"])),
        "theory": ("run t mode", eq7(run.t, (grows**2).sum(axis=-2)[:, None])),
        "together": ("run t out in", np.stack([b2 @ b1 for b1, b2 in layers]) / VARIANCE),
    }


@part
def aligned(p: LinearBackground):
    """Half time of each mode from decoupled weights, with inputs as they are and twice as large.

    Targets are then half as large, so that `Syx` stays.
    """
    task = nr.tasks.hierarchy(3, hidden=len(ITEMS))
    start, accurate = nr.init.decoupled(nr.reduce(task), p.strength), nr.Adaptive(1e-11, 1e-14)
    times = []
    for scale in (1, 2):
        scaled, variance = nr.Task(task.graph, scale * X, Y / scale), VARIANCE * scale**2
        run = nr.flow(scaled, start, p.t1, p.save, method=accurate, record=in_modes, save_weights=False)
        modes = np.einsum("tii->ti", run.recorded["map"])
        times.append(half_times(run.t, modes, variance))
    return {"half": ("scale mode", times)}


@part(each="rates")
def stochastic(p: LinearBackground, rate: float):
    """Half times of modes where each step sees one sample drawn at random, and where it sees all of them."""
    task, half = nr.tasks.hierarchy(3, hidden=p.hidden), []
    start = nr.init.gaussian(task.graph, p.std, seed=range(p.seeds))
    for batch in (1, None):
        more: dict[str, Any] = {"batch_size": batch, "record": in_modes, "save_weights": False}
        run = nr.descend(task, start, rate, round(p.t1 / rate), p.save, **more)
        half.append(half_times(run.t, np.einsum("rtii->rti", run.recorded["map"])))
    return {"half": ("batch run mode", half)}


@part(each="narrow")
def narrow(p: LinearBackground, hidden: int):
    """Singular values of the map that networks with few hidden units end with."""
    task = nr.tasks.hierarchy(3, hidden=hidden)
    start = nr.init.gaussian(task.graph, p.std, seed=range(p.seeds))
    run = nr.flow(task, start, p.long, 2, record=in_modes, save_weights=False)
    values = np.linalg.svd(run.recorded["map"][:, -1], compute_uv=False)
    return {"values": ("run mode", values)}


def eq7(t: np.ndarray, a0: Any, variance: float = VARIANCE) -> np.ndarray:
    """Eq. 7 for every mode, `(..., t, mode)`."""
    return nr.exact.chain(t[:, None], S, variance, a0)


def half_times(t: Any, modes: Any, variance: float = VARIANCE) -> np.ndarray:
    """When modes `(..., t, mode)` are half learned, `(..., mode)`."""
    return nr.measure.crossing(t, modes, S / variance / 2, rising=True, axis=-2)


def labelled_matrix(
    ax: Any, values: Any, rows: Sequence[object], columns: Sequence[object], title: str = ""
) -> Any:
    """A small matrix as an image, with names of rows and columns and numbers in its cells."""
    values = np.asarray(values, float)
    image = plot.matrix(ax, values, title)
    ax.set(yticks=range(len(rows)), yticklabels=rows, xticks=range(len(columns)))
    ax.set_xticklabels(columns, rotation=45 if isinstance(columns[0], str) else 0)
    for (i, k), value in np.ndenumerate(values):
        if abs(value) > 1e-9:
            colour = "black" if abs(value) < 0.6 * np.abs(values).max() else "white"
            text = f"{value:.2f}".replace("0.", ".")
            ax.text(k, i, text, ha="center", va="center", size=plot.sized("font.size", 0.75), color=colour)
    return image


@figure("linear-background-data")
def decomposition(p: LinearBackground, data: Data):
    fig, (a, b, c, d) = plot.figure(1, 4, height=2.5)
    numbers = range(1, 5)
    labelled_matrix(a, SYX, PROPERTIES, ITEMS, r"$\Sigma^{yx}$")
    labelled_matrix(b, U, PROPERTIES, numbers, "= U: properties of modes")
    labelled_matrix(c, np.diag(S), numbers, numbers, "S: strengths")
    labelled_matrix(d, V.T, numbers, ITEMS, r"$V^T$: items of modes")
    return fig, "The correlations of items and properties, and their singular value decomposition."


@figure("linear-background-modes")
def modes(p: LinearBackground, data: Data):
    fig, axes = plot.figure(2, 5, height=3.9, gridspec_kw={"height_ratios": (1, 2.4)})
    d = data.random
    first, second, *equal = np.median(half_times(d.t, d.strength), axis=0)
    for ax, t in zip(axes[0], (0, first, second, np.mean(equal), p.t1), strict=True):
        now = d["map"][0].sel(t=t, method="nearest")
        plot.matrix(ax, now, f"A(t), t = {now.t.item():.3g}", limit=S[0] / VARIANCE)
        ax.set(aspect="equal", xticks=range(4), xticklabels=range(1, 5), xlabel="input mode")
    axes[0, 0].set(yticks=range(4), yticklabels=range(1, 5), ylabel="output mode")
    fig.colorbar(axes[0, 0].images[0], ax=axes[0], label="strength", shrink=0.9)
    for ax in axes[1]:
        ax.remove()
    ax = fig.add_subplot(axes[1, 0].get_gridspec()[1, :])
    for k, (name, colour) in enumerate(MODES.items()):
        plot.runs(ax, d.t, d.strength[..., k], colour, name)
        plot.theory(ax, d.t, d.theory[..., k].median("run"), colour, lw=0.9, ls="--")
    plot.key(ax, {"Eq. 7": "--"})
    key, limits = {"loc": "lower right", "ncols": 3}, {"xlim": (0, p.t1), "ylim": (0, None)}
    plot.label(ax, "time (τ = 1)", "strength of the mode", legend=key, **limits)
    return fig, (
        "Top: the map of one network in the modes of the data, at the start, where modes are half learned, "
        f"and at the end. Bottom: strength of each mode in {p.seeds} networks from small random weights "
        "(median and range), and Eq. 7 from the share of these weights in the mode (dashed, median)."
    )


@rows
def of_the_data(p: LinearBackground, data: Data):
    u, _, vt = np.linalg.svd(SYX, full_matrices=False)
    animals, plants, (move, roots) = vt[1, :2], vt[1, 2:], u[1:3, 1]
    yield "animals-and-plants", min(*(animals * move), *(plants * roots), -animals[0] * plants[0])
    yield "last-rows", np.linalg.norm(vt[2:] @ V[:, 2:], axis=0)


@rows
def of_networks(p: LinearBackground, data: Data):
    d = data.random
    half = half_times(d.t, d.strength)
    ahead = half_times(d.t, d.theory) / half - 1
    for k, mode in enumerate(MODES):
        yield f"half-time-{mode.replace(' ', '-')}", ahead[:, k]
    together = half_times(d.t, np.einsum("rtii->rti", d.together)) / half - 1
    yield "half-times-together", np.abs(together).max(axis=1)
    yield "map-together", np.abs(d["map"] - d.together).max(("t", "out", "in")) / (S[0] / VARIANCE)
    yield "order-of-modes", (half[:, 0] < half[:, 1]) & (half[:, 1] < half[:, 2:].min(axis=1))
    yield "half-time-exponent", [np.polyfit(np.log(S), np.log(each), 1)[0] for each in half]
    plain, double = data.aligned.half.values
    yield "input-variance", double / plain - 1
    for rate, found in data.stochastic.items():
        one, every = found.half.values
        yield f"stochastic-{rate:g}", (one / every - 1).mean(axis=1)
        yield f"stochastic-{rate:g}-apart", np.abs(one / every - 1).max(axis=1)


@rows
def of_narrow_networks(p: LinearBackground, data: Data):
    targets = S / VARIANCE
    for hidden, d in data.narrow.items():
        kept = np.where(np.arange(len(S)) < hidden, targets, 0)
        yield f"narrow-{hidden}", np.abs(d["values"] - kept).max("mode")


EXPERIMENT = Experiment(
    "linear-background",
    "Linear networks: a hierarchy is learned mode by mode",
    "make_haste_slowly Fig. 7, Eq. 7",
    LinearBackground(),
    quick={"seeds": 3, "rates": (0.1,)},
    minutes=(0.1, 0.2),
)
