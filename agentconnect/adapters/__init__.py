"""Driving one kind of agent."""
