"""One style for all figures: theory is a line, simulation is points or a band. And phase portraits.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart; sizes fit a paper's column.
Nothing here touches matplotlib's global state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.errors import InputError, array, choice, integer, need_extra, number, sequence, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from neuralrace.reduction import Reduction

__all__ = [
    "ABOVE",
    "BELOW",
    "BESIDE",
    "BLACK",
    "BLUE",
    "COLOURS",
    "COLUMN",
    "FORMATS",
    "FRAMES_PER_SECOND",
    "GREEN",
    "ORANGE",
    "PAGE",
    "PINK",
    "RED",
    "SKY",
    "SLIDE",
    "STYLES",
    "YELLOW",
    "figure",
    "gif",
    "key",
    "label",
    "legend_below",
    "logarithmic",
    "matrix",
    "phase_portrait",
    "points",
    "runs",
    "save",
    "save_animation",
    "shades",
    "sized",
    "style",
    "theory",
]


def __dir__() -> list[str]:
    return __all__


#: Width of a figure in inches: one column of a paper, or the whole page.
COLUMN, PAGE = 3.4, 7.0
#: Width and height of a slide in inches: 16:9.
SLIDE = (12.0, 6.75)
#: A colour of Okabe and Ito; ``COLOURS`` holds all of them in order.
BLUE, ORANGE, GREEN, PINK, SKY, RED, YELLOW, BLACK = COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000",
)  # fmt: skip
#: A legend below a panel.
BELOW: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.22)}
#: A legend to the right of a panel.
BESIDE: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
#: A legend above a panel.
ABOVE: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1)}
#: Formats in which figures are saved.
FORMATS = ("svg", "pdf", "png")
_PAPER: Any = {
    "font.size": 8, "axes.titlesize": 8, "axes.labelsize": 8, "legend.fontsize": 7, "xtick.labelsize": 7,
    "ytick.labelsize": 7, "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.7,
    "lines.linewidth": 1.3, "lines.markersize": 3, "legend.frameon": False, "legend.handlelength": 1.5,
    "axes.titlelocation": "left", "image.cmap": "viridis", "savefig.dpi": 200, "svg.hashsalt": "neuralrace",
    "figure.constrained_layout.use": True,
}  # fmt: skip
_SLIDES: Any = {
    **_PAPER, "font.size": 20, "axes.titlesize": 20, "axes.labelsize": 20, "legend.fontsize": 17,
    "xtick.labelsize": 17, "ytick.labelsize": 17, "axes.linewidth": 1.6, "lines.linewidth": 3.5,
    "lines.markersize": 8, "xtick.major.width": 1.6, "ytick.major.width": 1.6, "xtick.major.size": 7,
    "ytick.major.size": 7,
}  # fmt: skip
#: Settings of matplotlib for each style.
STYLES: dict[str, Any] = {"paper": _PAPER, "slides": _SLIDES}
#: Frames per second of animations.
FRAMES_PER_SECOND = 15
_LARGEST_START = 1e6  # of a phase portrait: powers of strengths that are much larger overflow
_ARROWS, _SEARCHES = 13, 7  # of a phase portrait: arrows along an axis, starts of the search for fixed points
_in_force: ContextVar[str] = ContextVar("style", default="paper")


@contextmanager
def style(name: str | None = None) -> Iterator[None]:
    """The common style while figures are drawn: legends, titles and texts read it when they are made.

    Parameters
    ----------
    name : {"paper", "slides"}, optional
        For a paper, or for slides: figures of 12 by 6.75 inches (16:9) with large type and thick lines. By
        default the style around this one, so that a figure of the library drawn inside
        ``with style("slides")`` is one for slides; "paper" where there is none.

    Returns
    -------
    context manager

    Examples
    --------
    >>> with style("slides"):
    ...     fig, ax = figure()
    ...     _ = ax.set_title("loss")
    >>> ax.title.get_fontsize()
    20.0
    """
    need_extra("plot", "matplotlib")
    import matplotlib

    chosen = choice("name", _in_force.get() if name is None else name, tuple(STYLES))
    token = _in_force.set(chosen)
    try:
        with matplotlib.rc_context(STYLES[chosen]):
            yield
    finally:
        _in_force.reset(token)


def sized(setting: str, times: float = 1.0) -> float:
    """A size of the style in force, such as the width of lines."""
    return times * STYLES[_in_force.get()][setting]


def _png(fig: Figure) -> bytes:
    """The figure as notebooks show it."""
    picture = BytesIO()
    fig.savefig(picture, format="png", dpi=100)
    return picture.getvalue()


def figure(
    rows: int = 1, columns: int = 1, width: float | None = None, height: float | None = None, **keywords: Any
) -> tuple[Figure, Any]:
    """A figure with its axes.

    Parameters
    ----------
    rows, columns : int
        Number of panels.
    width, height : float, optional
        In inches on paper; a slide is 12 by 6.75 inches. By default one panel is as wide as a column, several
        as a page.
    **keywords
        Those of matplotlib's `Figure.subplots`.

    Returns
    -------
    fig : matplotlib.figure.Figure
    axes : Axes, or ndarray of Axes
        One, or one for each panel.

    Examples
    --------
    >>> fig, (left, right) = figure(columns=2)
    >>> fig.get_size_inches().tolist()
    [7.0, 2.5]
    """
    width = width or (COLUMN if columns == 1 else PAGE)
    height = height or rows * min(2.5, 0.72 * width / columns)
    with style():
        from matplotlib.figure import Figure

        fig = Figure(figsize=SLIDE if _in_force.get() == "slides" else (width, height))
        setattr(fig, "_repr_png_", partial(_png, fig))  # noqa: B010  notebooks look for it
        return fig, fig.subplots(rows, columns, **keywords)


def shades(n: int) -> list[Any]:
    """Colours for n ordered items, from dark to bright."""
    need_extra("plot", "matplotlib")
    import matplotlib

    return list(matplotlib.colormaps["viridis"](np.linspace(0, 0.92, n)))


def theory(ax: Axes, x: Any, y: Any, colour: str = BLACK, label: str | None = None, **keywords: Any) -> None:
    """Draw what the theory says, as a line.

    Parameters
    ----------
    ax : Axes
    x, y : array_like, shape (points,)
    colour, label : str
    **keywords
        Those of `Axes.plot`.

    Examples
    --------
    >>> fig, ax = figure()
    >>> theory(ax, [0, 1, 2], [1.0, 0.5, 0.25], label="theory")
    """
    ax.plot(x, y, color=colour, label=label, **{"lw": sized("lines.linewidth"), "zorder": 3, **keywords})


def runs(ax: Axes, x: Any, y: Any, colour: str = BLUE, label: str | None = None, **keywords: Any) -> None:
    """Draw what networks did: the median as a pale line, in a band from the least to the greatest.

    Parameters
    ----------
    ax : Axes
    x : array_like, shape (points,)
    y : array_like, shape (runs, points)
    colour, label : str
    **keywords
        Those of `Axes.plot`, for the median.

    Examples
    --------
    >>> fig, ax = figure()
    >>> runs(ax, [0, 1], [[1.0, 0.5], [1.1, 0.4]], label="networks")
    """
    y = np.atleast_2d(np.asarray(y, float))
    ax.fill_between(x, y.min(axis=0), y.max(axis=0), color=colour, alpha=0.25, lw=0)
    line = {"lw": sized("lines.linewidth", 2), "alpha": 0.5, **keywords}
    ax.plot(x, np.median(y, axis=0), color=colour, label=label, **line)


def points(ax: Axes, x: Any, y: Any, colour: str = BLUE, label: str | None = None, **keywords: Any) -> None:
    """Draw what networks did: dots at the mean, with bars of one standard deviation over runs.

    Parameters
    ----------
    ax : Axes
    x : array_like, shape (points,)
    y : array_like, shape (points,) or (runs, points)
    colour, label : str
    **keywords
        Those of `Axes.errorbar`.

    Examples
    --------
    >>> fig, ax = figure()
    >>> points(ax, [0, 1], [[1.0, 0.5], [1.1, 0.4]], label="networks")
    """
    y = np.atleast_2d(np.asarray(y, float))
    spread = y.std(axis=0, ddof=1) if len(y) > 1 else None
    size, line = sized("lines.markersize", 7 / 6), sized("lines.linewidth", 0.7)
    drawn = {"fmt": "o", "ms": size, "lw": line, "capsize": size / 2, **keywords}
    ax.errorbar(x, y.mean(axis=0), spread, color=colour, label=label, **drawn)


def logarithmic(axis: Any, ticks: Sequence[float] | None = None) -> None:
    """Make an axis logarithmic, with plain numbers at 1, 2, 5, 10, ..., or at given places.

    Where it spans much more than two decades, numbers stand at powers of ten only.

    Parameters
    ----------
    axis : matplotlib axis
        `ax.xaxis` or `ax.yaxis`.
    ticks : sequence of float, optional
        Where numbers stand.

    Examples
    --------
    >>> fig, ax = figure()
    >>> logarithmic(ax.xaxis)
    >>> ax.get_xscale()
    'log'
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(
        FixedLocator(ticks) if ticks is not None else LogLocator(subs=(1, 2, 5), numticks=99)
    )

    def text(value: float, _: Any) -> str:
        low, high = axis.get_view_interval()
        power = f"{value:.2e}".startswith("1.00")
        return _number(value) if power or ticks is not None or high < 300 * low else ""

    axis.set_major_formatter(FuncFormatter(text))
    axis.set_minor_formatter(NullFormatter())
    if ticks is not None:
        axis.set_minor_locator(NullLocator())


