import base64
import importlib.util
import json
import math
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pytest

from neuralrace import cli, experiments
from neuralrace.errors import InputError
from neuralrace.experiments import Claim, Parameters, Report, report
from neuralrace.experiments.experiment import option
from neuralrace.experiments.store import Parts, key_of, stacked
from neuralrace.files import writable, write, write_text

TOY = '''
"""A toy that doubles numbers; 1 < 2."""
from dataclasses import dataclass
import numpy as np
from neuralrace import plot
from neuralrace.experiments.experiment import Claim, Experiment, Parameters

CALLS, BREAK = [], []

@dataclass(frozen=True)
class Toy(Parameters):
    scale: float = 2.0
    sizes: tuple[int, ...] = (1, 2)
    wrong: bool = False

def one(seed, p):
    if seed in BREAK:
        raise KeyboardInterrupt
    CALLS.append(seed)
    return {"value": p.scale * np.random.default_rng(seed).normal(1, 0.01)}

def compute(p, parts):
    return {"value": np.array([v["value"] for v in parts.each("seed", one, range(p.seeds), p)])}

def figures(p, r):
    fig, ax = plot.figure()
    ax.plot(r["value"])
    return {"values": (fig, "Values of <all> seeds & more")}

def claims(p, r):
    yield Claim.near("mean <value>", "toy Fig. 1", p.scale, r["value"], 0.1)
    if p.wrong:
        yield Claim.below("never", "toy Eq. 2", -1.0, r["value"], "the <toy> is positive")
        yield Claim.near("nothing", "toy", 1.0, np.nan, 0.1, "no number")

EXPERIMENT = Experiment(
    "toy", "A toy & its title", "toy Fig. 1", Toy(seeds=4), Toy(seeds=2), compute, figures, claims, (0.01, 3)
)
'''


def load(file, name="toy"):
    spec = importlib.util.spec_from_file_location(f"neuralrace.experiments.{name}", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def toy(tmp_path, monkeypatch):
    file = tmp_path / "toy.py"
    file.write_text(TOY)
    monkeypatch.setitem(sys.modules, "neuralrace.experiments.toy", None)
    monkeypatch.setattr(experiments, "NAMES", ("toy",))
    return load(file)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "results"


def strict(text):
    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


# -- parameters ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Some(Parameters):
    rate: float = 0.1
    share: float = option(0.0, least=0)
    offset: float = option(-1.0, above=-2)
    depth: int = option(0, least=0)
    kind: str = option("a", choices=("a", "b"))
    name: str = "free"
    flag: bool = False
    sizes: tuple[int, ...] = (1, 2)
    rates: tuple[float, ...] = (0.5,)


def test_parameters_are_read_as_their_types():
    texts = {
        "seeds": "3",
        "rate": "1e-3",
        "depth": "0",
        "kind": "b",
        "flag": "True",
        "sizes": "(4, 5,)",
        "rates": "[1, 2.5]",
    }
    p = Some().changed(texts)
    assert asdict(p) == {
        **asdict(Some()),
        "seeds": 3,
        "rate": 1e-3,
        "kind": "b",
        "flag": True,
        "sizes": (4, 5),
        "rates": (1.0, 2.5),
    }
    assert Some().changed({"sizes": [3], "rates": "2"}) == Some(sizes=(3,), rates=(2.0,))
    assert Some().changed({}) == Some()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"seeds": True}, "seeds must be a whole number"),
        ({"seeds": 1.5}, "seeds must be a whole number"),
        ({"seeds": "1e3"}, "seeds must be a whole number, got '1e3'"),
        ({"rate": 0}, "rate must be greater than 0"),
        ({"rate": "fast"}, "rate must be a number, got 'fast'"),
        ({"rate": "nan"}, "rate must be finite"),
        ({"rate": None}, "rate must be a number"),
        ({"share": -1e-9}, "share must be at least 0"),
        ({"offset": -2}, "offset must be greater than -2"),
        ({"depth": -1}, "depth must be at least 0"),
        ({"kind": "c"}, "kind must be one of a, b"),
        ({"kind": 1}, "kind must be text"),
        ({"flag": 1}, "flag must be true or false"),
        ({"flag": "maybe"}, "flag must be true or false, got 'maybe'"),
        ({"sizes": ()}, "sizes must be a list"),
        ({"sizes": ""}, "sizes must be a whole number"),
        ({"sizes": 3}, "sizes must be a list"),
        ({"sizes": (1, 0)}, "sizes must be at least 1"),
        ({"sizes": "1,x"}, "sizes must be a whole number, got 'x'"),
        ({"speed": 1}, "'speed', which is no parameter of this experiment; there are seeds, rate"),
    ],
)
def test_wrong_parameters_are_refused(changes, message):
    with pytest.raises(InputError, match=re.escape(message)):
        Some().changed(changes)


