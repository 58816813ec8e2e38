import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import neuralrace as nr
from neuralrace import cli
from neuralrace.cli.description import read_description
from neuralrace.cli.reduce import explain, reduce_file
from neuralrace.errors import InputError

EXAMPLES = Path(__file__).parents[2] / "examples" / "networks"
X = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
Y = X[:, :1] + 2 * X[:, 1:]
BASE = """\
nodes: {x: 2, a: 5, b: 4, y: 1}
edges:
  - [x, a]
  - [x, b]
  - [a, y]
  - [b, y]
data: data.npz
inputs: {x: X}
targets: {y: Y}
gates:
  a: first
  b->y: 0.5
weights: w
basis: auto
start: {strength: 0.1}
time: 20
save: 50
"""


@pytest.fixture
def folder(tmp_path):
    arrays = {"X": X, "Y": Y, "first": [1, 0, 1, 1], "w": [1, 1, 2, 1]}
    np.savez(
        tmp_path / "data.npz",
        one=1.0,
        text=["a"] * 4,
        x1=X[:, 0],
        x2=X[:, 1],
        bad=[1, np.nan, 1, 1],
        **arrays,
    )
    (tmp_path / "table.csv").write_text("x1,x2,y,first\n1,1,3,1\n1,-1,-1,0\n-1,1,1,1\n-1,-1,-3,1\n")
    (tmp_path / "x.csv").write_text("1,1\n1,-1\n\n-1,1\n-1,-1\n")
    (tmp_path / "gate.csv").write_text("open\n1\n0\n1\n1\n")
    return tmp_path


def network(folder, text=BASE):
    (folder / "network.yaml").write_text(text)
    return folder / "network.yaml"


def changed(*pairs):
    text = BASE
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def same(a, b):
    weights = nr.init.gaussian(a.graph, 1.0, seed=1)
    return nr.loss(a, weights) == nr.loss(b, weights)


# -- what is read ----------------------------------------------------------------------------


def test_everything_is_read(folder):
    d = read_description(network(folder))
    g = nr.Graph({"x": 2, "a": 5, "b": 4, "y": 1}, [("x", "a"), ("x", "b"), ("a", "y"), ("b", "y")])
    assert d.task.graph == g
    expected = nr.Task(g, X, Y, {"a": [1, 0, 1, 1], "b->y": 0.5}, [1, 1, 2, 1])
    assert same(d.task, expected)
    assert (d.basis, d.strength, d.std, d.seeds, d.time, d.save) == ("auto", 0.1, None, 1, 20, 50)


def test_defaults_and_other_ways_to_write_the_same(folder):
    plain = "nodes: {x: 2, h: 3, y: 1}\nedges: {W1: [x, h], W2: [h, y]}\n"
    g = nr.Graph({"x": 2, "h": 3, "y": 1}, {"W1": ("x", "h"), "W2": ("h", "y")})
    expected = nr.Task(g, X, Y, {"h": [1, 0, 1, 1]})
    rows = "[[1, 1], [1, -1], [-1, 1], [-1, -1]]"
    for rest in (
        f"inputs: {rows}\ntargets: [3, -1, 1, -3]\ngates: {{h: [1, 0, 1, 1]}}\n",
        "data: table.csv\ninputs: {x: [x1, x2]}\ntargets: y\ngates: {h: first}\n",
        "data: data.npz\ninputs: [x1, x2]\ntargets: {y: Y}\ngates: {h: gate.csv}\n",
        "data: data.npz\ninputs: x.csv\ntargets: {y: Y}\ngates: {h: first}\n",
    ):
        d = read_description(network(folder, plain + rest))
        assert d.task.graph == g
        assert same(d.task, expected)
        assert (d.basis, d.strength, d.std, d.time, d.save) == ("auto", 0.01, None, None, None)
    d = read_description(network(folder, plain + rest + "start: {std: 1e-3, seeds: 4}\n"))
    assert (d.strength, d.std, d.seeds) == (None, 1e-3, 4)


