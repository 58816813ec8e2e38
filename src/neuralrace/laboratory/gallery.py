"""The gallery: scenes to start from, each with its sliders and the tasks that they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import neuralrace as nr
from neuralrace.errors import InputError
from neuralrace.laboratory.model import Model, Values
from neuralrace.laboratory.protocol import Entry, Slider

HASTE, RACE = "Make haste slowly", "The neural race reduction"
MULTI, TALK = "Multi-pathway", "Learning dynamics talk"
Make = Callable[[Values], Model]


@dataclass(frozen=True)
class Scenery:
    """An entry, and the function from values of its sliders to a model (None: it has a theory of its own)."""

    entry: Entry
    make: Make | None = None


GALLERY: dict[str, Scenery] = {}


def scenery(
    name: str,
    title: str,
    figure: str,
    sentence: str,
    *sliders: Slider,
    random: bool = True,
    several: bool = False,
) -> Callable[[Make], Make]:
    """Add an entry to the gallery; the function that it decorates makes the model."""
    entry = Entry(
        name=name, title=title, sentence=sentence, figure=figure, sliders=list(sliders), random=random,
        several=several, timed=False,
    )  # fmt: skip
    GALLERY[name] = Scenery(entry)

    def add(make: Make) -> Make:
        entry.timed = all(s.name != "time" for s in sliders)
        GALLERY[name] = Scenery(entry, make)
        return make

    return add


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


class Call(NamedTuple):
    """What a public function of the library returned, and the code that calls it."""

    value: Any
    code: str


def call(function: Callable[..., Any], *given: Any, **named: Any) -> Call:
    """Call a function of `nr.tasks` or a method of `nr.Graph`; arguments may be calls themselves.

    The code has the `repr` of the others, which must be Python: not arrays, nor edges.
    """
    value = lambda a: a.value if isinstance(a, Call) else a  # noqa: E731
    code = lambda a: a.code if isinstance(a, Call) else repr(a)  # noqa: E731
    made = function(*map(value, given), **{k: value(a) for k, a in named.items()})
    words = ", ".join([*map(code, given), *(f"{k}={code(a)}" for k, a in named.items())])
    name = function.__qualname__
    return Call(made, f"nr.{name if '.' in name else f'tasks.{name}'}({words})")


def model(lanes: dict[str, Call], strength: float, **options: Any) -> Model:
    """A model of tasks that are made by calls."""
    made, code = {k: lane.value for k, lane in lanes.items()}, {k: lane.code for k, lane in lanes.items()}
    return Model(made, strength, code, **options)


@scenery(
    "xor",
    "Exclusive or",
    f"{RACE}, Fig. 3",
    "No linear map computes exclusive or; gates make it four linear problems.",
    initial(0.05),
    whole("hidden", "neurons per pathway", 2, 64, 16),
)
def xor(v: Values) -> Model:
    names = {f"p{k}h1": f"sample {s}" for k, s in enumerate(("++", "+-", "-+", "--"))}
    return model({"xor": call(nr.tasks.xor, hidden=int(v["hidden"]))}, v["strength"], names=names)


_NUMBERED = {f"p{k}h1": f"pathway {k + 1}" for k in range(4)}


def gatings(delta: float) -> dict[str, Call]:
    """The gatings that race for the same data."""
    return {g: call(nr.tasks.separability, delta, g, hidden=16) for g in ("linear", "xor")}


@scenery(
    "separability",
    "Separability",
    f"{HASTE}, Fig. 2",
    "Two gatings race for the same data; a wide margin lets the linear one win.",
    slider("delta", "margin Δ", 0.05, 2.5, 0.6, 0.01),
    initial(0.03),
)
def separability(v: Values) -> Model:
    return model(gatings(v["delta"]), v["strength"], names=_NUMBERED)


@scenery(
    "contextual",
    "Contextual classification",
    f"{RACE}, A.2",
    "The context says which of two numbers to report: a pathway for each.",
    initial(0.05),
    whole("samples", "samples", 10, 500, 100),
)
def contextual(v: Values) -> Model:
    task = call(nr.tasks.contextual_classification, int(v["samples"]), hidden=16)
    return model({"contextual": task}, v["strength"], names={"p0h1": "context 1", "p1h1": "context 2"})


@scenery(
    "routing",
    "Routing",
    f"{RACE}, Fig. 4",
    "Shared layers carry all routes, so they grow √M times as strong as the others.",
    whole("domains", "domains M", 2, 10, 5),
    whole("trained", "trained with K", 1, 10, 3),
    whole("depth", "layers", 2, 4, 3),
    initial(0.1, 0.01),
)
def routing(v: Values) -> Model:
    m, hidden = int(v["domains"]), (32,) * (int(v["depth"]) - 1)
    task = call(nr.tasks.routing, m, min(int(v["trained"]), m), hidden=hidden)
    return model({"routing": task}, v["strength"])


@scenery(
    "sharing",
    "Sharing",
    f"{RACE}, Fig. 5",
    "The more routes share a hidden pathway, the faster all of them learn.",
    whole("group", "domains in a group (P = its square)", 1, 3, 2),
    whole("groups", "groups", 1, 3, 2),
    whole("depth", "layers", 2, 4, 3),
    initial(0.1, 0.01),
)
def sharing(v: Values) -> Model:
    group, hidden = int(v["group"]), (32,) * (int(v["depth"]) - 1)
    task = call(nr.tasks.sharing, int(v["groups"]) * group, group, hidden=hidden)
    names = {f"g{a}.{b}h1": f"route {a + 1}→{b + 1}" for a in range(3) for b in range(3)}
    return model({"sharing": task}, v["strength"], names=names)


@scenery(
    "contexts",
    "Contexts",
    f"{HASTE}, Fig. 5",
    "What all contexts share is learned first, by the pathway that is always open.",
    whole("contexts", "contexts C", 2, 5, 3),
    initial(0.05, 0.005),
    slider("time", "time shown", 20, 160, 80, 5),
)
def contexts(v: Values) -> Model:
    n = int(v["contexts"])
    names = {"p0h1": "always open"} | {f"p{k + 1}h1": f"all but context {n - k}" for k in range(n)}
    task = call(nr.tasks.contexts, n, gating="shared", hidden=16)
    return model({"contexts": task}, v["strength"], time=v["time"], names=names)


@scenery(
    "pathways",
    "Parallel pathways",
    f"{MULTI}, Fig. 3-4",
    "Pathways to the same target compete: the first to learn takes what there is.",
    whole("pathways", "pathways", 2, 5, 2),
    whole("shallow", "layers of the first", 2, 5, 3),
    whole("deep", "layers of the others", 2, 5, 3),
    slider("ahead", "head start of the first", 1, 3, 1.2, 0.05),
    initial(0.2, 0.01, 0.8),
)
def pathways(v: Values) -> Model:
    """Parallel pathways of one or two depths; the first starts with a head start."""
    n, shallow, deep = int(v["pathways"]), int(v["shallow"]), int(v["deep"])
    hidden = [[32] * (shallow - 1)] + [[32] * (deep - 1)] * (n - 1)
    task = call(nr.tasks.hierarchy, 3, graph=call(nr.Graph.pathways, 4, 7, hidden))
    ahead = {e: v["strength"] * v["ahead"] for e in task.value.graph.edges if "p0h" in e}
    names = {f"p{k}h1": f"pathway {k + 1}, {len(h) + 1} layers" for k, h in enumerate(hidden)}
    return model({"pathways": task}, v["strength"], edge_strength=ahead, names=names)


@scenery(
    "chain",
    "Deep chain",
    f"{TALK}: part 1",
    "The deeper the chain, the longer it waits and the steeper it falls.",
    whole("depth", "layers", 1, 8, 3),
    initial(0.2, 0.01, 0.9),
)
def chain(v: Values) -> Model:
    sizes = [4, *[32] * (int(v["depth"]) - 1), 7]
    return model({"chain": call(nr.tasks.hierarchy, 3, graph=call(nr.Graph.chain, sizes))}, v["strength"])


@scenery(
    "hierarchy",
    "A hierarchy",
    f"{TALK}: structured worlds; {HASTE}, Fig. 7",
    "Broad distinctions are learned before fine ones: progressive differentiation.",
    whole("levels", "levels of the tree", 2, 5, 4),
    whole("branching", "branches", 2, 3, 2),
    initial(0.02),
)
def hierarchy(v: Values) -> Model:
    task = call(nr.tasks.hierarchy, int(v["levels"]), int(v["branching"]))
    return model({"hierarchy": task}, v["strength"])


scenery(
    "balanced",
    "Balanced weights",
    f"{TALK}: Eq. 13-15",
    "The relative scale λ of two layers takes learning from rich steps to lazy decay.",
    slider("lam", "relative scale λ", -8, 8, 0, 0.1),
    slider("scale", "initial size", 0.01, 0.5, 0.05, 0.02, log=True),
    whole("inputs", "inputs", 2, 8, 4),
    whole("outputs", "outputs", 2, 8, 4),
    random=False,
)

scenery(
    "two-points",
    "Two points",
    "Representations align, Fig. 2",
    "Two samples in a smooth network: two effective rates are left of it.",
    slider("dx2", "|dx|², inputs", 0.1, 4, 1, 0.05),
    slider("dy2", "|dy|², targets", 0, 4, 0.5, 0.05),
    slider("rate_h", "rate of the representation", 0.1, 4, 1, 0.05),
    slider("rate_y", "rate of the output", 0.1, 4, 1, 0.05),
    slider("dh2", "|dh|² at the start", 1e-4, 2, 0.01, 0.05, log=True),
    random=False,
)


@scenery(
    "relu",
    "ReLU beside its gated network",
    f"{HASTE}, Fig. 2; {RACE}, Fig. 3",
    "A ReLU network learns as the gated linear network that wins the race for its data.",
    slider("delta", "margin Δ", 0.05, 2.5, 0.5, 0.01),
    whole("hidden", "ReLU neurons", 16, 128, 64),
    slider("std", "std of its weights", 1e-4, 0.05, 1e-3, 0.05, log=True),
    random=False,
    several=True,
)
def relu(v: Values) -> Model:
    """Both gatings from the growing part that their share of the ReLU network's units has at the start."""
    width, std, made = int(v["hidden"]), v["std"], gatings(v["delta"])
    # make_haste_slowly C: of n pathways each has width / n units, whose growing part is |w + v|^2 / 4.
    parts = {g: float(np.sqrt(width / n / 2) * std) for g, n in (("linear", 2), ("xor", 4))}
    graph = nr.Graph.chain([3, width, 1], activations={"h1": "relu"})
    beside = nr.tasks.separability(v["delta"], graph=graph)
    own = {f"{g}/{e}": parts[g] for g, t in made.items() for e in t.value.graph.edges}
    return model(made, parts["xor"], edge_strength=own, names=_NUMBERED, beside=beside, beside_std=std)


def values_of(name: str, given: Values) -> dict[str, float]:
    """All values of an entry: given ones within their limits, defaults for the others."""
    if name not in GALLERY:
        raise InputError(f"entry must be one of {', '.join(GALLERY)}, got {name!r}")
    sliders = {s.name: s for s in GALLERY[name].entry.sliders}
    for key, value in given.items():
        if key == "time" and key not in sliders and GALLERY[name].entry.timed:
            continue
        if key not in sliders:
            raise InputError(f"values: {key!r} is no slider of {name!r}; there are {', '.join(sliders)}")
        low, high = sliders[key].low, sliders[key].high
        rounding = 1e-9 * max(abs(low), abs(high))
        if not low - rounding <= value <= high + rounding:
            raise InputError(f"values: {key} must be from {low:g} to {high:g}, got {value:g}")
    return {s.name: s.value for s in sliders.values()} | {k: float(v) for k, v in given.items()}
