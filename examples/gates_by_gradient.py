"""Gates chosen by gradient so that a task is learned fastest: are they those that the papers find?

The time in which the loss falls to a level is differentiated by the gates. Gates start at random in
[0.25, 0.75], move by Adam on the logarithm of the time, and are clipped to [0, 1] after every step. All
gatings, the papers' too, begin at the same small random weights. `python examples/gates_by_gradient.py`
prints what is found; docs/developers/reduction.md says what it means.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax

import neuralrace as nr

METHOD = nr.Adaptive(rtol=1e-5, atol=1e-7, max_steps=2000)
HALVES = {(1, 1, 0, 0), (0, 0, 1, 1), (1, 0, 1, 0), (0, 1, 0, 1)}  # samples of XoR that share a bit


class Problem:
    """Learning times of a task whose hidden nodes have a gate in each context, from fixed random weights."""

    def __init__(self, task: nr.Task, std: float = 0.01):
        self.task, self.nodes = task, task.graph.hidden
        self.weights = nr.init.gaussian(task.graph, std, seed=0)
        self.system = nr.reduce(task, "block").to_jax(weights=self.weights)
        self.log_time = jax.jit(jax.value_and_grad(lambda gates, share: jnp.log(self.time(gates, share))))

    def time(self, gates, share):
        """When a share of the loss of closed gates is left, under gates `(nodes, contexts)`."""
        s = self.system
        closed = s.loss(s.strengths, s.statistics, dict.fromkeys(self.nodes, 0.0))
        by_node = dict(zip(self.nodes, gates, strict=True))
        return s.learning_time(s.strengths, s.statistics, by_node, share * closed, 1e4, METHOD)

    def evaluated(self, gates, share: float) -> tuple[float, np.ndarray]:
        """The time, and the derivative of its logarithm by every gate."""
        with jax.enable_x64(True):
            value, slope = self.log_time(jnp.asarray(gates, float), share)
            return float(np.exp(value)), np.asarray(slope)

    def fastest(self, gates, share: float, steps: int = 60) -> np.ndarray:
        """Gates `(nodes, contexts)` in [0, 1] after some steps of Adam."""
        adam = optax.adam(0.05)
        with jax.enable_x64(True):
            gates = jnp.asarray(gates, float)
            state = adam.init(gates)
            for _ in range(steps):
                _, slope = self.log_time(gates, share)
                change, state = adam.update(slope, state)
                gates = jnp.clip(gates + change, 0.0, 1.0)
            return np.asarray(gates)

    def random_gates(self, seed: int) -> np.ndarray:
        contexts = len(self.system.statistics.irreducible_loss)
        return np.random.default_rng(seed).uniform(0.25, 0.75, (len(self.nodes), contexts))

    def report(self, name: str, gates, share: float) -> None:
        rows = " | ".join(" ".join(f"{g:.2g}" for g in row) for row in gates)
        print(f"  {name:24s} T = {self.evaluated(gates, share)[0]:5.2f}   gates {rows}")


def xor(pathways: int = 4) -> Problem:
    """XoR with several pathways; every sample is a context of its own."""
    x, y = nr.tasks.xor().arrays
    graph = nr.Graph.pathways(2, 1, [[16]] * pathways)
    apart = np.linspace(0.2, 0.8, 4)  # samples with different gates are different contexts
    return Problem(nr.Task(graph, x, y, gates=dict.fromkeys(graph.hidden, apart)))


def contexts(std: float = 0.01, structures=None) -> Problem:
    """Items in three contexts on the graph of the paper: only the first pathway sees the context."""
    return Problem(nr.tasks.contexts(3, structures, gating="shared", hidden=40), std)


PAIRS = [[1, 1, 0], [1, 0, 1], [0, 1, 1]]
CONTEXT_GATES = {
    "common + pairs (paper)": [[1, 1, 1], *PAIRS],
    "common + single contexts": [[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "pairs alone": [[0, 0, 0], *PAIRS],
}


def patterns(gates) -> list[tuple[int, ...]]:
    return [tuple(int(g > 0.5) for g in row) for row in gates]


def main(starts: int = 3) -> None:
    problem = xor()
    print("XoR, four pathways, four samples: time to 5% of the loss")
    problem.report("one sample each (paper)", np.eye(4), 0.05)
    found = [problem.fastest(problem.random_gates(seed), 0.05) for seed in range(starts)]
    for gates in found:
        problem.report("by gradient", gates, 0.05)
    ends = [p for gates in found for p in patterns(gates)]
    print(f"  pathways open in two samples that share a bit: {sum(p in HALVES for p in ends)} of {len(ends)}")
    units = nr.relu.self_consistent(*problem.task.arrays)
    print(f"  gates that a ReLU unit keeps as it grows: {patterns(units.patterns)}")

    problem = contexts()
    for share in (0.5, 0.05):
        print(f"three contexts, four pathways: time to {share:.0%} of the loss")
        for name, gates in CONTEXT_GATES.items():
            problem.report(name, gates, share)
        found = [problem.fastest(problem.random_gates(seed), share) for seed in range(starts)]
        for gates in found:
            problem.report("by gradient", gates, share)
        ends = [set(patterns(gates)) for gates in found]
        pairs = sum(all(tuple(p) in end for p in PAIRS) for end in ends)
        always = sum((1, 1, 1) in end for end in ends)
        print(f"  starts that end with all pairs of contexts: {pairs} of {starts}")
        print(f"  starts that end with an always open pathway: {always} of {starts}")


if __name__ == "__main__":
    main()
