"""
Data of your own
================

Data are arrays: one row per sample. They may come from a CSV file, as here, where
eight living things have seven features. Inputs are one-hot, the targets are the
features.

Ten networks with one hidden layer learn the table from small random weights. What do
they say of the canary while they learn? Lines are medians, bands show the range of
the ten networks.
"""

from io import StringIO

import numpy as np

import neuralrace as nr

file = StringIO("""item,grows,moves,roots,flies,swims,petals,bark
canary,1,1,0,1,0,0,0
robin,1,1,0,1,0,0,0
salmon,1,1,0,0,1,0,0
sunfish,1,1,0,0,1,0,0
rose,1,0,1,0,0,1,0
daisy,1,0,1,0,0,1,0
oak,1,0,1,0,0,0,1
pine,1,0,1,0,0,0,1""")  # or the path of a file of yours
table = np.genfromtxt(file, delimiter=",", dtype=str)
features, Y = table[0, 1:], table[1:, 1:].astype(float)
task = nr.Task(nr.Graph.chain([8, 30, 7]), np.eye(8), Y)
runs = nr.flow(task, nr.init.gaussian(task.graph, 0.01, seed=range(10)), t1=40.0)

# %%
canary = runs.predict()["y"][:, :, 0]
fig, ax = nr.plot.figure(width=5.0, height=2.8)
for k, name in enumerate(features[:6]):
    nr.plot.runs(ax, runs.t, canary[..., k], nr.plot.COLOURS[k], name)
    most = np.median(canary[..., k].max(axis=1))
    print(f"{name}: at most {most:.2f}, {np.median(canary[:, -1, k]):.2f} at the end")
nr.plot.label(ax, "time (τ = 1)", "answer for the canary", legend=nr.plot.BESIDE)

# %%
# Coarse distinctions come before fine ones. First the networks know that a canary
# grows, then that it moves, and last that it flies. That it does not swim is learned
# last as well.
#
# On the way they make mistakes that children make, too. For a while the canary *has
# roots* (up to 0.32) and *swims* (up to 0.38). Nobody ever told them so. The networks
# know that living things differ, but not yet how birds differ from fish.
#
# Every feature follows the modes of the table. A mode with a larger singular value is
# learned earlier.
#
# **Three steps to try**
#
# - Use a file of your own: replace ``file`` by its path, and ``8`` and ``7`` by the
#   size of your table.
# - Add a bat that flies and is no bird. Which mistake about it lasts longest?
# - Compare with theory: ``r = nr.reduce(task)``, then ``r.solve(r.strength(0.01),
#   t1=40.0).plot(over=runs)``.
