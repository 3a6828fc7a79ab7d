"""Real agents from the npm registry (opt-in: --agents)."""
