"""Real processes, real clock, loopback."""
