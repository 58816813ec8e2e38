"""
XoR with ReLU units
===================

Exclusive or is the smallest task that no linear network can do: the answer is +1
where two bits differ, and -1 where they are equal. A network of 200 ReLU units learns
it from small random weights.

Theory knows no ReLU units. It knows pathways that are open on given samples: here
four of them, one for each sample. Is that what the ReLU network becomes?
"""

import numpy as np

import neuralrace as nr

task, std = nr.tasks.xor(hidden=50), 1e-3
X, Y = task.arrays
net = nr.relu.train(X, Y, hidden=[200], std=std, lr=0.01, steps=1000, save=150)
loss = net.rescaled(1)  # the mean over samples
reduction = nr.reduce(task)
theory = reduction.solve(reduction.strength(std), t1=net.t[-1])
print(f"half times {nr.half_time(loss):.1f} and {nr.half_time(theory):.1f}")

# %%
activity = nr.activity(net.task, net.at(-1), "h1")
strong = activity[:, np.argsort(-activity.max(axis=0))[:100]]
strong = strong[:, np.argsort(strong.argmax(axis=0), kind="stable")] / strong.max()
print(f"most on any second sample: {np.sort(strong, axis=0)[-2].max():.0e}")
fig, (left, right) = nr.plot.figure(1, 2, width_ratios=[1, 1.3])
nr.plot.runs(left, loss.t, loss.loss, label="ReLU network")
nr.plot.theory(left, theory.t, theory.loss, label="four gated pathways")
nr.plot.label(left, "time (τ = 1)", "loss", legend="upper right")
right.imshow(strong, cmap="Blues", aspect="auto", interpolation="none")
nr.plot.label(right, "the 100 strongest units", "input", "activity")
right.set(yticks=range(4), yticklabels=[f"({a:+.0f}, {b:+.0f})" for a, b in X])

# %%
# Left: the loss falls as four gated pathways predict, without any fitted constant.
# Half of it is gone at time 13.0 in the ReLU network and at time 13.2 in theory.
#
# Right: each column is a unit, sorted by the sample that it likes best. A unit that
# has grown answers to one sample and is silent on the three others. The network has
# built the four pathways by itself.
#
# This is what makes gated linear networks useful: once the gates have settled, a ReLU
# network *is* one.
#
# **Three steps to try**
#
# - Train from larger weights, ``std=0.1``. Do units still specialise?
# - Give the network eight units instead of 200. Sometimes a sample finds no unit, and
#   the loss stays.
# - Ask which gates a unit can have at all: ``nr.relu.implementable_patterns(X)``.