def _number(value: float) -> str:
    """A number at an axis: plain from 0.001 to 99999, else as a power of ten.

    >>> _number(0.05), _number(1000.0), _number(1e5), _number(2e-4)
    ('0.05', '1000', '$10^{5}$', '$2 \\\\times 10^{-4}$')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    digits, exponent = f"{value:.2e}".split("e")
    factor, power = float(digits), f"10^{{{int(exponent)}}}"
    return f"${power}$" if factor == 1 else rf"${factor:g} \times {power}$"


def matrix(ax: Axes, values: Any, title: str = "", limit: float | None = None) -> Any:
    """Draw a matrix as an image without ticks; zero is white, and the colours are symmetric about it.

    Parameters
    ----------
    ax : Axes
    values : array_like, shape (rows, columns)
    title : str
    limit : float, optional
        Value of the strongest colour; by default the largest size of an entry.

    Returns
    -------
    matplotlib.image.AxesImage

    Examples
    --------
    >>> fig, ax = figure()
    >>> matrix(ax, [[1.0, 0.0], [0.0, -2.0]]).get_clim()
    (-2.0, 2.0)
    """
    values = np.asarray(values, float)
    limit = limit or float(np.abs(values).max()) or 1.0
    image = ax.imshow(values, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="none", aspect="auto")
    ax.set(xticks=[], yticks=[], title=title)
    ax.spines[["top", "right"]].set_visible(True)
    return image


def label(
    axes: Any,
    x: str | None = None,
    y: str | None = None,
    title: str | None = None,
    legend: str | Mapping[str, Any] | None = None,
    **properties: Any,
) -> None:
    """What stands around the data of a panel, in one call: labels, title, scales, limits and legend.

    Parameters
    ----------
    axes : Axes or array_like of Axes
        One panel, or several that get the same.
    x, y, title : str, optional
        Labels of the axes, and the title; left as they are by default.
    legend : str or mapping, optional
        Where the legend stands, such as "upper right", or keywords of `Axes.legend`; none by default. What
        has the same label stands there once.
    **properties
        Those of `Axes.set`, such as ``xscale="log"`` or ``ylim=(0, None)``.

    Examples
    --------
    >>> fig, ax = figure()
    >>> theory(ax, [1, 10], [1.0, 0.5], label="theory")
    >>> label(ax, "time (τ = 1)", "loss", legend="upper right", xscale="log")
    >>> ax.get_ylabel(), ax.get_xscale()
    ('loss', 'log')
    """
    texts = {"xlabel": x, "ylabel": y, "title": title}
    with style():
        for ax in np.ravel(axes):
            ax.set(**{name: text for name, text in texts.items() if text is not None}, **properties)
            if legend is not None:
                ax.legend(*_entries(ax), **({"loc": legend} if isinstance(legend, str) else legend))


def _entries(ax: Axes) -> tuple[list[Any], list[str]]:
    """Marks and labels of a legend; of those with the same label the first."""
    handles, labels = ax.get_legend_handles_labels()
    first = dict(zip(labels[::-1], handles[::-1], strict=True))
    return [first[text] for text in dict.fromkeys(labels)], list(dict.fromkeys(labels))


def key(ax: Axes, marks: Mapping[str, str], colour: str = BLACK) -> None:
    """Entries of the legend that tell what a kind of mark stands for, whatever its colour.

    Parameters
    ----------
    ax : Axes
    marks : dict of str to str
        By label: "theory", "runs" or "points", as the functions of these names draw; "hollow" for points
        that are not filled; or a format of `Axes.plot`, such as "--".
    colour : str

    Examples
    --------
    >>> fig, ax = figure()
    >>> key(ax, {"closed form": "theory", "networks": "points", "chance": ":"})
    >>> [text.get_text() for text in ax.legend().get_texts()]
    ['closed form', 'networks', 'chance']
    """
    size, width = sized("lines.markersize", 7 / 6), sized("lines.linewidth")
    known: dict[str, tuple[str, Any]] = {
        "theory": ("-", {"lw": width}),
        "runs": ("-", {"lw": 2 * width, "alpha": 0.5}),
        "points": ("o", {"ms": size}),
        "hollow": ("o", {"ms": size, "mfc": "white"}),
    }
    for text, mark in marks.items():
        style, keywords = known.get(mark, (mark, {"lw": 0.75 * width}))
        ax.plot([], style, color=colour, label=text, **keywords)


def legend_below(fig: Figure, ax: Axes, columns: int) -> None:
    """One legend below all panels, with the labels of one of them, each once."""
    fig.legend(*_entries(ax), loc="outside lower center", ncols=columns)


def save(fig: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as SVG, PDF and PNG.

    Parameters
    ----------
    fig : matplotlib.figure.Figure
    folder : Path
        Made if it does not exist.
    name : str
        Of the files, without suffix.

    Returns
    -------
    list of Path
        The files.
    """
    paths, layout = [], fig.get_layout_engine()
    folder.mkdir(parents=True, exist_ok=True)
    with style():
        for suffix in FORMATS:
            date: Mapping[str, Any] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(suffix, {})
            paths.append(folder / f"{name}.{suffix}")
            fig.savefig(paths[-1], metadata=dict(date))
            fig.set_layout_engine("none")  # what was laid out for the first stays
    fig.set_layout_engine(layout)
    return paths


