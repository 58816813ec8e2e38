"""How a race looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neuralrace import plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from neuralrace.relu.gatings import Race

_COLOURS = (plot.BLUE, plot.RED, plot.GREEN, plot.PINK, plot.SKY, plot.ORANGE, plot.BLACK)
_DASHES = ("-", "--", "-.", ":")


def race_figure(race: Race) -> Figure:
    """The loss of every candidate until a little after the last arrival, with arrival times at the level."""
    fig, ax = plot.figure(width=5.0, height=2.8)
    arrived = [t for t in race.times.values() if np.isfinite(t)]
    end = 1.25 * max(arrived) if arrived and max(arrived) > 0 else race.t1
    with plot.style():
        ax.axhline(race.level, color="0.5", ls="--", lw=plot.sized("lines.linewidth", 0.7), zorder=1)
        for place, (name, t) in enumerate(race.times.items()):
            colour = _COLOURS[place % len(_COLOURS)]
            look = {"ls": _DASHES[place // len(_COLOURS) % len(_DASHES)]}
            when = f"{t:.3g}" if np.isfinite(t) else "never" if np.isinf(t) else f"not by {race.t1:.3g}"
            label = f"{name}: {when}{', first' if name in race.first else ''}"
            run = race.trajectories.get(name)
            if run is None:
                ax.plot([], color=colour, label=label, **look)
                continue
            plot.theory(ax, run.t, np.ravel(run.loss), colour, label, **look)
            if np.isfinite(t):
                mark = "*" if name in race.first else "o"
                size = plot.sized("lines.markersize", 3.5 if mark == "*" else 1.8)
                ax.plot([t], [race.level], mark, color=colour, ms=size, mec="white", zorder=5)
        ax.set(xlim=(0, end), ylim=(0, None))
        title = f"time to reach loss {race.level:.3g} (dashed)"
        legend = {"title": title, **plot.BESIDE, "title_fontsize": plot.sized("legend.fontsize")}
        plot.label(ax, r"time ($\tau = 1$)", "loss", legend=legend)
    return fig
