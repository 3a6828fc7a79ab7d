"""Modules that do input and output, one at a time."""
