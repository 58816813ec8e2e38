"""Runs of a batch over several devices: here two that JAX makes of one processor."""

import os
import subprocess
import sys

CODE = """
import jax
import numpy as np
import neuralrace as nr
from neuralrace.dynamics import descent, devices, gradient_flow

task = nr.tasks.separability(0.5, hidden=2)
many = nr.init.gaussian(task.graph, 0.1, seed=range(3))
given = {"t1": 20.0, "save": 5, "method": nr.Adaptive()}
same = nr.flow(task, many, **given).loss
steps = [{"lr": 0.1, "steps": 60, "save": 4, "momentum": 0.5}]
steps += [steps[0] | {"batch_size": 2}, steps[0] | {"optimizer": "adam", "momentum": 0.0}]
descended = [nr.descend(task, many, **one) for one in steps]

met, each_run, whole = [], lambda one, *runs: jax.vmap(one, axis_name="runs")(*runs), devices.over_devices

def seen(*runs):
    placed = whole(*runs)
    met.append((len(placed[0]), {len(v.sharding.device_set) for v in jax.tree.leaves(placed)}))
    return placed

devices.accelerators = jax.local_devices
for module in (descent, gradient_flow):
    module.each_run, module.over_devices = each_run, seen
gradient_flow._in_numpy = descent.descend_in_numpy = lambda *given: None
jax.clear_caches()
np.testing.assert_allclose(nr.flow(task, many, **given).loss, same, rtol=1e-6, atol=1e-9)
assert met == [(4, {2})], met  # three runs, and one to fill the second device
for one, expected in zip(steps, descended):
    run = nr.descend(task, many, **one)
    assert run.loss.shape == (3, 4)
    np.testing.assert_allclose(run.loss, expected.loss, rtol=1e-9)
    np.testing.assert_allclose(run.step_loss, expected.step_loss, rtol=1e-9)
assert met == [(4, {2})] * 4, met
"""


def test_runs_are_spread_over_devices_and_equal_those_of_one():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=os.environ | flags, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
