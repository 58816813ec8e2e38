"""Processes that work for another one."""

import os
import threading
import time

__all__ = ["end_with"]
_OFTEN = 0.5  # seconds between two looks


def end_with(parent: int) -> None:
    """From now on this process ends when the one that began it does, however that one was ended.

    Parameters
    ----------
    parent : int
        Number of the process that began this one; it may have ended already.
    """
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_OFTEN)
    os._exit(1)