@pytest.mark.parametrize(
    "fixed", ["identity", "[[1, 0], [0, 1]]", "eye.csv", "one"], ids=["named", "rows", "file", "array"]
)
def test_fixed_edges(folder, fixed):
    (folder / "eye.csv").write_text("1,0\n0,1\n")
    np.savez(folder / "data.npz", X=X, Y=Y, one=np.eye(2))
    text = "nodes: {x: 2, a: 5, h: 2, y: 1}\ndata: data.npz\ninputs: X\ntargets: Y\nedges: "
    skip = f"{{source: x, target: h, fixed: {fixed}}}"
    pairs = [("x", "a"), ("a", "h"), nr.Edge("x", "h", fixed=np.eye(2)), ("h", "y")]
    expected = nr.Graph({"x": 2, "a": 5, "h": 2, "y": 1}, pairs)
    listed = read_description(network(folder, f"{text}[[x, a], [a, h], {skip}, [h, y]]\n"))
    assert listed.task.graph == expected
    named = read_description(network(folder, f"{text}{{W1: [x, a], W2: [a, h], skip: {skip}, W3: [h, y]}}\n"))
    assert list(named.task.graph.fixed) == ["skip"]
    found = explain(listed, nr.reduce(listed.task))
    assert np.abs(found.theory.loss - found.flow.loss).max() < 1e-6


def test_names_that_yaml_takes_for_something_else(folder):
    text = "nodes: {on: 2, 1: 3, no: 1}\nedges: [[on, 1], [1, no]]\ninputs: [[1, 2]]\ntargets: {no: [3]}\n"
    assert read_description(network(folder, text)).task.graph.order == ("on", "1", "no")


# -- what is refused -------------------------------------------------------------------------

