"""
Two modalities: the second one waits
====================================

A network fuses sound and sight. The answer is the sum of both, and each has a branch
of its own in the network. Sound is 1.5 times as large as sight. How long does the
network behave as if there were no sight?

In the left panel sound and sight are unrelated. In the right panel they are
correlated, as they are in the world.
"""

import numpy as np

import neuralrace as nr

edges = [("sound", "hs"), ("hs", "y"), ("sight", "hv"), ("hv", "y")]
graph = nr.Graph({"sound": 1, "sight": 1, "hs": 100, "hv": 100, "y": 1}, edges)
sight = np.array([[1.0], [-1.0], [1.0], [-1.0]])
other = np.array([[1.0], [1.0], [-1.0], [-1.0]])


def fused(correlation, ratio=1.5):
    sound = ratio * (correlation * sight + np.sqrt(1 - correlation**2) * other)
    task = nr.Task(graph, {"sound": sound, "sight": sight}, sound + sight)
    return nr.flow(task, nr.init.gaussian(graph, 1e-5), t1=30.0)


# %%
fig, axes = nr.plot.figure(1, 2, sharey=True)
for ax, correlation in zip(axes, (0.0, 0.7), strict=True):
    run = fused(correlation)
    for name, node, colour in (
        ("sound", "hs", nr.plot.BLUE),
        ("sight", "hv", nr.plot.RED),
    ):
        weight = nr.pathway_maps(graph, run)[node].ravel()
        nr.plot.theory(ax, run.t, weight, colour, name)
        half = nr.half_time(run.t, weight, first=0, last=1)
        print(f"correlation {correlation}, {name}: half learned at {half:.2f}")
    nr.plot.label(ax, "time (τ = 1)", title=f"correlation {correlation:g}")
nr.plot.label(axes[0], y="weight in the output")
nr.plot.label(axes[1], legend="lower right")

# %%
# Sound is learned first, since its larger size makes its correlation with the answer
# larger. Without correlation it is half learned at time 4.2, and sight at time 9.5.
# In between, the network hears and does not see.
#
# With a correlation of 0.7 the gap grows: 2.9 against 9.8. Sound now stands in for
# sight as well, and its weight rises far above 1. What is left for sight to explain
# is small, so sight grows slowly. In the end both have the weight 1.
#
# Nothing is wrong with the slow modality or its branch. It loses the first round of a
# race.
#
# **Three steps to try**
#
# - Make the modalities almost equal, ``ratio=1.1``. The gap shrinks but does not
#   vanish.
# - Try a negative correlation of -0.7. What does sound do before sight is learned?
# - Ask when everything rises and falls: ``print(nr.events(run, run.task))``.
