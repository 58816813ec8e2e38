"""The start of the command `neuralrace`, apart from the library, which takes a second to import.

Commands are those of `neuralrace.cli`, with a cache of compiled programs on disk.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["cache_folder", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the command line; by default the ones that Python was started with.

    Returns
    -------
    int
        Exit status, as of `neuralrace.cli.main`.
    """
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except BrokenPipeError:  # the reader has seen enough; Python's last flush must not fail either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(given: list[str]) -> int:
    folder = cache_folder()
    if folder is not None and "jax" not in sys.modules:  # JAX reads these when it is imported
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    gc.disable()  # looking through all that is imported, which stays, takes a sixth of a short command
    from neuralrace.cli import main

    gc.freeze()
    gc.enable()
    return main(given)


def cache_folder() -> Path | None:
    """Where compiled programs are kept: ``NEURALRACE_CACHE``, or a folder in the user's cache.

    Returns
    -------
    Path or None
        None where ``NEURALRACE_CACHE`` is "off".

    Examples
    --------
    >>> os.environ["NEURALRACE_CACHE"] = "off"
    >>> cache_folder() is None
    True
    >>> del os.environ["NEURALRACE_CACHE"]
    """
    chosen = os.environ.get("NEURALRACE_CACHE")
    if chosen:
        return None if chosen == "off" else Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "neuralrace" / "compiled"