WRONG = [
    # the file itself
    ("nodes: {", "nodes: [", 1, "malformed YAML"),
    ("  - [x, a]", "\t- [x, a]", 3, "malformed YAML"),
    ("save: 50", "save: 50\n---\nmore: 1", 18, "malformed YAML"),
    (
        "save: 50",
        "save: 50\nsaves: 3",
        18,
        "the file names 'saves', which is no key; there are nodes, edges, inputs, targets, data",
    ),
    ("save: 50", "save: 50\nsave: 60", 18, "the file has 'save' twice"),
    ("save: 50", "activations: {a: relu}", 17, "only linear networks without biases can be reduced"),
    ("save: 50", "biases: true", 17, "only linear networks without biases can be reduced"),
    # graph
    ("{x: 2, a: 5, b: 4, y: 1}", "[x, a]", 1, "nodes must be a mapping, name: value; got ['x', 'a']"),
    ("a: 5", "a: 5.5", 1, "size of node 'a' must be a whole number, got 5.5"),
    ("a: 5", "a: 0", 1, "size of node 'a' must be at least 1"),
    ("a: 5", "a: wide", 1, "size of node 'a' must be a whole number, got 'wide'"),
    ("a: 5", "a: '5'", 1, "size of node 'a' must be a whole number, got '5'"),
    ("a: 5", "a: [5]", 1, "size of node 'a' must be a whole number, got [5]"),
    ("a: 5", "a: 5, a: 6", 1, "nodes has 'a' twice"),
    ("a: 5", "a: 5, c: 3", 2, "node 'c' has no edges"),
    ("a: 5", "a/b: 5, a: 5", 2, "without '/'"),
    ("- [b, y]", "- [b, z]", 6, "edges names 'z', which is no node; there are x, a, b, y"),
    ("- [b, y]", "- [b, y, x]", 6, "edges must be pairs [source, target], got ['b', 'y', 'x']"),
    ("- [b, y]", "- {source: b, target: y}", 6, "an edge that is a mapping needs source, target, fixed"),
    ("- [b, y]", "- {source: b, target: y, fixed: identity}", 6, "identity needs nodes of equal size"),
    ("- [b, y]", "- {source: b, target: y, fixed: [[1]]}", 6, "fixed of edge b->y must have shape (1, 4)"),
    (
        "- [b, y]",
        "- {source: b, to: y, fixed: [[1]]}",
        6,
        "an edge names 'to', which is no key; there are source, target, fixed",
    ),
    ("- [b, y]", "- b", 6, "edges must be pairs [source, target], got 'b'"),
    ("- [b, y]", "- [b, [y]]", 6, "edges must be named by text, got ['y']"),
    ("- [b, y]", "- [b, y]\n  - [a, y]", 2, "parallel edges need names: 'a->y' stands twice"),
    ("- [b, y]", "- [b, a]\n  - [a, b]\n  - [b, y]", 2, "cycle"),
    # data
    ("data.npz", "none.npz", 7, "none.npz cannot be read: No such file"),
    ("data.npz", "broken.npz", 7, "broken.npz cannot be read"),
    ("data.npz", "data.mat", 7, "data must be an .npz or .csv file, got data.mat"),
    ("data.npz", "x.csv", 7, "x.csv, line 1: must name the columns"),
    ("data.npz", "[a, b]", 7, "data must be named by text, got ['a', 'b']"),
    ("data: data.npz", "", 8, "inputs: x names the array 'X', but no data file is given"),
    (
        "{x: X}",
        "{x: Z}",
        8,
        "inputs: x names 'Z', which is no array of the data; there are one, text, x1, x2, bad, X, Y",
    ),
    ("{x: X}", "{x: text}", 8, "text must hold real numbers"),
    ("{x: X}", "{x: bad}", 8, "bad must be finite"),
    ("{x: X}", "{x: one}", 8, "'one' must have one row per sample"),
    ("{x: X}", "{x: Y}", 8, "inputs: x must have shape (any, 2), got (4, 1)"),
    ("{x: X}", "{x: [x1, Z]}", 8, "inputs: x names 'Z', which is no array"),
    ("{x: X}", "{x: [[1, 2], [1]]}", 8, "inputs: x must have shape (2,), got (1,)"),
    ("{x: X}", "{x: [[1, 2], [1, b]]}", 8, "inputs: x must hold real numbers, got [1, 'b']"),
    ("{x: X}", "{x: []}", 8, "inputs: x must be the name of an array"),
    ("{x: X}", "{x: {}}", 8, "inputs: x must be the name of an array"),
    ("{x: X}", "{a: X}", 8, "inputs names 'a', which is no input; there are x"),
    ("{x: X}", "{}", 8, "inputs must hold an array for each of x; 'x' is missing"),
    ("{x: X}", "{x: none.csv}", 8, "none.csv cannot be read: No such file"),
    ("{x: X}", "{x: cell.csv}", 8, "cell.csv, line 4: column 2 must be a number, got 'two'"),
    ("{x: X}", "{x: nan.csv}", 8, "nan.csv, line 2: column 1 must be a number, got 'nan'"),
    ("{x: X}", "{x: ragged.csv}", 8, "ragged.csv, line 3: must have 2 cells as the first line has, got 1"),
    ("{x: X}", "{x: empty.csv}", 8, "empty.csv is empty"),
    ("{x: X}", "{x: broken.csv}", 8, "broken.csv cannot be read as csv"),
    ("{y: Y}", "{y: [1, 2, 3]}", 9, "targets: y must have shape (4, 1), got (3, 1)"),
    ("{y: Y}", "{z: Y}", 9, "targets names 'z', which is no output; there are y"),
    # gates and weights
    ("a: first", "c: first", 11, "gates names 'c', which is no node or edge; there are x, a, b, y, x->a"),
    (
        "a: first",
        "a: [1, 0, 1]",
        11,
        "gates: a must have shape (4,), got (3,)",
    ),
    ("a: first", "a: X", 11, "gates: a must have shape (4,), got (4, 2)"),
    ("a: first", "a: [1, 0, 1, .inf]", 11, "gates: a must hold real numbers, got '.inf'"),
    ("b->y: 0.5", "b->y: 1e999", 12, "gates: b->y must be finite"),
    ("weights: w", "weights: [1, 2]", 13, "weights must have shape (4,), got (2,)"),
    ("weights: w", "weights: [1, 1, 1, -1]", 13, "sample_weight must be non-negative"),
    # settings
    ("basis: auto", "basis: best", 14, "basis must be one of auto, shared, pathwise, block; got 'best'"),
    ("{strength: 0.1}", "0.1", 15, "start must be a mapping"),
    ("{strength: 0.1}", "{strength: -1}", 15, "start: strength must be greater than 0, got -1"),
    (
        "{strength: 0.1}",
        "{size: 1}",
        15,
        "start names 'size', which is no key; there are strength, std, seeds",
    ),
    ("{strength: 0.1}", "{strength: 1, std: 1}", 15, "start must give strength, or std and seeds"),
    ("{strength: 0.1}", "{strength: 1, seeds: 2}", 15, "start must give strength, or std and seeds"),
    ("{strength: 0.1}", "{seeds: 2}", 15, "start must give strength, or std and seeds"),
    ("{strength: 0.1}", "{std: 1, seeds: 0.5}", 15, "start: seeds must be a whole number"),
    ("time: 20", "time: 0", 16, "time must be greater than 0"),
    ("time: 20", "time: long", 16, "time must be a number, got 'long'"),
    ("save: 50", "save: 1", 17, "save must be at least 2"),
    ("save: 50", "save:", 17, "save must be a whole number, got None"),
]


