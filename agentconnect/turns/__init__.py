"""From a task to its answer."""
