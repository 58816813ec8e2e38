"""
Separability: which way of solving a task wins?
===============================================

Exclusive or of two inputs needs a pathway for each sample. Now a third input gives a
hint: it is the answer itself, times a small number. With the hint, two pathways are
enough, one for each answer.

So there are two ways to solve the task. ``nr.race`` starts both from the same small
weights and tells who reaches a loss of 0.05 first.
"""

import numpy as np

import neuralrace as nr

deltas = np.linspace(0.4, 1.4, 11)
gatings = {"xor": nr.plot.RED, "linear": nr.plot.BLUE}
races = [
    nr.race({g: nr.tasks.separability(delta, g) for g in gatings}, level=0.05)
    for delta in deltas
]
print(races[0], races[-1], sep="\n\n")

# %%
fig, ax = nr.plot.figure(width=4.5, height=2.8)
for gating, colour in gatings.items():
    times = [race.times[gating] for race in races]
    nr.plot.theory(ax, deltas, times, colour, f"{gating} gating")
crossover = nr.exact.separability_crossover()
ax.axvline(crossover, color="0.5", ls=":", label="equal growth, √(2/3)")
nr.plot.label(ax, "size of the hint", "learning time (τ = 1)", legend="upper right")

# %%
# A weak hint makes the linear way slow: at 0.4 it takes 2.0 times as long as the
# other. A strong hint makes it fast: at 1.4 the other takes 1.4 times as long.
#
# The dotted line is where both *grow* equally fast, at the root of two thirds. The
# learning times cross a little to its right, because the end of learning takes time
# as well as its beginning.
#
# Neither way knows of the other. Each removes the error at its own speed, and a
# network that has both ends with the faster one.
#
# **Three steps to try**
#
# - Plot one race as a figure: ``races[5].plot()``.
# - Start from much smaller weights, ``strength=1e-6`` in ``nr.race``. The crossing
#   moves towards the dotted line.
# - Train a ReLU network on ``nr.tasks.separability(0.5).arrays`` with
#   ``nr.relu.train``, and look at its gates.
