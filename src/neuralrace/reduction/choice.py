"""The family of weights in which a task is reduced: the first in which the gradient stays."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import numpy as np

from neuralrace.dynamics.rates import Rates
from neuralrace.reduction.certificate import EXACT, gradient_residual, random_points
from neuralrace.reduction.family import FAMILIES, Family, with_directions
from neuralrace.reduction.ties import Classes, refine
from neuralrace.task import Task


def choose(
    task: Task,
    bases: Iterable[str],
    start: Mapping[str, Hashable],
    rates: Rates,
    directions: int = 1,
    seed: int = 0,
) -> tuple[Family, Classes, dict[str, float], Rates]:
    """The first family that the gradient does not leave, or else the first; what a `Reduction` holds of it.

    Edges whose value in `start` differs are in different classes.
    """
    found = None
    for name in bases:
        if name == "block" and directions > 1:
            break
        rng = np.random.default_rng(seed)
        family = FAMILIES[name](task, rng)
        family = family if directions == 1 else with_directions(family, directions)
        left = gradient_residual(task, family, random_points(family, rng))
        if found is None or max(left.values()) < EXACT:
            found = (family, left)
        if max(left.values()) < EXACT:
            break
    assert found is not None
    family, left = found
    apart: dict[str, Hashable] = {e: (v, rates.of(e)) for e, v in start.items()}
    if (split := family.split) is not None:
        rates = split.rates(rates)
        apart = {n: (apart[e], family.start[n].tobytes()) for n, (e, _, _) in split.edge_of.items()}
    return family, refine(family, apart, np.random.default_rng(seed)), left, rates
