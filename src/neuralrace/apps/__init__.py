"""Instruments that are built on the library; each has dependencies of its own."""
