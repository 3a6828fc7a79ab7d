"""Results after the turn: worker, relay and agent as real processes."""
