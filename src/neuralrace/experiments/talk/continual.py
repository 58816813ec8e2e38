"""Tasks one after the other, each from where the last ended. Gradient flow keeps weights balanced, so every
leg has an exact solution, and with it the forgetting of all earlier tasks. What is forgotten in the end is
fixed by the tasks; the way there is not: a straight line where layers differ much in scale (lazy), a detour
by way of unlearning where they do not (rich). Rich networks transfer, if the new task shares the inputs'
or the outputs' side of the old one, and they are bad at reversal: the longer a task was learned, the longer
its opposite takes. Inputs are white; tasks have `rank` singular values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.integrate import quad

import neuralrace as nr
from neuralrace import plot
from neuralrace.errors import InputError
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
    stacked,
)
from neuralrace.init import random_frame
from neuralrace.measure import crossing

TALK, BEYOND = "talk: exact continual learning dynamics", "Braun et al. 2022"
KINDS = ("new outputs", "new inputs", "both new", "reversed")
LEARNED = 0.1  # of the loss of a silent network
COLOURS = (plot.BLUE, plot.ORANGE, plot.GREEN, plot.PINK, plot.RED, plot.SKY, plot.BLACK)
LONG = np.array([1e3, 1e4])  # times in a second task, to see how an old one fades
SPARE = {"spare neurons": (12, 3), "none to spare": (4, 4)}  # neurons per layer, modes


@dataclass(frozen=True)
class Continual(Parameters):
    tasks: int = option(5, "tasks that are learned one after the other", least=2)
    size: int = option(12, "units of each layer")
    strengths: tuple[float, ...] = option((2.0, 1.5, 1.0), "singular values of each task")
    scale: float = option(0.01, "size of the initial weights, the balanced part apart")
    lams: tuple[float, ...] = option(
        (0.0, 1.0, 4.0), "relative scales of the layers: 0 and two others", least=-100
    )
    duration: float = option(12.0, "time for which each task is learned")
    trained: tuple[float, ...] = option(
        (6.0, 8.0, 10.0, 12.0, 14.0), "times for which a task is learned before the opposite task"
    )
    imbalances: tuple[float, ...] = option(
        (1e-3, 0.1, 1.0), "relative scales at which an opposite task is learned, beside 0"
    )

    def check(self) -> None:
        if self.size < 2 * len(self.strengths):
            raise InputError(
                f"size must be at least {2 * len(self.strengths)}, twice the modes; got {self.size}"
            )
        if self.lams[0] != 0 or len(self.lams) != 3 or max(map(abs, self.lams)) < 1:
            raise InputError(f"lams must be 0 and two others, one at least 1 in size; got {self.lams}")
        if self.tasks > len(COLOURS):
            raise InputError(f"tasks must be at most {len(COLOURS)}, got {self.tasks}")
        if len(self.trained) < 2 or list(self.trained) != sorted(set(self.trained)):
            raise InputError(f"trained must increase, at least two times, got {self.trained}")

    @property
    def graph(self) -> nr.Graph:
        return nr.Graph.chain([self.size] * 3)

    def start(self, lam: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        w1, w2 = nr.init.balanced(self.graph, lam, self.scale, seed=seed).values()
        return w1, w2

    @property
    def silent(self) -> float:
        return 0.5 * float(np.square(self.strengths).sum())


def compute(p: Continual, parts: Parts) -> Results:
    return {
        "sequence": stacked(parts.each("sequence", sequence, range(p.seeds), p)),
        "reversal": parts("reversal", reversal, p),
        "transfer": stacked(parts.each("transfer", transfer, range(p.seeds), p)),
    }


# -- a sequence of tasks ------------------------------------------------------


def end_to_end(state: nr.State) -> dict[str, Any]:
    """The map from inputs to outputs."""
    return {"map": state.activity("y", np.eye(state.weights["x->h1"].shape[1])).T}


def sequence(seed: int, p: Continual) -> dict[str, Any]:
    """Loss of every task while each is learned, `(lams, legs, time, tasks)`: exact and integrated."""
    rng, modes = np.random.default_rng([seed, 2]), len(p.strengths)
    syx = np.stack([
        random_frame(rng, p.size, modes) @ np.diag(p.strengths) @ random_frame(rng, modes, p.size)
        for _ in range(p.tasks)
    ])  # fmt: skip
    t = np.linspace(0, p.duration, 101)
    starts = [p.start(lam, seed) for lam in p.lams]
    exact = np.stack([np.matmul(*nr.exact.continual(t, *w, syx)[::-1]) for w in starts])
    w = {e: np.stack(v) for e, v in zip(p.graph.edges, zip(*starts, strict=True), strict=True)}
    white, maps = np.sqrt(p.size) * np.eye(p.size), []
    for target in syx:
        task, fine = nr.Task(p.graph, white, white @ target.T), nr.Adaptive(1e-11, 1e-13)
        run = nr.flow(task, w, save=t, method=fine, record=end_to_end)
        w = {e: v[:, -1] for e, v in run.weights.items()}
        maps.append(run.recorded["map"])
    w1, w2 = nr.init.balanced(p.graph, 0.0, 1.0, seed=seed).values()  # small weights fade still later
    v1, v2 = nr.exact.balanced([p.duration], w1, w2, syx[0])
    v1, v2 = nr.exact.balanced(LONG, v1[0], v2[0], syx[1])
    moved = np.linalg.norm(np.diff(exact[:, 1:], axis=2), axis=(-1, -2)).sum(axis=2)
    return {
        "t": t,
        "exact": losses(exact, syx),
        "flow": losses(np.stack(maps, axis=1), syx),
        "apart": losses(syx, syx),
        "left": losses(v2 @ v1, syx[1:2])[:, 0],
        "path": moved / np.linalg.norm(exact[:, 1:, -1] - exact[:, 1:, 0], axis=(-1, -2)),
    }


def losses(maps: np.ndarray, syx: np.ndarray) -> np.ndarray:
    """Loss of maps `(..., out, in)` on each of the tasks `(..., tasks)`; inputs are white."""
    return 0.5 * ((maps[..., None, :, :] - syx) ** 2).sum(axis=(-1, -2))


def learning_time(t: np.ndarray, w1: np.ndarray, w2: np.ndarray, syx: np.ndarray) -> float:
    v1, v2 = nr.exact.balanced(t, w1, w2, syx)
    return crossing(t, losses(v2 @ v1, syx[None])[:, 0], LEARNED * 0.5 * (syx**2).sum())


# -- reversal and transfer ------------------------------------------------------


def reversal(p: Continual) -> dict[str, Any]:
    """Time to learn the opposite of a task learned for a time, `(lams, trained)`, by spare neurons; and what
    three modes in three neurons have left, which keep the sign of their determinant."""
    found, lams = {}, (0.0, *p.imbalances)
    for name, (n, modes) in SPARE.items():
        syx = np.diag(np.arange(n) < modes).astype(float)
        found[name] = [[opposite(syx, lam, trained) for trained in p.trained] for lam in lams]
    odd = np.eye(3)
    w1, w2 = nr.exact.balanced([p.trained[0]], *right_signed(odd, 0.0), odd)
    v1, v2 = nr.exact.balanced([3 * p.trained[0]], w1[0], w2[0], -odd)
    return {**found, "odd": ((v2 @ v1 + odd) ** 2).sum() / 3}


def opposite(syx: np.ndarray, lam: float, trained: float) -> float:
    w1, w2 = nr.exact.balanced([trained], *right_signed(syx, lam), syx)
    return learning_time(np.linspace(0, 4 * trained, 1201), w1[0], w2[0], -syx)


def right_signed(syx: np.ndarray, lam: float) -> tuple[np.ndarray, np.ndarray]:
    """Balanced weights that can learn a task of full rank: the determinant's sign is kept if lam = 0."""
    w = nr.init.balanced(nr.Graph.chain([len(syx)] * 3), lam, 0.1, seed=range(20)).values()
    return next((a, b) for a, b in zip(*w, strict=True) if np.linalg.slogdet(b @ a)[0] > 0)


