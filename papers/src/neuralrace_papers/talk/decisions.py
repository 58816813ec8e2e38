"""An agent learns to report on which side a stimulus is. Its value network is deep: a cortical and a striatal
weight in series for every input, taught by three prediction errors. It has one fixed point for each set of
inputs that are used, with as many unstable directions as inputs are not used: learning passes from none to
the constant input (a bias), to one side, to both. Which side comes first differs between initial conditions,
and early choices foretell it. A network of one layer has one fixed point and no stages.

Easy stimuli are those of half contrast and more. An input is learned when its largest association is half of
its value at the end. Early is when the constant input is learned, before stimuli are used; late is when four
in five easy choices are correct. The shallow agent starts with the associations of the deep one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.stats import spearmanr

from neuralrace import landscape, plot
from neuralrace.measure import half_time
from neuralrace_papers.agent import Agent, learn, live
from neuralrace_papers.framework import Data, Experiment, figure, part, require, rows

COLOURS = {"deep": plot.RED, "shallow": plot.BLUE}
INPUTS = ("left", "right", "bias")
LATE = 0.8
TIME = "time (trials x learning rate)"


@dataclass(frozen=True)
class Decisions:
    seeds: Annotated[int, "agents, each with initial weights of its own"] = 50
    contrasts: Annotated[tuple[float, ...], "contrasts of the stimuli, left and right"] = (
        0.06, 0.12, 0.25, 0.5, 1.0,
    )  # fmt: skip
    beta: Annotated[float, "how sharply choices follow values"] = 10.0
    forgetting: Annotated[float, "rate at which all weights decay"] = 0.005
    std: Annotated[float, "standard deviation of initial weights"] = 0.05
    t1: Annotated[float, "end of learning, in units of trials times learning rate"] = 600.0
    starts: Annotated[int, "starts from which fixed points are sought"] = 1500
    spreads: Annotated[tuple[float, ...], "standard deviations of these starts"] = (0.1, 0.5, 1.5)
    rate: Annotated[float, "learning rate of the agents that draw trials"] = 0.05
    trials: Annotated[int, "trials of the agents that draw them"] = 8000

    def __post_init__(self) -> None:
        easy = max(self.contrasts) >= 0.5
        require(easy, f"contrasts must have an easy one, at least 0.5, got {self.contrasts}")
        for name in COLOURS:
            self.agent(name)

    def agent(self, name: str) -> Agent:
        given = {"contrasts": self.contrasts, "beta": self.beta, "forgetting": self.forgetting}
        if name == "shallow":
            given |= {"signals": "total", "layers": 1}
        return Agent(**given)

    def start(self, n: int) -> np.ndarray:
        """Initial weights of two layers."""
        return self.std * np.random.default_rng(1).standard_normal((n, 9))


def easy(agent: Agent, w: Any) -> np.ndarray:
    """Mean accuracy on easy stimuli, left and right, (..., 2)."""
    return np.mean([agent.accuracy(w, c) for c in agent.contrasts if c >= 0.5], axis=0)


def outcome(agent: Agent, t: np.ndarray, w: np.ndarray) -> dict[str, Any]:
    """Associations and accuracy over time, and when each input is learned."""
    associations = agent.associations(w)
    learned = half_time(t, np.abs(associations).max(axis=-1), first=0.0, axis=1)
    return {
        "t": ("t", t),
        "input": ("input", list(INPUTS)),
        "associations": ("run t input choice", associations),
        "accuracy": ("run t side", easy(agent, w)),
        "learned": ("run input", learned),
    }


@part(each=tuple(COLOURS))
def points(p: Decisions, name: str):
    """Fixed points that differ in their associations, the least stable first."""
    agent = p.agent(name)
    drawn = np.random.default_rng(0).standard_normal((p.starts, agent.size))
    w, norm = landscape.roots(agent, drawn * np.resize(p.spreads, p.starts)[:, None], max_steps=300)
    found = norm < 1e-11
    w = w[found]
    rounded = agent.associations(w).reshape(-1, 6).round(5) + 0.0
    first = np.unique(rounded, axis=0, return_index=True)[1]
    unstable = (np.linalg.eigvals(landscape.jacobian(agent, w[first])).real > 1e-9).sum(axis=1)
    order = np.argsort(-unstable, kind="stable")
    w = w[first[order]]
    associations = agent.associations(w)
    return {
        "associations": ("point input choice", associations),
        "converged": found.mean(),
        "unstable": ("point", unstable[order]),
        "used": ("point input", np.abs(associations).max(axis=-1) > 1e-4),
        "accuracy": ("point side", easy(agent, w)),
    }


@part(each=tuple(COLOURS))
def paths(p: Decisions, name: str):
    """Learning from small weights, by the mean over trials."""
    agent, t, start = p.agent(name), np.linspace(0, p.t1, 2001), p.start(p.seeds)
    if agent.layers == 1:  # the same initial values
        start = p.agent("deep").associations(start).reshape(-1, 6)
    return outcome(agent, t, learn(agent, start, t).weights["w"])


@part
def trials(p: Decisions):
    """Agents that draw stimuli and choices, from the same weights."""
    agent, save = p.agent("deep"), 200
    t = p.rate * (p.trials // save) * np.arange(1, save + 1)
    return outcome(agent, t, live(agent, p.start(p.seeds), p.rate, p.trials, save))


def slowdowns(path: Any) -> list[np.ndarray]:
    """Steps at which the associations of each agent are slowest, before they speed up again."""
    speeds = np.linalg.norm(np.diff(path.associations.values, axis=1), axis=(-1, -2))
    return [1 + np.flatnonzero(landscape.slowest(speed)[1:-1]) for speed in speeds]


def stops(path: Any, points: Any) -> list[dict[int, float]]:
    """The fixed points at which each agent lingers in turn, and its distance to each in associations.

    It lingers where it slows down, near the fixed point that is nearest then.
    """
    fixed, rows = points.associations.values, []
    for m, slow in zip(path.associations.values, slowdowns(path), strict=True):
        row: dict[int, float] = {}
        for k in (0, *slow, len(m) - 1):
            far = np.linalg.norm(m[k] - fixed, axis=(-1, -2))
            at = int(far.argmin())
            row[at] = min(float(far[at]), row.get(at, np.inf))
        rows.append(row)
    return rows


def named(used: Any) -> str:
    """Names of the inputs that a fixed point uses."""
    return " + ".join(name for name, u in zip(INPUTS, used, strict=True) if u) or "none"


def visited(data: Data) -> Counter[str]:
    """How many deep agents linger near which fixed points in turn."""
    points = data.points["deep"]
    return Counter(
        " → ".join(named(points.used.values[k]) for k in row) for row in stops(data.paths["deep"], points)
    )


def early_and_late(path: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log odds of a correct choice, left - right, early and late (2, runs); the times of both (2, runs).

    And which agents have both moments (runs,); the others are left out.
    """
    good = (path.accuracy.mean("side") >= LATE).values
    bias = path.learned.sel(input="bias").values
    both = good.any(axis=1) & np.isfinite(bias)
    steps = np.stack([np.searchsorted(path.t, bias[both]), good[both].argmax(axis=1)])
    accuracy = path.accuracy.values[np.flatnonzero(both), steps]
    odds = np.log(accuracy / (1 - accuracy))
    return odds[..., 0] - odds[..., 1], path.t.values[steps], both


