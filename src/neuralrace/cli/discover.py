"""`neuralrace discover`: the patterns of ReLU networks on a user's data, as a table and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import neuralrace as nr
from neuralrace import plot
from neuralrace.cli.saving import save_figure, save_table
from neuralrace.files import folder_for, read_npz, writable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def discover_file(
    path: str | Path, out: str | Path = "results", **keywords: Any
) -> tuple[nr.relu.Discovery, tuple[Path, ...]]:
    """`discover` on the data of a file, with a table and a figure.

    Parameters
    ----------
    path : path
        An npz file with inputs X (n, in) and targets Y (n, out).
    out : path
        Files go to `out/discover/<name of the file>`.
    **keywords
        Those of `discover`.

    Returns
    -------
    discovery : Discovery
    files : tuple of Path
        What was written.
    """
    given = Path(path)
    arrays = read_npz(given, "X", "Y")
    writable(Path(out))  # before minutes of training
    keywords.setdefault("every", max(1, min(100, keywords.get("steps", 8000) // 20)))
    discovery = nr.relu.discover(arrays["X"], arrays["Y"], **keywords)
    folder = folder_for(out, "discover", given)
    save_table(_columns(discovery), folder / "patterns.csv")
    drawn = save_figure(lambda: draw(discovery), folder, "discover")
    return discovery, (folder / "patterns.csv", *drawn)


def draw(discovery: nr.relu.Discovery) -> Figure:
    """Mean gates of each cluster as a matrix, beside the distance for each number of clusters."""
    with plot.style():
        fig, (left, right) = plot.figure(1, 2, height=2.2, width_ratios=[2, 1])
        image = left.imshow(
            discovery.centres, cmap="Greys", vmin=0, vmax=1, aspect="auto", interpolation="none"
        )
        left.set_yticks(range(discovery.k), [f"{share:.0%}" for share in discovery.shares])
        left.set_xticks(np.unique(np.linspace(0, discovery.patterns.shape[1] - 1, 9).astype(int)))
        plot.label(left, "sample", "share of weight", f"{discovery.k} patterns")
        left.spines[["top", "right"]].set_visible(True)
        for row in range(1, discovery.k):
            left.axhline(row - 0.5, color=plot.BLACK, lw=0.7)
        fig.colorbar(image, ax=left, label="mean gate", pad=0.02)
        k = np.array(list(discovery.elbow))
        d = np.array(list(discovery.elbow.values()))
        right.plot(k, d, "o-", color=plot.BLUE)
        chosen = discovery.k, discovery.elbow[discovery.k]
        right.plot(*chosen, "o", ms=8, mfc="none", color=plot.RED, label="chosen")
        top = d.max() if d.max() > 0 else 1.0
        properties = {"legend": "best", "xticks": k, "ylim": (-0.04 * top, 1.08 * top)}
        plot.label(right, "clusters", "distance of outputs", "gated network against ReLU", **properties)
    return fig


def _columns(discovery: nr.relu.Discovery) -> dict[str, np.ndarray]:
    """One row per pattern: share, ambiguity, then gate and mean gate on every sample."""
    columns = {"share": discovery.shares, "ambiguity": discovery.ambiguity}
    columns |= {f"gate{i}": gate.astype(int) for i, gate in enumerate(discovery.patterns.T)}
    return columns | {f"mean{i}": mean for i, mean in enumerate(discovery.centres.T)}
