"""Reference of the site: tables of public names, and links from types to the classes that they name."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def add_summary(app: Any, what: str, name: str, module: Any, options: Any, lines: list[str]) -> None:
    """A table of the public functions and classes after the docstring of a module."""
    if what != "module":
        return
    own = [n for n, value in vars(module).items() if getattr(value, "__module__", "") == name and n[0] != "_"]
    chosen = options.get("members")
    listed = chosen if isinstance(chosen, list) else getattr(module, "__all__", own)
    public = [n for n in listed if "neuralrace" in str(getattr(getattr(module, n), "__module__", ""))]
    lines += ["", ".. autosummary::", "   :nosignatures:", "", *(f"   {n}" for n in sorted(public)), ""]


def settle_types(app: Any, doctree: Any) -> None:
    """Types of parameters lead to classes that have a page; other words there to nothing."""
    from sphinx.addnodes import pending_xref

    for link in list(doctree.findall(pending_xref)):
        if link.get("reftype") == "class" and link.hasattr("refspecific"):
            name = link["reftarget"]
            places = (link.get("py:module"), "neuralrace", "neuralrace.dynamics", "neuralrace.reduction")
            home = next((place for place in places if place and name in _public(place)), None)
            if home:
                link["reftarget"] = f"{home}.{name}"
                del link["refspecific"]
            elif name.islower():
                link.replace_self(link.children)


def _public(module: str) -> list[str]:
    return getattr(import_module(module), "__all__", [])


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", add_summary)
    app.connect("doctree-read", settle_types)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
