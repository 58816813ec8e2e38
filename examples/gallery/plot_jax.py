"""
A network of your own in JAX
============================

In JAX a network is a function of parameters and inputs, and that is all ``nr.watch``
asks for. Here it is a tanh network on images of handwritten digits (8 by 8 pixels,
from scikit-learn). Everything else in the loop is plain JAX.
"""

import jax
import jax.numpy as jnp
import numpy as np

import neuralrace as nr

X, Y = nr.tasks.digits(centred=True).arrays
X, Y = X.astype("float32"), Y.astype("float32")
rng = np.random.default_rng(0)
shapes = (64, 100), (100, 10)
params = [0.01 * rng.normal(size=shape).astype("float32") for shape in shapes]


def model(params, x):
    first, last = params
    return jnp.tanh(x @ first) @ last


def loss(params):
    return ((model(params, X) - Y) ** 2).sum(1).mean() / 2


slope = jax.jit(jax.grad(loss))
watch = nr.watch(model, X, Y)
for step in range(1000):
    watch(step, params)
    params = jax.tree.map(lambda w, g: w - 0.1 * g, params, slope(params))
watch(1000, params)

# %%
print(watch.modes())
data = watch.modes().data
fig, ax = nr.plot.figure(height=2.8)
nr.plot.theory(ax, data.strength, data.predicted_half_time, label="deep linear theory")
nr.plot.points(ax, data.strength, data.half_time, label="tanh network")
nr.plot.logarithmic(ax.xaxis, [0.03, 0.1, 0.2])
nr.plot.logarithmic(ax.yaxis)
nr.plot.label(ax, "strength of the mode in the data", "half time (steps)", legend="upper right")

# %%
# Each dot is a mode of the data: a pattern of pixels that goes along with some
# digits. Strong modes are learned first. Nine of the ten are half learned within the
# 1000 steps.
#
# The line is what a deep linear network does. One initial strength and one unit of
# time are fitted, so only its shape is a prediction. The half time of a mode,
# predicted from the other modes, is off by 9% in the median. A tanh network with
# small weights is nearly linear, and that is why theory fits it so well.
#
# **Three steps to try**
#
# - Start from larger weights: 0.1 in place of 0.01. The network becomes nonlinear
#   early, and lazier.
# - Train for 5000 steps. Is the weakest mode learned on time?
# - Return ``(outputs, {"hidden": hidden})`` from ``model``, and ask for
#   ``watch.representations()``.
