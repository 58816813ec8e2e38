"""The gallery: twelve scenes to start from, each with its sliders and the tasks that they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from neuralrace import tasks
from neuralrace.errors import InputError
from neuralrace.graph import Graph
from neuralrace.laboratory.model import Model, Values
from neuralrace.laboratory.protocol import Entry, Slider


@dataclass(frozen=True)
class Scenery:
    """An entry, and the function from values of its sliders to a model (None: it has a theory of its own)."""

    entry: Entry
    make: Callable[[Values], Model] | None = None
    large: str | None = None  # slider for whole numbers that makes large reductions

    def large_models(self) -> list[Model]:
        """The model at each place of that slider."""
        if self.make is None or self.large is None:
            return []
        usual = {s.name: s.value for s in self.entry.sliders}
        (own,) = (s for s in self.entry.sliders if s.name == self.large)
        return [self.make(usual | {own.name: n}) for n in range(int(own.low), int(own.high) + 1)]


def slider(
    name: str, label: str, low: float, high: float, value: float, step: float = 0.01, log: bool = False
) -> Slider:
    """A slider; `step` is of the logarithm to base 10 where the scale is logarithmic."""
    return Slider(name=name, label=label, low=low, high=high, step=step, value=value, log=log)


def whole(name: str, label: str, low: int, high: int, value: int) -> Slider:
    """A slider for whole numbers."""
    return slider(name, label, low, high, value, 1)


def initial(value: float, low: float = 1e-4, high: float = 0.5) -> Slider:
    """The slider for the initial strength."""
    return slider("strength", "initial strength", low, high, value, 0.02, log=True)


def xor(v: Values) -> Model:
    hidden = int(v["hidden"])
    task, code = tasks.xor(hidden), f"nr.tasks.xor(hidden={hidden})"
    names = {f"p{k}h1": f"sample {s}" for k, s in enumerate(("++", "+-", "-+", "--"))}
    return Model({"xor": task}, v["strength"], {"xor": code}, names=names)


def separability(v: Values) -> Model:
    made = {g: tasks.separability(v["delta"], g, 16) for g in ("linear", "xor")}
    code = {g: f'nr.tasks.separability({v["delta"]:g}, "{g}", hidden=16)' for g in made}
    return Model(made, v["strength"], code)


def relu(v: Values) -> Model:
    """Both gatings from the growing part that their share of the ReLU network's units has at the start."""
    width, std = int(v["hidden"]), v["std"]
    made = {g: tasks.separability(v["delta"], g, 16) for g in ("linear", "xor")}
    code = {g: f'nr.tasks.separability({v["delta"]:g}, "{g}", hidden=16)' for g in made}
    # make_haste_slowly C: of n pathways each has width / n units, whose growing part is |w + v|^2 / 4.
    parts = {g: float(np.sqrt(width / n / 2) * std) for g, n in (("linear", 2), ("xor", 4))}
    graph = Graph.chain([3, width, 1], activations={"h1": "relu"})
    beside = tasks.separability(v["delta"], graph=graph)
    own = {f"{g}/{e}": parts[g] for g, t in made.items() for e in t.graph.edges}
    return Model(made, parts["xor"], code, edge_strength=own, beside=beside, beside_std=std)


def contextual(v: Values) -> Model:
    samples = int(v["samples"])
    task = tasks.contextual_classification(samples, hidden=16)
    code = f"nr.tasks.contextual_classification({samples}, hidden=16)"
    names = {"p0h1": "context 1", "p1h1": "context 2"}
    return Model({"contextual": task}, v["strength"], {"contextual": code}, names=names)


def routing(v: Values) -> Model:
    m = int(v["domains"])
    k = min(int(v["trained"]), m)
    hidden = (32,) * (int(v["depth"]) - 1)
    task = tasks.routing(m, k, hidden=hidden)
    return Model(
        {"routing": task}, v["strength"], {"routing": f"nr.tasks.routing({m}, {k}, hidden={hidden})"}
    )


def sharing(v: Values) -> Model:
    n, group = int(v["groups"]), int(v["group"])
    hidden = (32,) * (int(v["depth"]) - 1)
    task = tasks.sharing(n * group, group, hidden=hidden)
    code = f"nr.tasks.sharing({n * group}, {group}, hidden={hidden})"
    return Model({"sharing": task}, v["strength"], {"sharing": code})


