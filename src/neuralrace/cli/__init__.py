"""The command `neuralrace`: experiments (`run`), `reduce` and `discover`."""

from neuralrace.cli.command import main

__all__ = ["main"]