def test_parameters_that_do_not_fit_together():
    @dataclass(frozen=True)
    class Pair(Parameters):
        low: int = 1
        high: int = 2

        def check(self):
            if self.low > self.high:
                raise InputError(f"low must be at most high, got {self.low}")

    with pytest.raises(InputError, match="low must be at most high, got 3"):
        Pair().changed({"low": "3"})


# -- claims ----------------------------------------------------------------------------------


def test_claims():
    claim = Claim.near("a", "b", 1, [0.9, 1.2], 0.06)
    assert claim.holds
    assert claim.measured == pytest.approx(1.05)
    assert claim.spread == pytest.approx(np.std([0.9, 1.2], ddof=1))
    assert not Claim.near("a", "b", 1, 1.06, 0.05).holds
    assert Claim.near("a", "b", 1.0, 1.5, 0.5).holds
    for single in (2.0, [2.0], np.array([[2.0]])):
        assert Claim.above("a", "b", 1, single) == Claim("a", "b", "> 1", 2.0, None, None, True, "")
    assert not Claim.above("a", "b", 1, [0.5, 3]).holds
    assert not Claim.below("a", "b", 1, 1.0).holds
    assert Claim.below("a", "b", 1e-10, [0.0, 1e-11]).expected == "< 1e-10"
    assert Claim.relation("a", "b", "x first", 3, np.True_).holds is True
    assert not Claim.relation("a", "b", "x first", 3, False).holds


@pytest.mark.parametrize("measured", [math.nan, [1.0, math.nan]])
def test_nan_never_holds(measured):
    assert not Claim.near("a", "b", 1, measured, math.inf).holds
    assert not Claim.below("a", "b", math.inf, measured).holds
    assert not Claim.above("a", "b", -math.inf, measured).holds
    assert not Claim.relation("a", "b", "x", measured, True).holds


def test_a_claim_needs_a_number():
    with pytest.raises(InputError, match="at least one number"):
        Claim.below("a", "b", 1, [])


# -- parts -----------------------------------------------------------------------------------


def test_parts_are_stored_and_reused(tmp_path):
    calls = []

    def square(x, power=2):
        calls.append(x)
        return {"y": x**power, "all": np.arange(x)}

    parts = Parts(tmp_path, "key")
    first = parts("one", square, 3)
    again = Parts(tmp_path, "key")
    second = again("one", square, 3)
    assert calls == [3]
    assert (parts.reused, again.reused) == (0, 1)
    assert first.keys() == second.keys() == {"y", "all"}
    assert second["y"] == 9
    assert np.array_equal(first["all"], second["all"])
    assert again.seconds > parts.seconds == 0  # of parts that were computed before
    Parts(tmp_path, "other")("one", square, 3)
    assert calls == [3, 3]
    cubes = parts.each("cube", lambda x, power: {"y": x**power}, (1, 2), 3)
    assert stacked(cubes)["y"].tolist() == [1, 8]
    assert [p.name for p in tmp_path.glob(".*")] == []


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut short"])
def test_a_corrupt_part_is_computed_again(tmp_path, content):
    parts = Parts(tmp_path, "key")
    parts("one", lambda: {"y": 1.0})
    (tmp_path / "one-key.npz").write_bytes(content)
    assert parts("one", lambda: {"y": 2.0})["y"] == 2.0
    assert parts("one", lambda: {"y": 3.0})["y"] == 2.0


