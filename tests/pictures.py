"""What tests ask of figures."""

from itertools import combinations


def texts_that_overlap(fig):
    """Pairs of texts of a figure that are drawn over each other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    renderer = FigureCanvasAgg(fig).get_renderer()
    fig.draw(renderer)
    of_ticks, shown = set(), set()
    for axis in (axis for ax in fig.axes for axis in (ax.xaxis, ax.yaxis)):
        of_ticks |= set(axis.findobj(Text)) - {axis.label}
        low, high = sorted(axis.get_view_interval())
        places = axis.get_majorticklocs() if axis.axes.axison and axis.axes.get_visible() else []
        ticks = zip(places, axis.majorTicks, strict=False)  # ticks of earlier scales may remain
        shown |= {tick.label1 for place, tick in ticks if low <= place <= high}
    texts = [t for t in fig.findobj(Text) if t.get_visible() and t.get_text().strip()]
    boxes = [
        (t.get_text(), t.get_window_extent(renderer).shrunk(0.9, 0.9))
        for t in texts
        if t in shown or t not in of_ticks
    ]
    return [(a, b) for (a, one), (b, two) in combinations(boxes, 2) if one.overlaps(two)]
