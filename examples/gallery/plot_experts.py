"""
A mixture of experts
====================

Three domains ask for almost the same: a common map plus a map of their own, which is
a bit smaller. The network has one expert that is open in every domain, and three that
are each open in one.

Any expert could learn anything in its domain. Nobody tells the shared expert to learn
what is shared.
"""

import numpy as np

import neuralrace as nr

domains, size = 3, 4
rng = np.random.default_rng(0)
own = [np.linalg.qr(rng.normal(size=(size, size)))[0] for _ in range(domains)]
X = np.tile(2 * np.eye(size), (domains, 1))
Y = np.concatenate([2 * (np.eye(size) + 0.8 * turn) for turn in own])
domain = np.repeat(range(domains), size)

names = ["shared", "expert 0", "expert 1", "expert 2"]
edges = [pair for name in names for pair in (("x", name), (name, "y"))]
graph = nr.Graph({"x": size, **dict.fromkeys(names, 30), "y": size}, edges)
gates = {f"expert {k}": domain == k for k in range(domains)}
task = nr.Task(graph, X, Y, gates=gates)
run = nr.flow(task, nr.init.gaussian(graph, 0.01), t1=40.0)

# %%
fig, ax = nr.plot.figure(width=5.0, height=2.8)
for name, map_ in nr.pathway_maps(graph, run).items():
    colour = nr.plot.COLOURS[names.index(name)]
    part = np.linalg.norm(map_, axis=(1, 2))
    nr.plot.theory(ax, run.t, part, colour, name)
    print(f"{name}: half of its size at {nr.half_time(run.t, part):.1f}")
nr.plot.label(ax, "time (τ = 1)", "size of its map", legend=nr.plot.BESIDE)

# %%
# The shared expert wins what the domains have in common. It sees three times as many
# samples, so it is half grown at time 2.5, when the others have hardly begun. The
# experts of the domains are half grown between 9.2 and 10.2, and learn what is left.
#
# The division of labour follows from the race alone. It does not need a loss that
# balances the load.
#
# The gates are given here, as by a perfect router. A router that learns would change
# them during training.
#
# **Three steps to try**
#
# - Make the own maps as large as the common one: replace 0.8 by 1.5. Is the shared
#   expert still first?
# - Add a second shared expert. Do both learn the same?
# - Read off all rises and falls: ``print(nr.events(run, task))``.
