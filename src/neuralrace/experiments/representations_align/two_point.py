"""Two samples in many networks: deep and shallow, wide and narrow, convolutional, with skip connections or
dropout, six activation functions. The effective theory knows of each of them two learning rates. Here they
are trained as in Table 1 of the paper, the rates are fitted, and the theory is asked how representations
move, where they end, how the loss falls, and where it fails: from very large weights and with Adam."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

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
    option,
    paper,
)
from neuralrace.universality import ZOO, Training, train, two_points

PAPER = "representations_align"
WEIGHTS = ("low", "default", "intermediate", "high", "very-high")
ARCHITECTURES = tuple(name for name in ZOO if name not in WEIGHTS[:1] + WEIGHTS[2:])
SERIES = {"dh2": ("|dh|² / largest", plot.BLUE), "dy2": ("|dy|²", plot.ORANGE), "w": ("w", plot.GREEN)}
TIMES = 301
NOTES = {
    "dropout": "Measured without dropout, outputs overshoot: at full size their squared distance is 1.3 "
    "after 1000 steps, and falls back to its target over thousands."
}
BOUND, WORST = 0.05, 0.2  # of a series' largest value: root mean square over time, largest


@dataclass(frozen=True)
class TwoPoint(Parameters):
    seeds: int = option(10, "random starts of each network, at dx = .5 and dy = 1", least=2)
    architectures: tuple[str, ...] = option(
        ARCHITECTURES, "networks of Table 1 that are trained, by name", choices=ARCHITECTURES
    )
    weights: tuple[str, ...] = option(
        WEIGHTS, "sizes of initial weights of the default network, by name", choices=WEIGHTS
    )
    steps: int = option(6000, "steps of training", least=100)
    depth: int = option(20, "no network is deeper than this")
    width: int = option(500, "no network is wider than this")
    faster: float = option(1.0, "factor of all learning rates")
    grid: int = option(5, "values of dx from .5 to 1.5, and as many of dy from 0 to 1", least=2)
    adam: float = option(1e-5, "learning rate of Adam")
    adam_steps: int = option(600, "steps of training by Adam", least=100)

    def network(self, name: str) -> tuple[nr.universality.Network, float]:
        network, lr = ZOO[name]
        size = {"depth": min(network.depth, self.depth), "width": min(network.width, self.width)}
        return dataclasses.replace(network, **size), lr * self.faster


def compute(p: TwoPoint, parts: Parts) -> Results:
    weights = [n for n in p.weights if n not in p.architectures]
    zoo = dict(zip(p.architectures, parts.each("zoo", network, p.architectures, p), strict=True))
    return {
        "zoo": zoo,
        "weights": {
            **zoo,
            **dict(zip(weights, parts.each("weights", network, weights, p, False), strict=True)),
        },
        "adam": parts("adam", adam, p),
    }


def network(name: str, p: TwoPoint, grid: bool = True) -> dict[str, Any]:
    """Dynamics at dx = .5, dy = 1, and final distances over dx and dy, one trial each."""
    net, lr = p.network(name)
    axes = np.linspace(0.5, 1.5, p.grid), np.linspace(0, 1, p.grid)
    dx, dy = (v.ravel() for v in np.meshgrid(*axes)) if grid else (np.zeros(0), np.zeros(0))
    first = np.ones(p.seeds)
    x, y = two_points(np.concatenate([0.5 * first, dx]), np.concatenate([first, dy]))
    run = train(net, x, y, lr, p.steps, range(len(x)))
    found = fitted(run, p.seeds)
    start, end = (run.recorded["dh2"][p.seeds :, k, net.half - 1] for k in (0, -1))
    rates = found["rates"][np.isfinite(found["rates"][:, 0]), :2].mean(axis=0) if grid else np.ones(2)
    theory = nr.universality.final_distance(
        start, run.recorded["dy2"][p.seeds :, 0], dx, dy, rates[0], rates[1]
    )
    return {
        **found,
        "dx": dx,
        "dy": dy,
        "end": end,
        "end_theory": theory,
        "trials": run.converged()[p.seeds :],
    }


def adam(p: TwoPoint) -> dict[str, Any]:
    run = train(
        p.network("default")[0], *two_points(), p.adam, p.adam_steps, range(p.seeds), optimizer="adam"
    )
    return fitted(run, p.seeds)


def fitted(run: Training, seeds: int) -> dict[str, Any]:
    """The four series half way at some steps `(seeds, 4, times)`, what the theory makes of them, rates
    `(seeds, 3)`, errors of the series, and of the first three where only the two rates are free (`alone`).
    Where the series tell no rates at all, errors are 1."""
    keep = np.unique(np.linspace(0, len(run.t) - 1, TIMES).round().astype(int))
    t, h = run.t[keep], run.recorded["dh2"][..., run.network.half - 1]
    kept = h, run.recorded["dy2"], run.recorded["w"], run.loss
    series = np.stack([v[:, keep] for v in kept], 1)[:seeds]
    theory, rates = np.full_like(series, np.nan), np.full((seeds, 3), np.nan)
    errors, alone = np.ones((seeds, 4)), np.ones(seeds)
    for k in range(seeds):
        found = fit(run, k, loss=True)
        if found is not None:
            theory[k] = [*found.curves(t), found.loss(t)]
            rates[k] = found.rate_h, found.rate_y, found.rate_mean
            errors[k] = found.errors
            alone[k] = rates_alone(t, series[k, :3], found)
    return {
        "step": keep, "series": series, "theory": theory, "rates": rates, "errors": errors, "alone": alone,
        "converged": run.converged()[:seeds],
    }  # fmt: skip


def fit(run: Training, k: int, **keywords: Any) -> Any:
    """The fit, None where a network diverged or did not learn. Where the theory fails the intervals of the
    rates are wide, which would be refused; how badly it fails is wanted, hence a low level."""
    try:
        return run.fit(k, times=TIMES, level=0.01, **keywords)
    except InputError:
        return None


def rates_alone(t: np.ndarray, series: np.ndarray, found: Any) -> float:
    """Error of the theory from the state that was observed at the start, both rates fitted anew."""
    from scipy.optimize import least_squares

    scale = np.abs(series).max(axis=1, keepdims=True)

    start = nr.universality.State(*series[:, 0])

    def miss(logs: np.ndarray) -> np.ndarray:
        rates = np.exp(logs)
        theory = nr.universality.solve(t, *start, dx=found.dx, dy=found.dy, rate_h=rates[0], rate_y=rates[1])
        return ((np.stack(theory) - series) / scale).ravel() / series.size**0.5

    near = np.log([found.rate_h, found.rate_y])
    grid = [near + shift for shift in np.mgrid[-2:2:9j, -2:2:9j].reshape(2, -1).T]
    best = least_squares(miss, min(grid, key=lambda logs: float((miss(logs) ** 2).sum())))
    return float(np.sqrt(2 * best.cost))


def error(found: Results) -> np.ndarray:
    """Root mean square error of dh2, dy2 and w, as a share of their largest values, `(seeds,)`."""
    return np.sqrt((found["errors"][:, :3] ** 2).mean(axis=1))


def deviation(found: Results) -> np.ndarray:
    """Largest difference of theory and network in dh2, dy2 or w, shares of their largest values."""
    series, theory = (found[n][:, :3] for n in ("series", "theory"))
    miss = np.abs(theory - series) / np.abs(series).max(axis=2, keepdims=True)
    return np.nan_to_num(miss, nan=1.0).max(axis=(1, 2))


def plateau(found: Results) -> np.ndarray:
    """Time to a tenth over time to nine tenths of dy2 = 1, `(seeds,)`; nan where it is not reached."""
    learned, step = found["series"][:, 1], found["step"]
    tenth, most = (step[np.argmax(learned >= level, axis=1)] for level in (0.1, 0.9))
    return np.where(learned.max(axis=1) >= 0.9, tenth / np.maximum(most, 1), np.nan)


def agreement(found: Results) -> tuple[float, float]:
    """Correlation and median ratio of final distances and Eq. 10 over the trials that converged."""
    keep = found["trials"] & np.isfinite(found["end_theory"])
    a, b = found["end_theory"][keep], found["end"][keep]
    apart = found["dy"][keep] > 0  # for equal targets both are near zero, and their ratio says nothing
    if apart.sum() < 3:
        return np.nan, np.nan
    return float(np.corrcoef(a, b)[0, 1]), float(np.median(b[apart] / a[apart]))


def figures(p: TwoPoint, r: Results) -> dict[str, tuple[Figure, str]]:
    zoo, weights = r["zoo"], {n: r["weights"][n] for n in p.weights}
    both = "Networks pale and thick, the theory thin."
    sizes = f"{p.depth} layers of {p.width} units at most"
    return {
        "zoo": (
            _grid(zoo, _three),
            f"Two samples in {len(zoo)} networks ({sizes}), one seed each: squared distances of "
            "representations and of outputs and their alignment, the theory with both rates and the start "
            f"fitted. {both}",
        ),
        "loss": (_grid(zoo, _loss), f"Training loss of the same networks and Eq. 9. {both}"),
        "weights": (
            _columns(weights),
            f"The default network from small to very large initial weights, as gains of each layer. {both}",
        ),
        "final": (
            _grid(zoo, _final),
            f"Final squared distances over {p.grid} x {p.grid} distances of inputs and of targets, against "
            f"Eq. 10 with rates averaged over {p.seeds} other trials; crosses did not converge.",
        ),
        "adam": (
            _grid({"default, descent": r["weights"].get("default"), "default, Adam": r["adam"]}, _three),
            f"The default network by descent and by Adam. {both}",
        ),
    }


def _grid(found: dict[str, Any], draw: Callable[..., None]) -> Figure:
    """A panel for each network."""
    found = {n: f for n, f in found.items() if f is not None}
    columns = min(4, len(found))
    rows = -(-len(found) // columns)
    fig, axes = plot.figure(rows, columns, width=plot.PAGE, height=1.75 * rows + 0.35, squeeze=False)
    for ax, (name, f) in zip(axes.flat, found.items(), strict=False):
        draw(ax, f)
        ax.set(title=name, xlabel="theory (Eq. 10)" if draw is _final else "epoch")
    for ax in axes.flat[len(found) :]:
        ax.set_axis_off()
    for ax in axes[:, 0]:
        ax.set_ylabel(draw.__doc__)
    if draw is _three:
        fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig


def _columns(found: dict[str, Any]) -> Figure:
    """Distances above the loss, a column for each network."""
    fig, axes = plot.figure(2, len(found), width=plot.PAGE, height=3.6, squeeze=False, sharex="col")
    for (a, b), (name, f) in zip(axes.T, found.items(), strict=True):
        _three(a, f)
        _loss(b, f)
        a.set_title(f"gain {ZOO[name][0].gain:g}" + (", not learned" if not f["converged"][0] else ""))
        b.set_xlabel("epoch")
    for ax, draw in zip(axes[:, 0], (_three, _loss), strict=True):
        ax.set_ylabel(draw.__doc__)
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig


def _until(found: Results, k: int = 0) -> Any:
    """Indices until learning is over, for a figure."""
    w = np.abs(found["series"][k, 2])
    last = len(w) - 1 - int(np.argmax(w[::-1] > 0.02 * w.max()))
    return slice(0, min(len(w), int(1.3 * last) + 5))


def _three(ax: Any, found: Results) -> None:
    """distances"""
    some = _until(found)
    for k, (label, colour) in enumerate(SERIES.values()):
        size = found["series"][0, 0].max() if k == 0 else 1.0
        network, theory = (found[n][0, k, some] / size for n in ("series", "theory"))
        ax.plot(found["step"][some], network, color=colour, lw=3.2, alpha=0.4)
        plot.theory(ax, found["step"][some], theory, colour, label)
    ax.axhline(0, color=plot.BLACK, lw=0.4)


def _loss(ax: Any, found: Results) -> None:
    """loss"""
    some = _until(found)
    ax.plot(found["step"][some], found["series"][0, 3, some], color=plot.RED, lw=3.2, alpha=0.4)
    plot.theory(ax, found["step"][some], found["theory"][0, 3, some], plot.RED)
    ax.set_ylim(0)


def _final(ax: Any, found: Results) -> None:
    """final |dh|²"""
    good, a, b = found["trials"], found["end_theory"], found["end"]
    ax.plot(a[good], b[good], "o", color=plot.BLUE, ms=3, alpha=0.7, mew=0)
    ax.plot(a[~good], b[~good], "x", color=plot.RED, ms=3)
    top = 1.1 * max(np.nanmax(a, initial=0.01), np.nanmax(b[good], initial=0.01))
    plot.theory(ax, [0, top], [0, top], lw=0.8)
    ax.set(xlim=(-0.03 * top, top), ylim=(-0.03 * top, top))


def claims(p: TwoPoint, r: Results) -> list[Claim]:
    dyn, names = r["weights"], p.architectures
    fig2, fig3, fig5 = (f"{PAPER} Fig. {k}" for k in (2, 3, 5))
    alone = [float(dyn[n]["alone"].mean()) for n in names]
    worst = [float(deviation(dyn[n]).mean()) for n in names]
    loss = [float(dyn[n]["errors"][:, 3].mean()) for n in names]
    lost = [float(1 - dyn[n]["trials"].mean()) for n in names]
    agree = {n: agreement(dyn[n]) for n in names}
    share = "of each series' largest value"
    start = (
        "From the state that was observed at the start, as the paper fits. Effective rates are not constant: "
        "on the plateau they are far smaller than in the rise, so the observed start would rise too early."
    )
    far = "The rates were fitted at dx = .5, dy = 1; fitted elsewhere they would differ."
    brief = "Much of the time nothing moves, which the mean over time rewards; this is the worst moment."
    out = [
        *(
            paper.below(
                f"fit-{n}", f"{n}: error of the fit, {share}", fig2, BOUND, error(dyn[n]), NOTES.get(n, "")
            )
            for n in names
        ),
        paper.below(
            "fit-rates-alone", "the two rates alone fitted: error, mean of each network", fig2, BOUND, alone,
            start,
        ),
        finding.below(
            "worst-moment", f"largest deviation, {share}, mean of each network", fig2, WORST, worst, brief
        ),
        paper.below(
            "fit-loss", "loss: error of the fit, mean of each network", f"{PAPER} Fig. 11", BOUND, loss
        ),
        *(
            paper.above(
                f"final-correlation-{n}", f"{n}: final distance and Eq. 10, correlation", fig5, 0.9,
                agree[n][0], far,
            )
            for n in names
        ),
        *(
            paper.near(
                f"final-ratio-{n}", f"{n}: final distance / Eq. 10, median", fig5, 1, agree[n][1], 0.1, far
            )
            for n in names
        ),
        check.below(
            "trials-converged", f"{p.grid**2} trials, share that did not converge, each network", fig5, 0.1,
            lost, "These are left out of the correlations.",
        ),
    ]  # fmt: skip
    waits = {n: plateau(dyn[n]) for n in p.weights}
    learned = {n: float(np.nanmean(v)) for n, v in waits.items() if np.isfinite(v).any()}
    if len(learned) > 1:
        values = list(learned.values())
        told = ", ".join(f"{n} {v:.2f}" for n, v in learned.items())
        never = ", ".join(n for n in waits if n not in learned)
        note = f"Not learned within {p.steps} steps: {never}." if never else ""
        name = "time to 10% / to 90% of the distance of outputs"
        falls = bool((np.diff(values) < 0).all())
        note = f"By initial weights: {told}. {note}".strip()
        out.append(
            paper.relation("plateau-shrinks", name, fig3, "falls with initial weights", values, falls, note)
        )
    if "very-high" in p.weights:
        name = "very large initial weights, error: the theory fails"
        out.append(paper.above("fit-very-large", name, fig3, BOUND, error(dyn["very-high"])))
    if "default" in dyn:
        ratio = error(r["adam"]) / error(dyn["default"]).mean()
        name = "error of the fit with Adam / with descent"
        out.append(paper.above("fit-adam", name, f"{PAPER} Fig. 13", 1.5, ratio))
    return out


EXPERIMENT = Experiment(
    "two-point",
    "Two samples in any network: the effective theory over architectures",
    "representations_align Fig. 2, 3, 5, 11, 13",
    TwoPoint(),
    TwoPoint(
        seeds=2, architectures=("default", "skip", "shallow"), weights=("default", "very-high"),
        steps=1500, depth=10, width=60, faster=4.0, grid=3, adam=1e-4, adam_steps=600,
    ),
    compute,
    figures,
    claims,
    (0.5, 200),
    needs_full=("worst-moment", "trials-converged"),  # over eleven networks; here there are three
)  # fmt: skip
