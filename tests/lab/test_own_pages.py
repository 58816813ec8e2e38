"""Pages of a task of one's own, and what a reader of any page meets: words, sizes, links, exports."""

import re
from pathlib import Path

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import InputError
from neuralrace.laboratory.jobs import answers
from neuralrace.laboratory.own import scene_of
from neuralrace.laboratory.protocol import Details, Scene, Solve
from neuralrace.laboratory.saving import save, saved
from tests.lab.chromium import Browser, Page
from tests.lab.conftest import needs_page
from tests.lab.test_saved import READY, move

NODES = {"item": 4, "shallow": 8, "d1": 8, "d2": 8, "feature": 7}
TWO = nr.Graph(
    NODES,
    [("item", "shallow"), ("shallow", "feature"), ("item", "d1"), ("d1", "d2"), ("d2", "feature")],
)
TASK = nr.Task(TWO, *nr.tasks.hierarchy(3).arrays)
AHEAD = {e: 0.05 if "shallow" in e else 0.5 for e in TWO.edges}
WORDS = {"title": "Two roads", "text": "The long one is ahead.", "source": "Lecture 3"}


@pytest.fixture
def page(chrome: Browser):
    """A tab whose pages make no request and no error."""
    one = chrome.page()
    one.size(1280, 720)
    yield one
    one.run("0")  # takes the events that are left
    assert one.outside == []
    assert one.errors == []
    one.socket.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    return {
        "own": nr.lab(TASK, AHEAD).save(folder / "own.html", **WORDS),
        "race": save(folder / "race.html", Scene(entry="separability", seeds=0)),
    }


def text(page: Page, selector: str) -> str:
    return page.run(f"document.querySelector('{selector}').textContent")


@needs_page
def test_a_page_has_the_words_and_the_strengths_that_were_given(page: Page, files: dict[str, Path]):
    page.open(files["own"].as_uri())
    page.wait(READY)
    assert page.run("document.title") == "Two roads: neuralrace"
    assert text(page, ".brand") == "Two roads"
    assert text(page, ".sentence") == "The long one is ahead."
    assert text(page, ".figure") == f"Lecture 3 · neuralrace {nr.__version__}"
    assert text(page, ".winner") == "through d1 wins"
    r = nr.reduce(TASK, ties=AHEAD)
    for times in (1.0, 0.4):
        if times != 1:
            page.run(f"lab.change({{values: {{strength: {0.05 * times}}}}})")
            page.wait(f"lab.asker.solving < 0 && {READY}")
        picture = page.run("lab.shownNow.picture")
        start = {e: b * times for e, b in AHEAD.items()}
        loss = r.solve(start, picture["t"][-1], picture["t"]).loss
        np.testing.assert_allclose(picture["lanes"][0]["loss"], loss, rtol=0, atol=1e-5 * loss[0])


def test_without_words_a_page_says_what_the_network_is():
    entry = saved(scene_of(TASK).model_copy(update={"seeds": 0})).entry
    assert entry.title == "From item to feature, along 2 paths"
    assert entry.sentence.startswith("Neurons: item 4, shallow 8")
    assert "4 samples" in entry.sentence
    assert (entry.figure, entry.sliders[0].label) == ("", "initial strength")
    ahead = saved(scene_of(TASK, AHEAD).model_copy(update={"seeds": 0})).entry.sliders[0]
    assert ahead.label == "initial strength, smallest"
    assert ahead.high == pytest.approx(0.09)  # then the others start with 0.9


@pytest.mark.parametrize(
    ("strengths", "message"),
    [
        ({**AHEAD, "item->y": 1.0}, "strengths names 'item->y', which is no edge that learns"),
        ({"item->d1": 0.1}, "strengths must name every edge that learns; 'item->shallow' is missing"),
        ({**AHEAD, "item->d1": 5.0}, r"strengths\['item->d1'\] must be .* 0.9"),
        ("large", "strengths must be"),
        (0.0, "strengths must be"),
    ],
    ids=str,
)
def test_strengths_that_a_page_cannot_have_are_refused(strengths: object, message: str):
    with pytest.raises(InputError, match=message):
        scene_of(TASK, strengths)


@needs_page
def test_words_that_are_no_text_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match="title must be a text"):
        nr.lab(TASK).save(tmp_path / "page.html", title=3)  # pyright: ignore[reportArgumentType]


