"""
Residual networks: fixed identity edges
=======================================

A deep linear network starts from small random weights (standard deviation 0.1) and
learns a map of four modes. In the left panel it is a plain chain. In the right panel
each layer also has an identity edge around it, as in a residual network.

An identity edge is an edge with given weights that never change: ``nr.Edge(...,
fixed=np.eye(4))``. Loss, training and theory treat it as a part of the network.
"""

from itertools import pairwise

import numpy as np

import neuralrace as nr


def chain(layers, skip):
    nodes = {f"h{k}": 4 for k in range(layers + 1)}
    pairs = list(pairwise(nodes))
    edges = {f"W{k}": pair for k, pair in enumerate(pairs)}
    if skip:
        fixed = [nr.Edge(*pair, fixed=np.eye(4)) for pair in pairs]
        edges |= {f"skip{k}": edge for k, edge in enumerate(fixed)}
    target = np.diag([1.6, 1.3, 0.7, 0.4])
    return nr.tasks.linear(target, graph=nr.Graph(nodes, edges))


# %%
fig, axes = nr.plot.figure(1, 2, sharey=True)
times = np.append(0, np.geomspace(0.01, 100, 150))
for ax, skip in zip(axes, (False, True), strict=True):
    for layers, colour in zip((2, 4, 8), nr.plot.shades(3), strict=True):
        task = chain(layers, skip)
        start = nr.init.gaussian(task.graph, 0.1, seed=range(5))
        run = nr.flow(task, start, save=times)
        nr.plot.runs(ax, run.t, run.loss, colour, f"{layers} layers")
        print(f"{layers} layers, skip {skip}:", nr.learning_time(run, 0.01).round(2))
nr.plot.label(axes, "time (τ = 1)", xscale="log", xlim=(0.01, 100))
nr.plot.label(axes[0], y="loss", title="plain")
nr.plot.label(axes[1], title="with fixed identity edges", legend="upper right")

# %%
# A plain chain waits on a plateau before it learns anything, and depth makes the
# plateau longer. With two layers all five networks are done before time 9. With four
# layers learning comes in steps, and none is done by time 100. With eight layers
# nothing has happened by then.
#
# Identity edges turn this around. The signal passes every layer from the beginning,
# so there is no plateau, and each layer can do a part of the work. The eight-layer
# network is the *fastest*: its loss is below 0.01 before time 0.5.
#
# **Three steps to try**
#
# - Make the identity weaker: ``fixed=0.5 * np.eye(4)``. At which size does the
#   plateau come back?
# - Ask for a mode that turns its sign: -0.4 in place of 0.4. Identity edges help as
#   long as the answer is not far from the identity.
# - Print the equations with the skip as a constant: ``nr.reduce(chain(2, True))``.
