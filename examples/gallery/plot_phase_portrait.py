"""
A phase portrait of the race
============================

Here the race of two pathways is drawn as a map. Each point of the plane is a state of
the network: how strong each pathway is in one mode. Arrows say where learning goes
from there.

The task is that of the race of two pathways. The mode is the second one, which is
asked for only where the pathway ``some`` is open.
"""

import neuralrace as nr

X, Y = [[1, 1], [1, -1], [1, 1], [1, -1]], [[1, 1], [1, -1], [1, 0], [1, 0]]
edges = [("x", "all"), ("all", "y"), ("x", "some"), ("some", "y")]
graph = nr.Graph({"x": 2, "all": 50, "some": 50, "y": 2}, edges)
task = nr.Task(graph, X, Y, gates={"some": [1, 1, 0, 0]})
reduction = nr.reduce(task)
print(*reduction.equations(), sep="\n")
print(reduction.statistics())

# %%
fig = nr.plot.phase_portrait(reduction, modes=[(1, 0), (1, 1)])
fig.axes[0].set(xlabel="strength of the pathway all", ylabel="strength of the pathway some")

# %%
# There are two saddles and one attractor. At the origin nothing is learned. On the
# horizontal axis the pathway ``all`` has learned what it can alone. The slightest
# strength of ``some`` leads away from both.
#
# The attractor is on the vertical axis, where ``some`` does everything. Every solution ends
# there, but few go straight. A network that starts with a strong ``all`` first runs
# towards the saddle on the right, seems to be done, and is then pulled up and around
# the arc.
#
# This detour is a plateau of the loss. It is seen in training as a network that
# learns one thing and replaces it by another.
#
# **Three steps to try**
#
# - Write a film: ``nr.plot.phase_portrait(reduction, modes=[(1, 0), (1, 1)],
#   animate="race.gif")``.
# - Draw the first mode, ``modes=[(0, 0), (0, 1)]``. Which pathway wins there?
# - Give starts of your own: ``starts=[[0.5, 0.01], [0.01, 0.5]]``.
