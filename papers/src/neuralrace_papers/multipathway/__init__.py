"""Shi, Shea-Brown and Buice (2022), Learning dynamics of deep linear networks with multiple pathways."""
