"""The gallery: the order of its scripts, and their figures, which are not registered with pyplot."""

from __future__ import annotations

from typing import Any

# Scripts with which a reader begins; the others follow by name.
FIRST = ("race", "separability", "hierarchy", "routing", "modalities", "parallel_pathways", "deep_chains")


class ByReader:
    """Sorts the names of scripts, for sphinx-gallery."""

    def __init__(self, folder: str):
        self.folder = folder

    def __call__(self, file: str) -> tuple[int, str]:
        name = file.removeprefix("plot_").removesuffix(".py")
        return (FIRST.index(name) if name in FIRST else len(FIRST), name)


def open_figures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Saves the figures that a block of a script has made, for sphinx-gallery; each is shown once."""
    from matplotlib.figure import Figure
    from sphinx_gallery.scrapers import figure_rst

    names = block_vars["example_globals"]
    shown = names.setdefault("__shown_figures__", [])
    files = []
    for figure in list(names.values()):
        if isinstance(figure, Figure) and not any(figure is other for other in shown):
            shown.append(figure)
            files.append(next(block_vars["image_path_iterator"]))
            figure.savefig(files[-1], dpi=160, bbox_inches="tight")
    return figure_rst(files, gallery_conf["src_dir"])


def _get_sg_image_scraper() -> Any:
    """Sphinx-gallery calls this where its configuration names this module."""
    return open_figures
