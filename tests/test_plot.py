import matplotlib
import pytest
from matplotlib.layout_engine import ConstrainedLayoutEngine

from neuralrace import errors, plot


def test_style_leaves_global_settings_alone():
    before = dict(matplotlib.rcParams)
    with plot.style():
        _, ax = plot.figure()
        plot.theory(ax, [0, 1], [0, 1], label="line")
        assert not ax.legend().get_frame_on()
    assert dict(matplotlib.rcParams) == before


def test_slides_have_larger_type_and_thicker_lines_than_a_paper_in_every_figure_of_the_library():
    def drawn():
        with plot.style():  # as the library draws: the style around it stays in force
            fig, ax = plot.figure(columns=1, width=plot.PAGE, height=2.0)
            plot.theory(ax, [0, 1], [0, 1])
            plot.runs(ax, [0, 1], [[0, 1], [1, 1]])
            ax.set_title("loss")
        lines = [line.get_linewidth() for line in ax.lines]
        return fig.get_size_inches().tolist(), ax.title.get_fontsize(), lines

    with plot.style("slides"):
        size, type_size, lines = drawn()
    assert size == pytest.approx([12.0, 6.75])  # 16:9, whatever the size on paper
    assert (type_size, lines) == (20.0, [3.5, 7.0])
    assert drawn() == ([7.0, 2.0], 8.0, [1.3, 2.6])
    with pytest.raises(errors.InputError, match="name must be"), plot.style("poster"):
        pass


def test_a_figure_shows_itself_in_a_notebook():
    fig, _ = plot.figure()
    assert fig._repr_png_().startswith(b"\x89PNG")


def test_logarithmic_axes_have_plain_numbers():
    """No "1e+03"; powers of ten alone where 1, 2, 5 would stand too close."""
    fig, (left, right) = plot.figure(1, 2)
    left.plot([20, 2000], [1, 2])
    right.plot([1e-2, 1e5], [1, 2])
    for ax in (left, right):
        plot.logarithmic(ax.xaxis)
    fig.draw_without_rendering()
    texts = [{t.get_text() for t in ax.get_xticklabels()} for ax in (left, right)]
    assert {"20", "500", "1000"} <= texts[0]
    assert {"1000", "$10^{5}$"} <= texts[1]
    assert "5" not in texts[1]


def test_saved_figures_are_those_of_matplotlib(tmp_path):

    def made():
        fig, axes = plot.figure(1, 2)
        image = plot.matrix(axes[0], [[1.0, -2.0]], "matrix")
        fig.colorbar(image, ax=axes[0], label="value")
        axes[1].plot([1, 2], label="line")
        plot.legend_below(fig, axes[1], 1)
        return fig

    fig, other = made(), made()
    paths = plot.save(fig, tmp_path, "ours")
    assert [p.name for p in paths] == ["ours.svg", "ours.pdf", "ours.png"]
    assert all(p.stat().st_size > 1000 for p in paths)
    with plot.style():
        other.savefig(tmp_path / "theirs.svg", metadata={"Date": None})
    assert paths[0].read_bytes() == (tmp_path / "theirs.svg").read_bytes()
    assert isinstance(fig.get_layout_engine(), ConstrainedLayoutEngine)


def test_label_sets_all_around_the_panels_and_shows_each_label_once():
    _, axes = plot.figure(1, 2)
    axes[0].plot([1, 2], [[1, 2], [3, 4]], label="networks")
    plot.key(axes[0], {"closed form": "theory", "networks": "points", "chance": ":"})
    plot.label(axes, "time", "loss", legend={"loc": "upper left", "title": "kind"}, xscale="log")
    plot.label(axes[1], title="right")
    assert [(ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale()) for ax in axes] == [
        ("time", "loss", "log")
    ] * 2
    assert [ax.get_title("left") for ax in axes] == ["", "right"]
    assert [text.get_text() for text in axes[0].get_legend().get_texts()] == [
        "networks",
        "closed form",
        "chance",
    ]
    assert [line.get_marker() for line in axes[0].lines[2:]] == ["None", "o", "None"]
    assert [line.get_linestyle() for line in axes[0].lines[2:]] == ["-", "None", ":"]


def test_legend_below_shows_each_label_once():
    fig, ax = plot.figure()
    ax.plot([1, 2], [[1, 2], [3, 4]], label="networks")
    plot.legend_below(fig, ax, 2)
    assert [text.get_text() for text in fig.legends[0].get_texts()] == ["networks"]
