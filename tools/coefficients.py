#!/usr/bin/env python3
"""Store the coefficients of Dormand and Prince of order 8, with the interpolant that diffrax has for them.

python tools/coefficients.py       # needs diffrax, which takes .4 s to import: so the library does without
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

SOURCE = (
    "Dopri8 of diffrax, https://github.com/patrick-kidger/diffrax, Apache License 2.0: see THIRD_PARTY.md"
)
FILE = Path(__file__).parents[1] / "src" / "neuralrace" / "dynamics" / "dormand_prince_8.json"


def coefficients() -> dict[str, list[Any]]:
    """As `Tableau` names them."""
    from diffrax import Dopri8

    eight: Any = Dopri8
    table, curve = eight.tableau, eight.interpolation_cls.eval_coeffs
    a = np.zeros((14, 14))
    for i, row in enumerate(table.a_lower, 1):
        a[i, :i] = row
    found = {"a": a, "c": np.append(0.0, table.c), "error": table.b_error, "curve": curve[:, ::-1]}
    return {name: np.asarray(values, float).tolist() for name, values in found.items()}


if __name__ == "__main__":
    FILE.write_text(json.dumps({"source": SOURCE, **coefficients()}, indent=0) + "\n")
