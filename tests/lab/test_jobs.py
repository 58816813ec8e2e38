"""What is computed for a scene, against the library itself."""

import contextlib
import dataclasses
import io
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.cli.reduce import reduce_file
from neuralrace.dynamics.status import Status
from neuralrace.laboratory import simulate, theory
from neuralrace.laboratory.gallery import GALLERY, chain, values_of
from neuralrace.laboratory.jobs import answers
from neuralrace.laboratory.protocol import (
    Details,
    Export,
    Exported,
    Finished,
    Picture,
    Predicted,
    Problem,
    Scene,
    Simulate,
    Simulated,
    Solve,
)
from neuralrace.laboratory.scenes import model

THREE = {
    "nodes": [{"name": n, "size": 4} for n in ("x", "y", "h1", "h2", "h3")],
    "edges": [{"source": s, "target": t} for h in ("h1", "h2", "h3") for s, t in (("x", h), (h, "y"))],
    "contexts": 2,
    "gates": {"h1": [1, 0], "h2": [0, 1]},
    "data": {"kind": "world", "name": "two modes", "size": 3, "targets": "own"},
}


def scene(entry: str, **values: float) -> Scene:
    return Scene(entry=entry, values=values, seeds=1)


OWN = Scene.model_validate({"entry": "own", "values": {"strength": 0.2}, "seeds": 1, "drawn": THREE})


RESIDUAL = Scene.model_validate(
    {
        "entry": "own",
        "values": {"strength": 0.2},
        "seeds": 1,
        "drawn": {
            "nodes": [{"name": n, "size": 3} for n in ("x", "a", "h", "y")],
            "edges": [
                {"source": "x", "target": "a"},
                {"source": "a", "target": "h"},
                {"source": "x", "target": "h", "fixed": np.eye(3).tolist()},
                {"source": "h", "target": "y"},
            ],
            "data": {
                "kind": "samples",
                "inputs": {"x": np.eye(3).tolist()},
                "targets": {"y": np.diag([3.0, 2.0, 1.0]).tolist()},
                "context": [0, 0, 0],
            },
        },
    }
)


SADDLE = Scene.model_validate(
    {
        "entry": "own",
        "values": {"strength": 0.05},
        "seeds": 1,
        "drawn": {
            "nodes": [{"name": n, "size": s} for n, s in (("x", 1), ("p0h1", 20), ("p1h1", 20), ("y", 1))],
            "edges": [{"source": s, "target": t} for h in ("p0h1", "p1h1") for s, t in (("x", h), (h, "y"))],
            "contexts": 2,
            "gates": {"p0h1": [1, 0], "p1h1": [0, 1]},
            "data": {
                "kind": "samples",
                "inputs": {"x": [[1], [1]]},
                "targets": {"y": [[1], [-1]]},
                "context": [0, 1],
            },
        },
    }
)


def solved(given: Scene) -> tuple[Picture, Details]:
    picture, *others = answers(Solve(id=1, scene=given))
    assert isinstance(picture, Picture), picture
    (details,) = (x for x in others if isinstance(x, Details))
    return picture, details


def trained(given: Scene) -> tuple[list[Simulated], Finished]:
    *parts, last = answers(Simulate(id=2, scene=given))
    assert isinstance(last, Finished), last
    return [p for p in parts if isinstance(p, Simulated)], last


def exported(given: Scene, form: str) -> str:
    (answer,) = answers(Export(id=3, scene=given, format=form))  # type: ignore[arg-type]
    assert isinstance(answer, Exported), answer
    return answer.text


def test_the_chain_is_its_closed_form():
    """Each mode that the page draws is `nr.exact.chain`."""
    picture, details = solved(scene("chain", depth=3, strength=0.3))
    x, y = nr.tasks.hierarchy(3).arrays
    s = np.linalg.svd(y.T @ x / 4, compute_uv=False)
    for racer, k in zip(picture.lanes[0].racers, (0, 1, 2), strict=True):
        exact = nr.exact.chain(np.array(picture.t), s[k], 0.25, 0.3**3, 3)
        np.testing.assert_allclose(racer.carries, exact, rtol=1e-4)
    assert details.lanes[0].badge.verdict == "exact"


@pytest.mark.parametrize(("depth", "strength"), [(1, 0.01), (5, 0.01), (8, 0.01), (8, 0.9)])
def test_the_longest_plateaus_take_few_steps(depth: int, strength: float):
    """A chain of five layers from .01 took 100,000 explicit steps, and a minute."""
    (lane,) = theory.solve(chain({"depth": depth, "strength": strength}), False, 1).lanes
    assert lane.solution.status is Status.FINISHED
    assert lane.solution.stats["steps"] < 4000
    left = lane.solution.loss[-1] / lane.solution.loss[0]
    assert left < 0.002 or depth == 8  # 8 layers from .01 take 1e12 units of time


