"""Tests of core/turns."""