def reversed_in(lam: float) -> float:
    """Time in which a mode goes from 1 to the opposite: `a' = -sqrt(4 a^2 + lam^2) (1 + a)`."""
    return quad(lambda a: 1 / (np.hypot(2 * a, lam) * (1 + a)), LEARNED**0.5 - 1, 1, points=[0], limit=500)[0]


def transfer(seed: int, p: Continual) -> dict[str, Any]:
    """Learning time after a first task / from scratch, `(lams, kinds)`."""
    rng, k = np.random.default_rng([seed, 3]), len(p.strengths)
    u, v, s = random_frame(rng, p.size, 2 * k), random_frame(rng, p.size, 2 * k), np.diag(p.strengths)
    first = u[:, :k] @ s @ v[:, :k].T
    second = {
        "new outputs": u[:, k:] @ s @ v[:, :k].T,
        "new inputs": u[:, :k] @ s @ v[:, k:].T,
        "both new": u[:, k:] @ s @ v[:, k:].T,
        "reversed": -first,
    }
    t, ratio = np.append(0.0, np.geomspace(1e-2, 10 * p.duration, 400)), []
    for lam in p.lams:
        w = p.start(lam, seed)
        v1, v2 = nr.exact.balanced([p.duration], *w, first)
        ratio.append(
            [learning_time(t, v1[0], v2[0], second[n]) / learning_time(t, *w, second[n]) for n in KINDS]
        )
    return {"ratio": ratio}


