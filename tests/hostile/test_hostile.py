# ruff: noqa: E501 - tables of cases
"""Hostile input for every public verb and command, from a seeded generator; each case has its oracle.

A wrong value raises `InputError` that names the argument, in a message of bounded length; a command ends with
status 2 and one line, never with a traceback. What is right although odd equals an independent computation.
"""

import json
import random

import numpy as np
import pytest

import neuralrace as nr
from neuralrace import cli
from neuralrace.errors import LONGEST, InputError

SEED = 20_240
XOR = nr.tasks.xor(hidden=2)
START = nr.init.gaussian(XOR.graph, 0.1)
GRAPH = nr.Graph.chain([2, 3, 1])
X, Y = np.eye(2), np.array([[1.0], [-1.0]])
TRAJ = nr.flow(XOR, START, t1=1.0, save=3)


class Broken:
    """Something that cannot even be shown."""

    def __repr__(self):
        raise RuntimeError


NOT_NUMBERS = (
    "text", "x" * 100_000, None, [], {}, {0: 1}, (1, 2), b"1", 1j, float("nan"), float("inf"), -float("inf"), -1.0,
    Broken(), object(), set(), lambda: 0, np.ma.masked, np.array([1.0, 2.0]), "1_0", True,
)  # fmt: skip
NOT_COUNTS = (*NOT_NUMBERS, 0.5, -1, 2.0, "3", np.float64(2.0), 10**40)
NOT_ARRAYS = (
    "text", "x" * 100_000, None, {0: 1}, [[1.0], [1.0, 2.0]], [["a", "b"]], np.full((2, 2), np.nan), [[1j, 2.0]] * 2,
    Broken(), object(), np.full((2, 2), np.inf), np.ma.masked_array(np.eye(2), np.eye(2)), np.array([["1", "2"]]),
    np.zeros((0, 2)), np.zeros((2, 5)), np.zeros((2, 2, 2)), 10**400,
)  # fmt: skip
NOT_WEIGHTS = (
    "text", None, [], {}, {"q": 1.0}, 3, START | {"q": [[1.0]]}, START | {"x->p0h1": np.zeros((5, 5))},
    START | {"x->p0h1": np.full((2, 2), np.nan)}, START | {"x->p0h1": "text"}, START | {"x->p0h1": None},
    {e: w[None][:0] for e, w in START.items()}, START | {"x->p0h1": np.zeros((3, 2, 2))}, Broken(),
)  # fmt: skip
NOT_TASKS = ("text", None, 3, [], {}, X, GRAPH, Broken(), START, XOR.graph, object())
NOT_PATHS = ("", "a\0b", "x" * 5_000, None, 3, [], {}, b"a", Broken(), object(), 1.5)

