"""The page in a real browser: headless Chromium. Skipped where there is none, with a line that says so."""

from pathlib import Path

import numpy as np
import pytest

from neuralrace.cli.description import read_description
from neuralrace.laboratory.gallery import GALLERY
from neuralrace.laboratory.opening import state_of
from neuralrace.laboratory.protocol import Scene
from neuralrace.laboratory.scenes import model
from neuralrace.laboratory.theory import Structure
from tests.lab.chromium import Browser, Page
from tests.lab.conftest import Server

READY = "window.lab && lab.shownNow.picture && lab.shownNow.details"


@pytest.fixture
def page(chrome: Browser, server: Server):
    """A tab with the page open; it must make no request to elsewhere and no error."""
    one = chrome.page()
    one.size(1280, 800)
    one.open(server.address)
    one.wait(READY)
    yield one
    one.run("0")  # takes the events that are left
    assert one.outside == []
    assert one.errors == []
    one.socket.close()


def shown(page: Page, what: str) -> object:
    return page.run(f"JSON.parse(JSON.stringify(lab.shownNow.{what}))")


def slide(page: Page, name: str, to: float) -> None:
    """Drag the knob of a slider with the mouse, to a share of its way."""
    ends = page.run(
        f"(() => {{const e = document.querySelector('[data-slider={name}]'); e.scrollIntoView(); "
        "const b = e.getBoundingClientRect(); const at = (e.value - e.min) / (e.max - e.min); "
        "return [b.left + 8 + at * (b.width - 16), b.left + 8, b.right - 8, b.top + b.height / 2]})()"
    )
    page.drag((ends[0], ends[3]), (ends[1] + to * (ends[2] - ends[1]), ends[3]))
    page.run("document.activeElement.blur()")  # arrows and Home would move the slider


@pytest.mark.parametrize("entry", GALLERY)
def test_every_entry_opens_and_a_slider_is_dragged(page: Page, entry: str):
    page.run(f"lab.open('{entry}', true)")
    page.wait(f"{READY} && lab.shownNow.state.scene.entry === '{entry}'")
    page.run("window.before = lab.shownNow.redrawn.count")
    last = GALLERY[entry].entry.sliders[-1]
    slide(page, last.name, 0.9)
    page.wait(f"{READY} && lab.shownNow.redrawn.count > before && !(lab.asker.solving >= 0)")
    value = page.run(f"lab.shownNow.state.scene.values['{last.name}']")
    assert value != last.value
    assert page.run("lab.shownNow.picture.lanes[0].loss.length") == 241
    assert page.run("document.querySelectorAll('.stage path.curve').length") >= 2
    assert page.run("document.querySelectorAll('.formula .katex').length") >= 1
    widths = "[...document.querySelectorAll('.stage path.edge')].map(e => +e.getAttribute('stroke-width'))"
    page.press("Home")
    early = page.run(widths)
    page.press("End")
    late = page.run(widths)
    assert max(late) > max(early) - 1e-9
    assert max(late) > 8  # the strongest edge is thick at the end


def test_a_network_drawn_from_an_empty_page(page: Page, tmp_path: Path):
    """Three pathways, drawn and gated with the mouse; theory and trained network agree by number."""
    page.click("button.draw")
    for _ in range(5):
        page.click("button.add-layer")
    assert page.run("[...document.querySelectorAll('g.node')].map(n => n.dataset.node)") == [
        "x",
        "y",
        "h1",
        "h2",
        "h3",
    ]
    for h in ("h1", "h2", "h3"):
        for a, b in (("x", h), (h, "y")):
            page.drag(page.middle(f"g.node[data-node={a}] rect"), page.middle(f"g.node[data-node={b}] rect"))
    page.click("button.add-context")
    page.click("[data-gate='h1/0']")
    page.click("[data-gate='h2/1']")
    page.drag(page.middle("g.node[data-node=y] rect"), page.middle("g.node[data-node=x] rect"))
    assert "cycle" in page.run("document.querySelector('.refusal').textContent")
    assert "cycle" in page.run("document.querySelector('.stage .spot').textContent")
    page.wait(READY)
    state = shown(page, "state.scene.drawn")
    assert isinstance(state, dict)
    assert len(state["edges"]) == 6
    assert state["gates"] == {"h1": [0, 1], "h2": [1, 0]}
    page.wait("document.querySelector('.trained').textContent", 90)
    picture, runs = shown(page, "picture"), shown(page, "runs")
    assert isinstance(picture, dict)
    assert isinstance(runs, list)
    theory = np.interp(runs[0]["t"], picture["t"], picture["lanes"][0]["loss"])
    np.testing.assert_allclose(runs[0]["loss"], theory, atol=1e-4)
    assert len(runs[0]["t"]) > 50
    (tmp_path / "own.yaml").write_text(page.run("lab.exported('yaml')"))
    assert read_description(tmp_path / "own.yaml").task.n_contexts == 2  # test_jobs has its numbers
    page.run("document.body.focus()")
    page.click("button[title^=undo]")
    assert len(page.run("lab.shownNow.state.scene.drawn.gates.h2 ?? []")) == 0