def test_a_solver_that_gives_up_is_a_problem_in_words(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(theory, "METHOD", nr.Adaptive(max_steps=5))
    (answer,) = answers(Solve(id=1, scene=scene("chain", depth=4)))
    assert isinstance(answer, Problem)
    assert "step limit of 5" in answer.text


def test_routing_says_what_the_paper_says():
    picture, details = solved(scene("routing", domains=4, trained=2))
    assert [len(g.edges) for g in picture.lanes[0].groups] == [8, 1]
    assert "4" in details.lanes[0].conserved[0]
    outer, shared = (g.strength[-1] for g in picture.lanes[0].groups)
    assert shared / outer == pytest.approx(2, rel=0.02)  # sqrt(M), neural_race Eq. 51


def test_the_wider_margin_lets_the_linear_gating_win():
    narrow, said = solved(scene("separability", delta=0.6))
    wide, _ = solved(scene("separability", delta=1.2))
    assert (narrow.winner, wide.winner) == ("xor", "linear")
    assert said.race[0][0] == "xor"
    times = {lane.name: lane.learning_time for lane in narrow.lanes}
    for gating, t in times.items():
        exact = nr.exact.separability_time(narrow.level, 0.6, gating, 0.03**2)
        assert t == pytest.approx(float(exact), rel=1e-3)


def test_level_racers_are_a_tie():
    contexts, said = solved(scene("contexts"))
    assert contexts.winner == "always open"
    assert said.similarity[0].layer == "p0h1"  # that all samples reach
    assert solved(scene("contextual"))[0].winner is None
    assert solved(scene("two-points"))[0].winner is None


@pytest.mark.parametrize("given", [OWN, RESIDUAL, SADDLE], ids=["pathways", "residual", "saddle"])
def test_a_drawn_network_learns_as_theory_says(given: Scene):
    picture, _ = solved(given)
    parts, last = trained(given)
    assert last.difference[0] is not None
    assert last.difference[0] < 1e-5
    at = dict(zip(picture.t, picture.lanes[0].loss, strict=True))
    for part in parts:
        np.testing.assert_allclose(part.loss, [at[t] for t in part.t], atol=1e-5)


def test_random_starts_are_predicted_one_by_one():
    given = Scene(entry="hierarchy", values={"levels": 3}, start="random", seeds=2)
    picture, *others, details = answers(Solve(id=1, scene=given))
    assert isinstance(picture, Picture)
    assert picture.networks == 2
    assert isinstance(details, Details)
    assert "random start" in details.lanes[0].badge.words
    lines = [picture.lanes[0].loss, *(p.loss for p in others if isinstance(p, Predicted))]
    parts, _ = trained(given)
    assert len(lines) == 1 + max(p.run for p in parts) == 2
    for part in parts:
        line = np.interp(part.t, picture.t, lines[part.run])
        np.testing.assert_allclose(part.loss, line, atol=1e-3 * part.loss[0])


@pytest.mark.parametrize("ahead", [1.05, 3.0])
def test_the_head_start_counts_at_random_starts_and_wins_are_those_of_networks(ahead: float):
    """The slider was ignored there, and the headline named the winner of a mean start."""
    values = {"ahead": ahead, "strength": 0.1, "shallow": 2, "deep": 2}
    given = Scene(entry="pathways", values=values, start="random", seeds=5)
    picture, *_, details = answers(Solve(id=1, scene=given))
    assert isinstance(picture, Picture)
    assert isinstance(details, Details)
    make = GALLERY["pathways"].make
    assert make is not None
    model = make(values_of("pathways", values))
    weights = theory.random_weights(model.lanes["pathways"], model.start("pathways"), 5)
    assert weights["x->p0h1"].std() / weights["x->p1h1"].std() == pytest.approx(ahead, rel=0.1)
    parts, _ = trained(given)
    won: Counter[str] = Counter()
    for run in range(5):
        t = np.concatenate([p.t for p in parts if p.run == run])
        carries = np.concatenate([np.array(p.carries).T for p in parts if p.run == run]).T
        racing = [
            theory.drawn_racer(x.name, c, x.carries[-1] / x.share[-1], t, [])
            for x, c in zip(picture.lanes[0].racers, carries, strict=True)
        ]
        won[theory.first_of(racing) or "a tie"] += 1
    assert dict(details.wins) == won
    assert won["pathway 1, 2 layers"] == 5 if ahead == 3.0 else 1 <= won["pathway 1, 2 layers"] <= 4


@pytest.mark.parametrize(("start", "request_of"), [("aligned", Simulate), ("random", Solve)])
def test_what_needs_too_much_memory_is_refused_before(start: str, request_of: type):
    """58 layers of 256 neurons took 5.6 GB."""
    names = ["x", *(f"h{k}" for k in range(56)), "y"]
    drawn = {
        "nodes": [{"name": n, "size": 256} for n in names],
        "edges": [{"source": a, "target": b} for a, b in itertools.pairwise(names)],
    }
    given = Scene.model_validate({"entry": "own", "start": start, "seeds": 3, "drawn": drawn})
    wide = dataclasses.replace(model(given), strength=0.9)
    if request_of is Solve:
        with pytest.raises(nr.errors.InputError, match="GiB"):
            theory.solve(wide, True, 3)
        return
    nothing: Any = None
    lane = theory.SolvedLane("network", nothing, {"x": np.zeros((1, 1))}, nothing)
    steps = simulate.simulate(theory.Solved(wide, np.zeros(2), [lane], 0.0, False), 1, 3)
    with pytest.raises(nr.errors.InputError, match="training: 3,"):
        next(steps)


def test_what_decays_has_no_half_time():
    """The page said: half at 2.74, at the end 0%."""
    t = np.linspace(0.0, 1.0, 50)
    assert theory.drawn_racer("p", 0.3 * (1 - t), 1.0, t, []).half_time is None
    assert theory.drawn_racer("p", t, 1.0, t, []).half_time == pytest.approx(0.5)
    winner, loser = theory.drawn_racer("a", t, 1.0, t, []), theory.drawn_racer("b", 0 * t, 1.0, t, [])
    assert theory.first_of([winner, loser]) == "a"
    assert theory.first_of([winner]) is None


def test_at_a_saddle_a_wider_family_is_drawn_and_this_is_said():
    """The page said: exact, the network's own curves; the loss stayed at 0.25, which all networks leave."""
    picture, details = solved(SADDLE)
    (lane,), (said,) = picture.lanes, details.lanes
    assert lane.loss[-1] < 1e-4 * lane.loss[0]
    assert [r.carries[-1] for r in lane.racers] == pytest.approx([1.0, -1.0], abs=0.01)
    assert [r.share[-1] for r in lane.racers] == pytest.approx([1.0, 1.0], abs=0.01)
    assert len(said.equations) == 2
    assert "B_{1}^{2} D_{11} - B_{2}^{2} D_{12}" in said.equations[0]
    assert said.equation_groups == []
    assert said.badge.title == (
        "The papers' family rests at a saddle here; shown is a family with 2 directions per mode"
    )
    assert said.badge.words.startswith("The papers' family: saddle: at loss ")
    parts, _ = trained(SADDLE)
    carried = np.array([p.carries for p in parts[-1:]])[0]
    np.testing.assert_allclose(carried[:, -1], [1.0, -1.0], atol=0.01)


def test_strengths_of_a_wider_family_are_sizes_of_weights():
    """Of a group the mean size of its weights, and along a path u^T W v, from two directions each."""
    (lane,) = theory.solve(model(SADDLE), False, 1).lanes
    weights = {e: np.asarray(w) for e, w in lane.solution.weights.items()}
    for members, size in zip(lane.known.reduction.classes, lane.sizes(), strict=True):
        squares = [(weights[e] ** 2).sum(axis=(1, 2)) for e in members]
        np.testing.assert_allclose(size, np.sqrt(np.mean(squares, axis=0)), rtol=1e-9)
    for racer, carries in zip(lane.known.racing[0], lane.carries(), strict=True):
        np.testing.assert_allclose(carries, racer.carried(lane.known.reduction, weights), atol=1e-9)


def test_where_no_wider_family_helps_nothing_is_green(monkeypatch: pytest.MonkeyPatch):
    def none(self: nr.Reduction) -> None:
        raise nr.errors.InputError("no wider family")

    monkeypatch.setattr(nr.Reduction, "widened", none)
    monkeypatch.setattr(theory, "_kept", lambda structure: structure)
    picture, details = solved(SADDLE.model_copy(update={"values": {"strength": 0.07}}))
    assert picture.lanes[0].loss[-1] == pytest.approx(0.25, abs=1e-3)
    badge = details.lanes[0].badge
    assert badge.verdict == "inexact"
    assert badge.title.startswith("≈ saddle: at loss ")
    assert "nr.reduce(task, weights=...) follows a network" in badge.words


def test_theory_that_is_cut_off_is_exact_all_the_same():
    """A plateau at the end of the axis is the network's own; words say that it is not the end."""
    _, details = solved(scene("contexts", time=20.0, strength=0.005))
    badge = details.lanes[0].badge
    assert badge.verdict == "exact"
    assert "At the end of the axis: not settled at t = 20:" in badge.words


@pytest.mark.parametrize("start", ["aligned", "random"])
def test_the_curves_end_when_the_scene_says(start: str):
    given = Scene(entry="hierarchy", values={"levels": 3, "time": 7.0}, start=start, seeds=1)  # type: ignore[arg-type]
    picture, _ = solved(given)
    assert picture.t[-1] == 7.0
    parts, _ = trained(given)
    assert parts[-1].t[-1] == 7.0
    assert "np.linspace(0.0, 7.0, 241)" in exported(given, "python")


@pytest.mark.parametrize(("entry", "time"), [("chain", 0.0), ("chain", 1e16), ("balanced", 5.0)])
def test_an_end_that_no_axis_has_is_refused(entry: str, time: float):
    (answer,) = answers(Solve(id=1, scene=scene(entry, time=time)))
    assert isinstance(answer, Problem)
    assert "time" in answer.text


def test_layers_are_named_for_readers():
    """As their pathway; with their layer where it has several. Names of one's own stay."""
    named = lambda s: [n.label for n in solved(s)[0].lanes[0].nodes]  # noqa: E731
    assert named(scene("contexts", contexts=2)) == [
        "",
        "",
        "always open",
        "all but context 2",
        "all but context 1",
        "",
    ]
    assert named(scene("pathways", shallow=2)) == ["", "pathway 1", "2: h1", "2: h2", ""]
    assert set(named(OWN)) == {""}


def test_an_outcome_that_is_not_finished_is_on_the_page(monkeypatch: pytest.MonkeyPatch):
    outcome = property(lambda self: "at a saddle until 12.5")
    monkeypatch.setattr(nr.Trajectory, "outcome", outcome)
    _, details = solved(scene("xor"))
    badge = details.lanes[0].badge
    assert badge.verdict == "inexact"
    assert "saddle until 12.5" in badge.title


@pytest.mark.parametrize("entry", ["balanced", "two-points"])
def test_closed_forms_are_the_flow_of_their_network(entry: str):
    given = scene(entry, **({"lam": 0.5} if entry == "balanced" else {"dy2": 1.0}))
    _, last = trained(given)
    assert last.difference[0] is not None
    assert last.difference[0] < 1e-5


def test_similarity_is_that_of_the_network():
    picture, details = solved(scene("hierarchy", levels=3))
    shown = next(s for s in details.similarity if s.layer == "h1")
    r = nr.reduce(nr.tasks.hierarchy(3))
    weights = r.solve(strengths=0.02, t1=picture.t[-1], save=2).weights
    h = nr.activity(r.task, {e: w[-1] for e, w in weights.items()}, "h1")
    cosine = h @ h.T / np.outer(np.linalg.norm(h, axis=1), np.linalg.norm(h, axis=1))
    last = (np.frombuffer(shown.frames[-1].encode(), np.uint8).astype(float) - 48) / 36 - 1
    np.testing.assert_allclose(last.reshape(4, 4), cosine, atol=1 / 36)


def starts_alike(given: Scene) -> bool:
    """Whether all edges start alike, as they do in a file."""
    made = model(given)
    return set(made.start(next(iter(made.lanes))).values()) == {made.strength}


GALLERY_AS_IT_OPENS = [scene(name) for name in GALLERY]
YAML = [s for s in GALLERY_AS_IT_OPENS if GALLERY[s.entry].make is not None and starts_alike(s)]


@pytest.mark.parametrize("given", [*YAML, OWN, RESIDUAL, SADDLE], ids=lambda s: s.entry)
def test_yaml_gives_the_same_numbers_on_the_command_line(given: Scene, tmp_path: Path):
    picture, _ = solved(given)
    (tmp_path / "race.yaml").write_text(exported(given, "yaml"))
    found = reduce_file(tmp_path / "race.yaml", tmp_path)
    np.testing.assert_allclose(found.theory.t, picture.t, rtol=1e-5)
    np.testing.assert_allclose(found.theory.loss, picture.lanes[0].loss, atol=1e-5)


RANDOM = Scene(entry="pathways", values={"ahead": 2.0}, start="random", seeds=2)
OTHERS = [scene("balanced", lam=1.0), OWN, RESIDUAL, SADDLE, RANDOM]


@pytest.mark.parametrize("given", [*GALLERY_AS_IT_OPENS, *OTHERS], ids=lambda s: f"{s.entry}-{s.start}")
def test_python_code_gives_the_same_curve(given: Scene, tmp_path: Path):
    picture, _ = solved(given)
    names: dict = {}
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(io.StringIO()):
        exec(exported(given, "python"), names)
    loss = names["loss"] if "loss" in names else np.atleast_2d(names["theory_0"].loss)[0]
    np.testing.assert_allclose(loss, picture.lanes[0].loss, atol=1e-5)
    assert (tmp_path / "race.svg").stat().st_size > 1000
