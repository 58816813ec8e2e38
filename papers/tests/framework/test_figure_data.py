"""Numbers read back from figures."""

import numpy as np
import pandas as pd
import pytest

from neuralrace import plot
from neuralrace_papers import figure_data
from neuralrace_papers.framework.figure_data import figure_data as data
from neuralrace_papers.framework.figure_data import write_figure_data

X = np.array([1.0, 2.0, 4.0])


def rows(found, mark):
    return found[found["mark"] == mark].reset_index(drop=True)


def test_lines_and_points_with_titles_and_labels():
    fig, (a, b) = plot.figure(1, 2)
    a.plot(X, X**2, label="square")
    a.set(xlabel="time", ylabel="loss", title="left")
    b.plot(X, -X, "o", label="minus")
    b.scatter(X, 2 * X, label="twice")
    found = data(fig)
    assert found["panel"].tolist() == [1] * 3 + [2] * 6
    assert found["series"].tolist() == ["square"] * 3 + ["minus"] * 3 + ["twice"] * 3
    assert found["mark"].tolist() == ["line"] * 3 + ["points"] * 6
    assert found["x"].tolist() == [*X] * 3
    assert found["y"].tolist() == [*X**2, *-X, *2 * X]
    left = found[found["panel"] == 1]
    assert (left["title"].unique(), left["x_label"].unique(), left["y_label"].unique()) == (
        ["left"], ["time"], ["loss"],
    )  # fmt: skip


def test_bands_of_runs_have_the_series_of_their_median():
    fig, ax = plot.figure()
    y = np.array([X, X + 1, X + 4])
    plot.runs(ax, X, y, plot.RED, "networks")
    plot.theory(ax, X, X, plot.BLUE, "theory")
    found = data(fig)
    band = rows(found, "band")
    assert band["x"].tolist() == X.tolist()
    assert band["low"].tolist() == X.tolist()
    assert band["high"].tolist() == (X + 4).tolist()
    assert set(band["series"]) == {"networks"}
    lines = rows(found, "line")
    assert lines["y"].tolist() == [*(X + 1), *X]
    assert lines["series"].tolist() == ["networks"] * 3 + ["theory"] * 3


def test_error_bars():
    fig, ax = plot.figure()
    y = np.array([X, X + 2])
    plot.points(ax, X, y, plot.RED, "networks")
    plot.points(ax, X, X, plot.BLUE, "one")
    found = data(fig)
    assert set(found["mark"]) == {"error bars"}
    first, second = (found[found["series"] == s] for s in ("networks", "one"))
    assert first["y"].tolist() == (X + 1).tolist()
    assert np.allclose(first["high"] - first["low"], 2 * np.sqrt(2))
    assert second["low"].isna().all()


def test_images_pixel_by_pixel():
    fig, ax = plot.figure()
    image = plot.matrix(ax, [[1, 2, 3], [4, 5, 6]], "m")
    fig.colorbar(image, ax=ax, label="weight")
    found = data(fig)
    assert set(found["panel"]) == {1}
    assert found.set_index(["y", "x"])["value"].to_dict() == {
        (0, 0): 1, (0, 1): 2, (0, 2): 3, (1, 0): 4, (1, 1): 5, (1, 2): 6,
    }  # fmt: skip
    assert set(found["value_label"]) == {"weight"}
    fig, ax = plot.figure()
    ax.imshow([[1, 2], [3, 4]], origin="lower", extent=(-1, 1, 10, 14))
    found = data(fig).set_index(["x", "y"])["value"].to_dict()
    assert found == {(-0.5, 11): 1, (0.5, 11): 2, (-0.5, 13): 3, (0.5, 13): 4}


@pytest.mark.parametrize("horizontal", [False, True])
def test_bars(horizontal):
    fig, ax = plot.figure()
    draw = ax.barh if horizontal else ax.bar
    draw([0, 1, 2], [5.0, 6.0, 7.0], label="counts")
    found = data(fig)
    place, length = ("y", "x") if horizontal else ("x", "y")
    assert found[place].tolist() == [0, 1, 2]
    assert found[length].tolist() == [5, 6, 7]
    assert set(found["series"]) == {"counts"}