VERBS = {
    "flow": {
        "task": (NOT_TASKS, lambda v: nr.flow(v, START, t1=1.0)),
        "weights": (NOT_WEIGHTS, lambda v: nr.flow(XOR, v, t1=1.0)),
        "t1": (NOT_NUMBERS, lambda v: nr.flow(XOR, START, t1=v)),
        "stop_loss": (NOT_NUMBERS[:2] + NOT_NUMBERS[3:], lambda v: nr.flow(XOR, START, t1=1.0, stop_loss=v)),
        "save": (("text", {0: 1}, [1.0, 0.5], -1, 1, [np.nan], 10**12, Broken()),
                 lambda v: nr.flow(XOR, START, t1=1.0, save=v)),
    },
    "descend": {
        "task": (NOT_TASKS, lambda v: nr.descend(v, START, lr=0.1, steps=2)),
        "weights": (NOT_WEIGHTS, lambda v: nr.descend(XOR, v, lr=0.1, steps=2)),
        "lr": (NOT_NUMBERS, lambda v: nr.descend(XOR, START, lr=v, steps=2)),
        "steps": (NOT_COUNTS, lambda v: nr.descend(XOR, START, lr=0.1, steps=v)),
    },
    "reduce": {
        "task": (NOT_TASKS, lambda v: nr.reduce(v)),
        "weights": (NOT_WEIGHTS[:1] + NOT_WEIGHTS[2:], lambda v: nr.reduce(XOR, weights=v)),
        "basis": (("text", None, 3, [], Broken(), "x" * 100_000), lambda v: nr.reduce(XOR, v)),
        "ties": (("text", 3, [], {}, {"q": 1.0}, dict.fromkeys(XOR.graph.edges, np.nan),
                   dict.fromkeys(XOR.graph.edges, "a")), lambda v: nr.reduce(XOR, ties=v)),
    },
    "solve": {
        "strengths": (NOT_NUMBERS[:2] + NOT_NUMBERS[4:8], lambda v: nr.reduce(XOR).solve(strengths=v, t1=1.0)),
        "t1": (NOT_NUMBERS, lambda v: nr.reduce(XOR).solve(strengths=0.1, t1=v)),
    },
    "loss": {"task": (NOT_TASKS, lambda v: nr.loss(v, START)), "weights": (NOT_WEIGHTS, lambda v: nr.loss(XOR, v))},
    "predict": {"task": (NOT_TASKS, lambda v: nr.predict(v, START)),
                "weights": (NOT_WEIGHTS, lambda v: nr.predict(XOR, v))},
    "gradient": {"task": (NOT_TASKS, lambda v: nr.gradient(v, START)),
                 "weights": (NOT_WEIGHTS, lambda v: nr.gradient(XOR, v))},
    "Task": {
        "graph": (("text", None, 3, [], {}, X, Broken()), lambda v: nr.Task(v, X, Y)),
        "inputs": (NOT_ARRAYS, lambda v: nr.Task(GRAPH, v, Y)),
        "gates": (("text", 3, [1, 0], {"q": 1}, {"h1": [1, 0, 1]}, {"h1": "text"}, {"h1": [np.nan, 1]}),
                  lambda v: nr.Task(GRAPH, X, Y, v)),
        "sample_weight": (("text", [1], [-1, 2], [0, 0], [np.nan, 1], {}, Broken()),
                          lambda v: nr.Task(GRAPH, X, Y, sample_weight=v)),
    },
    "Graph": {
        "nodes": (("text", None, 3, [], {}, {"": 1}, {3: 1}, {"a/b": 1}, Broken()),
                  lambda v: nr.Graph(v, [("x", "y")])),
        "edges": (("text", None, 3, [], {}, [("x",)], ["xy"], [("x", "y")] * 2, Broken()),
                  lambda v: nr.Graph({"x": 1, "y": 1}, v)),
        "sizes": (("text", 3, [], [1], {}, None), nr.Graph.chain),
    },
    "init": {
        "graph": (NOT_TASKS[:5], lambda v: nr.init.gaussian(v, 0.1)),
        "std": (("text", None, {}, [], True, [True], 0.0, -1.0, np.nan, np.inf, 1j, Broken()),
                lambda v: nr.init.gaussian(GRAPH, v)),
        "seed": (("text", None, 0.5, True, -1, [], [0.5], {}, Broken()),
                 lambda v: nr.init.orthogonal(GRAPH, 0.1, seed=v)),
        "gain": (("text", 0, -1, np.nan, None), lambda v: nr.init.xavier(GRAPH, v)),
    },
    "save and load": {
        "path": (NOT_PATHS, TRAJ.save), "path ": (NOT_PATHS, nr.Trajectory.load),
        "ds": ((None, 3, "text", {}, TRAJ, X, Broken()), nr.Trajectory.from_xarray),
    },
    "sweep": {
        "function": (("text", None, 3, [], {}, Broken()), lambda v: nr.sweep(v, {"std": [0.1]})),
        "over": (("text", None, 3, [], {"std": "text"}, {"std": []}, {"std": [1, 1]}, {"status": [1]}, {"a b": [1]},
                  {3: [1]}, {"std": [np.nan]}, {"std": [None]}), lambda v: nr.sweep(one_run, v)),
        "seeds": ((*NOT_COUNTS[4:8], 0.5, -1, True, 0, 10 ** 40), lambda v: nr.sweep(one_run, {"std": [0.1]}, v)),
        "out": (NOT_PATHS[:3] + NOT_PATHS[4:], lambda v: nr.sweep(one_run, {"std": [0.1]}, 1, v)),
    },
    "expected_learning_time": {
        "task": (NOT_TASKS, lambda v: nr.expected_learning_time(v, "gaussian", 0.1, level=0.2)),
        "scale": (NOT_NUMBERS, lambda v: nr.expected_learning_time(XOR, "gaussian", v, level=0.2)),
        "level": (NOT_NUMBERS, lambda v: nr.expected_learning_time(XOR, "gaussian", 0.1, level=v)),
    },
    "relu": {
        "X": (NOT_ARRAYS[:11], lambda v: nr.relu.train(v, Y, hidden=[3], steps=2)),
        "hidden": (("text", None, 3, [], [0], ["a"], [0.5], {}, Broken()),
                   lambda v: nr.relu.train(X, Y, hidden=v, steps=2)),
        "steps": (NOT_COUNTS, lambda v: nr.relu.train(X, Y, hidden=[3], steps=v)),
    },
    "universality": {
        "dh2": (("text", None, np.nan, 0.0, -1.0, {}, 1j, Broken(), [np.inf], np.ma.masked),
                lambda v: nr.universality.solve([1.0], v, 1e-3, 0.0, 1, 1, 1, 1)),
        "dx": (("text", None, np.nan, 0.0, -1.0, {}, 1j, Broken()),
               lambda v: nr.universality.final_distance(1e-3, 1e-3, v, 1, 1, 1)),
    },
    "exact": {
        "t": (("text", None, np.nan, -1.0, {}, 1j, Broken()), lambda v: nr.exact.chain(v, 1.0)),
        "s": (("text", None, np.nan, {}, 1j, Broken()), lambda v: nr.exact.chain([1.0], v)),
        "a0": (("text", None, np.nan, -1.0, 0.0, {}, Broken()), lambda v: nr.exact.xor_loss([1.0], v)),
    },
}  # fmt: skip


