"""Live figures of the site: pages of the lab that need no server, where `make.py` has saved them.

```{live} separability
:picture: pictures/lab-race.gif
:alt: Two ways to solve one task, racing
```

shows the page of that name on wide screens, and elsewhere the picture with a link to the page. With `:link:`
there is the link alone. Where no pages are saved, the picture stands alone.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective


class Live(SphinxDirective):
    """The directive."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        "picture": directives.uri,
        "alt": directives.unchanged_required,
        "link": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """The picture, the page in a frame, and the link."""
        name, title = self.arguments[0], escape(self.options["alt"])
        parts: list[nodes.Node] = []
        if "picture" in self.options:
            parts.append(nodes.image(uri=self.options["picture"], alt=self.options["alt"], classes=["still"]))
        if any((Path(place) / f"live/{name}.html").exists() for place in self.config.html_extra_path):
            page = f"{'../' * self.env.docname.count('/')}live/{name}.html"
            frame = "" if "link" in self.options else f'<iframe src="{page}" title="{title}"></iframe>'
            text = f'{frame}<p><a class="try" href="{page}">{title}: try it live</a></p>'
            parts.append(nodes.raw("", text, format="html"))
        return [nodes.container("", *parts, classes=["live"])]


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.add_directive("live", Live)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
