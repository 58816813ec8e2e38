"""Reference of the site: a page for each public name, tables, formulas in docstrings, links of types."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from sphinx.ext import autosummary

autosummary.WELL_KNOWN_ABBREVIATIONS += ("Eq.",)  # a summary does not end there


def list_members(app: Any) -> None:
    """In the place of `:members:` a table of functions and classes, with a page for each, and constants."""
    names = app.config.autosummary_filename_map
    for page in (Path(app.srcdir) / "api").glob("*.md"):
        text = page.read_text()
        for found in re.finditer(r"\.\. automodule:: (\S+)\n   :members:(.*)", text):
            module, chosen = import_module(found[1]), re.findall(r"\w+", found[2])
            values = {name: getattr(module, name) for name in sorted(chosen or _public(found[1]))}
            public = [n for n, value in values.items() if inspect.isroutine(value) or inspect.isclass(value)]
            constants = [n for n in values if n not in public and _is_plain(values[n])]
            # Some file systems do not tell `Race` from `race`.
            alike = [name for name in public if name.lower() in {*public} - {name}]
            names |= {f"{found[1]}.{name}": f"{found[1]}.{name}-class" for name in alike}
            table = [
                "",
                ".. autosummary::",
                "   :toctree: objects",
                "   :nosignatures:",
                "   :template: object.rst",
                "",
            ]
            lines = [f".. automodule:: {found[1]}", *table, *(f"   {name}" for name in public), ""]
            lines += [f".. autodata:: {found[1]}.{name}" for name in constants]
            page.write_text(text.replace(found[0], "\n".join(lines)))


def _is_plain(value: Any) -> bool:
    return not inspect.ismodule(value) and not type(value).__module__.startswith("neuralrace")


def prepare(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """A docstring for napoleon: formulas between dollars are mathematics, and each name has its own entry."""
    text = re.sub(r"(?<![\w'`])\$([^$]+)\$(?![\w'`])", r":math:`\1`", "\n".join(lines))
    several = r"(?m)^(\w+(?:, \w+)+) : (.*)((?:\n .*)*)"
    text = re.sub(several, lambda m: "\n".join(f"{n} : {m[2]}{m[3]}" for n in m[1].split(", ")), text)
    first = [""] * (what == "property")  # napoleon takes what stands before a colon there for a type
    lines[:] = first + text.split("\n")


def settle_types(app: Any, doctree: Any) -> None:
    """Types of parameters lead to classes that have a page; other words there to nothing."""
    from sphinx.addnodes import pending_xref

    for link in list(doctree.findall(pending_xref)):
        if link.get("reftype") == "class" and link.hasattr("refspecific"):
            name = link["reftarget"]
            places = (link.get("py:module"), "neuralrace", "neuralrace.dynamics", "neuralrace.reduction")
            home = next((place for place in places if place and name in _public(place)), None)
            pathlib = name == "Path" and home != link.get("py:module")
            if home and not pathlib:
                link["reftarget"] = f"{home}.{name}"
                del link["refspecific"]
            elif pathlib or name.islower():
                link.replace_self(link.children)


def _public(name: str) -> list[str]:
    """Public names of a module: those that it says, or else those that it defines."""
    module = import_module(name)
    own = [n for n, value in vars(module).items() if getattr(value, "__module__", "") == name and n[0] != "_"]
    return getattr(module, "__all__", own)


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("builder-inited", list_members, priority=100)  # before autosummary writes the pages
    app.connect("autodoc-process-docstring", prepare, priority=100)
    app.connect("doctree-read", settle_types)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