def test_a_part_cut_short_is_computed_again(tmp_path):
    parts = Parts(tmp_path, "key")
    parts("one", lambda: {"y": np.arange(100.0)})
    file = tmp_path / "one-key.npz"
    file.write_bytes(file.read_bytes()[:-60])
    assert parts("one", lambda: {"y": 2.0})["y"] == 2.0


def test_key_depends_on_settings_and_code(tmp_path):
    a, b = tmp_path / "a.py", tmp_path / "b.py"
    a.write_text("1")
    b.write_text("2")
    key = key_of({"x": 1, "y": 2}, [a, b])
    assert key_of({"y": 2, "x": 1}, [b, a]) == key
    assert key_of({"x": 1, "y": 3}, [a, b]) != key
    a.write_text("1 ")
    assert key_of({"x": 1, "y": 2}, [a, b]) != key


def test_a_failed_write_leaves_nothing(tmp_path):
    write_text(tmp_path / "a.txt", "old")

    def fill(file):
        file.write(b"half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write(tmp_path / "a.txt", fill)
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


# -- runs ------------------------------------------------------------------------------------


def test_run_writes_and_can_be_repeated(toy, out):
    first = experiments.run("toy", out=out)
    second = experiments.run("toy", out=out)
    assert toy.CALLS == [0, 1, 2, 3]
    assert first.holds
    assert first.claims == second.claims
    same = [{k: v for k, v in r.to_dict().items() if k != "seconds"} for r in (first, second)]
    assert same[0] == same[1]
    assert first.parameters == {"seeds": 4, "scale": 2.0, "sizes": [1, 2], "wrong": False}
    assert first.about == "A toy that doubles numbers; 1 < 2."
    names = {p.name for p in (out / "toy").iterdir() if p.is_file()}
    assert names == {"result.json", "values.svg", "values.pdf", "values.png"}
    loaded = Report.load(out / "toy")
    assert loaded.to_dict() == second.to_dict()
    assert loaded.claims == second.claims
    assert loaded.figures == (("values", "Values of <all> seeds & more"),)
    assert experiments.run("toy", quick=True, out=out).parameters["seeds"] == 2


def test_repeated_figures_are_the_same(toy, out):
    experiments.run("toy", True, out)
    svg = (out / "toy" / "values.svg").read_bytes()
    experiments.run("toy", True, out)
    assert (out / "toy" / "values.svg").read_bytes() == svg


def test_an_interrupted_run_goes_on_from_what_was_finished(toy, out):
    toy.BREAK.append(2)
    with pytest.raises(KeyboardInterrupt):
        experiments.run("toy", out=out)
    assert toy.CALLS == [0, 1]
    assert not (out / "toy" / "result.json").exists()
    toy.BREAK.clear()
    resumed = experiments.run("toy", out=out)
    assert toy.CALLS == [0, 1, 2, 3]
    assert resumed.claims == experiments.run("toy", out=out.with_name("fresh")).claims


def test_changed_parameters_and_code_are_computed_anew(toy, out):
    said = []
    experiments.run("toy", True, out, say=said.append)
    experiments.run("toy", True, out, say=said.append)
    assert said == []
    experiments.run("toy", True, out, {"scale": "3", "sizes": "1,2,3"}, say=said.append)
    assert said == [
        "toy: parameters differ from the last run: scale 2.0 -> 3.0; sizes [1, 2] -> [1, 2, 3]",
    ]
    assert toy.CALLS == [0, 1, 0, 1]
    experiments.run("toy", True, out)
    assert len(toy.CALLS) == 4
    file = Path(toy.__file__)
    file.write_text(file.read_text() + "# changed\n")
    experiments.run("toy", True, out)
    assert len(toy.CALLS) == 6


def test_claims_without_a_number_survive_json(toy, out):
    found = experiments.run("toy", True, out, {"wrong": True})
    assert not found.holds
    text = (out / "toy" / "result.json").read_text()
    assert [c["measured"] is None for c in strict(text)["claims"]] == [False, False, True]
    assert Report.load(out / "toy").claims[2].measured is None


def test_wrong_runs_are_refused(toy, tmp_path):
    with pytest.raises(InputError, match="no experiment 'tay'; there are toy"):
        experiments.run("tay", out=tmp_path)
    with pytest.raises(InputError, match="toy: scale must be greater than 0"):
        experiments.run("toy", out=tmp_path, changes={"scale": -1})
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="out must be a folder that can be written"):
        experiments.run("toy", out=tmp_path / "file" / "below")
    assert toy.CALLS == []


