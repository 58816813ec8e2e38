"""When routing networks learn, by Eq. 15 and by the reduction: what the experiment `routing` computes of it,
and its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

import neuralrace as nr
from neuralrace_papers.framework.claim import Claim, finding, kebab, paper
from neuralrace_papers.framework.declaration import Data
from neuralrace_papers.neural_race.domains_data import ITEMS, eq15, strengths_of_size

if TYPE_CHECKING:
    from neuralrace_papers.neural_race.routing import Routing

FIG = "neural_race Fig. 4"
LEVELS = (150, 40, 9, 1)  # of the published loss, which starts at 244: as the modes are learned
START = {"descent": "published start", "xavier": "Xavier start", "small": "small start"}
TIME = "stated standard: 5% of the time"


def as_printed(p: Routing, r: nr.Reduction) -> bool:
    """Whether the equations of the reduction are neural_race Eq. 13-14."""
    b1, b2, s, d = sp.symbols("B1 B2 S D")
    printed = [b2 * b1 * (s - b2 * b1**2 * d) / p.domains, b1**2 * (s - b2 * b1**2 * d)]
    derived = [e.rhs for e in r.equations()]
    return len(derived) == 2 and all(sp.simplify(a - b) == 0 for a, b in zip(derived, printed, strict=True))


def by_eq15(p: Routing, start: Mapping[str, np.ndarray], scale: float, t: np.ndarray) -> dict[str, Any]:
    """Eq. 15 from the strengths that the size of the weights gives: itself, and as in the authors' code."""
    strengths = {"size": strengths_of_size(start, p.domains), "code": scale / p.divisor}
    steps, levels = len(t) - 1, np.array(LEVELS) / p.published
    fine, saved = np.linspace(0, 2 * t[-1], 8 * steps + 1), slice(0, 4 * steps + 1, 4)  # it may be late
    curves = [eq15(p.domains, fine, b0) for b0 in strengths.values()]
    return {
        "start": ("start", list(strengths)),
        "eq15": ("start t", [loss[saved] for loss, _, _ in curves]),
        "eq15_end": ("start mode", [eq15(p.domains, np.array([1e6]), b0)[2][0] for b0 in strengths.values()]),
        "eq15_times": ("start level", [nr.measure.crossing(fine, loss, levels) for loss, _, _ in curves]),
        "eq15_strengths": ("start layer t mode", [[b[saved] for b in (b1, b2, b1)] for _, b1, b2 in curves]),
    }


def times(p: Routing, run: nr.Trajectory) -> np.ndarray:
    """Times to reach the levels of the published loss, `(level, ...)`."""
    return np.stack([nr.learning_time(run, level / p.published) for level in LEVELS])


def learning_times(p: Routing, data: Data) -> Iterator[Claim]:
    good = paper(
        f"{FIG}e",
        "theoretical prediction from Eqn. 15 [...] is a good approximation for small random weights.",
    )
    part = "Only a part of random weights lies in directions that grow: Eq. 15 from all of it is early."
    code = f"The authors' code divides the scale by {p.divisor:g}; the paper does not say so."
    size, by_code = ("size", "the size of the weights", part), ("code", f"{p.scale:g} / {p.divisor:g}", code)
    for case, (start, words, note) in product(("descent", "xavier"), (size, by_code)):
        run = data.random[case]
        off = np.abs(run.eq15_times.sel(start=start) / run.times - 1).max("level")
        levels = f"times to loss {', '.join(map(str, LEVELS))}"
        name = f"|Eq. 15 from {words} / network - 1|, largest over {levels}, {START[case]}"
        key = f"eq-15-{start}-{kebab(START[case])}"
        yield good.near(key, name, 0, off, 0.1, note, "stated standard: 10%")
    late = {c: run.theory_times / run.times - 1 for c, run in data.random.items() if "theory" in run}
    same = "Does not shrink with the weights: three layers align on the time scale on which they grow."
    for k, level in enumerate(LEVELS):
        flow = f"Against gradient flow {float(late['flow'][k].mean()):+.1%}."
        for case, note in (("descent", flow), ("xavier", same), ("small", same)):
            key = f"time-loss-{level}-{kebab(START[case])}"
            name = f"reduction from own weights / network - 1, time to loss {level}, {START[case]}"
            yield finding(f"{FIG}e").near(key, name, 0, late[case][k], 0.05, note, TIME)


def singular_values(p: Routing, data: Data) -> Iterator[Claim]:
    """When each mode is learned in the hidden layer, by Eq. 15 as the authors' code starts it."""
    run = data.random["descent"]
    end = run.eq15_end.sel(start="code").values  # (mode,), when all is learned
    curves = run.eq15_strengths[1, 1], run.singular_values[1]  # (t, mode), (run, t, mode)
    theory, half = (nr.measure.half_time(run.t, c.values, start=0.0, end=end, axis=-2) for c in curves)
    off = np.abs(theory / half - 1)  # (run, mode)
    quote = "Theoretical predictions match simulations well, particularly for larger singular values."
    match, well = paper(f"{FIG}f", quote), "stated standard: 10% of the time"
    spread = "Eq. 15 gives modes of equal strength the same time; random starts learn them one by one."
    for mode in range(ITEMS):
        name = f"time to half of hidden singular value {mode + 1}, |Eq. 15 / network - 1|"
        yield match.near(f"half-time-mode-{mode + 1}", name, 0, off[:, mode], 0.1, spread, well)
    better = off[:, -1] - off[:, 0]
    name = "|Eq. 15 / network - 1| of half times, weakest less strongest mode, mean over starts"
    chance = f"A start makes all its modes early or late: {better.std(ddof=1) / p.seeds**0.5:.1%} by chance."
    yield match.relation(
        "larger-values-match-better", name, "> 0", better.mean(), better.mean() > 0, chance,
        "the paper: particularly",
    )  # fmt: skip
