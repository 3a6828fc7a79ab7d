"""Deferred delivery's rules."""
