"""Processes that end with the one that began them."""

import os
import subprocess
import sys

import pytest

CHILD = """
import sys, time
from neuralrace.apps.processes import end_with
end_with(int(sys.argv[1]))
print("begun", flush=True)
time.sleep(600)
"""
PARENT = """
import os, subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1], str(os.getpid())])
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps the number of a parent that has ended")
def test_a_process_ends_soon_after_the_one_that_began_it_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "begun\n"
    parent.kill()
    parent.communicate(timeout=60)  # returns when the last process that can write there has ended