def test_the_growth_rate_is_that_of_the_text():
    """S of the equation is of all pathways of a gating together, and would rank them wrongly."""
    details = list(answers(Solve(id=0, scene=Scene(entry="separability", values={"delta": 1.58}))))[1]
    assert isinstance(details, Details)
    values = {s.latex[0]: s.value for lane in details.lanes for s in lane.symbols}
    assert values[r"\frac{1}{2} \cdot S"] == "0.79"
    assert values[r"\frac{1}{4} \cdot S"] == f"{np.sqrt(1.58**2 + 2) / 4:.3g}"


@needs_page
@pytest.mark.parametrize("size", [(390, 844), (768, 1024), (1280, 720)], ids=str)
@pytest.mark.parametrize("name", ["own", "race"])
def test_nothing_blank_follows_a_page(page: Page, files: dict[str, Path], name: str, size: tuple[int, int]):
    page.size(*size)
    page.open(files[name].as_uri())
    page.wait(READY)
    heights = "[document.documentElement, document.body].map(e => e.scrollHeight)"
    content = page.run("Math.round(document.querySelector('#lab').getBoundingClientRect().height)")
    assert page.run(heights) == [content, content]
    page.run("document.querySelector('details.words').open = true")
    content = page.run("Math.round(document.querySelector('#lab').getBoundingClientRect().height)")
    assert page.run(heights) == [content, content]


@needs_page
def test_a_link_that_changes_in_an_open_tab_is_followed(page: Page, files: dict[str, Path]):
    page.open(files["race"].as_uri())
    page.wait(READY)
    move(page, "delta", 0.8)
    state, link = page.run("lab.shownNow.state"), page.run("lab.link()")
    page.click("button.reset")
    page.wait(f"{READY} && !('delta' in lab.shownNow.state.scene.values)")
    page.run(f"location.hash = '#s={link}'")
    page.wait(f"{READY} && lab.asker.solving < 0 && lab.shownNow.state.scene.values.delta > 1")
    assert page.run("lab.shownNow.state") == state
    assert page.run("document.querySelector('.winner').textContent") == "linear gating wins"
    page.run("location.hash = '#s=damaged'")
    page.wait("document.querySelector('.message.wrong')?.textContent === 'The link could not be read.'")
    assert page.run("lab.shownNow.state") == state


@needs_page
def test_large_type_and_the_source_reach_what_is_taken_away(page: Page, files: dict[str, Path]):
    page.open(files["own"].as_uri())
    page.wait(READY)
    page.run(
        "window.taken = []; URL.createObjectURL = (b) => { taken.push(b); return 'blob:none' }; "
        "HTMLAnchorElement.prototype.click = () => {}"
    )
    found = []
    for count in (1, 2):
        page.run(
            "[...document.querySelectorAll('.item')].find(i => i.textContent === 'Figure as SVG').click()"
        )
        page.wait(f"taken.length === {count}")
        found.append(page.run(f"taken[{count - 1}].text()"))
        page.press("l")
    assert all(f"Lecture 3 · neuralrace {nr.__version__}" in svg for svg in found)
    small, large = (float(re.search(r'viewBox="-24 -24 ([\d.]+)', svg)[1]) for svg in found)  # type: ignore[index]
    assert small / large > 1.5  # both are as wide on a slide
    assert all('width="1280"' in svg and "<title>" not in svg for svg in found)


@needs_page
def test_words_of_the_page_have_their_meaning(page: Page, files: dict[str, Path]):
    page.open(files["own"].as_uri())
    page.wait(READY)
    headed = page.run(
        "[...document.querySelectorAll('.times th[scope=col]')].slice(1).map(e => e.title.length > 30)"
    )
    assert headed == [True, True]
    assert page.run("document.querySelector('.now').title").startswith("Norm of the weights")
    said = page.run(
        "[...document.querySelectorAll('.stage title')].map(e => e.parentNode.firstChild.textContent)"
    )
    assert {"share learned", "strength carried"} <= set(said)
    listed = page.run("[...document.querySelectorAll('.words dt')].map(e => e.textContent)")
    assert listed == ["share learned", "strength carried", "at the end", "midway at", "size"]
    page.run("document.querySelector('.words').open = true")
    move(page, "strength", 0.5)
    assert page.run("document.querySelector('.words').open")
