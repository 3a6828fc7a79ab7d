"""The worker as a real process under faults: nothing lost, nothing doubled."""