def test_names_are_importable_experiments():
    assert len(set(experiments.names())) == len(experiments.names())
    for name in experiments.names():
        found = experiments.experiment(name)
        assert found.name == name
        assert type(found.quick) is type(found.parameters)
        assert 0 < found.minutes[0] <= found.minutes[1]


# -- the report page -------------------------------------------------------------------------


def test_page(toy, out):
    experiments.run("toy", True, out, {"wrong": True})
    text = report.write_report(out).read_text()
    assert not re.search(r"https?://|<script|<link|@import|url\(", text)
    assert all(s.startswith("data:image/svg+xml;base64,") for s in re.findall(r'src="([^"]*)"', text))
    assert re.findall(r'href="([^"]*)"', text) == ["#toy"] * 3
    assert text.index("<table>") < text.index("never") < text.index("<figure>")
    assert "1 of 3 claims hold, in 1 experiments, in their quick form" in text
    rows = re.findall(r'<tr class="(\w+)-row">(.*)</tr>', text)
    assert [kind for kind, _ in rows] == ["holds", "fails", "fails"]
    assert "✗ does not hold" in rows[1][1]
    assert "the &lt;toy&gt; is positive" in rows[1][1]
    for escaped in (
        "mean &lt;value&gt;",
        "&lt; -1",
        "A toy &amp; its title",
        "1 &lt; 2",
        "Values of &lt;all&gt;",
    ):
        assert escaped in text
    assert "<all>" not in text
    assert "<value>" not in text
    image = re.search(r'base64,([^"]*)"', text)
    assert image is not None
    assert base64.b64decode(image[1]) == (out / "toy" / "values.svg").read_bytes()


def test_page_tells_quick_from_full(toy, out):
    full, quick = experiments.run("toy", out=out), experiments.run("toy", True, out)
    assert "(1 in quick form)" in report.page([full, quick])
    assert "quick" not in report.page([full]).split("<table>")[0].split("</style>")[1]


def test_unreadable_results_are_left_out(toy, out, monkeypatch):
    experiments.run("toy", True, out)
    monkeypatch.setattr(experiments, "NAMES", ("toy", "old", "gone"))
    write_text(out / "old" / "result.json", '{"name": "old", "claims": []}')
    text = (out / "toy" / "result.json").read_text()
    write_text(out / "gone" / "result.json", text)
    assert "Left out, as their results cannot be read: old, gone." in report.write_report(out).read_text()
    (out / "toy" / "result.json").write_text("{")
    with pytest.raises(InputError, match="out must hold results"):
        report.write_report(out)
    experiments.run("toy", True, out, say=lambda text: None)


# -- the command -----------------------------------------------------------------------------


