"""Tests: core (no clock, disk or net), shell, e2e, contracts. See docs/testing.md."""
