"""Gradient against loss where there are 2^60 paths: neither lists them."""

import jax
import numpy as np

import neuralrace as nr
from benchmarks.measure import Row, fresh, race
from neuralrace.network import program


def measure(stages: int) -> dict[str, float]:
    names = [f"n{k}" for k in range(stages + 1)]
    edges = {f"{c}{k}": (names[k], names[k + 1]) for k in range(stages) for c in "ab"}
    graph, rng = nr.Graph(dict.fromkeys(names, 30), edges), np.random.default_rng(0)
    task = nr.Task(graph, rng.standard_normal((20, 30)), rng.standard_normal((20, 30)))
    with jax.enable_x64(True):
        made = program(task, "squared")
        stack, data = made.stack, made.on_device
        flat = jax.numpy.asarray(graph.flatten(nr.init.xavier(graph, gain=0.7)))
        gradient = jax.jit(lambda w, d: stack.loss_and_gradient(w, d)[1])
        functions = {"base": jax.jit(stack.loss), "ours": gradient}
        runs = {name: lambda f=f: f(flat, data).block_until_ready() for name, f in functions.items()}
        race(runs, 1)
        return race(runs, 200)


def run(quick: bool) -> list[Row]:
    stages = 5 if quick else 60
    times = {name: {"warm": t} for name, t in fresh(measure, stages).items()}
    what = f"gradient, {stages} stages of 2 edges"
    return [Row("ladder", what, "its loss", targets=("warm < 8",), **times)]
