"""Four items and their properties form a hierarchy. The singular value decomposition of their correlations
finds it: one mode for what all share, one for animals against plants, one each for the two animals and the
two plants. A linear network with one hidden layer learns these modes one after the other, each along a
logistic curve that starts from what the random initial weights hold of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import plot
from neuralrace.experiments.old import (
    Claim,
    Experiment,
    Parameters,
    Parts,
    Results,
    check,
    finding,
    kebab,
    option,
    paper,
)
from neuralrace.measure import crossing

FIG, EQ = "make_haste_slowly Fig. 7", "make_haste_slowly Eq. 7"
TALK = "learning_dynamics_talk Eq. 13-15"
ITEMS = ("canary", "salmon", "oak", "rose")
PROPERTIES = ("grow", "move", "roots", "fly", "swim", "leaves", "petals")
MODES = ("all", "animal or plant", "canary or salmon", "oak or rose")
COLOURS = (plot.BLACK, plot.BLUE, plot.ORANGE, plot.GREEN)
VARIANCE = 1 / len(ITEMS)  # of the inputs, one-hot items, in any direction


def _decomposition() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U, s and V of `Syx = U diag(s) V^T`. Two strengths are equal, so their modes could be turned into each
    other; here V holds the contrasts of the tree."""
    x, y = nr.tasks.hierarchy(3).arrays
    v = np.array([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]]).T
    v = v / np.linalg.norm(v, axis=0)
    u = y.T @ x @ v / len(x)
    s = np.linalg.norm(u, axis=0)
    return u / s, s, v


U, S, V = _decomposition()


@dataclass(frozen=True)
class LinearBackground(Parameters):
    hidden: int = option(64, "hidden units", least=len(ITEMS))
    std: float = option(1e-3, "standard deviation of initial weights")
    t1: float = option(45.0, "end of training, flow time")
    save: int = option(451, "times that are saved", least=2)
    strength: float = option(1e-3, "initial strength of each mode and layer, for aligned weights")


def compute(p: LinearBackground, parts: Parts) -> Results:
    return {"random": parts("random", train, p), "aligned": parts("aligned", aligned, p)}


def recorded(state: nr.State) -> dict[str, Any]:
    """What of each mode is said to each mode's inputs, `(4, 4)`."""
    return {"modes": (state.activity("y", V.T) @ U).T}


def train(p: LinearBackground) -> dict[str, Any]:
    """Networks from small random weights and what is predicted from these: modes `(seeds, save, 4, 4)`."""
    task = nr.tasks.hierarchy(3, hidden=p.hidden)
    start = nr.init.gaussian(task.graph, p.std, seed=range(p.seeds))
    run = nr.flow(
        task, start, p.t1, p.save, method=nr.Adaptive(1e-9, 1e-12), record=recorded, save_weights=False
    )
    w1, w2 = start.values()
    # What grows of a mode is the mean of its weights in both layers; the rest decays (theory section 9).
    grows = (w1 @ V + np.swapaxes(w2, -1, -2) @ U) / 2
    root = VARIANCE**0.5  # turns inputs white
    layers = [nr.exact.balanced(run.t, root * z, root * z.T, np.diag(S)) for z in grows]
    return {
        "t": run.t,
        "loss": run.loss,
        "modes": run.recorded["modes"],
        "a0": (grows**2).sum(axis=-2),
        "together": np.stack([b2 @ b1 for b1, b2 in layers]) / VARIANCE,
    }


def aligned(p: LinearBackground) -> dict[str, Any]:
    """From decoupled weights: largest distance of the modes from Eq. 7, and times to half of each mode, with
    inputs as they are and twice as large (targets half as large, so that `Syx` stays)."""
    task = nr.tasks.hierarchy(3, hidden=len(ITEMS))
    x, y = task.arrays
    start = nr.init.decoupled(nr.reduce(task), p.strength)
    times, gap = [], 0.0
    for scale in (1, 2):
        variance = VARIANCE * scale**2
        scaled, fine = nr.Task(task.graph, scale * x, y / scale), nr.Adaptive(1e-11, 1e-14)
        run = nr.flow(scaled, start, p.t1, p.save, method=fine, record=recorded, save_weights=False)
        modes = np.einsum("tii->ti", run.recorded["modes"])
        gap = max(gap, np.abs(modes - predicted(run.t, np.array(p.strength**2), variance)).max())
        times.append([half_time(run.t, m, final) for m, final in zip(modes.T, S / variance, strict=True)])
    return {"gap": gap, "times": times}


def predicted(t: np.ndarray, a0: np.ndarray, variance: float = VARIANCE) -> np.ndarray:
    """Eq. 7 for every mode, `(..., save, 4)`, from strengths `(..., 4)`."""
    return nr.exact.chain(t[:, None], S, variance, a0[..., None, :] if a0.ndim else a0)


def half_time(t: np.ndarray, mode: np.ndarray, final: float) -> float:
    return crossing(t, -mode, -final / 2)


def half_times(t: np.ndarray, modes: np.ndarray) -> np.ndarray:
    """When each mode is half learned, `(seeds, 4)`."""
    return np.array([[half_time(t, m, s / VARIANCE) for m, s in zip(one.T, S, strict=True)] for one in modes])


def figures(p: LinearBackground, r: Results) -> dict[str, tuple[Figure, str]]:
    return {"linear-background-data": data(), "linear-background-modes": modes(p, r["random"])}


