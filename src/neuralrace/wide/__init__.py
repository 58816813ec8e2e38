"""Gradient flow of wide linear networks by what their weights gain, which has a low rank (theory section 3).

The weights are `W_e(0) + B_t N_e F_s^T`: a frame F of every wide node holds the signals that come forwards, a
frame B those that come backwards, and only the small N move. What of the signals lies outside the frames, in
units of what moves the weights, is the residual of section 4: where it exceeds a tolerance the frames take it
in; what is no longer of use they forget. Steps are those of backward differentiation, implicit in the outputs
alone: what has been learned holds still, however fast it would relax.
"""

from neuralrace.wide.network import Wide, first_frames, small_shapes
from neuralrace.wide.steps import ROUNDING, Saved, follow, solve

__all__ = ["ROUNDING", "Saved", "Wide", "first_frames", "follow", "small_shapes", "solve"]
