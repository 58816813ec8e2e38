"""
A curriculum: easy first
========================

Two lessons share a deep trunk. The easy one has a strong signal, the hard one a weak
signal: its target is four times smaller. A hard lesson alone has to build the trunk
by itself.

We compare three plans: the hard lesson alone, both lessons at once, and the easy one
until time 1.2, then the hard one. The figure shows how much of the hard answer the networks
know, for ten random starts.
"""

import numpy as np

import neuralrace as nr

edges = [("easy", "h1"), ("hard", "h1"), ("h1", "h2"), ("h2", "h3"), ("h3", "y")]
graph = nr.Graph({"easy": 1, "hard": 1, "h1": 30, "h2": 30, "h3": 30, "y": 1}, edges)
answer = {"easy": 2.0, "hard": 0.5}


def lesson(*names):
    inputs = {a: [[float(a == b)] for b in names] for a in answer}
    return nr.Task(graph, inputs, [[answer[name]] for name in names])


plans = {
    "hard alone": [(lesson("hard"), 8.0)],
    "both at once": [(lesson("easy", "hard"), 8.0)],
    "easy first": [(lesson("easy"), 1.2), (lesson("hard"), 6.8)],
}

# %%
fig, ax = nr.plot.figure(width=5.0, height=2.8)
for (name, plan), colour in zip(plans.items(), nr.plot.COLOURS, strict=False):
    weights, begin = nr.init.gaussian(graph, 0.1, seed=range(10)), 0.0
    for task, t1 in plan:
        run = nr.flow(task, weights, t1=t1)
        _, of_hard = nr.pathway_maps(graph, run).values()
        known = of_hard[..., 0, 0] / answer["hard"]
        nr.plot.runs(ax, begin + run.t, known, colour, name)
        half = begin + np.median(nr.half_time(run.t, known, first=0.0, last=1.0))
        weights, begin = run.at(-1), begin + t1
    print(f"{name}: half known at {half:.1f}")
nr.plot.label(ax, "time (τ = 1)", "share of the hard answer", legend=nr.plot.BESIDE)

# %%
# Alone, the hard lesson needs a long time, and the time depends on luck: half of it
# is known at 3.3 in the median. With both lessons at once it is 1.9, although only
# half of the samples are of the hard lesson.
#
# The curriculum is the fastest, 1.4. The easy lesson builds the trunk, and then the
# hard one needs to learn its first layer only. It also takes the luck out: the range
# of the ten networks is narrow.
#
# While the easy lesson is taught, the answer to the hard one drifts. The growing
# trunk passes on whatever the first layer happens to do. Nobody corrects it before
# the second lesson begins.
#
# **Three steps to try**
#
# - Teach the easy lesson for longer, or shorter. When does the curriculum stop
#   paying?
# - Make the network shallow: leave out ``h2`` and ``h3``. How much of the advantage
#   is left?
# - Turn the order around: hard first, then easy.
