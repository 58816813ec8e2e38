"""An agent learns to report on which side a stimulus is. Its value network is deep: a cortical and a striatal
weight in series for every input, taught by three prediction errors. Its fixed points are one for each set of
inputs that are used, with as many unstable directions as inputs are not: learning passes from none to the
constant input (a bias), to one side, to both. Which side comes first differs between initial conditions, and
early choices tell it. A network of one layer has one fixed point and no stages.

Easy stimuli are those of half contrast and more. An input is learned when its largest association is half of
what it will be. Early is when the constant input is learned, before stimuli are used; late is when four in
five easy choices are correct. The shallow agent starts with the associations of the deep one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from neuralrace import landscape, plot
from neuralrace.agent import Agent, learn, live
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
)

TALK, MODEL = "talk: diverse but systematic trajectories", "talk: a deep RL network"
SADDLES = "talk: saddle points arise through depth"
AGENTS = {"deep": plot.RED, "deep, total error": plot.ORANGE, "shallow": plot.BLUE}
LEFT, RIGHT, CONSTANT = range(3)
LATE = 0.8


@dataclass(frozen=True)
class Decisions(Parameters):
    seeds: int = option(50, "agents, each with initial weights of its own")
    contrasts: tuple[float, ...] = option(
        (0.06, 0.12, 0.25, 0.5, 1.0), "contrasts of the stimuli, left and right"
    )
    beta: float = option(10.0, "how sharply choices follow values")
    forgetting: float = option(0.005, "rate at which all weights decay")
    std: float = option(0.05, "standard deviation of initial weights")
    t1: float = option(600.0, "end of learning, in units of trials times learning rate")
    starts: int = option(1500, "starts from which fixed points are sought")
    spreads: tuple[float, ...] = option(
        (0.1, 0.5, 1.5), "standard deviations of the starts from which fixed points are sought"
    )
    rate: float = option(0.05, "learning rate of the agents that draw trials")
    trials: int = option(8000, "trials of the agents that draw them")
    total: bool = option(True, "whether deep agents taught by the total error alone are added")

    def check(self) -> None:
        if max(self.contrasts) < 0.5:
            raise InputError(f"contrasts must have an easy one, at least 0.5, got {self.contrasts}")
        if self.seeds < 10:
            raise InputError(f"seeds must be at least 10 to compare agents, got {self.seeds}")
        if self.std > 0.2:
            raise InputError(f"std must be at most 0.2, small weights, got {self.std:g}")
        if self.trials < 200:
            raise InputError(f"trials must be at least 200, got {self.trials}")
        if self.rate > 0.2:
            raise InputError(f"rate must be at most 0.2, or single trials overshoot, got {self.rate:g}")
        for name in AGENTS:
            self.agent(name)

    def agent(self, name: str, **changes: Any) -> Agent:
        kind = {
            "deep": {},
            "deep, total error": {"signals": "total"},
            "shallow": {"signals": "total", "layers": 1},
        }
        given = {"contrasts": self.contrasts, "beta": self.beta, "forgetting": self.forgetting}
        return Agent(**{**given, **kind[name], **changes})

    @property
    def agents(self) -> list[str]:
        """The agents to compare; `total` adds the one that is taught by the total error alone."""
        return [name for name in AGENTS if self.total or "total" not in name]

    def start(self, n: int) -> np.ndarray:
        """Initial weights of two layers."""
        return self.std * np.random.default_rng(1).standard_normal((n, 9))


def compute(p: Decisions, parts: Parts) -> Results:
    return {
        "points": {name: parts(f"points-{slug(name)}", points, p, name) for name in p.agents},
        "paths": {name: parts(f"paths-{slug(name)}", paths, p, name) for name in p.agents},
        "live": parts("live", trial_by_trial, p),
        "drift": parts("drift", drift, p),
    }


def slug(name: str) -> str:
    return name.replace(",", "").replace(" ", "-")


def points(p: Decisions, name: str) -> dict[str, Any]:
    """Fixed points, one row for each that is different in its associations, with unstable directions."""
    agent = p.agent(name)
    drawn = np.random.default_rng(0).standard_normal((p.starts, agent.size))
    w, norm = landscape.roots(agent, drawn * np.resize(p.spreads, p.starts)[:, None], max_steps=300)
    w, norm = w[norm < 1e-11], norm[norm < 1e-11]
    m = agent.associations(w)
    _, first, count = np.unique(
        m.reshape(-1, 6).round(5) + 0.0, axis=0, return_index=True, return_counts=True
    )
    unstable = (np.linalg.eigvals(landscape.jacobian(agent, w[first])).real > 1e-9).sum(axis=1)
    order = np.argsort(-unstable, kind="stable")
    keep = first[order]
    return {
        "map": m[keep], "norm": norm[keep], "unstable": unstable[order], "count": count[order],
        "used": np.abs(m[keep]).max(axis=-1) > 1e-4, "accuracy": easy(agent, w[keep]),
    }  # fmt: skip


def easy(agent: Agent, w: Any) -> np.ndarray:
    """Mean accuracy on easy stimuli, left and right `(..., 2)`."""
    return np.mean([agent.accuracy(w, c) for c in agent.contrasts if c >= 0.5], axis=0)


def paths(p: Decisions, name: str) -> dict[str, Any]:
    """Learning from small weights: associations, choices, and when each input is learned."""
    agent = p.agent(name)
    t = np.linspace(0, p.t1, 2001)
    start = p.start(p.seeds)
    if agent.layers == 1:  # the same initial values
        start = p.agent("deep").associations(start).reshape(-1, 6)
    w = learn(agent, start, t).weights["w"]
    m = agent.associations(w)
    return {"t": t, "map": m, "accuracy": easy(agent, w), "learned": learned(t, m)}


def learned(t: np.ndarray, m: np.ndarray) -> np.ndarray:
    """When the largest association of every input is half of what it is at the end `(runs, 3)`."""
    size = np.abs(m).max(axis=-1)
    return t[(size >= size[:, -1:] / 2).argmax(axis=1)]


def trial_by_trial(p: Decisions) -> dict[str, Any]:
    """Agents that draw stimuli and choices, from the same weights."""
    agent, save = p.agent("deep"), 200
    w = live(agent, p.start(p.seeds), p.rate, p.trials, save)
    t = p.rate * (p.trials // save) * np.arange(1, save + 1)
    return {"t": t, "accuracy": easy(agent, w), "learned": learned(t, agent.associations(w))}


def drift(p: Decisions) -> dict[str, Any]:
    """The three signals without forgetting: cortical weights of the stimuli and easy accuracy over time."""
    agent, t = p.agent("deep", forgetting=0.0), np.append(0, np.geomspace(250, 1000, 5))
    w = learn(agent, p.start(3), t).weights["w"]
    return {"t": t[1:], "cortical": np.abs(w[:, 1:, :2]), "accuracy": easy(agent, w[:, -1])}


def stops(path: Results, found: Results) -> list[list[tuple[int, float]]]:
    """The fixed points at which each agent lingers in turn: which, and the distance in associations.

    It lingers where the speed of its associations has a minimum, near the fixed point that is nearest then.
    """
    speed = np.linalg.norm(np.diff(path["map"], axis=1), axis=(-1, -2))
    speed = np.pad(speed, ((0, 0), (1, 1)), constant_values=np.inf)
    rows = []
    for m, v in zip(path["map"], speed, strict=True):
        slow = (v[1:-1] < v[:-2]) & (v[1:-1] <= v[2:])
        row: dict[int, float] = {}
        for k in (0, *np.flatnonzero(slow), len(m) - 1):
            far = np.linalg.norm(m[k] - found["map"], axis=(-1, -2))
            at = int(far.argmin())
            row[at] = min(float(far[at]), row.get(at, np.inf))
        rows.append(list(row.items()))
    return rows


def named(used: Any) -> str:
    return " + ".join(n for n, u in zip(("left", "right", "bias"), used, strict=True) if u) or "none"


def stages(p: Decisions, r: Results, name: str) -> Counter[str]:
    """How many agents learn the inputs in which order."""
    order = np.argsort(r["paths"][name]["learned"], axis=1, kind="stable")
    return Counter(", ".join(("left", "right", "bias")[k] for k in row) for row in order)


def visited(p: Decisions, r: Results, name: str) -> Counter[str]:
    """How many agents linger near which fixed points in turn."""
    used = r["points"][name]["used"]
    return Counter(
        " → ".join(named(used[k]) for k, _ in row) for row in stops(r["paths"][name], r["points"][name])
    )


def asymmetry(accuracy: np.ndarray) -> np.ndarray:
    """Log odds of a correct choice, left - right."""
    odds = np.log(accuracy / (1 - accuracy))
    return odds[..., 0] - odds[..., 1]


def early_and_late(p: Decisions, path: Results) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Asymmetry of every agent early and late, and the times of both `(2, runs)`."""
    t, mean, rows = path["t"], path["accuracy"].mean(axis=-1), np.arange(len(path["map"]))
    when = np.searchsorted(t, path["learned"][:, CONSTANT]), (mean >= LATE).argmax(axis=1)
    early, late = (asymmetry(path["accuracy"][rows, k]) for k in when)
    return early, late, t[np.stack(when)]


