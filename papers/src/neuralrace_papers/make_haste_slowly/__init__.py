"""Jarvis, Klein, Rosman and Saxe (2025), Make haste slowly: a theory of emergent structured mixed selectivity
in feature learning ReLU networks."""
