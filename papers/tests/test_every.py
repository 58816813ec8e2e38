"""Every experiment from its parameters to figures and claims, as small as its parameters may be.

What it finds at that size means nothing: what is claimed is tested where the library computes it.
"""

import pytest

import neuralrace_papers as experiments

SMALL = {
    "path-sums": {"seeds": 1, "steps": 20},
    "xor": {"seeds": 2, "hidden": 32, "lr": 0.05},
    "contextual": {"seeds": 2, "samples": 50, "hidden": 4},
    "routing": {"domains": 6, "trained": 3, "few": (2,), "hidden": 8, "epochs": 100},
    "race": {"domains": 3, "groups": (1, 3), "trained": (1, 3), "hidden": 4, "t1": 20.0},
    "initialisation": {
        "scales": (0.1, 1.0, 3.0), "shown": (0.1, 1.0, 3.0), "published": (0.1, 1.0),
        "looks": (0.1, 1.0), "domains": 3, "trained": 2, "hidden": 8, "widths": (8, 16), "t1": 100.0,
    },
    "images": {
        "seeds": 1, "domains": 3, "trained": (1, 2), "hidden": 10, "gains": (0.1, 1.0), "partners": 2,
        "epochs": 1, "gain_epochs": 1, "panels": ("permutation-3",), "descent_gains": (0.1, 1.0),
    },
    "linear-background": {"seeds": 2, "hidden": 8, "save": 51, "rates": (0.5,)},
    "separability": {"seeds": 1, "margins": (0.2, 1.5), "shown": (0.2, 1.5), "fine": 0.4, "hidden": 16},
    "contexts": {"hidden": 21, "pathway": 6, "std": 1e-3, "epochs": 400},
    "context-count": {"hidden": (21, 20), "pathway": 6, "scale": 0.02, "epochs": 400},
    "context-equations": {"counts": (3,), "t1": 20.0},
    "depth": {"seeds": 2, "hidden": 14, "epochs": 300, "shallow": 8, "save": 31},
    "discovery": {"hidden": 60, "lr": 4e-3, "steps": 800, "save": 9, "most": 4, "std": 1e-3},
    "uniqueness": {"hidden": 20, "save": 6, "stride": 500, "steps": 200, "std": 1e-3},
    "phase-portraits": {
        "seeds": 4, "depths": (2, 3), "far": (3,), "strengths": (10.0, 1e3),
    },
    "pathways": {
        "seeds": 2, "width": 17, "depths": (2, 3), "epochs": (50, 50), "widths": (8, 12, 17),
        "width_depth": 2, "mixed": (2, 2),
    },
    "pathway-coordinates": {
        "seeds": 2, "width": 16, "depths": (3,), "widths": (16, 32), "draws": 2, "t1": 50.0,
    },
    "pathways-nonlinear": {"seeds": 2, "width": 12, "relu": (20, 20), "tanh": (20, 20)},
    "worlds": {
        "seeds": 1, "features": 2000, "trees": 5, "hidden": 16, "beliefs": 50, "looks": 8, "rounds": 10,
    },
    "balanced": {
        "seeds": 1, "relative": (0.0, 1.0), "sizes": (1.0, 8.0, 16.0, 32.0), "shown": (1.0, 32.0),
    },
    "continual": {
        "seeds": 1, "tasks": 2, "size": 6, "strengths": (2.0, 1.0), "lams": (0.0, 1.0, 4.0),
        "trained": (6.0, 8.0), "imbalances": (0.1,),
    },
    "saddles": {"seeds": 3, "starts": 60, "depths": (1, 2), "stds": (1e-3, 1e-5), "ratios": (0.5, 0.9)},
    "decisions": {"seeds": 10, "contrasts": (0.25, 1.0), "starts": 100, "t1": 100.0, "trials": 200},
    "two-point": {
        "architectures": ("shallow",), "weights": ("default",), "depth": 3, "width": 10, "steps": 200,
        "adam_steps": 100, "grid": 2, "grid_steps": 100,
    },
    "two-point-equations": {"seeds": 2, "draws": 500},
    "layers": {"depth": 4, "width": 10, "steps": 300},
    "structure": {
        "seeds": 1, "depth": 3, "width": 10, "epochs": (100,) * 4, "adam_epochs": 100, "pair_steps": 100,
        "trials": 1, "layers": 2, "units": 10, "image_epochs": 2, "image_adam_epochs": 2, "shown": 20,
        "neighbours": 100,
    },
    "collapse": {"side": 4, "layers": 2, "units": 10, "epochs": (5, 5, 5, 5, 5), "batch_size": 16},
}  # fmt: skip


def every():
    """All experiments; those that have no smaller form than the quick one run in `make test-all` only."""
    whole = [pytest.mark.whole]
    return [pytest.param(name, marks=[] if name in SMALL else whole) for name in experiments.names()]


@pytest.mark.parametrize("name", every())
def test_runs(name, tmp_path):
    report = experiments.run(name, quick=True, out=tmp_path, changes=SMALL.get(name))
    assert report.figures
    assert all((report.folder / f"{figure}.svg").stat().st_size for figure, _ in report.figures)
    assert report.rows
    assert len(report.table()) == len(report.claims)