def command(capsys, *arguments):
    status = cli.main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_list(toy, capsys):
    status, text, err = command(capsys, "list")
    assert (status, err) == (0, "")
    head, row = text.splitlines()
    assert head.split() == ["name", "reproduces", "quick", "full"]
    assert re.split(r"\s{2,}", row) == ["toy", "toy Fig. 1", "1 s", "3 min", "A toy & its title"]


def test_run_tells_claims(toy, out, capsys):
    status, text, err = command(capsys, "run", "toy", "--quick", "--out", out)
    assert (status, err) == (0, "")
    title, claim, last = text.splitlines()
    assert title.startswith("toy: A toy & its title (")
    assert re.fullmatch(r"  holds  mean <value>: [\d.]+ ± [\d.]+, expected 2 ± 0.1", claim)
    assert last == f"report: {out / 'report.html'}"
    assert (out / "report.html").is_file()


def test_run_json(toy, out, capsys):
    status, text, err = command(
        capsys, "run", "toy", "--quick", "--json", "--out", out, "--set", "wrong=true"
    )
    assert (status, err) == (1, "")
    (found,) = strict(text).values()
    keys = {"name", "source", "expected", "measured", "spread", "tolerance", "holds", "note"}
    assert all(c.keys() == keys for c in found["claims"])
    assert [c["holds"] for c in found["claims"]] == [True, False, False]
    assert found["claims"][2]["measured"] is None
    assert found["seconds"] > 0
    assert [Path(f) for f in found["figures"]] == [out / "toy" / "values.svg"]
    assert all(Path(f).is_file() for f in found["figures"])


def test_failing_claims_are_told(toy, out, capsys):
    status, text, _ = command(capsys, "run", "toy", "--quick", "--out", out, "--set", "wrong=true")
    assert status == 1
    assert re.search(r"\n  FAILS  never: .*, expected < -1\n  FAILS  nothing: nan, expected 1 ± 0.1\n", text)


def test_seeds_and_set(toy, out, capsys):
    arguments = ("--out", out, "--json", "--seeds", 3, "--set", "scale=5", "--set", "toy.sizes=7,8")
    status, text, _ = command(capsys, "run", "toy", *arguments)
    assert status == 0
    changed = {"seeds": 3, "scale": 5.0, "sizes": [7, 8], "wrong": False}
    assert strict(text)["toy"]["parameters"] == changed
    status, _, err = command(capsys, "run", "--all", "--out", out)
    assert status == 0
    assert err.startswith("toy: parameters differ from the last run: seeds 3 -> 4; scale 5.0 -> 2.0")


def test_settings_of_one_of_several(toy, out, capsys, monkeypatch):
    monkeypatch.setattr(experiments, "NAMES", ("toy", "other"))
    monkeypatch.setitem(sys.modules, "neuralrace.experiments.other", None)
    load(toy.__file__, "other")
    arguments = (
        "run",
        "toy",
        "other",
        "--jobs",
        "1",
        "--quick",
        "--json",
        "--out",
        out,
        "--set",
        "other.scale=3",
    )
    status, text, _ = command(capsys, *arguments)
    assert status == 0
    assert [r["parameters"]["scale"] for r in strict(text).values()] == [2.0, 3.0]
    status, _, err = command(capsys, "run", "toy", "--out", out, "--set", "other.scale=3")
    assert status == 2
    assert "'other' is not among the experiments to run" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name the experiments to run, or give --all"),
        (("toy", "--all"), "name the experiments to run, or give --all"),
        (("tay",), "there is no experiment 'tay'; there are toy"),
        (("toy", "--set", "speed=1"), "'speed', which is no parameter of this experiment"),
        (("toy", "--set", "scale=fast"), "toy: scale must be a number, got 'fast'"),
        (("toy", "--set", "scale"), "--set must be KEY=VALUE, got 'scale'"),
        (("toy", "--set", "=3"), "--set must be KEY=VALUE, got '=3'"),
        (("toy", "--set", "tay.scale=1"), "'tay' is not among"),
        (("toy", "--seeds", "many"), "toy: seeds must be a whole number, got 'many'"),
        (("toy", "--seeds", "0"), "toy: seeds must be at least 1"),
    ],
)
def test_wrong_usage(toy, out, capsys, arguments, message):
    status, text, err = command(capsys, "run", "--out", out, *arguments)
    assert (status, text) == (2, "")
    assert err.startswith("neuralrace: ")
    assert message in err
    assert toy.CALLS == []
    assert not out.exists()