def test_lines_across_the_axes_are_told_by_where_they_lie():
    fig, ax = plot.figure()
    ax.plot(X, X)
    ax.axhline(0.5, label="level")
    ax.axvline(3.0)
    found = data(fig)
    assert rows(found, "horizontal line")["y"].tolist() == [0.5]
    assert rows(found, "horizontal line")["x"].isna().all()
    assert rows(found, "vertical line")["x"].tolist() == [3.0]
    assert rows(found, "vertical line")["y"].isna().all()


def test_contours_arrows_and_stacks():
    fig, (a, b, c) = plot.figure(1, 3)
    side = np.linspace(-1, 1, 21)
    a.contour(side, side, side[None] + 0 * side[:, None], [0.0, 0.5])
    a.contourf(side, side, side[None] + 0 * side[:, None])
    b.quiver([0.0, 1.0], [2.0, 3.0], [1.0, 0.0], [0.0, -1.0])
    c.stackplot(X, [X, 2 * X], labels=["low", "high"], colors=[plot.RED, plot.BLUE])
    found = data(fig)
    contour = rows(found, "contour")
    assert np.allclose(contour["x"], contour["value"])
    assert set(contour["value"]) == {0.0, 0.5}
    arrows = rows(found, "arrows")
    assert arrows[["x", "y", "dx", "dy"]].to_numpy().tolist() == [[0, 2, 1, 0], [1, 3, 0, -1]]
    stack = rows(found, "band")
    assert stack["series"].tolist() == ["low"] * 3 + ["high"] * 3
    assert (stack["high"] - stack["low"]).tolist() == [*X, *2 * X]


def test_lines_in_space():
    fig, ax = plot.figure(subplot_kw={"projection": "3d"})
    ax.plot(X, -X, X**2, label="path")
    ax.set(zlabel="third")
    found = data(fig)
    assert found[["x", "y", "z"]].to_numpy().tolist() == np.stack([X, -X, X**2], axis=1).tolist()
    assert set(found["z_label"]) == {"third"}


def test_series_without_a_label_are_named_by_their_colour():
    fig, (a, b) = plot.figure(1, 2)
    a.plot(X, X, color=plot.RED, label="networks")
    a.plot(X, X, color=plot.BLUE)
    b.plot(X, 2 * X, color=plot.RED)
    b.plot(X, 3 * X, color=plot.RED)
    found = data(fig)
    assert found.groupby(["panel", "item"])["series"].first().tolist() == [
        "networks",
        "",
        "networks",
        "networks",
    ]


def test_an_empty_figure():
    fig, ax = plot.figure()
    ax.plot([], [], label="legend only")
    assert data(fig).empty
    assert data(fig).columns[:2].tolist() == ["panel", "title"]


def test_large_tables_are_compressed(tmp_path, monkeypatch):
    fig, ax = plot.figure()
    ax.plot(X, X, label="a, b")
    small = write_figure_data(fig, tmp_path, "one")
    assert small.name == "one.csv"
    monkeypatch.setattr(figure_data, "LARGE", 2)
    large = write_figure_data(fig, tmp_path, "one")
    assert [p.name for p in tmp_path.iterdir()] == ["one.csv.gz"]
    before = large.read_bytes()
    assert write_figure_data(fig, tmp_path, "one").read_bytes() == before
    assert pd.read_csv(large)["series"].tolist() == ["a, b"] * 3


def test_error_bars_that_are_not_numbers():
    fig, ax = plot.figure()
    plot.points(ax, X, np.stack([X, np.where(X[0] < X, X + 2, np.nan)]), label="networks")
    found = data(fig)
    assert np.isnan(found["low"].iloc[0])
    assert np.allclose(found["high"].iloc[1:] - found["low"].iloc[1:], 2 * np.sqrt(2))
