"""Deferred delivery's rules: what agents finish later reaches the room, at most once per part."""
