"""Tasks one after the other, each from the weights with which the last one ended. Gradient flow keeps weights
balanced, so the learning of every task has an exact solution, and with it the forgetting of all earlier
tasks. How much is forgotten in the end is fixed by the tasks, but not how: the map goes in a straight line
where layers differ much in scale (lazy), and on a detour through unlearning where they do not (rich). Rich
networks transfer, if the new task shares the inputs' or the outputs' side of the old one, and they are bad at
reversal: the longer a task was learned, the longer its opposite takes. Inputs are white; tasks have the
singular values `strengths`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.integrate import quad

import neuralrace as nr
from neuralrace import plot
from neuralrace.init import random_frame
from neuralrace.measure import crossing, power_law_exponent
from neuralrace_papers.framework import Data, Experiment, along, figure, part, require, rows

LEVEL = 0.1  # of the loss of a silent network
COLOURS = (plot.BLUE, plot.ORANGE, plot.GREEN, plot.PINK, plot.RED, plot.SKY, plot.BLACK)
LONG = np.array([1e3, 1e4])  # times in a second task, to see how an old one fades
SPARE = {"spare neurons": (12, 3), "none to spare": (4, 4)}  # neurons per layer, modes


@dataclass(frozen=True)
class Continual:
    seeds: Annotated[int, "random starts of each network"] = 10
    tasks: Annotated[int, "tasks that are learned one after the other"] = 5
    size: Annotated[int, "units of each layer"] = 12
    strengths: Annotated[tuple[float, ...], "singular values of each task"] = (2.0, 1.5, 1.0)
    scale: Annotated[float, "size of the initial weights, the balanced part apart"] = 0.01
    lams: Annotated[tuple[float, ...], "relative scales of the layers: 0 and two others"] = (0.0, 1.0, 4.0)
    duration: Annotated[float, "time for which each task is learned"] = 12.0
    trained: Annotated[tuple[float, ...], "times before the opposite task"] = (6.0, 8.0, 10.0, 12.0, 14.0)
    imbalances: Annotated[tuple[float, ...], "relative scales for the opposite task, beside 0"] = (
        1e-3, 0.1, 1.0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        modes, most = len(self.strengths), len(COLOURS)
        require(2 <= self.tasks <= most, f"tasks must be from 2 to {most}, got {self.tasks}")
        require(
            self.size >= 2 * modes, f"size must be at least {2 * modes}, twice the modes; got {self.size}"
        )
        fit = self.lams[0] == 0 and len(self.lams) == 3 and max(map(abs, self.lams)) >= 1
        require(fit, f"lams must be 0 and two others, one at least 1 in size; got {self.lams}")

    @property
    def graph(self) -> nr.Graph:
        return nr.Graph.chain([self.size] * 3)

    def start(self, lam: float, seed: int) -> nr.init.Weights:
        return nr.init.balanced(self.graph, lam, self.scale, seed=seed)

    @property
    def silent(self) -> float:
        """Loss of a silent network."""
        return 0.5 * float(np.square(self.strengths).sum())

    @property
    def laziest(self) -> float:
        return max(self.lams, key=abs)


def losses(maps: Any, syx: Any) -> np.ndarray:
    """Loss of maps (..., out, in) on each of the tasks, (..., tasks)."""
    return 0.5 * ((np.asarray(maps)[..., None, :, :] - syx) ** 2).sum(axis=(-1, -2))


def learn(t: float, weights: Any, syx: np.ndarray) -> Any:
    """Both layers at time t, by the exact solution."""
    v1, v2 = nr.exact.balanced([t], *weights, syx=syx)
    return v1[0], v2[0]


def learning_time(t: np.ndarray, weights: Any, syx: np.ndarray) -> Any:
    def loss(t: np.ndarray) -> np.ndarray:
        v1, v2 = nr.exact.balanced(t, *weights, syx=syx)
        return losses(v2 @ v1, syx[None])[:, 0]

    return crossing(t, loss, LEVEL * 0.5 * (syx**2).sum())


@part(each=lambda p: range(p.seeds))
def sequence(p: Continual, seed: int):
    """Loss of every task while each is learned, way of the map, and how an old task fades."""
    rng, modes = np.random.default_rng([seed, 2]), len(p.strengths)
    sides = [(random_frame(rng, p.size, modes), random_frame(rng, modes, p.size)) for _ in range(p.tasks)]
    syx = np.stack([u @ np.diag(p.strengths) @ v for u, v in sides])
    t, starts = np.linspace(0, p.duration, 101), [p.start(lam, seed) for lam in p.lams]
    solved = [nr.exact.continual(t, w["x->h1"], w["h1->y"], syx) for w in starts]
    exact = np.stack([v2 @ v1 for v1, v2 in solved])
    large = nr.init.balanced(p.graph, 0.0, 1.0, seed=seed).values()  # small weights fade still later
    v1, v2 = nr.exact.balanced(LONG, *learn(p.duration, large, syx[0]), syx=syx[1])
    moved = np.linalg.norm(np.diff(exact[:, 1:], axis=2), axis=(-1, -2)).sum(axis=2)
    straight = np.linalg.norm(exact[:, 1:, -1] - exact[:, 1:, 0], axis=(-1, -2))
    return {
        "t": ("t", t),
        "lam": ("lam", list(p.lams)),
        "exact": ("lam leg t task", losses(exact, syx)),
        "apart": ("leg task", losses(syx, syx)),
        "left": ("late", losses(v2 @ v1, syx[1:2])[:, 0]),
        "way": ("lam", (moved / straight).mean(axis=1)),
    }


@part
def reversal(p: Continual):
    """Time to learn the opposite of a task learned for some time; and the loss that three modes in three
    neurons have left, which keep the sign of their determinant."""

    def opposite(syx: np.ndarray, lam: float, trained: float) -> Any:
        w = learn(trained, right_signed(syx, lam), syx)
        return learning_time(np.linspace(0, 4 * trained, 121), w, -syx)

    tasks = [np.diag(np.arange(n) < modes).astype(float) for n, modes in SPARE.values()]
    lams, odd = (0.0, *p.imbalances), np.eye(3)
    times = [[[opposite(syx, lam, t) for t in p.trained] for lam in lams] for syx in tasks]
    w = learn(p.trained[0], right_signed(odd, 0.0), odd)
    v1, v2 = learn(3 * p.trained[0], w, -odd)
    return {
        "neurons": ("neurons", list(SPARE)),
        "lam": ("lam", list(lams)),
        "trained": ("trained", list(p.trained)),
        "time": ("neurons lam trained", times),
        "odd": ((v2 @ v1 + odd) ** 2).sum() / 3,
    }


def right_signed(syx: np.ndarray, lam: float) -> tuple[np.ndarray, np.ndarray]:
    """Balanced weights that can learn a task of full rank: the determinant's sign is kept if lam = 0."""
    w = nr.init.balanced(nr.Graph.chain([len(syx)] * 3), lam, 0.1, seed=range(20)).values()
    return next((a, b) for a, b in zip(*w, strict=True) if np.linalg.slogdet(b @ a)[0] > 0)


