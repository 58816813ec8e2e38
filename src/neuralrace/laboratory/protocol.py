"""What the page and the computing side say to each other: every message, with its limits.

`frontend/src/protocol.ts` is made from this file (`python -m neuralrace.laboratory.typescript`); a test
checks that it is current. Each message is a JSON object with a field `kind`. The page numbers its requests
(`id`); answers repeat the number, so that the page can drop what is out of date.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter

MAX_NODES, MAX_EDGES, MAX_CONTEXTS = 60, 200, 64
MAX_SIZE = 256  # neurons of a layer
MAX_SAMPLES = 2000
MAX_NUMBERS = 100_000  # in the samples of a scene
MAX_SEEDS = 10
MAX_MESSAGE = 3_000_000  # bytes of a message from the page; MAX_NUMBERS take at most 2,500,000
MAX_UPLOAD = 4_000_000  # bytes of a file
MOST_MEMORY = 2 * 2**30  # bytes that a computing process may take

Name = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[^\s\"'<>&\\{}\[\],:#]+$")]
Row = Annotated[list[FiniteFloat], Field(max_length=MAX_SIZE)]
Rows = Annotated[list[Row], Field(min_length=1, max_length=MAX_SAMPLES)]
Count = Annotated[int, Field(ge=0, le=2**53)]


class Message(BaseModel):
    """Base of all parts of messages: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


# -- a scene: all that a picture depends on, and what a link holds ---------------------------------


class Node(Message):
    """A layer of a drawn network. The sizes of inputs and outputs follow from the data."""

    name: Name
    size: Annotated[int, Field(ge=1, le=MAX_SIZE)]


class Edge(Message):
    """A weight matrix of a drawn network; `fixed` has its rows if it is constant."""

    source: Name
    target: Name
    fixed: Annotated[list[Row], Field(max_length=MAX_SIZE)] | None = None


class World(Message):
    """One of the library's structured worlds: items with features.

    With several contexts every item is seen in each of them. Its features are the `same` there, or each
    context has its `own`: those of the next item, and so on.
    """

    kind: Literal["world"] = "world"
    name: Literal["hierarchy", "partition", "ring", "grid", "xor", "two modes"] = "hierarchy"
    size: Annotated[int, Field(ge=1, le=6)] = 3
    targets: Literal["same", "own"] = "same"


class Samples(Message):
    """Samples of one's own: rows for every input and output, and the context of each."""

    kind: Literal["samples"] = "samples"
    inputs: dict[Name, Rows]
    targets: dict[Name, Rows]
    context: Annotated[list[Annotated[int, Field(ge=0, lt=MAX_CONTEXTS)]], Field(max_length=MAX_SAMPLES)]
    weight: Annotated[list[Annotated[FiniteFloat, Field(ge=0)]], Field(max_length=MAX_SAMPLES)] = []


class Drawn(Message):
    """A network of one's own: layers, weights, gates by context, and data."""

    nodes: Annotated[list[Node], Field(max_length=MAX_NODES)]
    edges: Annotated[list[Edge], Field(max_length=MAX_EDGES)]
    contexts: Annotated[int, Field(ge=1, le=MAX_CONTEXTS)] = 1
    gates: Annotated[
        dict[str, Annotated[list[FiniteFloat], Field(max_length=MAX_CONTEXTS)]],
        Field(max_length=MAX_NODES + MAX_EDGES),
    ] = {}
    data: Annotated[World | Samples, Field(discriminator="kind")] = World()


class Scene(Message):
    """All that a picture depends on.

    `start` says how weights begin: `aligned` with the modes of the task, where theory is exact, or `random`
    (gaussian). `seeds` is the number of networks that are trained beside theory.
    """

    entry: Name = "separability"
    values: Annotated[dict[Name, FiniteFloat], Field(max_length=12)] = {}
    start: Literal["aligned", "random"] = "aligned"
    seeds: Annotated[int, Field(ge=0, le=MAX_SEEDS)] = 3
    drawn: Drawn | None = None


# -- what the page asks -----------------------------------------------------------------------------


class Solve(Message):
    """Ask for theory: answered by `picture`, then `details`, and `systems` that a page can solve."""

    kind: Literal["solve"] = "solve"
    id: Count
    scene: Scene


