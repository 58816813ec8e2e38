"""Runs that are computed side by side, on all accelerators of a machine."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def over_devices(*runs: Any) -> Any:
    """Arrays whose first axis are runs, spread over the accelerators of this machine if there are several.

    The last run is repeated until all devices have equally many: what is computed has runs at the end that
    are to be left out.
    """
    devices = accelerators()
    if len(devices) < 2 or len(runs[0]) < 2:
        return runs
    spread = NamedSharding(Mesh(np.array(devices), ("runs",)), PartitionSpec("runs"))
    extra = -len(runs[0]) % len(devices)
    filled = jax.tree.map(lambda v: jnp.concatenate([v, jnp.repeat(v[-1:], extra, axis=0)]), runs)
    return jax.device_put(filled, spread)


def accelerators() -> list[Any]:
    """Devices of this machine other than its processor."""
    return [device for device in jax.local_devices() if device.platform != "cpu"]