def rank_correlation(x: Any, y: Any) -> float:
    result: Any = spearmanr(x, y)
    return float(result.statistic)


@figure("decisions")
def planes(p: Decisions, data: Data):
    fig, axes = plot.figure(1, 2, 2 * plot.PAGE / 3, 3.0, sharey=True)
    for ax, name in zip(axes, COLOURS, strict=True):
        left, right = np.moveaxis(data.paths[name].accuracy.values, -1, 0)
        ax.plot(left.T, right.T, color=COLOURS[name], lw=0.5, alpha=0.6)
        labels: dict[tuple[float, float], list[str]] = {}
        points = data.points[name]
        for (x, y), unstable in zip(points.accuracy.values, points.unstable.values, strict=True):
            labels.setdefault((round(x, 2), round(y, 2)), []).append(str(unstable))
        for (x, y), texts in labels.items():
            face = plot.BLACK if "0" in texts else "white"
            ax.plot(x, y, "o", color=plot.BLACK, mfc=face, ms=4, zorder=5)
            shift = (-2, 5) if y > 0.98 else (5, -3) if x > 0.98 else (-9, -9)
            ax.annotate(",".join(texts), (x, y), shift, textcoords="offset points", fontsize=7, zorder=6)
        ax.set(xlim=(0, 1.12), ylim=(0, 1.12), aspect="equal")
        plot.label(ax, "accuracy, left", title=name)
    plot.key(axes[0], {"agents": "theory"}, COLOURS["deep"])
    kinds = {"fixed point, with unstable directions": "hollow", "stable fixed point": "points"}
    plot.key(axes[0], kinds)
    axes[0].set_ylabel("accuracy, right")
    plot.legend_below(fig, axes[0], 3)
    return fig, (
        f"Choices of {p.seeds} agents on easy stimuli of either side while they learn from small weights. "
        "Circles: fixed points, with their numbers of unstable directions; filled: stable. The deep agent "
        "is taught by three prediction errors, the shallow one has one layer."
    )


