"""Figures of graphs, races, trajectories, phase portraits and representations show the right numbers."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from PIL import Image

import neuralrace as nr
from neuralrace.drawing import layout
from neuralrace.errors import InputError
from tests.pictures import texts_that_overlap

TASK = nr.tasks.hierarchy(3)
LOSING = [("x", "all"), ("all", "y"), ("x", "some"), ("some", "y")]


@pytest.fixture(scope="module")
def networks():
    return nr.flow(TASK, nr.init.gaussian(TASK.graph, 0.01, seed=range(5)), t1=40.0)


@pytest.fixture(scope="module")
def theory():
    r = nr.reduce(TASK)
    return r.solve(r.strength(0.01), t1=40.0)


# -- graphs ------------------------------------------------------------------------------------


def drawn_boxes(fig):
    from matplotlib.patches import FancyBboxPatch

    return {p.get_gid(): p for p in fig.axes[0].patches if isinstance(p, FancyBboxPatch)}


@pytest.mark.parametrize("style", ["paper", "slides"])
@pytest.mark.parametrize(
    "graph",
    [
        nr.Graph.pathways(2, 1, [[8], [8, 8]]),
        nr.Graph({"a long name": 3, "h": nr.Node(8, activation="leaky_relu", bias=True), "y": 2},
                 [("a long name", "h"), ("h", "y"), ("a long name", "y")]),
        nr.Graph.routing(7, 4),
    ],
)  # fmt: skip
def test_names_of_a_graph_stand_in_their_boxes_and_the_boxes_where_the_notebook_has_them(graph, style):
    with nr.plot.style(style):
        fig = graph.plot()
    assert texts_that_overlap(fig) == []
    boxes, at = drawn_boxes(fig), layout(graph)
    assert set(boxes) == set(graph.nodes)
    texts = [t for t in fig.axes[0].texts if t.get_text()]
    for name, patch in boxes.items():
        assert (patch.get_x(), patch.get_y()) == (at.boxes[name].x, at.boxes[name].y)
        frame = patch.get_window_extent()
        inside = [t.get_text() for t in texts if frame.fully_containsx(t.get_window_extent().x0)
                  and frame.fully_containsx(t.get_window_extent().x1)
                  and frame.contains(*t.get_window_extent().get_points().mean(axis=0))]  # fmt: skip
        assert inside[0] == name
        assert inside[1].startswith(str(graph.nodes[name]))


def test_edges_of_a_graph_are_dotted_where_they_are_fixed():
    edges = {
        "W": ("x", "h"),
        "skip": nr.Edge("x", "h", fixed=np.eye(2)),
        "V": nr.Edge("h", "y", diagonal=True),
    }
    fig = nr.Graph({"x": 2, "h": 2, "y": 2}, edges).plot()
    drawn = {p.get_gid(): p.get_linestyle() for p in fig.axes[0].patches}
    assert (drawn["W"], drawn["skip"], drawn["V"]) == ("solid", "dotted", "dashed") or (
        drawn["W"], drawn["skip"], drawn["V"]
    ) == ("-", ":", "--")  # fmt: skip


def test_gates_are_squares_in_the_order_of_contexts():
    graph = nr.Graph.pathways(2, 1, [[8], [8]])
    fig = graph.plot(gates={"p0h1": [1, 1, 0, 0.5], "p1h1": [0, 0, 1, 1]})
    first, second = fig.axes[0].collections
    assert [to_hex(c) for c in first.get_facecolors()[:2]] == ["#d55e00", "#ffffff"]  # open, then closed
    assert [to_hex(c) for c in second.get_facecolors()] == ["#ffffff", "#d55e00", "#d55e00"]
    assert len(first.get_offsets()) == 3
    with pytest.raises(InputError, match=r"gates must be a dict"):
        graph.plot(gates=[1, 0])
    with pytest.raises(InputError, match=r"gates names 'h', which is no node"):
        graph.plot(gates={"h": [1, 0]})
    with pytest.raises(InputError, match=r"equally many samples"):
        graph.plot(gates={"p0h1": [1, 0], "p1h1": [1]})
    with pytest.raises(InputError, match=r"at most 12 contexts"):
        graph.plot(gates={"p0h1": range(13)})


# -- races and trajectories --------------------------------------------------------------------


def test_a_race_shows_the_losses_of_its_trajectories_and_the_arrivals():
    closed = nr.tasks.xor(graph=nr.Graph.chain([2, 4, 1]))  # no linear network gets there
    tasks = {g: nr.tasks.separability(1.0, g) for g in ("xor", "linear")}
    race = nr.race({**tasks, "ungated": closed}, level=0.05)
    ax = race.plot().axes[0]
    lines = {line.get_label().split(":")[0]: line for line in ax.lines if ":" in line.get_label()}
    for name in tasks:
        assert (lines[name].get_ydata() == race.trajectories[name].loss).all()
    assert [line.get_label() for line in ax.lines if "never" in line.get_label()] == ["ungated: never"]
    arrivals = {line.get_marker(): line.get_xydata()[0] for line in ax.lines if len(line.get_xdata()) == 1}
    assert arrivals["*"] == pytest.approx([race.times["linear"], 0.05])
    assert arrivals["o"] == pytest.approx([race.times["xor"], 0.05])
    assert texts_that_overlap(race.plot()) == []


def test_theory_over_networks_is_a_line_over_a_band_from_least_to_most(theory, networks):
    fig = theory.plot(over=networks)
    ax = fig.axes[0]
    median, line = (line for line in ax.lines if len(line.get_xdata()))
    assert (median.get_ydata() == np.median(networks.loss, axis=0)).all()
    assert (line.get_ydata() == theory.loss).all()
    assert line.get_linewidth() < median.get_linewidth()
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() == networks.loss.min()
    assert band.max() == networks.loss.max()
    assert [t.get_text() for t in fig.legends[0].get_texts()] == ["5 networks: median and range", "theory"]
    assert texts_that_overlap(fig) == []
    other = networks.plot(over=networks[0])
    assert [t.get_text() for t in other.legends[0].get_texts()] == ["network", "5 networks: median and range"]
    lines = [line.get_ydata() for line in other.axes[0].lines if len(line.get_xdata())]
    assert (lines[2] == networks.loss.min(axis=0)).all()


def test_what_cannot_be_drawn_over_a_trajectory_is_refused(theory, networks):
    with pytest.raises(InputError, match=r"over must be a Trajectory, got \[1\]"):
        theory.plot(over=[1])
    with pytest.raises(InputError, match=r"over must have its loss on the same scale, got 4 and 1"):
        theory.plot(over=networks.rescaled(4))


def test_the_matrices_that_move_most_are_drawn_or_those_asked_for():
    rows = [e for k in range(10) for e in (("x", f"h{k}"), (f"h{k}", "y"))]
    graph = nr.Graph({"x": 2, **{f"h{k}": 3 for k in range(10)}, "y": 2}, [*rows, ("x", "y")])
    task = nr.tasks.linear(np.diag([2.0, 1.0]), graph=graph)
    start = nr.init.gaussian(graph, 0.1)
    start |= {e: 0 * start[e] for e in ("x->h0", "h0->y")} | {"h9->y": 5 * start["h9->y"]}
    run = nr.flow(task, start, t1=20.0, save=20)
    moves = {e: np.ptp(run.singular_values(e), axis=0).max() for e in graph.edges}
    fig = run.plot()
    titles = [ax.get_title("left") for ax in fig.axes[1:]]
    assert titles == [e for e in graph.edges if moves[e] >= sorted(moves.values())[-8]]
    assert "x->y" in titles
    assert "x->h0" in fig.get_suptitle()
    fig = run.plot(edges=["x->y", "h3->y"])
    assert [ax.get_title("left") for ax in fig.axes if ax.get_visible()] == ["", "x->y", "h3->y"]
    assert not fig.get_suptitle()
    with pytest.raises(InputError, match=r"edges names .y->x., which is no saved weight matrix; there are"):
        run.plot(edges=["y->x"])
    with pytest.raises(InputError, match=r"edges must be a list of names, got 'x->y'"):
        run.animate("race.gif", edges="x->y")


def test_a_film_of_a_trajectory_grows_until_the_figure_is_whole(theory, tmp_path):
    path = theory.animate(tmp_path / "race.gif", seconds=0.4)
    with Image.open(path) as film:
        assert film.n_frames == 6

        def ink(k):
            film.seek(k)
            return (np.asarray(film.convert("L")) < 200).sum()

        counts = [ink(k) for k in range(film.n_frames)]
    assert counts[0] < counts[2] < counts[5]
    for name, words in (("race.mp4", "ends in .gif"), (3, "ends in .gif")):
        with pytest.raises(InputError, match=words):
            theory.animate(name)
    with pytest.raises(InputError, match=r"seconds must be greater than 0, got 0"):
        theory.animate(tmp_path / "race.gif", seconds=0)


# -- phase portraits ---------------------------------------------------------------------------


def fixed_points(fig):
    found = {"stable": [], "saddle": []}
    for line in fig.axes[0].lines:
        if line.get_label() in found:
            found[line.get_label()].append(line.get_xydata()[0])
    return {name: np.array(sorted(np.round(p, 9).tolist() for p in points)) for name, points in found.items()}


def test_a_phase_portrait_of_two_modes_has_the_known_fixed_points_and_arrows():
    r = nr.reduce(TASK)
    fig = nr.plot.phase_portrait(r, modes=(0, 2))
    s, d = r.statistics()["S"][[0, 2]], r.statistics()["D"][[0, 2]]
    full = np.sqrt(s / d)
    points = fixed_points(fig)
    assert points["stable"] == pytest.approx(full[None], abs=1e-6)
    assert points["saddle"] == pytest.approx(np.array([[0, 0], [0, full[1]], [full[0], 0]]), abs=1e-6)
    arrows = fig.axes[0].collections[0]
    places = arrows.get_offsets()
    flow = places * (s - d * places**2) / np.ptp([fig.axes[0].get_xlim(), fig.axes[0].get_ylim()], axis=1)
    drawn = np.stack([arrows.U, arrows.V], axis=1)
    along = (flow * drawn).sum(axis=1)
    assert along == pytest.approx(np.linalg.norm(flow, axis=1) * np.linalg.norm(drawn, axis=1), abs=1e-9)
    for line in fig.axes[0].lines[:9]:  # every solution ends at the stable point
        assert line.get_xydata()[-1] == pytest.approx(full, abs=1e-3)
    assert texts_that_overlap(fig) == []


def test_fixed_points_at_which_the_flow_is_slower_than_linear_are_found():
    x, y = [[1, 1], [1, -1], [1, 1], [1, -1]], [[1, 1], [1, -1], [1, 0], [1, 0]]
    graph = nr.Graph({"x": 2, "all": 5, "some": 5, "y": 2}, LOSING)
    r = nr.reduce(nr.Task(graph, x, y, gates={"some": [1, 1, 0, 0]}))
    points = fixed_points(nr.plot.phase_portrait(r, modes=[(1, 0), (1, 1)]))
    assert points["stable"] == pytest.approx(np.array([[0.0, 1.0]]), abs=1e-6)
    assert points["saddle"] == pytest.approx(np.array([[0.0, 0.0], [np.sqrt(0.5), 0.0]]), abs=1e-6)


@pytest.mark.parametrize("layers", [(2, 2), (3, 3), (2, 4), (5, 3)])
def test_a_line_of_fixed_points_is_stable_and_starts_may_be_given(layers):
    graph = nr.Graph.pathways(1, 1, [[1] * (depth - 1) for depth in layers])
    r = nr.reduce(nr.Task(graph, [[1.0]], [[1.0]], gates={"p0h1": [0.9]}))
    fig = nr.plot.phase_portrait(r, modes=[(0, 0), (0, 1)], starts=[[0.2, 0.1], [-0.2, 0.1]])
    points = fixed_points(fig)
    assert len(points["stable"]) > 5
    first, second = points["stable"].T
    assert 0.9 * first ** layers[0] + second ** layers[1] == pytest.approx(1.0, abs=1e-6)
    assert np.abs(points["saddle"]) == pytest.approx(np.zeros((1, 2)), abs=0.02)  # flat where layers are many
    starts = [line.get_xydata()[0].tolist() for line in fig.axes[0].lines[:2]]
    assert starts == [[0.2, 0.1], [-0.2, 0.1]]


def test_a_saddle_that_is_left_more_slowly_than_exponentially_is_a_saddle():
    """Where ``all`` has learned its part, a pathway of three layers grows from zero as its square."""
    x, y = [[1, 1], [1, -1], [1, 1], [1, -1]], [[1, 1], [1, -1], [1, 0], [1, 0]]
    edges = [("x", "all"), ("all", "y"), ("x", "some"), ("some", "more"), ("more", "y")]
    graph = nr.Graph({"x": 2, "all": 5, "some": 5, "more": 5, "y": 2}, edges)
    r = nr.reduce(nr.Task(graph, x, y, gates={"some": [1, 1, 0, 0]}))
    points = fixed_points(nr.plot.phase_portrait(r, modes=[(1, 0), (1, 1)]))
    assert [np.sqrt(0.5), 0.0] == pytest.approx(points["saddle"][-1], abs=1e-6)
    assert points["stable"] == pytest.approx(np.array([[0.0, 1.0]]), abs=1e-6)


def test_a_phase_portrait_can_move(tmp_path):
    fig = nr.plot.phase_portrait(nr.reduce(TASK), animate=tmp_path / "portrait.gif")
    with Image.open(tmp_path / "portrait.gif") as film:
        assert film.n_frames > 10
    assert len(fig.axes[0].lines[0].get_xdata()) > 50  # the figure itself is whole again


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"modes": (0, 4)}, "mode in modes must be at most 3, got 4"),
        ({"modes": (0, (0, 1))}, "class in modes must be at most 0, got 1"),
        ({"modes": (0, 0)}, "modes must be two different strengths"),
        ({"modes": 3}, "modes must be a list of strengths, got 3"),
        ({"starts": [1.0]}, r"starts must have shape \(any, 2\), got \(1,\)"),
        ({"animate": "film.mov"}, r"path must be the name of a file that ends in \.gif"),
    ],
)
def test_a_phase_portrait_says_what_is_wrong(keywords, words):
    with pytest.raises(InputError, match=words):
        nr.plot.phase_portrait(nr.reduce(TASK), **keywords)


def test_a_phase_portrait_refuses_blocks_and_planes_that_the_flow_leaves():
    with pytest.raises(InputError, match=r"reduction must be one that nr\.reduce returned"):
        nr.plot.phase_portrait(TASK)
    with pytest.raises(InputError, match="it has blocks"):
        nr.plot.phase_portrait(nr.reduce(TASK, "block"))
    graph = nr.Graph({"x": 4, "h": 5, "y": 7}, [("x", "h"), ("h", "y"), ("x", "y")])
    skip = nr.reduce(nr.tasks.hierarchy(3, graph=graph))
    with pytest.raises(InputError, match="other strengths leave zero"):
        nr.plot.phase_portrait(skip, modes=(0, 1))


# -- representations ---------------------------------------------------------------------------


def test_representations_are_inner_products_of_the_activity_and_paths_that_end_apart(networks):
    pytest.importorskip("sklearn")
    run = networks[0]
    names = ["canary", "salmon", "rose", "oak"]
    fig = nr.measure.plot_representations(run, "h1", times=3, labels=names)
    *matrices, paths, _ = fig.axes
    titles = [ax.get_title("left") for ax in matrices]
    assert (titles[0], titles[-1]) == ("t = 0", "t = 40")
    for ax, k in ((matrices[0], 0), (matrices[-1], -1)):
        h = nr.activity(TASK, run.at(k), "h1")
        assert np.asarray(ax.images[0].get_array()) == pytest.approx(h @ h.T)
        assert ax.images[0].get_clim() == matrices[-1].images[0].get_clim()
    h = nr.activity(TASK, run.at(-1), "h1")
    ends = np.array([line.get_xydata()[0] for line in paths.lines if len(line.get_xdata()) == 1])
    near = np.linalg.norm(ends[:, None] - ends, axis=-1)
    true = np.sqrt(nr.measure.squared_distances(h))
    assert near[0, 1] < near[0, 2]
    assert np.corrcoef(near.ravel(), true.ravel())[0, 1] > 0.9
    assert [t.get_text() for t in paths.texts] == names
    assert texts_that_overlap(fig) == []


def test_representations_that_cannot_be_drawn_are_refused(theory, networks):
    draw = nr.measure.plot_representations
    for call, words in (
        (lambda: draw(networks, "h1"), "trajectory must be a single run"),
        (lambda: draw(theory, "h9"), "node names 'h9', which is no node"),
        (lambda: draw(theory, "h1", times=1), "times must be at least 2, got 1"),
        (lambda: draw(theory, "h1", labels=["a"]), "labels must name 4 samples, got 1"),
        (lambda: draw(theory, "x"), "node must be a layer whose representations change"),
    ):
        with pytest.raises(InputError, match=words):
            call()


# -- slides ------------------------------------------------------------------------------------


def test_pictures_on_slides_are_16_to_9_and_their_texts_do_not_overlap(theory, networks):
    pytest.importorskip("sklearn")
    with nr.plot.style("slides"):
        figures = [
            TASK.graph.plot(),
            nr.race({g: nr.tasks.separability(1.0, g) for g in ("xor", "linear")}).plot(),
            theory.plot(over=networks),
            nr.plot.phase_portrait(nr.reduce(TASK)),
            nr.measure.plot_representations(theory, "h1"),
        ]
    for fig in figures:
        assert fig.get_size_inches() == pytest.approx([12.0, 6.75])
        assert texts_that_overlap(fig) == []
