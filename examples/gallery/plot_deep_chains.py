"""
Deep chains: why depth waits
============================

The simplest deep network is a chain with one neuron per layer. What it computes is
the product of its weights. All weights start at the same small strength, and the
answer to learn is 1.

How long does it take? On the left, lines are the reduced equation, and dots are the
trained network. On the right is the time to half the loss, for three initial strengths
and two to eight layers.
"""

import numpy as np

import neuralrace as nr


def chain(layers):
    graph = nr.Graph.chain([1] * (layers + 1))
    return nr.Task(graph, [[1.0]], [[1.0]])


fig, (left, right) = nr.plot.figure(1, 2)
for layers, colour in zip((2, 3, 4, 5), nr.plot.shades(4), strict=True):
    task = chain(layers)
    theory = nr.reduce(task).solve(strengths=0.2, t1=60.0)
    start = {edge: [[0.2]] for edge in task.graph.edges}
    network = nr.flow(task, start, save=range(0, 61, 3))
    answer = theory.strengths[:, 0, 0] ** layers
    nr.plot.theory(left, theory.t, answer, colour, f"{layers} layers")
    nr.plot.points(left, network.t, network.predict()["y"].ravel(), colour)

depths = range(2, 9)
colours = {0.1: nr.plot.RED, 0.2: nr.plot.BLUE, 0.4: nr.plot.GREEN}
for strength, colour in colours.items():
    runs = [nr.reduce(chain(layers)).until_learned(strength) for layers in depths]
    times = np.array([nr.half_time(run) for run in runs])
    right.plot(depths, times, "o-", color=colour, label=f"{strength:g}")
    print(strength, [f"{time:.1f}" for time in times])
nr.plot.key(left, {"network": "points"})
above = {**nr.plot.ABOVE, "ncols": 3}
nr.plot.label(left, "time (τ = 1)", "share of the answer", legend=above)
above["title"] = "strength of a layer"
nr.plot.label(right, "layers", "half time (τ = 1)", legend=above)
nr.plot.logarithmic(right.yaxis)

# %%
# Every chain waits, and then learns almost at once. While the product is small its
# gradient is even smaller, because each weight is multiplied by all the others.
#
# With two layers the wait is short. With every further layer the wait becomes longer by
# a factor that comes near one over the initial strength. At a strength of 0.1, two
# layers need 1.9 and eight layers about 167,000. At a strength of 0.4 eight layers
# need only 40.6.
#
# Hence the two cures that people use: start with larger weights, or pass the signal
# around the layers.
#
# **Three steps to try**
#
# - Add strengths of 0.6 and 0.8. When does depth stop mattering?
# - Compare with the closed form: ``nr.exact.chain(t, s=1.0, a0=0.2**3, depth=3)``.
# - Let the answer be 2 instead of 1. A strong signal shortens every wait.
