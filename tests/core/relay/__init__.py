"""Tests of core/relay."""
