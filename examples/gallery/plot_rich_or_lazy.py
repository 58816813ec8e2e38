"""
Rich or lazy: the tangent kernel
================================

A network can learn in two ways. It is *lazy* if its weights hardly move, so that it
behaves like a linear model around its start. It is *rich* if it learns features of
its own. What decides is the size of the initial weights.

The tangent kernel tells them apart: it is constant if learning is lazy. Here the same
network starts from 15 gains, between 0.05 and 8.
"""

import numpy as np

import neuralrace as nr

task = nr.tasks.hierarchy(4, graph=nr.Graph.chain([8, 100, 15]))
gains = np.geomspace(0.05, 8, 15)
start = nr.init.xavier(task.graph, gains)
runs = nr.flow(task, start, t1=400.0)
kernels = np.stack([nr.tangent_kernel(task, runs.at(k)) for k in (0, -1)], axis=1)
change = nr.measure.kernel_change(kernels)[:, -1]
half = nr.half_time(runs)

# %%
fig, (left, right) = nr.plot.figure(1, 2)
for k, colour in ((2, nr.plot.RED), (12, nr.plot.BLUE)):
    run, weights = runs[k], {edge: w[k] for edge, w in start.items()}
    frozen = nr.measure.linearised_loss(task, weights, run.t)
    t, name = run.t / half[k], f"gain {gains[k]:.2g}"
    nr.plot.theory(left, t, run.loss / run.loss[0], colour, name)
    nr.plot.theory(left, t, frozen / frozen[0], colour, ls=":", lw=2.5)
nr.plot.key(left, {"kernel of the start": ":"})
nr.plot.label(left, "time / half time", "loss / initial loss", xlim=(0, 4))
nr.plot.label(left, legend={**nr.plot.ABOVE, "ncols": 2})
right.plot(gains, change, "o-", color=nr.plot.BLACK)
nr.plot.label(right, "gain of the initial weights", "relative change of the kernel")
nr.plot.logarithmic(right.xaxis)
nr.plot.logarithmic(right.yaxis, 10.0 ** np.arange(-1, 3))
for gain, turned in zip(gains, change, strict=True):
    print(f"gain {gain:.2g}: the kernel changes by {turned:.2f}")

# %%
# Left: two of the networks, each on a time axis of its own. From large weights (gain
# 3.9) the loss falls as it would with the kernel of the start, at once and without a
# plateau. From small weights (gain 0.1) the kernel of the start predicts next to no
# learning. The network waits, and then drops fast.
#
# Right: the kernel of the smallest start changes by 328 times its own size. From a
# gain of 2 on the change is about 0.06, and no larger start makes it smaller. That is
# a matter of width: here 100 hidden units.
#
# **Three steps to try**
#
# - Make the network wider, 1000 hidden units. Where does the right-hand curve level
#   off?
# - Make the network deeper, ``Graph.chain([8, 100, 100, 15])``. The right-hand curve
#   becomes steeper.
# - Ask for the angle alone: ``nr.measure.kernel_turn`` does not see a kernel that
#   only grows.
