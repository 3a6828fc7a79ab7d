"""Peers and builders that tests share."""
