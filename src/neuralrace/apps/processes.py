"""Processes that work for another one."""

import os
import threading
import time
from importlib import import_module
from multiprocessing import parent_process
from typing import Any

__all__ = ["end_with", "work"]
_OFTEN = 0.5  # seconds between two looks


def end_with(parent: int) -> None:
    """From now on this process ends when the one that began it does, however that one was ended.

    Parameters
    ----------
    parent : int
        Number of the process that began this one; it may have ended already.
    """
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def work(module: str, *given: Any) -> None:
    """Call `run(*given)` of a module, in a process of `multiprocessing` that ends with its parent.

    Parameters
    ----------
    module : str
        Name of the module: the process ends with the other one even while it imports this.
    *given
        Arguments of its function.
    """
    server = parent_process()
    if server is not None and server.pid is not None:
        end_with(server.pid)
    import_module(module).run(*given)


def _watch(parent: int) -> None:
    server = parent_process()
    if server is not None and server.pid == parent:  # `multiprocessing` tells on every system when it ends
        server.join()
    else:
        while os.getppid() == parent:
            time.sleep(_OFTEN)
    os._exit(1)