@pytest.mark.parametrize(("old", "new", "line", "message"), WRONG, ids=[f"{o}|{n}" for o, n, *_ in WRONG])
def test_errors_name_file_and_line(folder, old, new, line, message):
    (folder / "broken.npz").write_bytes(b"PK\x03\x04 no archive")
    (folder / "cell.csv").write_text("a,b\n1,2\n\n1,two\n")
    (folder / "nan.csv").write_text("1,2\nnan,2\n")
    (folder / "ragged.csv").write_text("1,2\n1,2\n1\n")
    (folder / "empty.csv").write_text("\n\n")
    (folder / "broken.csv").write_bytes(b"\xff\xfe\x00")
    path = network(folder, changed((old, new)))
    with pytest.raises(InputError) as error:
        read_description(path)
    text = str(error.value)
    assert text.startswith(f"{path}, line {line}: ")
    assert message in text


@pytest.mark.parametrize("content", [b"", b"not an archive"])
def test_npz_that_is_none(folder, content):
    (folder / "data.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"line 7: .*data\.npz cannot be read: it must be an npz file"):
        read_description(network(folder))


@pytest.mark.parametrize("key", ["nodes", "edges", "inputs", "targets"])
def test_missing_keys(folder, key):
    text = re.sub(rf"^{key}:.*\n(  - .*\n)*", "", BASE, flags=re.M)
    with pytest.raises(
        InputError, match=f"network.yaml: lacks '{key}'; it needs nodes, edges, inputs, targets"
    ):
        read_description(network(folder, text))


def test_files_that_are_no_description(folder):
    for text, message in (
        ("", "is empty"),
        ("- 1\n", "line 1: the file must be a mapping"),
        ("a\x00b", "text file"),
    ):
        with pytest.raises(InputError, match=message):
            read_description(network(folder, text))
    (folder / "network.yaml").write_bytes(b"nodes: \xff\xff")
    with pytest.raises(InputError, match="text file in YAML"):
        read_description(folder / "network.yaml")
    with pytest.raises(InputError, match=r"none\.yaml cannot be read: No such file"):
        read_description(folder / "none.yaml")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_description(folder)


def test_a_wrong_row_has_its_own_line(folder):
    rows = "inputs:\n  x:\n    - [1, 1]\n    - [1, -1]\n    - [-1, {}]\n    - [-1, -1]"
    for cell, message in (
        ("one", r"must hold real numbers, got \[-1, 'one'\]"),
        ("1, 1", r"must have shape \(2,\)"),
    ):
        with pytest.raises(InputError, match=f"network.yaml, line 12: inputs: x {message}"):
            read_description(network(folder, changed(("inputs: {x: X}", rows.format(cell)))))


def test_several_inputs_must_be_named(folder):
    text = "nodes: {u: 1, v: 1, y: 1}\nedges: [[u, y], [v, y]]\ninputs: [1, 2]\ntargets: [3, 4]\n"
    with pytest.raises(InputError, match="line 3: inputs must be a mapping, name: value; got \\[1, 2\\]"):
        read_description(network(folder, text))
    text = text.replace("[1, 2]", "{u: [1, 2], v: [1, 2, 3]}")
    with pytest.raises(InputError, match=r"line 3: inputs: v must have shape \(2, 1\), got \(3, 1\)"):
        read_description(network(folder, text))


# -- the command -----------------------------------------------------------------------------


def command(capsys, *arguments):
    status = cli.main(["reduce", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def columns(file):
    head, *rows = csv.reader(file.read_text().splitlines())
    return dict(zip(head, np.array(rows, float).T, strict=True))


def test_command_tells_what_python_finds(folder, capsys):
    path, out = network(folder), folder / "out"
    status, text, err = command(capsys, path, "--out", out, "--json")
    assert (status, err) == (0, "")
    found = json.loads(text, parse_constant=lambda c: pytest.fail(c))
    task = read_description(path).task
    r = nr.reduce(task)
    assert found["basis"] == r.basis
    assert (found["n_modes"], found["n_classes"]) == (r.n_modes, r.n_classes)
    assert found["classes"] == [list(c) for c in r.classes]
    assert (found["residual"], found["exact"]) == (r.residual, r.exact)
    assert len(found["equations"]) == (0 if found["no_equations"] else r.n_classes)
    sol = r.solve(strengths=0.1, t1=20.0, save=50)
    true = nr.flow(task, nr.init.decoupled(r, 0.1), 20.0, 50)
    table = columns(out / "reduce" / "network" / "curves.csv")
    np.testing.assert_allclose(table["t"], sol.t)
    np.testing.assert_allclose(table["loss theory"], sol.loss, rtol=1e-6)
    np.testing.assert_allclose(table["loss flow"], true.loss, rtol=1e-6)
    np.testing.assert_allclose(table["B2 mode 1"], sol.strengths[:, 0, 1], rtol=1e-6)
    assert found["largest_difference"] == pytest.approx(np.abs(sol.loss - true.loss).max(), abs=1e-7)
    level = (true.loss[0] + true.loss[-1]) / 2
    assert found["half_time"]["flow"] == pytest.approx(nr.learning_time(true, level), rel=1e-6)
    assert found["half_time"]["theory"] == pytest.approx(nr.learning_time(sol, level), rel=1e-6)
    names = ("equations.tex", "curves.csv", "curves.svg", "curves.pdf", "curves.png")
    assert [Path(f) for f in found["files"]] == [out / "reduce" / "network" / n for n in names]
    assert all(Path(f).stat().st_size for f in found["files"])
    assert {p.name for p in (out / "reduce" / "network").iterdir()} == {*names, "source.txt"}


def test_xor_example(capsys, tmp_path):
    status, text, err = command(capsys, EXAMPLES / "xor.yaml", "--out", tmp_path)
    assert (status, err) == (0, "")
    for line in (
        "basis: pathwise, 1 mode, 1 class of equal edges",
        "  B1: x->a, x->b, x->c, x->d, a->y, b->y, ... (8 in all)",
        "  tau dB1/dt = B1*(S - B1^2*D)/4",
        "  tau dB1/dt = B1*(1.4142 - 2.0*B1^2)/4",
        f"written: {tmp_path / 'reduce' / 'xor' / 'curves.png'}",
    ):
        assert line in text.splitlines()
    assert re.search(r"equations exact for weights in the family of the reduction: residual \S+e-1\d\n", text)
    assert re.search(r"time: \d+, chosen: all but 0\.01% of what can be learned", text)
    half = re.search(r"half learned: at t = (\S+) in theory, at t = (\S+) in the flow", text)
    assert half is not None
    assert float(half[1]) == pytest.approx(float(half[2]), rel=1e-6)
    tex = (tmp_path / "reduce" / "xor" / "equations.tex").read_text()
    assert nr.reduce(read_description(EXAMPLES / "xor.yaml").task).latex() in tex
    table = columns(tmp_path / "reduce" / "xor" / "curves.csv")
    exact = nr.exact.xor_loss(table["t"], a0=1e-4)
    np.testing.assert_allclose(table["loss theory"], exact, atol=1e-6)


def test_contexts_example(capsys, tmp_path):
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    path = tmp_path / "examples" / "contexts.yaml"
    made = "\n".join(re.findall(r"^#   (.*)$", path.read_text(), flags=re.M))
    data = (path.parent / "contexts.csv").read_text()
    assert f'"{path.stem}.csv"' in made
    exec(made.replace('"contexts.csv"', repr(str(path.parent / "contexts.csv"))), {})
    assert (path.parent / "contexts.csv").read_text() == data
    status, text, err = command(capsys, path, "--out", tmp_path, "--json")
    assert (status, err) == (0, "")
    found = json.loads(text)
    assert found["classes"] == [["in_a", "out_a"], ["in_b", "out_b"]]
    assert found["equations"] == ["tau dB1/dt = B1*(S1 - B1^2*D11)", "tau dB2/dt = B2*(S2 - B2^2*D22)"]
    assert found["time_chosen"]
    assert found["converged"]
    half = found["half_time"]
    assert len(half["theory"]) == len(half["flow"]) == 5
    np.testing.assert_allclose(half["theory"], half["flow"], rtol=5e-3)
    table = columns(tmp_path / "reduce" / "contexts" / "curves.csv")
    assert len(table) == 1 + 5 + 5 + 5 + 5 * 2
    assert max(found["loss"]["flow"]) < 1e-3 * min(found["loss"]["start"])


def test_equations_of_blocks_and_of_coupled_modes(folder, capsys):
    rng = np.random.default_rng(0)
    np.savez(
        folder / "data.npz", X=rng.normal(size=(4, 2)), Y=rng.normal(size=4), first=[1, 0, 1, 1], w=np.ones(4)
    )
    status, text, _ = command(capsys, network(folder, changed(("b: 4", "b: 9"))), "--out", folder / "out")
    assert status == 0
    assert "basis: block" in text
    assert re.search(r"\nequations, of matrices:\n  tau dB1/dt = B\d\.T\*\(Syx", text)
    tex = (folder / "out" / "reduce" / "network" / "equations.tex").read_text()
    assert r"\Sigma^{yx}" in tex
    assert "% mode" not in tex
    pathwise = network(folder, changed(("b: 4", "b: 9"), ("basis: auto", "basis: pathwise")))
    status, text, _ = command(capsys, pathwise, "--out", folder / "out")
    assert status == 0
    assert "approximate equations, in every mode:" in text
    shared = network(folder, changed(("b: 4", "b: 9"), ("basis: auto", "basis: shared")))
    status, text, _ = command(capsys, shared, "--out", folder / "out")
    assert status == 0
    assert re.search(r"equations NOT exact for weights .*\n  broken by ", text)
    assert "approximate equations, in every mode:" in text


def test_time_that_is_chosen_waits_for_late_modes(folder):
    """The loss of a deep chain rests on long plateaus; the last mode must still be learned."""
    text = (
        "nodes: {x: 2, h: 3, k: 3, y: 2}\nedges: [[x, h], [h, k], [k, y]]\n"
        "inputs: [[1, 0], [0, 1]]\ntargets: [[5, 0], [0, 1]]\nstart: {strength: 0.02}\n"
    )
    found = reduce_file(network(folder, text), folder / "out")
    assert found.converged
    assert found.theory.loss[-1] < 1e-3 * found.theory.loss[0]
    late = nr.learning_time(found.theory, 0.1)
    assert late < found.theory.t[-1] < 2 * late


@pytest.mark.whole
def test_time_that_is_chosen_where_the_reduced_system_stays_behind(folder):
    """Three contexts and a skip connection: the blocks rest at a saddle that the network leaves.

    It chose t = 14,000, took minutes, and read a half time of 35 off the few times saved.
    """
    rng = np.random.default_rng(1)
    context = np.repeat([0, 1, 2], 4)
    first, skip = np.array([1, 1, 0])[context], np.array([0, 1, 1])[context]
    np.savez(
        folder / "data.npz", X=rng.normal(size=(12, 4)), Y=rng.normal(size=(12, 3)), first=first, skip=skip
    )
    text = (
        "nodes: {x: 4, h1: 6, h2: 6, y: 3}\nedges: [[x, h1], [h1, h2], [h2, y], [h1, y]]\n"
        "data: data.npz\ninputs: X\ntargets: Y\ngates: {h1: first, h1->y: skip}\n"
        "start: {std: 0.3, seeds: 2}\n"
    )
    found = reduce_file(network(folder, text), folder / "out")
    assert found.reduction.basis == "block"
    assert found.converged
    assert found.theory.t[-1] < 1000
    task = found.reduction.task
    start = nr.init.gaussian(task.graph, 0.3, seed=range(2))
    fine = nr.flow(task, start, 10.0, 5001, save_weights=False)
    halves = [np.interp(-(a + b) / 2, -loss, fine.t) for loss, a, b in zip(
        fine.loss, found.flow.loss[:, 0], found.flow.loss[:, -1], strict=True
    )]  # fmt: skip
    np.testing.assert_allclose(found.half_times["flow"], halves, rtol=1e-3)
    np.testing.assert_allclose(found.half_times["prediction"], halves, rtol=1e-2)
    assert "predicted from the start itself" in str(found)


SADDLE = """\
nodes: {x: 1, a: 20, b: 20, y: 1}
edges: [[x, a], [a, y], [x, b], [b, y]]
inputs: [[1], [1]]
targets: [[1], [-1]]
gates: {a: [1, 0], b: [0, 1]}
"""


@pytest.mark.parametrize("given", ["", "start: {strength: 0.05}\ntime: 100\n"], ids=["chosen", "time"])
def test_at_a_saddle_a_wider_family_is_shown_and_this_is_said(folder, capsys, given):
    """The papers' family ends at 0.25; the network from its start left it by rounding alone, at t = 100."""
    status, text, _ = command(capsys, network(folder, SADDLE + given), "--out", folder / "out", "--json")
    assert status == 0
    found = json.loads(text)
    assert (found["directions"], found["attainable"]) == (2, pytest.approx(0.0, abs=1e-12))
    assert found["status"] == {"theory": "finished", "flow": "finished"}
    assert "(saddle at t = " in found["left"]
    assert "shown is r.widened(), with 2 directions per mode" in found["left"]
    assert any("x->a[1]" in c for c in found["classes"])
    assert found["equations"] == [
        "tau dB1/dt = B1*(S1 - B2^2*D12 - B1^2*D11)/2",
        "tau dB2/dt = B2*(S2 - B2^2*D11 - B1^2*D12)/2",
    ]
    assert max(found["loss"]["theory"], found["loss"]["flow"]) < 1e-4
    assert found["largest_difference"] < 1e-4
    assert found["half_time"]["theory"] == pytest.approx(found["half_time"]["flow"], rel=1e-4)


def test_strengths_of_a_wider_family_are_recorded(folder):
    found = reduce_file(network(folder, SADDLE + "start: {strength: 0.05}\ntime: 12\n"), folder / "out")
    assert found.flow.recorded.keys() == {c[0] for c in found.reduction.classes}
    for name, strength in found.flow.recorded.items():
        np.testing.assert_allclose(strength, found.theory.source.b[name], atol=1e-6)


def test_where_no_wider_family_helps_the_outcome_is_said(folder, capsys):
    """Time was chosen by the network, which left the saddle by rounding alone."""
    text = SADDLE + "basis: block\nstart: {strength: 0.05}\n"
    status, printed, _ = command(capsys, network(folder, text), "--out", folder / "out")
    assert status == 0
    assert "no wider family of this task reaches the attainable loss" in printed
    assert "nr.reduce(task, weights=...) follows a network" in printed
    assert re.search(r"time: \d\d, chosen: theory is at rest then", printed)
    assert re.search(r"\ntheory: saddle at t = \d\d: at loss 0\.25", printed)
    status, printed, _ = command(capsys, network(folder, text), "--out", folder / "out", "--json")
    assert json.loads(printed)["status"]["theory"] == "saddle"


def test_random_starts_keep_the_status_of_their_theory(folder, capsys):
    """Two strengths of the only pathway that is too narrow; the prediction from the start is beside them."""
    text = (
        "nodes: {x: 3, h: 1, y: 3}\nedges: [[x, h], [h, y]]\ninputs: [[1, 0, 0], [0, 1, 0], [0, 0, 1]]\n"
        "targets: [[3, 0, 0], [0, 2, 0], [0, 0, 1]]\nstart: {std: 0.3, seeds: 2}\n"
    )
    status, printed, _ = command(capsys, network(folder, text), "--out", folder / "out", "--json")
    assert status == 0
    found = json.loads(printed)
    assert found["status"]["theory"] == ["undecided", "undecided"]
    assert (found["converged"], found["attainable"]) == (False, pytest.approx(0.0, abs=1e-12))
    np.testing.assert_allclose(found["half_time"]["prediction"], found["half_time"]["flow"], rtol=1e-3)


@pytest.mark.parametrize("path", [None, 3, {"a": 1}])
def test_path_must_be_one(path):
    with pytest.raises(InputError, match="path must be the name of a file"):
        read_description(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            changed(("[b, y]", "[b, z]")),
            "network.yaml, line 6: edges names 'z', which is no node; there are x, a, b, y",
        ),
        (changed(("{y: Y}", "{y: [0, 0, 0, 0]}")), "network.yaml: task has nothing to reduce"),
        (changed(("save: 50", "biases: true")), "network.yaml, line 17: biases: only linear networks"),
    ],
)
def test_nothing_is_written_when_something_is_wrong(folder, capsys, text, message):
    path = network(folder, text)
    before = sorted(folder.iterdir())
    status, printed, err = command(capsys, path, "--out", folder / "out")
    assert (status, printed) == (2, "")
    assert err.startswith("neuralrace: ")
    assert message in err
    assert sorted(folder.iterdir()) == before


def test_folder_that_cannot_be_written(folder, capsys):
    path = network(folder)
    status, _, err = command(capsys, path, "--out", path)
    assert status == 2
    assert "out must be a folder that can be written" in err


def test_files_of_one_name_and_odd_names_have_folders_of_their_own(tmp_path):
    from neuralrace.files import folder_for

    first = folder_for(tmp_path / "out", "reduce", tmp_path / "a" / "n.yaml")
    assert folder_for(tmp_path / "out", "reduce", tmp_path / "b" / "n.yaml") != first
    assert folder_for(tmp_path / "out", "reduce", tmp_path / "a" / "n.yaml") == first
    for name in ("...yaml", "..", ".yaml"):
        assert folder_for(tmp_path / "out", "reduce", tmp_path / name).parent == tmp_path / "out" / "reduce"