def test_a_link_restores_the_exact_state(page: Page, chrome: Browser, server: Server):
    page.run("lab.open('routing', true)")
    page.wait(f"{READY} && lab.shownNow.state.scene.entry === 'routing'")
    slide(page, "domains", 0.9)
    page.press("d")
    page.press("Home")
    for _ in range(4):
        page.press("ArrowRight")
    page.wait(f"lab.shownNow.state.scene.values.domains > 6 && {READY} && lab.asker.solving < 0")
    page.run("[...document.querySelectorAll('.item')].find(i => i.textContent === 'Copy link').click()")
    page.wait("/exact state is copied|did not let/.test(document.querySelector('.message').textContent)")
    link = "lab:" + page.run("lab.link()")
    assert server.token not in link
    state, loss = shown(page, "state"), shown(page, "picture.lanes[0].loss")
    again = chrome.page()
    again.size(1280, 800)
    again.open(f"{server.address}#s={state_of(link)}")  # as `neuralrace lab LINK` does
    again.wait(READY)
    assert shown(again, "state") == state
    assert shown(again, "picture.lanes[0].loss") == loss
    again.open(server.address)
    again.wait(f"{READY} && lab.shownNow.state.scene.entry === 'separability'")
    again.run(
        "(() => { const data = new DataTransfer(); data.setData('text', '" + link + "'); "
        "document.body.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, bubbles: true})) })()"
    )
    again.wait(f"{READY} && lab.shownNow.state.scene.entry === 'routing'")
    assert shown(again, "state") == state
    assert again.run("document.querySelector('.nr-lab').dataset.theme") == "dark"
    again.open(f"{server.address}#s=broken")
    again.wait(READY)
    assert again.errors == []
    again.socket.close()


def test_keys_play_step_and_change_the_entry(page: Page):
    page.press("Home")
    assert page.run("lab.shownNow.state.view.at") == 0
    page.press("ArrowRight")
    assert page.run("lab.shownNow.state.view.at") == pytest.approx(1 / 60)
    page.press(" ", " ")
    page.wait("lab.shownNow.state.view.at > 0.1")
    page.press(" ", " ")
    first = page.run("lab.shownNow.state.scene.entry")
    page.press("n")
    page.wait(f"{READY} && lab.shownNow.state.scene.entry !== '{first}'")
    page.press("p")
    page.wait(f"{READY} && lab.shownNow.state.scene.entry === '{first}'")
    page.press("c")
    assert page.run("getComputedStyle(document.querySelector('.controls')).display") == "none"
    page.click("button[title^='large type']")
    page.press("Home")
    page.press(" ", " ")  # plays, and does not press the button again
    page.wait("lab.shownNow.state.view.at > 0.02")
    assert page.run("lab.shownNow.state.view.large")


def test_figures_are_taken_away(page: Page):
    """SVG, PNG, CSV and GIF are what they say; names of files and kinds are those that the browser gets."""
    page.run(
        "window.saved = []; URL.createObjectURL = (b) => { saved.push(b); return 'blob:none' }; "
        "HTMLAnchorElement.prototype.click = function () { saved[saved.length - 1].name = this.download }"
    )
    files = ("Figure as SVG", "Figure as PNG", "Curves as CSV", "Race as GIF", "Python code")
    items = (*files, "Page that needs no server")
    for k, item in enumerate(items):
        page.run(f"[...document.querySelectorAll('.item')].find(i => i.textContent === '{item}').click()")
        page.wait(f"saved.length === {k + 1}")
    heads = page.run(
        "Promise.all(saved.map(async b => "
        "[b.name, b.size, [...new Uint8Array(await b.slice(0, 6).arrayBuffer())]]))"
    )
    found = {name: (size, bytes(head)) for name, size, head in heads}
    assert found["race-separability.svg"][1].startswith(b"<svg")
    assert found["race-separability.png"][1].startswith(b"\x89PNG")
    assert found["race-separability.gif"][1] == b"GIF89a"
    assert found["race-separability.csv"][1].startswith(b"t,")
    assert found["race-separability.py"][1].startswith(b"import")
    assert found["race-separability.html"][1] == b"<!doct"
    assert all(size > 500 for size, _ in found.values())


def test_doubling_the_margin_takes_few_actions(page: Page):
    """Which pathway wins if I double the margin? The page opens on it: one drag."""
    assert page.run("document.querySelector('.winner').textContent") == "xor gating wins"
    slide(page, "delta", (1.2 - 0.05) / (2.5 - 0.05))
    page.wait(f"{READY} && lab.shownNow.state.scene.values.delta > 1.1")
    page.wait("document.querySelector('.winner').textContent === 'linear gating wins'")


def test_controls_have_labels(page: Page):
    """Everything that can be operated has a name for screen readers."""
    nameless = page.run(
        "[...document.querySelectorAll('button, select, input, textarea')].filter("
        "e => !(e.getAttribute('aria-label') || e.textContent.trim() || e.closest('label'))).length"
    )
    assert nameless == 0


