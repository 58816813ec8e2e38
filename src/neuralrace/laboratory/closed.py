"""Two entries whose theory is a closed form, not a reduction: balanced weights and two points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import neuralrace as nr
from neuralrace.laboratory.model import Values
from neuralrace.laboratory.protocol import Badge, Details, Finished, LaneDetails, Picture, Simulated
from neuralrace.laboratory.simulate import agreement, stretches
from neuralrace.laboratory.theory import TIMES, drawn_lane, drawn_picture, drawn_racer, first_of, numbers
from neuralrace.reduction import UNLEARNED

Weights = dict[str, np.ndarray]
METHOD = nr.Adaptive(rtol=1e-10, atol=1e-12)  # networks pass saddles here, which magnify errors


@dataclass(frozen=True)
class ClosedForm:
    """A network of two layers, x to h to y, whose weights over time are known.

    Attributes
    ----------
    solve : callable
        Times -> (loss, racers by time, size of each edge by time).
    measure : callable
        Weights `(times, out, in)` -> racers by time.
    """

    task: nr.Task
    weights: Weights
    rates: nr.Rates
    names: list[str]
    goals: list[float]
    equations: list[str]
    conserved: list[str]
    words: str
    solve: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
    measure: Callable[[Weights], np.ndarray]
    code: str
    race: bool = True  # whether its curves race

    def times(self) -> np.ndarray:
        """An even time axis by whose end all but a share `UNLEARNED` is learned."""
        probe = np.append(0.0, np.geomspace(0.05, 2000.0, 60))
        loss = self.solve(probe)[0]
        left = loss[-1] + UNLEARNED * (loss[0] - loss[-1])
        end = probe[int(np.argmax(loss <= left))] if loss[0] > loss[-1] else 10.0
        return np.linspace(0.0, float(f"{max(end, 0.1):.2g}"), TIMES)

    def picture(self, number: int, began: float) -> Picture:
        """What the page draws."""
        t, graph = self.times(), self.task.graph
        loss, carries, sizes = self.solve(t)
        racers = [
            drawn_racer(n, c, goal, t, list(graph.edges))
            for n, c, goal in zip(self.names, carries, self.goals, strict=True)
        ]
        level = float(loss[-1] + 0.4 * (loss[0] - loss[-1]))
        groups = {(e,): size for e, size in zip(graph.edges, sizes, strict=True)}
        lane = drawn_lane("network", graph, groups, racers, loss, nr.measure.crossing(t, loss, level), {})
        return drawn_picture(
            number, began, t, level, [lane],
            racers_are="modes", theory="closed form", winner=first_of(racers) if self.race else None,
        )  # fmt: skip

    def details(self, number: int) -> Details:
        """Equations and conserved quantities."""
        badge = Badge(verdict="exact", title="✓ exact", words=self.words)
        lane = LaneDetails(
            name="network", badge=badge, equations=self.equations, equation_groups=[0, 1],
            no_equations=None, conserved=self.conserved,
        )  # fmt: skip
        return Details(id=number, lanes=[lane], similarity_at=[], similarity=[], race=[])

    def simulate(self, number: int) -> Iterator[Simulated | Finished]:
        """Train the network from the same start."""
        t, worst = self.times(), 0.0
        first = float(self.solve(t[:1])[0][0])
        start = {e: np.asarray(w)[None] for e, w in self.weights.items()}
        for at, loss, weights in stretches(self.task, start, t, METHOD, rates=self.rates):
            worst = max(worst, float(np.abs(loss[0] - self.solve(t[at])[0]).max()))
            carries = self.measure({e: w[0] for e, w in weights.items()})
            yield Simulated(
                id=number, lane=0, run=0, t=numbers(t[at]), loss=numbers(loss[0]),
                carries=[numbers(c) for c in carries],
            )  # fmt: skip
        yield Finished(id=number, difference=[worst], words=agreement(worst, first))


def balanced(v: Values) -> ClosedForm:
    """Two layers with `W2^T W2 - W1 W1^T = lam I` (the talk's Eq. 13-15)."""
    n_in, n_out = int(v["inputs"]), int(v["outputs"])
    modes = min(n_in, n_out)
    s = np.linspace(2.0, 1.0, modes)
    rng = np.random.default_rng(0)
    u, right = nr.init.random_frame(rng, n_out, modes), nr.init.random_frame(rng, n_in, modes)
    graph = nr.Graph.chain([n_in, modes, n_out])
    w = nr.init.balanced(graph, v["lam"], v["scale"], seed=3)
    # At lam = 0 the sign of this determinant never changes: with the wrong one a mode is never learned.
    u[:, 0] *= np.sign(np.linalg.det(u.T @ w["h1->y"] @ w["x->h1"] @ right)) or 1.0
    syx = (u * s) @ right.T
    task = nr.tasks.linear(syx, graph=graph)

    def measure(weights: Weights) -> np.ndarray:
        return np.einsum("om,toh,thi,im->mt", u, weights["h1->y"], weights["x->h1"], right)

    def solve(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        w1, w2 = (np.asarray(x) for x in nr.exact.balanced(t, w["x->h1"], w["h1->y"], syx))
        loss = 0.5 * ((w2 @ w1 - syx) ** 2).sum(axis=(1, 2))
        sizes = np.sqrt(np.stack([(w1**2).sum(axis=(1, 2)), (w2**2).sum(axis=(1, 2))]))
        return loss, measure({"x->h1": w1, "h1->y": w2}), sizes

    code = f"""rng = np.random.default_rng(0)
u, v = nr.init.random_frame(rng, {n_out}, {modes}), nr.init.random_frame(rng, {n_in}, {modes})
graph = nr.Graph.chain([{n_in}, {modes}, {n_out}])
w = nr.init.balanced(graph, {v["lam"]!r}, {v["scale"]!r}, seed=3)
u[:, 0] *= np.sign(np.linalg.det(u.T @ w["h1->y"] @ w["x->h1"] @ v))
syx = (u * np.linspace(2.0, 1.0, {modes})) @ v.T
w1, w2 = nr.exact.balanced(t, w["x->h1"], w["h1->y"], syx)
loss = 0.5 * ((w2 @ w1 - syx) ** 2).sum(axis=(1, 2))"""
    return ClosedForm(
        task, w, nr.Rates(), [f"mode {k + 1}" for k in range(modes)], s.tolist(),
        [
            r"\tau \frac{d}{dt} W_1 = W_2^T \left(\Sigma^{yx} - W_2 W_1\right)",
            r"\tau \frac{d}{dt} W_2 = \left(\Sigma^{yx} - W_2 W_1\right) W_1^T",
        ],
        ["W_2^T W_2 - W_1 W_1^T = " + (rf"{v['lam']:g}\, I" if v["lam"] else "0")],
        "Exact: the closed form of two layers from balanced weights and white inputs (the talk's Eq. 13-15). "
        "The lines are the network's own curves.",
        solve, measure, code,
    )  # fmt: skip


def two_points(v: Values) -> ClosedForm:
    """Distances of two samples in the representation and in the output (representations_align Eq. 7).

    The network beside it is linear, with a decoder along the representation: there the effective theory is
    exact. Inputs are -+dx/2 and targets -+dy/2; the loss is a mean over two samples, which halves the rates.
    """
    dx, dy, dh2 = v["dx2"] ** 0.5, v["dy2"] ** 0.5, v["dh2"]
    hidden = 16
    start = 0.1 * dh2**0.5  # difference of the outputs, along that of the targets
    graph = nr.Graph.chain([1, hidden, 1])
    task = nr.Task(graph, [[-dx / 2], [dx / 2]], [[-dy / 2], [dy / 2]])
    direction = nr.init.random_frame(np.random.default_rng(0), hidden, 1)
    weights = {"x->h1": direction * dh2**0.5 / dx, "h1->y": direction.T * start / dh2**0.5}
    given = {"dx": dx, "dy": dy, "rate_h": v["rate_h"], "rate_y": v["rate_y"]}
    begin = {"dh2": dh2, "dy2": start**2, "w": start**2 - start * dy}

    def solve(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        h, y, w = (
            np.broadcast_to(np.asarray(x), t.shape) for x in nr.universality.solve(t, **begin, **given)
        )
        loss = np.maximum(dy**2 - y + 2 * w, 0) / 8
        sizes = np.stack([np.sqrt(h) / dx, np.sqrt(y / np.maximum(h, 1e-300))])
        return loss, np.stack([h, y]), sizes

    def measure(weights: Weights) -> np.ndarray:
        w1, w2 = weights["x->h1"], weights["h1->y"]
        return np.stack([(dx**2) * (w1**2).sum(axis=(1, 2)), (dx * (w2 @ w1)[:, 0, 0]) ** 2])

    final = float(np.asarray(nr.universality.solve([1e4], **begin, **given).dh2).ravel()[0])
    code = f"""dx, dy, dh2, start = {dx!r}, {dy!r}, {dh2!r}, {start!r}
rates = {{"rate_h": {v["rate_h"]!r}, "rate_y": {v["rate_y"]!r}}}
dh2, dy2, w = nr.universality.solve(t, dh2, start**2, start**2 - start * dy, dx=dx, dy=dy, **rates)
loss = (dy**2 - dy2 + 2 * w) / 8"""
    return ClosedForm(
        task, weights, nr.Rates(scale={"x->h1": 2 * v["rate_h"], "h1->y": 2 * v["rate_y"]}),
        ["|dh|², representation", "|dy|², output"], [final, dy**2],
        [
            r"\frac{d}{dt} |dh|^2 = -\frac{1}{\tau_h} |dx|^2\, w",
            r"\frac{d}{dt} |dy|^2 = -\left(\frac{1}{\tau_y} |dh|^2 "
            r"+ \frac{1}{\tau_h} \frac{|dx|^2}{|dh|^2} |dy|^2\right) w",
        ],
        [],
        "Exact for the network that is trained here: linear, its decoder along the representation. For any "
        "other smooth network it is an effective theory, whose two rates are fitted (nr.universality.fit).",
        solve, measure, code, race=False,
    )  # fmt: skip


CLOSED: dict[str, Callable[[Values], ClosedForm]] = {"balanced": balanced, "two-points": two_points}
