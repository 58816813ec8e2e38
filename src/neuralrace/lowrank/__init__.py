"""Gradient flow of wide linear networks as a reduced-order model (theory.md section 3).

The change of each weight matrix is written in bases of the signals that pass it, and only its small
coordinates move. Bases are enriched where the projection residual exceeds a tolerance, and truncated where
directions no longer matter. Steps are those of backward differentiation, implicit in the outputs.

`network` is the network of a task and what moves of it, `bases` what they miss and how they change, `solve`
the steps and the whole; all constants are in `constants`.
"""