def rank_correlation(x: Any, y: Any) -> float:
    found: Any = spearmanr(x, y)
    return float(found.statistic)


# -- figures ---------------------------------------------------------------------------------


def figures(p: Decisions, r: Results) -> dict[str, tuple[Figure, str]]:
    return {"decisions": planes(p, r), "decisions-stages": timeline(p, r)}


def planes(p: Decisions, r: Results) -> tuple[Figure, str]:
    fig, axes = plot.figure(1, len(p.agents), plot.PAGE, 2.7, sharey=True)
    for ax, name in zip(axes, p.agents, strict=True):
        colour = AGENTS[name]
        for one in r["paths"][name]["accuracy"]:
            ax.plot(*one.T, color=colour, lw=0.5, alpha=0.6)
        labels: dict[tuple[float, float], list[str]] = {}
        for (x, y), unstable in zip(
            r["points"][name]["accuracy"], r["points"][name]["unstable"], strict=True
        ):
            labels.setdefault((round(x, 2), round(y, 2)), []).append(str(unstable))
        for (x, y), texts in labels.items():
            stable = "0" in texts
            ax.plot(x, y, "o", color=plot.BLACK, mfc=plot.BLACK if stable else "white", ms=4, zorder=5)
            up = (-2, 5) if y > 0.98 else (5, -3) if x > 0.98 else (-9, -9)
            ax.annotate(",".join(texts), (x, y), up, textcoords="offset points", fontsize=7, zorder=6)
        ax.set(title=name, xlabel="accuracy, left", xlim=(0, 1.12), ylim=(0, 1.12), aspect="equal")
    axes[0].set_ylabel("accuracy, right")
    caption = (
        f"Choices of {p.seeds} agents on easy stimuli of either side while they learn from small weights. "
        "Circles: fixed points, with their numbers of unstable directions; filled: stable. Deep "
        "agents are taught by three prediction errors, or by the total error alone; the shallow one has one "
        "layer."
    )
    return fig, caption