@pytest.mark.parametrize("arguments", [(), ("fly",), ("run", "toy", "--fast"), ("reduce",)])
def test_what_argparse_refuses(toy, capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(list(arguments))
    assert stop.value.code == 2
    assert "usage: neuralrace" in capsys.readouterr().err


def test_a_folder_is_tried_without_leaving_one(tmp_path):
    assert writable(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert not (tmp_path / "a").exists()
    (tmp_path / "kept").mkdir()
    writable(tmp_path / "kept")
    assert (tmp_path / "kept").is_dir()


def test_unwritable_folder(toy, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        status, _, err = command(capsys, "run", "toy", "--quick", "--out", folder)
        assert status == 2
        assert "out must be a folder that can be written" in err
    assert toy.CALLS == []


def test_report_command(toy, out, capsys):
    status, _, err = command(capsys, "report", "--out", out)
    assert status == 2
    assert "there is none at" in err
    out.mkdir()
    status, _, err = command(capsys, "report", "--out", out)
    assert status == 2
    assert "there are none in" in err
    assert list(out.iterdir()) == []
    experiments.run("toy", True, out)
    status, text, err = command(capsys, "report", "--out", out)
    assert (status, text, err) == (0, f"report: {out / 'report.html'}\n", "")


def test_experiments_side_by_side(out, capsys):
    small = ("--seeds", "2", "--set", "contextual.samples=50", "--set", "linear-background.hidden=8")
    names = ("linear-background", "contextual")
    status, text, err = command(capsys, "run", *names, "--quick", *small, "--jobs", "2", "--out", out)
    assert (status in (0, 1), err) == (True, "")
    assert [line.split(":")[0] for line in text.splitlines() if line[0] != " "] == [*names, "report"]
    again = command(capsys, "run", *names, "--quick", *small, "--jobs", "1", "--out", out)
    assert [c for c in again[1].splitlines() if c[0] == " "] == [c for c in text.splitlines() if c[0] == " "]
    status, _, err = command(capsys, "run", *names, "--jobs", "0", "--out", out)
    assert (status, err) == (2, "neuralrace: --jobs must be at least 1, got 0\n")


def test_interrupt(toy, out, capsys):
    toy.BREAK.append(1)
    status, text, err = command(capsys, "run", "toy", "--quick", "--out", out)
    assert (status, text) == (130, "")
    assert err == "neuralrace: interrupted; the same command goes on from what was finished\n"
    toy.BREAK.clear()
    assert command(capsys, "run", "toy", "--quick", "--out", out)[0] == 0
    assert toy.CALLS == [0, 1]


def test_a_reader_that_leaves_early_is_no_error():
    code = "import sys; from neuralrace.cli import main; sys.exit(main(['--version']))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("neuralrace ")
    code = (
        "import os, sys; from neuralrace import cli, experiments; experiments.NAMES = (); "
        "r, w = os.pipe(); os.close(r); os.dup2(w, 1); sys.exit(cli.main(['list']))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("path", sorted(Path("docs/results").glob("*.json")), ids=lambda p: p.stem)
def test_published_results_are_read(path, tmp_path):
    if "claims" not in json.loads(path.read_text()):
        pytest.skip("a table, not a report")
    (tmp_path / "result.json").write_text(path.read_text())
    found = Report.load(tmp_path)
    assert found.claims
    assert found.name in experiments.names()