def reversed_in(lam: float) -> float:
    """Time in which a mode goes from 1 to the opposite: `a' = -sqrt(4 a^2 + lam^2) (1 + a)`."""
    return quad(lambda a: 1 / (np.hypot(2 * a, lam) * (1 + a)), LEVEL**0.5 - 1, 1, points=[0], limit=500)[0]


@part(each=lambda p: range(p.seeds))
def transfer(p: Continual, seed: int):
    """Learning time after a first task / from scratch, for each kind of second task."""
    rng, k = np.random.default_rng([seed, 3]), len(p.strengths)
    u, v, s = random_frame(rng, p.size, 2 * k), random_frame(rng, p.size, 2 * k), np.diag(p.strengths)
    old, new = slice(None, k), slice(k, None)
    first = u[:, old] @ s @ v[:, old].T
    second = {
        "new outputs": u[:, new] @ s @ v[:, old].T,
        "new inputs": u[:, old] @ s @ v[:, new].T,
        "both new": u[:, new] @ s @ v[:, new].T,
        "reversed": -first,
    }
    t, ratio = np.append(0.0, np.geomspace(1e-2, 10 * p.duration, 100)), []
    for lam in p.lams:
        scratch = p.start(lam, seed).values()
        after = learn(p.duration, scratch, first)
        ratio.append([learning_time(t, after, y) / learning_time(t, scratch, y) for y in second.values()])
    return {
        "lam": ("lam", list(p.lams)),
        "second": ("second", list(second)),
        "ratio": ("lam second", ratio),
    }


