"""Results after the turn under faults: the worker is killed, the relay and the agent misbehave."""