class Simulate(Message):
    """Ask for trained networks: answered by `simulated` many times, then `finished`.

    With `details` these are answered first: for a scene that the page has solved.
    """

    kind: Literal["simulate"] = "simulate"
    id: Count
    scene: Scene
    details: bool = False


class Export(Message):
    """Ask for a file that makes the same figure: answered by `exported`."""

    kind: Literal["export"] = "export"
    id: Count
    scene: Scene
    format: Literal["yaml", "python", "html"]


class Stop(Message):
    """Stop training."""

    kind: Literal["stop"] = "stop"


Request = Annotated[Solve | Simulate | Export | Stop, Field(discriminator="kind")]
REQUEST: TypeAdapter[Solve | Simulate | Export | Stop] = TypeAdapter(Request)


# -- what is answered -------------------------------------------------------------------------------


class Slider(Message):
    """A number that the page changes. On a logarithmic scale `low`, `high` and `value` are above 0."""

    name: str
    label: str
    low: float
    high: float
    step: float
    value: float
    log: bool = False
    stops: list[float] = []  # the only positions, of a saved page; empty for all


class Entry(Message):
    """An entry of the gallery."""

    name: str
    title: str
    sentence: str
    figure: str
    sliders: list[Slider]
    random: bool = True  # whether random starts make sense here
    several: bool = False  # whether the networks start at random whatever the scene says
    timed: bool = True  # whether the scene may say when the curves end, by `time` among its values


class Welcome(Message):
    """The first message: the gallery."""

    kind: Literal["welcome"] = "welcome"
    version: str
    entries: list[Entry]


class DrawnNode(Node):
    """A layer of a picture, with a name for readers where there is one."""

    label: str = ""


class DrawnEdge(Message):
    """An edge of a picture: the class of edges whose strength it has."""

    name: str
    source: str
    target: str
    group: int


class Group(Message):
    """A class of edges that stay equal: its strength over time, largest of all 1."""

    edges: list[str]
    strength: list[float]


class Racer(Message):
    """A mode or a pathway: what it carries, and the share of its task that it has learned, over time."""

    name: str
    carries: list[float]
    share: list[float]
    half_time: float | None
    edges: list[str]


class Lane(Message):
    """One network: its drawing and its theory."""

    name: str
    nodes: list[DrawnNode]
    edges: list[DrawnEdge]
    groups: list[Group]
    racers: list[Racer]
    loss: list[float]
    learning_time: float | None  # to the level of the picture


class Picture(Message):
    """Theory on a time axis that all lanes share."""

    kind: Literal["picture"] = "picture"
    id: int
    t: list[float]
    level: float  # of the loss, at which the race is decided
    largest: float = 1.0  # size of the weights of a group whose strength is 1
    lanes: list[Lane]
    racers_are: Literal["modes", "pathways"]
    winner: str | None = None
    theory: str = "reduction"
    networks: int = 0  # random starts, of which the first is drawn; 0 where the start is aligned
    seconds: float


class Badge(Message):
    """How far the lines can be trusted, in words; `title` is short."""

    verdict: Literal["exact", "inexact"]
    title: str
    words: str


class Similarity(Message):
    """Cosine similarity of samples in a layer at some of the times.

    A frame has a character for each pair of samples, row by row: character code 48 + 36 (1 + similarity).
    """

    lane: int
    layer: str
    samples: int
    frames: list[str]


class Symbol(Message):
    """Symbols of the equations in LaTeX, what they stand for, and their numbers for these data."""

    latex: list[str]
    words: str
    value: str


class LaneDetails(Message):
    """What theory says of one lane; `equations` has a LaTeX line for each group.

    `equation_groups` has the group that each line is about; it is empty where edges are in several classes.
    """

    name: str
    badge: Badge
    equations: list[str]
    equation_groups: list[int]
    no_equations: str | None
    conserved: list[str]
    symbols: list[Symbol] = []


class Details(Message):
    """What theory says of a picture."""

    kind: Literal["details"] = "details"
    id: int
    lanes: list[LaneDetails]
    similarity_at: list[int]
    similarity: list[Similarity]
    race: list[tuple[str, float | None]]  # of the gatings, winner first; empty where there is one
    wins: list[tuple[str, int]] = []  # who is first in how many random starts, "a tie" where nobody is


