"""Reduced systems drawn at random, with the curves of the library: what a saved page must compute itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice, product

import numpy as np

import neuralrace as nr
from neuralrace.errors import NothingToReduceError
from neuralrace.laboratory.gallery import GALLERY, values_of
from neuralrace.laboratory.model import Model
from neuralrace.laboratory.protocol import Badge, LaneDetails, System
from neuralrace.laboratory.systems import system
from neuralrace.laboratory.theory import ROUGH, Structure
from neuralrace.reduction import settled_time

SAID = LaneDetails(
    name="", badge=Badge(verdict="exact", title="", words=""), equations=[], equation_groups=[],
    no_equations=None, conserved=[],
)  # fmt: skip
TIMES = 61


@dataclass(frozen=True)
class Drawn:
    """A system, and the loss that the library finds for it."""

    what: str
    system: System
    times: np.ndarray
    loss: np.ndarray


def corners() -> Iterator[Model]:
    """Every entry of the gallery with its sliders at their ends."""
    for name, scenery in GALLERY.items():
        if scenery.make is not None and name != "contexts":  # which is too large for a page
            sliders = {s.name: (s.low, s.high) for s in scenery.entry.sliders}
            for ends in product(*sliders.values()):
                yield scenery.make(values_of(name, dict(zip(sliders, ends, strict=True))))


def network(rng: np.random.Generator) -> Model:
    """Some pathways with gates, and data of any covariance; each pathway starts with its own strength."""
    n_in, n_out, n = rng.integers(1, 3, 3).tolist()
    depths = rng.integers(0, 2, n)
    graph = nr.Graph.pathways(n_in, n_out, [[8] * int(d + 1) for d in depths])
    rows = n_in + int(rng.integers(0, 4))
    x = np.sqrt(rows) * np.eye(rows, n_in) if rng.random() < 0.8 else rng.standard_normal((rows, n_in))
    y = x @ rng.standard_normal((n_in, n_out))
    gates = {f"p{k}h1": rng.integers(0, 2, rows).astype(float) for k in range(n) if rng.random() < 0.4}
    strength, ahead = float(10 ** rng.uniform(-1.5, -0.3)), rng.choice([1, 1.3], n)
    own = {e: strength * ahead[k] for k in range(n) for e in graph.edges if f"p{k}h" in e}
    task = nr.Task(graph, x, y, gates)
    return Model({"network": task}, strength, {"network": str(rng.random())}, edge_strength=own)


def curves(model: Model) -> Iterator[Drawn]:
    """Every lane of a model, until it has learned what it learns."""
    for lane in model.lanes:
        known, start = Structure.of(model, lane), model.start(lane)
        r = known.reduction
        found = system(r, start, {}, r, [], SAID)
        end = 1.15 * settled_time(r.until_learned(start, method=ROUGH)) or 10 * r.fastest_time
        times = np.linspace(0.0, end, TIMES)
        what = f"{lane}: {model.code[lane]} from {model.strength:.3g} ({r.form})"
        yield Drawn(what, found, times, r.solve(start, end, times).loss)


def drawn(count: int, seed: int) -> list[Drawn]:
    """Half of them at corners of the gallery, half of networks that nobody chose."""
    rng, models = np.random.default_rng(seed), list(corners())
    chosen = (models[k] for k in rng.permutation(len(models)))
    found = list(islice(chain.from_iterable(map(curves, chosen)), count // 2))
    while len(found) < count:
        with suppress(NothingToReduceError):
            found += curves(network(rng))
    return found[:count]