def save_animation(
    fig: Figure, path: str | Path, frames: int, draw: Callable[[int], None], seconds: float = 4.0
) -> Path:
    """Write a figure that moves as a GIF, with Pillow, which matplotlib brings.

    Parameters
    ----------
    fig : matplotlib.figure.Figure
    path : str or Path
        Of the file, which must end in ".gif".
    frames : int
        Number of frames.
    draw : callable
        `draw(k)` changes the figure to frame k.
    seconds : float
        How long it plays; it then starts again.

    Returns
    -------
    Path
        The file.
    """
    path, frames = gif(path), integer("frames", frames)
    fps = frames / number("seconds", seconds, above=0)
    from matplotlib.animation import PillowWriter

    writer, layout = PillowWriter(fps=max(1, round(fps))), fig.get_layout_engine()
    with style(), writer.saving(fig, str(path), dpi=100):
        fig.draw_without_rendering()
        fig.set_layout_engine("none")  # what was laid out once stays
        for k in range(frames):
            draw(k)
            writer.grab_frame()
    fig.set_layout_engine(layout)
    return path


def gif(path: Any) -> Path:
    """`path`, whose name must end in ".gif"."""
    if not isinstance(path, (str, Path)) or Path(path).suffix != ".gif":
        raise InputError(f"path must be the name of a file that ends in .gif, got {short(path)}")
    return Path(path)


