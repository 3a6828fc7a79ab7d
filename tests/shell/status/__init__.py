"""Tests of status."""
