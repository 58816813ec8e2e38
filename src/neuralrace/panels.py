"""Where legends stand outside the axes of a panel: for `plot.label(ax, ..., legend=BELOW)`."""

from __future__ import annotations

from typing import Any

BELOW: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.22)}
BESIDE: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
ABOVE: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1)}
