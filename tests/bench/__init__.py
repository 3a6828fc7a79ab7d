"""Side-by-side measurements: our worker, the reference worker, and the bare calls."""