def contexts(v: Values) -> Model:
    n = int(v["contexts"])
    task = tasks.contexts(n, gating="shared", hidden=16)
    code = f'nr.tasks.contexts({n}, gating="shared", hidden=16)'
    names = {"p0h1": "always open"} | {f"p{k + 1}h1": f"all but context {n - k}" for k in range(n)}
    return Model({"contexts": task}, v["strength"], {"contexts": code}, v["time"], names=names)


def pathways(v: Values) -> Model:
    """Parallel pathways of one or two depths; the first starts with a head start."""
    n, shallow, deep = int(v["pathways"]), int(v["shallow"]), int(v["deep"])
    hidden = [[32] * (shallow - 1)] + [[32] * (deep - 1)] * (n - 1)
    task = tasks.hierarchy(3, graph=Graph.pathways(4, 7, hidden))
    code = f"nr.tasks.hierarchy(3, graph=nr.Graph.pathways(4, 7, {hidden}))"
    ahead = {e: v["strength"] * v["ahead"] for e in task.graph.edges if "p0h" in e}
    names = {f"p{k}h1": f"pathway {k + 1}, {len(h) + 1} layers" for k, h in enumerate(hidden)}
    return Model({"pathways": task}, v["strength"], {"pathways": code}, edge_strength=ahead, names=names)


def chain(v: Values) -> Model:
    sizes = [4, *[32] * (int(v["depth"]) - 1), 7]
    task = tasks.hierarchy(3, graph=Graph.chain(sizes))
    return Model(
        {"chain": task}, v["strength"], {"chain": f"nr.tasks.hierarchy(3, graph=nr.Graph.chain({sizes}))"}
    )


def hierarchy(v: Values) -> Model:
    levels, branching = int(v["levels"]), int(v["branching"])
    task = tasks.hierarchy(levels, branching)
    code = f"nr.tasks.hierarchy({levels}, {branching})"
    return Model({"hierarchy": task}, v["strength"], {"hierarchy": code})


HASTE, RACE = "Make haste slowly", "The neural race reduction"
MULTI, TALK = "Multi-pathway", "Learning dynamics talk"

