"""On which code stored parts depend, on a small made-up package and on this one."""

import gc
from pathlib import Path

import pytest

import neuralrace
from neuralrace.experiments import PAPERS, code, experiment, names
from neuralrace.experiments.code import Package

FILES = {
    "__init__.py": '"""Made up."""\nfrom made import core, plot\nfrom made.core import solve\n',
    "core.py": """
        from made.low.deep import bottom

        def solve(x):
            return bottom(x)
        """,
    "low/__init__.py": "from .side import aside\n",
    "low/deep.py": "def bottom(x):\n    return x + 1\n",
    "low/side.py": "def aside(x):\n    from ..lazy import late\n    return late(x)\n",
    "lazy.py": "def late(x):\n    return x\n",
    "plot.py": "RED = 1\n",
    "unused.py": "VALUE = 1\n",
    "experiments/__init__.py": "from made.experiments import first\n",
    "experiments/first.py": '''
        """The first experiment."""
        import made as m
        from made import plot

        COLOUR = plot.RED
        SIZE = 3

        def help(p):
            """Help."""
            return SIZE * p

        def compute(p: "Settings", parts):
            return parts("a", m.solve, help(p), COLOUR)

        def figures(p, r):
            return caption("text")

        def caption(text):
            return text
        ''',
    "experiments/second.py": """
        from made.experiments.first import help as helped
        from made.low import aside

        def compute(p, parts):
            return parts("b", aside, helped(p))
        """,
}


def dedented(text):
    lines = text.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines) + "\n"


@pytest.fixture
def made(tmp_path):
    folder = tmp_path / "made"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(dedented(text))
    return Package(folder, "made")


FIRST, SECOND = ("made.experiments.first", "compute"), ("made.experiments.second", "compute")


def edit(package, file, old, new):
    path = package.folder / file
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_modules_that_are_reached(made):
    assert made.modules([FIRST]) == {"made.experiments.first", "made.core", "made.low.deep"}
    assert made.modules([SECOND]) == {
        "made.experiments.second", "made.experiments.first", "made.low", "made.low.side", "made.lazy",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("file", "old", "new", "first", "second"),
    [
        ("core.py", "return bottom(x)", "return bottom(2 * x)", True, False),
        ("low/deep.py", "x + 1", "x + 2", True, False),
        ("low/side.py", "late(x)", "late(-x)", False, True),
        ("lazy.py", "return x", "return 2 * x", False, True),
        ("experiments/first.py", "SIZE = 3", "SIZE = 4", True, True),
        ("experiments/first.py", "SIZE * p", "SIZE + p", True, True),
        ("experiments/first.py", "m.solve, help(p)", "m.solve, 2 * help(p)", True, False),
        ("experiments/second.py", "helped(p)", "helped(-p)", False, True),
        # What computes nothing that is stored.
        ("plot.py", "RED = 1", "RED = 2", False, False),
        ("unused.py", "VALUE = 1", "VALUE = 2", False, False),
        ("experiments/first.py", 'caption("text")', 'caption("other")', False, False),
        ("experiments/first.py", "    return text", "    return text + text", False, False),
        # Comments, formatting and docstrings.
        ("experiments/first.py", '"""Help."""', '"""Helps more."""', False, False),
        ("experiments/first.py", '    """Help."""\n', "", False, False),
        ("experiments/first.py", "The first experiment.", "An experiment.", False, False),
        ("low/deep.py", "return x + 1", "# a comment\n    return (x   + 1)", False, False),
        ("low/deep.py", "def bottom(x):\n", 'def bottom(x):\n    """New."""\n', False, False),
    ],
)
def test_a_key_changes_with_what_is_called_and_with_nothing_else(made, file, old, new, first, second):
    before = made.key([FIRST]), made.key([SECOND])
    edit(made, file, old, new)
    after = made.key([FIRST]), made.key([SECOND])
    assert (after[0] != before[0], after[1] != before[1]) == (first, second)