@figure("decisions-stages")
def timeline(p: Decisions, data: Data):
    fig, ((a, b), (c, d)) = plot.figure(2, 2, width=plot.PAGE, height=4.6)
    deep = data.paths["deep"]
    lead = np.abs(deep.learned.sel(input="left") - deep.learned.sel(input="right"))
    one = deep.isel(run=int(np.argsort(lead.values)[-p.seeds // 5]))
    for name, colour in zip(INPUTS, (plot.BLUE, plot.ORANGE, plot.GREEN), strict=True):
        size = np.abs(one.associations.sel(input=name)).max("choice")
        plot.theory(a, one.t, size, colour, name)
    a.set_xlim(0, 2 * one.learned.max())
    plot.label(a, TIME, "largest association", "one deep agent", legend="lower right")
    for name, path in data.paths.items():
        t, accuracy = path.t + path.t[1].values, path.accuracy.mean("side")
        plot.runs(b, t, accuracy, COLOURS[name], name, lw=1.3, alpha=1)
    b.set(xscale="log", xlim=(0.2, p.t1), ylim=(0.45, 1.02))
    above = {"loc": "lower left", "bbox_to_anchor": (-0.05, 1), "ncols": 3, "columnspacing": 0.8}
    plot.label(b, TIME, "accuracy, easy stimuli", legend=above)
    (early, late), times, _ = early_and_late(deep)
    c.axhline(0, color="0.8", lw=0.6)
    c.axvline(0, color="0.8", lw=0.6)
    c.plot(early, late, "o", color=plot.RED, alpha=0.7)
    c.set_xlabel(f"left - right early, t ≈ {times[0].mean():.0f} (log odds)")
    c.set_ylabel(f"left - right late, t ≈ {times[1].mean():.0f} (log odds)")
    c.set_title(f"correct choices of deep agents, rank correlation {rank_correlation(early, late):.2f}")
    rows = visited(data).most_common(6)[::-1]
    bars = d.barh(range(len(rows)), [n for _, n in rows], color=plot.RED, alpha=0.6, height=0.6)
    d.bar_label(bars, padding=2)
    texts = [text.replace(" → ", "\n→ ") for text, _ in rows]
    d.set_yticks(range(len(rows)), texts, fontsize=6, ma="left")
    plot.label(d, "number of deep agents", title="fixed points passed, in order")
    d.set_xlim(0, 1.15 * max(n for _, n in rows))
    d.locator_params(axis="x", integer=True)
    return fig, (
        "Top left: the associations of one agent rise in stages. Top right: accuracy over time, median and "
        "range. Bottom left: which side an agent answers better before it uses stimuli, and later. Bottom "
        "right: fixed points near which agents linger, named by the inputs that they use."
    )


@rows
def accuracy(p: Decisions, data: Data):
    for agent, path in data.paths.items():
        yield f"accuracy-{agent}", path.accuracy[:, -1].mean("side")
    yield "accuracy-trials", data.trials.accuracy[:, -20:].mean(("t", "side"))


@rows
def fixed_points(p: Decisions, data: Data):
    deep, shallow = data.points["deep"], data.points["shallow"]
    used, unstable = deep.used.values, deep.unstable.values
    sets = sorted({tuple(u) for u in used.tolist()})
    yield "points-deep", len(sets)
    yield "unstable-deep", [unstable[(used == u).all(axis=1)].min() - (3 - sum(u)) for u in sets]
    yield "points-shallow", shallow.sizes["point"]
    yield "points-shallow-starts", shallow.converged
    visits = stops(data.paths["deep"], deep)
    yield "saddles-deep", [sum(unstable[k] > 0 for k in [*row][1:]) for row in visits]
    far = [distance for row in visits for k, distance in [*row.items()][1:] if unstable[k]]
    learned = np.linalg.norm(deep.associations[unstable == 0], axis=(-1, -2)).max()
    yield "saddles-near", np.divide(far, learned)
    yield "stages-shallow", list(map(len, slowdowns(data.paths["shallow"])))


@rows
def individuals(p: Decisions, data: Data):
    path, other = data.paths["deep"], data.paths["shallow"]
    yield "bias-first", path.learned.argmin("input") == INPUTS.index("bias")
    (left, right), (left_shallow, right_shallow) = (
        (run.learned.sel(input="left"), run.learned.sel(input="right")) for run in (path, other)
    )
    yield "side-first", left < right
    gap = np.abs(left - right)
    yield "side-gap", gap / np.minimum(left, right)
    yield "side-gap-over-shallow", gap / np.abs(left_shallow - right_shallow).mean()
    (early, late), _, both = early_and_late(path)
    (_, late_shallow), *_ = early_and_late(other)
    yield "diversity", late.std() / late_shallow.std()
    yield "early-tells-late", rank_correlation(early, late)
    yield "early-tells-order", rank_correlation(early, (right / left)[both])
    drawn = data.trials.learned
    yield "trials-side-first", (drawn.sel(input="left") < drawn.sel(input="right")) == (left < right)


EXPERIMENT = Experiment(
    "decisions",
    "Decisions: an agent that learns in stages",
    "talk: learning to make perceptual decisions",
    Decisions(),
    quick={"starts": 400, "trials": 5000},
    minutes=(0.3, 1.0),
)
