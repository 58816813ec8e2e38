"""
Representations of a hierarchy
==============================

Eight living things form a tree: animals and plants, birds and fish, flowers and
trees, and each thing for itself. A network with 60 hidden units learns their features
from small random weights.

One call draws how the hidden layer sees the items: their similarity at a few times,
and their paths in the plane.
"""

import neuralrace as nr

task = nr.tasks.hierarchy(4, graph=nr.Graph.chain([8, 60, 15]))
network = nr.flow(task, nr.init.gaussian(task.graph, 0.002), t1=150.0)
names = ["canary", "robin", "salmon", "sunfish", "rose", "daisy", "oak", "pine"]

# %%
fig = nr.measure.plot_representations(network, "h1", times=5, labels=names)

# %%
# At first all items are the same to the network. Then the matrix splits into two
# blocks, animals and plants. These split into birds, fish, flowers and trees, and at
# last every item is on its own.
#
# The paths show the same as a movement. All start at one point. They run together in
# two bundles, then in four, and part one by one. This is *progressive
# differentiation*, as in children who learn words.
#
# Nothing in the network prefers broad classes. They have the largest singular values,
# as many items and features share them, and the mode with the largest singular value
# wins the race.
#
# **Three steps to try**
#
# - Show the theory: ``sol = nr.reduce(task).solve(strengths=0.01, t1=150.0)`` in
#   place of ``network``.
# - Start from large weights, ``nr.init.gaussian(task.graph, 0.5)``. Do broad classes
#   still come first?
# - Take a ring in place of the tree: ``nr.tasks.ring(8)``.
