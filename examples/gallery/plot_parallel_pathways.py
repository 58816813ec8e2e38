"""
Parallel pathways: does the winner take all?
============================================

Two pathways of equal depth lead from the same input to the same output, and both are
always open. One starts a little ahead, with weights of 0.33 instead of 0.30.
The task needs only one of them.

Do they share the work? The answer depends on depth.
"""

import neuralrace as nr

fig, axes = nr.plot.figure(1, 3, sharey=True)
for ax, layers in zip(axes, (2, 3, 5), strict=True):
    graph = nr.Graph.pathways(1, 1, [[1] * (layers - 1)] * 2)
    task = nr.Task(graph, [[1.0]], [[1.0]])
    start = {edge: 0.33 if "p0" in edge else 0.30 for edge in graph.edges}
    run = nr.reduce(task).solve(start, t1=15.0, save=300)
    maps = nr.pathway_maps(graph, run)
    for name, path, colour in (
        ("ahead", "p0h1", nr.plot.BLUE),
        ("behind", "p1h1", nr.plot.RED),
    ):
        share = maps[path].ravel()
        nr.plot.theory(ax, run.t, share, colour, name)
        print(f"{layers} layers, {name}: {share[-1]:.2f} in the end")
    nr.plot.label(ax, "time (τ = 1)", title=f"{layers} layers")
nr.plot.label(axes[0], y="share of the answer")
nr.plot.label(axes[1], legend="center right")

# %%
# With two layers both grow at the same rate, whatever their size. The lead stays as
# it was: the pathways end with 55% and 45% of the answer.
#
# With three layers growth depends on size, and the lead widens to 67% and 33%. With
# five layers the winner takes all: 98% and 2%. The pathway that is behind never learns,
# though nothing is wrong with it.
#
# Deep networks therefore concentrate a skill in one place, even if there is room for
# it in many.
#
# **Three steps to try**
#
# - Make the lead smaller: 0.301 against 0.300. Do five layers still decide?
# - Give the pathways different depths: ``Graph.pathways(1, 1, [[1], [1, 1, 1]])``.
# - Train a network in place of the theory: ``run = nr.flow(task,
#   nr.init.gaussian(graph, 0.3), t1=15.0)``.
