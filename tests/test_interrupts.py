"""Ctrl-C ends work of every kind soon, and is never swallowed: a small form of `benchmarks.interrupts`."""

import gc
import os
import random
import signal
import sys
import time

import pytest

from benchmarks.interrupts import CODES, COMMANDS, begun, pressed
from neuralrace.interrupts import heard, uninterrupted

# The machine of a test may be busy, so seconds are checked by the benchmark; here nothing may be swallowed.
PATIENCE = 20.0


@pytest.fixture(autouse=True)
def listening():
    """A job in the background ignores the signal, as would the processes that it begins."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals to groups of processes")
@pytest.mark.parametrize("kind", [*CODES, *COMMANDS])
def test_an_interrupt_ends_the_work(kind, tmp_path):
    wait = random.uniform(0.0, 2.0)
    seconds, _, fault = pressed(begun(kind, str(tmp_path)), wait, PATIENCE)
    assert not fault, f"interrupted after {wait:.2f} s: {fault}"
    assert seconds < PATIENCE


def test_work_that_swallows_an_interrupt_is_found(monkeypatch, tmp_path):
    deaf = (
        "import time\ndef work():\n    try:\n        time.sleep(60)\n"
        "    except KeyboardInterrupt:\n        pass"
    )
    monkeypatch.setitem(CODES, "deaf", (deaf, "work()"))
    monkeypatch.setattr("benchmarks.interrupts.GIVEN_UP", 1.0)
    assert pressed(begun("deaf", str(tmp_path)), 0.2, 2.0)[2] == "swallowed"


@pytest.fixture
def collecting():
    """The next collection of garbage is interrupted in a function that is called then, as JAX has one."""
    left = [True]

    def callback(phase, info):
        if left:
            left.clear()
            signal.raise_signal(signal.SIGINT)

    gc.callbacks.append(callback)
    yield
    gc.callbacks.remove(callback)


def test_python_ignores_an_interrupt_while_it_collects_garbage(collecting, monkeypatch):
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", lambda given: ignored.append(given.exc_type))
    gc.collect()
    time.sleep(0.1)
    assert ignored == [KeyboardInterrupt]


def test_such_an_interrupt_is_heard(collecting):
    @heard()
    def work():
        gc.collect()
        time.sleep(5)

    before = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt):
        work()
    assert sys.unraisablehook is before


def test_an_interrupt_waits_until_the_end_of_what_must_not_be_interrupted():
    done = []

    @uninterrupted()
    def work(fault=None):
        signal.raise_signal(signal.SIGINT)
        done.append(fault)
        if fault:
            raise fault

    for fault in (None, ValueError("on the way")):
        with pytest.raises(KeyboardInterrupt):
            work(fault)
        assert done[-1] is fault