def test_the_meaning_of_a_parameter_is_documentation(made):
    edit(made, "experiments/first.py", "SIZE = 3", 'SIZE = option(3, "how large", least=1)')
    before = made.key([FIRST])
    edit(made, "experiments/first.py", "how large", "how small")
    assert made.key([FIRST]) == before
    edit(made, "experiments/first.py", "option(3", "option(4")
    assert made.key([FIRST]) != before


def test_how_a_part_is_declared_changes_no_number(made):
    before = made.key([FIRST])
    edit(made, "experiments/first.py", "def help(p)", "@part(each=COLOURS)\ndef help(p)")
    edit(made, "experiments/first.py", "COLOUR = plot.RED", "COLOUR = plot.RED\nCOLOURS = (1, 2)")
    assert made.key([FIRST]) == before
    edit(made, "experiments/first.py", "@part(each=COLOURS)", "@other")
    assert made.key([FIRST]) != before


def test_a_local_variable_is_not_the_function_of_its_name(made):
    edit(made, "experiments/first.py", "return SIZE * p", "caption = SIZE * p\n    return caption")
    before = made.key([FIRST])
    edit(made, "experiments/first.py", "    return text", "    return text + text")
    assert made.key([FIRST]) == before
    edit(made, "experiments/first.py", "    caption = SIZE * p\n", "    other = SIZE * p\n")
    called = made.key([FIRST])
    edit(made, "experiments/first.py", "    return text + text", "    return text")
    assert made.key([FIRST]) != called


def test_a_module_may_lie_elsewhere(made, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from made.core import solve\n\ndef compute(p, parts):\n    return solve(p)\n")
    package = Package(made.folder, "made", (("made.experiments.mine", file),))
    start = [("made.experiments.mine", "compute")]
    assert package.modules(start) == {"made.experiments.mine", "made.core", "made.low.deep"}
    before = package.key(start)
    edit(made, "low/deep.py", "x + 1", "x + 2")
    assert package.key(start) != before


def test_keys_do_not_depend_on_the_order_of_starts_or_on_earlier_keys(made):
    key = made.key([FIRST, SECOND])
    code._whole.cache_clear()
    code._definitions.cache_clear()
    assert made.key([SECOND, FIRST]) == key
    assert gc.isenabled()


# -- this package ----------------------------------------------------------------------------

PACKAGE = Package(Path(neuralrace.__file__).parent, "neuralrace")


def start(name):
    return experiment(name).code


def test_experiments_depend_on_those_they_import_from():
    assert "neuralrace.experiments.neural_race.domains_data" in PACKAGE.modules(start("sharing"))


def test_experiments_depend_on_what_they_use_of_the_library(tmp_path):
    text = (PACKAGE.folder / "universality" / "fits.py").read_text()
    assert text.count("strict=False") == 1
    file = tmp_path / "fits.py"
    file.write_text(text.replace("strict=False", "strict=True"))
    edited = Package(PACKAGE.folder, "neuralrace", (("neuralrace.universality.fits", file),))
    changed = {n for n in names() if edited.key(start(n)) != PACKAGE.key(start(n))}
    assert changed == set(PAPERS["representations_align"])


@pytest.mark.parametrize("name", names())
def test_what_experiments_depend_on(name):
    found = PACKAGE.modules(start(name))
    assert "neuralrace.errors" in found
    apart = ("neuralrace", "neuralrace.cli", "neuralrace.plot", "neuralrace.experiments.report")
    assert not found & {*apart, "neuralrace.experiments.store", "neuralrace.experiments.claim"}


def test_each_module_is_parsed_once(monkeypatch):
    """So that a key takes some 0.2 s, and the next one in the same process next to nothing."""
    code._whole.cache_clear()
    code._definitions.cache_clear()
    parsed, parse = [], code.ast.parse
    monkeypatch.setattr(code.ast, "parse", lambda source: parsed.append(source) or parse(source))
    PACKAGE.key(start("xor"))
    assert 40 < len(parsed) == len(set(parsed))
    PACKAGE.key(start("xor"))
    PACKAGE.key(start("contextual"))
    assert len(parsed) == len(set(parsed))
