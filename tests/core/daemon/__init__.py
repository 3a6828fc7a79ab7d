"""Tests of core/daemon."""
