#!/usr/bin/env python3
"""Which module of the package imports which: rules that must hold, and a picture.

    python tools/imports.py                              # exit status 1 where a rule is broken
    python tools/imports.py --svg docs/pictures/imports.svg

A *room* is a folder of the package, or a file beside the folders. Rules:

- modules do not import each other in a circle, nor do rooms, and none but an app imports an app;
- a name that starts with an underscore is imported only within its room;
- no function or class of a package has the name of one of the package's modules, which it would hide;
- apps and papers take public names alone: those of `neuralrace`, of the modules that have a page of the
  reference (`docs/api`), and of a few leaves. Attributes of `import neuralrace as nr` count as well.

Imports inside functions count, those for type checkers alone (`if TYPE_CHECKING:`) do not. A name of the top
module `neuralrace`, which collects the public names, is that of the module where it is made.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import Any

ROOT = Path(__file__).resolve().parents[1] / "src"
PAPERS = ROOT.parent / "papers" / "src"
PAGES = ROOT.parent / "docs" / "api"
APPS = ("neuralrace.apps", "neuralrace.laboratory", "neuralrace.cli")  # rooms; `__main__` starts one of them
# Apps may take all that is defined in these.
LEAVES = tuple(  # modules without a page that apps and papers may take from
    f"neuralrace.{name}" for name in ("errors", "files", "identity", "interrupts", "tables", "torch_modules")
)
Graph = dict[str, set[str]]


# -- what imports what -----------------------------------------------------------------------


def modules(root: Path) -> dict[str, Path]:
    """Module name -> file, of all packages under `root`."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def dotted(node: ast.AST) -> list[str]:
    """The parts of `a.b.c`; of anything else one part that is no name."""
    if isinstance(node, ast.Attribute):
        return [*dotted(node.value), node.attr]
    return [node.id if isinstance(node, ast.Name) else ""]