def one_run(std, seed=0):
    return nr.Run(XOR, nr.init.gaussian(XOR.graph, std, seed=seed), t1=1.0, save=2)


def _cases():
    rng = random.Random(SEED)
    for verb, arguments in VERBS.items():
        cases = [(a, k, v, call) for a, (values, call) in arguments.items() for k, v in enumerate(values)]
        rng.shuffle(cases)
        assert len(cases) >= 10
        for argument, k, value, call in cases[:24]:
            if value is not True or "number" not in argument:
                yield pytest.param(argument.strip(), value, call, id=f"{verb}-{argument.strip()}-{k}")


@pytest.mark.parametrize(("argument", "value", "call"), list(_cases()))
def test_wrong_input_is_refused_by_name(argument, value, call):
    with pytest.raises(InputError) as refused:
        call(value)
    assert len(str(refused.value)) <= LONGEST + 10
    assert argument in str(refused.value)


@pytest.mark.parametrize("seed", range(12))
def test_odd_networks_equal_products_of_matrices(seed):
    """Odd but right: sizes of 1, scales from 1e-100 to 1e30, repeated and zero samples."""
    rng = np.random.default_rng([SEED, seed])
    sizes = rng.integers(1, 5, rng.integers(2, 6)).tolist()
    graph, scale = nr.Graph.chain(sizes), 10.0 ** rng.integers(-100, 30)
    x = rng.normal(size=(7, sizes[0])) * rng.choice([0.0, 1.0, scale], size=(7, 1))
    y = rng.normal(size=(7, sizes[-1]))
    task, w = nr.Task(graph, x, y), nr.init.gaussian(graph, 1.0, seed=seed)
    out = x
    for path in graph.paths():
        for edge in path:
            out = out @ w[edge].T
    np.testing.assert_allclose(nr.predict(task, w)["y"], out, rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(nr.loss(task, w), 0.5 * ((out - y) ** 2).sum(axis=1).mean(), rtol=1e-7)


@pytest.mark.parametrize("seed", range(10))
def test_any_trajectory_is_saved_and_loaded(seed, tmp_path):
    rng = random.Random(seed + SEED)
    names = [
        "".join(rng.choices("ab\\.: \n\0é#%->[]{}'\"", k=rng.choice((1, 3, 40, 260)))) + str(k)
        for k in range(3)
    ]
    names = [n.replace("/", "") for n in names]
    graph = nr.Graph(
        dict.fromkeys(names, 2), {f"{n}e": p for n, p in zip(names, [names[:2], names[1:]], strict=False)}
    )
    task = nr.Task(graph, X, np.eye(2))
    traj = nr.flow(task, nr.init.gaussian(graph, 0.1), t1=1.0, save=2)
    traj.save(tmp_path / "a")
    back = nr.Trajectory.load(tmp_path / "a")
    assert all(np.array_equal(back.weights[e], traj.weights[e]) for e in graph.edges)
    assert back.outcome == traj.outcome


NETWORK = {"nodes": {"x": 2, "h": 2, "y": 1}, "edges": [["x", "h"], ["h", "y"]], "inputs": [[1, 0], [0, 1]],
           "targets": [1, -1]}  # fmt: skip


def _reduced(tmp_path, text):
    (tmp_path / "n.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return ["reduce", str(tmp_path / "n.yaml"), "--out", str(tmp_path / "out")]


def _npz(tmp_path, **arrays):
    np.savez(tmp_path / "d.npz", **arrays)
    return str(tmp_path / "d.npz")


COMMANDS = {
    "reduce": [
        lambda p, text=text: _reduced(p, text)
        for text in (
            "", "[]", "a: [", "[" * 5_000, b"\xff\xfe\x00", "nodes: 3", json.dumps(NETWORK | {"nodes": {}}),
            json.dumps(NETWORK | {"edges": [["x", "q"]]}), json.dumps(NETWORK | {"inputs": [[1, 0], [0]]}),
            json.dumps(NETWORK | {"targets": ["a", "b"]}), json.dumps(NETWORK | {"time": -1}),
            json.dumps(NETWORK | {"save": "1_0"}), json.dumps(NETWORK | {"start": {"std": "x" * 100_000}}),
        )
    ],
    "discover": [
        lambda p, arrays=arrays: ["discover", _npz(p, **arrays), "--out", str(p / "out"), "--steps", "20"]
        for arrays in (
            {}, {"X": X}, {"X": X, "Y": np.zeros((3, 1))}, {"X": X * np.nan, "Y": Y}, {"X": X * 1j, "Y": Y},
            {"X": np.array(["a", "b"]), "Y": Y}, {"X": np.zeros((0, 2)), "Y": np.zeros((0, 1))}, {"X": 3.0, "Y": 1.0},
            {"X": X * 1e160, "Y": Y},
        )
    ] + [lambda p: ["discover", str(p / "none.npz")], lambda p: ["discover", _npz(p, X=X, Y=Y), "--hidden", "a"]],
    "sweep": [
        lambda p, given=given: ["sweep", "linear-background", "--quick", "--out", str(p / "s"), *given]
        for given in (
            [], ["--over", "hidden"], ["--over", "hidden="], ["--over", "hidden=1:1000000000"], ["--over", "q=1,2"],
            ["--over", "hidden=a,b"], ["--over", "hidden=1_0,2"], ["--over", "hidden=8", "--over", "hidden=9"],
            ["--over", "hidden=log:0:1:3"], ["--over", "hidden=8", "--jobs", "0"], ["--over", "hidden=8", "--zip", "a,b"],
            ["--over", "hidden=8", "--seeds", "-1"],
        )
    ],
    "run": [
        lambda p, given=given: ["run", *given, "--quick", "--out", str(p / "r")]
        for given in (
            [], ["nothing"], ["--all", "xor"], ["xor", "--set", "hidden"], ["xor", "--set", "hidden=a"],
            ["xor", "--set", "q=1"], ["xor", "--set", "hidden=-1"], ["xor", "--jobs", "0"], ["xor", "--seeds", "x"],
            ["xor", "--set", "routing.hidden=3"], ["none.py"],
        )
    ],
    "insight": [
        lambda p, given=given: ["insight", *given, "--out", str(p / "i")]
        for given in (
            ["none.pt", "--model", "a", "--data", "none.npz"], ["none.pt", "--model", ":", "--data", "none.npz"],
            *([f"{k}.pt", "--model", "no.such:thing", "--data", "none.npz"] for k in range(8)),
        )
    ],
    "report": [lambda p, k=k: ["report", "--out", f"{p}/{'x' * k}"] for k in (1, 3, 40, 200, 250)]
    + [lambda p, text=text: ["report", "--out", text] for text in ("", "a\0b", "/dev/null", "none/at/all", "x" * 5_000)],
}  # fmt: skip


def _commands():
    for name, makers in COMMANDS.items():
        assert len(makers) >= 10
        for k, make in enumerate(makers):
            yield pytest.param(make, id=f"{name}-{k}")


@pytest.mark.parametrize("make", list(_commands()))
def test_wrong_commands_end_with_one_line(make, tmp_path, capsys):
    assert cli.main(make(tmp_path)) == 2
    said = capsys.readouterr().err
    assert said.startswith("neuralrace: ")
    assert "Traceback" not in said
    assert len(said) <= LONGEST + 30
