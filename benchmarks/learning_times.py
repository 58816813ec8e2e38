"""How right learning times are, whatever is saved: 100 random tasks against a fine solve.

Initial weights over four orders of magnitude, ends up to 1,000 times too late, 20 to 200 saved times. Run as
`python -m benchmarks.learning_times`; it prints the worst relative errors, and those of lines between
saved times.
"""

import argparse
from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace.measure import crossing

SHAPES = ([4, 3], [4, 6, 3], [4, 6, 6, 3], [4, 5, 5, 5, 3])  # few, so that little is compiled
FINE = nr.Adaptive(rtol=1e-11, atol=1e-13)
PATIENT = nr.Adaptive(max_steps=20_000)


def one(seed: int) -> dict[str, Any] | None:
    """A random task, and the error of a random one of its learning times."""
    rng = np.random.default_rng(seed)
    sizes = SHAPES[rng.integers(len(SHAPES))]
    x = rng.normal(size=(12, 4)) * rng.uniform(0.3, 3, 4)
    task = nr.Task(nr.Graph.chain(sizes), x, rng.normal(size=(12, 3)))
    weights = nr.init.gaussian(task.graph, std := 10 ** rng.uniform(-3, 1), seed=seed)
    t = 1.0
    while True:  # until what is left to learn in as much time again is little
        run = nr.flow(task, weights, t1=t, save=2, method=PATIENT)
        fallen = run.loss[0] - run.loss[-1]
        if (fallen > 1e-3 * run.loss[0] and -run.history.slope[-1] * t < 1e-2 * fallen) or t > 1e9:
            break
        t *= 3
    if run.status is not nr.Status.FINISHED or not fallen > 0:
        return None
    level = run.loss[-1] + rng.choice([0.9, 0.5, 0.1]) * fallen
    true = nr.flow(task, weights, t1=t, save=2, stop_loss=level, method=FINE).end
    late, n = t * 10 ** rng.uniform(0, 3), int(rng.integers(20, 201))
    run = nr.flow(task, weights, t1=late, save=n, method=PATIENT)
    return {
        "seed": seed, "sizes": sizes, "std": std, "late": late / t, "save": n, "true": true,
        "status": run.status.name, "error": abs(nr.learning_time(run, level) / true - 1),
        "line": abs(crossing(run.t, run.loss, level) / true - 1),
    }  # fmt: skip


def main(tasks: int) -> float:
    """The worst relative error, printed with others."""
    found, seed = [], 0
    while len(found) < tasks:
        row = one(seed)
        found += [row] if row else []
        seed += 1
    error, line = (np.array([f[k] for f in found]) for k in ("error", "line"))
    print(f"{len(found)} tasks of {seed} drawn; relative errors of the learning time:")
    print(f"  by the solver's own steps: worst {error.max():.1e}, median {np.median(error):.1e}")
    print(f"  by lines between saved times: worst {line.max():.1e}, median {np.median(line):.1e}")
    print("  worst three:", *sorted(found, key=lambda f: -f["error"])[:3], sep="\n    ")
    return float(error.max())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100)
    main(parser.parse_args().tasks)
