"""Saxe, Models of representation learning dynamics (a talk)."""
