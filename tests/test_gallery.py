"""Scripts of the gallery run, are short, say what they show, and their figures can be read."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from tests.pictures import texts_that_overlap

FOLDER = Path(__file__).parents[1] / "examples" / "gallery"
SCRIPTS = sorted(FOLDER.glob("plot_*.py"))
MOST_LINES, MOST_WORDS = 30, 30
NUMBER = r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"


def code_of(script):
    """Code lines of a script, without comments and docstrings."""
    text = script.read_text(encoding="utf-8")
    first = ast.parse(text).body[0].end_lineno
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    tokens = [
        t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type not in skipped and t.string
    ]
    lines = {k for t in tokens if t.start[0] > first for k in range(t.start[0], t.end[0] + 1)}
    return [line for k, line in enumerate(text.splitlines(), 1) if k in lines]


def texts_of(script):
    """Docstring and text cells of a script; what one sees, without the steps to try, comes second."""
    text = script.read_text(encoding="utf-8")
    cells = [
        "\n".join(line[2:] for line in cell.splitlines()) for cell in re.findall(r"(?m)(?:^#.*\n)+", text)
    ]
    return ast.get_docstring(ast.parse(text)), cells[-1]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem[5:])
def test_a_script_shows_one_figure_that_can_be_read_and_the_numbers_of_its_text(script, capsys):
    for package in ("torch", "sklearn"):
        if f"{package}" in script.read_text(encoding="utf-8"):
            pytest.importorskip(package)
    found, figures = {"__name__": "__main__"}, []
    for cell in script.read_text(encoding="utf-8").split("\n# %%\n"):
        assert not (figures and ast.parse(cell).body), "the site shows a figure as it is after the first cell"
        exec(compile(cell, script.name, "exec"), found)
        figures = [value for value in found.values() if isinstance(value, Figure)]
    assert len(figures) == 1
    assert texts_that_overlap(figures[0]) == []
    shown = capsys.readouterr().out + "\n".join(code_of(script))
    values = [float(v.replace(",", "")) for v in re.findall(NUMBER, shown)]
    docstring, seen = texts_of(script)
    said = re.findall(rf"({NUMBER})(%?)", docstring + seen.split("**Three steps to try**")[0])
    wrong = [
        number + percent
        for number, percent in said
        if ("." in number or percent) and not any(is_rounded(number, percent, value) for value in values)
    ]
    assert wrong == []


def is_rounded(said, percent, value):
    """Whether a number of a text is a value, rounded to its digits."""
    digits = len(said.partition(".")[2])
    sizes = (value, 100 * value) if percent else (value,)
    return any(abs(size - float(said)) <= 0.5000001 * 10**-digits for size in sizes)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem[5:])
def test_a_script_is_short_and_has_a_title_and_three_steps_in_plain_sentences(script):
    assert 0 < len(code_of(script)) <= MOST_LINES
    docstring, seen = texts_of(script)
    title, underline, blank = docstring.splitlines()[:3]
    assert underline == "=" * len(title)
    assert not blank
    assert len(re.findall(r"(?m)^- ", seen.partition("**Three steps to try**")[2])) == 3
    prose = re.sub(r"``[^`]*``", "code", docstring.partition(underline)[2] + "\n\n" + seen)
    sentences = re.split(r"(?<=[.!?:])\s+|\n\s*\n|\n- ", prose)
    assert [s for s in sentences if len(re.findall(r"\w[\w'.-]*", s)) > MOST_WORDS] == []


def test_the_gallery_has_what_users_ask_for():
    wanted = {
        "race", "xor_relu", "separability", "routing", "modalities", "residual", "experts", "own_data",
        "continual", "curriculum", "rich_or_lazy", "pytorch", "jax", "deep_chains", "phase_portrait",
        "hierarchy", "parallel_pathways",
    }  # fmt: skip
    assert {script.stem[5:] for script in SCRIPTS} == wanted
    assert (FOLDER / "GALLERY_HEADER.rst").exists()


def test_a_number_of_a_text_is_that_of_its_script_to_its_digits():
    assert is_rounded("4.2", "", 4.249)
    assert is_rounded("55", "%", 0.548)
    assert not is_rounded("4.2", "", 4.26)
    assert not is_rounded("55", "%", 0.56)