class Simulated(Message):
    """A stretch of the training of one network. Lane -1: a network beside all lanes."""

    kind: Literal["simulated"] = "simulated"
    id: int
    lane: int
    run: int
    t: list[float]
    loss: list[float]
    carries: list[list[float]]  # racer by time


class Predicted(Message):
    """Theory of a random start, at all times of the picture; the first start is the picture itself."""

    kind: Literal["predicted"] = "predicted"
    id: int
    lane: int
    run: int
    loss: list[float]
    carries: list[list[float]]  # racer by time


class Finished(Message):
    """Training is done; `difference` is the largest of the losses of theory and network, by lane."""

    kind: Literal["finished"] = "finished"
    id: int
    difference: list[float | None]
    words: str


class Exported(Message):
    """A file as text."""

    kind: Literal["exported"] = "exported"
    id: int
    format: Literal["yaml", "python", "html"]
    text: str


class Problem(Message):
    """Why a request has no answer; `id` is -1 where it has none."""

    kind: Literal["problem"] = "problem"
    id: int
    text: str


class Notice(Message):
    """Something that the user should know; the work goes on."""

    kind: Literal["notice"] = "notice"
    text: str


class Table(Message):
    """An uploaded table: the answer to `POST upload`."""

    kind: Literal["table"] = "table"
    columns: list[str]
    rows: list[list[float]]


# -- reduced systems, which the page solves by itself ----------------------------------------------

Sum = list[tuple[float, list[int]]]  # of products of numbers of a state: coefficient, and their places


class Gauge(Message):
    """What is read off a state: one sum with its sign, or the root of a weighted sum of squares."""

    signed: bool
    parts: list[tuple[float, Sum]]


class System(Message):
    """A reduced system. Of sums u of products of a state y the loss is `constant - s u + u D u / 2`.

    A number of y moves at `-speed (dL/dy + decay y)`. It starts at `start` times, for each live slider, its
    value as a share of that in `Systems.live`, to its power. `rest` is the loss at which the library found
    the system at rest, and `why` its words; they are empty where all is learned.
    """

    start: list[float]
    powers: dict[Name, list[float]]
    speed: list[float]
    decay: list[float]
    sums: list[Sum]
    s: list[float]
    d: list[tuple[int, int, float]]
    constant: float
    coupled: bool  # whether rounding may make it leave a saddle
    groups: list[Gauge]
    racers: list[Gauge]
    goals: list[float | None]  # what each racer would carry alone; None: the largest of all is the goal
    directions: int  # hidden ones of each mode
    attainable: float  # the least loss of any weights
    complete: float  # the loss at which learning is complete
    settled: float  # the loss at which nothing is left to learn
    fastest: float  # time in which the strongest correlation can be learned
    rest: float | None
    why: str
    said: LaneDetails


class SavedLane(Message):
    """One network at some positions: the system of the papers, and the wider one if needed."""

    name: str
    nodes: list[DrawnNode]
    edges: list[DrawnEdge]
    groups: list[list[str]]
    racers: list[tuple[str, list[str]]]  # name and edges
    systems: list[System]


class Rules(Message):
    """By what the end of the time axis and the winner are found."""

    times: int
    longer: float  # end of the axis, in times at which all is learned
    learned: float  # share of what is learned that may be left there
    share: float  # differences of shares, and relative ones of times, that decide no race
    time: float


class Systems(Message):
    """The networks of a scene, for any values of its live sliders: those that change its start only."""

    kind: Literal["systems"] = "systems"
    id: int
    live: dict[Name, float]  # the value of each at which the systems were described
    lanes: list[SavedLane]
    level: float  # of the loss, as a share of the initial one, at which the race is decided
    pathways: bool
    rules: Rules


class Saved(Message):
    """A saved page: what was answered for its scene, and for other positions of its sliders.

    `positions` has the lanes of every position of the tabulated sliders, whose last one changes fastest.
    Without systems, `replays` has what was answered at each position of the only slider.
    """

    kind: Literal["saved"] = "saved"
    version: str
    entry: Entry
    scene: Scene
    answers: list[Picture | Details | Predicted | Simulated | Finished]
    systems: Systems | None  # of all positions; None where there are replays
    positions: list[list[int]]
    replays: list[list[Picture | Details | Predicted]]
    why: str  # other sliders do not work here


Answer = (
    Welcome | Picture | Details | Systems | Simulated | Predicted | Finished
    | Exported | Problem | Notice | Table
)  # fmt: skip