@figure("continual-forgetting")
def forgetting(p: Continual, data: Data):
    fig, axes = plot.figure(1, 3, height=2.4, sharey=True)
    first = data.sequence[0]
    t = (np.arange(p.tasks)[:, None] * p.duration + first.t.values).ravel()
    for ax, lam in zip(axes, p.lams, strict=True):
        one = first.sel(lam=lam) / p.silent
        for k, colour in zip(range(p.tasks), COLOURS, strict=False):
            plot.theory(ax, t, one.exact[..., k].values.ravel(), colour, f"task {k + 1}", lw=1)
        for k in range(1, p.tasks):
            ax.axvline(k * p.duration, color=plot.BLACK, lw=0.5, ls=":")
        plot.label(ax, "time (τ = 1)", title=f"λ = {lam:g}")
    plot.key(axes[0], {"a new task begins": ":"})
    plot.label(axes[0], y="loss / silent network", ylim=(0, None))
    plot.legend_below(fig, axes[0], p.tasks + 1)
    return fig, (
        f"Loss of {p.tasks} random tasks, learned one after the other (dotted: a new one begins), by the "
        "exact solution from one start. A task's loss falls while it is learned "
        "and rises to a value that the next task sets, whatever the relative scale λ of the layers."
    )


@figure("continual-next")
def following(p: Continual, data: Data):
    fig, (a, b) = plot.figure(1, 2, height=2.6)
    times = data.reversal.time
    for name, fmt in zip(SPARE, ("o-", "s--"), strict=True):
        a.plot(p.trained, times.sel(neurons=name, lam=0.0), fmt, color=plot.BLACK, label=f"λ = 0, {name}")
    for lam, colour in zip(p.imbalances, COLOURS, strict=False):
        one = times.sel(neurons="spare neurons", lam=lam)
        a.plot(p.trained, one, "d", color=colour, label=f"λ = {lam:g}")
        a.axhline(reversed_in(lam), color=colour, lw=0.9)
    plot.key(a, {"theory, other λ": "theory"}, "0.5")
    a.set_ylim(0, 1.5 * float(times.max()))
    texts = "time that the task was learned (τ = 1)", "time to learn its opposite (τ = 1)"
    plot.label(a, *texts, legend={"loc": "upper left", "ncols": 2})
    ratio = along(data.transfer, "run").ratio
    x, colours = np.arange(ratio.sizes["second"]), (plot.BLACK, plot.GREEN, plot.RED)
    for k, (lam, colour, fmt) in enumerate(zip(p.lams, colours, "osd", strict=True)):
        plot.points(b, x + 0.15 * (k - 1), ratio.sel(lam=lam), colour, f"λ = {lam:g}", fmt=fmt)
    b.axhline(1, color=plot.BLACK, lw=0.8, ls=":", label="as from scratch")
    b.set(yscale="log", ylim=(0.2, 20), xticks=x, xticklabels=ratio.second.values)
    plot.label(b, "second task", "learning time / from scratch", legend="upper left")
    return fig, (
        "Left: time to learn the opposite of a task. With λ = 0 it grows with the time for which that was "
        "learned, with slope 1 where hidden neurons are to spare and 2 where not; else it does not (lines: "
        "integral over one mode). Right: learning time of a second task relative to that from scratch, "
        f"{p.seeds} starts; new outputs and inputs are orthogonal to those of the first task."
    )


@rows
def forgotten(p: Continual, data: Data):
    runs = along(data.sequence, "run")
    end = runs.exact.isel(lam=slice(1, None), t=-1)
    yield "forgetting-set-by-tasks", np.abs(end - runs.apart).max(("lam", "leg", "task")) / p.silent
    yield "old-task-fades", power_law_exponent(LONG, runs.left)
    yield "way-rich", runs.way.sel(lam=0.0)
    yield "way-lazy", runs.way.sel(lam=p.laziest)


@rows
def reversed_tasks(p: Continual, data: Data):
    times = data.reversal.time
    slopes = times.diff("trained") / np.diff(p.trained)
    yield "reversal-spare", slopes.sel(lam=0.0, neurons="spare neurons").mean()
    yield "reversal-none-to-spare", slopes.sel(lam=0.0, neurons="none to spare").mean()
    yield "reversal-other-scales", np.abs(slopes.sel(neurons="spare neurons")[1:, -1]).max()
    yield "reversal-three-in-three", data.reversal.odd


@rows
def transferred(p: Continual, data: Data):
    ratio = along(data.transfer, "run").ratio
    for name in ratio.second.values:
        yield f"transfer-{name.replace(' ', '-')}", ratio.sel(lam=0.0, second=name)
    yield "transfer-lazy", ratio.sel(lam=p.laziest).min("second")


EXPERIMENT = Experiment(
    "continual",
    "Continual learning: forgetting, reversal and transfer",
    "talk: exact continual learning dynamics",
    Continual(),
    quick={"seeds": 3},
    minutes=(0.1, 0.5),
)
