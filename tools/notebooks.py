"""Runs the notebooks and keeps what they show, and makes pages of the site from them.

`python tools/notebooks.py [NAME ...]` runs `notebooks/NAME.ipynb`, all of them by default, and stores their
outputs. MkDocs loads this file as a hook, which shows every notebook as a page.
"""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
SHOWN = ("image/png", "text/html", "text/plain")  # of what an output holds, the first that there is
WIDGET = "application/vnd.jupyter.widget-view+json"


def run(file: Path) -> Any:
    """The notebook with the outputs of a run by a fresh kernel."""
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(file, as_version=4)
    own = {**os.environ, "PYTHONPATH": str(ROOT / "src")}  # the kernel sees this copy of the library
    NotebookClient(book, timeout=300, resources={"metadata": {"path": str(file.parent)}}).execute(env=own)
    return book


def tidy(book: Any) -> Any:
    """Without times, states of widgets, and forms of outputs that nobody looks at."""
    book.metadata.pop("widgets", None)
    for cell in book.cells:
        cell.metadata = {}
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            keep = WIDGET if WIDGET in data else next((form for form in SHOWN if form in data), None)
            for form in [form for form in data if form not in (keep, "text/plain")]:
                del data[form]
        if "outputs" in cell:
            cell.outputs = _joined([o for o in cell.outputs if o.get("name") != "stderr"])
    return book


def _joined(outputs: list[Any]) -> list[Any]:
    """Outputs with the printed lines that follow each other as one."""
    kept: list[Any] = []
    for output in outputs:
        if kept and output.get("name") == kept[-1].get("name") == "stdout":
            kept[-1]["text"] += output["text"]
        else:
            kept.append(output)
    return kept


def page(book: Any, name: str) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and the pictures in it by name."""
    where = f"To run it, open `notebooks/{name}.ipynb` of the project in Jupyter."
    parts, pictures = [], {}
    for cell in book["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if WIDGET in data:
                parts.append("*A picture with sliders, in the notebook.*")
            elif "image/png" in data:
                pictures[f"{name}-{len(pictures)}.png"] = base64.b64decode(data["image/png"])
                parts.append(f"![Output of the code above]({name}-{len(pictures) - 1}.png)")
            elif "text/html" in data:
                parts.append(f"<div>{''.join(data['text/html'])}</div>")
            else:
                parts.append(
                    f"```text\n{''.join(output.get('text', data.get('text/plain', ''))).rstrip()}\n```"
                )
    heading, _, rest = parts[0].partition("\n")
    return "\n\n".join([heading, where, rest.strip(), *parts[1:]]) + "\n", pictures


def on_files(files: Any, config: Any) -> Any:
    """MkDocs calls this when it has collected its files."""
    import json

    from mkdocs.structure.files import File

    for file in sorted(FOLDER.glob("*.ipynb")):
        text, pictures = page(json.loads(file.read_text()), file.stem)
        files.append(File.generated(config, f"notebooks/{file.stem}.md", content=text))
        for picture, content in pictures.items():
            files.append(File.generated(config, f"notebooks/{picture}", content=content))
    return files


if __name__ == "__main__":
    import nbformat

    for notebook in sys.argv[1:] or sorted(file.stem for file in FOLDER.glob("*.ipynb")):
        nbformat.write(tidy(run(FOLDER / f"{notebook}.ipynb")), FOLDER / f"{notebook}.ipynb")
