"""An answer about a network: data, three sentences, and a figure."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Answer:
    """What was found.

    Attributes
    ----------
    title : str
        The question.
    measured, theory, caution : str
        What was measured; what theory says; when not to trust it.
    data : xarray.Dataset
        The numbers behind it.
    """

    title: str
    measured: str
    theory: str
    caution: str
    data: xarray.Dataset

    def __str__(self) -> str:
        return (
            f"{self.title}\n  measured: {self.measured}\n  theory: {self.theory}\n  caution: {self.caution}"
        )

    def _repr_html_(self) -> str:
        return self.to_html("h3")

    def to_html(self, heading: str) -> str:
        """The title as a heading of some level, and the three sentences."""
        lines = (("Measured", self.measured), ("Theory", self.theory), ("When not to trust it", self.caution))
        told = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in lines)
        return f"<{heading}>{escape(self.title)}</{heading}><dl>{told}</dl>"
