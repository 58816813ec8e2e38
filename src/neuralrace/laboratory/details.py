"""What theory says of a solved model in words and symbols: certificate, equations, laws, similarity, race."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace.errors import InputError
from neuralrace.laboratory.protocol import Badge, Details, LaneDetails, Similarity, Symbol
from neuralrace.laboratory.theory import Solved, SolvedLane, finite
from neuralrace.reduction import Kind, in_latex

_ALIGNED = "Equations of aligned starts; {:.0%} of the square of these random weights lies outside them."
_FORMS = {
    "numbers": "one for each mode",
    "vectors": "vectors over the modes",
    "matrices": "as small matrices",
}
_GROWTH = "growth rate from small weights: S of one pathway, a mean over all samples"
_STRENGTHS = "strengths of the classes of edges, {}"
FRAMES = 25  # times at which similarities are shown
MOST_SAMPLES, MOST_LAYERS, MOST_EQUATIONS = 28, 6, 12
MOST_SYMBOLS, MOST_VALUES = 12, 6
LEVELS = 36  # of similarity on either side of 0, as characters from "0" on


def details(solved: Solved, number: int, winners: list[str | None]) -> Details:
    """Everything beside the curves; `winners` are those of the starts."""
    at = np.unique(np.linspace(0, len(solved.t) - 1, FRAMES).round().astype(int))
    similar = [s for k, lane in enumerate(solved.lanes) for s in similarities(lane, k, at)]
    return Details(
        id=number, lanes=[_lane(lane, solved.random) for lane in solved.lanes],
        similarity_at=at.tolist(), similarity=similar, race=_race(solved),
        wins=Counter(name or "a tie" for name in winners).most_common() if solved.random else [],
    )  # fmt: skip


def _race(solved: Solved) -> list[tuple[str, float | None]]:
    """The winner among gatings, as `nr.race` finds it; all start with the same strength."""
    if len(solved.lanes) < 2 or solved.random:
        return []
    model = solved.model
    found = nr.race(model.lanes, level=solved.level, strength=model.strength, t1=float(solved.t[-1]) * 4)
    return [(name, finite(t)) for name, t in found.times.items()]


def _lane(lane: SolvedLane, random: bool) -> LaneDetails:
    r = lane.reduction
    said = describe(lane.name, r)
    if random:
        outside = _ALIGNED.format(r.distance(lane.weights) ** 2)
        said = said.model_copy(
            update={"badge": _random_badge(lane), "conserved": [], "no_equations": outside}
        )
    badge, ended = said.badge, lane.solution.outcome
    stuck = lane.left if r.directions == 1 else ""
    if stuck or not ended.startswith((nr.Status.FINISHED.value, nr.Status.UNSETTLED.value)):
        ended = stuck or ended
        badge.verdict, badge.title, badge.words = "inexact", f"≈ {ended}", f"{ended}. {badge.words}"
    elif lane.left:
        does = "rests at a saddle" if lane.left.startswith(nr.Status.SADDLE.value) else "does not learn all"
        badge.title = (
            f"The papers' family {does} here; shown is a family with {r.directions} directions per mode"
        )
        badge.words = f"The papers' family: {lane.left}. Shown: {badge.words}"
    elif ended.startswith(nr.Status.UNSETTLED.value):
        badge.words += f" At the end of the axis: {ended}."
    return said


def describe(name: str, r: nr.Reduction) -> LaneDetails:
    """What theory says of a lane, wherever it starts."""
    lines, owners, why = _equations(r)
    return LaneDetails(
        name=name, badge=_badge(r), equations=lines, equation_groups=owners, no_equations=why,
        conserved=_conserved(r), symbols=_symbols(r) if lines else [],
    )  # fmt: skip


def _symbols(r: nr.Reduction) -> list[Symbol]:
    """What the letters of the equations stand for, with their numbers for these data."""
    kinds = Kind.CORRELATION, Kind.COVARIANCE, Kind.FIXED
    alike: dict[tuple[str, str], list[str]] = {(_STRENGTHS.format(_FORMS[r.form]), ""): ["B"]}
    written = r.written()
    for q in (q for q in written.quantities if q.kind in kinds):
        alike.setdefault((q.kind.value, _numbers(q.value)), []).append(in_latex(q.symbol))
    for rate in dict.fromkeys(map(_growth, written.equations if r.form == "numbers" else [])):
        share, s = rate.as_coeff_Mul()
        if s in (numbers := written.numbers(Kind.CORRELATION)) and share != 1:
            alike[_GROWTH, _numbers(float(share) * numbers[s])] = [f"{in_latex(share)} \\cdot {in_latex(s)}"]
    each = [Symbol(latex=names, words=words, value=v) for (words, v), names in alike.items()]
    return each[:MOST_SYMBOLS]


def _growth(equation: Any) -> Any:
    """The rate at which a strength grows exponentially while all strengths are small; 0 where it does not."""
    symbols = {s for s in equation.rhs.free_symbols if str(s).startswith("B")}
    return equation.rhs.diff(equation.strength).subs(dict.fromkeys(symbols, 0))


def _numbers(value: Any) -> str:
    """Numbers of a statistic: its different ones where they are few, else its shape."""
    v = np.asarray(value)
    if v.ndim == 2 and 1 not in v.shape:
        small = v.size <= MOST_VALUES
        return (
            "; ".join(" ".join(f"{x:.3g}" for x in row) for row in v) if small else f"{len(v)} × {len(v.T)}"
        )
    found = Counter(f"{x:.3g}" for x in v.ravel())
    each = [x if n == 1 else f"{x} ({n} times)" for x, n in found.items()]
    return ", ".join(each[:MOST_VALUES]) + ", …" * (len(each) > MOST_VALUES)


def _badge(r: nr.Reduction) -> Badge:
    if r.exact:
        title = "✓ exact"
        words = (
            "Exact: from a start in this family the gradient of the full network never leaves it "
            f"(at most {r.residual:.0e} of it does, rounding). The lines are the network's own curves."
        )
    else:
        title = "≈ not exact"
        words = (
            f"Not exact: {r.residual:.0%} of the gradient leaves the family, through "
            f"{', '.join(r.inexact_paths[:3])}. Trust the trained networks, not the lines."
        )
    if r.omitted_modes:
        words += f" Hidden layers are too narrow for {r.omitted_modes} modes, which are left out."
    return Badge(verdict="exact" if r.exact else "inexact", title=title, words=words)


def _random_badge(lane: SolvedLane) -> Badge:
    error = float(np.max(lane.solution.stats["error"]))
    words = (
        "Each line is nr.reduce(task, weights=...) around one random start, of which nothing is left out. "
        f"The first start is drawn; its stated error of the loss is {error:.0e} of the initial loss."
    )
    return Badge(verdict="exact", title="✓ theory of these very starts", words=words)


def _equations(r: nr.Reduction) -> tuple[list[str], list[int], str | None]:
    """A LaTeX line for each equation, and the class of edges that it is about if it is about one."""
    try:
        every = r.written().equations
    except InputError as error:
        return [], [], str(error)
    shown = every[:MOST_EQUATIONS]
    lines = [" = ".join(eq.latex) for eq in shown]
    owners = [eq.edge_class for eq in shown] if r.directions == 1 else []  # else in several
    return lines, owners, f"and {len(every) - len(shown)} more" if len(every) > len(shown) else None


def _conserved(r: nr.Reduction) -> list[str]:
    import sympy

    try:
        return [sympy.latex(law) for law in r.conserved()[:6]]
    except InputError:
        return []


def similarities(lane: SolvedLane, number: int, at: np.ndarray) -> list[Similarity]:
    """Cosine similarity of samples in some layers at some times; first the layers that most samples reach."""
    rows = lane.reduction.task.as_samples()
    each = [lane.solution.at(k) for k in at]
    weights = {e: np.stack([w[e] for w in each]) for e in each[0]}
    n = len(rows.samples.sample_weight)
    chosen = np.unique(np.linspace(0, n - 1, min(n, MOST_SAMPLES)).round().astype(int))
    found: list[tuple[int, Similarity]] = []
    for layer in [*rows.graph.hidden[:MOST_LAYERS], *rows.graph.outputs[:2]]:
        h = nr.activity(rows, weights, layer)[:, chosen]
        size = np.linalg.norm(h, axis=-1)
        live = size > 1e-9 * size.max(initial=1e-300)
        cosine = np.nan_to_num(nr.measure.cosine_similarity(np.where(live[..., None], h, 0.0)))
        codes = (np.rint(LEVELS * np.clip(cosine, -1, 1)) + LEVELS + ord("0")).astype(np.uint8)
        frames = [frame.tobytes().decode("ascii") for frame in codes.reshape(len(at), -1)]
        reached = int(live[-1].sum())
        found.append((reached, Similarity(lane=number, layer=layer, samples=len(chosen), frames=frames)))
    return [s for _, s in sorted(found, key=lambda pair: -pair[0])]
