"""Train a small gated network by flow and by descent, and draw both: `python examples/routing.py [folder]`.

A routing network with 7 input and 7 output domains (neural_race Fig. 4): each input is trained with
4 outputs.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import neuralrace as nr

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "results")
folder.mkdir(parents=True, exist_ok=True)

task = nr.tasks.routing(domains=7, trained=4)
weights = nr.init.orthogonal(task.graph, scale=0.2, seed=range(5))
lr, steps = 0.5, 400
flow = nr.flow(task, weights, t1=lr * steps)
descent = nr.descend(task, weights, lr=lr, steps=steps, save=41)
print(task)
print(f"flow:    {flow.outcome}; loss {flow.loss[:, 0].mean():.4f} -> {flow.loss[:, -1].mean():.2e}")
print(f"descent: {descent.outcome}; loss {descent.loss[:, 0].mean():.4f} -> {descent.loss[:, -1].mean():.2e}")
gap = np.abs(descent.loss - nr.flow(task, weights, t1=lr * steps, save=descent.t).loss).max()
print(f"largest difference of the losses: {gap:.4f} (falls in proportion to lr = {lr})")

fig, (left, right) = plt.subplots(1, 2, figsize=(7, 2.8), layout="constrained")
for k in range(len(flow.loss)):
    left.plot(flow.t, flow.loss[k], color="#0072B2", lw=1.2, label="gradient flow" if k == 0 else None)
    dots = {"marker": "o", "ms": 2.5, "ls": "none", "color": "#D55E00"}
    left.plot(descent.t, descent.loss[k], **dots, label=f"descent, learning rate {lr}" if k == 0 else None)
left.set(xlabel="time (tau = 1)", ylabel="loss", title="Five random starts")
left.legend(frameon=False, fontsize=8, loc="upper right")
for edge, label, colour in (
    ("h1->h2", "shared hidden layer", "#009E73"),
    ("x0->h1", "one input layer", "#CC79A7"),
):
    values = flow.singular_values(edge)[0]
    for k in range(4):
        right.plot(flow.t, values[:, k], color=colour, lw=1.2, label=label if k == 0 else None)
right.set(xlabel="time (tau = 1)", ylabel="singular values", title="The shared layer learns faster")
right.set_ylim(0, 3.6)
right.legend(frameon=False, fontsize=8, loc="upper right")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
for suffix in ("png", "svg"):
    fig.savefig(folder / f"routing.{suffix}", dpi=200)
print(f"figure: {folder / 'routing.png'}")
