"""
Continual learning: a second task erases the first
==================================================

A network learns a task, then a second one, then the first again. The tasks have the
same inputs and modes of the same sizes, but the second is turned by a random
rotation.

Nothing protects what was learned. Both losses are followed all the time, those of the
task in training and of the other one. Eight networks start from small random weights.
"""

import numpy as np

import neuralrace as nr

graph = nr.Graph.chain([4, 30, 4])
sizes = np.diag([2.0, 1.5, 1.0, 0.5])
turned = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
first = nr.tasks.linear(sizes, graph=graph)
second = nr.tasks.linear(sizes @ turned, graph=graph)
weights = nr.init.gaussian(graph, 0.01, seed=range(8))

# %%
fig, ax = nr.plot.figure(width=5.0, height=2.8)
for phase, task in enumerate((first, second, first)):
    run = nr.flow(task, weights, t1=10.0, save=101)
    weights = run.at(-1)
    level = 0.1 * nr.loss(first, {edge: 0 * w[0] for edge, w in weights.items()})
    print(f"phase {phase + 1}: learned at {np.median(nr.learning_time(run, level)):.2f}")
    for test, name, colour in (
        (first, "first task", nr.plot.BLUE),
        (second, "second task", nr.plot.RED),
    ):
        loss = np.stack([nr.loss(test, run.at(k)) for k in range(101)], axis=1)
        nr.plot.runs(ax, 10 * phase + run.t, loss, colour, name)
        print(f"  {name}: {np.median(loss[:, 0]):.2f} to {np.median(loss[:, -1]):.2f}")
    ax.axvline(10 * phase, color="0.8", zorder=0)
    ax.text(10 * phase + 5, 9.4, ["first", "second"][phase % 2], ha="center")
nr.plot.label(ax, "time (τ = 1)", "loss", "task in training:", nr.plot.BESIDE, ylim=(0, 10))

# %%
# The second task erases the first one: its loss goes from 0.00 to 8.64, far above the
# 3.75 of a network that knows nothing. Forgetting is as fast as learning, since it is
# the same change of weights.
#
# Something remains all the same. At first it takes until time 2.94 to bring the loss
# down to a tenth of that 3.75. The second task takes only 1.22, and so does the first
# when it comes back. The weights are no longer small: there is no plateau to cross.
#
# The price of that head start is the last part: at the end of the second phase a loss
# of 0.06 is left.
#
# **Three steps to try**
#
# - Make the tasks more alike: rotate two of the four inputs only.
# - Learn both at once with ``nr.Task(graph, X, Y)`` on the samples of both. Is there
#   a map that solves both?
# - Compare with the closed form for several tasks, ``nr.exact.continual``.
