"""The networks of representations_align, trained on two samples with everything recorded."""

from neuralrace_papers.zoo.fits import fit_runs
from neuralrace_papers.zoo.network import ZOO, Network
from neuralrace_papers.zoo.training import train

__all__ = ["ZOO", "Network", "fit_runs", "train"]
