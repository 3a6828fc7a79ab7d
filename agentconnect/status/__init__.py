"""Telling supervisors the truth."""
