"""Tests of core/acp."""
