"""
Routing between domains
=======================

Seven input domains (say, seven languages) and seven output domains share a trunk of
two layers. The same four items appear in every domain. Each input is trained with
some of the outputs only, its partners.

Can the network answer for pairs of domains that it never saw together? The network is
trained with two partners for each input, then with four. Weights are small and
random.
"""

import numpy as np

import neuralrace as nr

domains, items = 7, np.eye(4)
shown = nr.tasks.on_each_domain(items, domains)
wanted = nr.tasks.hierarchy(3).arrays[1]


def errors(task, weights):
    answers = [nr.activity(task, weights, f"y{j}", shown) for j in range(domains)]
    answers = np.stack(answers, axis=1).reshape(domains, len(items), domains, -1)
    wrong = np.square(answers - wanted[:, None]).sum(axis=(1, 3))
    return wrong / np.square(wanted).sum()


# %%
fig, axes = nr.plot.figure(1, 2, sharey=True)
for ax, partners in zip(axes, (2, 4), strict=True):
    trained = nr.tasks.circulant(domains, partners)
    task = nr.tasks.routing(domains, trained, inputs=items)
    run = nr.flow(task, nr.init.gaussian(task.graph, 0.02), t1=600.0, save=121)
    over_time = np.stack([errors(task, run.at(k)) for k in range(len(run.t))])
    for pairs, colour, name in (
        (trained, nr.plot.BLUE, "pairs in training"),
        (~trained, nr.plot.RED, "pairs never seen"),
    ):
        nr.plot.runs(ax, run.t, over_time[:, pairs].T, colour, name)
        print(f"{partners} partners, {name}: error up to {over_time[-1, pairs].max():.1e}")
    nr.plot.label(ax, "time (τ = 1)", title=f"{partners} partners for each input")
nr.plot.label(axes[0], y="error of the answer")
nr.plot.label(axes[1], legend="upper right")

# %%
# With four partners of seven, pairs that were never seen are answered as well as the
# others: their error ends below 0.0001. With two partners the network learns what it
# was trained on, and fails on other pairs, with errors up to 0.7.
#
# The reason is a race inside the trunk. A solution that all domains share gets help
# from every pair, so it grows faster than solutions for single pairs. The more
# partners, the larger is its lead.
#
# The loss falls in steps, one for each level of the hierarchy of the items. Pairs
# that were never seen follow the same steps, as long as the shared solution is ahead.
#
# **Three steps to try**
#
# - Train with three partners. Is that enough?
# - Start from larger weights, ``nr.init.gaussian(task.graph, 0.2)``. Sharing needs
#   the race, and the race needs a small start.
# - Print the equations of the shared solution: ``nr.reduce(task).equations()``.
