"""The site of the manual, which `tools/site/make.py` builds.

Pages load nothing from elsewhere and open from the disk.

`NEURALRACE_GALLERY=0` leaves out running the scripts of the gallery. `NEURALRACE_EXTRA` is a
folder of files that are taken as they are: `live/` in it has the live figures.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools/site")]

import neuralrace  # noqa: E402
from neuralrace.laboratory.gallery import GALLERY  # noqa: E402

project = "neuralrace"
author = copyright = "neuralrace developers"
version = release = neuralrace.__version__
LIBRARY = "."  # what pip installs, in a copy of the project; "neuralrace" once that is on PyPI

ENTRIES = [scenery.entry for scenery in GALLERY.values()]  # of the lab

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "live",
    "typeset",
    "reference",
]
exclude_patterns = [
    "gallery/*.ipynb",
    "gallery/sg_execution_times.rst",
    "sg_execution_times.rst",
]

myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath", "substitution"]
myst_heading_anchors = 4
myst_substitutions = {
    "install": f'```bash\npip install "{LIBRARY}[plot]"\n```',
    "install_lab": f'```bash\npip install "{LIBRARY}[lab]"\n```',
    "install_all": f'```bash\npip install "{LIBRARY}[all,torch]"\n```',
    "lab_gallery": "\n".join(f"- **{e.title}**: {e.sentence}" for e in ENTRIES),
}
math_number_all = True
html_math_renderer = "katex"

nb_execution_mode = "off"  # notebooks are shown as they are stored
nb_ipywidgets_js = {}  # sliders work in Jupyter only
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]

default_role = "code"
templates_path = [str(ROOT / "tools/site")]  # of the pages of public names
toc_object_entries_show_parents = "hide"
autodoc_member_order = "alphabetical"
autodoc_typehints = "none"  # the docstrings have them, in words
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples/gallery"),
    "gallery_dirs": "gallery",
    "plot_gallery": os.environ.get("NEURALRACE_GALLERY") != "0",
    "abort_on_example_error": True,
    "image_scrapers": ("figures",),
    "within_subsection_order": "figures.ByReader",
    "ignore_repr_types": r"matplotlib",
    "doc_module": ("neuralrace",),
    "reference_url": {"neuralrace": None},
    "backreferences_dir": "gallery/backreferences",
    "remove_config_comments": True,
    "download_all_examples": False,
    "thumbnail_size": (720, 380),
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 10,
}

html_theme = "pydata_sphinx_theme"
html_title = "neuralrace"
html_static_path = ["_static"]
html_extra_path = [os.environ["NEURALRACE_EXTRA"]]
html_css_files = ["neuralrace.css"]
html_js_files = ["live.js"]
html_favicon = "_static/favicon.svg"
html_copy_source = html_show_sourcelink = False
html_sidebars = {"index": [], "gallery/index": []}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {
        "text": "neuralrace",
        "image_light": "_static/favicon.svg",
        "image_dark": "_static/favicon.svg",
    },
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "article_header_start": ["breadcrumbs"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
}