GALLERY: dict[str, Scenery] = {
    s.entry.name: s
    for s in (
        Scenery(
            Entry(
                name="xor",
                title="Exclusive or",
                figure=f"{RACE}, Fig. 3",
                sentence="No linear map computes exclusive or; gates make it four linear problems.",
                sliders=[initial(0.05), whole("hidden", "neurons per pathway", 2, 64, 16)],
            ),
            xor,
        ),
        Scenery(
            Entry(
                name="separability",
                title="Separability",
                figure=f"{HASTE}, Fig. 2",
                sentence="Two gatings race for the same data; a wide margin lets the linear one win.",
                sliders=[slider("delta", "margin Δ", 0.05, 2.5, 0.6, 0.01), initial(0.03)],
            ),
            separability,
        ),
        Scenery(
            Entry(
                name="contextual",
                title="Contextual classification",
                figure=f"{RACE}, A.2",
                sentence="The context says which of two numbers to report: a pathway for each.",
                sliders=[initial(0.05), whole("samples", "samples", 10, 500, 100)],
            ),
            contextual,
        ),
        Scenery(
            Entry(
                name="routing",
                title="Routing",
                figure=f"{RACE}, Fig. 4",
                sentence="Shared layers carry all routes, so they grow √M times as strong as the others.",
                sliders=[
                    whole("domains", "domains M", 2, 10, 5),
                    whole("trained", "trained with K", 1, 10, 3),
                    whole("depth", "layers", 2, 4, 3),
                    initial(0.1, 0.01),
                ],
            ),
            routing,
        ),
        Scenery(
            Entry(
                name="sharing",
                title="Sharing",
                figure=f"{RACE}, Fig. 5",
                sentence="The more routes share a hidden pathway, the faster all of them learn.",
                sliders=[
                    whole("group", "domains in a group (P = its square)", 1, 3, 2),
                    whole("groups", "groups", 1, 3, 2),
                    whole("depth", "layers", 2, 4, 3),
                    initial(0.1, 0.01),
                ],
            ),
            sharing,
        ),
        Scenery(
            Entry(
                name="contexts",
                title="Contexts",
                figure=f"{HASTE}, Fig. 5",
                sentence="What all contexts share is learned first, by the pathway that is always open.",
                sliders=[
                    whole("contexts", "contexts C", 2, 5, 3),
                    initial(0.05, 0.005),
                    slider("time", "time shown", 20, 160, 80, 5),
                ],
            ),
            contexts,
            large="contexts",
        ),
        Scenery(
            Entry(
                name="pathways",
                title="Parallel pathways",
                figure=f"{MULTI}, Fig. 3-4",
                sentence="Pathways to the same target compete: the first to learn takes what there is.",
                sliders=[
                    whole("pathways", "pathways", 2, 5, 2),
                    whole("shallow", "layers of the first", 2, 5, 3),
                    whole("deep", "layers of the others", 2, 5, 3),
                    slider("ahead", "head start of the first", 1, 3, 1.2, 0.05),
                    initial(0.2, 0.01, 0.8),
                ],
            ),
            pathways,
        ),
        Scenery(
            Entry(
                name="chain",
                title="Deep chain",
                figure=f"{TALK}: part 1",
                sentence="The deeper the chain, the longer it waits and the steeper it falls.",
                sliders=[whole("depth", "layers", 1, 8, 3), initial(0.2, 0.01, 0.9)],
            ),
            chain,
        ),
        Scenery(
            Entry(
                name="hierarchy",
                title="A hierarchy",
                figure=f"{TALK}: structured worlds; {HASTE}, Fig. 7",
                sentence="Broad distinctions are learned before fine ones: progressive differentiation.",
                sliders=[
                    whole("levels", "levels of the tree", 2, 5, 4),
                    whole("branching", "branches", 2, 3, 2),
                    initial(0.02),
                ],
            ),
            hierarchy,
        ),
        Scenery(
            Entry(
                name="balanced",
                title="Balanced weights",
                figure=f"{TALK}: Eq. 13-15",
                random=False,
                sentence="The relative scale λ of two layers takes learning from rich steps to lazy decay.",
                sliders=[
                    slider("lam", "relative scale λ", -8, 8, 0, 0.1),
                    slider("scale", "initial size", 0.01, 0.5, 0.05, 0.02, log=True),
                    whole("inputs", "inputs", 2, 8, 4),
                    whole("outputs", "outputs", 2, 8, 4),
                ],
            ),
        ),
        Scenery(
            Entry(
                name="two-points",
                title="Two points",
                figure="Representations align, Fig. 2",
                random=False,
                sentence="Two samples in a smooth network: two effective rates are left of it.",
                sliders=[
                    slider("dx2", "|dx|², inputs", 0.1, 4, 1, 0.05),
                    slider("dy2", "|dy|², targets", 0, 4, 0.5, 0.05),
                    slider("rate_h", "rate of the representation", 0.1, 4, 1, 0.05),
                    slider("rate_y", "rate of the output", 0.1, 4, 1, 0.05),
                    slider("dh2", "|dh|² at the start", 1e-4, 2, 0.01, 0.05, log=True),
                ],
            ),
        ),
        Scenery(
            Entry(
                name="relu",
                title="ReLU beside its gated network",
                figure=f"{HASTE}, Fig. 2; {RACE}, Fig. 3",
                random=False,
                sentence="A ReLU network learns as the gated linear network that wins the race for its data.",
                sliders=[
                    slider("delta", "margin Δ", 0.05, 2.5, 0.5, 0.01),
                    whole("hidden", "ReLU neurons", 16, 128, 64),
                    slider("std", "std of its weights", 1e-4, 0.05, 1e-3, 0.05, log=True),
                ],
            ),
            relu,
        ),
    )
}


def values_of(name: str, given: Values) -> dict[str, float]:
    """All values of an entry: given ones within their limits, defaults for the others."""
    if name not in GALLERY:
        raise InputError(f"entry must be one of {', '.join(GALLERY)}, got {name!r}")
    sliders = {s.name: s for s in GALLERY[name].entry.sliders}
    for key, value in given.items():
        if key not in sliders:
            raise InputError(f"values: {key!r} is no slider of {name!r}; there are {', '.join(sliders)}")
        low, high = sliders[key].low, sliders[key].high
        rounding = 1e-9 * max(abs(low), abs(high))
        if not low - rounding <= value <= high + rounding:
            raise InputError(f"values: {key} must be from {low:g} to {high:g}, got {value:g}")
    return {s.name: float(given.get(s.name, s.value)) for s in sliders.values()}