def imported(path: Path, for_types: bool = False) -> Iterator[tuple[str, str | None]]:
    """Each (module, name) that a file imports; name None for a plain `import module`.

    Of `import module as name` each attribute of `name` counts too, such as `measure.cosine`.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = [alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    known = {alias.asname: alias.name for alias in imports if alias.asname}

    def walk(node: ast.AST) -> Iterator[tuple[str, str | None]]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not for_types:
            return
        first, *rest = dotted(node)
        if rest and first in known:
            yield known[first], ".".join(rest)
            return
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        for child in ast.iter_child_nodes(node):
            yield from walk(child)

    yield from walk(tree)


def import_graph(files: Mapping[str, Path]) -> Graph:
    """Module -> modules of the package that it imports, other than the top one."""
    top = {name.split(".")[0] for name in files}
    collected = {t: {m: module for module, m in imported(files[t], True) if m} for t in top if t in files}
    graph: Graph = {name: set() for name in files}
    for name, path in files.items():
        for module, member in imported(path):
            first = str(member).split(".")[0]
            module = collected.get(module, {}).get(first, module)
            target = f"{module}.{first}" if f"{module}.{first}" in files else module
            if target in files and target != name and target not in top:
                graph[name].add(target)
    return graph


def room_of(module: str) -> str:
    """The folder, or the file beside the folders, that a module belongs to."""
    return ".".join(module.split(".")[:2])


def room_graph(graph: Graph) -> Graph:
    """Room -> rooms that it imports."""
    rooms: Graph = {room_of(name): set() for name in graph if "." in name}
    for name, targets in graph.items():
        if "." in name:
            rooms[room_of(name)] |= {room_of(t) for t in targets} - {room_of(name)}
    return rooms


# -- rules -----------------------------------------------------------------------------------


def cycles(graph: Graph) -> list[list[str]]:
    """Groups of nodes that reach each other, each of at least two."""

    def reached(start: str) -> set[str]:
        seen, waiting = set(), [start]
        while waiting:
            for target in graph[waiting.pop()]:
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return seen

    reach = {name: reached(name) for name in graph}
    groups = {tuple(sorted(b for b in reach[a] if a in reach[b])) for a in graph if a in reach[a]}
    return [list(group) for group in sorted(groups)]


def private_imports(files: Mapping[str, Path]) -> list[str]:
    """Private names that a module imports from another room."""
    found = []
    for name, path in files.items():
        for module, member in imported(path):
            private = (member or "").startswith("_") and not (member or "").startswith("__")
            if module in files and private and room_of(module) != room_of(name):
                found.append(f"{name} imports {member} from {module}")
    return found


def hidden_modules(files: Mapping[str, Path]) -> list[str]:
    """Modules whose package has another object under their name."""
    found = []
    for name, path in files.items():
        if path.name != "__init__.py":
            continue
        for module, member in imported(path):
            if member and f"{name}.{member}" in files and module != name:
                found.append(f"{name}.{member} is hidden by {member} of {module}")
    return found


def public_names(files: Mapping[str, Path]) -> dict[str, set[str]]:
    """Module -> its public names, of the modules whose names apps and papers may take."""
    pages = ("neuralrace", *(f"neuralrace.{page.stem}" for page in PAGES.glob("*.md")))
    found = {}
    for module in (name for name in (*pages, *LEAVES) if name in files):
        tree = ast.parse(files[module].read_text(encoding="utf-8"))
        given = {
            ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target): node.value
            for node in tree.body
            if isinstance(node, (ast.Assign, ast.AnnAssign))
        }
        if "__all__" in given and module not in LEAVES:
            found[module] = set(ast.literal_eval(given["__all__"]))
        else:  # what is defined there
            defined = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
            found[module] = {name for name in defined | set(given) if not name.startswith("_")}
    return found


def private_uses(files: Mapping[str, Path], users: Mapping[str, Path]) -> list[str]:
    """Names of the package that are not public, and that its users take all the same."""
    public, found = public_names(files), []
    for name, path in users.items():
        for module, member in imported(path):
            if not module.startswith("neuralrace") or module.startswith((*APPS, "neuralrace_papers")):
                continue
            whole = [module, *(member.split(".") if member else [])]
            for k in range(len(whole), 0, -1):  # the longest part that is a module
                if (inside := ".".join(whole[:k])) in files:
                    taken = whole[k] if k < len(whole) else ""
                    fine = not taken or taken.startswith("__") or taken in public.get(inside, ())
                    if inside not in public or not fine or (not member and inside != "neuralrace"):
                        found.append(f"{name} takes {'.'.join(whole)}, which is not public")
                    break
    return found


def core_of_apps(graph: Graph) -> list[str]:
    """Modules outside apps that import an app."""
    inside = lambda name: name.startswith(APPS) or name.endswith("__main__")  # noqa: E731
    pairs = ((name, t) for name, targets in graph.items() for t in sorted(targets) if t.startswith(APPS))
    return [f"{name} imports {target}, which is an app" for name, target in pairs if not inside(name)]


def broken_rules(root: Path = ROOT, papers: Path = PAPERS) -> list[str]:
    """What is wrong, a line each; empty where all rules hold."""
    files = modules(root)
    graph = import_graph(files)
    apps = {name: path for name, path in files.items() if name.startswith(APPS)}
    return [
        *private_uses(files, apps | modules(papers)),
        *core_of_apps(graph),
        *(f"modules import each other in a circle: {', '.join(group)}" for group in cycles(graph)),
        *(f"rooms import each other in a circle: {', '.join(group)}" for group in cycles(room_graph(graph))),
        *private_imports(files),
        *hidden_modules(files),
    ]


# -- picture ---------------------------------------------------------------------------------

PASSING = 0.25  # inches that an edge takes where it passes a layer
LETTER, LINE, GAP = 0.068, 0.126, 0.42  # inches: width of a letter, height of a line, between layers
LONGEST_LINE = 30  # letters
GREY = "#888888"
BOX = {"boxstyle": "round,pad=0.3", "fc": "#EAF2F8", "ec": "#0072B2", "lw": 0.8}


def without_shortcuts(graph: Graph) -> Graph:
    """The graph without edges that a longer way between the same nodes implies."""

    def below(name: str) -> set[str]:
        return graph[name].union(*(below(t) for t in graph[name]))

    return {
        name: {t for t in targets if not any(t in below(other) for other in targets - {t})}
        for name, targets in graph.items()
    }


def with_passing_points(graph: Graph) -> tuple[list[list[str]], set[tuple[str, str]]]:
    """Layers from top to bottom, and edges between neighbouring layers.

    Each node is above all that it imports. An edge over several layers is broken into pieces, at points
    called `source>target` and a number.
    """
    height: dict[str, int] = {}

    def place(name: str) -> int:
        if name not in height:
            height[name] = 1 + max((place(t) for t in graph[name]), default=-1)
        return height[name]

    top = max(place(name) for name in graph)
    rows: list[list[str]] = [[] for _ in range(top + 1)]
    pieces = set()
    for name, targets in graph.items():
        rows[top - height[name]].append(name)
        for target in targets:
            points = [name]
            for k in range(height[name] - 1, height[target], -1):
                points.append(f"{name}>{target}>{k}")
                rows[top - k].append(points[-1])
            pieces |= set(pairwise([*points, target]))
    return rows, pieces


def ordered(rows: list[list[str]], pieces: set[tuple[str, str]]) -> list[list[str]]:
    """The nodes of each layer by the mean place of their neighbours, so that few edges cross."""
    near: dict[str, list[str]] = {}
    for a, b in pieces:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    rows = [list(row) for row in rows]
    for turn in range(20):
        steps = range(1, len(rows)) if turn % 2 == 0 else range(len(rows) - 2, -1, -1)
        for k in steps:
            other = rows[k - 1] if turn % 2 == 0 else rows[k + 1]
            at = {name: i / max(1, len(other) - 1) for i, name in enumerate(other)}
            places = {n: [at[m] for m in near.get(n, ()) if m in at] or [0.5] for n in rows[k]}
            rows[k].sort(key=lambda n: sum(places[n]) / len(places[n]))
    return rows


def wrapped(room: str, files: Mapping[str, Path]) -> str:
    """Name of a room, and below it those of its modules; of a folder in it, the folder alone."""
    inside = [name.removeprefix(room + ".") for name in files if name.startswith(room + ".")]
    folders = {name.split(".")[0] for name in inside if "." in name}
    members = [name + "/" * (name in folders) for name in inside if "." not in name]
    title = room.split(".")[-1]
    return "\n".join(
        [title + "/", *fill(", ".join(members), LONGEST_LINE).split("\n")] if members else [title]
    )


def draw(root: Path = ROOT) -> Any:
    """Rooms as boxes with the names of their modules, arrows to the rooms that they import.

    Single files that import no other room, or only such files (errors, files, ...), stand in the last row
    without arrows to them: they may be imported from everywhere.
    """
    from matplotlib.figure import Figure

    files = modules(root)
    graph = room_graph(import_graph(files))
    leaves = {room for room in graph if not graph[room]}
    helpers = {room for room in graph if not graph[room] - leaves and files[room].name != "__init__.py"}
    top = {room for room in graph if room.endswith("__main__")}
    text = {room: wrapped(room, files) for room in graph}
    rows, pieces = with_passing_points(
        without_shortcuts({r: graph[r] - helpers for r in graph if r not in helpers | top})
    )
    rows = [*ordered(rows, pieces), sorted(helpers)]
    sizes = {n: _size(text[n]) if n in text else (PASSING, 0.0) for row in rows for n in row}
    width = max(sum(sizes[n][0] + 0.15 for n in row) for row in rows)
    tall = [max(sizes[n][1] for n in row) for row in rows]
    total = sum(tall) + GAP * (len(rows) - 1)
    fig = Figure(figsize=(width + 0.2, total + 0.2))
    ax = fig.add_axes((0, 0, 1, 1))
    ax.set(xlim=(-0.1, width + 0.1), ylim=(-0.1, total + 0.1))
    ax.axis("off")
    ends: dict[str, tuple[float, float, float]] = {}  # middle, top and bottom of each node
    y = total
    for row, height in zip(rows, tall, strict=True):
        x = 0.0
        for n in row:
            share = sizes[n][0] * width / sum(sizes[m][0] for m in row)
            ends[n] = x + share / 2, y, y - (sizes[n][1] if n in text else height)
            x += share
        y -= height + GAP
    for n, (x, high, low) in ends.items():
        if n in text:
            ax.text(x, (high + low) / 2, text[n], ha="center", va="center", fontsize=7.5, bbox=BOX)
        else:
            ax.plot([x, x], [high, low], color=GREY, lw=0.8, zorder=1)
    for a, b in sorted(pieces):
        arrow = {
            "arrowstyle": "-|>" if b in text else "-",
            "color": GREY,
            "lw": 0.8,
            "shrinkA": 0,
            "shrinkB": 0,
        }
        ax.annotate("", ends[b][:2], (ends[a][0], ends[a][2]), zorder=1, arrowprops=arrow)
    ax.axhline(tall[-1] + GAP / 2, color=GREY, lw=0.8, ls=":")
    ax.text(0, tall[-1] + GAP / 2 - 0.12, "imported from everywhere", fontsize=7, color="#444444")
    return fig


def _size(text: str) -> tuple[float, float]:
    lines = text.split("\n")
    return LETTER * max(map(len, lines)) + 0.15, LINE * len(lines) + 0.06


def main() -> int:
    """Check the rules, and draw the picture where a file is named."""
    parser = argparse.ArgumentParser(description="Check what imports what; draw it.")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the picture there")
    given = parser.parse_args()
    if given.svg:
        import matplotlib

        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "imports"}):
            draw().savefig(given.svg, metadata={"Date": None} if given.svg.suffix == ".svg" else {})
    broken = broken_rules()
    print("\n".join(broken) or "all import rules hold")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
