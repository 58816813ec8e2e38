"""
The race of two pathways
========================

A network has two pathways from its input to its output. One runs through the layer
``all``, which is open in every sample. The other runs through the layer ``some``,
which is open only in the first two of four samples. Both could learn the same things.
Which one does?

Two numbers for each mode of the data tell the whole story: how strong each pathway
is. ``nr.reduce`` finds their equations, and ``nr.flow`` trains the network of 400
weights itself.
"""

import neuralrace as nr

X = [[1, 1], [1, -1], [1, 1], [1, -1]]
Y = [[1, 1], [1, -1], [1, 0], [1, 0]]
edges = [("x", "all"), ("all", "y"), ("x", "some"), ("some", "y")]
graph = nr.Graph({"x": 2, "all": 50, "some": 50, "y": 2}, edges)
task = nr.Task(graph, X, Y, gates={"some": [1, 1, 0, 0]})
theory = nr.reduce(task).solve(strengths=0.05, t1=15.0)
start = {edge: weights[0] for edge, weights in theory.weights.items()}
network = nr.flow(task, start, t1=15.0, save=30)
print(*nr.reduce(task).equations(), sep="\n")

# %%
measured = nr.mode_strengths(network, task)
fig, axes = nr.plot.figure(1, 2, sharey=True)
titles = ["asked for in all four samples", "asked for in two samples"]
for mode, (ax, title) in enumerate(zip(axes, titles, strict=True)):
    for k, (name, colour) in enumerate(zip(("all", "some"), nr.plot.COLOURS, strict=False)):
        nr.plot.theory(ax, theory.t, theory.strengths[:, mode, k] ** 2, colour, name)
        nr.plot.points(ax, network.t, measured[f"x->{name}"][:, mode] ** 2, colour)
    nr.plot.label(ax, "time (τ = 1)", title=title)
nr.plot.key(axes[1], {"theory": "theory", "network": "points"})
nr.plot.label(axes[0], y="share of the mode in the output")
nr.plot.label(axes[1], legend="center right")

# %%
# The first mode is asked for in all four samples. The pathway ``all`` sees it twice as
# often as ``some``, grows twice as fast, and leaves no error for the other one. The
# loser hardly grows at all.
#
# The second mode is asked for only in the first two samples. Both pathways start
# equally fast, but ``all`` makes an error where the answer should be zero. So
# ``some`` takes over, and ``all`` gives the mode up again.
#
# The lines are the solution of two equations, and the dots are the trained network.
#
# **Three steps to try**
#
# - Ask for both modes in all four samples: end ``Y`` with ``[1, 1], [1, -1]``. Is
#   anything left for ``some``?
# - Start from a larger strength, ``strengths=0.5``. The race is decided less clearly,
#   because nobody has time to get far ahead.
# - Train from random weights: ``start = nr.init.gaussian(graph, 0.01)``. Do the dots
#   still follow the lines?
