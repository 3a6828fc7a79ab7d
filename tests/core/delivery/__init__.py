"""Tests of core/delivery."""
