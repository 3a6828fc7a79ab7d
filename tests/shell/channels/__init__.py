"""Channels at their seams."""