def timeline(p: Decisions, r: Results) -> tuple[Figure, str]:
    fig, axes = plot.figure(2, 2, width=plot.PAGE, height=4.6)
    (a, b), (c, d) = axes
    deep, t = r["paths"]["deep"], r["paths"]["deep"]["t"]
    early, late, when = early_and_late(p, deep)
    one = int(np.argsort(np.abs(deep["learned"][:, LEFT] - deep["learned"][:, RIGHT]))[-len(late) // 5])
    size = np.abs(deep["map"][one]).max(axis=-1)
    for k, (n, colour) in enumerate(
        zip(("left", "right", "bias"), (plot.BLUE, plot.ORANGE, plot.GREEN), strict=True)
    ):
        plot.theory(a, t, size[:, k], colour, n)
    a.set(xlabel="time", ylabel="largest association", xlim=(0, 2 * deep["learned"][one].max()))
    a.set_title("one deep agent")
    a.legend(loc="lower right")
    for name in p.agents:
        colour = AGENTS[name]
        plot.runs(b, t + t[1], r["paths"][name]["accuracy"].mean(axis=-1), colour, name, lw=1.3, alpha=1)
    b.set(xscale="log", xlim=(0.2, p.t1), xlabel="time", ylabel="accuracy, easy stimuli", ylim=(0.45, 1.02))
    b.legend(loc="lower left", bbox_to_anchor=(-0.05, 1), ncols=3, columnspacing=0.8)
    c.axhline(0, color="0.8", lw=0.6)
    c.axvline(0, color="0.8", lw=0.6)
    c.plot(early, late, "o", color=plot.RED, alpha=0.7)
    c.set(
        xlabel=f"left - right early (t ≈ {when[0].mean():.0f})",
        ylabel=f"left - right late (t ≈ {when[1].mean():.0f})",
    )
    c.set_title(f"log odds of correct, rank correlation {rank_correlation(early, late):.2f}")
    rows = visited(p, r, "deep").most_common(6)[::-1]
    d.barh(range(len(rows)), [n for _, n in rows], color=plot.RED, alpha=0.35, height=0.7)
    for k, (text, n) in enumerate(rows):
        d.text(0.3, k, f"{text}  ({n})", va="center", fontsize=6)
    d.set(xlabel="deep agents", yticks=[], title="fixed points passed, in order", xlim=(0, p.seeds))
    d.spines["left"].set_visible(False)
    caption = (
        "Top left: the associations of one agent rise in stages. Top right: accuracy over time, median and "
        "range. Bottom left: which side an agent answers better before it uses stimuli, and later. Bottom "
        "right: fixed points near which agents linger, named by the inputs that they use."
    )
    return fig, caption


# -- claims ----------------------------------------------------------------------------------


def claims(p: Decisions, r: Results) -> list[Claim]:
    deep, shallow = r["paths"]["deep"], r["paths"]["shallow"]
    found = {name: r["points"][name] for name in p.agents}
    sets = {name: {tuple(u) for u in found[name]["used"].tolist()} for name in p.agents}
    missing = 3 - found["deep"]["used"].sum(axis=1)
    least = {
        u: found["deep"]["unstable"][(found["deep"]["used"] == u).all(axis=1)].min() for u in sets["deep"]
    }
    orders, passes = stages(p, r, "deep"), visited(p, r, "deep")
    told = lambda counts: "; ".join(f"{k}: {n}" for k, n in counts.most_common())  # noqa: E731
    rows = {name: stops(r["paths"][name], found[name]) for name in p.agents}
    between = {
        name: [sum(found[name]["unstable"][k] > 0 for k, _ in row[1:]) for row in rows[name]]
        for name in p.agents
    }
    far = [d for row in rows["deep"] for k, d in row[1:-1]]
    (early, late, when), (_, even, _) = (early_and_late(p, path) for path in (deep, shallow))
    lead = np.log(deep["learned"][:, RIGHT] / deep["learned"][:, LEFT])
    bound = 2.58 / np.sqrt(p.seeds - 1)
    gap = lambda path: np.abs(path["learned"][:, LEFT] - path["learned"][:, RIGHT])  # noqa: E731
    lively = r["live"]["accuracy"][:, -20:].mean(axis=(1, 2))
    alone = (r["live"]["learned"][:, LEFT] < r["live"]["learned"][:, RIGHT]) == (lead > 0)
    cortical = np.log(r["drift"]["cortical"]).mean(axis=(0, 2))
    table = "; ".join(
        f"{named(u)}: {k}" for u, k in zip(found["deep"]["used"], found["deep"]["unstable"], strict=True)
    )
    return [
        *(
            finding.above(
                f"accuracy-{kebab(name)}", f"accuracy on easy stimuli at the end, {name}", MODEL, 0.95,
                path["accuracy"][:, -1],
            )
            for name, path in r["paths"].items()
        ),
        finding.above("accuracy-trials",
                      "accuracy on easy stimuli at the end, agents that draw trials and choices, mean",
                      MODEL, 0.95, lively.mean(),
                      f"Last tenth of {p.trials} trials; least {lively.min():.3f}."),
        check.below("fixed-points", "speed of learning at fixed points, all agents", SADDLES, 1e-10,
                    max(f["norm"].max() for f in found.values())),
        finding.near("points-deep", "sets of inputs used at fixed points, deep, of 8", SADDLES, 8,
                     len(sets["deep"]), 0, f"Unstable directions: {table}."),
        finding.near("unstable-deep", "unstable directions - inputs not used, most stable of each set, deep",
                     SADDLES, 0, [least[u] - (3 - sum(u)) for u in sorted(least)], 0,
                     f"{(found['deep']['unstable'] != missing).sum()} further fixed points have more."),
        paper.near("points-shallow", "sets of inputs used at fixed points, shallow", SADDLES, 1,
                   len(sets["shallow"]), 0),
        paper.above("saddles-deep", "saddles passed after the start, deep", SADDLES, 0, between["deep"],
                    f"Nearest {np.mean(far):.2g} on the way, in associations. {told(passes)}."),
        paper.near("saddles-shallow", "saddles passed after the start, shallow", SADDLES, 0,
                   between["shallow"], 0),
        finding.near("bias-first", "share of deep agents that learn the bias first", TALK, 1,
                     np.mean(deep["learned"].argmin(axis=1) == CONSTANT), 0.05, f"Orders: {told(orders)}."),
        paper.near("side-first", "share of deep agents that learn left before right", TALK, 0.5,
                   np.mean(lead > 0), 0.2),
        finding.above("side-gap", "time between left and right / time of the first, deep", TALK, 0.2,
                      np.mean(gap(deep) / deep["learned"][:, :2].min(axis=1))),
        finding.above("side-gap-over-shallow", "time between left and right, deep / shallow", TALK, 2,
                      gap(deep).mean() / gap(shallow).mean()),
        paper.above("diversity", "diversity: spread of left - right late over agents, deep / shallow", TALK,
                    2, late.std() / even.std()),
        paper.above("early-tells-late",
                    "early strategy tells late strategy: rank correlation of left - right", TALK, bound,
                    rank_correlation(early, late),
                    f"t = {when[0].mean():.3g} and {when[1].mean():.3g}; the bound is the 1% level of chance."
                    f" Same sign in {np.mean(np.sign(early) == np.sign(late)):.0%}."),
        paper.above("early-tells-order",
                    "rank correlation of left - right early with the side learned first", TALK, bound,
                    rank_correlation(early, lead)),
        finding.above("trials-side-first",
                      "agents that draw trials: share that learn first the side that the mean learns first",
                      TALK, 0.5, alone.mean()),
        finding.near("without-forgetting", "without forgetting: exponent of cortical weights in time", MODEL,
                     -0.5, np.polyfit(np.log(r["drift"]["t"]), cortical, 1)[0], 0.05,
                     "Stimuli and constant each predict all of the reward, and the total error takes what is "
                     "too much off the cortex: no fixed point, while choices stay."),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "decisions",
    "Decisions: an agent that learns in stages",
    "talk: learning to make perceptual decisions",
    Decisions(),
    Decisions(starts=400, trials=5000, total=False),
    compute,
    figures,
    claims,
    (0.5, 1.0),
)