def draw(page: Page) -> None:
    """Draw x to h1 to y."""
    page.run("lab.open('own', true)")
    for _ in range(3):
        page.click("button.add-layer")
    for a, b in (("x", "h1"), ("h1", "y")):
        page.drag(page.middle(f"g.node[data-node={a}] rect"), page.middle(f"g.node[data-node={b}] rect"))
    page.wait(READY)


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ("separability", "strength"),
        ("pathways", "ahead"),
        ("chain", "strength"),
        ("hierarchy", "time"),
        ("own", "strength"),
    ],
)
def test_a_live_slider_is_solved_on_the_page(page: Page, entry: str, name: str):
    """Its curves are the library's, and the server is asked for what the page cannot do alone."""
    if entry == "own":
        draw(page)
    else:
        page.run(f"lab.open('{entry}', true)")
    page.wait(f"{READY} && lab.transport.known?.scene.entry === '{entry}' && lab.asker.training > 0")
    page.run(
        "(inner => { const send = inner.send.bind(inner); window.asked = []; "
        "inner.send = (r) => { asked.push(r.kind); send(r) } })(lab.transport.inner)"
    )
    slide(page, name, 0.7)
    page.wait(f"{READY} && lab.asker.solving < 0 && '{name}' in lab.shownNow.state.scene.values")
    picture, scene = shown(page, "picture"), Scene.model_validate(shown(page, "state.scene"))
    assert isinstance(picture, dict)
    moved = model(scene)
    for lane in picture["lanes"]:
        r, t = Structure.of(moved, lane["name"]).reduction, np.array(picture["t"])
        assert len(t) == 241
        loss = r.solve(moved.start(lane["name"]), float(t[-1]), t).loss
        np.testing.assert_allclose(lane["loss"], loss, rtol=0, atol=1e-6 * loss[0])
    page.wait("document.querySelector('.trained').textContent.includes('differ by less than 0.001%')", 90)
    assert page.run("lab.shownNow.details.similarity.length")
    assert "solve" not in page.run("asked")


def test_a_table_is_pasted(page: Page):
    draw(page)
    page.run("lab.editor.receive(new Blob(['x1,x2,y\\n1,0,2\\n0,1,1\\n']))")
    page.wait("lab.shownNow.state.scene.drawn.data.kind === 'samples'")
    page.wait(f"{READY} && lab.shownNow.picture.lanes[0].nodes[0].size === 2")
    page.run("lab.editor.receive(new Blob(['x1,y\\n1,no\\n']))")
    page.wait("document.querySelector('.refusal').textContent.includes('line 2')")
    page.errors[:] = [e for e in page.errors if "422" not in e]  # the browser logs the refused upload


def test_a_large_table_is_refused_and_undo_is_kept(page: Page):
    """Two inputs doubled it, the message was too large, and the page reconnected for ever."""
    draw(page)
    page.click("button.add-layer")
    page.drag(page.middle("g.node[data-node=h2] rect"), page.middle("g.node[data-node=y] rect"))
    page.wait(READY)
    page.run("window.row = Array(45).fill(0.1234567890123456).join()")
    page.run("lab.editor.receive(new Blob([Array(2000).fill(row).join('\\n')]))")
    page.wait("document.querySelector('.refusal').textContent.includes('numbers in all')")
    assert page.run("lab.shownNow.state.scene.drawn.data.kind") == "world"
    page.run("lab.transport.inner.socket.close()")
    page.wait("document.querySelector('.message').textContent.includes('trying again')")
    page.wait("!document.querySelector('.message').textContent", 20)
    page.click("button[title^=undo]")
    page.wait("lab.shownNow.state.scene.drawn.edges.length === 2")


def test_an_error_takes_the_former_curves_away(page: Page):
    page.wait("lab.shownNow.picture && document.querySelector('.winner').textContent")
    page.run("lab.change({ values: { delta: 99 } })")
    page.wait("document.querySelector('.message.wrong').textContent.includes('delta must be')")
    assert page.run("document.querySelectorAll('.stage path.curve').length") == 0
    assert page.run("document.querySelector('.verdict').textContent") == ""


def test_random_starts_are_counted_and_stay_on_the_axes(page: Page):
    page.run("lab.open('pathways', true)")
    page.wait(f"{READY} && lab.shownNow.state.scene.entry === 'pathways'")
    choices = "[...document.querySelectorAll('[aria-label^=networks] option')].map(o => o.value)"
    assert page.run(choices) == ["0", "1"]  # aligned starts all learn alike
    page.click("input[value=random]")
    assert page.run(choices) == ["0", "1", "3", "5", "10"]
    page.wait("/ in \\d of 3$/.test(document.querySelector('.winner').textContent)")
    page.wait("document.querySelector('.trained').textContent.includes('its own start')", 90)
    assert page.run("document.querySelectorAll('.stage path.predicted').length") == 2 + 2 * 2
    inside = page.run(
        "[...document.querySelectorAll('.stage .dots path')].every(p => "
        "[...p.getAttribute('d').matchAll(/,(-?[\\d.]+)h0/g)].every(m => +m[1] >= 27.9))"
    )
    assert inside
