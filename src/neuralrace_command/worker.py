"""The start of a computing process of the lab, apart from the library, which takes a second to import."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from typing import Any

DEATH_SIGNAL = 1  # of `prctl`: a signal that comes when the parent ends


def work(pipe: Any, *given: Any) -> None:
    """Run `neuralrace.laboratory.worker`; where the system can, this process ends with its server at once."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)
        server = multiprocessing.parent_process()
        if server is not None and os.getppid() != server.pid:  # it ended before
            return
    from neuralrace.laboratory import worker

    worker.run(pipe, *given)