def phase_portrait(
    reduction: Reduction,
    modes: Sequence[Any] = (0, 1),
    starts: ArrayLike | None = None,
    animate: str | Path | None = None,
) -> Figure:
    """The reduced equations in the plane of two strengths: arrows, trajectories and fixed points.

    All other strengths are zero, and must stay zero. Arrows have the direction of the flow; the longer, the
    faster. Blue lines are solutions; filled dots are fixed points that attract what is near, hollow ones are
    saddles.

    Parameters
    ----------
    reduction : Reduction
        As of `nr.reduce`, in a shared or pathwise basis.
    modes : sequence of two
        The strengths along the axes: for each a mode, or a pair (mode, class); a mode alone is its first
        class. They are the last two axes of `sol.strengths`.
    starts : array_like, shape (n, 2), optional
        Where trajectories start; by default a few near the origin and a few beyond the fixed points.
    animate : str or Path, optional
        A GIF to write, in which the trajectories grow at the speed of the equations.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    Two pathways of three layers learn the same mode. Every way to share it is a fixed point.

    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.pathways(1, 1, [[1, 1], [1, 1]]), [[1.0]], [[1.0]], gates={"p0h1": [0.9]})
    >>> figure = phase_portrait(nr.reduce(task), modes=[(0, 0), (0, 1)])
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['solution', 'stable', 'saddle']
    """
    target = None if animate is None else gif(animate)
    plane = _Plane(reduction, modes)
    ends = plane.solved(np.array([[0.3, 0.0], [0.0, 0.3], [0.3, 0.3]]))[1][:, -1]
    reach = np.maximum(ends.max(axis=0), 0.1 * ends.max())
    if starts is None:
        angles = np.linspace(0.05, 0.95, 6) * np.pi / 2
        near = 0.1 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        begin = np.concatenate([near, [[1.2, 0.5], [0.5, 1.2], [1.2, 1.2]]]) * reach
    else:
        begin = array("starts", starts, (None, 2))
        number("the largest of starts", np.abs(begin).max(initial=0), most=_LARGEST_START)
    t, paths = plane.solved(begin)
    high = 1.05 * np.maximum(paths.max(axis=(0, 1)), reach)
    low = np.minimum(1.05 * paths.min(axis=(0, 1)), 0.0) - 0.05 * high
    plane.check_closed(low, high)
    fig, ax = figure(height=3.2)
    with style():
        _arrows(ax, plane, low, high)
        lines = [ax.plot(*path.T, color=BLUE, zorder=3)[0] for path in paths]
        dots = ax.plot(*paths[:, 0].T, "o", color=BLUE, ms=sized("lines.markersize", 0.8), zorder=4)[0]
        lines[0].set_label("solution")
        for point, stable in plane.fixed_points(low, high, [*paths[:, -1], *ends]):
            name, filling = ("stable", BLACK) if stable else ("saddle", "white")
            size = sized("lines.markersize", 2)
            ax.plot(*point, "o", color=BLACK, mfc=filling, ms=size, label=name, zorder=5)
        ax.set(xlabel=plane.labels[0], ylabel=plane.labels[1], xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        legend_below(fig, ax, 3)
        if target is not None:
            _moving(fig, target, lines, dots, t, paths)
    return fig


class _Plane:
    """Two strengths of a reduction; the others are zero."""

    def __init__(self, reduction: Any, modes: Any):
        if not hasattr(reduction, "classes") or not hasattr(reduction, "velocity"):
            raise InputError(f"reduction must be one that nr.reduce returned, got {short(reduction)}")
        if reduction.basis == "block":
            raise InputError(
                "reduction must have modes, as in the shared and the pathwise basis; it has blocks"
            )
        pairs = [m if isinstance(m, (tuple, list)) else (m, 0) for m in sequence("modes", modes, "strengths")]
        two = len(pairs) == 2 and all(len(pair) == 2 for pair in pairs)
        for mode, k in pairs if two else ():
            integer("mode in modes", mode, least=0, most=reduction.n_modes - 1)
            integer("class in modes", k, least=0, most=reduction.n_classes - 1)
        if not two or pairs[0] == pairs[1]:
            raise InputError(f"modes must be two different strengths, (mode, class) each, got {short(modes)}")
        self.reduction, self.classes = reduction, reduction.classes
        self.at = tuple(np.transpose([(k, mode) for mode, k in pairs]))  # in arrays (classes, modes)
        self.labels: list[str] = []
        for mode, k in pairs:
            named = [reduction.names[e] for e in self.classes[k] if e in reduction.names]
            symbol = named[0] if named else f"B{k + 1}"
            self.labels.append(f"strength {symbol} ({self.classes[k][0]}), mode {mode}")

    def strengths(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Strengths of all edges (..., modes) at points (..., 2)."""
        b = np.zeros((*points.shape[:-1], len(self.classes), self.reduction.n_modes))
        b[(..., *self.at)] = points
        return {e: b[..., k, :] for k, members in enumerate(self.classes) for e in members}

    def rates(self, point: np.ndarray) -> np.ndarray:
        """The right-hand sides of all equations at a point, (classes, modes)."""
        v = self.reduction.velocity(self.strengths(point))
        return np.stack([v[members[0]] for members in self.classes])

    def velocity(self, point: np.ndarray) -> np.ndarray:
        """Those of the two strengths."""
        return self.rates(point)[self.at]

    def solved(self, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Times, and solutions (n, times, 2) from starts (n, 2)."""
        sol = self.reduction.solve(self.strengths(starts), t1=1000 * self.reduction.fastest_time)
        each = [sol.source.b[self.classes[k][0]][..., mode] for k, mode in zip(*self.at, strict=True)]
        return sol.t, np.stack(each, axis=-1)

    def check_closed(self, low: np.ndarray, high: np.ndarray) -> None:
        """Refuse a plane that the flow leaves."""
        for share in ([0.3, 0.5], [0.8, 0.2], [0.4, 0.9]):
            others = self.rates(low + share * (high - low))
            most = np.abs(others).max()
            others[self.at] = 0.0
            if np.abs(others).max() > 1e-9 * most:
                raise InputError(
                    f"modes must be two strengths that the others do not follow; in the plane of "
                    f"{self.labels[0]} and {self.labels[1]} other strengths leave zero"
                )

    def fixed_points(
        self, low: np.ndarray, high: np.ndarray, ends: Sequence[np.ndarray]
    ) -> list[tuple[np.ndarray, bool]]:
        """Fixed points in the window, and whether each attracts what is near; `ends` are close to some."""
        from scipy.optimize import root

        size = high - low
        grid = np.stack(np.meshgrid(*np.linspace(low, high, _SEARCHES).T), axis=-1).reshape(-1, 2)
        scale = max(np.abs(self.velocity(point)).max() for point in grid)
        found = [root(self.velocity, start, tol=1e-11, options={"maxfev": 60}).x for start in (*grid, *ends)]
        near: list[np.ndarray] = []
        for end in sorted((*found, *ends), key=lambda point: np.abs(self.velocity(point)).max()):
            inside = ((low - 1e-6 * size <= end) & (end <= high)).all()
            new = all((np.abs(end - other) > 0.02 * size).any() for other in near)
            if inside and new and np.abs(self.velocity(end)).max() < 1e-8 * scale:
                near.append(end)
        return sorted(((point, self._attracts(point, 0.01 * size)) for point in near), key=lambda p: not p[1])

    def _attracts(self, point: np.ndarray, radii: np.ndarray) -> bool:
        """Whether what the flow descends is nowhere lower on a small ellipse around a fixed point."""
        angles = np.linspace(0, 2 * np.pi, 48, endpoint=False)
        around = np.stack([np.cos(angles), np.sin(angles)], axis=1) * radii
        rise = np.array([self._descended(point + step) for step in around]) - self._descended(point)
        return bool(rise.min() >= -1e-7 * np.abs(rise).max())

    def _descended(self, point: np.ndarray) -> float:
        """The loss, and weight decay."""
        b, rates = self.strengths(point), self.reduction.rates
        return self.reduction.loss(b) + sum(rates.of(e)[1] * float(v @ v) for e, v in b.items()) / 2


def _arrows(ax: Axes, plane: _Plane, low: np.ndarray, high: np.ndarray) -> None:
    """Arrows on a grid, in units of the panel; short ones where the flow is slow."""
    grid = np.stack(np.meshgrid(*np.linspace(low, high, _ARROWS).T), axis=-1).reshape(-1, 2)
    v = np.array([plane.velocity(point) for point in grid]) / (high - low)
    speed = np.linalg.norm(v, axis=1, keepdims=True)
    v = v / np.maximum(speed, 1e-300) * (speed / speed.max()) ** 0.25
    ax.quiver(*grid.T, *v.T, color="0.68", pivot="mid", scale=1.2 * _ARROWS, width=0.005, zorder=1)


def _moving(fig: Figure, path: Path, lines: Any, dots: Any, t: np.ndarray, paths: np.ndarray) -> None:
    """Write solutions that grow as a GIF, until nothing moves any more."""
    last = np.abs(np.diff(paths, axis=1)).max(axis=(0, 2)) > 1e-3 * np.ptp(paths)
    times = np.linspace(0, t[np.flatnonzero(last)[-1] + 1], 4 * FRAMES_PER_SECOND)

    def draw(k: int) -> None:
        upto = t <= times[k]
        for line, own in zip(lines, paths, strict=True):
            line.set_data(*own[upto].T)
        dots.set_data(*paths[:, upto][:, -1].T)

    save_animation(fig, path, len(times), draw)
    for line, own in zip(lines, paths, strict=True):
        line.set_data(*own.T)
    dots.set_data(*paths[:, 0].T)
