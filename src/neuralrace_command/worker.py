"""The start of a computing process, apart from the library, which takes a second to import."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from importlib import import_module
from typing import Any

DEATH_SIGNAL = 1  # of `prctl`: a signal that comes when the parent ends


def work(module: str, *given: Any) -> None:
    """Call `run(*given)` of a module; where the system can, this process ends with the one that began it."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)
        server = multiprocessing.parent_process()
        if server is not None and os.getppid() != server.pid:  # it ended before
            return
    import_module(module).run(*given)