# -- figures and claims ------------------------------------------------------


def figures(p: Continual, r: Results) -> dict[str, tuple[Figure, str]]:
    return {"continual-forgetting": forgetting(p, r["sequence"]), "continual-next": following(p, r)}


def forgetting(p: Continual, r: Results) -> tuple[Figure, str]:
    fig, axes = plot.figure(1, 3, height=2.4, sharey=True)
    t = (np.arange(p.tasks)[:, None] * p.duration + r["t"][0]).ravel()
    for ax, lam, exact, flow in zip(axes, p.lams, r["exact"][0], r["flow"][0], strict=True):
        for k, colour in zip(range(p.tasks), COLOURS, strict=False):
            plot.theory(ax, t, exact[..., k].ravel() / p.silent, colour, f"task {k + 1}", lw=1)
            ax.plot(t[::9], flow[..., k].ravel()[::9] / p.silent, "o", color=colour, ms=2)
        for k in range(1, p.tasks):
            ax.axvline(k * p.duration, color=plot.BLACK, lw=0.5, ls=":")
        ax.set(title=f"λ = {lam:g}", xlabel="time (τ = 1)")
    axes[0].set(ylabel="loss / silent network", ylim=(0, 3.4))
    axes[0].legend(ncols=2, loc="upper left")
    caption = (
        f"Loss of {p.tasks} random tasks, learned one after the other (dotted: a new one begins): exact "
        "solution (lines) and integrated flow (dots), first start. A task's loss falls while it is learned "
        "and rises to a value that the next task sets, whatever the relative scale λ of the layers."
    )
    return fig, caption


def following(p: Continual, r: Results) -> tuple[Figure, str]:
    fig, (a, b) = plot.figure(1, 2, height=2.6)
    for name, fmt in zip(SPARE, ("o-", "s--"), strict=True):
        a.plot(p.trained, r["reversal"][name][0], fmt, color=plot.BLACK, label=f"λ = 0, {name}")
    for lam, times, colour in zip(p.imbalances, r["reversal"]["spare neurons"][1:], COLOURS, strict=False):
        a.plot(p.trained, times, "d", color=colour, label=f"λ = {lam:g}")
        a.axhline(reversed_in(lam), color=colour, lw=0.9)
    a.set(xlabel="time that the task was learned", ylabel="time to learn its opposite", ylim=(0, 48))
    a.legend(loc="upper left", ncols=2)
    x = np.arange(len(KINDS))
    for k, (lam, colour, fmt) in enumerate(
        zip(p.lams, (plot.BLACK, plot.GREEN, plot.RED), "osd", strict=True)
    ):
        plot.points(b, x + 0.15 * (k - 1), r["transfer"]["ratio"][:, k], colour, f"λ = {lam:g}", fmt=fmt)
    b.axhline(1, color=plot.BLACK, lw=0.8, ls=":")
    b.set(yscale="log", ylabel="learning time / from scratch", ylim=(0.2, 20))
    b.set_xticks(x, KINDS)
    b.legend(loc="upper left")
    caption = (
        "Left: time to learn the opposite of a task. With λ = 0 it grows with the time for which that was "
        "learned, with slope 1 where hidden neurons are to spare and 2 where not; else it does not (lines: "
        "integral over one mode). Right: learning time of a second task relative to that from scratch, "
        f"{p.seeds} starts; new outputs and inputs are orthogonal to those of the first task."
    )
    return fig, caption