def data() -> tuple[Figure, str]:
    fig, axes = plot.figure(1, 4, height=2.5)
    parts = (
        (U @ np.diag(S) @ V.T, r"$\Sigma^{yx}$", PROPERTIES, ITEMS),
        (U, "= U: what modes say", PROPERTIES, range(1, 5)),
        (np.diag(S), "S: how strongly", range(1, 5), range(1, 5)),
        (V.T, r"$V^T$: of which items", range(1, 5), ITEMS),
    )
    for ax, (values, title, rows, columns) in zip(axes, parts, strict=True):
        plot.matrix(ax, values, title)
        ax.set(yticks=range(len(rows)), yticklabels=rows, xticks=range(len(columns)))
        ax.set_xticklabels(columns, rotation=45 if columns is ITEMS else 0)
        for (i, k), value in np.ndenumerate(values):
            if abs(value) > 1e-9:
                pale = abs(value) < 0.6 * np.abs(values).max()
                text = f"{value:.2f}".replace("0.", ".")
                ax.text(k, i, text, ha="center", va="center", size=6, color="black" if pale else "white")
    caption = "The correlations of items and properties, and their singular value decomposition."
    return fig, caption


def modes(p: LinearBackground, r: Results) -> tuple[Figure, str]:
    fig, axes = plot.figure(2, 5, height=3.6, gridspec_kw={"height_ratios": (1, 2.4)})
    times = np.median(half_times(r["t"], np.einsum("stii->sti", r["modes"])), axis=0)
    shown = [0.0, *(np.append(times[:2], times[2:].mean())), p.t1]
    for ax, t in zip(axes[0], shown, strict=True):
        k = int(np.abs(r["t"] - t).argmin())
        plot.matrix(ax, r["modes"][0, k], f"A(t), t = {r['t'][k]:.3g}", limit=S[0] / VARIANCE)
        ax.set(aspect="equal")
    for ax in axes[1]:
        ax.remove()
    ax = fig.add_subplot(axes[1, 0].get_gridspec()[1, :])
    theory = predicted(r["t"], r["a0"])
    for k, (name, colour) in enumerate(zip(MODES, COLOURS, strict=True)):
        plot.runs(ax, r["t"], r["modes"][..., k, k], colour, name)
        plot.theory(ax, r["t"], np.median(theory[..., k], axis=0), colour, lw=0.9, ls="--")
    ax.plot([], [], color=plot.BLACK, lw=0.9, ls="--", label="Eq. 7")
    ax.set(xlabel="time (τ = 1)", ylabel="strength of the mode", ylim=(0, None), xlim=(0, p.t1))
    ax.legend(loc="lower right", ncols=3)
    caption = (
        "Top: the map of one network in the modes of the data, at the start, where modes are half learned, "
        f"and at the end. Bottom: strength of each mode in {p.seeds} networks from small random weights "
        "(median and range), and Eq. 7 from what these weights hold of the mode (dashed, median)."
    )
    return fig, caption


def claims(p: LinearBackground, r: Results) -> list[Claim]:
    x, y = nr.tasks.hierarchy(3).arrays
    syx = y.T @ x / len(x)
    random, t = r["random"], r["random"]["t"]
    trained, theory = np.einsum("stii->sti", random["modes"]), predicted(t, random["a0"])
    found, ahead = half_times(t, trained), half_times(t, theory) / half_times(t, trained) - 1
    together = half_times(t, np.einsum("stii->sti", random["together"])) / found - 1
    plain, double = r["aligned"]["times"]
    gap = np.abs(random["modes"] - random["together"]).max(axis=(1, 2, 3)) / (S[0] / VARIANCE)
    late = (
        "Modes of equal strength mix: what grows is a turned pair, and Eq. 7 for each alone leaves out "
        "what they share. All modes together are right."
    )
    shift = (
        "The rate is that of Syx alone, but a mode has to grow from its start to s/d, which is nearer where "
        "inputs vary more: the half time is log(s/(d a0) - 1) / (2 s)."
    )
    return [
        check.below("decomposition", "U S V^T - Syx", FIG, 1e-12, np.abs(U * S @ V.T - syx).max()),
        check.below(
            "strengths", "strengths - singular values", FIG, 1e-12, np.abs(S - np.linalg.svd(syx)[1]).max()
        ),
        paper.relation(
            "animals-and-plants", "mode 2: animals move, plants have roots", FIG, "move > 0 > roots", U[1, 1],
            U[1, 1] > 0 > U[2, 1] and bool((V[:2, 1] > 0).all() and (V[2:, 1] < 0).all()),
        ),
        check.below("aligned-flow", "closed form - flow from aligned weights", EQ, 1e-8, r["aligned"]["gap"]),
        *(
            paper.near(
                f"half-time-{kebab(name)}", f"half time of '{name}', Eq. 7 / network - 1", FIG, 0,
                ahead[:, k], 0.01, note,
            )
            for k, (name, note) in enumerate(zip(MODES, ("", "", late, late), strict=True))
        ),
        finding.below(
            "half-times-together", "half times, all modes together / network - 1", TALK, 1e-4,
            np.abs(together).max(axis=1),
        ),
        finding.below(
            "map-together", "map, all modes together - network, relative to the largest", TALK, 1e-3, gap
        ),
        paper.relation(
            "order-of-modes", "order of learning is that of strengths", FIG,
            "all, before animal or plant, before the rest",
            np.mean([a < b < min(c, d) for a, b, c, d in found]),
            all(a < b < min(c, d) for a, b, c, d in found),
        ),
        paper.near(
            "input-variance", "half times with inputs twice as large, Syx the same / plain - 1",
            "make_haste_slowly A.1", 0, double / plain - 1, 0.01, shift,
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "linear-background",
    "Linear networks: a hierarchy is learned mode by mode",
    "make_haste_slowly Fig. 7, Eq. 7",
    LinearBackground(),
    LinearBackground(seeds=3),
    compute,
    figures,
    claims,
    (0.1, 0.1),
)
