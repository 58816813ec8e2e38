"""Progress bars of what may take long, and can be interrupted."""

from __future__ import annotations

import sys
import time
from typing import Any

from neuralrace.interrupts import heard

_LONG = 10.0  # seconds after which a call that was not asked to says how far it is, in a terminal


class Progress:
    """A progress bar that is moved to a share of all that is to be done; shown at once if `wanted`.

    Else it is shown in a terminal when a call takes long.
    """

    def __init__(self, label: str, wanted: bool = False) -> None:
        self.label = label
        self.since: float = -_LONG if wanted else time.monotonic()
        self.able: bool = wanted or sys.stderr.isatty()
        self.bar: Any = None
        self.listening = heard()

    def __enter__(self) -> Progress:
        self.listening.__enter__()
        return self

    def __exit__(self, fault: object, *_: object) -> None:
        try:
            if fault is None:
                self(1.0)
            if self.bar is not None:
                self.bar.close()
        finally:
            self.listening.__exit__(None, None, None)

    def __call__(self, share: float) -> None:
        if self.bar is None and self.able and time.monotonic() - self.since >= _LONG:
            from tqdm import tqdm

            self.bar = tqdm(total=100, desc=self.label)
        if self.bar is not None:
            self.bar.update(int(100 * share) - self.bar.n)