def claims(p: Continual, r: Results) -> list[Claim]:
    found, back = r["sequence"], r["reversal"]
    off = np.abs(found["exact"] - found["flow"]).max(axis=(1, 2, 3, 4))
    ends = np.abs(found["exact"][:, 1:, :, -1] - found["apart"][:, None]).max(axis=(1, 2, 3)) / p.silent
    fade = np.log(found["left"][:, -1] / found["left"][:, -2]) / np.log(LONG[-1] / LONG[-2])
    lazy = int(np.argmax(np.abs(p.lams)))
    path, ratio = found["path"].mean(axis=2), r["transfer"]["ratio"]
    most = f"lam = {p.lams[lazy]:g}"
    slopes = {n: np.diff(back[n], axis=1) / np.diff(p.trained) for n in SPARE}
    spare, full = (slopes[n][0].mean() for n in SPARE)
    other = np.abs(slopes["spare neurons"][1:, -1]).max()
    late = np.abs(back["spare neurons"][1:, -1] / [reversed_in(v) for v in p.imbalances] - 1).max()
    way, reverse = "length of the way of the map / straight line", "time to reverse by time learned, slope"
    after, set_by = "learning time / from scratch", "losses at the end of a task - those tasks set / silent"
    note = "Old modes fade as 1/t towards a saddle, where other lam fade exponentially."
    fades, odd = "what an old task leaves in the loss of the next, lam = 0, exponent of time", back["odd"]
    return [
        check.below("losses", f"losses of {p.tasks} tasks, exact - integrated flow", TALK, 1e-6, off),
        paper.below("forgetting-set-by-tasks", f"{set_by}, lam not 0", BEYOND, 1e-3, ends),
        finding.near("old-task-fades", fades, BEYOND, -2, fade, 0.1, note),
        finding.above("way-rich", f"{way}, lam = 0", BEYOND, 1.05, path[:, 0]),
        finding.near("way-lazy", f"{way}, {most}", BEYOND, 1, path[:, lazy], 0.02),
        finding.near("reversal-spare", f"{reverse}, lam = 0, spare neurons", BEYOND, 1, spare, 0.05),
        finding.near("reversal-none-to-spare", f"{reverse}, lam = 0, none to spare", BEYOND, 2, full, 0.05),
        finding.near("reversal-other-scales", f"{reverse}, other lam, most", BEYOND, 0, other, 0.01),
        check.near(
            "reversal-integral", "time to reverse / integral over a mode - 1, other lam, most", BEYOND, 0,
            late, 0.01,
        ),
        finding.near(
            "reversal-three-in-three", "loss left of a reversed task, 3 modes in 3 neurons, lam = 0", BEYOND,
            1 / 3, odd, 0.01,
        ),
        *(
            finding.below(
                f"transfer-{kebab(KINDS[k])}", f"{KINDS[k]}, lam = 0: {after}", BEYOND, 0.7, ratio[:, 0, k]
            )
            for k in (0, 1)
        ),
        finding.near("transfer-both-new", f"both new, lam = 0: {after}", BEYOND, 1, ratio[:, 0, 2], 0.2),
        finding.above("transfer-reversed", f"reversed, lam = 0: {after}", BEYOND, 2, ratio[:, 0, 3]),
        finding.above(
            "transfer-lazy", f"all kinds, {most}: {after}, least", BEYOND, 1, ratio[:, lazy].min(axis=1)
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "continual",
    "Continual learning: forgetting, reversal and transfer",
    "talk: exact continual learning dynamics",
    Continual(),
    Continual(seeds=3),
    compute,
    figures,
    claims,
    (0.3, 0.5),
)
