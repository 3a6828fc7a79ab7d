"""The daemon over real HTTP, with channels and agents that are scripted."""
