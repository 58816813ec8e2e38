"""The page of a watched network: its answers, each with three lines and mostly a figure."""

from __future__ import annotations

import base64
import io
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace import plot
from neuralrace.apps.insight.answer import Answer
from neuralrace.apps.insight.regime import LAZY, RICH
from neuralrace.files import as_path, replace_folder, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from neuralrace.apps.insight.recordings import Recordings
    from neuralrace.apps.insight.watching import Watch

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 54rem; padding: 0 1rem }
h2 { margin-top: 2.5rem } dt { font-weight: 600 } dd { margin: 0 0 .6rem 0 }
figure { margin: 1rem 0 } img { max-width: 100%; background: #fff; border-radius: 4px }
.verdict { font-size: 1.3rem } .small { font-size: .85rem; opacity: .8 }
@media print { h2 { break-after: avoid } figure { break-inside: avoid } }
"""


MANUAL = (Path(__file__).parent / "manual.txt").read_text().split()  # pages that come with a report
WORDS = {
    "probe": "a sample on which the network is looked at while it learns",
    "mode": "a pattern of inputs that goes with a pattern of targets: a singular vector of their "
    "correlation. Its strength says how much of the data it explains",
    "half time": "the step at which half of what the network learns of a mode is learned",
    "gate": "whether a rectified unit is open (active) for a probe; a pattern is a set of probes for which "
    "units are open together",
    "tangent kernel": "how much a step of learning on one probe changes the output for another; where it "
    "stays as it was, the network learns as a linear model with fixed features does",
    "rich, lazy": "learning new features, or combining those that were there at the start",
}


def write_page(watch: Watch | Recordings, folder: str | Path) -> tuple[Path, dict[str, Answer]]:
    """Write the page, its figures and its data; the path of the page, and all answers."""
    path, answers = as_path("folder", folder), dict[str, Answer]()
    replace_folder(path.resolve(), "report of a watch", partial(_fill, watch, answers))
    return path / "index.html", answers


def _fill(watch: Watch | Recordings, answers: dict[str, Answer], folder: Path) -> None:
    folder.mkdir()
    answers |= watch.answers()
    parts = []
    for name, answer in answers.items():
        figure = FIGURES[name](answer) if name in FIGURES else None
        image = ""
        if figure is not None:
            with plot.style():
                plot.save(figure, folder, name)
            image = _image(figure, answer.title)
        parts.append(f'<section id="{name}">{answer.to_html("h2")}{image}</section>')
    _store({name: answer.data for name, answer in answers.items()}, folder / "data.zarr")
    write_text(folder / "index.html", _page(watch, answers, parts, _manual(folder / "manual")))


def _manual(folder: Path) -> str:
    """Write pages of the manual as text beside the report; links to them."""
    here = Path(__file__).parent
    installed, checkout = here / "manual", here.parents[3] / "docs"
    source = installed if installed.exists() else checkout
    links = []
    for name in MANUAL:
        text = escape((source / f"{name}.md").read_text(encoding="utf-8"))
        body = f"<body><pre style='white-space: pre-wrap'>{text}</pre></body>"
        head = f"<head><meta charset='utf-8'><title>{name}</title><style>{STYLE}</style></head>"
        write_text(folder / f"{name}.html", f"<!doctype html><html lang='en'>{head}{body}</html>\n")
        links.append(f'<a href="manual/{name}.html">{name}</a>')
    return ", ".join(links)


def _page(watch: Watch | Recordings, answers: dict[str, Answer], parts: list[str], links: str) -> str:
    regime: Any = answers.get("regime")
    told = f"Learning: <strong>{regime.verdict}</strong>. {escape(regime.why)}" if regime else ""
    verdict = f'<p class="verdict">{told}</p>' if regime else ""
    words = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}.</dd>" for k, v in WORDS.items())
    problem = f"<p><strong>{escape(watch.problem)}.</strong></p>" if watch.problem else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>What the network learned</title><style>{STYLE}</style></head><body>
<h1>What the network learned</h1>
{verdict}{problem}
<p class="small">{escape(watch.described)}
Data behind the figures: <code>data.zarr</code>. The manual says more: {links}.</p>
{"".join(parts)}
<h2>Words</h2><dl>{words}</dl>
</body></html>
"""


def _image(figure: Figure, text: str) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight")
    data = base64.b64encode(buffer.getvalue()).decode()
    return f'<figure><img src="data:image/svg+xml;base64,{data}" alt="{escape(text)}"></figure>'


def _store(answers: dict[str, Any], path: Path) -> None:
    """Each answer as a group of one zarr folder."""
    for name, data in answers.items():
        data.to_zarr(path, group=name, mode="a", zarr_format=2, consolidated=False)


# -- figures -------------------------------------------------------------------------------------


def _modes(answer: Answer) -> Figure | None:
    ds = answer.data
    if not np.isfinite(ds.share).any():
        return None
    with plot.style():
        fig, (left, right) = plot.figure(1, 2, height=2.4)
        step = np.maximum(ds.step.values, 0.5)
        for k, colour in enumerate(plot.shades(ds.sizes["mode"])):
            left.plot(step, ds.share[:, k], color=colour, label=f"{k + 1}")
        left.axhline(1, color="k", lw=0.6, ls=":")
        left.set(xscale="log", xlabel="step", ylabel="share of the mode in the outputs", ylim=(-0.2, 1.3))
        left.legend(title="mode", ncol=2, fontsize=6)
        known = np.isfinite(ds.half_time.values) & (ds.half_time.values > 0)
        right.set(xlabel="strength of the mode in the data", ylabel="half time (steps)")
        if known.any():
            right.plot(ds.strength[known], ds.half_time[known], "o", color=plot.BLUE, label="network")
            plot.logarithmic(right.xaxis)
            plot.logarithmic(right.yaxis)
        else:
            right.text(0.5, 0.5, "no mode was learned", ha="center", transform=right.transAxes)
            right.set(xticks=[], yticks=[])
        if np.isfinite(ds.predicted_half_time).any():
            right.plot(
                ds.strength, ds.predicted_half_time, "-", color="k", label="deep linear theory, fitted"
            )
        if known.any():
            right.legend()
    return fig


def _representations(answer: Answer) -> Figure | None:
    ds = answer.data
    if not np.isfinite(ds.correlation).any():
        return None
    with plot.style():
        fig, (left, middle, right) = plot.figure(1, 3, height=2.3, width_ratios=[1.2, 1, 1])
        layers = np.arange(ds.sizes["layer"])
        c = ds.correlation.values
        off = np.abs(ds.interval.values.T - c)
        left.errorbar(layers, c, yerr=off, fmt="o-", color=plot.BLUE, label="theory")
        left.plot(layers, ds.correlation_with_inputs, "s--", color=plot.ORANGE, label="input distances")
        left.set_xticks(layers, [str(v) for v in ds.layer.values], rotation=60)
        left.set(ylabel="correlation of distances", xlabel="layer", ylim=(-1.05, 1.05))
        left.legend()
        best = int(np.nanargmax(c))
        for ax, values, title in (
            (middle, ds.measured[best], f"measured, {ds.layer.values[best]}"),
            (right, ds.predicted, "theory"),
        ):
            shown = ax.imshow(values, cmap="viridis")
            ax.set(title=title, xlabel="probe, by target", ylabel="probe, by target")
            fig.colorbar(shown, ax=ax, label="squared distance", shrink=0.8)
    return fig


def _pathways(answer: Answer) -> Figure | None:
    ds = answer.data
    layers = [str(n).removeprefix("patterns:") for n in ds.data_vars if str(n).startswith("patterns:")][:4]
    if not layers:
        return None
    with plot.style():
        fig, axes = plot.figure(1, len(layers), height=2.2, squeeze=False)
        for ax, layer in zip(np.ravel(axes), layers, strict=True):
            patterns, carried = ds[f"patterns:{layer}"].values, ds[f"carried:{layer}"].values
            ax.imshow(patterns, aspect="auto", cmap="Greys", vmin=0, vmax=1.3, interpolation="nearest")
            labels = [f"{k + 1}" + ("" if np.isnan(c) else f" ({c:.0%})") for k, c in enumerate(carried)]
            ax.set_yticks(range(len(patterns)), labels)
            ax.set(title=f"layer {layer}", xlabel="probe, by target", ylabel="pattern (share carried)")
    return fig


def _regime(answer: Answer) -> Figure | None:
    ds: Any = answer.data
    answer_: Any = answer
    if not np.isfinite(answer_.change):
        return None
    with plot.style():
        fig, (left, right) = plot.figure(1, 2, height=2.2)
        change = answer_.change
        low, high = np.where(np.isfinite(answer_.interval), answer_.interval, change)
        ends = min(0.01, 0.5 * max(low, 1e-6)), max(10.0, 2 * high)
        left.axvspan(ends[0], LAZY, color=plot.SKY, alpha=0.3, label="lazy")
        left.axvspan(RICH, ends[1], color=plot.ORANGE, alpha=0.3, label="rich")
        left.errorbar([change], [0], xerr=[[change - low], [high - change]], fmt="o", color="k")
        left.set(xlabel="relative change of the tangent kernel", yticks=[], xlim=ends, xscale="log")
        left.legend(loc="upper center")
        if "norm" in ds:
            right.plot(ds.norm[0], "o--", color=plot.SKY, label="start")
            right.plot(ds.norm[1], "o-", color=plot.BLUE, label="end")
            right.set(xlabel="weight matrix (in order)", ylabel="norm", ylim=(0, None))
            right.xaxis.get_major_locator().set_params(integer=True)
            right.legend()
        else:
            right.plot([0, 1], ds.alignment, "o-", color=plot.BLUE)
            right.set_xticks([0, 1], ["start", "end"])
            right.set(ylabel="alignment with the targets", ylim=(-0.05, 1.05), xlim=(-0.3, 1.3))
    return fig


def _branches(answer: Answer) -> Figure:
    ds = answer.data
    panels = [name for name in ("contribution", "usage", "transfer") if name in ds]
    with plot.style():
        fig, axes = plot.figure(1, len(panels), height=2.4, squeeze=False)
        for ax, name in zip(np.ravel(axes), panels, strict=True):
            values = ds[name].isel(layer=-1) if name == "transfer" else ds[name]
            row, column = (str(d) for d in values.dims)
            shown = ax.imshow(values, cmap="viridis", aspect="auto", vmin=min(0.0, float(values.min())))
            ax.set_xticks(range(values.shape[1]), [str(v) for v in ds[column].values])
            ax.set_yticks(range(values.shape[0]), [str(v) for v in ds[row].values])
            ax.set(title=BRANCH_TITLES[name], xlabel=column, ylabel=row)
            if name == "transfer":
                ax.set(xlabel="tested on domain", ylabel="fitted on domain")
            fig.colorbar(
                shown, ax=ax, shrink=0.8, label="relative to its own" if name == "transfer" else "share"
            )
    return fig


BRANCH_TITLES = {
    "contribution": "share of the mode lost\nwithout the branch",
    "usage": "share of the output lost\nwithout the branch",
    "transfer": "a readout of one domain\non another, last layer",
}
FIGURES = {
    "modes": _modes,
    "representations": _representations,
    "pathways": _pathways,
    "branches": _branches,
    "regime": _regime,
}
