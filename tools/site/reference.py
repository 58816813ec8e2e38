"""Reference of the site: tables of public names, and links from types to the classes that they name."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import neuralrace


def add_summary(app: Any, what: str, name: str, module: Any, options: Any, lines: list[str]) -> None:
    """A table of the public names after the docstring of a module."""
    if what != "module":
        return
    own = [n for n, value in vars(module).items() if getattr(value, "__module__", "") == name and n[0] != "_"]
    chosen = options.get("members")
    listed = chosen if isinstance(chosen, list) else getattr(module, "__all__", own)
    public = [n for n in listed if not isinstance(getattr(module, n), ModuleType)]
    lines += ["", ".. autosummary::", "   :nosignatures:", "", *(f"   {n}" for n in sorted(public)), ""]


def settle_types(app: Any, doctree: Any) -> None:
    """Types of parameters lead to classes of `neuralrace`; other words there to nothing."""
    from sphinx.addnodes import pending_xref

    for link in list(doctree.findall(pending_xref)):
        if link.get("reftype") == "class" and link.hasattr("refspecific"):
            name = link["reftarget"]
            if name in neuralrace.__all__:
                link["reftarget"] = f"neuralrace.{name}"
                del link["refspecific"]
            elif name.islower():
                link.replace_self(link.children)


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", add_summary)
    app.connect("doctree-read", settle_types)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
